"""What each pass makes of functions that tests of it made is what it was, to the letter."""

from __future__ import annotations

from typing import Any

import pytest
from recorded import PARTS, answer, check

from tvmagic import tir
from tvmagic.passes import PassContext
from tvmagic.script import from_source


def answers(row: dict[str, Any]) -> dict[str, str]:
    mod = from_source(row["source"])
    make = getattr(tir.transform, row["pass"].removeprefix("tir."))
    with PassContext(config=row["config"]):
        return {row["pass"]: answer(lambda: make(**row["options"])(mod).script(show_meta=True))}


@pytest.mark.parametrize("part", range(PARTS))
def test_passes(part: int) -> None:
    check("passes", part, answers)
