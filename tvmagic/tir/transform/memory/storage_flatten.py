"""StorageFlatten: the realized buffers of a TE schedule become flat allocations.

A realized buffer is only as large as the region it is realized for; an access is moved by where
that region begins. Alignments asked for by `storage_align` become strides. Views that a tensor
intrinsic binds become accesses of what they are views of.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir.ops import floordiv, make_const
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.memory.alignment import aligned_strides
from tvmagic.tir.transform.memory.bind_buffer import bind_view
from tvmagic.tir.transform.memory.checked_indices import checked_indices, checks_wanted
from tvmagic.tir.transform.memory.flat_index import FlatIndex
from tvmagic.tir.transform.memory.flatten_buffer import flat_extents, from_legacy_te_schedule, stored_dtype
from tvmagic.tir.transform.memory.layout_transforms import apply_layout_transforms
from tvmagic.tir.transform.threads.lift_thread_binding import thread_rank
from tvmagic.tir.transform.with_analyzer import AnalyzerMutator, is_true

ALIGNMENT = 64
_SCOPE_OF_RANK = ("shared", "local")


@dataclass
class _Storage:
    """A buffer in its memory: `buffer` with its realized shape, `flat` as accessed.

    `begins` is where the realized region begins, in the indices of the original buffer.
    """

    buffer: ir.Buffer
    flat: ir.Buffer
    begins: tuple[ir.PrimExpr, ...] = ()
    external: bool = False
    live: bool = True


@dataclass
class _View:
    """A buffer that shows the part of `target` from `begins` on."""

    target: ir.Buffer
    begins: tuple[ir.PrimExpr, ...]


@dataclass
class _State:
    storage: dict[ir.Buffer, _Storage] = field(default_factory=dict[ir.Buffer, _Storage])
    views: dict[ir.Buffer, _View] = field(default_factory=dict[ir.Buffer, _View])
    vars: dict[ir.Var, ir.PrimExpr] = field(default_factory=dict[ir.Var, ir.PrimExpr])
    aligned: dict[ir.Buffer, dict[int, tuple[int, int]]] = field(
        default_factory=dict[ir.Buffer, dict[int, tuple[int, int]]]
    )
    threads: list[str] = field(default_factory=list[str])


def allocation_alignment(buffer: ir.Buffer) -> int:
    """Bytes to align a temporary to: 64, less where the whole of it is smaller."""
    size = buffer.dtype.bits * buffer.dtype.lanes
    for extent in buffer.shape:
        if not isinstance(extent, ir.IntImm):
            return ALIGNMENT
        size *= extent.value
    align = ALIGNMENT
    while size > 0 and align > size // 8 and align > 1:
        align //= 2
    return align


class _StorageFlattener(AnalyzerMutator):
    def __init__(self, func: ir.PrimFunc, analyzer: Analyzer, cache_line: int, bounds: bool) -> None:
        super().__init__(analyzer)
        self.state, self.cache_line, self.bounds = _State(), cache_line, bounds
        self.offsets = FlatIndex()
        self.checks = checks_wanted()
        self.accessed: list[ir.Buffer] = []
        # an argument may have been flattened before: its memory is then read by another buffer
        arguments = [buffer.data for buffer in func.buffer_map.values()]
        self.allocated: set[ir.Var] = {*arguments, *(param for param in func.params if param.dtype.is_handle)}
        for buffer in func.buffer_map.values():
            flat = buffer.get_flattened_buffer()
            if flat.dtype.is_bool:
                flat = flat.replace(dtype=stored_dtype(flat.dtype))
            self.state.storage[buffer] = _Storage(buffer, flat, external=True)

    # ------------------------------------------------------------------ definitions

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> ir.PrimExpr:
        return self.state.vars.get(var, var)

    @ir.handles(ir.Allocate, ir.AllocateConst)
    def allocate(self, node: ir.Allocate | ir.AllocateConst) -> ir.Stmt:
        self.allocated.add(node.buffer_var)
        new = self.visit_children(node)
        if isinstance(node, ir.Allocate) and len(node.extents) > 1 and isinstance(node.body, ir.DeclBuffer):
            return new.with_(extents=flat_extents(node, self.analyzer, ir.Buffer.get_flattened_buffer))
        return new

    @ir.handles(ir.LetStmt)
    def let_stmt(self, node: ir.LetStmt) -> ir.Stmt:
        if node.var.dtype.is_handle:
            self.allocated.add(node.var)
        return super().let(node)

    @ir.handles(ir.DeclBuffer)
    def declaration(self, node: ir.DeclBuffer) -> ir.Stmt:
        flat = self._find(node.buffer).flat
        return node.replace(buffer=flat, body=self.visit(node.body))

    @ir.handles(ir.BufferRealize)
    def realize(self, node: ir.BufferRealize) -> ir.Stmt:
        known = self.state.storage.get(node.buffer)
        if known is not None:
            if not known.external:
                raise TVMagicError(
                    f"buffer `{node.buffer.name}` is realized twice",
                    node=node,
                    code="tir.storage_flatten.realized_twice",
                )
            return self.visit(node.body)
        storage = self._storage_of(node)
        self.state.storage[node.buffer] = storage
        body = self.visit(node.body)
        storage.live = False
        flat = storage.flat
        condition = make_const(stored_dtype(flat.dtype).with_lanes(1), 1)
        condition = ir.IntImm("bool", condition.value)  # type: ignore[attr-defined]
        new: ir.Stmt = ir.Allocate(flat.data, flat.dtype, flat.shape, condition, body, span=node.span)
        return self._bound(storage.buffer, new) if self.bounds and storage.buffer.shape else new

    def _storage_of(self, node: ir.BufferRealize) -> _Storage:
        buffer = node.buffer
        shape = tuple([self.visit(r.extent) for r in node.bounds])
        if buffer.shape and len(buffer.shape) != len(shape):
            raise TVMagicError(
                f"buffer `{buffer.name}` is realized with {len(shape)} dimensions",
                node=node,
                code="tir.storage_flatten.rank_differs",
            )
        begins = tuple([self.visit(r.min) for r in node.bounds])
        new = buffer.replace(shape=shape, strides=self._strides(buffer, shape), data=self._scoped(buffer.data))
        new = new.replace(
            data_alignment=allocation_alignment(new),
            offset_factor=1,
            elem_offset=ir.IntImm(shape[0].dtype if shape else "int32", 0),
            buffer_type="",
        )
        if new.data is not buffer.data:
            self.state.vars[buffer.data] = new.data
        flat = new.get_flattened_buffer()
        if flat.dtype.is_bool:
            flat = flat.replace(dtype=stored_dtype(flat.dtype))
        return _Storage(new, flat, begins)

    def _scoped(self, data: ir.Var) -> ir.Var:
        """The pointer with a memory: if none is asked for, that of the threads around it."""
        kind = data.type_annotation
        if not isinstance(kind, ir.PointerType) or kind.storage_scope:
            return data
        scope = _SCOPE_OF_RANK[thread_rank(self.state.threads[-1])[0]] if self.state.threads else "global"
        return ir.Var(data.name, ir.PointerType(kind.element_type, scope), data.span)

    def _strides(self, buffer: ir.Buffer, shape: tuple[ir.PrimExpr, ...]) -> tuple[ir.PrimExpr, ...]:
        aligned = self.state.aligned.get(buffer)
        if buffer.strides or not aligned or not shape:
            return buffer.strides
        return aligned_strides(shape, aligned, self.analyzer.simplify)

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        key = node.attr_key
        if key == "buffer_dim_align" and isinstance(node.node, ir.Buffer):
            axis, factor, offset = (int(a) for a in node.value.args)  # type: ignore[attr-defined]
            self.state.aligned.setdefault(node.node, {})[axis] = (factor, offset)
            return self.visit(node.body)
        if key == "buffer_bind_scope":
            return self._bind_scope(node)
        if key == "double_buffer_scope" and isinstance(node.node, ir.Buffer):
            body = self.visit(node.body)
            return ir.AttrStmt(self._find(node.node).flat.data, key, self.visit(node.value), body, node.span)
        if key == "thread_extent" and isinstance(node.node, ir.IterVar):
            self.state.threads.append(node.node.thread_tag)
            new = super().attribute(node)
            self.state.threads.pop()
            return new
        return super().attribute(node)

    def _bind_scope(self, node: ir.AttrStmt) -> ir.Stmt:
        view, target = node.node
        storage = self._find(target)
        args = [self.visit(a) for a in node.value.args]  # type: ignore[attr-defined]
        begins, extents = tuple(args[0::2]), tuple(args[1::2])
        moved = tuple([b - s for b, s in zip(begins, storage.begins)]) if storage.begins else begins
        self.state.views[view] = _View(target, begins)
        known, names = self.state.vars, (view.data, *view.shape, *view.strides, view.elem_offset)
        own = [var for var in names if isinstance(var, ir.Var) and var not in known]
        checks = bind_view(view, storage.buffer, moved, extents, known, self.analyzer)
        body = self.visit(node.body)
        for var in own:  # the same view may show another part later on
            known.pop(var, None)
        for condition, message in reversed(checks):
            body = ir.AssertStmt(condition, message, body, node.span)
        return body

    # ------------------------------------------------------------------ accesses

    def _find(self, buffer: ir.Buffer) -> _Storage:
        storage = self.state.storage.get(buffer)
        if storage is None and buffer.data in self.allocated:
            flat = buffer.get_flattened_buffer()
            storage = _Storage(buffer, flat.replace(dtype=stored_dtype(flat.dtype)) if flat.dtype.is_bool else flat)
            self.state.storage[buffer] = storage
        if storage is None or not storage.live:
            raise TVMagicError(
                f"buffer `{buffer.name}` is accessed where it is not realized", code="tir.storage_flatten.not_realized"
            )
        return storage

    def _flat_location(self, node: ir.BufferLoad | ir.BufferStore) -> tuple[ir.Buffer, tuple[ir.PrimExpr, ...]]:
        indices = ir.mutate_all(self.visit, node.indices)
        buffer, indices = self._unwrap(node.buffer, indices)
        storage = self._find(buffer)
        if storage.begins:
            indices = tuple([index - begin for index, begin in zip(indices, storage.begins)])
        if self.bounds and storage.buffer.shape:
            self.accessed.append(storage.buffer)
        if self.checks and len(indices) > 1:  # code generation checks a single one
            indices = checked_indices(buffer, indices, storage.buffer.shape, self.analyzer, node)
        return storage.flat, self.offsets(storage.buffer, indices)

    def _unwrap(self, buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...]) -> tuple[ir.Buffer, tuple[ir.PrimExpr, ...]]:
        """An access of a view as one of what it is a view of."""
        view = self.state.views.get(buffer)
        if view is None:
            return buffer, indices
        zeros = (ir.IntImm("int32", 0),) * (len(view.begins) - len(indices))
        return view.target, tuple([b + i for b, i in zip(view.begins, (*zeros, *indices))])

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        flat, indices = self._flat_location(node)
        new = ir.BufferLoad(flat, indices, node.predicate, node.span)
        return ir.Cast(node.dtype, new, node.span) if node.dtype.is_bool else new

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        self.accessed = []
        value = self.visit(node.value)
        if value.dtype.is_bool:
            value = ir.Cast(stored_dtype(value.dtype), value, node.span)
        flat, indices = self._flat_location(node)
        new: ir.Stmt = ir.BufferStore(flat, value, indices, node.predicate, node.span)
        for buffer in self.accessed:
            new = self._bound(buffer, new)
        return new

    def _bound(self, buffer: ir.Buffer, body: ir.Stmt) -> ir.Stmt:
        """`body` with the number of elements of `buffer` noted for the bounds checker."""
        total: ir.PrimExpr = ir.IntImm(buffer.shape[0].dtype, 1)
        for size in buffer.shape:
            total = total * size * buffer.dtype.lanes
        return ir.AttrStmt(buffer.data, "buffer_bound", ir.Call("handle", "tir.tvm_tuple", (total,)), body, body.span)

    @ir.handles(ir.Prefetch)
    def prefetch(self, node: ir.Prefetch) -> ir.Stmt:
        """One prefetch a cache line over the box."""
        storage = self._find(node.buffer)
        elements = max(1, self.cache_line // max(1, storage.buffer.dtype.bytes))
        block, last = 1, len(node.bounds) - 1
        while last > 0:
            size = storage.buffer.shape[last]
            if not isinstance(size, ir.IntImm) or block * size.value > elements:
                break
            block *= size.value
            last -= 1
        step = max(1, elements // block)
        names = [ir.Var(f"prefetch.{node.buffer.name}.{axis}", "int32") for axis in range(last + 1)]
        mins = [self.visit(r.min) for r in node.bounds]
        indices = [
            names[axis] * step + mins[axis] if axis == last else names[axis] + mins[axis] for axis in range(last + 1)
        ]
        checks, self.checks = self.checks, False  # nothing is read: the place may be behind the end
        load = self.visit(ir.BufferLoad(node.buffer, [*indices, *mins[last + 1 :]]))
        self.checks = checks
        address = ir.Call("handle", "tir.address_of", (load,))
        stmt: ir.Stmt = ir.Evaluate(ir.Call(node.buffer.dtype, "tir.prefetch", (address, 0, 3, 1)), node.span)
        for axis in range(last, -1, -1):
            extent = self.visit(node.bounds[axis].extent)
            if axis == last:
                extent = floordiv(extent - 1, step) + 1
            stmt = ir.For(names[axis], 0, extent, ir.ForKind.SERIAL, stmt, span=node.span)
        return stmt

    @ir.handles(ir.AssertStmt)
    def assertion(self, node: ir.AssertStmt) -> ir.Stmt:
        new = super().assertion(node)
        assert isinstance(new, ir.AssertStmt)
        return new.body if is_true(self.analyzer.simplify(new.condition)) else new

    @ir.handles(ir.Range)
    def range(self, node: ir.Range) -> ir.Range:
        return self.visit_children(node)


@tir_pass("tir.StorageFlatten")
def StorageFlatten(func: ir.PrimFunc, cache_line_size: int, create_bound_attribute: bool = False) -> ir.PrimFunc:
    """Flatten the buffers of a function made from a TE schedule; others stay as they are.

    `cache_line_size` is in bytes, for prefetches. With `create_bound_attribute` the sizes of the
    buffers are noted for InstrumentBoundCheckers.
    """
    if not from_legacy_te_schedule(func):
        return func
    func = apply_layout_transforms(func)
    flattener = _StorageFlattener(func, Analyzer(), int(cache_line_size), create_bound_attribute)
    return func.with_body(flattener.visit(func.body))
