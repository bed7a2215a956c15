"""The math functions: range reduction and polynomials.

The forms are the usual ones (Muller, Elementary Functions, 3rd ed.; Cody and Waite, 1980): reduce
the argument exactly with a constant split in parts, evaluate a polynomial fitted for the least
largest error, scale back. Products that must be exact use `fma`.
"""

from __future__ import annotations

from tvmagic.codegen.math_text import MathText
from tvmagic.codegen.vector_math import own

# exp(r) = 1 + r + r^2 P(r) on |r| <= ln(2)/2
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


@own("exp", 32)
def exp_float(m: MathText, x: str) -> str:
    """exp(x): x = n ln 2 + r."""
    x = m.select(m.compare("olt", x, -104.0), -104.0, x)
    x = m.select(m.compare("ogt", x, 89.0), 89.0, x)
    n = m.rint(m.mul(x, 1.4426950408889634))
    r = m.fma(n, -0.693359375, x)
    r = m.fma(n, 2.12194440054690583e-4, r)
    p = m.add(m.fma(m.mul(r, r), m.horner(r, _EXP), r), 1.0)
    return m.scale(p, n)
