"""What the rewrites of a schedule's graph share: replacing operations under the stages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tvmagic.te.schedule.stage import Stage
from tvmagic.te.tensor import Operation, Tensor

if TYPE_CHECKING:
    from tvmagic.te.schedule.schedule import Schedule


def replace_dataflow(sch: Schedule, replaced: Mapping[Tensor, Tensor]) -> None:
    """Let every stage read the new tensors in place of the old ones, and what follows from that.

    The stages that compute the new tensors must not have changed their operation yet, or have it.
    """
    current = dict(replaced)
    origin = {new: old for old, new in replaced.items()}
    for stage in sch.stages:
        op = stage.op.replace_inputs(current)
        if op is stage.op:
            continue
        for old, new in zip(stage.op.outputs, op.outputs):
            first = origin.get(old, old)
            current[first] = new
            origin[new] = first
        stage.op = op
    follow_prefetches(sch, current)


def follow_prefetches(sch: Schedule, replaced: Mapping[Tensor, Tensor]) -> None:
    """Let every prefetch be one of the tensor that is read now."""
    for stage in sch.stages:
        for attr in stage.iter_var_attrs.values():
            attr.prefetch_data = [replaced.get(tensor, tensor) for tensor in attr.prefetch_data]


def insert_stage(sch: Schedule, op: Operation, beside: Stage, after: bool) -> Stage:
    """A new stage for `op` next to the stage `beside`, in the same group."""
    stage = Stage(op, sch, beside.span)
    position = next(i for i, s in enumerate(sch.stages) if s is beside)
    sch.stages.insert(position + 1 if after else position, stage)
    sch.stage_map[op] = stage
    join_group(stage, beside.group)
    return stage


def join_group(stage: Stage, group: Stage | None) -> None:
    """Put a stage that is in no group into `group`."""
    stage.group = group
    if group is not None:
        group.num_child_stages += 1


def restart_loops(stage: Stage, op: Operation) -> None:
    """Let `stage` run `op`, with the loops that `op` has before any split."""
    stage.op = op
    stage.all_iter_vars = list(op.root_iter_vars())
    stage.leaf_iter_vars = list(stage.all_iter_vars)
    stage.relations = []
