"""What is known of a block that copies, and the nest of loops that it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tvmagic.errors import TVMagicError
from tvmagic.ir import Buffer, BufferLoad, BufferRegion, BufferStore, For, IntImm, Stmt, Visitor, handles
from tvmagic.ir.memory_scope import MemoryScope, StorageRank

ACCUMULATORS = ("wmma.accumulator", "m16n8k8.matrixC")


@dataclass
class Copy:
    """A block that copies the region `read` to the region `written`, in the loops `outer`.

    `threads` has the number of threads for each tag. What lowering it needs besides is gathered here: memory to
    allocate, and for buffers the step, in elements, of what is added to their rows against bank conflicts.
    """

    name: str
    read: BufferRegion
    written: BufferRegion
    outer: Sequence[For]
    threads: dict[str, int]
    vector_bytes: int
    local_stage: bool
    new_buffers: list[Buffer] = field(default_factory=list[Buffer])
    padding_steps: dict[Buffer, int] = field(default_factory=dict[Buffer, int])

    @property
    def data_bits(self) -> int:
        return self.read.buffer.dtype.bits

    def between(self, source: StorageRank, target: StorageRank) -> bool:
        """Whether it copies from memory of one rank to memory of another."""
        return rank_of(self.read.buffer) is source and rank_of(self.written.buffer) is target


def rank_of(buffer: Buffer) -> StorageRank:
    """How widely a buffer's memory is shared."""
    return MemoryScope.of(buffer.scope()).rank


def loops_around(stmt: Stmt) -> tuple[list[For], Stmt]:
    """The loops of a nest, the first outermost, and what is in them."""
    loops: list[For] = []
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    return loops, stmt


def size_of(loop: For, copy: Copy) -> int:
    """How often a loop runs. Raises `TVMagicError` if that is not a constant."""
    if isinstance(loop.extent, IntImm):
        return loop.extent.value
    raise TVMagicError(
        f"the copy `{copy.name}` has a loop `{loop.loop_var.name}` of an extent that is not constant",
        node=loop,
        hint="`auto_copy` is for copies of known sizes",
    )


def innermost_store(stmt: Stmt, copy: Copy) -> BufferStore:
    """The store that a nest repeats. Raises `TVMagicError` if it is another statement."""
    _, body = loops_around(stmt)
    if isinstance(body, BufferStore):
        return body
    raise TVMagicError(
        f"the copy `{copy.name}` is not one store in loops",
        node=body,
        hint="a block with `auto_copy` is a nest of loops around one store",
    )


class _Loads(Visitor):
    def __init__(self) -> None:
        self.found: list[BufferLoad] = []

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> None:
        self.visit_children(node)
        self.found.append(node)


def accumulator_load(store: BufferStore, copy: Copy) -> BufferLoad:
    """The load of an accumulator of tensor cores in the value that is stored. Raises `TVMagicError` if they are several."""
    loads = _Loads()
    loads.visit(store.value)
    found = [load for load in loads.found if load.buffer.scope() in ACCUMULATORS]
    if not found or any(load.buffer is not found[0].buffer for load in found):
        raise TVMagicError(f"the copy `{copy.name}` is to read one accumulator of tensor cores", node=store)
    return found[0]
