"""The Analyzer: bindings, constraints, proofs, extensions, canonical form."""

from __future__ import annotations

import contextlib
import itertools
import random
from typing import Any

import pytest
from arith_evaluate import evaluate
from arith_random import mark
from refusals import refuses

from tvmagic import ir, te, tir
from tvmagic.arith import Analyzer, ConstIntBound, Extension, ModularSet, ProofStrength
from tvmagic.arith.analyzer import BUDGET
from tvmagic.arith.value_numbering import Structure

x, y, z = ir.Var("x"), ir.Var("y"), ir.Var("z")
n, m = ir.SizeVar("n"), ir.SizeVar("m")
fld, flm, tdiv, tmod = ir.ops.floordiv, ir.ops.floormod, ir.ops.truncdiv, ir.ops.truncmod


def analyzer_with(**ranges: Any) -> Analyzer:
    analyzer = Analyzer()
    for var in (x, y, z):
        if var.name in ranges:
            analyzer.bind(var, ranges[var.name])
    return analyzer


# ---------------------------------------------------------------------------- bounds


def test_bounds_of_every_part() -> None:
    found: dict[Any, ConstIntBound] = {}
    e = x * 2 + 1
    analyzer_with(x=ir.Range(0, 4)).const_int_bound(e, found)
    assert found[e] == ConstIntBound(1, 7)
    assert found[x] == ConstIntBound(0, 3)
    assert repr(ConstIntBound(ConstIntBound.NEG_INF, 3)) == "ConstIntBound[neg_inf,3]"


# ---------------------------------------------------------------------------- what is known


def test_binding_to_a_value_puts_it_in() -> None:
    analyzer = Analyzer()
    analyzer.bind(x, y * 2)
    assert str(analyzer.simplify(x + 1)) == "y * 2 + 1"
    analyzer.bind(z, ir.Range(5, 6))
    assert str(analyzer.simplify(z + 1)) == "6"


def test_binding_twice() -> None:
    analyzer = analyzer_with(x=ir.Range(0, 4))
    analyzer.bind(x, ir.Range(0, 4))
    with refuses("analyzer.bound_differs", names="`x`"):
        analyzer.bind(x, ir.Range(0, 5))
    analyzer.bind(x, ir.Range(0, 5), allow_override=True)
    assert analyzer.can_prove(x < 5) and not analyzer.can_prove(x < 4)
    analyzer.bind(x, ir.IntImm("int32", 7), allow_override=True)
    analyzer.bind(x, ir.Range(0, 9), allow_override=True)
    assert str(analyzer.simplify(x + 0)) == "x"


def test_update() -> None:
    analyzer = Analyzer()
    analyzer.update(x, ConstIntBound(0, 3))
    analyzer.update(y, ModularSet(4, 1))
    assert analyzer.can_prove(x < 4)
    assert str(analyzer.simplify(flm(y, 4))) == "1"
    with refuses("analyzer.bound_differs"):
        analyzer.update(x, ConstIntBound(0, 4))
    with refuses("analyzer.no_fact"):
        analyzer.update(x, "small")
    assert analyzer.const_int_bound_is_bound(x) and not analyzer.const_int_bound_is_bound(z)


def test_constraints_nest_and_end() -> None:
    analyzer = Analyzer()
    with analyzer.constraint_scope(ir.And(x >= 0, x < 8)):
        assert analyzer.can_prove(fld(x, 8).equal(0))
        with analyzer.constraint_scope(y > x):
            assert analyzer.can_prove(x < y)
            assert str(analyzer.rewrite_simplify(ir.Not(x < y))) == "T.bool(False)"
        assert not analyzer.can_prove(x < y)
    assert not analyzer.can_prove(x < 8)


