"""cache_read and cache_write: stages that copy a tensor into another memory, or out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.errors import ScheduleError
from tvmagic.ir import IterVar, PrimExpr, ProducerLoad, Range, Reduce, Select, Span, Var, post_order_visit, substitute
from tvmagic.ir.equal import structural_equal
from tvmagic.ir.ops import logical_and, make_zero
from tvmagic.passes import user_span
from tvmagic.te.schedule.dataflow import insert_stage, join_group, replace_dataflow, restart_loops
from tvmagic.te.schedule.message_passing import (
    BoundProver,
    make_bound_check,
    pass_down_domain,
    pass_down_index,
    pass_up_index,
)
from tvmagic.te.schedule.stage import Stage
from tvmagic.te.schedule.stage_state import note_made_of
from tvmagic.te.tensor import BaseComputeOp, ComputeOp, Operation, ScanOp, Tensor, TensorComputeOp

if TYPE_CHECKING:
    from tvmagic.te.schedule.schedule import Schedule


def plain_axes(shape: Sequence[PrimExpr]) -> list[IterVar]:
    """New axes `ax0`, `ax1`, ... over a shape."""
    return [
        IterVar(Range.from_min_extent(make_zero(size.dtype), size), Var(f"ax{i}", size.dtype), IterVar.DataPar)
        for i, size in enumerate(shape)
    ]


def cache_read(sch: Schedule, tensor: Tensor, scope: str, readers: Any) -> Tensor:
    """Copy `tensor` into the memory `scope`, and let `readers` read the copy."""
    source_stage = sch.check_tensor(tensor, "cache_read")
    source = source_stage.op.output(tensor.value_index)
    axes = plain_axes(source.shape)
    span = user_span()
    body = source(*[iv.var for iv in axes])
    cache = ComputeOp(f"{tensor.name}.{scope}", "", None, axes, [body], span).output(0)
    replaced: dict[Tensor, Tensor] = {}
    given = list(readers) if isinstance(readers, (list, tuple)) else [readers]
    new_ops: list[tuple[Stage, Operation]] = []
    for reader in given:
        stage = sch[reader]
        op = stage.op.replace_inputs({source: cache})
        if op is stage.op:
            read = ", ".join(f"`{t.name}`" for t in stage.op.input_tensors)
            hint = f"it reads {read}" if read else None
            raise ScheduleError(
                f"stage `{stage.name}` does not read `{tensor.name}`",
                span=span,
                hint=hint,
                code="te.cache_read.not_a_reader",
            )
        replaced.update(zip(stage.op.outputs, op.outputs))
        new_ops.append((stage, op))
    for stage, op in new_ops:
        stage.op = op
    replace_dataflow(sch, replaced)
    note_made_of(cache.op, *[stage.origin_op for stage, _ in new_ops])
    copy = insert_stage(sch, cache.op, source_stage, after=True)
    copy.set_scope(scope)
    if _is_state(sch, source_stage.op):
        join_group(copy, new_ops[0][0].group)
    return cache


def _is_state(sch: Schedule, op: Operation) -> bool:
    """Whether `op` stands for the state of a scan, which has values inside its steps only."""
    return any(t.op is op for s in sch.stages if isinstance(s.op, ScanOp) for t in s.op.state_placeholder)


def cache_write(sch: Schedule, tensor: Any, scope: str) -> Any:
    """Compute `tensor` in the memory `scope`, in the order of its present loops, and copy it out."""
    several = isinstance(tensor, (list, tuple))
    tensors: list[Tensor] = list(tensor) if several else [tensor]
    stages = [sch.check_tensor(t, "cache_write") for t in tensors]
    if not stages:
        raise ScheduleError(
            "cannot cache_write: the list of tensors is empty", span=user_span(), code="te.cache_write.no_tensors"
        )
    stage = stages[0]
    for other in stages:
        if other is not stage:
            raise ScheduleError(
                "cache_write of several tensors takes the outputs of one operation",
                span=user_span(),
                code="te.cache_write.several_operations",
            )
    op = stage.op
    if several and len(tensors) != op.num_outputs:
        raise ScheduleError(
            f"cache_write takes all {op.num_outputs} outputs of `{op.name}`",
            span=user_span(),
            code="te.cache_write.missing_outputs",
        )
    if isinstance(op, ComputeOp):
        cache = _relayout_compute(stage, op, scope)
    elif isinstance(op, TensorComputeOp) and op.num_outputs == 1:
        cache = _relayout_tensor_compute(stage, op, scope)
    else:
        hint = "an input is copied by `s.cache_read`" if op.kind == "placeholder" else None
        raise ScheduleError(
            f"cache_write of `{op.name}`, which is a {op.kind}",
            span=user_span(),
            hint=hint,
            code="te.cache_write.not_computed",
        )
    _replace_original(sch, stage, cache, scope)
    return list(cache.op.outputs) if several else cache.op.output(tensors[0].value_index)


class _Rewritten:
    """The operation that computes in the cache, and the operation that copies out of it."""

    def __init__(self, op: Operation, reader: Operation) -> None:
        self.op, self.reader = op, reader


class _Relayout:
    """A new operation over the loops of a stage, and the old one that reads it.

    `axes`: an axis for each data loop; `to_loops`: the value of each old axis in the loops;
    `to_axes`: loops to new axes; `predicates`: where the loops overrun.
    """

    def __init__(self, stage: Stage, op: BaseComputeOp) -> None:
        self.stage, self.op = stage, op
        self.ranges: dict[IterVar, Range] = {}
        self.reduced = set(op.reduce_axis)
        analyzer = Analyzer()
        for iv in op.axis:
            assert iv.dom is not None
            self.ranges[iv] = iv.dom
            analyzer.bind(iv.var, iv.dom)
        pass_down_domain(stage, self.ranges, analyzer, True)
        self.axes: list[IterVar] = []
        self.to_axes: dict[Var, PrimExpr] = {}
        values: dict[IterVar, PrimExpr] = {}
        for iv in stage.leaf_iter_vars:
            if iv in self.reduced:
                continue
            if iv.iter_type != IterVar.DataPar or iv not in self.ranges:
                raise ScheduleError(
                    f"stage `{stage.name}`: cache_write after loop `{iv.var.name}` of the reduction was rearranged",
                    span=user_span(),
                    hint="call cache_write before the reduction is split or fused",
                    code="te.cache_write.reduction_rearranged",
                )
            axis = IterVar(self.ranges[iv], iv.var.copy_with_suffix(".c"), iv.iter_type, span=Span.made_of(iv))
            self.axes.append(axis)
            values[iv] = iv.var
            self.to_axes[iv.var] = axis.var
        pass_up_index(stage, self.ranges, values, True)
        prover = BoundProver(self.ranges)
        self.predicates = make_bound_check(stage, self.ranges, values, prover, self.reduced, False)
        self.to_loops = {iv.var: values[iv] for iv in op.axis if iv in values}

    def moved(self, value: Any) -> Any:
        """An expression of the old axes as one of the new."""
        return substitute(substitute(value, self.to_loops), self.to_axes)

    def reader_indices(self) -> list[PrimExpr]:
        """The values of the loops from those of the old axes."""
        values: dict[IterVar, PrimExpr] = {iv: iv.var for iv in self.op.axis}
        pass_down_index(self.stage, self.ranges, values)
        return [values[iv] for iv in self.stage.leaf_iter_vars if iv not in self.reduced]


def _relayout_compute(stage: Stage, op: ComputeOp, scope: str) -> _Rewritten:
    layout = _Relayout(stage, op)
    predicates = [substitute(p, layout.to_axes) for p in layout.predicates]
    predicates += [layout.moved(row) >= 0 for row in _earlier_rows(stage, op, layout.to_loops)]
    body: list[PrimExpr] = []
    first: Reduce | None = None
    for index, value in enumerate(op.body):
        if isinstance(value, Reduce) and first is not None:
            body.append(Reduce(first.combiner, first.source, first.axis, first.condition, index, first.init))
            continue
        moved = _guarded(predicates, layout.moved(value))
        first = moved if isinstance(moved, Reduce) else None
        body.append(moved)
    cache = ComputeOp(f"{op.name}.{scope}", op.tag, op.attrs, layout.axes, body, op.span)
    indices = layout.reader_indices()
    return _Rewritten(cache, op.with_body([t(*indices) for t in cache.outputs]))


def _earlier_rows(stage: Stage, op: ComputeOp, to_loops: dict[Var, Any]) -> list[PrimExpr]:
    """The rows of a scan's states that a step's stage reads at a loop that is now several.

    What is computed for a step is then rounded down to whole tiles, below the first step, which has no row before it.
    """
    rows: list[PrimExpr] = []
    assert stage.schedule is not None

    def look(node: Any) -> None:
        if isinstance(node, ProducerLoad) and _is_state(stage.schedule, node.producer.op):  # type: ignore[arg-type]
            row = node.indices[0]
            if uses_var(row, {v for v, value in to_loops.items() if not isinstance(value, Var)}):
                if not any(structural_equal(row, known) for known in rows):
                    rows.append(row)

    for value in op.body:
        post_order_visit(value, look)
    return rows


def _guarded(predicates: Sequence[PrimExpr], value: PrimExpr) -> PrimExpr:
    """`value` where all predicates hold; a reduction takes nothing elsewhere, another value is zero."""
    if not predicates:
        return value
    condition = predicates[0]
    for other in predicates[1:]:
        condition = logical_and(condition, other)
    if isinstance(value, Reduce):
        return value.replace(condition=logical_and(value.condition, condition))
    return Select(condition, value, make_zero(value.dtype))


def _relayout_tensor_compute(stage: Stage, op: TensorComputeOp, scope: str) -> _Rewritten:
    layout = _Relayout(stage, op)
    inner = op.axis[op.schedulable_ndim :]
    new_inner = [IterVar(iv.dom, iv.var.copy_with_suffix(".c"), iv.iter_type) for iv in inner]
    regions = [
        [Range.from_min_extent(layout.moved(r.min), layout.moved(r.extent)) for r in region]
        for region in op.input_regions
    ]
    cache = TensorComputeOp(
        f"{op.name}.{scope}", op.tag, [*layout.axes, *new_inner], op.reduce_axis, len(layout.axes), op.intrin,
        op.inputs, regions, [layout.moved(s) for s in op.scalar_inputs], op.span,
    )  # fmt: skip
    axes = [*op.axis[: op.schedulable_ndim], *[IterVar(iv.dom, iv.var, IterVar.DataPar) for iv in inner]]
    indices = [*layout.reader_indices(), *[iv.var for iv in inner]]
    reader = ComputeOp(op.name, op.tag, None, axes, [cache.output(0)(*indices)], op.span)
    return _Rewritten(cache, reader)


def _replace_original(sch: Schedule, stage: Stage, new: _Rewritten, scope: str) -> None:
    replace_dataflow(sch, dict(zip(stage.op.outputs, new.reader.outputs)))
    note_made_of(new.op, stage.origin_op)
    restart_loops(stage, new.reader)
    insert_stage(sch, new.op, stage, after=False).set_scope(scope)
