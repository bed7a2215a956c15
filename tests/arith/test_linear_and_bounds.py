"""Linear parts, clip bounds, deduced bounds and the box that a statement touches."""

import random

import pytest
from arith_evaluate import evaluate
from arith_random import mark

from tvmagic import arith, tir
from tvmagic.arith import IntervalSet
from tvmagic.arith._ffi_api import DomainTouched
from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    AttrStmt,
    BufferStore,
    Evaluate,
    FloatImm,
    For,
    ForKind,
    IfThenElse,
    IterVar,
    LetStmt,
    Range,
    Var,
    decl_buffer,
)

A, B, C, D = (Var(name) for name in "abcd")


def texts(values):
    return [str(v) for v in values]


def ends(interval):
    return str(interval.min_value), str(interval.max_value)


# ---------------------------------------------------------------------------- linear parts


def test_linear_equations():
    assert texts(arith.detect_linear_equation(A * 4 + B * 6 + 7, [A])) == ["4", "b * 6 + 7"]
    assert texts(arith.detect_linear_equation(A * 4 + B * 6 + 7, [A, B])) == ["4", "6", "7"]
    assert texts(arith.detect_linear_equation(A * B - A, [A])) == ["b - 1", "0"]
    assert texts(arith.detect_linear_equation(3 - A, [A])) == ["-1", "3"]
    assert texts(arith.detect_linear_equation(B * 7, [A])) == ["0", "b * 7"]
    assert texts(arith.detect_linear_equation(B * 7, [])) == ["b * 7"]


@pytest.mark.parametrize("value", [A * 4 * (A + 1) + B, tir.floordiv(A, 2), tir.min(A, B), A * B * A])
def test_not_linear(value):
    assert arith.detect_linear_equation(value, [A]) == []


def test_coefficients_with_other_variables():
    assert arith.detect_linear_equation(A * B, [A, B]) == []
    assert arith.detect_linear_equation(A * B, [B, A]) == []


def test_clip_bounds():
    assert texts(arith.detect_clip_bound(tir.all(A * 1 < B * 6, A - 1 > 0), [A])) == ["2", "b * 6 - 1"]
    assert texts(arith.detect_clip_bound(tir.all(A + 10 <= B, A <= 7), [A, B]) or ["none"]) == ["none"]
    assert texts(arith.detect_clip_bound(tir.all(A * 1 == B), [A])) == ["b", "b"]
    assert arith.detect_clip_bound(A >= 3, [A])[1] is None
    for condition in (A * 2 < 3 * B, tir.any(A < 3, A > 5), A * A < 9):
        assert arith.detect_clip_bound(condition, [A]) == []


# ---------------------------------------------------------------------------- deduced bounds


def test_deduced_bounds():
    sets = {B: IntervalSet(2, 3), C: IntervalSet(10, 15), D: IntervalSet(-3, -1)}
    simplify = arith.Analyzer().simplify
    bound = arith.deduce_bound(A, (-B) * A + C - D >= 0, sets, {})
    assert bound.min_value is arith.neg_inf() and str(simplify(bound.max_value)) == "(d - c) // (b * -1)"
    assert ends(arith.deduce_bound(A, A * 4 + B >= 13, sets, {B: sets[B]})) == ("3", "pos_inf")
    assert ends(arith.deduce_bound(A, 3 - A > 1, {}, {})) == ("neg_inf", "1")
    assert ends(arith.deduce_bound(A, 17 < A * 8, {}, {})) == ("3", "pos_inf")
    assert ends(arith.deduce_bound(A, tir.floordiv(A, 8) <= 3, {}, {})) == ("neg_inf", "31")
    assert ends(arith.deduce_bound(A, tir.floordiv(A, -8) <= 3, {}, {})) == ("-31", "pos_inf")
    assert ends(arith.deduce_bound(A, tir.EQ(A * 4, tir.const(12)), {}, {})) == ("3", "3")


@pytest.mark.parametrize(
    "condition",
    [
        A * A < 9,
        A + B < A,
        tir.NE(A, tir.const(3)),
        tir.EQ(A * 4, tir.const(13)),
        A * B < 3,
        tir.floordiv(8, A) < 3,
        tir.min(A, 3) < 2,
        tir.EQ(tir.floordiv(A, 2), tir.const(3)),
        B < 3,
    ],
)
def test_no_bound(condition):
    assert arith.deduce_bound(A, condition, {}, {}).is_nothing()


