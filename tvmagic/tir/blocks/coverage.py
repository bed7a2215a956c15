"""Whether what a block reads was written before it, by the blocks that write it, at the place where they meet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvmagic import ir
from tvmagic.arith.affine_form import Sum, Sums
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set import IntSet, intersect, joined
from tvmagic.arith.int_set_eval import eval_sets
from tvmagic.arith.region_bounds import estimate_region_lower_bound
from tvmagic.ir.query import contains, variables_in
from tvmagic.tir.blocks.domains import analyzer_at, domains_at, domains_between, iter_domains, loop_domains
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.regions import effective_regions
from tvmagic.tir.blocks.sref import StmtSRef

if TYPE_CHECKING:
    from tvmagic.arith.iter_map import IterSumExpr
    from tvmagic.tir.schedule.state import ScheduleState


def bind_regions(state: ScheduleState, sref: StmtSRef, side: str) -> list[ir.BufferRegion]:
    """What a block reads or writes, in terms of its loops' variables."""
    reads, writes = effective_regions(sref.block)
    values = _bindings(state, sref)
    return [ir.substitute(region, values) for region in (reads if side == "reads" else writes)]


def _bindings(state: ScheduleState, sref: StmtSRef) -> dict[ir.Var, ir.PrimExpr]:
    """The values that a block's variables are bound to, in terms of its loops' variables."""
    realize = state.realize_of(sref)
    return {v.var: value for v, value in zip(realize.block.iter_vars, realize.iter_values)}


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


def region_covered(state: ScheduleState, scope_root: StmtSRef, consumer: StmtSRef, producers: list[StmtSRef]) -> bool:
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
    written: dict[ir.Buffer, list[list[IntSet]]] = {}
    # what runs in part may read just what was written in part; the boxes are then compared as if both ran whole
    exact = _int_value(_partial_condition(state, consumer)) == 1
    partial = {p for p in producers if exact and not _runs_where_read(state, p, consumer)}
    for producer in producers:
        for region in bind_regions(state, producer, "writes"):
            box = _written_box(state, producer, meeting, region, producer in partial)
            written.setdefault(region.buffer, []).append(box or [])
    analyzer = analyzer_at(meeting)
    own = iter_domains(consumer.block.iter_vars)
    for declared, region in zip(effective_regions(consumer.block)[0], bind_regions(state, consumer, "reads")):
        produced = written.get(region.buffer)
        if produced is None or region.buffer in whole:
            continue
        limits = [IntSet.from_min_extent(0, size) for size in region.buffer.shape]
        boxes = joined([box for box in produced if box], analyzer)
        domains = domains_between(consumer.parent, meeting, region.buffer.scope())
        read = eval_sets(region.region, domains)
        if _some_covers(limits, boxes, read, analyzer):
            continue
        plain = _as_iterators(state, region, consumer)
        if plain is not None and _some_covers(limits, boxes, eval_sets(plain, domains), analyzer):
            continue
        # loops whose extents vary may seem to leave the domains of the block's variables, which it never does
        inside = [intersect([a, b]) for a, b in zip(read, eval_sets(declared.region, own))]
        if _some_covers(limits, boxes, inside, analyzer):
            continue
        if not any(_covered_by_variables(state, meeting, p, consumer, declared, p in partial) for p in producers):
            return False
    return True


def _runs_where_read(state: ScheduleState, producer: StmtSRef, consumer: StmtSRef) -> bool:
    """Return whether the condition of `producer` holds for each of its elements that `consumer` reads.

    The condition must be one on the variables of `producer`, and an element must tell their values.
    """
    from tvmagic.tir.blocks.conditions import all_of, conditions_on_variables

    try:
        conditions = conditions_on_variables(state, producer)
        facts = conditions_on_variables(state, consumer)
    except ScheduleError:
        return False
    own = iter_domains(producer.block.iter_vars)
    analyzer = Analyzer(iter_domains(consumer.block.iter_vars))
    for written in effective_regions(producer.block)[1]:
        for read in effective_regions(consumer.block)[0]:
            if read.buffer is not written.buffer:
                continue
            values = _values_at_same_place(written, read, own)
            if values is None or any(v in own and v not in values for c in conditions for v in variables_in(c)):
                return False
            with analyzer.constraint_scope(all_of(facts)):
                if not all(analyzer.can_prove(ir.substitute(c, values)) for c in conditions):
                    return False
    return True


