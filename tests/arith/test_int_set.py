"""Integer sets: queries, union and intersection, and evaluation of expressions over them."""

import contextlib
import itertools
import random
from collections import Counter

import pytest
from arith_evaluate import evaluate
from arith_random import mark
from refusals import refuses

from tvmagic import arith, ir, tir
from tvmagic.arith import IntervalSet, IntSet, eval_set
from tvmagic.arith.int_set import neg_inf, pos_inf, union_lower_bound, union_region, union_region_lower_bound
from tvmagic.ir import Broadcast, IntImm, Ramp, Range, Select, SizeVar, Var, decl_buffer


def ends(interval):
    return str(interval.min_value), str(interval.max_value)


@pytest.fixture
def x():
    return Var("x")


@pytest.fixture
def y():
    return Var("y")


def test_points_ranges_and_limits(x):
    assert IntSet.single_point(x).is_single_point() and IntSet.single_point(x).point_value() is x
    assert not IntervalSet(0, 0).is_single_point()  # two constants are two ends
    assert IntSet.everything().is_everything() and IntSet.nothing().is_nothing()
    assert not IntSet.nothing().has_lower_bound() and not IntSet.nothing().has_upper_bound()
    assert ends(IntSet.from_range(Range.from_min_extent(2, 5))) == ("2", "6")
    assert IntSet.from_min_extent(x, 1).point_value() is x
    half = IntervalSet(x, pos_inf())
    assert half.has_lower_bound() and not half.has_upper_bound()
    assert repr(IntervalSet(neg_inf(), 3)) == "IntervalSet[neg_inf, 3]"


def test_point_value_needs_a_point():
    with refuses("int_set.not_a_point"):
        IntervalSet(0, 1).point_value()


def test_signs():
    assert IntervalSet(1, 5).can_prove_positive() and IntervalSet(-3, -1).can_prove_negative()
    assert IntervalSet(-3, 0).can_prove_non_positive() and IntervalSet(0, 3).can_prove_non_negative()
    assert not IntervalSet(-1, 1).can_prove_positive() and not IntSet.everything().can_prove_negative()


def test_cover_and_match_range(x):
    cover = IntervalSet(x, x + 3).cover_range(Range(0, 1))
    assert cover.min is x and int(cover.extent) == 4
    default = Range(0, 9)
    assert IntSet.everything().cover_range(default) is default
    assert IntervalSet(x, x + 3).match_range(Range.from_min_extent(x, 4))
    assert not IntervalSet(x, x + 3).match_range(Range.from_min_extent(x, 5))
    assert not IntSet.everything().match_range(default)


def test_can_prove_single_point(x):
    assert IntervalSet(x + 1, 1 + x).can_prove_single_point(arith.Analyzer())
    assert not IntervalSet(x, x + 1).can_prove_single_point(arith.Analyzer())


def test_union_and_intersection():
    a, b = IntervalSet(1, 3), IntervalSet(6, 8)
    assert ends(arith.union([a, b])) == ("1", "8")
    assert arith.intersect([a, b]).is_nothing()
    assert ends(arith.intersect([IntervalSet(1, 6), b])) == ("6", "6")
    assert arith.union([]).is_nothing() and arith.intersect([]).is_nothing()
    assert arith.union([a]) is a
    assert ends(arith.union([IntSet.nothing(), a])) == ("1", "3")
    assert ends(arith.intersect([IntervalSet(neg_inf(), 4), IntervalSet(2, pos_inf())])) == ("2", "4")
    assert [ends(s) for s in arith.union_region([[a, b], [b, a]])] == [("1", "8"), ("1", "8")]


def test_unions_of_regions():
    region, other = [IntervalSet(0, 3), IntervalSet(2, 2)], [IntervalSet(4, 5), IntervalSet(9, 9)]
    for join, second in ((union_region, ("2", "9")), (union_region_lower_bound, ("2", "2"))):
        assert join([]) == [] and [ends(s) for s in join([region])] == [("0", "3"), ("2", "2")]
        assert [ends(s) for s in join([region, other])] == [("0", "5"), second]


