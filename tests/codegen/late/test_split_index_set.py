"""SplitIndexSet: the segments of loops that change at a few constant iterations, and which loops are unchanged."""

import itertools
import random
import re

import numpy as np
import pytest
from late_passes import HASWELL, assert_same_values, late, loops, parsed

from tvmagic import codegen
from tvmagic.codegen.late.split_index_set import split_index_set
from tvmagic.eval.integers import evaluate
from tvmagic.ir import IfThenElse, PrimFunc
from tvmagic.ir.query import nodes_of
from tvmagic.operators import operator
from tvmagic.operators.operator import Version

# Cells with the first iterations and the lengths of the segments of their innermost loop.
CELLS = {
    "clamped to an array": ("Y[i, j] = X[i, max(j - 1, 0)] + X[i, min(j + 2, 99)]", [(0, 1), (1, 96), (97, 3)]),
    "around an array": ("Y[i, j] = X[i, (j + 3) % 100] - X[(i + 1) % 4, j]", [(0, 97), (97, 3)]),
    "quotients": ("Y[i, j] = X[i, j // 60 * 3]", [(0, 60), (60, 40)]),
    "nothing outside": ("Y[i, j] = X[i, j - 2] if j > 1 else 0", [(0, 2), (2, 98)]),
    "one place": ("Y[i, j] = X[i, 0] if j == 30 else X[i, j] * 2", [(0, 30), (30, 1), (31, 69)]),
    "from the end": ("Y[i, j] = X[i, max(99 - j, 4)]", [(0, 95), (95, 5)]),
    "two of three": ("Y[i, j] = X[i, j] if 10 <= j < 90 and i > 1 else X[i, j] / 2", [(0, 10), (10, 80), (90, 10)]),
}
OTHERS = {
    "no place": "Y[i, j] = X[i, j] + 1",
    "many places": "Y[i, j] = X[i, j // 7]",
    "a place that moves": "Y[i, j] = X[i, j] if j <= i * 20 else 0",
    "data": "Y[i, j] = X[i, j] if X[i, j] > 0 else 0",
    "short segments": "Y[i, j] = X[i, j] if j < 40 else X[i, 0] if j < 70 else 1",
    "of floats": "Y[i, j] = max(X[i, j], 0)",
}


def cell(line: str) -> Version:
    return Version(operator("places", f"X: float32[4, 100]\nY: float32[4, 100]\n{line}"), None)


def split(func: PrimFunc, name: str = "j") -> list[tuple[int, int]] | None:
    """The first iteration and the extent of each loop that became of one, or None if the function is unchanged."""
    made = late(split_index_set, func)
    return None if made is None else segments(made, name)


def segments(made: PrimFunc, name: str = "j") -> list[tuple[int, int]]:
    return [(evaluate(loop.min, {}), evaluate(loop.extent, {})) for loop in loops(made.body, name)]


@pytest.mark.parametrize("name", CELLS)
def test_segments(name):
    line, segments = CELLS[name]
    version = cell(line)
    assert split(version.lower()["places"]) == segments
    assert version.operator.check().ok


@pytest.mark.parametrize("name", OTHERS)
def test_other_loops_are_unchanged(name):
    assert split(cell(OTHERS[name]).lower()["places"]) is None


@pytest.mark.parametrize(("read", "is_split"), [("j - 1", False), ("j", True)])
def test_a_loop_that_reads_what_it_wrote_before_is_unchanged(read, is_split):
    """No vectors come of it, and a branch that is seldom taken costs less than a conditional in each iteration."""
    func = parsed(f"""
@T.prim_func
def main(X: T.Buffer((100,), "float32"), Y: T.Buffer((100,), "float32")):
    for j in range(1, 100):
        Y[j] = Y[{read}] + X[T.max(j - 2, 0)]
""")
    assert (split(func) is not None) == is_split


