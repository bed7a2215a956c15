"""The instant schedule: right on whatever it is asked for, its decisions, its text, what it costs to decide."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from instant_cells import KINDS, random_cell
from refusals import refuses
from sampling import every

import tvmagic
from tvmagic import te, tir
from tvmagic.auto import auto, decide, decide_for
from tvmagic.auto.program import loads_in
from tvmagic.ir import structural_equal
from tvmagic.operators import operator
from tvmagic.operators.measure import check
from tvmagic.operators.operator import Version
from tvmagic.operators.scheduling import schedule
from tvmagic.target import Target

CELLS = {
    "matmul": "A: float32[70, 40]\nB: float32[40, 50]\nC[i, j] += A[i, k] * B[k, j]",
    "both operands transposed": "A: float32[40, 70]\nB: float32[50, 40]\nC[i, j] += A[k, i] * B[j, k]",
    "batched, transposed result": "A: float32[3, 33, 40]\nB: float32[3, 40, 50]\nC[b, j, i] += A[b, i, k] * B[b, k, j]",
    "bias and relu": "A: float32[70, 40]\nB: float32[40, 50]\nb: float32[50]\n"
    "C[i, j] += A[i, k] * B[k, j]\nD[i, j] = max(C[i, j] + b[j], 0)",
    "a producer": "A: float32[70, 40]\nB: float32[40, 50]\nH[k, j] = tanh(B[k, j])\nC[i, j] += A[i, k] * H[k, j]",
    "narrow": "A: int8[33, 40]\nB: int8[40, 50]\nC[i, j] += int32(A[i, k]) * int32(B[k, j])",
    "half": "A: bfloat16[33, 40]\nB: bfloat16[40, 50]\nC[i, j] += float32(A[i, k]) * float32(B[k, j])",
    "largest of sums": "A: float32[33, 40]\nB: float32[40, 50]\nC[i, j] = max(A[i, k] + B[k, j], over=k)",
    "an operand twice": "A: float32[33, 40]\nC[i, j] += A[i, k] * A[j, k]",
    "an operand squared": "A: float32[32, 32]\nC[i, j] += A[i, k] * A[k, j]",
    "an operand and its transpose": "A: float32[64, 40]\nC[i, j] += A[i, k] * A[j, k]",
    "a transpose and its operand": "A: float32[40, 96]\nC[i, j] += A[k, i] * A[k, j]",
    "distances": "A: float32[33, 20]\nB: float32[40, 20]\nC[i, j] += (A[i, k] - B[j, k]) * (A[i, k] - B[j, k])",
    "three operands": "A: float32[48, 20]\nB: float32[20, 30]\nD: float32[30, 32]\nC[i, l] += A[i, j] * B[j, k] * D[k, l]",
    "weights of the sum": "A: float32[48, 20]\nB: float32[20, 64]\nD: float32[20]\nC[i, j] += A[i, k] * B[k, j] * D[k]",
    "weights of the sum, sizes that fit no tile": "A: float32[50, 20]\nB: float32[45, 20]\nD: float32[20]\nC[i, j] += A[i, k] * B[j, k] * D[k]",
    "an operand of two products": "X: float32[4, 16]\nU: float32[4, 16]\nW: float32[16, 5]\nH[i, j] += X[i, k] * W[k, j]\nG[i, j] += U[i, k] * W[k, j]",
    "a mask of rows": "A: float32[50, 20]\nB: float32[20, 45]\nM: bool[50, 20]\nC[i, j] += A[i, k] * B[k, j] if M[i, k] else 0",
    "a mask of columns": "A: float32[48, 20]\nB: float32[20, 64]\nM: bool[20, 64]\nC[i, j] += A[i, k] * B[k, j] if M[k, j] else 0",
    "a mask of sums": "A: float32[48, 20]\nB: float32[20, 64]\nM: bool[48, 64]\nC[i, j] += A[i, k] * B[k, j] if M[i, j] else 0",
    "a computed operand": "A: float32[50, 20]\nB: float32[20, 45]\nC[i, j] += exp(A[i, k]) * B[k, j]",
    "a gathered operand": "A: float32[30, 20]\nI: int32[50]\nB: float32[20, 48]\nC[i, j] += A[I[i], k] * B[k, j]",
    "gathered columns": "A: float32[50, 20]\nI: int32[48]\nB: float32[30, 20]\nC[i, j] += A[i, k] * B[I[j], k]",
    "scaled small integers": "A: float32[50, 20]\nW: uint8[45, 20]\ns: float32[45]\nz: float32[45]\n"
    "C[i, j] += A[i, k] * ((float32(W[j, k]) - z[j]) * s[j])",
    "an operand with a bias": "A: float32[n, 20]\nb: float32[20]\nB: float32[20, 45]\nC[i, j] += (A[i, k] + b[k]) * B[k, j]",
    "one array at two places": "A: float32[50, 33]\nC[i, j] += A[k, i] * A[k, j]",
    "a triangle": "A: float32[50, 50]\nB: float32[50, 45]\nC[i, j] += A[i, k] * B[k, j] if k <= i else 0",
    "quotients of integers": "A: int32[33, 20]\nB: int32[20, 45]\nC[i, j] += A[i, k] // (B[k, j] * B[k, j] + 1)",
    "quotients of floats": "A: float32[33, 20]\nB: float32[20, 45]\nC[i, j] = max(A[i, k] / (B[k, j] * B[k, j] + 1), over=k)",
    "part of a sum": "A: float32[48, 48]\nC: float32[24, 16]\nk: range(24)\nC[i, j] += A[i + 3, k] * A[k, j + 1]",
    "symbolic rows": "A: float32[n, 40]\nB: float32[40, 50]\nC[i, j] += A[i, k] * B[k, j]",
    "symbolic in all": "A: float32[n, m]\nB: float32[m, p]\nC[i, j] += A[i, k] * B[k, j]",
    "matrix times vector": "A: float32[70, 128]\nx: float32[128]\ny[i] += A[i, k] * x[k]",
    "vector times matrix": "A: float32[70, 128]\nx: float32[70]\ny[j] += A[i, j] * x[i]",
    "strided convolution": "X: float32[13, 15, 8]\nW: float32[3, 3, 8, 24]\nY[i, j, o] += X[2 * i + r, 2 * j + q, c] * W[r, q, c, o]",
    "depthwise": "X: float32[12, 15, 32]\nW: float32[3, 3, 32]\nY[i, j, c] += X[i + r, j + q, c] * W[r, q, c]",
    "softmax": "X: float32[9, 96]\nM[i] = max(X[i, j], over=j)\nE[i, j] = exp(X[i, j] - M[i])\n"
    "S[i] = sum(E[i, j], over=j)\nY[i, j] = E[i, j] / S[i]",
    "softmax of columns": "X: float32[17, 40]\nM[j] = max(X[i, j], over=i)\nE[i, j] = exp(X[i, j] - M[j])\n"
    "S[j] = sum(E[i, j], over=i)\nY[i, j] = E[i, j] / S[j]",
    "column sums": "X: float32[50, 77]\nS[j] = sum(X[i, j], over=i)",
    "column sums that no stretch divides": "X: float32[11, 1003]\nS[j] = sum(X[i, j], over=i)",
    "sums of a prime length": "X: float32[7, 101]\nS[i] = sum(X[i, j], over=j)",
    "transpose": "X: float32[70, 90]\nY[i, j] = X[j, i]",
    "gather": "T: float32[40, 33]\nI: int32[20]\nY[i, j] = T[I[i], j]",
    "blur": "X: float32[30, 50]\nH: float32[30, 48]\nH[i, j] = X[i, j] + X[i, j + 1] + X[i, j + 2]\n"
    "Y: float32[28, 48]\nY[i, j] = H[i, j] + H[i + 1, j] + H[i + 2, j]",
    "largest places of rows": "X: float32[9, 96]\nY[i] = argmax(X[i, j], over=j)",
    "least places of columns": "X: float32[9, 70]\nY[j] = argmin(X[i, j], over=i)",
    "largest place of all": "X: int8[960]\nY[()] = argmax(X[j], over=j)",
    "places of a vector's length": "X: float32[9, 8]\nY[i] = argmax(X[i, j], over=j)",
    "places of a single value": "X: float32[9, 1]\nY[i] = argmax(X[i, j], over=j)",
    "windows of a prime size": "X: float32[3, 39, 45]\nr: range(3)\nq: range(3)\nY: float32[3, 37, 43]\nY[c, i, j] += X[c, i+r, j+q]",
    "strided windows of a prime size": "X: float32[2, 75, 87]\nr: range(3)\nq: range(3)\nY: float32[2, 37, 43]\nY[c, i, j] = max(X[c, 2*i+r, 2*j+q], over=(r, q))",
    "means of windows": "X: float32[3, 20, 45]\nr: range(3)\nq: range(3)\ni: range(9)\nj: range(21)\nY[c, i, j] = mean(X[c, 2*i+r, 2*j+q], over=(r, q))",
    "means of columns": "X: float32[50, 77]\nM[j] = mean(X[i, j], over=i)",
    "places of a prime length": "X: float32[9, 97]\nY[i] = argmax(X[i, j], over=j)",
    "a size of one beside a symbolic size": (
        "X0: float32[6, m * 2]\nX1: float32[8, m, n]\nS0: float32[2, n * 2]\ni: range(2)\nj: range(n * 2)\n"
        "S0[i, j] = ((X0[max(min(j, 5), 0), i] if j < 1 else X1[i + 2, j % m, j % n]) if float32(i) < -3.0 else "
        "(X0[j % 6, i + 2] if i + 2 >= 0 and i + 2 < m * 2 else -3.0))\n"
        "S1: float32[m, 1]\nk: range(m)\nl: range(1)\nS1[k, l] = X0[k % 6, l]"
    ),
    "symbolic rows as columns": "A: float32[n, 31]\nB: float32[3, 31]\nC[i, j] += A[i, k] * B[j, k]",
    "a scalar": "X: float32[5]\nS: float32[1]\nS[z] = sum(X[i], over=i)",
    "size one": "A: float32[1, 1]\nB: float32[1, 1]\nC[i, j] += A[i, k] * B[k, j]",
}


def checked(text: str, target: Any = None, sizes: int = 21) -> Any:
    """The instant schedule of a cell, after its results were compared with NumPy's."""
    op = operator("f", text)
    instant = decide(op, target)
    result = check(Version(op, instant.schedule, "auto"), sizes=sizes)
    assert result.ok, result.verdict
    return instant


