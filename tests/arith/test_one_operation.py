"""Bounds, modular sets and chains of single operations on small integers, each against all the values there are."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from math import gcd
from typing import Any

import pytest
from arith_evaluate import BINARY
from refusals import refuses

from tvmagic import ir
from tvmagic.arith import Analyzer, ConstIntBound, ModularSet
from tvmagic.arith import const_int_bound as bounds
from tvmagic.arith.const_int_bound import NEG_INF, POS_INF
from tvmagic.arith.modular_set import EVERYTHING
from tvmagic.arith.transitive import EQ, GE, GT, LE, LT, NE, Known
from tvmagic.ir import ops
from tvmagic.ir.fold import wrap_int

X, Y = ir.Var("x"), ir.Var("y")
ENDS = range(-3, 4)
INTERVALS = [(low, high) for low in ENDS for high in ENDS if low <= high]


def bound_of(e: Any, x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int]:
    analyzer = Analyzer()
    analyzer.update(X, ConstIntBound(*x))
    analyzer.update(Y, ConstIntBound(*y))
    found = analyzer.const_int_bound(e)
    return found.min_value, found.max_value


def values_of(op: Callable[[int, int], int], x: tuple[int, int], y: tuple[int, int]) -> set[int]:
    found = set()
    for a, b in itertools.product(range(x[0], x[1] + 1), range(y[0], y[1] + 1)):
        try:
            found.add(op(a, b))
        except ZeroDivisionError:
            pass
    return found


# ---------------------------------------------------------------------------- bounds


@pytest.mark.parametrize("op", [ir.Add, ir.Sub, ir.Mul, ir.Min, ir.Max, ir.FloorDiv, ir.Div])
def test_the_bound_of_one_operation_is_its_least_and_greatest_value(op: Any) -> None:
    for x, y in itertools.product(INTERVALS, INTERVALS):
        values = values_of(BINARY[op], x, y)
        found = bound_of(op(X, Y), x, y)
        if y == (0, 0) and not values:
            assert found == (-(1 << 31), (1 << 31) - 1)
        elif op in (ir.FloorDiv, ir.Div) and y[0] < 0 == y[1]:
            assert found[0] <= min(values) and max(values) <= found[1]  # as TVM, which counts a side that is not there
        else:
            assert found == (min(values), max(values)), (x, y)


@pytest.mark.parametrize("op", [ir.FloorMod, ir.Mod])
def test_the_bound_of_a_remainder(op: Any) -> None:
    """It is the dividend's where no divisor is reached, else from 0 or the least one to below the largest divisor."""
    for x, y in itertools.product(INTERVALS, INTERVALS):
        values = values_of(BINARY[op], x, y)
        low, high = bound_of(op(X, Y), x, y)
        assert not values or (low <= min(values) and max(values) <= high), (x, y)
        least, cap = (1 if y[0] == 0 else y[0]), y[1] - 1
        if least > 0 and cap >= 0:
            if x[0] >= 0:
                assert (low, high) == (x if x[1] < least else (0, min(x[1], cap)))
            elif op is ir.FloorMod:
                assert (low, high) == (0, cap)
            else:
                assert (low, high) == (max(x[0], -cap), min(max(x[1], 0), cap))
        elif op is ir.FloorMod:
            assert (low, high) == (min(0, y[0] + 1), max(0, y[1] - 1))
        else:
            assert (low, high) == (-(1 << 31), (1 << 31) - 1)


@pytest.mark.parametrize("op", [ir.FloorDiv, ir.Div])
def test_the_quotient_of_data_is_0_if_the_divisor_is(op: Any) -> None:
    data = ir.decl_buffer((2,), "int32", "D")
    a, b = (ir.BufferLoad(data, [ir.IntImm("int32", place)]) for place in (0, 1))
    for x, y in itertools.product([(5, 9), (-9, -5), (0, 3), (-2, 3)], INTERVALS):
        clipped = [
            ir.Min(ir.Max(e, ir.IntImm("int32", low)), ir.IntImm("int32", high)) for e, (low, high) in ((a, x), (b, y))
        ]
        found = Analyzer().const_int_bound(op(*clipped))
        divisors = range(y[0], y[1] + 1)
        values = {BINARY[op](v, w) if w else 0 for v in range(x[0], x[1] + 1) for w in divisors}
        assert found.min_value <= min(values) and max(values) <= found.max_value, (x, y)
        if 0 not in divisors:
            assert (found.min_value, found.max_value) == (min(values), max(values)), (x, y)


