"""Sums of float16 and bfloat16 in the index notation: accumulated in float32, rounded once, in a stage of the statement's name."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tvmagic import te
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule

DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
NARROW = pytest.mark.parametrize("dtype", DTYPES)
RNG = np.random.default_rng(11)
DENSE = "A: float16[32, 48]\nB: float16[48, 16]\nY[i, j] += A[i, k] * B[k, j]"


def values(shape: tuple[int, ...], dtype: str) -> Any:
    return RNG.normal(size=shape).astype(DTYPES[dtype])


def wide(array: Any) -> np.ndarray:
    return np.asarray(array, "float64")


@NARROW
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("Y[()] = mean(X[k], over=k)", 1),
        ("Y[()] += X[k]", 4096),
        ("Y[()] = sum(X[k], over=k)", 4096),
        ("Y[k] = cumsum(X[k], over=k)", np.arange(1, 4097)),
        ("Y[k] = softmax(X[k], over=k)", np.full(4096, 1 / 4096)),
        ("Y[k] = X[k] / sum(X[l], over=l)", np.full(4096, 1 / 4096)),
    ],
)
def test_sums_of_ones_keep_counting(dtype: str, statement: str, expected: Any) -> None:
    op = operator("total", f"X: {dtype}[4096]\n{statement}")
    result = op(np.ones(4096, DTYPES[dtype]))
    assert str(result.dtype) == dtype
    assert (wide(result) == wide(np.asarray(expected).astype(DTYPES[dtype]))).all()


@NARROW
def test_matmul_is_rounded_once(dtype: str) -> None:
    a, b = values((32, 48), dtype), values((48, 16), dtype)
    result = operator("dense", DENSE.replace("float16", dtype))(a, b)
    rounding = 2.0 ** (-8 if dtype == "bfloat16" else -11)
    exact = wide(a) @ wide(b)
    assert (abs(wide(result) - exact) <= rounding * abs(exact) * 1.01 + 1e-4).all()


def test_terms_may_exceed_the_largest_float16() -> None:
    """A product of two float16 values is exact in float32; so is the sum before it is divided."""
    x = np.full(300, 250, "float16")
    assert operator("power", "X: float16[300]\nY[()] = mean(X[k] * X[k] / 1000, over=k)")(x) == 62.5
    assert operator("mean", "X: float16[300]\nY[()] = mean(X[k] * 250, over=k)")(x) == 62500


def test_conversions_that_the_cell_spells_out_round_the_terms() -> None:
    x = np.full(4, 1 + 2**-10, "float16")
    squares = operator("squares", "X: float16[4]\nY[()] += float32(float16(X[k] * X[k]))")(x)
    assert squares == 4 * float(np.float16(x[0] * x[0]))


def test_calls_of_te_sum_keep_their_dtype() -> None:
    cell = "X: float16[4096]\nk = te.reduce_axis((0, 4096), 'k')\nY = te.compute((1,), lambda i: te.sum(X[k], axis=k), name='Y')"
    assert operator("total", cell)(np.ones(4096, "float16"))[0] == 2048


def test_stage_keeps_name_and_axes() -> None:
    op = operator("dense", f"{DENSE}\nZ[i, j] = relu(Y[i, j])")
    stage = op.tensors["Y"]
    assert [axis.var.name for axis in stage.op.axis] == ["i", "j"]
    assert [axis.var.name for axis in stage.op.reduce_axis] == ["k"]
    assert [(t.name, str(t.dtype)) for t in op.outputs] == [("Z", "float16")]
    assert "Y_float16" not in op.tensors


SCHEDULES = [
    ("", "i, j = s[Y].op.axis\nk, = s[Y].op.reduce_axis\no, n = s[Y].split(i, 8)\ns[Y].reorder(o, k, n, j)\ns[Y].parallel(o)\ns[Y].vectorize(j)"),
    ("", "L = s.cache_write(Y, 'local')\no, n = s[Y].split(s[Y].op.axis[0], 8)\ns[L].compute_at(s[Y], o)\ns[L].split(s[L].op.reduce_axis[0], 5)"),
    ("", "o, n = s[Y].split(s[Y].op.reduce_axis[0], 4)\ns.rfactor(Y, n)"),
    ("Z[i, j] = relu(Y[i, j])", "s[Y].compute_at(s[Z], Z.op.axis[0])"),
    ("", "b = sch.get_block('Y')\ni, j, k = sch.get_loops(b)\nsch.reorder(i, k, j)\nsch.vectorize(j)\nsch.decompose_reduction(b, k)"),
    ("", "b = sch.get_block('Y')\nc = sch.cache_write(b, 0, 'local')\nsch.reverse_compute_at(c, sch.get_loops(b)[1])"),
    ("", "b = sch.get_block('Y')\n_, n = sch.split(sch.get_loops(b)[2], [None, 4])\nsch.rfactor(n, 2)"),
    ("Z[i, j] = relu(Y[i, j])", "sch.compute_at(sch.get_block('Y'), sch.get_loops(sch.get_block('Z'))[0])"),
    ("Z[i, j] = relu(Y[i, j])", "sch.reverse_compute_at(sch.get_block('Z'), sch.get_loops(sch.get_block('Y'))[1])"),
]  # fmt: skip


@pytest.mark.parametrize(("rest", "cell"), SCHEDULES)
def test_schedules_of_the_stage_apply(rest: str, cell: str) -> None:
    op = operator("dense", f"{DENSE}\n{rest}")
    schedule(op, cell)
    assert op.check().ok
    assert str(op.outputs[0].dtype) == "float16"


@pytest.mark.parametrize(
    "cell",
    [
        "Y: float16[8]\nX: float16[8, 16]\nY[i] = Y[i] * 2\nY[i] += X[i, k]",
        "X: float16[8, 16]\nY: float16[8]\nY[i] += X[i, k]",
        "X: float16[8, 16]\nY[i] += X[i, k]\nY[i] += X[i, k] * X[i, k]",
        "X: float16[8, 16]\nS[i] += X[i, k]\nY[i] = X[i, 0] if i == 0 else Y[i - 1] * float16(0.5) + S[i]",
        "W: float16[8, 8]\nX: float16[5, 8]\nY[t, j] = X[0, j] if t == 0 else tanh(sum(W[j, k] * Y[t - 1, k], over=k) + X[t, j])",
        "X: float16[8, 16]\nS[i] += X[i, k]\nT = S\nY = te.compute((8,), lambda i: T[i] + S[i], name='Y')",
        "X: float16[8, 16]\nS[i] += X[i, k]\nY[i] = S[i] * 2\nreturn S, Y",
        "X: float16[8, 8]\nY[i] += X[i, k] if k <= i else 0",
    ],
)
def test_cells_around_sums_keep_float16(cell: str) -> None:
    op = operator("around", cell)
    assert {str(t.dtype) for t in op.outputs} == {"float16"}
    assert op.check().ok
    assert pickle.loads(pickle.dumps(op)).check().ok
    assert copy.deepcopy(op).check().ok


def test_result_has_a_unique_name() -> None:
    op = operator("names", f"{DENSE}\nY_float16[i] = A[i, 0]")
    names = [t.name for t in op.outputs]
    assert len(set(names)) == 2
    assert isinstance(op.tensors["Y_float16"], te.Tensor)
    assert op.check().ok
