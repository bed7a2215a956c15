"""Compiled programs give what NumPy gives."""

from __future__ import annotations

from typing import Any

import pytest
from golden import rows
from te_execution import largest_difference
from te_generator import Program

from tvmagic import te, tir
from tvmagic.errors import TVMagicError

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


def run_random(seeds: range) -> tuple[int, int]:
    """How many random programs ran, and how many were refused; a wrong result is an error."""
    ran = refused = 0
    for seed in seeds:
        program = Program(seed)
        try:
            worst = largest_difference(program.s, program.args, seed, program.outputs)
        except TVMagicError:
            refused += 1
            continue
        assert worst < 1e-4, f"seed {seed}: off by {worst} after {program.calls}"
        ran += 1
    return ran, refused


def test_random_programs() -> None:
    ran, refused = run_random(range(25))
    assert refused <= ran // 5


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_many_random_programs(part: int) -> None:
    ran, refused = run_random(range(1000 + 100 * part, 1100 + 100 * part))
    assert ran + refused == 100 and refused <= 20
