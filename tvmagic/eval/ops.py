"""What each operator computes, on NumPy arrays of the operands' dtype: `tvmagic.ir.semantics`, extended to arrays.

The reference, the interpreter, the NumPy code and Ascend's graphs all compute by these tables. Each function takes and
gives arrays (or NumPy scalars) of one dtype and broadcasts; warnings of NumPy are the caller's business.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.ir.numpy_types import numpy_dtype

Array = Any


def _is_float(array: Array) -> bool:
    return array.dtype.kind in "fV"  # ml_dtypes' bfloat16 is of kind V


def _subtract(a: Array, b: Array) -> Array:
    return np.not_equal(a, b) if a.dtype.kind == "b" else np.subtract(a, b)


def _of_integers(of_floats: Callable[..., Array], of_integers: Callable[..., Array]) -> Callable[..., Array]:
    """A quotient or a remainder: of floats, of integers (0 for a divisor of zero), of bools as of integers."""

    def divide(a: Array, b: Array) -> Array:
        if _is_float(a):
            return of_floats(a, b)
        kind = a.dtype
        if kind.kind == "b":
            a, b = a.astype(np.int8), b.astype(np.int8)
        zero = b == 0
        result = of_integers(a, np.where(zero, np.asarray(1, b.dtype), b))
        return np.where(zero, np.asarray(0, a.dtype), result).astype(kind)

    return divide


def _truncating_divide(a: Array, b: Array) -> Array:
    quotient = a // b
    return quotient + ((a % b != 0) & ((a < 0) != (b < 0))).astype(a.dtype)


BINARY: dict[type, Callable[[Array, Array], Array]] = {
    ir.Add: np.add,
    ir.Sub: _subtract,
    ir.Mul: np.multiply,
    ir.Div: _of_integers(np.divide, _truncating_divide),
    ir.Mod: _of_integers(np.fmod, np.fmod),
    ir.FloorDiv: _of_integers(np.floor_divide, np.floor_divide),
    ir.FloorMod: _of_integers(np.remainder, np.remainder),
    ir.Min: np.minimum,
    ir.Max: np.maximum,
    ir.EQ: np.equal,
    ir.NE: np.not_equal,
    ir.LT: np.less,
    ir.LE: np.less_equal,
    ir.GT: np.greater,
    ir.GE: np.greater_equal,
    ir.And: np.logical_and,
    ir.Or: np.logical_or,
}
# the operators whose reduction along an axis is a method of the function
REDUCTIONS: dict[type, np.ufunc] = {ir.Add: np.add, ir.Mul: np.multiply, ir.Min: np.minimum, ir.Max: np.maximum}


# ---------------------------------------------------------------------------- conversions


def convert(value: Array, dtype: ir.DataType) -> Array:
    """`value` converted to (the scalar type of) `dtype`."""
    value = np.asarray(value)
    if dtype.is_bool:
        return value != 0
    kind = numpy_dtype(dtype.element_of)
    if dtype.is_float:
        return _rounded_to_odd(value).astype(kind) if dtype.code == "bfloat" else value.astype(kind)
    return _whole_numbers(value, kind) if _is_float(value) else value.astype(kind)


def _whole_numbers(value: Array, kind: np.dtype[Any]) -> Array:
    """Towards zero; what lies outside is the nearest end of the type, and NaN is 0."""
    info, whole = np.iinfo(kind), np.trunc(value.astype(np.float64))
    below, above = whole <= float(info.min), whole >= float(info.max)
    inside = np.where(below | above | np.isnan(whole), 0.0, whole).astype(kind)
    return np.where(below, kind.type(info.min), np.where(above, kind.type(info.max), inside))


def _rounded_to_odd(value: Array) -> Array:
    """What is wider than float32 as float32, rounded to odd, so that rounding it again does no harm."""
    if value.dtype.itemsize < 4 or value.dtype == np.float32:
        return value
    exact = value.astype(np.float64)
    near = np.asarray(exact.astype(np.float32))
    back = near.astype(np.float64)
    bits = near.view(np.uint32) - (np.abs(back) > np.abs(exact)).astype(np.uint32)
    odd = bits | (np.isfinite(exact) & (back != exact)).astype(np.uint32)
    return np.where(np.isfinite(exact), odd.view(np.float32), near)


# ---------------------------------------------------------------------------- functions


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x.astype(np.float64)).astype(x.dtype)


def _sigmoid(x: Array) -> Array:
    one, small = np.asarray(1, x.dtype), np.exp(-np.abs(x))  # never infinite
    return np.where(x < 0, small, one) / (one + small)


def _count_leading_zeros(x: Array) -> Array:
    """An int32, whatever integer `x` is."""
    bits = x.dtype.itemsize * 8
    unsigned = x.astype(np.dtype(f"u{x.dtype.itemsize}"))
    result = np.full(x.shape, bits, np.int32)
    for shift in range(bits):
        result = np.where((unsigned >> np.asarray(shift, unsigned.dtype)) & 1, np.int32(bits - 1 - shift), result)
    return result


def _popcount(x: Array) -> Array:
    unsigned = x.view(np.dtype(f"u{x.dtype.itemsize}")).astype(np.uint64)
    total = np.zeros(x.shape, np.uint64)
    for shift in range(x.dtype.itemsize * 8):
        total += (unsigned >> np.uint64(shift)) & np.uint64(1)
    return total.astype(x.dtype)


def _fma(x: Array, y: Array, z: Array) -> Array:
    """x * y + z, rounded once."""
    if not _is_float(x):
        return x * y + z
    if x.dtype.itemsize == 8:
        return np.vectorize(_fused, otypes=[np.float64])(x, y, z)
    # 1. In float64 the product is exact; `lost` is what the sum leaves out.
    product, third = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
    total = np.asarray(product + third)
    part = total - product
    lost = (product - (total - part)) + (third - part)
    # 2. The sum to odd instead, so that rounding it again does no harm.
    bits = total.view(np.int64)
    even = np.isfinite(lost) & (lost != 0) & (bits & 1 == 0)
    step = np.where((lost > 0) == (total > 0), 1, -1)
    odd = np.where(even, bits + step, bits).view(np.float64)
    return (_rounded_to_odd(odd) if x.dtype.kind == "V" else odd).astype(x.dtype)


def _fused(x: float, y: float, z: float) -> float:
    """`_fma` of numbers of 64 bits."""
    if not all(map(math.isfinite, (x, y, z))):
        return x * y + z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    try:
        return float(exact) if exact else x * y + z  # the latter has the right sign of zero
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _q_multiply_shift(x: Array, y: Array, q: Array, s: Array) -> Array:
    """round(x * y * 2^-q * 2^s) with y a fixed-point number of q fractional bits."""
    left, total = max(int(s), 0), int(q) + max(-int(s), 0)
    product = (x.astype(np.int64) << left) * y.astype(np.int64) + (1 << (total - 1))
    return (product >> total).astype(x.dtype)


CALLS: dict[str, Callable[..., Array]] = {
    "tir.exp": np.exp,
    "tir.exp2": np.exp2,
    "tir.exp10": lambda x: np.power(np.asarray(10, x.dtype), x),
    "tir.erf": _erf,
    "tir.tanh": np.tanh,
    "tir.sigmoid": _sigmoid,
    "tir.sqrt": np.sqrt,
    "tir.rsqrt": lambda x: np.asarray(1, x.dtype) / np.sqrt(x),
    "tir.log": np.log,
    "tir.log2": np.log2,
    "tir.log10": np.log10,
    "tir.log1p": np.log1p,
    "tir.sin": np.sin,
    "tir.cos": np.cos,
    "tir.tan": np.tan,
    "tir.sinh": np.sinh,
    "tir.cosh": np.cosh,
    "tir.asin": np.arcsin,
    "tir.acos": np.arccos,
    "tir.atan": np.arctan,
    "tir.asinh": np.arcsinh,
    "tir.acosh": np.arccosh,
    "tir.atanh": np.arctanh,
    "tir.atan2": np.arctan2,
    "tir.hypot": np.hypot,
    "tir.fmod": np.fmod,
    "tir.nextafter": np.nextafter,
    "tir.copysign": np.copysign,
    "tir.ldexp": lambda x, y: np.ldexp(x, y.astype(np.int64)).astype(x.dtype),
    "tir.floor": np.floor,
    "tir.ceil": np.ceil,
    "tir.trunc": np.trunc,
    "tir.round": np.rint,
    "tir.nearbyint": np.rint,
    "tir.fabs": np.fabs,
    "tir.pow": np.power,
    "tir.fma": _fma,
    "tir.isnan": np.isnan,
    "tir.isinf": np.isinf,
    "tir.isfinite": np.isfinite,
    "tir.popcount": _popcount,
    "tir.clz": _count_leading_zeros,
    "tir.bitwise_and": np.bitwise_and,
    "tir.bitwise_or": np.bitwise_or,
    "tir.bitwise_xor": np.bitwise_xor,
    "tir.bitwise_not": np.invert,
    "tir.shift_left": np.left_shift,
    "tir.shift_right": np.right_shift,
    "tir.q_multiply_shift": _q_multiply_shift,
    "tir.likely": lambda x: x,
    "tir.tvm_thread_invariant": lambda x: x,
}
