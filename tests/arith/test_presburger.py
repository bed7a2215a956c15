"""What follows from conditions: nothing that is not so, and as much as before."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest
from arith_evaluate import evaluate
from arith_random import mark
from refusals import refuses

from tvmagic import ir
from tvmagic.arith.presburger import TRUE, Condition, IntegerLogic, Linear, LinearSystem, TooMuchWork
from tvmagic.arith.transitive import EQ, GE, GT, LE, LT, NE, TransitiveComparisons

X, Y, Z = (ir.Var(name) for name in "xyz")
FLAG = ir.Var("flag", "bool")
EXTENTS = {X: 5, Y: 4}
COMPARE = (ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE)
POINTS = [{X: x, Y: y, FLAG: f} for x, y, f in itertools.product(range(5), range(4), (False, True))]


def _sum(draw: random.Random) -> Any:
    total: Any = ir.IntImm("int32", draw.randint(-6, 6))
    for var in (X, Y):
        part = draw.choice([var, var, ir.FloorDiv(var + draw.randint(0, 3), ir.IntImm("int32", draw.randint(2, 4)))])
        part = draw.choice([part, part, ir.FloorMod(var, ir.IntImm("int32", draw.randint(2, 4))), X * Y])
        total = total + part * draw.randint(-3, 3)
    return total


def _condition(draw: random.Random, depth: int) -> Any:
    kind = draw.choice("caon" if depth else "cccf")
    if kind == "f":
        return FLAG
    if kind == "c":
        return draw.choice(COMPARE)(_sum(draw), _sum(draw))
    a = _condition(draw, depth - 1)
    return ir.Not(a) if kind == "n" else (ir.And if kind == "a" else ir.Or)(a, _condition(draw, depth - 1))


def _points(e: Any) -> set[int]:
    """The numbers of the points where an expression holds."""
    return {n for n, point in enumerate(POINTS) if evaluate(e, point)}


def _again(logic: IntegerLogic, condition: Condition) -> set[int]:
    """The numbers of the points where a union of cases holds."""
    found = set()
    for case in condition.cases:
        held = set(range(len(POINTS)))
        for literal in case:
            if literal.sum is not None:
                held &= _points(logic.expression(literal.sum, "int32") >= 0)
            else:
                held &= _points(logic.opaque[literal.number] if literal.holds else ir.Not(logic.opaque[literal.number]))
        found |= held
    return found


def test_random_conditions() -> None:
    """Everything that is proved is so, and not less is proved: a change that proves less must say why."""
    found: Counter[str] = Counter()
    for seed in range(60):
        draw = random.Random(seed)
        logic = IntegerLogic({v: ir.Range.from_min_extent(0, e) for v, e in EXTENTS.items()})
        e, f = _condition(draw, draw.randint(0, 2)), _condition(draw, draw.randint(0, 1))
        a, b = logic.condition(e), logic.condition(f)
        inside, other = _points(e), _points(f)
        assert _again(logic, a) == inside and _again(logic, logic.opposite(a)) == set(range(len(POINTS))) - inside
        both, without, reduced = logic.both(a, b), logic.without(a, b), logic.reduced(a)
        assert _again(logic, both) == inside & other and _again(logic, without) == inside - other
        assert _again(logic, logic.either(a, b)) == inside | other and _again(logic, reduced) == inside
        moved = logic.replaced(a, {X: Linear({Y: 1}, 1)}, {X: Y + 1})
        assert _again(logic, moved) == {n for n, p in enumerate(POINTS) if evaluate(e, {**p, X: p[Y] + 1})}
        for name, proved, so in (
            ("impossible", logic.impossible(a, b), not inside & other),
            ("implies", logic.implies(a, b), inside <= other),
            ("equivalent", logic.equivalent(a, reduced), True),
            ("true", logic.implies(TRUE, a), inside == set(range(len(POINTS)))),
        ):
            assert so or not proved, (seed, name)
            found.update({name: proved, f"{name} is": so})
        found.update(cases=len(both.cases) + len(without.cases), reduced=sum(map(len, reduced.cases)))
    assert found.pop("cases") <= 175 and found.pop("reduced") <= 84  # of literals that say the same any may go
    is_so = {"impossible is": 25, "implies is": 24, "equivalent is": 60, "true is": 15}
    assert found == Counter(impossible=14, implies=13, equivalent=60, true=5) + Counter(is_so)


@pytest.mark.parametrize(("sizes", "proved"), [((4, 4, 6), True), ((4, 5, 5), False), ((3, 3, 3, 3, 3), False)])
def test_what_has_too_many_cases_is_not_proved(sizes: tuple[int, ...], proved: bool) -> None:
    """The negation of a goal of which each case has some literals has their product."""
    logic = IntegerLogic({X: ir.Range(0, 9)})
    flags = iter([ir.Var(f"flag{n}", "bool") for n in range(sum(sizes))])
    cases = [
        frozenset(l for _ in range(size) for l in next(iter(logic.condition(next(flags)).cases))) for size in sizes
    ]
    goal = Condition([*cases, *logic.condition(X >= 0).cases])
    assert logic.implies(TRUE, goal) == proved


def test_work_and_steps_are_bounded() -> None:
    logic = IntegerLogic({X: ir.Range(0, 9)}, max_steps=3)
    with refuses("analyzer.too_many_rewrites"):
        logic.both(*[logic.condition(ir.Or(X < n, X > n + 3)) for n in range(5)])
    logic = IntegerLogic({X: ir.Range(0, 9)})
    logic.work = 149_996
    with pytest.raises(TooMuchWork):
        logic.impossible(logic.condition(X < 0))
    assert logic.work == 0  # the next question may take as much
    logic.work = 149_995
    assert logic.impossible(logic.condition(X < 0))
    logic.restart()
    assert logic.work == 0


def test_what_says_nothing_of_a_variable_has_none() -> None:
    logic = IntegerLogic()
    assert logic.condition((X + Y) // 4 * 3 + Z * Z > 5).variables == {X, Y}
    assert logic.condition(FLAG).variables == set()
    assert str(logic.expression(logic.linear((X * 8 + Y + 9) // 4), "int32")) == "x * 2 + (y + 1) // 4 + 2"


def test_two_sums_are_equal_where_their_values_are() -> None:
    logic = IntegerLogic({v: ir.Range.from_min_extent(0, e) for v, e in EXTENTS.items()})
    for seed in range(20):
        draw = random.Random(seed)
        e, f = _sum(draw), _sum(draw)
        equal = logic.equal(logic.linear(e), logic.linear(f))
        assert _again(logic, equal) == _points(ir.EQ(e, f))
        assert logic.equivalent(equal, logic.equal(logic.linear(f), logic.linear(e)))


def test_random_systems_of_three_variables() -> None:
    """What is proved to be impossible is; as many systems are, with as little work, as before."""
    proved = impossible = work = 0
    box = [dict(zip((X, Y, Z), values)) for values in itertools.product(range(-2, 3), repeat=3)]
    ranges = {v: ir.Range.from_min_extent(-2, 5) for v in (X, Y, Z)}
    for seed in range(120):
        draw = random.Random(seed)
        sums = [
            Linear(
                {v: c for v in (X, Y, Z) if (c := draw.choice((-5, -3, -2, -1, 0, 1, 2, 3, 5)))}, draw.randint(-6, 2)
            )
            for _ in range(draw.randint(2, 5))
        ]
        rows = LinearSystem(IntegerLogic(ranges), sums)
        never = rows.impossible()
        possible = any(all(s.constant + sum(c * p[t] for t, c in s.terms.items()) >= 0 for s in sums) for p in box)
        assert not (never and possible), seed
        proved, impossible, work = proved + never, impossible + (not possible), work + rows.work
    assert (proved, impossible, work) == (41, 43, 3765)


def test_a_system_of_too_many_rows_is_not_decided() -> None:
    """All of these hold where every variable is 0."""
    draw, values = random.Random(0), [ir.Var(f"v{n}") for n in range(12)]
    for count in (5, 40):
        sums = [Linear({v: draw.choice((-3, -2, 2, 3)) for v in values}, draw.randint(0, 9)) for _ in range(count)]
        assert not LinearSystem(IntegerLogic(), sums).impossible()


@pytest.mark.parametrize(("lows", "highs", "decided"), [(6, 10, True), (60, 1, True), (61, 1, False), (7, 9, False)])
def test_systems_are_decided_up_to_60_rows(lows: int, highs: int, decided: bool) -> None:
    """Of `x >= 5` and `x <= 3`, among others that leave as many rows as there are pairs."""
    above = [Linear({X: 1, Y: n} if n else {X: 1}, -5) for n in range(lows)]
    below = [Linear({X: -1, Y: n} if n else {X: -1}, 3) for n in range(highs)]
    assert LinearSystem(IntegerLogic(), [*above, *below]).impossible() is decided


@pytest.mark.parametrize("count", [23, 24, 25])
def test_a_condition_has_up_to_24_cases(count: int) -> None:
    logic = IntegerLogic()
    flags = [logic.condition(ir.Var(f"f{n}", "bool")) for n in range(count)]
    reduced = logic.reduced(logic.either(*flags))
    assert len(reduced.cases) == min(count, 24) and logic.implies(reduced, logic.either(*flags))


# ---------------------------------------------------------------------------- chains of comparisons


def _closure(known: list[tuple[int, int, int]]) -> dict[tuple[int, int], float]:
    """The least c of `v[i] <= v[j] + c` for each pair, from some such (i, j, c): the shortest paths."""
    least = {(i, j): 0.0 if i == j else float("inf") for i in range(5) for j in range(5)}
    for i, j, c in known:
        least[i, j] = min(least[i, j], c)
    for k, i, j in itertools.product(range(5), repeat=3):
        least[i, j] = min(least[i, j], least[i, k] + least[k, j])
    return least


def _outcomes(least: dict[tuple[int, int], float], i: int, j: int, c: int) -> int:
    """What `v[i]` may be against `v[j] + c`: a bit each for equal, less and greater."""
    high, low = least[i, j], -least[j, i]
    return (EQ if low <= c <= high else 0) | (LT if low < c else 0) | (GT if high > c else 0)


def test_random_chains() -> None:
    """Chains say what the shortest paths say, but for a few; directly, at least what was said. And all is as before."""
    exact = missed = direct = answers = 0
    for seed in range(150):
        draw = random.Random(seed)
        values = [ir.Var(name) for name in "abcd"]
        place = [draw.randint(-4, 4) for _ in values] + [0]  # where everything known holds
        chains, known = TransitiveComparisons(lambda e: False), []
        for _ in range(draw.randint(2, 6)):
            i, j = draw.sample(range(5), 2)
            gap, slack = place[i] - place[j], draw.randint(0, 2)
            left: Any = values[i] if i < 4 else ir.IntImm("int32", 0)
            right: Any = values[j] if j < 4 else ir.IntImm("int32", 0)
            kind = draw.choice([ir.LE, ir.LT, ir.GE, ir.GT, ir.EQ])
            if kind in (ir.LE, ir.LT):
                known.append((i, j, gap + slack))
                condition = kind(left, right + (gap + slack + (kind is ir.LT)))
            elif kind in (ir.GE, ir.GT):
                known.append((j, i, -(gap - slack)))
                condition = kind(left, right + (gap - slack - (kind is ir.GT)))
            else:
                known += [(i, j, gap), (j, i, -gap)]
                condition = kind(left, right + gap)
            assert chains.enter_constraint(condition) is not None
        least = _closure(known)
        for i, j in itertools.permutations(range(5), 2):
            c = place[i] - place[j] + draw.randint(-3, 3)
            left = values[i] if i < 4 else ir.IntImm("int32", 0)
            right = (values[j] if j < 4 else ir.IntImm("int32", 0)) + c
            said, all_that = chains.compare(left, right, True), _outcomes(least, i, j, c)
            assert said & all_that == all_that, (seed, i, j, c)
            exact, missed = exact + (said == all_that), missed + (said != all_that)
            near = chains.compare(left, right)
            assert near & all_that == all_that
            direct += near != LT | EQ | GT
            answers += mark(said, near, seed)
    assert (exact, missed, direct, answers) == (2947, 53, 611, 6205733287968)


@pytest.mark.parametrize(
    ("known", "question", "answer"),
    [
        (ir.NE(X, Y), (X, Y), NE),
        (ir.NE(X, Y + 2), (X, Y), LT | EQ | GT),
        (X <= Y + 3, (X, Y + 3), LE),
        (X <= Y + 3, (X, Y + 4), LT),
        (X <= Y + 3, (Y + 3, X), GE),
        (X > Y - 1, (X, Y), GE),
        (X + 2 <= Y, (X, Y - 2), LE),
        (X - 1 >= Y + 3, (X - 4, Y), GE),
        (ir.EQ(X + 5, Y + 2), (X + 3, Y), EQ),
        (ir.EQ(X, Y + 1), (X, Y), GT),
        (ir.EQ(X, Y + 1), (Y + 1, X), EQ),
        (X < 4, (X, ir.IntImm("int32", 4)), LT),
        (X < 4, (ir.IntImm("int32", 5), X), GT),
        (X * 2 <= Y // 3, (X * 2 + 1, Y // 3 + 2), LT),
    ],
    ids=str,
)
def test_one_comparison(known: Any, question: tuple[Any, Any], answer: int) -> None:
    chains = TransitiveComparisons(lambda e: False)
    end = chains.enter_constraint(known)
    assert end is not None
    assert chains.compare(*question) == answer and chains.compare(*question, True) == answer
    end()
    assert chains.compare(*question, True) == LT | EQ | GT
