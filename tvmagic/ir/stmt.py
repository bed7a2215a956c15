"""Statements: what a program does. Classes, fields and names are those of TVM's TIR."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir.buffer import Buffer, BufferRegion, MatchBufferRegion
from tvmagic.ir.dtype import DataType, dtype_of
from tvmagic.ir.expr import (
    IntImm,
    IterVar,
    PrimExpr,
    Range,
    Var,
    access_dtype,
    attr_dict,
    attr_value,
    convert,
    expr,
    exprs,
)
from tvmagic.ir.node import Kind, Node, Span, field
from tvmagic.ir.values import SEQUENCES


class Stmt(Node):
    """A statement."""

    __slots__ = ()


class LetStmt(Stmt):
    """`body` with `var` standing for `value`."""

    __slots__ = ("var", "value", "body")
    var: Var
    value: PrimExpr
    body: Stmt
    FIELDS = (field("value", Kind.EXPR), field("var", Kind.VAR_DEF), field("body", Kind.STMT))

    def __init__(self, var: Var, value: Any, body: Stmt, span: Span | None = None) -> None:
        self.var, self.value, self.body, self.span = var, expr(value), body, span


class AttrStmt(Stmt):
    """`body` with the fact `attr_key` of `node` set to `value`."""

    __slots__ = ("node", "attr_key", "value", "body")
    node: Any
    attr_key: str
    value: PrimExpr
    body: Stmt
    FIELDS = (
        field("node", Kind.OBJECT),
        field("attr_key", Kind.VALUE),
        field("value", Kind.EXPR),
        field("body", Kind.STMT),
    )

    def __init__(self, node: Any, attr_key: str, value: Any, body: Stmt, span: Span | None = None) -> None:
        self.node, self.attr_key, self.value = attr_value(node), attr_key, convert(value)
        self.body, self.span = body, span


class AssertStmt(Stmt):
    """`body`, after a check that `condition` holds."""

    __slots__ = ("condition", "message", "body")
    condition: PrimExpr
    message: PrimExpr
    body: Stmt
    FIELDS = (field("condition", Kind.EXPR), field("message", Kind.EXPR), field("body", Kind.STMT))

    def __init__(self, condition: Any, message: Any, body: Stmt, span: Span | None = None) -> None:
        self.condition, self.message = expr(condition), convert(message)
        self.body, self.span = body, span


class BufferStore(Stmt):
    """`buffer[indices] = value`; with `predicate`, only in the lanes where it holds."""

    __slots__ = ("buffer", "value", "indices", "predicate")
    buffer: Buffer
    value: PrimExpr
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None
    FIELDS = (
        field("buffer", Kind.BUFFER_USE),
        field("value", Kind.EXPR),
        field("indices", Kind.EXPRS),
        field("predicate", Kind.EXPR),
    )

    def __init__(
        self, buffer: Buffer, value: Any, indices: Any, predicate: Any = None, span: Span | None = None
    ) -> None:
        self.buffer, self.value, self.indices = buffer, expr(value), exprs(indices)
        self.predicate = None if predicate is None else expr(predicate)
        self.span = span
        dtype = access_dtype(buffer, self.indices)
        if self.value.dtype is not dtype:
            raise TVMagicError(
                f"a value of type `{self.value.dtype}` cannot be stored in buffer `{buffer.name}` at a place "
                f"of type `{dtype}`"
            )


class BufferRealize(Stmt):
    """`body` with the region `bounds` of `buffer` allocated."""

    __slots__ = ("buffer", "bounds", "condition", "body")
    buffer: Buffer
    bounds: tuple[Range, ...]
    condition: PrimExpr
    body: Stmt
    FIELDS = (
        field("buffer", Kind.BUFFER_DEF),
        field("bounds", Kind.NODES),
        field("condition", Kind.EXPR),
        field("body", Kind.STMT),
    )

    def __init__(
        self, buffer: Buffer, bounds: Sequence[Range], condition: Any, body: Stmt, span: Span | None = None
    ) -> None:
        self.buffer, self.bounds, self.condition = buffer, tuple(bounds), expr(condition)
        self.body, self.span = body, span


class ProducerStore(Stmt):
    """A value stored in a tensor, before tensors become buffers."""

    __slots__ = ("producer", "value", "indices")
    producer: Any
    value: PrimExpr
    indices: tuple[PrimExpr, ...]
    FIELDS = (field("producer", Kind.VALUE), field("value", Kind.EXPR), field("indices", Kind.EXPRS))

    def __init__(self, producer: Any, value: Any, indices: Any, span: Span | None = None) -> None:
        self.producer, self.value, self.indices, self.span = producer, expr(value), exprs(indices), span


class ProducerRealize(Stmt):
    """`body` with the region `bounds` of a tensor allocated."""

    __slots__ = ("producer", "bounds", "condition", "body", "storage_scope")
    producer: Any
    bounds: tuple[Range, ...]
    condition: PrimExpr
    body: Stmt
    storage_scope: str
    FIELDS = (
        field("producer", Kind.VALUE),
        field("bounds", Kind.NODES),
        field("condition", Kind.EXPR),
        field("body", Kind.STMT),
        field("storage_scope", Kind.VALUE),
    )

    def __init__(
        self,
        producer: Any,
        bounds: Sequence[Range],
        condition: Any,
        body: Stmt,
        storage_scope: str = "",
        span: Span | None = None,
    ) -> None:
        self.producer, self.bounds, self.condition = producer, tuple(bounds), expr(condition)
        self.body, self.storage_scope, self.span = body, storage_scope, span


class Prefetch(Stmt):
    """A hint that the region `bounds` of `buffer` will be read."""

    __slots__ = ("buffer", "bounds")
    buffer: Buffer
    bounds: tuple[Range, ...]
    FIELDS = (field("buffer", Kind.BUFFER_USE), field("bounds", Kind.NODES))

    def __init__(self, buffer: Buffer, bounds: Sequence[Range], span: Span | None = None) -> None:
        self.buffer, self.bounds, self.span = buffer, tuple(bounds), span


class Allocate(Stmt):
    """`body` with memory for `extents` elements of `dtype` behind `buffer_var`."""

    __slots__ = ("buffer_var", "dtype", "extents", "condition", "body", "annotations")
    buffer_var: Var
    dtype: DataType
    extents: tuple[PrimExpr, ...]
    condition: PrimExpr
    body: Stmt
    annotations: dict[str, Any]
    FIELDS = (
        field("buffer_var", Kind.VAR_DEF),
        field("dtype", Kind.VALUE),
        field("extents", Kind.EXPRS),
        field("condition", Kind.EXPR),
        field("body", Kind.STMT),
        field("annotations", Kind.ATTRS),
    )

    def __init__(
        self,
        buffer_var: Var,
        dtype: Any,
        extents: Any,
        condition: Any,
        body: Stmt,
        annotations: Mapping[str, Any] | None = None,
        span: Span | None = None,
    ) -> None:
        self.buffer_var, self.dtype, self.extents = buffer_var, dtype_of(dtype), exprs(extents)
        self.condition, self.body = expr(condition), body
        self.annotations, self.span = attr_dict(annotations), span


class AllocateConst(Stmt):
    """`body` with the constant array `data` (NumPy) behind `buffer_var`."""

    __slots__ = ("buffer_var", "dtype", "extents", "data", "body", "annotations")
    buffer_var: Var
    dtype: DataType
    extents: tuple[PrimExpr, ...]
    data: Any
    body: Stmt
    annotations: dict[str, Any]
    FIELDS = (
        field("buffer_var", Kind.VAR_DEF),
        field("dtype", Kind.VALUE),
        field("extents", Kind.EXPRS),
        field("data", Kind.VALUE),
        field("body", Kind.STMT),
        field("annotations", Kind.ATTRS),
    )

    def __init__(
        self,
        buffer_var: Var,
        dtype: Any,
        extents: Any,
        data_or_idx: Any,
        body: Stmt,
        annotations: Mapping[str, Any] | None = None,
        span: Span | None = None,
    ) -> None:
        self.buffer_var, self.dtype, self.extents = buffer_var, dtype_of(dtype), exprs(extents)
        self.data, self.body = data_or_idx, body
        self.annotations, self.span = attr_dict(annotations), span


class DeclBuffer(Stmt):
    """`body` with `buffer` declared over memory that is already there."""

    __slots__ = ("buffer", "body")
    buffer: Buffer
    body: Stmt
    FIELDS = (field("buffer", Kind.BUFFER_DEF), field("body", Kind.STMT))

    def __init__(self, buffer: Buffer, body: Stmt, span: Span | None = None) -> None:
        self.buffer, self.body, self.span = buffer, body, span


class SeqStmt(Stmt):
    """Two statements or more, one after the other."""

    __slots__ = ("seq",)
    seq: tuple[Stmt, ...]
    FIELDS = (field("seq", Kind.STMTS),)

    def __init__(self, seq: Sequence[Stmt], span: Span | None = None) -> None:
        self.seq, self.span = tuple(seq), span

    @staticmethod
    def flatten(*parts: Any) -> Stmt:
        """The parts in order as one statement: nested sequences opened, no-ops left out."""
        flat: list[Stmt] = []
        stack = list(reversed(parts))
        while stack:
            part = stack.pop()
            if part is None:
                continue
            if isinstance(part, SEQUENCES):
                stack.extend(reversed(part))
            elif isinstance(part, SeqStmt):
                stack.extend(reversed(part.seq))
            elif isinstance(part, Evaluate) and isinstance(part.value, IntImm) and part.value.value == 0:
                continue
            else:
                flat.append(part)
        if not flat:
            return Evaluate(0)
        return flat[0] if len(flat) == 1 else SeqStmt(flat)

    def __getitem__(self, index: int) -> Stmt:
        return self.seq[index]

    def __len__(self) -> int:
        return len(self.seq)


class IfThenElse(Stmt):
    """`then_case` where `condition` holds, else `else_case`, which may be None."""

    __slots__ = ("condition", "then_case", "else_case")
    condition: PrimExpr
    then_case: Stmt
    else_case: Stmt | None
    FIELDS = (
        field("condition", Kind.EXPR),
        field("then_case", Kind.STMT),
        field("else_case", Kind.STMT),
    )

    def __init__(
        self, condition: Any, then_case: Stmt, else_case: Stmt | None = None, span: Span | None = None
    ) -> None:
        self.condition, self.then_case, self.else_case, self.span = expr(condition), then_case, else_case, span


class ForKind(enum.IntEnum):
    """How the iterations of a loop run."""

    SERIAL = 0
    PARALLEL = 1
    VECTORIZED = 2
    UNROLLED = 3
    THREAD_BINDING = 4


class For(Stmt):
    """`body` for `loop_var` from `min` to `min + extent`, run as `kind` says."""

    __slots__ = ("loop_var", "min", "extent", "kind", "body", "thread_binding", "annotations")
    loop_var: Var
    min: PrimExpr
    extent: PrimExpr
    kind: ForKind
    body: Stmt
    thread_binding: IterVar | None
    annotations: dict[str, Any]
    FIELDS = (
        field("min", Kind.EXPR),
        field("extent", Kind.EXPR),
        field("loop_var", Kind.VAR_DEF),
        field("kind", Kind.VALUE),
        field("body", Kind.STMT),
        field("thread_binding", Kind.NODE),
        field("annotations", Kind.ATTRS),
    )

    def __init__(
        self,
        loop_var: Var,
        min: Any,
        extent: Any,
        kind: Any,
        body: Stmt,
        thread_binding: IterVar | None = None,
        annotations: Mapping[str, Any] | None = None,
        span: Span | None = None,
    ) -> None:
        self.loop_var, self.min, self.extent = loop_var, expr(min), expr(extent)
        if self.min.dtype is not loop_var.dtype and isinstance(self.min, IntImm):
            self.min = IntImm(loop_var.dtype, self.min.value)
        if self.extent.dtype is not loop_var.dtype and isinstance(self.extent, IntImm):
            self.extent = IntImm(loop_var.dtype, self.extent.value)
        self.kind = kind if isinstance(kind, ForKind) else ForKind(kind)
        self.body, self.thread_binding = body, thread_binding
        self.annotations, self.span = attr_dict(annotations), span


class While(Stmt):
    """`body` again and again while `condition` holds."""

    __slots__ = ("condition", "body")
    condition: PrimExpr
    body: Stmt
    FIELDS = (field("condition", Kind.EXPR), field("body", Kind.STMT))

    def __init__(self, condition: Any, body: Stmt, span: Span | None = None) -> None:
        self.condition, self.body, self.span = expr(condition), body, span


class Evaluate(Stmt):
    """`value`, computed for its effect."""

    __slots__ = ("value",)
    value: PrimExpr
    FIELDS = (field("value", Kind.EXPR),)

    def __init__(self, value: Any, span: Span | None = None) -> None:
        self.value, self.span = expr(value), span


class Block(Stmt):
    """A unit of computation with its own iteration variables.

    It reads and writes just the regions `reads` and `writes`. `init` runs before the first
    iteration of the reduction; `alloc_buffers` live inside it.
    """

    __slots__ = (
        "iter_vars",
        "reads",
        "writes",
        "name_hint",
        "body",
        "init",
        "alloc_buffers",
        "match_buffers",
        "annotations",
    )
    iter_vars: tuple[IterVar, ...]
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    name_hint: str
    body: Stmt
    init: Stmt | None
    alloc_buffers: tuple[Buffer, ...]
    match_buffers: tuple[MatchBufferRegion, ...]
    annotations: dict[str, Any]
    FIELDS = (
        field("iter_vars", Kind.NODES),
        field("alloc_buffers", Kind.BUFFER_DEFS),
        field("match_buffers", Kind.NODES),
        field("reads", Kind.NODES),
        field("writes", Kind.NODES),
        field("name_hint", Kind.NAME),
        field("annotations", Kind.ATTRS),
        field("init", Kind.STMT),
        field("body", Kind.STMT),
    )

    def __init__(
        self,
        iter_vars: Sequence[IterVar],
        reads: Sequence[BufferRegion],
        writes: Sequence[BufferRegion],
        name_hint: str,
        body: Stmt,
        init: Stmt | None = None,
        alloc_buffers: Sequence[Buffer] | None = None,
        match_buffers: Sequence[MatchBufferRegion] | None = None,
        annotations: Mapping[str, Any] | None = None,
        span: Span | None = None,
    ) -> None:
        self.iter_vars, self.reads, self.writes = tuple(iter_vars), tuple(reads), tuple(writes)
        self.name_hint, self.body, self.init = name_hint, body, init
        self.alloc_buffers = tuple(alloc_buffers or ())
        self.match_buffers = tuple(match_buffers or ())
        self.annotations, self.span = attr_dict(annotations), span


class BlockRealize(Stmt):
    """`block` run with its iteration variables bound to `iter_values`, where `predicate` holds."""

    __slots__ = ("iter_values", "predicate", "block")
    iter_values: tuple[PrimExpr, ...]
    predicate: PrimExpr
    block: Block
    FIELDS = (
        field("iter_values", Kind.EXPRS),
        field("predicate", Kind.EXPR),
        field("block", Kind.STMT),
    )

    def __init__(self, iter_values: Any, predicate: Any, block: Block, span: Span | None = None) -> None:
        self.iter_values, self.predicate = tuple([expr(v) for v in iter_values]), expr(predicate)
        self.block, self.span = block, span
        if len(self.iter_values) != len(block.iter_vars):
            raise TVMagicError(
                f"block `{block.name_hint}` has {len(block.iter_vars)} iteration variables, "
                f"{len(self.iter_values)} are bound"
            )


def stmt_seq(*stmts: Any) -> Stmt:
    """The statements in order as one."""
    return SeqStmt.flatten(*stmts)


def stmt_list(stmt: Stmt) -> list[Stmt]:
    """The statements of a sequence in order, those of sequences inside it too; a single statement alone."""
    if not isinstance(stmt, SeqStmt):
        return [stmt]
    return [part for child in stmt.seq for part in stmt_list(child)]
