"""Proofs about vectors whose length the machine decides: for each length that the target has, or none."""

from __future__ import annotations

from typing import Any

import pytest

from tvmagic import ir, tir
from tvmagic.arith import Analyzer, ConstIntBound, eval_set
from tvmagic.arith.int_set import IntervalSet
from tvmagic.arith.scalable import SVE_VALUES, ContainsVscale, known_vscale_values, most_lanes
from tvmagic.target import Target

SVE = "llvm -mtriple=aarch64-linux-gnu -mattr=+v8.2a,+sve"
X = ir.Var("x")
LANES = tir.vscale() * 4


def analyzer(low: int = 0, high: int = 1 << 20) -> Analyzer:
    found = Analyzer()
    found.update(X, ConstIntBound(low, high))
    return found


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (LANES >= 4, True),
        (LANES >= 5, False),
        (LANES <= 64, True),
        (LANES < 64, False),
        (tir.vscale() * tir.vscale() <= 16 * tir.vscale(), True),
        (tir.floormod(64, LANES).equal(0), True),
        (tir.floormod(32, LANES).equal(0), False),
        (tir.NE(LANES, 12), True),
        (tir.NE(LANES, 16), False),
    ],
    ids=str,
)
def test_what_holds_of_each_length_is_proved(condition: Any, holds: bool) -> None:
    with Target(SVE):
        assert analyzer().can_prove(condition) == holds
        assert known_vscale_values() == SVE_VALUES == (1, 2, 4, 8, 16)


def test_without_such_a_target_nothing_is_proved_and_it_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    for target, name in (
        (None, "(nullptr)"),
        ("llvm -mcpu=haswell", "llvm"),
        ("llvm -mtriple=aarch64-linux-gnu", "llvm"),
    ):
        if target is None:
            assert known_vscale_values() == () and not analyzer().can_prove(LANES >= 4)
        else:
            with Target(target):
                assert known_vscale_values() == () and not analyzer().can_prove(LANES >= 4)
        said = capsys.readouterr().err
        assert "only supports AArch64 SVE targets" in said and f"but the target was {name}" in said
    assert str(analyzer().simplify(tir.if_then_else(LANES >= 4, X, 0))) and capsys.readouterr().err == ""


def test_bounds_and_sets() -> None:
    bound = Analyzer().const_int_bound(tir.vscale())
    assert (bound.min_value, bound.max_value) == (-(1 << 31), (1 << 31) - 1)
    with Target(SVE):
        bound = Analyzer().const_int_bound(LANES)
        assert (bound.min_value, bound.max_value) == (4, 64)
    for stride, low, high in ((1, "0", "pos_inf"), (0, "0", "pos_inf"), (-1, "neg_inf", "0")):
        found = eval_set(ir.Ramp(X, stride, LANES), {X: IntervalSet(0, 0)})
        assert (str(found.min_value), str(found.max_value)) == (low, high)


def test_extremes_for_each_length() -> None:
    with Target(SVE):
        simplify = analyzer(0, 4).rewrite_simplify
        for e, chosen in ((ir.Min(LANES, 3 + 0 * X), "3"), (ir.Max(LANES, X), str(LANES)), (ir.Min(X, LANES), "x")):
            assert str(simplify(e)) == chosen
        assert str(simplify(ir.Max(LANES, tir.const(64)))) == "64" and str(
            simplify(ir.Min(LANES, tir.const(64)))
        ) == str(LANES)
        assert str(simplify(ir.Min(LANES, tir.const(16)))) == "T.min(T.vscale(), 4) * 4"


def test_extremes_that_only_each_length_tells() -> None:
    square = tir.vscale() * LANES
    with Target(SVE):
        simplify = analyzer().rewrite_simplify
        for pair in ((LANES, square), (square, LANES)):
            assert str(simplify(ir.Min(*pair))) == str(simplify(LANES)) and str(simplify(ir.Max(*pair))) == str(
                simplify(square)
            )
    assert isinstance(analyzer().rewrite_simplify(ir.Min(LANES, square)), ir.Min)


@pytest.mark.parametrize(("high", "low", "below"), [(3, 0, True), (4, 0, False), (3, -1, False)])
def test_quotients_by_the_length(high: int, low: int, below: bool) -> None:
    with Target(SVE):
        simplify = analyzer(low, high).rewrite_simplify
        assert (str(simplify(ir.FloorDiv(X, LANES))) == "0") == below
        assert (simplify(ir.FloorMod(X, LANES)) is X) == below
    simplify = analyzer(low, high).rewrite_simplify
    assert str(simplify(ir.FloorDiv(X, LANES))) != "0"


def test_what_depends_on_the_length() -> None:
    contains = ContainsVscale()
    assert contains(LANES) and contains(ir.Broadcast(LANES, 4)) and contains(ir.Select(X < 3, X, LANES + X))
    assert not contains(X * 4) and not contains(ir.Select(LANES < 3, X, X + 1))  # a condition only chooses
    assert [most_lanes(ir.DataType(t)) for t in ("int32", "float32x4", "float32xvscalex4")] == [1, 4, 64]
