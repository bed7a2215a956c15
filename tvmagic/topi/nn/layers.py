"""Activations, borders and dense layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic import te
from tvmagic.arith import Analyzer
from tvmagic.ir import PrimExpr, ops
from tvmagic.te.tensor import Tensor
from tvmagic.topi import tag
from tvmagic.topi.elementwise import each
from tvmagic.topi.utils import axis_of

__all__ = ["dense", "pad", "relu", "softmax"]


def relu(x: Any) -> Any:
    """Each element, or 0 if it is less."""
    return each(x, lambda value: ops.maximum(value, ops.const(0, value.dtype)))


def pad(
    data: Tensor,
    pad_before: Sequence[Any],
    pad_after: Sequence[Any] | None = None,
    pad_value: Any = 0.0,
    name: str = "PadInput",
) -> Any:
    """`data` with `pad_before` elements of `pad_value` in front of each axis and `pad_after` behind it."""
    behind = list(pad_before) if pad_after is None else list(pad_after)
    analyzer = Analyzer()
    shape = [analyzer.simplify(size + (a + b)) for size, a, b in zip(data.shape, pad_before, behind)]
    filling = ops.cast(data.dtype, pad_value)

    def value(*indices: PrimExpr) -> Any:
        conditions: list[PrimExpr] = []
        for index, size, a, b in zip(indices, data.shape, pad_before, behind):
            if not analyzer.can_prove_equal(a, 0):
                conditions.append(ops.greater_equal(index, a))
            if not analyzer.can_prove_equal(b, 0):
                conditions.append(ops.less(index - a, size))
        moved = [index if analyzer.can_prove_equal(a, 0) else index - a for index, a in zip(indices, pad_before)]
        return ops.if_then_else(ops.all(*conditions), data(*moved), filling) if conditions else data(*moved)

    return te.compute(shape, value, name=name, tag="injective,pad")


def dense(data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: Any = None) -> Any:
    """`data` times the transposed `weight`, plus `bias`: a row of the weight for each column of the result."""
    kind = data.dtype if out_dtype is None else out_dtype
    k = te.reduce_axis((0, data.shape[1]), name="k")

    def product(i: PrimExpr, j: PrimExpr) -> Any:
        return te.sum(ops.cast(kind, data(i, k)) * ops.cast(kind, weight(j, k)), axis=k)

    result = te.compute((data.shape[0], weight.shape[0]), product, name="T_matmul_NT", tag="dense")
    if bias is None:
        return result
    return te.compute(result.shape, lambda i, j: result(i, j) + ops.cast(kind, bias(j)), tag=tag.BROADCAST)


def softmax(x: Tensor, axis: int = -1) -> Any:
    """The exponentials of the elements along an axis, divided by their sum."""
    place = axis_of(axis, len(x.shape))
    outer = [size for i, size in enumerate(x.shape) if i != place]
    names = [f"i{i}" for i in range(len(x.shape))]

    def at(index: Any, others: Sequence[PrimExpr]) -> list[Any]:
        return [*others[:place], index, *others[place:]]

    def over(values: Any, reducer: Any, name: str) -> Any:
        k = te.reduce_axis((0, x.shape[place]), name="k")
        return te.compute(outer, lambda *i: reducer(values(*at(k, i)), axis=k), name=name, varargs_names=names[:-1])

    def without(indices: Sequence[PrimExpr]) -> list[PrimExpr]:
        return [*indices[:place], *indices[place + 1 :]]

    most = over(x, te.max, "T_softmax_maxelem")
    powers = te.compute(
        x.shape, lambda *i: ops.exp(x(*i) - most(*without(i))), name="T_softmax_exp", varargs_names=names
    )
    total = over(powers, te.sum, "T_softmax_expsum")
    return te.compute(
        x.shape,
        lambda *i: powers(*i) / total(*without(i)),
        name="T_softmax_norm",
        attrs={"axis": place},
        varargs_names=names,
        tag="softmax_output",
    )
