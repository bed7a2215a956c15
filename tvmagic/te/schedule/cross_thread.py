"""A stage whose reduction is bound to threads: each thread reduces its part, then the threads reduce together."""

from __future__ import annotations

from tvmagic import ir
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.arith.reducer_laws import can_regroup
from tvmagic.errors import ScheduleError
from tvmagic.te.reduction import LAWS, combine, unproved_law
from tvmagic.te.schedule.loop_nest import LoopContext, Values, if_nest, make_loop_nest, merge_nest, substitute_values
from tvmagic.te.schedule.message_passing import make_bound_check, pass_down_mask
from tvmagic.te.schedule.relations import Masks, is_const
from tvmagic.te.schedule.stage import Stage
from tvmagic.te.schedule.thread_memory import bound_thread, is_serial_reduction
from tvmagic.te.tensor import ComputeOp, loaded_tensors

_TRUE = ir.IntImm("bool", 1)


def make_cross_thread_reduction(stage: Stage, context: LoopContext) -> ir.Stmt:
    """The loops of `stage`, those over threads around its other reduction loops.

    Other reduction loops run before, into `normal_reduce_temp*`; `tvm_thread_allreduce` gives the result to all
    threads in `reduce_temp*`, and those for which the store predicate holds store it. Where TVM would read or
    store beyond the end, because threads do not divide a size, the text has conditions that TVM leaves out.
    Raises `ScheduleError` where the reduction starts with values of its own, or shares a loop with the output.
    """
    op = stage.op
    assert isinstance(op, ComputeOp)
    reduces = [body for body in op.body if isinstance(body, ir.Reduce)]
    first = reduces[0]
    skip = _reduction_loops(stage, op)
    _check_start_and_laws(stage, first)
    values: Values = {}
    nest = make_loop_nest(stage, context, values)
    checks = make_bound_check(stage, context.ranges, values, context.prover)
    ends = make_bound_check(stage, context.ranges, values, context.prover, skip)
    common: list[list[ir.Stmt]] = []
    own: list[list[ir.Stmt]] = []
    for iv, level in zip(stage.leaf_iter_vars, nest[1:]):
        (own if is_serial_reduction(stage, iv) else common).append(level)
    _check_places(stage, context)
    _check_element(stage, op, context)
    results = [_scratch(f"reduce_temp{i}", reduce) for i, reduce in enumerate(reduces)]
    always = is_const(first.condition, 1)
    partial: list[ir.Buffer] = []
    reads_beyond = len(checks) > len(ends) or (ends and not _reads_only_inside(stage, first, context))
    if own or not always or reads_beyond:
        partial = [_scratch(f"normal_reduce_temp{i}", reduce) for i, reduce in enumerate(reduces)]
    sources = [_value(b) for b in partial] or list(first.source)
    parts = [_allreduce(stage, first, sources, results)]
    if partial:
        parts = [*_own_part(first, partial, [*own, if_nest([*checks, first.condition])]), *parts]
    stores = [
        ir.ProducerStore(t, _value(b), [iv.var for iv in op.axis], stage.span) for t, b in zip(op.outputs, results)
    ]
    stored = [] if stage.store_predicate is None else [stage.store_predicate]
    stored += [*ends, _TRUE] if always else ends
    parts.append(merge_nest([if_nest(stored)], ir.SeqStmt.flatten(*stores)))
    body = ir.SeqStmt.flatten(*parts)
    for i in reversed(range(len(reduces))):
        for buffer in (results[i], *partial[i : i + 1]):
            body = ir.Allocate(buffer.data, buffer.dtype, buffer.shape, _TRUE, body, span=stage.span)
    return merge_nest(common, substitute_values(body, values))


def _check_start_and_laws(stage: Stage, reduce: ir.Reduce) -> None:
    """Check that the threads can start from the neutral element and combine their parts in any order."""
    if reduce.init:
        raise ScheduleError(
            f"stage `{stage.origin_op.name}` reduces over threads, and starts with values of its own",
            span=stage.span,
            hint="leave `init` out, and combine its values with the result in another stage",
            code="te.thread_reduction.explicit_init",
        )
    if not can_regroup(reduce.combiner):
        reason, hint = unproved_law("reduce over threads", reduce.combiner, LAWS)
        raise ScheduleError(
            f"stage `{stage.origin_op.name}`: {reason}",
            span=stage.span,
            hint=hint,
            code="te.thread_reduction.unproved_law",
        )


