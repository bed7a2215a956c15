"""Random programs with dimensions of 0: tensor expressions or a TensorIR function, as the seed is even or odd."""

from __future__ import annotations

from typing import Any

import te_programs
import tir_programs
from random_values import Size
from tiny_programs import Tiny


class _Empty(Tiny):
    """Sizes of a program, most of them symbolic and many 0; a constant 0 in `i % 0` is refused."""

    def random_sizes(self) -> dict[str, int]:
        names = self.rng.choice((("n",), ("n", "m")))
        return {name: self.rng.choice((0, 0, 1, 2, 3)) for name in names if "symbolic" not in self.without}

    def size(self, most: int = 9) -> Size:
        if self.sizes and self.rng.random() < 0.6:
            return Size(0, self.rng.choice(list(self.sizes)), 1)
        return Size(0 if self.rng.random() < 0.08 else self.rng.choice((1, 2, 3, 5)))


class _Te(_Empty, te_programs.Program):
    pass


class _Tir(_Empty, tir_programs.Program):
    pass


class _TeCase(te_programs.Case):
    program_class = _Te


class _TirCase(tir_programs.Case):
    program_class = _Tir


def Case(seed: int, without: frozenset[str] = frozenset()) -> Any:
    """The case of a seed."""
    return (_TeCase, _TirCase)[seed % 2](seed // 2, without)
