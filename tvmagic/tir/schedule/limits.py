"""What keeps copies to what a block really touches.

A block may declare more than it touches: a condition in it can guard an access that would lie outside the
buffer, and a store may leave elements out. A copy of what the block declares has no such condition.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.extension import ProofStrength
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.arith.iter_map import IterSumExpr, detect_iter_map
from tvmagic.ir.ops import logical_and, maximum, minimum
from tvmagic.ir.query import contains, nodes_of, variables_in
from tvmagic.tir.blocks.conditions import all_of, conjuncts, interval_of
from tvmagic.tir.blocks.domains import analyzer_at, loop_domains
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.regions import used_by_pointer, whole_region
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.state import ScheduleState


def read_anywhere(state: ScheduleState, region: ir.BufferRegion, block: StmtSRef) -> ir.BufferRegion:
    """A region of a block in terms of the loops around it, of which each bound can be computed anywhere inside these loops.

    A bound such as `I[i]` loads. If that may be outside `I` in some iteration (one that a condition leaves out), or if a
    block beside this one writes `I` (and may not have run yet), the region is the whole of its dimension; likewise if its
    size loads, as no condition is asked before a loop's extent.
    """
    realize = state.realize_of(block)
    region = ir.substitute(region, {v.var: value for v, value in zip(realize.block.iter_vars, realize.iter_values)})
    if not any(contains(part, ir.BufferLoad) for side in region.region for part in (side.min, side.extent)):
        return region
    analyzer = analyzer_at(block)
    written = {buffer.data for buffer in state.get_block_scope(state.scope_of(block)).buffer_writers}
    sides = [
        side
        if not contains(side.extent, ir.BufferLoad)
        and all(x.buffer.data not in written and _is_inside(x, analyzer) for x in nodes_of(side.min, ir.BufferLoad))
        else whole
        for side, whole in zip(region.region, whole_region(region.buffer).region)
    ]
    return region.replace(region=tuple(sides))


def _is_inside(load: ir.BufferLoad, analyzer: Analyzer) -> bool:
    """Whether an access is inside its buffer for all values of the variables."""
    return all(_is_below(index, size, analyzer) for index, size in zip(load.indices, load.buffer.shape))


def _is_below(index: ir.PrimExpr, size: ir.PrimExpr, analyzer: Analyzer) -> bool:
    """Whether an index is in `[0, size)`; of symbolic sizes it takes more to see that `n - 1 - v` is."""
    strength = ProofStrength.SYMBOLIC_BOUND
    return analyzer.can_prove(index >= 0, strength) and analyzer.can_prove(index < size, strength)


def clipped(region: ir.BufferRegion, analyzer: Analyzer) -> ir.BufferRegion:
    """The part of the region that is inside its buffer, if `analyzer` knows the region's variables; all of a dimension of
    which loads alone would say what is inside."""
    sides: list[ir.Range] = []
    for side, whole in zip(region.region, whole_region(region.buffer).region):
        size = whole.extent
        low, end = side.min, side.min + side.extent
        starts, ends = analyzer.can_prove(low >= 0), analyzer.can_prove(end <= size)
        if not (starts and ends) and contains(side.min, ir.BufferLoad):
            side = whole
        elif not (starts and ends):
            low = low if starts else analyzer.simplify(maximum(low, ir.IntImm(low.dtype, 0)))
            end = end if ends else analyzer.simplify(minimum(end, size))
            side = ir.Range.from_min_extent(low, analyzer.simplify(end - low))
        sides.append(side)
    return region.replace(region=tuple(sides))


def check_inside(block: StmtSRef, buffer: ir.Buffer, indices: Sequence[ir.PrimExpr]) -> None:
    """The indices at which the block accesses the buffer must lie inside it, whatever the block's variables are."""
    analyzer = analyzer_at(block)
    verb = "writes" if any(w.buffer is buffer for w in block.block.writes) else "reads"
    for index, size in zip(indices, buffer.shape):
        if not _is_below(index, size, analyzer):
            raise ScheduleError(
                f"{block.label} {verb} buffer `{buffer.name}` at `{index}`, which may lie outside its {size} elements; "
                "a condition in the block may guard this, but it would not guard a copy",
                block,
                hint="inline the block, or split the padding off by decompose_padding first",
                code="schedule.access_outside_buffer",
            )


