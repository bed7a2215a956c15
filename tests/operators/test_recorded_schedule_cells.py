"""What random `%%schedule` cells become is what it was: steps, programs, races, accesses, what is known while one types,
and what is said of mistakes.

What a version computed was the operator's value in NumPy when it was recorded.
"""

from __future__ import annotations

from typing import Any

import pytest
from recorded import PARTS, answer, check

from tvmagic.errors import DefectError, TVMagicError
from tvmagic.operators import operator
from tvmagic.operators.access import trace_all
from tvmagic.operators.races import hint_of, loops_of, place_of, races_of
from tvmagic.operators.scheduling import schedule
from tvmagic.operators.unfinished import complete_statements, schedule_names, tensor_names


def answers(row: dict[str, Any]) -> dict[str, str]:
    op = operator("op", row["source"])
    typed = row["schedule"][: row["typed"]]
    found = {"typed": answer(lambda: _typed(op, row["source"][: row["typed"]], typed))}
    try:
        version = schedule(op, row["schedule"])
    except DefectError:
        raise
    except TVMagicError as error:
        cause = error.__cause__ or error.__context__
        if cause is not None and not isinstance(cause, TVMagicError):
            return found | {"hint": str(error.hint)}  # Python's own words are not the same in all of its versions
        found["refused"] = f"{error} {type(error.node).__name__} {str(error.node)[:300]}"
        version = op.attempt
        if version is None or version.record is None:
            return found
        return found | {"steps": _steps(version)}
    found["steps"] = _steps(version)
    found["program"] = answer(lambda: loops_of(version))
    found["races"] = answer(lambda: _races(version))
    found["accesses"] = answer(lambda: _accesses(version))
    return found


def _typed(op: Any, cell: str, text: str) -> str:
    """What is known after a part of each of the two cells was typed."""
    names = schedule_names(op, text, {})
    shown = [f"{name}: {type(value).__name__}" for name, value in names.items()]
    known = {name: line for name, line in tensor_names(cell).items() if isinstance(line, str)}
    return "\n".join([*sorted(shown), str(known), f"{len(list(complete_statements(text)))} statements"])


def _steps(version: Any) -> str:
    return "\n".join(f"{step.kind} {step.name} {step.span}" for step in version.record if step.kind == "schedule")


def _races(version: Any) -> str:
    return "\n".join(f"{r.text} {r.certain} {hint_of(r)} {place_of(r, version)}" for r in races_of(version))


def _accesses(version: Any) -> str:
    function = loops_of(version)
    if function is None:
        return ""
    buffers = [b.name for b in function.buffer_map.values()]
    trace = trace_all(function.body, buffers, 60)
    return "\n".join(f"{name}: {trace.of(name)}" for name in buffers)


@pytest.mark.parametrize("part", range(PARTS))
def test_schedule_cells(part: int) -> None:
    check("schedule_cells", part, answers)
