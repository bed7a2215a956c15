"""AVX-512 and VNNI dot products of unsigned by signed bytes (Intel's instruction reference: VPDPBUSD,
VPMADDUBSW)."""

from __future__ import annotations

from tvmagic.ir import Broadcast, IntImm, PrimExpr
from tvmagic.tir.tensor_intrin.dot_product import description, implementation, llvm_intrinsic, reinterpreted, repeated

VNNI_DOT_16x4_INTRIN = "dot_16x4_vnni"
AVX512_DOT_16x4_INTRIN = "dot_16x4_avx512"

_TYPES = (16, "uint8", "int8", "int32")


def _vnni(a: PrimExpr, b: PrimExpr, c: PrimExpr) -> PrimExpr:
    word = Broadcast(reinterpreted("int32", a), 16)
    return llvm_intrinsic("int32x16", "llvm.x86.avx512.vpdpbusd.512", c, word, reinterpreted("int32x16", b))


def _avx512(a: PrimExpr, b: PrimExpr, c: PrimExpr) -> PrimExpr:
    # the pairs saturate at 16 bits: exact where |a0 * b0 + a1 * b1| < 2 ** 15
    pairs = llvm_intrinsic("int16x32", "llvm.x86.avx512.pmaddubs.w.512", repeated(a, "int32", 16, "uint8x64"), b)
    ones = Broadcast(IntImm("int16", 1), 32)
    return c + llvm_intrinsic("int32x16", "llvm.x86.avx512.pmaddw.d.512", pairs, ones)


dot_product_16x4_u8i8i32_desc = description(*_TYPES)
dot_product_16x4_u8i8i32_vnni = implementation(*_TYPES, _vnni)
dot_product_16x4_u8i8i32_avx512 = implementation(*_TYPES, _avx512)

INTRINSICS = {
    VNNI_DOT_16x4_INTRIN: (dot_product_16x4_u8i8i32_desc, dot_product_16x4_u8i8i32_vnni),
    AVX512_DOT_16x4_INTRIN: (dot_product_16x4_u8i8i32_desc, dot_product_16x4_u8i8i32_avx512),
}
