"""Random TensorIR functions that change their arguments in place."""

from __future__ import annotations

import tir_programs
from tir_programs import Nest


class Program(tir_programs.Program):
    """A function half of whose nests give an argument other values, from its old ones and other buffers."""

    def nest(self, name: str, last: bool) -> Nest:
        if self.rng.random() < 0.5:
            return super().nest(name, last)
        return self.update_nest(name, self.rng.choice(self.inputs).name)


class Case(tir_programs.Case):
    """The function of a seed and its schedule."""

    program_class = Program
