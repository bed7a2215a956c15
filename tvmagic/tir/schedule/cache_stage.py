"""A copy of a buffer as a stage of its own: the block that makes it, its place, and accesses that use the copy instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir import (
    AllocateConst,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    For,
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
    loop_nest,
)
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.regions import (
    replace_buffer_in_regions,
)
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.buffers import matched_in
from tvmagic.tir.schedule.rewrite import BlockReuse
from tvmagic.tir.schedule.state import ScheduleState


@dataclass
class CacheStage:
    """A copy from `source` to `target`: the block that makes it and where it goes.

    `place` is the loop or block whose body gets the copy at position `index`; `buffer` is the new one. With `first`,
    it holds just a region of the old buffer: `first` is the index in the old one of its first element.
    """

    source: Buffer
    target: Buffer
    buffer: Buffer
    place: StmtSRef
    index: int
    stage: Stmt | None = None
    block: Block | None = None
    consumers: set[Stmt] = field(default_factory=set[Stmt])
    first: tuple[PrimExpr, ...] | None = None

    def make(self, region: BufferRegion, storage_scope: str) -> None:
        """Build the loops that copy `region`, one block instance an element."""
        loop_vars = [Var(f"ax{i}", r.extent.dtype) for i, r in enumerate(region.region)]
        block_vars = [Var(f"v{i}", r.extent.dtype) for i, r in enumerate(region.region)]
        iters = [
            IterVar(Range.from_min_extent(IntImm(size.dtype, 0), size), var, IterVar.DataPar)
            for var, size in zip(block_vars, self.buffer.shape)
        ]
        load_at, store_at = [
            block_vars
            if self.first is None or buffer is self.buffer
            else [a + v for a, v in zip(self.first, block_vars)]
            for buffer in (self.source, self.target)
        ]
        self.block = Block(
            iters,
            [BufferRegion(self.source, [Range.from_min_extent(i, IntImm(i.dtype, 1)) for i in load_at])],
            [BufferRegion(self.target, [Range.from_min_extent(i, IntImm(i.dtype, 1)) for i in store_at])],
            f"{region.buffer.name}_{storage_scope}",
            BufferStore(self.target, BufferLoad(self.source, load_at), store_at),
        )
        values = [var if self.first else r.min + var for r, var in zip(region.region, loop_vars)]
        body = BlockRealize(values, IntImm("bool", 1), self.block)
        self.stage = loop_nest(loop_vars, [r.extent for r in region.region], body)


def insert_stage(body: Stmt, index: int, stage: Stmt) -> Stmt:
    """`body` with a statement put in at a position of its sequence, inside the declarations that it begins with."""
    if isinstance(body, (AllocateConst, DeclBuffer)):
        return body.replace(body=insert_stage(body.body, index, stage))
    parts = list(body.seq) if isinstance(body, SeqStmt) else [body]
    return SeqStmt.flatten(*parts[:index], stage, *parts[index:])


def statements_of(stmt: Block | For) -> Sequence[Stmt]:
    """The statements of a body in order, those inside the declarations that it begins with."""
    body = stmt.body
    while isinstance(body, (AllocateConst, DeclBuffer)):
        body = body.body
    return body.seq if isinstance(body, SeqStmt) else (body,)


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
    state: ScheduleState,
    writer: StmtSRef,
    scope: StmtSRef,
    consumers: Sequence[StmtSRef],
    but_not: Sequence[StmtSRef] = (),
) -> tuple[StmtSRef, int]:
    """The loop or block, and the position in it, for a copy of what `writer` writes.

    It is in front of the consumers, those named or all; consumers in `but_not` do not count.
    """
    known = state.get_block_scope(scope).consumers(writer)
    for consumer in consumers:
        if consumer not in known:
            raise ScheduleError(
                f"{consumer.label} does not read what {writer.label} writes",
                consumer,
                writer,
                code="schedule.not_a_consumer",
            )
    related = list(consumers) or [consumer for consumer in known if consumer not in but_not]
    if not related:
        return scope, len(statements_of(scope.block))
    finder = _PlaceFinder(state, writer, scope, related)
    finder.visit(scope.block)
    assert finder.place is not None
    return finder.place, finder.index


def only_writer(state: ScheduleState, scope: StmtSRef, buffer: Buffer) -> StmtSRef | None:
    """The block of a scope that writes a buffer; None if none does."""
    writers = state.get_block_scope(scope).buffer_writers.get(buffer, [])
    if len(writers) > 1:
        raise ScheduleError(
            f"buffer `{buffer.name}` must be written by one block, {len(writers)} blocks write it",
            *writers,
            code="schedule.several_writers",
        )
    return writers[0] if writers else None


class CacheRewriter(Mutator):
    """Puts the copy and the new buffer's allocation in, and the new buffer in place of the old."""

    def __init__(self, scope: StmtSRef, cache: CacheStage, old: Buffer, new: Buffer) -> None:
        self.scope, self.cache, self.old, self.new = scope, cache, old, new
        self.reuse = BlockReuse()
        self.analyzer = Analyzer()
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
            reads=self.regions_in_new(node.reads) if reads else node.reads,
            writes=self.regions_in_new(node.writes) if writes else node.writes,
        )

    def regions_in_new(self, regions: Sequence[BufferRegion]) -> tuple[BufferRegion, ...]:
        """The regions with the new buffer in place of the old."""
        if self.cache.first is None:
            return replace_buffer_in_regions(regions, self.old, self.new)
        moved = [
            [
                Range.from_min_extent(low, side.extent)
                for low, side in zip(self.moved([s.min for s in r.region]), r.region)
            ]
            for r in regions
        ]
        return tuple([BufferRegion(self.new, m) if r.buffer is self.old else r for r, m in zip(regions, moved)])

    def moved(self, indices: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        """Indices of the old buffer as indices of the new one."""
        if self.cache.first is None:
            return tuple(indices)
        return tuple([self.analyzer.simplify(i - low) for i, low in zip(indices, self.cache.first)])

    def access_in_new(self, access: Any) -> Any:
        """A load or store whose children are rewritten, of the buffer in place of its own."""
        buffer = self.in_new(access.buffer)
        indices = self.moved(access.indices) if buffer is self.new else access.indices
        return access.replace(buffer=buffer, indices=indices)

    @handles(MatchBufferRegion)
    def match(self, node: MatchBufferRegion) -> MatchBufferRegion:
        """What matches a part of the old buffer matches one of the new buffer, in its memory."""
        source = self.in_new(node.source.buffer)
        if source is node.source.buffer:
            return node
        view = matched_in(node.buffer, source, node.source.buffer)
        if view is not node.buffer:
            self.matched[node.buffer] = view
            self.pointers[node.buffer.data] = view.data
        (region,) = self.regions_in_new([node.source]) if source is self.new else (node.source.replace(buffer=source),)
        return node.replace(source=region, buffer=view)

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
        return self.access_in_new(self.visit_children(node))

    @handles(Var)
    def var(self, node: Var) -> Var:
        return self.pointers.get(node, node) if self.active else node


def put_stage(state: ScheduleState, scope: StmtSRef, rewriter: CacheRewriter) -> StmtSRef:
    """Rewrite the scope with the copy in it; the reference of the block that copies."""
    new = rewriter.visit(scope.block)
    state.replace(scope, new, rewriter.reuse)
    assert rewriter.cache.block is not None
    return state.sref_of(rewriter.cache.block)