@pytest.mark.parametrize("stride", [-2, -1, 0, 1, 2])
def test_the_set_of_a_ramp_reaches_from_its_first_to_its_last_lane(stride, x):
    lanes = [stride * lane for lane in range(4)]
    found = arith.eval_set(Ramp(x, IntImm("int32", stride), 4), {x: IntervalSet(3, 7)})
    assert ends(found) == (str(3 + min(lanes)), str(7 + max(lanes)))


def test_what_is_bounded_by_what_is_nowhere_is_nowhere(x, y):
    for domain in (IntervalSet(neg_inf(), 0 - y), IntervalSet(y + 1, pos_inf())):
        for value in (x % 3, x + 1, 2 - x, tir.max(x, 4)):
            assert arith.eval_set(value, {x: domain, y: IntSet.nothing()}).is_nothing()


def test_what_has_no_elements_and_no_ends_is_no_point():
    for end in (neg_inf(), pos_inf()):
        assert not IntervalSet(end, end).is_single_point()
    assert IntSet.single_point(3).is_single_point()


def test_union_lower_bound_joins_only_what_touches():
    assert ends(arith.union_lower_bound([IntervalSet(0, 3), IntervalSet(4, 8)])) == ("0", "8")
    assert ends(arith.union_lower_bound([IntervalSet(0, 3), IntervalSet(6, 8)])) == ("0", "3")
    assert ends(arith.union_lower_bound([IntervalSet(neg_inf(), 3), IntervalSet(2, pos_inf())])) == (
        "neg_inf",
        "pos_inf",
    )
    assert arith.union_lower_bound([]).is_nothing()
    regions = [[IntervalSet(0, 1), IntervalSet(0, 0)], [IntervalSet(2, 4), IntervalSet(5, 5)]]
    assert [ends(s) for s in arith.union_region_lower_bound(regions)] == [("0", "4"), ("0", "0")]


def test_unrelaxed_expressions_stay_points(x, y):
    value = x * 4 + tir.floormod(y, 3)
    assert arith.eval_set(value, {}).point_value() is value


def test_domains_may_depend_on_each_other(x, y):
    # y runs up to x, and x is relaxed as well
    values = arith.eval_set(y, {y: IntervalSet(0, x), x: IntervalSet(0, 7)})
    assert ends(values) == ("0", "7")


def test_ranges_and_intervals_are_relaxed(x, y):
    assert ends(arith.eval_set(Range.from_min_extent(x * 2, 3), {x: Range(0, 4)})) == ("0", "8")
    assert ends(arith.eval_set(IntervalSet(x, pos_inf()), {x: Range(2, 4)})) == ("2", "pos_inf")
    assert [ends(s) for s in arith.eval_sets([Range(x, x + 2), y], {x: Range(0, 4)})] == [("0", "4"), ("y", "y")]


def test_sub_expressions_have_sets(x):
    inner = x + 1
    sets = arith.eval_set_for_each_sub_expr(inner * 2, {x: Range(0, 4)})
    assert ends(sets[inner]) == ("1", "4") and ends(sets[x]) == ("0", "3")


def test_loads_are_points_unless_their_index_is_relaxed(x, y):
    buffer = decl_buffer((8,), "int32", "A")
    assert arith.eval_set(buffer[y], {x: Range(0, 4)}).is_single_point()
    assert arith.eval_set(buffer[x], {x: Range(0, 4)}).is_everything()
    assert arith.eval_set(decl_buffer((8,), "float32")[y], {}).is_everything()


def test_vectors(x):
    assert ends(IntSet.vector(Ramp(x, 2, 4))) == ("x", "x + 6")
    assert ends(IntSet.vector(Ramp(IntImm("int32", 5), -1, 4))) == ("2", "5")
    assert IntSet.vector(Broadcast(x, 4)).point_value() is x
    assert IntSet.vector(x).point_value() is x


def test_division_by_zero_is_an_error(x):
    with refuses("int_set.division_by_zero"):
        arith.eval_set(tir.FloorDiv(x, tir.const(0)), {x: Range(0, 4)})