def _check_places(stage: Stage, context: LoopContext) -> None:
    """Loops of the reduction that are not bound go inside all others, so nothing may be computed at those further in."""
    for other, place in context.inside.get(stage, {}).items():
        around = stage.leaf_iter_vars[: stage.leaf_iter_vars.index(place) + 1]
        own = [iv for iv in around if is_serial_reduction(stage, iv)]
        if own and not is_serial_reduction(stage, place):
            raise ScheduleError(
                f"stage `{other.origin_op.name}` is computed at loop `{place.var.name}` of stage `{stage.origin_op.name}`, inside loop "
                f"`{own[0].var.name}` of its reduction, which goes inside the threads that reduce together",
                span=other.span,
                hint="reorder the loops: those of the reduction that are not bound to threads come last",
                code="te.thread_reduction.computed_inside_reduction",
            )


def _check_element(stage: Stage, op: ComputeOp, context: LoopContext) -> None:
    """The threads that reduce together reduce one element: no loop around gives each of them one of its own."""
    together = {axis.thread_tag: iv for iv in stage.leaf_iter_vars if (axis := bound_thread(stage, iv)) is not None}
    spec = stage.get_attach_spec()
    while spec.attach_stage is not None:
        around = [
            attr.bind_thread for attr in spec.attach_stage.iter_var_attrs.values() if attr.bind_thread is not None
        ]
        for axis in around:
            if axis.thread_tag in together and any(uses_var(context.ranges[iv].min, (axis.var,)) for iv in op.axis):
                raise ScheduleError(
                    f"stage `{stage.origin_op.name}` reduces over `{axis.thread_tag}`, and is computed inside a loop of stage "
                    f"`{spec.attach_stage.origin_op.name}` that gives each of these threads another element",
                    span=stage.span,
                    hint=f"bind `{together[axis.thread_tag].var.name}` to other threads, or compute the stage outside that loop",
                    code="te.thread_reduction.element_differs_by_thread",
                )
        spec = spec.attach_stage.get_attach_spec()


def _reads_only_inside(stage: Stage, reduce: ir.Reduce, context: LoopContext) -> bool:
    """Whether all that is reduced was computed inside the loops of `stage`, for each thread's own place."""
    inside = {other.op for other in context.inside.get(stage, {})}
    return all(tensor.op in inside for source in reduce.source for tensor in loaded_tensors(source))


def _reduction_loops(stage: Stage, op: ComputeOp) -> set[ir.IterVar]:
    """The loops of the reduction, and what they were split from."""
    output, reduction = 1, 2
    masks: Masks = dict.fromkeys(op.reduce_axis, reduction)
    masks.update(dict.fromkeys(op.axis, output))
    pass_down_mask(stage, masks)
    for iv in stage.leaf_iter_vars:
        if masks[iv] == output | reduction:
            raise ScheduleError(
                f"stage `{stage.origin_op.name}` reduces over threads, and loop `{iv.var.name}` is one of both its output "
                "and its reduction",
                span=stage.span,
                hint="fuse loops of the output and of the reduction each among themselves",
                code="te.thread_reduction.mixed_loop",
            )
    return {iv for iv, mask in masks.items() if mask == reduction}


def _scratch(name: str, reduce: ir.Reduce) -> ir.Buffer:
    """A value that each thread has of its own."""
    data = ir.Var(name, ir.PointerType(ir.PrimType(reduce.dtype), "local"))
    return ir.Buffer(data, reduce.dtype, (1,), None, None, name)


def _value(buffer: ir.Buffer) -> ir.PrimExpr:
    return ir.BufferLoad(buffer, (0,))


def _own_part(reduce: ir.Reduce, partial: list[ir.Buffer], loops: list[list[ir.Stmt]]) -> list[ir.Stmt]:
    """What one thread reduces itself: the start, and the loops with the update."""
    start: list[ir.Stmt] = [ir.BufferStore(b, v, (0,)) for b, v in zip(partial, reduce.combiner.identity_element)]
    combined = combine(reduce.combiner, [_value(b) for b in partial], reduce.source)
    update = ir.stored_together([ir.BufferStore(b, v, (0,)) for b, v in zip(partial, combined)])
    return [*start, merge_nest(loops, update)]


def _allreduce(stage: Stage, reduce: ir.Reduce, sources: list[ir.PrimExpr], results: list[ir.Buffer]) -> ir.Stmt:
    threads = [thread.var for iv in stage.leaf_iter_vars if (thread := bound_thread(stage, iv)) is not None]
    args = [ir.IntImm("uint32", len(results)), *sources, _TRUE, *map(_value, results), *threads]
    call = ir.Evaluate(ir.Call("handle", "tir.tvm_thread_allreduce", args), stage.span)
    nothing = ir.Call("handle", "tir.reinterpret", [ir.IntImm("uint64", 0)])
    return ir.AttrStmt(reduce.combiner, "reduce_scope", nothing, call, stage.span)
