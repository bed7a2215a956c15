"""Random expressions for the laws of the analyzer: of indices x, y, z in small ranges and a size n, and of data."""

from __future__ import annotations

import itertools
import random
import zlib
from typing import Any

from tvmagic import ir
from tvmagic.ir.dtype import integer_limits

CONSTANTS = (0, 1, 1, 2, 2, 3, 4, 4, 5, 7, 8, 16)
DIVISORS = (1, 2, 3, 4, 5, 7, 8, 16, -2, -3)
COMPARISONS = (ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE)
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")


def mark(*answers: Any) -> int:
    """A number that is another one, in all probability, if the text of an answer changes."""
    return zlib.crc32(repr([str(a) for a in answers]).encode())


class RandomExpressions:
    """Builds expressions by the choices of `choice`, with and without constant folding."""

    CONSTANTS: tuple[int, ...] = CONSTANTS
    DIVISORS: tuple[int, ...] = DIVISORS

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
            return pick([*self.vars, *self.vars, self.size, ir.IntImm("int32", pick(self.CONSTANTS))])
        kind = self.choice.randrange(22)
        if kind < 5:
            return self.binary(pick([ir.Add, ir.Add, ir.Sub]), depth)
        if kind < 9:
            return self.with_constant(ir.Mul, depth, pick([*self.CONSTANTS, -1, -2, -3]))
        if kind < 14:
            return self.with_constant(pick([ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod]), depth, pick(self.DIVISORS))
        if kind < 17:
            return self.binary(pick([ir.Min, ir.Max]), depth)
        if kind == 17:
            return self.binary(ir.Mul, depth)
        if kind == 18:
            return self.build(pick([ir.FloorDiv, ir.FloorMod]), self.index(depth - 1), pick([*self.vars, self.size]))
        if kind == 19:
            return ir.ops.shift_right(self.index(depth - 1), pick([1, 2, 3]))
        build = pick([ir.Select, ir.ops.if_then_else])
        return build(self.condition(depth - 1), self.index(depth - 1), self.index(depth - 1))

    def binary(self, op: Any, depth: int) -> Any:
        return self.build(op, self.index(depth - 1), self.index(self.choice.randrange(depth)))

    def with_constant(self, op: Any, depth: int, value: int) -> Any:
        return self.build(op, self.index(depth - 1), ir.IntImm("int32", value))

    def build(self, op: Any, a: Any, b: Any) -> Any:
        return ir.ops.binary(op, a, b) if self.choice.randrange(2) else op(a, b)

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
            return op(self.vector(depth - 1, lanes), ir.Broadcast(ir.IntImm("int32", pick(self.DIVISORS)), lanes))
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


class RandomData:
    """Builds expressions of the elements of two small arrays, whose integers wrap around, and of a variable."""

    def __init__(self, choice: random.Random) -> None:
        self.choice = choice
        self.dtypes = choice.choices(INTEGERS, k=2)
        self.arrays = [ir.decl_buffer((2,), dtype, name) for dtype, name in zip(self.dtypes, "AB")]
        self.var = ir.Var("x")

    def number(self, dtype: str) -> Any:
        low, high = integer_limits(ir.DataType(dtype))
        near = [v for v in (-3, -1, 0, 1, 1, 2, 2, 3, 4, 7, 8, 64) if low <= v <= high]
        return ir.IntImm(dtype, self.choice.choice([*near, low, high, high // 2]))

    def leaf(self, dtype: str) -> Any:
        array = self.choice.choice(self.arrays)
        if self.choice.randrange(4) == 0:
            return self.number(dtype)
        element: Any = ir.BufferLoad(array, [ir.IntImm("int32", self.choice.randrange(2))])
        element = self.var if self.choice.randrange(5) == 0 else element
        return element if str(element.dtype) == dtype else ir.Cast(dtype, element)

    def value(self, depth: int, dtype: str) -> Any:
        pick = self.choice.choice
        if depth <= 0:
            return self.leaf(dtype)
        kind = self.choice.randrange(10)
        if kind == 0:
            return ir.Cast(dtype, self.value(depth - 1, pick(INTEGERS)))
        if kind == 1:
            return ir.Select(self.condition(depth - 1), self.value(depth - 1, dtype), self.leaf(dtype))
        if kind < 7:
            op = pick([ir.Add, ir.Sub, ir.Mul, ir.Min, ir.Max])
            return op(self.value(depth - 1, dtype), self.value(self.choice.randrange(depth), dtype))
        op = pick([ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod])
        return op(self.value(depth - 1, dtype), self.number(dtype) if kind < 9 else self.leaf(dtype))

    def condition(self, depth: int) -> Any:
        dtype = self.choice.choice(self.dtypes)
        return self.choice.choice(COMPARISONS)(self.value(depth, dtype), self.value(0, dtype))

    def points(self, count: int) -> list[dict[Any, Any]]:
        """Values of all variables and arrays, often at the ends of their types."""
        found: list[dict[Any, Any]] = []
        for _ in range(count):
            point: dict[Any, Any] = {self.var: self.choice.randint(-4, 9)}
            for array in self.arrays:
                low, high = integer_limits(array.dtype)
                near = [v for v in (-1, 0, 1, 2, 3, 5) if v >= low]
                point[array.data] = self.choice.choices([low, low + 1, high - 1, high, *near], k=2)
            found.append(point)
        return found


class RandomEnds(RandomData):
    """Data of 64 and of 32 bits, and numbers that are next to the ends of their types."""

    def __init__(self, choice: random.Random) -> None:
        super().__init__(choice)
        self.dtypes = [
            choice.choice(["int64", "int64", "uint64"]),
            choice.choice(["int64", "uint64", "int32", "uint32"]),
        ]
        self.arrays = [ir.decl_buffer((2,), dtype, name) for dtype, name in zip(self.dtypes, "AB")]

    def number(self, dtype: str) -> Any:
        low, high = integer_limits(ir.DataType(dtype))
        pick = self.choice.choice
        return ir.IntImm(dtype, pick([low, low + 1, low + 2, high, high - 1, high - 2, 0, 1, 2, max(low, -1)]))


class RandomLarge(RandomExpressions):
    """Indices in large ranges, and large factors and divisors."""

    CONSTANTS = (1, 2, 3, -1, -3, 5, 1000, 4096, 65536, -65536, 1000003, 1 << 20, (1 << 20) - 1, 10**9 + 7, 46341)
    DIVISORS = CONSTANTS

    def __init__(self, choice: random.Random) -> None:
        super().__init__(choice)
        for var in self.vars:
            self.ranges[var] = (choice.choice([0, 0, 0, -4, -70000]), choice.choice([1, 4, 8, 100, 5000, 100000]))

    def points(self, limit: int) -> list[dict[Any, int]]:
        pick = self.choice.choice
        spans = [range(low, low + extent) for low, extent in self.ranges.values()]
        found = [[pick([span[0], span[-1], pick(span)]) for span in spans] for _ in range(limit)]
        return [dict(zip([*self.vars, self.size], (*values, pick([0, 1, 9, 1000])))) for values in found]