@pytest.mark.parametrize("name", every(4, CELLS))
def test_results_are_right(name: str) -> None:
    checked(CELLS[name])


FEW = {
    "X: float32[70000]\nS[()] += X[i]": "S: 16 partial results, of a stretch of i each, on 4 cores",
    "X: float32[300, 500]\nS[()] += X[i, j] * X[i, j]": "S: 16 partial results, of a stretch of all axes each, on 4 cores",
    "X: float32[3, 40000]\nY[i] = max(X[i, k], over=k)": "Y: 16 partial results, of a stretch of k each, on 4 cores",
    "X: float32[40000, 2]\nY[i] += X[k, i]": "Y: 16 partial results, of a stretch of k each, on 4 cores",
    "X: float32[70001]\nS[()] = min(X[i], over=i)": "S: its values are taken in any order",  # 70001 is a prime
    "X: float32[n]\nS[()] += X[i]": "S: its values are taken in any order",
    "X: float32[100]\nS[()] += X[i]": "S: its values are taken in any order",
}


@pytest.mark.parametrize("text", FEW)
def test_few_results_share_what_is_reduced_over_among_cores(text: str) -> None:
    instant = checked(text, "llvm -num-cores=4", 999)
    assert instant.texts[0].startswith(FEW[text])
    assert ("T.parallel" in instant.schedule.script()) == ("partial" in FEW[text])


def test_many_rows_share_the_cores_as_rows() -> None:
    op = operator("f", "X: float32[4, 40000]\nY[i] += X[i, k]")
    assert not any("partial results, of a stretch" in text for text in decide(op, "llvm -num-cores=4").texts)


@pytest.mark.parametrize("seed", range(10))
def test_random_cells_are_right(seed: int) -> None:
    text, size = random_cell(seed)
    checked(text, sizes=size)


