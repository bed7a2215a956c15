"""Constants of shapes, and axes counted from the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tvmagic.arith import Analyzer
from tvmagic.compat.topi import tag
from tvmagic.errors import WrongValueError
from tvmagic.ir import IntImm, PrimExpr, Var, expr, ops
from tvmagic.ir.query import is_zero
from tvmagic.te.tensor import Tensor


def get_const_int(value: Any) -> int:
    """The value of a constant expression."""
    found = Analyzer().simplify(expr(value))
    if not isinstance(found, IntImm):
        raise WrongValueError(f"Expect value to be constant int: `{value}` is not", code="topi.value_not_constant")
    return found.value


def get_const_tuple(sizes: Iterable[Any]) -> tuple[Any, ...]:
    """The sizes with the values of constants; variables stay."""
    return tuple(size if isinstance(size, Var) else get_const_int(size) for size in sizes)


def prod(sizes: Sequence[Any]) -> Any:
    """The product of sizes; 1 of none."""
    result = sizes[0] if sizes else 1
    for size in sizes[1:]:
        result = result * size
    return result


def unravelled(place: Any, shape: Sequence[PrimExpr]) -> list[Any]:
    """The indices of an element that is at `place` in memory, the last axis the fastest."""
    found: list[Any] = []
    for size in reversed(shape):
        size = divisor(size)
        found.append(ops.floormod(place, size))
        place = ops.floordiv(place, size)
    return found[::-1]


def divisor(size: Any) -> PrimExpr:
    """Return a size to divide indices by: 1 in place of the constant 0, of which there are no indices."""
    size = expr(size)
    return IntImm(size.dtype, 1) if is_zero(size) else size


def size_list(shape: Any) -> list[PrimExpr]:
    """A shape as a list of expressions."""
    return [expr(size) for size in (shape if isinstance(shape, (list, tuple)) else [shape])]


def names(count: int) -> list[str]:
    """The names of the axes of a result: `ax0`, `ax1`, ..."""
    return [f"ax{i}" for i in range(count)]


def tensor(value: Any) -> Tensor:
    """`value`, which is a tensor."""
    if not isinstance(value, Tensor):
        raise WrongValueError(f"`{value!r}` is not a tensor", code="topi.not_a_tensor")
    return value


def axis_of(axis: Any, rank: int) -> int:
    """An axis counted from the first; a negative one counts from the end."""
    number = int(axis)
    if not -rank <= number < rank:
        raise WrongValueError(f"a tensor of {rank} dimensions has no axis {number}", code="topi.axis_out_of_range")
    return number % rank


def axes_of(axis: Any, rank: int) -> list[int]:
    """One axis, several, or by None all, in rising order."""
    given = range(rank) if axis is None else axis if isinstance(axis, (list, tuple)) else [axis]
    found = sorted({axis_of(a, rank) for a in given})
    if axis is not None and len(found) != len(list(given)):
        raise WrongValueError(f"an axis is given twice: {list(given)}", code="topi.repeated_axis")
    return found


def simplify(value: Any) -> Any:
    """An expression in a simpler form; a number is itself."""
    return Analyzer().simplify(value) if isinstance(value, PrimExpr) else value


def equal_const_int(value: Any, number: int) -> bool:
    """Whether a number or a constant expression is `number`."""
    found = simplify(value)
    return (found.value if isinstance(found, IntImm) else found) == number


def ravel_index(indices: Sequence[Any], shape: Sequence[Any]) -> Any:
    """The place in memory of an element, the last axis the fastest."""
    place: Any = None
    for index, size in zip(indices, shape):
        place = index if place is None else place * size + index
    return place


def unravel_index(idx: Any, shape: Sequence[Any]) -> list[Any]:
    """The indices of the element at a place in memory, the last axis the fastest."""
    return unravelled(idx, [expr(size) for size in shape])


def traverse_inline(s: Any, final_op: Any, callback: Callable[[Any], Any]) -> None:
    """Compute what is injective inside what reads it, from an operation back, and call `callback` on each operation."""
    seen: set[Any] = set()

    def visit(op: Any) -> None:
        if op in seen:
            return
        seen.add(op)
        if tag.is_injective(op.tag):
            if op not in s.outputs:
                s[op].compute_inline()
            for read in op.input_tensors:
                if read.op.input_tensors:
                    visit(read.op)
        callback(op)

    visit(final_op)