def test_equal_needs_points():
    domain = {B: IntervalSet(2, 3)}
    assert arith.deduce_bound(A, tir.EQ(A, B), domain, domain).is_nothing()


def test_random_bounds_are_sound():
    """Where the target lies in the bound, the condition holds for all values of the relaxed variables."""
    choice, known = random.Random(0), 0
    for _ in range(200):
        value = A
        for _ in range(choice.randint(1, 3)):
            other = choice.choice([B, C, tir.const(choice.randint(-5, 9))])
            factor = choice.choice([2, 3, 5, -2])
            value = choice.choice(
                [value + other, value - other, other - value, value * factor, tir.floordiv(value, abs(factor))]
            )
        condition = choice.choice([tir.LT, tir.LE, tir.GT, tir.GE])(value, choice.choice([tir.const(7), B + C]))
        sets = {v: IntervalSet(choice.randint(-4, 2), choice.randint(3, 6)) for v in (B, C)}
        bound = arith.deduce_bound(A, condition, sets, sets)
        known += mark(bound)
        if bound.is_nothing():
            continue
        for a in range(-60, 60):
            low = bound.has_lower_bound() and evaluate(bound.min_value, {}) > a
            high = bound.has_upper_bound() and evaluate(bound.max_value, {}) < a
            if low or high:
                continue
            for b in range(int(sets[B].min_value), int(sets[B].max_value) + 1):
                for c in range(int(sets[C].min_value), int(sets[C].max_value) + 1):
                    assert evaluate(condition, {A: a, B: b, C: c}), (condition, bound, a, b, c)
    assert known == 417900658905, "other bounds than before: a change must say why"


# ---------------------------------------------------------------------------- touched boxes

BUFFER = decl_buffer((100, 100), "float32", "buffer")
ZERO = FloatImm("float32", 0.0)


def loop(var, extent, body):
    return For(var, 0, extent, ForKind.SERIAL, body)


def touched(stmt, loads=True, stores=True):
    return [None if r is None else (str(r.min), str(r.extent)) for r in DomainTouched(stmt, BUFFER, loads, stores)]


def test_loops_and_conditions():
    store = BufferStore(BUFFER, ZERO, [A * 2 + B, B])
    assert touched(loop(A, 10, loop(B, A + 1, store))) == [("0", "28"), ("0", "10")]
    assert touched(loop(A, 10, loop(B, A + 1, IfThenElse(B < 5, store)))) == [("0", "23"), ("0", "5")]
    other = IfThenElse(B < 5, Evaluate(0), store)
    assert touched(loop(B, 10, other))[1] == ("5", "5")


def test_loads_and_stores_apart():
    copy = BufferStore(BUFFER, BUFFER[A + 4, C], [A, C])
    stmt = loop(A, 3, copy)
    assert touched(stmt, stores=False) == [("4", "3"), ("c", "1")]
    assert touched(stmt, loads=False) == [("0", "3"), ("c", "1")]
    assert touched(stmt) == [("0", "7"), ("c", "1")]
    assert [str(side.extent) for side in DomainTouched(stmt, BUFFER)] == ["7", "1"], "both"
    assert touched(Evaluate(0)) == []
    with pytest.raises(TVMagicError, match="neither"):
        touched(stmt, loads=False, stores=False)


def test_values_and_threads():
    store = BufferStore(BUFFER, ZERO, [B, B])
    assert touched(loop(A, 4, LetStmt(B, A * 3, store))) == [("0", "10"), ("0", "10")]
    thread = IterVar(Range(0, 8), B, IterVar.ThreadIndex, "threadIdx.x")
    assert touched(AttrStmt(thread, "thread_extent", 8, store))[0] == ("0", "8")


def test_no_bound_of_an_axis():
    gather = decl_buffer((8,), "int32", "gather")
    assert touched(loop(A, 4, BufferStore(BUFFER, ZERO, [gather[A], A]))) == [None, ("0", "4")]


def test_branches_of_values():
    value = tir.if_then_else(A < 3, BUFFER[A, A], ZERO)
    target = decl_buffer((100,), "float32", "target")
    assert touched(loop(A, 10, BufferStore(target, value, [A])))[0] == ("0", "3")
    selected = tir.Select(A < 3, BUFFER[A, A], ZERO)
    assert touched(loop(A, 10, BufferStore(target, selected, [A])))[0] == ("0", "3")
