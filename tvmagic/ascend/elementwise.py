"""What elementwise node types compute: each as an expression of the IR and, independent of it, as a NumPy function.

The expressions are what is lowered; the NumPy functions are what `evaluate` compares with.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tvmagic.eval.ops import CALLS
from tvmagic.ir import Let, PrimExpr, Select, Var, ops

# Which kinds of dtype a type takes, as NumPy's letters: floats, signed and unsigned integers.
FLOATS, WHOLE, SIGNED, NUMBERS = "f", "iub", "fi", "fiu"
_STEPS = 6  # of the recurrence of digamma, until its asymptotic series is exact enough


def _is_float(x: PrimExpr) -> bool:
    return x.dtype.is_float


def _like(value: float, x: PrimExpr) -> PrimExpr:
    return ops.const(value, x.dtype)


def _named(x: PrimExpr, body: Callable[[PrimExpr], PrimExpr]) -> PrimExpr:
    """`body(x)` with `x` computed once."""
    var = Var("t", x.dtype)
    return Let(var, x, body(var))


def _widen(compute: Callable[..., PrimExpr]) -> Callable[..., PrimExpr]:
    """`compute` in 32 bits where the operands have 16."""

    def wide(*values: PrimExpr) -> PrimExpr:
        dtype = values[0].dtype
        if dtype.bits == 64:
            return compute(*values)
        return ops.cast(dtype, compute(*(ops.cast("float32", v) for v in values)))

    return wide


def _flag(condition: PrimExpr) -> PrimExpr:
    return ops.cast("uint8", condition)


def _as_condition(x: PrimExpr) -> PrimExpr:
    """A flag, or any number, as a condition."""
    return x if x.dtype == "bool" else ops.not_equal(x, _like(0, x))


def _sign(x: PrimExpr) -> PrimExpr:
    one = Select(x > _like(0, x), _like(1, x), Select(x < _like(0, x), _like(-1, x), _like(0, x)))
    return Select(ops.not_equal(x, x), x, one) if _is_float(x) else one


def _unsigned_sign(x: PrimExpr) -> PrimExpr:
    return _sign(x) if not x.dtype.is_uint else Select(x > _like(0, x), _like(1, x), _like(0, x))


def _sigmoid(x: PrimExpr) -> PrimExpr:
    return _like(1, x) / (_like(1, x) + ops.exp(_like(0, x) - x))


def _gelu(x: PrimExpr) -> PrimExpr:
    inner = _like(-1.5957691, x) * (x + _like(0.044715, x) * x * x * x)
    return x / (_like(1, x) + ops.exp(inner))


def _expm1(x: PrimExpr) -> PrimExpr:
    return ops.tanh(x * _like(0.5, x)) * (ops.exp(x) + _like(1, x))


def _erfinv(x: PrimExpr) -> PrimExpr:
    """Winitzki's approximation, then Newton's steps."""
    size = ops.abs(x)
    least = _like(float(np.finfo(str(x.dtype)).tiny), x)
    log = ops.log(ops.maximum((_like(1, x) - size) * (_like(1, x) + size), least))
    half = _like(2 / (math.pi * 0.147), x) + log * _like(0.5, x)

    def newton(y: PrimExpr, steps: int) -> PrimExpr:
        if not steps:
            return y
        slope = ops.maximum(_like(2 / math.sqrt(math.pi), x) * ops.exp(_like(0, x) - y * y), least)
        return _named(y - (ops.erf(y) - size) / slope, lambda z: newton(z, steps - 1))

    first = ops.sqrt(ops.sqrt(half * half - log * _like(1 / 0.147, x)) - half)
    found = _named(first, lambda y: newton(y, 3))
    inside = Select(size < _like(1, x), found, Select(size > _like(1, x), _like(math.nan, x), _like(math.inf, x)))
    return ops.copysign(inside, x)


_LANCZOS = (0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
            12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7)  # fmt: skip


def _lgamma(x: PrimExpr) -> PrimExpr:
    """Lanczos' approximation, by reflection left of 1/2."""
    left = x < _like(0.5, x)

    def right(t: PrimExpr) -> PrimExpr:
        total = _like(_LANCZOS[0], x)
        for place, factor in enumerate(_LANCZOS[1:]):
            total = total + _like(factor, x) / (t + _like(place, x))
        base = t + _like(6.5, x)
        return (t - _like(0.5, x)) * ops.log(base) - base + ops.log(_like(math.sqrt(2 * math.pi), x) * total)

    found = _named(Select(left, _like(1, x) - x, x), right)
    mirror = ops.log(_like(math.pi, x) / ops.abs(ops.sin(_like(math.pi, x) * (x - ops.floor(x)))))
    return _named(found, lambda y: Select(left, mirror - y, y))


