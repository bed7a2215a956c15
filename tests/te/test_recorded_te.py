"""What is inferred, generated and lowered for random schedules of tensor expressions is what it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from recorded import PARTS, answer, check

import tvmagic
from tvmagic import te, tir
from tvmagic.passes import PassContext


def answers(row: dict[str, Any]) -> dict[str, str]:
    scope: dict[str, Any] = {"np": np, "tvmagic": tvmagic, "te": te, "tir": tir}
    exec(row["source"], scope)
    s, args = scope["s"], [scope[name] for name in row["args"]]
    with PassContext(config={"te.tight_split": row["beyond"], "te.exact_unions": row["beyond"]}):
        return {
            "bounds": answer(lambda: _bounds(s.normalize())),
            "lowered": answer(lambda: tvmagic.lower(s, args).script()),
        }


def _bounds(s: Any) -> str:
    ranges = te.schedule.InferBound(s)
    axes = [(stage.op.name, iv) for stage in s.stages for iv in stage.all_iter_vars if iv in ranges]
    return "\n".join(f"{name}: {iv.var.name} {ranges[iv].min} {ranges[iv].extent}" for name, iv in axes)


@pytest.mark.parametrize("part", range(PARTS))
def test_random_schedules(part: int) -> None:
    check("te", part, answers)
