"""NarrowDataType: index arithmetic in fewer bits where every value is known to fit."""

from __future__ import annotations

from typing import Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir import (
    AttrStmt,
    BinaryOp,
    Block,
    BlockRealize,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Cast,
    DataType,
    FloorDiv,
    FloorMod,
    For,
    IfThenElse,
    IntImm,
    IterVar,
    PrimExpr,
    PrimFunc,
    Ramp,
    Range,
    Select,
    Stmt,
    Var,
    Visitor,
    handles,
)
from tvmagic.ir.functor import mutate_all
from tvmagic.ir.ops import binary, cast, match_types
from tvmagic.ir.query import is_call, launches_thread
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.expressions.retyper import Retyper

MAX_BITS = 64


def _with_bits(dtype: DataType, bits: int) -> DataType:
    return DataType(f"int{bits}").with_lanes_of(dtype)


class _Wide(Visitor):
    """Whether a program has integers of more than `bits` bits at all."""

    def __init__(self, bits: int) -> None:
        self.bits, self.found = bits, False

    def visit(self, node: Any) -> Any:
        if self.found:
            return
        if isinstance(node, PrimExpr) and node.dtype.is_int and node.dtype.bits > self.bits:
            self.found = True
            return
        super().visit(node)


class _Needs(Visitor):
    """How many bits each loop variable, constant and cast needs, from the bounds around them."""

    def __init__(self, bits: int) -> None:
        self.target, self.now = bits, bits
        self.low, self.high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        self.analyzer = Analyzer()
        self.iterated: dict[Var, DataType] = {}
        self.bits: dict[Any, int] = {}

    def visit(self, node: Any) -> None:
        if not isinstance(node, PrimExpr) or not node.dtype.is_int:
            super().visit(node)
            return
        bits = self.target
        if node.dtype.bits > self.target:
            bound = self.analyzer.const_int_bound(node)
            if int(bound.max_value) > self.high or int(bound.min_value) < self.low:
                bits = MAX_BITS
        outer, self.now = self.now, max(bits, self.now)
        super().visit(node)
        self.now = outer

    def _iterate(self, var: Var, dom: Range) -> None:
        self.analyzer.bind(var, dom, True)
        self.iterated[var] = dom.extent.dtype
        if (
            dom.extent.dtype.bits > self.target
            and int(self.analyzer.const_int_bound(dom.extent).max_value) == self.high + 1
        ):
            self._need(var, MAX_BITS)  # each value fits, their number does not

    @handles(For)
    def loop(self, node: For) -> None:
        self._iterate(node.loop_var, Range.from_min_extent(node.min, node.extent))
        self.visit_children(node)

    @handles(Block)
    def block(self, node: Block) -> None:
        for iter_var in node.iter_vars:
            assert iter_var.dom is not None
            self._iterate(iter_var.var, iter_var.dom)
        self.visit_children(node)

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> None:
        if launches_thread(node):
            self._iterate(node.node.var, Range.from_min_extent(IntImm(node.value.dtype, 0), node.value))
        self.visit_children(node)

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> None:
        outer, self.now = self.now, self.target  # what an element needs, its index does not
        self.visit_children(node)
        self.now = outer

    @handles(Var)
    def var(self, var: Var) -> None:
        if var in self.iterated:
            self._need(var, min(self.iterated[var].bits, self.now))

    @handles(IntImm, Cast)
    def constant(self, node: Any) -> None:
        if node.dtype.is_int:
            self._need(node, min(node.dtype.bits, self.now))
        self.visit_children(node)

    def _need(self, node: Any, bits: int) -> None:
        key = node if isinstance(node, Var) else id(node)
        self.bits[key] = max(self.bits.get(key, 0), bits)


