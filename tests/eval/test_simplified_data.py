"""What is simplified has the same value for all data: wrapping integers, NaN, infinities, zeros of both signs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from test_operators import DTYPES, FLOATS, INTS, bits, edges

from tvmagic import ir, te
from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.te.numpy_eval import ArrayEvaluator

ARITHMETIC = (ir.Add, ir.Add, ir.Sub, ir.Sub, ir.Mul, ir.Min, ir.Max)
QUOTIENTS = (ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod)
COMPARISONS = (ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE)


class Expressions:
    """Random expressions over two loads of each dtype and an index, with the values of all of them."""

    def __init__(self, seed: int) -> None:
        self.choice = random.Random(seed)
        self.dtype = self.choice.choice([*DTYPES[1:], "int32", "int64", "float32"])
        numbers = np.random.default_rng(seed)
        self.count = 200
        self.index = ir.Var("i")
        self.values: dict[Any, np.ndarray] = {}
        self.tensors: dict[str, list[Any]] = {}
        for dtype in dict.fromkeys((self.dtype, self.choice.choice(DTYPES[1:]))):
            self.tensors[dtype] = [te.placeholder((self.count,), dtype, name=n) for n in "XY"]
            for tensor in self.tensors[dtype]:
                self.values[tensor] = numbers.choice(edges(dtype), self.count)

    def leaf(self, dtype: str) -> Any:
        kind = self.choice.randrange(8)
        if kind == 0 and dtype in ("int32", "int64"):
            return self.index if dtype == "int32" else ir.Cast("int64", self.index)
        if kind < 3 or dtype not in self.tensors:
            if dtype in FLOATS:
                return ir.FloatImm(dtype, self.choice.choice([0.0, -0.0, 1.0, 2.0, 0.5, -1.0]))
            return ir.IntImm(dtype, self.choice.choice([0, 1, 2, 3, 4, 6, 8] + [-1, -2, -3] * dtype.startswith("i")))
        return self.choice.choice(self.tensors[dtype])[self.index - 1].asobject()

    def value(self, dtype: str, depth: int) -> Any:
        if depth <= 0 or self.choice.randrange(8) == 0:
            return self.leaf(dtype)
        kind = self.choice.randrange(12)
        if kind == 0 and len(self.tensors) > 1:
            return ir.Cast(dtype, self.value(self.choice.choice([*self.tensors]), depth - 1))
        if kind == 1:
            build = self.choice.choice([ir.Select, ir.ops.if_then_else])
            return build(self.condition(depth - 1), self.value(dtype, depth - 1), self.value(dtype, depth - 1))
        op = self.choice.choice(QUOTIENTS if kind < 5 else ARITHMETIC)
        if op in (ir.FloorDiv, ir.FloorMod, ir.Mod) and dtype in FLOATS:
            op = ir.Div
        return self.binary(op, self.value(dtype, depth - 1), self.value(dtype, depth - 1))

    def binary(self, op: Any, a: Any, b: Any) -> Any:
        if self.choice.randrange(2):
            try:
                return ir.ops.binary(op, a, b)
            except TVMagicError:  # a division by the constant zero
                return a
        return op(a, b)

    def condition(self, depth: int) -> Any:
        kind = self.choice.randrange(6)
        if depth > 0 and kind < 2:
            return self.binary(
                self.choice.choice([ir.And, ir.Or]), self.condition(depth - 1), self.condition(depth - 1)
            )
        if depth > 0 and kind == 2:
            return ir.Not(self.condition(depth - 1))
        dtype = self.choice.choice([*self.tensors])
        return self.binary(self.choice.choice(COMPARISONS), self.value(dtype, depth), self.value(dtype, depth - 1))

    def evaluated(self, e: Any) -> np.ndarray:
        with np.errstate(all="ignore"):
            result = ArrayEvaluator({self.index: np.arange(1, self.count + 1, dtype="int32")}, self.values).visit(e)
        return np.broadcast_to(np.asarray(result), (self.count,)).copy()


def check(seed: int) -> None:
    source = Expressions(seed)
    e = source.condition(3) if seed % 3 == 0 else source.value(source.dtype, 4)
    before = source.evaluated(e)
    analyzer = Analyzer({source.index: ir.Range(1, source.count + 1)})
    for name in ("simplify", "rewrite_simplify", "canonical_simplify"):
        result = getattr(analyzer, name)(e)
        after = source.evaluated(result)
        assert after.dtype == before.dtype
        differ = bits(after) != bits(before)
        assert not differ.any(), f"{name}: {e} became {result}: {before[differ][:3]} became {after[differ][:3]}"
    if source.dtype in INTS and e.dtype == source.dtype:
        bound, modular = analyzer.const_int_bound(e), analyzer.modular_set(e)
        wide = [int(v) for v in before]
        if bound.max_value != bound.POS_INF:
            assert max(wide) <= bound.max_value, f"{e} is {max(wide)}, beyond {bound}"
        if bound.min_value != bound.NEG_INF:
            assert bound.min_value <= min(wide), f"{e} is {min(wide)}, below {bound}"
        if modular.coeff:
            assert all((v - modular.base) % modular.coeff == 0 for v in wide), f"{e} is {wide[:5]}, not in {modular}"
    if e.dtype.is_bool:
        assert not analyzer.can_prove(e) or before.all(), f"{e} was proved"


@pytest.mark.parametrize("first", range(0, 600, 50))
def test_simplified_data(first: int) -> None:
    for seed in range(first, first + 50):
        check(seed)
