"""Programs as users of TVM write them give NumPy's values: plain, scheduled by hand and by `%auto`, for three kinds of CPU."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from outcomes import TARGETS, Argument, check_call
from sampling import every
from written_programs import PROGRAMS, Written

import tvmagic
from tvmagic import te, tir
from tvmagic.auto import auto
from tvmagic.ir import PrimFunc


def modules(written: Written, target: str) -> dict[str, Any]:
    """The program in each of its schedules."""
    given = written.program
    found: dict[str, Any] = {}
    if isinstance(given, PrimFunc):
        found["plain"] = given
        for schedule in written.schedules:
            sch = tir.Schedule(given, debug_mask="all")
            schedule(sch)
            found[schedule.__name__] = sch.mod
        found["auto"] = auto(given, target).mod
        return found
    outputs = [t.op for t in given if not isinstance(t.op, te.PlaceholderOp)][:1]
    found["plain"] = tvmagic.lower(te.create_schedule(outputs), given)
    for schedule in written.schedules:
        s = te.create_schedule(outputs)
        schedule(s)
        found[schedule.__name__] = tvmagic.lower(s, given)
    if not written.te_only:
        found["auto"] = auto(te.create_prim_func(given), target).mod
    return found


def _cases() -> list[Any]:
    """Each program for each target, with checks of its accesses and without; the short run has half of the programs once."""
    ways = [(target, checks) for target in TARGETS for checks in (False, True)]
    return every(2 * len(ways) + 1, [(name, *way) for name in PROGRAMS for way in ways])


@pytest.mark.parametrize(("name", "target", "checks"), _cases())
def test_written_programs(name: str, target: str, checks: bool) -> None:
    written = PROGRAMS[name]()
    inputs = [w is None for w in written.wanted]
    arguments = [
        Argument(w if w is not None else a, not given, written.inexact, start=a if len(inputs) == 1 else None)
        for a, w, given in zip(written.arrays, written.wanted, inputs)
    ]
    for module in modules(written, target).values():
        built = tvmagic.build(module, target=target, check_bounds=checks)
        with np.errstate(all="ignore"):
            check_call(built, arguments, random.Random(0))