@pytest.mark.soak
@pytest.mark.parametrize("start", range(1000, 4000, 100))
def test_many_random_cells_are_right(start: int) -> None:
    for seed in range(start, start + 100):
        text, size = random_cell(seed)
        checked(text, sizes=size)


def test_the_random_cells_are_of_every_kind() -> None:
    assert {kind.__name__ for kind in KINDS} == {
        "contraction", "convolution", "reduction", "rows", "elementwise", "stencil",
    }  # fmt: skip


@pytest.mark.parametrize(
    "name", ["matmul", "softmax", "blur", "depthwise", "transpose", "symbolic rows", "an operand of two products"]
)
def test_the_cell_makes_the_same_schedule(name: str) -> None:
    op = operator("f", CELLS[name])
    instant = decide(op)
    sch = op.schedule()
    exec(instant.cell, {"sch": sch})
    assert structural_equal(sch.mod, instant.schedule.mod)
    assert "get_child_blocks" not in instant.cell and instant.cell.count("# ") >= len(instant.texts)


def test_the_trace_has_no_call_that_only_looked() -> None:
    sch = auto(operator("f", CELLS["matmul"]))
    assert sch.trace.simplified(remove_postproc=False).insts == sch.trace.insts
    again = tir.Schedule(operator("f", CELLS["matmul"]).to_prim_func())
    sch.trace.apply_to_schedule(again)
    assert structural_equal(again.mod, sch.mod)


def test_places_that_are_computed_are_worth_threads_sooner() -> None:
    plain, computed = (
        decide(
            operator("f", f"X: float32[400, 256]\nY: float32[400, 256]\nY[i, j] = X[{i}, {j}]"), "llvm -num-cores=4"
        ).cell
        for i, j in (("i", "j"), ("i // 2", "j // 2"))
    )
    assert "parallel" in computed and "parallel" not in plain


@pytest.mark.parametrize(
    "dtype, size, tile",
    [("float64", 512, (8, 8)), ("float32", 512, (16, 8)), ("float32", 1000, (8, 8)), ("int8", 512, (64, 16))],
)
def test_a_transpose_reads_whole_lines_of_which_a_set_of_the_cache_holds_all(
    dtype: str, size: int, tile: tuple[int, int]
) -> None:
    sch = auto(operator("f", f"X: {dtype}[{size}, {size}]\nY[i, j] = X[j, i]"), "llvm -mcpu=haswell")
    loops = [sch.get(loop) for loop in sch.get_loops(sch.get_block("Y"))]
    assert tuple(int(loop.extent) for loop in loops[-2:]) == tile and loops[-1].kind == tir.ForKind.VECTORIZED


@pytest.mark.parametrize(
    "text",
    [
        "X: float32[8, 34, 34]\nr: range(2)\nq: range(2)\nY: float32[8, 17, 17]\nY[c, i, j] = max(X[c, 2*i+r, 2*j+q], over=(r, q))",
        "X: float32[8, 66]\nW: float32[8, 3]\nq: range(3)\nY: float32[8, 64]\nY[c, i] += X[c, i+q] * W[c, q]",
        # a window beside a longer reduction, whose operands both have the channel
        "X: float32[8, 18, 18]\nW: float32[8, 4, 3, 3]\nY[f, i, j] += X[f // 4 * 4 + c, i + r, j + q] * W[f, c, r, q]",
        # the stage that follows reads the result twice
        "X: int32[34, 34]\nr: range(3)\nq: range(3)\nN[i, j] += X[i + r, j + q]\nY[i, j] = N[i, j] * 2 if N[i, j] > 3 else 0",
    ],
)
def test_a_window_that_slides_along_the_results_is_reduced_in_vectors_of_results(text: str) -> None:
    assert "T.vectorized" in str(checked(text).schedule.mod)


APART = {
    "a lower triangle": ("X: float32[64, 64]\nY[i, j] = exp(X[i, j]) if j <= i else 0", "for j in range(i + 1)"),
    "an upper triangle": ("X: float32[64, 64]\nY[i, j] = X[i, j] if j >= i else 0", "for j in range(64 - i)"),
    "padding": ("X: float32[64, 64]\nY: float32[64, 64]\nY[i, j] = (X[i, j - 1] if j > 0 else 0) + X[i, j]", "for j in range(63)"),
    "two parts": ("A: float32[64, 64]\nB: float32[64, 33]\nY: float32[64, 97]\nY[i, j] = A[i, j] if j < 64 else B[i, j - 64]", "for j in range(33)"),
    "a diagonal": ("X: float32[64]\nY: float32[64, 64]\nY[i, j] = X[i] if i == j else 0", "for j in range(63 - i)"),
}  # fmt: skip


@pytest.mark.parametrize("name", APART)
def test_between_places_at_which_a_condition_changes_no_loop_asks(name: str) -> None:
    """Neither vectors that VectorizeLoop would take apart, nor a condition in a loop."""
    text, loop = APART[name]
    lowered = tvmagic.lower(checked(text).schedule.mod).script()
    assert loop in lowered and "if_then_else" not in lowered and "_s in range" not in lowered, lowered


@pytest.mark.parametrize(
    "text",
    [
        "T: float32[64]\nI: int32[640]\nY[i] = T[I[i]] * 2",
        "T: float32[64]\nI: int32[640]\nY[i] = exp(T[I[i]])",
        "X: float32[64, 64]\nY[i, j] = exp(X[i, j]) if X[i, j] < 0 else X[i, j]",
        "I: int32[64]\nj: range(32)\nY[i, j] = 1.0 if I[i] == j else 0.0",
        "X: float32[64, 64]\nY: float32[128, 128]\nY[i, j] = X[i // 2, j // 2]",
    ],
)
def test_what_depends_on_data_is_left_to_llvm(text: str) -> None:
    """It knows what a gather and a mask cost; the loop is as it was written."""
    lowered = tvmagic.lower(checked(text).schedule.mod).script()
    assert "Ramp" not in lowered and ":16]" not in lowered and "_s in range" not in lowered
    assert lowered.count("if_then_else") <= 1


def test_elements_a_few_places_apart_are_read_in_vectors() -> None:
    sch = checked("X: float32[64, 64]\nY: float32[64, 32]\nY[i, j] = X[i, 2*j] + X[i, 2*j+1]").schedule
    assert "T.vectorized" in sch.script()


