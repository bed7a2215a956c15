"""The math functions: range reduction and polynomials.

The forms are the usual ones (Muller, Elementary Functions, 3rd ed.; Cody and Waite, 1980): reduce
the argument exactly by constants split in parts, evaluate a polynomial, scale back. Coefficients
were fitted for the least largest error (Lawson's iteration). Products that must be exact
use `fma`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tvmagic.codegen.math.math_text import MathText
from tvmagic.codegen.text.rules import own

_INF, _NAN = math.inf, math.nan
_LOG2_E = 1.4426950408889634
_SQRT_HALF_BITS = 0x3F3504F3  # of float32
_MANTISSA = 0x7FFFFF

# (exp(r) - 1 - r) / r^2 on |r| <= ln(2)/2
_EXP = (0.0013813142368111623, 0.008369419043623224, 0.041668456833099894, 0.16666514789117093, 0.49999993050495953)
# The same by bits of the type: Taylor's polynomial of degree 13 in float64
EXP_SERIES = {32: _EXP, 64: tuple(1.0 / math.factorial(k) for k in range(13, 1, -1))}
# (2^r - 1 - r ln 2) / r^2 on |r| <= 1/2
_EXP2 = (0.0001531952339703027, 0.0013391296256389713, 0.009618542340874092, 0.0555036028751408, 0.2402264735699799)
# (log(1 + f) - f + f^2/2) / f^3 on sqrt(1/2) <= 1 + f <= sqrt(2)
_LOG = (
    0.06746601247190986, -0.11675641270986711, 0.11888174618279836, -0.12405591424227928, 0.14219550906336698,
    -0.16667995666594557, 0.2000211873228384, -0.25000009603665335, 0.3333331260280168,
)  # fmt: skip
# (log2(1 + f) - f / ln 2) / f^2 on the same
_LOG2 = (
    0.0970209867906547, -0.16844916268644192, 0.17169466181458717, -0.1790001774296881, 0.20511776928309547,
    -0.24046391450210935, 0.28857103604777457, -0.36067413121162667, 0.48089802204332355, -0.7213475168877105,
)  # fmt: skip
# (sin(r) - r) / r^3 and (cos(r) - 1 + r^2/2) / r^4 in r^2, on |r| <= pi/4
_SIN = (2.717568124855055e-06, -0.00019839257021035735, 0.008333329145121294, -0.16666666639568223)
_COS = (2.442571687237033e-05, -0.0013887251791073326, 0.041666644373971405)
# (tanh(x) - x) / x^3 in x^2, on |x| <= 0.625
_TANH = (0.0021429587424530955, -0.008177394584514228, 0.0217007016097027, -0.053946762735525434, 0.1333320600544627, -0.333333308026434)  # fmt: skip
# exp(2r) on |r| <= ln(2)/4
_EXP_OF_DOUBLE = (0.08859910070896149, 0.2679745554924011, 0.666688084602356, 1.3333144187927246, 1.999999761581421, 2.0, 1.0)  # fmt: skip
# (erf(x) / x - 2 / sqrt(pi)) / x^2 in x^2, on |x| <= 0.9
_ERF = (8.552197626191584e-05, -0.0008185953562380474, 0.005204905401338965, -0.026861017289359895, 0.11283727024600465, -0.3761263617991277)  # fmt: skip
# log(1 - erf(x)) on 0.85 <= x <= 4
_ERFC = (
    -2.001785533557257e-05, 0.00042217920919054993, -0.004112457330376137, 0.024967708253470486, -0.10804979681300947,
    -0.6335519968425646, -1.1294156311688828, 0.00015450316475143936,
)  # fmt: skip


# ---------------------------------------------------------------------------- exponentials


def clamp(m: MathText, x: str, low: float, high: float) -> str:
    """`x` between `low` and `high`; NaN stays."""
    x = m.select(m.compare("olt", x, low), low, x)
    return m.select(m.compare("ogt", x, high), high, x)


@own("exp", 32)
def exp_float(m: MathText, x: str) -> str:
    """exp(x) = 2^n exp(r), x = n ln 2 + r."""
    x = clamp(m, x, -104.0, 89.0)
    n = m.rint(m.mul(x, _LOG2_E))
    r = m.fma(n, 2.12194440054690583e-4, m.fma(n, -0.693359375, x))
    return m.scale(_exp_reduced(m, r), n)


def _exp_reduced(m: MathText, r: str) -> str:
    return m.add(m.fma(m.mul(r, r), m.horner(r, _EXP), r), 1.0)


@own("exp2", 32)
def exp2_float(m: MathText, x: str) -> str:
    """2^x = 2^n 2^r."""
    x = clamp(m, x, -151.0, 129.0)
    n = m.rint(x)
    r = m.sub(x, n)
    return m.scale(m.add(m.fma(m.mul(r, r), m.horner(r, _EXP2), m.mul(r, math.log(2))), 1.0), n)


@own("exp10", 32)
def exp10_float(m: MathText, x: str) -> str:
    """10^x = 2^n exp(r ln 10), x = n log10(2) + r."""
    x = clamp(m, x, -46.0, 39.0)
    n = m.rint(m.mul(x, math.log2(10)))
    high = 0.30078125  # few bits, so that n * high is exact
    r = m.fma(n, -(math.log10(2) - high), m.fma(n, -high, x))
    t = m.mul(r, 2.302585092994046)
    low = m.fma(r, 2.302585092994046, m.neg(t))
    low = m.fma(r, 2.302585092994046 - 2.302585124969482421875, low)
    return m.scale(m.add(_exp_reduced(m, m.add(t, low)), 0.0), n)


@own("exp", 64)
def exp_double(m: MathText, x: str) -> str:
    """As exp_float, with Taylor's polynomial of degree 13."""
    x = clamp(m, x, -746.0, 710.0)
    n = m.rint(m.mul(x, _LOG2_E))
    r = m.fma(n, -1.90821492927058770002e-10, m.fma(n, -6.93147180369123816490e-01, x))
    return m.scale(m.add(m.fma(m.mul(r, r), m.horner(r, EXP_SERIES[64]), r), 1.0), n)


