"""What each operator computes, on Python numbers. `tvmagic.eval.ops` has the same on arrays.

This is the one meaning that constant folding, simplification, the interpreter, the reference and compiled code on every
target hold to. Where NumPy has an answer it is NumPy's:

    integers           wrap around modulo 2 to the number of their bits
    x // 0, x % 0      0, as truncdiv and truncmod by zero; the least integer // -1 is itself
    bool               + is `or`, * is `and`
    shifts             by the width or more, or by less than zero, shift everything out: 0, or -1 for x >> of x < 0
    floats             IEEE 754: NaN, infinities and the sign of zero count; // and % are NumPy's
    min, max           NaN if either operand is
    round, nearbyint   half to even

NumPy leaves open, or refuses, the following; here it is

    float to integer   towards zero; what lies outside is the nearest end of the type, and NaN is 0
    bool               - is "differ"; x / y, truncdiv(x, y), x // y is `and`, % and truncmod are False
    and, or, Select, if_then_else
                       give the value that the conditions choose. What they do not choose is not used, so that an access
                       outside an array, in the right side of `and` where the left is false, is not an error
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

from tvmagic.ir.dtype import DataType, integer_limits
from tvmagic.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Or,
    Sub,
)

Number = Any  # int, bool or float


class Neutral(float):
    """The neutral element of `max` or `min` of floats.

    TVM writes the largest finite number, and so do texts here; what it means is the infinity, since the maximum of nothing
    but -inf is -inf. Whoever computes with a constant takes `plain` of its value. A text that is read back, and a number
    that a user writes, are the finite number.
    """

    __slots__ = ()


def plain(value: Number) -> Number:
    """The number that the value of a constant means."""
    return math.copysign(math.inf, value) if type(value) is Neutral else value


def wrap_int(value: int, dtype: DataType) -> int:
    """`value` as an integer of type `dtype` holds it: modulo 2 to the number of bits."""
    bits = dtype.bits
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.is_int and value >> (bits - 1) else value


def round_float(value: float, dtype: DataType) -> float:
    """`value` rounded to the nearest one that `dtype` holds."""
    if dtype.bits == 64 or math.isnan(value) or math.isinf(value):
        return value
    if dtype.code == "bfloat":
        (bits,) = struct.unpack("<I", struct.pack("<f", round_float(value, _FLOAT32)))
        bits += 0x7FFF + ((bits >> 16) & 1)
        return struct.unpack("<f", struct.pack("<I", (bits >> 16 << 16) & 0xFFFFFFFF))[0]
    if dtype.is_float8:
        return _round_float8(value, dtype)
    code = "<f" if dtype.bits == 32 else "<e"
    try:
        return struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def _round_float8(value: float, dtype: DataType) -> float:
    """The nearest float with 3 bits behind the point and no infinity (e4m3), or with 2 (e5m2)."""
    fraction, least = (3, -6) if dtype.code == "e4m3_float" else (2, -14)
    unit = math.ldexp(1.0, max(math.frexp(value)[1] - 1, least) - fraction)
    rounded = round(value / unit) * unit
    if abs(rounded) <= dtype.largest:
        return math.copysign(rounded, value)
    return math.nan if dtype.code == "e4m3_float" else math.copysign(math.inf, value)


_FLOAT32 = DataType("float32")


def truncate_divide(x: int, y: int) -> int:
    """`x / y` rounded towards zero."""
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


# ---------------------------------------------------------------------------- floats


def _divide(x: float, y: float) -> float:
    if y:
        return x / y
    if x == 0 or math.isnan(x) or math.isnan(y):
        return math.nan
    return math.copysign(math.inf, x) * math.copysign(1, y)


def _remainder(x: float, y: float) -> float:
    """C's `fmod`, which gives NaN for an infinite `x` and for `y` of zero."""
    return math.nan if math.isinf(x) or not y or math.isnan(x) or math.isnan(y) else math.fmod(x, y)


def _floor_remainder(x: float, y: float) -> float:
    rest = _remainder(x, y)
    if not rest:
        return math.copysign(0.0, y)
    return rest + y if (rest < 0) != (y < 0) else rest


