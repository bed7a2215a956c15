"""A copy of a buffer as a stage of its own: the block that makes it, its place, and accesses that use the copy instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
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

    source: ir.Buffer
    target: ir.Buffer
    buffer: ir.Buffer
    place: StmtSRef
    index: int
    stage: ir.Stmt | None = None
    block: ir.Block | None = None
    consumers: set[ir.Stmt] = field(default_factory=set[ir.Stmt])
    first: tuple[ir.PrimExpr, ...] | None = None

    def make(self, region: ir.BufferRegion, storage_scope: str) -> None:
        """Build the loops that copy `region`, one block instance an element."""
        loop_vars = [ir.Var(f"ax{i}", r.extent.dtype) for i, r in enumerate(region.region)]
        block_vars = [ir.Var(f"v{i}", r.extent.dtype) for i, r in enumerate(region.region)]
        iters = [
            ir.IterVar(ir.Range.from_min_extent(ir.IntImm(size.dtype, 0), size), var, ir.IterVar.DataPar)
            for var, size in zip(block_vars, self.buffer.shape)
        ]
        load_at, store_at = [
            block_vars
            if self.first is None or buffer is self.buffer
            else [a + v for a, v in zip(self.first, block_vars)]
            for buffer in (self.source, self.target)
        ]
        self.block = ir.Block(
            iters,
            [ir.BufferRegion(self.source, [ir.Range.from_min_extent(i, ir.IntImm(i.dtype, 1)) for i in load_at])],
            [ir.BufferRegion(self.target, [ir.Range.from_min_extent(i, ir.IntImm(i.dtype, 1)) for i in store_at])],
            f"{region.buffer.name}_{storage_scope}",
            ir.BufferStore(self.target, ir.BufferLoad(self.source, load_at), store_at),
        )
        values = [var if self.first else r.min + var for r, var in zip(region.region, loop_vars)]
        body = ir.BlockRealize(values, ir.IntImm("bool", 1), self.block)
        self.stage = ir.loop_nest(loop_vars, [r.extent for r in region.region], body)


def insert_stage(body: ir.Stmt, index: int, stage: ir.Stmt) -> ir.Stmt:
    """`body` with a statement put in at a position of its sequence, inside the declarations that it begins with."""
    if isinstance(body, (ir.AllocateConst, ir.DeclBuffer)):
        return body.replace(body=insert_stage(body.body, index, stage))
    parts = list(body.seq) if isinstance(body, ir.SeqStmt) else [body]
    return ir.SeqStmt.flatten(*parts[:index], stage, *parts[index:])


def statements_of(stmt: ir.Block | ir.For) -> Sequence[ir.Stmt]:
    """The statements of a body in order, those inside the declarations that it begins with."""
    body = stmt.body
    while isinstance(body, (ir.AllocateConst, ir.DeclBuffer)):
        body = body.body
    return body.seq if isinstance(body, ir.SeqStmt) else (body,)


class _PlaceFinder(ir.Visitor):
    """Where a copy goes: into the innermost sequence that holds the writer and a consumer, before
    the first statement with a consumer."""

    def __init__(self, state: ScheduleState, writer: StmtSRef, scope: StmtSRef, related: Sequence[StmtSRef]) -> None:
        self.state, self.writer, self.scope = state, writer, scope
        self.related = {sref.stmt for sref in related}
        self.seen_writer = self.seen_related = False
        self.place: StmtSRef | None = None
        self.index = -1

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> None:
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

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> None:
        if node is self.scope.stmt:
            self.visit_children(node)
            if self.seen_related and self.place is None:
                self.place = self.scope
        elif node is self.writer.stmt:
            self.seen_writer = True
        elif node in self.related:
            self.seen_related = True

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
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


def only_writer(state: ScheduleState, scope: StmtSRef, buffer: ir.Buffer) -> StmtSRef | None:
    """The block of a scope that writes a buffer; None if none does."""
    writers = state.get_block_scope(scope).buffer_writers.get(buffer, [])
    if len(writers) > 1:
        raise ScheduleError(
            f"buffer `{buffer.name}` must be written by one block, {len(writers)} blocks write it",
            *writers,
            code="schedule.several_writers",
        )
    return writers[0] if writers else None


class CacheRewriter(ir.Mutator):
    """Puts the copy and the new buffer's allocation in, and the new buffer in place of the old."""

    def __init__(self, scope: StmtSRef, cache: CacheStage, old: ir.Buffer, new: ir.Buffer) -> None:
        self.scope, self.cache, self.old, self.new = scope, cache, old, new
        self.reuse = BlockReuse()
        self.analyzer = Analyzer()
        self.active = False
        self.matched: dict[ir.Buffer, ir.Buffer] = {}
        self.pointers: dict[ir.Var, ir.Var] = {old.data: new.data}

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        new = self.visit_children(node)
        return self._insert(node, new)

    def _insert(self, old: ir.Block | ir.For, new: ir.Block | ir.For) -> ir.Block | ir.For:
        if old is not self.cache.place.stmt:
            return new
        assert self.cache.stage is not None
        return new.replace(body=insert_stage(new.body, self.cache.index, self.cache.stage))

    def scope_block(self, node: ir.Block) -> ir.Block:
        """The scope's root: its body rewritten, the new buffer allocated."""
        new = self._insert(node, self.visit_children(node))
        assert isinstance(new, ir.Block)
        new = new.replace(alloc_buffers=(*new.alloc_buffers, self.cache.buffer))
        self.reuse.note(node, new)
        return new

    def swap_buffers(self, node: ir.Block, *, reads: bool, writes: bool) -> ir.Block:
        """A block with the new buffer in its signature."""
        return node.replace(
            reads=self.regions_in_new(node.reads) if reads else node.reads,
            writes=self.regions_in_new(node.writes) if writes else node.writes,
        )

    def regions_in_new(self, regions: Sequence[ir.BufferRegion]) -> tuple[ir.BufferRegion, ...]:
        """The regions with the new buffer in place of the old."""
        if self.cache.first is None:
            return replace_buffer_in_regions(regions, self.old, self.new)
        moved = [
            [
                ir.Range.from_min_extent(low, side.extent)
                for low, side in zip(self.moved([s.min for s in r.region]), r.region)
            ]
            for r in regions
        ]
        return tuple([ir.BufferRegion(self.new, m) if r.buffer is self.old else r for r, m in zip(regions, moved)])

    def moved(self, indices: Sequence[ir.PrimExpr]) -> tuple[ir.PrimExpr, ...]:
        """Indices of the old buffer as indices of the new one."""
        if self.cache.first is None:
            return tuple(indices)
        return tuple([self.analyzer.simplify(i - low) for i, low in zip(indices, self.cache.first)])

    def access_in_new(self, access: Any) -> Any:
        """A load or store whose children are rewritten, of the buffer in place of its own."""
        buffer = self.in_new(access.buffer)
        indices = self.moved(access.indices) if buffer is self.new else access.indices
        return access.replace(buffer=buffer, indices=indices)

    @ir.handles(ir.MatchBufferRegion)
    def match(self, node: ir.MatchBufferRegion) -> ir.MatchBufferRegion:
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

    def in_new(self, buffer: ir.Buffer) -> ir.Buffer:
        """The buffer that a block which uses the copy accesses in place of `buffer`."""
        if not self.active:
            return buffer
        return self.new if buffer is self.old else self.matched.get(buffer, buffer)

    @ir.handles(ir.BufferRegion)
    def region(self, node: ir.BufferRegion) -> ir.BufferRegion:
        new = self.visit_children(node)
        return new.replace(buffer=self.matched[new.buffer]) if new.buffer in self.matched else new

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        return self.access_in_new(self.visit_children(node))

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> ir.Var:
        return self.pointers.get(node, node) if self.active else node


def put_stage(state: ScheduleState, scope: StmtSRef, rewriter: CacheRewriter) -> StmtSRef:
    """Rewrite the scope with the copy in it; the reference of the block that copies."""
    new = rewriter.visit(scope.block)
    state.replace(scope, new, rewriter.reuse)
    assert rewriter.cache.block is not None
    return state.sref_of(rewriter.cache.block)
