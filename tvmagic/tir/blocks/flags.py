"""What is known of a block in its scope: affine binding, region cover, stage pipeline.

Each is computed from the program when it is asked for, and kept by the identity of the nodes it
was computed from: a node is never changed, so what was found for it stays true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set import IntSet, intersect, joined
from tvmagic.arith.int_set_eval import eval_sets
from tvmagic.arith.region_bounds import estimate_region_lower_bound
from tvmagic.arith.sums import Sum, Sums
from tvmagic.ir import (
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    FloorDiv,
    FloorMod,
    For,
    IntImm,
    PrimExpr,
    Range,
    Var,
    substitute,
)
from tvmagic.ir.query import contains, is_one, variables_in
from tvmagic.tir.blocks.domains import analyzer_at, domains_at, domains_between, iter_domains, loop_domains
from tvmagic.tir.blocks.regions import effective_regions
from tvmagic.tir.blocks.scope import BlockScope
from tvmagic.tir.blocks.sref import StmtSRef

if TYPE_CHECKING:
    from tvmagic.arith.iter_map import IterSumExpr
    from tvmagic.tir.schedule.state import ScheduleState

__all__ = ["CachedFlags", "FlagCache", "is_affine_binding", "loop_domains"]

_LIMIT = 20_000


class CachedFlags(NamedTuple):
    """`affine_binding`: the block's variables are bound to affine expressions of its loops, each
    value once. `region_cover`: all that it reads was written before. `stage_pipeline`: its scope is a
    chain of stages, each covering what the next reads; none writes what one before it reads."""

    affine_binding: bool
    region_cover: bool
    stage_pipeline: bool


def is_affine_binding(realize: BlockRealize, domains: dict[Var, Range], analyzer: Analyzer) -> bool:
    """Whether the values bound are independent iterators of the loops, each with scale 1."""
    from tvmagic.arith.iter_map import detect_iter_map

    if not domains:
        return True
    found: Sequence[IterSumExpr] = ()
    # the condition may be one on a sum with a loop of extent 1, which then must count as an iterator
    for as_constants in (True, False):
        found = detect_iter_map(
            realize.iter_values, domains, realize.predicate, "surjective", as_constants, analyzer
        ).indices
        if found:
            break
    return bool(found) and all(not s.args or analyzer.can_prove_equal(s.args[0].scale, 1) for s in found)


def bind_regions(state: ScheduleState, sref: StmtSRef, side: str) -> list[BufferRegion]:
    """What a block reads or writes, in terms of its loops' variables."""
    realize = state.realize_of(sref)
    block = realize.block
    values = {v.var: value for v, value in zip(block.iter_vars, realize.iter_values)}
    reads, writes = effective_regions(block)
    return [substitute(region, values) for region in (reads if side == "reads" else writes)]


class FlagCache:
    """Flags by the nodes they follow from; shared by a state and its copies."""

    def __init__(self) -> None:
        self.affine: dict[tuple[Any, ...], bool] = {}
        self.distinct: dict[tuple[Any, ...], bool] = {}
        self.cover: dict[tuple[Any, ...], bool] = {}

    def scope(self, state: ScheduleState, block_sref: StmtSRef) -> BlockScope:
        found = state.scopes.get(block_sref.block)
        if found is None:
            if len(state.scopes) > _LIMIT:
                state.scopes.clear()
            found = state.scopes[block_sref.block] = BlockScope(state.child_blocks(block_sref))
        return found

    def flags(self, state: ScheduleState, block_sref: StmtSRef) -> CachedFlags:
        covered = True
        if block_sref.parent is not None:
            scope_root = state.scope_of(block_sref)
            covered = self.region_cover(state, scope_root, block_sref)
        pipeline = self.stage_pipeline(state, block_sref) and not self.scope(state, block_sref).has_overwriters
        return CachedFlags(self.affine_binding(state, block_sref), covered, pipeline)

    def affine_binding(self, state: ScheduleState, block_sref: StmtSRef) -> bool:
        """Whether the bindings of a block are affine in the loops of its scope."""
        if block_sref.parent is None:
            return True
        return self._affine(state, block_sref, state.realize_of(block_sref), self.affine)

    def distinct_binding(self, state: ScheduleState, block_sref: StmtSRef) -> bool:
        """Whether the bindings are affine or, if the block has a condition, would be without it.

        The condition of a block that rfactor made leaves out iterations, but what is left binds each value once.
        """
        if self.affine_binding(state, block_sref):
            return True
        realize = state.realize_of(block_sref)
        if is_one(realize.predicate):
            return False
        bare = realize.replace(predicate=IntImm("bool", 1))
        return self._affine(state, block_sref, bare, self.distinct)

    def _affine(
        self, state: ScheduleState, block_sref: StmtSRef, realize: BlockRealize, cache: dict[tuple[Any, ...], bool]
    ) -> bool:
        key = _place(state, block_sref)
        found = cache.get(key)
        if found is None:
            if len(cache) > _LIMIT:
                cache.clear()
            domains = loop_domains(state.loops_of(block_sref))
            found = cache[key] = is_affine_binding(realize, domains, Analyzer(domains))
        return found

    def stage_pipeline(self, state: ScheduleState, scope_root: StmtSRef) -> bool:
        """Whether every child of a scope reads only what was written before it."""
        return len(self.covered(state, scope_root)) == len(self.scope(state, scope_root).children)

    def covered(self, state: ScheduleState, scope_root: StmtSRef) -> set[StmtSRef]:
        """The children of a scope whose reads are covered; found once for a scope at a place."""
        scope, place = self.scope(state, scope_root), _place(state, scope_root)
        found = scope.covered.get(place)
        if found is None:
            found = {child for child in scope.children if self.region_cover(state, scope_root, child)}
            scope.covered[place] = found
        return found

    def region_cover(self, state: ScheduleState, scope_root: StmtSRef, consumer: StmtSRef) -> bool:
        """Whether the writers of what `consumer` reads cover it together."""
        producers = self.scope(state, scope_root).producers(consumer)
        if not producers:
            return True
        key = (_place(state, consumer), *[_place(state, p) for p in producers])
        found = self.cover.get(key)
        if found is None:
            if len(self.cover) > _LIMIT:
                self.cover.clear()
            found = self.cover[key] = _region_covered(state, scope_root, consumer, producers)
        return found


