"""The laws: simplified is equal, bounds and sets hold every value, nothing false is proved."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from typing import Any

import pytest
from arith_evaluate import BINARY, evaluate
from arith_random import RandomData, RandomEnds, RandomExpressions, RandomLarge, mark

from tvmagic import ir
from tvmagic.arith import Analyzer, Extension
from tvmagic.arith.analyzer import BUDGET
from tvmagic.arith.analyzer import Analyzer as CompilingAnalyzer
from tvmagic.arith.const_int_bound import NEG_INF, POS_INF
from tvmagic.arith.overflow import Wrapping, fit
from tvmagic.errors import TVMagicError
from tvmagic.ir.dtype import integer_limits

ARITHMETIC = (ir.Add, ir.Sub, ir.Mul, ir.Div, ir.FloorDiv)


def value_at(e: Any, point: Any) -> Any:
    """The value, or None if the original divides by zero."""
    try:
        return evaluate(e, point)
    except ZeroDivisionError:
        return None


def check_laws(choice: random.Random, limit: int = 24) -> dict[str, int]:
    source = RandomExpressions(choice)
    is_condition = choice.randrange(3) == 0
    e = source.condition(2) if is_condition else source.index(choice.choice([2, 3, 4]))
    holds = source.condition(1) if choice.randrange(3) == 0 else None
    analyzer = Analyzer()
    for var, (low, extent) in source.ranges.items():
        analyzer.bind(var, ir.Range.from_min_extent(low, extent))
    if choice.randrange(4) == 0:
        analyzer.enabled_extensions = Extension(choice.randrange(16))
    points = source.points(limit)
    if holds is None:
        return check_at(analyzer, e, is_condition, points)
    try:
        points = [p for p in points if value_at(holds, p)]
        with analyzer.constraint_scope(holds):
            return check_at(analyzer, e, is_condition, points)
    except TVMagicError as error:
        assert "division by" in error.message
        return {}


def check_at(analyzer: Analyzer, e: Any, is_condition: bool, points: list[dict[Any, int]]) -> dict[str, int]:
    work = 0
    try:
        results: list[Any] = []
        for simplify in (analyzer.rewrite_simplify, analyzer.canonical_simplify, analyzer.simplify):
            results.append(simplify(e))
            work += BUDGET - analyzer.budget
        proved = is_condition and analyzer.can_prove(e)
        refuted = is_condition and analyzer.can_prove(ir.Not(e))
        bound, modular = analyzer.const_int_bound(e), analyzer.modular_set(e)
    except TVMagicError as error:
        assert "division by" in error.message
        return {}
    for point in points:
        value = value_at(e, point)
        if value is None:
            continue
        for name, result in zip(("rewrite", "canonical", "simplify"), results):
            assert evaluate(result, point) == value, f"{name}: {e} became {result}, which differs at {point}"
        low = bound.min_value if bound.min_value > NEG_INF else -math.inf
        high = bound.max_value if bound.max_value < POS_INF else math.inf
        assert low <= value <= high, f"{e} is {value} at {point}, outside {bound}"
        if modular.coeff:
            assert (value - modular.base) % modular.coeff == 0, f"{e} is {value} at {point}, not in {modular}"
        else:
            assert value == modular.base, f"{e} is {value} at {point}, not in {modular}"
        assert not (proved and not value), f"{e} was proved, but does not hold at {point}"
        assert not (refuted and value), f"{e} was refuted, but holds at {point}"
    lengths = {name: len(str(result)) for name, result in zip(("rewrite", "canonical", "simplify"), results)}
    known = {"bound": len(str(bound)), "modular": len(str(modular)), "proved": int(proved), "refuted": int(refuted)}
    return {**lengths, **known, "work": work, "texts": mark(*results, bound, modular, proved, refuted)}


def check_data(choice: random.Random, kind: type[RandomData] = RandomData) -> dict[str, int]:
    """The same laws for what is computed from arrays of data, which wraps around."""
    source = kind(choice)
    is_condition = choice.randrange(4) == 0
    e = source.condition(2) if is_condition else source.value(choice.choice([1, 2, 3]), choice.choice(source.dtypes))
    analyzer = CompilingAnalyzer()
    analyzer.bind(source.var, ir.Range.from_min_extent(-4, 14))
    holds = source.condition(1) if choice.randrange(3) == 0 else ir.IntImm("bool", 1)
    indices = index_parts(e) + index_parts(holds)
    points = [p for p in source.points(16) if value_at(holds, p) and all(stays_in_type(i, p) for i in indices)]
    with analyzer.constraint_scope(holds):
        found = check_at(analyzer, e, is_condition, points)
    return {name: found[name] for name in ("simplify", "proved", "work", "texts") if name in found}


def check_large(choice: random.Random) -> Counter[str]:
    """What stays in its type as it is written stays there when it is simplified; how many values were compared, and the texts."""
    source = RandomLarge(choice)
    e = source.condition(1) if choice.randrange(4) == 0 else source.index(choice.choice([2, 2, 3]))
    analyzer = CompilingAnalyzer()
    for var, (low, extent) in source.ranges.items():
        analyzer.bind(var, ir.Range.from_min_extent(low, extent))
    try:
        results = [analyzer.rewrite_simplify(e), analyzer.canonical_simplify(e), analyzer.simplify(e)]
    except TVMagicError as error:
        assert "division by" in error.message
        return Counter()
    count = 0
    for point in source.points(16):
        value = value_at(e, point)
        if value is None or not stays_in_type(e, point):
            continue
        for result in results:
            assert evaluate(result, point) == value, f"{e} became {result}, which differs at {point}"
        count += 1
    return Counter(values=count, texts=mark(*results))


def index_parts(e: Any) -> list[Any]:
    """The operations on integers that read no data: indices, which are taken to stay in their types."""
    parts: list[Any] = []
    wraps = Wrapping(lambda part: (-POS_INF, POS_INF))
    ir.post_order_visit(e, lambda n: parts.append(n) if type(n) in ARITHMETIC and not wraps(n) else None)
    return parts


def stays_in_type(e: Any, point: Any) -> bool:
    """Whether no part of an expression wraps around, or divides by zero, at a point."""
    parts: list[Any] = []
    ir.post_order_visit(e, lambda n: parts.append(n) if type(n) in ARITHMETIC else None)
    for part in parts:
        a, b = value_at(part.a, point), value_at(part.b, point)
        if a is None or b is None or (b == 0 and type(part) not in (ir.Add, ir.Sub, ir.Mul)):
            return False
        low, high = integer_limits(part.dtype)
        if not low <= BINARY[type(part)](a, b) <= high:
            return False
    return True


def check_vectors(choice: random.Random) -> int:
    """Simplified vectors are equal in every lane, as the compiler simplifies them; `arith.Analyzer` divides as TVM's does."""
    source = RandomExpressions(choice)
    e = source.vector(choice.choice([1, 2, 3]), choice.choice([2, 4, 8]))
    analyzer = CompilingAnalyzer()
    for var, (low, extent) in source.ranges.items():
        analyzer.bind(var, ir.Range.from_min_extent(low, extent))
    try:
        results = [analyzer.rewrite_simplify(e), analyzer.canonical_simplify(e), analyzer.simplify(e)]
        bound = analyzer.const_int_bound(e)
    except TVMagicError as error:
        assert "division by" in error.message
        return 0
    for point in source.points(16):
        value = value_at(e, point)
        if value is None:
            continue
        for result in results:
            assert evaluate(result, point) == value, f"{e} became {result}, which differs at {point}"
        assert bound.min_value <= min(value) and max(value) <= bound.max_value, f"{e} is {value}, outside {bound}"
    return mark(*results, bound)