def _covered_by_variables(
    state: ScheduleState,
    meeting: StmtSRef,
    producer: StmtSRef,
    consumer: StmtSRef,
    read: ir.BufferRegion,
    exact: bool,
) -> bool:
    """Whether a consumer reads at the places of a producer, with values of its variables that were there before.

    So what was written at `vi // 4`, `vi % 4` for six `vi`, not a box, covers what is read there for some of these.
    """
    domains = domains_between(producer.parent, meeting, read.buffer.scope())
    writes = zip(effective_regions(producer.block)[1], bind_regions(state, producer, "writes"))
    for declared, bound in writes:
        if declared.buffer is not read.buffer:
            continue
        own = iter_domains(producer.block.iter_vars)
        values = _values_at_same_place(declared, read, own)
        if values is None or (exact and _int_value(_partial_condition(state, producer, _first(domains, bound))) != 1):
            continue
        given, taken = _bindings(state, producer), _bindings(state, consumer)
        made = read.replace(region=tuple([ir.Range.from_min_extent(given[var], 1) for var in values]))
        used = [ir.Range.from_min_extent(ir.substitute(value, taken), 1) for value in values.values()]
        if not _fills_its_box(Sums(domains), made, domains):
            continue
        reading = domains_between(consumer.parent, meeting, read.buffer.scope())
        there = [intersect([a, IntSet.from_range(own[var])]) for a, var in zip(eval_sets(made.region, domains), values)]
        if _holds_box(there, eval_sets(used, reading), analyzer_at(meeting)):
            return True
    return False


def _values_at_same_place(
    written: ir.BufferRegion, read: ir.BufferRegion, variables: dict[ir.Var, ir.Range]
) -> dict[ir.Var, ir.PrimExpr] | None:
    """The values of a producer's variables for which it writes the element that is read; None if these are not seen."""
    values: dict[ir.Var, ir.PrimExpr] = {}
    for made, used in zip(written.region, read.region):
        if _int_value(made.extent) != 1 or _int_value(used.extent) != 1:
            return None
        if not _unify(made.min, used.min, variables, values):
            return None
    return values


def _unify(
    pattern: ir.PrimExpr, value: ir.PrimExpr, variables: dict[ir.Var, ir.Range], found: dict[ir.Var, ir.PrimExpr]
) -> bool:
    """Whether an expression is another one with values for its variables, which are added to those found."""
    if isinstance(pattern, ir.Var) and pattern in variables:
        return ir.structural_equal(found.setdefault(pattern, value), value)
    if isinstance(pattern, ir.BinaryOp) and type(pattern) is type(value):
        assert isinstance(value, ir.BinaryOp)
        return _unify(pattern.a, value.a, variables, found) and _unify(pattern.b, value.b, variables, found)
    return ir.structural_equal(pattern, value)


