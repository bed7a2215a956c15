"""NEON dot products of bytes (Arm's A64 reference: SDOT, UDOT, SMULL, SADDLP, ADDP)."""

from __future__ import annotations

from collections.abc import Callable

from tvmagic.ir import Call, PrimExpr, PrimFunc
from tvmagic.tir.tensor_intrin.dot_product import (
    DP4A_S8S8S32_INTRIN,
    DP4A_S8U8S32_INTRIN,
    DP4A_U8S8S32_INTRIN,
    DP4A_U8U8U32_INTRIN,
    description,
    implementation,
    llvm_intrinsic,
    repeated,
)

__all__ = [
    "ARM_DOT_4x4_i8_NEON_INTRIN",
    "ARM_DOT_4x4_i8_SDOT_INTRIN",
    "ARM_DOT_4x4_u8_HDOT_INTRIN",
    "ARM_DOT_4x4_u8_UDOT_INTRIN",
    "DP4A_S8S8S32_INTRIN",
    "DP4A_S8U8S32_INTRIN",
    "DP4A_U8S8S32_INTRIN",
    "DP4A_U8U8U32_INTRIN",
    "INTRINSICS",
]

ARM_DOT_4x4_i8_NEON_INTRIN = "dot_4x4_i8i8s32_neon"
ARM_DOT_4x4_i8_SDOT_INTRIN = "dot_4x4_i8i8s32_sdot"
ARM_DOT_4x4_u8_UDOT_INTRIN = "dot_4x4_u8u8u32_udot"
ARM_DOT_4x4_u8_HDOT_INTRIN = "dot_4x4_u8u8i32_hdot"


def _neon(a: PrimExpr, b: PrimExpr, c: PrimExpr) -> PrimExpr:
    vector = repeated(a, "int32", 2, "int8x8")

    def half(part: str) -> PrimExpr:
        products = llvm_intrinsic(
            "int16x8", "llvm.aarch64.neon.smull.v8i16", vector, Call("int8x8", f"tir.vector{part}", [b])
        )
        return llvm_intrinsic("int32x4", "llvm.aarch64.neon.saddlp.v4i32.v8i16", products)

    return c + llvm_intrinsic("int32x4", "llvm.aarch64.neon.addp.v4i32", half("low"), half("high"))


def _dot(name: str, byte: str, word: str) -> Callable[[PrimExpr, PrimExpr, PrimExpr], PrimExpr]:
    def rule(a: PrimExpr, b: PrimExpr, c: PrimExpr) -> PrimExpr:
        return llvm_intrinsic(f"{word}x4", f"llvm.aarch64.neon.{name}", c, repeated(a, word, 4, f"{byte}x16"), b)

    return rule


def _dot_pair(name: str, byte: str, word: str) -> tuple[PrimFunc, PrimFunc]:
    types = (4, byte, byte, word)
    return description(*types), implementation(*types, _dot(name, byte, word))


neon_4x4_i8i8i32_desc = description(4, "int8", "int8", "int32")
neon_4x4_i8i8i32_impl = implementation(4, "int8", "int8", "int32", _neon)

INTRINSICS = {
    ARM_DOT_4x4_i8_NEON_INTRIN: (neon_4x4_i8i8i32_desc, neon_4x4_i8i8i32_impl),
    ARM_DOT_4x4_i8_SDOT_INTRIN: _dot_pair("sdot.v4i32.v16i8", "int8", "int32"),
    ARM_DOT_4x4_u8_UDOT_INTRIN: _dot_pair("udot.v4i32.v16i8", "uint8", "uint32"),
    ARM_DOT_4x4_u8_HDOT_INTRIN: _dot_pair("udot.v4i32.v16i8", "uint8", "int32"),
}
