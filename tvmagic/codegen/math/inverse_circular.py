"""Inverse circular functions: odd polynomials near 0, to which all arguments are brought."""

from __future__ import annotations

import math

from tvmagic.codegen.math.math_text import MathText
from tvmagic.codegen.text.rules import own

# (atan(x) - x) / x^3 in x^2, on |x| <= 0.66
_ATAN = (
    0.024839309975504875, -0.06731477379798889, 0.10513642430305481, -0.14205002784729004, 0.1999485194683075,
    -0.33333221077919006,
)  # fmt: skip
# (asin(x) - x) / x^3 in x^2, on |x| <= 0.55; above that the double of what is subtracted is below 1, with as many digits
_ASIN = (
    0.04515817388892174, 0.008691422641277313, 0.033408280462026596, 0.04431585967540741, 0.07501597702503204,
    0.1666664034128189,
)  # fmt: skip
_NEAR = 0.55
# pi/2 as a float32, and what that lacks
_HALF_PI, _LACKS = 1.57079637050628662109375, -4.37113882867379289e-8


@own("atan", 32)
def atan_float(m: MathText, x: str) -> str:
    """atan(x) = pi/4 + atan((x - 1) / (x + 1)), or pi/2 - atan(1 / x) of large numbers."""
    size = m.abs(x)
    large, middle = m.compare("ogt", size, math.tan(math.pi * 3 / 8)), m.compare("ogt", size, 0.66)
    over = m.select(large, -1.0, m.select(middle, m.sub(size, 1.0), size))
    under = m.select(large, size, m.select(middle, m.add(size, 1.0), 1.0))
    t = m.div(over, under)
    square = m.mul(t, t)
    rest = m.fma(m.mul(m.horner(square, _ATAN), square), t, t)
    base = m.select(large, _HALF_PI, m.select(middle, _HALF_PI / 2, 0.0))
    lacks = m.select(large, _LACKS, m.select(middle, _LACKS / 2, 0.0))
    return m.copysign(m.add(base, m.add(rest, lacks)), x)


@own("atan2", 32)
def atan2_float(m: MathText, y: str, x: str) -> str:
    """The angle by the smaller of both over the larger one: below pi/4, taken from pi/2 if `y` is larger, from pi if `x` is negative."""
    a, b = m.abs(y), m.abs(x)
    steep = m.compare("ogt", a, b)
    low, high = m.select(steep, b, a), m.select(steep, a, b)
    factor = m.select(m.compare("ogt", high, 2.0**126), 0.25, 1.0)  # so that the sum of both is finite
    low, high = m.mul(low, factor), m.mul(high, factor)
    middle = m.compare("ogt", low, m.mul(high, 0.66))
    over, under = m.select(middle, m.sub(low, high), low), m.select(middle, m.add(low, high), high)
    same = m.compare("oeq", low, high)  # two zeros, or two infinities
    t = m.select(same, m.select(m.compare("oeq", high, 0.0), low, 0.0), m.div(over, under))
    middle = m.op(f"or {m.flags} {middle}, {m.both(same, m.compare('une', high, 0.0))}")
    square = m.mul(t, t)
    rest = m.fma(m.mul(m.horner(square, _ATAN), square), t, t)
    angle = m.add(m.select(middle, _HALF_PI / 2, 0.0), m.add(rest, m.select(middle, _LACKS / 2, 0.0)))
    angle = m.select(steep, _less(m, 1, angle), angle)
    angle = m.select(m.int_compare("slt", m.bits(x), 0), _less(m, 2, angle), angle)
    return m.copysign(m.select(m.compare("uno", x, y), math.nan, angle), y)


def _asin(m: MathText, size: str, far: str) -> str:
    """asin of a number from 0 to 0.55; if `far` holds, asin(sqrt((1 - x) / 2)) of one above."""
    square = m.select(far, m.mul(m.sub(1.0, size), 0.5), m.mul(size, size))
    root = m.select(far, m.call("sqrt", square), size)
    return m.fma(m.mul(m.horner(square, _ASIN), square), root, root)


def _less(m: MathText, quarters: int, a: str) -> str:
    """`quarters` times pi/2, less a number."""
    return m.sub(quarters * _HALF_PI, m.sub(a, quarters * _LACKS))


@own("asin", 32)
def asin_float(m: MathText, x: str) -> str:
    """asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)) above 0.55."""
    size = m.abs(x)
    far = m.compare("ogt", size, _NEAR)
    found = _asin(m, size, far)
    return m.copysign(m.select(far, _less(m, 1, m.add(found, found)), found), x)


@own("acos", 32)
def acos_float(m: MathText, x: str) -> str:
    """acos(x) = pi/2 - asin(x) up to 0.55, 2 asin(sqrt((1 - x) / 2)) above, and pi less that of -x below."""
    size = m.abs(x)
    far = m.compare("ogt", size, _NEAR)
    found = _asin(m, size, far)
    twice, negative = m.add(found, found), m.compare("olt", x, 0.0)
    near = _less(m, 1, m.copysign(found, x))
    return m.select(far, m.select(negative, _less(m, 2, twice), twice), near)