def test_a_segment_between_clamps_is_vectorized():
    """LLVM makes none of the loop with the clamps, whatever is known of its ends."""
    op = operator("edges", "X: float32[100]\nY: float32[100]\nY[j] = X[max(j - 1, 0)] + X[j] + X[min(j + 1, 99)]")
    assembly = codegen.assembly(Version(op, None).lower(), HASWELL)
    assert re.search(r"vaddps\s.*%ymm", assembly) and "gather" not in assembly


def test_conditions_inside_conditions_are_looked_at_once(calls) -> None:
    """Each looks twice at the one inside it, as a condition and as a part of what it chooses from, if nothing is remembered."""

    def build(depth: int) -> None:
        condition = "X[i] > 0"
        for n in range(depth):
            condition = f"(X[i] if {condition} else {n}.0) > {n}"
        op = operator(
            "nested", f"X: float32[64]\nY: float32[64]\nY[i] = (X[i] if {condition} else 1.0) + X[max(i - 1, 0)]"
        )
        x = np.linspace(-4, 20, 64, dtype="float32")
        np.testing.assert_array_equal(op(x), op.reference(x))

    build(2)
    assert calls(lambda: build(12)) < 4 * calls(lambda: build(6))


# ---------------------------------------------------------------------------- places, by trying all iterations


def between(a: str, b: str, *ends: int) -> tuple[str, ...]:
    """The comparisons of `a - b` with numbers."""
    return tuple(f"({a}) - ({b}) >= {end}" for end in ends)


# What is in a loop over j, by its text, with what is not the same in all of its iterations.
CHANGING = {
    "T.max(j - 3, 4)": between("j - 3", "4", 0),
    "T.min(30, j + 1)": between("30", "j + 1", 0),
    "T.max(12 - j, 0)": between("12 - j", "0", 0),
    "(j + 5) // 20": ("(j + 5) // 20",),
    "(j - 3) % 40": ("(j - 3) // 40",),
    "T.Select(j < 7, j, 2)": between("j", "7", 0),
    "T.Select(j >= 33, j, 2)": between("j", "33", 0),
    "T.if_then_else(j <= 9, j, 2)": between("j", "9", 1),
    "T.Select(j > 31, j, 2)": between("j", "31", 1),
    "T.if_then_else(j == 20, 3, j)": between("j", "20", 0, 1),
    "T.Select(8 != j, j, 3)": between("8", "j", 0, 1),
    "T.Select(40 - j < 4, j, 3)": between("40 - j", "4", 0),
    "T.max(i, 3)": (),
    "(i + j) // 8": (),
    "T.Select(2 * j < 40 + i, 1, 0)": (),
    "T.Select(i * 9 < j, 1, 0)": (),
    "j // (i + 1)": (),
    "j // -3 + 60": (),
    "T.max(I[j], 5)": (),
    "T.Select(I[j] < j, 1, 2)": (),
    "(j + 40) // 50": ("(j + 40) // 50",),
    "j": (),
    "T.popcount(j)": (),
}


def segments_of(first: int, count: int, modes: list[str]) -> list[tuple[int, int]] | None:
    """The longest segments in which no mode changes; None if there are too many, or none that is worth it."""
    found = [tuple(eval(mode, {"j": j}) for mode in modes) for j in range(first, first + count)]
    ends = [0, *(n for n in range(1, count) if found[n] != found[n - 1]), count]
    made = [(first + a, b - a) for a, b in itertools.pairwise(ends)]
    longest = max(size for _, size in made)
    return made if 1 < len(made) <= 5 and count >= 16 and longest >= 16 and 2 * longest >= count else None


def function(first: int, count: int, indices: list[str], other: str = "", loop: str = "") -> PrimFunc:
    body = " + ".join(f"X[{index}]" for index in indices)
    return parsed(f"""
@T.prim_func
def main(X: T.Buffer((200,), "float32"), I: T.Buffer((100,), "int32"), Y: T.Buffer((100,), "float32"), n: T.int32):
    for i in range(2):
        for j in {loop or f"range({first}, {first + count})"}:
            Y[j] = T.max({body}, T.float32(0.25))
{other}
""")


