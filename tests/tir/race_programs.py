"""Random programs with parallel and vectorized loops anywhere, as text and as functions."""

from __future__ import annotations

import random
from typing import Any

from te_generator import Program

from tvmagic.driver import schedule_to_module
from tvmagic.ir import PrimFunc
from tvmagic.script.parser import from_source

SIZE = 40


class Loops:
    """A random function: `text`, its loops over indices that are sums, quotients and remainders of their variables."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0
        self.buffers = ["A", "B", "C"]
        self.private = 0
        self.block(1, [], self.random.randint(2, 4))
        arguments = ", ".join(f'{name}: T.Buffer(({SIZE}, {SIZE}), "float32")' for name in "ABC")
        self.text = "\n".join(["@T.prim_func", f"def main({arguments}):", *self.lines])

    def add(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def block(self, depth: int, loops: list[tuple[str, int]], budget: int) -> None:
        for _ in range(self.random.choice([1, 1, 2, 3])):
            chance = self.random.random()
            if budget and (chance < 0.65 or not loops):
                self.loop(depth, loops, budget)
            elif loops and chance < 0.75 and budget:
                self.add(depth, f"if {self.condition(loops)}:")
                self.block(depth + 1, loops, 0)
            else:
                self.store(depth, loops)

    def loop(self, depth: int, loops: list[tuple[str, int]], budget: int) -> None:
        name = f"i{self.count}"
        self.count += 1
        extent = self.random.choice([1, 2, 3, 4, 6])
        kind = self.random.choice(["range", "range", "T.parallel", "T.vectorized"])
        if kind == "T.vectorized" and extent == 1:
            extent = 4
        self.add(depth, f"for {name} in {kind}({extent}):")
        known = len(self.buffers)
        if self.random.random() < 0.15:
            self.private += 1
            data = f"L{self.private}"
            self.add(depth + 1, f'{data} = T.decl_buffer(({SIZE}, {SIZE}), "float32")')
            self.buffers.append(data)
        self.block(depth + 1, [*loops, (name, extent)], budget - 1)
        del self.buffers[known:]

    def condition(self, loops: list[tuple[str, int]]) -> str:
        name, extent = self.random.choice(loops)
        other, more = self.random.choice(loops)
        return self.random.choice(
            [
                f"{name} == {self.random.randrange(extent)}",
                f"{name} < {other} + 1",
                f"{name} * 2 + {other} < {extent + more}",
            ]
        )

    def index(self, loops: list[tuple[str, int]]) -> str:
        """An index below `SIZE`."""
        terms: list[str] = []
        room = SIZE - 1
        for name, extent in self.random.sample(loops, self.random.randint(0, len(loops))):
            factor = self.random.choice([1, 1, 2, 3, 4, 6, 8, 12])
            shape = self.random.random()
            if shape < 0.2:
                divisor = self.random.randint(2, 3)
                text, most = f"{name} // {divisor}", (extent - 1) // divisor
            elif shape < 0.4:
                divisor = self.random.randint(2, 4)
                text, most = f"{name} % {divisor}", min(extent, divisor) - 1
            else:
                text, most = name, extent - 1
            if most * factor <= room:
                room -= most * factor
                terms.append(f"{text} * {factor}")
        constant = self.random.choice([0, 0, 1, 2, room // 2])
        return " + ".join([*terms, str(min(constant, room))])

    def access(self, loops: list[tuple[str, int]]) -> str:
        return f"{self.random.choice(self.buffers)}[{self.index(loops)}, {self.index(loops)}]"

    def store(self, depth: int, loops: list[tuple[str, int]]) -> None:
        reads = [self.access(loops) for _ in range(self.random.randint(0, 2))]
        target = self.access(loops)
        if self.random.random() < 0.3:
            reads.append(target)
        if reads and loops and self.random.random() < 0.15:
            reads[0] = f"T.if_then_else({self.condition(loops)}, {reads[0]}, T.float32(0))"
        self.add(depth, f"{target} = {' + '.join([*reads, 'T.float32(1)'])}")

    def function(self) -> PrimFunc:
        """The text as a function."""
        return from_source("from tvm.script import tir as T\n" + self.text)


class Annotated(Program):
    """A random TE program with parallel and vectorized loops anywhere."""

    def annotate(self, stage: Any) -> None:
        """Mark any of the loops, also those of reductions."""
        for iv in list(stage.leaf_iter_vars):
            chance = self.random.random()
            if chance < 0.15 and iv is stage.leaf_iter_vars[-1]:
                self.attempt(f"{stage.name}.vectorize({iv.var.name})", lambda iv=iv: stage.vectorize(iv))
            elif chance < 0.4:
                self.attempt(f"{stage.name}.parallel({iv.var.name})", lambda iv=iv: stage.parallel(iv))

    def function(self) -> PrimFunc:
        """Its loops, before memory is flat."""
        return schedule_to_module(self.s, self.args)["main"]
