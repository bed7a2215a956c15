"""Constants of shapes, and axes counted from the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tvmagic.arith import Analyzer
from tvmagic.errors import WrongValueError
from tvmagic.ir import IntImm, PrimExpr, Var, expr
from tvmagic.te.tensor import Tensor

__all__ = ["axes_of", "axis_of", "get_const_int", "get_const_tuple", "names", "prod", "size_list", "tensor"]


def get_const_int(value: Any) -> int:
    """The value of a constant expression."""
    found = Analyzer().simplify(expr(value))
    if not isinstance(found, IntImm):
        raise WrongValueError(f"Expect value to be constant int: `{value}` is not")
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


def size_list(shape: Any) -> list[PrimExpr]:
    """A shape as a list of expressions."""
    return [expr(size) for size in (shape if isinstance(shape, (list, tuple)) else [shape])]


def names(count: int) -> list[str]:
    """The names of the axes of a result: `ax0`, `ax1`, ..."""
    return [f"ax{i}" for i in range(count)]


def tensor(value: Any) -> Tensor:
    """`value`, which is a tensor."""
    if not isinstance(value, Tensor):
        raise WrongValueError(f"`{value!r}` is not a tensor")
    return value


def axis_of(axis: Any, rank: int) -> int:
    """An axis counted from the first; a negative one counts from the end."""
    number = int(axis)
    if not -rank <= number < rank:
        raise WrongValueError(f"a tensor of {rank} dimensions has no axis {number}")
    return number % rank


def axes_of(axis: Any, rank: int) -> list[int]:
    """One axis, several, or by None all, in rising order."""
    given = range(rank) if axis is None else axis if isinstance(axis, (list, tuple)) else [axis]
    found = sorted({axis_of(a, rank) for a in given})
    if axis is not None and len(found) != len(list(given)):
        raise WrongValueError(f"an axis is given twice: {list(given)}")
    return found
