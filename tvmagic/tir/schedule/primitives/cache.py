"""Primitives that put a copy of a buffer between those who write it and those who read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tvmagic.ir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IntImm,
    IterVar,
    MatchBufferRegion,
    Mutator,
    PrimExpr,
    Range,
    SeqStmt,
    Stmt,
    Var,
    Visitor,
    handles,
    structural_equal,
    substitute,
)
from tvmagic.ir.query import is_one
from tvmagic.tir.blocks.domains import analyzer_at
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.regions import (
    effective_regions,
    replace_buffer_in_regions,
    whole_region,
)
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.buffers import check_storage_scope, copy_in, matched_in, prepare_index
from tvmagic.tir.schedule.instruction import BlockRef, Blocks, BlocksIn, primitive
from tvmagic.tir.schedule.limits import check_writes_all, clipped
from tvmagic.tir.schedule.relax import relax_region
from tvmagic.tir.schedule.requirements import check_not_in_place, region_at, scope_root
from tvmagic.tir.schedule.rewrite import BlockReuse
from tvmagic.tir.schedule.state import ScheduleState


@dataclass
class CacheStage:
    """A copy from `source` to `target`: the block that makes it and where it goes.

    `place` is the loop or block whose body gets the copy at position `index`; `buffer` is the new one.
    """

    source: Buffer
    target: Buffer
    buffer: Buffer
    place: StmtSRef
    index: int
    stage: Stmt | None = None
    block: Block | None = None
    consumers: set[Stmt] = field(default_factory=set[Stmt])

    def make(self, region: BufferRegion, storage_scope: str) -> None:
        """Build the loops that copy `region`, one block instance an element."""
        loop_vars = [Var(f"ax{i}", r.extent.dtype) for i, r in enumerate(region.region)]
        block_vars = [Var(f"v{i}", r.extent.dtype) for i, r in enumerate(region.region)]
        iters = [
            IterVar(Range.from_min_extent(IntImm(size.dtype, 0), size), var, IterVar.DataPar)
            for var, size in zip(block_vars, region.buffer.shape)
        ]
        point = [Range.from_min_extent(v, IntImm(v.dtype, 1)) for v in block_vars]
        self.block = Block(
            iters,
            [BufferRegion(self.source, point)],
            [BufferRegion(self.target, point)],
            f"{region.buffer.name}_{storage_scope}",
            BufferStore(self.target, BufferLoad(self.source, block_vars), block_vars),
        )
        values = [r.min + var for r, var in zip(region.region, loop_vars)]
        body: Stmt = BlockRealize(values, IntImm("bool", 1), self.block)
        for var, r in zip(reversed(loop_vars), reversed(region.region)):
            body = For(var, 0, r.extent, ForKind.SERIAL, body)
        self.stage = body


def insert_stage(body: Stmt, index: int, stage: Stmt) -> Stmt:
    """`body` with a statement put in at a position of its sequence."""
    parts = list(body.seq) if isinstance(body, SeqStmt) else [body]
    return SeqStmt.flatten(*parts[:index], stage, *parts[index:])


class _PlaceFinder(Visitor):
    """Where a copy goes: into the innermost sequence that holds the writer and a consumer, before
    the first statement with a consumer."""

    def __init__(self, state: ScheduleState, writer: StmtSRef, scope: StmtSRef, related: Sequence[StmtSRef]) -> None:
        self.state, self.writer, self.scope = state, writer, scope
        self.related = {sref.stmt for sref in related}
        self.seen_writer = self.seen_related = False
        self.place: StmtSRef | None = None
        self.index = -1

    @handles(SeqStmt)
    def sequence(self, node: SeqStmt) -> None:
        before = self.seen_writer, self.seen_related
        self.seen_writer = self.seen_related = False
        index = -1
        for i, child in enumerate(node.seq):
            if self.index != -1:
                break
            self.visit(child)
            if self.seen_writer and self.seen_related and index == -1:
                index = i
        self.seen_writer, self.seen_related = self.seen_writer or before[0], self.seen_related or before[1]
        if self.seen_writer and self.seen_related and self.index == -1:
            self.index = index

    @handles(Block)
    def block(self, node: Block) -> None:
        if node is self.scope.stmt:
            self.visit_children(node)
            if self.seen_related and self.place is None:
                self.place = self.scope
                if self.index == -1:
                    self.index = 1 if self.seen_writer else 0
        elif node is self.writer.stmt:
            self.seen_writer = True
        elif node in self.related:
            self.seen_related = True

    @handles(For)
    def loop(self, node: For) -> None:
        self.visit_children(node)
        if self.seen_writer and self.seen_related and self.place is None and self.index != -1:
            self.place = self.state.sref_of(node)


def find_place(
    state: ScheduleState, writer: StmtSRef, scope: StmtSRef, consumers: Sequence[StmtSRef]
) -> tuple[StmtSRef, int]:
    """The loop or block, and the position in it, for a copy of what `writer` writes."""
    known = state.get_block_scope(scope).consumers(writer)
    for consumer in consumers:
        if consumer not in known:
            raise ScheduleError(f"{consumer.label} does not read what {writer.label} writes", consumer, writer)
    related = list(consumers) or known
    if not related:
        body = scope.block.body
        return scope, len(body.seq) if isinstance(body, SeqStmt) else 1
    finder = _PlaceFinder(state, writer, scope, related)
    finder.visit(scope.block)
    assert finder.place is not None
    return finder.place, finder.index


def only_writer(state: ScheduleState, scope: StmtSRef, buffer: Buffer) -> StmtSRef | None:
    """The block of a scope that writes a buffer; None where none does."""
    writers = state.get_block_scope(scope).buffer_writers.get(buffer, [])
    if len(writers) > 1:
        raise ScheduleError(
            f"buffer `{buffer.name}` must be written by one block, {len(writers)} blocks write it", *writers
        )
    return writers[0] if writers else None


class CacheRewriter(Mutator):
    """Puts the copy and the new buffer's allocation in, and the new buffer in place of the old."""

    def __init__(self, scope: StmtSRef, cache: CacheStage, old: Buffer, new: Buffer) -> None:
        self.scope, self.cache, self.old, self.new = scope, cache, old, new
        self.reuse = BlockReuse()
        self.active = False
        self.matched: dict[Buffer, Buffer] = {}
        self.pointers: dict[Var, Var] = {old.data: new.data}

    @handles(For)
    def loop(self, node: For) -> Stmt:
        new = self.visit_children(node)
        return self._insert(node, new)

    def _insert(self, old: Block | For, new: Block | For) -> Block | For:
        if old is not self.cache.place.stmt:
            return new
        assert self.cache.stage is not None
        return new.replace(body=insert_stage(new.body, self.cache.index, self.cache.stage))

    def scope_block(self, node: Block) -> Block:
        """The scope's root: its body rewritten, the new buffer allocated."""
        new = self._insert(node, self.visit_children(node))
        assert isinstance(new, Block)
        new = new.replace(alloc_buffers=(*new.alloc_buffers, self.cache.buffer))
        self.reuse.note(node, new)
        return new

    def swap_buffers(self, node: Block, *, reads: bool, writes: bool) -> Block:
        """A block with the new buffer in its signature."""
        return node.replace(
            reads=replace_buffer_in_regions(node.reads, self.old, self.new) if reads else node.reads,
            writes=replace_buffer_in_regions(node.writes, self.old, self.new) if writes else node.writes,
        )

    @handles(MatchBufferRegion)
    def match(self, node: MatchBufferRegion) -> MatchBufferRegion:
        """What matches a part of the old buffer matches one of the new buffer, in its memory."""
        source = self.in_new(node.source.buffer)
        if source is node.source.buffer:
            return node
        view = matched_in(node.buffer, source)
        if view is not node.buffer:
            self.matched[node.buffer] = view
            self.pointers[node.buffer.data] = view.data
        return node.replace(source=node.source.replace(buffer=source), buffer=view)

    def in_new(self, buffer: Buffer) -> Buffer:
        """The buffer that a block which uses the copy accesses in place of `buffer`."""
        if not self.active:
            return buffer
        return self.new if buffer is self.old else self.matched.get(buffer, buffer)

    @handles(BufferRegion)
    def region(self, node: BufferRegion) -> BufferRegion:
        new = self.visit_children(node)
        return new.replace(buffer=self.matched[new.buffer]) if new.buffer in self.matched else new

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> PrimExpr:
        new = self.visit_children(node)
        return new.replace(buffer=self.in_new(new.buffer))

    @handles(Var)
    def var(self, node: Var) -> Var:
        return self.pointers.get(node, node) if self.active else node


