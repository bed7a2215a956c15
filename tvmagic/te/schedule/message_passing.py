"""Messages along the relations of one stage: domains, values, masks, and which bounds to check."""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping
from typing import Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.const_int_bound import POS_INF
from tvmagic.arith.int_set import IntervalSet, IntSet
from tvmagic.arith.int_set_eval import IntervalSetEvaluator
from tvmagic.errors import DefectError, ScheduleError
from tvmagic.ir import IntImm, IterVar, PrimExpr, Range, Var
from tvmagic.ir.constants import largest_integer
from tvmagic.ir.ops import greater_equal, less, make_zero
from tvmagic.te.schedule.relations import DownContext, IterVarRelation, Masks, Transform, is_const
from tvmagic.te.schedule.stage import Stage


def pass_down_domain(stage: Stage, ranges: dict[IterVar, Range], analyzer: Analyzer, may_miss: bool = False) -> None:
    """Set the range of every variable of `stage` from those of its root variables.

    `may_miss`: variables whose parents have no range are left out; else that is an error.
    """

    def update(iv: IterVar, range_: Range) -> None:
        known = ranges.get(iv)
        if known is None:
            ranges[iv] = range_
            analyzer.bind(iv.var, range_)
        elif not (is_const(known.min, 0) and analyzer.can_prove((range_.extent - known.extent).equal(0))):
            raise ScheduleError(
                f"stage `{stage.name}`: `{iv.var.name}` has extent `{known.extent}` already and cannot be proved "
                f"to have `{range_.extent}` too",
                span=stage.span,
                code="te.infer_bound.extents_differ",
            )

    context = DownContext(ranges, update, analyzer, may_miss, threads_below(stage))
    for relation in stage.relations:
        missing = [iv for iv in relation.parents() if iv not in ranges]
        if not missing:
            relation.domain_down(context)
        elif not may_miss:
            raise DefectError(
                f"stage `{stage.name}`: `{missing[0].var.name}` has no range", code="te.infer_bound.axis_without_range"
            )
    for iv, attr in stage.iter_var_attrs.items():
        if attr.bind_thread is not None and iv in ranges:
            extent = ranges[iv].extent  # threads count from 0, whatever the loop begins with
            update(attr.bind_thread, Range.from_min_extent(make_zero(extent.dtype), extent))


def threads_below(stage: Stage) -> set[IterVar]:
    """The variables of `stage` of which some leaf is bound to a thread."""
    found = {iv for iv, attr in stage.iter_var_attrs.items() if attr.bind_thread is not None}
    if found:
        for relation in reversed(stage.relations):
            if any(child in found for child in relation.children()):
                found.update(relation.parents())
    return found


def pass_up_domain(stage: Stage, ranges: Mapping[IterVar, Range], sets: dict[IterVar, IntSet]) -> list[tuple[Any, str]]:
    """Set the set of every variable from those of the leaves; each relation with its case."""
    return [(relation, relation.domain_up(ranges, sets)) for relation in reversed(stage.relations)]


def pass_up_index(
    stage: Stage, ranges: Mapping[IterVar, Range], values: dict[IterVar, PrimExpr], may_miss: bool = False
) -> None:
    """Set the value of every variable from those of the leaves."""
    for relation in reversed(stage.relations):
        if all(iv in values for iv in relation.children()):
            relation.index_up(ranges, values)
        elif not may_miss:
            raise DefectError(
                f"stage `{stage.name}`: no value for a loop of {relation!r}", code="te.infer_bound.missing_loop_value"
            )


def pass_down_index(
    stage: Stage, ranges: Mapping[IterVar, Range], values: dict[IterVar, PrimExpr], may_miss: bool = False
) -> None:
    """Set the value of every variable from those of the roots."""
    for relation in stage.relations:
        if all(iv in values for iv in relation.parents()):
            relation.index_down(ranges, values)
        elif not may_miss:
            raise DefectError(
                f"stage `{stage.name}`: no value for a parent of {relation!r}", code="te.infer_bound.missing_loop_value"
            )


def pass_down_mask(stage: Stage, masks: Masks) -> None:
    """Mark every variable with the bits of the roots it stems from."""
    for relation in stage.relations:
        relation.mask_down(masks)


def pass_up_mask(stage: Stage, masks: Masks) -> None:
    """Mark every variable with the bits of the leaves that stem from it."""
    for relation in reversed(stage.relations):
        relation.mask_up(masks)


