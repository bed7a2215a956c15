"""Systems of linear equations and inequalities: the solved system has the same solutions."""

import itertools
import random
from collections import Counter

import pytest
from arith_evaluate import evaluate
from arith_random import mark

from tvmagic import arith, tir
from tvmagic.arith._ffi_api import SolveInequalitiesAsCondition
from tvmagic.arith.int_solver import IntConstraints, IntConstraintsTransform, IntGroupBounds
from tvmagic.arith.solve_equations import extended_euclidean, smith_normal_form
from tvmagic.errors import TVMagicError
from tvmagic.ir import Range, Var

X, Y, Z = Var("x"), Var("y"), Var("z")


def texts(values):
    return [str(v) for v in values]


# ---------------------------------------------------------------------------- equations


def test_a_single_solution():
    solved = arith.solve_linear_equations([tir.EQ(X + Y, 20), tir.EQ(X - Y, 10)], [X, Y])
    assert {v.name: int(e) for v, e in solved.src_to_dst.items()} == {"x": 15, "y": 5}
    assert not solved.dst.variables and not solved.dst.relations


def test_no_solution():
    for equations in ([tir.EQ(X + Y, 3), tir.EQ(X + Y, 4)], [tir.EQ(X * 2 + Y * 4, 3)]):
        solved = arith.solve_linear_equations(equations, [X, Y])
        assert texts(solved.dst.relations) == ["T.bool(False)"] and not solved.src_to_dst


def test_free_variables_keep_ranges():
    ranges = {X: Range.from_min_extent(5, 10), Y: Range.from_min_extent(0, 10)}
    solved = arith.solve_linear_equations([tir.EQ(X + Y, 20)], [X, Y], ranges)
    (free,) = solved.dst.variables
    assert free.name.startswith("n0")
    assert texts(solved.dst.relations) == ["n0 < -5"]
    assert str(solved.dst.ranges[free].min) == "-9" and str(solved.dst.ranges[free].extent) == "10"


def test_symbols_and_what_is_no_equation():
    n = Var("n")
    solved = arith.solve_linear_equations([tir.EQ(X * 2, n), X < 3], [X])
    assert texts(solved.dst.relations) == ["n % 2 == 0", "n // 2 < 3"]


def test_composition():
    first = arith.solve_linear_equations([tir.EQ(X - Y, 3)], [X, Y])
    (free,) = first.dst.variables
    second = arith.solve_linear_equations(IntConstraints([free], {}, [tir.EQ(free, 4)]))
    with pytest.raises(TVMagicError, match="does not start"):
        first + second
    second = arith.solve_linear_equations(first.dst)
    both = first + second
    assert both.src is first.src and both.dst is second.dst


def test_smith_normal_form():
    choice = random.Random(0)
    for _ in range(200):
        rows, columns = choice.randint(1, 4), choice.randint(1, 4)
        matrix = [[choice.randint(-4, 4) for _ in range(columns)] for _ in range(rows)]
        unknowns = [Var(f"v{i}") for i in range(columns)]
        right = [tir.const(choice.randint(-9, 9)) for _ in range(rows)]
        diagonal, basis, new_unknowns, _ = smith_normal_form(matrix, right, unknowns)
        assert all(diagonal[i][j] == 0 for i in range(rows) for j in range(columns) if i != j)
        # V (V^-1 x) is x
        point = {v: choice.randint(-9, 9) for v in unknowns}
        values = [evaluate(e, point) for e in new_unknowns]
        assert [sum(a * b for a, b in zip(row, values)) for row in basis] == list(point.values())


def test_extended_euclidean():
    for a, b in itertools.product(range(-12, 13), repeat=2):
        g, x, y = extended_euclidean(a, b)
        assert a * x + b * y == g and (g == 0 or (a % g == 0 and b % g == 0))


def box(ranges):
    return itertools.product(*[range(low, low + size) for low, size in ranges.values()])