def test_analyzer_uses_bindings_and_constraints(x, y):
    analyzer = arith.Analyzer()
    analyzer.bind(x, Range(0, 10))
    assert ends(analyzer.int_set(x + y)) == ("y", "9 + y")
    with analyzer.constraint_scope(tir.all(x < 4, y >= x)):
        assert ends(analyzer.int_set(x)) == ("0", "3")
    assert ends(analyzer.int_set(x)) == ("0", "9")
    assert ends(analyzer.int_set(x, {x: IntervalSet(2, 3)})) == ("2", "3")


def random_index(choice, variables, depth):
    """Any index expression, without folding."""
    if depth == 0 or choice.random() < 0.1:
        return choice.choice([*variables, IntImm("int32", choice.randint(-9, 9))])
    a, b = (random_index(choice, variables, depth - 1) for _ in range(2))
    constant = IntImm("int32", choice.choice([-3, -2, 2, 3, 4, 5, 8]))
    divisor = IntImm("int32", choice.choice([2, 3, 4, 5, 8, -3]))
    kind = choice.randrange(10)
    if kind == 0:
        return Select(a < b, a, b)
    if kind == 1:
        return tir.Mul(a, constant)
    if kind < 6:
        return (tir.FloorDiv, tir.FloorMod, tir.Div, tir.Mod)[kind - 2](a, divisor)
    return (tir.Add, tir.Sub, tir.Min, tir.Max)[kind - 6](a, b)


def check_sound(seed):
    """The set of a random expression holds its value at every point that its variables may take."""
    choice = random.Random(seed)
    variables = [Var(name) for name in "xyz"]
    value = random_index(choice, variables, choice.randint(1, 4))
    lows = [choice.randint(-6, 6) for _ in variables]
    domains = {v: IntervalSet(low, low + choice.randint(0, 7)) for v, low in zip(variables, lows)}
    relaxed = {v: s for v, s in domains.items() if choice.random() < 0.8}
    values = arith.eval_set(value, relaxed)
    for _ in range(10):
        point = {v: choice.randint(int(s.min_value), int(s.max_value)) for v, s in domains.items()}
        result = evaluate(value, point)
        assert not values.has_lower_bound() or evaluate(values.min_value, point) <= result, (seed, value)
        assert not values.has_upper_bound() or evaluate(values.max_value, point) >= result, (seed, value)
    return Counter(points=values.is_single_point(), text=len(str(values)), texts=mark(values))


def test_sets_hold_every_value():
    """And they are as small as before: a change that makes them larger must say why."""
    found = sum((check_sound(seed) for seed in range(400)), Counter())
    assert found == Counter(points=81, text=14788, texts=782782245387)


N, S = Var("n"), SizeVar("s")
SIZES = ({N: -3, S: 0}, {N: 1, S: 2}, {N: 4, S: 5})


def symbolic_interval(choice):
    """Ends that are numbers, sizes, or none."""
    pick = choice.choice
    low = pick([IntImm("int32", pick(range(-5, 6))), N, N + pick([-2, 1, 3]), S, S * 2, neg_inf(), IntImm("int32", 0)])
    base, reach = pick([low, low, low, N, S, IntImm("int32", 4)]), pick([0, 1, 3, 7])
    if base is neg_inf() or choice.random() < 0.15:
        return IntervalSet(low, pos_inf())
    return IntervalSet(low, base if reach == 0 else base + reach)


def symbolic_index(choice, variables, depth):
    pick = choice.choice
    if depth == 0:
        return pick([*variables, *variables, N, S, IntImm("int32", pick(range(-6, 7)))])
    a, b = symbolic_index(choice, variables, depth - 1), symbolic_index(choice, variables, choice.randrange(depth))
    kind = choice.randrange(11)
    if kind < 2:
        return tir.Mul(*choice.sample([a, pick([N, S, *[IntImm("int32", f) for f in (-3, -1, 0, 1, 2)]])], 2))
    if kind < 5:
        divisor = pick([N, S, S + 1, *[IntImm("int32", d) for d in (-2, 1, 3, 4)]])
        return pick([tir.FloorDiv, tir.FloorMod, tir.Div, tir.Mod])(a, divisor)
    if kind == 5:
        return Select(a < b, a, b)
    return pick([tir.Add, tir.Sub, tir.Min, tir.Max])(a, b)


