"""Fold calls of operators whose arguments are constants."""

from __future__ import annotations

import math
from collections.abc import Callable

from tvmagic.ir import Call, FloatImm, IntImm, PrimExpr
from tvmagic.ir import ops as op
from tvmagic.ir.query import is_call


def _fold_likely(e: Call) -> PrimExpr | None:
    return e.args[0] if isinstance(e.args[0], IntImm) else None


def _fold_shift(e: Call) -> PrimExpr | None:
    a, b = e.args
    if not (isinstance(a, IntImm) and isinstance(b, IntImm)):
        return None
    return op.shift_left(a, b) if e.op.name == "tir.shift_left" else op.shift_right(a, b)  # type: ignore[union-attr]


def _fold_ceil(e: Call) -> PrimExpr | None:
    a = e.args[0]
    if isinstance(a, IntImm):
        return op.cast(e.dtype, a)
    if isinstance(a, FloatImm) and math.isfinite(a.value):
        return op.cast(e.dtype, FloatImm(a.dtype, math.ceil(a.value)))
    if is_call(a, "tir.log2"):
        value = a.args[0]
        if isinstance(value, FloatImm) and value.value > 0:
            return FloatImm(e.dtype, math.ceil(math.log2(value.value)))
    return None


def _fold_clz(e: Call) -> PrimExpr | None:
    a = e.args[0]
    if not isinstance(a, IntImm):
        return None
    bits = a.dtype.bits
    return op.make_const(e.dtype, bits - (a.value & ((1 << bits) - 1)).bit_length())


# By the name of the operator: the value of a call, or None if it is not constant.
CALL_FOLDS: dict[str, Callable[[Call], PrimExpr | None]] = {
    "tir.likely": _fold_likely,
    "tir.shift_left": _fold_shift,
    "tir.shift_right": _fold_shift,
    "tir.ceil": _fold_ceil,
    "tir.clz": _fold_clz,
}
