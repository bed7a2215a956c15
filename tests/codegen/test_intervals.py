"""Bounds of index expressions by what encloses them: never narrower than the values, and narrow enough below an `if`."""

from __future__ import annotations

import random
from itertools import product

from tvmagic.codegen.intervals import Intervals
from tvmagic.ir import And, Call, IntImm, PrimExpr, Ramp, Var


def known(*extents: int) -> tuple[Intervals, list[Var]]:
    intervals = Intervals()
    variables = [Var(f"v{n}", "int32") for n in range(len(extents))]
    intervals.known.update({var: (0, extent - 1) for var, extent in zip(variables, extents)})
    return intervals, variables


def test_a_condition_on_a_sum_bounds_its_multiples() -> None:
    intervals, (far, near, k) = known(4, 13, 256)
    index: PrimExpr = (
        far * 19968 + near * 1536 + k + 1280
    )  # six rows of 256 elements for each step of `far * 13 + near`
    assert not intervals.inside(index, 50 * 1536)
    with intervals.where(far * 13 + near < 50):
        assert intervals.inside(index, 50 * 1536)
        assert not intervals.inside(index, 50 * 1536 - 1)
        assert not intervals.inside(far * 19968 + near * 1537 + k, 50 * 1536)  # no multiple of the sum
    assert not intervals.inside(index, 50 * 1536)


def test_what_a_let_names_and_lanes_are_bounded_too() -> None:
    intervals, (far, near) = known(4, 13)
    row = Var("row", "int32")
    with intervals.where(And(far >= 0, far * 13 + near <= 49)):
        intervals.define(row, far * 208 + near * 16)
        assert intervals.of(row) == (0, 784)
        lanes = Ramp(far * 208 + near * 16, IntImm("int32", 1), 16)
        assert intervals.inside(lanes, 800) and not intervals.inside(lanes, 799)


def test_a_condition_on_a_sum_that_wraps_says_nothing() -> None:
    intervals = Intervals()
    var = Var("v", "uint32")
    intervals.known[var] = (0, 100)
    with intervals.where(var + IntImm("uint32", (1 << 32) - 6) < IntImm("uint32", 10)):  # holds for 6 to 15
        assert not intervals.inside(var, 15)


def test_no_value_is_outside_the_bounds() -> None:
    rng = random.Random(1)
    for _ in range(300):
        extents = [rng.randint(1, 5) for _ in range(3)]
        intervals, variables = known(*extents)
        guard, index = ([rng.randint(-3, 6) for _ in range(4)] for _ in range(2))
        if rng.random() < 0.5:  # of which the index is a multiple and a rest
            times = rng.randint(1, 3)
            index = [times * g + rng.choice((0, 0, 1)) for g in guard]
        most = rng.randint(-2, 20)
        terms = [sum((v * c for v, c in zip(variables, side[1:])), IntImm("int32", side[0])) for side in (guard, index)]
        values = [
            index[0] + sum(c * v for c, v in zip(index[1:], at))
            for at in product(*map(range, extents))
            if guard[0] + sum(c * v for c, v in zip(guard[1:], at)) < most
        ]
        with intervals.where(terms[0] < most):
            for size in range(1, 60, 7):
                if values and intervals.inside(terms[1], size):
                    assert 0 <= min(values) and max(values) < size


def test_a_shift_by_less_than_nothing_has_the_limits_of_its_type() -> None:
    intervals, i = known(8)
    x = i[0]
    assert intervals.of(x >> 1) == (0, 3)
    assert intervals.of(Call("int32", "tir.shift_right", [x, IntImm("int32", -1)])) == (-(2**31), 2**31 - 1)
