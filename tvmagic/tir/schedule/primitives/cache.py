"""Primitives that put a copy of a buffer between those who write it and those who read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic import ir
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.ir.query import is_one
from tvmagic.tir.blocks.domains import analyzer_at
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.regions import (
    effective_regions,
    used_by_pointer,
    whole_region,
)
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.buffers import check_storage_scope, copy_in, prepare_index
from tvmagic.tir.schedule.cache_stage import (
    CacheRewriter,
    CacheStage,
    find_place,
    only_writer,
    put_stage,
)
from tvmagic.tir.schedule.instruction import BlockRef, Blocks, BlocksIn, primitive
from tvmagic.tir.schedule.limits import check_writes_all, clipped, read_anywhere
from tvmagic.tir.schedule.own_elements import reads_before_it_writes
from tvmagic.tir.schedule.relax import relax_region
from tvmagic.tir.schedule.requirements import check_not_in_place, region_at, scope_root
from tvmagic.tir.schedule.state import ScheduleState


class _ReadRewriter(CacheRewriter):
    """The consumers read the copy."""

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Block:
        if node is self.scope.stmt:
            self.active = not self.cache.consumers
            return self.scope_block(node)
        updates = any(region.buffer is self.old for region in effective_regions(node)[1])
        if updates and node not in self.cache.consumers:
            return node
        outer, self.active = self.active, self.active or node in self.cache.consumers
        new = self.visit_children(node)
        if self.active:
            swapped = self.swap_buffers(new, reads=True, writes=False)
            new = swapped if _signature_differs(swapped, new) else new
        self.active = outer
        self.reuse.note(node, new)
        return new


def _signature_differs(a: ir.Block, b: ir.Block) -> bool:
    return any(
        x is not y
        for left, right in ((a.reads, b.reads), (a.writes, b.writes), (a.match_buffers, b.match_buffers))
        for x, y in zip(left, right)
    )


class _WriteRewriter(CacheRewriter):
    """The writer writes the copy, and the consumers that are named read it."""

    def __init__(self, scope: StmtSRef, writer: StmtSRef, cache: CacheStage, old: ir.Buffer, new: ir.Buffer) -> None:
        super().__init__(scope, cache, old, new)
        self.writer = writer

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Block:
        if node is self.scope.stmt:
            return self.scope_block(node)
        if not self.active and node is not self.writer.stmt and node not in self.cache.consumers:
            return node
        outer, self.active = self.active, True
        new = self.swap_buffers(self.visit_children(node), reads=True, writes=True)
        self.active = outer
        self.reuse.note(node, new)
        return new

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.BufferStore:
        return self.access_in_new(self.visit_children(node))


def read_place(
    state: ScheduleState, scope: StmtSRef, buffer: ir.Buffer, consumers: Sequence[StmtSRef]
) -> tuple[StmtSRef, int, ir.BufferRegion]:
    """Where a copy for reading goes, and the region of the buffer that it copies."""
    writer = only_writer(state, scope, buffer)
    if writer is None:
        known = next((r for r in scope.block.reads if r.buffer is buffer), None)
        return scope, 0, clipped(known, analyzer_at(scope)) if known is not None else whole_region(buffer)
    for reader in state.get_block_scope(scope).children if not consumers else ():
        is_reader = any(r.buffer is buffer for r in effective_regions(reader.block)[0])
        if is_reader and reader is not writer and reader not in state.get_block_scope(scope).consumers(writer):
            raise ScheduleError(
                f"{reader.label} reads buffer `{buffer.name}` before {writer.label} writes it, so one copy is not enough",
                reader,
                writer,
                hint="name the readers in front of the writer, or those behind it, as consumer_blocks",
                code="cache_read.read_before_write",
            )
    if any(_runs_before(state, scope, consumer, writer) for consumer in consumers):
        return _place_before(state, scope, buffer, consumers, writer)
    place, index = find_place(state, writer, scope, consumers)
    readers = consumers or state.get_block_scope(scope).consumers(writer)
    written = next(r for r in effective_regions(writer.block)[1] if r.buffer is buffer)
    copied = clipped(relax_region(state, written, writer, writer.parent, place), analyzer_at(place))
    covered = state.flags.covered(state, scope).issuperset(readers)
    if covered and not is_one(state.realize_of(writer).predicate):
        covered = all(_holds_reads(state, copied, reader, place) for reader in readers)
    # readers that are not covered also read what the buffer held before
    return place, index, copied if covered else whole_region(buffer)


def _runs_before(state: ScheduleState, scope: StmtSRef, consumer: StmtSRef, writer: StmtSRef) -> bool:
    """Whether a block reads what the buffer held before the writer, which may be the block itself."""
    known = state.get_block_scope(scope)
    return consumer not in known.consumers(writer) and (consumer is writer or writer in known.overwriters(consumer))


def _place_before(
    state: ScheduleState, scope: StmtSRef, buffer: ir.Buffer, consumers: Sequence[StmtSRef], writer: StmtSRef
) -> tuple[StmtSRef, int, ir.BufferRegion]:
    """Where a copy goes that consumers read which run before the writer, or are it; and the region that it copies.

    It is in front of the consumers, and in the loops that they share with the writer: what the writer leaves is read
    by their next iteration.
    """
    first = consumers[0]
    shared = [] if writer in consumers else [s for s in state.loops_of(writer) if not is_one(s.loop.extent)]
    shared = [s for s in shared if s in state.loops_of(first)]
    place = shared[-1] if shared else scope
    for consumer in consumers:
        if not _runs_before(state, scope, consumer, writer) or place not in consumer.ancestors():
            raise ScheduleError(
                f"one copy of buffer `{buffer.name}` is not enough for {first.label} and {consumer.label}: {writer.label} "
                "writes it in between",
                consumer,
                writer,
                hint="make a copy for each of them",
                code="cache_read.written_in_between",
            )
        if consumer is writer:
            _check_reads_its_own(state, consumer, buffer)
    holders = [_child_below(place, consumer) for consumer in consumers]
    index = min(max(holder.seq_index, 0) for holder in holders)
    if len(consumers) > 1:
        return place, index, whole_region(buffer)
    read = next(r for r in effective_regions(first.block)[0] if r.buffer is buffer)
    relaxed = relax_region(state, read, first, first.parent, place)
    return place, index, clipped(relaxed, analyzer_at(place))


def _check_not_read_again(state: ScheduleState, scope: StmtSRef, writer: StmtSRef, place: StmtSRef) -> None:
    """No block in front of the writer may read in the next iteration what is copied back only behind the loop."""
    known = state.get_block_scope(scope)
    inside = {place, *place.ancestors()}
    loops = [s for s in state.loops_of(writer) if s not in inside and not is_one(s.loop.extent)]
    for reader in known.children if loops else ():
        if writer in known.overwriters(reader) and set(loops) & set(state.loops_of(reader)):
            raise ScheduleError(
                f"{reader.label} reads what {writer.label} writes in the next iteration of a loop around both, and the copy "
                "back would come after that loop",
                reader,
                writer,
                hint=f"let {reader.label} read a copy by cache_read first",
                code="cache_write.read_in_next_iteration",
            )


def _child_below(place: StmtSRef, sref: StmtSRef) -> StmtSRef:
    """The child of `place` that is, or holds, `sref`."""
    while sref.parent is not place:
        assert sref.parent is not None
        sref = sref.parent
    return sref


def _check_reads_its_own(state: ScheduleState, block: StmtSRef, buffer: ir.Buffer) -> None:
    """A block that updates the buffer must read each element only in the iteration that writes it, and before."""
    if used_by_pointer(block.block, buffer):
        raise ScheduleError(
            f"{block.label} updates buffer `{buffer.name}` in place through its pointer",
            block,
            hint="use cache_inplace",
            code="cache_inplace.updated_by_pointer",
        )
    reads, writes = [[r for r in side if r.buffer is buffer] for side in effective_regions(block.block)]
    same = len(reads) == len(writes) == 1 and ir.structural_equal(reads[0], writes[0])
    spatial = all(v.iter_type == ir.IterVar.DataPar for v in block.block.iter_vars)
    if not (same and spatial and state.get_cached_flags(block).affine_binding):
        raise ScheduleError(
            f"{block.label} may read elements of buffer `{buffer.name}` that it wrote in other iterations",
            block,
            hint="use cache_inplace",
            code="cache_inplace.reads_other_iterations",
        )
    if not reads_before_it_writes(block.block, buffer):
        raise ScheduleError(
            f"{block.label} may read elements of buffer `{buffer.name}` that it has just written",
            block,
            hint="use cache_inplace",
            code="cache_inplace.reads_written_elements",
        )


def held_region(
    scope: StmtSRef, place: StmtSRef, region: ir.BufferRegion
) -> tuple[tuple[ir.PrimExpr, ...] | None, list[ir.PrimExpr] | None]:
    """The first index and the shape of a copy that need hold just `region`; None for all of the buffer.

    It is all of the buffer if the copy is made in a loop, since the loop's other iterations may use it; if its
    size would change with the scope's block; and if the memory is used by its pointer, which counts in the old shape.
    """
    buffer, block = region.buffer, scope.block
    sizes = [side.extent for side in region.region]
    varying = {v.var for v in block.iter_vars}
    if place is not scope or any(uses_var(size, varying) for size in sizes) or used_by_pointer(block, buffer):
        return None, None
    if ir.structural_equal(region, whole_region(buffer)):
        return None, None
    return tuple([side.min for side in region.region]), sizes


def _holds_reads(state: ScheduleState, copied: ir.BufferRegion, reader: StmtSRef, place: StmtSRef) -> bool:
    """Whether the copied box holds all that a reader reads in one iteration at the place of the copy."""
    analyzer = analyzer_at(place)
    for region in effective_regions(reader.block)[0]:
        if region.buffer is copied.buffer:
            read = clipped(relax_region(state, region, reader, reader.parent, place), analyzer)
            for have, want in zip(copied.region, read.region):
                ends = want.min + want.extent <= have.min + have.extent
                if not (analyzer.can_prove(have.min <= want.min) and analyzer.can_prove(ends)):
                    return False
    return True


@primitive("CacheRead", prepare=prepare_index("read_buffer_index", "read"))
def cache_read(
    state: ScheduleState,
    block: BlockRef,
    read_buffer_index: Any,
    storage_scope: str,
    consumer_blocks: BlocksIn | None = None,
) -> BlockRef:
    """Copy a buffer that a block reads into a new one in `storage_scope`, which its readers then read.

    `read_buffer_index` counts the block's read regions; `consumer_blocks` are the readers to change, by default all.
    The result is the block that copies. Readers that are named may run before the block that writes the buffer, or be
    it. In a scope other than the root the new buffer holds just the region that the scope reads.

    Requires: at most one block of the scope writes the buffer; one that updates it reads each element only in the
    iteration that writes it, before it does, by loads.

    Example
    -------
    `copy = sch.cache_read("B", 0, "local")` makes of

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + 1.0

    this:

        A_local = T.alloc_buffer((16,), scope="local")
        for ax0 in range(16):
            with T.block("A_local"):
                v0 = T.axis.spatial(16, ax0)
                A_local[v0] = A[v0]
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A_local[v] + T.float32(1.0)
    """
    check_storage_scope(storage_scope)
    buffer = region_at(block, read_buffer_index, "reads").buffer
    scope = scope_root(state, block)
    readers = consumer_blocks or ()
    for reader in readers:
        if not any(r.buffer is buffer for r in effective_regions(reader.block)[0]):
            raise ScheduleError(
                f"{reader.label} does not read buffer `{buffer.name}`", reader, code="cache_read.buffer_not_read"
            )
    place, index, region = read_place(state, scope, buffer, readers)
    first, shape = held_region(scope, place, region)
    copy = copy_in(buffer, storage_scope, shape)
    consumers: set[ir.Stmt] = {sref.block for sref in readers}
    cache = CacheStage(buffer, copy, copy, place, index, consumers=consumers, first=first)
    cache.make(region, storage_scope)
    return put_stage(state, scope, _ReadRewriter(scope, cache, buffer, copy))


@primitive("CacheWrite", prepare=prepare_index("write_buffer_index", "write"))
def cache_write(
    state: ScheduleState,
    block: BlockRef,
    write_buffer_index: Any,
    storage_scope: str,
    consumer_blocks: BlocksIn | None = None,
) -> BlockRef:
    """Let a block write a new buffer in `storage_scope`, which another block copies to the old one.

    `write_buffer_index` counts the block's write regions; `consumer_blocks` are readers that shall read
    the new buffer. The result is the block that copies; it is in front of the other readers, or last in the scope.
    Of a block that writes through a pointer the region that it declares is copied.

    Requires: the block is the only writer of the buffer in its scope, does not update it in place, and writes all
    of the region that is copied if the scope does not allocate the buffer.

    Example
    -------
    `copy = sch.cache_write("B", 0, "local")` makes of

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + 1.0

    this:

        B_local = T.alloc_buffer((16,), scope="local")
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B_local[v] = A[v] + T.float32(1.0)
        for ax0 in range(16):
            with T.block("B_local"):
                v0 = T.axis.spatial(16, ax0)
                B[v0] = B_local[v0]
    """
    check_storage_scope(storage_scope)
    region = region_at(block, write_buffer_index, "writes")
    buffer = region.buffer
    check_not_in_place(state, block, buffer, "use cache_inplace")
    scope = scope_root(state, block)
    only_writer(state, scope, buffer)
    readers = consumer_blocks or ()
    place, index = find_place(state, block, scope, (), readers)
    _check_not_read_again(state, scope, block, place)
    relaxed = clipped(relax_region(state, region, block, block.parent, place), analyzer_at(place))
    check_writes_all(state, block, buffer, scope, place, relaxed)
    first, shape = held_region(scope, place, relaxed)
    copy = copy_in(buffer, storage_scope, shape)
    consumers: set[ir.Stmt] = {sref.block for sref in readers}
    cache = CacheStage(copy, buffer, copy, place, index, consumers=consumers, first=first)
    cache.make(relaxed, storage_scope)
    return put_stage(state, scope, _WriteRewriter(scope, block, cache, buffer, copy))


@primitive("CacheInplace", prepare=prepare_index("read_buffer_index", "read"))
def cache_inplace(state: ScheduleState, block: BlockRef, read_buffer_index: Any, storage_scope: str) -> Blocks:
    """Copy a buffer that a block reads and writes into a new one before it, and back after it.

    The block works on the new buffer. The result is the two blocks that copy.

    Requires: the block reads and writes the buffer.

    Example
    -------
    `copies = sch.cache_inplace("A", 0, "local")` makes of

        for i in range(16):
            with T.block("A"):
                v = T.axis.spatial(16, i)
                A[v] = A[v] + 1.0

    this:

        A_local = T.alloc_buffer((16,), scope="local")
        for i in range(16):
            for ax0 in range(1):
                with T.block("A_local"):
                    v0 = T.axis.spatial(16, i + ax0)
                    A_local[v0] = A[v0]
            with T.block("A"):
                v = T.axis.spatial(16, i)
                A_local[v] = A_local[v] + T.float32(1.0)
            for ax0 in range(1):
                with T.block("A_local"):
                    v0 = T.axis.spatial(16, i + ax0)
                    A[v0] = A_local[v0]
    """
    check_storage_scope(storage_scope)
    read = region_at(block, read_buffer_index, "reads")
    written = [r for r in block.block.writes if r.buffer is read.buffer]
    if not written:
        raise ScheduleError(
            f"{block.label} does not both read and write buffer `{read.buffer.name}`",
            block,
            code="cache_inplace.not_in_place",
        )
    scope = scope_root(state, block)
    copy = copy_in(read.buffer, storage_scope)
    analyzer = analyzer_at(block)
    written_back = clipped(read_anywhere(state, written[0], block), analyzer)
    if not all(ir.structural_equal(a, b) for a, b in zip(read.region, written[0].region)):
        check_writes_all(state, block, read.buffer, scope, block.parent, written_back)
    before = CacheStage(read.buffer, copy, copy, scope, 0)
    before.make(clipped(read_anywhere(state, read, block), analyzer), storage_scope)
    after = CacheStage(copy, read.buffer, copy, scope, 0)
    after.make(written_back, storage_scope)
    rewriter = _InplaceRewriter(scope, block, before, after)
    state.replace(scope, rewriter.visit(scope.block), rewriter.reuse)
    assert before.block is not None and after.block is not None
    return [state.sref_of(before.block), state.sref_of(after.block)]


class _InplaceRewriter(CacheRewriter):
    """The block works on the copy, which is made before it and written back after it."""

    def __init__(self, scope: StmtSRef, target: StmtSRef, before: CacheStage, after: CacheStage) -> None:
        super().__init__(scope, before, before.source, before.buffer)
        self.target, self.after = target, after

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        return self.visit_children(node)

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> ir.Stmt:
        new = self.visit_children(node)
        if node.block is not self.target.stmt:
            return new
        return ir.SeqStmt.flatten(self.cache.stage, new, self.after.stage)

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Block:
        if node is self.scope.stmt:
            new = self.visit_children(node)
            new = new.replace(alloc_buffers=(*new.alloc_buffers, self.cache.buffer))
        elif node is self.target.stmt:
            self.active = True
            new = self.swap_buffers(self.visit_children(node), reads=True, writes=True)
            self.active = False
        else:
            return self.visit_children(node)
        self.reuse.note(node, new)
        return new

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.BufferStore:
        return self.access_in_new(self.visit_children(node))
