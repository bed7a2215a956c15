"""CompactBufferAllocation: buffers made as small as the region that is accessed of them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvmagic import ir
from tvmagic.arith.int_set import IntSet, union
from tvmagic.arith.region_bounds import estimate_region_upper_bound as upper_bound
from tvmagic.ir.constants import max_value
from tvmagic.ir.ops import logical_and, maximum, minimum, not_equal
from tvmagic.ir.query import launches_thread, strip_likely
from tvmagic.passes import is_recording, note
from tvmagic.tir.analysis.analyzer_visitor import AnalyzerVisitor
from tvmagic.tir.transform.blocks.lower_opaque_block import allocation_shape
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.memory.alignment import aligned_strides
from tvmagic.tir.transform.memory.flatten_buffer import from_legacy_te_schedule
from tvmagic.tir.transform.threads.lift_thread_binding import thread_rank
from tvmagic.tir.transform.use_def import loads_memory, mentions
from tvmagic.tir.transform.with_analyzer import is_true

# Elements: a larger bound of memory of a symbolic size comes from the limits of a type.
_MOST = 1 << 24


def relaxed_under(scope: str, tag: str) -> bool:
    """Whether memory of `scope` is shared by the threads of the axis `tag`."""
    rank = thread_rank(tag)[0]
    if scope.startswith("global"):
        return True
    return rank == 1 and scope.startswith("shared") or (scope.startswith("warp") and tag == "threadIdx.x")


def _point(buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...]) -> ir.BufferRegion:
    """What an access touches, all lanes of it."""
    ranges: list[ir.Range] = []
    for index, size in zip(indices, buffer.shape):
        if index.dtype.is_scalar:
            ranges.append(ir.Range.from_min_extent(index, ir.IntImm(index.dtype, 1)))
        else:
            whole = ir.Range.from_min_extent(ir.IntImm(size.dtype, 0), size)
            ranges.append(IntSet.vector(index).cover_range(whole))
    return ir.BufferRegion(buffer, ranges)


class _RegionCollector(AnalyzerVisitor):
    """For each allocated buffer the region that is accessed of it."""

    def __init__(self, strict: bool, views: dict[ir.Var, set[ir.Buffer]]) -> None:
        super().__init__()
        self.strict, self.views = strict, views
        self.loops: list[tuple[ir.Var, str]] = []  # loops and threads from the outermost in, with the tags of threads
        self.domains: dict[ir.Var, ir.Range] = {}
        self.depth: dict[ir.Buffer, int] = {}
        self.of_data: dict[ir.Var, list[ir.Buffer]] = {}
        self.touched: dict[ir.Buffer, list[Any]] = {}
        self.conditions: list[ir.PrimExpr] = []
        self.annotated: dict[ir.Buffer, list[ir.BufferRegion]] = {}
        self.regions: dict[ir.Buffer, list[ir.Range]] = {}
        self.whole_rows: set[ir.Buffer] = set()

    # ------------------------------------------------------------------ what holds where

    def known_domain(self, var: ir.Var, domain: ir.Range) -> None:
        super().known_domain(var, domain)
        self.domains[var] = domain

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        thread = node.thread_binding if node.kind is ir.ForKind.THREAD_BINDING else None
        self.visit(node.min)
        self.visit(node.extent)
        self.known_loop(node)
        self.loops.append((node.loop_var, "" if thread is None else thread.thread_tag))
        self.visit(node.body)
        del self.domains[node.loop_var]
        self.loops.pop()

    @ir.handles(ir.LetStmt)
    def let(self, node: ir.LetStmt) -> None:
        if node.value.dtype.is_index:
            self.domains[node.var] = ir.Range.from_min_extent(node.value, ir.IntImm(node.value.dtype, 1))
        super().let(node)
        self.domains.pop(node.var, None)

    @contextmanager
    def holds(self, condition: ir.PrimExpr) -> Generator[None]:
        if not condition.dtype.is_bool:
            condition = not_equal(condition, 0)
        self.conditions.append(condition)
        with super().holds(condition):
            yield
        self.conditions.pop()

    @ir.handles(ir.Select)
    def select(self, node: ir.Select) -> None:
        self.choose(node.condition, node.true_value, node.false_value)

    @ir.handles(ir.BlockRealize)
    def block_realize(self, node: ir.BlockRealize) -> None:
        if is_true(node.predicate):
            self.visit(node.block)
        else:
            self.visit(node.predicate)
            with self.holds(strip_likely(node.predicate)):
                self.visit(node.block)

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        if not launches_thread(node):
            self.visit_children(node)
            return
        var = node.node.var
        again = var in self.domains  # a thread's variable may be launched twice
        self.known_thread(node)
        self.loops.append((var, node.node.thread_tag))
        self.visit_children(node)
        self.loops.pop()
        if not again:
            del self.domains[var]

    # ------------------------------------------------------------------ accesses

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> None:
        outer: dict[ir.Buffer, list[ir.BufferRegion] | None] = {}
        for region in (*node.reads, *node.writes):
            if region.buffer not in outer:
                outer[region.buffer] = self.annotated.get(region.buffer)
                self.annotated[region.buffer] = []
            self.annotated[region.buffer].append(region)
        for buffer in node.alloc_buffers:
            self.depth[buffer] = len(self.loops)
            self.of_data.setdefault(buffer.data, []).append(buffer)
        for match in node.match_buffers:
            self.touch(match.source)
            if _declares_rows(match):
                self.whole_rows.add(match.source.buffer)
        self.visit(node.body)
        for buffer, before in outer.items():
            if before is None:
                del self.annotated[buffer]
            else:
                self.annotated[buffer] = before
        for buffer in node.alloc_buffers:
            self.regions[buffer] = self._narrowed(buffer)

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> None:
        buffers = self.views.get(node.buffer_var, set())
        buffer = next(iter(buffers), None)
        if buffer is None or len(buffers) > 1 or buffer.dtype is not node.dtype:
            self.visit_children(node)  # the memory is seen in more than one way
            return
        self.depth[buffer] = len(self.loops)
        self.of_data.setdefault(buffer.data, []).append(buffer)
        self.visit_children(node)
        self.regions[buffer] = self._narrowed(buffer)

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: Any) -> None:
        self.touch(_point(node.buffer, node.indices))
        self.visit_children(node)

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> None:
        for buffer in self.of_data.get(var, ()):
            for region in self.annotated.get(buffer) or [_full_region(buffer)]:
                self.touch(region)

    def touch(self, region: ir.BufferRegion) -> None:
        """Add a region, over all values of the loops inside the buffer's allocation."""
        buffer = region.buffer
        depth = self.depth.get(buffer)
        if depth is None:
            return
        scope = buffer.scope()
        fixed = {var for var, tag in self.loops[:depth] if not (tag and relaxed_under(scope, tag))}
        domains = {v: d for v, d in self.domains.items() if v not in fixed}
        predicate: ir.PrimExpr = ir.IntImm("bool", 1)
        for condition in self.conditions:
            predicate = logical_and(predicate, condition)
        sets = upper_bound(list(region.region), domains, predicate, self.analyzer)
        known = self.touched.get(buffer)
        self.touched[buffer] = list(sets) if known is None else [union([a, b]) for a, b in zip(known, sets)]

    def _narrowed(self, buffer: ir.Buffer) -> list[ir.Range]:
        """The region as ranges of constant size; the whole axis where it depends on a loop outside."""
        whole = _full_region(buffer).region
        touched = self.touched.get(buffer)
        if touched is None:
            return list(whole)
        outside = [var for var, _ in self.loops]
        simplify = self.analyzer.simplify
        result: list[ir.Range] = []
        for number, (axis, size) in enumerate(zip(touched, buffer.shape)):
            original = ir.Range.from_min_extent(ir.IntImm(size.dtype, 0), size)
            if number and buffer in self.whole_rows:
                result.append(original)
                continue
            covered = axis.cover_range(original)
            if self.strict:
                low, extent = simplify(maximum(0, covered.min)), simplify(minimum(size, covered.extent))
            else:
                low, extent = simplify(covered.min), simplify(covered.extent)
            if loads_memory(low) or loads_memory(extent):  # what is loaded may be another value at the next access
                result.append(original)
                continue
            if mentions(extent, outside):
                most = int(self.analyzer.const_int_bound(extent).max_value)
                if not self._is_useful(most, extent, size):
                    result.append(original)
                    continue
                extent = ir.IntImm(extent.dtype, most)
            result.append(ir.Range.from_min_extent(low, extent))
        return result

    def _is_useful(self, most: int, extent: ir.PrimExpr, size: ir.PrimExpr) -> bool:
        """Whether the bound of an extent can be written down and is less than what a symbolic size may be."""
        if isinstance(size, ir.IntImm):
            return most < _largest(extent.dtype)
        return most < min(_MOST, int(self.analyzer.const_int_bound(size).max_value))


