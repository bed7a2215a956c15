"""ManifestSharedMemoryLocalStage: copies into shared memory by way of registers, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import check, module, script

import tvmagic as tvm
from tvmagic.errors import TVMagicError
from tvmagic.tir.analysis import verify_well_formed
from tvmagic.tir.transform import ManifestSharedMemoryLocalStage

HEAD = """
def main(A: T.Buffer((64, 16), "float32"), C: T.Buffer((64, 16), "float32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(2, thread="threadIdx.x"):
            with T.block(""):
                T.reads(A[0:64, 0:16])
                T.writes(C[0:64, 0:16])
                S = T.alloc_buffer((64, 16), scope="shared")
{copy}
                for i, j in T.grid(8, 16):
                    with T.block(""):
                        T.reads(S[bx * 16 + tx * 8 + i, j])
                        T.writes(C[bx * 16 + tx * 8 + i, j])
                        C[bx * 16 + tx * 8 + i, j] = S[bx * 16 + tx * 8 + i, j]
"""
COPY = """
for i in range(1, 5):
    for j in T.vectorized(16):
        with T.block("S"):
            T.where(i * 2 < 9)
            T.reads(A[bx * 16 + tx * 8 + i + 3, j])
            T.writes(S[bx * 16 + tx * 8 + i + 3, j])
            T.block_attr({"tir.manifest_shared_memory_local_stage": 1, "kept": 2})
            S[bx * 16 + tx * 8 + i + 3, j] = A[bx * 16 + tx * 8 + i + 3, j] * T.float32(2)
"""
STAGED = """
S_local = T.alloc_buffer((4, 16), scope="local")
for i in range(1, 5):
    for j in T.vectorized(16):
        with T.block(""):
            T.where(i * 2 < 9)
            T.reads(A[bx * 16 + tx * 8 + i + 3, j])
            T.writes(S_local[i - 1, j])
            S_local[i - 1, j] = A[bx * 16 + tx * 8 + i + 3, j] * T.float32(2)
for i in range(1, 5):
    for j in T.vectorized(16):
        with T.block("S"):
            T.where(i * 2 < 9)
            T.reads(S_local[i - 1, j])
            T.writes(S[bx * 16 + tx * 8 + i + 3, j])
            T.block_attr({"kept": 2})
            S[bx * 16 + tx * 8 + i + 3, j] = S_local[i - 1, j]
"""


def program(copy: str) -> str:
    return HEAD.format(copy=copy.strip("\n").replace("\n", "\n" + " " * 16).join([" " * 16, ""]))


def test_loads_are_before_stores() -> None:
    check(ManifestSharedMemoryLocalStage(), program(COPY), program(STAGED))
    assert verify_well_formed(ManifestSharedMemoryLocalStage()(module(program(COPY)))["main"])


def test_results_stay() -> None:
    copy = COPY.replace("range(1, 5)", "range(8)").replace("i + 3", "i").replace("T.where(i * 2 < 9)", "T.where(i < 8)")
    before = module(program(copy))
    after = ManifestSharedMemoryLocalStage()(before)
    assert "S_local" in script(after)
    a = np.random.default_rng(1).random((64, 16)).astype("float32")
    for mod in (before, after):
        c = np.zeros_like(a)
        tvm.build(mod)(a, c)
        np.testing.assert_array_equal(c, a * 2)


def test_programs_without_the_annotation_stay() -> None:
    mod = module(program(COPY.replace("tir.manifest_shared_memory_local_stage", "other")))
    assert ManifestSharedMemoryLocalStage()(mod)["main"] is mod["main"]


def test_only_memory_of_a_block_is_staged() -> None:
    with pytest.raises(TVMagicError, match="`C`"):
        ManifestSharedMemoryLocalStage()(module(program(COPY.replace("S[", "C["))))
