"""Compiled programs give what NumPy gives."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from te_execution import largest_difference

from tvmagic import te, tir

SHARED = pathlib.Path(__file__).parents[2].parent / "shared" / "golden"
SAMPLES = pathlib.Path(__file__).parents[1] / "golden"
TOLERANCE = 2e-5  # float32 sums of some hundred terms, in another order


def difference_of(source: str) -> float:
    scope: dict[str, Any] = {"te": te, "tir": tir}
    exec(source, scope)
    return largest_difference(scope["s"], scope["args"])


def cases(path: pathlib.Path) -> list[dict[str, Any]]:
    if not path.exists():
        pytest.skip(f"the golden cases are not here: {path.name}")
    return [json.loads(line) for line in path.read_text().splitlines()]


SAMPLE = [c for c in cases(SAMPLES / "te_sample.jsonl") if "bounds" in c and c["family"] != "symbolic"]


@pytest.mark.parametrize("case", SAMPLE, ids=lambda c: c["id"])
def test_sample(case: dict[str, Any]) -> None:
    assert difference_of(case["source"]) < TOLERANCE


@pytest.mark.soak
def test_every_program_that_lowers() -> None:
    wrong = []
    for case in cases(SHARED / "te.jsonl"):
        if "lowered" in case and not difference_of(case["source"]) < TOLERANCE:
            wrong.append(case["id"])
    assert wrong == []
