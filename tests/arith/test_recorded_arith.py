"""What the passes that ask the most of arithmetic make of functions is what it was."""

from __future__ import annotations

from typing import Any

import pytest
from recorded import PARTS, answer, check, pass_answer

from tvmagic import tir


def answers(row: dict[str, Any]) -> dict[str, str]:
    if "pass" not in row:
        scope: dict[str, Any] = {"tir": tir}
        exec(row["source"], scope)
        return {"scheduled": answer(scope["sch"].mod.script)}
    return pass_answer(row)


@pytest.mark.parametrize("part", range(PARTS))
def test_passes(part: int) -> None:
    check("arith", part, answers)
