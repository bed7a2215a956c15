"""Dot products of Hexagon's vectors of 128 bytes (HVX): `vrmpy` of four bytes, `vdmpy` of two halves of a word."""

from __future__ import annotations

from tvmagic.ir import PrimFunc
from tvmagic.script import tir as T

__all__ = [
    "INTRINSICS",
    "VDMPY_i16i16i32_INTRIN",
    "VRMPY_u8i8i32_INTRIN",
    "VRMPY_u8i8i32_VTCM_INTRIN",
    "VRMPY_u8u8i32_INTRIN",
    "VRMPY_u8u8i32_VTCM_INTRIN",
]


def _pair(
    depth: int, dtype_a: str, dtype_b: str, name: str, spread: bool, scope: str = "global"
) -> tuple[PrimFunc, PrimFunc]:
    """32 dot products of `depth` elements, added to words.

    spread: whether the instruction takes the group of A as a vector of 32 times the same.
    """
    group, groups = f"{dtype_a}x{depth}", f"{dtype_b}x{depth * 32}"
    instruction = f"llvm.hexagon.V6.{name}.acc.128B"

    def operands(a: T.PrimExpr, b: T.PrimExpr) -> tuple[T.PrimExpr, T.PrimExpr]:
        return (T.Broadcast(a, 32), b) if spread else (b, a)

    @T.prim_func
    def desc(a: T.handle, b: T.handle, c: T.handle) -> None:  # type: ignore
        A = T.match_buffer(a, (depth,), dtype_a, offset_factor=1, scope=scope)
        B = T.match_buffer(b, (32, depth), dtype_b, offset_factor=1, scope=scope)
        C = T.match_buffer(c, (32,), "int32", offset_factor=1, scope=scope)
        with T.block("root"):
            T.reads(C[0:32], A[0:depth], B[0:32, 0:depth])
            T.writes(C[0:32])
            for i, k in T.grid(32, depth):
                with T.block("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.cast(A[vk], "int32") * T.cast(B[vi, vk], "int32")

    @T.prim_func
    def impl(a: T.handle, b: T.handle, c: T.handle) -> None:  # type: ignore
        A = T.match_buffer(a, (depth,), dtype_a, offset_factor=1, scope=scope)
        B = T.match_buffer(b, (32, depth), dtype_b, offset_factor=1, scope=scope)
        C = T.match_buffer(c, (32,), "int32", offset_factor=1, scope=scope)
        with T.block("root"):
            T.reads(C[0:32], A[0:depth], B[0:32, 0:depth])
            T.writes(C[0:32])
            C[T.ramp(0, 1, 32)] = T.call_llvm_pure_intrin(
                "int32x32",
                instruction,
                C[T.ramp(0, 1, 32)],
                *operands(
                    T.reinterpret("int32", A.vload([0], group)), T.reinterpret("int32x32", B.vload([0, 0], groups))
                ),
            )

    return desc, impl


VRMPY_u8u8i32_INTRIN = "dot_32x4_u8u8i32_vrmpy"
VRMPY_u8i8i32_INTRIN = "dot_32x4_u8i8i32_vrmpy"
VDMPY_i16i16i32_INTRIN = "dot_product_32x2_i16i16i32_vdmpy"
VRMPY_u8u8i32_VTCM_INTRIN = "dot_32x4_u8u8i32_vtcm_vrmpy"
VRMPY_u8i8i32_VTCM_INTRIN = "dot_32x4_u8i8i32_vtcm_vrmpy"

INTRINSICS = {
    VRMPY_u8u8i32_INTRIN: _pair(4, "uint8", "uint8", "vrmpyub", False),
    VRMPY_u8i8i32_INTRIN: _pair(4, "uint8", "int8", "vrmpybusv", True),
    VDMPY_i16i16i32_INTRIN: _pair(2, "int16", "int16", "vdmpyhvsat", True),
    VRMPY_u8u8i32_VTCM_INTRIN: _pair(4, "uint8", "uint8", "vrmpyub", False, "global.vtcm"),
    VRMPY_u8i8i32_VTCM_INTRIN: _pair(4, "uint8", "int8", "vrmpybusv", True, "global.vtcm"),
}
