"""Random expressions over x, y, z in small ranges and a size n, for the laws of the analyzer."""

from __future__ import annotations

import itertools
import random
from typing import Any

from tvmagic import ir
from tvmagic.ir import ops

CONSTANTS = (0, 1, 1, 2, 2, 3, 4, 4, 5, 7, 8, 16)
DIVISORS = (1, 2, 3, 4, 5, 7, 8, 16, -2, -3)
COMPARISONS = (ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE)


class RandomExpressions:
    """Builds expressions by the choices of `choice`, with and without constant folding."""

    def __init__(self, choice: random.Random) -> None:
        self.choice = choice
        self.vars = [ir.Var(name) for name in "xyz"]
        self.size = ir.SizeVar("n")
        self.ranges: dict[ir.Var, tuple[int, int]] = {}
        for var in self.vars:
            low = choice.choice([0, 0, 0, 1, -1, -4, -7])
            self.ranges[var] = (low, choice.choice([1, 2, 3, 4, 7, 8]))

    def index(self, depth: int) -> Any:
        pick = self.choice.choice
        if depth <= 0:
            return pick([*self.vars, *self.vars, self.size, ir.IntImm("int32", pick(CONSTANTS))])
        kind = self.choice.randrange(22)
        if kind < 5:
            return self.binary(pick([ir.Add, ir.Add, ir.Sub]), depth)
        if kind < 9:
            return self.with_constant(ir.Mul, depth, pick([*CONSTANTS, -1, -2, -3]))
        if kind < 14:
            return self.with_constant(pick([ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod]), depth, pick(DIVISORS))
        if kind < 17:
            return self.binary(pick([ir.Min, ir.Max]), depth)
        if kind == 17:
            return self.binary(ir.Mul, depth)
        if kind == 18:
            return self.build(pick([ir.FloorDiv, ir.FloorMod]), self.index(depth - 1), pick([*self.vars, self.size]))
        if kind == 19:
            return ops.shift_right(self.index(depth - 1), pick([1, 2, 3]))
        build = pick([ir.Select, ops.if_then_else])
        return build(self.condition(depth - 1), self.index(depth - 1), self.index(depth - 1))

    def binary(self, op: Any, depth: int) -> Any:
        return self.build(op, self.index(depth - 1), self.index(self.choice.randrange(depth)))

    def with_constant(self, op: Any, depth: int, value: int) -> Any:
        return self.build(op, self.index(depth - 1), ir.IntImm("int32", value))

    def build(self, op: Any, a: Any, b: Any) -> Any:
        return ops.binary(op, a, b) if self.choice.randrange(2) else op(a, b)

    def condition(self, depth: int) -> Any:
        pick = self.choice.choice
        if depth <= 0 or self.choice.randrange(2):
            return self.build(pick(COMPARISONS), self.index(depth), self.index(max(depth - 1, 0)))
        if self.choice.randrange(4) == 0:
            return ir.Not(self.condition(depth - 1))
        return self.build(pick([ir.And, ir.Or]), self.condition(depth - 1), self.condition(depth - 1))

    def vector(self, depth: int, lanes: int) -> Any:
        pick = self.choice.choice
        if depth <= 0:
            if self.choice.randrange(3):
                return ir.Ramp(self.index(1), pick([1, 1, 2, 3, 4, 8, -1]), lanes)
            return ir.Broadcast(self.index(1), lanes)
        if self.choice.randrange(2):
            op = pick([ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod])
            return op(self.vector(depth - 1, lanes), ir.Broadcast(ir.IntImm("int32", pick(DIVISORS)), lanes))
        op = pick([ir.Add, ir.Sub, ir.Mul, ir.Min, ir.Max])
        return op(self.vector(depth - 1, lanes), self.vector(depth - 1, lanes))

    def points(self, limit: int) -> list[dict[Any, int]]:
        """Points of the box, all of them where there are not many; with sizes n from 0 to 9."""
        names = [*self.vars, self.size]
        spans = [range(low, low + extent) for low, extent in self.ranges.values()]
        points = list(itertools.product(*spans))
        if len(points) > limit:
            points = self.choice.sample(points, limit)
        return [dict(zip(names, (*p, self.choice.randrange(10)))) for p in points]