class _ReadRewriter(CacheRewriter):
    """The consumers read the copy."""

    @handles(Block)
    def block(self, node: Block) -> Block:
        if node is self.scope.stmt:
            self.active = not self.cache.consumers
            return self.scope_block(node)
        if any(region.buffer is self.old for region in effective_regions(node)[1]):
            return node
        outer, self.active = self.active, self.active or node in self.cache.consumers
        new = self.visit_children(node)
        if self.active:
            swapped = self.swap_buffers(new, reads=True, writes=False)
            new = swapped if _signature_differs(swapped, new) else new
        self.active = outer
        self.reuse.note(node, new)
        return new


def _signature_differs(a: Block, b: Block) -> bool:
    return any(
        x is not y
        for left, right in ((a.reads, b.reads), (a.writes, b.writes), (a.match_buffers, b.match_buffers))
        for x, y in zip(left, right)
    )


class _WriteRewriter(CacheRewriter):
    """The writer writes the copy, and the consumers that are named read it."""

    def __init__(self, scope: StmtSRef, writer: StmtSRef, cache: CacheStage, old: Buffer, new: Buffer) -> None:
        super().__init__(scope, cache, old, new)
        self.writer = writer

    @handles(Block)
    def block(self, node: Block) -> Block:
        if node is self.scope.stmt:
            return self.scope_block(node)
        if not self.active and node is not self.writer.stmt and node not in self.cache.consumers:
            return node
        outer, self.active = self.active, True
        new = self.swap_buffers(self.visit_children(node), reads=True, writes=True)
        self.active = outer
        self.reuse.note(node, new)
        return new

    @handles(BufferStore)
    def store(self, node: BufferStore) -> BufferStore:
        new = self.visit_children(node)
        return new.replace(buffer=self.in_new(new.buffer))