@own("exp2", 64)
def exp2_double(m: MathText, x: str) -> str:
    """2^x = 2^n exp(r ln 2)."""
    x = clamp(m, x, -1076.0, 1025.0)
    n = m.rint(x)
    r = m.sub(x, n)
    t = m.mul(r, math.log(2))
    low = m.fma(r, 2.3190468138462996e-17, m.fma(r, math.log(2), m.neg(t)))
    tail = m.fma(m.mul(t, t), m.horner(t, EXP_SERIES[64]), low)
    return m.scale(m.add(m.add(tail, t), 1.0), n)


@own("sigmoid", 32, 64)
def sigmoid(m: MathText, x: str) -> str:
    """1 / (1 + exp(-x)), by the exponential of -|x| so that small results keep their digits."""
    e = m.own("exp", m.neg(m.abs(x)))
    top = m.select(m.compare("olt", x, 0.0), e, 1.0)
    d = m.add(e, 1.0)
    lost = m.sub(e, m.sub(d, 1.0))  # what rounding 1 + e lost: over d, nearly, if it counts
    q = m.div(top, d)
    return m.fma(m.neg(q), lost, q)


@own("tanh", 32)
def tanh_float(m: MathText, x: str) -> str:
    """An odd polynomial near 0, else 1 - 2 / (exp(2|x|) + 1)."""
    size = m.abs(x)
    square = m.mul(x, x)
    near = m.fma(m.mul(square, m.horner(square, _TANH)), size, size)
    far = m.sub(1.0, m.div(2.0, m.add(_exp_of_double(m, size), 1.0)))
    return m.copysign(m.select(m.compare("ult", size, 0.625), near, far), x)  # `near` of NaN is NaN


