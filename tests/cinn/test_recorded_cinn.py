"""Random schedules of CINN, their texts, and the TensorIR they become, are what they were."""

from __future__ import annotations

from typing import Any

import pytest
from random_steps import random_moves_of_tiles, random_schedule
from random_texts import random_text
from recorded import PARTS, answer, check
from step_programs import program

from tvmagic import cinn
from tvmagic.cinn.form import to_tensorir
from tvmagic.script import cinn_text, from_cinn

RULES = (cinn.AutoInline, cinn.AutoUnroll, cinn.MultiLevelTiling, cinn.AutoBind)


def answers(row: dict[str, Any]) -> dict[str, str]:
    kind, name, seed = row["source"].split()
    if kind == "text":
        function = from_cinn(*random_text(int(seed)))
        return {"text": answer(lambda: cinn_text(function)), "tensorir": answer(lambda: to_tensorir(function).script())}
    if kind == "rules":
        return {"rules": "\n".join(_applied(rule, name, int(seed)) for rule in RULES)}
    schedule = (random_moves_of_tiles if kind == "moves" else random_schedule)(name, int(seed)).schedule
    return {
        "text": answer(schedule.text),
        "trace": answer(lambda: schedule.trace),
        "tensorir": answer(lambda: to_tensorir(schedule.func).script()),
    }


def _applied(make: Any, name: str, seed: int) -> str:
    schedule = program(name).schedule(seed)
    rule = make(None, seed) if make is cinn.AutoUnroll else make()
    if rule.init(schedule) is cinn.RuleApplyType.CANNOT_APPLY:
        return f"{make.__name__}: no"
    count = rule.number_applicable()
    rule.apply(seed % count)
    return f"{make.__name__}: {count}\n{schedule.text()}"


@pytest.mark.parametrize("part", range(PARTS))
def test_random_schedules(part: int) -> None:
    check("cinn", part, answers)
