"""What one or two calls of a schedule make of small programs is what it was; what they refuse, they refuse."""

from __future__ import annotations

from typing import Any

import pytest
from recorded import PARTS, answer, check

import tvmagic
from tvmagic import te, tir


def answers(row: dict[str, Any]) -> dict[str, str]:
    return {call: answer(lambda: _lowered(row["source"], call)) for call in row["calls"]}


def _lowered(source: str, call: str) -> str:
    scope: dict[str, Any] = {"te": te, "tir": tir}
    exec(source, scope)
    exec(call, scope)
    s, args = scope["s"], scope["args"]
    return str(tvmagic.lower(s, args, simple_mode=True))


@pytest.mark.parametrize("part", range(PARTS))
def test_calls(part: int) -> None:
    check("te_calls", part, answers)
