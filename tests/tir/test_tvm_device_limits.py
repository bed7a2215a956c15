"""Questions on functions for GPUs: who accesses memory, and whether kernels keep to limits."""

from __future__ import annotations

import pytest
from pass_checks import module, parse

import tvmagic as tvm
from tvmagic.errors import TVMagicError
from tvmagic.tir.analysis import (
    calculate_allocated_bytes,
    calculate_constant_bytes,
    calculate_workspace_bytes,
    verify_gpu_code,
    verify_memory,
)
from tvmagic.tir.transform import VerifyMemory

BOUND = """
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    b = T.launch_thread("blockIdx.x", 8)
    t = T.launch_thread("threadIdx.x", 8)
    B[b * 8 + t] = A[b * 8 + t]
"""
SERIAL = """
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        B[i] = A[i]
"""
HALF = """
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    with T.launch_thread("threadIdx.x", 64) as t:
        B[t] = A[t]
    B[0] = T.float32(1)
"""


@pytest.mark.parametrize(
    ("text", "target", "holds"),
    [
        (BOUND, "cuda", True),
        (SERIAL, "cuda", False),
        (HALF, "cuda", False),
        (SERIAL, "opencl", False),
        (SERIAL, "llvm", True),
    ],
)
def test_a_gpu_has_its_memory_accessed_by_threads(text: str, target: str, holds: bool) -> None:
    func = parse(text).with_attr("target", tvm.target.Target(target))
    assert verify_memory(func) is holds
    mod = tvm.IRModule({"main": func})
    if holds:
        assert VerifyMemory()(mod)["main"] is func
        return
    with pytest.raises(RuntimeError, match="Did you forget to bind"):
        VerifyMemory()(mod)


def test_memory_of_which_device_must_be_known() -> None:
    with pytest.raises(TVMagicError, match="`target`"):
        VerifyMemory()(module(SERIAL))


KERNEL = """
def main(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
    b = T.launch_thread("blockIdx.x", 4)
    t = T.launch_thread("threadIdx.x", 16)
    u = T.launch_thread("threadIdx.y", 4)
    v = T.launch_thread("vthread.x", 2)
    S_data = T.allocate([64], "float32", "shared")
    S = T.decl_buffer((64,), data=S_data, scope="shared")
    L_data = T.allocate([8], "float32", "local")
    L = T.decl_buffer((8,), data=L_data, scope="local")
    S[t * 4 + u] = A[t]
    L[0:4] = A[T.Ramp(t * 4, 1, 4)]
    B[b] = S[t] + L[v]
"""


@pytest.mark.parametrize(
    ("limit", "taken"),
    [
        ("max_shared_memory_per_block", 256),
        ("max_local_memory_per_block", 32),
        ("max_threads_per_block", 64),
        ("max_thread_x", 16),
        ("max_thread_y", 4),
        ("max_vthread", 2),
        ("max_vector_bytes", 16),
        ("max_kernels", 1),
    ],
)
def test_limits_of_kernels(limit: str, taken: int) -> None:
    func = parse(KERNEL)
    assert verify_gpu_code(func, {limit: taken, "max_thread_z": 1})
    assert not verify_gpu_code(func, {limit: taken - 1})


def test_limits_of_several_kernels() -> None:
    twice = """
        def main(A: T.Buffer((64,), "float32")):
            for i in range(2):
                with T.launch_thread("threadIdx.x", 8) as t:
                    A[t] = T.float32(1)
                with T.launch_thread("threadIdx.x", 16) as t:
                    A[t] = T.float32(2)
        """
    assert verify_gpu_code(parse(twice), {"max_threads_per_block": 16, "max_kernels": 2})
    assert not verify_gpu_code(parse(twice), {"max_kernels": 1})
    assert not verify_gpu_code(parse(twice), {"max_threads_per_block": 15})
    unequal = """
        def main(A: T.Buffer((64,), "float32")):
            with T.launch_thread("blockIdx.x", 8) as b:
                with T.launch_thread("threadIdx.x", 8) as t:
                    A[t] = T.float32(1)
                with T.launch_thread("threadIdx.x", 16) as s:
                    A[s + b] = T.float32(2)
        """
    assert not verify_gpu_code(parse(unequal), {})
    with pytest.raises(TVMagicError, match="no limit `max_warps`"):
        verify_gpu_code(parse(twice), {"max_warps": 3})


def test_bytes_of_allocations_and_constants() -> None:
    func = parse(
        """
        def main(A: T.Buffer((8,), "float32")):
            K = T.allocate_const([1, 2, 3], "int16", [3])
            with T.allocate([5], "float32", "global") as p:
                P = T.Buffer((5,), data=p)
                P[0] = A[0]
            with T.allocate([9], "int8", "global") as q:
                Q = T.Buffer((9,), "int8", data=q)
                Q[0] = T.int8(1)
        """
    )
    assert (calculate_workspace_bytes(func, 1), calculate_workspace_bytes(func, 16)) == (20, 32)
    assert (calculate_constant_bytes(func, 1), calculate_constant_bytes(func, 8)) == (6, 8)
    vectors = parse(
        """
        def main():
            with T.allocate([5], "float32x4", "global") as p:
                T.evaluate(p)
        """
    )
    assert calculate_allocated_bytes(vectors) == {"main": {"global": 80}}
