"""Compiled programs give what NumPy gives."""

from __future__ import annotations

from typing import Any

import pytest
from golden import rows
from te_execution import largest_difference

from tvmagic import te, tir

TOLERANCE = 2e-5  # float32 sums of some hundred terms, in another order


def difference_of(source: str) -> float:
    scope: dict[str, Any] = {"te": te, "tir": tir}
    exec(source, scope)
    return largest_difference(scope["s"], scope["args"])


SAMPLE = [c for c in rows("te") if "bounds" in c and c["family"] != "symbolic"][::24]


@pytest.mark.parametrize("case", SAMPLE, ids=lambda c: c["id"])
def test_sample(case: dict[str, Any]) -> None:
    assert difference_of(case["source"]) < TOLERANCE


@pytest.mark.soak
def test_every_program_that_lowers() -> None:
    wrong = []
    for case in rows("te"):
        if "lowered" in case and not difference_of(case["source"]) < TOLERANCE:
            wrong.append(case["id"])
    assert wrong == []
