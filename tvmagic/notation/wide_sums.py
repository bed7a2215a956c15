"""Sums of 16-bit floats, accumulated in float32 and rounded once.

    Y[i] += A[i, k] * B[k]             Y[i] = float32(0)
                                       for k: Y[i] = Y[i] + float32(A[i, k]) * float32(B[k])
                                       Y_float16[i] = float16(Y[i])

A float16 sum of ones ends at 2048 and a bfloat16 sum at 256, since the next term is less than half a unit of the sum. NumPy's
mean accumulates float16 in float32, as matrix units do, so the index notation does. `te.sum` keeps the dtype of its terms, as
in TVM.

The stage that reduces keeps the statement's name, its axes and its reduction axes, so that schedules written for `Y` apply. Its
dtype is float32. Later statements read `float16(Y[i])`: there is no stage between them, so `compute_at` works as for any other
sum. A result of the operator is one elementwise stage more, `Y_float16`. A schedule that does not mention it computes it in plain loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic import ir, te
from tvmagic.lazy import cached_property

_WIDE = ir.DataType("float32")


def is_narrow_float(dtype: Any) -> bool:
    """Whether sums of this dtype are accumulated in float32."""
    return str(dtype) in ("float16", "bfloat16")


def widen(term: ir.PrimExpr) -> ir.PrimExpr:
    """The term of a sum in float32.

    `+ - * /` are computed in float32, too: a product of two 16-bit floats is exact there. Functions, conditionals and conversions
    that the cell spells out are rounded as they are written.
    """
    if isinstance(term, (ir.Add, ir.Sub, ir.Mul, ir.Div)):
        wide = type(term)(widen(term.a), widen(term.b))
        wide.span = term.span
        return wide
    return ir.ops.cast(_WIDE, term)


def round_to(dtype: Any, value: ir.PrimExpr) -> ir.PrimExpr:
    """A value in `dtype`, rounded if it was computed in float32 for it."""
    return ir.ops.cast(dtype, value) if value.dtype != dtype else value


class WideSum:
    """A sum of 16-bit floats as later statements see it: elements of `dtype`, read from the float32 stage `wide`.

    `result_name` is the name of the stage `result`.
    """

    def __init__(self, wide: te.Tensor, dtype: Any, result_name: str) -> None:
        self.wide, self.dtype, self.result_name = wide, ir.DataType(str(dtype)), result_name
        self.name, self.shape, self.op = wide.name, wide.shape, wide.op

    def __call__(self, *indices: Any) -> ir.PrimExpr:
        return ir.ops.cast(self.dtype, self.wide(*indices))

    @cached_property
    def result(self) -> te.Tensor:
        """The stage of the rounded elements, for what needs a tensor: results and Python code of the cell."""
        names = [axis.var.name for axis in self.op.axis]
        made = te.compute(self.shape, named_function(names, self), name=self.result_name)
        made.op.span = self.op.span
        return made


def stage_of(tensor: Any) -> Any:
    """The stage that computes a tensor of the notation."""
    return tensor.wide if isinstance(tensor, WideSum) else tensor


def result_of(tensor: Any) -> Any:
    """A tensor of the notation with the dtype that it has there."""
    return tensor.result if isinstance(tensor, WideSum) else tensor


def named_function(names: Sequence[str], body: Any) -> Any:
    """A function of parameters called `names`, from which `te.compute` takes the axes' names."""
    parameters = ", ".join(names)
    free = "body"
    while free in names:
        free += "_"
    return eval(f"lambda {free}: lambda {parameters}: {free}({parameters})", {})(body)
