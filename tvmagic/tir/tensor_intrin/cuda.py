"""Products of 16 x 16 matrices in fragments of CUDA's tensor cores (WMMA), and the dot products of four bytes."""

from __future__ import annotations

from tvmagic.ir import PrimFunc
from tvmagic.script import tir as T
from tvmagic.tir.tensor_intrin.dot_product import (
    DP4A_S8S8S32_INTRIN,
    DP4A_S8U8S32_INTRIN,
    DP4A_U8S8S32_INTRIN,
    DP4A_U8U8U32_INTRIN,
)

__all__ = [
    "DP4A_S8S8S32_INTRIN",
    "DP4A_S8U8S32_INTRIN",
    "DP4A_U8S8S32_INTRIN",
    "DP4A_U8U8U32_INTRIN",
    "INTRINSICS",
    "WMMA_SYNC_16x16x16_f16f16f16_INTRIN",
    "WMMA_SYNC_16x16x16_f16f16f16_TRANS_INTRIN",
    "WMMA_SYNC_16x16x16_f16f16f32_INTRIN",
    "WMMA_SYNC_16x16x16_f16f16f32_TRANS_INTRIN",
    "WMMA_SYNC_16x16x16_s8s8s32_INTRIN",
    "WMMA_SYNC_16x16x16_s8s8s32_TRANS_INTRIN",
    "get_wmma_sync_intrin",
]


def get_wmma_sync_intrin(
    m_dim: int, n_dim: int, k_dim: int, in_dtype: str, out_dtype: str, b_transposed: bool
) -> tuple[PrimFunc, PrimFunc]:
    """`C += A @ B` (of B transposed with `b_transposed`) on fragments of `m_dim x k_dim`, `k_dim x n_dim` elements."""
    rows_b, columns_b = (n_dim, k_dim) if b_transposed else (k_dim, n_dim)

    def swapped(row: T.PrimExpr, column: T.PrimExpr) -> tuple[T.PrimExpr, T.PrimExpr]:
        return (column, row) if b_transposed else (row, column)

    def cast(value: T.PrimExpr) -> T.PrimExpr:
        return value if in_dtype == out_dtype else T.Cast(out_dtype, value)

    def fragment(buffer: T.Buffer, stride: T.PrimExpr, rows: int, columns: int) -> T.PrimExpr:
        """The number of a fragment in its array, from its offset."""
        offset = buffer.elem_offset
        return offset // stride // rows * (stride // columns) + offset % stride // columns

    @T.prim_func
    def desc(a: T.handle, b: T.handle, c: T.handle) -> None:  # type: ignore
        A = T.match_buffer(a, (m_dim, k_dim), in_dtype, align=64, offset_factor=k_dim, scope="wmma.matrix_a")
        B = T.match_buffer(b, (rows_b, columns_b), in_dtype, align=64, offset_factor=columns_b, scope="wmma.matrix_b")
        C = T.match_buffer(c, (m_dim, n_dim), out_dtype, align=64, offset_factor=n_dim, scope="wmma.accumulator")
        with T.block("root"):
            T.reads(C[0:m_dim, 0:n_dim], A[0:m_dim, 0:k_dim], B[0:rows_b, 0:columns_b])
            T.writes(C[0:m_dim, 0:n_dim])
            for i, j, k in T.grid(m_dim, n_dim, k_dim):
                with T.block(""):
                    vii, vjj, vkk = T.axis.remap("SSR", [i, j, k])
                    row, column = T.meta_var(swapped(vkk, vjj))
                    C[vii, vjj] = C[vii, vjj] + cast(A[vii, vkk]) * cast(B[row, column])

    @T.prim_func
    def impl(a: T.handle, b: T.handle, c: T.handle) -> None:  # type: ignore
        a1, a0, b1, b0, c1, c0 = T.int32(), T.int32(), T.int32(), T.int32(), T.int32(), T.int32()
        A = T.match_buffer(
            a, (m_dim, k_dim), in_dtype, align=64, offset_factor=k_dim, scope="wmma.matrix_a", strides=[a1, a0]
        )
        B = T.match_buffer(
            b,
            (rows_b, columns_b),
            in_dtype,
            align=64,
            offset_factor=columns_b,
            scope="wmma.matrix_b",
            strides=[b1, b0],
        )
        C = T.match_buffer(
            c, (m_dim, n_dim), out_dtype, align=64, offset_factor=n_dim, scope="wmma.accumulator", strides=[c1, c0]
        )
        with T.block("root"):
            T.reads(C[0:m_dim, 0:n_dim], A[0:m_dim, 0:k_dim], B[0:rows_b, 0:columns_b])
            T.writes(C[0:m_dim, 0:n_dim])
            T.evaluate(
                T.tvm_mma_sync(
                    C.data,
                    fragment(C, c1, m_dim, n_dim),
                    A.data,
                    fragment(A, a1, m_dim, k_dim),
                    B.data,
                    fragment(B, b1, rows_b, columns_b),
                    C.data,
                    fragment(C, c1, m_dim, n_dim),
                )
            )

    return desc, impl


WMMA_SYNC_16x16x16_f16f16f32_INTRIN = "wmma_sync_16x16x16_f16f16f32"
WMMA_SYNC_16x16x16_f16f16f32_TRANS_INTRIN = "wmma_sync_16x16x16_f16f16f32_trans"
WMMA_SYNC_16x16x16_f16f16f16_INTRIN = "wmma_sync_16x16x16_f16f16f16"
WMMA_SYNC_16x16x16_f16f16f16_TRANS_INTRIN = "wmma_sync_16x16x16_f16f16f16_trans"
WMMA_SYNC_16x16x16_s8s8s32_INTRIN = "wmma_sync_16x16x16_s8s8s32"
WMMA_SYNC_16x16x16_s8s8s32_TRANS_INTRIN = "wmma_sync_16x16x16_s8s8s32_trans"

INTRINSICS = {
    WMMA_SYNC_16x16x16_f16f16f32_INTRIN: get_wmma_sync_intrin(16, 16, 16, "float16", "float32", False),
    WMMA_SYNC_16x16x16_f16f16f32_TRANS_INTRIN: get_wmma_sync_intrin(16, 16, 16, "float16", "float32", True),
    WMMA_SYNC_16x16x16_f16f16f16_INTRIN: get_wmma_sync_intrin(16, 16, 16, "float16", "float16", False),
    WMMA_SYNC_16x16x16_f16f16f16_TRANS_INTRIN: get_wmma_sync_intrin(16, 16, 16, "float16", "float16", True),
    WMMA_SYNC_16x16x16_s8s8s32_INTRIN: get_wmma_sync_intrin(16, 16, 16, "int8", "int32", False),
    WMMA_SYNC_16x16x16_s8s8s32_TRANS_INTRIN: get_wmma_sync_intrin(16, 16, 16, "int8", "int32", True),
}