def holds(interval, value, sizes):
    low, high = interval.min_value, interval.max_value
    return (low is neg_inf() or (low is not pos_inf() and evaluate(low, sizes) <= value)) and (
        high is pos_inf() or (high is not neg_inf() and value <= evaluate(high, sizes))
    )


@pytest.mark.parametrize(("first", "texts"), [(0, 176264969220), (100, 200892255360)])
def test_sets_of_symbolic_ends_hold_every_value(first, texts):
    """And they are as before."""
    found = 0
    for seed in range(first, first + 100):
        choice = random.Random(seed)
        domains = {Var(name): symbolic_interval(choice) for name in "xyz"}
        value = symbolic_index(choice, list(domains), choice.randint(1, 3))
        values = arith.eval_set(value, domains)
        found += mark(values)
        for sizes in SIZES:
            spans = [[v for v in range(-9, 10) if holds(domain, v, sizes)] for domain in domains.values()]
            for _ in range(3 if all(spans) else 0):
                point = {**sizes, **{var: choice.choice(span) for var, span in zip(domains, spans)}}
                with contextlib.suppress(ZeroDivisionError):
                    assert holds(values, evaluate(value, point), point), (seed, value, domains, values)
    assert found == texts


def test_random_unions_and_intersections():
    """Of intervals whose ends may be symbols: what all hold, no less than any holds, no more than all hold together."""
    texts = 0
    for seed in range(80):
        choice = random.Random(seed)
        sets = [symbolic_interval(choice) for _ in range(choice.randint(2, 4))]
        answers = arith.intersect(sets), arith.union(sets), union_lower_bound(sets)
        for sizes in SIZES:
            parts = [{v for v in range(-9, 16) if holds(s, v, sizes)} for s in sets]
            both, either, inner = ({v for v in range(-9, 16) if holds(s, v, sizes)} for s in answers)
            assert both == set.intersection(*parts), (seed, sets)
            assert not all(parts) or (inner <= set.union(*parts) <= either), (seed, sets)
        texts += mark(*answers)
    assert texts == 187996700539


@pytest.mark.soak
def test_sets_hold_every_value_long():
    for seed in range(1_000, 21_000):
        check_sound(seed)


@pytest.mark.parametrize("interval", [IntervalSet(3, pos_inf()), IntervalSet(neg_inf(), 5), IntervalSet(6, 9)])
def test_remainders_of_what_may_pass_a_multiple_are_anywhere(interval: IntervalSet) -> None:
    x = Var("x")
    found = arith.eval_set(tir.floormod(x, 8), {x: interval})
    assert (str(found.min_value), str(found.max_value)) == ("0", "7")


def test_a_set_is_itself_alone() -> None:
    one, bound = IntervalSet(0, 3), arith.ConstIntBound(0, 3)
    assert one.same_as(one) and not one.same_as(IntervalSet(0, 3))
    assert bound.same_as(bound) and not bound.same_as(arith.ConstIntBound(0, 3))


X, Y, Z, N_2 = ir.Var("x"), ir.Var("y"), ir.Var("z"), ir.Var("n")


def test_product_set_is_unbounded_without_known_sign() -> None:
    ends = IntervalSet(1, 3), IntervalSet(1, pos_inf()), IntervalSet(neg_inf(), 3), IntervalSet(neg_inf(), pos_inf())
    for factor, divide in itertools.product((Y, ir.IntImm("int32", 2), ir.IntImm("int32", -2)), (False, True)):
        for interval in ends:
            found = eval_set(ir.FloorDiv(X, factor) if divide else ir.Mul(X, factor), {X: interval})
            low, high = interval.has_lower_bound(), interval.has_upper_bound()
            if factor is Y:
                assert found.is_everything() != (low and high)
            elif factor.value < 0:
                assert (found.has_upper_bound(), found.has_lower_bound()) == (low, high)
            else:
                assert (found.has_lower_bound(), found.has_upper_bound()) == (low, high)
    never = ir.SizeVar("n")
    assert eval_set(X * never, {X: IntervalSet(1, pos_inf())}).has_lower_bound()
    zero = eval_set(X * 0, {X: IntervalSet(neg_inf(), 3)})
    assert str(zero.min_value) == str(zero.max_value) == "0"
