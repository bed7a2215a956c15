"""Planted mistakes are found, with a call that is accepted and helps; schedules without one get no finding."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from planted import KERNELS, PLANTED, kernel, unexpected
from sampling import every

from benchmarks.model_ranks import measured_on
from tvmagic.codegen import last_program
from tvmagic.explain import CODES, Explanation, Finding, explain
from tvmagic.ir import PrimFunc
from tvmagic.model.program_model import model
from tvmagic.notebook.machine import auto_source
from tvmagic.operators import Version
from tvmagic.operators.scheduling import schedule
from tvmagic.target import resolved

TARGETS = {"avx512": "llvm -mcpu=skylake-avx512 -num-cores=4", "avx2": "llvm -mcpu=haswell -num-cores=4"}
QUICK = (0, 3, 7, 10, 13, 18, 24, 26, 28, 30, 32, 34, 38, 40, 49, 52)  # one for each code; `make soak` tries all

WITHOUT_CALL = {25}  # LLVM keeps the stage in registers, and memory is what limits it: named, but no call helps


def explained(version: Version, target: str = TARGETS["avx512"]) -> Explanation:
    return explain(version, target, llvm=False, seconds=120)


def pasted(version: Version, finding: Finding) -> Version:
    """The version of the cell with a finding's call in it."""
    assert version.source is not None
    lines = version.source.text.split("\n")
    if finding.replaces:
        lines[finding.cell_line - 1 : finding.cell_line - 1 + finding.lines] = [finding.call]
    else:
        lines.append(finding.call)
    assert "\n".join(lines) == finding.cell
    return schedule(version.operator, "\n".join(lines[1:]), f"{version.name}_mended", version.scope)


def function(version: Version, target: str | None = None) -> PrimFunc:
    """The first function of a version's last program."""
    return next(iter(last_program(version.lower(), target).functions.values()))


def gains_here(version: Version, better: Version) -> bool:
    """Whether a call gains by the model of this machine, if it runs code for another processor (`TVMAGIC_TARGET`)."""
    machine = measured_on(resolved(None).machine)
    before, after = (model(function(v), machine).time for v in (version, better))
    return before >= 1.14 * after


def modelled(version: Version, target: str) -> float:
    return model(function(version, target), resolved(target).machine).time


def check(number: int, target: str) -> tuple[Version, Version]:
    """That a planted mistake is among the first two findings, with a call that helps; both versions."""
    planted = PLANTED[number]
    version = schedule(kernel(planted.kernel), planted.cell, f"planted{number}")
    found = explained(version, target).findings
    hits = [f for f in found[:2] if f.code in planted.codes]
    assert hits, f"{planted.codes} are not among {[f.code for f in found]}"
    if number in WITHOUT_CALL:
        return version, version
    assert hits[0].call and hits[0].gain >= 1.15 and hits[0].code in CODES
    better = pasted(version, hits[0])
    assert modelled(version, target) >= 1.14 * modelled(better, target)
    return version, better


@pytest.mark.parametrize("number", QUICK, ids=lambda n: f"{n}-{PLANTED[n].kernel}")
def test_a_planted_mistake_is_found(number: int) -> None:
    check(number, TARGETS["avx512"])


@pytest.mark.soak
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", range(len(PLANTED)), ids=lambda n: f"{n}-{PLANTED[n].kernel}")
def test_each_planted_mistake_is_found(number: int, target: str) -> None:
    check(number, TARGETS[target])


@pytest.mark.soak
@pytest.mark.parametrize("number", range(len(PLANTED)), ids=lambda n: f"{n}-{PLANTED[n].kernel}")
def test_the_call_makes_it_faster(number: int) -> None:
    """Measured on this machine for this machine, interleaved."""
    planted = PLANTED[number]
    version = schedule(kernel(planted.kernel), planted.cell, f"planted{number}")
    found = [f for f in explain(version, seconds=120).findings if f.call and f.code in planted.codes]
    if not found or not gains_here(version, better := pasted(version, found[0])):
        pytest.skip("on this machine it is no mistake by the model")
    inputs = version.operator.random_inputs()
    outputs = version(*inputs)
    np.testing.assert_allclose(better(*inputs), outputs, rtol=1e-3, atol=1e-3)
    best = {v: float("inf") for v in (version, better)}
    for _ in range(9):
        for v in best:
            begin = time.perf_counter()
            v(*inputs, out=outputs)
            best[v] = min(best[v], time.perf_counter() - begin)
    assert best[better] < best[version], f"{found[0].code}: {found[0].call}"


def test_the_planted_cells_cover_the_codes() -> None:
    covered = {code for p in PLANTED for code in p.codes}
    assert (
        set(CODES) - covered <= {"not-parallel", "at-roof", "false-sharing"}
        and len(PLANTED) >= 40
        and len(KERNELS) >= 10
    )


# ---------------------------------------------------------------------------- schedules without a mistake

GOOD = {
    "mm by hand": ("mm", "io, jo, ii, ji = s[C].tile(*C.op.axis, 8, 48)\nk, = s[C].op.reduce_axis\ns[C].reorder(jo, io, k, ii, ji)\ns[C].vectorize(ji)\ns[C].unroll(ii)\ns[C].parallel(jo)"),
    "add by hand": ("add", "i, j = C.op.axis\ns[C].vectorize(s[C].split(j, 16)[1])\ns[C].parallel(i)"),
    "add by LLVM": ("add", "s[C].parallel(C.op.axis[0])"),
    "blur by hand": ("blur", "io, ii = s[V].split(V.op.axis[0], 32)\ns[V].vectorize(s[V].split(V.op.axis[1], 16)[1])\ns[H].compute_at(s[V], io)\ns[H].vectorize(s[H].split(H.op.axis[1], 16)[1])\ns[V].parallel(io)"),
    "blur inlined": ("blur", "s[H].compute_inline()\ns[V].vectorize(s[V].split(V.op.axis[1], 16)[1])\ns[V].parallel(V.op.axis[0])"),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_a_good_schedule_has_no_finding(name: str) -> None:
    kernel_name, cell = GOOD[name]
    assert not unexpected(explained(schedule(kernel(kernel_name), cell, "good")))


INSTANT = ["mm", "mmt", "add", "rows", "small", "blur", "heavy", "mv", "bytes"]


@pytest.mark.parametrize(("target", "name"), every(3, itertools.product(TARGETS, INSTANT)))
def test_an_instant_schedule_has_no_finding(target: str, name: str) -> None:
    op = kernel(name)
    text, _ = auto_source(op, TARGETS[target])
    found = explained(schedule(op, text.split("\n", 1)[1], f"auto_{target}"), TARGETS[target])
    assert not unexpected(found)
    assert found.loops


def test_what_is_at_the_roof_is_called_so() -> None:
    op = kernel("mm")
    text, _ = auto_source(op, TARGETS["avx512"])
    (finding,) = explained(schedule(op, text.split("\n", 1)[1], "auto_roof")).findings
    assert finding.code == "at-roof" and not finding.call and "only another algorithm" in finding.text
