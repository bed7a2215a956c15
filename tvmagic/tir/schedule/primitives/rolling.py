"""The primitive that keeps just the last part of a buffer, as a ring."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set import IntSet
from tvmagic.arith.int_set_eval import eval_set, eval_sets
from tvmagic.ir.query import is_one
from tvmagic.tir.blocks.domains import loop_domains
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.regions import with_regions_of
from tvmagic.tir.blocks.scope import DepKind
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.buffers import BufferReplacer
from tvmagic.tir.schedule.instruction import BlockRef, primitive
from tvmagic.tir.schedule.requirements import check_not_output, region_at, scope_root
from tvmagic.tir.schedule.state import ScheduleState


@dataclass
class Roll:
    """How one dimension of a region moves: by the loop `var`, with `overlap` elements kept each time."""

    var: ir.Var | None
    overlap: int


def _roll_of(side: ir.Range) -> Roll | None:
    """How a side of a region rolls; None if its form is not known."""
    low, divisor = side.min, 1
    if isinstance(low, ir.FloorDiv) and isinstance(low.b, ir.IntImm):
        low, divisor = low.a, low.b.value
    if isinstance(low, ir.IntImm):
        return Roll(None, 0)
    if isinstance(low, ir.Var):
        var, stride = low, 1
    elif isinstance(low, ir.Mul) and isinstance(low.a, ir.Var) and isinstance(low.b, ir.IntImm):
        var, stride = low.a, low.b.value
    else:
        return None
    if not isinstance(side.extent, ir.IntImm):
        return None
    overlap = side.extent.value - math.ceil(stride / divisor)
    return Roll(var, overlap) if overlap > 0 else Roll(None, overlap)


def _meeting_loop(state: ScheduleState, block: StmtSRef, consumers: Sequence[StmtSRef]) -> StmtSRef | None:
    """The innermost loop around the block and all its consumers."""
    shared = list(reversed(state.loops_of(block)))
    for other in consumers:
        around = set(state.loops_of(other))
        shared = [loop for loop in shared if loop in around]
    return shared[0] if shared else None


class _RingRewriter(BufferReplacer):
    """Accesses go around the ring; the writer computes just what the ring does not have."""

    def __init__(
        self, old: ir.Buffer, new: ir.Buffer, axis: int, extent: int, writer: ir.Block, rolls: Sequence[Roll]
    ) -> None:
        super().__init__({old: new})
        self.old, self.new, self.axis, self.extent, self.writer, self.rolls = old, new, axis, extent, writer, rolls

    def map_indices(self, buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...]) -> tuple[ir.PrimExpr, ...]:
        turned = ir.FloorMod(indices[self.axis], ir.IntImm(indices[self.axis].dtype, self.extent))
        return (*indices[: self.axis], turned, *indices[self.axis + 1 :])

    @ir.handles(ir.BufferRegion)
    def region(self, node: ir.BufferRegion) -> ir.BufferRegion:
        return node

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> ir.BlockRealize:
        new = self.visit_children(node)
        if node.block is not self.writer:
            return new
        condition = node.predicate
        analyzer = Analyzer()
        for roll, value in zip(self.rolls, node.iter_values):
            if roll.var is not None:
                first = eval_set(value, {roll.var: IntSet.single_point(0)}).min()
                condition = analyzer.simplify(ir.And(condition, ir.Or(roll.var < 1, first >= roll.overlap)))
        return new.replace(predicate=condition)

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Block:
        new = self.visit_children(node)
        if any(r.buffer is self.old for r in (*node.reads, *node.writes)):
            iters = list(new.iter_vars)
            if self.axis < len(iters):
                # each iteration needs what the ones before it left in the ring
                iters[self.axis] = iters[self.axis].replace(iter_type=ir.IterVar.Opaque)
            new = with_regions_of(new, self.old, self.new).replace(iter_vars=tuple(iters))
        self.reuse.note(node, new)
        return new


@primitive("RollingBuffer")
def rolling_buffer(state: ScheduleState, block: BlockRef, write_buffer_index: int) -> None:
    """Keep of a buffer just what one iteration of the loop round writer and readers needs, as a ring.

    What iterations share is computed once: along the outermost loop whose regions overlap the buffer
    becomes a ring, and the block computes the new elements alone.

    Requires: the block is not an output block; it and its consumers are under one loop; the region it gives
    there moves by a multiple of a loop's variable, one element a block instance; its dependences are of readers on it alone.

    Example
    -------
    `sch.rolling_buffer("B", 0)` makes of

        B = T.alloc_buffer((16,))
        for i in range(15):
            for b in range(2):
                with T.block("B"):
                    v = T.axis.spatial(16, i + b)
                    B[v] = A[v] + 1.0
            with T.block("C"):
                v = T.axis.spatial(15, i)
                C[v] = B[v] + B[v + 1]

    this:

        B = T.alloc_buffer((2,))
        for i in range(15):
            for b in range(2):
                with T.block("B"):
                    v = T.axis.opaque(16, i + b)
                    T.where(i < 1 or 1 <= b)
                    B[v % 2] = A[v] + T.float32(1.0)
            with T.block("C"):
                v = T.axis.opaque(15, i)
                C[v] = B[v % 2] + B[(v + 1) % 2]
    """
    region = region_at(block, write_buffer_index, "writes")
    root = scope_root(state, block)
    loop = _loop_around_all(state, block, root, region.buffer)
    sides = _sides_in_one_iteration(state, block, loop, region)
    rolls = [_roll_of(side) for side in sides]
    known = [r for r in rolls if r is not None]
    axis = _rolling_axis(known, state.loops_of(block)) if len(known) == len(rolls) else None
    buffer = region.buffer
    if axis is None:
        raise ScheduleError(
            f"no dimension of what {block.label} writes of `{buffer.name}` moves by a multiple of a loop's variable "
            "and overlaps the iteration before",
            block,
            code="rolling_buffer.no_overlap",
        )
    if not is_one(region.region[axis].extent):
        raise ScheduleError(
            f"{block.label} writes several elements of `{buffer.name}` along the ring at once, so new ones cannot be told "
            "from old",
            block,
            code="rolling_buffer.several_elements_at_once",
        )
    extent = sides[axis].extent
    assert isinstance(extent, ir.IntImm)
    shape = (*buffer.shape[:axis], extent, *buffer.shape[axis + 1 :])
    rewriter = _RingRewriter(buffer, buffer.replace(shape=shape), axis, extent.value, block.block, known)
    state.replace(root, rewriter.visit(root.block), rewriter.reuse)


def _loop_around_all(state: ScheduleState, block: StmtSRef, root: StmtSRef, buffer: ir.Buffer) -> StmtSRef:
    """The innermost loop around a block and all its readers, on which it may have no other dependences."""
    check_not_output(state, block, root)
    scope = state.get_block_scope(root)
    deps = [*scope.get_deps_by_src(block), *scope.get_deps_by_dst(block)]
    if any(d.kind is not DepKind.RAW for d in deps):
        raise ScheduleError(
            f"{block.label} must have no dependences but those of readers on writers",
            block,
            code="rolling_buffer.other_dependences",
        )
    loop = _meeting_loop(state, block, scope.consumers(block))
    if loop is None:
        raise ScheduleError(
            f"{block.label} and the readers of `{buffer.name}` are under no common loop",
            block,
            hint="compute_at the block under a loop of its consumer first",
            code="rolling_buffer.no_common_loop",
        )
    return loop


def _sides_in_one_iteration(
    state: ScheduleState, block: StmtSRef, loop: StmtSRef, region: ir.BufferRegion
) -> list[ir.Range]:
    """What one iteration of a loop writes of a buffer, along each dimension."""
    realize = state.realize_of(block)
    bound = {v.var: value for v, value in zip(realize.block.iter_vars, realize.iter_values)}
    loops = state.loops_of(block)
    inside = loop_domains(loops[loops.index(loop) + 1 :])
    sets = eval_sets(ir.substitute(region, bound).region, inside)
    return [
        s.cover_range(ir.Range.from_min_extent(ir.IntImm(n.dtype, 0), n)) for s, n in zip(sets, region.buffer.shape)
    ]


def _rolling_axis(rolls: Sequence[Roll], loops: Sequence[StmtSRef]) -> int | None:
    """The dimension that the outermost loop moves."""
    for loop in loops:
        for axis, roll in enumerate(rolls):
            if roll.var is loop.loop.loop_var:
                return axis
    return None
