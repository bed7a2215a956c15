"""The third to sixth set of planted mistakes and of schedules without one, for two processors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any

import planted_fields
import planted_kinds
import planted_learners
import planted_traps
import pytest
from planted import unexpected
from planted_kinds import Kind, cell
from test_planted_others import faster, mended

from tvmagic.explain import CODES, Explanation, explain
from tvmagic.operators import Operator, Version, operator
from tvmagic.operators.scheduling import schedule
from tvmagic.target import resolved

TARGETS = {"avx512": "llvm -mcpu=skylake-avx512", "avx2": "llvm -mcpu=haswell"}


@cache
def _kernel(text: str) -> Operator:
    return operator("k", text)


@dataclass(frozen=True)
class Planted:
    """A set: its file in `tests/support` with KERNELS, BAD and GOOD, and of how many it has to be.

    quick_bad, quick_good: the names of those that the normal tests look at, for the processors of the two in `quick`.
    without_call: mistakes that are named although no call helps much.
    excepted: by name and processor, why one is no case there.
    """

    file: ModuleType
    size: tuple[int, int]
    quick: tuple[str, str]
    quick_bad: tuple[str, ...]
    quick_good: tuple[str, ...]
    without_call: str
    excepted: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def version(self, kind: Kind, target: str) -> Version:
        """The planted schedule."""
        lanes = resolved(target).machine.lanes("float32")
        return schedule(_kernel(self.file.KERNELS[kind.kernel]), cell(kind, lanes), "planted")

    def explained(self, kind: Kind, target: str) -> Explanation:
        """What is said of it for one of TARGETS; the test is skipped if it is excepted there."""
        if why := self.excepted.get((kind.name, target)):
            pytest.skip(why)
        text = TARGETS[target]
        return explain(self.version(kind, text), f"{text} -num-cores={kind.cores}", llvm=False, seconds=120)


SETS = {
    # threads, stages inlined into several, partial sums, queues of stores
    "kinds": Planted(
        planted_kinds,
        (30, 30),
        ("avx2", "avx2"),
        ("softmax exp twice", "stencil columns", "threads inside", "partial sums one by one", "update in two passes"),
        ("softmax rows at once", "layer norm", "dot rfactor", "parallel tiles", "attention output"),
        "blur in the row",  # its stage costs little
    ),
    # threads for few rows, a block moved out, short rows, chains of sums beside pages
    "learners": Planted(
        planted_learners,
        (25, 20),
        ("avx512", "avx512"),
        ("split by 7", "three threads", "tir too deep", "tir split 7"),
        ("gray planar", "pad in fours"),
        "float64 constant",  # a data type is not for a schedule to choose
        {
            (
                "split by 7 from memory",
                "avx512",
            ): "its third cache holds it all, fast enough for the short vectors to show"
        },
    ),
    # sums in any order, sums in memory, threads on columns, another schedule
    "fields": Planted(
        planted_fields,
        (40, 20),
        ("avx2", "avx512"),
        ("tir unit rows, at each row", "tir band in vectors"),
        ("smallest in any order", "tir unit rows in any order"),
        "float64 by a constant",
        {("flip batches plain", "avx2"): "without gathers it takes as long as in tiles, as was measured"},
    ),
    # sums that begin inside the loops that add to them
    "traps": Planted(
        planted_traps,
        (45, 20),
        ("avx2", "avx512"),
        ("tir tn, begun in two loops", "large blur in each row"),
        ("tir tn in tiles", "tn in tiles, threads"),
        "",
        {
            (
                "both ways with j inside",
                "avx2",
            ): "this order costs 7%, as was measured; tiles would help, by less than another schedule is proposed for"
        },
    ),
}


def each(what: str, quick: bool = False) -> Any:
    """`set` and `kind` for all of BAD or GOOD, or for those that the normal tests look at."""

    def names(planted: Planted) -> Iterable[str]:
        return planted.quick_bad if what == "BAD" else planted.quick_good

    rows = [
        pytest.param(planted, kind, id=f"{name}-{kind.name}")
        for name, planted in SETS.items()
        for kind in getattr(planted.file, what)
        if not quick or kind.name in names(planted)
    ]
    return pytest.mark.parametrize(("planted", "kind"), rows)


def check_bad(planted: Planted, kind: Kind, target: str) -> None:
    found = planted.explained(kind, target).findings
    hits = [f for f in found[:2] if f.code in kind.codes]
    assert hits, f"{kind.codes} are not among {[f.code for f in found]}"
    assert hits[0].code in CODES
    if kind.name != planted.without_call:
        assert hits[0].gain >= 1.15
        mended(planted.version(kind, TARGETS[target]), hits[0]).lower()


@each("BAD", quick=True)
def test_a_mistake_is_found(planted: Planted, kind: Kind) -> None:
    check_bad(planted, kind, planted.quick[0])


@pytest.mark.soak
@pytest.mark.parametrize("target", TARGETS)
@each("BAD")
def test_each_mistake_is_found(planted: Planted, kind: Kind, target: str) -> None:
    check_bad(planted, kind, target)


@each("GOOD", quick=True)
def test_a_good_one_has_no_finding(planted: Planted, kind: Kind) -> None:
    assert not unexpected(planted.explained(kind, planted.quick[1]))


@pytest.mark.soak
@pytest.mark.parametrize("target", TARGETS)
@each("GOOD")
def test_no_good_one_has_a_finding(planted: Planted, kind: Kind, target: str) -> None:
    assert not unexpected(planted.explained(kind, target))


@pytest.mark.soak
@each("BAD")
def test_the_call_makes_it_faster(planted: Planted, kind: Kind) -> None:
    """Measured on this machine for this machine."""
    if kind.cores > 1:
        pytest.skip("its threads are those of another machine")
    version = planted.version(kind, "llvm")
    found = [f for f in explain(version, "llvm -num-cores=1", seconds=120).findings[:2] if f.call]
    if not any(f.code in kind.codes for f in found):
        pytest.skip("on this machine it is no mistake by the model")
    assert max(faster(version, mended(version, f)) for f in found) > 0.95


@pytest.mark.parametrize("planted", SETS.values(), ids=SETS)
def test_the_set_is_large(planted: Planted) -> None:
    names = {kind.name for kind in (*planted.file.BAD, *planted.file.GOOD)}
    assert len(planted.file.BAD) >= planted.size[0] and len(planted.file.GOOD) >= planted.size[1]
    assert {*planted.quick_bad, *planted.quick_good, planted.without_call} <= {*names, ""}