def test_sizes_are_not_negative() -> None:
    analyzer = Analyzer()
    i = ir.Var("i")
    analyzer.mark_global_non_neg_value(i * 4)
    assert analyzer.can_prove(i >= 0) and analyzer.can_prove(n >= 0)
    j = ir.Var("j")
    analyzer.mark_global_non_neg_value(j + 1)
    assert analyzer.can_prove(j >= -1) and not analyzer.can_prove(j >= 0)


# ---------------------------------------------------------------------------- cost


def test_deep_expressions(cpu_seconds) -> None:
    e, condition = x, x < 3
    for i in range(1000):
        e = ir.Add(e, ir.Var(f"v{i}")) if i % 3 else (e * 2 + 1) // 3
        condition = ir.And(condition, ir.Var(f"w{i}") < i)
    analyzer = analyzer_with(x=ir.Range(0, 10))

    def everything() -> None:
        for root in (e, condition):
            analyzer.simplify(root)
            analyzer.const_int_bound(root)
            analyzer.modular_set(root)

    assert cpu_seconds(everything) < 10


def test_no_extension_hangs(cpu_seconds) -> None:
    analyzer = Analyzer()
    analyzer.enabled_extensions = Extension(15)
    names = [ir.Var(f"v{i}") for i in range(12)]
    e = names[0] < names[1]
    for i in range(2, 60):
        a, b, c = names[i % 12], names[(i * 5 + 1) % 12], names[(i * 7 + 3) % 12]
        e = (ir.Or if i % 2 else ir.And)(e, ir.And(a < b + i, ir.Or(b <= c, ir.NE(a, c))))
    assert cpu_seconds(lambda: analyzer.rewrite_simplify(e)) < 5


def hard_inputs() -> dict[str, Any]:
    """Inputs of some 200 nodes on which a rule without a budget runs very long."""
    v = [ir.Var(f"v{i}") for i in range(60)]
    low, high = v[0], v[10]
    for i in range(1, 49):
        low, high = ir.Min(low, v[i]), ir.Max(high, v[i + 10])
    choices, quotients, conditions = v[0], v[0], v[0] < v[1]
    for i in range(30):
        choices = ir.Select(choices < v[i + 1], choices + 1, v[i])
    for i in range(60):
        quotients = fld(quotients * 3 + v[i], 2) if i % 2 else flm(quotients + v[i], 7)
    for i in range(56):
        conditions = ir.Not(ir.And(conditions, v[i] < v[i + 1] + i)) if i % 2 else ir.Or(conditions, v[i] >= v[i + 2])
    return {"extremes": low < high, "choices": choices, "quotients": quotients, "conditions": conditions}


@pytest.mark.parametrize("name", ["extremes", "choices", "quotients", "conditions"])
def test_hard_inputs_are_bounded(name: str, cpu_seconds) -> None:
    e = hard_inputs()[name]
    assert cpu_seconds(lambda: Analyzer().simplify(e)) < 3


def test_conditions_that_exclude_each_other_have_bounds() -> None:
    analyzer = Analyzer()
    with analyzer.constraint_scope(x + y > 4), analyzer.constraint_scope(x + y < 1):
        for e in (fld(x + 7, x + y), tdiv(x + 7, x + y), flm(x + 7, x + y), tmod(x + 7, x + y)):
            analyzer.const_int_bound(e)
            analyzer.simplify(e)


def test_ranges_may_be_known_from_the_start() -> None:
    analyzer = Analyzer({x: ir.Range(0, 8), y: ir.Range.from_min_extent(x + 3, ir.IntImm("int32", 1))})
    assert analyzer.can_prove(x < 8) and not analyzer.can_prove(x < 7)
    assert analyzer.can_prove_equal(y, x + 3)


def repeated_sizes(depth: int) -> ir.PrimExpr:
    """A size as the inference of bounds makes them: each is used twice in the next, in objects of its own."""
    if depth == 0:
        return ir.Select(x >= 0, x, 0 - x)
    return (
        ir.Max(repeated_sizes(depth - 1), ir.IntImm("int32", depth * 3)) + 5 - ir.Min(1 - repeated_sizes(depth - 1), 0)
    )


