"""Sums of index names against the values of their text: what they are, where conditions on them hold, how far names run."""

from __future__ import annotations

import ast
import dataclasses
import functools
import itertools
import random
from typing import Any

import pytest

from tvmagic.arith import Analyzer
from tvmagic.ir import IntImm, SizeVar, substitute
from tvmagic.notation.affine import Affine, affine_of, holds, is_proved, quotient_of, shrunk, solve_extents

N = SizeVar("n")
NAMES, NUMBERS = {"i", "j"}, {"K": 3, "n": N}
RANGES = {"i": (0, 4), "j": (-1, 3)}
POINTS = list(itertools.product(range(4), range(-1, 2)))


def parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def at(value: Any, n: int) -> int:
    """The number that an expression of the size is."""
    return (
        value if isinstance(value, int) else int(Analyzer().simplify(substitute(value, {N: IntImm("int32", n)})).value)
    )


def value_of(affine: Affine, i: int, j: int, n: int = 5) -> int:
    return at(affine.constant, n) + affine.factors.get("i", 0) * i + affine.factors.get("j", 0) * j


SUMS = ["7", "i", "K", "i + j", "i - j", "2 * i - 3", "i * K + j * 2", "-(i - j) * 2", "-i + i", "4 - i", "0 * i + 2"]


@pytest.mark.parametrize("text", [*SUMS, "n - 1 - i", "(n + j) - 2 * (i + 1)"])
def test_a_sum_has_the_value_of_its_text(text: str) -> None:
    found = affine_of(parsed(text), NAMES, NUMBERS)
    assert found is not None and all(found.factors.values())
    for (i, j), n in itertools.product(POINTS, (1, 5)):
        value = eval(text, {"i": i, "j": j, "K": 3, "n": n})
        assert value_of(found, i, j, n) == value
        assert value_of(found.times(-3), i, j, n) == -3 * value and not found.times(0).factors
        assert value_of(found + found.times(2), i, j, n) == 3 * value
        quotient = quotient_of(parsed(f"({text}) // 2 // K"), NAMES, NUMBERS)
        assert quotient is not None and quotient[1] == 6
        assert value_of(quotient[0], i, j, n) // quotient[1] == value // 2 // 3
    assert (found + found.times(-1)).factors == {}
    bounds = found.bounds(RANGES)
    assert bounds is not None
    low, high = bounds
    values = [value_of(found, i, j) for i, j in POINTS]
    assert (at(low, 5), at(high, 5)) == (min(values), max(values))
    assert (found.bounds({"j": (0, 1)}) is None) == ("i" in found.factors)


@pytest.mark.parametrize(
    "text", ["i * j", "i // 2", "i % 2", "i / 2", "True", "1.5", "k", "-k", "+i", "i + k", "k + i", "n * i", "f(i)"]
)
def test_what_is_no_sum(text: str) -> None:
    assert affine_of(parsed(text), NAMES, NUMBERS) is None
    assert (quotient_of(parsed(text), NAMES, NUMBERS) is None) == (text != "i // 2")


def test_quotients_are_by_whole_numbers_above_zero() -> None:
    assert [quotient_of(parsed(f"i // {d}"), NAMES, NUMBERS) is None for d in ("0", "-2", "j", "n", "1", "2")] == [
        True, True, True, True, False, False
    ]  # fmt: skip


def test_a_sum_is_a_value() -> None:
    """What takes a sum may keep it: nobody changes it, and operations give others."""
    x = Affine({"i": 2}, 3)
    for name, value in (("constant", 4), ("factors", {})):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(x, name, value)
    assert x + Affine({"i": -2}, 1) == Affine({}, 4) and x.times(0) == Affine()
    assert x == Affine({"i": 2}, 3)


def test_a_plain_name_is_a_name_alone() -> None:
    names = {text: affine_of(parsed(text), NAMES, NUMBERS).plain_name for text in ("i", "i + 1", "2 * i", "i + j", "3")}  # type: ignore[union-attr]
    assert names == {"i": "i", "i + 1": None, "2 * i": None, "i + j": None, "3": None}


