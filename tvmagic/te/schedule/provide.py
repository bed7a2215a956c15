"""The statements that compute one stage (`build_provide`) and that hold its result (`build_realize`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import ScheduleError
from tvmagic.ir.ops import greater_equal, make_zero, maximum
from tvmagic.te.reduction import combine
from tvmagic.te.schedule.cross_thread import make_cross_thread_reduction
from tvmagic.te.schedule.loop_nest import (
    ComputeLoopNest,
    LoopContext,
    if_nest,
    make_loop_nest,
    merge_nest,
    substitute_values,
)
from tvmagic.te.schedule.message_passing import make_bound_check
from tvmagic.te.schedule.relations import is_const
from tvmagic.te.schedule.stage import Stage
from tvmagic.te.schedule.thread_memory import bound_thread
from tvmagic.te.tensor import (
    BaseComputeOp,
    ComputeOp,
    ConstantOp,
    ExternOp,
    ScanOp,
    Tensor,
    TensorComputeOp,
    loaded_tensors,
)

_TRUE = ir.IntImm("bool", 1)


def build_provide(stage: Stage, context: LoopContext) -> ir.Stmt:
    """The statement that computes `stage`, with the places of its loops marked."""
    return _PROVIDE[type(stage.op)](stage, context)


def build_realize(stage: Stage, context: LoopContext, body: ir.Stmt) -> ir.Stmt:
    """`body` with the region that `stage` computes held in memory."""
    return _REALIZE[type(stage.op)](stage, context, body)


# ---------------------------------------------------------------------------- compute


def _provide_compute(stage: Stage, context: LoopContext) -> ir.Stmt:
    kinds = [_attr_type(stage, iv) for iv in stage.leaf_iter_vars]
    over_threads = any(bound_thread(stage, iv) is not None for iv in stage.leaf_iter_vars)
    if ir.IterVar.Tensorized in kinds:
        from tvmagic.te.schedule.tensorize import make_tensorize

        if over_threads:
            raise ScheduleError(
                f"stage `{stage.name}` has both a tensorized loop and a reduction over threads",
                code="te.tensorize.thread_reduction",
            )
        return make_tensorize(stage, context)
    return (make_cross_thread_reduction if over_threads else _make_compute)(stage, context)


def _attr_type(stage: Stage, iv: ir.IterVar) -> int:
    attr = stage.iter_var_attrs.get(iv)
    return attr.iter_type if attr is not None else iv.iter_type


def _make_compute(stage: Stage, context: LoopContext) -> ir.Stmt:
    op = stage.op
    assert isinstance(op, ComputeOp)
    loops = ComputeLoopNest(op, stage, context)
    main = [*loops.main_nest, if_nest(loops.main_predicates)]
    if not op.reduce_axis:
        stores = _stores(op.outputs, op.body, [iv.var for iv in op.axis], stage, "result")
        return substitute_values(merge_nest(main, ir.SeqStmt.flatten(*stores)), loops.main_values)
    init, update = make_reduction(op, op.outputs, stage)
    init = merge_nest([*loops.init_nest, if_nest(loops.init_predicates)], init)
    init = substitute_values(init, loops.init_values)
    body = merge_nest(main[loops.common + 1 :], update)
    if not context.keep_trivial:
        body = ir.SeqStmt.flatten(init, body)
    # on the whole nest, because conditions depend on outer loops
    return substitute_values(merge_nest(main[: loops.common + 1], body), loops.main_values)


def make_reduction(op: ComputeOp, tensors: tuple[Tensor, ...], stage: Stage) -> tuple[ir.Stmt, ir.Stmt]:
    """The statements that initialize the result of a reduction and that take one value into it."""
    reduce = op.body[0]
    assert isinstance(reduce, ir.Reduce)
    args = [iv.var for iv in op.axis]
    read = [t(*args).replace(span=stage.part_span("read", n)) for n, t in enumerate(tensors)]
    combined = combine(reduce.combiner, read, reduce.source)
    start = reduce.init or reduce.combiner.identity_element
    init = _stores(tensors, start, args, stage, "init")
    update = _store_all(tensors, combined, args, stage)
    if not is_const(reduce.condition, 1):
        update = ir.IfThenElse(reduce.condition, update, span=stage.span)
    return ir.SeqStmt.flatten(*init), update


def _stores(
    tensors: Sequence[Tensor], values: Sequence[ir.PrimExpr], args: list[Any], stage: Stage, part: str
) -> list[ir.ProducerStore]:
    """The stores of the values of a stage."""
    return [ir.ProducerStore(t, v, args, stage.part_span(part, n)) for n, (t, v) in enumerate(zip(tensors, values))]


def _store_all(tensors: tuple[Tensor, ...], values: list[ir.PrimExpr], args: list[Any], stage: Stage) -> ir.Stmt:
    """All values stored; computed first, if one reads a tensor that an earlier store changes."""
    stored: set[Tensor] = set()
    kept: list[tuple[ir.Var, ir.PrimExpr]] = []
    stores: list[ir.Stmt] = []
    for number, (tensor, value) in enumerate(zip(tensors, values)):
        if any(t in stored for t in loaded_tensors(value)):
            var = ir.Var(f"v_{tensor.name}", value.dtype)
            kept.append((var, value))
            value = var
        stored.add(tensor)
        stores.append(ir.ProducerStore(tensor, value, args, stage.part_span("result", number)))
    body = ir.SeqStmt.flatten(*stores)
    for var, value in reversed(kept):
        body = ir.LetStmt(var, value, body, stage.span)
    return body


def _realize_compute(stage: Stage, context: LoopContext, body: ir.Stmt) -> ir.Stmt:
    op = stage.op
    assert isinstance(op, BaseComputeOp)
    bounds = [context.ranges[iv] for iv in op.axis]
    for number, tensor in reversed(list(enumerate(op.outputs))):
        body = ir.ProducerRealize(tensor, bounds, _TRUE, body, stage.scope, stage.part_span("memory", number))
        for axis, iv in enumerate(op.axis[: op.num_schedulable_dims]):
            attr = stage.iter_var_attrs.get(iv)
            if attr is not None and attr.dim_align_factor:
                spec = ir.Call("handle", "tir.tvm_tuple", [axis, attr.dim_align_factor, attr.dim_align_offset])
                body = ir.AttrStmt(tensor, "buffer_dim_align", spec, body, stage.span)
    return body


# ---------------------------------------------------------------------------- scan


def _provide_scan(stage: Stage, context: LoopContext) -> ir.Stmt:
    op = stage.op
    assert isinstance(op, ScanOp)
    begin = 0
    for position, iv in enumerate(stage.leaf_iter_vars):
        if iv.iter_type == ir.IterVar.ThreadIndex:
            if position != begin:
                raise ScheduleError(
                    f"scan `{op.name}`: the thread axes stand around the scan axis", code="te.scan.threads_inside"
                )
            begin = position + 1
    values: dict[ir.IterVar, ir.PrimExpr] = {}
    nest = make_loop_nest(stage, context, values)
    nest[begin].append(ir.AttrStmt(op, "scan_init_scope", 0, ir.Evaluate(0), stage.span))
    checks = make_bound_check(stage, context.ranges, values, context.prover)
    provide: ir.Stmt = ir.AttrStmt(op, "scan_update_scope", op.scan_axis.var, ir.Evaluate(0), stage.span)
    return merge_nest([*nest, if_nest(checks)], provide)


def _realize_scan(stage: Stage, context: LoopContext, body: ir.Stmt) -> ir.Stmt:
    op = stage.op
    assert isinstance(op, ScanOp)
    time = context.ranges[op.scan_axis]
    extent = Analyzer().simplify(time.extent + time.min)
    whole = ir.structural_equal(extent, op.outputs[0].shape[0])
    if not whole and not context.prover.proves(greater_equal(extent, time.min)):
        extent = maximum(extent, time.min)  # the first steps are computed even if fewer are read
    steps = ir.Range.from_min_extent(make_zero(time.extent.dtype), extent)
    for i, tensor in enumerate(op.outputs):
        bounds = [steps, *[context.ranges[iv] for iv in op.spatial_axes(i)]]
        body = ir.ProducerRealize(tensor, bounds, _TRUE, body, stage.scope, stage.span)
    return body


# ---------------------------------------------------------------------------- extern


def _provide_extern(stage: Stage, context: LoopContext) -> ir.Stmt:
    op = stage.op
    assert isinstance(op, ExternOp)
    body: ir.Stmt = ir.AttrStmt(ir.IntImm("int32", 0), "extern_scope", 0, op.body, stage.span)
    pairs = [*zip(op.input_placeholders, op.inputs), *zip(op.output_placeholders, op.outputs)]
    for buffer, tensor in reversed(pairs):
        whole: list[Any] = []
        for size in buffer.shape:
            whole += [make_zero(size.dtype), size]
        body = ir.AttrStmt(
            (buffer, tensor), "buffer_bind_scope", ir.Call("handle", "tir.tvm_tuple", whole), body, stage.span
        )
    return body


def _realize_extern(stage: Stage, context: LoopContext, body: ir.Stmt) -> ir.Stmt:
    for tensor in stage.op.outputs:
        bounds = [ir.Range.from_min_extent(make_zero(s.dtype), s) for s in tensor.shape]
        body = ir.ProducerRealize(tensor, bounds, _TRUE, body, stage.scope, stage.span)
    return body


def _provide_tensor_compute(stage: Stage, context: LoopContext) -> ir.Stmt:
    from tvmagic.te.schedule.tensorize import make_tensor_compute

    return make_tensor_compute(stage, context)


_PROVIDE: dict[type, Callable[[Stage, LoopContext], ir.Stmt]] = {
    ComputeOp: _provide_compute,
    TensorComputeOp: _provide_tensor_compute,
    ScanOp: _provide_scan,
    ExternOp: _provide_extern,
    ConstantOp: _provide_extern,
}
_REALIZE: dict[type, Callable[[Stage, LoopContext, ir.Stmt], ir.Stmt]] = {
    ComputeOp: _realize_compute,
    TensorComputeOp: _realize_compute,
    ScanOp: _realize_scan,
    ExternOp: _realize_extern,
    ConstantOp: _realize_extern,
}
