"""The loops that a TE schedule stands for."""

from __future__ import annotations

from typing import Any

from tvmagic import te
from tvmagic.passes import Record, recording


def program_of_schedule(sch: Any) -> Any:
    """The loops that a TE schedule stands for, as a statement: bounds inferred, loops made.

    Raises the error of InferBound or ScheduleOps where the schedule is not complete.
    """
    with recording(record=Record()):
        normalized = sch.normalize()
        return te.schedule.ScheduleOps(normalized, te.schedule.InferBound(normalized))
