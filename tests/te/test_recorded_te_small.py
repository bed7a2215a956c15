"""What a few calls make of small programs is what it was: bounds, statements, what is refused and with which words.

Where the result can be compiled, it was that of the program without the calls when it was recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from recorded import PARTS, check

from tvmagic import te, tir
from tvmagic.errors import DefectError, TVMagicError
from tvmagic.passes import PassContext, Record, recording, run_step


def answers(row: dict[str, Any]) -> dict[str, str]:
    beyond = bool(row.get("beyond"))
    with PassContext(config={"te.tight_split": beyond, "te.exact_unions": beyond}):
        return _answers(row)


def _answers(row: dict[str, Any]) -> dict[str, str]:
    scope: dict[str, Any] = {"te": te, "tir": tir}
    exec(row["source"], scope)
    found = {"refused": "\n".join(_refused(row["calls"], scope))}
    s = scope["s"]
    record = Record() if row.get("notes") else None
    with recording(record=record) if record is not None else nullcontext():
        found["bounds"] = _outcome(lambda: run_step("bounds", lambda: _bounds(s.normalize())))
        found["statement"] = _outcome(lambda: run_step("statement", lambda: _statement(s.normalize())))
    if record is not None:
        found["notes"] = "\n".join(f"{note.topic}: {note.text} {note.facts}" for note in record.notes())
    return found


def _refused(calls: list[str], scope: dict[str, Any]) -> list[str]:
    """Make the calls; those that are refused, with the message."""
    found = []
    for call in calls:
        try:
            exec(call, scope)
        except DefectError:
            raise
        except TVMagicError as error:
            found.append(f"{call}: {_message(error)}")
    return found


def _message(error: TVMagicError) -> str:
    return f"{type(error).__name__}: {error.message}" + (f" ({error.hint})" if error.hint else "")


def _outcome(make: Callable[[], Any]) -> str:
    try:
        return str(make())
    except DefectError:
        raise
    except TVMagicError as error:
        return _message(error)


def _bounds(s: Any) -> str:
    ranges = te.schedule.InferBound(s)
    axes = [(stage.op.name, iv) for stage in s.stages for iv in stage.all_iter_vars if iv in ranges]
    return "\n".join(f"{name}: {iv.var.name} {ranges[iv].min} {ranges[iv].extent}" for name, iv in axes)


def _statement(s: Any) -> Any:
    return te.schedule.ScheduleOps(s, te.schedule.InferBound(s), False)


@pytest.mark.parametrize("part", range(PARTS))
def test_small_programs(part: int) -> None:
    check("te_small", part, answers)
