"""What the tests of TVM's behaviour in schedules share: programs as text, and a schedule's program and results checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from pass_checks import parse, script
from schedule_cases import random_arguments

import tvmagic
from tvmagic.ir import PrimFunc
from tvmagic.tir import Schedule
from tvmagic.tir.schedule import BlockRV
from tvmagic.tir.schedule.testing import verify_trace_roundtrip


def schedule(text: str) -> Schedule:
    """The schedule of the function of a text, every step verified."""
    return Schedule(parse(text), debug_mask="all")


def loops(sch: Schedule, name: str) -> list[Any]:
    """The loops of the block with this name."""
    return sch.get_loops(sch.get_block(name))


def block(sch: Schedule, name: Any) -> Any:
    """The block with this name, or of this variable, as it is now."""
    return sch.get(name if isinstance(name, BlockRV) else sch.get_block(name))


def expect(sch: Schedule, before: str, after: str, *, run: bool = True) -> None:
    """The program is `after`, its trace replays to it, and it computes what `before` does."""
    got = sch.mod["main"]
    assert script(got) == script(parse(after).with_attr("global_symbol", "main"))
    verify_trace_roundtrip(sch, parse(before))
    if run:
        same_results(parse(before), got)


def same_results(before: PrimFunc, after: PrimFunc) -> None:
    """Both functions leave the same in all their arguments."""
    given = random_arguments(before)
    want, have = [a.copy() for a in given], [a.copy() for a in given]
    tvmagic.build(before)(*want)
    tvmagic.build(after)(*have)
    for one, other in zip(want, have):
        np.testing.assert_allclose(one, other, 1e-4, 1e-4)