def test_threads_pay_for_long_loops_alone() -> None:
    cell = "X: float32[{n}]\nY[i] = {value}"
    for n, value, parallel in ((100000, "X[i] + 1", False), (1000000, "X[i] + 1", True), (100000, "exp(X[i])", True)):
        sch = decide(operator("f", cell.format(n=n, value=value)), "llvm -num-cores=4").schedule
        assert ("T.parallel" in sch.script()) == parallel


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "X: float32[114, 114, 64]\nW: float32[3, 3, 64]\nY[i, j, c] += X[i + r, j + q, c] * W[r, q, c]",
            "along c, 4 of them along i",
        ),
        (
            "X: float32[64, 114, 114]\nW: float32[64, 3, 3]\nY[c, i, j] += X[c, i + r, j + q] * W[c, r, q]",
            "along j, 4 of them along i",
        ),
        (
            "X: float32[8, 64, 66]\nr: range(2)\nY: float32[8, 32, 64]\nY[c, i, j] = max(X[c, 2*i + r, j], over=r)",
            "of 8 results at a time along j",
        ),
    ],
)
def test_neighbours_whose_windows_overlap_are_kept_together(text: str, said: str) -> None:
    """The tile that loads the least for a result is taken: a vector wide, so that more rows share what they read."""
    assert any(text.endswith(said) for text in checked(text, "llvm -mcpu=haswell").texts)


@pytest.mark.parametrize("cores", [2, 64])
def test_no_more_loops_are_fused_than_the_cores_need(cores: int) -> None:
    """The places of a fused loop are divided by sizes in each iteration."""
    op = operator("f", "X: float32[34, 66, 128]\nY: float32[32, 64, 128]\nY[i, j, k] = X[i, j, k] + X[i + 2, j + 2, k]")
    sch = decide(op, f"llvm -num-cores={cores}").schedule
    assert len(sch.get_loops(sch.get_block("Y"))) == (3 if cores == 2 else 2)


def test_a_tile_follows_the_processor() -> None:
    big = "A: float32[960, 960]\nB: float32[960, 960]\nC[i, j] += A[i, k] * B[k, j]"
    op = operator("f", big)
    old, new = decide(op, "llvm -mcpu=haswell"), decide(op, "llvm -mcpu=sapphirerapids")
    assert old.texts[0] == "4 rows x 3 vectors of 8: 12 of 16 registers for sums, 4 for operands"
    assert new.texts[0] == "6 rows x 4 vectors of 16: 24 of 32 registers for sums, 5 for operands"


def test_vectors_of_full_tiles_have_no_guard() -> None:
    op = operator("f", "A: float32[1000, 77]\nB: float32[77, 1023]\nC[i, j] += A[i, k] * B[k, j]")
    text = tvmagic.lower(decide(op, "llvm -mcpu=haswell").schedule.mod).script()
    hot = text[text.index("for k in range(77)") :]
    hot = hot[: hot.index("C_1 =")]
    assert "if " not in hot and "if_then_else" not in hot and "T.Broadcast(A" in hot


@pytest.mark.parametrize(
    "name", ["weights of the sum, sizes that fit no tile", "a mask of rows", "a mask of columns", "quotients of floats"]
)
def test_products_with_further_operands_are_tiled(name: str) -> None:
    """Weights and masks are read as they are; sizes that fit no tile are rounded up, unless a condition asks for places."""
    texts = decide(operator("c", CELLS[name]), "llvm -mcpu=haswell").texts
    assert any("for sums" in text for text in texts)
    assert any("rounded up to whole tiles" in text for text in texts) == ("mask" not in name)


@pytest.mark.parametrize("name", ["a mask of sums", "quotients of integers"])
def test_what_is_not_rounded_up_or_tiled(name: str) -> None:
    """A mask of each sum would be read for each; integers are not divided by the zeros that would be added."""
    texts = decide(operator("c", CELLS[name]), "llvm -mcpu=haswell").texts
    tiled = any("for sums" in text for text in texts)
    assert not any("rounded up" in text for text in texts) and tiled == (name == "quotients of integers")


@pytest.mark.parametrize(
    "name",
    [
        "a computed operand",
        "a gathered operand",
        "gathered columns",
        "scaled small integers",
        "one array at two places",
    ],
)
@pytest.mark.parametrize("target", ["llvm -mcpu=haswell", "llvm -mcpu=skylake-avx512"])
def test_what_is_computed_for_a_product_is_computed_once(name: str, target: str) -> None:
    func = operator("once", CELLS[name]).to_prim_func()
    sch = decide(func, target).schedule
    product = sch.get(sch.get_block("C_update"))
    reads = {r.buffer.name for r in product.reads} - {r.buffer.name for r in product.writes}
    assert len(reads) == 2 and not reads & {"I", "s", "z"}  # two arrays, each read at plain variables
    assert not any(loads_in(i.min) for r in product.reads for i in r.region)
    assert "exp" not in str(product.body)


def test_a_window_is_not_copied_for_each_of_its_places() -> None:
    op = operator("window", CELLS["strided convolution"])
    assert not [inst for inst in auto(op).trace.insts if inst.kind.name == "CacheFactor"]
    few = operator("few", "A: float32[4, 500]\nB: float32[500, 300]\nC[i, j] += A[i, k] * exp(B[k, j])")
    assert not [inst for inst in auto(few).trace.insts if inst.kind.name == "CacheFactor"]  # each is used four times


@pytest.mark.parametrize("condition", ["M[i, k]", "M[k, j]", "k <= i"])
@pytest.mark.parametrize("target", ["llvm -mcpu=haswell", "llvm -mcpu=skylake-avx512"])
def test_products_under_a_condition_are_vectors(condition: str, target: str) -> None:
    text = f"A: float32[96, 96]\nB: float32[96, 96]\nM: bool[96, 96]\nC[i, j] += A[i, k] * B[k, j] if {condition} else M[0, 0]"
    lowered = str(tvmagic.lower(auto(operator("masked", text), target).mod))
    assert "T.Select" in lowered and "_s in range" not in lowered  # no loop over the lanes of what is no vector


