"""Each check of each primitive refuses what it is for, says where, and leaves the schedule as it was."""

from __future__ import annotations

import functools
import re
import traceback
from typing import Any

import pytest
from schedule_check_sites import checks, reasons, units
from schedule_refusal_cases import CASES, OUTSIDE, UNREACHABLE, Case
from schedule_refusal_intrinsics import INTRINSICS, VECTORS
from schedule_refusal_programs import PROGRAMS

from tvmagic import tir
from tvmagic.script import from_source
from tvmagic.tir.schedule import ScheduleError

_HEADER = "from tvm.script import ir as I\nfrom tvm.script import tir as T\n"
_TEXTS = {**PROGRAMS, **VECTORS}
_parsed: dict[str, Any] = {}


def _program(name: str) -> Any:
    if name not in _parsed:
        _parsed[name] = from_source(_HEADER + _TEXTS[name])
    return _parsed[name]


@pytest.fixture(scope="module", autouse=True)
def intrinsics() -> None:
    """What the cases tensorize with; the implementations do not matter."""
    for name, text in INTRINSICS.items():
        described = from_source(_HEADER + text)
        tir.TensorIntrin.register(f"test.{name}", described, described, override=True)
    rootless = from_source(_HEADER + "@T.prim_func(private=True)\ndef f():\n    T.evaluate(0)\n")
    tir.TensorIntrin.register("test.rootless", rootless, rootless, override=True)


@functools.cache
def refuse(case: Case) -> tuple[tir.Schedule, ScheduleError]:
    """Run a case; the schedule and the error of its last line. The schedule must be as it was before that line."""
    sch = tir.Schedule(_program(case.program), debug_mask="all")
    scope = {"sch": sch, "B": sch.get_block, "L": lambda name: sch.get_loops(name), "tir": tir}
    *before, last = case.lines.splitlines()
    exec("\n".join(before), scope)
    mod, srefs = sch.mod, dict(sch.state.srefs)
    places = {s: (s.stmt, s.parent, s.seq_index) for s in srefs.values()}
    count = len(sch.trace.insts)
    with pytest.raises(ScheduleError) as caught:
        exec(last, scope)
    assert sch.mod is mod and sch.state.srefs == srefs
    assert places == {s: (s.stmt, s.parent, s.seq_index) for s in srefs.values()}
    assert all(inst.kind.is_pure for inst in sch.trace.insts[count:])  # looked up by the arguments of the line
    sch.state.debug_verify()
    return sch, caught.value


def _underlined(text: str) -> list[str]:
    lines = text.split("\n")
    return [a.strip() for a, b in zip(lines, lines[1:]) if set(b.strip()) == {"^"}]


def _is_head(line: str, kind: str, name: str) -> bool:
    if kind == "block":
        return f'with T.block("{name}"' in line
    return re.match(rf"for (\w+, )*{name}(, \w+)* in ", line) is not None


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_refused(case: Case) -> None:
    sch, error = refuse(case)
    assert error.code in case.code.split(" or ")
    text = str(error)
    assert text.startswith(f"ScheduleError in `{error.primitive}`: {error.message}") or error.primitive is None
    underlined = _underlined(text)
    for mark in case.marks:
        kind, name = mark.split()
        assert f"`{name}`" in text
        assert any(_is_head(line, kind, name) for line in underlined), mark


def _raised_at(error: BaseException | None) -> set[tuple[str, int]]:
    """The files and lines in which an error, and those it was raised for, passed through."""
    found: set[tuple[str, int]] = set()
    while error is not None:
        found |= {(f.filename.rsplit("/", 1)[-1], f.lineno or 0) for f in traceback.extract_tb(error.__traceback__)}
        error = error.__context__
    return found


def test_every_check_has_a_case() -> None:
    """Each place of each primitive that refuses is reached by a case, or listed with the reason why it cannot be."""
    declared = checks()
    missing = {f"{method}: {site}" for method, sites in declared.items() for site in sites}
    anywhere = {site for those in units().values() for unit in those for site in unit.sites}
    left = set(anywhere)
    for case in CASES:
        _, error = refuse(case)
        lines = _raised_at(error)
        hit = {s for s in anywhere if any(f == s.file and s.first <= line <= s.last for f, line in lines)}
        assert hit, f"{case.id} raised nowhere known"
        left -= hit
        missing -= {f"{error.primitive}: {site}" for site in hit}
    unreached = {m for m in missing if not any(m.startswith(f"{a}: ") and b in m for a, b in UNREACHABLE)}
    assert not unreached, "no case for\n" + "\n".join(sorted(unreached))
    idle = {(a, b) for a, b in UNREACHABLE if not any(m.startswith(f"{a}: ") and b in m for m in missing)}
    assert not idle, f"reached after all: {idle}"
    # what is left belongs to no primitive: calls of the state itself
    assert {s.words for s in left if not any(s in sites for sites in declared.values())} <= OUTSIDE


@pytest.mark.parametrize("words", reasons())
def test_every_reason_is_given(words: str) -> None:
    """Each reason why a block is not complete, or no reduction, is in the message of a case."""
    parts = words.split(" ... ")
    assert any(all(part in refuse(case)[1].message for part in parts) for case in CASES)


def test_the_root_has_no_scope() -> None:
    state = tir.ScheduleState(_program("chain"))
    (root,) = state.functions
    with pytest.raises(ScheduleError, match="`root`"):
        state.scope_of(root)
