"""The tags of operations, by which schedules for several of them tell what each does."""

ELEMWISE = "elemwise"
BROADCAST = "broadcast"
INJECTIVE = "injective"
COMM_REDUCE = "comm_reduce"
COMM_REDUCE_IDX = "comm_reduce_idx"


def is_broadcast(tag: str) -> bool:
    """Whether each element of the result depends on one of each operand."""
    return tag in (ELEMWISE, BROADCAST) or tag.startswith((ELEMWISE, BROADCAST))


def is_injective(tag: str) -> bool:
    """Whether the operation moves elements, or computes each from one of each operand."""
    return tag.startswith(INJECTIVE) or is_broadcast(tag)
