"""Loops in which something changes at a few known places: their stretches, and which loops are left as they are."""

import itertools
import random
import re

import numpy as np
import pytest

from tvmagic import codegen
from tvmagic.codegen.late.split_index_set import between_places
from tvmagic.eval.integers import evaluate
from tvmagic.eval.machine import run_function
from tvmagic.ir import For, IfThenElse, PrimFunc, SeqStmt, Var
from tvmagic.ir.query import contains, nodes_of
from tvmagic.operators import operator
from tvmagic.operators.operator import Version
from tvmagic.script import from_source

HASWELL = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell"
# Cells with the first iterations and the lengths of the stretches of their innermost loop.
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
    "short stretches": "Y[i, j] = X[i, j] if j < 40 else X[i, 0] if j < 70 else 1",
    "of floats": "Y[i, j] = max(X[i, j], 0)",
}


def loop_of(line: str) -> For:
    """The innermost loop of an operator."""
    op = operator("places", f"X: float32[4, 100]\nY: float32[4, 100]\n{line}")
    function = next(iter(Version(op, None).lower().functions.values()))
    return next(loop for loop in nodes_of(function, For) if not contains(loop.body, For))


@pytest.mark.parametrize("name", CELLS)
def test_stretches(name):
    line, stretches = CELLS[name]
    made = between_places(loop_of(line))
    assert isinstance(made, SeqStmt)
    loops = [part for part in made.seq if isinstance(part, For)]
    assert [(evaluate(loop.min, {}), evaluate(loop.extent, {})) for loop in loops] == stretches
    assert all(between_places(loop) is None for loop in loops)
    op = operator("places", f"X: float32[4, 100]\nY: float32[4, 100]\n{line}")
    assert op.check().ok


@pytest.mark.parametrize("name", OTHERS)
def test_other_loops_are_left_as_they_are(name):
    assert between_places(loop_of(OTHERS[name])) is None


@pytest.mark.parametrize(("read", "stretches"), [("j - 1", False), ("j", True)])
def test_a_loop_that_reads_what_it_wrote_before_is_left_as_it_is(read, stretches):
    """No vectors come of it, and a branch that is seldom taken costs less than a choice on the way from step to step."""
    func = from_source(f"""
@T.prim_func
def main(X: T.Buffer((100,), "float32"), Y: T.Buffer((100,), "float32")):
    for j in range(1, 100):
        Y[j] = Y[{read}] + X[T.max(j - 2, 0)]
""")
    assert (between_places(func.body) is not None) == stretches


def test_a_stretch_between_clamps_is_vectors():
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
    "T.Select(2 * j < 40, 1, 0)": (),
    "T.Select(i * 9 < j, 1, 0)": (),
    "j // (i + 1)": (),
    "j // -3 + 60": (),
    "T.max(I[j], 5)": (),
    "T.Select(I[j] < j, 1, 2)": (),
    "(j + 40) // 50": ("(j + 40) // 50",),
    "j": (),
    "T.popcount(j)": (),
}


def stretches_of(first: int, count: int, modes: list[str]) -> list[tuple[int, int]] | None:
    """The longest stretches in which no mode changes; None if there are too many, or none that is worth it."""
    found = [tuple(eval(mode, {"j": j}) for mode in modes) for j in range(first, first + count)]
    ends = [0, *(n for n in range(1, count) if found[n] != found[n - 1]), count]
    made = [(first + a, b - a) for a, b in itertools.pairwise(ends)]
    longest = max(size for _, size in made)
    return made if 1 < len(made) <= 5 and count >= 16 and longest >= 16 and 2 * longest >= count else None


def function(first: int, count: int, indices: list[str], other: str = "", loop: str = "range") -> PrimFunc:
    body = " + ".join(f"X[{index}]" for index in indices)
    return from_source(f"""
@T.prim_func
def main(X: T.Buffer((200,), "float32"), I: T.Buffer((100,), "int32"), Y: T.Buffer((100,), "float32"), n: T.int32):
    for i in range(2):
        for j in {loop}({first}, {first + count}):
            Y[j] = T.max({body}, T.float32(0.25))
{other}
""")


def inner(func: PrimFunc) -> For:
    return next(loop for loop in nodes_of(func.body, For) if loop.loop_var.name == "j")


def test_stretches_are_those_in_which_nothing_changes():
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
        loop = inner(func)
        made = between_places(loop)
        expected = stretches_of(first, count, [mode for name in names for mode in CHANGING[name]])
        seen |= {(name, made is not None) for name in names}
        if expected is None:
            assert made is None, (names, first, count)
            continue
        assert isinstance(made, SeqStmt), (names, first, count)
        loops = [part for part in made.seq if isinstance(part, For)]
        assert [(evaluate(part.min, {}), evaluate(part.extent, {})) for part in loops] == expected, names
        assert "if_then_else" not in str(made)
        results = [np.zeros(100, "float32"), np.zeros(100, "float32")]
        for result, body in zip(results, (loop, made)):
            outer = func.body
            assert isinstance(outer, For)
            run_function(func.with_body(outer.replace(body=body)), [x, order, result, np.array(7, "int32")])
        np.testing.assert_array_equal(results[0], results[1])
    assert {name for name, _ in seen} == {name for name, cut in seen if not cut} == set(CHANGING)
    assert {name for name, cut in seen if cut} >= {name for name, modes in CHANGING.items() if modes}


@pytest.mark.parametrize(("place", "cut"), [(0, False), (1, True), (20, True), (39, True), (40, False)])
def test_a_place_is_inside(place, cut):
    assert (between_places(inner(function(0, 40, [f"T.max(j - {place}, 0)"]))) is not None) == cut


def test_what_no_iteration_changes_is_left_as_it_is():
    made = str(between_places(inner(function(0, 40, ["T.max(j - 1, 0)", "T.max(T.min(i, 7), 0)", "T.max(i, 0) // 8"]))))
    assert made.count("T.max(T.min(i, 7), 0)") == made.count("T.max(i, 0) // 8") == 2 and "j - 1, 0" not in made


@pytest.mark.parametrize("kind", ["T.parallel", "T.unroll"])
def test_loops_of_other_kinds_are_left_as_they_are(kind):
    assert between_places(inner(function(0, 40, ["T.max(j - 1, 0)"], loop=kind))) is None


@pytest.mark.parametrize("ends", ["n, 40", "0, n"])
def test_loops_of_unknown_ends_are_left_as_they_are(ends):
    loop = inner(function(0, 40, ["T.max(j - 1, 0)"]))
    n = Var("n", "int32")
    changed = loop.replace(min=n) if ends.startswith("n") else loop.replace(extent=n)
    assert between_places(loop) is not None and between_places(changed) is None


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
    """Branches are cut as choices are; loops and memory of its own let a loop stay as it is."""
    if other.startswith("t ="):
        other += "\n            t_1 = T.Buffer((4,), data=t, scope='local')\n            t_1[0] = X[j]\n            Y[j] = t_1[0]"
    func = function(0, 40, ["T.max(j - 1, 0)"], f"            {other}")
    made = between_places(inner(func))
    assert (made is not None) == cut
    if made is not None:
        results = [np.zeros(100, "float32"), np.zeros(100, "float32")]
        for result, body in zip(results, (func.body, made)):
            run_function(
                func.with_body(body),
                [np.linspace(0.3, 1, 200, dtype="float32"), np.zeros(100, "int32"), result, np.array(7, "int32")],
            )
        np.testing.assert_array_equal(results[0], results[1])
        known = nodes_of(made, IfThenElse)
        assert all("j" not in str(branch.condition) for branch in known) and bool(known) == ("n < 5" in other)