def test_laws_hold() -> None:
    """And as much is known as before: a change that knows less must say why."""
    found: Counter[str] = Counter()
    for seed in range(300):
        found.update(check_laws(random.Random(seed)))
    assert found == Counter(
        proved=24,
        refuted=21,
        rewrite=6614,
        canonical=7000,
        simplify=6162,
        bound=6547,
        modular=8117,
        work=8378,
        texts=678548694432,
    )


def test_laws_hold_for_data() -> None:
    """What is loaded from arrays wraps around in its type. And the answers are as before, with as much work."""
    found: Counter[str] = Counter()
    for seed in range(250):
        found.update(check_data(random.Random(seed)))
    assert found == Counter(proved=3, simplify=14382, work=5138, texts=556623079165)


def test_laws_hold_at_the_ends_of_64_bits() -> None:
    found: Counter[str] = Counter()
    for seed in range(120):
        found.update(check_data(random.Random(seed), RandomEnds))
    assert (found["proved"], found["work"], found["texts"]) == (1, 2410, 257042307841)


def test_what_stays_in_its_type_does_so_simplified() -> None:
    found = sum((check_large(random.Random(seed)) for seed in range(150)), Counter())
    assert (found["values"], found["texts"]) == (2105, 315418704035)


def test_laws_hold_for_conditions() -> None:
    """With all combinations of the simplifier's optional parts."""
    found: Counter[str] = Counter()
    for seed in range(96):
        choice = random.Random(seed)
        source = RandomExpressions(choice)
        analyzer = Analyzer()
        for var, (low, extent) in source.ranges.items():
            analyzer.bind(var, ir.Range.from_min_extent(low, extent))
        analyzer.enabled_extensions = Extension(seed % 16)
        found.update(check_at(analyzer, source.condition(2), True, source.points(24)))
    assert {name: found[name] for name in ("proved", "refuted", "work", "texts")} == {
        "proved": 20,
        "refuted": 25,
        "work": 4580,
        "texts": 214119295684,
    }


def test_laws_hold_for_vectors() -> None:
    assert sum(check_vectors(random.Random(seed)) for seed in range(150)) == 316842575249, "other forms than before"