def test_equal_parts_are_simplified_once() -> None:
    visited: list[int] = []
    for depth in (4, 6, 8):
        analyzer = Analyzer()
        analyzer.simplify(repeated_sizes(depth))
        visited.append(BUDGET - analyzer.budget)
    assert visited[2] - visited[1] <= 1.2 * (visited[1] - visited[0]) < 200, visited


def visits(e: ir.PrimExpr) -> int:
    """How many nodes are visited to simplify `e` for an `x` in [0, 8)."""
    analyzer = Analyzer({x: ir.Range(0, 8)})
    analyzer.simplify(e)
    return BUDGET - analyzer.budget


def _chosen_by(first: ir.PrimExpr, depth: int) -> ir.PrimExpr:
    """Absolute values of absolute values: each is in the condition and in both values of the next."""
    for _ in range(depth):
        first = ir.Select(first > 5, first, 3 - first)
    return first


@pytest.mark.parametrize("first", [x * 2 + 1, tir.decl_buffer((64,), "int32", name="A")[x]], ids=["an index", "data"])
def test_choices_inside_conditions_and_values_take_linear_time(first: ir.PrimExpr) -> None:
    counts = [visits(_chosen_by(first, depth)) for depth in (6, 8, 10)]
    assert counts[2] - counts[1] <= 1.2 * (counts[1] - counts[0]) < 3000, counts


def _chosen_by_data(index: ir.PrimExpr) -> ir.PrimExpr:
    A = tir.decl_buffer((64,), "int32", name="A")
    value = A[index]
    for step in range(4):
        value = ir.Select(A[index] > step, value + step, A[index] - value)
    return value


def test_indices_are_simplified_once_under_all_conditions_on_data() -> None:
    index = ir.Min(x * 4 + y, ir.Max(x + 5, y)) - ir.Min(0, x - y * 7) + fld(x * 8 + y, 4)
    more = visits(_chosen_by_data(index)) - visits(_chosen_by_data(x))
    assert more < 12 * visits(index), (more, visits(index))


def test_a_condition_on_data_holds_of_this_data() -> None:
    A = te.placeholder((64,), "int32", name="A")
    analyzer = Analyzer({x: ir.Range(0, 8)})
    with analyzer.constraint_scope(ir.And(A[x] >= 0, A[x] < 4)):
        assert analyzer.can_prove(A[x] >= 0) and analyzer.simplify(ir.Select(A[x] >= 0, x, y)) is x
        with analyzer.constraint_scope(x >= 6):
            assert analyzer.can_prove(x >= 6) and analyzer.can_prove(A[x] >= 0)
        assert not analyzer.can_prove(x >= 6)
    assert not analyzer.can_prove(A[x] >= 0)


def test_equal_parts_at_different_places_keep_their_places() -> None:
    spans = [ir.Span("cell", line, 1) for line in (1, 2)]
    parts = [ir.Add(ir.Max(x, y), ir.IntImm("int32", 0), span) for span in spans]
    number = Structure()
    assert number(parts[0]) != number(parts[1]) and number(parts[0]) == number(
        ir.Add(ir.Max(x, y), ir.IntImm("int32", 0), spans[0])
    )
    assert number(ir.FloatImm("float32", 1.0)) != number(ir.FloatImm("float32", 1.0))


def test_what_is_known_inside_a_scope_is_not_known_of_equals_outside() -> None:
    analyzer = Analyzer()
    with analyzer.constraint_scope(x < 4):
        assert str(analyzer.simplify(ir.Min(x, ir.IntImm("int32", 9)))) == "x"
    assert str(analyzer.simplify(ir.Min(x, ir.IntImm("int32", 9)))) == "T.min(x, 9)"


# ---------------------------------------------------------------------------- small parts


