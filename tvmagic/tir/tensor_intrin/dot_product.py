"""Dot products of groups of 4 bytes: `C[i] += sum(A[k] * B[i, k] for k in range(4))`."""

from __future__ import annotations

from collections.abc import Callable

from tvmagic import ir

DP4A_S8S8S32_INTRIN = "dp4a_s8s8s32"
DP4A_S8U8S32_INTRIN = "dp4a_s8u8s32"
DP4A_U8S8S32_INTRIN = "dp4a_u8s8s32"
DP4A_U8U8U32_INTRIN = "dp4a_u8u8u32"

# (groups of A in one vector of 4 bytes, all of B, all of C) to the new C
VectorRule = Callable[[ir.PrimExpr, ir.PrimExpr, ir.PrimExpr], ir.PrimExpr]


def _index(value: int) -> ir.IntImm:
    return ir.IntImm("int32", value)


def _buffers(rows: int, a: str, b: str, c: str) -> tuple[ir.Buffer, ir.Buffer, ir.Buffer]:
    return (
        ir.decl_buffer((4,), a, "A", offset_factor=1),
        ir.decl_buffer((rows, 4), b, "B", offset_factor=1),
        ir.decl_buffer((rows,), c, "C", offset_factor=1),
    )


def _full_region(buffer: ir.Buffer) -> ir.BufferRegion:
    return ir.BufferRegion(buffer, [ir.Range.from_min_extent(_index(0), size) for size in buffer.shape])


def _function(buffers: tuple[ir.Buffer, ir.Buffer, ir.Buffer], body: ir.Stmt) -> ir.PrimFunc:
    a, b, c = buffers
    root = ir.Block([], [_full_region(c), _full_region(a), _full_region(b)], [_full_region(c)], "root", body)
    params = [ir.Var(buffer.name.lower(), "handle") for buffer in buffers]
    return ir.PrimFunc(params, ir.BlockRealize([], ir.IntImm("bool", 1), root), buffer_map=dict(zip(params, buffers)))


def description(rows: int, a: str, b: str, c: str) -> ir.PrimFunc:
    """What the instruction computes: `rows` dot products of `a` with `b`, added to `c` (dtypes)."""
    buffers = _buffers(rows, a, b, c)
    ab, bb, cb = buffers
    loops = [ir.Var("i", "int32"), ir.Var("k", "int32")]
    vi, vk = ir.Var("vi", "int32"), ir.Var("vk", "int32")
    product = ir.Cast(c, ir.BufferLoad(ab, [vk])) * ir.Cast(c, ir.BufferLoad(bb, [vi, vk]))

    def point(buffer: ir.Buffer, *indices: ir.Var) -> ir.BufferRegion:
        return ir.BufferRegion(buffer, [ir.Range.from_min_extent(i, _index(1)) for i in indices])

    block = ir.Block(
        [
            ir.IterVar(ir.Range.from_min_extent(_index(0), _index(rows)), vi, ir.IterVar.DataPar),
            ir.IterVar(ir.Range.from_min_extent(_index(0), _index(4)), vk, ir.IterVar.CommReduce),
        ],
        [point(cb, vi), point(ab, vk), point(bb, vi, vk)],
        [point(cb, vi)],
        "update",
        ir.BufferStore(cb, ir.BufferLoad(cb, [vi]) + product, [vi]),
    )
    nest = ir.loop_nest(loops, [_index(rows), _index(4)], ir.BlockRealize(loops, ir.IntImm("bool", 1), block))
    return _function(buffers, nest)


def implementation(rows: int, a: str, b: str, c: str, rule: VectorRule) -> ir.PrimFunc:
    """The same by vector instructions: `rule(A, B, C)` is the vector that is stored to `c`."""
    buffers = _buffers(rows, a, b, c)
    ab, bb, cb = buffers

    def lanes(count: int) -> ir.Ramp:
        return ir.Ramp(_index(0), _index(1), count)

    value = rule(
        ir.BufferLoad(ab, [lanes(4)]), ir.BufferLoad(bb, [_index(0), lanes(4 * rows)]), ir.BufferLoad(cb, [lanes(rows)])
    )
    return _function(buffers, ir.BufferStore(cb, value, [lanes(rows)]))


def reinterpreted(dtype: str, value: ir.PrimExpr) -> ir.PrimExpr:
    """The bits of a vector as another dtype."""
    return ir.Call(dtype, "tir.reinterpret", [value])


def repeated(value: ir.PrimExpr, word: str, count: int, dtype: str) -> ir.PrimExpr:
    """A vector of 4 bytes repeated `count` times, as a vector of `dtype`."""
    return reinterpreted(dtype, ir.Broadcast(reinterpreted(word, value), count))


def llvm_intrinsic(dtype: str, name: str, *args: ir.PrimExpr) -> ir.PrimExpr:
    """A call of an LLVM intrinsic by name."""
    return ir.Call(dtype, "tir.call_llvm_pure_intrin", [ir.StringImm(name), *args])
