"""Random programs of sizes 0, 1, 2 and 3 everywhere: tensor expressions or a TensorIR function, as the seed is even or odd."""

from __future__ import annotations

import random
from typing import Any

import te_programs
import tir_programs
from random_values import Size


class Tiny:
    """Sizes of a program most of which are 1 or 0."""

    rng: random.Random
    sizes: dict[str, int]
    without: frozenset[str]

    def random_sizes(self) -> dict[str, int]:
        names = self.rng.choice(((), ("n",), ("n", "m")))
        return {name: self.rng.choice((0, 1, 1, 1, 2)) for name in names if "symbolic" not in self.without}

    def size(self, most: int = 9) -> Size:
        if self.sizes and self.rng.random() < 0.4:
            return Size(0, self.rng.choice(list(self.sizes)), 1)
        empty = self.rng.random() < 0.06 and "empty" not in self.without
        return Size(0 if empty else self.rng.choice((1, 1, 1, 2, 3)))


class _Te(Tiny, te_programs.Program):
    pass


class _Tir(Tiny, tir_programs.Program):
    pass


class _TeCase(te_programs.Case):
    program_class = _Te


class _TirCase(tir_programs.Case):
    program_class = _Tir


def Case(seed: int, without: frozenset[str] = frozenset()) -> Any:
    """The case of a seed."""
    return (_TeCase, _TirCase)[seed % 2](seed // 2, without)
