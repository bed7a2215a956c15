"""Constants of every type, and values converted to other types."""

from __future__ import annotations

import math
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir.dtype import DataType, dtype_of
from tvmagic.ir.expr import BOOL, INT32, Broadcast, Call, Cast, FloatImm, IntImm, PrimExpr, Ramp, expr
from tvmagic.ir.fold import wrap_int
from tvmagic.ir.node import Span

__all__ = [
    "cast",
    "const",
    "infinity",
    "make_const",
    "make_zero",
    "max_value",
    "min_value",
    "reinterpret",
]


def const(value: Any, dtype: Any = None, span: Span | None = None) -> PrimExpr:
    """The constant `value`; int32 (int64 where it does not fit), float32 or bool unless told."""
    if dtype is None:
        if isinstance(value, bool):
            dtype = BOOL
        elif isinstance(value, int):
            dtype = INT32 if -(1 << 31) <= value < 1 << 31 else "int64"
        elif isinstance(value, float):
            dtype = "float32"
        elif hasattr(value, "dtype"):
            dtype = str(value.dtype)
        else:
            raise TVMagicError(f"`{value!r}` is not a number")
    return make_const(dtype_of(dtype), value, span)


def make_const(dtype: DataType, value: Any, span: Span | None = None) -> PrimExpr:
    """The constant `value` of type `dtype`; a Broadcast for a vector type."""
    if dtype.lanes > 1:
        return Broadcast(make_const(dtype.with_lanes(1), value, span), dtype.lanes, span)
    if dtype.is_int or dtype.is_uint:
        return IntImm(dtype, int(value), span)
    if dtype.is_float:
        return FloatImm(dtype, value, span)
    if dtype.is_handle and int(value) == 0:
        return reinterpret("handle", IntImm("uint64", 0), span)
    raise TVMagicError(f"there is no constant of type `{dtype}`")


def make_zero(dtype: DataType) -> PrimExpr:
    """The constant 0 of type `dtype`."""
    return make_const(dtype, 0)


def min_value(dtype: Any, span: Span | None = None) -> PrimExpr:
    """The smallest finite value of `dtype`."""
    dtype = dtype_of(dtype)
    if dtype.is_int:
        return make_const(dtype, -(1 << (dtype.bits - 1)), span)
    if dtype.is_uint:
        return make_const(dtype, 0, span)
    return make_const(dtype, -_largest_float(dtype), span)


def max_value(dtype: Any, span: Span | None = None) -> PrimExpr:
    """The largest finite value of `dtype`."""
    dtype = dtype_of(dtype)
    if dtype.is_int:
        return make_const(dtype, (1 << (dtype.bits - 1)) - 1, span)
    if dtype.is_uint:
        return make_const(dtype, (1 << dtype.bits) - 1, span)
    return make_const(dtype, _largest_float(dtype), span)


def _largest_float(dtype: DataType) -> float:
    if dtype.code == "bfloat":
        return float.fromhex("0x1.fep127")
    table = {16: 65504.0, 32: float.fromhex("0x1.fffffep127"), 64: float.fromhex("0x1.fffffffffffffp1023")}
    if not dtype.is_float or dtype.bits not in table:
        raise TVMagicError(f"`{dtype}` has no largest value")
    return table[dtype.bits]


def infinity(dtype: Any, span: Span | None = None) -> PrimExpr:
    """Positive infinity of the float type `dtype`."""
    return make_const(dtype_of(dtype), math.inf, span)


def cast(dtype: Any, value: Any, span: Span | None = None) -> PrimExpr:
    """`value` converted to `dtype`; constants are converted at once."""
    value, dtype = expr(value), dtype_of(dtype)
    if value.dtype is dtype:
        return value
    if dtype.lanes == 1:
        if isinstance(value, (IntImm, FloatImm)) and not dtype.is_handle:
            return _cast_constant(dtype, value)
        if value.dtype.lanes != 1:
            raise TVMagicError(f"a vector of type `{value.dtype}` cannot be converted to the scalar type `{dtype}`")
        return Cast(dtype, value, span)
    element = dtype.with_lanes(1)
    if value.dtype.lanes == 1:
        return Broadcast(cast(element, value, span), dtype.lanes, span)
    if value.dtype.lanes != dtype.lanes:
        raise TVMagicError(f"`{value.dtype}` and `{dtype}` have different numbers of lanes")
    if isinstance(value, Broadcast):
        return Broadcast(cast(element, value.value, span), dtype.lanes, span)
    if isinstance(value, Ramp) and (dtype.is_int or dtype.is_uint):
        return Ramp(cast(element, value.base), cast(element, value.stride), value.lanes, span)
    return Cast(dtype, value, span)


def _cast_constant(dtype: DataType, value: IntImm | FloatImm) -> PrimExpr:
    number = value.value
    if dtype.is_float:
        return FloatImm(dtype, float(number), value.span)
    if dtype.is_bool:
        return IntImm(dtype, number != 0, value.span)
    return IntImm(dtype, wrap_int(int(number), dtype), value.span)


def reinterpret(dtype: Any, value: Any, span: Span | None = None) -> PrimExpr:
    """The bits of `value` read as `dtype`."""
    value = expr(value)
    return value if value.dtype is dtype_of(dtype) else Call(dtype, "tir.reinterpret", [value], span)
