"""The second set of planted mistakes and of schedules without one, for three processors of four cores."""

from __future__ import annotations

import time

import numpy as np
import pytest
from planted import unexpected
from planted_others import GOOD, INSTANT, PLANTED, kernel
from test_planted import gains_here

from tvmagic.explain import CODES, Explanation, Finding, explain
from tvmagic.notebook.machine import auto_source
from tvmagic.operators import Version
from tvmagic.operators.scheduling import schedule
from tvmagic.target import resolved

TARGETS = {
    "avx512": "llvm -mcpu=skylake-avx512 -num-cores=4",
    "avx2": "llvm -mcpu=haswell -num-cores=4",
    "v2": "llvm -mcpu=x86-64-v2 -num-cores=4",
}
# One for each mechanism: odd sizes, symbolic sizes, inlined stages, shared lines, threads started inside, gathers, maxima.
QUICK = [3, 15, 23, 24, 34, 39, 44, 50, 60, 66, 67]


def explained(version: Version, target: str) -> Explanation:
    return explain(version, target, llvm=False, seconds=120)


def mended(version: Version, finding: Finding) -> Version:
    """The version of the cell with the finding's call in it."""
    return schedule(version.operator, finding.cell.split("\n", 1)[1], f"{version.name}_mended", version.scope)


def check(number: int, target: str) -> None:
    planted = PLANTED[number]
    if planted.but == target:
        pytest.skip("no mistake on this processor")
    version = schedule(kernel(planted.kernel), planted.cell, f"planted{number}")
    found = explained(version, TARGETS[target]).findings
    hits = [f for f in found[:2] if f.code in planted.codes]
    assert hits, f"{planted.codes} are not among {[f.code for f in found]}"
    assert hits[0].call and hits[0].gain >= 1.15 and hits[0].code in CODES
    mended(version, hits[0]).lower()


@pytest.mark.parametrize("number", QUICK, ids=lambda n: f"{n}-{PLANTED[n].kernel}")
def test_a_planted_mistake_is_found(number: int) -> None:
    check(number, "avx2")


@pytest.mark.soak
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", range(len(PLANTED)), ids=lambda n: f"{n}-{PLANTED[n].kernel}")
def test_each_planted_mistake_is_found(number: int, target: str) -> None:
    check(number, target)


def faster(version: Version, better: Version, turns: int = 9) -> float:
    """How many times as fast the second is, by least times, interleaved."""
    inputs = version.operator.random_inputs(0, 500)
    outputs = version(*inputs)
    for got, expected in zip(_list(better(*inputs)), _list(outputs)):
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)
    best = {v: float("inf") for v in (version, better)}
    for _ in range(turns):
        for v in best:
            begin = time.perf_counter()
            v(*inputs, out=outputs)
            best[v] = min(best[v], time.perf_counter() - begin)
    return best[version] / best[better]


def _list(value: object) -> list[np.ndarray]:
    return [np.asarray(v) for v in (value if isinstance(value, (tuple, list)) else [value])]


@pytest.mark.soak
@pytest.mark.parametrize("number", range(len(PLANTED)), ids=lambda n: f"{n}-{PLANTED[n].kernel}")
def test_the_call_makes_it_faster(number: int) -> None:
    """Measured on this machine for this machine; what is about threads needs cores that nobody else uses."""
    planted = PLANTED[number]
    version = schedule(kernel(planted.kernel), planted.cell, f"planted{number}")
    found = [f for f in explain(version, seconds=120).findings[:2] if f.call and f.code in planted.codes]
    if not found or "parallel" in planted.cell or "parallel" in found[0].call:
        pytest.skip("on this machine it is no mistake by the model, or it is one of threads")
    better = mended(version, found[0])
    if not gains_here(version, better):
        pytest.skip("on this machine it is no mistake by the model")
    assert faster(version, better) > 0.95, f"{found[0].code}: {found[0].call}"


# ---------------------------------------------------------------------------- schedules without a mistake


def check_good(number: int, target: str) -> None:
    name, cell = GOOD[number]
    lanes = resolved(TARGETS[target]).machine.lanes("float32")
    version = schedule(kernel(name), cell.replace("LANES", str(lanes)), f"good{number}")
    assert not unexpected(explained(version, TARGETS[target]))


@pytest.mark.parametrize("number", [1, 5, 11, 12, 14], ids=lambda n: f"{n}-{GOOD[n][0]}")
def test_a_good_schedule_has_no_finding(number: int) -> None:
    check_good(number, "avx2")


@pytest.mark.soak
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", range(len(GOOD)), ids=lambda n: f"{n}-{GOOD[n][0]}")
def test_no_good_schedule_has_a_finding(number: int, target: str) -> None:
    check_good(number, target)


# The instant schedules of these leave something, and what is found there makes them faster when it is measured.
LEFT = {"turn3", "sigmoids", "free"}


@pytest.mark.soak
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", sorted(set(INSTANT) - LEFT))
def test_an_instant_schedule_has_no_finding(name: str, target: str) -> None:
    op = kernel(name)
    text, _ = auto_source(op, TARGETS[target])
    assert not unexpected(explained(schedule(op, text.split("\n", 1)[1], f"auto_{target}"), TARGETS[target]))


def test_the_set_is_large() -> None:
    assert len(PLANTED) >= 60 and len(GOOD) + len(INSTANT) - len(LEFT) >= 40
    assert sum("sch." in p.cell for p in PLANTED) >= 12
