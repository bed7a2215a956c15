"""Numbers with bounds of their rounding errors: what a program may compute, rather than what it computes.

The method is running error analysis (Wilkinson; Higham, Accuracy and Stability of Numerical Algorithms,
2nd ed., sections 3.3 and 4.2): every value is computed in float64 together with a bound of how far a correct
program of the declared dtypes may be from it. An operation passes the bounds of its operands on and adds the
rounding of its own result, `u |x|`, `u` being the unit roundoff of its dtype (2^-24 for float32), and the
smallest subnormal number if the result may underflow. What float64 rounds while the value itself is computed is added as well,
so that the bound holds between two programs of float64, too. Sums are bounded for every order (`error_sums.py`).

Whoever leaves roundings out (a fused multiply-add, a higher precision) stays within the bound.
A comparison whose operands are nearer to each other than their bounds may have either result;
what selects by it may be either branch, a cast to an integer either neighbour. A divisor or a logarithm that may be zero
has no bound: nothing is known of the result, its error is infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.eval.ops import BINARY
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.te.error_ties import fresh_numbers, mixed, numbers_of_bits, ties, undecided

Array = Any
REFERENCE = 2.0**-52  # what float64 may lose in one operation of the reference, a power of two to spare


class Approximate(NamedTuple):
    """Values of which a program may be off by `error`, both arrays that broadcast to one shape.

    Floats are float64 whatever their dtype in the program; integers are in their own dtype. `error` is float64;
    infinite if anything may be there. A bool that may be either has the error 1. `number` holds value numbers
    (`error_ties.py`): any program computes the same bits for values of one number. None, or 0 for an element, is unknown.
    """

    value: Array
    error: Array
    number: Array | None = None


# An array alone is exact.
Value = np.ndarray | Approximate


@dataclass(frozen=True)
class Format:
    """A dtype of floats: its unit roundoff, the smallest and the largest positive number."""

    digits: int
    tiny: float
    top: float

    @property
    def unit(self) -> float:
        """The unit roundoff; 16-bit floats are rounded from a float32 result."""
        return 2.0**-self.digits + (2.0**-24 if self.digits < 24 else 0.0)

    @property
    def edge(self) -> float:
        """The least number that is rounded to infinity."""
        return self.top * (1 + 2.0 ** -(self.digits + 1))


FORMATS = {
    "float16": Format(11, 2.0**-24, 65504.0),
    "bfloat16": Format(8, 2.0**-133, (2 - 2.0**-7) * 2.0**127),
    "float32": Format(24, 2.0**-149, (2 - 2.0**-23) * 2.0**127),
    "float64": Format(53, 2.0**-1074, (2 - 2.0**-52) * 2.0**1023),
}
_CONTAINED = {("float16", "float32"), ("bfloat16", "float32")}


def parts(value: Value) -> tuple[Array, Array | None]:
    """The value and its error, which is None if it is exact."""
    return value[:2] if isinstance(value, Approximate) else (value, None)


def number_of(value: Value) -> Array | None:
    """The value numbers of `value`; None if they are unknown or the evaluation does without."""
    if not ties().numbered:
        return None
    return value.number if isinstance(value, Approximate) else numbers_of_bits(value)


def numbered(result: Value, operation: str, operands: Sequence[Value]) -> Value:
    """`result` with the value numbers of an operation on operands."""
    if not isinstance(result, Approximate) or not ties().numbered:
        return result
    numbers = [n for n in map(number_of, operands) if n is not None]
    return result._replace(number=mixed(operation, numbers)) if len(numbers) == len(operands) else result


def stored_numbers(value: Value, shape: tuple[int, ...]) -> Array:
    """Value numbers of elements of memory after `value` was stored; a value of unknown number gets one of its own."""
    numbers = number_of(value)
    if numbers is None:
        return fresh_numbers(shape)
    numbers = np.broadcast_to(numbers, shape)
    return numbers if np.all(numbers) else np.where(numbers == 0, fresh_numbers(shape), numbers)


def format_of(dtype: Any) -> Format:
    """The format of a dtype of floats."""
    found = FORMATS.get(str(dtype.element_of))
    if found is None:
        raise TVMagicError(f"rounding errors of `{dtype}` are not known", code="error_bound.unknown_format")
    return found


# ---------------------------------------------------------------------------- rounding


def rounded(
    value: Array,
    before: Array | None,
    dtype: ir.DataType,
    units: float | None = None,
    underflow: bool = True,
    scale: float = 1.0,
) -> Value:
    """A result of floats after rounding to `dtype`.

    Parameters
    ----------
    before: the error that its operands cause; None if they are exact.
    units: how many units roundoff the result may be off; None if it is the nearest number.
    underflow: whether a result below the normal numbers may be inexact, as a sum's cannot.
    scale: how many times this rounding happens.
    """
    form = format_of(dtype)
    rate, smallest = form.unit * scale, form.tiny * scale
    if units is not None:  # 16-bit floats are computed in float32 and then rounded
        rate, smallest = (
            (form.unit + units * 2.0**-24, form.tiny) if form.digits < 24 else (units * form.unit, form.tiny * units)
        )
        rate, smallest = rate * scale, smallest * scale
    size = np.abs(value) if before is None else np.abs(value) + before
    own = size * (rate + REFERENCE)
    if underflow:
        own = own + smallest
    if units is None and form.digits < 53:
        exact = value.astype(numpy_dtype(str(dtype.element_of))) == value
        if before is not None:
            exact = exact & (before == 0)
        elif np.all(exact):
            return value
        own = np.where(exact, 0.0, own)
    return bounded(value, own if before is None else before + own, before, form)


def bounded(value: Array, error: Array, before: Array | None, form: Format) -> Value:
    """A result whose bound is `error` unless it overflows or is not a number.

    `before` is the error that its operands cause: infinities and NaN that follow from exact operands are exact.
    """
    with np.errstate(all="ignore"):
        if np.all(np.abs(value) + error <= form.top):
            return Approximate(value, error)
        finite = np.isfinite(value)
        certain = finite & (np.abs(value) - error > form.edge)
        unsure = np.logical_not(np.isfinite(before)) if before is not None else np.asarray(False)
        error = np.where(np.isnan(error) | (np.abs(value) + error >= form.edge), np.inf, error)
        error = np.where(certain, 0.0, np.where(finite, error, np.where(unsure, np.inf, 0.0)))
        return Approximate(np.where(certain, np.copysign(np.inf, value), value), error)


def times(size: Array, error: Array) -> Array:
    """`|size| error`; 0 if the error is 0, and infinite for an unknown factor."""
    result = np.abs(size) * error
    if np.all(np.isfinite(result)):
        return result
    return np.where(error == 0, 0.0, np.where(np.isnan(result), np.inf, result))


def either(value: Array, other: Array, other_error: Array | None) -> Array:
    """How far from `value` a result may be that may also be `other`."""
    with np.errstate(all="ignore"):
        apart = np.abs(np.asarray(value, np.float64) - np.asarray(other, np.float64))
        apart = np.where(np.equal(value, other), 0.0, np.where(np.isnan(apart), np.inf, apart))
    return apart if other_error is None else apart + other_error


# ---------------------------------------------------------------------------- binary operators

Operands = tuple[Array, Array, Array | None, Array, Array | None]  # the result, then each operand and its error


def _zero(error: Array | None) -> Array:
    return np.float64(0) if error is None else error


def _sum_error(at: Operands) -> Array:
    return _zero(at[2]) + _zero(at[4])


def _product_error(at: Operands) -> Array:
    _, a, ea, b, eb = at
    if ea is None:
        return times(a, eb)
    if eb is None:
        return times(b, ea)
    return times(a, eb) + times(b, ea) + times(ea, eb)


def _quotient_error(at: Operands) -> Array:
    """(a + da) / (b + db) - a / b = (da - (a / b) db) / (b + db)."""
    quotient, a, ea, b, eb = at
    quotient = a / b
    room = np.abs(b) if eb is None else np.abs(b) - eb
    moved = _zero(ea) + (0.0 if eb is None else times(quotient, eb))
    with np.errstate(all="ignore"):
        error = np.where(room > 0, moved / room, np.inf)
    sure = (b == 0) & (_zero(eb) == 0) & ((np.abs(a) > _zero(ea)) | (_zero(ea) == 0))
    return np.where(sure | (moved == 0) & (_zero(eb) == 0), 0.0, error)


def _reciprocal_error(at: Operands, before: Array | None, dtype: ir.DataType) -> Array | None:
    """TVM's simplifier multiplies by the reciprocal of a constant divisor, which is rounded, too."""
    divisor, form = float(at[3]), format_of(dtype)
    if not np.isfinite(divisor) or divisor == 0 or abs(np.frexp(divisor)[0]) == 0.5:
        return before
    moved = np.where(np.isfinite(at[0]), np.abs(at[0]) * form.unit + np.abs(at[1]) * form.tiny, 0.0)
    return moved if before is None else before + moved


