"""What random schedules of TensorIR make of their functions, and what lowering makes of that, is what it was."""

from __future__ import annotations

from typing import Any

import pytest
from recorded import PARTS, answer, check

import tvmagic
from tvmagic import te, tir


def answers(row: dict[str, Any]) -> dict[str, str]:
    scope: dict[str, Any] = {"tvmagic": tvmagic, "te": te, "tir": tir}
    exec(row["source"], scope)
    sch = scope["sch"]
    return {
        "scheduled": answer(sch.mod.script),
        "trace": answer(lambda: sch.trace),
        "lowered": answer(lambda: tvmagic.lower(sch.mod).script()),
    }


@pytest.mark.parametrize("part", range(PARTS))
def test_random_schedules(part: int) -> None:
    check("tir", part, answers)
