"""Bounds inference: the range of every iteration variable of a schedule.

Stages are visited consumers first. For the root variables of a stage (`infer_root_bound`):

1. `leaf_sets`: for each consumer, the set of each of its loops: a point where the stage runs
   inside the loop, else all iterations;
2. `root_sets`: these sets passed up to the consumer's root variables;
3. `request_inputs`: the region of each tensor that the consumer reads for them;
4. `gather_bound`: the union of all requests, axis by axis, as the ranges of the roots.

Then `pass_down_domain` gives every other variable of the stage its range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set import IntervalSet, IntSet, is_neg_inf, is_pos_inf, union
from tvmagic.arith.int_set_eval import eval_set
from tvmagic.errors import DefectError, ScheduleError
from tvmagic.ir.deep_recursion import deep
from tvmagic.ir.ops import greater_equal, less_equal, make_zero
from tvmagic.ir.query import variables_in
from tvmagic.passes import is_recording, note
from tvmagic.te.schedule.bound_context import BoundContext
from tvmagic.te.schedule.graph import scan_get_body
from tvmagic.te.schedule.message_passing import pass_down_domain, pass_up_domain
from tvmagic.te.schedule.relations import Split, is_const, plus
from tvmagic.te.schedule.scan import scan_fix_point_analysis
from tvmagic.te.schedule.stage import AttachType, Stage
from tvmagic.te.schedule.thread import VIRTUAL, StorageRank, ThreadScope
from tvmagic.te.schedule.thread_memory import computed_by_each_thread
from tvmagic.te.tensor import (
    BaseComputeOp,
    ComputeOp,
    ConstantOp,
    ExternOp,
    Operation,
    PlaceholderOp,
    ScanOp,
    Tensor,
    TensorComputeOp,
)

if TYPE_CHECKING:
    from tvmagic.te.schedule.schedule import Schedule

# For each axis of a tensor the sets that its consumers ask for.
TensorDom = list[list[IntSet]]
RootSets = dict[ir.Var, IntSet]


@deep
def infer_bound(sch: Schedule) -> dict[ir.IterVar, ir.Range]:
    """The range of every iteration variable of a normalized schedule."""
    context = BoundContext(sch)
    analyzer = Analyzer()
    for stage in reversed(sch.stages):
        _check_unused(stage, context)
        infer_root_bound(stage, context)
        for iv in stage.op.root_iter_vars():
            if iv in context.ranges:
                analyzer.bind(iv.var, context.ranges[iv])
        known = set(context.ranges) if is_recording() else set()
        if stage.attach_type != AttachType.INLINED_ALREADY:
            pass_down_domain(stage, context.ranges, analyzer)
            _check_threads(stage, context)
        for iv in stage.thread_env:
            if iv.dom is None:
                raise ScheduleError(
                    f"stage `{stage.name}`: thread axis `{iv.var.name}` needs a domain",
                    code="te.infer_bound.thread_without_domain",
                )
            context.ranges[iv] = iv.dom
        if is_recording():
            _note_down(stage, context, known)
    simplify = analyzer.simplify
    return {iv: ir.Range.from_min_extent(simplify(r.min), simplify(r.extent)) for iv, r in context.ranges.items()}


def _check_unused(stage: Stage, context: BoundContext) -> None:
    """An error if an iteration variable belongs to two stages."""
    if stage.attach_type == AttachType.INLINED_ALREADY:
        return
    for iv in stage.op.root_iter_vars():
        if iv in context.ranges:
            other = next(s for s in context.position if s is not stage and any(v is iv for v in s.op.root_iter_vars()))
            raise ScheduleError(
                f"iteration variable `{iv.var.name}` belongs to stage `{stage.name}` and to stage `{other.name}`",
                span=stage.span,
                hint="make a te.reduce_axis of its own for each te.compute",
                code="te.infer_bound.variable_used_twice",
            )


def _check_output_at_root(stage: Stage) -> None:
    if not stage.is_output:
        return
    spec = stage.get_attach_spec()
    if spec.attach_type == AttachType.GROUP_ROOT:
        return
    hint = f"call compute_root on stage `{stage.name}`"
    if spec.attach_stage is not None and spec.attach_stage.op in [t.op for t in stage.op.input_tensors]:
        read = spec.attach_stage.name
        hint = f"call compute_at on the stage that is read: `{read}` at a loop of `{stage.name}`"
    raise ScheduleError(
        f"stage `{stage.name}` is an output and must be computed at the root",
        span=stage.span,
        hint=hint,
        code="te.compute_at.output_stage",
    )


def infer_root_bound(stage: Stage, context: BoundContext) -> None:
    """Set the ranges of the root variables of `stage`; its consumers have all their ranges."""
    if stage.attach_type == AttachType.INLINE:
        raise DefectError(
            f"stage `{stage.name}` is not inlined yet; call schedule.normalize() first",
            code="te.infer_bound.not_normalized",
        )
    if stage.attach_type == AttachType.INLINED_ALREADY:
        return
    _check_output_at_root(stage)
    if stage.is_output or isinstance(stage.op, PlaceholderOp):
        for iv in stage.op.root_iter_vars():
            assert iv.dom is not None
            context.ranges[iv] = iv.dom
        return
    requests: dict[Tensor, TensorDom] = {t: [[] for _ in t.shape] for t in stage.op.outputs}
    if is_recording():
        path = context.paths[stage.op]
        names = [iv.var.name for iv in path]
        note("infer_bound.attach_path", f"the loops around `{stage.name}`: {', '.join(names) or 'none'}",
             stage=stage.name, path=names)  # fmt: skip
    ranks = context.storage_ranks(stage)
    for consumer in context.consumers(stage):
        sets, relaxed = leaf_sets(stage, consumer, ranks, context)
        analyzer = Analyzer()
        roots = root_sets(consumer, sets, relaxed, analyzer, context)
        before = {t: [len(axis) for axis in dom] for t, dom in requests.items()} if is_recording() else {}
        request_inputs(consumer.op, analyzer, roots, requests)
        if is_recording():
            _note_requests(stage, consumer, requests, before)
    gather_bound(stage, requests, context)


def _check_threads(stage: Stage, context: BoundContext) -> None:
    """An error if what is computed depends on a thread that runs neither around the stage nor around what depends on it.

    Memory that each thread has of its own begins at what its thread reads. The stage may bind a loop of its own to the
    same thread: then only what is inside that loop can depend on it.
    """
    if not context.threads:
        return
    around = {context.threads[iv].var for iv in context.paths[stage.op] if iv in context.threads}
    missing = {thread.var: thread.thread_tag for thread in context.threads.values() if thread.var not in around}
    if not missing:
        return
    ranges = [context.ranges.get(iv, iv.dom) for iv in stage.op.root_iter_vars()]
    used = {v for r in ranges if r is not None for v in variables_in(r.min) if v in missing}
    outside = {v for r in ranges if r is not None for v in variables_in(r.extent) if v in missing}
    for iv in stage.leaf_iter_vars if used else ():
        if iv in context.threads:
            used.discard(context.threads[iv].var)
        elif iv in context.ranges:  # an opaque axis is none
            range_ = context.ranges[iv]
            outside |= used & {*variables_in(range_.min), *variables_in(range_.extent)}
    for var in missing:
        if var in used or var in outside:
            raise ScheduleError(
                f"stage `{stage.name}` computes what one iteration of `{missing[var]}` reads, but does not run inside "
                "the loop that is bound to it",
                span=stage.span,
                hint="compute it at a loop inside, or keep it in memory that these threads share",
                code="te.infer_bound.thread_not_around_reader",
            )


# ---------------------------------------------------------------------------- phase 1


def leaf_sets(
    stage: Stage, consumer: Stage, ranks: tuple[int, int], context: BoundContext
) -> tuple[dict[ir.IterVar, IntSet], RootSets]:
    """Phase 1: the sets of the loops of `consumer`, as `stage` sees them.

    Case 1: a loop of one iteration is the point of its minimum. Case 2: a loop around `stage` is
    the point of its variable. Case 3: of any other loop all iterations are needed at once.

    Returns also the sets of the loops around the consumer that do not enclose `stage`, and of threads each of which
    computes for itself what it reads.
    """
    sets: dict[ir.IterVar, IntSet] = {}
    relaxed: RootSets = {}
    path = context.paths[stage.op]
    place = path[0] if path else None
    found = False
    for iv in reversed(consumer.leaf_iter_vars):
        found = found or iv is place
        range_ = context.ranges[iv]
        if is_const(range_.extent, 1):
            case, sets[iv] = 1, IntSet.single_point(range_.min)
        elif not needs_relax(iv, found, ranks, context):
            case, sets[iv] = 2, IntSet.single_point(_value_of(consumer, iv, range_, context))
        elif _is_own_of_threads(consumer, iv, context):
            case, sets[iv] = 3, IntSet.single_point(range_.min)  # one iteration, of each thread another one
            relaxed[context.threads[iv].var] = _all_threads(range_)
        else:
            case, sets[iv] = 3, IntSet.from_range(range_)
        if is_recording():
            _note_leaf(stage, consumer, iv, range_, case, sets[iv])
    for iv in context.paths[consumer.op]:
        found = found or iv is place
        range_ = context.ranges[iv]
        if needs_relax(iv, found, ranks, context):
            relaxed[iv.var] = IntSet.from_range(range_)
            if is_recording():
                _note_relaxed(stage, consumer, iv, relaxed[iv.var])
            if iv in context.threads:
                relaxed[context.threads[iv].var] = _all_threads(range_)
    if path and not found:
        spec = stage.get_attach_spec()
        at = f"`{spec.attach_ivar.var.name}` of stage `{spec.attach_stage.name}`" if (
            spec.attach_ivar is not None and spec.attach_stage is not None) else "a scan"  # fmt: skip
        raise ScheduleError(
            f"stage `{stage.name}` is computed at {at}, but stage `{consumer.name}`, which reads it, does not run "
            "inside that loop",
            span=stage.span,
            hint=f"compute {_outside(stage, context)} inside that loop too, or `{stage.name}` at the root",
            code="te.compute_at.reader_outside_loop",
        )
    return sets, relaxed


def _outside(stage: Stage, context: BoundContext) -> str:
    """All stages between `stage` and the stage that it is computed in which do not run in that loop, as words."""
    place = context.paths[stage.op][0]
    found: dict[str, None] = {}
    reached = [stage]
    while reached:
        for reader in context.consumers(reached.pop()):
            if place not in (*reader.leaf_iter_vars, *context.paths[reader.op]) and reader.name not in found:
                found[reader.name] = None
                reached.append(reader)
    *names, last = [f"`{s.name}`" for s in context.stages if s.name in found]
    return f"{', '.join(names)} and {last}" if names else last


def _value_of(consumer: Stage, iv: ir.IterVar, range_: ir.Range, context: BoundContext) -> ir.PrimExpr:
    """The value of a loop inside it. Threads count from 0, whatever the loop begins with.

    If each thread computes for itself what it reads, that is one iteration.
    """
    if iv not in context.threads:
        return iv.var
    if _is_own_of_threads(consumer, iv, context):
        return range_.min
    return plus(context.threads[iv].var, range_.min)


def _is_own_of_threads(stage: Stage, iv: ir.IterVar, context: BoundContext) -> bool:
    """Whether each thread computes for itself the one iteration of a loop of `stage` that it reads."""
    thread = context.threads.get(iv)
    return thread is not None and computed_by_each_thread(stage, iv, thread, context.memory_ranks)


def _all_threads(range_: ir.Range) -> IntSet:
    """The threads that a loop of this range is bound to: they count from 0."""
    return IntSet.from_range(ir.Range.from_min_extent(make_zero(range_.extent.dtype), range_.extent))


def needs_relax(iv: ir.IterVar, found_attach: bool, ranks: tuple[int, int], context: BoundContext) -> bool:
    """Whether all iterations of `iv` are needed at once by a stage in memory of these `ranks`, the second one for
    virtual threads."""
    tag = context.thread_tag(iv)
    if not tag or tag == "pipeline":
        return not found_attach
    if tag in VIRTUAL and not found_attach:  # they are loops: what is computed outside them serves all iterations
        return True
    scope, rank = ThreadScope.of(tag), ranks[tag in VIRTUAL]
    if rank == StorageRank.WARP and scope.rank == 1 and scope.dim_index == 0:
        return True
    return rank <= scope.rank


# ---------------------------------------------------------------------------- phase 2


def root_sets(
    consumer: Stage, sets: dict[ir.IterVar, IntSet], relaxed: RootSets, analyzer: Analyzer, context: BoundContext
) -> RootSets:
    """Phase 2: the sets of the root variables of `consumer`, from those of its loops.

    Loops around the consumer in `relaxed` are relaxed. `analyzer` gets the range of each root.
    """
    cases = pass_up_domain(consumer, context.ranges, sets)
    roots: RootSets = {}
    for iv in consumer.op.root_iter_vars():
        assert iv.dom is not None
        # an opaque axis is not a loop: what was gathered for it is needed
        range_ = sets[iv].cover_range(iv.dom) if iv in sets else context.ranges.get(iv, iv.dom)
        if relaxed:
            low = eval_set(range_.min, relaxed, analyzer).min()
            high = eval_set(range_.min + range_.extent - 1, relaxed, analyzer).max()
            roots[iv.var] = IntSet.interval(low, high)
        else:
            roots[iv.var] = IntSet.from_range(range_)
        analyzer.bind(iv.var, range_, True)
    if is_recording():
        _note_up(consumer, cases, sets, roots)
    return roots


# ---------------------------------------------------------------------------- phase 3


def request_inputs(op: Operation, analyzer: Analyzer, roots: RootSets, requests: dict[Tensor, TensorDom]) -> None:
    """Phase 3: add to `requests` the region of each tensor that `op` reads for its root sets."""
    _REQUEST[type(op)](op, analyzer, roots, requests)


def _request_compute(op: Any, analyzer: Analyzer, roots: RootSets, requests: dict[Tensor, TensorDom]) -> None:
    for tensor, dom in requests.items():
        for load in op.loads.get(tensor, ()):
            for axis, index in enumerate(load.indices):
                dom[axis].append(_inside_shape(eval_set(index, roots, analyzer), tensor.shape[axis], analyzer))


def _inside_shape(found: IntervalSet, size: Any, analyzer: Analyzer) -> IntervalSet:
    """`found`, or the whole axis where that is provably the smaller set. Both ends change or none."""
    low, high = found.min_value, found.max_value
    zero = make_zero(size.dtype)
    if is_neg_inf(low) and is_pos_inf(high):
        return IntervalSet(zero, size - 1)
    if is_neg_inf(low) or is_pos_inf(high):
        return found
    if analyzer.can_prove(greater_equal(zero, low)) and analyzer.can_prove(less_equal(size - 1, high)):
        return IntervalSet(zero, size - 1)
    return found


def _request_tensor_compute(op: Any, analyzer: Analyzer, roots: RootSets, requests: dict[Tensor, TensorDom]) -> None:
    for tensor, region in zip(op.inputs, op.input_regions):
        for axis, range_ in enumerate(region if tensor in requests else ()):
            requests[tensor][axis].append(eval_set(range_, roots, analyzer))


def _request_extern(op: Any, analyzer: Analyzer, roots: RootSets, requests: dict[Tensor, TensorDom]) -> None:
    for tensor in op.inputs:
        for axis, size in enumerate(tensor.shape if tensor in requests else ()):
            requests[tensor][axis].append(IntSet.from_range(ir.Range.from_min_extent(make_zero(size.dtype), size)))


def _request_scan(op: Any, analyzer: Analyzer, roots: RootSets, requests: dict[Tensor, TensorDom]) -> None:
    for i, (init, update) in enumerate(zip(op.init, op.update)):
        spatial = [roots[iv.var] for iv in op.spatial_axes(i)]
        steps = init.shape[0]
        first = IntSet.from_range(ir.Range.from_min_extent(make_zero(steps.dtype), steps))
        for tensor, time in ((init, first), (update, roots[op.scan_axis.var])):
            for axis, wanted in enumerate([time, *spatial] if tensor in requests else ()):
                requests[tensor][axis].append(wanted)


Request = Callable[[Any, Analyzer, RootSets, dict[Tensor, TensorDom]], None]
_REQUEST: dict[type, Request] = {
    ComputeOp: _request_compute,
    TensorComputeOp: _request_tensor_compute,
    ExternOp: _request_extern,
    ConstantOp: _request_extern,
    ScanOp: _request_scan,
}

# ---------------------------------------------------------------------------- phase 4


def gather_bound(stage: Stage, requests: Mapping[Tensor, TensorDom], context: BoundContext) -> None:
    """Phase 4: the ranges of the root variables of `stage`, from what all its consumers request."""
    op, ranges = stage.op, context.ranges
    if isinstance(op, BaseComputeOp):
        for axis, iv in enumerate(op.axis):
            if iv.iter_type == ir.IterVar.Opaque:  # inside an intrinsic, which computes all of it
                assert iv.dom is not None
                ranges[iv] = iv.dom
                continue
            wanted = [s for t in op.outputs for s in requests[t][axis]]
            ranges[iv] = _cover(stage, iv, wanted)
        for iv in op.reduce_axis:
            assert iv.dom is not None
            ranges[iv] = iv.dom
    elif isinstance(op, ScanOp):
        _gather_scan(stage, op, requests, context)


def _cover(stage: Stage, iv: ir.IterVar, wanted: list[IntSet]) -> ir.Range:
    """The range that covers the union of `wanted`; the domain of `iv` if it has no end."""
    assert iv.dom is not None
    result = union(wanted).cover_range(iv.dom)
    if is_recording():
        count = f"the union of {len(wanted)} sets" if len(wanted) != 1 else "the one set that is asked for"
        note("infer_bound.gather", f"`{iv.var.name}` of `{stage.name}` runs over {count}",
             stage=stage.name, axis=iv.var.name, sets=[_text(s) for s in wanted], min=str(_simple(result.min)),
             extent=str(_simple(result.extent)), first=_first(iv.dom, result, wanted))  # fmt: skip
    return result


def _gather_scan(stage: Stage, op: ScanOp, requests: Mapping[Tensor, TensorDom], context: BoundContext) -> None:
    domain = op.scan_axis.dom
    assert domain is not None
    overrun = _may_overrun(op, context)
    steps = _cover(stage, op.scan_axis, [s for t in op.outputs for s in requests[t][0]])
    last = Analyzer().simplify(steps.extent + steps.min - domain.min)
    ranges = context.ranges
    ranges[op.scan_axis] = domain if "time" in overrun else ir.Range.from_min_extent(domain.min, last)
    fixed = scan_fix_point_analysis(op)
    for i, tensor in enumerate(op.outputs):
        for k, iv in enumerate(op.spatial_axes(i)):
            assert iv.dom is not None
            ranges[iv] = _cover(stage, iv, requests[tensor][k + 1]) if not overrun and fixed[iv] else iv.dom


def _may_overrun(scan: ScanOp, context: BoundContext) -> set[str]:
    """Whether a stage of a step runs inside a split loop of another: `"place"`, and `"time"` if its step is split.

    In the last block it may then read the state behind a part of it; only the whole domain is guarded.
    """
    found: set[str] = set()
    updates = {t.op for t in scan.update}
    for op in scan_get_body(scan):
        spec = context.stage_of[op].get_attach_spec() if op in context.stage_of else None
        around = spec.attach_stage if spec is not None and spec.attach_type == AttachType.SCOPE else None
        if around is None:
            continue
        roots = around.op.root_iter_vars()
        timed = set(roots[:1] if around.op in updates else roots)
        for relation in around.relations:
            is_timed = not timed.isdisjoint(relation.parents())
            if is_timed:
                timed.update(relation.children())
            if isinstance(relation, Split):
                found.update(("place", "time") if is_timed else ("place",))
    return found


# ---------------------------------------------------------------------------- notes

_CASES = {
    1: "case 1: one iteration, so its minimum",
    2: "case 2: the producer runs inside the loop, so one point",
    3: "case 3: the producer runs outside the loop, so all iterations",
}


def _note_leaf(stage: Stage, consumer: Stage, iv: ir.IterVar, range_: ir.Range, case: int, found: IntSet) -> None:
    text = f"`{iv.var.name}` of `{consumer.name}` for `{stage.name}`: {_CASES[case]}"
    note("infer_bound.leaf", text, stage=stage.name, consumer=consumer.name, leaf=iv.var.name, case=case,
         range=(str(range_.min), str(range_.extent)), set=_text(found))  # fmt: skip


def _note_relaxed(stage: Stage, consumer: Stage, iv: ir.IterVar, found: IntSet) -> None:
    text = f"`{iv.var.name}` around `{consumer.name}`: `{stage.name}` is outside it, so all iterations"
    note("infer_bound.relax", text, stage=stage.name, consumer=consumer.name, loop=iv.var.name, set=_text(found))


def _simple(expr: ir.PrimExpr) -> ir.PrimExpr:
    return Analyzer().simplify(expr)


def _text(found: IntSet) -> tuple[str, str]:
    """The two ends of a set, simplified."""
    low, high = found.min(), found.max()
    return str(low if is_neg_inf(low) else _simple(low)), str(high if is_pos_inf(high) else _simple(high))


def _first(domain: ir.Range, computed: ir.Range, asked: list[IntSet]) -> dict[str, Any] | None:
    """The first and last element of an axis, of what is computed and of each request, in the first iteration of the
    loops around; None if these are not all numbers."""
    ends = [(domain.min, domain.min + domain.extent - 1), (computed.min, computed.min + computed.extent - 1)]
    ends += [(s.min(), s.max()) for s in asked]
    found: list[tuple[int, int]] = []
    for pair in ends:
        low, high = (_simple(ir.substitute(end, lambda var: make_zero(var.dtype))) for end in pair)
        if not isinstance(low, ir.IntImm) or not isinstance(high, ir.IntImm):
            return None
        found.append((low.value, high.value))
    return {"domain": found[0], "computed": found[1], "asked": found[2:]}


def _note_up(consumer: Stage, cases: list[tuple[Any, str]], sets: Mapping[ir.IterVar, IntSet], roots: RootSets) -> None:
    shown = [
        {"relation": repr(r), "case": case, "sets": {iv.var.name: _text(sets[iv]) for iv in r.parents()}}
        for r, case in cases
    ]
    dom_map = {var.name: _text(s) for var, s in roots.items()}
    note("infer_bound.up", f"the sets of `{consumer.name}`'s loops passed up to its roots",
         consumer=consumer.name, relations=shown, dom_map=dom_map)  # fmt: skip


def _note_requests(
    stage: Stage, consumer: Stage, requests: Mapping[Tensor, TensorDom], before: Mapping[Tensor, list[int]]
) -> None:
    for tensor, dom in requests.items():
        wanted = [[_text(s) for s in axis[before[tensor][k] :]] for k, axis in enumerate(dom)]
        note("infer_bound.request", f"`{consumer.name}` requests a region of `{tensor.name}`",
             stage=stage.name, consumer=consumer.name, tensor=tensor.name, dom=wanted)  # fmt: skip


def _note_down(stage: Stage, context: BoundContext, known: set[ir.IterVar]) -> None:
    shown = {iv.var.name: (str(r.min), str(r.extent)) for iv, r in context.ranges.items() if iv not in known}
    note("infer_bound.down", f"the ranges of `{stage.name}`'s roots passed down to its loops",
         stage=stage.name, ranges=shown)  # fmt: skip
