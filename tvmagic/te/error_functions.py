"""What errors the functions of expressions pass on, and how far their own results may be off.

The accuracies, in units roundoff (an ulp is up to two of them), are those that `codegen/math/approximations.py` and
its tests guarantee, and for the functions of the C library four ulp: more than what the libraries in use document
(Gladman et al., Accuracy of Mathematical Functions, 2024).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvmagic.errors import TVMagicError
from tvmagic.eval.ops import CALLS
from tvmagic.ir import Add, Call, DataType, Mul
from tvmagic.ir.query import callee
from tvmagic.te.error_bound import (
    REFERENCE,
    Approximate,
    Value,
    binary,
    bounded,
    format_of,
    numbered,
    parts,
    rounded,
)
from tvmagic.te.error_ties import undecided

Array = Any
_OWN, _OWN_DOUBLE, _LIBRARY = 4.0, 6.0, 8.0
_REACHES = 4 * REFERENCE  # what float64's own functions may be off
# Functions that have the largest and least values of an interval at its ends; `sqrt` is one too.
_MONOTONE = (
    "exp", "exp2", "exp10", "erf", "tanh", "sigmoid", "log", "log2", "log10", "log1p", "rsqrt",
    "sinh", "asin", "acos", "atan", "asinh", "acosh", "atanh",
)  # fmt: skip
_OF_LIBRARY = frozenset({"sinh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "cosh", "tan", "atan2", "hypot"})
# those of our own on every CPU that are as good; others are the C library's, or the device's
_IN_FLOAT64 = frozenset({"exp", "exp2", "sigmoid", "log", "rsqrt"})
_UPWARD = frozenset({"log", "log2", "log10", "log1p", "rsqrt", "acosh"})  # defined from some number on
_STEPS = frozenset({"floor", "ceil", "trunc", "round", "nearbyint"})


def units_of(name: str, dtype: DataType) -> float:
    """How many units roundoff of `dtype` the function `name` of compiled code may be off.

    In float64 NumPy's value, which stands for the exact one, may be off as well.
    """
    if name == "sqrt":
        return 1.0
    if dtype.element_of.bits == 64:
        return (_OWN_DOUBLE if name in _IN_FLOAT64 else _LIBRARY) + _LIBRARY
    return _LIBRARY if name in _OF_LIBRARY else _OWN


def call(node: Call, args: Sequence[Value], scale: float = 1.0) -> Value:
    """The value of a function of expressions, with its error."""
    name = callee(node).removeprefix("tir.")
    function, values = CALLS.get(f"tir.{name}"), [parts(a)[0] for a in args]
    if function is None:
        raise TVMagicError(f"`{name or node.op}` has no value in NumPy", node=node, code="error_bound.no_numpy_value")
    rule = _RULES.get(name)
    if node.args[0].dtype.is_float:
        if rule is None:
            raise TVMagicError(
                f"the rounding error of `{name}` is not known", node=node, code="error_bound.unknown_function"
            )
        result = rule(_Call(name, function, node.dtype, scale), *args)
        return result if name == "likely" else numbered(result, f"{name} {node.dtype}", args)
    result = np.asarray(function(*values))
    if all(parts(a)[1] is None for a in args):
        return result
    if name == "likely":
        return args[0]
    known = np.logical_and.reduce([np.broadcast_to(_error(a) == 0, result.shape) for a in args])
    return numbered(Approximate(result, np.where(known, 0.0, np.inf)), f"{name} {node.dtype}", args)


class _Call:
    """A function of floats: its name, its value on float64, and the dtype and number of its roundings."""

    def __init__(self, name: str, function: Callable[..., Array], dtype: DataType, scale: float) -> None:
        self.name, self.function, self.dtype, self.scale = name, function, dtype, scale

    def rounded(self, value: Array, before: Array | None) -> Value:
        units = units_of(self.name, self.dtype)
        value = np.asarray(value, np.float64)
        before = before if before is not None and np.any(before) else None
        return rounded(value, before, self.dtype, units, scale=self.scale)


def _error(x: Value) -> Array:
    error = parts(x)[1]
    return np.float64(0) if error is None else error


def _ends(function: Callable[[Array], Array], value: Array, x: Array, error: Array, upward: bool = False) -> Array:
    """How far the values at the ends of x - error, x + error are from that in its middle.

    `upward`: the function is defined for all numbers from some number on; below it the result is certainly NaN.
    """
    with np.errstate(all="ignore"):
        top = function(x + error)
        moved = np.maximum(np.abs(top - value), np.abs(value - function(x - error)))
    sure = error == 0
    if upward:
        sure = sure | (np.isnan(top) & np.isfinite(x) & np.isfinite(error))
    return np.where(sure, 0.0, np.where(np.isnan(moved), np.inf, moved))


def _monotone(f: _Call, x: Value) -> Value:
    value, error = parts(x)
    result = f.function(value)
    before = None if error is None else _ends(f.function, result, value, error, f.name in _UPWARD) * (1 + _REACHES)
    return f.rounded(result, before)


def _steps(f: _Call, x: Value) -> Value:
    value, error = parts(x)
    result = f.function(value)
    if error is None:
        return result
    moved = _ends(f.function, result, value, error)
    return Approximate(result, np.where(undecided(np.isfinite(moved) & (moved > 0)) | np.isinf(moved), moved, 0.0))


def _root(f: _Call, x: Value) -> Value:
    """Of a number that may be negative nothing is known: the program may give NaN."""
    value, error = parts(x)
    result = np.asarray(f.function(value))
    before = None if error is None else _ends(f.function, result, value, error, upward=True)
    return rounded(result, before, f.dtype, underflow=False, scale=f.scale)


def _cosh(f: _Call, x: Value) -> Value:
    value, error = parts(x)
    result = f.function(value)
    before = None if error is None else _ends(f.function, result, np.abs(value), error)
    return f.rounded(result, before)


def _wave(f: _Call, x: Value) -> Value:
    """Sine and cosine change no faster than their argument; near their zeros its reduction to +-pi/4 counts."""
    value, error = parts(x)
    reduction = np.where(np.isfinite(value), np.abs(value), 0.0) * format_of(f.dtype).unit ** 2 * 4
    return f.rounded(f.function(value), reduction + np.minimum(_error(x), 2.0))


def _tan(f: _Call, x: Value) -> Value:
    value, error = parts(x)
    result = f.function(value)
    if error is None:
        return f.rounded(result, None)
    with np.errstate(all="ignore"):
        same = np.floor((value - error) / np.pi + 0.5) == np.floor((value + error) / np.pi + 0.5)
    before = np.where((error == 0) | same, _ends(f.function, result, value, error), np.inf)
    return f.rounded(result, before)


def _power(f: _Call, x: Value, y: Value) -> Value:
    """The largest and the least value are in corners, unless the base may be zero or negative."""
    (a, ea), (b, eb) = parts(x), parts(y)
    result = f.function(a, b)
    if ea is None and eb is None:
        return f.rounded(result, None)
    ea, eb = _error(x), _error(y)
    with np.errstate(all="ignore"):
        base = np.abs(a)
        corners = [np.power(base + s * ea, b + t * eb) for s in (-1, 1) for t in (-1, 1)]
        moved = np.max([np.abs(c - np.abs(result)) for c in np.broadcast_arrays(*corners)], axis=0)
        whole = (b == np.rint(b)) & (eb == 0)
        slope = np.abs(b) * np.power(base + ea, b - 1) * ea  # for whole powers of what may change its sign
        moved = np.where((base > ea) & ((a > 0) | whole), moved, np.where(whole & (b >= 1), slope, np.inf))
        moved = np.where(np.isnan(moved), np.inf, moved) * (1 + _REACHES)
    return f.rounded(result, np.where((ea == 0) & (eb == 0), 0.0, moved))


def _angle(f: _Call, y: Value, x: Value) -> Value:
    (a, ea), (b, eb) = parts(y), parts(x)
    result = f.function(a, b)
    if ea is None and eb is None:
        return f.rounded(result, None)
    with np.errstate(all="ignore"):
        far, radius = np.hypot(_error(y), _error(x)), np.hypot(a, b)
        turned = np.where(far < radius, np.arcsin(np.minimum(far / radius, 1.0)), 2 * np.pi)
        cut = (b - _error(x) < 0) & (np.abs(a) <= _error(y)) & (far > 0)  # from pi to -pi
    turned = np.where(far == 0, 0.0, np.where(cut | np.isnan(turned), 2 * np.pi, turned))
    return f.rounded(result, turned)


def _hypot(f: _Call, x: Value, y: Value) -> Value:
    return f.rounded(f.function(parts(x)[0], parts(y)[0]), _error(x) + _error(y))


def _fma(f: _Call, x: Value, y: Value, z: Value) -> Value:
    """As a product and a sum that are rounded both: a bound for the one rounding, unless the product alone is rounded to
    infinity and `z` takes away from it."""
    product = binary(Mul, x, y, f.dtype, f.scale)
    result = binary(Add, product, z, f.dtype, f.scale)
    a, b, c, whole = (parts(v)[0] for v in (x, y, z, product))
    value, error = parts(result)
    with np.errstate(invalid="ignore"):
        open_ = np.isinf(whole) & np.isfinite(a) & np.isfinite(b) & (whole * c < 0)
    if not np.any(open_):
        return result
    return Approximate(value, np.where(open_, np.inf, 0.0 if error is None else error))


def _absolute(f: _Call, x: Value) -> Value:
    value, error = parts(x)
    return np.abs(value) if error is None else Approximate(np.abs(value), error)


def _sign_of(f: _Call, x: Value, y: Value) -> Value:
    (a, ea), (b, eb) = parts(x), parts(y)
    result = np.copysign(a, b)
    if ea is None and eb is None:
        return result
    open_ = (np.abs(b) <= _error(y)) & (_error(y) > 0)
    return Approximate(result, _error(x) + np.where(open_, 2 * np.abs(result), 0.0))


def _scaled(f: _Call, x: Value, power: Value) -> Value:
    (a, ea), (n, en) = parts(x), parts(power)
    result = np.asarray(np.ldexp(a, np.asarray(n).astype(np.int64)))
    before = None if ea is None and en is None else np.ldexp(_error(x), np.asarray(n).astype(np.int64))
    if en is not None and before is not None:
        before = np.where(en > 0, np.inf, before)
    return rounded(result, before, f.dtype, scale=f.scale)


def _remainder(f: _Call, x: Value, y: Value) -> Value:
    """Of numbers that are not exact anything up to `y`: the next multiple of it may be near."""
    a, b = parts(x)[0], parts(y)[0]
    far = _error(x) + _error(y)
    return f.rounded(f.function(a, b), np.where(far > 0, 2 * np.abs(b) + _error(y), 0.0))


def _next(f: _Call, x: Value, y: Value) -> Value:
    """The neighbour of a number of its dtype is a unit in the last place away."""
    a, form = parts(x)[0], format_of(f.dtype)
    result = np.asarray(a, np.float64) + 0.0 * parts(y)[0]
    step = np.abs(a) * 2.0 ** (1 - form.digits) + form.tiny
    return bounded(result, _error(x) + step, _error(x), form)


def _test(f: _Call, x: Value) -> Value:
    value, error = parts(x)
    result = np.asarray(f.function(value))
    return result if error is None else Approximate(result, np.isinf(error).astype(np.float64))


def _same(f: _Call, x: Value) -> Value:
    return x


_RULES: dict[str, Callable[..., Value]] = {
    **dict.fromkeys(_MONOTONE, _monotone),
    **dict.fromkeys(_STEPS, _steps),
    **dict.fromkeys(("isnan", "isinf", "isfinite"), _test),
    "sqrt": _root, "cosh": _cosh, "sin": _wave, "cos": _wave, "tan": _tan, "pow": _power, "atan2": _angle,
    "hypot": _hypot, "fma": _fma, "fabs": _absolute, "copysign": _sign_of, "ldexp": _scaled, "nextafter": _next,
    "fmod": _remainder,
    "likely": _same,
}  # fmt: skip
