"""Partitioned loops run each iteration once."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from pass_checks import module

from tvmagic.eval.machine import run_function
from tvmagic.tir import transform

PARTED = """def main(A: T.Buffer((32,), "int32"), n: T.int32, m: T.int32):
    for i in {loop}:
        A[i] = A[i] + 1
        if T.likely({condition}):
            A[i + 16] = A[i + 16] + 1"""


LOOPS: dict[str, Any] = {
    "range(n)": lambda n, m: range(n),
    "range(2, n)": lambda n, m: range(2, n),
    "range(m, n)": lambda n, m: range(m, n),
    'T.thread_binding(n, thread="blockIdx.x")': lambda n, m: range(n),
}


CONDITIONS = [
    *(f"i < n + ({k})" for k in (-1, 0, 1, 2)),
    *(f"i >= n + ({k})" for k in (-1, 0, 1)),
    *(f"i >= {k}" for k in (0, 1, 2, 3)),
    "i < 2",
    "i * 2 < n + 1",
    "i < m",
    "i + m < n",
    "i >= m % 4",
]


@pytest.mark.parametrize("loop", LOOPS)
def test_partitioned_loop_runs_each_iteration_once(loop: str) -> None:
    """Each one once, whichever way a condition changes at, before or behind an end, and however short the loop is."""
    for condition in CONDITIONS:
        before = transform.LowerOpaqueBlock()(module(PARTED.format(loop=loop, condition=condition)))
        after = transform.LoopPartition()(before)["main"]
        for n, m in itertools.product((0, 1, 2, 5), (0, 3) if "m" in condition or "m" in loop else (0,)):
            wanted = [0] * 32
            for i in LOOPS[loop](n, m):
                wanted[i] += 1
                wanted[i + 16] += eval(condition, {"i": i, "n": n, "m": m})
            counts = np.zeros(32, "int32")
            run_function(after, [counts, np.asarray(n, "int32"), np.asarray(m, "int32")])
            assert counts.tolist() == wanted, (condition, n, m)
