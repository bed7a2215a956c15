"""DefaultGPUSchedule: what it binds, that results stay, and what it leaves alone."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import check, module, parse

import tvmagic as tvm
from tvmagic.errors import TVMagicError
from tvmagic.tir.transform import DefaultGPUSchedule

ADD = """
def main(A: T.Buffer(({n}, 4), "float32"), B: T.Buffer(({n}, 4), "float32")):
    for i, j in T.grid({n}, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(B[vi, vj])
            B[vi, vj] = A[vi, vj] + T.float32(1)
"""


def test_parallel_loops_are_fused_and_bound() -> None:
    with tvm.target.Target("cuda"):
        check(
            DefaultGPUSchedule(),
            ADD.format(n=300),
            """
            def main(A: T.Buffer((300, 4), "float32"), B: T.Buffer((300, 4), "float32")):
                for i_j_fused_0 in T.thread_binding(2, thread="blockIdx.x"):
                    for i_j_fused_1 in T.thread_binding(1024, thread="threadIdx.x"):
                        with T.block("B"):
                            vi = T.axis.spatial(300, (i_j_fused_0 * 1024 + i_j_fused_1) // 4)
                            vj = T.axis.spatial(4, (i_j_fused_0 * 1024 + i_j_fused_1) % 4)
                            T.where(i_j_fused_0 * 1024 + i_j_fused_1 < 1200)
                            T.reads(A[vi, vj])
                            T.writes(B[vi, vj])
                            B[vi, vj] = A[vi, vj] + T.float32(1)
            """,
        )


def test_many_iterations_are_a_loop_in_each_thread() -> None:
    with tvm.target.Target("opencl"):
        text = DefaultGPUSchedule()(module(ADD.format(n=30000)))["main"].script()
    assert 'i_j_fused_1 in T.thread_binding(256, thread="blockIdx.x")' in text
    assert 'i_j_fused_2 in T.thread_binding(256, thread="threadIdx.x")' in text
    assert "for i_j_fused_0 in range(2)" in text


PROGRAM = """
def main(A: T.Buffer((16, 4), "float32"), C: T.Buffer((16, 8), "float32"), F: T.Buffer((16, 8), "float32"), D: T.Buffer((1,), "float32"), E: T.Buffer((1,), "float32")):
    B = T.alloc_buffer((16, 8))
    for i, k, j in T.grid(16, 4, 8):
        with T.block("B"):
            vi, vk, vj = T.axis.remap("SRS", [i, k, j])
            with T.init():
                B[vi, vj] = T.float32(0)
            B[vi, vj] = B[vi, vj] + A[vi, vk]
    for i in range(16):
        for j in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] * T.float32(2)
        for j in range(8):
            with T.block("F"):
                vi, vj = T.axis.remap("SS", [i, j])
                F[vi, vj] = C[vi, vj] + T.float32(1)
    with T.block("D"):
        vi = T.axis.spatial(1, 0)
        D[0] = C[0, 0]
    for k in range(16):
        with T.block("E"):
            vk = T.axis.reduce(16, k)
            with T.init():
                E[0] = T.float32(0)
            E[0] = E[0] + A[vk, 0]
"""


def test_every_block_runs_in_threads_and_computes_the_same() -> None:
    with tvm.target.Target("cuda"):
        mod = DefaultGPUSchedule()(module(PROGRAM))
        assert DefaultGPUSchedule()(mod)["main"].script() == mod["main"].script()  # what is scheduled stays
    a = np.arange(64, dtype="float32").reshape(16, 4)
    c, f, d, e = (np.zeros(shape, "float32") for shape in ((16, 8), (16, 8), 1, 1))
    tvm.build(mod, target="llvm")(a, c, f, d, e)
    np.testing.assert_array_equal(c, np.repeat(a.sum(1, keepdims=True) * 2, 8, 1))
    np.testing.assert_array_equal(f, c + 1)
    assert d[0] == c[0, 0] and e[0] == a[:, 0].sum()


NESTED = """
def main(A: T.Buffer((2, 3, 4, 5), "float32"), B: T.Buffer((2, 3, 4, 5), "float32"), C: T.Buffer((2, 3, 4, 5), "float32")):
{loops}
                with T.block("B"):
                    v0, v1, v2, v3 = T.axis.remap("SSSS", [i, j, k, l])
                    B[v0, v1, v2, v3] = A[v0, v1, v2, v3] * T.float32(2)
{again}
                with T.block("C"):
                    v0, v1, v2, v3 = T.axis.remap("SSSS", [i, j, k, l])
                    C[v0, v1, v2, v3] = B[v0, v1, v2, v3] + T.float32(1)
"""


@pytest.mark.parametrize("shared", [1, 2, 3])
def test_only_the_loops_down_to_the_first_of_several_blocks_are_fused(shared: int) -> None:
    names = {"i": 2, "j": 3, "k": 4, "l": 5}
    outer, inner = list(names)[:shared], list(names)[shared:]
    deep = f"{' ' * 8}for {', '.join(inner)} in T.grid({', '.join(str(names[n]) for n in inner)}):"
    loops = f"    for {', '.join(outer)} in T.grid({', '.join(str(names[n]) for n in outer)}):\n{deep}"
    with tvm.target.Target("cuda"):
        mod = DefaultGPUSchedule()(module(NESTED.format(loops=loops, again=deep)))
    text = mod["main"].script()
    fused = "_".join(outer) + "_fused"
    assert f'{fused}_0 in T.thread_binding(1, thread="blockIdx.x")' in text
    assert all(f"{name}_fused" not in text for name in inner)
    a = np.arange(120, dtype="float32").reshape(2, 3, 4, 5)
    b, c = np.zeros_like(a), np.zeros_like(a)
    tvm.build(mod, target="llvm")(a, b, c)
    np.testing.assert_array_equal(c, a * 2 + 1)


def test_what_stays_and_what_is_refused() -> None:
    mod = module(ADD.format(n=8))
    with pytest.raises(TVMagicError, match="needs a target"):
        DefaultGPUSchedule()(mod)
    with tvm.target.Target("llvm"):
        assert DefaultGPUSchedule()(mod) is mod
    scheduled = tvm.IRModule({"main": parse(ADD.format(n=8)).with_attr("tir.is_scheduled", True)})
    with tvm.target.Target("cuda"):
        assert DefaultGPUSchedule()(scheduled) is scheduled
