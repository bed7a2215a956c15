"""Threads as loops: values that threads share."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import module

from tvmagic.eval.machine import run_function
from tvmagic.ir import IfThenElse
from tvmagic.ir.query import nodes_of
from tvmagic.tir import transform


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_shared_value_is_written_once(threads: int) -> None:
    """By the first of them, before others read it into memory of their own."""
    text = f"""def main(A: T.Buffer((2, 8), "int32"), B: T.Buffer((2, {threads}), "int32"), C: T.Buffer((2,), "int32")):
    i = T.launch_thread("blockIdx.x", 2)
    L = T.allocate([1], "int32", "local")
    l = T.Buffer((1,), "int32", data=L, scope="local")
    S = T.allocate([{threads}], "int32", "shared")
    s = T.Buffer(({threads},), "int32", data=S, scope="shared")
    C[i] = C[i] + A[i, 3]
    l[0] = C[i] * 2
    threadIdx_x = T.launch_thread("threadIdx.x", {threads})
    s[threadIdx_x] = l[0] + A[i, threadIdx_x]
    T.tvm_storage_sync("shared")
    B[i, threadIdx_x] = s[{threads - 1} - threadIdx_x]"""
    given, outs = np.arange(5, 21, dtype="int32").reshape(2, 8), np.zeros((2, threads), "int32")
    total = np.array([100, 200], "int32")
    wanted = total + given[:, 3]
    run_function(transform.ThreadsAsLoops()(module(text))["main"], [given, outs, total])
    np.testing.assert_array_equal(total, wanted)
    np.testing.assert_array_equal(outs, (wanted[:, None] * 2 + given[:, :threads])[:, ::-1])


def test_block_reads_value_of_first_thread() -> None:
    """It is written once, without a question for each thread."""
    text = """def main(A: T.Buffer((2, 8), "int32"), C: T.Buffer((2,), "int32")):
    i = T.launch_thread("blockIdx.x", 2)
    L = T.allocate([1], "int32", "local")
    l = T.Buffer((1,), "int32", data=L, scope="local")
    S = T.allocate([8], "int32", "shared")
    s = T.Buffer((8,), "int32", data=S, scope="shared")
    with T.launch_thread("threadIdx.x", 8) as tx:
        s[tx] = A[i, tx]
        T.tvm_storage_sync("shared")
        l[0] = s[7 - tx]
    C[i] = C[i] + l[0]"""
    after = transform.ThreadsAsLoops()(module(text))["main"]
    assert not nodes_of(after.body, IfThenElse)
    given, total = np.arange(5, 21, dtype="int32").reshape(2, 8), np.array([100, 200], "int32")
    run_function(after, [given, total])
    np.testing.assert_array_equal(total, [100, 200] + given[:, 7])