def _whole_quotient_error(at: Operands, dtype: ir.DataType) -> Array:
    """That of the quotient, then the steps that rounding it down or to zero crosses."""
    result, a, ea, b, eb = at
    with np.errstate(all="ignore"):
        exact = np.asarray(a, np.float64) / np.asarray(b, np.float64)
        error = _quotient_error((exact, np.asarray(a, np.float64), ea, np.asarray(b, np.float64), eb))
        if dtype.is_float:
            error = error + np.abs(exact) * (format_of(dtype).unit + REFERENCE)
        steps = np.maximum(np.floor(exact + error) - np.floor(exact), np.floor(exact) - np.floor(exact - error))
    whole = np.where(np.isnan(steps), np.inf, steps)
    if not dtype.is_float:
        whole = np.where((_zero(ea) == 0) & (_zero(eb) == 0), 0.0, whole + 1)
    return np.where(undecided(np.isfinite(whole) & (whole > 0)) | np.isinf(whole), whole, 0.0)


def _remainder_error(at: Operands, dtype: ir.DataType) -> Array:
    """a - n b, of which n may be another if the quotient is near a whole number."""
    result, a, ea, b, eb = at
    if ea is None and eb is None:
        return np.float64(0)
    with np.errstate(all="ignore"):
        exact = np.asarray(a, np.float64) / np.asarray(b, np.float64)
        moved = _quotient_error((exact, np.asarray(a, np.float64), ea, np.asarray(b, np.float64), eb))
        other = undecided(np.floor(exact - moved) != np.floor(exact + moved))
        size = np.abs(np.asarray(b, np.float64)) + _zero(eb)
        error = _zero(ea) + times(np.abs(exact) + 1, _zero(eb)) + np.where(other, size, 0.0)
    return np.where((_zero(ea) == 0) & (_zero(eb) == 0), 0.0, np.where(np.isnan(error), np.inf, error))


