"""Dot products of four bytes on GPUs, `C[0] += sum(A[k] * B[k] for k in range(4))`, by CUDA's `__dp4a`."""

from __future__ import annotations

from tvmagic.ir import PrimFunc
from tvmagic.script import tir as T
from tvmagic.tir.tensor_intrin.dot_product import (
    DP4A_S8S8S32_INTRIN,
    DP4A_S8U8S32_INTRIN,
    DP4A_U8S8S32_INTRIN,
    DP4A_U8U8U32_INTRIN,
)


def get_dp4a_intrin(dtype_a: str, dtype_b: str, dtype_c: str) -> tuple[PrimFunc, PrimFunc]:
    """The product of two groups of four bytes of these types in shared memory, added to a word of a thread's own."""
    bytes_of_a, bytes_of_b = f"{dtype_a}x4", f"{dtype_b}x4"
    of_inputs = {"offset_factor": 1, "align": 4, "scope": "shared"}
    of_output = {"offset_factor": 1, "align": 4, "scope": "local"}

    @T.prim_func
    def dp4a_desc(a: T.handle, b: T.handle, c: T.handle) -> None:  # type: ignore
        A = T.match_buffer(a, (4,), dtype_a, **of_inputs)
        B = T.match_buffer(b, (4,), dtype_b, **of_inputs)
        C = T.match_buffer(c, (1,), dtype_c, **of_output)
        with T.block("root"):
            T.reads(C[0], A[0:4], B[0:4])
            T.writes(C[0])
            for i in range(4):
                with T.block("update"):
                    vi = T.axis.remap("R", [i])
                    C[0] = C[0] + T.cast(A[vi], dtype_c) * T.cast(B[vi], dtype_c)

    @T.prim_func
    def dp4a_impl(a: T.handle, b: T.handle, c: T.handle) -> None:  # type: ignore
        A = T.match_buffer(a, (4,), dtype_a, **of_inputs)
        B = T.match_buffer(b, (4,), dtype_b, **of_inputs)
        C = T.match_buffer(c, (1,), dtype_c, **of_output)
        with T.block("root"):
            T.reads(C[0], A[0:4], B[0:4])
            T.writes(C[0])
            C[0] += T.call_pure_extern(
                dtype_c, "__dp4a", A.vload([0], bytes_of_a), B.vload([0], bytes_of_b), T.cast(0, dtype_c)
            )

    return dp4a_desc, dp4a_impl


INTRINSICS = {
    DP4A_S8S8S32_INTRIN: get_dp4a_intrin("int8", "int8", "int32"),
    DP4A_S8U8S32_INTRIN: get_dp4a_intrin("int8", "uint8", "int32"),
    DP4A_U8S8S32_INTRIN: get_dp4a_intrin("uint8", "int8", "int32"),
    DP4A_U8U8U32_INTRIN: get_dp4a_intrin("uint8", "uint8", "uint32"),
}
