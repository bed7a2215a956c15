"""Annotations by which passes tell code generation and the cost model what becomes of a loop or an allocation."""

from __future__ import annotations

from tvmagic.errors import BuildError
from tvmagic.ir.stmt import Allocate, For

ANY_ORDER = "pragma_any_order"  # the loop's sums and extrema may be computed in any order
KEEP_SCALAR = "llvm.vectorize"  # 0: LLVM must not vectorize the loop
UNROLL = "llvm.unroll"  # "full", "disable" or a number of iterations
INTERLEAVE = "llvm.interleave"  # vectors that are computed at once
MADE_BY = "late.made_by"  # the late passes that made the loop, separated by commas, the last one last
POLL = "late.poll"  # iterations between two polls for interrupts
STACK = "late.stack"  # elements of an allocation on the stack

_WORDS = {UNROLL: ("full", "disable")}
_LEAST = {KEEP_SCALAR: 0, UNROLL: 1, INTERLEAVE: 1, POLL: 1, STACK: 0}
_MOST = {KEEP_SCALAR: 1}


def annotation(node: For | Allocate, key: str) -> int | str | None:
    """Return the value of an annotation of a late pass, or None if there is none. Raises BuildError for any other value."""
    found = node.annotations.get(key)
    value = getattr(found, "value", found)
    if value is None or key == MADE_BY:
        return value
    number = int(value) if isinstance(value, int) else None
    if (isinstance(value, str) and value in _WORDS.get(key, ())) or (
        number is not None and _LEAST[key] <= number <= _MOST.get(key, 1 << 30)
    ):
        return value if number is None else number
    words = "".join([f", `{word}`" for word in _WORDS.get(key, ())])
    raise BuildError(
        f"`{key}` must be a number from {_LEAST[key]} to {_MOST.get(key, 1 << 30)}{words}, got {value!r}",
        node=node,
        code="codegen.wrong_annotation",
    )


def is_kept_scalar(loop: For) -> bool:
    """Return whether LLVM must not vectorize a loop."""
    return annotation(loop, KEEP_SCALAR) == 0


def polls(loop: For) -> bool:
    """Return whether a loop polls for interrupts."""
    return annotation(loop, POLL) is not None


def makers_of(loop: For) -> tuple[str, ...]:
    """Return the late passes that made a loop, the last one last; empty for the loops of the lowered program."""
    made_by = annotation(loop, MADE_BY)
    return tuple(made_by.split(", ")) if isinstance(made_by, str) else ()


def is_made_by(loop: For, name: str) -> bool:
    """Return whether the late pass `name` is the last one that made a loop."""
    return makers_of(loop)[-1:] == (name,)
