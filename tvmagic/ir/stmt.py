"""Statements: what a program does. Classes, fields and names are those of TVM's TIR."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, ClassVar

from tvmagic.errors import TVMagicError
from tvmagic.ir.buffer import Buffer, BufferDef, BufferRegion, MatchBufferRegion
from tvmagic.ir.derive import PLAIN_CONVERTERS, node
from tvmagic.ir.dtype import DataType
from tvmagic.ir.expr import IntImm, IterVar, PrimExpr, Range, Var, access_dtype, expr
from tvmagic.ir.hooks import provided
from tvmagic.ir.methods import method_of
from tvmagic.ir.node import Name, Node, Object, Span
from tvmagic.ir.operators import check_mask_element
from tvmagic.ir.prim_expr import SEQUENCES
from tvmagic.ir.views import viewed


@viewed("program")
class Stmt(Node):
    """A statement."""

    __slots__ = ()
    HAS_ORIGIN = True


@node(walk="value var body")
class LetStmt(Stmt):
    """`body` with `var` standing for `value`."""

    var: Var
    value: PrimExpr
    body: Stmt


@node
class AttrStmt(Stmt):
    """`body` with the fact `attr_key` of `node` set to `value`."""

    node: Object
    attr_key: str
    value: PrimExpr
    body: Stmt


@node
class AssertStmt(Stmt):
    """`body`, after a check that `condition` holds."""

    condition: PrimExpr
    message: PrimExpr
    body: Stmt


@node
class BufferStore(Stmt):
    """`buffer[indices] = value`; with `predicate`, only in the lanes where it holds."""

    buffer: Buffer
    value: PrimExpr
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = None

    def check(self) -> None:
        dtype = access_dtype(self.buffer, self.indices)
        if self.predicate is not None:
            self._check_predicate(self.predicate.dtype)
        if dtype.is_scalable and not self.value.dtype.is_scalable:
            raise TVMagicError(
                f"Can't store non-scalable data into scalable buffer: `{self.value.dtype}` into `{self.buffer.name}`",
                code="buffer.scalable_element_mismatch",
            )
        if self.value.dtype is not dtype:
            raise TVMagicError(
                f"a value of type `{self.value.dtype}` cannot be stored in buffer `{self.buffer.name}` at a place "
                f"of type `{dtype}`",
                code="buffer.store_dtype_differs",
            )

    def _check_predicate(self, mask: DataType) -> None:
        value = self.value.dtype
        if mask.is_scalable != value.is_scalable:
            raise TVMagicError(
                "Predicate mask dtype and value dtype must both be scalable.", code="buffer.mask_not_scalable"
            )
        index = self.indices[-1].dtype.lane_code if self.indices else 1
        if abs(mask.lane_code) not in (abs(index), abs(value.lane_code)):
            raise TVMagicError(
                f"Got a predicate mask with {abs(mask.lane_code)} lanes, but trying to store a value with "
                f"{abs(value.lane_code)} lanes. The number of lanes must match.",
                code="buffer.mask_lanes_differ",
            )
        check_mask_element(mask)


@method_of(Buffer)
def vstore(self: Buffer, begin: Any, value: Any, predicate: Any = None) -> BufferStore:
    """The store of `value` at `begin`."""
    value = expr(value)
    return BufferStore(self, value, self.vector_index(begin, value.dtype), predicate)


@node
class BufferRealize(Stmt):
    """`body` with the region `bounds` of `buffer` allocated."""

    buffer: BufferDef
    bounds: tuple[Range, ...]
    condition: PrimExpr
    body: Stmt


@node
class ProducerStore(Stmt):
    """A value stored in a tensor, before tensors become buffers."""

    producer: Any
    value: PrimExpr
    indices: tuple[PrimExpr, ...]


@node
class ProducerRealize(Stmt):
    """`body` with the region `bounds` of a tensor allocated."""

    producer: Any
    bounds: tuple[Range, ...]
    condition: PrimExpr
    body: Stmt
    storage_scope: str = ""


@node
class Prefetch(Stmt):
    """A hint that the region `bounds` of `buffer` will be read."""

    buffer: Buffer
    bounds: tuple[Range, ...]


@node
class Allocate(Stmt):
    """`body` with memory for `extents` elements of `dtype` behind `buffer_var`."""

    buffer_var: Var
    dtype: DataType
    extents: tuple[PrimExpr, ...]
    condition: PrimExpr
    body: Stmt
    annotations: dict[str, Any]


@node
class AllocateConst(Stmt):
    """`body` with the constant array `data` (an NDArray of this type and shape) behind `buffer_var`.

    `irmod_storage_idx` is the array's number among the constants of the module, if they were gathered there.
    """

    buffer_var: Var
    dtype: DataType
    extents: tuple[PrimExpr, ...]
    data: Any
    body: Stmt
    annotations: dict[str, Any]
    irmod_storage_idx: int | None = None

    def check(self) -> None:
        if not hasattr(self.data, "copyfrom"):
            self.data = provided("array")(self.data)


@node
class DeclBuffer(Stmt):
    """`body` with `buffer` declared over memory that is already there."""

    buffer: BufferDef
    body: Stmt


@node
class SeqStmt(Stmt):
    """Two statements or more, one after the other."""

    HAS_ORIGIN: ClassVar[bool] = False  # only what is in it is a line
    seq: tuple[Stmt, ...]

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


@node
class IfThenElse(Stmt):
    """`then_case` where `condition` holds, else `else_case`, which may be None."""

    condition: PrimExpr
    then_case: Stmt
    else_case: Stmt | None = None


class ForKind(enum.IntEnum):
    """How the iterations of a loop run."""

    SERIAL = 0
    PARALLEL = 1
    VECTORIZED = 2
    UNROLLED = 3
    THREAD_BINDING = 4


PLAIN_CONVERTERS["ForKind"] = ForKind


@node(walk="min extent loop_var kind body thread_binding annotations")
class For(Stmt):
    """`body` for `loop_var` from `min` to `min + extent`, run as `kind` says."""

    loop_var: Var
    min: PrimExpr
    extent: PrimExpr
    kind: ForKind
    body: Stmt
    thread_binding: IterVar | None = None
    annotations: dict[str, Any]

    def check(self) -> None:
        dtype = self.loop_var.dtype
        if self.min.dtype is not dtype and isinstance(self.min, IntImm):
            self.min = IntImm(dtype, self.min.value)
        if self.extent.dtype is not dtype and isinstance(self.extent, IntImm):
            self.extent = IntImm(dtype, self.extent.value)


@node
class While(Stmt):
    """`body` again and again while `condition` holds."""

    condition: PrimExpr
    body: Stmt


@node
class Evaluate(Stmt):
    """`value`, computed for its effect."""

    value: PrimExpr


@node(walk="iter_vars alloc_buffers match_buffers reads writes name_hint annotations init body")
class Block(Stmt):
    """A unit of computation with its own iteration variables.

    It reads and writes just the regions `reads` and `writes`. `init` runs before the first
    iteration of the reduction; `alloc_buffers` live inside it.
    """

    iter_vars: tuple[IterVar, ...]
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    name_hint: Name
    body: Stmt
    init: Stmt | None = None
    alloc_buffers: tuple[BufferDef, ...] = ()
    match_buffers: tuple[MatchBufferRegion, ...] = ()
    annotations: dict[str, Any]


@node
class BlockRealize(Stmt):
    """`block` run with its iteration variables bound to `iter_values`, if `predicate` holds."""

    iter_values: tuple[PrimExpr, ...]
    predicate: PrimExpr
    block: Block

    def check(self) -> None:
        if len(self.iter_values) != len(self.block.iter_vars):
            raise TVMagicError(
                f"block `{self.block.name_hint}` has {len(self.block.iter_vars)} iteration variables, "
                f"{len(self.iter_values)} are bound",
                code="block.wrong_binding_count",
            )


def stmt_seq(*stmts: Any) -> Stmt:
    """The statements in order as one."""
    return SeqStmt.flatten(*stmts)


def stmt_list(stmt: Stmt) -> list[Stmt]:
    """The statements of a sequence in order, those of sequences inside it too; a single statement alone."""
    found: list[Stmt] = []
    todo = [stmt]
    while todo:
        part = todo.pop()
        if isinstance(part, SeqStmt):
            todo += reversed(part.seq)
        else:
            found.append(part)
    return found


def loop_nest(variables: Sequence[Var], extents: Sequence[Any], body: Stmt, span: Span | None = None) -> Stmt:
    """`body` in serial loops, the first outermost, each from 0 to before its extent."""
    for var, extent in reversed(list(zip(variables, extents, strict=True))):
        body = For(var, IntImm(var.dtype, 0), extent, ForKind.SERIAL, body, span=span)
    return body


def within_loops(loops: Sequence[For], body: Stmt) -> Stmt:
    """`body` in loops as they are, the first outermost, in the place of their own bodies."""
    for loop in reversed(loops):
        body = loop.replace(body=body)
    return body