def _floor_quotient(x: float, y: float, dtype: DataType) -> float:
    """NumPy's `x // y`: what remains is taken off first, so that the quotient is nearly whole; in float32 at least."""
    dtype = dtype if dtype.bits >= 32 else _FLOAT32
    if not y:
        return _divide(x, y)
    rest = _remainder(x, y)
    quotient = round_float(round_float(x - rest, dtype) / y, dtype)
    if rest and (rest < 0) != (y < 0):
        quotient = round_float(quotient - 1, dtype)
    if not quotient or not math.isfinite(quotient):
        return quotient if quotient else math.copysign(0.0, _divide(x, y))
    whole = float(math.floor(quotient))
    return whole + 1 if quotient - whole > 0.5 else whole


# ---------------------------------------------------------------------------- the table


def _quotient(x: Number, y: Number, dtype: DataType) -> Number:
    if dtype.is_float:
        return _divide(x, y)
    return truncate_divide(x, y) if y else 0


def _rest(x: Number, y: Number, dtype: DataType) -> Number:
    if dtype.is_float:
        return _remainder(x, y)
    return x - truncate_divide(x, y) * y if y else 0


def _floordiv(x: Number, y: Number, dtype: DataType) -> Number:
    if dtype.is_float:
        return _floor_quotient(x, y, dtype)
    return x // y if y else 0


def _floormod(x: Number, y: Number, dtype: DataType) -> Number:
    if dtype.is_float:
        return _floor_remainder(x, y)
    return x % y if y else 0


def _extreme(pick: Callable[[Number, Number], Number]) -> Callable[[Number, Number, DataType], Number]:
    return lambda x, y, dtype: x if x != x else y if y != y else pick(x, y)


def _product(x: Number, y: Number, dtype: DataType) -> Number:
    return x * y


# for each operator a function of two numbers and their dtype; the dtype's range and precision are `compute`'s business
NUMBERS: dict[type, Callable[[Number, Number, DataType], Number]] = {
    Add: lambda x, y, dtype: bool(x or y) if dtype.is_bool else x + y,
    Sub: lambda x, y, dtype: x - y,
    Mul: _product,
    Div: _quotient,
    Mod: _rest,
    FloorDiv: _floordiv,
    FloorMod: _floormod,
    Min: _extreme(min),
    Max: _extreme(max),
    EQ: lambda x, y, dtype: x == y,
    NE: lambda x, y, dtype: x != y,
    LT: lambda x, y, dtype: x < y,
    LE: lambda x, y, dtype: x <= y,
    GT: lambda x, y, dtype: x > y,
    GE: lambda x, y, dtype: x >= y,
    And: lambda x, y, dtype: bool(x and y),
    Or: lambda x, y, dtype: bool(x or y),
}


def compute(op: type, x: Number, y: Number, dtype: DataType) -> Number:
    """`op(x, y)` for operands of type `dtype`, as the type of the result holds it."""
    if dtype.is_float:
        x, y = round_float(plain(x), dtype), round_float(plain(y), dtype)
    value = NUMBERS[op](x, y, dtype)
    if isinstance(value, bool):
        return value
    return round_float(value, dtype) if dtype.is_float else wrap_int(value, dtype)


def convert_number(value: Number, dtype: DataType) -> Number:
    """`value` converted to `dtype`."""
    value = plain(value)
    if dtype.is_float:
        return round_float(float(value), dtype)
    if dtype.is_bool:
        return value != 0
    if not isinstance(value, float):
        return wrap_int(value, dtype)
    if value != value:
        return 0
    low, high = integer_limits(dtype)
    return low if value <= low else high if value >= high else int(value)


def _rounding(pick: Callable[[float], int]) -> Callable[[float], float]:
    """A rounding that keeps infinities, NaN and the sign of zero."""
    return lambda x: math.copysign(float(pick(x)), x) if math.isfinite(x) else x


ROUNDINGS: dict[str, Callable[[float], float]] = {
    "floor": _rounding(math.floor),
    "ceil": _rounding(math.ceil),
    "trunc": _rounding(math.trunc),
    "round": _rounding(round),
    "nearbyint": _rounding(round),
}