JOINED = {
    "attention": "Q: float32[128, 32]\nK: float32[128, 32]\nV: float32[128, 32]\nS[i, j] += Q[i, d] * K[j, d]\n"
    "P[i, j] = softmax(S[i, j] / 8, over=j)\nO[i, d] += P[i, j] * V[j, d]",
    "attention to what was before": "Q: float32[128, 32]\nK: float32[128, 32]\nV: float32[128, 32]\n"
    "S[i, j] += Q[i, d] * K[j, d]\nM[i, j] = S[i, j] if j <= i else -1000.0\n"
    "P[i, j] = softmax(M[i, j], over=j)\nO[i, d] += P[i, j] * V[j, d]",
    "attention of several heads": "Q: float32[16, 128, 16]\nK: float32[16, 128, 16]\nV: float32[16, 128, 16]\n"
    "S[h, i, j] += Q[h, i, d] * K[h, j, d]\nP[h, i, j] = softmax(S[h, i, j], over=j)\nO[h, i, d] += P[h, i, j] * V[h, j, d]",
    "rows made alike, then a product": "X: float32[128, 256]\nV: float32[256, 32]\nM[i] = mean(X[i, k] * X[i, k], over=k)\n"
    "P[i, j] = X[i, j] / sqrt(M[i] + 0.001)\nO[i, d] += P[i, j] * V[j, d]",
}


def decided(text: str, target: str, second: int) -> tuple[Any, Any]:
    """An operator, and what is decided for it on a machine whose second cache has `second` bytes."""
    op = operator("joined", text)
    machine = Target(target).machine
    caches = [replace(c, size=second) if c.level == 2 else c for c in machine.caches]
    return op, decide_for(op.to_prim_func(), replace(machine, caches=tuple(caches)))


@pytest.mark.parametrize("name", JOINED)
@pytest.mark.parametrize("target", ["llvm -mcpu=haswell", "llvm -mcpu=skylake-avx512"])
def test_rows_between_two_products_stay_in_cache(name: str, target: str) -> None:
    _, found = decided(JOINED[name], target, 32 << 10)
    assert any("rows at a time, whose parts stay in the second cache" in text for text in found.texts)
    lowered = str(tvmagic.lower(found.schedule.mod))
    sizes = {
        n: 4 * int(size) for n, size in re.findall(r'(\w+) = T.allocate\(\[(\d+)\], "float32", "global"\)', lowered)
    }
    assert (
        sizes["P"] > 0 and sum(sizes.get(n, 0) for n in "SMP") <= 32 << 10
    )  # of 64 KB each, and more for several heads


@pytest.mark.parametrize("name", JOINED)
def test_rows_between_two_products_are_right(name: str) -> None:
    op, found = decided(JOINED[name], "llvm", 32 << 10)
    assert check(Version(op, found.schedule, "joined")).ok


def test_what_stays_in_cache_or_fills_no_stretch_is_computed_apart() -> None:
    for text, second in ((JOINED["attention"], 1 << 20), (JOINED["attention"].replace("128", "101"), 32 << 10)):
        _, found = decided(text, "llvm -mcpu=haswell", second)
        assert not any("rows at a time, whose" in text for text in found.texts)


def test_products_that_are_added_have_tiles_each() -> None:
    """Neither can take the sum along on its tiles, as that waits for the other one."""
    cells = "X: float32[8, 64]\nH: float32[8, 64]\nW: float32[4, 64, 64]\nU: float32[4, 64, 64]\nA[n, g, j] += X[n, k] * W[g, j, k]\n"
    cells += "B[n, g, j] += H[n, k] * U[g, j, k]\nG[n, g, j] = sigmoid(A[n, g, j] + B[n, g, j])"
    texts = checked(cells).texts
    assert sum("registers for sums" in text for text in texts) == 2 and not any("no rule" in text for text in texts)


def test_a_separable_filter_is_not_computed_by_columns() -> None:
    texts = checked(
        "I: float32[40, 68]\nK: float32[5]\nH[y, x] += I[y, x + s] * K[s]\nV[y, x] += H[y + r, x] * K[r]"
    ).texts
    assert [text.split(":")[0] for text in texts] == ["V", "H"] and all("along x" in text for text in texts)


def test_a_symbolic_tile_that_is_turned_keeps_its_places() -> None:
    assert any("have constant places" in t for t in decide(operator("f", CELLS["symbolic rows as columns"])).texts)


@pytest.mark.parametrize(("results", "any_order"), [(3, True), (4, False)])
def test_of_three_results_no_vector_is_made(results: int, any_order: bool) -> None:
    """Forces between points: what is added up for each coordinate is taken in any order, as `r` lies in the order of `j`."""
    instant = checked(
        f"P: float32[64, {results}]\nr[i, j] = 1 + (P[j, 0] - P[i, 0]) ** 2 + (P[j, 1] - P[i, 1]) ** 2\n"
        "F[i, d] += (P[j, d] - P[i, d]) / (r[i, j] * sqrt(r[i, j]))",
        "llvm -mcpu=haswell",
    )
    assert any(said.startswith("F: its values are taken in any order") for said in instant.texts) == any_order


COLUMNS = {  # what is said on one core of haswell, of 8 lanes, 16 registers and 32 KB of the first cache
    "X: float32[200, 1024]\nS[j] += X[k, j]": "S: 1024 results at a time stay in the first cache, 8 values are added to each",
    "X: float32[50, 9000]\nS[j] += X[k, j]": "S: 3000 results at a time stay in the first cache, 5 values are added to each",
    "X: float32[4, 90, 64]\nS[b, j] += X[b, k, j]": "S: 64 results at a time stay in registers",
    "X: float32[99, 200]\nS[j] += X[k, j]\nY[i, j] = X[i, j] - S[j] / 99": "S: 200 results at a time stay in the first cache",
    "X: float32[99, 120]\nS[j] += X[k, j]\nY[i, j] = X[i, j] - S[j] / 99": "Y: 4 vectors of 8 results at a time along j",
}


@pytest.mark.parametrize("text", COLUMNS)
def test_columns_are_added_up_row_by_row(text: str) -> None:
    instant = checked(text, "llvm -mcpu=haswell -num-cores=1", 999)
    assert any(said.startswith(COLUMNS[text]) for said in instant.texts), instant.texts
    if "registers" in COLUMNS[text]:
        lowered = str(tvmagic.lower(instant.schedule.mod))
        assert "for k in range(90):" in lowered and "S_local_1[7] = S_local_1[7] + X" in lowered