def _place(state: ScheduleState, sref: StmtSRef) -> tuple[Any, ...]:
    """A block's realize and the loops and blocks around it, as far as regions depend on them.

    It stays the same while what is beside the block is rewritten.
    """
    found: list[Any] = [state.realize_of(sref)]
    above = sref.parent
    while above is not None:
        stmt = above.stmt
        if isinstance(stmt, For):
            found += (stmt.loop_var, stmt.min, stmt.extent, stmt.thread_binding)
        elif isinstance(stmt, Block):
            found += stmt.iter_vars
        above = above.parent
    return tuple(found)


def path_below(sref: StmtSRef, limit: StmtSRef) -> list[StmtSRef]:
    """The loops round `sref` that are inside `limit`, outermost first."""
    loops: list[StmtSRef] = []
    above = sref.parent
    while above is not None and above is not limit:
        if above.is_loop:
            loops.append(above)
        above = above.parent
    loops.reverse()
    return loops


def _region_covered(state: ScheduleState, scope_root: StmtSRef, consumer: StmtSRef, producers: list[StmtSRef]) -> bool:
    """For each place where producers and the consumer meet: what is written there, relaxed over the
    loops below it, holds what is read there."""
    path = [consumer]
    while path[-1] is not scope_root:
        above = path[-1].parent
        assert above is not None
        path.append(above)
    on_path = set(path)
    by_meeting: dict[StmtSRef, list[StmtSRef]] = {}
    for producer in producers:
        meeting = producer.parent
        while meeting not in on_path:
            assert meeting is not None
            meeting = meeting.parent
        by_meeting.setdefault(meeting, []).append(producer)
    return all(_covered_at(state, m, by_meeting[m], consumer) for m in path if m in by_meeting)


def _covered_at(
    state: ScheduleState,
    meeting: StmtSRef,
    producers: list[StmtSRef],
    consumer: StmtSRef,
) -> bool:
    whole = {buffer for producer in producers for buffer in _written_wholly(state, producer, meeting)}
    if all(region.buffer in whole for region in effective_regions(consumer.block)[0]):
        return True
    if _covered_by_sums(state, meeting, producers, consumer, whole):
        return True
    whole |= {buffer for producer in producers for buffer in _written_by_all_values(state, producer, meeting)}
    if all(region.buffer in whole for region in effective_regions(consumer.block)[0]):
        return True
    written: dict[Buffer, list[list[IntSet]]] = {}
    # what runs in part may read just what was written in part; the boxes are then compared as if both ran whole
    exact = _number(_partial_condition(state, consumer)) == 1
    for producer in producers:
        for region in bind_regions(state, producer, "writes"):
            box = _written_box(state, producer, meeting, region, exact)
            written.setdefault(region.buffer, []).extend([] if box is None else [box])
    analyzer = analyzer_at(meeting)
    own = iter_domains(consumer.block.iter_vars)
    for declared, region in zip(effective_regions(consumer.block)[0], bind_regions(state, consumer, "reads")):
        produced = written.get(region.buffer)
        if produced is None or region.buffer in whole:
            continue
        boxes = joined(produced, analyzer)
        domains = domains_between(consumer.parent, meeting, region.buffer.scope())
        read = eval_sets(region.region, domains)
        if _some_covers(region.buffer, boxes, read, analyzer):
            continue
        plain = _as_iterators(state, region, consumer)
        if plain is not None and _some_covers(region.buffer, boxes, eval_sets(plain, domains), analyzer):
            continue
        # loops whose extents vary may seem to leave the domains of the block's variables, which it never does
        inside = [intersect([a, b]) for a, b in zip(read, eval_sets(declared.region, own))]
        if not _some_covers(region.buffer, boxes, inside, analyzer):
            return False
    return True


