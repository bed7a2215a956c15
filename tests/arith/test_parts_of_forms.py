"""Splits, sums, iterators and bounds of groups by themselves: each operation of theirs against all values that there are."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from arith_evaluate import evaluate

from tvmagic import arith, ir
from tvmagic.arith import Analyzer
from tvmagic.arith.canonical import factors_of, to_split, with_mode
from tvmagic.arith.canonical_form import FLOOR, TRUNC, UNBOUNDED, Split, Sum
from tvmagic.arith.integer_logic import IntegerLogic
from tvmagic.arith.iter_map import IterMark, IterSplitExpr, normalize_iter_map_to_expr
from tvmagic.ir import ops
from tvmagic.ir.fold import truncate_divide

X, Y, Z, N = ir.Var("x"), ir.Var("y"), ir.Var("z"), ir.SizeVar("n")
VALUES = range(-13, 14)
UPPERS = (UNBOUNDED, 4, 6, 12)
LOWERS = (1, 2, 3)
SPLITS = [
    Split(X, lower, upper, scale, mode)
    for lower, upper, scale, mode in itertools.product(LOWERS, UPPERS, (-2, 0, 1, 3), (TRUNC, FLOOR))
    if upper == UNBOUNDED or upper % lower == 0
]


def number(value: int, dtype: str = "int32") -> ir.IntImm:
    return ir.IntImm(dtype, value)


def value_of(split: Split, x: int) -> int:
    """`x % upper // lower * scale`, rounded as the split says."""
    if split.upper != UNBOUNDED:
        x = x % split.upper if split.mode == FLOOR else x - truncate_divide(x, split.upper) * split.upper
    return (x // split.lower if split.mode == FLOOR else truncate_divide(x, split.lower)) * split.scale


# ---------------------------------------------------------------------------- splits and sums


def test_a_split_is_the_expression_that_it_stands_for() -> None:
    for split in SPLITS:
        steps, plain, minus = split.steps(), split.normalize(), split.normalize(-1)
        assert len(steps) == 1 + (split.upper != UNBOUNDED) + (split.lower != 1) + (split.scale != 1)
        assert steps[0] is X and (split.scale != 0 or str(plain) == "0")
        for x in VALUES:
            value = value_of(split, x)
            assert evaluate(steps[-1], {X: x}) == evaluate(plain, {X: x}) == value == -evaluate(minus, {X: x})
            assert evaluate(split.scaled(-3).normalize(), {X: x}) == -3 * value
            assert evaluate(to_split(split).normalize(), {X: x}) == value


def test_a_split_of_the_other_rounding_is_one_of_another_index() -> None:
    for split, mode in itertools.product(SPLITS, (TRUNC, FLOOR)):
        changed = with_mode(split, mode)
        assert changed.mode == mode
        assert (changed.index is X) == (split.mode == mode or (split.lower == 1 and split.upper == UNBOUNDED))
        assert all(evaluate(changed.normalize(), {X: x}) == value_of(split, x) for x in VALUES)


def test_sums_of_two_splits_of_one_index() -> None:
    """Their value is the sum of both, and those that continue each other are one."""
    for a, b in random.Random(0).sample(list(itertools.product(SPLITS, SPLITS)), 250):
        total = Sum(X.dtype).plus_split(a, 1).plus_split(b, 2).plus(5)
        text = total.normalize()
        for x in (-13, -4, -1, 0, 3, 6, 11):
            assert evaluate(text, {X: x}) == value_of(a, x) + 2 * value_of(b, x) + 5, (a, b, str(text))
    for lower, upper in ((2, 4), (2, 6), (3, 6), (3, 12), (1, 4)):
        quotient, rest = Split(X, upper, UNBOUNDED, upper // lower, FLOOR), Split(X, lower, upper, 1, FLOOR)
        whole = str(Sum(X.dtype, (quotient, rest)).normalize())
        assert whole == (f"x // {lower}" if lower > 1 else "x")
        assert str(Sum(X.dtype, (quotient.scaled(2), rest)).normalize()).count("x") == 2


def some_sum(draw: random.Random, count: int, indices: list[Any]) -> Sum:
    total = Sum(X.dtype, (), draw.randint(-4, 4))
    for _ in range(count):
        lower, upper = draw.choice(((1, UNBOUNDED), (1, 6), (2, 6), (3, UNBOUNDED)))
        total = total.plus_split(Split(draw.choice(indices), lower, upper, draw.choice((-3, -1, 1, 2, 4)), FLOOR), 1)
    return total


def test_sums_are_added_multiplied_and_divided() -> None:
    """Short ones and long ones, of variables and of other indices that are equal but not the same."""
    draw = random.Random(0)
    for count, other in itertools.product((0, 1, 5, 9), (0, 3, 5, 9, 14)):
        for _ in range(3):
            names = [ir.Var(f"v{n}") for n in range(6)]
            made = [[*names, *(ir.Min(v, number(3)) for v in names), ir.Max(names[0], names[1])] for _ in range(2)]
            a, b = some_sum(draw, count, made[0]), some_sum(draw, other, made[1])
            point = {v: draw.randint(-9, 9) for v in names}
            x, y = evaluate(a.normalize(), point), evaluate(b.normalize(), point)
            factor = draw.choice((-2, 1, 3))
            both = a.plus_sum(b, factor)
            assert evaluate(both.normalize(), point) == x + factor * y
            assert evaluate(both.plus_sum(b, -factor).normalize(), point) == x
            assert a.plus_sum(a, -1).normalize() is not None and str(a.plus_sum(a, -1).normalize()) == "0"
            assert evaluate(a.times(factor).normalize(), point) == factor * x and a.times(factor).over(factor) == a
            divided, rest = both.separate(2)
            assert evaluate(divided.normalize(), point) + evaluate(rest.normalize(), point) == x + factor * y
            assert divided.base % 2 == 0 and all(s.scale % 2 == 0 for s in divided.args)
            assert rest.base % 2 == 1 or rest.base == 0
            assert all(s.scale % 2 for s in rest.args) and divided.over(2).times(2) == divided
            splits = [s for s in both.args if s.scale]
            assert len({(str(s.index), s.lower, s.upper) for s in splits}) == len(splits)  # each of them once
    assert Sum(X.dtype).is_zero and not Sum(X.dtype, (), 1).is_zero and not Sum(X.dtype, (Split(X),)).is_zero


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_sum_is_written_with_its_constants_as_the_type_holds_them(dtype: str) -> None:
    x = ir.Var("x", dtype)
    least = -(1 << (x.dtype.bits - 1))
    texts = {3: "x + 3", 0: "x", -3: "x - 3", least: f"x + {least}", least + 1: f"x - {-least - 1}"}
    for base, text in texts.items():
        found = str(Sum(x.dtype, (Split(x),), base).normalize())
        assert found.replace("T.int64(", "").replace(")", "") == text
        assert evaluate(Sum(x.dtype, (), base).normalize(), {}) == base
    ordered = Sum(x.dtype, (Split(x, scale=-1), Split(ir.Var("y", dtype), scale=2), Split(ir.Var("z", dtype))), 1)
    assert str(ordered.normalize()).replace("T.int64(", "").replace(")", "") == "y * 2 + z + 1 - x"


def test_factors_of_products() -> None:
    for count in (1, 2, 7, 32, 33, 64, 65, 100):
        e: Any = number(3)
        for n in range(count):
            e = ir.Mul(e, X) if n % 2 else ir.Mul(X, e)
        factors, scale = factors_of(e)
        if factors == [e]:
            assert scale == 1 and count > 32
        else:
            assert factors == [X] * count and scale == 3
    assert factors_of(ir.Mul(ir.Mul(number(2), Y), ir.Mul(X, number(-5)))) == ([Y, X], -10)
    assert factors_of(number(7)) == ([], 7) and factors_of(X) == ([X], 1)


# ---------------------------------------------------------------------------- iterators


def test_a_part_of_an_iterator_has_the_value_that_it_stands_for() -> None:
    """`x // lower % extent * scale` of an iterator, as far as it can be told from `x // lower`."""
    for size, lower, extent, scale in itertools.product((1, 2, 4, 6), (1, 2, 3), (1, 2, 3, 4), (1, -1, 3)):
        if lower * extent > size and lower * extent % size:
            continue
        split = IterSplitExpr(IterMark(X, number(size)), number(lower), number(extent), number(scale))
        found = normalize_iter_map_to_expr(split)
        for x in range(size):
            assert evaluate(found, {X: x}) == x // lower % extent * scale, (size, lower, extent, str(found))
    never = IterSplitExpr(IterMark(X, N), number(2), number(0), number(1))
    assert str(normalize_iter_map_to_expr(never)) == "0"


def test_quotients_and_remainders_by_one() -> None:
    domains = {X: ir.Range(0, 4)}
    for offset in (0, 1, -2):
        e = X + offset if offset else X
        found = arith.detect_iter_map([ir.FloorDiv(e, number(1))], domains)
        (index,) = found.indices
        assert [evaluate(normalize_iter_map_to_expr(index), {X: x}) for x in range(4)] == [x + offset for x in range(4)]
        rest = arith.detect_iter_map([ir.FloorMod(e, number(1))], domains, check_level="nocheck")
        assert [str(normalize_iter_map_to_expr(i)) for i in rest.indices] == ["0"], offset


# ---------------------------------------------------------------------------- conditions


def test_a_number_is_a_condition_as_in_c() -> None:
    logic = IntegerLogic({X: ir.Range(0, 4)})
    holds, positive = logic.condition(X), logic.condition(X > 0)
    assert logic.equivalent(holds, positive) and not logic.implies(holds, logic.condition(X > 1))
    assert logic.condition(number(3)).is_true and logic.condition(number(0)).is_false
    assert len(logic.condition(ir.Var("f", "float32")).cases) == 1


# ---------------------------------------------------------------------------- literals


def test_a_condition_and_its_opposite_are_known() -> None:
    flags = [ir.Var(name, "bool") for name in "pqr"]
    for known, value in itertools.product(flags, (True, False)):
        analyzer = Analyzer()
        with analyzer.constraint_scope(known if value else ir.Not(known)):
            assert str(analyzer.rewrite_simplify(known)) == f"T.bool({value})"
            assert str(analyzer.rewrite_simplify(ir.Not(known))) == f"T.bool({not value})"
            for other in flags:
                if other is not known:
                    assert str(analyzer.rewrite_simplify(ir.Not(other))) == f"not {other}"
        assert str(analyzer.rewrite_simplify(ir.Not(known))) == f"not {known}"


def test_shifts_of_data_by_less_than_zero_shift_everything_out() -> None:
    load = ir.BufferLoad(ir.decl_buffer((4,), "int32", "D"), [X])

    def bound(low: int, high: int, least: int, most: int) -> tuple[int, int]:
        a = ops.maximum(ops.minimum(load, number(high)), number(low))
        b = ops.maximum(ops.minimum(ir.BufferLoad(load.buffer, [Y]), number(most)), number(least))
        found = Analyzer().const_int_bound(ir.Call("int32", "tir.shift_right", [a, b]))
        return found.min_value, found.max_value

    for low, high, least, most in ((4, 9, -1, 2), (-9, -4, -3, -1), (-5, 7, -1, 0), (4, 9, 0, 2)):
        values = {
            (v >> s if s >= 0 else -(v < 0)) for v in range(low, high + 1) for s in range(least, most + 1)
        }  # fmt: skip
        first, last = bound(low, high, least, most)
        assert first <= min(values) and max(values) <= last
        assert (first, last) == ((min(low, -1), max(high, 0)) if least < 0 else (low >> most, high))


def test_conditions_on_all_lanes_become_constants_of_all_lanes() -> None:
    x, y = (ir.Broadcast(v, 4) for v in (X, Y))
    never, always = ir.And(ir.LE(x, y), ir.LT(y, x)), ir.Or(ir.LE(x, y), ir.LT(y, x))
    for condition, value in ((never, False), (always, True), (ir.EQ(x, x), True)):
        found = Analyzer().rewrite_simplify(condition)
        assert found.dtype == "boolx4" and str(found) == f"T.Broadcast(T.bool({value}), 4)"


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (ir.FloorDiv(X, number(1)), "x"), (ir.FloorDiv(X + 1, number(1)), "x + 1"), (ir.FloorDiv(X * 4 + Y, number(1)), "x * 4 + y"),
        (ir.FloorMod(X, number(1)), "0"), (ir.FloorMod(X + 1, number(1)), "0"), (ir.FloorMod(X * 4 + Y, number(1)), "0"),
        (ir.Sub(X + Y, X), "y"), (ir.Sub(X, X), "0"), (ir.Sub(X + 1, X), "1"),
    ],
    ids=str,
)  # fmt: skip
def test_maps_with_parts_that_do_nothing(e: ir.PrimExpr, text: str) -> None:
    ranges = {X: ir.Range(0, 3), Y: ir.Range(0, 4)}
    (found,) = arith.detect_iter_map([e], ranges, check_level=arith.IterMapLevel.NoCheck).indices
    assert str(normalize_iter_map_to_expr(found)) == text