def check_equations(seed):
    choice = random.Random(seed)
    variables = [X, Y, Z][: choice.randint(1, 3)]
    ranges = {v: (choice.randint(-4, 4), choice.randint(1, 7)) for v in variables}
    equations = []
    for _ in range(choice.randint(1, 3)):
        total = tir.const(choice.randint(-6, 6))
        for v in variables:
            total = total + v * choice.randint(-3, 3)
        equations.append(tir.EQ(total, tir.const(choice.randint(-6, 6))))
    system = IntConstraints(variables, {v: Range.from_min_extent(*r) for v, r in ranges.items()}, equations)
    solved = arith.solve_linear_equations(system)
    expected = set()
    for values in box(ranges):
        point = dict(zip(variables, values))
        if not all(evaluate(e, point) for e in equations):
            continue
        expected.add(values)
        new = {v: evaluate(e, point) for v, e in solved.dst_to_src.items()}
        assert all(evaluate(r, new) for r in solved.dst.relations), (seed, solved)
        assert [evaluate(solved.src_to_dst[v], new) for v in variables] == list(values), (seed, solved)
        for v, r in solved.dst.ranges.items():
            assert evaluate(r.min, new) <= new[v] < evaluate(r.min, new) + evaluate(r.extent, new)
    found = set()
    if not (solved.dst.relations and str(solved.dst.relations[0]) == "T.bool(False)"):
        new_ranges = {
            v: (int(solved.dst.ranges[v].min), int(solved.dst.ranges[v].extent)) for v in solved.dst.variables
        }
        for values in itertools.islice(box(new_ranges), 20_000):
            new = dict(zip(new_ranges, values))
            if all(evaluate(r, new) for r in solved.dst.relations):
                found.add(tuple([evaluate(solved.src_to_dst[v], new) for v in variables]))
        assert found == expected, (seed, system)
    else:
        assert not expected, (seed, system)
    return Counter(points=len(found), free=len(solved.dst.variables), text=len(str(solved.dst)), texts=mark(solved))


def test_random_equations():
    """And what is solved stays as short: a change that makes it longer must say why."""
    found = sum((check_equations(seed) for seed in range(150)), Counter())
    assert found == Counter(points=59, free=42, text=7274, texts=326868751525)


def check_symbolic_equations(seed):
    """Equations with a symbol, of variables with ranges or without, among other relations: both systems say the same."""
    choice, n = random.Random(seed), Var("n")
    variables = [X, Y, Z][: choice.randint(1, 3)]
    domains = {v: Range.from_min_extent(choice.randint(-2, 1), choice.choice([1, 3, 4])) for v in variables}
    ranges = domains if choice.random() < 0.7 else {}
    relations = []
    for _ in range(choice.randint(1, 3)):
        left = n * choice.choice([0, 0, 1, -2]) + choice.randint(-3, 3)
        for v in variables:
            left = left + v * choice.randint(-4, 4)
        kind = choice.choice([tir.EQ, tir.EQ, tir.EQ, tir.LT, tir.NE])
        relations.append(kind(*choice.sample([left, choice.choice([n, tir.const(0), X + 1])], 2)))
    solved = arith.solve_linear_equations(relations, variables, ranges)
    free, never = list(solved.dst.variables), texts(solved.dst.relations) == ["T.bool(False)"]

    def inside(known, point):
        return all(evaluate(r.min, point) <= point[v] < evaluate(r.min + r.extent, point) for v, r in known.items())

    for values in itertools.product((-3, 0, 4), *[range(-2, 4)] * len(variables)):
        point = dict(zip((n, *variables), values))
        if inside(ranges, point) and all(evaluate(r, point) for r in relations):
            assert not never, (seed, values)
            new = {n: point[n], **{v: evaluate(e, point) for v, e in solved.dst_to_src.items()}}
            assert all(evaluate(r, new) for r in solved.dst.relations), (seed, values)
            assert [evaluate(solved.src_to_dst[v], new) for v in variables] == list(values[1:]), seed
    for values in itertools.product((-3, 0, 4), *[range(-2, 3)] * len(free)) if not never else ():
        new = dict(zip((n, *free), values))
        point = {n: new[n], **{v: evaluate(solved.src_to_dst[v], new) for v in variables}}
        if inside(solved.dst.ranges, {**new, **point}) and all(evaluate(r, new) for r in solved.dst.relations):
            assert inside(ranges, point) and all(evaluate(r, point) for r in relations), (seed, values)
    return mark(solved)