@pytest.mark.parametrize("name", ["means of windows", "means of columns"])
def test_what_follows_a_sum_is_computed_before_it_leaves_the_registers(name: str) -> None:
    assert any("before it leaves the registers" in text for text in decide(operator("f", CELLS[name])).texts)


def test_reduced_axes_that_run_on_are_one_loop() -> None:
    cell = decide(operator("pool", "X: float32[40, 30, 7, 7]\nY[n, c] = mean(X[n, c, i, j], over=(i, j))")).cell
    assert (
        cell.count("sch.fuse(") == 1 and "pragma_any_order" in cell
    )  # of what is reduced over; the rows are enough for the cores
    apart = "X: float32[40, 30, 8, 8]\ni: range(7)\nj: range(7)\nY[n, c] = mean(X[n, c, i, j], over=(i, j))"
    assert decide(operator("apart", apart)).cell.count("sch.fuse(") == 0
    channels = checked("X: float32[4, 5, 7, 9]\nM[c] = mean(X[n, c, i, j], over=(n, i, j))").cell
    assert channels.count("sch.fuse(ax1, ax2)") == 1  # the images of a batch are apart


@pytest.mark.parametrize(("dtype", "said"), [("int8", 0), ("uint16", 0), ("int32", 1), ("float32", 1)])
def test_narrow_integers_keep_their_order(dtype: str, said: int) -> None:
    cell = decide(operator("most", f"X: {dtype}[400, 100]\nY[i] = max(X[i, j], over=j)")).cell
    assert cell.count("pragma_any_order") == said


def test_symbolic_products_compute_whole_tiles() -> None:
    """The tile of a product of symbolic sizes has constant places and no guard in its loop, and there is one copy of it."""
    op = operator("f", CELLS["symbolic in all"])
    instant = decide(op, "llvm -mcpu=haswell")
    text = tvmagic.lower(instant.schedule.mod).script()
    assert any("to a multiple of" in t for t in instant.texts)
    assert text.count("for k in range(m)") == 1 and text.count("\n") < 250
    hot = text[text.index("for k in range(m)") :]
    hot = hot[: hot.index("C_1 =")]
    assert "if " not in hot.replace("\n", " ") and "C_pad_local_1[88:96]" in hot


def test_a_large_operand_is_packed_in_stretches() -> None:
    op = operator("f", "A: float32[2048, 2048]\nB: float32[2048, 2048]\nC[i, j] += A[i, k] * B[k, j]")
    assert any("panels of B at a time, which stay in the last cache" in t for t in decide(op).texts)


@pytest.mark.parametrize(
    ("text", "lanes"),
    [
        ("X: float32[4, 14, 112]\nr: range(2)\nq: range(2)\nY: float32[4, 7, 56]\nY[c, i, j] = max(X[c, 2*i+r, 2*j+q], over=(r, q))", 8),
        ("X: float32[9, 57]\nW: float32[3]\nq: range(3)\nY: float32[9, 55]\nY[c, i] += X[c, i+q] * W[q]", 7),
        ("X: float32[44, 45]\nY[i, j] = X[j, i]", 4),
    ],
)  # fmt: skip
def test_what_does_not_fill_a_vector_is_one_of_fewer_lanes(text: str, lanes: int) -> None:
    """And no tile asks where the rows end."""
    op = operator("f", text)
    hot = str(tvmagic.lower(auto(op, "llvm -mcpu=skylake-avx512").mod)).split("main(")[1]
    assert "if " not in hot and f"{lanes})" in hot and "_s in range(16)" not in hot


@pytest.mark.parametrize("target", ["llvm -mcpu=haswell", "llvm -mcpu=skylake-avx512"])
def test_windows_of_a_prime_size_are_computed_in_tiles_of_rows_too(target: str) -> None:
    """Neighbouring rows share what they read: 4 of them take half of the loads."""
    op = operator(
        "f", "X: float32[5, 109, 109]\nr: range(3)\nq: range(3)\nY: float32[5, 107, 107]\nY[c, i, j] += X[c, i+r, j+q]"
    )
    found = decide(op, target)
    assert any("of them along i" in text for text in found.texts)
    assert "if " not in str(tvmagic.lower(found.schedule.mod)).split("main(")[1]


def _places(rows: int, columns: int) -> Any:
    """A function with the place and the value of the largest element of each row, as TVM's own example of a reduction of pairs."""
    a = te.placeholder((rows, columns), name="A")
    k = te.reduce_axis((0, columns), name="k")
    pair = te.comm_reducer(
        lambda x, y: (tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])),
        lambda i, v: (tir.const(-1, i), tir.min_value(v)),
        name="argmax",
    )
    index, value = te.compute((rows,), lambda i: pair((k, a[i, k]), axis=k), name="best")
    return te.create_prim_func([a, index, value])


@pytest.mark.parametrize(
    ("rows", "columns", "said"),
    [(1000, 64, "32 results at a time"), (1000, 61, "32 results at a time"), (1000, 502, "32 results at a time"),
     (31, 1061, "no rule fits")],
)  # fmt: skip
def test_places_of_rows(rows: int, columns: int, said: str) -> None:
    found = decide(_places(rows, columns), "llvm -mcpu=haswell")
    assert any(said in text for text in found.texts) and "T.parallel" in found.schedule.script()
    assert ("T.vectorized" in found.schedule.script()) == (rows == 1000)
    data = np.random.default_rng(0).integers(0, 9, (rows, columns)).astype("float32")  # the first of equal ones is kept
    at, best = np.zeros(rows, "int32"), np.zeros(rows, "float32")
    tvmagic.build(found.schedule.mod)(data, at, best)
    np.testing.assert_array_equal(at, data.argmax(axis=1))
    np.testing.assert_array_equal(best, data.max(axis=1))