def _digamma(x: PrimExpr) -> PrimExpr:
    """The asymptotic series behind some steps of the recurrence, by reflection left of 1/2."""
    left = x < _like(0.5, x)

    def right(t: PrimExpr) -> PrimExpr:
        steps = _like(0, x)
        for k in range(_STEPS):
            steps = steps + _like(1, x) / (t + _like(k, x))
        return _named(t + _like(_STEPS, x), lambda z: series(z) - steps)

    def series(z: PrimExpr) -> PrimExpr:
        square = _like(1, x) / (z * z)
        terms = _like(0, x)
        for factor in (1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12):
            terms = (terms + _like(factor, x)) * square
        return ops.log(z) - _like(0.5, x) / z - terms

    found = _named(Select(left, _like(1, x) - x, x), right)
    mirror = _like(math.pi, x) / ops.tan(_like(math.pi, x) * (x - ops.floor(x)))
    return _named(found, lambda y: Select(left, y - mirror, y))


def _digamma_of_number(x: float) -> float:
    if x <= 0 and x == math.floor(x):
        return -math.inf  # from the right
    if x < 0.5:
        return _digamma_of_number(1 - x) - math.pi / math.tan(math.pi * x)
    steps = 0.0
    while x < 30:
        steps, x = steps + 1 / x, x + 1
    return math.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6) - steps


def _lgamma_of_number(x: float) -> float:
    return math.inf if x <= 0 and x == math.floor(x) else math.lgamma(x)


def _erfinv_of_number(y: float) -> float:
    """By bisection of `erf`, or of `erfc` near the ends."""
    if abs(y) >= 1:
        return math.copysign(math.inf if abs(y) == 1 else math.nan, y)
    low, high = 0.0, 7.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erf(middle) < abs(y) else (low, middle)
    return math.copysign(low, y)


