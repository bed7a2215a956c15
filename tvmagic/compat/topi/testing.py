"""Schedules that tests of operators take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic import te


def get_injective_schedule(target: Any) -> Callable[[Any], Any]:
    """A function from outputs to a schedule: what they read is inlined, the elements are computed in parallel."""

    def schedule(outs: Any) -> Any:
        outputs = list(outs) if isinstance(outs, (list, tuple)) else [outs]
        s = te.create_schedule([output.op for output in outputs])
        te.schedule.AutoInlineInjective(s)
        for output in outputs:
            if len(output.op.axis) > 1:
                s[output].parallel(s[output].fuse(*output.op.axis))
            elif output.op.axis:
                s[output].parallel(output.op.axis[0])
        return s

    return schedule
