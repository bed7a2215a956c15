"""Reductions over axes of a tensor: `axis` is one axis, several, or None for all; `keepdims` leaves them with size 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvmagic import te
from tvmagic.compat.topi import tag
from tvmagic.compat.topi.utils import axes_of, names
from tvmagic.errors import TVMagicError
from tvmagic.ir import DataType, IntImm, PrimExpr, Select, ops
from tvmagic.ir.query import is_zero
from tvmagic.te.tensor import Tensor

_all = te.comm_reducer(lambda x, y: ops.logical_and(x, y), lambda dtype: IntImm("bool", 1), name="all")
_any = te.comm_reducer(lambda x, y: ops.logical_or(x, y), lambda dtype: IntImm("bool", 0), name="any")
_Element = Callable[[Sequence[PrimExpr]], PrimExpr]


class _Axes:
    """The axes of a result, and the reduction axes of the others."""

    def __init__(self, data: Tensor, axis: Any, keepdims: bool) -> None:
        self.reduced = axes_of(axis, len(data.shape))
        self.data = data
        self.axes = [te.reduce_axis((0, data.shape[i]), name=f"k{i}") for i in self.reduced]
        kept = [i for i in range(len(data.shape)) if keepdims or i not in self.reduced]
        self.shape = [1 if i in self.reduced else data.shape[i] for i in kept]
        self.places = {axis: place for place, axis in enumerate(kept) if axis not in self.reduced}

    def indices(self, result: Sequence[PrimExpr]) -> list[PrimExpr]:
        """The indices of an element that goes into the result at `result`."""
        inner = {i: axis.var for i, axis in zip(self.reduced, self.axes)}
        return [inner[i] if i in inner else result[self.places[i]] for i in range(len(self.data.shape))]


def _reduce(data: Tensor, axis: Any, keepdims: bool, reducer: Callable[..., Any]) -> Any:
    if not data.shape:
        return data
    over = _Axes(data, axis, keepdims)

    def value(*result: PrimExpr) -> PrimExpr:
        return reducer(data(*over.indices(result)), axis=over.axes)

    return te.compute(
        over.shape, value, name=f"{data.op.name}_red", tag=tag.COMM_REDUCE, varargs_names=names(len(over.shape))
    )


def sum(data: Tensor, axis: Any = None, keepdims: bool = False) -> Any:
    """The sum of elements."""
    return _reduce(data, axis, keepdims, te.sum)


def prod(data: Tensor, axis: Any = None, keepdims: bool = False) -> Any:
    """The product of elements."""
    return _reduce(data, axis, keepdims, te.prod)


def max(data: Tensor, axis: Any = None, keepdims: bool = False) -> Any:
    """The greatest of the elements."""
    return _reduce(data, axis, keepdims, te.max)


def min(data: Tensor, axis: Any = None, keepdims: bool = False) -> Any:
    """The least of the elements."""
    return _reduce(data, axis, keepdims, te.min)


def all(data: Tensor, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether all elements, which are bools, are true."""
    return _reduce(data, axis, keepdims, _all)


def any(data: Tensor, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether some element, which are bools, is true."""
    return _reduce(data, axis, keepdims, _any)


def _better(is_better: Callable[[Any, Any], PrimExpr], last: bool) -> Callable[[Any, Any], tuple[PrimExpr, PrimExpr]]:
    """Of two pairs (place, value) that with the better value; of equal ones that at the first or last place."""

    def combine(lhs: Any, rhs: Any) -> tuple[PrimExpr, PrimExpr]:
        better = is_better(lhs[1], rhs[1])
        nearer = ops.greater(lhs[0], rhs[0]) if last else ops.less(lhs[0], rhs[0])
        same = ops.logical_and(ops.equal(lhs[1], rhs[1]), nearer)
        return Select(ops.logical_or(better, same), lhs[0], rhs[0]), Select(better, lhs[1], rhs[1])

    return combine


def _reducer(combine: Callable[..., Any], start: Callable[[DataType], PrimExpr], name: str) -> Any:
    """The reducer of pairs; the parameters of `combine` name its variables, which lowered programs show."""
    return te.comm_reducer(combine, lambda place, value: (ops.const(-1, place), start(value)), name=name, nonempty=True)


def _arg_index(data: Tensor, axis: Any, keepdims: bool, reducer: Any) -> Any:
    over = _Axes(data, axis, keepdims)
    for i in over.reduced:
        if is_zero(data.shape[i]):
            raise TVMagicError(
                f"cannot take {reducer.__name__} of `{data.name}` over axis {i}: the axis has no elements",
                hint="give an axis of at least one element",
                code="topi.empty_axis",
            )

    def pair(*result: PrimExpr) -> Any:
        place: Any = 0
        for i, iv in zip(over.reduced, over.axes):  # the place among the reduced axes, the last of them the fastest
            place = place * data.shape[i] + iv.var if len(over.axes) > 1 else iv.var
        return reducer((place, data(*over.indices(result))), axis=over.axes)

    axes, name = names(len(over.shape)), f"{data.op.name}_red"
    found = te.compute(over.shape, pair, name=f"{name}_temp", tag=tag.COMM_REDUCE_IDX, varargs_names=axes)
    return te.compute(over.shape, lambda *i: found[0](*i), name=name, tag=tag.COMM_REDUCE_IDX, varargs_names=axes)


def argmax(data: Tensor, axis: Any = None, keepdims: bool = False, select_last_index: bool = False) -> Any:
    """The place of the greatest element, the first of several."""
    best = _better(ops.greater, select_last_index)
    reducer = _reducer(lambda argmax_lhs, argmax_rhs: best(argmax_lhs, argmax_rhs), ops.min_value, "argmax")
    return _arg_index(data, axis, keepdims, reducer)


def argmin(data: Tensor, axis: Any = None, keepdims: bool = False, select_last_index: bool = False) -> Any:
    """The place of the least element, the first of several."""
    best = _better(ops.less, select_last_index)
    reducer = _reducer(lambda argmin_lhs, argmin_rhs: best(argmin_lhs, argmin_rhs), ops.max_value, "argmin")
    return _arg_index(data, axis, keepdims, reducer)
