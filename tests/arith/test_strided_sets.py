"""Strided sets and unions of boxes against plain Python sets."""

import itertools
import random

import pytest
from arith_evaluate import evaluate
from arith_random import mark
from refusals import refuses

from tvmagic import arith, tir
from tvmagic.arith import BoxUnion, IntervalSet, IntSet, StrideSet
from tvmagic.arith.strided_sets import Steps
from tvmagic.ir import Range, Var

X, Y = Var("x"), Var("y")
DOMAINS = {X: Range(0, 4), Y: Range(0, 3)}


def elements(steps):
    return set() if steps is None else set(steps.values())


def random_steps(choice):
    count = choice.randint(1, 8)
    return Steps(choice.randint(-9, 9), count, choice.randint(1, 7) if count > 1 else 1)


def test_progressions_as_sets():
    choice, exact_sums, joins, texts = random.Random(0), 0, 0, 0
    for _ in range(2_000):
        a, b = random_steps(choice), random_steps(choice)
        assert elements(a.intersect(b)) == elements(a) & elements(b), (a, b)
        pieces = [elements(p) for p in a.minus(b)]
        assert set().union(*pieces) == elements(a) - elements(b), (a, b)
        assert sum(map(len, pieces)) == len(elements(a) - elements(b)), (a, b)
        joined = a.joined(b)
        if joined is not None:
            assert elements(joined) == elements(a) | elements(b), (a, b)
        joins += joined is not None
        total, exact = a.plus(b)
        exact_sums += exact
        texts += mark(a, b, joined, total, a.minus(b))
        sums = {x + y for x in elements(a) for y in elements(b)}
        assert sums <= elements(total) and (not exact or sums == elements(total)), (a, b)
        for divisor in (1, 2, 3, 4, 6):
            for (steps, exact), op in ((a.floordiv(divisor), "//"), (a.floormod(divisor), "%")):
                values = {x // divisor if op == "//" else x % divisor for x in elements(a)}
                assert values <= elements(steps) and (not exact or values == elements(steps)), (a, op, divisor)
                exact_sums += exact
                texts += mark(a, op, divisor, steps, exact)
        for factor in (-2, 0, 3):
            assert elements(a.times(factor)) == {factor * x for x in elements(a)}
        assert all((i in a) == (i in elements(a)) for i in range(-20, 60))
    assert (exact_sums, joins) == (17876, 177), "as many exact answers as before"
    assert texts == 46717283122984, "the same progressions as before"


def test_stride_sets_are_integer_sets():
    evens = StrideSet(0, 4, 2)
    assert 4 in evens and 3 not in evens and list(evens) == [0, 2, 4, 6]
    assert (int(evens.min()), int(evens.max())) == (0, 6) and evens.can_prove_non_negative()
    assert str(evens.covering()) == "IntervalSet[0, 6]" and repr(evens) == "StrideSet[0, 6; stride=2]"
    assert StrideSet(3, 1).is_single_point()
    assert (
        list(StrideSet(0, 4)) == [0, 1, 2, 3] and StrideSet(0, 4).exact and StrideSet(0, 4).min_value.dtype == "int32"
    )
    assert str(arith.union([evens, IntervalSet(9, 9)])) == "IntervalSet[0, 9]"
    assert str(arith.eval_set(X + 1, {X: evens})) == "IntervalSet[1, 7]"
    with refuses("strided_set.wrong_count_or_stride"):
        StrideSet(0, 0)


@pytest.mark.parametrize(
    "value, expected, exact",
    [
        (X * 2, [0, 2, 4, 6], True),
        (X * 2 + 1, [1, 3, 5, 7], True),
        (X * 3 + Y, list(range(12)), True),
        (X * 8 + Y * 2, None, False),
        (Y - X, list(range(-3, 3)), True),
        (X + X, [0, 2, 4, 6], True),
        (X - X, [0], True),
        (tir.floordiv(X * 4, 2), [0, 2, 4, 6], True),
        (tir.floormod(X * 2, 4), [0, 2], True),
        (tir.floordiv(X * 3 + Y, 4), [0, 1, 2], True),
        (tir.floordiv(X, 2) + X, [0, 1, 2, 3, 4], False),
    ],
)
def test_values_of_expressions(value, expected, exact):
    values = arith.eval_stride_set(value, DOMAINS)
    assert values.exact is exact
    if expected is not None:
        assert list(values) == expected


def test_what_is_no_strided_set():
    assert arith.eval_stride_set(X * Y, DOMAINS) is None
    assert arith.eval_stride_set(Var("z") + X, DOMAINS) is None
    assert arith.eval_stride_set(tir.min(X, 2), DOMAINS) is None


def test_random_expressions():
    choice, exact, texts = random.Random(1), 0, 0

    def index(depth):
        if depth == 0:
            return choice.choice([X, Y, tir.const(choice.randint(-4, 4))])
        kind = choice.randrange(4)
        if kind < 2:
            return index(depth - 1) + index(depth - 1) if kind else index(depth - 1) - index(depth - 1)
        if kind == 2:
            return index(depth - 1) * choice.choice([-2, 2, 3, 4])
        return choice.choice([tir.floordiv, tir.floormod])(index(depth - 1), choice.choice([2, 3, 4]))

    for _ in range(500):
        value = index(choice.randint(1, 4))
        found = arith.eval_stride_set(value, DOMAINS)
        values = {evaluate(value, {X: x, Y: y}) for x in range(4) for y in range(3)}
        assert values <= set(found) and (not found.exact or values == set(found)), value
        exact += found.exact
        texts += mark(value, found)
    assert (exact, texts) == (387, 1152724286910)


def test_unions_of_boxes():
    union = BoxUnion(2)
    union.add([Range(0, 4), Range(0, 4)])
    union.add([Range(4, 8), Range(0, 4)])
    assert len(union.boxes) == 1 and union.count() == 32 and union.waste() == 0
    union.add([IntervalSet(10, 11), IntervalSet(2, 2)])
    assert (10, 2) in union and (10, 1) not in union and (8, 2) not in union
    assert [str(s) for s in union.cover()] == ["IntervalSet[0, 11]", "IntervalSet[0, 3]"]
    assert union.count() == 34 and union.waste() == 14
    union.add([IntSet.nothing(), IntervalSet(0, 9)])
    assert union.count() == 34
    assert BoxUnion(1).cover()[0].is_nothing() and BoxUnion(1).waste() == 0


def test_what_comes_between_two_boxes_joins_both():
    union = BoxUnion(1)
    for first in (0, 4, 2):
        union.add([Range.from_min_extent(first, 2)])
    assert len(union.boxes) == 1 and list(union.points()) == [(n,) for n in range(6)]
    assert arith.exact_union([]).cover() == [] and arith.exact_union([]).count() == 0


def test_strided_axes():
    union = BoxUnion(1)
    union.add([StrideSet(0, 4, 2)])
    union.add([StrideSet(1, 4, 2)])
    assert union.count() == 8 and set(union.points()) == {(i,) for i in range(8)}


def test_boxes_that_do_not_fit():
    union = BoxUnion(2)
    with refuses("strided_set.ranks_differ"):
        union.add([Range(0, 4)])
    with refuses("strided_set.unbounded"):
        union.add([Range(0, 4), Range(0, X)])
    assert arith.exact_union([[Range(0, X)]]) is None


def test_budget():
    union = BoxUnion(2, max_boxes=4)
    for i in range(10):
        union.add([Range(3 * i, 3 * i + 1), Range(3 * i, 3 * i + 1)])
    assert not union.exact and len(union.boxes) <= 4
    assert all((3 * i, 3 * i) in union for i in range(10))


def test_a_box_that_has_too_many_parts_is_in_no_exact_union():
    """What is left of it beside one of the others overlaps another one."""
    union = BoxUnion(2, max_boxes=3)
    for first, end in ((4, 6), (0, 1), (0, 10)):
        union.add([Range(first, end), Range(first, end)])
    assert not union.exact and union.count() == 100
    line = BoxUnion(1, max_boxes=2)
    line.add([Range(4, 6)])
    line.add([Range(0, 10)])
    assert line.exact and line.count() == 10 and len(line.boxes) == 1


def test_unions_are_exact_up_to_256_boxes():
    diagonal = [[Steps(i, 1), Steps(i, 1)] for i in range(257)]
    union = BoxUnion(2)
    for box in diagonal[:256]:
        union.add(box)
    assert union.exact and union.count() == 256
    union.add(diagonal[256])
    assert not union.exact and union.count() == 257**2
    assert arith.exact_union(diagonal).exact is False and arith.exact_union(diagonal[:256]).exact


def test_random_unions():
    choice, pieces, texts = random.Random(2), 0, 0
    for _ in range(150):
        ndim = choice.randint(1, 3)
        boxes = [[random_steps(choice) for _ in range(ndim)] for _ in range(choice.randint(1, 5))]
        union = arith.exact_union(boxes, max_boxes=100_000)
        points = {p for box in boxes for p in itertools.product(*[axis.values() for axis in box])}
        assert union.exact and set(union.points()) == points and union.count() == len(points)
        pieces, texts = pieces + len(union.boxes), texts + mark(union)
        for axis, cover in enumerate(union.cover()):
            ends = [p[axis] for p in points]
            assert (int(cover.min()), int(cover.max())) == (min(ends), max(ends))
    assert (pieces, texts) == (505, 311179440079), "as few boxes as before, and the same"
