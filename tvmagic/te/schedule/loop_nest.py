"""The loops of a stage as statements, and the place of a reduction's initialization."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tvmagic import ir
from tvmagic.arith import Analyzer
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.arith.strided_sets import BoxUnion
from tvmagic.errors import DefectError, ScheduleError
from tvmagic.ir.node import note_parents
from tvmagic.ir.ops import cast, greater, likely, maximum
from tvmagic.te.exact.required_regions import box_condition
from tvmagic.te.exact.tight_splits import TightLimits
from tvmagic.te.schedule.message_passing import (
    BoundProver,
    make_bound_check,
    pass_down_domain,
    pass_down_mask,
    pass_up_index,
    pass_up_mask,
)
from tvmagic.te.schedule.relations import IterVarRelation, Masks, Transform, is_const, plus
from tvmagic.te.schedule.stage import IterVarAttr, Stage
from tvmagic.te.schedule.thread import VIRTUAL
from tvmagic.te.schedule.thread_memory import has_memory_of_its_own
from tvmagic.te.tensor import BaseComputeOp, ComputeOp, Operation, Tensor, loaded_tensors

Nest = list[list[ir.Stmt]]
Values = dict[ir.IterVar, ir.PrimExpr]
_NO_OP = ir.Evaluate(0)
_LOOP_KINDS = {
    ir.IterVar.DataPar: ir.ForKind.SERIAL,
    ir.IterVar.Tensorized: ir.ForKind.SERIAL,
    ir.IterVar.Unrolled: ir.ForKind.UNROLLED,
    ir.IterVar.Vectorized: ir.ForKind.VECTORIZED,
    ir.IterVar.Parallelized: ir.ForKind.PARALLEL,
}
_DATA_BIT, _REDUCE_BIT = 1, 2


class LoopContext:
    """What making statements needs: the ranges, the prover made of them, and the options.

    `keep_trivial`: loops of one iteration stay. `tight_split`: inner loops of splits that do not
    divide end where the parent ends. `demand`: for some stages the elements to compute, no others.
    `inside`: the stages that are computed inside the loops of each stage, with the loop.
    `ranks`: the memory of stages with bound loops; a thread or block that does not share it computes all for itself.
    """

    def __init__(
        self,
        ranges: Mapping[ir.IterVar, ir.Range],
        keep_trivial: bool,
        tight_split: bool,
        demand: Mapping[Stage, BoxUnion] | None = None,
        inside: Mapping[Stage, Mapping[Stage, ir.IterVar]] | None = None,
        ranks: Mapping[Stage, int] | None = None,
    ) -> None:
        self.ranges = ranges
        self.keep_trivial = keep_trivial
        self.tight_split = tight_split
        self.demand = demand or {}
        self.inside = inside or {}
        self.ranks = ranks or {}
        self._prover: BoundProver | None = None

    def with_ranges(self, ranges: Mapping[ir.IterVar, ir.Range]) -> LoopContext:
        """The same with other ranges; itself if they are the same."""
        if ranges is self.ranges:
            return self
        return LoopContext(ranges, self.keep_trivial, self.tight_split, self.demand, self.inside, self.ranks)

    @property
    def prover(self) -> BoundProver:
        if self._prover is None:
            self._prover = BoundProver(self.ranges)
        return self._prover


def merge_nest(nest: Sequence[Sequence[ir.Stmt]], body: ir.Stmt) -> ir.Stmt:
    """`body` inside the statements of `nest`, outermost first; their own bodies are no-ops."""
    for level in reversed(nest):
        for stmt in reversed(level):
            if isinstance(stmt, ir.IfThenElse):
                body = stmt.replace(then_case=body)
            else:
                body = stmt.replace(body=body)
    return body


def if_nest(conditions: Sequence[ir.PrimExpr]) -> list[ir.Stmt]:
    """One `if` for each condition."""
    return [ir.IfThenElse(c, _NO_OP) for c in conditions]


def substitute_values(stmt: ir.Stmt, values: Mapping[ir.IterVar, ir.PrimExpr]) -> ir.Stmt:
    """`stmt` with each iteration variable replaced by its value."""
    return ir.substitute(stmt, {iv.var: v for iv, v in values.items() if iv.var is not v})


def make_loop_nest(
    stage: Stage,
    context: LoopContext,
    values: Values,
    begin: int = 0,
    init: bool = False,
    skip: Collection[ir.IterVar] = (),
    tight: set[IterVarRelation] | None = None,
) -> Nest:
    """The loops of `stage` from number `begin` on, outermost first; element 0 stands around all.

    Parameters
    ----------
    values: gets the value of every variable of the stage.
    init: make loops of their own variables, for the initialization of a reduction.
    skip: loops to leave out.
    tight: gets the splits whose inner loop ends where the parent ends, if that is asked for.
    """
    own = context.tight_split and tight is not None
    limits = TightLimits(stage, context.ranges, context.prover) if own else None
    nest: Nest = [[] for _ in range(len(stage.leaf_iter_vars) + 1)]
    for position in range(begin, len(stage.leaf_iter_vars)):
        iv = stage.leaf_iter_vars[position]
        if iv in skip or iv.iter_type == ir.IterVar.Opaque:
            values[iv] = iv.var
            continue
        level = nest[position + 1]
        attr = stage.iter_var_attrs.get(iv)
        axis = attr.bind_thread if attr is not None and attr.bind_thread is not None else iv
        if axis.thread_tag:
            _thread_level(stage, iv, axis, context, values, level)
        else:
            limit = limits.extent(iv, values) if limits is not None else None
            if limit is not None and tight is not None:
                tight.add(limit[0])
            _loop_level(stage, iv, attr, context, values, level, init, limit[1] if limit is not None else None)
        if not init:  # marks the place, for stages that are computed here
            level.append(ir.AttrStmt(iv, "loop_scope", iv.var, _NO_OP, stage.span))
    pass_up_index(stage, context.ranges, values)
    return nest


def _loop_level(
    stage: Stage,
    iv: ir.IterVar,
    attr: IterVarAttr | None,
    context: LoopContext,
    values: Values,
    level: list[ir.Stmt],
    init: bool,
    limit: ir.PrimExpr | None = None,
) -> None:
    """The statements of one loop: its pragmas, the loop (of `limit` iterations), what it prefetches."""
    range_, span = context.ranges[iv], stage.span
    own = _loop_span(iv, stage, init)
    var = ir.Var(iv.var.name + ".init", iv.dtype) if init else iv.var
    kind = ir.ForKind.SERIAL
    if attr is not None:
        if attr.iter_type not in _LOOP_KINDS:
            raise DefectError(
                f"stage `{stage.name}`: loop `{iv.var.name}` is of an unknown type", code="te.lower.unknown_loop_kind"
            )
        kind = _LOOP_KINDS[attr.iter_type]
        for key, value in zip(attr.pragma_keys, attr.pragma_values):
            fact = value if value is not None else ir.IntImm("int32", 1)
            level.append(ir.AttrStmt(iv, f"pragma_{key.value}", fact, _NO_OP, span))
    low, extent = cast(var.dtype, range_.min), cast(var.dtype, range_.extent)
    trivial = not context.keep_trivial and is_const(extent, 1)
    count = extent if limit is None else limit
    if trivial:
        level.append(ir.LetStmt(var, low, _NO_OP, own))
        values[iv] = low
    elif is_const(low, 0):
        level.append(ir.For(var, 0, count, kind, _NO_OP, span=own))
        values[iv] = var
    else:
        index = ir.Var(iv.var.name + ".idx", iv.dtype)
        level.append(ir.For(index, 0, count, kind, _NO_OP, span=own))
        values[iv] = low + index
        level.append(ir.LetStmt(var, values[iv], _NO_OP, span))
    for tensor, offset in zip(attr.prefetch_data, attr.prefetch_offset) if attr is not None else ():
        if is_const(extent, 1):
            raise ScheduleError(
                f"stage `{stage.name}`: prefetch at `{iv.var.name}`, which runs once",
                span=span,
                hint="prefetch at a loop of several iterations: each one asks for what a later one reads",
                code="te.prefetch.loop_runs_once",
            )
        _check_prefetch(stage, iv, tensor, context)
        level.append(ir.AttrStmt(tensor, "prefetch_scope", offset, _NO_OP, span))


def _loop_span(iv: ir.IterVar, stage: Stage, init: bool = False) -> ir.Span | None:
    """The place of the stage, and the origin of the loop, which it has however often the schedule is lowered."""
    if iv.span is None:
        return stage.span
    if init:
        span = ir.Span.part_of(iv.span.origin, 0, stage.span)
        note_parents(span.origin, iv.span.origin)
        return span
    return iv.span if stage.span is None else stage.span.with_origin(iv.span.origin)


def _check_prefetch(stage: Stage, iv: ir.IterVar, tensor: Tensor, context: LoopContext) -> None:
    """What is prefetched at a loop has its memory there: it is not computed at that loop or inside it."""
    leaves = stage.leaf_iter_vars
    for other, place in context.inside.get(stage, {}).items():
        if any(t is tensor for t in other.op.outputs) and leaves.index(place) >= leaves.index(iv):
            raise ScheduleError(
                f"stage `{stage.name}`: prefetch of `{tensor.name}` at `{iv.var.name}`, but it is computed at "
                f"`{place.var.name}` inside that loop",
                span=stage.span,
                hint=f"prefetch it at a loop inside the one at which `{tensor.name}` is computed",
                code="te.prefetch.computed_inside_loop",
            )


def _thread_level(
    stage: Stage, iv: ir.IterVar, axis: ir.IterVar, context: LoopContext, values: Values, level: list[ir.Stmt]
) -> None:
    """The statement that launches the threads of a loop."""
    range_ = context.ranges[iv]
    extent = cast(axis.dtype, range_.extent)
    virtual = axis.thread_tag in VIRTUAL
    if virtual and not (isinstance(extent, ir.IntImm) and extent.value > 0):
        raise ScheduleError(
            f"stage `{stage.name}`: the virtual thread `{axis.var.name}` needs a constant extent",
            span=stage.span,
            hint="split the loop by nparts, and bind the outer part",
            code="te.vthread.symbolic_extent",
        )
    key = "virtual_thread" if virtual else "pipeline_exec_scope" if axis.thread_tag == "pipeline" else "thread_extent"
    level.append(ir.AttrStmt(axis, key, extent, _NO_OP, _loop_span(iv, stage)))
    once = not context.keep_trivial and is_const(range_.extent, 1) and not virtual
    if not is_const(range_.extent, 1) and has_memory_of_its_own(stage, iv, axis, context.ranks):
        _check_own_part(stage, iv, axis, context, virtual)
        once = once or not virtual
    values[iv] = cast(iv.dtype, range_.min) if once else plus(cast(iv.dtype, axis.var), range_.min)


def _check_own_part(stage: Stage, iv: ir.IterVar, axis: ir.IterVar, context: LoopContext, virtual: bool) -> None:
    """A thread computes one iteration of `iv`; the region that it reads has to be no more than that.

    Virtual threads are loops: they may share the work, unless each of them reads a region of its own.
    """
    touched: Masks = {iv: 1}
    pass_up_mask(stage, touched)
    # the ranges of another layout are less tight than those of the roots
    moved = [iv for r in stage.relations if isinstance(r, Transform) for iv in r.transformed]
    for whole in (iv for iv in (*stage.op.root_iter_vars(), *moved) if iv in touched):
        range_ = context.ranges[whole]
        if uses_var(range_.min, (axis.var,)) if virtual else not is_const(range_.extent, 1):
            what = f"its memory, `{stage.scope or 'local'}`, is one for each of these threads"
            raise ScheduleError(
                f"stage `{stage.origin_op.name}`: loop `{iv.var.name}` is bound to `{axis.var.name}`, but {what}, "
                "which reads there what other threads would compute",
                span=stage.span,
                hint='leave the loop serial, or let the threads share the memory: set_scope("shared")',
                code="te.bind.reads_other_threads",
            )


def _without_empty_reductions(op: BaseComputeOp, stage: Stage, context: LoopContext) -> Mapping[ir.IterVar, ir.Range]:
    """The ranges with one iteration at least for each axis of the reduction.

    A loop fused of data and reduction initializes as it goes; it has to go, even if there is nothing to reduce.
    """
    empty = [iv for iv in op.reduce_axis if not context.prover.proves(greater(context.ranges[iv].extent, 0))]
    if not empty:
        return context.ranges
    ranges = dict(context.ranges)
    for iv in set(stage.all_iter_vars).difference(op.root_iter_vars()):
        del ranges[iv]
    for iv in empty:
        ranges[iv] = ir.Range.from_min_extent(ranges[iv].min, maximum(ranges[iv].extent, 1))
    pass_down_domain(stage, ranges, Analyzer())
    return ranges


def _read_by_start_values(op: BaseComputeOp) -> set[Operation]:
    """The operations whose results the initialization of a reduction reads."""
    reduce = op.body[0] if isinstance(op, ComputeOp) else None
    values = reduce.init if isinstance(reduce, ir.Reduce) else ()
    return {t.op for value in values for t in loaded_tensors(value)}


def _check_start_values(op: BaseComputeOp, stage: Stage, context: LoopContext, common: int) -> None:
    """What the initialization reads is not computed inside the loops after the first `common`, which it does not have."""
    read = _read_by_start_values(op)
    for other, place in context.inside.get(stage, {}).items():
        if other.op in read and place not in stage.leaf_iter_vars[:common]:
            raise ScheduleError(
                f"stage `{other.origin_op.name}` is computed at loop `{place.var.name}` of stage `{stage.origin_op.name}`, "
                "whose start values read it outside that loop",
                span=other.span,
                hint=f"compute `{other.origin_op.name}` at a loop outside the reduction, or at the root",
                code="te.compute_at.init_reads_outside",
            )


class ComputeLoopNest:
    """The loops of a compute stage, and for a reduction those of its initialization.

    `common`: how many loops, from the outermost, initialization and update share.
    `mixed`: the loops fused of data and reduction.
    """

    def __init__(self, op: BaseComputeOp, stage: Stage, context: LoopContext) -> None:
        self.mixed: list[ir.IterVar] = []
        self.main_values: Values = {}
        self.init_values: Values = {}
        self.init_nest: Nest = []
        self.init_predicates: list[ir.PrimExpr] = []
        wanted = context.demand.get(stage)
        self.wanted = [] if wanted is None else [box_condition(op, wanted)]
        tight: set[IterVarRelation] = set()
        self.main_nest = make_loop_nest(stage, context, self.main_values, tight=tight)
        checks = make_bound_check(stage, context.ranges, self.main_values, context.prover, tight=tight)
        self.main_predicates = [*[likely(c) for c in checks], *self.wanted]
        if stage.store_predicate is not None:
            self.main_predicates.append(stage.store_predicate)
        self.common = len(stage.leaf_iter_vars)
        if op.reduce_axis:
            self._place_init(op, stage, context)

    def _place_init(self, op: BaseComputeOp, stage: Stage, context: LoopContext) -> None:
        """Initialize just outside the first loop of the reduction; loops of the reduction alone are skipped."""
        masks: Masks = dict.fromkeys(op.reduce_axis, _REDUCE_BIT)
        masks.update((iv, _DATA_BIT) for iv in op.axis[: op.num_schedulable_dims])
        pass_down_mask(stage, masks)
        for position, iv in enumerate(stage.leaf_iter_vars):
            if masks[iv] & _REDUCE_BIT:
                self.common = position
                break
            self.init_values[iv] = self.main_values[iv]
        _check_start_values(op, stage, context, self.common)
        skip = {iv for iv, bits in masks.items() if bits == _REDUCE_BIT}
        self.mixed = [iv for iv in stage.leaf_iter_vars if masks[iv] == _DATA_BIT | _REDUCE_BIT]
        if self.mixed:
            context = context.with_ranges(_without_empty_reductions(op, stage, context))
        tight: set[IterVarRelation] = set()
        self.init_nest = make_loop_nest(stage, context, self.init_values, self.common, True, skip, tight)
        # what is computed has a place, even outside the domain, so only splits that overrun are guarded;
        # a layout of its own has places for the domain alone, and so may have what the start values are read from
        domains = bool(stage.layout_transforms or _read_by_start_values(op))
        checks = make_bound_check(stage, context.ranges, self.init_values, context.prover, skip, domains, tight)
        self.init_predicates = [*[likely(c) for c in checks], *self.wanted]
        if stage.store_predicate is not None:
            self.init_predicates.append(stage.store_predicate)