def _exp_of_double(m: MathText, x: str) -> str:
    """exp(2x) = 2^n exp(2r), x = n ln(2)/2 + r, for x from 0.6 to 9.02, as which greater ones count: tanh is 1 from there on.

    As n is neither negative nor large, nothing overflows: it is read from the last bits of a sum, and added to the exponent.
    One constant for ln(2)/2 is exact enough, as the error counts less the larger n is.
    """
    x = m.select(m.compare("ogt", x, 9.02), 9.02, x)
    sum_ = m.fma(x, 2 * _LOG2_E, 1.5 * 2.0**23)
    r = m.fma(m.sub(sum_, 1.5 * 2.0**23), -math.log(2) / 2, x)
    n = m.int_op("shl", m.bits(sum_), 23)
    return m.floats(m.int_op("add", m.bits(m.horner(r, _EXP_OF_DOUBLE)), n))


@own("erf", 32)
def erf_float(m: MathText, x: str) -> str:
    """An odd polynomial near 0, else 1 - exp(p(|x|))."""
    size = m.abs(x)
    square = m.mul(x, x)
    p = m.horner(square, _ERF)
    near = m.fma(m.fma(p, square, 0.12837916709551256), size, size)
    bounded = m.select(m.compare("ogt", size, 4.0), 4.0, size)
    far = m.sub(1.0, m.own("exp", m.horner(bounded, _ERFC)))
    return m.copysign(m.select(m.compare("olt", size, 0.9), near, far), x)


# ---------------------------------------------------------------------------- logarithms


class _Layout(NamedTuple):
    """How a type of floats is laid out: bits of the fraction, the bits of sqrt(1/2), the smallest normal number, and by which
    power of 2 subnormal numbers are made normal."""

    fraction: int
    sqrt_half: int
    smallest: float
    lift: int


_SINGLE = _Layout(23, _SQRT_HALF_BITS, 2.0**-126, 23)
_DOUBLE = _Layout(52, 0x3FE6A09E667F3BCD, 2.0**-1022, 54)


def _split(m: MathText, x: str, layout: _Layout = _SINGLE) -> tuple[str, str]:
    """x = 2^e (1 + f) with 1 + f between sqrt(1/2) and sqrt(2); subnormal numbers too.

    Gives e and f; what they are for zero, negative numbers, infinity and NaN does not matter.
    """
    tiny = m.compare("olt", x, layout.smallest)
    scaled = m.select(tiny, m.mul(x, 2.0**layout.lift), x)
    offset = m.int_select(tiny, -layout.lift, 0)
    shifted = m.int_op("sub", m.bits(scaled), layout.sqrt_half)
    e = m.to_float(m.int_op("add", m.int_op("ashr", shifted, layout.fraction), offset))
    mantissa = m.int_op("add", m.int_op("and", shifted, (1 << layout.fraction) - 1), layout.sqrt_half)
    return e, m.sub(m.floats(mantissa), 1.0)


def _log_ends(m: MathText, x: str, result: str) -> str:
    """The values of a logarithm at and below zero, at infinity and NaN."""
    result = m.select(m.compare("oeq", x, _INF), _INF, result)
    result = m.select(m.compare("oeq", x, 0.0), -_INF, result)
    return m.select(m.compare("uge", x, 0.0), m.select(m.compare("uno", x, x), x, result), _NAN)


@own("log", 32)
def log_float(m: MathText, x: str) -> str:
    """log(x) = e ln 2 + log(1 + f)."""
    return _log_ends(m, x, _log_sum(m, *_split(m, x)))


def _log_sum(m: MathText, e: str, f: str, lost: str | None = None) -> str:
    """e ln 2 + log(1 + f), and what is `lost` so far."""
    square = m.mul(f, f)
    tail = m.mul(m.mul(square, f), m.horner(f, _LOG))
    if lost is not None:
        tail = m.add(tail, lost)
    tail = m.fma(e, -2.12194440054690583e-4, tail)
    tail = m.fma(square, -0.5, tail)
    return m.fma(e, 0.693359375, m.add(f, tail))


def _log_base(m: MathText, x: str, slope: float, power: float, low: float) -> str:
    """A logarithm whose derivative at 1 is `slope`; that of 2 is `power` (few bits) plus `low`."""
    e, f = _split(m, x)
    ratio = slope / _LOG2_E
    high = float.fromhex("0x1.715p0") if ratio == 1.0 else float.fromhex("0x1.bcbp-2")
    curve = m.mul(m.mul(f, f), m.horner(f, [c * ratio for c in _LOG2]))
    rest = m.fma(f, slope - high, curve)
    if low:
        rest = m.fma(e, low, rest)
    if not m.context.has_fma:  # the product with `high` is exact for the upper 11 digits of `f`, as `high` has 13
        upper = m.floats(m.int_op("and", m.bits(f), -1 << 13))
        f, rest = upper, m.fma(m.sub(f, upper), high, rest)
    # e is zero if the sum could lose digits to it
    return _log_ends(m, x, m.fma(e, power, m.fma(f, high, rest)))