@pytest.mark.parametrize("strength", list(ProofStrength))
def test_what_is_not_known_is_not_proved(strength: ProofStrength) -> None:
    analyzer = analyzer_with(x=ir.Range(0, 4))
    flag = ir.Var("flag", "bool")
    for e in (x.equal(y), ir.NE(x, y), x.equal(3), flag, ir.Or(x > 0, flag), x * n < y, x < n, n <= m):
        assert not analyzer.can_prove(e, strength)
    for e in (x <= n + 3, x - 3 <= n, x * 4 < 13, ir.NE(x, 4), n * 2 >= n, ir.Not(x < 0)):
        assert analyzer.can_prove(e, strength)


@pytest.mark.parametrize(
    ("conditions", "e", "expected"),
    [
        ([flm(x, 4).equal(1), flm(x, 6).equal(3)], x, (12, 9)),
        ([flm(x, 5).equal(2), flm(x, 3).equal(1)], x * 2, (30, 14)),
        ([flm(x, 4).equal(2), flm(y, 6).equal(4)], x + y, (2, 0)),
        ([flm(x, 4).equal(2), flm(y, 6).equal(4)], x * y, (4, 0)),
        ([flm(x, 4).equal(2), flm(y, 6).equal(4)], x - y, (2, 0)),
        ([flm(x, 12).equal(8)], fld(x, 4), (3, 2)),
        ([flm(x, 12).equal(8)], flm(x, 8), (4, 0)),
        ([flm(x, 8).equal(4)], ir.ops.shift_right(x, 2), (2, 1)),
        ([flm(x, 8).equal(4)], ir.ops.maximum(x, 12), (8, 4)),
        ([flm(x, 8).equal(4)], ir.ops.bitwise_and(x, 7), (8, 4)),
    ],
    ids=str,
)
def test_modular_sets_of_what_holds(conditions: list[Any], e: Any, expected: tuple[int, int]) -> None:
    analyzer = Analyzer()
    with contextlib.ExitStack() as scopes:
        for condition in conditions:
            scopes.enter_context(analyzer.constraint_scope(condition))
        coeff, base = analyzer.modular_set(e)
        assert (coeff, base % coeff if coeff else base) == expected


def test_random_booleans_as_conjunctions() -> None:
    """A condition that becomes a conjunction of disjunctions holds where it did, in as few words as before."""
    words = texts = 0
    points = [dict(zip((x, y, z), p)) for p in itertools.product(range(4), range(4), (False, True))]
    for seed in range(40):
        draw = random.Random(seed)
        flag = ir.Var("z", "bool")

        def condition(depth: int) -> Any:
            if depth == 0:
                number = ir.IntImm("int32", draw.randint(0, 3))
                return draw.choice([flag, draw.choice([ir.LT, ir.GE, ir.EQ, ir.NE])(draw.choice([x, y]), number)])
            return draw.choice([ir.And, ir.Or])(condition(depth - 1), condition(draw.randrange(depth)))

        e = condition(draw.randint(2, 3))
        analyzer = Analyzer()
        analyzer.enabled_extensions = Extension.ConvertBooleanToAndOfOrs
        simple = analyzer.rewrite_simplify(e)
        for point in points:
            at = {**point, flag: point[z]}
            assert bool(evaluate(simple, at)) == bool(evaluate(e, at)), (seed, e, simple)
        words, texts = words + len(str(simple)), texts + mark(simple)
    assert (words, texts) == (671, 70527558353)


