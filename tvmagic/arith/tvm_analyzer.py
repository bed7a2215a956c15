"""`arith.Analyzer` as TVM's users know it."""

from __future__ import annotations

from collections.abc import Mapping

from tvmagic.arith import analyzer
from tvmagic.ir import Range, Var


class Analyzer(analyzer.Analyzer):
    """The analyzer with TVM's algebra: `x - x` is 0, NaN or not, and `ramp(x, 6, 4) / 3` is `ramp(x / 3, 2, 4)`.

    The second holds only if all lanes have one sign. Programs are compiled and checked with the analyzer of
    `tvmagic.arith.analyzer`, which takes neither for granted.
    """

    def __init__(self, ranges: Mapping[Var, Range] | None = None, fast_math: bool = True) -> None:
        super().__init__(ranges, fast_math, trusting=True)
