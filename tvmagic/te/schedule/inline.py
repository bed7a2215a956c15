"""Inlining: the body of a stage in the place of each read of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tvmagic import ir
from tvmagic.errors import ScheduleError
from tvmagic.te.schedule.dataflow import follow_prefetches
from tvmagic.te.schedule.stage import AttachType, Stage
from tvmagic.te.tensor import ComputeOp, ExternOp, Operation, ScanOp, Tensor, TensorComputeOp, mutate_bodies

if TYPE_CHECKING:
    from tvmagic.te.schedule.schedule import Schedule


def inject_inline(sch: Schedule) -> None:
    """Resolve every stage that is marked to be inlined, in place.

    Each body is rewritten once: reading an inlined tensor continues into its body with the
    indices bound, so that a chain of inlined stages costs no more than the text it becomes.
    """
    inlined: dict[Operation, ComputeOp] = {}
    replaced: dict[Tensor, Tensor] = {}
    for stage in sch.stages:
        if stage.attach_type == AttachType.INLINE:
            inlined[stage.op] = _inlinable(stage)
            stage.attach_type = AttachType.INLINED_ALREADY
    if not inlined:
        return
    for stage in sch.stages:
        op = stage.op
        if op in inlined:
            if any(t in replaced for t in op.input_tensors):
                inlined[op] = op.replace_inputs(replaced)  # type: ignore[assignment]
                _set_op(sch, stage, inlined[op], replaced)
                inlined[stage.op] = inlined[op]
            continue
        if isinstance(op, ComputeOp) and any(t.op in inlined for t in op.input_tensors):
            new: Operation = op.with_body(mutate_bodies(_Inliner(inlined), op.body))
            new = new.replace_inputs(replaced)
        else:
            _check_reader(stage, op, inlined)
            new = op.replace_inputs(replaced)
        if new is not op:
            _set_op(sch, stage, new, replaced)
    follow_prefetches(sch, replaced)


def _set_op(sch: Schedule, stage: Stage, new: Operation, replaced: dict[Tensor, Tensor]) -> None:
    """Let `stage` run `new`, and let those behind it read its outputs."""
    for old_tensor, new_tensor in zip(stage.op.outputs, new.outputs):
        replaced[old_tensor] = new_tensor
    stage.op = new
    sch.stage_map[new] = stage


def _inlinable(stage: Stage) -> ComputeOp:
    op = stage.op
    if not isinstance(op, ComputeOp):
        hint = (
            "inline a stage that computes; a copy of an input is made by `s.cache_read`"
            if op.kind == "placeholder"
            else None
        )
        raise ScheduleError(
            f"stage `{stage.name}` is a {op.kind}, which cannot be inlined",
            span=stage.span,
            hint=hint,
            code="te.compute_inline.not_computed",
        )
    if len(op.body) != 1:
        raise ScheduleError(
            f"stage `{stage.name}` has several outputs and cannot be inlined",
            span=stage.span,
            code="te.compute_inline.several_outputs",
        )
    if isinstance(op.body[0], ir.Reduce):
        raise ScheduleError(
            f"stage `{stage.name}` is a reduction and cannot be inlined",
            span=stage.span,
            hint="use compute_at to compute it where it is read",
            code="te.compute_inline.reduction",
        )
    if stage.is_output:
        raise ScheduleError(
            f"stage `{stage.name}` is an output of the schedule and cannot be inlined",
            span=stage.span,
            hint="inline the stages that it reads",
            code="te.compute_inline.output_stage",
        )
    return op


def _check_reader(stage: Stage, op: Operation, inlined: Mapping[Operation, ComputeOp]) -> None:
    if not isinstance(op, (ExternOp, ScanOp, TensorComputeOp)):
        return
    for tensor in op.input_tensors:
        if tensor.op in inlined:
            raise ScheduleError(
                f"stage `{tensor.op.name}` cannot be inlined into stage `{stage.name}`, which is a {op.kind}",
                span=stage.span,
                hint=f"compute `{tensor.op.name}` at the root",
                code="te.compute_inline.reader_not_computed",
            )


class _Inliner(ir.Mutator):
    """Replaces reads of inlined tensors by their bodies, with the indices in place of the axes."""

    def __init__(self, inlined: Mapping[Operation, ComputeOp]) -> None:
        self.inlined = inlined
        self.values: dict[ir.Var, ir.PrimExpr] = {}

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> Any:
        return self.values.get(var, var)

    @ir.handles(ir.ProducerLoad)
    def load(self, node: ir.ProducerLoad) -> Any:
        node = self.visit_children(node)
        op = self.inlined.get(node.producer.op)
        if op is None:
            return node
        axes = [iv.var for iv in op.axis]
        outer = self.values
        if any(_has_effect(i) for i in node.indices):
            self.values = {}
            body = self.visit(op.body[0])
            for axis, index in zip(axes, node.indices):
                body = ir.Let(axis, index, body)
        else:
            self.values = dict(zip(axes, node.indices))
            body = self.visit(op.body[0])
        self.values = outer
        return body

    @ir.handles(ir.CommReducer)
    def combiner(self, node: ir.CommReducer) -> Any:
        return node


def _has_effect(index: ir.PrimExpr) -> bool:
    """Whether computing `index` twice would differ from computing it once."""
    found = False

    def look(node: Any) -> None:
        nonlocal found
        if isinstance(node, ir.Call):
            if isinstance(node.op, ir.GlobalVar):
                found = True
            elif isinstance(node.op, ir.Op) and node.op.effect > ir.CallEffect.READ_STATE:
                found = True

    ir.post_order_visit(index, look)
    return found
