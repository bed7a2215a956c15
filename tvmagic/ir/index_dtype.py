"""A function whose indices are counted in another integer type."""

from __future__ import annotations

from typing import Any, cast

from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    Allocate,
    AttrStmt,
    BinaryOp,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRealize,
    BufferRegion,
    BufferStore,
    Call,
    Cast,
    CmpOp,
    DataType,
    For,
    IntImm,
    IterVar,
    Let,
    LetStmt,
    MatchBufferRegion,
    Mutator,
    Op,
    Prefetch,
    PrimExpr,
    PrimFunc,
    Range,
    Select,
    Var,
    handles,
    mutate_all,
    ops,
)
from tvmagic.ir.dtype import integer_limits
from tvmagic.ir.query import launches_thread

_IF = Op.get("tir.if_then_else")


def with_index_dtype(func: PrimFunc, dtype: Any) -> PrimFunc:
    """`func` with all loop and block variables, sizes, bounds and indices of the integer type `dtype`.

    Integer parameters of 32 bits and more have that type too. Data keeps its type: what is loaded, and what is stored.
    """
    wanted = DataType(str(dtype))
    if not wanted.is_int or wanted.lanes != 1:
        raise TVMagicError(
            f"indices cannot be counted in `{dtype}`",
            hint='give an integer type, such as "int64"',
            code="index_dtype.unsupported_dtype",
        )
    change = _IndexRetyper(wanted)
    params = [change.var(p) for p in func.params]
    buffer_map = {q: change.buffer(func.buffer_map[p]) for p, q in zip(func.params, params) if p in func.buffer_map}
    return func.replace(params=tuple(params), buffer_map=buffer_map, body=change.visit(func.body))


def _counts(dtype: DataType) -> bool:
    """Whether a variable of the type counts: signed, of 32 bits or more."""
    return dtype.is_int and dtype.lanes == 1 and dtype.bits >= 32


