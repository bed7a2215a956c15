"""Two versions of an operator compared in words."""

from __future__ import annotations

import pytest

from tvmagic.codegen import last_program
from tvmagic.explain import differences
from tvmagic.explain.waste import waste_of
from tvmagic.model import model
from tvmagic.notebook.machine import auto_source
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule
from tvmagic.target import resolved

WIDE = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"
TILED = """i, j = C.op.axis
k, = C.op.reduce_axis
io, jo, ii, ji = s[C].tile(i, j, 8, 16)
s[C].reorder(io, jo, k, ii, ji)
s[C].vectorize(ji)
"""


def test_a_tile_moves_fewer_bytes_and_is_vectorized() -> None:
    op = operator("mm", "A: float32[512, 512]\nB: float32[512, 512]\nC[i, j] += A[i, k] * B[k, j]")
    tiled = schedule(op, TILED, "tiled")
    said = differences(op.version("plain"), tiled, WIDE)
    assert said[0].startswith("by the model tiled takes ") and "fewer cycles" in said[0]
    l3 = next(s for s in said if "from L3" in s)
    assert l3.startswith("tiled moves 7.7 times fewer bytes from L3") and "`B`" in l3
    assert any("that of plain is not" in s for s in said)
    assert differences(tiled, op.version("plain"), WIDE) == said, "the better one is named first, in either order"


def test_a_version_is_like_itself() -> None:
    op = operator("mm", "A: float32[64, 64]\nB: float32[64, 64]\nC[i, j] += A[i, k] * B[k, j]")
    assert differences(op.version("plain"), schedule(op, "", "same"), WIDE) == [
        "by the model both take about the same number of cycles"
    ]


def test_a_stage_that_is_computed_again_and_one_that_stays_inside() -> None:
    op = operator("blur", "I: float32[1026, 1024]\nH[i, j] = I[i, j] + I[i+1, j]\nB[i, j] = H[i, j] + H[i+1, j]")
    inside = schedule(op, "s[H].compute_at(s[B], B.op.axis[0])", "inside")
    said = differences(op.version("plain"), inside, WIDE)
    assert any(s.startswith("inside computes each element of `H` 2.0 times, plain once") for s in said)
    assert any("`H`" in s and "moves" in s for s in said)


def test_sums_in_a_local_buffer_stay_in_registers() -> None:
    op = operator("mm", "A: float32[512, 512]\nB: float32[512, 512]\nC[i, j] += A[i, k] * B[k, j]")
    rows = schedule(
        op,
        "i, j = C.op.axis\nk, = C.op.reduce_axis\ns[C].reorder(i, k, j)\ns[C].vectorize(s[C].split(j, 16)[1])",
        "rows",
    )
    calls = """CC = s.cache_write(C, "local")
jo, ji = s[C].split(C.op.axis[1], 16)
s[C].vectorize(ji)
s[CC].compute_at(s[C], jo)
y, x = CC.op.axis
s[CC].reorder(CC.op.reduce_axis[0], y, x)
s[CC].vectorize(x)
"""
    local = schedule(op, calls, "local")
    text = " ".join(differences(rows, local, WIDE))
    assert "`C.local` stays in registers" in text


def test_no_model_no_words() -> None:
    op = operator("add", "A: float32[64]\nB[i] = A[i] + 1")
    assert differences(op.version("plain"), schedule(op, "", "same"), "nvptx -mcpu=sm_80") == []


def test_copied_tile_counts_as_computed_once() -> None:
    op = operator(
        "small",
        "X: float32[64, 64, 8, 8]\nC: float32[8, 8]\nY: float32[64, 64, 8, 8]\nY[a, b, u, v] += X[a, b, u, k] * C[v, k]",
    )
    made = schedule(op, auto_source(op, WIDE)[0].split("\n", 1)[1], "made")
    (func,) = last_program(made.lower(), WIDE).functions.values()
    waste = waste_of(made, model(func, resolved(WIDE).machine))
    assert waste == {"Y": pytest.approx(1.0, rel=1e-3)}
    assert not any("computes each element" in said for said in differences(op.version("plain"), made, WIDE))