def _largest(dtype: ir.DataType) -> int:
    value = max_value(dtype)
    assert isinstance(value, ir.IntImm)
    return value.value


def _declares_rows(match: ir.MatchBufferRegion) -> bool:
    """Whether the view declares, as numbers, the strides that its source has as long as its rows are whole."""
    declared = match.buffer.strides[:-1]
    stride, strides = 1, list[int]()
    for size in reversed(match.source.buffer.shape[1:]):
        if not isinstance(size, ir.IntImm):
            break
        stride *= size.value
        strides.insert(0, stride)
    known = strides[len(strides) - len(declared) :]
    return bool(declared) and [s.value if isinstance(s, ir.IntImm) else None for s in declared] == known


def _full_region(buffer: ir.Buffer) -> ir.BufferRegion:
    return ir.BufferRegion(buffer, [ir.Range.from_min_extent(ir.IntImm(s.dtype, 0), s) for s in buffer.shape])


@dataclass
class _Compact:
    buffer: ir.Buffer
    begins: tuple[ir.PrimExpr, ...]


class _Compactor(ir.Mutator):
    def __init__(self, regions: dict[ir.Buffer, list[ir.Range]], alignments: dict[ir.Var, Any]) -> None:
        self.alignments = alignments
        self.new: dict[ir.Buffer, _Compact] = {}
        for buffer, region in regions.items():
            compact = self._compact(buffer, region)
            if compact is not None:
                self.new[buffer] = compact

    def _compact(self, buffer: ir.Buffer, region: list[ir.Range]) -> _Compact | None:
        shape = tuple([r.extent for r in region])
        strides = self._strides(shape, self.alignments.get(buffer.data))
        begins = tuple([r.min for r in region])
        at_zero = all(isinstance(b, ir.IntImm) and b.value == 0 for b in begins)
        if at_zero and not strides and not buffer.strides and all(_is_equal(a, b) for a, b in zip(shape, buffer.shape)):
            return None
        if is_recording():
            note("compact", f"`{buffer.name}` is made smaller", buffer=buffer.name, before=buffer.shape, after=shape)
        return _Compact(buffer.replace(shape=shape, strides=strides), begins)

    @staticmethod
    def _strides(shape: tuple[ir.PrimExpr, ...], aligned: dict[int, tuple[int, int]] | None) -> tuple[ir.PrimExpr, ...]:
        if not aligned or not shape:
            return ()
        return aligned_strides(shape, aligned)

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: Any) -> Any:
        new = self.visit_children(node)
        compact = self.new.get(node.buffer)
        if compact is None:
            return new
        indices = tuple([i - b for i, b in zip(new.indices, compact.begins)])
        return new.replace(buffer=compact.buffer, indices=indices)

    @ir.handles(ir.BufferRegion)
    def region(self, node: ir.BufferRegion) -> ir.BufferRegion:
        compact = self.new.get(node.buffer)
        if compact is None:
            return node
        box = [ir.Range.from_min_extent(r.min - b, r.extent) for r, b in zip(node.region, compact.begins)]
        return ir.BufferRegion(compact.buffer, box, node.span)

    @ir.handles(ir.MatchBufferRegion)
    def match(self, node: ir.MatchBufferRegion) -> ir.MatchBufferRegion:
        source = self.region(node.source)
        return node.with_(source=source)

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Stmt:
        new = self.visit_children(node)
        if not any(b in self.new for b in node.alloc_buffers):
            return new
        buffers = [self.new[b].buffer if b in self.new else b for b in node.alloc_buffers]
        return new.replace(alloc_buffers=tuple(buffers))

    @ir.handles(ir.DeclBuffer)
    def declaration(self, node: ir.DeclBuffer) -> ir.Stmt:
        new = self.visit_children(node)
        compact = self.new.get(node.buffer)
        return new if compact is None else new.replace(buffer=compact.buffer)

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> ir.Stmt:
        new = self.visit_children(node)
        compact = next((c for b, c in self.new.items() if b.data is node.buffer_var), None)
        return new if compact is None else new.replace(extents=allocation_shape(compact.buffer))


