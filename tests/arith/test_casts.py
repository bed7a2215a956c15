"""Casts in simplification and sets, at the limits of their types."""

from __future__ import annotations

from typing import Any

import pytest

from tvmagic import ir
from tvmagic.arith import Analyzer, ConstIntBound, IntervalSet, eval_set
from tvmagic.arith.analyzer import Analyzer as CompilingAnalyzer
from tvmagic.arith.int_set import neg_inf, pos_inf

X, Y, Z, N = ir.Var("x"), ir.Var("y"), ir.Var("z"), ir.Var("n")


P = ir.Var("p", "int64")


LAST = (1 << 31) - 1


def wide(value: int) -> Any:
    return ir.IntImm("int64", value)


def known(**bounds: tuple[int, int]) -> Analyzer:
    analyzer = Analyzer()
    for var in (X, Y, Z, P):
        if var.name in bounds:
            analyzer.update(var, ConstIntBound(*bounds[var.name]))
    return analyzer


@pytest.mark.parametrize(
    ("low", "high", "offset", "fits"),
    [
        (0, LAST - 5, 5, True),
        (0, LAST - 4, 5, False),
        (-LAST + 4, 0, -5, True),
        (-LAST + 3, 0, -5, False),
        (LAST, LAST + 1, -5, False),
    ],
)
def test_cast_moves_into_sum_that_fits(low: int, high: int, offset: int, fits: bool) -> None:
    difference = ir.Sub(ir.Cast("int32", P + wide(offset)), ir.Cast("int32", P))
    assert (str(known(p=(low, high)).canonical_simplify(difference)) == str(offset)) == fits


@pytest.mark.parametrize("scale", [-4, -1, 2, 3])
@pytest.mark.parametrize("divisor", [1, 3])
def test_cast_moves_into_product_that_fits(scale: int, divisor: int) -> None:
    """`int32(p // divisor * scale) - int32(p // divisor) * scale` is 0 where all of it, the index too, is an int32."""
    for edge in (LAST // abs(scale), LAST // abs(scale) + 1, (LAST + 1) // abs(scale) + 2):
        for end in (edge, edge * divisor, edge * divisor + divisor - 1):
            analyzer = known(p=(0, end))
            part = ir.FloorDiv(P, wide(divisor)) if divisor > 1 else P
            e = ir.Sub(
                ir.Cast("int32", ir.Mul(part, wide(scale))), ir.Mul(ir.Cast("int32", part), ir.IntImm("int32", scale))
            )
            value = end // divisor * scale
            fits = -LAST - 1 <= value <= LAST and end <= LAST
            found = str(analyzer.canonical_simplify(e))
            assert (found == "0") == fits, (end, found)


@pytest.mark.parametrize(
    ("dtype", "low", "high", "fits"),
    [
        ("int8", -128, 127, True),
        ("int8", -129, 127, False),
        ("int8", -128, 128, False),
        ("uint8", 0, 255, True),
        ("uint8", -1, 255, False),
        ("uint8", 0, 256, False),
        ("int16", -32768, 32767, True),
        ("int16", -32768, 32768, False),
    ],
)
def test_cast_set_is_everything_unless_bounds_fit(dtype: str, low: int, high: int, fits: bool) -> None:
    found = eval_set(ir.Cast(dtype, X), {X: IntervalSet(low, high)})
    assert found.is_everything() != fits
    if fits:
        assert (found.min_value.value, found.max_value.value) == (low, high) and found.min_value.dtype == dtype
    for half in (IntervalSet(low, pos_inf()), IntervalSet(neg_inf(), high)):
        assert eval_set(ir.Cast(dtype, X), {X: half}).is_everything()
    assert eval_set(ir.Cast(dtype, ir.Cast("float32", X)), {X: IntervalSet(low, high)}).is_everything()


def test_cast_sum_stays_wide_with_large_offset() -> None:
    """2**31 is no int32, whatever is added to it afterwards."""
    for base, inside in ((LAST - 4, True), (LAST, True), (LAST + 1, False)):
        analyzer = known(x=(-9, -5))
        text = str(analyzer.canonical_simplify(ir.Cast("int32", ir.Cast("int64", X) + wide(base))))
        assert ("T.int64" not in text) == inside, text


@pytest.mark.parametrize(
    "first, end, kept", [(-200, 6, False), (-128, 1, True), (-129, 1, False), (0, 108, True), (0, 109, False)]
)
def test_cast_set_keeps_symbolic_bounds_that_fit(first: int, end: int, kept: bool) -> None:
    analyzer = CompilingAnalyzer()
    analyzer.bind(N, ir.Range(first, end))
    found = eval_set(ir.Cast("int8", X), {X: IntervalSet(N, N + 20)}, analyzer)
    assert (str(found) == 'IntervalSet[T.Cast("int8", n), T.Cast("int8", n + 20)]') is kept
    assert kept or found.is_everything()


@pytest.mark.parametrize("ends", [(0, pos_inf()), (neg_inf(), 0)])
def test_cast_of_unbounded_set_is_everything(ends: tuple[Any, Any]) -> None:
    assert eval_set(ir.Cast("int8", X), {X: IntervalSet(*ends)}, CompilingAnalyzer()).is_everything()