@pytest.mark.parametrize(("first", "expected"), [(0, 44726065443), (20, 50526883159), (40, 43200229527)])
def test_random_equations_with_a_symbol(first, expected):
    assert sum(check_symbolic_equations(seed) for seed in range(first, first + 20)) == expected


# ---------------------------------------------------------------------------- inequalities


def test_ranges():
    solved = arith.solve_linear_inequalities([X >= 0, X <= 10, X + Y >= 0, X + Y <= 10], [X, Y])
    assert str(solved.ranges[Y].min) == "-10" and str(solved.ranges[Y].extent) == "21"
    assert texts(solved.variables) == ["x", "y"]


def test_conditions():
    conditions = SolveInequalitiesAsCondition([X, Y], {}, [X * 2 >= Y, Y <= 5, X <= Y + 3])
    assert texts(conditions) == ["2 * x >= y", "2 * x <= y * 2 + 6", "y >= -6", "y <= 5"]
    with pytest.raises(TVMagicError, match="twice"):
        SolveInequalitiesAsCondition([X, X], {}, [X > 1])


def test_contradictions():
    for deskew in (False, True):
        solved = arith.solve_linear_inequalities([X >= 3, X <= 1], [X], {X: Range(0, 10)}, deskew_range=deskew)
        relations = solved.dst.relations if deskew else solved.relations
        assert "T.bool(False)" in texts(relations)


def test_what_cannot_be_is_said_instead_of_what_else_is_left():
    n = Var("n")
    for order in itertools.permutations([X >= 3, X <= 1, X <= n]):
        conditions = SolveInequalitiesAsCondition([X], {}, order)
        assert texts(conditions)[-1] == "T.bool(False)" and "3 <= n" not in texts(conditions)
    assert texts(SolveInequalitiesAsCondition([X], {}, [X >= 3, X <= n])) == ["x >= 3", "x <= n", "3 <= n"]
    assert texts(SolveInequalitiesAsCondition([], {}, [tir.const(False, "bool")])) == ["T.bool(False)"]
    assert texts(SolveInequalitiesAsCondition([], {}, [tir.const(True, "bool")])) == []


def test_group_bounds():
    single = IntGroupBounds.from_range(Range.from_min_extent(3, 1))
    assert texts(single.equal) == ["3"] and not single.lower
    bounds = IntGroupBounds(2, [1], [], [10])
    best = bounds.find_best_range()
    assert (str(best.min), str(best.extent)) == ("1", "5")
    assert texts((bounds + Range(0, 3)).upper) == ["4", "10"]
    assert "coef=2" in repr(bounds)
    assert texts(IntGroupBounds(1, [Y], [], []).substitute({Y: 4}).lower) == ["4"]
    assert IntGroupBounds(1, [Y], [], []).find_best_range() is None
    later = IntGroupBounds(1, [0, Y], [], [10]).find_best_range({Y: Range(2, 5)})  # the smaller of the two
    assert (str(later.min), str(later.extent)) == ("y", "9")
    with pytest.raises(TVMagicError, match="integer"):
        IntGroupBounds(1.5, [], [], [])


def test_constraints_are_of_integers():
    with pytest.raises(TVMagicError, match="float32"):
        IntConstraints([Var("f", "float32")], {}, [])