def _is_equal(a: ir.PrimExpr, b: ir.PrimExpr) -> bool:
    return a is b or (isinstance(a, ir.IntImm) and isinstance(b, ir.IntImm) and a.value == b.value)


class _Aligned(ir.StmtVisitor):
    """What `storage_align` asks for, by the pointer of the buffer: axis -> (factor, offset)."""

    def __init__(self) -> None:
        self.found: dict[ir.Var, dict[int, tuple[int, int]]] = {}

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> None:
        for index, axis, factor, offset in node.annotations.get("buffer_dim_align", ()):
            if int(index) >= len(node.writes):  # nobody reads the buffer, so it is not an output any more
                continue
            data = node.writes[int(index)].buffer.data
            self.found.setdefault(data, {})[int(axis)] = (int(factor), int(offset))
        self.visit_children(node)

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> None:
        for _, axis, factor, offset in node.annotations.get("buffer_dim_align", ()):
            self.found.setdefault(node.buffer_var, {})[int(axis)] = (int(factor), int(offset))
        self.visit_children(node)


class _Views(ir.Visitor):
    """The buffers by the memory that they are views of."""

    def __init__(self) -> None:
        self.of_data: dict[ir.Var, set[ir.Buffer]] = {}

    def visit_buffer_use(self, buffer: ir.Buffer) -> None:
        self.of_data.setdefault(buffer.data, set()).add(buffer)

    visit_buffer_def = visit_buffer_use


@tir_pass("tir.CompactBufferAllocation")
def CompactBufferAllocation(func: ir.PrimFunc, is_strict: bool = True) -> ir.PrimFunc:
    """Allocate only the region of each buffer that is accessed, with strides as `storage_align` asks.

    It works on the buffers of blocks, and on allocations behind LowerOpaqueBlock that one buffer alone views.
    With `is_strict` False accesses outside a buffer's shape count, too. A function made from a TE
    schedule stays as it is.
    """
    if from_legacy_te_schedule(func):
        return func
    views = _Views()
    views.visit(func.body)
    collector = _RegionCollector(is_strict, views.of_data)
    collector.visit(func.body)
    aligned = _Aligned()
    aligned.visit(func.body)
    return func.with_body(_Compactor(collector.regions, aligned.found).visit(func.body))
