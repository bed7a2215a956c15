"""The fifth set of planted mistakes and of schedules without one, for two processors."""

from __future__ import annotations

import pytest
from planted_fields import BAD, GOOD, kernel
from planted_kinds import Kind, cell
from test_planted_others import faster, mended, unexpected

from tvmagic.codegen.target import resolved
from tvmagic.explain import CODES, Explanation, explain
from tvmagic.operators import Version
from tvmagic.operators.scheduling import schedule

TARGETS = {"avx512": "llvm -mcpu=skylake-avx512", "avx2": "llvm -mcpu=haswell"}
# What the other sets have not: sums in any order, sums in memory, threads on columns, another schedule.
QUICK_BAD = ["tir unit rows, at each row", "tir band in vectors"]
QUICK_GOOD = ["smallest in any order", "tir unit rows in any order"]
WITHOUT_CALL = {"float64 by a constant"}  # a data type is not for a schedule to choose


def version_of(kind: Kind, target: str) -> Version:
    lanes = resolved(target).machine.lanes("float32")
    return schedule(kernel(kind.kernel), cell(kind, lanes), "planted")


def explained(kind: Kind, target: str) -> Explanation:
    return explain(version_of(kind, target), f"{target} -num-cores={kind.cores}", llvm=False, seconds=120)


def check_bad(kind: Kind, target: str) -> None:
    found = explained(kind, target).findings
    hits = [f for f in found[:2] if f.code in kind.codes]
    assert hits, f"{kind.codes} are not among {[f.code for f in found]}"
    assert hits[0].code in CODES
    if kind.name not in WITHOUT_CALL:
        assert hits[0].gain >= 1.15
        mended(version_of(kind, target), hits[0]).lower()


@pytest.mark.parametrize("kind", [k for k in BAD if k.name in QUICK_BAD], ids=lambda k: k.name)
def test_a_mistake_is_found(kind: Kind) -> None:
    check_bad(kind, TARGETS["avx2"])


@pytest.mark.soak
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", BAD, ids=lambda k: k.name)
def test_each_mistake_is_found(kind: Kind, target: str) -> None:
    if kind.name == "flip batches plain" and target == "avx2":
        pytest.skip("without gathers it takes as long as in tiles, as was measured")
    check_bad(kind, TARGETS[target])


@pytest.mark.parametrize("kind", [k for k in GOOD if k.name in QUICK_GOOD], ids=lambda k: k.name)
def test_a_good_one_has_no_finding(kind: Kind) -> None:
    assert not unexpected(explained(kind, TARGETS["avx512"]))


@pytest.mark.soak
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", GOOD, ids=lambda k: k.name)
def test_no_good_one_has_a_finding(kind: Kind, target: str) -> None:
    assert not unexpected(explained(kind, TARGETS[target]))


@pytest.mark.soak
@pytest.mark.parametrize("kind", [k for k in BAD if k.cores == 1], ids=lambda k: k.name)
def test_the_call_makes_it_faster(kind: Kind) -> None:
    """Measured on this machine for this machine."""
    version = version_of(kind, "llvm")
    found = [f for f in explain(version, "llvm -num-cores=1", seconds=120).findings[:2] if f.call]
    if not any(f.code in kind.codes for f in found):
        pytest.skip("on this machine it is no mistake by the model")
    assert max(faster(version, mended(version, f)) for f in found) > 0.95


def test_the_set_is_large() -> None:
    assert len(BAD) >= 40 and len(GOOD) >= 20