class _Stores(ir.Visitor):
    """Whether some store fills a box of a buffer, without a gap and whatever the data is: all of `box` if there is one.

    `analyzer` knows the variables around, which `box` may use.
    """

    def __init__(
        self, buffer: ir.Buffer, box: ir.BufferRegion | None, domains: dict[ir.Var, ir.Range], analyzer: Analyzer
    ) -> None:
        self.buffer, self.box, self.domains, self.analyzer = buffer, box, domains, analyzer
        self.values: dict[ir.Var, ir.PrimExpr] = {}
        self.predicate: ir.PrimExpr = ir.IntImm("bool", 1)
        self.fills = False

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> None:
        outer = self.predicate
        self.predicate = logical_and(outer, ir.substitute(node.predicate, self.values))
        values = [ir.substitute(value, self.values) for value in node.iter_values]
        self.values.update({v.var: value for v, value in zip(node.block.iter_vars, values)})
        self.visit(node.block.body)
        self.predicate = outer

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        low, extent = ir.substitute(node.min, self.values), ir.substitute(node.extent, self.values)
        self.domains[node.loop_var] = ir.Range.from_min_extent(low, extent)
        self.visit(node.body)
        del self.domains[node.loop_var]

    @ir.handles(ir.IfThenElse, ir.While)
    def conditional(self, node: ir.IfThenElse | ir.While) -> None:
        pass

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        if node.buffer is self.buffer and not self.fills:
            indices = [ir.substitute(index, self.values) for index in node.indices]
            found = _filled(indices, self.domains, self.predicate)
            self.fills = found is not None
            if found is not None and self.box is not None:
                around = [c for c in conjuncts(self.predicate) if not uses_var(c, self.domains)]
                self.fills = all(self.analyzer.can_prove(c) for c in around) and all(
                    self._holds(total, side) for total, side in zip(found, self.box.region)
                )

    def _holds(self, total: IterSumExpr, side: ir.Range) -> bool:
        """Whether `total`, which has no gap, takes all values of `side`."""
        values, prove = interval_of(total), self.analyzer.can_prove
        if values is None:
            return False
        return prove(values.min <= side.min) and prove(side.min + side.extent <= values.min + values.extent)


def _fills_box(realize: ir.BlockRealize, buffer: ir.Buffer, domains: dict[ir.Var, ir.Range]) -> bool:
    """Whether the region of a buffer that a block declares to write fills a box while loops run."""
    values = {v.var: value for v, value in zip(realize.block.iter_vars, realize.iter_values)}
    for region in realize.block.writes:
        if region.buffer is buffer:
            offsets = [ir.Var(f"i{axis}", side.extent.dtype) for axis, side in enumerate(region.region)]
            inside = {
                var: ir.Range.from_min_extent(0, ir.substitute(s.extent, values))
                for var, s in zip(offsets, region.region)
            }
            indices = [ir.substitute(side.min, values) + var for side, var in zip(region.region, offsets)]
            return _filled(indices, domains | inside, realize.predicate) is not None
    return False


def _filled(
    indices: list[ir.PrimExpr], domains: dict[ir.Var, ir.Range], predicate: ir.PrimExpr
) -> Sequence[IterSumExpr] | None:
    """The iterators of indices that take all values of a box where `predicate` holds; None if that is not known."""
    found = detect_iter_map(indices, domains, predicate).indices
    if len(found) != len(indices) or not all(_without_gap(total) for total in found):
        return None
    analyzer, conditions = Analyzer(domains), conjuncts(predicate)
    running = {var for index in indices for var in variables_in(index) if var in domains}
    for condition in conditions:
        # a condition on a sum that is no iterator of the indices leaves out elements, but no iterator becomes shorter
        others = all_of([c for c in conditions if c is not condition])
        with analyzer.constraint_scope(others):
            leaves_out = uses_var(condition, running) and not analyzer.can_prove(condition)
        if leaves_out and str(detect_iter_map(indices, domains, others).indices) == str(found):
            return None
    return found


def _without_gap(total: IterSumExpr) -> bool:
    return interval_of(total) is not None or any(
        isinstance(a.scale, ir.IntImm) and a.scale.value == 1 for a in total.args
    )


def check_writes_all(
    state: ScheduleState,
    block: StmtSRef,
    buffer: ir.Buffer,
    scope: StmtSRef,
    place: StmtSRef | None = None,
    box: ir.BufferRegion | None = None,
) -> None:
    """Below `place` the block must write each element that would be copied back.

    What it left out would be overwritten with nothing; that harms where others wrote it before.
    `box` is what the copy runs over, unless this is the block's own iterations.
    """
    own = any(b is buffer for b in scope.block.alloc_buffers)
    if own and state.get_block_scope(scope).buffer_writers.get(buffer) == [block]:
        return
    loops = state.loops_of(block)
    if place in loops:
        loops = loops[loops.index(place) + 1 :]
    if used_by_pointer(block.block, buffer):  # what is written through a pointer is what the block declares
        fills = _fills_box(state.realize_of(block), buffer, loop_domains(loops))
    else:
        stores = _Stores(buffer, box, loop_domains(loops), analyzer_at(place or scope))
        stores.visit(state.realize_of(block))
        fills = stores.fills
    if not fills:
        raise ScheduleError(
            f"it is not known that {block.label} writes all of the region of buffer `{buffer.name}` that would be copied "
            "back; the copy would overwrite what was there",
            block,
            hint="take a block that stores without a condition and without gaps",
            code="schedule.region_not_fully_written",
        )
