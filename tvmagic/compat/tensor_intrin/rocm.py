"""The dot product of AMD's GPUs: four bytes by four bytes, added to a word (`V_DOT4_I32_I8`)."""

from __future__ import annotations

from tvmagic.script import tir as T
from tvmagic.tir.tensor_intrin.dot_product_common import DP4A_S8S8S32_INTRIN
from tvmagic.tir.tensor_intrin.dot_product_common import INTRINSICS as COMMON

__all__ = ["AMDGPU_SDOT4_INTRIN", "INTRINSICS"]

AMDGPU_SDOT4_INTRIN = "sdot4"


@T.prim_func
def sdot4(a: T.handle, b: T.handle, c: T.handle) -> None:  # type: ignore
    """`C[0] += sum(A * B)` by one instruction."""
    A = T.match_buffer(a, (4,), "int8", offset_factor=1, align=4, scope="shared")
    B = T.match_buffer(b, (4,), "int8", offset_factor=1, align=4, scope="shared")
    C = T.match_buffer(c, (1,), "int32", offset_factor=1, align=4, scope="local")
    with T.block("root"):
        T.reads(C[0], A[0:4], B[0:4])
        T.writes(C[0])
        C[0] += T.call_llvm_pure_intrin(
            "int32",
            "llvm.amdgcn.sdot4",
            T.reinterpret("int32", A.vload([0], "int8x4")),
            T.reinterpret("int32", B.vload([0], "int8x4")),
            T.int32(0),
            T.bool(True),
        )


INTRINSICS = {AMDGPU_SDOT4_INTRIN: (COMMON[DP4A_S8S8S32_INTRIN][0], sdot4)}