@pytest.mark.parametrize(
    ("dtype", "bound"),
    [
        ("bool", (0, 1)),
        ("int8", (-128, 127)),
        ("uint8", (0, 255)),
        ("uint16", (0, 65535)),
        ("int32", (-(1 << 31), (1 << 31) - 1)),
        ("int64", (NEG_INF, POS_INF)),
        ("uint64", (0, POS_INF)),
        ("float32", (NEG_INF, POS_INF)),
    ],
)
def test_all_values_of_a_type(dtype: str, bound: tuple[int, int]) -> None:
    assert bounds.everything(ir.DataType(dtype)) == bound
    assert bounds.everything(ir.DataType(dtype)) == bound  # from memory


def test_bounds_are_equal_by_their_ends() -> None:
    one = ConstIntBound(0, 3)
    assert one == ConstIntBound(0, 3) and one != ConstIntBound(0, 4) and one != ConstIntBound(1, 3) and one != "0..3"
    assert hash(one) == hash(ConstIntBound(0, 3)) and len({one, ConstIntBound(0, 3), ConstIntBound(1, 3)}) == 2
    assert repr(ConstIntBound(NEG_INF, POS_INF)) == "ConstIntBound[neg_inf,pos_inf]"


def test_bounds_of_calls() -> None:
    def bound(e: Any, x: tuple[int, int] = (-8, 5), y: tuple[int, int] = (0, 2)) -> tuple[int, int]:
        return bound_of(e, x, y)

    whole = (-(1 << 31), (1 << 31) - 1)
    assert bound(ops.shift_right(X, Y)) == (-8, 5) and bound(ops.shift_left(X, Y)) == whole
    assert bound(ops.shift_left(X, Y), (1, 5)) == (1, 20) and bound(ops.shift_left(X, Y), (0, 5), (-1, 2)) == whole
    assert bound(ops.shift_left(X, Y), (0, 5), (0, 2)) == (0, 20)
    assert bound(ops.bitwise_and(X, Y)) == (0, 2) and bound(ops.bitwise_and(X, Y), (0, 5), (-1, 2)) == (0, 5)
    assert bound(ops.bitwise_and(X, Y), (-1, 5), (-1, 2)) == whole and bound(ops.bitwise_and(X, Y), (0, 9), (0, 4)) == (
        0,
        4,
    )
    assert bound(ops.clz(X)) == whole


def test_bounds_of_logarithms_in_the_loops_of_sorting() -> None:
    def steps(value: Any) -> Any:
        return ir.Cast("int32", ops.ceil(ops.log2(value)))

    one, nine = (ir.FloatImm("float64", v) for v in (1.0, 9.0))
    assert bound_of(steps(nine), (0, 0), (0, 0)) == (4, 4) and bound_of(steps(one), (0, 0), (0, 0)) == (0, 0)
    assert bound_of(steps(ir.Cast("float64", X)), (1, 9), (0, 0)) == (0, 4)
    assert bound_of(steps(ir.Cast("float64", X)), (2, 8), (0, 0)) == (1, 3)
    low, high = bound_of(steps(ir.Cast("float64", X)), (0, 8), (0, 0))
    assert high == 3 and low == -(1 << 31)
    large = ir.Cast("float64", ir.Var("large", "int64"))
    assert bound_of(steps(large), (0, 0), (0, 0)) == (-(1 << 31), (1 << 31) - 1)


# ---------------------------------------------------------------------------- modular sets

ENTRIES = [
    *((coeff, base) for coeff in range(1, 7) for base in range(coeff)),
    *((0, base) for base in (-3, 0, 1, 2, 6)),
]


def members(entry: tuple[int, int], low: int = -70, high: int = 70) -> set[int]:
    coeff, base = entry
    return {v for v in range(low, high) if (v == base if coeff == 0 else (v - base) % coeff == 0)}


def least_set(values: Iterable[int]) -> tuple[int, int]:
    """The modular set of the largest coefficient that holds all values."""
    first, *others = sorted(values)
    coeff = gcd(*[v - first for v in others]) if others else 0
    return coeff, first % coeff if coeff else first


def modular_of(e: Any, x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int]:
    analyzer = Analyzer()
    analyzer.update(X, ModularSet(*x))
    analyzer.update(Y, ModularSet(*y))
    return tuple(analyzer.modular_set(e))


@pytest.mark.parametrize("op", [ir.Add, ir.Sub, ir.Mul])
def test_the_modular_set_of_one_operation_is_the_least_one(op: Any) -> None:
    for x, y in itertools.product(ENTRIES, ENTRIES):
        values = {BINARY[op](a, b) for a in members(x, -16, 17) for b in members(y, -16, 17)}
        assert modular_of(op(X, Y), x, y) == least_set(values), (x, y)


