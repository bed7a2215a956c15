"""Dot products of groups of 4 bytes: `C[i] += sum(A[k] * B[i, k] for k in range(4))`."""

from __future__ import annotations

from collections.abc import Callable

from tvmagic.ir import (
    Block,
    BlockRealize,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Cast,
    IntImm,
    IterVar,
    PrimExpr,
    PrimFunc,
    Ramp,
    Range,
    Stmt,
    StringImm,
    Var,
    decl_buffer,
    loop_nest,
)

DP4A_S8S8S32_INTRIN = "dp4a_s8s8s32"
DP4A_S8U8S32_INTRIN = "dp4a_s8u8s32"
DP4A_U8S8S32_INTRIN = "dp4a_u8s8s32"
DP4A_U8U8U32_INTRIN = "dp4a_u8u8u32"

# (groups of A in one vector of 4 bytes, all of B, all of C) to the new C
VectorRule = Callable[[PrimExpr, PrimExpr, PrimExpr], PrimExpr]


def _index(value: int) -> IntImm:
    return IntImm("int32", value)


def _buffers(rows: int, a: str, b: str, c: str) -> tuple[Buffer, Buffer, Buffer]:
    return (
        decl_buffer((4,), a, "A", offset_factor=1),
        decl_buffer((rows, 4), b, "B", offset_factor=1),
        decl_buffer((rows,), c, "C", offset_factor=1),
    )


def _whole(buffer: Buffer) -> BufferRegion:
    return BufferRegion(buffer, [Range.from_min_extent(_index(0), size) for size in buffer.shape])


def _function(buffers: tuple[Buffer, Buffer, Buffer], body: Stmt) -> PrimFunc:
    a, b, c = buffers
    root = Block([], [_whole(c), _whole(a), _whole(b)], [_whole(c)], "root", body)
    params = [Var(buffer.name.lower(), "handle") for buffer in buffers]
    return PrimFunc(params, BlockRealize([], IntImm("bool", 1), root), buffer_map=dict(zip(params, buffers)))


def description(rows: int, a: str, b: str, c: str) -> PrimFunc:
    """What the instruction computes: `rows` dot products of `a` with `b`, added to `c` (dtypes)."""
    buffers = _buffers(rows, a, b, c)
    ab, bb, cb = buffers
    loops = [Var("i", "int32"), Var("k", "int32")]
    vi, vk = Var("vi", "int32"), Var("vk", "int32")
    product = Cast(c, BufferLoad(ab, [vk])) * Cast(c, BufferLoad(bb, [vi, vk]))

    def point(buffer: Buffer, *indices: Var) -> BufferRegion:
        return BufferRegion(buffer, [Range.from_min_extent(i, _index(1)) for i in indices])

    block = Block(
        [
            IterVar(Range.from_min_extent(_index(0), _index(rows)), vi, IterVar.DataPar),
            IterVar(Range.from_min_extent(_index(0), _index(4)), vk, IterVar.CommReduce),
        ],
        [point(cb, vi), point(ab, vk), point(bb, vi, vk)],
        [point(cb, vi)],
        "update",
        BufferStore(cb, BufferLoad(cb, [vi]) + product, [vi]),
    )
    nest = loop_nest(loops, [_index(rows), _index(4)], BlockRealize(loops, IntImm("bool", 1), block))
    return _function(buffers, nest)


def implementation(rows: int, a: str, b: str, c: str, rule: VectorRule) -> PrimFunc:
    """The same by vector instructions: `rule(A, B, C)` is the vector that is stored to `c`."""
    buffers = _buffers(rows, a, b, c)
    ab, bb, cb = buffers

    def lanes(count: int) -> Ramp:
        return Ramp(_index(0), _index(1), count)

    value = rule(
        BufferLoad(ab, [lanes(4)]), BufferLoad(bb, [_index(0), lanes(4 * rows)]), BufferLoad(cb, [lanes(rows)])
    )
    return _function(buffers, BufferStore(cb, value, [lanes(rows)]))


def reinterpreted(dtype: str, value: PrimExpr) -> PrimExpr:
    """The bits of a vector as another dtype."""
    return Call(dtype, "tir.reinterpret", [value])


def repeated(value: PrimExpr, word: str, count: int, dtype: str) -> PrimExpr:
    """A vector of 4 bytes repeated `count` times, as a vector of `dtype`."""
    return reinterpreted(dtype, Broadcast(reinterpreted(word, value), count))


def llvm_intrinsic(dtype: str, name: str, *args: PrimExpr) -> PrimExpr:
    """A call of an LLVM intrinsic by name."""
    return Call(dtype, "tir.call_llvm_pure_intrin", [StringImm(name), *args])
