"""Quotients, remainders and products of indices against evaluation."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from arith_evaluate import BINARY, evaluate

from tvmagic import ir
from tvmagic.arith import Analyzer, ConstIntBound
from tvmagic.arith.analyzer import Analyzer as CompilingAnalyzer

X, Y, Z, N = ir.Var("x"), ir.Var("y"), ir.Var("z"), ir.Var("n")


P = ir.Var("p", "int64")


LAST = (1 << 31) - 1


def known(**bounds: tuple[int, int]) -> Analyzer:
    analyzer = Analyzer()
    for var in (X, Y, Z, P):
        if var.name in bounds:
            analyzer.update(var, ConstIntBound(*bounds[var.name]))
    return analyzer


@pytest.mark.parametrize("kinds", [(ir.FloorDiv, ir.FloorMod), (ir.Div, ir.Mod)], ids=["floor", "truncate"])
def test_quotient_and_remainder_recombine(kinds: Any) -> None:
    """`x % upper // lower * lower + x % lower` is `x % upper`, and what is above is joined likewise."""
    div, mod = kinds

    def number(value: int) -> Any:
        return ir.IntImm("int32", value)

    analyzer = known(x=(0, 1000))
    for lower, upper in ((2, 4), (2, 8), (4, 8), (4, 16), (3, 12), (5, 20)):
        inner, rest = div(mod(X, number(upper)), number(lower)), mod(X, number(lower))
        joined = ir.Add(ir.Mul(inner, number(lower)), rest)
        assert str(analyzer.canonical_simplify(joined)) == str(mod(X, number(upper)))
        whole = ir.Add(ir.Mul(div(X, number(upper)), number(upper)), joined)
        assert analyzer.canonical_simplify(whole) is X
        assert str(analyzer.canonical_simplify(div(mod(X, number(lower)), number(upper)))) == "0"
        assert str(analyzer.canonical_simplify(mod(div(X, number(lower)), number(upper // lower)))) == str(
            analyzer.canonical_simplify(inner)
        )
        product = ir.Mul(X, number(lower))
        assert str(analyzer.canonical_simplify(mod(product, number(upper)))) == str(
            ir.Mul(mod(X, number(upper // lower)), number(lower))
        )
        assert str(analyzer.canonical_simplify(div(product, number(upper)))) == str(div(X, number(upper // lower)))
        assert str(analyzer.canonical_simplify(mod(ir.Mul(X, number(upper)), number(lower)))) == "0"


@pytest.mark.parametrize("factor", [2, 3, 8])
def test_comparison_drops_remainder_below_common_factor(factor: int) -> None:
    for low, high in ((0, factor - 1), (0, factor), (1, factor - 1), (-1, factor - 1), (1 - factor, 0), (-factor, 0)):
        for bound in (0, 2 * factor, -factor):
            e = ir.LT(X * factor + Y, ir.IntImm("int32", bound))
            found = known(y=(low, high)).canonical_simplify(e)
            assert ("y" not in str(found)) == (low >= 0 and high < factor), (low, high, str(found))
            for x, y in itertools.product(range(-4, 5), range(low, high + 1)):
                assert evaluate(found, {X: x, Y: y}) == evaluate(e, {X: x, Y: y}), (str(found), x, y)


@pytest.mark.parametrize("factor", [-3, 2, 5])
@pytest.mark.parametrize("divisor", [10**9 + 7, -(10**9), 7, -7])
@pytest.mark.parametrize(("first", "extent"), [(0, 2), (0, 3), (0, 100), (-2, 3), (-99, 100)])
def test_remainder_of_product_keeps_values(factor: int, divisor: int, first: int, extent: int) -> None:
    analyzer, last = CompilingAnalyzer(), first + extent - 1
    analyzer.bind(X, ir.Range.from_min_extent(first, extent))
    for rest in (None, Y):
        if rest is not None and divisor < 0:
            continue  # no rule
        analyzer.bind(Y, ir.Range.from_min_extent(0, 4), allow_override=True)
        product = X * factor if rest is None else X * factor + rest
        for e in (product % divisor, *([] if rest is None else [(rest + X * factor) % divisor])):
            found = analyzer.rewrite_simplify(e)
            for x, y in itertools.product((first, first + 1, last), (0, 3)):
                assert evaluate(found, {X: x, Y: y}) == (x * factor + (0 if rest is None else y)) % divisor
            reduced = factor % divisor
            ends = [x * reduced + (0 if rest is None else y) for x in (first, last) for y in (0, 3)]
            holds = all(-(2**31) <= end < 2**31 for end in ends)
            assert (str(reduced) in str(found)) == (holds or reduced == factor), str(found)


@pytest.mark.parametrize("low", [-3, -2, -1, 0, 1])
def test_truncated_remainder_drops_multiples_of_divisor(low: int) -> None:
    for base in (-4, -1, 1, 4, 6, 7, 8):
        e = ir.Mod(X + base if base > 0 else X - -base, ir.IntImm("int32", 3))
        found = known(x=(low, 20)).canonical_simplify(e)
        assert all(evaluate(found, {X: x}) == evaluate(e, {X: x}) for x in range(low, 21))
        rest = base - ir.fold.truncate_divide(base, 3) * 3
        smaller = X + rest if rest > 0 else X
        reduced = base > 3 and low + rest >= 0 and low + base >= 0
        assert not reduced or str(found) == str(ir.Mod(smaller, ir.IntImm("int32", 3))), (base, str(found))
        assert reduced or abs(base) < 3 or str(base).lstrip("-") in str(found)


@pytest.mark.parametrize("factor", [1 << 20, (1 << 20) + 1, (1 << 21) - 1, 1 << 21])
def test_product_and_quotient_cancel_only_without_overflow(factor: int) -> None:
    """x * f // f is x only if x * f is an int32 for every x."""
    for last in (LAST // factor, LAST // factor + 1):
        found = known(x=(0, last)).simplify((X * factor) // factor)
        assert (found is X) == (last * factor <= LAST), (last, found)


def test_quotient_bounds_include_zero_for_zero_divisor() -> None:
    buffer = ir.decl_buffer((4,), "int32", "A")
    first, second = (ir.BufferLoad(buffer, [n]) for n in (0, 1))
    clipped = lambda e, low, high: ir.Max(ir.Min(e, high), low)  # noqa: E731
    for low, high, least, most in ((-9, -5, 0, 1), (5, 9, 0, 1), (5, 9, 1, 2), (-9, -5, 1, 1)):
        divisors = range(least, most + 1)
        for kind in (ir.FloorDiv, ir.Div):
            values = [BINARY[kind](x, y) if y else 0 for x in range(low, high + 1) for y in divisors]
            found = Analyzer().const_int_bound(kind(clipped(first, low, high), clipped(second, least, most)))
            assert (found.min_value, found.max_value) == (min(values), max(values))
