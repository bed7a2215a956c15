"""Bounds of index expressions by what encloses them: never narrower than the values, and narrow enough below an `if`."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from tvmagic.arith.intervals import Intervals
from tvmagic.eval.machine import Machine
from tvmagic.ir import And, Broadcast, Call, IntImm, Max, Min, PrimExpr, Ramp, Select, SizeVar, Var


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


def meaning(expr: PrimExpr, values: dict[Var, int]) -> list[int]:
    """The value in each lane, of expressions that do not wrap."""
    if isinstance(expr, Ramp):
        (base,), (stride,) = meaning(expr.base, values), meaning(expr.stride, values)
        return [base + n * stride for n in range(expr.dtype.lanes)]
    if isinstance(expr, Broadcast):
        return meaning(expr.value, values) * expr.dtype.lanes
    return [value_of(expr, values)]


def value_of(expr: PrimExpr, values: dict[Var, int]) -> int:
    machine = Machine(None)
    machine.values.update({var: np.asarray(value, "int32") for var, value in values.items()})
    return int(machine.value(expr))


def drawn(rng: random.Random, variables: list[Var]) -> PrimExpr:
    """An expression that has each of some variables once, so that its ends are those of its operators."""
    if len(variables) == 1:
        x, number = variables[0], IntImm("int32", rng.randint(-3, 5))
        return rng.choice(
            [x, x, x + number, x * number, number - x, x // rng.randint(1, 4), x >> rng.randint(0, 2), Max(x, number)]
        )
    cut = rng.randint(1, len(variables) - 1)
    a, b = drawn(rng, variables[:cut]), drawn(rng, variables[cut:])
    return rng.choice([a + b, a - b, a * b, Min(a, b), Max(a, b), a + b])


def test_the_ends_of_expressions_are_reached() -> None:
    """With each variable once, the bounds are the least and the largest value, as counted."""
    rng = random.Random(5)
    for _ in range(250):
        intervals, variables = Intervals(), [Var(f"v{n}", "int32") for n in range(rng.randint(1, 3))]
        for var in variables:
            low = rng.randint(-4, 3)
            intervals.known[var] = low, low + rng.randint(0, 4)
        expr = drawn(rng, variables)
        lanes = rng.choice([1, 1, 4])
        if lanes > 1:
            expr = Ramp(expr, rng.randint(-2, 2), 4) if rng.random() < 0.7 else Broadcast(expr, 4)
        ranges = [range(low, high + 1) for low, high in (intervals.known[v] for v in variables)]
        found = [v for at in product(*ranges) for v in meaning(expr, dict(zip(variables, at)))]
        assert intervals.of(expr) == (min(found), max(found)), str(expr)


def i8(value: int) -> IntImm:
    return IntImm("int8", value)


INT8, UINT8 = (-128, 127), (0, 255)


@pytest.mark.parametrize(
    ("make", "ends"),
    [
        (lambda x, y: x % 5, (0, 4)),
        (lambda x, y: x % 100, (0, 7)),
        (lambda x, y: (x - 3) % 5, (0, 4)),
        (lambda x, y: x % y, INT8),
        (lambda x, y: x // y, INT8),
        (lambda x, y: y // x, INT8),
        (lambda x, y: x // (y + 4), (0, 7)),
        (lambda x, y: x % (y + 4), (0, 6)),
        (lambda x, y: x * 16, (0, 112)),
        (lambda x, y: x * i8(19), INT8),
        (lambda x, y: x * i8(18) + i8(1), (1, 127)),
        (lambda x, y: x * i8(-18) - i8(2), (-128, -2)),
        (lambda x, y: x * i8(-18) - i8(3), INT8),
        (lambda x, y: x & 3, (0, 3)),
        (lambda x, y: y & 3, (0, 3)),
        (lambda x, y: y & x, (0, 7)),
        (lambda x, y: y & y, INT8),
        (lambda x, y: call("bitwise_and", x, i8(100)), (0, 7)),
        (lambda x, y: call("likely", x), (0, 7)),
        (lambda x, y: call("bitwise_or", x, x), INT8),
        (lambda x, y: call("shift_right", x, x), INT8),
        (lambda x, y: x << 1, INT8),
        (lambda x, y: y >> 1, (-2, 1)),
        (lambda x, y: x.astype("uint8"), (0, 7)),
        (lambda x, y: y.astype("uint8"), UINT8),
        (lambda x, y: y.astype("int32"), (-3, 3)),
        (lambda x, y: x.astype("float32").astype("int8"), INT8),
        (lambda x, y: i8(-7), (-7, -7)),
        (lambda x, y: call("shift_right", x, i8(0)), (0, 7)),
        (lambda x, y: Select(x < y, x, y), INT8),
        (lambda x, y: Var("z", "int8"), INT8),
        (lambda x, y: SizeVar("n", "int8"), (0, 127)),
        (lambda x, y: checked(7, False), (0, 6)),
        (lambda x, y: checked(7, True), (0, 6)),
        (lambda x, y: checked(1, False), (0, 0)),
        (lambda x, y: checked(1, True), (-(2**31), 2**31 - 1)),
        (lambda x, y: Var("b", "bool"), (0, 1)),
        (lambda x, y: checked(2, True), (0, 1)),
        (lambda x, y: Ramp(x, y, 3), (-6, 13)),
        (lambda x, y: Ramp(y, i8(-70), 3), INT8),
    ],
)
def test_bounds_of_operators(make: Callable[[Var, Var], PrimExpr], ends: tuple[int, int]) -> None:
    """With `x` from 0 to 7 and `y` from -3 to 3, both int8; what may wrap has the limits of its type."""
    intervals, x, y = Intervals(), Var("x", "int8"), Var("y", "int8")
    intervals.known.update({x: (0, 7), y: (-3, 3)})
    assert intervals.of(make(x, y)) == ends


@pytest.mark.parametrize("levels", [1, 32, 33, 34, 60])
def test_how_deep_operators_are_looked_at(levels: int) -> None:
    """33 operators one inside the other; what is below is any value of its type."""
    intervals, x = Intervals(), Var("x", "int32")
    intervals.known[x] = (0, 7)
    expr: PrimExpr = x
    for _ in range(levels):
        expr = Max(expr, IntImm("int32", -5))
    low, high = intervals.of(expr)
    assert (low, high) == ((0, 7) if levels <= 33 else (-5, 2**31 - 1))


def call(name: str, *args: PrimExpr) -> PrimExpr:
    return Call(args[0].dtype, f"tir.{name}", list(args))


def checked(extent: int, repeats: bool) -> PrimExpr:
    """An index behind its check, of a dimension of `extent`; `repeats`: an array of one element may be there instead."""
    i = IntImm("int32", 0)
    return Call(
        "int32", "tir.checked_index", [Var("i", "int32"), IntImm("int32", extent), i, IntImm("int32", int(repeats)), i]
    )


@pytest.mark.parametrize(
    ("guard", "index", "largest"),
    [
        (lambda a, b: a + b < 5, lambda a, b: a + b, 4),
        (lambda a, b: a + b <= 5, lambda a, b: a + b, 5),
        (lambda a, b: a + b + 2 < 5, lambda a, b: a + b, 2),
        (lambda a, b: a + b < 5, lambda a, b: a + b + 3, 7),
        (lambda a, b: a + b < 5, lambda a, b: (a + b) * 3, 12),
        (lambda a, b: a * 2 + b < 5, lambda a, b: a * 4 + b * 2, 8),
        (lambda a, b: a * 2 + b < 5, lambda a, b: a * 4 + b, 30),
        (lambda a, b: a * 2 + b < 5, lambda a, b: a * 3 + b * 2, 30),
        (lambda a, b: 5 > a + b, lambda a, b: a + b, 4),
        (lambda a, b: a + b > 5, lambda a, b: a + b, 12),
        (lambda a, b: a < 2, lambda a, b: a + b, 7),
        (lambda a, b: a < 2, lambda a, b: a * 2 + b, 8),
        (lambda a, b: a < 2, lambda a, b: b * 3, 18),
        (lambda a, b: And(a + b < 9, a + b < 4), lambda a, b: a + b, 3),
        (lambda a, b: And(b < 3, a < 1), lambda a, b: a + b, 6),
        (lambda a, b: call("likely", a + b < 5), lambda a, b: a + b, 4),
        (lambda a, b: a - b < 3, lambda a, b: a - b, 2),
        (lambda a, b: a + b < 5, lambda a, b: Ramp((a + b) * 4, 1, 4), 19),
        (lambda a, b: a + b < 5, lambda a, b: Broadcast(a + b, 4), 4),
        (lambda a, b: a + b < 5, lambda a, b: Ramp(a + b, -1, 4), 12),
        (lambda a, b: a + b < 5, lambda a, b: Ramp(a + b, 0, 4), 4),
        (lambda a, b: a + b < 5, lambda a, b: 20 - (a + b), 20),
        (lambda a, b: a * 0 + b * 0 < 5, lambda a, b: a + b, 12),
        (lambda a, b: a // 2 + b < 5, lambda a, b: a // 2 + b, 9),
    ],
)
def test_what_a_condition_says_of_an_index(
    guard: Callable[[Var, Var], PrimExpr], index: Callable[[Var, Var], PrimExpr], largest: int
) -> None:
    """Of `a` and `b` from 0 to 6: the size below which every index is known to be; what is not said may be all that it could."""
    intervals, (a, b) = known(7, 7)
    value = index(a, b)
    with intervals.where(guard(a, b)):
        sizes = [size for size in range(1, 40) if intervals.inside(value, size)]
        assert min(sizes, default=None) == (largest + 1 if intervals.of(value)[0] >= 0 else None)
        row = Var("row", "int32")
        if value.dtype.is_scalar:
            intervals.define(row, value)
            assert intervals.of(row)[1] == largest
    assert not intervals.given


@pytest.mark.parametrize(
    ("times", "more", "bound", "largest"),
    [
        (18, 1, 100, 98),
        (18, 2, 100, 126),
        (18, 0, 100, 99),
        (18, 1, 127, 125),
        (17, 8, 60, 51),
        (17, 9, 60, 119),
        (-18, -2, -9, -8),
        (-18, -3, -9, 0),
    ],
)
def test_a_condition_on_a_sum_that_may_wrap_says_nothing(times: int, more: int, bound: int, largest: int) -> None:
    """With `x` from 0 to 7, int8: what may leave the type wraps around, and is below any bound."""
    intervals, x = Intervals(), Var("x", "int8")
    intervals.known[x] = (0, 7)
    with intervals.where(x * i8(times) + i8(more) < i8(bound)):
        assert bool(intervals.given) is (-128 <= min(0, 7 * times) + more and max(0, 7 * times) + more <= 127)
        row = Var("row", "int8")
        intervals.define(row, x * i8(times))
        assert intervals.of(row)[1] == largest


@pytest.mark.parametrize(
    ("extent", "first", "values"),
    [
        (1, None, (0, 0)),
        (5, None, (0, 4)),
        (0, None, (0, 0)),
        (5, 3, (3, 7)),
        (0, 3, (3, 3)),
        (1, -2, (-2, -2)),
        ("n", None, (0, 8)),
        ("n", "n", (2, 17)),
        (4, "n", (2, 12)),
        ("m", None, (0, 2**31 - 2)),
    ],
)
def test_the_values_of_a_loop(extent: int | str, first: int | str | None, values: tuple[int, int]) -> None:
    """Of one without iterations its first."""
    intervals, var = Intervals(), Var("i", "int32")
    given = {"n": Var("n", "int32"), "m": Var("m", "int32")}
    intervals.known[given["n"]] = 2, 9
    of = lambda value: given[value] if isinstance(value, str) else IntImm("int32", value)  # noqa: E731
    intervals.counts(var, of(extent), None if first is None else of(first))
    assert intervals.of(var) == values
