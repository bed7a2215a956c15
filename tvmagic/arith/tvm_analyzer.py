"""`arith.Analyzer` as TVM's users know it."""

from __future__ import annotations

from collections.abc import Mapping

from tvmagic.arith import analyzer
from tvmagic.ir import Range, Var

__all__ = ["Analyzer"]


class Analyzer(analyzer.Analyzer):
    """The analyzer with TVM's algebra of floats: `x - x` is 0, NaN or not.

    Programs are compiled and checked with the analyzer of `tvmagic.arith.analyzer`, whose `fast_math` is off.
    """

    def __init__(self, ranges: Mapping[Var, Range] | None = None, fast_math: bool = True) -> None:
        super().__init__(ranges, fast_math)
