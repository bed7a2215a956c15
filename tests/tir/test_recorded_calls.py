"""What one call of each primitive makes of small functions is what it was; what it refuses, it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from recorded import PARTS, answer, check

from tvmagic import tir
from tvmagic.script import from_source


def answers(row: dict[str, Any]) -> dict[str, str]:
    func = from_source(row["source"])
    return {call: answer(lambda: _after(func, call)) for call in row["calls"]}


def _after(func: Any, call: str) -> str:
    sch = tir.Schedule(func)
    scope = {"sch": sch, "B": sch.get_block, "L": lambda name: sch.get_loops(sch.get_block(name)), "tir": tir}
    exec(call, scope)
    return f"{sch.mod.script()}\n{sch.trace}"


@pytest.mark.parametrize("part", range(PARTS))
def test_calls(part: int) -> None:
    check("calls", part, answers)
