"""Sums of variables times numbers: what they answer is true of all values."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from arith_random import mark

from tvmagic import ir
from tvmagic.arith import Analyzer
from tvmagic.arith.affine_form import Sum, Sums
from tvmagic.ir import FloorDiv, FloorMod, IntImm, PrimExpr, Range, Var

EXTENTS = (5, 3, 4)


def _expression(draw: random.Random, variables: list[Var], depth: int) -> tuple[PrimExpr, Any]:
    """A random expression, and the function of the variables' values that it is."""
    kind = draw.choice("vnasmqr" if depth else "vn")
    if kind == "v":
        n = draw.randrange(len(variables))
        return variables[n], lambda v: v[n]
    if kind == "n":
        number = draw.randint(-7, 7)
        return IntImm("int32", number), lambda v: number
    a, f = _expression(draw, variables, depth - 1)
    if kind in "as":
        b, g = _expression(draw, variables, depth - 1)
        return (a + b, lambda v: f(v) + g(v)) if kind == "a" else (a - b, lambda v: f(v) - g(v))
    number = draw.randint(1, 6)
    if kind == "m":
        return a * number, lambda v: f(v) * number
    node = FloorDiv if kind == "q" else FloorMod
    return node(a, IntImm("int32", number)), ((lambda v: f(v) // number) if kind == "q" else (lambda v: f(v) % number))


def test_random_sums_are_bounded_by_their_ends() -> None:
    """Least, greatest, comparison and span hold for every value that the variables take. And they are as before."""
    draw, proved, answers = random.Random(1), 0, 0
    for _ in range(300):
        variables = [Var(n, "int32") for n in "ijk"]
        sums = Sums({v: Range.from_min_extent(0, e) for v, e in zip(variables, EXTENTS)})
        (a, f), (b, g) = (_expression(draw, variables, 3) for _ in range(2))
        x, y = sums.of(a), sums.of(b)
        if x is None or y is None:
            continue
        every = list(itertools.product(*map(range, EXTENTS)))
        least, greatest = sums.least(x), sums.greatest(x)
        assert least is not None and greatest is not None
        assert least <= min(map(f, every)) and max(map(f, every)) <= greatest
        if sums.below(x, y):
            proved += 1
            assert all(f(v) <= g(v) for v in every)
        span = sums.span(x, {variables[0]})
        ends = [sums.least(end) for end in span or ()]
        answers += mark(a, b, least, greatest, sums.below(x, y), sums.below(y, x), ends)
        if span is not None:
            low, high = ((sums.least(end), sums.greatest(end)) for end in span)
            assert low[0] is not None and high[1] is not None
            assert low[0] <= min(map(f, every)) and max(map(f, every)) <= high[1]
    assert (proved, answers) == (114, 654404439732)


def test_a_quotient_of_a_tile_is_the_number_of_the_tile() -> None:
    i, j, n = Var("i", "int32"), Var("j", "int32"), Var("n", "int32")
    sums = Sums({j: Range.from_min_extent(0, 6)})
    assert sums.of(FloorDiv(i * 6 + j, IntImm("int32", 6))) == Sum({i: 1}, 0)
    assert sums.of(FloorMod(i * 6 + j, IntImm("int32", 6))) == Sum({j: 1}, 0)
    tiles = FloorDiv(n + 5, IntImm("int32", 6))
    a, b = sums.of(tiles * 6), sums.of(tiles)
    assert a is not None and b is not None and a == Sum({}, 0).plus(b, 6) and sums.least(a) is None


@pytest.mark.parametrize("text", ["i * j", "i / 0", "wide", "float"])
def test_what_is_no_sum_is_not_answered(text: str) -> None:
    i, j = Var("i", "int32"), Var("j", "int32")
    values = {
        "i * j": i * j,
        "i / 0": FloorDiv(i, j),
        "wide": Var("u", "uint8") + Var("w", "uint8"),
        "float": Var("f", "float32"),
    }
    assert Sums({}).of(values[text]) is None


X, Y, Z, N = ir.Var("x"), ir.Var("y"), ir.Var("z"), ir.Var("n")


def test_long_sums_combine_equal_terms() -> None:
    """Sums of many terms are put together by a table: the same coefficients as of term by term, in any order."""
    variables = [ir.Var(f"v{n}") for n in range(9)]
    atoms = [*variables, *(ir.FloorDiv(v, ir.IntImm("int32", 3)) for v in variables[:5]), X * Y, X * Z]
    analyzer = Analyzer()
    for left, right, sign in itertools.product((3, 9, 13), (3, 5, 13), (1, -1)):
        first = [(atoms[n % len(atoms)], n % 4 - 1) for n in range(left)]
        second = [(atoms[(3 * n + 1) % len(atoms)], n % 3 - 1) for n in range(right)]

        def total(terms: Any) -> Any:
            found: Any = ir.IntImm("int32", 0)
            for atom, factor in terms:
                found = ir.Add(found, ir.Mul(atom, ir.IntImm("int32", factor)))
            return found

        whole = (ir.Add if sign > 0 else ir.Sub)(total(first), total(second))
        expected: dict[int, int] = {}
        for terms, times in ((first, 1), (second, sign)):
            for atom, factor in terms:
                expected[id(atom)] = expected.get(id(atom), 0) + times * factor
        difference = whole
        for atom in atoms:
            difference = ir.Sub(difference, ir.Mul(atom, ir.IntImm("int32", expected.get(id(atom), 0))))
        assert str(analyzer.canonical_simplify(difference)) == "0"