@own("log2", 32)
def log2_float(m: MathText, x: str) -> str:
    return _log_base(m, x, _LOG2_E, 1.0, 0.0)


@own("log10", 32)
def log10_float(m: MathText, x: str) -> str:
    return _log_base(m, x, 0.4342944819032518, 0.30078125, math.log10(2) - 0.30078125)


@own("log1p", 32)
def log1p_float(m: MathText, x: str) -> str:
    """log(1 + x): the logarithm of u = 1 + x as rounded, and what the rounding lost over u."""
    u = m.add(x, 1.0)
    shifted = m.int_op("sub", m.bits(u), _SQRT_HALF_BITS)
    k = m.int_op("ashr", shifted, 23)
    near = m.int_compare("eq", k, 0)
    mantissa = m.int_op("add", m.int_op("and", shifted, _MANTISSA), _SQRT_HALF_BITS)
    f = m.select(near, x, m.sub(m.floats(mantissa), 1.0))
    lost = m.select(m.compare("ogt", x, 1.0), m.sub(1.0, m.sub(u, x)), m.sub(x, m.sub(u, 1.0)))
    lost = m.select(near, 0.0, m.div(lost, u))
    result = _log_ends(m, u, _log_sum(m, m.to_float(k), f, lost))
    return m.select(m.compare("oeq", x, 0.0), x, result)


@own("log", 64)
def log_double(m: MathText, x: str) -> str:
    """log(x) = e ln 2 + 2 atanh(s), s = f / (2 + f), by the series of atanh."""
    e, f = _split(m, x, _DOUBLE)
    s = m.div(f, m.add(f, 2.0))
    z = m.mul(s, s)
    half_square = m.mul(m.mul(f, f), 0.5)
    series = m.mul(z, m.horner(z, [2.0 / (2 * k + 1) for k in range(12, 0, -1)]))
    # f - (f^2/2 - s (f^2/2 + series)) keeps the digits of f
    inner = m.fma(s, m.add(half_square, series), m.mul(e, 1.90821492927058770002e-10))
    result = m.fma(e, 6.93147180369123816490e-01, m.sub(f, m.sub(half_square, inner)))
    return _log_ends(m, x, result)


# ---------------------------------------------------------------------------- circular functions

# pi/2 in parts of 24 bits; with `fma` each step is exact or rounds the small result only
_HALF_PI = (1.57079637050628662109375, -4.37113882867379289e-8, -1.71512451000588185e-15)
_LARGEST_REDUCED = 48000.0


def _reduced(m: MathText, x: str, n: str) -> str:
    """x - n pi/2, in float64 on a machine whose products are rounded before they are added to."""
    if m.context.has_fma:
        for part in _HALF_PI:
            x = m.fma(n, -part, x)
        return x
    w = m.wider()
    return m.narrow(w, _reduced_wide(m, w, x, n))


def _reduced_wide(m: MathText, w: MathText, x: str, n: str) -> str:
    """x - n pi/2 in float64."""
    high = math.floor(math.pi / 2 * (1 << 32)) / (1 << 32)  # 33 bits, so that its products with n are exact
    low = (math.pi / 2 - high) + 6.123233995736766e-17  # and what pi/2 as a float64 lacks
    wide, times = w.widen(m, x), w.widen(m, n)
    return w.fma(times, -low, w.fma(times, -high, wide))


def _near(m: MathText, r: str) -> tuple[str, str]:
    """The sine and the cosine of a number from -pi/4 to pi/4."""
    z = m.mul(r, r)
    sine = m.fma(m.mul(m.horner(z, _SIN), z), r, r)
    return sine, m.fma(m.mul(z, z), m.horner(z, _COS), m.fma(z, -0.5, 1.0))


