"""Schedules of TE, TensorIR and CINN, and tilings, through the protocol of `ir.schedulable`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import cinn, te, tir
from tvmagic.operators.operator import as_operator

KINDS = ("te", "tir", "cinn")


def schedule(kind: str) -> Any:
    a = te.placeholder((8, 4), name="A")
    b = te.compute((8, 4), lambda i, j: a[i, j] + 1, name="B")
    if kind == "te":
        return te.create_schedule(b.op)
    sch = tir.Schedule(te.create_prim_func([a, b]))
    return sch if kind == "tir" else cinn.IRSchedule(sch)


@pytest.mark.parametrize("kind", KINDS)
def test_schedules_print_in_every_notation(kind: str) -> None:
    s = schedule(kind)
    assert [p.name for p in s.parameters] == ["A", "B"]
    assert "for i, j in T.grid(8, 4):" in s.text("tvmscript")
    assert "for (i, 0, 8)" in s.text("classic")
    assert s.text() == s.text("cinn" if kind == "cinn" else "tvmscript")
    with refuses("text.unknown_notation"):
        s.text("latex")


@pytest.mark.parametrize("kind", KINDS)
def test_build_accepts_schedules(kind: str) -> None:
    s = schedule(kind)
    x, y = np.ones((8, 4), "float32"), np.zeros((8, 4), "float32")
    tvmagic.build(s, s.parameters if kind == "te" else None)(x, y)
    np.testing.assert_array_equal(y, x + 1)


def test_an_operator_is_not_made_of_a_te_schedule() -> None:
    with refuses("operator.not_an_operator"):
        as_operator(schedule("te"))
    assert as_operator(schedule("cinn")).notation == "cinn"