class _Narrower(Retyper):
    def __init__(self, needs: _Needs) -> None:
        super().__init__()
        self.needs = needs
        self.indexing = False
        self.buffers: dict[Buffer, Buffer] = {}

    def _bits(self, node: Any) -> int:
        return self.needs.bits.get(node if isinstance(node, Var) else id(node), 0)

    @handles(Var)
    def var(self, var: Var) -> Var:
        new = self.vars.get(var)
        if new is None:
            bits = self._bits(var)
            new = var.copy_with_dtype(_with_bits(var.dtype, bits)) if bits and bits != var.dtype.bits else var
            self.vars[var] = new
        return new

    @handles(IntImm)
    def constant(self, node: IntImm) -> PrimExpr:
        bits = self._bits(node)
        if not self.indexing or not bits or bits == node.dtype.bits:
            return node
        return IntImm(_with_bits(node.dtype, bits), node.value, node.span)

    @handles(Cast)
    def cast(self, node: Cast) -> PrimExpr:
        dtype, target = node.dtype, self.needs.target
        back = dtype.is_int and dtype.bits <= target < node.value.dtype.bits and node.value.dtype.is_int
        (value,), bits = self._indices((node.value,)) if back else (self.visit(node.value),), self._bits(node)
        if self.indexing and bits and bits != dtype.bits:
            dtype = _with_bits(dtype, bits)
        return node if value is node.value and dtype is node.dtype else cast(dtype, value, node.span)

    @handles(BinaryOp)
    def binary(self, node: BinaryOp) -> PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        return binary(type(node), a, b, node.span)

    @handles(FloorDiv, FloorMod)
    def quotient(self, node: BinaryOp) -> PrimExpr:
        return self.binary(node)

    @handles(Select)
    def select(self, node: Select) -> PrimExpr:
        condition = self.visit(node.condition)
        then, other = match_types(self.visit(node.true_value), self.visit(node.false_value))
        return node.with_(condition=condition, true_value=then, false_value=other)

    @handles(Ramp)
    def ramp(self, node: Ramp) -> PrimExpr:
        base, stride = match_types(self.visit(node.base), self.visit(node.stride))
        return node.with_(base=base, stride=stride)

    @handles(Broadcast)
    def broadcast(self, node: Broadcast) -> PrimExpr:
        return node.with_(value=self.visit(node.value))

    @handles(Call)
    def call(self, node: Call) -> PrimExpr:
        chooses = is_call(node, "tir.if_then_else")
        args = mutate_all(self.visit, node.args)
        if chooses:
            condition = self._indices(node.args[:1])
            args = args if condition[0] is args[0] else (*condition, *args[1:])
        if args is node.args:
            return node
        if chooses:
            then, other = match_types(args[1], args[2])
            return Call(then.dtype, node.op, (args[0], then, other), node.span)
        kept = [cast(old.dtype, new) if isinstance(new, PrimExpr) else new for old, new in zip(node.args, args)]
        return node.replace(args=tuple(kept))

    def _indices(self, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        outer, self.indexing = self.indexing, True
        new = mutate_all(self.visit, indices)
        self.indexing = outer
        return new

    def _buffer(self, buffer: Buffer) -> Buffer:
        """Return the buffer with its sizes over the narrowed variables, in the dtypes that they had."""
        if buffer not in self.buffers:
            shape, strides = (tuple(map(self._size, sizes)) for sizes in (buffer.shape, buffer.strides))
            offset = self._size(buffer.elem_offset)
            pairs = zip((*shape, *strides, offset), (*buffer.shape, *buffer.strides, buffer.elem_offset))
            kept = all(new is old for new, old in pairs)
            self.buffers[buffer] = buffer if kept else buffer.replace(shape=shape, strides=strides, elem_offset=offset)
        return self.buffers[buffer]

    visit_buffer_use = _buffer
    visit_buffer_def = _buffer

    def _size(self, size: PrimExpr) -> PrimExpr:
        outer, self.indexing = self.indexing, False
        new = cast(size.dtype, self.visit(size))
        self.indexing = outer
        return new

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> PrimExpr:
        return node.with_(buffer=self._buffer(node.buffer), indices=self._indices(node.indices))

    @handles(BufferStore)
    def store(self, node: BufferStore) -> Stmt:
        buffer, indices = self._buffer(node.buffer), self._indices(node.indices)
        return node.with_(buffer=buffer, indices=indices, value=cast(node.value.dtype, self.visit(node.value)))

    @handles(IfThenElse)
    def branch(self, node: IfThenElse) -> Stmt:
        (condition,) = self._indices((node.condition,))
        then_case = self.visit(node.then_case)
        else_case = None if node.else_case is None else self.visit(node.else_case)
        return node.with_(condition=condition, then_case=then_case, else_case=else_case)

    @handles(For)
    def loop(self, node: For) -> Stmt:
        var = self.var(node.loop_var)
        low, extent = self._indices((node.min, node.extent))
        body = self.visit(node.body)
        return node.with_(loop_var=var, min=cast(var.dtype, low), extent=cast(var.dtype, extent), body=body)

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> Stmt:
        new = self.visit_children(node)
        if not isinstance(node.node, IterVar):
            return new
        var = self.var(node.node.var)
        if var is node.node.var:
            return new
        dom = node.node.dom
        if dom is not None:
            dom = Range.from_min_extent(cast(var.dtype, dom.min), cast(var.dtype, dom.extent))
        return new.replace(node=node.node.replace(var=var, dom=dom), value=cast(var.dtype, new.value))

    @handles(BlockRealize)
    def block_realize(self, node: BlockRealize) -> Stmt:
        block = self.visit(node.block)
        values = self._indices(node.iter_values)
        (predicate,) = self._indices((node.predicate,))
        if block is node.block and values is node.iter_values and predicate is node.predicate:
            return node
        values = tuple([cast(v.var.dtype, value) for v, value in zip(block.iter_vars, values)])
        return node.replace(block=block, iter_values=values, predicate=predicate)

    @handles(Block)
    def block(self, node: Block) -> Stmt:
        iter_vars = tuple([self._axis(v) for v in node.iter_vars])
        new = self.visit_children(node)
        changed = any(a is not b for a, b in zip(iter_vars, node.iter_vars))
        return new.replace(iter_vars=iter_vars) if changed else new

    def _axis(self, axis: IterVar) -> IterVar:
        """A block's variable with its domain, in the bits that it needs."""
        var = self.var(axis.var)
        if var is axis.var or axis.dom is None:
            return axis
        low, extent = self._indices((axis.dom.min, axis.dom.extent))
        return axis.replace(var=var, dom=Range.from_min_extent(cast(var.dtype, low), cast(var.dtype, extent)))

    @handles(BufferRegion)
    def region(self, node: BufferRegion) -> BufferRegion:
        ranges: list[Range] = []
        for old in node.region:
            low, extent = self._indices((old.min, old.extent))
            same = low is old.min and extent is old.extent
            ranges.append(old if same else Range.from_min_extent(*match_types(low, extent)))
        buffer = self._buffer(node.buffer)
        if buffer is node.buffer and all(a is b for a, b in zip(ranges, node.region)):
            return node
        return node.replace(buffer=buffer, region=tuple(ranges))


@tir_pass("tir.NarrowDataType")
def NarrowDataType(func: PrimFunc, target_bits: int) -> PrimFunc:
    """Compute indices in `target_bits` bits where their bounds allow it; loop variables follow."""
    wide = _Wide(int(target_bits))
    wide.visit(func.body)
    if not wide.found:
        return func
    needs = _Needs(int(target_bits))
    needs.visit(func.body)
    return func.with_body(_Narrower(needs).visit(func.body))
