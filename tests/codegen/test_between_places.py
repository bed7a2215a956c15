"""Loops in which something changes at a few known places: their stretches, and which loops are left as they are."""

import re

import numpy as np
import pytest

from tvmagic import codegen
from tvmagic.codegen.between_places import between_places
from tvmagic.eval.integers import evaluate
from tvmagic.ir import For, SeqStmt
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
