"""Split stores of non-power-of-two vectors into vectors whose lanes are powers of two.

LLVM keeps a non-power-of-two vector in one register per lane if it lives longer than a basic block, as the accumulators of a product do: 48
lanes of float32 took 30 times as long as 32 lanes and 16.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvmagic import ir
from tvmagic.codegen.late.common import NotApplicable, StatementMutator, census, late_pass, unchecked
from tvmagic.ir.query import callee
from tvmagic.ir.semantics import wrap_int
from tvmagic.passes import note

# Calls of few instructions. Others are long, and their code is not to grow with the lanes.
_SMALL = {f"tir.{name}" for name in ("if_then_else", "likely", "fma", "fabs", "sqrt", "shift_left", "shift_right", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not")}  # fmt: skip


@late_pass("SplitVectors", when=unchecked)
def split_vectors(func: ir.PrimFunc) -> ir.PrimFunc:
    """Split stores of vectors whose number of lanes is not a power of two."""
    return func.with_body(_Splitter(func).visit(func.body)) if census(func.body).odd_vectors else func


class _Splitter(StatementMutator):
    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        parts = _parts_of(node)
        if len(parts) == 1:
            return node
        lanes = " + ".join([str(part.value.dtype.lanes) for part in parts])
        note("late", f"split a store to `{node.buffer.name}` of {node.value.dtype.lanes} lanes into {lanes}", node)
        # all values are computed before the first is stored: the memory that is read may be that which is written
        values = [ir.Var(f"{node.buffer.name}_lanes", part.value.dtype) for part in parts]
        made: ir.Stmt = ir.SeqStmt([part.with_(value=value) for part, value in zip(parts, values)])
        for part, value in reversed(list(zip(parts, values))):
            made = ir.LetStmt(value, part.value, made, span=node.span)
        return made


def _parts_of(stmt: ir.BufferStore) -> list[ir.BufferStore]:
    """Return the slices of a store from the first lane on, or the store alone if it needs no split or cannot be split.

    All values must be computed before the first slice is stored: the loads may read the memory that is written.
    """
    dtype = stmt.value.dtype
    if dtype.is_scalable or stmt.predicate is not None or not stmt.buffer.dtype.is_scalar:
        return [stmt]
    lanes = dtype.lanes
    if not lanes & (lanes - 1):
        return [stmt]
    try:
        return [_slice(stmt, start, count) for start, count in _powers(lanes)]
    except NotApplicable:
        return [stmt]


def _powers(lanes: int) -> Iterator[tuple[int, int]]:
    """Yield start and size of slices whose sizes are powers of two, the largest first."""
    start = 0
    while start < lanes:
        count = 1 << (lanes - start).bit_length() - 1
        yield start, count
        start += count


def _slice(stmt: ir.BufferStore, start: int, count: int) -> ir.BufferStore:
    lanes = _Lanes(stmt.value.dtype.lanes, start, count)
    return ir.BufferStore(stmt.buffer, lanes.visit(stmt.value), [lanes.visit(i) for i in stmt.indices], span=stmt.span)


class _Lanes(ir.Visitor):
    """Rewrites an expression of `lanes` lanes to `count` lanes from `start` on. Scalars are unchanged."""

    def __init__(self, lanes: int, start: int, count: int) -> None:
        self.lanes, self.start, self.count = lanes, start, count

    def visit(self, node: Any) -> Any:
        if node.dtype.lanes == 1:
            return node
        if node.dtype.lanes != self.lanes:
            raise NotApplicable
        return super().visit(node)

    @ir.handles(ir.PrimExpr)
    def other(self, node: ir.PrimExpr) -> ir.PrimExpr:
        raise NotApplicable

    @ir.handles(ir.Ramp)
    def ramp(self, node: ir.Ramp) -> ir.PrimExpr:
        dtype = node.stride.dtype  # in which lanes wrap around: that of number 256 in 8 bits has the value of number 0
        base = node.base + node.stride * ir.IntImm(dtype, wrap_int(self.start, dtype))
        return ir.Ramp(base, node.stride, self.count) if self.count > 1 else base

    @ir.handles(ir.Broadcast)
    def broadcast(self, node: ir.Broadcast) -> ir.PrimExpr:
        return ir.Broadcast(node.value, self.count) if self.count > 1 else node.value

    @ir.handles(ir.BinaryOp, ir.CmpOp, ir.LogicalOp, ir.Not, ir.Select)
    def operator(self, node: Any) -> ir.PrimExpr:
        return type(node)(*[self.visit(getattr(node, f.name)) for f in type(node).FIELDS], span=node.span)

    @ir.handles(ir.Cast)
    def cast(self, node: ir.Cast) -> ir.PrimExpr:
        return ir.Cast(node.dtype.with_lanes(self.count), self.visit(node.value), span=node.span)

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        if node.predicate is not None or node.buffer.dtype.lanes != 1:
            raise NotApplicable
        return ir.BufferLoad(node.buffer, [self.visit(i) for i in node.indices], span=node.span)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> ir.PrimExpr:
        if callee(node) not in _SMALL:
            raise NotApplicable
        return ir.Call(node.dtype.with_lanes(self.count), node.op, [self.visit(a) for a in node.args], span=node.span)
