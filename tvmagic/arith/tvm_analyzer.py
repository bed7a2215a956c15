"""`arith.Analyzer` as TVM's users know it."""

from __future__ import annotations

from collections.abc import Mapping

from tvmagic.arith import analyzer
from tvmagic.ir import Range, Var


class Analyzer(analyzer.Analyzer):
    """The analyzer with TVM's algebra: `x - x` is 0, NaN or not, and `ramp(x, 6, 4) / 3` is `ramp(x / 3, 2, 4)`.

    A float's quotient by a constant stays, as in lowered programs and in TVM after 0.19, unless `fast_math` is True: then
    `x / 3.0` becomes a product. With False, floats keep what IEEE 754 says. The second holds only if all lanes have one sign. Programs are compiled and checked with the analyzer of
    `tvmagic.arith.analyzer`, which takes neither for granted.
    """

    def __init__(self, ranges: Mapping[Var, Range] | None = None, fast_math: bool | None = None) -> None:
        super().__init__(ranges, fast_math is not False, trusting=True)
        self.inexact_reciprocals = fast_math is True