def test_segments_are_those_in_which_nothing_changes():
    """Random loops, with the values that they write; each of the texts is in some that is cut and in some that is not."""
    rng = random.Random(2)
    x, order = np.linspace(0.3, 1, 200, dtype="float32"), np.arange(100, dtype="int32")[::-1].copy()
    seen: set[tuple[str, bool]] = set()
    for number in range(160):
        names = (
            rng.sample(sorted(CHANGING), rng.choice([1, 1, 2, 3]))
            if number >= len(CHANGING)
            else [sorted(CHANGING)[number]]
        )
        first, count = rng.choice([0, 1, 3, 6, 7]), rng.choice([15, 16, 17, 28, 37, 40])
        func = function(first, count, names)
        made = late(split_index_set, func)
        expected = segments_of(first, count, [mode for name in names for mode in CHANGING[name]])
        seen |= {(name, made is not None) for name in names}
        assert (None if made is None else segments(made)) == expected, (names, first, count)
        if made is not None:
            assert "if_then_else" not in str(made)
            assert_same_values(func, made, [x, order, np.zeros(100, "float32"), np.array(7, "int32")])
    assert {name for name, _ in seen} == {name for name, cut in seen if not cut} == set(CHANGING)
    assert {name for name, cut in seen if cut} >= {name for name, modes in CHANGING.items() if modes}


@pytest.mark.parametrize(("at", "cut"), [(0, False), (1, True), (20, True), (39, True), (40, False)])
def test_the_iteration_of_a_change_is_inside_the_loop(at, cut):
    assert (split(function(0, 40, [f"T.max(j - {at}, 0)"])) is not None) == cut


def test_expressions_that_do_not_change_in_the_loop_are_unchanged():
    made = str(late(split_index_set, function(0, 40, ["T.max(j - 1, 0)", "T.max(T.min(i, 7), 0)", "T.max(i, 0) // 8"])))
    assert made.count("T.max(T.min(i, 7), 0)") == made.count("T.max(i, 0) // 8") == 2 and "j - 1, 0" not in made


@pytest.mark.parametrize(
    ("loop", "cut"),
    [
        ("range(0, 40)", True),
        ("T.serial(40)", True),
        ("T.parallel(40)", False),
        ("T.unroll(40)", False),
        ("range(n, 40)", False),
        ("range(0, n)", False),
    ],
)
def test_loops_of_other_kinds_or_of_unknown_bounds_are_unchanged(loop: str, cut: bool) -> None:
    assert (split(function(0, 40, ["T.max(j - 1, 0)"], loop=loop)) is not None) == cut


@pytest.mark.parametrize(
    ("other", "cut"),
    [
        ("for k in range(3):\n                Y[k] = 1", False),
        ("while n < 2:\n                Y[0] = 1", False),
        ("t = T.allocate([4], 'float32', 'local')", False),
        ("if j < 5:\n                Y[j] = Y[j] * T.float32(2)", True),
        (
            "if j < 5:\n                Y[j] = T.float32(2)\n            else:\n                Y[j] = T.float32(3)",
            True,
        ),
        (
            "if n < 5:\n                Y[j] = X[T.max(j - 3, 0)]\n            else:\n                Y[j] = T.float32(3)",
            True,
        ),
    ],
)
def test_statements_inside(other: str, cut: bool) -> None:
    """Branches are split as conditionals are; a loop with loops or allocations inside is unchanged."""
    if other.startswith("t ="):
        other += "\n            t_1 = T.Buffer((4,), data=t, scope='local')\n            t_1[0] = X[j]\n            Y[j] = t_1[0]"
    func = function(0, 40, ["T.max(j - 1, 0)"], f"            {other}")
    made = late(split_index_set, func)
    assert (made is not None) == cut
    if made is not None:
        x = np.linspace(0.3, 1, 200, dtype="float32")
        assert_same_values(func, made, [x, np.zeros(100, "int32"), np.zeros(100, "float32"), np.array(7, "int32")])
        branches = nodes_of(made.body, IfThenElse)
        assert all("j" not in str(branch.condition) for branch in branches) and bool(branches) == ("n < 5" in other)
