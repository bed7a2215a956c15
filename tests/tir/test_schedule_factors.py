"""`cache_factor` computes a factor of a product once; `select_branches` computes both sides of conditions. Both keep results."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import tir
from tvmagic.operators import operator
from tvmagic.script import from_source
from tvmagic.tir.schedule import ScheduleError

PRODUCTS = {
    "computed": "A: float32[9, 7]\nB: float32[7, 6]\nC[i, j] += exp(A[i, k]) * B[k, j]",
    "gathered": "A: float32[9, 7]\nI: int32[5]\nB: float32[7, 6]\nC[i, j] += A[I[i] % 9, k] * B[k, j]",
    "of one array": "A: float32[9, 7]\nC[i, j] += A[i, k] * A[j, k]",
    "three factors": "A: float32[9, 7]\nB: float32[7, 6]\nd: float32[7]\nC[i, j] += A[i, k] * B[k, j] * (d[k] + 1)",
    "scaled integers": "A: float32[9, 7]\nW: int8[6, 7]\ns: float32[6]\nC[i, j] += A[i, k] * (float32(W[j, k]) * s[j])",
    "condition inside": "A: float32[9, 7]\nB: float32[7, 6]\ni: range(9)\nC[i, j] += (A[i - 1, k] if i > 0 else 1) * B[k, j]",
    "symbolic": "A: float32[n, 7]\nB: float32[7, m]\nC[i, j] += abs(A[i, k]) * B[k, j]",
}


def same_results(text: str, change) -> None:
    op = operator("product", text)
    inputs = op.random_inputs(seed=3)
    if "I: int32" in text:
        inputs[1][:] = np.arange(5) * 2 % 9
    changed = tir.Schedule(op.to_prim_func(), debug_mask="all")
    change(changed)
    results = []
    for mod in (tir.Schedule(op.to_prim_func()).mod, changed.mod):
        outputs = op.fresh_outputs(inputs)
        tvmagic.build(mod)(*op.arguments(inputs, outputs))
        results.append(outputs[0])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("number", [0, 1])
def test_a_factor_computed_before_gives_the_same_sums(name: str, number: int) -> None:
    same_results(PRODUCTS[name], lambda sch: sch.cache_factor("C", number, "global"))


def test_what_is_computed_before_is_not_read_by_the_product() -> None:
    sch = tir.Schedule(operator("product", PRODUCTS["gathered"]).to_prim_func())
    stage = sch.get(sch.cache_factor("C", 0, "global"))
    assert [iv.dom.extent.value for iv in stage.iter_vars] == [5, 7]
    assert {r.buffer.name for r in sch.get(sch.get_block("C")).reads} == {"A_factor", "B"}


def test_a_part_that_follows_all_variables_is_divided_into_its_factors() -> None:
    sch = tir.Schedule(operator("product", PRODUCTS["three factors"]).to_prim_func())
    names = [sch.get(sch.cache_factor("C", n, "global")).name_hint for n in range(3)]
    assert names == ["A_factor", "B_factor", "d_factor"]
    with refuses("cache_factor.no_such_factor", error=ScheduleError):
        sch.cache_factor("C", 3, "global")


def test_names_of_factors_are_free_ones() -> None:
    op = operator("product", "A: float32[9, 7]\nC[i, j] += exp(A[i, k]) * tanh(A[j, k])")
    sch = tir.Schedule(op.to_prim_func())
    assert [sch.get(sch.cache_factor("C", n, "global")).name_hint for n in (0, 1)] == ["A_factor", "A_factor_1"]


CONDITIONS = {
    "a mask of rows": "A: float32[9, 7]\nB: float32[7, 16]\nM: bool[9, 7]\nC[i, j] += A[i, k] * B[k, j] if M[i, k] else 0",
    "a mask of columns": "A: float32[9, 7]\nB: float32[7, 16]\nM: bool[7, 16]\nC[i, j] += A[i, k] * B[k, j] if M[k, j] else 0",
    "a triangle": "A: float32[9, 9]\nB: float32[9, 16]\nj: range(16)\nC[i, j] += A[i, k] * B[k, j] if k <= i else 0",
    "no reduction": "A: float32[9, 16]\nC[i, j] = A[i, j] if A[i, j] > 0 else 1 / A[i, j]",
    "integers divided by a number": "A: int32[9, 16]\nC[i, j] = A[i, j] // 3 if A[i, j] > 0 else A[i, j] % 5",
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_both_sides_of_conditions_are_vectors(name: str) -> None:
    def change(sch: tir.Schedule) -> None:
        sch.select_branches("C")
        loops = sch.get_loops("C")
        sch.reorder(*loops[:1], *loops[2:], loops[1])
        sch.vectorize(loops[1])
        assert "if_then_else" not in sch.mod.script() and "T.Select" in sch.mod.script()
        assert "_s in range" not in str(tvmagic.lower(sch.mod))  # the loop over lanes of what cannot be a vector

    same_results(CONDITIONS[name], change)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("A: float32[9]\nC[i] = A[i] + 1", "select_branches.no_conditional"),
        ("A: float32[9]\ni: range(9)\nC[i] = A[i - 1] if i > 0 else 0", "select_branches.load_outside_buffer"),
        ("A: float32[9]\nI: int32[9]\nC[i] = A[I[i]] if I[i] < 9 else 0", "select_branches.load_outside_buffer"),
        ("A: int32[9]\nB: int32[9]\nC[i] = A[i] // B[i] if B[i] > 0 else 0", "select_branches.division_by_zero"),
    ],
)
def test_conditions_that_guard_something_stay(text: str, says: str) -> None:
    sch = tir.Schedule(operator("guarded", text).to_prim_func())
    before = sch.mod
    with refuses(says, error=ScheduleError):
        sch.select_branches("C")
    assert sch.mod is before


BESIDE = """# from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("D"):
            v = T.axis.spatial(8, i)
            D[v] = T.float32(3)
        {around}for k in range(4):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + T.exp(A[vi, vk]) * B[vk]
"""


@pytest.mark.parametrize(
    ("around", "works"),
    [("", True), ('T.attr(0, "note", 1)\n        ', False), ("if A[0, 0] < T.float32(1):\n          ", False)],
)
def test_a_product_beside_another_block_has_factors(around: str, works: bool) -> None:
    """Not so if something around it may decide whether it runs."""
    text = BESIDE.format(around=around)
    if around.startswith("if"):
        head, _, tail = text.partition(around)
        text = head + around + "\n".join(("  " if n else "") + line for n, line in enumerate(tail.splitlines()))
    sch = tir.Schedule(from_source(text))
    if not works:
        with pytest.raises(ScheduleError):
            sch.cache_factor("C", 0, "global")
        return
    sch.cache_factor("C", 0, "global")
    a, b = np.arange(32, dtype="float32").reshape(8, 4) / 16, np.arange(4, dtype="float32")
    c, d = np.zeros(8, "float32"), np.zeros(8, "float32")
    tvmagic.build(sch.mod)(a, b, c, d)
    np.testing.assert_allclose(c, np.exp(a) @ b, rtol=1e-5)
    assert d.tolist() == [3] * 8