class BoundProver:
    """Proves that values lie inside bounds, knowing the range of every iteration variable.

    One prover serves all stages of a schedule, so that making it is paid for once.
    """

    def __init__(self, ranges: Mapping[IterVar, Range]) -> None:
        self.analyzer = Analyzer()
        self.sets: MutableMapping[Var, IntervalSet] = {}
        for iv, range_ in ranges.items():
            self.sets[iv.var] = IntSet.from_range(range_)
        for iv, range_ in ranges.items():
            self.analyzer.bind(iv.var, range_, True)

    def relaxed(self, value: PrimExpr) -> IntervalSet:
        """The set of `value` over all iterations of all loops."""
        return IntervalSetEvaluator(self.analyzer, self.sets).visit(value)

    def proves(self, condition: Any) -> bool:
        return self.analyzer.can_prove(condition)

    def wraps(self, value: PrimExpr) -> bool:
        """Return whether constant loops take `value` beyond its type, where its largest value would fold to a negative one."""
        return largest_integer(value.dtype) < self.analyzer.const_int_bound(value).max_value < POS_INF


def make_bound_check(
    stage: Stage,
    ranges: Mapping[IterVar, Range],
    values: Mapping[IterVar, PrimExpr],
    prover: BoundProver,
    skip: Collection[IterVar] = (),
    domains: bool = True,
    tight: Collection[IterVarRelation] = (),
) -> list[PrimExpr]:
    """The conditions under which the loops of `stage` stay inside their domains.

    Only those that cannot be proved: where splits overrun, and where the range computed exceeds
    the domain of the output (left out without `domains`). Loops in `skip` are not looked at.
    `tight` are splits whose loops end where the parent ends, however far the outer one runs.
    """
    plain = Analyzer()
    # the loops of a layout run over a box around what is computed, which may begin before it
    boxed = {iv for relation in stage.relations if isinstance(relation, Transform) for iv in relation.original}
    conditions: list[PrimExpr] = []
    for iv in _overrun(stage, ranges, plain, tight):
        if iv in skip or iv.iter_type == IterVar.Opaque:
            continue
        value, extent = values[iv] - ranges[iv].min, ranges[iv].extent
        if iv in boxed:
            conditions += _domain_conditions(value, extent, prover)
        elif not _ends_inside(value, extent, plain, prover):
            conditions.append(less(value, extent))
    if domains:
        ended = {iv for relation in tight for iv in relation.parents()}
        for iv in stage.op.root_iter_vars():
            if iv not in skip and iv.iter_type != IterVar.Opaque:
                conditions += _output_conditions(iv, ranges[iv], values[iv], iv in ended, prover)
    return conditions


def _overrun(
    stage: Stage, ranges: Mapping[IterVar, Range], plain: Analyzer, tight: Collection[IterVarRelation]
) -> list[IterVar]:
    """The loops of a stage, and what they are split from, that may run beyond their ranges."""
    checks = dict.fromkeys(stage.leaf_iter_vars, False)
    for relation in reversed(stage.relations):
        relation.check_up(ranges, checks, plain)
        if relation in tight:
            for iv in (*relation.parents(), *relation.children()):
                checks[iv] = False
    return [iv for iv in stage.all_iter_vars if checks.get(iv, False)]


def _ends_inside(value: PrimExpr, extent: PrimExpr, plain: Analyzer, prover: BoundProver) -> bool:
    """Whether `value < extent` is proved for all iterations."""
    place = plain.simplify(value)
    if isinstance(place, IntImm) and plain.can_prove(less(place, extent)):
        return True  # what each thread computes for itself is at one place
    high = prover.relaxed(value).max_value
    return high.dtype is value.dtype and not prover.wraps(value) and prover.proves(less(high, extent))


def _output_conditions(
    iv: IterVar, computed: Range, value: PrimExpr, ended: bool, prover: BoundProver
) -> list[PrimExpr]:
    """The conditions under which `value`, of an axis of the output of which `computed` is computed, is in its domain.

    `ended`: the loops end with that range.
    """
    assert iv.dom is not None
    if _same_range(iv.dom, computed):
        return []
    extent = iv.dom.extent
    found = _domain_conditions(value - iv.dom.min, extent, prover)
    if found and ended:  # then the range is what must be inside
        first = computed.min - iv.dom.min
        last = first + (computed.extent - 1)
        if not _domain_conditions(first, extent, prover) and not _domain_conditions(last, extent, prover):
            return []
    return found


def _domain_conditions(value: PrimExpr, extent: PrimExpr, prover: BoundProver) -> list[PrimExpr]:
    """That `value` lies from 0 to `extent`, as far as it cannot be proved."""
    conditions: list[PrimExpr] = []
    found = prover.relaxed(value)  # what is infinite is of another type
    low, high = found.min_value, found.max_value
    if low.dtype is not value.dtype or not prover.proves(greater_equal(low, 0)):
        conditions.append(greater_equal(value, 0))
    if high.dtype is not value.dtype or prover.wraps(value) or not prover.proves(less(high, extent)):
        conditions.append(less(value, extent))
    return conditions


def _same_range(a: Range, b: Range) -> bool:
    """Whether two ranges are the same, expression by expression."""
    from tvmagic.ir.equal import structural_equal

    return structural_equal(a.min, b.min) and structural_equal(a.extent, b.extent)
