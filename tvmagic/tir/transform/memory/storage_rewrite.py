"""StorageRewrite: allocations moved outwards, memory shared by what is not alive together.

The program is read as a sequence of events: a leaf statement is one, a loop or branch is two, its
begin and its end. A buffer is alive from the first to the last event that touches it, seen from
the scope of its allocation; at its end its memory is free for a later one.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass, field
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.errors import TVMagicError
from tvmagic.ir.memory_scope import MemoryScope, memory_info
from tvmagic.ir.ops import floordiv, floormod, maximum, multiply
from tvmagic.ir.prim_expr import scope_of
from tvmagic.ir.query import is_access_ptr, is_call
from tvmagic.passes import PassContext, is_recording, note
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.memory.inplace import works_in_place
from tvmagic.tir.transform.memory.vector_types import rewrite_vector_types

MATCH_RANGE = 16
_ALIGNMENT = 32  # bits, of buffers in one special memory of which nothing is known


@dataclass
class _Event:
    """A point of the sequence; `pair` is the distance to the other end of a scope, 0 for a leaf."""

    stmt: ir.Stmt
    touched: list[ir.Var] = field(default_factory=list[ir.Var])
    pair: int = 0


class _Linearizer(ir.Visitor):
    """Reads the program as a sequence of events."""

    def __init__(self) -> None:
        self.events: list[_Event] = []
        self.allocs: dict[ir.Var, tuple[ir.Allocate, int]] = {}
        self.scopes: list[list[ir.Var]] = []
        self.in_thread = False
        self.accessed: set[ir.Buffer] = set()
        # variables defined so far, and allocations whose size they give: those stay where they are
        self.defined: set[ir.Var] = set()
        self.kept: set[ir.Var] = set()

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> None:
        if any(uses_var(extent, self.defined) for extent in node.extents):
            self.kept.add(node.buffer_var)
        else:
            self.allocs[node.buffer_var] = (node, len(self.scopes))
        self.visit_children(node)

    def touch(self, var: ir.Var) -> None:
        found = self.allocs.get(var)
        if found is not None and found[1] < len(self.scopes):
            self.scopes[found[1]].append(var)

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> None:
        self.touch(var)

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        self.visit_children(node)
        self.accessed.add(node.buffer)
        self.touch(node.buffer.data)

    @ir.handles(ir.BufferStore, ir.Evaluate)
    def leaf(self, node: Any) -> None:
        self.scopes.append([])
        self.visit_children(node)
        if isinstance(node, ir.BufferStore):
            self.accessed.add(node.buffer)
            self.touch(node.buffer.data)
        touched = self.scopes.pop()
        if touched:
            self.events.append(_Event(node, touched))

    @ir.handles(ir.IfThenElse, ir.For, ir.While, ir.AssertStmt, ir.LetStmt)
    def scope(self, node: ir.Stmt) -> None:
        if isinstance(node, (ir.For, ir.LetStmt)):
            self.defined.add(node.loop_var if isinstance(node, ir.For) else node.var)
        self.scopes.append([])
        begin = len(self.events)
        self.events.append(_Event(node))
        self.visit_children(node)
        end = len(self.events)
        self.events.append(_Event(node, self.scopes.pop(), begin - end))
        self.events[begin].pair = end - begin

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        if node.attr_key == "thread_extent" and not self.in_thread:
            self.in_thread = True
            self.scope(node)
            self.in_thread = False
        elif node.attr_key in ("extern_scope", "virtual_thread"):
            self.scope(node)
        elif node.attr_key == "thread_extent":  # memory is allocated inside the outermost one, if this is not known
            self.defined.add(node.node.var)
            self.visit_children(node)
            self.defined.discard(node.node.var)
        else:
            if isinstance(node.node, ir.Var):
                self.visit(node.node)
            self.visit_children(node)


@dataclass(eq=False)
class _Entry:
    """One piece of memory and the allocations that share it, one after the other.

    In a special memory (`local.UB`) all pieces are parts of the first one's allocation: `parts` are those of it, `offset`
    is where a part begins, in bits.
    """

    attach: ir.Stmt | None
    scope: str
    element: ir.DataType
    bits: int
    allocs: list[ir.Allocate] = field(default_factory=list[ir.Allocate])
    var: ir.Var | None = None
    parts: list[_Entry] = field(default_factory=list["_Entry"])
    offset: int = 0

    @property
    def in_registers(self) -> bool:
        """Whether it is small or local memory, which a compiler keeps in registers if it is alone."""
        scope = MemoryScope.of(self.scope)
        if scope.tag:
            return False
        return scope.in_registers or self.allocs[0].dtype.is_handle or 0 < self.bits <= 32

    def shifted(self, index: ir.PrimExpr, dtype: ir.DataType) -> ir.PrimExpr:
        """An index into one of its buffers, of elements of a type, as one into the whole allocation."""
        return index if not self.offset else ir.IntImm(index.dtype, self.offset // (dtype.bits * dtype.lanes)) + index


def constant_bits(node: ir.Allocate) -> int:
    """The size of an allocation in bits; 0 if it is not constant."""
    bits = node.dtype.bits * node.dtype.lanes
    for extent in node.extents:
        if not isinstance(extent, ir.IntImm):
            return 0
        bits *= extent.value
    return bits


def _size(entry: _Entry) -> int:
    return entry.bits


class _Planner:
    """Decides which allocations share memory, and where that memory is allocated."""

    def __init__(self, reuse: bool) -> None:
        self.reuse = reuse
        self.entries: list[_Entry] = []
        self.entry_of: dict[ir.Var, _Entry] = {}
        self.scope: ir.Stmt | None = None
        # free memory of known size, ordered by it and then by when it became free; and of unknown size
        self.free_sized: list[_Entry] = []
        self.free_symbolic: list[_Entry] = []

    def plan(self, events: list[_Event], allocs: dict[ir.Var, tuple[ir.Allocate, int]]) -> None:
        births, deaths = _lifetimes(events)
        in_place: set[ir.Var] = set()
        for i, event in enumerate(events):
            begin = i + min(event.pair, 0)
            if event.pair >= 0:
                for var in births.get(i, ()):
                    alloc = allocs[var][0]
                    shared = None
                    if len(births[i]) <= 2:
                        shared = self._in_place(event.stmt, var, alloc, deaths.get(begin, ()), in_place)
                    entry = shared or self._find(alloc)
                    entry.allocs.append(alloc)
                    self.entry_of[var] = entry
            self._enter_or_leave(event)
            if event.pair <= 0:
                for var in deaths.get(begin, ()):
                    if var not in in_place:
                        self._free(self.entry_of[var])

    def _in_place(self, stmt: ir.Stmt, var: ir.Var, alloc: ir.Allocate, dying: Any, used: set[ir.Var]) -> _Entry | None:
        """The memory of a buffer that ends when `var` begins and is read only when `var` is written."""
        for source in dying:
            entry = self.entry_of.get(source)
            if entry is None or source in used:
                continue
            same = entry.scope == scope_of(var) and entry.attach is self.scope
            same = same and entry.element is alloc.dtype.element_of and entry.bits == constant_bits(alloc)
            if same and works_in_place(stmt, var, source):
                used.add(source)
                if is_recording():
                    note("storage.in_place", f"`{var.name}` takes the memory of `{source.name}` in place", node=stmt)
                return entry
        return None

    def _enter_or_leave(self, event: _Event) -> None:
        stmt = event.stmt
        if isinstance(stmt, ir.AttrStmt):
            opens = stmt.attr_key in ("thread_extent", "virtual_thread")
        else:
            opens = isinstance(stmt, ir.For) and stmt.kind is ir.ForKind.PARALLEL and self.scope in (None, stmt)
        if not opens:
            return
        if self.scope is None:
            self.scope = stmt
        elif self.scope is stmt:
            self.free_sized = [e for e in self.free_sized if e.attach is not stmt]
            self.free_symbolic = [e for e in self.free_symbolic if e.attach is not stmt]
            self.scope = None

    def _find(self, alloc: ir.Allocate) -> _Entry:
        scope, bits = scope_of(alloc.buffer_var), constant_bits(alloc)
        new = _Entry(self.scope, scope, alloc.dtype.element_of, bits, [alloc])
        entry = None
        if self.reuse and not new.in_registers and len(alloc.extents) == 1:
            entry = self._free_sized(alloc, scope, bits) if bits else self._free_symbolic(alloc, scope)
        if entry is None:
            entry = new
            entry.allocs.clear()
            self.entries.append(entry)
        elif is_recording():
            names = ", ".join(f"`{a.buffer_var.name}`" for a in entry.allocs)
            note("storage.reuse", f"`{alloc.buffer_var.name}` takes the memory of {names}", node=alloc)
        return entry

    def _free_sized(self, alloc: ir.Allocate, scope: str, bits: int) -> _Entry | None:
        """Free memory for a known size: the smallest that is large enough, else the largest smaller one."""
        free = self.free_sized
        middle = bisect.bisect_left(free, bits, key=_size)
        last = bisect.bisect_right(free, bits * MATCH_RANGE, key=_size)
        first = bisect.bisect_left(free, bits // MATCH_RANGE, key=_size)
        for i in (*range(middle, last), *range(middle - 1, first - 1, -1)):
            entry = free[i]
            if entry.attach is not self.scope or entry.scope != scope:
                continue
            if i < middle and entry.element is not alloc.dtype.element_of:
                continue
            entry.bits = max(bits, entry.bits)
            del free[i]
            return entry
        return None

    def _free_symbolic(self, alloc: ir.Allocate, scope: str) -> _Entry | None:
        for i, entry in enumerate(self.free_symbolic):
            if entry.attach is self.scope and entry.scope == scope and entry.element is alloc.dtype.element_of:
                del self.free_symbolic[i]
                return entry
        return None

    def _free(self, entry: _Entry) -> None:
        if entry.in_registers or any(len(alloc.extents) != 1 for alloc in entry.allocs):  # a layout of its own
            return
        if entry.bits:
            bisect.insort(self.free_sized, entry, key=_size)
        else:
            self.free_symbolic.append(entry)


def _lifetimes(events: list[_Event]) -> tuple[dict[int, list[ir.Var]], dict[int, list[ir.Var]]]:
    """Which buffers begin and end at an event, by the index of its begin."""
    births: dict[int, list[ir.Var]] = {}
    deaths: dict[int, list[ir.Var]] = {}
    seen: set[ir.Var] = set()
    for i in range(len(events) - 1, -1, -1):
        event = events[i]
        for var in event.touched:
            if var not in seen:
                seen.add(var)
                deaths.setdefault(i + event.pair, []).append(var)
    seen.clear()
    for i, event in enumerate(events):
        if event.pair < 0:
            continue
        for var in events[i + event.pair].touched:
            if var not in seen:
                seen.add(var)
                births.setdefault(i, []).append(var)
    return births, deaths


class _Rewriter(ir.Mutator):
    """Puts the planned allocations in the place of the old ones."""

    def __init__(self, planner: _Planner, linear: _Linearizer, analyzer: Analyzer) -> None:
        self.planner, self.accessed, self.analyzer = planner, linear.accessed, analyzer
        self.kept = linear.kept
        self.buffers: dict[ir.Buffer, ir.Buffer] = {}
        self.declared: set[ir.Buffer] = set()
        self.at: dict[ir.Stmt | None, list[_Entry]] = {}
        for entry in planner.entries:
            self.at.setdefault(entry.attach, []).append(entry)
            entry.var = entry.allocs[0].buffer_var
        for entries in self.at.values():
            _merge_special(entries)

    def rewrite(self, body: ir.Stmt) -> ir.Stmt:
        for entries in self.at.values():
            for entry in entries:
                first = entry.allocs[0].body
                if isinstance(first, ir.DeclBuffer) and _is_uniform(entry) and not entry.parts:
                    self.declared.add(first.buffer)
        return self.attach(None, self.visit(body))

    def attach(self, place: ir.Stmt | None, body: ir.Stmt) -> ir.Stmt:
        for entry in reversed(self.at.get(place, ())):
            body = self.allocation(entry, body)
        return body

    def allocation(self, entry: _Entry, body: ir.Stmt) -> ir.Stmt:
        assert entry.var is not None
        first = entry.allocs[0]
        if entry.parts:
            size = ir.IntImm(first.extents[0].dtype, -(-entry.bits // entry.element.bits))
            return ir.Allocate(entry.var, entry.element, (size,), True, body, span=first.span)
        dtype = max((a.dtype for a in entry.allocs), key=lambda d: d.lanes)
        if _is_uniform(entry):
            if isinstance(first.body, ir.DeclBuffer):
                body = ir.DeclBuffer(self.visit_buffer_use(first.body.buffer), body, first.body.span)
            return ir.Allocate(entry.var, dtype, first.extents, first.condition, body, span=first.span)
        size: ir.PrimExpr | None = None
        for alloc in entry.allocs:
            bits = alloc.dtype.bits * alloc.dtype.lanes
            extent = alloc.extents[0]
            if isinstance(extent, ir.IntImm) and extent.value > ((1 << 31) - 1) // bits:
                extent = ir.IntImm("int64", extent.value)
            part = multiply(extent, bits)
            size = part if size is None else maximum(size, part)
        assert size is not None
        width = dtype.bits * dtype.lanes
        whole = self.analyzer.can_prove(floormod(size, width).equal(0))
        size = floordiv(size, width)
        size = self.analyzer.simplify(size if whole else size + 1)
        return ir.Allocate(entry.var, dtype, (size,), True, body, span=first.span)

    def memory_of(self, var: ir.Var) -> ir.Var:
        """The pointer to the allocation that a buffer is in."""
        entry = self.planner.entry_of.get(var)
        return var if entry is None or entry.var is None else entry.var

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> ir.PrimExpr:
        entry = self.planner.entry_of.get(var)
        if entry is None or not entry.offset:
            return self.memory_of(var)
        first = next(a for a in entry.allocs if a.buffer_var is var)
        own = ir.decl_buffer(first.extents, first.dtype, self.memory_of(var).name, data=self.memory_of(var))
        place = entry.shifted(ir.IntImm(first.extents[0].dtype, 0), first.dtype)
        return ir.Call("handle", "tir.address_of", [ir.BufferLoad(own, [place])])

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: Any) -> Any:
        new, entry = self.visit_children(node), self.planner.entry_of.get(node.buffer.data)
        if entry is None or not entry.offset:
            return new
        return new.replace(indices=(*new.indices[:-1], entry.shifted(new.indices[-1], node.buffer.dtype)))

    def visit_buffer_use(self, buffer: ir.Buffer) -> ir.Buffer:
        new = self.buffers.get(buffer)
        if new is None:
            entry = self.planner.entry_of.get(buffer.data)
            new = buffer
            if entry is not None and entry.var is not None and entry.var is not buffer.data:
                new = buffer.replace(data=entry.var, name=entry.var.name)
            self.buffers[buffer] = new
        return new

    visit_buffer_def = visit_buffer_use

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> ir.Stmt:
        return self.visit_children(node) if node.buffer_var in self.kept else self.visit(node.body)

    @ir.handles(ir.DeclBuffer)
    def declaration(self, node: ir.DeclBuffer) -> ir.Stmt:
        if node.buffer in self.declared or node.buffer not in self.accessed:
            return self.visit(node.body)
        return self.visit_children(node)

    @ir.handles(ir.For, ir.AttrStmt)
    def scope(self, node: Any) -> ir.Stmt:
        new = self.visit_children(node)
        if isinstance(node, ir.AttrStmt) and isinstance(node.node, ir.Var):
            moved = self.memory_of(node.node)
            new = new if moved is node.node else new.replace(node=moved)
        return new.replace(body=self.attach(node, new.body)) if node in self.at else new

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> ir.PrimExpr:
        if is_call(node, "tir.type_annotation"):
            return node
        entry = (
            self.planner.entry_of.get(node.args[1])
            if is_access_ptr(node) and isinstance(node.args[1], ir.Var)
            else None
        )
        if entry is None:
            return self.visit_children(node)
        kind, var, offset, extent, mask = node.args
        offset = entry.shifted(self.visit(offset), kind.dtype)
        return node.replace(args=(kind, self.memory_of(var), offset, self.visit(extent), self.visit(mask)))


def _merge_special(entries: list[_Entry]) -> None:
    """Make what is in one special memory, at one place, parts of one allocation; they are taken out of `entries`.

    Each begins at a multiple of the memory's widest vector. Raises `TVMagicError` if a size is not constant, or the memory
    too small.
    """
    whole: dict[str, _Entry] = {}
    for entry in list(entries):
        if not MemoryScope.of(entry.scope).is_special:
            continue
        if not entry.bits:
            names = ", ".join(f"`{a.buffer_var.name}`" for a in entry.allocs)
            raise TVMagicError(
                f"Special tagged memory must be const size: {names} in `{entry.scope}`",
                code="tir.storage_rewrite.symbolic_size",
            )
        first = whole.setdefault(entry.scope, entry)
        if first is not entry:
            entries.remove(entry)
            first.parts.append(entry)
    for scope, first in whole.items():
        info = memory_info(scope)
        align = _ALIGNMENT if info is None else info.max_simd_bits
        for part in first.parts:
            unit = math.lcm(align, *(a.dtype.bits * a.dtype.lanes for a in part.allocs))
            part.offset, part.var = -(-first.bits // unit) * unit, first.var
            first.bits = part.offset + part.bits
        if first.parts:
            first.bits = -(-first.bits // align) * align
        if info is not None and first.bits > info.max_num_bits:
            raise TVMagicError(
                f"Allocation exceed bound of memory tag {scope}: {first.bits} bits of {info.max_num_bits}",
                code="tir.storage_rewrite.memory_too_small",
            )


def _is_uniform(entry: _Entry) -> bool:
    """Whether all allocations that share the memory have one type and one size."""
    first = entry.allocs[0]
    return all(
        other.dtype is first.dtype
        and len(other.extents) == len(first.extents)
        and all(ir.expr_deep_equal(a, b) for a, b in zip(other.extents, first.extents))
        for other in entry.allocs[1:]
    )


def plan_storage(stmt: ir.Stmt, reuse: bool) -> ir.Stmt:
    """`stmt` with its allocations at the outermost place that is right, sharing memory."""
    linear = _Linearizer()
    linear.visit(stmt)
    planner = _Planner(reuse)
    planner.plan(linear.events, linear.allocs)
    return _Rewriter(planner, linear, Analyzer()).rewrite(stmt)


@tir_pass("tir.StorageRewrite")
def StorageRewrite(func: ir.PrimFunc, *, context: PassContext) -> ir.PrimFunc:
    """Share memory between buffers that are not alive at the same time, and move allocations outwards.

    Allocations go to the beginning of the function, of a parallel loop or of a kernel. A buffer that
    is accessed only by vectors of one length gets elements of that length.
    """
    reuse = not context.option("tir.merge_static_smem", False)
    return rewrite_vector_types(func.with_body(plan_storage(func.body, reuse)))
