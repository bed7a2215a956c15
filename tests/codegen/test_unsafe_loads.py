"""A vector `Select` reads only what the taken side reads, unless what it reads is there in any case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvmagic
from tvmagic import te, tir

N = 64


def vectorized(value: Callable[[Any, Any, Any], Any], dtype: str = "float32") -> tuple[Any, list[Any]]:
    index = te.placeholder((N,), "int32", name="index")
    A = te.placeholder((N,), dtype, name="A")
    B = te.compute((N,), lambda i: value(i, index, A), name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(B.op.axis[0], 8)[1])
    return s, [index, A, B]


def inside(i: Any, index: Any) -> Any:
    return tir.all(index[i] >= 0, index[i] < N)


def other(dtype: str) -> Any:
    return tir.const(7, dtype)


@pytest.mark.parametrize("check_bounds", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int8", "float16", "float64"])
def test_a_gather_reads_only_what_is_taken(dtype: str, check_bounds: bool) -> None:
    index = np.arange(N, dtype="int32")[::-1].copy()
    index[::3] = 2**30  # far outside
    index[1::7] = -(2**30)
    a = np.arange(N).astype(dtype)
    wanted = np.where((index >= 0) & (index < N), a[index.clip(0, N - 1)], np.array(7, dtype))
    taken = lambda i, j, x: tir.Select(inside(i, j), x[j[i]], other(dtype))  # noqa: E731
    left = lambda i, j, x: tir.Select(tir.Not(inside(i, j)), other(dtype), x[j[i]])  # noqa: E731
    nested = lambda i, j, x: tir.Select(j[i] >= 0, tir.Select(j[i] < N, x[j[i]], other(dtype)), other(dtype))  # noqa: E731
    for value in (taken, left, nested):
        s, args = vectorized(value, dtype)
        out = np.zeros(N, dtype)
        tvmagic.build(s, args, check_bounds=check_bounds)(index, a, out)
        assert (out == wanted).all()


def test_contiguous_lanes_beside_the_array_are_not_read() -> None:
    s, args = vectorized(lambda i, j, x: tir.Select(i >= 3, x[i - 3], other("float32")))
    a, out = np.arange(N, dtype="float32"), np.zeros(N, "float32")
    tvmagic.build(s, args, check_bounds=True)(np.zeros(N, "int32"), a, out)
    assert (out == np.concatenate([[7, 7, 7], a[:-3]])).all()
    assert "llvm.masked.load" in tvmagic.build(s, args).get_source("ll")


@pytest.mark.parametrize(
    "value",
    [
        lambda i, j, x: tir.Select(j[i] > 0, x[i], other("float32")),
        lambda i, j, x: tir.Select(x[i] > 0, x[i], other("float32")),
        lambda i, j, x: tir.Select(x[j[i]] > 0, x[j[i]], other("float32")),
    ],
    ids=["inside the array", "read by the condition", "gathered by the condition"],
)
def test_what_is_there_in_any_case_is_read_without_a_mask(value: Any) -> None:
    s, args = vectorized(value)
    text = tvmagic.build(s, args).get_source("ll")
    assert "masked.load" not in text and "xor <8 x i1>" not in text
