"""Which elements of each stage are needed, exactly: unions of boxes in place of their hull.

InferBound takes for each axis the interval that covers all requests. Here the requests stay
apart: two consumers that need the corners `T[0:2, 0:2]` and `T[2:4, 2:4]` need eight elements of
`T`, and one that reads `T[2 * i]` every second one. Sizes must be constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tvmagic import ir
from tvmagic.arith.int_set import IntSet
from tvmagic.arith.int_set_eval import eval_set
from tvmagic.arith.strided_sets import Box, BoxUnion, Steps, eval_stride_set
from tvmagic.ir.ops import floormod, greater_equal, less, logical_and, logical_or
from tvmagic.te.schedule.graph import create_attach_path
from tvmagic.te.schedule.stage import AttachType, Stage
from tvmagic.te.tensor import BaseComputeOp, ComputeOp, Operation, Tensor, constant_shape

if TYPE_CHECKING:
    from tvmagic.te.schedule.schedule import Schedule

Demand = dict[Stage, BoxUnion]


def needed_elements(sch: Schedule, ranges: Mapping[ir.IterVar, ir.Range], as_computed: bool = False) -> Demand:
    """The elements of each stage of a normalized schedule that its consumers read.

    Parameters
    ----------
    ranges: what InferBound gave.
    as_computed: count what a consumer reads for all elements that its loops compute, needed or
        not; else only for those that are needed.

    Stages with symbolic sizes, and those that something other than `te.compute` reads, are left
    out: all of what InferBound gives is needed there.
    """
    paths = create_attach_path(sch)
    readers: dict[Operation, list[Stage]] = {}
    for stage in sch.stages:
        for tensor in stage.op.input_tensors:
            readers.setdefault(tensor.op, []).append(stage)
    sets = {iv.var: IntSet.from_range(r) for iv, r in ranges.items()}
    demand: Demand = {}
    for stage in reversed(sch.stages):
        if stage.attach_type == AttachType.INLINED_ALREADY:
            continue
        shape = constant_shape(stage.op.output(0))
        if shape is None or not all(shape):
            continue
        union = BoxUnion(len(shape))
        if stage.is_output:
            union.add([Steps(0, size) for size in shape])
        elif not all(
            _add_requests(union, stage, c, demand, ranges, sets, paths, as_computed) for c in readers.get(stage.op, ())
        ):
            continue
        if union.boxes:
            demand[stage] = union
    return demand


def saves_work(union: BoxUnion) -> bool:
    """Whether the elements of `union` are fewer than those of the box around it."""
    return union.exact and union.waste() > 0


def _add_requests(
    union: BoxUnion,
    stage: Stage,
    consumer: Stage,
    demand: Demand,
    ranges: Mapping[ir.IterVar, ir.Range],
    sets: Mapping[ir.Var, IntSet],
    paths: Mapping[Operation, Any],
    as_computed: bool,
) -> bool:
    """Add what `consumer` reads of `stage`; False if that is not known."""
    op = consumer.op
    if not isinstance(op, ComputeOp) or consumer not in demand:
        return False
    boxes = demand[consumer].boxes
    if as_computed and not (saves_work(demand[consumer]) and not paths[op]):
        hull = _computed_box(op, ranges, sets)
        if hull is None:
            return False
        boxes = [hull]
    loads = [load for tensor in stage.op.outputs for load in op.loads.get(tensor, ())]
    for box in boxes:
        domains = _domains(op, box)
        if domains is None:
            return False
        for load in loads:
            request = _requested(load, domains)
            if request is not None:
                union.add(request)
    return True


def _computed_box(op: ComputeOp, ranges: Mapping[ir.IterVar, ir.Range], sets: Mapping[ir.Var, IntSet]) -> Box | None:
    """The box of all elements that the loops of `op` compute, over all iterations around them; `sets` are the `ranges`."""
    shape = constant_shape(op.output(0))
    assert shape is not None
    axes: list[Steps] = []
    for iv, size in zip(op.axis, shape):
        found = eval_set(ranges[iv], sets)
        low, high = found.min(), found.max()
        first = max(low.value, 0) if isinstance(low, ir.IntImm) else 0
        last = min(high.value, size - 1) if isinstance(high, ir.IntImm) else size - 1
        if last < first:
            return None
        axes.append(Steps(first, last - first + 1))
    return tuple(axes)


def _domains(op: ComputeOp, box: Box) -> dict[ir.Var, Any] | None:
    """The sets of the axes of `op` for one box of its elements."""
    domains: dict[ir.Var, Any] = {}
    for iv, steps in zip(op.axis, box):
        domains[iv.var] = _set_of(steps, iv.var.dtype)
    for iv in op.reduce_axis:
        range_ = iv.dom
        if range_ is None or not (isinstance(range_.min, ir.IntImm) and isinstance(range_.extent, ir.IntImm)):
            return None
        if range_.extent.value == 0:
            return None
        domains[iv.var] = range_
    return domains


def _set_of(steps: Steps, dtype: Any) -> Any:
    from tvmagic.arith.strided_sets import StrideSet

    return StrideSet(steps.first, steps.count, steps.stride, dtype=dtype)


def _requested(load: ir.ProducerLoad, domains: Mapping[ir.Var, Any]) -> list[Steps] | None:
    """The box of elements that one load reads; None if it reads none inside the tensor."""
    tensor: Tensor = load.producer
    shape = constant_shape(tensor)
    assert shape is not None
    box: list[Steps] = []
    for index, size in zip(load.indices, shape):
        found = eval_stride_set(index, domains)
        steps = found.steps if found is not None else _interval_steps(index, domains, size)
        inside = steps.intersect(Steps(0, size))
        if inside is None:
            return None
        box.append(inside)
    return box


def _interval_steps(index: ir.PrimExpr, domains: Mapping[ir.Var, Any], size: int) -> Steps:
    intervals = {v: d.covering() if hasattr(d, "covering") else d for v, d in domains.items()}
    found = eval_set(index, intervals)
    low, high = found.min(), found.max()
    if isinstance(low, ir.IntImm) and isinstance(high, ir.IntImm) and low.value <= high.value:
        return Steps(low.value, high.value - low.value + 1)
    return Steps(0, size)


def box_condition(op: BaseComputeOp, union: BoxUnion) -> ir.PrimExpr:
    """That the axes of `op` are at one of the needed elements."""
    result: ir.PrimExpr | None = None
    hull = [Steps(min(b[k].first for b in union.boxes), 1) for k in range(union.ndim)]
    ends = [max(b[k].last for b in union.boxes) for k in range(union.ndim)]
    for box in union.boxes:
        inside: ir.PrimExpr | None = None
        for iv, steps, low, high in zip(op.axis, box, hull, ends):
            for condition in _axis_conditions(iv.var, steps, low.first, high):
                inside = condition if inside is None else logical_and(inside, condition)
        assert inside is not None
        result = inside if result is None else logical_or(result, inside)
    assert result is not None
    return result


def _axis_conditions(var: ir.Var, steps: Steps, low: int, high: int) -> list[ir.PrimExpr]:
    conditions: list[ir.PrimExpr] = []
    if steps.first > low:
        conditions.append(greater_equal(var, steps.first))
    if steps.last < high:
        conditions.append(less(var, steps.last + 1))
    if steps.stride > 1:
        conditions.append(floormod(var - steps.first, steps.stride).equal(0))
    return conditions
