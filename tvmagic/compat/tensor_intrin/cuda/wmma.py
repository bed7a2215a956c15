"""Products of 16 x 16 matrices in fragments of tensor cores (WMMA)."""

from __future__ import annotations

from tvmagic.compat.tensor_intrin.cuda import wmma_memory
from tvmagic.compat.tensor_intrin.cuda.wmma_memory import fragment_number
from tvmagic.errors import TVMagicError
from tvmagic.ir import PrimFunc
from tvmagic.script import tir as T

__all__ = [
    "WMMA_FILL_16x16x16_F16_INTRIN",
    "WMMA_FILL_16x16x16_F32_INTRIN",
    "WMMA_FILL_16x16x16_S32_INTRIN",
    "WMMA_LOAD_16x16x16_F16_A_DYN_INTRIN",
    "WMMA_LOAD_16x16x16_F16_A_INTRIN",
    "WMMA_LOAD_16x16x16_F16_A_TRANS_DYN_INTRIN",
    "WMMA_LOAD_16x16x16_F16_A_TRANS_INTRIN",
    "WMMA_LOAD_16x16x16_F16_B_DYN_INTRIN",
    "WMMA_LOAD_16x16x16_F16_B_INTRIN",
    "WMMA_LOAD_16x16x16_F16_B_TRANS_DYN_INTRIN",
    "WMMA_LOAD_16x16x16_F16_B_TRANS_INTRIN",
    "WMMA_LOAD_16x16x16_S8_A_DYN_INTRIN",
    "WMMA_LOAD_16x16x16_S8_A_INTRIN",
    "WMMA_LOAD_16x16x16_S8_A_TRANS_DYN_INTRIN",
    "WMMA_LOAD_16x16x16_S8_A_TRANS_INTRIN",
    "WMMA_LOAD_16x16x16_S8_B_DYN_INTRIN",
    "WMMA_LOAD_16x16x16_S8_B_INTRIN",
    "WMMA_LOAD_16x16x16_S8_B_TRANS_DYN_INTRIN",
    "WMMA_LOAD_16x16x16_S8_B_TRANS_INTRIN",
    "WMMA_STORE_16x16x16_F16_GLOBAL_INTRIN",
    "WMMA_STORE_16x16x16_F16_SHARED_DYN_INTRIN",
    "WMMA_STORE_16x16x16_F16_SHARED_INTRIN",
    "WMMA_STORE_16x16x16_F32_GLOBAL_INTRIN",
    "WMMA_STORE_16x16x16_F32_SHARED_DYN_INTRIN",
    "WMMA_STORE_16x16x16_F32_SHARED_INTRIN",
    "WMMA_STORE_16x16x16_S32_GLOBAL_INTRIN",
    "WMMA_STORE_16x16x16_S32_SHARED_DYN_INTRIN",
    "WMMA_STORE_16x16x16_S32_SHARED_INTRIN",
    "WMMA_SYNC_16x16x16_f16f16f16_INTRIN",
    "WMMA_SYNC_16x16x16_f16f16f16_TRANS_INTRIN",
    "WMMA_SYNC_16x16x16_f16f16f32_INTRIN",
    "WMMA_SYNC_16x16x16_f16f16f32_TRANS_INTRIN",
    "WMMA_SYNC_16x16x16_s8s8s32_INTRIN",
    "WMMA_SYNC_16x16x16_s8s8s32_TRANS_INTRIN",
    "get_wmma_intrin_group",
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
                    fragment_number(C, c1, m_dim, n_dim),
                    A.data,
                    fragment_number(A, a1, m_dim, k_dim),
                    B.data,
                    fragment_number(B, b1, rows_b, columns_b),
                    C.data,
                    fragment_number(C, c1, m_dim, n_dim),
                )
            )

    return desc, impl


WMMA_SYNC_16x16x16_f16f16f32_INTRIN = "wmma_sync_16x16x16_f16f16f32"
WMMA_SYNC_16x16x16_f16f16f32_TRANS_INTRIN = "wmma_sync_16x16x16_f16f16f32_trans"
WMMA_SYNC_16x16x16_f16f16f16_INTRIN = "wmma_sync_16x16x16_f16f16f16"
WMMA_SYNC_16x16x16_f16f16f16_TRANS_INTRIN = "wmma_sync_16x16x16_f16f16f16_trans"
WMMA_SYNC_16x16x16_s8s8s32_INTRIN = "wmma_sync_16x16x16_s8s8s32"
WMMA_SYNC_16x16x16_s8s8s32_TRANS_INTRIN = "wmma_sync_16x16x16_s8s8s32_trans"