def _extreme_error(choose_one: Callable[[Array, Array], Array]) -> Callable[[Operands], Array]:
    """A larger (smaller) value lies between that of the lower and that of the upper ends."""

    def rule(at: Operands) -> Array:
        result, a, ea, b, eb = at
        with np.errstate(all="ignore"):
            high = choose_one(a + _zero(ea), b + _zero(eb)) - result
            low = result - choose_one(a - _zero(ea), b - _zero(eb))
            error = np.maximum(high, low)
        exact = (_zero(ea) == 0) & (_zero(eb) == 0)
        return np.where(exact | np.isinf(result) & np.isnan(error), 0.0, np.where(np.isnan(error), np.inf, error))

    return rule


_ERRORS: dict[type, Callable[[Operands], Array]] = {
    ir.Add: _sum_error,
    ir.Sub: _sum_error,
    ir.Mul: _product_error,
    ir.Div: _quotient_error,
    ir.Min: _extreme_error(np.minimum),
    ir.Max: _extreme_error(np.maximum),
}
_ROUNDED = {ir.Add: False, ir.Sub: False, ir.Mul: True, ir.Div: True}  # whether the result may underflow
_WHOLE: dict[type, Callable[[Operands, ir.DataType], Array]] = {
    ir.FloorDiv: _whole_quotient_error,
    ir.Mod: _remainder_error,
    ir.FloorMod: _remainder_error,
}
_COMPARED = {ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE}


def binary(kind: type, a: Value, b: Value, dtype: ir.DataType, scale: float = 1.0) -> Value:
    """The result of an operator on operands of `dtype`, which is floats, integers or bool."""
    if not ties().numbered:
        return _plain_binary(kind, a, b, dtype, scale)
    na, nb, equal = number_of(a), number_of(b), None
    if na is not None and nb is not None and (isinstance(a, Approximate) or isinstance(b, Approximate)):
        equal = np.asarray((na == nb) & (na != 0))
    result = _plain_binary(kind, a, b, dtype, scale, equal)
    if na is None or nb is None or not isinstance(result, Approximate):
        return result
    if kind in (ir.Max, ir.Min):
        return result._replace(number=_extreme_number(kind, a, b, na, nb))
    pair = [np.minimum(na, nb), np.maximum(na, nb)] if kind in (ir.Add, ir.Mul) else [na, nb]
    return result._replace(number=mixed(f"{kind.__name__} {dtype}", pair))