@pytest.mark.parametrize("columns", [96, 97])
@pytest.mark.parametrize("over", ["i", "j"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_in_vectors_are_the_first_ones_as_in_numpy(name: str, over: str, columns: int) -> None:
    """Ties, infinities, NaN."""
    op = operator("f", f"X: float32[64, {columns}]\nY[{'ij'.replace(over, '')}] = {name}(X[i, j], over={over})")
    rng = np.random.default_rng(0)
    data = rng.integers(0, 5, (64, columns)).astype("float32")
    data[3], data[:, 7], data[9, 50:], data[11, 60] = np.inf, -np.inf, np.nan, np.nan
    sch = auto(op)
    assert "T.vectorized" in sch.script()
    out = np.zeros(64 if over == "j" else columns, "int32")
    tvmagic.build(sch.mod)(data, out)
    np.testing.assert_array_equal(out, getattr(np, name)(data, axis="ij".index(over)))


def test_what_no_rule_fits_is_said() -> None:
    a = te.placeholder((256, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    both = te.comm_reducer(lambda x, y: (x[0] + y[0], x[1] * y[1]), lambda i, v: (tir.const(0, i), tir.const(1, v)))
    total, product = te.compute((256,), lambda i: both((a[i, 63 - k] + k, a[i, 63 - k]), axis=k), name="both")
    found = decide(te.create_prim_func([a, total, product]))
    assert any("no rule fits" in text and "in parallel" in text for text in found.texts)


FUNCTIONS = {  # a part of what the rules say, and a function's body
    "tiles": ("its tiles are put together again", """for i0, j0, k0, i1, j1, k1 in T.grid(4, 2, 4, 8, 16, 8):
        with T.block("C"):
            i, j = T.axis.spatial(32, i0 * 8 + i1), T.axis.spatial(32, j0 * 16 + j1)
            k = T.axis.reduce(32, k0 * 8 + k1)
            with T.init():
                Y[i, j] = T.float32(0)
            Y[i, j] = Y[i, j] + X[i, k] * X[k, j]"""),
    "two sums": ("its sums in any order", """S, Q = T.alloc_buffer((32,)), T.alloc_buffer((32,))
    for i, k in T.grid(32, 32):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
                Q[vi] = T.float32(0)
            S[vi] = S[vi] + X[vi, vk]
            Q[vi] = Q[vi] + X[vi, vk] * X[vi, vk]
    for i, j in T.grid(32, 32):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vi, vj] * S[vi] + Q[vi]"""),
    "while": ("nothing of them may run in parallel or in vectors", """for i, j in T.grid(32, 32):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vi, vj]
            while Y[vi, vj] < T.float32(9):
                Y[vi, vj] = Y[vi, vj] * Y[vi, vj] + T.float32(1)"""),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_are_written_by_hand(name: str) -> None:
    said, body = FUNCTIONS[name]
    text = f'@T.prim_func\ndef f(X: T.Buffer((32, 32), "float32"), Y: T.Buffer((32, 32), "float32")):\n    {body}\n'
    op = operator("f", text)
    found = decide(op)
    assert any(said in text for text in found.texts), found.texts
    assert check(Version(op, found.schedule, "auto")).ok
    lines = [line for line in found.cell.splitlines() if "get_block" in line]
    assert len(lines) == len(set(lines)) and "root" not in found.cell


def test_what_has_no_schedule_is_refused() -> None:
    with refuses("auto.not_a_program"):
        auto(3)
    with refuses("target.not_a_cpu"):
        auto(operator("f", CELLS["matmul"]), "nvptx")


# ---------------------------------------------------------------------------- the machine


@pytest.mark.parametrize(
    ("target", "bits", "registers", "second"),
    [
        ("llvm -mcpu=x86-64-v2", 128, 16, 256),
        ("llvm -mcpu=haswell", 256, 16, 256),
        ("llvm -mcpu=znver3", 256, 16, 512),
        ("llvm -mcpu=znver4", 512, 32, 1024),
        ("llvm -mcpu=skylake-avx512", 512, 32, 1024),
        ("llvm -mcpu=sapphirerapids", 512, 32, 2048),
        ("llvm -mcpu=skylake-avx512 -mattr=-avx512f", 256, 16, 1024),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1", 128, 32, 1024),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=apple-m1", 128, 32, 12288),
        ("llvm -mtriple=riscv64-linux-gnu -mattr=+v,+zvl256b", 256, 32, 512),
        ("llvm -mtriple=wasm32-unknown-unknown", 128, 16, 256),
    ],
)
def test_families_of_processors(target: str, bits: int, registers: int, second: int) -> None:
    machine = Target(target).machine
    assert (machine.vector_bits, machine.vector_registers, machine.cache(2) >> 10) == (bits, registers, second)
    assert machine.cores >= 1 and machine.line in (64, 128) and machine.lanes("int8") == bits // 8
    assert Target(target).tile().rows * Target(target).tile().vectors >= machine.fma_per_cycle * machine.fma_latency


def test_options_of_a_target_change_its_machine() -> None:
    assert Target("llvm -mcpu=haswell -num-cores=7").machine.cores == 7
    assert Target("llvm -mcpu=haswell -vector-width=128").machine.lanes("float32") == 4


def test_a_tile_divides_the_sizes_that_it_is_given() -> None:
    tile = Target("llvm -mcpu=haswell").tile(rows=512, columns=512)
    assert 512 % tile.rows == 0 and 512 % tile.columns == 0 and str(tile).startswith(f"{tile.rows} rows x")
    assert Target("llvm -mcpu=haswell").tile(rows=997) == Target("llvm -mcpu=haswell").tile()


SCANS = {
    "a row at a time": ("X: float32[90, 100]\nY[i, k] = cumsum(X[i, k], over=k)", "s[Y_terms_cumsum].compute_at(s[Y], Y_0)\ns[Y].parallel(Y_0)"),
    "neighbours together": ("X: float32[9, 1000]\nY[i, k] = cummax(X[i, k] * 2.0, over=i)\nZ[i, k] = Y[i, k] + 1.0", "compute_at(s[Y], Y_1_o)"),
    "three axes": ("X: float32[n, 7, m]\nY[i, k, j] = cumsum(X[i, k, j], over=k)", "s[Y].reorder(Y_0, Y_2_o, Y_1, Y_2_i)"),
    "two scans": ("X: float32[9, 30]\nY[i, k] = cumsum(X[i, k], over=k) + cummin(X[i, k], over=k)", "s[Y_terms_1_cummin].compute_at(s[Y], Y_0)"),
    "along both axes": ("X: float32[9, 30]\nY[i, k] = cumsum(X[i, k], over=k) + cummin(X[i, k], over=i)", "Y_terms_1_cummin: its steps follow each other"),
    "products are made before they are summed": ("X: float32[90, 100]\nY[i, k] = cumsum(X[i, k] * 0.5, over=k)", "s[Y_terms].compute_at(s[Y], Y_0)"),
    "one scan": ("X: float32[99]\nY[i] = cumprod(X[i], over=i)", "in plain loops\ns[Y_terms].compute_inline()"),
    "a sum of a sum": ("X: float32[9, 30, 4]\nA[i, k] += X[i, k, r]\nY[i, k] = cumsum(A[i, k], over=k)\nZ[i] += Y[i, k]", "compute_at(s[Y], Y_0)"),
    "of a scan along the other axis": ("X: int32[9, 30]\nY[i, k] = cumsum(cumsum(X[i, k], over=k), over=i)", "s[Y_terms_1_cumsum].compute_at(s[Y_terms], Y_terms__0)"),
    "not read element by element": ("X: float32[9, 30]\nY[i, k] = softmax(cumsum(X[i, k], over=k), over=k) + cummax(X[i, k], over=k)", "in plain loops\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", SCANS)
def test_a_scan_has_a_te_schedule(name: str) -> None:
    """It is right, its cell runs and makes the same program."""
    text, calls = SCANS[name]
    op = operator("f", text)
    instant = decide(op, "llvm -num-cores=4")
    assert calls in instant.cell and len(instant.texts) >= 1, instant.cell
    made = schedule(op, instant.cell, "again")
    assert check(made, sizes=70).ok
    assert str(made.lower()) == str(op.lower(instant.schedule)) != str(op.version("plain").lower())


PARTS = {
    "last row": ("C[i, j] += A[i, k] * B[k, j]\nD[j] = max(C[127, j], 0)", lambda a, b: np.maximum(a[127] @ b, 0)),
    "last scores": (
        "S[i, j] += A[i, d] * B[j, d]\nP[i, j] = softmax(S[i, j], over=j)\nO[j] = P[127, j]",
        lambda a, b: np.exp(a[127] @ b.T - (a[127] @ b.T).max()) / np.exp(a[127] @ b.T - (a[127] @ b.T).max()).sum(),
    ),
    "a window": (
        "C[i, j] += A[i, k] * B[k, j]\nfor i in range(40):\n  for j in range(30): D[i, j] = C[i + 9, j + 70]",
        lambda a, b: (a @ b)[9:49, 70:100],
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_only_the_part_of_a_sum_that_is_read_is_computed(name: str) -> None:
    text, numpy = PARTS[name]
    op = operator("f", f"A: float32[128, 128]\nB: float32[128, 128]\n{text}")
    found = decide(op)
    a, b = op.random_inputs(0)
    version = Version(op, found.schedule, "auto")
    np.testing.assert_allclose(version(a, b), numpy(a, b), rtol=1e-4, atol=1e-4)
    assert any("of it is needed, and nothing else is computed" in t for t in found.texts)
    assert schedule(op, found.cell, "again").schedule is not None and op.check().ok


def test_a_sum_that_is_needed_whole_stays_with_its_tiles() -> None:
    op = operator("f", "A: float32[128, 128]\nB: float32[128, 128]\nC[i, j] += A[i, k] * B[k, j]\nT[()] += C[i, i]")
    assert not decide(op).te_cell


TURNED = {
    "stored across what is read": "X: float32[20, 33, 50]\nS[j, i] += X[p, i, j]",
    "with weights, and a follower": "w: float32[20]\nX: float32[20, 30, 50]\nd: float32[30]\nS[j, i] += w[p] * X[p, i, j]\n"
    "Y[j, i] = S[j, i] + d[i]",
    "read by rows afterwards": "w: float32[50]\nX: float32[33, 20, 50]\nS[j, i] += w[j] * X[i, p, j]\nY[j, i] = softmax(S[j, i], over=i)",
    "three axes": "X: float32[9, 20, 8, 40]\nB: float32[20, 8]\nS[j, k, i] += X[i, p, k, j] * B[p, k]",
}


@pytest.mark.parametrize("text", TURNED.values(), ids=TURNED)
def test_sums_are_computed_in_the_order_of_what_they_read(text: str) -> None:
    assert any("and then turned into" in t for t in checked(text).texts)


def test_sums_that_are_read_as_they_are_stored_are_not_turned() -> None:
    for text in (
        "X: float32[20, 33, 50]\nS[i, j] += X[p, i, j]",  # stored in the same order
        "X: float32[33, 50, 20]\nS[j, i] += X[i, j, p]",  # contiguous along what is summed over
        "X: float32[20, 33, 50]\nZ: float32[20, 50, 33]\nS[j, i] += X[p, i, j] * Z[p, j, i]",  # as much is read in this order
        "X: float32[33, 50]\nw: float32[20]\nS[j, i] += X[i, j] * w[p]",  # read once for each result
    ):
        assert not any("turned into" in t for t in checked(text).texts), text


def test_what_is_contiguous_is_summed_innermost() -> None:
    found = checked("A: float32[9, 60]\nB: float32[40, 9, 60]\nr: range(40)\nS[i] += A[i, p] * B[r, i, p]").schedule
    text = str(found.mod)
    assert text.index("for r in") < text.index("for p in")


def test_parts_of_arrays_and_two_of_one_are_multiplied_in_tiles() -> None:
    for text in (
        "A: float32[60, 100]\nC[i, j] += A[k, i] * A[k, j]",
        "i: range(100)\nj: range(90)\nk: range(64)\nA: float32[129, 129]\nB: float32[131, 67]\nC[i, j] += A[k, i] * B[j, k]",
    ):
        assert any("for sums" in t for t in checked(text).texts), text


def test_a_copy_that_costs_more_than_the_terms_is_not_made() -> None:
    text = "i: range(32)\nj: range(3)\nk: range(50)\np: range(4)\nA: float32[50, 32, 300]\nS[j, i, k] += A[j, p, k] * A[k, i, p]"
    assert not any("copied into panels" in t for t in checked(text).texts)