def _covered_by_sums(
    state: ScheduleState, meeting: StmtSRef, producers: list[StmtSRef], consumer: StmtSRef, whole: set[ir.Buffer]
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
            runs_wholly = _int_value(_partial_condition(state, producer, _first(writing, write))) == 1
            if runs_wholly and _fills_its_box(sums, write, writing):
                reads = [
                    r for r in reads if r.buffer is not write.buffer or not _holds(sums, write, writing, r, reading)
                ]
    written = {w.buffer for producer in producers for w in effective_regions(producer.block)[1]}
    return not any(r.buffer in written for r in reads)


def _holds(
    sums: Sums,
    write: ir.BufferRegion,
    writing: dict[ir.Var, ir.Range],
    read: ir.BufferRegion,
    reading: dict[ir.Var, ir.Range],
) -> bool:
    """Whether the box written while some loops run holds the box read while others do, inside the buffer's shape."""
    for has, needs, size in zip(write.region, read.region, write.buffer.shape):
        a, b, limit = _index_bounds(sums, has, writing), _index_bounds(sums, needs, reading), sums.of(size)
        if a is None or b is None or limit is None:
            return False
        (has_low, has_high), (needs_low, needs_high) = a, b
        if not (sums.below(has_low, needs_low) or sums.below(has_low, Sum({}, 0))):
            return False
        if not (sums.below(needs_high, has_high) or sums.below(limit.plus(Sum({}, -1)), has_high)):
            return False
    return True


def _fills_its_box(sums: Sums, region: ir.BufferRegion, moving: dict[ir.Var, ir.Range]) -> bool:
    """Whether a region reaches all of the box around it while some loops run; False says nothing.

    It does if each loop moves one side, and no step is longer than what the shorter steps of that side cover. Quotients
    and remainders of one loop make sides that depend on each other: `i // 4` and `i % 4` of six `i` leave two places out.
    """
    seen: set[Any] = set()
    for side in region.region:
        low, extent = sums.of(side.min), _int_value(side.extent)
        steps = None if low is None else _steps(sums, low, moving)
        if steps is None or not seen.isdisjoint(var for _, var in steps):
            return False
        seen.update(var for _, var in steps)
        if not _without_gaps(sums, steps, extent):
            return False
    return True


def _steps(sums: Sums, low: Sum, moving: dict[ir.Var, ir.Range]) -> list[tuple[int, Any]] | None:
    """The loops that move a side with their steps, the shortest first; None if a loop moves it in another way."""
    found: list[tuple[int, Any]] = []
    for term, number in low.terms.items():
        if term in moving:
            found.append((abs(number), term))
        elif any(var in moving for var in sums.inside.get(term, ())):
            return None
    return sorted(found, key=lambda step: step[0])


def _without_gaps(sums: Sums, steps: list[tuple[int, Any]], extent: int | None) -> bool:
    reach: float = 1 if extent is None else extent
    for step, var in steps:
        if step > reach:
            return False
        ends = sums.ends.get(var)
        reach = math.inf if ends is None else reach + step * (ends[1] - ends[0])
    return True


def _index_bounds(sums: Sums, side: ir.Range, moving: dict[ir.Var, ir.Range]) -> tuple[Sum, Sum] | None:
    """The first and the last index that a side of a region has while some loops run."""
    low, extent = sums.of(side.min), sums.of(side.extent)
    if low is None or extent is None:
        return None
    first, last = sums.span(low, moving), sums.span(low.plus(extent).plus(Sum({}, -1)), moving)
    return None if first is None or last is None else (first[0], last[1])


def _as_iterators(state: ScheduleState, region: ir.BufferRegion, block: StmtSRef) -> list[ir.Range] | None:
    """A region with its quotients and remainders simplified as iterators of the loops; None if it has none.

    `(i * n + j) // n` is `i`: with symbolic sizes that is not seen from intervals.
    """
    from tvmagic.arith.iter_map import detect_iter_map

    if not any(contains(side.min, ir.FloorDiv, ir.FloorMod) for side in region.region):
        return None
    domains = loop_domains(state.loops_of(block))
    lows = [side.min for side in region.region]
    found = detect_iter_map(lows, domains, state.realize_of(block).predicate, "nocheck").indices
    if not found:
        return None
    return [
        ir.Range.from_min_extent(_plain_part(low, total), s.extent) for low, total, s in zip(lows, found, region.region)
    ]


def _plain_part(value: ir.PrimExpr, total: IterSumExpr) -> ir.PrimExpr:
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


def _partial_condition(
    state: ScheduleState, block: StmtSRef, first: dict[ir.Var, ir.PrimExpr] | None = None
) -> ir.PrimExpr:
    from tvmagic.tir.blocks.conditions import partial_condition

    return partial_condition(state.realize_of(block), loop_domains(state.loops_of(block)), first)


def _written_box(
    state: ScheduleState, producer: StmtSRef, meeting: StmtSRef, region: ir.BufferRegion, exact: bool
) -> list[IntSet] | None:
    """The box that one iteration at `meeting` writes; None if a condition leaves out an unknown part of it.

    Without `exact` the condition does not count. An element of a reduction is written if any of its iterations runs:
    the first one is asked for.
    """
    domains = domains_between(producer.parent, meeting, region.buffer.scope())
    condition = _partial_condition(state, producer, _first(domains, region))
    asked = condition if exact else ir.IntImm("bool", 1)
    if _int_value(asked) == 1 and _fills_its_box(Sums(domains), region, domains):
        return eval_sets(region.region, domains)
    return estimate_region_lower_bound(region.region, domains, asked)


def _first(domains: dict[ir.Var, ir.Range], written: ir.BufferRegion) -> dict[ir.Var, ir.PrimExpr]:
    """The first values of the loops that what is written does not depend on."""
    used = {v for side in written.region for end in (side.min, side.extent) for v in variables_in(end)}
    return {var: domain.min for var, domain in domains.items() if var not in used}


def _written_wholly(state: ScheduleState, producer: StmtSRef, meeting: StmtSRef) -> list[ir.Buffer]:
    """The buffers of which a producer writes one element an iteration, counted by loops below `meeting`.

    This is what most blocks do, and is seen without an analysis.
    """
    realize = state.realize_of(producer)
    if _int_value(realize.predicate) != 1:  # it may leave elements out
        return []
    loops = {s.loop.loop_var: s.loop for s in path_below(producer, meeting)}
    bound = {v.var: value for v, value in zip(realize.block.iter_vars, realize.iter_values)}
    found: list[ir.Buffer] = []
    for region in effective_regions(realize.block)[1]:
        left = dict(loops)
        for side, size in zip(region.region, region.buffer.shape):
            value = bound.get(side.min) if isinstance(side.min, ir.Var) else None
            loop = left.pop(value, None) if isinstance(value, ir.Var) else None
            if loop is None or _int_value(loop.min) != 0 or _int_value(loop.extent) is None:
                break
            if _int_value(side.extent) != 1 or _int_value(loop.extent) != _int_value(size):
                break
        else:
            found.append(region.buffer)
    return found


def _written_by_all_values(state: ScheduleState, producer: StmtSRef, meeting: StmtSRef) -> list[ir.Buffer]:
    """The buffers of which a producer writes an element for each value of its variables, which take all of them below
    `meeting`: what is left of such a block with symbolic sizes when its loops were split and fused."""
    from tvmagic.tir.blocks.conditions import runs_everywhere

    realize = state.realize_of(producer)
    domains = iter_domains(realize.block.iter_vars)
    found: list[ir.Buffer] = []
    for region in effective_regions(realize.block)[1]:
        places = [s.min for s in region.region if _int_value(s.extent) == 1 and isinstance(s.min, ir.Var)]
        sides = list(zip(places, region.buffer.shape))
        distinct = len(region.region) == len(places) == len(set(places))
        if distinct and all(p in domains and _is_from_zero_to(domains[p], size) for p, size in sides):
            found.append(region.buffer)
    if not found:
        return []
    loops = loop_domains(path_below(producer, meeting))
    return found if runs_everywhere(realize, loops, realize.predicate) else []


def _is_from_zero_to(domain: ir.Range, size: ir.PrimExpr) -> bool:
    return _int_value(domain.min) == 0 and (domain.extent is size or Analyzer().can_prove_equal(domain.extent, size))


def _int_value(value: ir.PrimExpr) -> int | None:
    return value.value if isinstance(value, ir.IntImm) else None


def _some_covers(
    limits: Sequence[IntSet], boxes: Sequence[Sequence[IntSet]], consumed: Sequence[IntSet], analyzer: Analyzer
) -> bool:
    return any(_covers(limits, box, consumed, analyzer) for box in boxes)


def _covers(
    limits: Sequence[IntSet], produced: Sequence[IntSet], consumed: Sequence[IntSet], analyzer: Analyzer
) -> bool:
    """Whether each side of the box `produced` holds that of `consumed`, both inside `limits`."""
    inside = zip(limits, produced, consumed)
    pairs = [(intersect([has, whole]), intersect([needs, whole])) for whole, has, needs in inside]
    return _holds_box([has for has, _ in pairs], [needs for _, needs in pairs], analyzer)


def _holds_box(produced: Sequence[IntSet], consumed: Sequence[IntSet], analyzer: Analyzer) -> bool:
    for has, needs in zip(produced, consumed):
        if not (
            has.has_lower_bound() and has.has_upper_bound() and needs.has_lower_bound() and needs.has_upper_bound()
        ):
            return False
        if not analyzer.can_prove(has.min() <= needs.min()) or not analyzer.can_prove(needs.max() <= has.max()):
            return False
    return True