@functools.cache
def of_all_points(comparison: str) -> bool | None:
    code = compile(comparison, "comparison", "eval")
    values = {eval(code, {"i": i, "j": j, "K": 3}) for i, j in POINTS}
    return values.pop() if len(values) == 1 else None


def known(text: str) -> bool | None:
    """What a condition of comparisons, `and`, `or` and `not` is, each comparison told by its values alone."""

    def of(node: ast.expr) -> bool | None:
        if isinstance(node, ast.UnaryOp):
            inner = of(node.operand)
            return None if inner is None else not inner
        if isinstance(node, ast.BoolOp):
            parts, decisive = [of(v) for v in node.values], isinstance(node.op, ast.Or)
            return decisive if decisive in parts else None if None in parts else not decisive
        assert isinstance(node, ast.Compare)
        sides = (node.left, *node.comparators)
        parts = [ast.Compare(a, [op], [b]) for a, op, b in zip(sides, node.ops, sides[1:])]
        found = [of_all_points(ast.unparse(part)) for part in parts]
        return False if False in found else None if None in found else True

    return of(parsed(text))


def test_where_conditions_hold() -> None:
    """Comparisons of sums with all numbers around their ends, alone and together."""
    comparisons = [
        f"{total} {op} {end}"
        for total in ("i", "j", "i - j", "-2 * i", "i + K")
        for op in ("<", "<=", ">", ">=")
        for end in range(-7, 9)
    ]
    draw = random.Random(0)
    conditions = list(comparisons)
    for _ in range(60):
        a, b, c = draw.sample(comparisons, 3)
        conditions += [f"({a}) and ({b})", f"({a}) or not ({b})", f"not (({a}) or ({b}) and ({c}))"]
        conditions.append(f"{draw.randint(-3, 1)} <= {a}")
    for text in conditions:
        assert holds(parsed(text), NAMES, NUMBERS, RANGES) is known(text), text


def test_where_conditions_on_quotients_and_remainders_hold() -> None:
    """By the ends of both sides: what is claimed is so at all points, and at a single point all is known."""
    terms = (
        "i % 3",
        "(i + j) // 2",
        "j % 2 * 3 - i // 3",
        "(j + 5) % 4",
        "i * (j + 1)",
        "(2 * i + K) // 3 % 2",
        "i // 2 + (j + 4) % 3",
    )
    texts = [f"{a} {op} {b}" for a in terms for op in ("<", "==", "!=", ">=") for b in (*terms, "0", "1", "i", "K - 1")]
    claimed = {text: holds(parsed(text), NAMES, NUMBERS, RANGES) for text in texts}
    assert all(value is None or value is of_all_points(text) for text, value in claimed.items())
    assert {True, False} <= {*claimed.values()}
    for i, j in POINTS:
        here = {text: holds(parsed(text), NAMES, NUMBERS, {"i": (i, 1), "j": (j, 1)}) for text in texts}
        assert here == {text: eval(text, {"i": i, "j": j, "K": 3}) for text in texts}
    for text in ("i % j == 0", "i // 0 == 0", "i % n == 0", "i / 2 == 0", "n % 2 == 0"):
        assert holds(parsed(text), NAMES, NUMBERS, RANGES) is None


def test_where_sums_are_equal() -> None:
    """Told by the ends of both: what is never equal between them is not seen."""
    for text, value in {
        "i == 4": False, "i == 3": None, "i == -1": False, "i == 0": None, "i != 4": True, "i != -1": True, "i != 3": None,
        "i - i == 0": True, "i - i != 0": False, "i - i == 1": False, "2 * i == 1": None, "j == -2": False, "j == -1": None,
        "i in j": None, "i is j": None, "k < 1": None, "i": None, "f(i) < 2": None, "i < n": None, "n > 0": True,
        "n < 1": False, "n >= 1": True, "n == 0": False, "n > 1": None, "i < n + 3": True, "i + n <= 0": False,
    }.items():  # fmt: skip
        assert holds(parsed(text), NAMES, NUMBERS, RANGES) is value, text


def some_access(draw: random.Random, others: bool) -> Affine:
    factors = {"i": draw.choice((1, 1, 2, 3, -1, -2))}
    if others and draw.random() < 0.5:
        factors["j"] = draw.choice((1, -1, 2))
    return Affine(factors, draw.randint(-2, 6))