def _covered_by_sums(
    state: ScheduleState, meeting: StmtSRef, producers: list[StmtSRef], consumer: StmtSRef, whole: set[Buffer]
) -> bool:
    """Whether the ends of what is written and read, as sums of loops, show that all is covered; False says nothing.

    For each buffer some producer that runs all over its domain has to write all that is read.
    """
    assert consumer.parent is not None
    domains = domains_at(consumer.parent)
    for producer in producers:
        domains |= loop_domains(path_below(producer, meeting))
    sums = Sums(domains)
    reads = [r for r in bind_regions(state, consumer, "reads") if r.buffer not in whole]
    for producer in producers:
        for write in bind_regions(state, producer, "writes"):
            if not any(r.buffer is write.buffer for r in reads):
                continue
            scope = write.buffer.scope()
            writing, reading = (domains_between(s.parent, meeting, scope) for s in (producer, consumer))
            if _number(_partial_condition(state, producer, _first(writing, write))) == 1:
                reads = [
                    r for r in reads if r.buffer is not write.buffer or not _holds(sums, write, writing, r, reading)
                ]
    written = {w.buffer for producer in producers for w in effective_regions(producer.block)[1]}
    return not any(r.buffer in written for r in reads)


def _holds(
    sums: Sums, write: BufferRegion, writing: dict[Var, Range], read: BufferRegion, reading: dict[Var, Range]
) -> bool:
    """Whether the box written while some loops run holds the box read while others do, inside the buffer's shape."""
    for has, needs, size in zip(write.region, read.region, write.buffer.shape):
        a, b, limit = _ends(sums, has, writing), _ends(sums, needs, reading), sums.of(size)
        if a is None or b is None or limit is None:
            return False
        (has_low, has_high), (needs_low, needs_high) = a, b
        if not (sums.below(has_low, needs_low) or sums.below(has_low, Sum({}, 0))):
            return False
        if not (sums.below(needs_high, has_high) or sums.below(limit.plus(Sum({}, -1)), has_high)):
            return False
    return True


def _ends(sums: Sums, side: Range, moving: dict[Var, Range]) -> tuple[Sum, Sum] | None:
    """The first and the last index that a side of a region has while some loops run."""
    low, extent = sums.of(side.min), sums.of(side.extent)
    if low is None or extent is None:
        return None
    first, last = sums.span(low, moving), sums.span(low.plus(extent).plus(Sum({}, -1)), moving)
    return None if first is None or last is None else (first[0], last[1])


def _as_iterators(state: ScheduleState, region: BufferRegion, block: StmtSRef) -> list[Range] | None:
    """A region with its quotients and remainders simplified as iterators of the loops; None if it has none.

    `(i * n + j) // n` is `i`: with symbolic sizes that is not seen from intervals.
    """
    from tvmagic.arith.iter_map import detect_iter_map

    if not any(contains(side.min, FloorDiv, FloorMod) for side in region.region):
        return None
    domains = loop_domains(state.loops_of(block))
    lows = [side.min for side in region.region]
    found = detect_iter_map(lows, domains, state.realize_of(block).predicate, "nocheck").indices
    if not found:
        return None
    return [
        Range.from_min_extent(_plain_part(low, total), s.extent) for low, total, s in zip(lows, found, region.region)
    ]


def _plain_part(value: PrimExpr, total: IterSumExpr) -> PrimExpr:
    """The iterator that a part of a fused sum is, such as `i` for `(i * n + j) // n`; else the value as it is."""
    from tvmagic.arith.iter_map import IterSumExpr, normalize_iter_map_to_expr

    analyzer = Analyzer()
    while len(total.args) == 1:
        (split,) = total.args
        inner = split.source.source
        if not isinstance(inner, IterSumExpr):
            break
        for part in inner.args:
            same = analyzer.can_prove_equal(part.scale, split.lower_factor)
            if same and analyzer.can_prove_equal(part.extent, split.extent):
                total = IterSumExpr([part.replace(scale=split.scale)], total.base)
                break
        else:
            return value
    return normalize_iter_map_to_expr(total)


