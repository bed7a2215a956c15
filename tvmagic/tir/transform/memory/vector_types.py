"""Buffers that are accessed only by vectors of one length get elements of that length."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir.ops import div
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.memory.flatten_buffer import stored_dtype


@dataclass
class _Use:
    """How one allocation is accessed: by which types."""

    element: ir.DataType
    extent: ir.PrimExpr
    accessed: set[ir.DataType] = field(default_factory=set[ir.DataType])
    fixed: bool = False  # the elements stay as they are


def _is_dense_ramp(index: ir.PrimExpr) -> bool:
    return isinstance(index, ir.Ramp) and isinstance(index.stride, ir.IntImm) and index.stride.value == 1


class _UseCollector(ir.Visitor):
    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self.uses: dict[ir.Var, _Use] = {}

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> None:
        self.uses[node.buffer_var] = _Use(stored_dtype(node.dtype), node.extents[-1])
        self.visit_children(node)

    @ir.handles(ir.LetStmt)
    def let(self, node: ir.LetStmt) -> None:
        self.pointer(node.var)
        self.visit_children(node)

    def pointer(self, var: ir.Var) -> None:
        """A pointer that is not allocated here, to memory of any size."""
        kind = var.type_annotation
        if isinstance(kind, ir.PointerType) and isinstance(kind.element_type, ir.PrimType):
            self.uses[var] = _Use(stored_dtype(kind.element_type.dtype), ir.IntImm("int32", 0))

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        self._buffer_access(node, node.dtype)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        self._buffer_access(node, node.value.dtype)

    def _buffer_access(self, node: ir.BufferLoad | ir.BufferStore, dtype: ir.DataType) -> None:
        self._access(node.buffer.data, dtype, node.indices)
        use = self.uses.get(node.buffer.data)
        if use is not None and node.predicate is not None:  # a mask has a lane for each element: they stay as they are
            use.fixed = True
        self.visit_children(node)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        name = node.op.name if isinstance(node.op, ir.Op) else ""
        if name == "tir.tvm_access_ptr" and isinstance(node.args[1], ir.Var):
            self._access(node.args[1], node.args[0].dtype, (node.args[2],))
        elif name == "tir.address_of" and isinstance(node.args[0], ir.BufferLoad):
            load = node.args[0]
            self._access(load.buffer.data, load.dtype, load.indices)
        self.visit_children(node)

    def _access(self, data: ir.Var, dtype: ir.DataType, indices: tuple[ir.PrimExpr, ...]) -> None:
        use = self.uses.get(data)
        if use is None:
            return
        dtype = stored_dtype(dtype)
        index_lanes = indices[-1].dtype.lanes if indices else 1
        lanes = use.element.lanes
        if index_lanes * lanes != dtype.lanes:  # it is seen as elements of another number of lanes
            use.fixed = True
        if indices and _is_dense_ramp(indices[-1]):
            ramp = indices[-1]
            assert isinstance(ramp, ir.Ramp)
            step = self.analyzer.modular_set(ramp.base)
            count = ramp.dtype.lanes
            if step.coeff % count == 0 and step.base % count == 0:
                lanes = count
        use.accessed.add(dtype.with_lanes(lanes))


def _preferred(use: _Use, analyzer: Analyzer) -> ir.DataType:
    bases = {d.element_of for d in use.accessed}
    if len(bases) != 1 or use.fixed:
        return use.element
    lanes = use.element.lanes
    if lanes == 1 and len(use.accessed) == 1:
        wanted = next(iter(use.accessed)).lanes
        size = analyzer.modular_set(use.extent)
        if size.coeff % wanted == 0 and size.base % wanted == 0:
            lanes = wanted
    return next(iter(bases)).with_lanes(lanes)


class _VectorTypes(ir.Mutator):
    def __init__(self, types: dict[ir.Var, tuple[ir.Var, ir.DataType, int]]) -> None:
        self.types = types
        self.views: dict[ir.Buffer, ir.Buffer] = {}

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> ir.Var:
        found = self.types.get(var)
        return var if found is None else found[0]

    def view(self, buffer: ir.Buffer) -> ir.Buffer:
        """`buffer` with vector elements."""
        new = self.views.get(buffer)
        if new is None:
            var, dtype, factor = self.types[buffer.data]
            last = div(buffer.shape[-1], ir.IntImm(buffer.shape[-1].dtype, factor))
            new = buffer.replace(data=var, dtype=dtype, shape=(*buffer.shape[:-1], last))
            self.views[buffer] = new
        return new

    def visit_buffer_def(self, buffer: ir.Buffer) -> ir.Buffer:
        return self.view(buffer) if buffer.data in self.types else buffer

    @staticmethod
    def _index(index: ir.PrimExpr, factor: int) -> ir.PrimExpr:
        """A dense index into scalars as one into vectors of `factor` of them."""
        if not isinstance(index, ir.Ramp) or factor == 1:
            return index
        return div(index.base, ir.IntImm(index.base.dtype, factor))

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: Any) -> Any:
        new = self.visit_children(node)
        found = self.types.get(node.buffer.data)
        if found is None:
            return new
        buffer = self.view(node.buffer)
        indices = (*new.indices[:-1], self._index(new.indices[-1], found[2]))
        if isinstance(node, ir.BufferLoad):
            return ir.BufferLoad(buffer, indices, node.predicate, node.span)
        return new.replace(buffer=buffer, indices=indices)

    @ir.handles(ir.LetStmt)
    def let(self, node: ir.LetStmt) -> ir.Stmt:
        new = self.visit_children(node)
        found = self.types.get(node.var)
        return new if found is None else new.replace(var=found[0])

    @ir.handles(ir.AttrStmt)
    def attr(self, node: ir.AttrStmt) -> ir.Stmt:
        new = self.visit_children(node)
        found = self.types.get(node.node) if isinstance(node.node, ir.Var) else None
        return new if found is None else new.replace(node=found[0])

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> ir.Stmt:
        new = self.visit_children(node)
        found = self.types.get(node.buffer_var)
        if found is None:
            return new
        last = div(new.extents[-1], ir.IntImm(new.extents[-1].dtype, found[2]))
        return new.replace(buffer_var=found[0], dtype=found[1], extents=(*new.extents[:-1], last))


def rewrite_vector_types(func: ir.PrimFunc, parameters: bool = False) -> ir.PrimFunc:
    """`func` with vector elements in the memory that is accessed by vectors of one length.

    It is memory that is allocated or that a `LetStmt` points to; with `parameters` also that of the function's arguments.
    """
    analyzer = Analyzer()
    collector = _UseCollector(analyzer)
    for var in func.params if parameters else ():
        collector.pointer(var)
    for buffer in func.buffer_map.values() if parameters else ():
        if buffer.shape:
            collector.uses[buffer.data] = _Use(stored_dtype(buffer.dtype), buffer.shape[-1])
    collector.visit(func.body)
    types: dict[ir.Var, tuple[ir.Var, ir.DataType, int]] = {}
    for var, use in collector.uses.items():
        preferred = _preferred(use, analyzer)
        if preferred is use.element:
            continue
        scope = var.type_annotation.storage_scope if isinstance(var.type_annotation, ir.PointerType) else ""
        new = ir.Var(var.name, ir.PointerType(ir.PrimType(preferred), scope), var.span)
        types[var] = (new, preferred, preferred.lanes // use.element.lanes)
    if not types:
        return func
    rewriter = _VectorTypes(types)
    body = rewriter.visit(func.body)
    params = tuple([rewriter.var(var) for var in func.params])
    buffers = {rewriter.var(var): rewriter.visit_buffer_def(buffer) for var, buffer in func.buffer_map.items()}
    return func.replace(params=params, buffer_map=buffers, body=body)


@tir_pass("tir.PointerValueTypeRewrite")
def PointerValueTypeRewrite(func: ir.PrimFunc) -> ir.PrimFunc:
    """Give memory that is accessed only by vectors of one length elements of that type, the arguments' too."""
    return rewrite_vector_types(func, parameters=True)
