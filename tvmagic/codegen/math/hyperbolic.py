"""Hyperbolic functions: exponentials without what cancels out in them."""

from __future__ import annotations

import math

from tvmagic.codegen.math.approximations import EXP_SERIES, clamp
from tvmagic.codegen.math.math_text import MathText
from tvmagic.codegen.text.rules import own

# (sinh(x) - x) / x^3 in x^2, on |x| <= 1
_SINH = (2.8169513370812638e-06, 0.0001983615948120132, 0.008333349600434303, 0.1666666716337204)
_LARGEST = {32: 90.0, 64: 711.0}  # from which on e^x / 2 is infinite
_TINY = 1e-9  # numbers of which sinh and tanh are the number itself, in float64 too
_ALONE = 30.0  # from which on e^-x does not count beside e^x


def _exponential(m: MathText, x: str) -> tuple[str, str]:
    """e^x = 2^n (1 + p): n, and p with all its digits."""
    n = m.rint(m.mul(x, math.log2(math.e)))
    if m.dtype.bits == 32:
        r = m.fma(n, 2.12194440054690583e-4, m.fma(n, -0.693359375, x))
    else:
        r = m.fma(n, -1.90821492927058770002e-10, m.fma(n, -6.93147180369123816490e-01, x))
    return n, m.fma(m.mul(r, r), m.horner(r, EXP_SERIES[m.dtype.bits]), r)


def _half_exponential(m: MathText, size: str) -> str:
    """e^x / 2 of a number that is not negative."""
    n, p = _exponential(m, clamp(m, size, 0.0, _LARGEST[m.dtype.bits]))
    return m.scale(m.add(p, 1.0), m.sub(n, 1.0))


@own("cosh", 32, 64)
def cosh(m: MathText, x: str) -> str:
    """e^x / 2 + e^-x / 2."""
    half = _half_exponential(m, m.abs(x))
    return m.add(half, m.div(0.25, half))


@own("sinh", 32)
def sinh_float(m: MathText, x: str) -> str:
    """An odd polynomial near 0, else e^x / 2 - e^-x / 2."""
    size, square = m.abs(x), m.mul(x, x)
    near = m.fma(m.mul(m.horner(square, _SINH), square), size, size)
    half = _half_exponential(m, size)
    far = m.sub(half, m.div(0.25, half))
    return m.copysign(m.select(m.compare("olt", size, 1.0), near, far), x)


@own("sinh", 64)
def sinh_double(m: MathText, x: str) -> str:
    """h + h / (2 h + 1), h = (e^x - 1) / 2."""
    size = m.abs(x)
    n, p = _exponential(m, clamp(m, size, 0.0, _LARGEST[64]))
    power = m.power_of_two(m.int_op("sub", m.to_int(n), 1))
    h = m.fma(power, p, m.sub(power, 0.5))
    near = m.add(h, m.div(h, m.fma(h, 2.0, 1.0)))
    far = m.scale(m.add(p, 1.0), m.sub(n, 1.0))
    result = m.select(m.compare("ogt", size, _ALONE), far, near)
    return m.copysign(m.select(m.compare("olt", size, _TINY), size, result), x)


@own("tanh", 64)
def tanh_double(m: MathText, x: str) -> str:
    """t / (t + 2), t = e^2x - 1; tanh is 1 from 22 on."""
    size = m.abs(x)
    n, p = _exponential(m, m.mul(clamp(m, size, 0.0, 22.0), 2.0))
    power = m.power_of_two(m.to_int(n))
    t = m.fma(power, p, m.sub(power, 1.0))
    result = m.div(t, m.add(t, 2.0))
    return m.copysign(m.select(m.compare("olt", size, _TINY), size, result), x)