class _IndexRetyper(Mutator):
    def __init__(self, dtype: DataType) -> None:
        self.dtype = dtype
        self.vars: dict[Var, Var] = {}
        self.buffers: dict[Buffer, Buffer] = {}

    # ------------------------------------------------------------------ what is of the type

    def index(self, value: PrimExpr) -> PrimExpr:
        """A bound, a size or an index; a load in it is data and keeps its type."""
        return self._constant(self.visit(value))

    def _constant(self, value: PrimExpr) -> PrimExpr:
        if not isinstance(value, IntImm) or value.dtype is self.dtype or value.dtype.is_bool:
            return value
        low, high = integer_limits(self.dtype)
        if not low <= value.value <= high:
            raise TVMagicError(
                f"the index or size {value.value} does not fit `{self.dtype}`",
                span=value.span,
                code="index_dtype.value_does_not_fit",
            )
        return IntImm(self.dtype, value.value, value.span)

    def range(self, node: Range) -> Range:
        """A range of indices."""
        return Range.from_min_extent(self.index(node.min), self.index(node.extent))

    @handles(Var)
    def var(self, node: Var) -> Var:
        if not _counts(node.dtype) or node.dtype is self.dtype:
            return node
        if node not in self.vars:
            self.vars[node] = node.copy_with_dtype(self.dtype)
        return self.vars[node]

    def buffer(self, buffer: Buffer) -> Buffer:
        """The buffer with its sizes of the type."""
        found = self.buffers.get(buffer)
        if found is None:
            found = self.buffers[buffer] = buffer.replace(
                shape=mutate_all(self.index, buffer.shape),
                strides=mutate_all(self.index, buffer.strides),
                elem_offset=self.index(buffer.elem_offset),
            )
        return found

    visit_buffer_use = buffer
    visit_buffer_def = buffer

    # ------------------------------------------------------------------ expressions

    def _both(self, node: Any, a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        """Two operands with one type: a constant beside an index is one, data beside an index is widened."""
        if a.dtype is not b.dtype:
            a = self._constant(a) if b.dtype is self.dtype else a
            b = self._constant(b) if a.dtype is self.dtype else b
        return ops.match_types(a, b)

    @handles(BinaryOp, CmpOp)
    def binary(self, node: Any) -> PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        return type(node)(*self._both(node, a, b), node.span)

    @handles(Select)
    def select(self, node: Select) -> PrimExpr:
        condition, a, b = self.visit(node.condition), self.visit(node.true_value), self.visit(node.false_value)
        return Select(condition, *self._both(node, a, b), node.span)

    @handles(Call)
    def call(self, node: Call) -> PrimExpr:
        new = self.visit_children(node)
        if node.op is not _IF or new is node:
            return new
        condition, a, b = new.args
        a, b = self._both(node, a, b)
        return Call(a.dtype, node.op, (condition, a, b), node.span)

    @handles(Cast)
    def cast(self, node: Cast) -> PrimExpr:
        value = self.visit(node.value)
        if value.dtype is self.dtype and _counts(node.dtype):
            return value  # from one type of indices to another
        return node if value is node.value else Cast(node.dtype, value, node.span)

    @handles(Let, LetStmt)
    def let(self, node: Any) -> Any:
        value = self.visit(node.value)
        self.vars[node.var] = node.var if value.dtype is node.var.dtype else node.var.copy_with_dtype(value.dtype)
        body = self.visit(node.body)
        if isinstance(node, Let):
            return Let(self.vars[node.var], value, body, node.span)
        return LetStmt(self.vars[node.var], value, body, node.span)

    # ------------------------------------------------------------------ where indices are

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> PrimExpr:
        return BufferLoad(self.buffer(node.buffer), mutate_all(self.index, node.indices), node.predicate, node.span)

    @handles(BufferStore)
    def store(self, node: BufferStore) -> BufferStore:
        value = self.visit(node.value)
        if value.dtype is not node.value.dtype:  # an index is stored as the data that it was
            value = ops.cast(node.value.dtype, value)
        indices = mutate_all(self.index, node.indices)
        return node.replace(buffer=self.buffer(node.buffer), value=value, indices=indices)

    @handles(BufferRegion)
    def region(self, node: BufferRegion) -> BufferRegion:
        return BufferRegion(self.buffer(node.buffer), [self.range(r) for r in node.region])

    @handles(BufferRealize)
    def realize_buffer(self, node: BufferRealize) -> BufferRealize:
        bounds = tuple([self.range(r) for r in node.bounds])
        condition, body = self.visit(node.condition), self.visit(node.body)
        return node.replace(buffer=self.buffer(node.buffer), bounds=bounds, condition=condition, body=body)

    @handles(Prefetch)
    def prefetch(self, node: Prefetch) -> Prefetch:
        return node.replace(buffer=self.buffer(node.buffer), bounds=tuple([self.range(r) for r in node.bounds]))

    @handles(For)
    def loop(self, node: For) -> For:
        low, extent = self.index(node.min), self.index(node.extent)
        binding = None if node.thread_binding is None else self.visit(node.thread_binding)
        body = self.visit(node.body)
        return node.replace(loop_var=self.var(node.loop_var), min=low, extent=extent, body=body, thread_binding=binding)

    @handles(IterVar)
    def axis(self, node: IterVar) -> IterVar:
        return node.replace(var=self.var(node.var), dom=None if node.dom is None else self.range(node.dom))

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> AttrStmt:
        if not launches_thread(node):
            return self.visit_children(node)
        return node.replace(node=self.axis(node.node), value=self.index(node.value), body=self.visit(node.body))

    @handles(BlockRealize)
    def realize(self, node: BlockRealize) -> BlockRealize:
        values = mutate_all(self.index, node.iter_values)
        return node.replace(iter_values=values, predicate=self.visit(node.predicate), block=self.visit(node.block))

    @handles(Block)
    def block(self, node: Block) -> Block:
        new = self.visit_children(node.replace(annotations={}))
        return new.replace(annotations={k: self._attribute(v) for k, v in node.annotations.items()})

    def _attribute(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return tuple([self._attribute(v) for v in cast("tuple[Any, ...]", value)])
        return self.buffers.get(value, value) if isinstance(value, Buffer) else value

    @handles(MatchBufferRegion)
    def match(self, node: MatchBufferRegion) -> MatchBufferRegion:
        return node.replace(buffer=self.buffer(node.buffer), source=self.visit(node.source))

    @handles(Allocate)
    def allocate(self, node: Allocate) -> Allocate:
        extents = mutate_all(self.index, node.extents)
        return node.replace(extents=extents, condition=self.visit(node.condition), body=self.visit(node.body))
