"""Copies from and to fragments of tensor cores: tiles that one intrinsic, or one warp, moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tvmagic.arith import Analyzer
from tvmagic.arith.int_set import IntSet
from tvmagic.arith.int_set_eval import eval_set
from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Evaluate,
    For,
    ForKind,
    IntImm,
    IterVar,
    MatchBufferRegion,
    Op,
    PointerType,
    PrimExpr,
    PrimType,
    Range,
    SeqStmt,
    Stmt,
    StringImm,
    Var,
    loop_nest,
    ops,
    substitute,
    within_loops,
)
from tvmagic.tir.transform.auto_copy.coalesce import coalesced
from tvmagic.tir.transform.auto_copy.copies import Copy, accumulator_load, innermost_store, loops_around
from tvmagic.tir.transform.auto_copy.stage import through_shared

_WMMA, _MMA = 16, 8  # the sides of the tiles


def to_fragment(stmt: Stmt, copy: Copy) -> Stmt:
    """A copy from shared memory to a matrix of WMMA, by `load_matrix_sync`."""
    copy.padding_steps[copy.read.buffer] = 8
    return _whole(_tiled(stmt, _WMMA, copy), copy, _load_matrix)


def from_fragment(stmt: Stmt, copy: Copy) -> Stmt:
    """A copy from an accumulator of WMMA to shared memory, by `store_matrix_sync`."""
    copy.padding_steps[copy.written.buffer] = 8
    return _whole(_tiled(stmt, _WMMA, copy), copy, _store_matrix)


def wmma_to_global(stmt: Stmt, copy: Copy) -> Stmt:
    """A copy from an accumulator of WMMA to global memory: tile by tile to shared memory, from there by all threads."""
    return _by_shared(stmt, _WMMA, copy, _store_matrix)


def mma_to_global(stmt: Stmt, copy: Copy) -> Stmt:
    """A copy from an accumulator of `mma.m16n8k8` to global memory, by way of shared memory in the same manner."""
    return _by_shared(stmt, _MMA, copy, _store_by_warp)


class _Tile(NamedTuple):
    """What the two innermost loops move: the regions, and a view of each."""

    source: BufferRegion
    target: BufferRegion
    load: BufferLoad


_Move = Callable[[_Tile], Stmt]


def _by_shared(stmt: Stmt, side: int, copy: Copy, move: _Move) -> Stmt:
    tiled = _tiled(stmt, side, copy)
    loops, _ = loops_around(tiled)
    # both loops inside of a tile, and the loop over tiles of a row, are in the memory between the steps
    staged = through_shared(loops, len(loops) - 4, innermost_store(tiled, copy), copy)
    copy.padding_steps[staged.buffer] = 8
    first = _whole(staged.first, copy, move)
    return within_loops(staged.outside, SeqStmt([first, coalesced(staged.second, copy)]))


def _tiled(stmt: Stmt, side: int, copy: Copy) -> Stmt:
    """The two innermost loops in tiles of `side` times `side`. Raises `TVMagicError` if they do not divide."""
    loops, body = loops_around(stmt)
    rows, columns = loops[-2:] if len(loops) >= 2 else (None, None)
    analyzer = Analyzer()
    if (
        rows is None
        or columns is None
        or not all(analyzer.can_prove_equal(ops.floormod(loop.extent, side), 0) for loop in (rows, columns))
    ):
        raise TVMagicError(
            f"the copy `{copy.name}` of a fragment is not a whole number of tiles of {side} x {side}",
            node=stmt,
            hint=f"its two innermost loops are to have extents that {side} divides",
        )
    outer = [loop.loop_var.copy_with_suffix("_0") for loop in (rows, columns)]
    inner = [loop.loop_var.copy_with_suffix("_1") for loop in (rows, columns)]
    places = {loop.loop_var: o * side + i for loop, o, i in zip((rows, columns), outer, inner)}
    tiles = [ops.floordiv(loop.extent, side) for loop in (rows, columns)]
    nest = loop_nest([*outer, *inner], [*tiles, side, side], substitute(body, places))
    return within_loops(loops[:-2], nest)


def _whole(stmt: Stmt, copy: Copy, move: _Move) -> Stmt:
    """The nest with its two innermost loops moved at once."""
    loops, _ = loops_around(stmt)
    store = innermost_store(stmt, copy)
    value = store.value
    load = value if isinstance(value, BufferLoad) else accumulator_load(store, copy)
    inner = {loop.loop_var: IntSet.from_min_extent(loop.min, loop.extent) for loop in loops[-2:]}
    source, target = _region(load, inner), _region(store, inner)
    return within_loops(loops[:-2], move(_Tile(source, target, load)))


def _region(access: BufferLoad | BufferStore, inner: Mapping[Var, IntSet]) -> BufferRegion:
    """What an access touches while the inner loops run."""
    region = [
        eval_set(index, inner).cover_range(Range.from_min_extent(0, size))
        for index, size in zip(access.indices, access.buffer.shape)
    ]
    return BufferRegion(access.buffer, tuple(region))


def _view(name: str, buffer: Buffer, dtype: str, side: int, strided: bool) -> Buffer:
    return Buffer(
        Var(name, PointerType(PrimType(dtype), buffer.scope())),
        dtype,
        [side, side],
        [Var("s1", "int32"), Var("s0", "int32")] if strided else [],
        Var(f"{name}_elem_offset", "int32"),
        name,
        64,
        side,
    )


def _block(name: str, tile: _Tile, source: Buffer, target: Buffer, body: Stmt) -> Stmt:
    views = [MatchBufferRegion(source, tile.source), MatchBufferRegion(target, tile.target)]
    block = Block((), [tile.source], [tile.target], name, body, match_buffers=views)
    return BlockRealize((), IntImm("bool", 1), block)


def _matrix_call(name: str, fragment: Buffer, memory: Buffer, writes: bool, layout: str) -> Stmt:
    number = ops.floordiv(fragment.elem_offset, _WMMA * _WMMA) + ops.floordiv(
        ops.floormod(fragment.elem_offset, _WMMA * _WMMA), _WMMA
    )
    stride = memory.strides[0]
    kind = Call(memory.dtype, Op.get("tir.type_annotation"), [])
    extent = stride * _WMMA
    pointer = Call(
        "handle", Op.get("tir.tvm_access_ptr"), [kind, memory.data, memory.elem_offset, extent, 2 if writes else 1]
    )
    arguments = [fragment.data, _WMMA, _WMMA, _WMMA, number, pointer, stride, StringImm(layout)]
    return Evaluate(Call("handle", Op.get(name), arguments))


def _load_matrix(tile: _Tile) -> Stmt:
    source = _view("src", tile.source.buffer, "float16", _WMMA, True)
    target = _view("tgt", tile.target.buffer, "float16", _WMMA, False)
    layout = "row_major" if target.scope() == "wmma.matrix_a" else "col_major"
    call = _matrix_call("tir.tvm_load_matrix_sync", target, source, False, layout)
    return _block("wmma_load", tile, source, target, call)


def _store_matrix(tile: _Tile) -> Stmt:
    dtype = str(tile.load.dtype)
    source = _view("src", tile.source.buffer, dtype, _WMMA, False)
    target = _view("tgt", tile.target.buffer, dtype, _WMMA, True)
    call = _matrix_call("tir.tvm_store_matrix_sync", source, target, True, "row_major")
    return _block("wmma_store", tile, source, target, call)


def _store_by_warp(tile: _Tile) -> Stmt:
    """Each of 32 threads stores the two neighbours that it has of the 8 x 8 elements."""
    dtype = str(tile.load.dtype)
    source = _view("src", tile.source.buffer, dtype, _MMA, False)
    target = _view("tgt", tile.target.buffer, dtype, _MMA, True)
    thread, lane = Var("tx", "int32"), Var("vec", "int32")
    place: list[PrimExpr] = [ops.floordiv(thread, 4), ops.floormod(thread, 4) * 2 + lane]
    body: Stmt = BufferStore(target, BufferLoad(source, place), place)
    body = For(lane, IntImm("int32", 0), 2, ForKind.VECTORIZED, body)
    axis = IterVar(Range.from_min_extent(0, 32), thread, IterVar.ThreadIndex, "threadIdx.x")
    return _block("mma_store", tile, source, target, AttrStmt(axis, "thread_extent", IntImm("int32", 32), body))