def put_stage(state: ScheduleState, scope: StmtSRef, rewriter: CacheRewriter) -> StmtSRef:
    """Rewrite the scope with the copy in it; the reference of the block that copies."""
    new = rewriter.visit(scope.block)
    state.replace(scope, new, rewriter.reuse)
    assert rewriter.cache.block is not None
    return state.sref_of(rewriter.cache.block)


def read_place(
    state: ScheduleState, scope: StmtSRef, buffer: Buffer, consumers: Sequence[StmtSRef]
) -> tuple[StmtSRef, int, BufferRegion]:
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
                hint="name the readers after the writer as consumer_blocks",
            )
    place, index = find_place(state, writer, scope, consumers)
    readers = consumers or state.get_block_scope(scope).consumers(writer)
    written = next(r for r in effective_regions(writer.block)[1] if r.buffer is buffer)
    copied = clipped(relax_region(state, written, writer, writer.parent, place), analyzer_at(place))
    covered = state.flags.covered(state, scope).issuperset(readers)
    if covered and not is_one(state.realize_of(writer).predicate):
        covered = all(_holds_reads(state, copied, reader, place) for reader in readers)
    # readers that are not covered also read what the buffer held before
    return place, index, copied if covered else whole_region(buffer)


def _holds_reads(state: ScheduleState, copied: BufferRegion, reader: StmtSRef, place: StmtSRef) -> bool:
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
    consumer_blocks: BlocksIn = (),
) -> BlockRef:
    """Copy a buffer that a block reads into a new one in `storage_scope`, which its readers then read.

    `read_buffer_index` counts the block's read regions; `consumer_blocks` are the readers to change,
    all unless told. The result is the block that copies.

    Requires: at most one block of the scope writes the buffer.
    """
    check_storage_scope(storage_scope)
    buffer = region_at(block, read_buffer_index, "reads").buffer
    scope = scope_root(state, block)
    for reader in consumer_blocks:
        if not any(r.buffer is buffer for r in effective_regions(reader.block)[0]):
            raise ScheduleError(f"{reader.label} does not read buffer `{buffer.name}`", reader)
    place, index, region = read_place(state, scope, buffer, consumer_blocks)
    copy = copy_in(buffer, storage_scope)
    cache = CacheStage(buffer, copy, copy, place, index, consumers={sref.block for sref in consumer_blocks})
    cache.make(region, storage_scope)
    return put_stage(state, scope, _ReadRewriter(scope, cache, buffer, copy))