@pytest.mark.parametrize(
    "quotient, remainder", [(ir.FloorDiv, ir.FloorMod), (ir.Div, ir.Mod)], ids=["floor", "truncate"]
)
def test_quotients_and_remainders_of_scaled_splits(quotient: Any, remainder: Any) -> None:
    """Of `x % upper // lower * scale + base`, of either sign. And the forms are as before."""
    x, texts = ir.Var("x"), 0
    for upper, lower, scale, base in itertools.product((None, 4, 8, -4, -8), (1, 2, 4), (-4, -2, -1, 1, 2), (0, 16)):
        split: Any = x if upper is None else remainder(x, ir.IntImm("int32", upper))
        split = (quotient(split, ir.IntImm("int32", lower)) if lower > 1 else split) * scale + base
        for op, divisor in itertools.product((quotient, remainder), (2, 8, 16)):
            e = op(split, ir.IntImm("int32", divisor))
            result = Analyzer().canonical_simplify(e)
            texts += mark(result)
            for value in range(-9, 18):
                point = {x: value}
                assert evaluate(result, point) == evaluate(e, point), f"{e} became {result}, which differs at {value}"
    assert texts == (1714013378943 if quotient is ir.FloorDiv else 1713507604817), "other forms than before"


@pytest.mark.parametrize(("first", "texts"), [(0, 319416506427), (150, 311309135598)])
def test_chains_of_quotients_and_remainders_of_products(first: int, texts: int) -> None:
    """Of either sign and either rounding. And the forms are as before."""
    x, found = ir.Var("x"), 0
    for seed in range(first, first + 150):
        choice = random.Random(seed)
        e: Any = x * choice.choice((-6, -4, -3, -2, -1, 2, 3)) + choice.choice((0, 0, 0, 4, -6))
        for _ in range(choice.choice((2, 2, 3))):
            kind = choice.choice((ir.FloorDiv, ir.FloorMod, ir.FloorMod, ir.Div, ir.Mod, ir.Mod))
            e = kind(e, ir.IntImm("int32", choice.choice((2, 3, 4, 6, 8, 12))))
            e = e * choice.choice((-2, 3)) if choice.randrange(4) == 0 else e
        result = Analyzer().canonical_simplify(e)
        found += mark(result)
        for value in range(-13, 14, 2):
            assert evaluate(result, {x: value}) == evaluate(e, {x: value}), f"{e} became {result}, but not at {value}"
    assert found == texts


@pytest.mark.parametrize(("first", "texts"), [(0, 501067170429), (80, 537558579943), (160, 545047499888)])
def test_comparisons_of_sums_with_a_common_factor(first: int, texts: int) -> None:
    """Where the rest of a sum may or may not decide, as it lies or by what else holds. And the forms are as before."""
    found = 0
    for seed in range(first, first + 80):
        choice = random.Random(seed)
        pick, x, y = choice.choice, ir.Var("x"), ir.Var("y")
        analyzer, low, high = Analyzer(), pick((-5, -1, 0, 0, 0)), pick((1, 2, 3, 4, 6))
        analyzer.bind(y, ir.Range.from_min_extent(low, high))
        values = range(*pick(((-6, 7), (-6, 7), (-4, 5), (0, 9))))
        if len(values) == 9:
            analyzer.bind(x, ir.Range(values[0], values[-1] + 1))
        factor = pick((2, 3, 4, 8))
        rest = pick((y, y, y * -1, y // 2, y % 3, x % factor, x % (factor * 2), x % (factor * 4) // 2, x * factor % 8))
        left = x // pick((1, 1, 2)) * pick((factor, factor, factor * 3, -factor)) + rest
        right = pick((ir.IntImm("int32", pick((0, factor, -2 * factor, 1, 5))), y * factor, x * factor + factor))
        e = pick((ir.LT, ir.LE, ir.GT, ir.GE))(*choice.sample((left, right), 2))
        for simplify in (analyzer.canonical_simplify, analyzer.simplify, analyzer.rewrite_simplify):
            result = simplify(e)
            found += mark(result)
            for point in itertools.product(values, range(low, low + high)):
                at = dict(zip((x, y), point))
                assert bool(evaluate(result, at)) == bool(evaluate(e, at)), f"{e} became {result}, but not at {point}"
    assert found == texts


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_laws_hold_for_many(part: int) -> None:
    for seed in range(part * 1000, (part + 1) * 1000):
        check_laws(random.Random(seed), 60)
        check_data(random.Random(seed))
        check_data(random.Random(seed), RandomEnds)
        check_large(random.Random(seed))
        if seed % 4 == 0:
            check_vectors(random.Random(seed))


@pytest.mark.parametrize(
    ("bound", "fits"),
    [((3, 30), True), ((0, 255), True), ((-1, 30), False), ((3, 256), False), ((-5, 300), False)],
)
def test_a_bound_that_leaves_the_type_at_either_end_says_nothing(bound: tuple[int, int], fits: bool) -> None:
    assert fit(bound, (0, 255)) == (bound if fits else (0, 255))


def test_a_bound_at_the_end_of_64_bits_says_nothing() -> None:
    limits = NEG_INF, POS_INF
    assert fit((5, limits[1]), limits) == limits
    assert fit((limits[0], 5), limits) == limits
    assert fit((limits[0] + 1, limits[1] - 1), limits) == (limits[0] + 1, limits[1] - 1)
