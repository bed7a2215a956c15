"""What random statements touch of a buffer, each against the elements that they touch when they run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from arith_evaluate import evaluate
from arith_random import mark

from tvmagic import ir
from tvmagic.arith.block_regions import block_access_regions
from tvmagic.arith.domain_touched import DomainTouched

A, OUT = ir.decl_buffer((100, 100), "float32", "A"), ir.decl_buffer((100,), "float32", "B")
N = ir.Var("n")
COMPARISONS = (ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE)

Access = tuple[ir.Buffer, bool, tuple[int, ...]]  # whether it is a store, and at which indices


def accesses(node: Any, point: dict[ir.Var, int]) -> Iterator[Access]:
    """What a statement or an expression accesses where it runs."""
    if isinstance(node, ir.For):
        first = evaluate(node.min, point)
        for value in range(first, first + evaluate(node.extent, point)):
            yield from accesses(node.body, {**point, node.loop_var: value})
    elif isinstance(node, ir.SeqStmt):
        for part in node.seq:
            yield from accesses(part, point)
    elif isinstance(node, ir.IfThenElse):
        branch = node.then_case if evaluate(node.condition, point) else node.else_case
        yield from accesses(branch, point)
    elif isinstance(node, ir.LetStmt):
        yield from accesses(node.body, {**point, node.var: evaluate(node.value, point)})
    elif isinstance(node, ir.BufferStore):
        yield from accesses(node.value, point)
        yield node.buffer, True, tuple([evaluate(i, point) for i in node.indices])
    elif isinstance(node, ir.BufferLoad):
        yield node.buffer, False, tuple([evaluate(i, point) for i in node.indices])
    elif isinstance(node, (ir.Select, ir.Call)):
        parts = node.args if isinstance(node, ir.Call) else (node.condition, node.true_value, node.false_value)
        yield from accesses(parts[1] if evaluate(parts[0], point) else parts[2], point)
    elif isinstance(node, ir.BinaryOp):
        yield from accesses(node.a, point)
        yield from accesses(node.b, point)


class Statements:
    """Loops, conditions and names around stores, at random."""

    def __init__(self, choice: random.Random) -> None:
        self.choice, self.pick = choice, choice.choice
        self.vars, self.count = [N], 0

    def index(self) -> Any:
        v, w = self.pick(self.vars), self.pick(self.vars)
        return self.pick([v, v * 2 + w, v - w, v // 2 + 1, v % 3, ir.ops.maximum(v, w), v * -2 + 7, self.pick([0, 3])])

    def comparison(self) -> Any:
        left = self.pick(self.vars) * self.pick([1, 1, 2, -1]) + self.pick([0, 0, 1, -2])
        right = self.pick([ir.IntImm("int32", self.choice.randint(-2, 5)), self.pick(self.vars)])
        return self.pick(COMPARISONS)(left, right)

    def condition(self) -> Any:
        one, other, kind = self.comparison(), self.comparison(), self.choice.randrange(8)
        if kind < 4:
            return one
        return (ir.And(one, other), ir.Or(one, other), ir.Not(one), ir.Call("bool", "tir.likely", [one]))[kind - 4]

    def value(self, depth: int) -> Any:
        load = ir.BufferLoad(A, [self.index(), self.index()])
        kind = self.choice.randrange(5) if depth else 4
        if kind == 0:
            return ir.Select(self.condition(), self.value(depth - 1), self.value(depth - 1))
        if kind == 1:
            return ir.ops.if_then_else(self.condition(), self.value(depth - 1), self.value(0))
        if kind == 2:
            return self.value(depth - 1) + self.value(0)
        return ir.FloatImm("float32", 1.0) if self.choice.randrange(4) == 0 else load

    def statement(self, depth: int) -> Any:
        kind = self.choice.randrange(6) if depth else 6
        if kind == 6:
            into = self.pick([(OUT, self.value(2), [0]), (A, self.value(1), [self.index(), self.index()])])
            return ir.BufferStore(*into)
        if kind == 5:
            return ir.SeqStmt([self.statement(depth - 1), self.statement(depth - 1)])
        if kind == 4:
            other = self.statement(depth - 1) if self.choice.randrange(2) else None
            return ir.IfThenElse(self.condition(), self.statement(depth - 1), other)
        var, value = ir.Var(f"i{self.count}"), self.index()
        first, extent = self.pick([0, 0, 0, 2, -1]), self.pick([1, 3, 4, self.pick(self.vars[-2:])])
        self.count += 1
        self.vars.append(var)
        body = self.statement(depth - 1)
        self.vars.remove(var)
        return ir.LetStmt(var, value, body) if kind == 3 else ir.For(var, first, extent, ir.ForKind.SERIAL, body)


def inside(ranges: Any, at: tuple[int, ...], point: dict[ir.Var, int]) -> bool:
    """Whether an element lies in a box, whose axes may be of any extent."""
    firsts = [None if r is None else evaluate(r.min, point) for r in ranges]
    return len(ranges) == len(at) and all(
        r is None or first <= i < first + evaluate(r.extent, point) for r, first, i in zip(ranges, firsts, at)
    )


TEXTS = {
    0: 14442519789,
    5: 11593936023,
    10: 11165984574,
    15: 14748069835,
    20: 5273567327,
    25: 6245166353,
    30: 10357291797,
    35: 8424122551,
    40: 9443179675,
    45: 8129187095,
}


@pytest.mark.parametrize("first", TEXTS)
def test_all_that_is_touched_is_in_the_box_and_in_the_regions(first: int) -> None:
    """And both are as before."""
    texts = 0
    for seed in range(first, first + 5):
        statement = Statements(random.Random(seed)).statement(3)
        boxes = [DomainTouched(statement, A, *kinds) for kinds in ((True, False), (False, True))]
        both = DomainTouched(statement, A)
        block = ir.Block([], [], [], "b", statement)
        regions = block_access_regions(block, {buffer.data: buffer for buffer in (A, OUT)})
        for n in (-1, 3):
            for buffer, store, at in set(accesses(statement, {N: n})):
                if buffer is A:
                    assert inside(boxes[store], at, {N: n}) and inside(both, at, {N: n}), (seed, statement)
                (region,) = [r.region for r in regions[store] if r.buffer is buffer]
                assert inside(region, at, {N: n}), (seed, statement)
        texts += mark(*boxes, both, *regions)
    assert texts == TEXTS[first]


def test_a_box_does_not_say_what_only_the_statement_knows() -> None:
    """Where two loops bound each other, as in a band of a matrix, by a variable of the other loop."""
    i, j, size = ir.Var("i"), ir.Var("j"), ir.IntImm("int32", 8)

    def box(condition: Any) -> list[str]:
        store = ir.IfThenElse(condition, ir.BufferStore(A, ir.FloatImm("float32", 1.0), [i, j]))
        rows = ir.For(i, 0, size, ir.ForKind.SERIAL, ir.For(j, 0, N, ir.ForKind.SERIAL, store))
        return [str(r) if r is None else f"{r.min}, {r.extent}" for r in DomainTouched(rows, A)]

    assert box(ir.And(j <= i, i <= j + 2)) == ["None", "None"]
    assert box(j <= i) == ["0, 8", "0, T.min(8, n)"]


@pytest.mark.parametrize("extent", ["name", "memory"])
def test_a_loop_as_long_as_what_the_block_computes(extent: str) -> None:
    """Its name is replaced by the value; of memory of the block itself nothing is known outside."""
    i, size = ir.Var("i"), ir.Var("size")
    own = ir.decl_buffer((1,), "int32", "own")
    length = size if extent == "name" else ir.BufferLoad(own, [0])
    loop = ir.For(i, 0, length, ir.ForKind.SERIAL, ir.BufferStore(OUT, ir.BufferLoad(A, [i, 0]), [i]))
    block = ir.Block([], [], [], "b", ir.LetStmt(size, N + 2, loop), alloc_buffers=[own])
    reads, writes, _ = block_access_regions(block, {buffer.data: buffer for buffer in (A, OUT)})
    assert [str(r) for r in (*reads, *writes)] == (
        ["A[0:n + 2, 0]", "B[0:n + 2]"] if extent == "name" else ["A[0:100, 0]", "B[0:100]"]
    )