@pytest.mark.parametrize(
    ("op", "known", "least"),
    [
        (ir.FloorDiv, 44, 617),
        (ir.FloorMod, 49, 427),
        (ir.Div, 12, 563),
        (ir.Mod, 22, 397),
        (ir.Min, 165, 628),
        (ir.Max, 165, 626),
    ],
)
def test_the_modular_set_of_other_operations_holds_all_values(op: Any, known: int, least: int) -> None:
    """And as often as before it is not everything, or the least one."""
    found_known = found_least = 0
    for x, y in itertools.product(ENTRIES, ENTRIES):
        found = modular_of(op(X, Y), x, y)
        values = {
            BINARY[op](a, b) for a in members(x, -16, 17) for b in members(y, -16, 17) if op in (ir.Min, ir.Max) or b
        }
        assert values <= members(found), (x, y)
        found_known += found != EVERYTHING
        found_least += bool(values) and found == least_set(values)
    assert (found_known, found_least) == (known, least)


@pytest.mark.parametrize(("dtype", "bits"), [("uint8", 8), ("int8", 8), ("uint16", 16)])
def test_modular_sets_of_what_wraps_around(dtype: str, bits: int) -> None:
    """Of all data, through a product, a sum and another product."""
    data = ir.BufferLoad(ir.decl_buffer((4,), dtype, "D"), [X])
    for factor, offset, times in itertools.product((1, 3, 12, 64, 96), (0, 1, 33, 100), (1, 6, 8, 64)):
        first, second, third = (ir.IntImm(dtype, v) for v in (factor, offset, times))
        e = ir.Mul(ir.Add(ir.Mul(data, first), second), third)
        found = tuple(Analyzer().modular_set(e))
        values = {wrap_int((v * factor + offset) * times, e.dtype) for v in range(1 << min(bits, 9))}
        assert values <= members(found, -(1 << bits), 1 << bits), (factor, offset, times, found)
        assert found[0] == gcd(factor * times, 1 << bits)
        constant = ir.Add(ir.Mul(second, third), second)
        assert tuple(Analyzer().modular_set(constant)) == (0, wrap_int(offset * times + offset, e.dtype))


def test_modular_sets_under_conditions_end_with_them() -> None:
    analyzer = Analyzer()
    analyzer.update(X, ModularSet(4, 2))
    with refuses("analyzer.bound_differs"):
        analyzer.update(X, ModularSet(4, 3))
    analyzer.update(X, ModularSet(4, 6))  # the same
    with analyzer.constraint_scope(ir.EQ(ir.FloorMod(X, 6), 4)):
        assert tuple(analyzer.modular_set(X)) == (12, 10)
    assert tuple(analyzer.modular_set(X)) == (4, 2)
    with analyzer.constraint_scope(ir.EQ(ir.Mod(Y, 5), 3)):
        assert tuple(analyzer.modular_set(Y)) == (5, 3)
    for says_nothing in (
        ir.NE(ir.FloorMod(Y, 5), 3),
        ir.EQ(ir.FloorMod(Y + 1, 5), 3),
        ir.EQ(Y, 3),
        ir.EQ(ir.FloorMod(Y, X), 3),
    ):
        with analyzer.constraint_scope(says_nothing):
            assert tuple(analyzer.modular_set(Y)) == EVERYTHING
    assert tuple(analyzer.modular_set(Y)) == EVERYTHING


# ---------------------------------------------------------------------------- comparisons

DISTANCES = range(-6, 7)  # of the left side from the right one
KINDS: dict[int, Callable[[int, int], bool]] = {
    EQ: lambda d, offset: d == offset,
    NE: lambda d, offset: d != offset,
    LE: lambda d, offset: d <= offset,
    GE: lambda d, offset: d >= offset,
    LT: lambda d, offset: d < offset,
    GT: lambda d, offset: d > offset,
}


def where(known: Known) -> set[int]:
    return {d for d in DISTANCES if KINDS[known.result](d, known.offset)}


def test_what_one_comparison_implies() -> None:
    kept = [Known(1, 2, offset, kind) for kind in (EQ, NE, LE, GE) for offset in range(-3, 4)]
    for mine, theirs in itertools.product(kept, kept):
        assert mine.implies(theirs) == (where(mine) <= where(theirs)), (mine, theirs)


def test_a_comparison_from_the_other_side() -> None:
    for kind, offset in itertools.product((EQ, NE, LE, GE), range(-3, 4)):
        known = Known(1, 2, offset, kind)
        seen = known.seen_from(2)
        assert known.seen_from(1) is known and known.seen_from(3) is None
        assert seen is not None and (seen.left, seen.right) == (2, 1)
        assert where(seen) == {-d for d in where(known)}