def _extreme_number(kind: type, a: Value, b: Value, na: Array, nb: Array) -> Array:
    """That of the operand that is certainly the larger (smaller) one, which the result is a copy of; else one of the pair."""
    (va, ea), (vb, eb) = parts(a), parts(b)
    with np.errstate(all="ignore"):
        apart = np.abs(va - vb) > _zero(ea) + _zero(eb)
    first = va > vb if kind is ir.Max else va < vb
    pair = mixed(kind.__name__, [np.minimum(na, nb), np.maximum(na, nb)])
    return np.where(na == nb, na, np.where(apart, np.where(first, na, nb), pair))


def _plain_binary(
    kind: type, a: Value, b: Value, dtype: ir.DataType, scale: float, equal: Array | None = None
) -> Value:
    """The result without its number. `equal`: where both operands are the same bits in any program."""
    (va, ea), (vb, eb) = parts(a), parts(b)
    value = np.asarray(BINARY[kind](va, vb))
    exact = ea is None and eb is None
    if kind in _COMPARED:
        return value if exact else _compared(kind, value, (va, ea, vb, eb), equal)
    if kind in (ir.And, ir.Or):
        return value if exact else Approximate(value, _undecided_logic(kind, va, ea, vb, eb))
    at = (value, va, ea, vb, eb)
    if dtype.is_float:
        result = _float_result(kind, at, dtype, exact, scale)
        return _without_difference(result, equal) if kind is ir.Sub and equal is not None else result
    if exact:
        return value
    rule = _WHOLE.get(kind)
    error = rule(at, dtype) if rule is not None else _integer_error(kind, at, dtype)
    return Approximate(value, _wrapped(value, error))


def _integer_error(kind: type, at: Operands, dtype: ir.DataType) -> Array:
    if kind is ir.Div:
        return _whole_quotient_error(at, dtype)
    value, a, ea, b, eb = at
    wide = (np.asarray(value, np.float64), np.asarray(a, np.float64), ea, np.asarray(b, np.float64), eb)
    return np.asarray(_ERRORS[kind](wide), np.float64)


def _wrapped(value: Array, error: Array) -> Array:
    """The error of an integer, unknown if it may wrap around."""
    if value.dtype.kind == "b":
        return np.minimum(error, 1.0)
    info, wide = np.iinfo(value.dtype), value.astype(np.float64)
    inside = (error == 0) | ((wide - error >= info.min) & (wide + error <= info.max))
    return np.where(inside, error, np.inf)


def _float_result(kind: type, at: Operands, dtype: ir.DataType, exact: bool, scale: float) -> Value:
    if kind in _WHOLE:
        error = np.broadcast_to(_WHOLE[kind](at, dtype), at[0].shape)
        return Approximate(at[0], error) if np.any(error) else at[0]
    before = None if exact else _ERRORS[kind](at)
    if kind is ir.Div and np.ndim(at[3]) == 0:
        before = _reciprocal_error(at, before, dtype)
    if kind not in _ROUNDED:
        return at[0] if before is None else Approximate(at[0], before)
    return rounded(at[0], before, dtype, underflow=_ROUNDED[kind], scale=scale)


def _compared(
    kind: type, value: Array, at: tuple[Array, Array | None, Array, Array | None], equal: Array | None
) -> Value:
    """A comparison, with the error 1 where its operands are not farther apart than their errors."""
    a, ea, b, eb = at
    margin = _zero(ea) + _zero(eb)
    with np.errstate(all="ignore"):
        apart = np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64))
    close = np.logical_not(apart > margin) & ((margin > 0) & np.isfinite(apart) | np.isinf(margin))
    if equal is not None and np.any(equal):
        same = equal & np.isfinite(apart)
        value, close = np.where(same, kind in (ir.EQ, ir.LE, ir.GE), value), close & np.logical_not(same)
    close = np.broadcast_to(close, np.shape(value))
    return Approximate(value, undecided(close).astype(np.float64))


