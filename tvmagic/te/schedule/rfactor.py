"""rfactor: a reduction in two steps, the first for each value of one of its loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.reducer_laws import can_regroup
from tvmagic.ir.ops import likely, logical_and
from tvmagic.te.reduction import LAWS, unproved_law
from tvmagic.te.schedule.cache import plain_axes
from tvmagic.te.schedule.dataflow import insert_stage, replace_dataflow, restart_loops
from tvmagic.te.schedule.message_passing import (
    BoundProver,
    make_bound_check,
    pass_down_domain,
    pass_down_mask,
    pass_up_index,
    pass_up_mask,
)
from tvmagic.te.schedule.relations import Masks, is_const
from tvmagic.te.schedule.stage import Stage
from tvmagic.te.schedule.stage_state import note_loops_made_of, note_made_of
from tvmagic.te.tensor import ComputeOp, Tensor

if TYPE_CHECKING:
    from tvmagic.te.schedule.schedule import Schedule

_TRUE = ir.IntImm("bool", 1)


def rfactor(sch: Schedule, tensor: Tensor, axis: ir.IterVar, factor_axis: int = 0) -> Any:
    """Compute partial reductions, one for each value of the loop `axis`, and reduce these.

    The partial results have a new dimension at `factor_axis` (negative: from the end).
    """
    # 1. the reduction, and which of the stage's variables the factored loop touches
    stage = sch.check_tensor(tensor, "rfactor")
    op, reduce = _check(stage, tensor, axis)
    parts = _Parts(stage, op, axis)
    factor_axis = stage.check_integer(factor_axis, "rfactor", "factor_axis")
    place = factor_axis if factor_axis >= 0 else len(op.axis) + 1 + factor_axis
    if not 0 <= place <= len(op.axis):
        raise stage.error(
            f"rfactor of `{axis.var.name}` to dimension {factor_axis}, which the result does not have",
            code="te.rfactor.axis_out_of_range",
        )
    # 2. an operation for the partial results, of which the factored loop is an axis
    factored = parts.factored_op(reduce, place)
    # 3. one that reduces them over this axis
    final = _final_op(stage, op, reduce, factored, parts.ranges[axis], axis, place)
    # 4. a stage for the first; the second replaces the reduction in its stage and in its readers
    note_made_of(factored, stage.origin_op)
    note_loops_made_of(final.axis, op.axis)
    insert_stage(sch, factored, stage, after=False)
    replace_dataflow(sch, dict(zip(stage.op.outputs, final.outputs)))
    restart_loops(stage, final)
    return factored.outputs[0] if factored.num_outputs == 1 else list(factored.outputs)


def _check(stage: Stage, tensor: Tensor, axis: ir.IterVar) -> tuple[ComputeOp, ir.Reduce]:
    stage.leaf_position(axis, "rfactor")
    op = stage.op
    reduce = op.body[tensor.value_index] if isinstance(op, ComputeOp) else None
    if not isinstance(op, ComputeOp) or not isinstance(reduce, ir.Reduce):
        raise stage.error("rfactor of a stage that is not a reduction", code="te.rfactor.not_a_reduction")
    if axis.iter_type != ir.IterVar.CommReduce:
        raise stage.error(
            f"rfactor of `{axis.var.name}`, which is not a loop of the reduction",
            f"give `s[{stage.name}].op.reduce_axis[0]`, or a loop that a split of it made",
            code="te.rfactor.loop_not_reduced",
        )
    if reduce.init:
        raise stage.error("rfactor of a reduction with a start value of its own", code="te.rfactor.explicit_init")
    if not can_regroup(reduce.combiner):
        raise stage.error(*unproved_law("rfactor", reduce.combiner, LAWS), code="te.rfactor.unproved_law")
    return op, reduce


def _connected(stage: Stage, axis: ir.IterVar) -> Masks:
    """The variables that share a root or a loop with `axis`, however many steps away."""
    touched: Masks = {axis: 1}
    count = 0
    while count < len(touched):
        count = len(touched)
        pass_up_mask(stage, touched)
        pass_down_mask(stage, touched)
    return touched


class _Parts:
    """Which of a stage's variables the factored loop touches, with their ranges and values."""

    def __init__(self, stage: Stage, op: ComputeOp, axis: ir.IterVar) -> None:
        self.stage, self.op, self.axis = stage, op, axis
        self.touched = touched = _connected(stage, axis)
        for iv in op.axis:
            if iv in touched:
                raise stage.error(
                    f"rfactor of `{axis.var.name}`, which is fused with the data loop `{iv.var.name}`",
                    code="te.rfactor.fused_with_data",
                )
        analyzer = Analyzer()
        self.ranges: dict[ir.IterVar, ir.Range] = {}
        for iv in op.reduce_axis:
            assert iv.dom is not None
            if iv in touched:
                self.ranges[iv] = iv.dom
            analyzer.bind(iv.var, iv.dom)
        pass_down_domain(stage, self.ranges, analyzer, True)
        if not is_const(self.ranges[axis].min, 0):
            raise stage.error(
                f"rfactor of `{axis.var.name}`, which does not start at 0",
                "split the loop first",
                code="te.rfactor.loop_not_from_zero",
            )
        self.values: dict[ir.IterVar, ir.PrimExpr] = {}
        for iv in stage.leaf_iter_vars:
            if iv in touched:
                once = is_const(self.ranges[iv].extent, 1)
                self.values[iv] = self.ranges[iv].min if once else iv.var
        pass_up_index(stage, self.ranges, self.values, True)
        skip = {iv for iv in (*op.axis, *op.reduce_axis) if iv not in touched}
        self.predicates = make_bound_check(stage, self.ranges, self.values, BoundProver(self.ranges), skip, False)

    def factored_op(self, reduce: ir.Reduce, place: int) -> ComputeOp:
        """The operation that computes the partial reductions."""
        op, axis = self.op, self.axis
        new_axis = ir.IterVar(self.ranges[axis], axis.var, ir.IterVar.DataPar, span=ir.Span.made_of(axis))
        axes = [*op.axis[:place], new_axis, *op.axis[place:]]
        kept = [iv for iv in op.reduce_axis if iv not in self.touched]
        kept += [
            ir.IterVar(self.ranges[iv], iv.var, iv.iter_type, iv.thread_tag, ir.Span.made_of(iv))
            for iv in self.stage.leaf_iter_vars
            if iv in self.touched and iv is not axis
        ]
        moved: dict[ir.Var, ir.PrimExpr] = {iv.var: self.values[iv] for iv in op.reduce_axis if iv in self.touched}
        source = ir.mutate_all(lambda e: ir.substitute(e, moved), reduce.source)
        condition = self._condition(reduce, moved)
        name = f"{op.name}.rf"
        if not kept:  # nothing is left to reduce: one more loop of one iteration
            kept = [ir.IterVar(ir.Range(0, 1), "rv", ir.IterVar.CommReduce)]
        body = [ir.Reduce(reduce.combiner, source, kept, condition, i) for i in range(len(source))]
        return ComputeOp(name, op.tag, op.attrs, axes, body, op.span)

    def _condition(self, reduce: ir.Reduce, moved: dict[ir.Var, ir.PrimExpr]) -> ir.PrimExpr:
        condition: ir.PrimExpr | None = None
        for part in (*self.predicates, reduce.condition):
            condition = part if condition is None else logical_and(condition, part)
        assert condition is not None
        return ir.substitute(likely(condition), moved)


def _final_op(
    stage: Stage, op: ComputeOp, reduce: ir.Reduce, factored: ComputeOp, range_: ir.Range, axis: ir.IterVar, place: int
) -> ComputeOp:
    """The operation that reduces the partial reductions."""
    reduced = ir.IterVar(range_, axis.var.name + ".v", ir.IterVar.CommReduce, span=ir.Span.made_of(axis))
    axes = plain_axes(stage.op.output(0).shape)
    indices: list[Any] = [iv.var for iv in axes]
    indices.insert(place, reduced.var)
    values = [t(*indices) for t in factored.outputs]
    body = [ir.Reduce(reduce.combiner, values, [reduced], _TRUE, i) for i in range(len(values))]
    return ComputeOp(f"{op.name}.repl", "", None, axes, body, op.span)
