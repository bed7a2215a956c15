"""Linear parts, clip bounds, deduced bounds and the box that a statement touches."""

import contextlib
import itertools
import random

import pytest
from arith_evaluate import evaluate
from arith_random import mark
from refusals import refuses

from tvmagic import arith, ir, tir
from tvmagic.arith import IntervalSet, IntSet
from tvmagic.arith.domain_touched import DomainTouched
from tvmagic.arith.int_set import neg_inf, pos_inf

A, B, C, D = (ir.Var(name) for name in "abcd")


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


def test_equal_to_what_has_no_end_is_no_bound():
    for domain in (IntervalSet(0, pos_inf()), IntervalSet(neg_inf(), 0), IntSet.everything()):
        for condition in (tir.EQ(A - B, 3), tir.EQ(A + B, 3), tir.EQ(A, B)):
            assert arith.deduce_bound(A, condition, {}, {B: domain}).is_nothing()


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


@pytest.mark.parametrize(("first", "texts"), [(0, 248455135227), (100, 245862866417)])
def test_random_bounds_by_signs_and_sizes_are_sound(first, texts):
    """Factors and divisors may be variables whose sign the sets tell, sides symbols; bounds are as before."""
    known = 0
    for seed in range(first, first + 100):
        choice = random.Random(seed)
        pick, value = choice.choice, A
        for _ in range(choice.randint(1, 3)):
            other, factor = (
                pick([B, C, D, tir.const(choice.randint(-5, 9)), B * 2]),
                pick([tir.const(3), tir.const(-2), B, C]),
            )
            forms = [value + other, other + value, value - other, other - value, value * factor, factor * value]
            value = pick([*forms, tir.floordiv(value, factor)])
        sides = [value, pick([tir.const(7), tir.const(12), B + C, D, B * 6])]
        condition = pick([tir.LT, tir.LE, tir.GT, tir.GE, tir.EQ])(*choice.sample(sides, 2))
        low = choice.randint(-3, 3)
        intervals = [(low, low), (low, low + pick([1, 3])), (1, 4), (-4, -2), (2, 2)]
        sets = {v: IntervalSet(*pick(intervals)) for v in (B, C)}
        relaxed = {v: s for v, s in sets.items() if choice.random() < 0.5}
        bound = arith.deduce_bound(A, condition, sets, relaxed)
        known += mark(bound)
        spans = {v: range(int(s.min_value), int(s.max_value) + 1) for v, s in sets.items()}
        for *fixed, size in itertools.product(*spans.values(), (-4, 9)) if not bound.is_nothing() else ():
            with contextlib.suppress(ZeroDivisionError):
                point = {**dict(zip(spans, fixed)), D: size}
                first_value = evaluate(bound.min_value, point) if bound.has_lower_bound() else -40
                last_value = evaluate(bound.max_value, point) if bound.has_upper_bound() else 40
                for a in {first_value, first_value + 1, last_value, last_value - 1}:
                    others = itertools.product(*[spans[v] if v in relaxed else [point[v]] for v in spans])
                    assert not first_value <= a <= last_value or all(
                        evaluate(condition, {A: a, D: size, **dict(zip(spans, values))}) for values in others
                    ), (seed, condition, bound)
    assert known == texts


def linear_form(choice, depth):
    pick = choice.choice
    if depth == 0:
        return pick([A, B, C, A, B, C, D, tir.const(choice.randint(-4, 4)), tir.floordiv(D, 3)])
    a, b = linear_form(choice, depth - 1), linear_form(choice, choice.randrange(depth))
    product = tir.Mul(*choice.sample([a, pick([tir.const(-2), tir.const(3), tir.const(0), D, b])], 2))
    return pick([tir.Add(a, b), tir.Sub(a, b), product])


def test_random_linear_forms():
    texts = found = 0
    for seed in range(120):
        choice = random.Random(seed)
        value, names = linear_form(choice, choice.randint(1, 3)), choice.sample([A, B, C], choice.randint(1, 3))
        parts = arith.detect_linear_equation(value, names)
        texts, found = texts + mark(parts), found + bool(parts)
        for _ in range(4 if parts else 0):
            point = {v: choice.randint(-5, 5) for v in (A, B, C, D)}
            total = sum(evaluate(factor, point) * point[v] for factor, v in zip(parts, names))
            assert evaluate(value, point) == total + evaluate(parts[-1], point), (seed, value, parts)
    assert (found, texts) == (116, 221087010282)