def _without_difference(result: Value, equal: Array) -> Value:
    """A difference of equal bits is exactly 0, unless they are infinite or no number."""
    value, error = parts(result)
    same = equal & np.isfinite(value)
    if error is None or not np.any(same):
        return result
    return Approximate(np.where(same, 0.0, value), np.where(same, 0.0, error))


def _undecided_logic(kind: type, a: Array, ea: Array | None, b: Array, eb: Array | None) -> Array:
    """An operand that decides the result alone makes that of the other irrelevant."""
    open_a, open_b = _zero(ea) > 0, _zero(eb) > 0
    may_a, may_b = (a, b) if kind is ir.And else (np.logical_not(a), np.logical_not(b))
    return ((open_a & (may_b | open_b)) | (open_b & (may_a | open_a))).astype(np.float64)


# ---------------------------------------------------------------------------- casts and choices


def cast(x: Value, source: ir.DataType, target: ir.DataType, scale: float = 1.0) -> Value:
    """`x` of `source` converted to `target`."""
    value, error = parts(x)
    source, target = source.element_of, target.element_of
    if target.is_bool:
        if error is None:
            return value != 0
        return Approximate(value != 0, undecided((error > 0) & (np.abs(value) <= error)).astype(np.float64))
    if target.is_float:
        result = _to_float(value, error, source, target, scale)
        if _is_contained(source, target) and isinstance(result, Approximate):
            return result._replace(number=number_of(x))
    elif source.is_float:
        result = _to_integer(value, error, numpy_dtype(target))
    else:
        result = value.astype(numpy_dtype(target))
        result = result if error is None else Approximate(result, _wrapped(result, error))
    return numbered(result, f"{target}({source})", [x])


def _is_contained(source: ir.DataType, target: ir.DataType) -> bool:
    """Whether the float dtype `target` holds all values of `source`."""
    return source.is_float and (str(target) in (str(source), "float64") or (str(source), str(target)) in _CONTAINED)


def _to_float(value: Array, error: Array | None, source: ir.DataType, target: ir.DataType, scale: float) -> Value:
    wide = np.asarray(value).astype(np.float64)
    if _is_contained(source, target) or (str(target) == "float64" and np.all(np.abs(wide) <= 2.0**53)):
        return wide if error is None else Approximate(wide, error)
    return rounded(wide, error, target, scale=scale)


def _to_integer(value: Array, error: Array | None, kind: np.dtype[Any]) -> Value:
    """Rounded to zero; nothing is known of what is outside the range, which C leaves open."""
    info = np.iinfo(kind)
    slack = _zero(error)
    with np.errstate(all="ignore"):
        low, whole, high = np.trunc(value - slack), np.trunc(value), np.trunc(value + slack)
        inside = (low >= float(info.min)) & (high < float(info.max) + 1 if info.bits > 32 else high <= info.max)
        result = np.where(inside, whole, 0).astype(kind)
        moved = np.maximum(high - whole, whole - low)
        moved = np.where(inside, np.where(undecided(inside & (moved > 0)), moved, 0.0), np.inf)
    return Approximate(result, moved) if np.any(moved) else result


def choose(condition: Value, then: Value, otherwise: Value) -> Value:
    """`then` if the condition holds; if it may or may not hold, the error reaches to the other value."""
    holds, open_ = parts(condition)
    (a, ea), (b, eb) = parts(then), parts(otherwise)
    value = np.where(holds, a, b)
    if open_ is None and ea is None and eb is None:
        return value
    error, number = np.where(holds, _zero(ea), _zero(eb)), None
    na, nb = number_of(then), number_of(otherwise)
    if na is not None and nb is not None:
        number, nc = np.where(holds, na, nb), number_of(condition)
        if open_ is not None:
            open_ = np.where((na == nb) & (na != 0), 0.0, open_)  # both branches are the same bits
            either_one = np.uint64(0) if nc is None else mixed("select", [nc, na, nb])
            number = np.where(open_ > 0, either_one, number)
    if open_ is not None and np.any(open_):
        other = np.where(holds, either(value, b, eb), either(value, a, ea))
        error = np.where(open_ > 0, np.maximum(error, other), error)
    return Approximate(value, error, number)
