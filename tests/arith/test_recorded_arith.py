"""What the passes that ask the most of arithmetic make of functions is what it was."""

from __future__ import annotations

from typing import Any

import pytest
from recorded import PARTS, answer, check

from tvmagic import tir
from tvmagic.passes import PassContext
from tvmagic.script import from_source


def answers(row: dict[str, Any]) -> dict[str, str]:
    if "pass" not in row:
        scope: dict[str, Any] = {"tir": tir}
        exec(row["source"], scope)
        return {"scheduled": answer(scope["sch"].mod.script)}
    mod = from_source(row["source"])
    make = getattr(tir.transform, row["pass"].removeprefix("tir."))
    with PassContext(config=row["config"]):
        return {row["pass"]: answer(lambda: make(**row["options"])(mod).script(show_meta=True))}


@pytest.mark.parametrize("part", range(PARTS))
def test_passes(part: int) -> None:
    check("arith", part, answers)
