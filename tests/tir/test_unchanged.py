"""A pass returns the same object where it changed nothing, so that who asks whether something happened compares with `is`."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from pass_checks import module

from tvmagic.errors import TVMagicError
from tvmagic.ir import IRModule, structural_equal
from tvmagic.tir.transform import all_passes

PROGRAMS = {
    "blocks": """def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32"), n: T.int32):
    B = T.alloc_buffer((8, 8))
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(i < n)
            T.reads(A[vi, vj])
            T.writes(B[vi, vj])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, k in T.grid(8, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(B[vi, vk])
            T.writes(C[vi, 0])
            T.block_attr({"note": 1})
            with T.init():
                C[vi, 0] = T.float32(0)
            D = T.match_buffer(B[vi, vk], (), strides=[], offset_factor=1)
            C[vi, 0] = C[vi, 0] + B[vi, vk]""",
    "opaque": """def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32"), n: T.int32):
    for i in T.serial(8, annotations={"note": 1}):
        with T.block("copy"):
            T.reads(A[i * 8:i * 8 + 8])
            T.writes(C[i * 8:i * 8 + 8])
            for j in range(8):
                if i < n:
                    C[i * 8 + j] = A[i * 8 + j]""",
    "flat": """def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32"), n: T.int32):
    T.func_attr({"tir.noalias": T.bool(True), "target": T.target({"kind": "llvm", "keys": ["cpu"], "tag": ""})})
    B = T.allocate([8], "float32", "global")
    B_1 = T.Buffer((8,), data=B)
    for i in range(8):
        for j in T.parallel(8):
            B_1[j] = A[i * 8 + j] + T.exp(A[n])
        with T.LetStmt(i * n) as m:
            if m < 5:
                C[i] = T.if_then_else(n < m, B_1[i] * T.float32(2), T.float32(1))
            else:
                C[i] = T.Select(n < m, T.max(B_1[i], A[m]), T.Cast("float32", m))
        C[i * 8:i * 8 + 8] = B_1[0:8] * T.Broadcast(A[n], 8)""",
    "others": """def main(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32"), n: T.int32):
    T.func_attr({"target": T.target({"kind": "llvm", "keys": ["cpu"], "tag": ""})})
    assert n < 64, "too many"
    with T.attr(A.data, "volatile_scope", 1):
        while C[0] < n:
            C[0] = C[0] + T.shift_right(A[C[0] % 64], 2)
    T.evaluate(T.call_extern("int32", "f", T.address_of(C[n])))
    for i in T.vectorized(4):
        C[i] = A[i] * n""",
    "kernel": """def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    T.func_attr({"target": T.target({"kind": "cuda", "keys": ["cuda", "gpu"], "tag": "", "max_num_threads": 1024, "thread_warp_size": 32})})
    bx = T.launch_thread("blockIdx.x", 2)
    S = T.allocate([32], "float32", "shared")
    tx = T.launch_thread("threadIdx.x", 32)
    S_1 = T.Buffer((32,), data=S, scope="shared")
    S_1[tx] = A[bx * 32 + tx]
    T.tvm_storage_sync("shared")
    C[bx * 32 + tx] = S_1[31 - tx]""",
}


# These make an equal function again when they found nothing to do.
REBUILT = {
    "BF16StorageLegalize", "FP8StorageLegalize", "FlattenBuffer", "HoistExpression", "HoistIfThenElse", "KernelMemory",
    "Simplify", "StorageRewrite",
}  # fmt: skip


def applied(name: str, mod: IRModule) -> Any:
    """What a pass makes of a module; None if it needs arguments or refuses the module."""
    make = all_passes()[name]
    if any(p.default is p.empty for p in inspect.signature(make).parameters.values()):
        return None
    try:
        return make()(mod)
    except TVMagicError:
        return None


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_not_changed_is_the_same(program: str) -> None:
    mod = module(PROGRAMS[program])
    unchanged: list[str] = []
    for name in sorted(all_passes().keys() - REBUILT - {"PrintIR"}):
        new = applied(name, mod)
        if isinstance(new, IRModule) and len(new.functions) == 1:
            before, after = mod["main"], next(iter(new.functions.values()))
            if structural_equal(before, after, True):
                assert after is before, name
                unchanged.append(name)
    assert len(unchanged) > 30
