"""What each operator of an expression computes, by NumPy, on arrays of the expression's dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tvmagic.ir import EQ, GE, GT, LE, LT, NE, Add, And, Div, FloorDiv, FloorMod, Max, Min, Mod, Mul, Or, Sub

__all__ = ["BINARY", "CALLS"]

Array = Any


def _nonzero(b: Array) -> Array:
    """A divisor with zeros replaced: such elements are in branches that are not taken."""
    return np.where(b == 0, np.asarray(1, b.dtype), b)


def _truncating_divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f" or a.dtype.kind == "V":
        return a / b
    b = _nonzero(b)
    quotient = a // b
    return quotient + ((a % b != 0) & ((a < 0) != (b < 0))).astype(a.dtype)


def _floor_divide(a: Array, b: Array) -> Array:
    return np.floor(a / b) if a.dtype.kind == "f" else a // _nonzero(b)


def _truncating_mod(a: Array, b: Array) -> Array:
    return np.fmod(a, b if a.dtype.kind == "f" else _nonzero(b))


def _floor_mod(a: Array, b: Array) -> Array:
    return np.mod(a, b if a.dtype.kind == "f" else _nonzero(b))


BINARY: dict[type, Callable[[Array, Array], Array]] = {
    Add: np.add,
    Sub: np.subtract,
    Mul: np.multiply,
    Div: _truncating_divide,
    Mod: _truncating_mod,
    FloorDiv: _floor_divide,
    FloorMod: _floor_mod,
    Min: np.minimum,
    Max: np.maximum,
    EQ: np.equal,
    NE: np.not_equal,
    LT: np.less,
    LE: np.less_equal,
    GT: np.greater,
    GE: np.greater_equal,
    And: np.logical_and,
    Or: np.logical_or,
}


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x.astype(np.float64)).astype(x.dtype)


def _sigmoid(x: Array) -> Array:
    one = np.asarray(1, x.dtype)
    return one / (one + np.exp(-x))


def _round_away(x: Array) -> Array:
    """Round half away from zero, as C does; halves just below stay below."""
    low = np.trunc(x)
    return low + np.copysign((np.abs(x - low) >= 0.5).astype(x.dtype), x)


def _power(x: Array, y: Array) -> Array:
    return np.power(x, y)


def _count_leading_zeros(x: Array) -> Array:
    bits = x.dtype.itemsize * 8
    unsigned = x.astype(np.dtype(f"u{x.dtype.itemsize}"))
    result = np.full(x.shape, bits, x.dtype)
    for shift in range(bits):
        result = np.where((unsigned >> np.asarray(shift, unsigned.dtype)) & 1, bits - 1 - shift, result)
    return result.astype(x.dtype)


def _popcount(x: Array) -> Array:
    unsigned = x.view(np.dtype(f"u{x.dtype.itemsize}")).astype(np.uint64)
    total = np.zeros(x.shape, np.uint64)
    for shift in range(x.dtype.itemsize * 8):
        total += (unsigned >> np.uint64(shift)) & np.uint64(1)
    return total.astype(x.dtype)


def _fma(x: Array, y: Array, z: Array) -> Array:
    return (x.astype(np.float64) * y.astype(np.float64) + z.astype(np.float64)).astype(x.dtype)


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
    "tir.nextafter": np.nextafter,
    "tir.copysign": np.copysign,
    "tir.ldexp": lambda x, y: np.ldexp(x, y.astype(np.int64)).astype(x.dtype),
    "tir.floor": np.floor,
    "tir.ceil": np.ceil,
    "tir.trunc": np.trunc,
    "tir.round": _round_away,
    "tir.nearbyint": np.rint,
    "tir.fabs": np.fabs,
    "tir.pow": _power,
    "tir.fma": _fma,
    "tir.isnan": np.isnan,
    "tir.popcount": _popcount,
    "tir.clz": _count_leading_zeros,
    "tir.bitwise_and": np.bitwise_and,
    "tir.bitwise_or": np.bitwise_or,
    "tir.bitwise_xor": np.bitwise_xor,
    "tir.bitwise_not": np.invert,
    "tir.shift_left": np.left_shift,
    "tir.shift_right": np.right_shift,
    "tir.likely": lambda x: x,
}
