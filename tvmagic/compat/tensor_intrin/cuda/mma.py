"""Products of 16 x 16 matrices in the registers of a warp, by PTX's `ldmatrix` and `mma`, as descriptions and calls.

A warp's registers are a buffer of 32 threads x the elements that each thread holds, in memory `warp`; a layout says
which thread holds which element of a tile, and at which place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import IntImm, PrimFunc
from tvmagic.script import tir as T

__all__ = [
    "LDMATRIX_f16_A_DYN_INTRIN",
    "LDMATRIX_f16_A_INTRIN",
    "LDMATRIX_f16_B_DYN_INTRIN",
    "LDMATRIX_f16_B_INTRIN",
    "LDMATRIX_f16_B_TRANS_DYN_INTRIN",
    "LDMATRIX_f16_B_TRANS_INTRIN",
    "LDMATRIX_i8_A_DYN_INTRIN",
    "LDMATRIX_i8_A_INTRIN",
    "LDMATRIX_i8_B_DYN_INTRIN",
    "LDMATRIX_i8_B_INTRIN",
    "LDMATRIX_i8_B_TRANS_DYN_INTRIN",
    "LDMATRIX_i8_B_TRANS_INTRIN",
    "MMA_f16f16f16_INTRIN",
    "MMA_f16f16f16_TRANS_B_INTRIN",
    "MMA_f16f16f32_INTRIN",
    "MMA_f16f16f32_TRANS_B_INTRIN",
    "MMA_fill_16x16_f16_INTRIN",
    "MMA_fill_16x16_f32_INTRIN",
    "MMA_fill_16x16_i32_INTRIN",
    "MMA_i8i8i32_INTRIN",
    "MMA_i8i8i32_TRANS_B_INTRIN",
    "MMA_store_16x16_f16_global_INTRIN",
    "MMA_store_16x16_f32_global_INTRIN",
    "MMA_store_16x16_i32_global_INTRIN",
    "get_ldmatrix_intrin",
    "get_mma_fill_intrin",
    "get_mma_intrin",
    "get_mma_intrin_group",
    "get_mma_store_intrin",
    "ldmatrix_32x8_to_shared_16x16_layout",
    "shared_16x16_to_ldmatrix_32x8_layout",
    "shared_16x32_to_ldmatrix_32x16_layout",
    "shared_32x16_to_ldmatrix_32x16_layout",
]

N = 16  # rows and columns of a tile of sums
WARP = 32
_SHORT = {"float16": "f16", "float32": "f32", "int8": "i8", "int32": "i32"}
_OF_PTX = {"float16": "fp16", "float32": "fp32", "int8": "int8", "int32": "int32"}
_Layout = Callable[[Any, Any], tuple[Any, Any]]

# ---------------------------------------------------------------------------- layouts


def shared_16x16_to_ldmatrix_32x8_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """The thread and the place of element (i, j) of a tile of 16 x 16 elements of 2 bytes (or sums)."""
    return 4 * (i % 8) + (j % 8) // 2, 4 * (j // 8) + (i // 8) * 2 + (j % 2)


def ldmatrix_32x8_to_shared_16x16_layout(thread_id: Any, local_id: Any) -> tuple[Any, Any]:
    """The row and the column of what a thread holds of a tile of 16 x 16."""
    row = 8 * (local_id % 4 // 2) + (thread_id // 4)
    return row, 8 * (local_id // 4) + (thread_id % 4) * 2 + (local_id % 2)


def shared_16x32_to_ldmatrix_32x16_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """The thread and the place of element (i, j) of a tile of 16 x 32 elements of 1 byte."""
    return 4 * (i % 8) + (j % 16) // 4, 8 * (j // 16) + (i // 8) * 4 + j % 4


def shared_32x16_to_ldmatrix_32x16_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """The thread and the place of element (i, j) of a tile of 32 x 16 elements of 1 byte."""
    return (i % 16) // 4 + 4 * (j % 8), 8 * (j // 8) + (i // 16) * 4 + i % 4


def _layout(dtype: str, by_columns: bool) -> _Layout:
    """The layout of a tile of an input, whose reduced axis is the first one with `by_columns`."""
    if dtype == "float16":
        return shared_16x16_to_ldmatrix_32x8_layout
    return shared_32x16_to_ldmatrix_32x16_layout if by_columns else shared_16x32_to_ldmatrix_32x16_layout


def _check_input(k_dim: int, dtype: str) -> None:
    if (k_dim, dtype) not in ((16, "float16"), (32, "int8")):
        raise TVMagicError(
            f"there is no instruction that multiplies {k_dim} elements of `{dtype}` in a row",
            hint="the inputs are 16 of float16, or 32 of int8",
            code="mma.unsupported_input",
        )


# ---------------------------------------------------------------------------- loading


def _row_of_thread(tx: Any, stride: Any, dtype: str, k_dim: int, by_columns: bool, transposed: bool) -> Any:
    """Where the row begins whose address a thread gives to `ldmatrix`."""
    if dtype == "int8" and by_columns:
        return stride  # bytes cannot be transposed on the way: the call stands for a loop, which needs the stride
    wide = k_dim // 2
    if transposed:
        return stride * 8 * (tx // 16) + stride * (tx % 8) + wide * ((tx % 16) // 8)
    return stride * (tx % 16) + wide * (tx // 16)


def get_ldmatrix_intrin(
    k_dim: int, dtype: str, matrix_name: str, transposed: bool, shared_scope: str = "shared"
) -> tuple[PrimFunc, PrimFunc]:
    """A tile of an input, loaded from shared memory into the registers of a warp.

    k_dim: the length of the sums, 16 of float16 or 32 of int8; matrix_name: `A` or `B`; transposed: a row of the
    tile of `B` in memory is a column of the matrix. Raises `TVMagicError` for others.
    """
    _check_input(k_dim, dtype)
    if matrix_name not in ("A", "B") or (matrix_name == "A" and transposed):
        raise TVMagicError(
            f"`ldmatrix` loads `A`, `B`, or `B` transposed, not `{matrix_name}` that way", code="mma.unsupported_load"
        )
    by_columns = matrix_name == "B" and not transposed
    rows, columns = (k_dim, N) if by_columns else (N, k_dim)
    size, layout = N * k_dim // WARP, _layout(dtype, by_columns)

    @T.prim_func
    def desc(warp_handle: T.handle, shared_handle: T.handle) -> None:  # type: ignore
        shared = T.match_buffer(
            shared_handle, (rows, columns), dtype, align=64, offset_factor=columns, scope=shared_scope
        )
        warp = T.match_buffer(warp_handle, (WARP, size), dtype, align=64, offset_factor=size, scope="warp")
        with T.block("root"):
            T.reads(shared[0:rows, 0:columns])
            T.writes(warp[0:WARP, 0:size])
            for ax0, ax1 in T.grid(rows, columns):
                with T.block("shared_warp"):
                    v0, v1 = T.axis.remap("SS", [ax0, ax1])
                    T.reads(shared[v0, v1])
                    thread_id, local_id = T.meta_var(layout(v0, v1))
                    T.writes(warp[thread_id, local_id])
                    warp[thread_id, local_id] = shared[v0, v1]

    @T.prim_func
    def impl(warp_handle: T.handle, shared_handle: T.handle) -> None:  # type: ignore
        s0, s1 = T.int32(), T.int32()
        shared = T.match_buffer(
            shared_handle, (rows, columns), dtype, strides=[s0, s1], align=64, offset_factor=columns, scope=shared_scope
        )
        warp = T.match_buffer(warp_handle, (WARP, size), dtype, align=64, offset_factor=size, scope="warp")
        with T.block("root"):
            T.reads(shared[0:rows, 0:columns])
            T.writes(warp[0:WARP, 0:size])
            for tx in T.thread_binding(0, WARP, "threadIdx.x"):
                place = T.meta_var(_row_of_thread(tx, s0, dtype, k_dim, by_columns, transposed))
                to = T.meta_var(warp.elem_offset + size * tx)
                T.evaluate(T.ptx_ldmatrix(dtype, by_columns, 4, ".b16", warp.data, to, shared.access_ptr("r"), place))

    return desc, impl


# ---------------------------------------------------------------------------- multiplying


def get_mma_intrin(k_dim: int, in_dtype: str, out_dtype: str, b_transposed: bool) -> tuple[PrimFunc, PrimFunc]:
    """`C += A @ B` (of B transposed with `b_transposed`) in the registers of a warp.

    k_dim: the length of the sums, 16 of float16 or 32 of int8. Raises `TVMagicError` for others.
    """
    _check_input(k_dim, in_dtype)
    size, out_size, instruction = N * k_dim // WARP, N * N // WARP, f"m16n8k{k_dim}"
    of_a, of_b, of_c = _layout(in_dtype, False), _layout(in_dtype, not b_transposed), _layout("float16", False)
    source, result = _OF_PTX[in_dtype], _OF_PTX[out_dtype]

    def swapped(row: Any, column: Any) -> tuple[Any, Any]:
        return (column, row) if b_transposed else (row, column)

    def cast(value: T.PrimExpr) -> T.PrimExpr:
        return value if in_dtype == out_dtype else T.Cast(out_dtype, value)

    def half(A: Any, B: Any, C: Any, tx: Any, of_b: int, of_c: int) -> Any:
        parts = (A, size, 0), (B, size, of_b), (C, out_size, of_c)
        places = [v for part, width, after in parts for v in (part.data, part.elem_offset + tx * width + after)]
        return T.ptx_mma(out_dtype, instruction, "row", "col", source, source, result, *places, False)

    @T.prim_func
    def desc(a: T.handle, b: T.handle, c: T.handle) -> None:  # type: ignore
        A = T.match_buffer(a, (WARP, size), in_dtype, align=64, offset_factor=k_dim, scope="warp")
        B = T.match_buffer(
            b, (WARP, size), in_dtype, align=64, offset_factor=k_dim if b_transposed else N, scope="warp"
        )
        C = T.match_buffer(c, (WARP, out_size), out_dtype, align=64, offset_factor=N, scope="warp")
        with T.block("root"):
            T.reads(C[0:WARP, 0:out_size], A[0:WARP, 0:size], B[0:WARP, 0:size])
            T.writes(C[0:WARP, 0:out_size])
            for i, j, k in T.grid(N, N, k_dim):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    row_b, column_b = T.meta_var(swapped(vk, vj))
                    thread_c, place_c = T.meta_var(of_c(vi, vj))
                    thread_a, place_a = T.meta_var(of_a(vi, vk))
                    thread_b, place_b = T.meta_var(of_b(row_b, column_b))
                    T.reads(C[thread_c, place_c], A[thread_a, place_a], B[thread_b, place_b])
                    T.writes(C[thread_c, place_c])
                    C[thread_c, place_c] = C[thread_c, place_c] + cast(A[thread_a, place_a]) * cast(
                        B[thread_b, place_b]
                    )

    @T.prim_func
    def impl(a: T.handle, b: T.handle, c: T.handle) -> None:  # type: ignore
        A = T.match_buffer(a, (WARP, size), in_dtype, align=64, offset_factor=k_dim, scope="warp")
        B = T.match_buffer(
            b, (WARP, size), in_dtype, align=64, offset_factor=k_dim if b_transposed else N, scope="warp"
        )
        C = T.match_buffer(c, (WARP, out_size), out_dtype, align=64, offset_factor=N, scope="warp")
        with T.block("root"):
            T.reads(C[0:WARP, 0:out_size], A[0:WARP, 0:size], B[0:WARP, 0:size])
            T.writes(C[0:WARP, 0:out_size])
            for tx in T.thread_binding(0, WARP, "threadIdx.x"):
                # one instruction makes 8 of the 16 columns
                T.evaluate(half(A, B, C, tx, 0, 0))
                T.evaluate(half(A, B, C, tx, size // 2, out_size // 2))

    return desc, impl


# ---------------------------------------------------------------------------- sums


def get_mma_fill_intrin(dtype: str, local_size: int) -> tuple[PrimFunc, PrimFunc]:
    """A tile of sums filled with zeros; `local_size` is the number of elements of each thread."""
    zero, layout = IntImm("int32", 0).astype(dtype), shared_16x16_to_ldmatrix_32x8_layout

    @T.prim_func
    def desc(a: T.handle) -> None:  # type: ignore
        C = T.match_buffer(a, (WARP, local_size), dtype, scope="warp")
        with T.block("root"):
            T.reads()
            T.writes(C[0:WARP, 0:local_size])
            for i0, i1 in T.grid(N, N):
                with T.block("C_warp"):
                    i, j = T.axis.remap("SS", [i0, i1])
                    thread_id, local_id = T.meta_var(layout(i, j))
                    T.reads()
                    T.writes(C[thread_id, local_id])
                    C[thread_id, local_id] = zero

    @T.prim_func
    def impl(a: T.handle) -> None:  # type: ignore
        C = T.match_buffer(a, (WARP, local_size), dtype, scope="warp", offset_factor=1)
        with T.block("root"):
            T.reads()
            T.writes(C[0:WARP, 0:local_size])
            for tx in T.thread_binding(0, WARP, "threadIdx.x"):  # pyright: ignore[reportUnusedVariable]
                T.evaluate(T.mma_fill(dtype, local_size, C.data, C.elem_offset))

    return desc, impl


def get_mma_store_intrin(
    dtype: str, local_size: int, scope: str = "global", use_mma_store_intrinsic: bool = True
) -> tuple[PrimFunc, PrimFunc]:
    """A tile of sums stored to memory of `scope`: by one call, or by each thread, element by element."""
    layout, back = shared_16x16_to_ldmatrix_32x8_layout, ldmatrix_32x8_to_shared_16x16_layout

    @T.prim_func
    def desc(a: T.handle, c: T.handle) -> None:  # type: ignore
        W = T.match_buffer(a, (WARP, local_size), dtype, scope="warp")
        C = T.match_buffer(c, (N, N), dtype, scope=scope)
        with T.block("root"):
            T.reads(W[0:WARP, 0:local_size])
            T.writes(C[0:N, 0:N])
            for i0, i1 in T.grid(N, N):
                with T.block("C_warp"):
                    v0, v1 = T.axis.remap("SS", [i0, i1])
                    thread_id, local_id = T.meta_var(layout(v0, v1))
                    T.reads(W[thread_id, local_id])
                    T.writes(C[v0, v1])
                    C[v0, v1] = W[thread_id, local_id]

    @T.prim_func
    def by_one_call(a: T.handle, c: T.handle) -> None:  # type: ignore
        s0, s1 = T.int32(), T.int32()
        W = T.match_buffer(a, (WARP, local_size), dtype, scope="warp", offset_factor=1)
        C = T.match_buffer(c, (N, N), dtype, scope=scope, offset_factor=1, strides=[s0, s1])
        with T.block("root"):
            T.reads(W[0:WARP, 0:local_size])
            T.writes(C[0:N, 0:N])
            for tx in T.thread_binding(0, WARP, "threadIdx.x"):  # pyright: ignore[reportUnusedVariable]
                T.evaluate(T.mma_store(dtype, N, N, C.access_ptr("w"), W.data, W.elem_offset, s0))

    @T.prim_func
    def by_elements(a: T.handle, c: T.handle) -> None:  # type: ignore
        s0, s1 = T.int32(), T.int32()
        W = T.match_buffer(a, (WARP, local_size), dtype, scope="warp", offset_factor=1)
        C = T.match_buffer(c, (N, N), dtype, scope=scope, offset_factor=1, strides=[s0, s1])
        with T.block("root"):
            T.reads(W[0:WARP, 0:local_size])
            T.writes(C[0:N, 0:N])
            for tx in T.thread_binding(0, WARP, "threadIdx.x"):
                for local_id in T.serial(local_size):
                    row, column = T.meta_var(back(tx, local_id))
                    C[row, column] = W[tx, local_id]

    return desc, by_one_call if use_mma_store_intrinsic else by_elements


# ---------------------------------------------------------------------------- names


def _all() -> dict[str, tuple[PrimFunc, PrimFunc]]:
    found: dict[str, tuple[PrimFunc, PrimFunc]] = {}
    for dtype, k_dim in (("float16", 16), ("int8", 32)):
        for scope, end in (("shared", ""), ("shared.dyn", "_dyn")):
            for matrix, transposed in (("A", False), ("B", False), ("B", True)):
                name = f"mma_ldmatrix_{_SHORT[dtype]}_{matrix.lower()}{'_trans' * transposed}{end}"
                found[name] = get_ldmatrix_intrin(k_dim, dtype, matrix, transposed, scope)
        for out in ("float32", "float16") if dtype == "float16" else ("int32",):
            for transposed in (False, True):
                name = f"mma_{_SHORT[dtype] * 2}{_SHORT[out]}{'_trans_b' * transposed}"
                found[name] = get_mma_intrin(k_dim, dtype, out, transposed)
    for out in ("float32", "float16", "int32"):
        found[f"mma_fill_16x16_{_SHORT[out]}"] = get_mma_fill_intrin(out, N * N // WARP)
        for scope in ("global", "shared", "shared.dyn"):
            for by_call, end in ((True, ""), (False, "simple_")):
                name = f"mma_store_16x16_{_SHORT[out]}_{scope.replace('.', '_')}_{end}"
                found[name] = get_mma_store_intrin(out, N * N // WARP, scope, by_call)
    return found


INTRINSICS = _all()

LDMATRIX_f16_A_INTRIN = "mma_ldmatrix_f16_a"
LDMATRIX_f16_A_DYN_INTRIN = "mma_ldmatrix_f16_a_dyn"
LDMATRIX_f16_B_INTRIN = "mma_ldmatrix_f16_b"
LDMATRIX_f16_B_DYN_INTRIN = "mma_ldmatrix_f16_b_dyn"
LDMATRIX_f16_B_TRANS_INTRIN = "mma_ldmatrix_f16_b_trans"
LDMATRIX_f16_B_TRANS_DYN_INTRIN = "mma_ldmatrix_f16_b_trans_dyn"
LDMATRIX_i8_A_INTRIN = "mma_ldmatrix_i8_a"
LDMATRIX_i8_A_DYN_INTRIN = "mma_ldmatrix_i8_a_dyn"
LDMATRIX_i8_B_INTRIN = "mma_ldmatrix_i8_b"
LDMATRIX_i8_B_DYN_INTRIN = "mma_ldmatrix_i8_b_dyn"
LDMATRIX_i8_B_TRANS_INTRIN = "mma_ldmatrix_i8_b_trans"
LDMATRIX_i8_B_TRANS_DYN_INTRIN = "mma_ldmatrix_i8_b_trans_dyn"
MMA_f16f16f32_INTRIN = "mma_f16f16f32"
MMA_f16f16f32_TRANS_B_INTRIN = "mma_f16f16f32_trans_b"
MMA_f16f16f16_INTRIN = "mma_f16f16f16"
MMA_f16f16f16_TRANS_B_INTRIN = "mma_f16f16f16_trans_b"
MMA_i8i8i32_INTRIN = "mma_i8i8i32"
MMA_i8i8i32_TRANS_B_INTRIN = "mma_i8i8i32_trans_b"
MMA_fill_16x16_f32_INTRIN = "mma_fill_16x16_f32"
MMA_store_16x16_f32_global_INTRIN = "mma_store_16x16_f32_global_"
MMA_fill_16x16_f16_INTRIN = "mma_fill_16x16_f16"
MMA_store_16x16_f16_global_INTRIN = "mma_store_16x16_f16_global_"
MMA_fill_16x16_i32_INTRIN = "mma_fill_16x16_i32"
MMA_store_16x16_i32_global_INTRIN = "mma_store_16x16_i32_global_"


def get_mma_intrin_group(
    load_scope: str,
    store_scope: str,
    a_dtype: str,
    b_dtype: str,
    out_dtype: str,
    trans_a: bool = False,
    trans_b: bool = False,
    not_use_mma_store_intrinic: bool = True,
) -> dict[str, str]:
    """The names of the intrinsics of one product: `init`, `load_a`, `load_b`, `compute` and `store`.

    load_scope: `shared` or `shared.dyn`; store_scope: `global` too; the inputs are of float16 or int8, the sums of float16,
    float32 or int32; trans_b: the right matrix has a column in each row. Raises `TVMagicError` for others.
    """
    source, result = _SHORT.get(a_dtype, a_dtype), _SHORT.get(out_dtype, out_dtype)
    dynamic, trans = "_dyn" if load_scope == "shared.dyn" else "", "_trans" if trans_b else ""
    group = {
        "init": f"mma_fill_16x16_{result}",
        "load_a": f"mma_ldmatrix_{source}_a{'_trans' if trans_a else ''}{dynamic}",
        "load_b": f"mma_ldmatrix_{_SHORT.get(b_dtype, b_dtype)}_b{trans}{dynamic}",
        "compute": f"mma_{source}{_SHORT.get(b_dtype, b_dtype)}{result}{'_trans_b' if trans_b else ''}",
        "store": f"mma_store_16x16_{result}_{store_scope.replace('.', '_')}_{'simple_' * not_use_mma_store_intrinic}",
    }
    missing = [name for name in group.values() if name not in INTRINSICS]
    if missing or load_scope not in ("shared", "shared.dyn"):
        wrong = f"intrinsic `{missing[0]}`" if missing else f"load from `{load_scope}`"
        raise TVMagicError(
            f"there is no {wrong}", hint="the types and scopes are those of the help", code="mma.unknown_intrinsic"
        )
    return group
