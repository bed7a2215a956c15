"""Fused loops run as the loops that they were made of: in the same order, with the same values, and as lanes."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from tvmagic import tir
from tvmagic.eval.loop_unfusing import unfuse
from tvmagic.eval.machine import run_function
from tvmagic.ir import For
from tvmagic.ir.query import nodes_of
from tvmagic.script import from_source


def recorder(extent: int, index: str) -> tir.PrimFunc:
    """A function that keeps the values of an expression of `f`, in order."""
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer(({extent},), "int32"), n: T.Buffer((1,), "int32")):
    for f in range({extent}):
        A[n[0]] = {index}
        n[0] = n[0] + 1
""")


def values(func: tir.PrimFunc, extent: int) -> list[int]:
    found, count = np.full(extent, -1, "int32"), np.zeros(1, "int32")
    run_function(func, [found, count])
    return found.tolist()


FORMS = [
    form
    for a, b in itertools.product((2, 3, 4, 6, 12), repeat=2)
    for form in (f"f // {a} % {b}", f"f % {a} // {b}", f"f // {a} // {b}", f"f % {a} % {b}")
]


@pytest.mark.parametrize("extent", [12, 24, 30])
def test_digits_have_the_values_of_the_fused_loop(extent: int) -> None:
    draw = random.Random(extent)
    apart = 0
    for form in FORMS:
        index = f"{form} * 100 + {draw.choice(FORMS)}"
        func = recorder(extent, index)
        apart += len(nodes_of(unfuse(func.body), For)) > 1
        assert values(func, extent) == [eval(index, {"f": f}) for f in range(extent)], index
    assert apart >= 8, "some of them are apart"


def test_what_uses_the_variable_itself_stays_fused() -> None:
    for index in ("f", "f // 4 + f", "f // 5 + f % 3", "(f + 1) // 4"):
        assert len(nodes_of(unfuse(recorder(12, index).body), For)) == 1


@pytest.mark.parametrize(("index", "loops"), [("f", 1), ("f // 6 * 6 + f % 6", 2), ("f + q * 0", 1)])
def test_uses_inside_loads_count(index: str, loops: int) -> None:
    """Beside a quotient that a let holds, as common subexpressions are."""
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((24,), "float32"), S: T.Buffer((4,), "float32")):
    for f in range(24):
        q: T.int32 = f // 6
        S[q] = S[q] + A[{index}]
""")
    given, sums = np.arange(24, dtype="float32"), np.zeros(4, "float32")
    run_function(func, [given, sums])
    assert sums.tolist() == given.reshape(4, 6).sum(1).tolist()
    assert len(nodes_of(unfuse(func.body), For)) == loops


def test_a_fused_product_is_interpreted_as_lanes() -> None:
    """One iteration after the other it takes a minute."""
    n = 64
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer(({n}, {n}), "float32"), B: T.Buffer(({n}, {n}), "float32"), C: T.Buffer(({n}, {n}), "float32")):
    for i, j, k in T.grid({n}, {n}, {n}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""")
    random_values = np.random.default_rng(0)
    a, b = (random_values.integers(-8, 8, (n, n)).astype("float32") for _ in range(2))
    for fused in ((0, 1, 2), (1, 2), (0, 1)):
        sch = tir.Schedule(func)
        loops = sch.get_loops(sch.get_block("C"))
        sch.fuse(*[loops[number] for number in fused])
        c = np.full((n, n), np.nan, "float32")
        run_function(sch.mod["main"], [a, b, c], seconds=20)
        np.testing.assert_array_equal(c, a @ b)
