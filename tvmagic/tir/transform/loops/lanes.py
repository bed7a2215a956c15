"""Lanes of vectors: their number, one of them, and memory for each."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir.operators import lanes_of
from tvmagic.ir.ops import add, multiply


def broadcast_to(value: ir.PrimExpr, code: int) -> ir.PrimExpr:
    """`value` with the lanes of the lane code `code`; it is a scalar, a vector of that length, or a short broadcast."""
    dtype = value.dtype
    if dtype.lane_code == code:
        return value
    if isinstance(value, ir.Broadcast) and dtype.is_scalable == (code < 0) and code % dtype.lane_code == 0:
        return ir.Broadcast(value.value, lanes_of(dtype.with_lane_code(code)), value.span)
    if dtype.is_vector:
        wanted = dtype.with_lane_code(code)
        raise TVMagicError(
            f"a vector of type `{dtype}` cannot become one of type `{wanted}`",
            node=value,
            code="tir.vectorize_loop.lanes_differ",
        )
    return ir.Broadcast(value, lanes_of(dtype.with_lane_code(code)), value.span)


def longest(*codes: int) -> int:
    """The lane code of the longest vector; a scalable one is longer than those of the same number."""
    return max(codes, key=lambda code: (abs(code), code < 0))


def same_lanes(*values: ir.PrimExpr) -> list[ir.PrimExpr]:
    """The values with as many lanes as the longest of them."""
    code = longest(*[v.dtype.lane_code for v in values])
    return [broadcast_to(v, code) for v in values]


class LaneStorage(ir.Mutator):
    """Gives each lane its own part of an allocation: `s[i]` becomes `s[i * lanes + lane]`."""

    def __init__(self, pointer: ir.Var, lane: ir.Var, lanes: ir.PrimExpr, analyzer: Analyzer) -> None:
        self.pointer, self.lane, self.lanes, self.analyzer = pointer, lane, lanes, analyzer

    def visit_buffer_def(self, buffer: ir.Buffer) -> ir.Buffer:
        return self.widened(buffer) if buffer.data is self.pointer else buffer

    def widened(self, buffer: ir.Buffer) -> ir.Buffer:
        """`buffer` with room for all lanes; one of its own for each access, as TVM makes them."""
        simplify = self.analyzer.simplify
        shape = (*buffer.shape[:-1], simplify(multiply(buffer.shape[-1], self.lanes)))
        strides = tuple([simplify(multiply(s, self.lanes)) for s in buffer.strides[:-1]]) + buffer.strides[-1:]
        return buffer.replace(shape=shape, strides=strides)

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: Any) -> Any:
        new = self.visit_children(node)
        if node.buffer.data is not self.pointer:
            return new
        last = self.analyzer.simplify(add(multiply(new.indices[-1], self.lanes), self.lane))
        return new.replace(buffer=self.widened(node.buffer), indices=(*new.indices[:-1], last))


def refuse_vectors_of_vectors(node: ir.Ramp, base: ir.PrimExpr) -> None:
    """Refuse lanes of a ramp that are ramps themselves where one of the two is scalable."""
    if base.dtype.is_scalable:
        raise TVMagicError(
            "Creating scalable vectors from existing vectors is not supported.",
            node=node,
            code="tir.vectorize_loop.vector_of_vectors",
        )
    if node.dtype.is_scalable and base.dtype.is_vector:
        raise TVMagicError(
            "Vectorizing over existing scalable vectors is not supported.",
            node=node,
            code="tir.vectorize_loop.vector_of_vectors",
        )


def refuse_scalable_elements(node: ir.BufferLoad | ir.BufferStore) -> None:
    """Refuse accesses of buffers whose elements are scalable vectors."""
    if node.buffer.dtype.is_scalable:
        raise TVMagicError(
            "Vectorizing over scalable buffer elements is not supported in vectorizer.",
            node=node,
            code="tir.vectorize_loop.scalable_elements",
        )


def lane_of(value: ir.PrimExpr, index: int) -> ir.PrimExpr:
    """One lane of a value; a scalar is the same in all."""
    return value if value.dtype.is_scalar else ir.Shuffle([value], [ir.IntImm("int32", index)])
