"""What a schedule computes against what is used of it, for a schedule that is not lowered yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tvmagic.ir import IterVar, Range, Stmt
from tvmagic.te.exact.used_elements import StageWaste, stage_waste
from tvmagic.te.schedule.infer_bound import infer_bound
from tvmagic.te.schedule.schedule_ops import schedule_ops

if TYPE_CHECKING:
    from tvmagic.te.schedule.schedule import Schedule


def waste_report(
    sch: Schedule, stmt: Stmt | None = None, ranges: Mapping[IterVar, Range] | None = None
) -> list[StageWaste]:
    """For each stage that a schedule computes, elements computed against elements used.

    Parameters
    ----------
    stmt, ranges: what ScheduleOps and InferBound gave for `sch`, which is normalized then; made
        here if they are not given.
    """
    if stmt is None or ranges is None:
        sch = sch.normalize()
        ranges = infer_bound(sch)
        stmt = schedule_ops(sch, ranges, False)
    return stage_waste(sch, stmt, ranges)