def _each(function: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    def over(x: np.ndarray) -> np.ndarray:
        return np.vectorize(function, otypes=["float64"])(x)

    return over


def _by_kind(of_floats: Callable[..., PrimExpr], of_integers: Callable[..., PrimExpr]) -> Callable[..., PrimExpr]:
    return lambda a, b: of_floats(a, b) if _is_float(a) else of_integers(a, b)


def _remainder(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """With the sign of `b`, exact where the quotient is."""
    return _named(_fmod(a, b), lambda r: Select(ops.all(ops.not_equal(r, _like(0, r)), (r < 0) != (b < 0)), r + b, r))


def _fmod(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """With the sign of `a`."""
    return a - ops.trunc(a / b) * b


def _true_div(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return a / b if _is_float(a) else ops.cast("float32", a) / ops.cast("float32", b)


def _logical(combine: Callable[..., PrimExpr]) -> Callable[..., PrimExpr]:
    return lambda *values: _flag(combine(*(_as_condition(v) for v in values)))


def _compare(combine: Callable[..., PrimExpr]) -> Callable[..., PrimExpr]:
    return lambda a, b: _flag(combine(a, b))


def _where(c: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return Select(_as_condition(c), a, b)


def _np_where(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(c != 0, a, b)


def _to_int(rounded: Callable[[Any], Any]) -> Callable[[PrimExpr], PrimExpr]:
    return lambda x: ops.cast("int32", rounded(x))


U8 = "uint8"
# name, inputs, expression, NumPy, kinds of dtype that it takes, and by keyword: `result` (the dtype of y if it is not the
# input's), `cost` (arithmetic of one element, in additions), `attrs`, `conditions` (inputs that are flags).
ROWS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    (("Ub2ub", 1, lambda x: x, lambda x: x, "fiub"), {}),
    (("Nop", 1, lambda x: x, lambda x: x, "fiub"), {}),
    (("Pad", 1, lambda x: x, lambda x: x, "fiub"), {}),
    (("RemovePad", 1, lambda x: x, lambda x: x, "fiub"), {}),
    (("Abs", 1, lambda x: x if x.dtype.is_uint else ops.abs(x), np.abs, NUMBERS), {}),
    (("Neg", 1, lambda x: _like(0, x) - x, np.negative, NUMBERS), {}),
    (("Sign", 1, _unsigned_sign, np.sign, NUMBERS), {"cost": 2}),
    (("Relu", 1, lambda x: ops.maximum(x, _like(0, x)), lambda x: np.maximum(x, x.dtype.type(0)), NUMBERS), {}),
    (("Sqrt", 1, ops.sqrt, np.sqrt, FLOATS), {"cost": 4}),
    (("Rsqrt", 1, ops.rsqrt, CALLS["tir.rsqrt"], FLOATS), {"cost": 8}),
    (("Reciprocal", 1, lambda x: _like(1, x) / x, np.reciprocal, FLOATS), {"cost": 4}),
    (("Square", 1, lambda x: x * x, np.square, NUMBERS), {}),
    (("Exp", 1, ops.exp, np.exp, FLOATS), {"cost": 12}),
    (("Exp2", 1, ops.exp2, np.exp2, FLOATS), {"cost": 12}),
    (("Ln", 1, ops.log, np.log, FLOATS), {"cost": 14}),
    (("Log2", 1, ops.log2, np.log2, FLOATS), {"cost": 14}),
    (("Log10", 1, ops.log10, np.log10, FLOATS), {"cost": 14}),
    (("Sigmoid", 1, _sigmoid, CALLS["tir.sigmoid"], FLOATS), {"cost": 16}),
    (("Tanh", 1, ops.tanh, np.tanh, FLOATS), {"cost": 16}),
    (("Erf", 1, ops.erf, CALLS["tir.erf"], FLOATS), {"cost": 20}),
    (("Erfc", 1, lambda x: _like(1, x) - ops.erf(x), _each(math.erfc), FLOATS), {"cost": 21}),
    (("Erfinv", 1, _widen(_erfinv), _each(_erfinv_of_number), FLOATS), {"cost": 130}),
    (("Gelu", 1, _widen(_gelu), lambda x: x / (1 + np.exp(-1.5957691 * (x + 0.044715 * x**3))), FLOATS), {"cost": 20}),
    (("Log1p", 1, ops.log1p, np.log1p, FLOATS), {"cost": 14}),
    (("Expm", 1, _widen(_expm1), np.expm1, FLOATS), {"cost": 30}),
    (("LeakyRelu", 1, lambda x, negative_slope: Select(x > _like(0, x), x, x * _like(negative_slope, x)),
      lambda x, negative_slope: np.where(x > 0, x, x * x.dtype.type(negative_slope)), FLOATS),
     {"cost": 2, "attrs": {"negative_slope": 0.0}}),
    (("Ceil", 1, ops.ceil, np.ceil, FLOATS), {}),
    (("Floor", 1, ops.floor, np.floor, FLOATS), {}),
    (("Trunc", 1, ops.trunc, np.trunc, FLOATS), {}),
    (("Round", 1, ops.nearbyint, np.rint, FLOATS), {}),
    (("Ceil2Int", 1, _to_int(ops.ceil), np.ceil, FLOATS), {"result": "int32"}),
    (("FloorToInt", 1, _to_int(ops.floor), np.floor, FLOATS), {"result": "int32"}),
    *[((name, 1, getattr(ops, of), getattr(np, "arc" + of[1:] if of[0] == "a" else of), FLOATS), {"cost": 20})
      for name, of in [("Sin", "sin"), ("Cos", "cos"), ("Tan", "tan"), ("Asin", "asin"), ("Acos", "acos"),
                       ("Atan", "atan"), ("Sinh", "sinh"), ("Cosh", "cosh"), ("Asinh", "asinh"), ("Acosh", "acosh"),
                       ("Atanh", "atanh")]],
    (("Digamma", 1, _widen(_digamma), _each(_digamma_of_number), FLOATS), {"cost": 80}),
    (("Lgamma", 1, _widen(_lgamma), _each(_lgamma_of_number), FLOATS), {"cost": 90}),
    (("Isnan", 1, lambda x: _flag(ops.isnan(x)), np.isnan, FLOATS), {"result": U8}),
    (("IsInf", 1, lambda x: _flag(ops.isinf(x)), np.isinf, FLOATS), {"result": U8}),
    (("IsFinite", 1, lambda x: _flag(ops.isfinite(x)), np.isfinite, FLOATS), {"result": U8}),
    (("LogicalNot", 1, _logical(ops.logical_not), np.logical_not, "fiub"), {"result": U8}),
    (("BitwiseNot", 1, ops.bitwise_not, np.bitwise_not, "iu"), {}),
    (("Add", 2, operator.add, np.add, NUMBERS), {}),
    (("Sub", 2, operator.sub, np.subtract, NUMBERS), {}),
    (("Mul", 2, operator.mul, np.multiply, NUMBERS), {}),
    (("Maximum", 2, ops.maximum, np.maximum, NUMBERS), {}),
    (("Minimum", 2, ops.minimum, np.minimum, NUMBERS), {}),
    (("Pow", 2, ops.power, np.power, FLOATS), {"cost": 30}),
    (("Atan2", 2, ops.atan2, np.arctan2, FLOATS), {"cost": 25}),
    (("Hypot", 2, ops.hypot, np.hypot, FLOATS), {"cost": 8}),
    (("CopySign", 2, ops.copysign, np.copysign, FLOATS), {}),
    (("Div", 2, ops.div, np.divide, FLOATS), {"cost": 4}),
    (("TrueDiv", 2, _true_div, np.true_divide, NUMBERS), {"cost": 4, "result": "float"}),
    (("FloorDiv", 2, _by_kind(lambda a, b: ops.floor(a / b), ops.floordiv), np.floor_divide, NUMBERS), {"cost": 6}),
    (("TruncDiv", 2, _by_kind(lambda a, b: ops.trunc(a / b), ops.truncdiv),
      lambda a, b: np.trunc(a / b) if a.dtype.kind == "f" else (a - np.fmod(a, b)) // b, NUMBERS), {"cost": 6}),
    (("Remainder", 2, _by_kind(_widen(_remainder), ops.floormod), np.remainder, NUMBERS), {"cost": 8}),
    (("Fmod", 2, _by_kind(_widen(_fmod), ops.truncmod), np.fmod, NUMBERS), {"cost": 7}),
    (("Mod", 2, _by_kind(_widen(_remainder), ops.floormod), np.remainder, NUMBERS), {"cost": 8}),
    (("Axpy", 2, lambda a, b, alpha: a + _like(alpha, a) * b, lambda a, b, alpha: a + a.dtype.type(alpha) * b, FLOATS),
     {"cost": 2, "attrs": {"alpha": 1.0}}),
    (("Ge", 2, _compare(ops.greater_equal), np.greater_equal, NUMBERS), {"result": U8}),
    (("Gt", 2, _compare(ops.greater), np.greater, NUMBERS), {"result": U8}),
    (("Le", 2, _compare(ops.less_equal), np.less_equal, NUMBERS), {"result": U8}),
    (("Lt", 2, _compare(ops.less), np.less, NUMBERS), {"result": U8}),
    (("Eq", 2, _compare(ops.equal), np.equal, NUMBERS), {"result": U8}),
    (("Ne", 2, _compare(ops.not_equal), np.not_equal, NUMBERS), {"result": U8}),
    (("LogicalAnd", 2, _logical(ops.logical_and), np.logical_and, "fiub"), {"result": U8}),
    (("LogicalOr", 2, _logical(ops.logical_or), np.logical_or, "fiub"), {"result": U8}),
    (("LogicalXor", 2, lambda a, b: ops.bitwise_xor(_flag(_as_condition(a)), _flag(_as_condition(b))), np.logical_xor, "fiub"),
     {"result": U8}),
    (("BitwiseAnd", 2, ops.bitwise_and, np.bitwise_and, "iu"), {}),
    (("BitwiseOr", 2, ops.bitwise_or, np.bitwise_or, "iu"), {}),
    (("BitwiseXor", 2, ops.bitwise_xor, np.bitwise_xor, "iu"), {}),
    (("Xor", 2, ops.bitwise_xor, np.bitwise_xor, "iu"), {}),
    (("LShift", 2, ops.shift_left, np.left_shift, "iu"), {}),
    (("RShift", 2, ops.shift_right, np.right_shift, "iu"), {}),
    (("Where", 3, _where, _np_where, "fiub"), {"cost": 2, "conditions": (0,)}),
    (("Select", 3, _where, _np_where, "fiub"), {"cost": 2, "conditions": (0,)}),
    (("ClipByValue", 3, lambda x, low, high: ops.minimum(ops.maximum(x, low), high),
      lambda x, low, high: np.minimum(np.maximum(x, low), high), NUMBERS), {"cost": 2}),
    (("MaskedFill", 3, lambda x, mask, value: Select(_as_condition(mask), value, x),
      lambda x, mask, value: np.where(mask != 0, value, x), "fiub"), {"cost": 2, "conditions": (1,)}),
    (("Fma", 3, lambda a, b, c: a * b + c, lambda a, b, c: a * b + c, NUMBERS), {"cost": 2}),
]  # fmt: skip