def test_random_clip_bounds():
    """They hold just where the conjunction does."""
    texts = found = 0
    for seed in range(80):
        choice, conditions = random.Random(seed), []
        for _ in range(choice.randint(1, 3)):
            v, side = choice.choice([A, B]), choice.choice([tir.const(choice.randint(-3, 3)), D, D * 2 - 1, C])
            sides = [
                (v + choice.randint(-2, 2), side),
                (v, side),
                (0 - v, side),
                (side - v, tir.const(1)),
                (v * 2, side),
            ]
            kind = choice.choice([tir.LT, tir.LE, tir.GT, tir.GE, tir.EQ])
            conditions.append(kind(*choice.sample(choice.choice(sides), 2)))
        condition = tir.all(*conditions)
        bounds = arith.detect_clip_bound(condition, [A, B])
        texts, found = texts + mark(bounds), found + bool(bounds)
        for _ in range(8 if bounds else 0):
            point = {v: choice.randint(-5, 5) for v in (A, B, C, D)}
            inside = True
            for v, low, high in ((A, *bounds[:2]), (B, *bounds[2:])):
                inside = inside and (low is None or evaluate(low, point) <= point[v])
                inside = inside and (high is None or point[v] <= evaluate(high, point))
            assert inside == bool(evaluate(condition, point)), (seed, condition, bounds)
    assert (found, texts) == (66, 142507416228)


# ---------------------------------------------------------------------------- touched boxes

BUFFER = ir.decl_buffer((100, 100), "float32", "buffer")
ZERO = ir.FloatImm("float32", 0.0)


def loop(var, extent, body):
    return ir.For(var, 0, extent, ir.ForKind.SERIAL, body)


def touched(stmt, loads=True, stores=True):
    return [None if r is None else (str(r.min), str(r.extent)) for r in DomainTouched(stmt, BUFFER, loads, stores)]


def test_loops_and_conditions():
    store = ir.BufferStore(BUFFER, ZERO, [A * 2 + B, B])
    assert touched(loop(A, 10, loop(B, A + 1, store))) == [("0", "28"), ("0", "10")]
    assert touched(loop(A, 10, loop(B, A + 1, ir.IfThenElse(B < 5, store)))) == [("0", "23"), ("0", "5")]
    other = ir.IfThenElse(B < 5, ir.Evaluate(0), store)
    assert touched(loop(B, 10, other))[1] == ("5", "5")


def test_loads_and_stores_apart():
    copy = ir.BufferStore(BUFFER, BUFFER[A + 4, C], [A, C])
    stmt = loop(A, 3, copy)
    assert touched(stmt, stores=False) == [("4", "3"), ("c", "1")]
    assert touched(stmt, loads=False) == [("0", "3"), ("c", "1")]
    assert touched(stmt) == [("0", "7"), ("c", "1")]
    assert [str(side.extent) for side in DomainTouched(stmt, BUFFER)] == ["7", "1"], "both"
    assert touched(ir.Evaluate(0)) == []
    with refuses("domain_touched.no_access_kind"):
        touched(stmt, loads=False, stores=False)


def test_values_and_threads():
    store = ir.BufferStore(BUFFER, ZERO, [B, B])
    assert touched(loop(A, 4, ir.LetStmt(B, A * 3, store))) == [("0", "10"), ("0", "10")]
    thread = ir.IterVar(ir.Range(0, 8), B, ir.IterVar.ThreadIndex, "threadIdx.x")
    assert touched(ir.AttrStmt(thread, "thread_extent", 8, store))[0] == ("0", "8")


def test_no_bound_of_an_axis():
    gather = ir.decl_buffer((8,), "int32", "gather")
    assert touched(loop(A, 4, ir.BufferStore(BUFFER, ZERO, [gather[A], A]))) == [None, ("0", "4")]


def test_branches_of_values():
    value = tir.if_then_else(A < 3, BUFFER[A, A], ZERO)
    target = ir.decl_buffer((100,), "float32", "target")
    assert touched(loop(A, 10, ir.BufferStore(target, value, [A])))[0] == ("0", "3")
    selected = tir.Select(A < 3, BUFFER[A, A], ZERO)
    assert touched(loop(A, 10, ir.BufferStore(target, selected, [A])))[0] == ("0", "3")