@primitive("CacheWrite", prepare=prepare_index("write_buffer_index", "write"))
def cache_write(
    state: ScheduleState,
    block: BlockRef,
    write_buffer_index: Any,
    storage_scope: str,
    consumer_blocks: BlocksIn = (),
) -> BlockRef:
    """Let a block write a new buffer in `storage_scope`, which another block copies to the old one.

    `write_buffer_index` counts the block's write regions; `consumer_blocks` are readers that shall read
    the new buffer. The result is the block that copies.

    Requires: the block is the only writer of the buffer in its scope, does not update it in place, and writes all
    of the region that is copied where the scope does not allocate the buffer.
    """
    check_storage_scope(storage_scope)
    region = region_at(block, write_buffer_index, "writes")
    buffer = region.buffer
    check_not_in_place(state, block, buffer, "use cache_inplace")
    scope = scope_root(state, block)
    only_writer(state, scope, buffer)
    place, index = find_place(state, block, scope, ())
    relaxed = clipped(relax_region(state, region, block, block.parent, place), analyzer_at(place))
    check_writes_all(state, block, buffer, scope, place, relaxed)
    copy = copy_in(buffer, storage_scope)
    cache = CacheStage(copy, buffer, copy, place, index, consumers={sref.block for sref in consumer_blocks})
    cache.make(relaxed, storage_scope)
    return put_stage(state, scope, _WriteRewriter(scope, block, cache, buffer, copy))


@primitive("CacheInplace", prepare=prepare_index("read_buffer_index", "read"))
def cache_inplace(state: ScheduleState, block: BlockRef, read_buffer_index: Any, storage_scope: str) -> Blocks:
    """Copy a buffer that a block reads and writes into a new one before it, and back after it.

    The block works on the new buffer. The result is the two blocks that copy.

    Requires: the block reads and writes the buffer.
    """
    check_storage_scope(storage_scope)
    read = region_at(block, read_buffer_index, "reads")
    written = [r for r in block.block.writes if r.buffer is read.buffer]
    if not written:
        raise ScheduleError(f"{block.label} does not both read and write buffer `{read.buffer.name}`", block)
    scope = scope_root(state, block)
    realize = state.realize_of(block)
    bound = {v.var: value for v, value in zip(realize.block.iter_vars, realize.iter_values)}
    copy = copy_in(read.buffer, storage_scope)
    analyzer = analyzer_at(block)
    written_back = clipped(substitute(written[0], bound), analyzer)
    if not all(structural_equal(a, b) for a, b in zip(read.region, written[0].region)):
        check_writes_all(state, block, read.buffer, scope, block.parent, written_back)
    before = CacheStage(read.buffer, copy, copy, scope, 0)
    before.make(clipped(substitute(read, bound), analyzer), storage_scope)
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

    @handles(For)
    def loop(self, node: For) -> Stmt:
        return self.visit_children(node)

    @handles(BlockRealize)
    def realize(self, node: BlockRealize) -> Stmt:
        new = self.visit_children(node)
        if node.block is not self.target.stmt:
            return new
        return SeqStmt.flatten(self.cache.stage, new, self.after.stage)

    @handles(Block)
    def block(self, node: Block) -> Block:
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

    @handles(BufferStore)
    def store(self, node: BufferStore) -> BufferStore:
        new = self.visit_children(node)
        return new.replace(buffer=self.in_new(new.buffer))