WMMA_LOAD_16x16x16_F16_A_INTRIN = "wmma_load_16x16x16_f16_a_shared"
WMMA_LOAD_16x16x16_F16_A_DYN_INTRIN = "wmma_load_16x16x16_f16_a_shared_dyn"
WMMA_LOAD_16x16x16_F16_A_TRANS_INTRIN = "wmma_load_16x16x16_f16_a_trans_shared"
WMMA_LOAD_16x16x16_F16_A_TRANS_DYN_INTRIN = "wmma_load_16x16x16_f16_a_trans_shared_dyn"
WMMA_LOAD_16x16x16_F16_B_INTRIN = "wmma_load_16x16x16_f16_b_shared"
WMMA_LOAD_16x16x16_F16_B_DYN_INTRIN = "wmma_load_16x16x16_f16_b_shared_dyn"
WMMA_LOAD_16x16x16_F16_B_TRANS_INTRIN = "wmma_load_16x16x16_f16_b_trans_shared"
WMMA_LOAD_16x16x16_F16_B_TRANS_DYN_INTRIN = "wmma_load_16x16x16_f16_b_trans_shared_dyn"
WMMA_LOAD_16x16x16_S8_A_INTRIN = "wmma_load_16x16x16_s8_a_shared"
WMMA_LOAD_16x16x16_S8_A_DYN_INTRIN = "wmma_load_16x16x16_s8_a_shared_dyn"
WMMA_LOAD_16x16x16_S8_A_TRANS_INTRIN = "wmma_load_16x16x16_s8_a_trans_shared"
WMMA_LOAD_16x16x16_S8_A_TRANS_DYN_INTRIN = "wmma_load_16x16x16_s8_a_trans_shared_dyn"
WMMA_LOAD_16x16x16_S8_B_INTRIN = "wmma_load_16x16x16_s8_b_shared"
WMMA_LOAD_16x16x16_S8_B_DYN_INTRIN = "wmma_load_16x16x16_s8_b_shared_dyn"
WMMA_LOAD_16x16x16_S8_B_TRANS_INTRIN = "wmma_load_16x16x16_s8_b_trans_shared"
WMMA_LOAD_16x16x16_S8_B_TRANS_DYN_INTRIN = "wmma_load_16x16x16_s8_b_trans_shared_dyn"
WMMA_FILL_16x16x16_F16_INTRIN = "wmma_fill_16x16x16_f16"
WMMA_STORE_16x16x16_F16_SHARED_INTRIN = "wmma_store_16x16x16_f16_shared"
WMMA_STORE_16x16x16_F16_SHARED_DYN_INTRIN = "wmma_store_16x16x16_f16_shared_dyn"
WMMA_STORE_16x16x16_F16_GLOBAL_INTRIN = "wmma_store_16x16x16_f16_global"
WMMA_FILL_16x16x16_F32_INTRIN = "wmma_fill_16x16x16_f32"
WMMA_STORE_16x16x16_F32_SHARED_INTRIN = "wmma_store_16x16x16_f32_shared"
WMMA_STORE_16x16x16_F32_SHARED_DYN_INTRIN = "wmma_store_16x16x16_f32_shared_dyn"
WMMA_STORE_16x16x16_F32_GLOBAL_INTRIN = "wmma_store_16x16x16_f32_global"
WMMA_FILL_16x16x16_S32_INTRIN = "wmma_fill_16x16x16_s32"
WMMA_STORE_16x16x16_S32_SHARED_INTRIN = "wmma_store_16x16x16_s32_shared"
WMMA_STORE_16x16x16_S32_SHARED_DYN_INTRIN = "wmma_store_16x16x16_s32_shared_dyn"
WMMA_STORE_16x16x16_S32_GLOBAL_INTRIN = "wmma_store_16x16x16_s32_global"


def get_wmma_intrin_group(
    load_scope: str, store_scope: str, in_dtype: str, out_dtype: str, trans_b: bool
) -> dict[str, str]:
    """The names of the intrinsics of one product: `init`, `load_a`, `load_b`, `compute` and `store`.

    load_scope: `shared` or `shared.dyn`; store_scope: `global` too; in_dtype: float16 or int8; out_dtype: float16,
    float32 or int32; trans_b: the right matrix has a column in each row. Raises `TVMagicError` for others.
    """
    short, where = {"float16": "f16", "float32": "f32", "int8": "s8", "int32": "s32"}, load_scope.replace(".", "_")
    source, result = short.get(in_dtype, in_dtype), short.get(out_dtype, out_dtype)
    trans, size = "_trans" if trans_b else "", "16x16x16"
    group = {
        "init": f"wmma_fill_{size}_{result}",
        "load_a": f"wmma_load_{size}_{source}_a_{where}",
        "load_b": f"wmma_load_{size}_{source}_b{trans}_{where}",
        "compute": f"wmma_sync_{size}_{source}{source}{result}{trans}",
        "store": f"wmma_store_{size}_{result}_{store_scope.replace('.', '_')}",
    }
    for name in group.values():
        if name not in INTRINSICS:
            raise TVMagicError(
                f"there is no intrinsic `{name}`",
                hint="the types and scopes are those of the help",
                code="wmma.unknown_intrinsic",
            )
    return group


INTRINSICS = {
    **wmma_memory.INTRINSICS,
    WMMA_SYNC_16x16x16_f16f16f32_INTRIN: get_wmma_sync_intrin(16, 16, 16, "float16", "float32", False),
    WMMA_SYNC_16x16x16_f16f16f32_TRANS_INTRIN: get_wmma_sync_intrin(16, 16, 16, "float16", "float32", True),
    WMMA_SYNC_16x16x16_f16f16f16_INTRIN: get_wmma_sync_intrin(16, 16, 16, "float16", "float16", False),
    WMMA_SYNC_16x16x16_f16f16f16_TRANS_INTRIN: get_wmma_sync_intrin(16, 16, 16, "float16", "float16", True),
    WMMA_SYNC_16x16x16_s8s8s32_INTRIN: get_wmma_sync_intrin(16, 16, 16, "int8", "int32", False),
    WMMA_SYNC_16x16x16_s8s8s32_TRANS_INTRIN: get_wmma_sync_intrin(16, 16, 16, "int8", "int32", True),
}