def fits(affine: Affine, size: int, extent: int) -> bool:
    """Whether no index passes the end towards which `i` runs."""
    values = [value_of(affine, i, j) for i in range(extent) for j in range(-1, 2)]
    return not values or (max(values) < size if affine.factors["i"] > 0 else min(values) >= 0)


def test_a_name_runs_as_far_as_all_accesses_allow() -> None:
    draw = random.Random(0)
    solved = 0
    for _ in range(300):
        accesses = [(some_access(draw, True), draw.randint(1, 9)) for _ in range(draw.randint(1, 3))]
        found = solve_extents(accesses, {"j": (-1, 3)}, {"i"})
        told = [(a, s) for a, s in accesses if a.factors["i"] > 0 or min(value_of(a, 0, j) for j in range(-1, 2)) > 0]
        assert bool(found) == bool(told)
        if told:
            (begin, extent) = found["i"]
            solved += 1
            assert begin == 0 and all(fits(a, s, extent) for a, s in told if extent > 0)
            assert extent < 1 or not all(fits(a, s, extent + 1) for a, s in told)
    assert solved > 200


def test_names_are_told_one_after_another() -> None:
    i, j, both = Affine({"i": 1}), Affine({"j": 1}), Affine({"i": 1, "j": 1})
    assert solve_extents([(both, 8), (i, 3)], {}, {"i", "j"}) == {"i": (0, 3), "j": (0, 6)}
    assert solve_extents([(both, 8), (i, 3)], {}, {"i"}) == {"i": (0, 3)}
    assert solve_extents([(both, 8)], {}, {"i", "j"}) == {} == solve_extents([], {}, {"i"})
    assert solve_extents([(both, 8)], {"i": (2, 3)}, {"j"}) == {"j": (0, 4)}
    assert solve_extents([(j, 4), (i, 3), (i, 5), (i, 2)], {}, {"i", "j"}) == {"i": (0, 2), "j": (0, 4)}
    sizes = solve_extents([(Affine({"i": 1}, 2), N), (Affine({"i": 1}), N)], {}, {"i"})
    assert [at(sizes["i"][1], n) for n in (2, 3, 9)] == [0, 1, 7]
    sizes = solve_extents([(Affine({"i": 2}), N), (Affine({"j": -1}, N - 1), N)], {}, {"i", "j"})
    assert [at(sizes["i"][1], n) for n in (1, 2, 3, 8)] == [1, 1, 2, 4]
    assert [at(sizes["j"][1], n) for n in (1, 2, 3, 8)] == [1, 2, 3, 8]


def test_ranges_are_cut_at_the_end_of_what_is_read() -> None:
    draw = random.Random(1)
    cuts = 0
    for _ in range(300):
        accesses = [(some_access(draw, True), draw.randint(1, 9)) for _ in range(draw.randint(1, 2))]
        begin, extent = draw.choice((0, 0, 0, 1)), draw.randint(1, 6)
        found = shrunk(accesses, {"i": (begin, extent), "j": (-1, 3)}, {"i"})
        wanted = extent
        for affine, size in accesses:
            least = next((e for e in range(wanted, 0, -1) if fits(affine, size, e)), None)
            if affine.factors["i"] > 0 and begin == 0 and least is not None:
                wanted = least
        cuts += wanted < extent
        assert found == ({"i": (0, wanted)} if wanted < extent else {}), (accesses, begin, extent)
    assert cuts > 50
    both = Affine({"i": 1, "j": 1})
    assert shrunk([(both, 4)], {"i": (0, 4), "j": (0, 4)}, {"i", "j"}) == {}
    assert shrunk([(both, 4)], {"i": (0, 4)}, {"i"}) == {}


def test_what_holds_of_all_sizes() -> None:
    assert is_proved(True) and not is_proved(False)
    assert [is_proved(claim) for claim in (N >= 1, N > 0, N > 1, N >= 0, N * 2 > 1, N - 1 >= 0, N < 5)] == [
        True, True, False, True, True, True, False
    ]  # fmt: skip
    m = SizeVar("m")
    assert is_proved(N + m >= 2) and not is_proved(N + m > 2) and not is_proved(N >= m)