def _partial_condition(state: ScheduleState, block: StmtSRef, first: dict[Var, PrimExpr] | None = None) -> PrimExpr:
    from tvmagic.tir.blocks.conditions import partial_condition

    return partial_condition(state.realize_of(block), loop_domains(state.loops_of(block)), first)


def _written_box(
    state: ScheduleState, producer: StmtSRef, meeting: StmtSRef, region: BufferRegion, exact: bool
) -> list[IntSet] | None:
    """The box that one iteration at `meeting` writes; None if a condition leaves out an unknown part of it.

    Without `exact` the condition does not count. An element of a reduction is written if any of its iterations runs:
    the first one is asked for.
    """
    domains = domains_between(producer.parent, meeting, region.buffer.scope())
    condition = _partial_condition(state, producer, _first(domains, region))
    if not exact or _number(condition) == 1:
        return eval_sets(region.region, domains)
    return estimate_region_lower_bound(region.region, domains, condition)


def _first(domains: dict[Var, Range], written: BufferRegion) -> dict[Var, PrimExpr]:
    """The first values of the loops that what is written does not depend on."""
    used = {v for side in written.region for end in (side.min, side.extent) for v in variables_in(end)}
    return {var: domain.min for var, domain in domains.items() if var not in used}


def _written_wholly(state: ScheduleState, producer: StmtSRef, meeting: StmtSRef) -> list[Buffer]:
    """The buffers of which a producer writes one element an iteration, counted by loops below `meeting`.

    This is what most blocks do, and is seen without an analysis.
    """
    realize = state.realize_of(producer)
    if _number(realize.predicate) != 1:  # it may leave elements out
        return []
    loops = {s.loop.loop_var: s.loop for s in path_below(producer, meeting)}
    bound = {v.var: value for v, value in zip(realize.block.iter_vars, realize.iter_values)}
    found: list[Buffer] = []
    for region in effective_regions(realize.block)[1]:
        left = dict(loops)
        for side, size in zip(region.region, region.buffer.shape):
            value = bound.get(side.min) if isinstance(side.min, Var) else None
            loop = left.pop(value, None) if isinstance(value, Var) else None
            if loop is None or _number(loop.min) != 0 or _number(loop.extent) is None:
                break
            if _number(side.extent) != 1 or _number(loop.extent) != _number(size):
                break
        else:
            found.append(region.buffer)
    return found


def _written_by_all_values(state: ScheduleState, producer: StmtSRef, meeting: StmtSRef) -> list[Buffer]:
    """The buffers of which a producer writes an element for each value of its variables, which take all of them below
    `meeting`: what is left of such a block with symbolic sizes when its loops were split and fused."""
    from tvmagic.tir.blocks.conditions import runs_everywhere

    realize = state.realize_of(producer)
    domains = iter_domains(realize.block.iter_vars)
    found: list[Buffer] = []
    for region in effective_regions(realize.block)[1]:
        places = [s.min for s in region.region if _number(s.extent) == 1 and isinstance(s.min, Var)]
        sides = list(zip(places, region.buffer.shape))
        distinct = len(region.region) == len(places) == len(set(places))
        if distinct and all(p in domains and _is_from_zero_to(domains[p], size) for p, size in sides):
            found.append(region.buffer)
    if not found:
        return []
    loops = loop_domains(path_below(producer, meeting))
    return found if runs_everywhere(realize, loops, realize.predicate) else []


def _is_from_zero_to(domain: Range, size: PrimExpr) -> bool:
    return _number(domain.min) == 0 and (domain.extent is size or Analyzer().can_prove_equal(domain.extent, size))


def _number(value: PrimExpr) -> int | None:
    return value.value if isinstance(value, IntImm) else None


def _some_covers(buffer: Buffer, boxes: list[list[IntSet]], consumed: list[IntSet], analyzer: Analyzer) -> bool:
    return any(_covers(buffer, box, consumed, analyzer) for box in boxes)


def _covers(buffer: Buffer, produced: list[IntSet], consumed: list[IntSet], analyzer: Analyzer) -> bool:
    """Whether each side of the box `produced` holds that of `consumed`, inside the buffer's shape."""
    for size, has, needs in zip(buffer.shape, produced, consumed):
        whole = IntSet.from_min_extent(0, size)
        has, needs = intersect([has, whole]), intersect([needs, whole])
        if not (
            has.has_lower_bound() and has.has_upper_bound() and needs.has_lower_bound() and needs.has_upper_bound()
        ):
            return False
        if not analyzer.can_prove(has.min() <= needs.min()) or not analyzer.can_prove(needs.max() <= has.max()):
            return False
    return True
