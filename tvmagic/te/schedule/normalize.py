"""The form of a schedule that bounds inference takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvmagic.ir import IterVar
from tvmagic.te.schedule.inline import inject_inline
from tvmagic.te.schedule.relations import Fuse, Rebase, Split
from tvmagic.te.schedule.stage import AttachType, Stage

if TYPE_CHECKING:
    from tvmagic.te.schedule.schedule import Schedule


def normalize(sch: Schedule) -> Schedule:
    """A copy of `sch` with inlined stages resolved, loops from zero, and attach points on loops."""
    new = sch.copy()
    inject_inline(new)
    rebase_to_zero(new)
    legalize_attach(new)
    return new


def rebase_to_zero(sch: Schedule) -> None:
    """Let each loop that is still a root variable be counted from zero by a new variable."""
    renamed: dict[IterVar, IterVar] = {}
    for stage in sch.stages:
        if stage.attach_type == AttachType.INLINED_ALREADY:
            continue
        leaves = {iv: position for position, iv in enumerate(stage.leaf_iter_vars)}
        for iv in stage.op.root_iter_vars():
            attr = stage.iter_var_attrs.get(iv)
            if iv not in leaves or (attr is not None and attr.bind_thread is not None):
                continue
            rebased = IterVar(None, iv.var.copy_with_suffix(""), iv.iter_type, span=iv.span)
            stage.relations.append(Rebase(iv, rebased))
            if attr is not None:
                stage.iter_var_attrs[rebased] = attr
            stage.leaf_iter_vars[leaves[iv]] = rebased
            renamed[iv] = rebased
    _move_attach_points(sch, renamed)


def legalize_attach(sch: Schedule) -> None:
    """Move the point where a stage is attached to the loop that it became by later splits and fuses."""
    moved: dict[IterVar, IterVar] = {}
    for stage in (*sch.stages, *sch.groups):
        parent, point = stage.attach_stage, stage.attach_ivar
        if stage.attach_type != AttachType.SCOPE or parent is None or point is None or point in moved:
            continue
        if not any(iv is point for iv in parent.leaf_iter_vars):
            moved[point] = _follow(parent, point)
    _move_attach_points(sch, moved)


def _follow(stage: Stage, point: IterVar) -> IterVar:
    """The innermost loop that `point` became."""
    for relation in stage.relations:  # in the order in which they were made
        if isinstance(relation, Fuse) and point is relation.inner:
            point = relation.fused
        elif isinstance(relation, Split) and point is relation.parent:
            point = relation.inner
    return point


def _move_attach_points(sch: Schedule, moved: dict[IterVar, IterVar]) -> None:
    if not moved:
        return
    for stage in (*sch.stages, *sch.groups):
        point = stage.attach_ivar
        if stage.attach_type == AttachType.SCOPE and point is not None and point in moved:
            stage.attach_ivar = moved[point]
