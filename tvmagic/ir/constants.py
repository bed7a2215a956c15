"""Constants of every type, and values converted to other types."""

from __future__ import annotations

import math
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir.dtype import DataType, dtype_of, integer_limits
from tvmagic.ir.expr import (
    BOOL,
    FLOAT32,
    INT32,
    Broadcast,
    Call,
    Cast,
    ConstExpr,
    FloatImm,
    IntImm,
    PrimExpr,
    Ramp,
    StringImm,
    expr,
)
from tvmagic.ir.methods import method_of
from tvmagic.ir.node import Span
from tvmagic.ir.operators import lanes_of
from tvmagic.ir.semantics import Neutral, convert_number, round_float


def const(value: Any, dtype: Any = None, span: Span | None = None) -> PrimExpr:
    """The constant `value`, by default int32 or int64, float32 or float64 (the smaller if it fits), or bool."""
    if dtype is None:
        if hasattr(value, "dtype"):  # a NumPy number, of which some are Python numbers too
            dtype = str(value.dtype)
        elif isinstance(value, bool):
            dtype = BOOL
        elif isinstance(value, int):
            dtype = INT32 if -(1 << 31) <= value < 1 << 31 else "int64"
        elif isinstance(value, float):
            dtype = "float64" if FLOAT32.largest < abs(value) < math.inf else "float32"
        else:
            raise TVMagicError(f"`{value!r}` is not a number", code="constant.not_a_number")
    return make_const(dtype_of(dtype), value, span)


def make_const(dtype: DataType, value: Any, span: Span | None = None) -> PrimExpr:
    """The constant `value` of type `dtype`; a Broadcast for a vector type."""
    if dtype.is_vector:
        return Broadcast(make_const(dtype.element_of, value, span), lanes_of(dtype), span)
    if dtype.is_uint and value < 0:
        raise TVMagicError(
            f"the literal {value} does not fit into `{dtype}`, which has no negative values",
            code="constant.negative_unsigned",
        )
    if dtype.is_int or dtype.is_uint:
        return IntImm(dtype, int(value), span)
    if dtype.is_float:
        return FloatImm(dtype, value, span)
    if dtype.is_handle and int(value) == 0:
        return reinterpret("handle", IntImm("uint64", 0), span)
    raise TVMagicError(f"there is no constant of type `{dtype}`", code="constant.wrong_dtype")


def make_zero(dtype: DataType) -> PrimExpr:
    """The constant 0 of type `dtype`."""
    return make_const(dtype, 0)


def min_value(dtype: Any, span: Span | None = None) -> PrimExpr:
    """The smallest finite value of `dtype`."""
    dtype = dtype_of(dtype)
    if dtype.is_int or dtype.is_uint:
        return make_const(dtype, integer_limits(dtype)[0], span)
    return make_const(dtype, -_largest_float(dtype), span)


def largest_integer(dtype: DataType) -> int:
    """The largest value of an integer type."""
    return integer_limits(dtype)[1]


def max_value(dtype: Any, span: Span | None = None) -> PrimExpr:
    """The largest finite value of `dtype`."""
    dtype = dtype_of(dtype)
    if dtype.is_int or dtype.is_uint:
        return make_const(dtype, largest_integer(dtype), span)
    return make_const(dtype, _largest_float(dtype), span)


def neutral_of_max(dtype: Any) -> PrimExpr:
    """The neutral element of the maximum: written as `min_value`, but -inf for floats."""
    return _neutral(dtype_of(dtype), True)


def neutral_of_min(dtype: Any) -> PrimExpr:
    """The neutral element of the minimum: written as `max_value`, but inf for floats."""
    return _neutral(dtype_of(dtype), False)


def _neutral(dtype: DataType, negative: bool) -> PrimExpr:
    if dtype.is_float:
        return make_const(dtype, Neutral(_largest(dtype, negative)))
    return min_value(dtype) if negative else max_value(dtype)


def _largest(dtype: DataType, negative: bool) -> float:
    return -_largest_float(dtype) if negative else _largest_float(dtype)


def _largest_float(dtype: DataType) -> float:
    if not dtype.is_float or dtype.largest == math.inf:
        raise TVMagicError(f"`{dtype}` has no largest value", code="constant.no_largest_value")
    return dtype.largest


def infinity(dtype: Any, span: Span | None = None) -> PrimExpr:
    """Positive infinity of the float type `dtype`."""
    return make_const(dtype_of(dtype), math.inf, span)


def cast(dtype: Any, value: Any, span: Span | None = None) -> PrimExpr:
    """`value` converted to `dtype`; constants are converted at once."""
    value, dtype = expr(value), dtype_of(dtype)
    if value.dtype is dtype:
        return value
    if isinstance(value, StringImm):
        raise TVMagicError(
            f"Can't cast a handle to other types: the text {value} is not a number", code="constant.text_not_a_number"
        )
    if dtype.is_scalar:
        if isinstance(value, (IntImm, FloatImm)) and not dtype.is_handle:
            return _cast_constant(dtype, value)
        if value.dtype.is_vector:
            raise TVMagicError(
                f"a vector of type `{value.dtype}` cannot be converted to the scalar type `{dtype}`",
                code="expression.vector_to_scalar",
            )
        return Cast(dtype, value, span)
    element = dtype.element_of
    if value.dtype.is_scalar:
        return Broadcast(cast(element, value, span), lanes_of(dtype), span)
    if value.dtype.lane_code != dtype.lane_code:
        raise TVMagicError(
            f"`{value.dtype}` and `{dtype}` have different numbers of lanes", code="expression.lanes_differ"
        )
    if isinstance(value, Broadcast):
        return Broadcast(cast(element, value.value, span), value.lanes, span)
    if isinstance(value, Ramp) and not dtype.is_scalable and _keeps_sums(value.dtype, element):
        return Ramp(cast(element, value.base), cast(element, value.stride), value.lanes, span)
    return Cast(dtype, value, span)


def _keeps_sums(source: DataType, target: DataType) -> bool:
    """Whether `x + y` converted is `x` converted plus `y` converted: indices do not wrap around, others do."""
    if not (target.is_int or target.is_uint) or target.is_bool:
        return False
    return (source.is_int and source.bits >= 32) or target.bits <= source.bits


def _cast_constant(dtype: DataType, value: IntImm | FloatImm) -> PrimExpr:
    number = value.value
    if dtype.is_float:
        if type(number) is Neutral:
            number = Neutral(_largest(dtype, number < 0))
        elif abs(number) > dtype.largest:
            number = round_float(float(number), dtype)
        return FloatImm(dtype, number, value.span)
    return IntImm(dtype, convert_number(number, dtype), value.span)


def reinterpret(dtype: Any, value: Any, span: Span | None = None) -> PrimExpr:
    """The bits of `value` read as `dtype`."""
    value = expr(value)
    return value if value.dtype is dtype_of(dtype) else Call(dtype, "tir.reinterpret", [value], span)


@method_of(ConstExpr)
@staticmethod
def of_scalar(value: Any) -> PrimExpr:
    """Return a NumPy scalar as a constant of its type."""
    return const(value.item(), str(value.dtype))
