"""How fragments of CUDA's tensor cores (WMMA) of 16 x 16 elements are filled with zeros, loaded and stored."""

from __future__ import annotations

from tvmagic.ir import PrimFunc
from tvmagic.script import tir as T

N = 16  # rows and columns of a fragment, and the length of the sums
_SHORT = {"float16": "f16", "float32": "f32", "int8": "s8", "int32": "s32"}


def fragment_number(buffer: T.Buffer, stride: T.PrimExpr, rows: int, columns: int) -> T.PrimExpr:
    """The number of a fragment in its array, from its offset."""
    offset = buffer.elem_offset
    return offset // stride // rows * (stride // columns) + offset % stride // columns


def _copied(dtype: str, source: str, target: str, name: str) -> PrimFunc:
    """A fragment copied from memory of one scope to memory of another, by a block called `name`."""

    @T.prim_func
    def desc(a: T.handle, c: T.handle) -> None:  # type: ignore
        A = T.match_buffer(a, (N, N), dtype, align=64, offset_factor=N, scope=source)
        C = T.match_buffer(c, (N, N), dtype, align=64, offset_factor=N, scope=target)
        with T.block("root"):
            T.reads(A[0:N, 0:N])
            T.writes(C[0:N, 0:N])
            for i, j in T.grid(N, N):
                with T.block(name):
                    vii, vjj = T.axis.remap("SS", [i, j])
                    C[vii, vjj] = A[vii, vjj]

    return desc


def get_wmma_load_intrin(dtype: str, scope: str, is_b: bool, is_col_major: bool) -> tuple[PrimFunc, PrimFunc]:
    """A fragment of the left (of the right, with `is_b`) matrix, loaded from memory of `scope`."""
    fragment, layout = f"wmma.matrix_{'b' if is_b else 'a'}", "col_major" if is_col_major else "row_major"

    @T.prim_func
    def impl(a: T.handle, c: T.handle) -> None:  # type: ignore
        s1, s0, d1, d0 = T.int32(), T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, (N, N), dtype, align=64, offset_factor=N, scope=scope, strides=[s1, s0])
        C = T.match_buffer(c, (N, N), dtype, align=64, offset_factor=N, scope=fragment, strides=[d1, d0])
        with T.block("root"):
            T.reads(A[0:N, 0:N])
            T.writes(C[0:N, 0:N])
            T.evaluate(
                T.tvm_load_matrix_sync(C.data, N, N, N, fragment_number(C, d1, N, N), A.access_ptr("r"), s1, layout)
            )

    return _copied(dtype, scope, fragment, "load"), impl


def get_wmma_fill_intrin(dtype: str) -> tuple[PrimFunc, PrimFunc]:
    """A fragment of sums filled with zeros."""
    zero = T.Cast(dtype, 0) if dtype.startswith("int") else T.FloatImm(dtype, 0.0)

    @T.prim_func
    def desc(c: T.handle) -> None:  # type: ignore
        C = T.match_buffer(c, (N, N), dtype, align=64, offset_factor=N, scope="wmma.accumulator")
        with T.block("root"):
            T.reads()
            T.writes(C[0:N, 0:N])
            for i, j in T.grid(N, N):
                with T.block("init"):
                    vii, vjj = T.axis.remap("SS", [i, j])
                    C[vii, vjj] = zero

    @T.prim_func
    def impl(c: T.handle) -> None:  # type: ignore
        d1, d0 = T.int32(), T.int32()
        C = T.match_buffer(c, (N, N), dtype, align=64, offset_factor=N, scope="wmma.accumulator", strides=[d1, d0])
        with T.block("root"):
            T.reads()
            T.writes(C[0:N, 0:N])
            T.evaluate(T.tvm_fill_fragment(C.data, N, N, N, fragment_number(C, d1, N, N), T.float32(0)))

    return desc, impl


def get_wmma_store_intrin(dtype: str, scope: str) -> tuple[PrimFunc, PrimFunc]:
    """A fragment of sums, stored to memory of `scope`."""

    @T.prim_func
    def impl(a: T.handle, c: T.handle) -> None:  # type: ignore
        s1, s0, d1, d0 = T.int32(), T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, (N, N), dtype, align=64, offset_factor=N, scope="wmma.accumulator", strides=[d1, d0])
        C = T.match_buffer(c, (N, N), dtype, align=64, offset_factor=N, scope=scope, strides=[s1, s0])
        with T.block("root"):
            T.reads(A[0:N, 0:N])
            T.writes(C[0:N, 0:N])
            T.evaluate(
                T.tvm_store_matrix_sync(
                    A.data, N, N, N, fragment_number(A, d1, N, N), C.access_ptr("w"), s1, "row_major"
                )
            )

    return _copied(dtype, "wmma.accumulator", scope, "store"), impl


def _all() -> dict[str, tuple[PrimFunc, PrimFunc]]:
    found: dict[str, tuple[PrimFunc, PrimFunc]] = {}
    for dtype in ("float16", "int8"):
        for side in "ab":
            for transposed in (False, True):
                for scope in ("shared", "shared.dyn"):
                    name = f"{_SHORT[dtype]}_{side}{'_trans' * transposed}_{scope.replace('.', '_')}"
                    found[f"wmma_load_16x16x16_{name}"] = get_wmma_load_intrin(dtype, scope, side == "b", transposed)
    for dtype in ("float16", "float32", "int32"):
        found[f"wmma_fill_16x16x16_{_SHORT[dtype]}"] = get_wmma_fill_intrin(dtype)
        for scope in ("shared", "shared.dyn", "global"):
            name = f"wmma_store_16x16x16_{_SHORT[dtype]}_{scope.replace('.', '_')}"
            found[name] = get_wmma_store_intrin(dtype, scope)
    return found


INTRINSICS = _all()