def test_random_narrow_casts() -> None:
    """What is taken out of a cast to fewer bits fits: the value is kept at the ends of the type."""
    words = texts = 0
    for seed in range(60):
        draw = random.Random(seed)
        low = draw.choice([-130, -128, -64, 0, 60, 120])
        high = draw.choice([low + 1, 63, 127, 128, 129, 140])
        if high < low:
            continue
        analyzer = analyzer_with(x=ir.Range(low, high + 1), y=ir.Range(0, 3))
        inner = x + draw.choice([0, 0, 1, -1, 128]) if draw.random() < 0.5 else x * draw.choice([1, 2, -1])
        inner = draw.choice([inner, inner + y, fld(inner, 2) * 2, flm(x, 256), inner - x])
        e = ir.Cast("int8", inner) + ir.Cast("int8", y) - draw.choice([ir.Cast("int8", x), ir.IntImm("int8", 1)])
        simple = analyzer.canonical_simplify(e)
        for value in {low, low + 1, high - 1, high}:
            for other in range(3):
                point = {x: value, y: other}
                assert evaluate(simple, point) == evaluate(e, point), (seed, e, simple, point)
        words, texts = words + len(str(simple)), texts + mark(simple)
    assert (words, texts) == (3275, 142500448985)


def test_a_reduction_in_which_nothing_changes_is_itself() -> None:
    a, b, c, d = (ir.Var(name) for name in "abcd")
    k = ir.IterVar(ir.Range(0, 8), ir.Var("k"), ir.IterVar.CommReduce)
    zero, always = ir.IntImm("int32", 0), ir.IntImm("bool", 1)
    alone = ir.Reduce(ir.CommReducer([a], [c], [ir.Max(a, c)], [zero]), [x], [k], always, 0)
    assert Analyzer().canonical_simplify(alone) is alone
    both = ir.CommReducer([a, b], [c, d], [ir.Max(a, c), ir.Min(b, d)], [zero, zero])
    for index, source in enumerate((x, y)):
        e = Analyzer().canonical_simplify(ir.Reduce(both, [x, y], [k], always, index))
        assert isinstance(e, ir.Reduce) and list(e.source) == [source] and e.value_index == 0
    starts = ir.CommReducer([a], [c], [ir.Max(a, c)], [ir.Add(zero, zero)])
    e = Analyzer().canonical_simplify(ir.Reduce(starts, [x], [k], always, 0))
    assert isinstance(e, ir.Reduce) and isinstance(e.combiner.identity_element[0], ir.IntImm)


def test_a_reduction_keeps_the_components_that_its_value_needs() -> None:
    a, b, c, d = (ir.Var(name) for name in "abcd")
    k = ir.IterVar(ir.Range(0, 8), ir.Var("k"), ir.IterVar.CommReduce)
    zero = ir.IntImm("int32", 0)
    apart = tir.CommReducer([a, b], [c, d], [a + c, ir.ops.maximum(b, d)], [zero, zero])
    together = tir.CommReducer([a, b], [c, d], [a + c, ir.ops.maximum(b, a + d)], [zero, zero])
    for combiner, index, count in ((apart, 0, 1), (apart, 1, 1), (together, 0, 1), (together, 1, 2)):
        e = tir.Reduce(combiner, [x, y], [k], ir.IntImm("bool", 1), index, [])
        new: Any = Analyzer().canonical_simplify(e)
        assert len(new.source) == count
        assert new.source[new.value_index] is (x, y)[index]
    for init, expected in (([], "T.Select(z < 3, x, 0)"), ([n, m], "T.Select(z < 3, n + x, n)")):
        e = tir.Reduce(apart, [x, y], [], z < 3, 0, init)
        assert str(Analyzer().canonical_simplify(e)) == expected


def test_what_cannot_be_simplified_is_the_same_node() -> None:
    """Also after another expression of the same form, whose answer is kept."""
    flag = ir.Var("flag", "bool")
    for e in (
        x + y,
        fld(x, y),
        ir.And(flag, x < y),
        ir.Or(x < y, flag),
        ir.Select(flag, x, y),
        ir.ops.minimum(x, y),
        ir.Not(flag),
    ):
        analyzer = Analyzer()
        assert analyzer.rewrite_simplify(e) is e and analyzer.rewrite_simplify(e) is e