def _circular(m: MathText, x: str, quarter: int, name: str) -> str:
    """sin(x + quarter pi/2): x = n pi/2 + r; larger arguments go to the C library, lane by lane."""
    big = m.compare("oge", m.abs(x), _LARGEST_REDUCED)
    bounded = m.select(big, 0.0, x)
    n = m.rint(m.mul(bounded, 2 / math.pi))
    r = _reduced(m, bounded, n)
    k = m.int_op("add", m.to_int(n), quarter)
    sine, cosine = _near(m, r)
    even = m.int_compare("eq", m.int_op("and", k, 1), 0)
    value = m.bits(m.select(even, sine, cosine))
    sign = m.int_op("shl", m.int_op("and", k, 2), 30)
    return m.where_any(big, m.floats(m.int_op("xor", value, sign)), x, name)


@own("sin", 32)
def sin_float(m: MathText, x: str) -> str:
    return m.select(m.compare("oeq", x, 0.0), x, _circular(m, x, 0, "sin"))


@own("cos", 32)
def cos_float(m: MathText, x: str) -> str:
    return _circular(m, x, 1, "cos")


@own("tan", 32)
def tan_float(m: MathText, x: str) -> str:
    """sin(r) / cos(r), or -cos(r) / sin(r) an odd number of quarters on; in float64, as errors of both would add up."""
    big = m.compare("oge", m.abs(x), _LARGEST_REDUCED)
    bounded = m.select(big, 0.0, x)
    n = m.rint(m.mul(bounded, 2 / math.pi))
    odd = m.int_compare("ne", m.int_op("and", m.to_int(n), 1), 0)
    w = m.wider()
    sine, cosine = _near(w, _reduced_wide(m, w, bounded, n))
    value = m.narrow(w, w.div(w.select(odd, w.neg(cosine), sine), w.select(odd, sine, cosine)))
    return m.select(m.compare("oeq", x, 0.0), x, m.where_any(big, value, x, "tan"))


# ---------------------------------------------------------------------------- powers


@own("pow", 32)
def pow_float(m: MathText, x: str, y: str) -> str:
    """x^y = 2^(y log2 |x|), computed in float64 and rounded once, with the signs and ends of C's pow."""
    w = m.wider()
    a, b = w.widen(m, m.abs(x)), w.widen(m, y)
    e, f = _split(w, a, _DOUBLE)
    s = w.div(f, w.add(f, 2.0))
    z = w.mul(s, s)
    series = w.horner(z, [2.0 * _LOG2_E / (2 * k + 1) for k in range(8, -1, -1)])
    logarithm = w.fma(s, series, e)
    logarithm = w.select(w.compare("oeq", a, 0.0), -_INF, w.select(w.compare("oeq", a, _INF), _INF, logarithm))
    t = clamp(w, w.mul(b, logarithm), -200.0, 200.0)
    n = w.rint(t)
    r = w.mul(w.sub(t, n), math.log(2))
    power = w.horner(r, [1.0 / math.factorial(k) for k in range(10, -1, -1)])
    result = m.narrow(w, w.mul(power, w.power_of_two(w.to_int(n))))
    whole = m.compare("oeq", m.call("trunc", y), y)
    half = m.mul(y, 0.5)
    odd = m.both(whole, m.compare("une", m.call("trunc", half), half))
    negative = m.int_compare("slt", m.bits(x), 0)
    result = m.select(m.both(odd, negative), m.neg(result), result)
    imaginary = m.both(m.compare("olt", x, 0.0), m.compare("one", m.call("trunc", y), y))
    finite = m.compare("one", x, -_INF)
    result = m.select(m.both(imaginary, finite), _NAN, result)
    unknown = m.compare("uno", x, y)
    result = m.select(unknown, _NAN, result)
    one = m.both(m.compare("oeq", m.abs(x), 1.0), m.compare("oeq", m.abs(y), _INF))
    result = m.select(one, 1.0, result)
    result = m.select(m.compare("oeq", x, 1.0), 1.0, result)
    return m.select(m.compare("oeq", y, 0.0), 1.0, result)
