"""InjectPTXAsyncCopy: copies from global to shared memory in an asynchronous scope become `cp.async`."""

from __future__ import annotations

from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    Add,
    AttrStmt,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    DataType,
    Evaluate,
    FloatImm,
    IntImm,
    PointerType,
    PrimExpr,
    PrimType,
    Ramp,
    Stmt,
    StmtMutator,
    handles,
)
from tvmagic.ir.ops import multiply
from tvmagic.ir.query import is_call
from tvmagic.passes import note
from tvmagic.tir.transform.declaration import tir_pass

_WIDTHS = (4, 8, 16)  # the bytes that one `cp.async` copies


@tir_pass("tir.InjectPTXAsyncCopy")
class InjectPTXAsyncCopy(StmtMutator):
    """Write copies from global to shared memory in an `async_scope` as PTX's `cp.async`.

    One copy is of 4, 8 or 16 bytes: an element, or a vector of neighbours. A copy under a condition that stores 0
    otherwise, `T.if_then_else(c, A[i], 0)`, becomes a `cp.async` with that condition, which fills in the zeros
    itself. Other stores stay as they are. Raises `TVMagicError` for an asynchronous scope inside another one.
    """

    def __init__(self) -> None:
        self.asynchronous = False

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> Stmt:
        if node.attr_key != "async_scope":
            return self.visit_children(node)
        if self.asynchronous:
            raise TVMagicError("an asynchronous scope is inside another one", node=node)
        self.asynchronous = True
        body = self.visit(node.body)
        self.asynchronous = False
        return body

    @handles(BufferStore)
    def store(self, node: BufferStore) -> Stmt:
        if not self.asynchronous or node.buffer.scope() not in ("shared", "shared.dyn"):
            return node
        value, condition = node.value, None
        if is_call(value, "tir.if_then_else") and _is_zero(value.args[2]):
            condition, value = value.args[0], value.args[1]
        if not isinstance(value, BufferLoad):
            return node
        copy = _copy(value, node, condition)
        if copy is None:
            return node
        note("async", f"`{node.buffer.name}` is filled by `cp.async`", node=node)
        return Evaluate(copy, node.span)


def _is_zero(value: PrimExpr) -> bool:
    return isinstance(value, (IntImm, FloatImm)) and value.value == 0


def _copy(load: BufferLoad, store: BufferStore, condition: PrimExpr | None) -> Call | None:
    """The call that copies, or None if `cp.async` cannot."""
    if load.buffer.scope() != "global" or load.predicate is not None or store.predicate is not None:
        return None
    if len(load.indices) != 1 or len(store.indices) != 1:
        raise TVMagicError("an asynchronous copy is of flat buffers", node=store, hint="run FlattenBuffer before")
    source, place, factor = load.indices[0], store.indices[0], _factor(load.buffer, store.buffer)
    if source.dtype.is_scalable or source.dtype.lanes != place.dtype.lanes or factor is None:
        return None
    lanes = source.dtype.lanes
    width = lanes * load.buffer.dtype.bits * load.buffer.dtype.lanes // 8
    if width not in _WIDTHS:
        return None
    if lanes > 1:
        # a condition for each lane cannot be given, and the lanes must be neighbours
        first, origin = _first_place(place), _first_place(source)
        if condition is not None or first is None or origin is None or not isinstance(source, Ramp):
            return None
        source, place = origin, first
    args = [store.buffer.data, multiply(place, factor), load.buffer.data, source, IntImm("int32", width)]
    return Call(store.buffer.dtype, "tir.ptx_cp_async", args if condition is None else [*args, condition])


def _dense_base(index: PrimExpr) -> PrimExpr | None:
    """Where a ramp of neighbours begins; None for another index."""
    if isinstance(index, Ramp) and isinstance(index.stride, IntImm) and index.stride.value == 1:
        return index.base
    return None


def _first_place(index: PrimExpr) -> PrimExpr | None:
    """The index of the first lane: of a ramp, or of a ramp that is moved inside merged shared memory."""
    if isinstance(index, Add) and isinstance(index.b, Broadcast):
        base = _dense_base(index.a)
        return None if base is None else Add(base, index.b.value)
    return _dense_base(index)


def _factor(source: Buffer, target: Buffer) -> IntImm | None:
    """Elements of the target's pointer to one of the source's; None if they do not go together.

    They differ only if the target is a part of merged dynamic memory, whose pointer is one to bytes.
    """
    read, stored = _pointed_to(source), _pointed_to(target)
    if read is None or stored is None:
        return None
    if read is stored:
        return IntImm("int32", 1)
    if stored != "uint8" or target.scope() != "shared.dyn":
        return None
    return IntImm("int32", read.bits * read.lanes // 8)


def _pointed_to(buffer: Buffer) -> DataType | None:
    kind = buffer.data.type_annotation
    element = kind.element_type if isinstance(kind, PointerType) else None
    return element.dtype if isinstance(element, PrimType) else None
