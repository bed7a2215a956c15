"""Decisions of the analyzer at the ends of ranges and types, each as a table or against brute force."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest
from arith_evaluate import BINARY, evaluate
from arith_random import RandomExpressions, mark

from tvmagic import ir
from tvmagic.arith import Analyzer, ConstIntBound, Extension, IntervalSet, eval_set, narrow_predicate_expression
from tvmagic.arith.analyzer import BUDGET
from tvmagic.arith.analyzer import Analyzer as CompilingAnalyzer
from tvmagic.arith.const_int_bound import ConstIntBoundAnalyzer
from tvmagic.arith.corners import ENDS_OF
from tvmagic.arith.effort import Effort
from tvmagic.arith.index_map import _SubstituteLegalized
from tvmagic.arith.int_set import joined, neg_inf, pos_inf
from tvmagic.arith.iter_map.constraints import expr_size
from tvmagic.arith.modular_set import ModularSetAnalyzer, _widens
from tvmagic.arith.points import all_points
from tvmagic.arith.rewrite.compile import Rule, parse_rules
from tvmagic.arith.rewrite.product_sum import compare_product_and_sum
from tvmagic.arith.rewrite.simplifier import observe_rules
from tvmagic.arith.transitive import EQ, GE, GT, LE, LT, MAX_STEPS, UNKNOWN, TransitiveComparisons
from tvmagic.arith.wrapping import leaves_type, stays_in_type
from tvmagic.errors import TVMagicError
from tvmagic.ir import ops
from tvmagic.ir.dtype import integer_limits

X, Y, Z, N = ir.Var("x"), ir.Var("y"), ir.Var("z"), ir.Var("n")
P = ir.Var("p", "int64")
LAST = (1 << 31) - 1


def wide(value: int) -> Any:
    return ir.IntImm("int64", value)


def known(**bounds: tuple[int, int]) -> Analyzer:
    analyzer = Analyzer()
    for var in (X, Y, Z, P):
        if var.name in bounds:
            analyzer.update(var, ConstIntBound(*bounds[var.name]))
    return analyzer


# ---------------------------------------------------------------------------- casts


@pytest.mark.parametrize(
    ("low", "high", "offset", "fits"),
    [
        (0, LAST - 5, 5, True),
        (0, LAST - 4, 5, False),
        (-LAST + 4, 0, -5, True),
        (-LAST + 3, 0, -5, False),
        (LAST, LAST + 1, -5, False),
    ],
)
def test_a_cast_goes_into_a_sum_that_fits_on_the_way(low: int, high: int, offset: int, fits: bool) -> None:
    difference = ir.Sub(ir.Cast("int32", P + wide(offset)), ir.Cast("int32", P))
    assert (str(known(p=(low, high)).canonical_simplify(difference)) == str(offset)) == fits


@pytest.mark.parametrize("scale", [-4, -1, 2, 3])
@pytest.mark.parametrize("divisor", [1, 3])
def test_a_cast_goes_into_a_product_that_fits(scale: int, divisor: int) -> None:
    """`int32(p // divisor * scale) - int32(p // divisor) * scale` is 0 where all of it, the index too, is an int32."""
    for edge in (LAST // abs(scale), LAST // abs(scale) + 1, (LAST + 1) // abs(scale) + 2):
        for end in (edge, edge * divisor, edge * divisor + divisor - 1):
            analyzer = known(p=(0, end))
            part = ir.FloorDiv(P, wide(divisor)) if divisor > 1 else P
            e = ir.Sub(
                ir.Cast("int32", ir.Mul(part, wide(scale))), ir.Mul(ir.Cast("int32", part), ir.IntImm("int32", scale))
            )
            value = end // divisor * scale
            fits = -LAST - 1 <= value <= LAST and end <= LAST
            found = str(analyzer.canonical_simplify(e))
            assert (found == "0") == fits, (end, found)


@pytest.mark.parametrize(
    ("dtype", "low", "high", "fits"),
    [
        ("int8", -128, 127, True),
        ("int8", -129, 127, False),
        ("int8", -128, 128, False),
        ("uint8", 0, 255, True),
        ("uint8", -1, 255, False),
        ("uint8", 0, 256, False),
        ("int16", -32768, 32767, True),
        ("int16", -32768, 32768, False),
    ],
)
def test_the_set_of_a_cast_that_may_cut_something_off(dtype: str, low: int, high: int, fits: bool) -> None:
    found = eval_set(ir.Cast(dtype, X), {X: IntervalSet(low, high)})
    assert found.is_everything() != fits
    if fits:
        assert (found.min_value.value, found.max_value.value) == (low, high) and found.min_value.dtype == dtype
    for half in (IntervalSet(low, pos_inf()), IntervalSet(neg_inf(), high)):
        assert eval_set(ir.Cast(dtype, X), {X: half}).is_everything()
    assert eval_set(ir.Cast(dtype, ir.Cast("float32", X)), {X: IntervalSet(low, high)}).is_everything()


# ---------------------------------------------------------------------------- sets


def test_products_with_what_has_no_known_sign() -> None:
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


# ---------------------------------------------------------------------------- comparisons


def test_one_expression_against_itself() -> None:
    chains = TransitiveComparisons(lambda e: False)
    assert chains.enter_constraint(Z < Y) is not None
    for a, b in itertools.product(range(-2, 3), repeat=2):
        for expr in (Y, Y * 2):
            if expr is not Y:
                chains.enter_constraint(expr < Z)
            assert chains.compare(expr + a, expr + b) == (EQ if a == b else LT if a < b else GT)
            assert chains.compare(expr + a, expr + b, True) == (EQ if a == b else LT if a < b else GT)


def test_sums_against_products() -> None:
    """`x * y * d < (x + y) * c` is proved only where it holds of all values, and as often as before."""
    proved = holding = 0
    spans = [(0, 2), (1, 1), (1, 2), (1, 4), (2, 3), (-1, 2)]
    for x, y, d in itertools.product(spans, spans, (1, 2)):
        for c in (0, 1, 2, 3, 4, 8):
            analyzer = known(x=x, y=y)
            analyzer.enabled_extensions = Extension.ComparisonOfProductAndSum
            e = ir.LT(
                ir.Mul(ir.Mul(X, Y), ir.IntImm("int32", d)) if d > 1 else ir.Mul(X, Y),
                ir.Mul(ir.Add(X, Y), ir.IntImm("int32", c)),
            )
            values = {a * b * d < (a + b) * c for a in range(x[0], x[1] + 1) for b in range(y[0], y[1] + 1)}
            found = str(analyzer.rewrite_simplify(e))
            if found in ("T.bool(True)", "T.bool(False)"):
                assert values == {found == "T.bool(True)"}, (x, y, d, c)
                proved += 1
            holding += len(values) == 1
    assert (proved, holding) == (180, 308)


# ---------------------------------------------------------------------------- sharing


def shared(depth: int) -> Any:
    """An expression of `depth` levels, each of which has the one below in it twice: 2 ** depth paths."""
    e: Any = ir.Add(ir.FloorDiv(X, ir.IntImm("int32", 3)), Y)
    for n in range(depth):
        e = ir.Max(ir.FloorMod(e, ir.IntImm("int32", 1000 + n)), ir.Sub(ir.FloorDiv(e, Z), ir.IntImm("int32", n)))
    return e


@pytest.mark.parametrize("ask", ["rewrite_simplify", "canonical_simplify", "simplify"])
def test_what_is_shared_is_simplified_once(ask: str) -> None:
    analyzer, e = Analyzer(), shared(10)
    simplify = getattr(analyzer, ask)
    simplify(e)
    assert BUDGET - analyzer.budget < 1_000  # of some thousands of paths
    first = simplify(e)
    assert simplify(e) is first and BUDGET - analyzer.budget < 10  # from memory
    assert str(simplify(shared(10))) == str(first) and BUDGET - analyzer.budget < 10  # of the same structure
    analyzer.bind(X, ir.Range(0, 3))
    simplify(e)
    assert BUDGET - analyzer.budget > 20  # what is known changed


@pytest.mark.parametrize("ask", ["const_int_bound", "modular_set", "int_set"])
def test_what_is_shared_is_looked_at_once(ask: str) -> None:
    analyzer = Analyzer()
    analyzer.bind(X, ir.Range(0, 8))
    e: Any = X
    for n in range(200):
        e = ir.Sub(ir.Add(e, e), ir.Add(e, ir.IntImm("int32", n % 2)))
    assert getattr(analyzer, ask)(e) is not None
    assert str(getattr(analyzer, ask)(ir.Add(e, ops.maximum(X, Y)))) != ""


# ---------------------------------------------------------------------------- small helpers


def test_which_types_hold_all_values_of_others() -> None:
    types = [ir.DataType(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    for source, target in itertools.product(types, types):
        (low, high), (least, most) = integer_limits(source), integer_limits(target)
        assert _widens(source, target) == (least <= low and high <= most), (source, target)
    assert not _widens(ir.DataType("float32"), ir.DataType("int64"))


@pytest.mark.parametrize("op", list(ENDS_OF), ids=lambda op: op.__name__)
def test_ends_of_one_operation(op: Any) -> None:
    spans = [(low, high) for low in range(-3, 4) for high in range(low, 4)]
    divides = op in (ir.FloorDiv, ir.FloorMod)
    for a, b in itertools.product(spans, spans):
        if divides and b[0] <= 0:
            continue
        values = [BINARY[op](x, y) for x in range(a[0], a[1] + 1) for y in range(b[0], b[1] + 1)]
        found = ENDS_OF[op](a, b)
        if op is not ir.FloorMod:
            assert found == (min(values), max(values))
        else:
            assert found == (0, min(a[1], b[1] - 1) if a[0] >= 0 else b[1] - 1) and found[1] >= max(values)


def test_questions_about_what_is_no_number() -> None:
    pointer, other = ir.Var("a", "handle"), ir.Var("b", "handle")
    analyzer = Analyzer()
    assert analyzer.can_prove_equal(pointer, pointer)
    assert not analyzer.can_prove_equal(pointer, other) and not analyzer.can_prove_equal(pointer, X)
    size = ir.SizeVar("n")
    below = analyzer.can_prove_less_equal_than_symbolic_shape_value
    assert below(ir.IntImm("int32", 32), size * 32) and not below(ir.IntImm("int32", 33), size * 32)
    assert below(ir.IntImm("int32", 7), ir.IntImm("int32", 7)) and not below(
        ir.IntImm("int32", 8), ir.IntImm("int32", 7)
    )
    assert below(X, X + 0 * size) and below(ir.IntImm("int32", 6), size * 2 * 3)


def test_long_sums_join_their_terms() -> None:
    """Sums of many terms are put together by a table: the same coefficients as of term by term, in any order."""
    variables = [ir.Var(f"v{n}") for n in range(9)]
    atoms = [*variables, *(ir.FloorDiv(v, ir.IntImm("int32", 3)) for v in variables[:5]), X * Y, X * Z]
    analyzer = Analyzer()
    for left, right, sign in itertools.product((3, 9, 13), (3, 5, 13), (1, -1)):
        first = [(atoms[n % len(atoms)], n % 4 - 1) for n in range(left)]
        second = [(atoms[(3 * n + 1) % len(atoms)], n % 3 - 1) for n in range(right)]

        def total(terms: Any) -> Any:
            found: Any = ir.IntImm("int32", 0)
            for atom, factor in terms:
                found = ir.Add(found, ir.Mul(atom, ir.IntImm("int32", factor)))
            return found

        whole = (ir.Add if sign > 0 else ir.Sub)(total(first), total(second))
        expected: dict[int, int] = {}
        for terms, times in ((first, 1), (second, sign)):
            for atom, factor in terms:
                expected[id(atom)] = expected.get(id(atom), 0) + times * factor
        difference = whole
        for atom in atoms:
            difference = ir.Sub(difference, ir.Mul(atom, ir.IntImm("int32", expected.get(id(atom), 0))))
        assert str(analyzer.canonical_simplify(difference)) == "0"


def test_conditions_that_are_integers_and_negated_ones() -> None:
    analyzer = Analyzer()
    flag, number = ir.Var("flag", "bool"), ir.Var("number", "int32")
    with analyzer.constraint_scope(number):
        assert str(analyzer.rewrite_simplify(ir.EQ(number, ir.IntImm("int32", 0)))) == "T.bool(False)"
    with analyzer.constraint_scope(flag):
        assert str(analyzer.rewrite_simplify(flag)) == "T.bool(True)"
        assert str(analyzer.rewrite_simplify(ir.Not(flag))) == "T.bool(False)"
    with analyzer.constraint_scope(ir.Not(flag)):
        assert str(analyzer.rewrite_simplify(flag)) == "T.bool(False)"
        assert str(analyzer.rewrite_simplify(ir.Not(flag))) == "T.bool(True)"


def test_negations_of_calls_are_known_by_what_holds() -> None:
    analyzer, call = Analyzer(), ops.isnan(ir.Var("f", "float32"))
    for holds in (True, False):
        with analyzer.constraint_scope(call if holds else ir.Not(call)):
            assert str(analyzer.rewrite_simplify(ir.Not(call))) == f"T.bool({not holds})"


@pytest.mark.parametrize(
    ("value", "low"),
    [(N, 0), (ir.Mul(N, ir.IntImm("int32", 4)), 0), (N + 1, -1), (N - 3, 3), (N * 4 + 8, -8), (ir.Mul(N, ir.IntImm("int32", 0)), None),
     (ir.Mul(N, ir.IntImm("int32", -1)), None), (3 - N, None), (N * X, None), (N + X, None), (ir.IntImm("int32", 3), None)],
    ids=str,
)  # fmt: skip
def test_sizes_that_are_not_negative(value: Any, low: int | None) -> None:
    analyzer = Analyzer()
    analyzer.mark_global_non_neg_value(value)
    assert analyzer.const_int_bound_is_bound(N) == (low is not None)
    assert low is None or analyzer.const_int_bound(N).min_value == low


def test_an_expression_in_canonical_form_is_itself() -> None:
    """Which part of it changes makes no difference."""
    analyzer, twice = Analyzer(), ir.Add(X, X)
    for op in (ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod, ir.Mul):
        e = op(X, Y)
        assert analyzer.canonical_simplify(e) is e
        for a, b, text in ((twice, Y, (X * 2, Y)), (X, ir.Add(Y, Y), (X, Y * 2)), (twice, ir.Add(Y, Y + X), None)):
            found = analyzer.canonical_simplify(op(a, b))
            if text is not None and op is not ir.Mul:
                assert str(found) == str(op(*text)), str(op(a, b))
            for x, y in ((7, 3), (12, 5)):
                assert evaluate(found, {X: x, Y: y}) == evaluate(op(a, b), {X: x, Y: y})


def test_choices_are_small_until_their_conditions_have_many() -> None:
    """A condition that is a choice counts five times, in each of them; what is far beyond is not counted on."""
    effort = Effort()
    choice: Any = X
    visits = 1
    for _ in range(8):
        choice = ir.Select(choice > 0, choice, 0 - choice)
        visits = 1 + 5 * (visits + 2) + visits + (visits + 2)
        assert effort.is_small(choice) == (visits <= 2_000), visits
    for first, count in ((ir.Cast("int32", P), 999), (X, 1000)):
        sums: Any = first
        for _ in range(count):
            sums = ir.Add(sums, X)
        assert effort.is_small(sums) == (count == 999)  # of 2000 nodes, and 2001


@pytest.mark.parametrize("high", [-1, 0, 1])
def test_the_sign_of_sets_by_their_ends(high: int) -> None:
    below, above = IntervalSet(-5, high), IntervalSet(high, 5)
    assert (below.can_prove_negative(), below.can_prove_non_positive()) == (high < 0, high <= 0)
    assert (above.can_prove_positive(), above.can_prove_non_negative()) == (high > 0, high >= 0)
    everything = IntervalSet(neg_inf(), pos_inf())
    assert not (everything.can_prove_negative() or everything.can_prove_positive())


@pytest.mark.parametrize("ends", list(itertools.product((0, 1), (0, 1))))
@pytest.mark.parametrize("dtype", ["int32", "int8"])
def test_sums_at_the_ends_of_their_type(ends: tuple[int, int], dtype: str) -> None:
    low, high = integer_limits(ir.DataType(dtype))
    x = ir.Var("x", dtype)
    inside = low + 9 - ends[0], high - 9 + ends[1]
    for number, fits in ((9, not ends[1]), (-9, not ends[0])):
        bound = (low + 1, inside[1]) if number > 0 else (inside[0], high - 1)
        assert stays_in_type(ir.Add(x, ir.IntImm(dtype, number)), lambda _, bound=bound: bound) == fits
    assert stays_in_type(x + ir.IntImm(dtype, 9), lambda _: (low, high))


def test_choices_in_maps_of_indices_are_replaced_in_each_part() -> None:
    flag, y = ir.Var("flag", "int32"), ir.Var("y64", "int64")
    e = ir.Select(flag > 0, X, Z)
    for part in (flag, X, Z):
        for values in ({part: y}, {part: Y}):
            found = _SubstituteLegalized(values).visit(e)
            point = {flag: 1, X: 2, Z: 3, Y: 5, y: 5}
            for sign in (1, -1):
                assert evaluate(found, {**point, flag: sign, y: sign * 5, Y: sign * 5}) == evaluate(
                    e, {**point, flag: sign, part: sign * 5}
                )
    assert _SubstituteLegalized({Y: y}).visit(e) is e


def test_the_text_of_rules() -> None:
    text = """
    x + 0 -> x          # behind it is a comment
    [index]
    # a line of its own
    x + y | \\
        y + x => x if c1 > 0 and ge(x, 3)

    @step
    [other]
    x - x -> 0
    """
    step = object()
    first, second, third, fourth = parse_rules(ir.Add, text, {"step": step})  # type: ignore[dict-item]
    assert (first.section, first.patterns, first.result, first.condition, first.recursive) == (
        "any",
        ("x + 0",),
        "x",
        None,
        False,
    )
    assert (second.section, second.patterns, second.result) == ("index", ("x + y", "y + x"), "x")
    assert second.condition == "c1 > 0 and ge(x, 3)" and second.recursive
    assert (third.section, third.text, third.patterns) == ("index", "step", ()) and third.function is step
    assert (fourth.section, fourth.name) == ("other", "Add: x - x -> 0")
    types = {"int32": "index", "int64": "index", "int8": "other", "float32": "other", "int32x4": "vector"}
    for name, kind in types.items():
        dtype = ir.DataType(name)
        for wraps, fast in itertools.product((False, True), (False, True)):
            holds = {
                s: Rule(ir.Add, s, "").holds_for(dtype, wraps, fast)
                for s in ("index", "integer", "ramp", "vector", "other", "exact", "any")
            }
            laws = fast or name != "float32"
            assert holds == {
                "index": kind == "index" and not wraps, "integer": kind == "index", "ramp": kind == "vector" and not wraps,
                "vector": kind == "vector", "other": kind != "index" and laws, "exact": laws, "any": True,
            }  # fmt: skip


def test_narrowed_products_with_the_constant_in_front() -> None:
    n = ir.SizeVar("n")
    ranges = {X: ir.Range(0, 8)}
    for factor, text in ((3, "21 < n"), (-3, "0 < n"), (0, "0 < n")):
        for product in (ir.Mul(ir.IntImm("int32", factor), X), ir.Mul(X, ir.IntImm("int32", factor))):
            assert str(Analyzer().simplify(narrow_predicate_expression(ir.LT(product, n), ranges))) == text
    assert str(narrow_predicate_expression(ir.LT(ir.FloorDiv(X, ir.IntImm("int32", 2)), n), ranges)) == "3 < n"
    assert str(narrow_predicate_expression(ir.LT(ir.FloorDiv(X, ir.IntImm("int32", -2)), n), ranges)) == "T.bool(False)"


def test_narrowed_conditions_hold_for_all_values_of_what_is_gone() -> None:
    """Whatever the others are. And they are as before, as few of them false."""
    false = texts = 0
    for seed in range(150):
        source = RandomExpressions(random.Random(seed))
        e, gone = source.condition(2), source.vars[: 1 + seed % 3]
        narrowed = narrow_predicate_expression(e, {v: ir.Range.from_min_extent(*source.ranges[v]) for v in gone})
        false, texts = false + (str(narrowed) == "T.bool(False)"), texts + mark(narrowed)
        for point in source.points(6):
            spans = [range(source.ranges[v][0], sum(source.ranges[v])) for v in gone]
            try:
                if evaluate(narrowed, point):
                    assert all(evaluate(e, {**point, **dict(zip(gone, p))}) for p in itertools.product(*spans)), (
                        seed,
                        e,
                    )
            except ZeroDivisionError:
                continue
    assert (false, texts) == (87, 219781678086)


@pytest.mark.parametrize("kinds", [(ir.FloorDiv, ir.FloorMod), (ir.Div, ir.Mod)], ids=["floor", "truncate"])
def test_parts_of_an_index_are_joined_again(kinds: Any) -> None:
    """`x % upper // lower * lower + x % lower` is `x % upper`, and what is above is joined likewise."""
    div, mod = kinds

    def number(value: int) -> Any:
        return ir.IntImm("int32", value)

    analyzer = known(x=(0, 1000))
    for lower, upper in ((2, 4), (2, 8), (4, 8), (4, 16), (3, 12), (5, 20)):
        inner, rest = div(mod(X, number(upper)), number(lower)), mod(X, number(lower))
        joined = ir.Add(ir.Mul(inner, number(lower)), rest)
        assert str(analyzer.canonical_simplify(joined)) == str(mod(X, number(upper)))
        whole = ir.Add(ir.Mul(div(X, number(upper)), number(upper)), joined)
        assert analyzer.canonical_simplify(whole) is X
        assert str(analyzer.canonical_simplify(div(mod(X, number(lower)), number(upper)))) == "0"
        assert str(analyzer.canonical_simplify(mod(div(X, number(lower)), number(upper // lower)))) == str(
            analyzer.canonical_simplify(inner)
        )
        product = ir.Mul(X, number(lower))
        assert str(analyzer.canonical_simplify(mod(product, number(upper)))) == str(
            ir.Mul(mod(X, number(upper // lower)), number(lower))
        )
        assert str(analyzer.canonical_simplify(div(product, number(upper)))) == str(div(X, number(upper // lower)))
        assert str(analyzer.canonical_simplify(mod(ir.Mul(X, number(upper)), number(lower)))) == "0"


def test_factors_that_no_index_holds_are_not_multiplied() -> None:
    analyzer = Analyzer()
    for first, second in itertools.product((3, 10, 20, 29, 30), (1, 2, 10, 11, 12, 20)):
        a, b = ir.IntImm("int32", 1 << first), ir.IntImm("int32", 1 << second)
        fits = first + second < 31
        quotient = str(analyzer.canonical_simplify(ir.FloorDiv(ir.FloorDiv(X, a), b)))
        assert quotient in (f"x // {1 << first + second}" if fits else f"x // {a} // {b}", "0"), (first, second)
        remainder = str(analyzer.canonical_simplify(ir.FloorMod(ir.FloorDiv(X, a), b)))
        assert remainder in (
            f"x % {1 << first + second} // {a}" if fits else f"x // {a} % {b}", f"x // {a}"
        ), (first, second)  # fmt: skip


@pytest.mark.parametrize("factor", [2, 3, 8])
def test_a_rest_decides_no_comparison_where_it_is_less_than_the_common_factor(factor: int) -> None:
    for low, high in ((0, factor - 1), (0, factor), (1, factor - 1), (-1, factor - 1), (1 - factor, 0), (-factor, 0)):
        for bound in (0, 2 * factor, -factor):
            e = ir.LT(X * factor + Y, ir.IntImm("int32", bound))
            found = known(y=(low, high)).canonical_simplify(e)
            assert ("y" not in str(found)) == (low >= 0 and high < factor), (low, high, str(found))
            for x, y in itertools.product(range(-4, 5), range(low, high + 1)):
                assert evaluate(found, {X: x, Y: y}) == evaluate(e, {X: x, Y: y}), (str(found), x, y)


@pytest.mark.parametrize("first", [(-1, 1), (0, 2), (1, 2), (2, 4), (3, 3)])
@pytest.mark.parametrize("second", [(-1, 1), (0, 2), (1, 2), (2, 4), (3, 3)])
def test_orders_of_data_by_their_ends(first: tuple[int, int], second: tuple[int, int]) -> None:
    """Of what is loaded from arrays an order is known if it holds for all values between the ends, and nothing else."""
    dtype = "int64"
    elements = [ir.BufferLoad(ir.decl_buffer((4,), dtype, name), [0]) for name in "AB"]
    spans = [first, second]
    a, b = (ir.Max(ir.Min(e, wide(high)), wide(low)) for e, (low, high) in zip(elements, spans))
    pairs = list(itertools.product(*[range(low, high + 1) for low, high in spans]))
    for kind in (ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE):
        held = {BINARY[kind](x, y) for x, y in pairs}
        found = CompilingAnalyzer().simplify(kind(a, b))
        assert (found.value if isinstance(found, ir.IntImm) else None) == (held.pop() if len(held) == 1 else None), kind


def test_the_least_and_the_largest_number_of_64_bits_are_values_of_data() -> None:
    low, high = integer_limits(ir.DataType("int64"))
    element = ir.BufferLoad(ir.decl_buffer((4,), "int64", "A"), [0])
    for end in (low, low + 1, high - 1, high):
        for kind in (ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE):
            values = {BINARY[kind](value, end) for value in (low, low + 1, 0, high - 1, high)}
            found = CompilingAnalyzer().simplify(kind(element, wide(end)))
            assert not isinstance(found, ir.IntImm) or values == {bool(found.value)}, f"{kind} {end}"
        assert {
            e
            for e in (low, 0, high)
            if evaluate(CompilingAnalyzer().simplify(ir.Min(element, wide(end))), {element.buffer.data: [e]})
            != min(e, end)
        } == set()


@pytest.mark.parametrize("factor", [-3, 2, 5])
@pytest.mark.parametrize("divisor", [10**9 + 7, -(10**9), 7, -7])
@pytest.mark.parametrize(("first", "extent"), [(0, 2), (0, 3), (0, 100), (-2, 3), (-99, 100)])
def test_factors_of_remainders_grow_as_far_as_the_type_holds_the_product(
    factor: int, divisor: int, first: int, extent: int
) -> None:
    analyzer, last = CompilingAnalyzer(), first + extent - 1
    analyzer.bind(X, ir.Range.from_min_extent(first, extent))
    for rest in (None, Y):
        if rest is not None and divisor < 0:
            continue  # no rule
        analyzer.bind(Y, ir.Range.from_min_extent(0, 4), allow_override=True)
        product = X * factor if rest is None else X * factor + rest
        for e in (product % divisor, *([] if rest is None else [(rest + X * factor) % divisor])):
            found = analyzer.rewrite_simplify(e)
            for x, y in itertools.product((first, first + 1, last), (0, 3)):
                assert evaluate(found, {X: x, Y: y}) == (x * factor + (0 if rest is None else y)) % divisor
            reduced = factor % divisor
            ends = [x * reduced + (0 if rest is None else y) for x in (first, last) for y in (0, 3)]
            holds = all(-(2**31) <= end < 2**31 for end in ends)
            assert (str(reduced) in str(found)) == (holds or reduced == factor), str(found)


def test_the_base_of_a_sum_that_is_cast_fits_itself() -> None:
    """2**31 is no int32, whatever is added to it afterwards."""
    for base, inside in ((LAST - 4, True), (LAST, True), (LAST + 1, False)):
        analyzer = known(x=(-9, -5))
        text = str(analyzer.canonical_simplify(ir.Cast("int32", ir.Cast("int64", X) + wide(base))))
        assert ("T.int64" not in text) == inside, text


class Bounds:
    """What is asked of the analyzer where a product is compared with a sum."""

    def __init__(self, difference: Any, bounds: dict[Any, tuple[float, float]]) -> None:
        self.difference, self.bounds = difference, bounds

    def visit(self, e: Any) -> Any:
        return self.difference

    def bound(self, e: Any) -> tuple[float, float]:
        return self.bounds[e]


def test_a_product_and_a_sum_whose_terms_have_any_ends() -> None:
    """What is said of (a + b) c + a b d against 0 holds for all values; it is said at the last value where it holds."""
    C, D = ir.Var("c"), ir.Var("d")
    said = 0
    for seed in range(4000):
        draw = random.Random(seed)
        ends: dict[Any, tuple[float, float]] = {}
        for var in (X, Y, C, D):
            low = draw.choice((-3, -2, -1, 0, 1, 1, 1, 2, 6))
            ends[var] = (low, low + draw.choice((0, 0, 1, 2)))
        values = [range(int(low), int(high) + 1) for low, high in (ends[v] for v in (X, Y, C, D))]
        signs = {(x + y) * c + x * y * d > 0 for x, y, c, d in itertools.product(*values)}
        found = compare_product_and_sum(Bounds((X + Y) * C + X * Y * D, ends), X, Y)
        if found != UNKNOWN:
            assert signs == {found == GT}, (seed, ends)
            said += 1
    assert said == 160
    for most, known_sign in ((6, GT), (5, UNKNOWN)):  # min(a, b) d <= c, where nothing is known of the larger one
        ends = {X: (1, math.inf), Y: (1, 2), C: (most, most), D: (-3, -3)}
        assert compare_product_and_sum(Bounds((X + Y) * C + X * Y * D, ends), X, Y) == known_sign


def test_what_is_known_to_hold_takes_the_place_of_likely_alone() -> None:
    flag = ir.Var("flag", "bool")
    analyzer = Analyzer()
    with analyzer.constraint_scope(flag):
        assert str(analyzer.rewrite_simplify(ir.Call("bool", "tir.likely", [flag]))) == "T.bool(True)"
        kept = analyzer.rewrite_simplify(ir.Call("bool", "tir.bitwise_not", [flag]))
        assert isinstance(kept, ir.Call) and kept.op.name == "tir.bitwise_not"
    assert isinstance(analyzer.rewrite_simplify(ir.Call("bool", "tir.likely", [flag])), ir.Call)


@pytest.mark.parametrize("low", [-3, -2, -1, 0, 1])
def test_a_truncated_remainder_loses_multiples_of_its_divisor_where_no_sign_changes(low: int) -> None:
    for base in (-4, -1, 1, 4, 6, 7, 8):
        e = ir.Mod(X + base if base > 0 else X - -base, ir.IntImm("int32", 3))
        found = known(x=(low, 20)).canonical_simplify(e)
        assert all(evaluate(found, {X: x}) == evaluate(e, {X: x}) for x in range(low, 21))
        rest = base - ir.fold.truncate_divide(base, 3) * 3
        smaller = X + rest if rest > 0 else X
        reduced = base > 3 and low + rest >= 0 and low + base >= 0
        assert not reduced or str(found) == str(ir.Mod(smaller, ir.IntImm("int32", 3))), (base, str(found))
        assert reduced or abs(base) < 3 or str(base).lstrip("-") in str(found)


@pytest.mark.parametrize(
    "value",
    [
        ir.Call("int32", "tir.call_pure_extern", [ir.StringImm("f"), X]),
        ir.Call("int32", "tir.call_extern", [ir.StringImm("f"), X]),
        ir.Call("int32", "tir.call_llvm_pure_intrin", [3, X]),
        ir.Call("int32", "tir.call_spirv_pure_glsl450", [X]),
        ir.Call("int32", "tir.reinterpret", [ir.Var("f", "float32")]),
        ir.Call("int32", "tir.undef", []),
        ir.Call("int32", ir.GlobalVar("f"), [X]),
    ],
    ids=lambda call: getattr(call.op, "name", "function"),
)
def test_what_others_compute_may_wrap_around(value: Any) -> None:
    assert not isinstance(Analyzer().simplify(ir.LT(value, value + 1)), ir.IntImm)
    assert Analyzer().can_prove(ir.LT(ir.Call("int32", "tir.popcount", [X]), ir.Call("int32", "tir.popcount", [X]) + 1))


def test_chains_are_followed_between_what_is_too_far_apart_if_they_are_between_others() -> None:
    """The difference of `x - 2**30` and `y + 2**30` may leave int32, so that only comparisons tell."""
    low, high = X - (1 << 30), Y + (1 << 30)
    for extensions in (Extension.NoExtensions, Extension.TransitivelyProveInequalities):
        analyzer = CompilingAnalyzer()
        analyzer.enabled_extensions = extensions
        with analyzer.constraint_scope(ir.And(ir.LE(low, Z), ir.LT(Z, high))):
            found = analyzer.rewrite_simplify(ir.LE(low, high))
            assert isinstance(found, ir.IntImm) == (extensions != Extension.NoExtensions)
            assert analyzer.can_prove(ir.LT(Z, high))


def test_points_of_ranges_are_counted_before_they_are_made() -> None:
    ranges = [ir.Range.from_min_extent(1, 3), ir.Range.from_min_extent(-2, 2)]
    found = all_points(ranges, 6)
    assert found.T.tolist() == [list(p) for p in itertools.product(range(1, 4), range(-2, 0))]
    assert all_points(ranges, 5) is None and all_points([*ranges, ir.Range.from_min_extent(0, N)], 99) is None
    assert all_points([*ranges, None], 99) is None
    assert all_points([ir.Range.from_min_extent(0, -1)], 9).shape == (1, 0) and all_points([], 1).shape == (0, 1)


def test_other_bounds_of_a_variable_need_leave() -> None:
    bounds = ConstIntBoundAnalyzer(Analyzer())
    bounds.update(X, (0, 9))
    bounds.update(X, (0, 9))
    for again in (lambda: bounds.update(X, (0, 8)), lambda: bounds.bind(X, ir.Range.from_min_extent(0, 9))):
        with pytest.raises(TVMagicError, match="`x` is bound to .* already"):
            again()
    factors = ModularSetAnalyzer(Analyzer())
    factors.update(X, (4, 1))
    with pytest.raises(TVMagicError, match="`x`"):
        factors.update(X, (4, 2))
    factors.update(X, (4, 2), True)
    bounds.update(X, (0, 8), True)
    bounds.bind(X, ir.Range.from_min_extent(0, 4), True)
    assert bounds.visit(X) == (0, 3)


@pytest.mark.parametrize("factor", [1 << 20, (1 << 20) + 1, (1 << 21) - 1, 1 << 21])
def test_products_with_large_numbers_may_leave_their_type(factor: int) -> None:
    """x * f // f is x only if x * f is an int32 for every x."""
    for last in (LAST // factor, LAST // factor + 1):
        found = known(x=(0, last)).simplify((X * factor) // factor)
        assert (found is X) == (last * factor <= LAST), (last, found)


@pytest.mark.parametrize("stride", [(1 << 20) - 1, 1 << 20, -(1 << 20), (1 << 30) + 1, -LAST])
@pytest.mark.parametrize("lanes", [2, 4])
def test_ramps_of_large_strides_may_leave_their_type(stride: int, lanes: int) -> None:
    """The last lane may be outside int32 where the first one is not; of a base at an end of its type nothing is known."""
    reach, ramp = stride * (lanes - 1), ir.Ramp(X, ir.IntImm("int32", stride), lanes)
    asked = abs(stride) >= 1 << 20
    for base in (0, 5, LAST, -LAST - 1, LAST - reach, LAST - reach + 1, -LAST - 1 - reach, -LAST - 2 - reach):
        outside = not -LAST - 1 <= base + reach <= LAST
        is_known = -LAST <= base < LAST
        assert leaves_type(ramp, lambda part, ends=(base, base): ends) == (asked and is_known and outside), base


def test_proofs_are_not_shown_as_rules_of_the_program() -> None:
    seen: list[str] = []
    with observe_rules(lambda rule, before, after: seen.append(str(before))):
        smaller = ir.Min(X, X + 1)
        assert Analyzer().can_prove(ops.equal(smaller, X)) and not seen
        assert Analyzer().simplify(smaller) is X and seen == [str(smaller)]


@pytest.mark.parametrize("simplify", [CompilingAnalyzer.rewrite_simplify, CompilingAnalyzer.canonical_simplify])
def test_rules_are_shown_again_to_who_begins_to_look(simplify: Any) -> None:
    """Of what was simplified before, wherever it is in an expression."""
    analyzer, smaller = CompilingAnalyzer(), ir.Min(X, X + 1)
    for e in (smaller, ir.Min(smaller, Y), smaller + Y, (smaller + Y) * Z):
        seen: list[str] = []
        simplify(analyzer, e)
        with observe_rules(lambda rule, before, after, seen=seen: seen.append(str(before))):
            simplify(analyzer, e)
        assert seen.count(str(smaller)) == 1


def test_what_follows_from_either_side() -> None:
    """A search that ends after `MAX_STEPS` from one side may find from the other what it did not."""
    chains = TransitiveComparisons(lambda e: False)
    middle, *others = (ir.Var(f"v{n}") for n in range(MAX_STEPS + 1))
    for e in (X <= middle, middle <= Y, *(X <= other for other in others)):
        chains.enter_constraint(e)
    for n, other in enumerate(others):
        chains.enter_constraint(other <= ir.Var(f"w{n}"))
    assert chains.compare(X, Y) == UNKNOWN
    assert chains.compare(X, Y, True) == LE and chains.compare(Y, X, True) == GE
    assert chains.compare(X + 1, Y, True) == UNKNOWN and chains.compare(X, Y + 1, True) == LT


def test_boxes_without_ends_are_joined_where_they_are_the_same() -> None:
    none, zero = (neg_inf(), pos_inf()), ir.IntImm("int32", 0)
    low, high = IntervalSet(0, 1), IntervalSet(2, 3)
    for first, second, same in [
        (none, none, True),
        ((X + Y, pos_inf()), (Y + X, pos_inf()), True),
        ((neg_inf(), X + Y), (neg_inf(), Y + X), True),
        ((X, pos_inf()), (Y, pos_inf()), False),
        ((zero, pos_inf()), (zero, ir.IntImm("int32", 5)), False),
        ((neg_inf(), zero), (ir.IntImm("int32", -5), zero), False),
    ]:
        boxes = joined([[IntervalSet(*first), low], [IntervalSet(*second), high]], Analyzer())
        assert [str(box[1]) for box in boxes] == (["IntervalSet[0, 3]"] if same else [str(high), str(low)]), (
            first,
            second,
        )


def test_quotients_of_data_by_what_may_be_zero_are_zero_there_too() -> None:
    buffer = ir.decl_buffer((4,), "int32", "A")
    first, second = (ir.BufferLoad(buffer, [n]) for n in (0, 1))
    clipped = lambda e, low, high: ir.Max(ir.Min(e, high), low)  # noqa: E731
    for low, high, least, most in ((-9, -5, 0, 1), (5, 9, 0, 1), (5, 9, 1, 2), (-9, -5, 1, 1)):
        divisors = range(least, most + 1)
        for kind in (ir.FloorDiv, ir.Div):
            values = [BINARY[kind](x, y) if y else 0 for x in range(low, high + 1) for y in divisors]
            found = Analyzer().const_int_bound(kind(clipped(first, low, high), clipped(second, least, most)))
            assert (found.min_value, found.max_value) == (min(values), max(values))


def test_the_remainder_of_a_mask_is_known_of_constants_alone() -> None:
    known = [
        (mask, Analyzer().modular_set(ops.bitwise_and(X * 8, mask)))
        for mask in (ir.IntImm("int32", 3), Y * 4 + 3, Y * 4, Y)
    ]
    assert [(found.coeff, found.base) for _, found in known] == [(4, 0), (1, 0), (1, 0), (1, 0)]


def test_how_many_nodes_an_expression_has() -> None:
    assert [expr_size(e) for e in (X, X + 1, ops.minimum(X, Y * 2))] == [1, 3, 5]


def test_a_call_without_arguments_is_no_condition() -> None:
    analyzer = CompilingAnalyzer()
    with analyzer.constraint_scope(ir.Var("b", "bool")):
        assert str(analyzer.simplify(ir.ops.vscale() + X)) == "T.vscale() + x"


@pytest.mark.parametrize(
    "first, end, kept", [(-200, 6, False), (-128, 1, True), (-129, 1, False), (0, 108, True), (0, 109, False)]
)
def test_a_set_is_cast_if_both_of_its_ends_fit(first: int, end: int, kept: bool) -> None:
    analyzer = CompilingAnalyzer()
    analyzer.bind(N, ir.Range(first, end))
    found = eval_set(ir.Cast("int8", X), {X: IntervalSet(N, N + 20)}, analyzer)
    assert (str(found) == 'IntervalSet[T.Cast("int8", n), T.Cast("int8", n + 20)]') is kept
    assert kept or found.is_everything()


@pytest.mark.parametrize("ends", [(0, pos_inf()), (neg_inf(), 0)])
def test_a_set_without_an_end_is_cast_to_everything(ends: tuple[Any, Any]) -> None:
    assert eval_set(ir.Cast("int8", X), {X: IntervalSet(*ends)}, CompilingAnalyzer()).is_everything()
