"""What TVM 0.19 prints for schedules and functions of tensor expressions, to the letter."""

from __future__ import annotations

import re
from typing import Any

import pytest
from golden import rows

from tvmagic import te, tir
from tvmagic.errors import TVMagicError


def run(source: str) -> dict[str, Any]:
    scope: dict[str, Any] = {"te": te, "tir": tir}
    exec(source, scope)
    return scope


def check_schedule(case: dict[str, Any]) -> None:
    s = run(case["source"])["s"]
    if "infer" in case:
        with pytest.raises(TVMagicError, match="stage `"):
            te.schedule.InferBound(s.normalize())
        return
    n = s.normalize()
    bounds = te.schedule.InferBound(n)
    found = [
        {
            "stage": stage.op.name,
            "attach": str(int(stage.attach_type)),
            "iters": [
                [iv.var.name, str(bounds[iv].min), str(bounds[iv].extent)] for iv in stage.all_iter_vars if iv in bounds
            ],
        }
        for stage in n.stages
    ]
    assert found == case["bounds"]
    assert str(te.schedule.ScheduleOps(n, bounds, False)).strip() == case["schedule_ops"].strip()
    assert str(te.schedule.ScheduleOps(n, bounds, True)).strip() == case["schedule_ops_trivial_loops"].strip()


def check_function(case: dict[str, Any]) -> None:
    func = te.create_prim_func(run(case["te_source"])["args"])
    text = re.sub(r"^(# from tvm.*\n)+\n?", "", func.script(show_meta=False))
    assert text.strip() == case["before"].strip()


def failures(name: str, key: str, check: Any) -> list[str]:
    failed = []
    for case in rows(name):
        if key in case:
            try:
                check(case)
            except Exception as error:
                failed.append(f"{case['id']}: {type(error).__name__}")
    return failed


def test_all_schedules() -> None:
    assert failures("te", "source", check_schedule) == []


def test_all_functions() -> None:
    assert failures("tir", "te_source", check_function) == []