def check_inequalities(seed):
    choice = random.Random(seed)
    variables = [X, Y, Z][: choice.randint(1, 3)]
    ranges = {v: (choice.randint(-3, 3), choice.randint(1, 6)) for v in variables}
    conditions = []
    for _ in range(choice.randint(1, 3)):
        total = tir.const(choice.randint(-6, 6))
        for v in variables:
            total = total + v * choice.randint(-2, 2)
        op = choice.choice([tir.LT, tir.LE, tir.GT, tir.GE, tir.EQ])
        conditions.append(op(total, tir.const(choice.randint(-6, 6))))
    domains = {v: Range.from_min_extent(*r) for v, r in ranges.items()}
    solved = arith.solve_linear_inequalities(conditions, variables, domains)
    deskewed = arith.solve_linear_inequalities(conditions, variables, domains, deskew_range=True)
    assert isinstance(deskewed, IntConstraintsTransform)
    for values in box(ranges):
        point = dict(zip(variables, values))
        holds = all(evaluate(c, point) for c in conditions)
        inside = all(evaluate(c, point) for c in solved.relations)
        for v, r in solved.ranges.items():
            low = evaluate(r.min, point)
            inside = inside and low <= point[v] < low + evaluate(r.extent, point)
        assert inside == holds, (seed, conditions, ranges, solved, values)
        if holds:
            new = {v: evaluate(e, point) for v, e in deskewed.dst_to_src.items()}
            assert all(evaluate(r, new) for r in deskewed.dst.relations), (seed, conditions, ranges, deskewed)
            assert [evaluate(deskewed.src_to_dst[v], new) for v in variables] == list(values)
    new_ranges = deskewed.dst.ranges
    return Counter(
        ranges=len(solved.ranges),
        relations=len(solved.relations),
        text=len(str(solved)),
        deskewed=len(str(deskewed.dst.relations)) + sum(len(str(new_ranges[v])) for v in deskewed.dst.variables),
        texts=mark(solved, deskewed),
    )


def test_random_inequalities():
    found = sum((check_inequalities(seed) for seed in range(150)), Counter())
    assert found == Counter(ranges=279, relations=154, text=12856, deskewed=5892, texts=318766844662)


def check_symbolic(seed):
    """Inequalities with a symbol, of variables that may have no range: all forms of the solution hold where they do."""
    choice, n = random.Random(seed), Var("n")
    variables = [X, Y, Z][: choice.randint(1, 3)]
    bounded = [v for v in variables if choice.random() < 0.5]
    domains = {
        v: Range.from_min_extent(choice.choice([choice.randint(-2, 2), n]), choice.choice([1, 2, 4])) for v in bounded
    }
    conditions = []
    for _ in range(choice.randint(1, 3)):
        total = n * choice.choice([0, 0, 1, -1, 2]) + choice.randint(-4, 4)
        for v in variables:
            total = total + v * choice.randint(-2, 2)
        kind = choice.choice([tir.LT, tir.LE, tir.GT, tir.GE, tir.EQ, tir.NE])
        conditions.append(kind(total, choice.choice([0, choice.randint(-3, 3), n])))
    solved = arith.solve_linear_inequalities(conditions, variables, domains)
    deskewed = arith.solve_linear_inequalities(conditions, variables, domains, deskew_range=True)
    said = SolveInequalitiesAsCondition(variables, domains, conditions)

    def inside(ranges, point):
        return all(evaluate(r.min, point) <= point[v] < evaluate(r.min + r.extent, point) for v, r in ranges.items())

    points = list(itertools.product((-2, 0, 3), *[range(-4, 5)] * len(variables)))
    for values in choice.sample(points, min(len(points), 60)):
        point = dict(zip((n, *variables), values))
        if not inside(domains, point):
            continue
        holds = all(evaluate(c, point) for c in conditions)
        assert (inside(solved.ranges, point) and all(evaluate(c, point) for c in solved.relations)) == holds, seed
        assert all(evaluate(c, point) for c in said) == holds, seed
        if holds:
            new = {n: point[n], **{v: evaluate(e, point) for v, e in deskewed.dst_to_src.items()}}
            assert all(evaluate(r, new) for r in deskewed.dst.relations), seed
            assert [evaluate(deskewed.src_to_dst[v], new) for v in variables] == list(values[1:]), seed
    return mark(solved, deskewed, said)


@pytest.mark.parametrize(
    ("first", "texts"), [(0, 11646096511), (6, 10662384213), (12, 10870164642), (18, 13997068010), (24, 13426587736)]
)
def test_random_inequalities_with_a_symbol(first, texts):
    assert sum(check_symbolic(seed) for seed in range(first, first + 6)) == texts


@pytest.mark.soak
def test_random_systems_long():
    for seed in range(1_000, 4_000):
        check_equations(seed)
        check_inequalities(seed)
