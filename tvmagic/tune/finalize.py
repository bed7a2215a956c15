"""The end of a search: the best schedules checked against the whole reference, measured beside the user's own, and kept."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.operators.comparison import CheckResult, as_list, combined, compare
from tvmagic.operators.cpu_contention import rest
from tvmagic.operators.measure import numpy_baseline
from tvmagic.operators.operator import Operator, Version
from tvmagic.operators.races import refuse_races
from tvmagic.passes import Record, recording
from tvmagic.tune.candidate import replay
from tvmagic.tune.measurement_lock import alone
from tvmagic.tune.problem import Problem
from tvmagic.tune.timing import interleaved
from tvmagic.tune.trial import Trial

_FASTER = 0.99  # of the user's time that a schedule may take to replace it
_TURN = 0.25  # seconds that each version is measured
_FAR = 2.5  # times the fastest, above which a version is not measured any more
_SHORT = 1e-3  # seconds that do not matter


@dataclass(frozen=True)
class Standing:
    """A version and its seconds a call, measured interleaved with the others; `current` if calls use it afterwards."""

    name: str
    seconds: float
    current: bool = False


@dataclass(frozen=True)
class Choice:
    """The version that was found, whether the operator keeps it, whether calls use it, and all that was measured."""

    version: Version
    kept: bool
    current: bool
    standings: tuple[Standing, ...]


def checked_version(op: Operator, problem: Problem, trace: Any, name: str) -> tuple[Version, CheckResult]:
    """Return the version of a trace and the result of its check.

    Every element of the outputs is compared, on each set of inputs. Raises `TVMagicError` if the trace does not fit,
    iterations race, or a value is wrong.
    """
    record = Record(title=op.name)
    with recording(record=record):
        schedule = replay(op.schedule().mod, trace)
    version = Version(op, schedule, name, record)
    refuse_races(version)
    names = [t.name for t in op.outputs]
    results = [compare(as_list(version(*inputs)), expected, names) for inputs, expected in problem.whole]
    result = functools.reduce(combined, results)
    if result.ok is False:
        raise TVMagicError(f"a schedule of `{op.name}` gives wrong values: {result.verdict}", code="tune.wrong_values")
    return version, result


class Finish:
    """Chooses between the finalists of a search and the versions that the operator has."""

    def __init__(self, op: Operator, problem: Problem, name: str, deadline: float) -> None:
        self.op, self.problem, self.name, self.deadline = op, problem, name, deadline
        self.notes: list[str] = []
        self.wrong: set[int] = set()  # numbers of trials that were left out
        self.results: dict[int, CheckResult] = {}  # by the identity of the version
        self.inputs = problem.whole[0][0]
        self.numpy: list[Standing] = []
        self.compared_with = ""

    def choose(
        self, finalists: Sequence[Trial], known: Mapping[str, float], most: int = 3, at_once: bool = False
    ) -> Choice:
        """The fastest of the first `most` finalists that are right becomes the operator's version `name`, if it is faster than what calls use now.

        `at_once`: by the times that the workers measured, as nobody waits for better ones.

        `known` are seconds of the versions that the operator has, from workers: what is far slower than the finalists is
        not called in this process, if nothing could stop it. One that is slower is kept beside the user's own versions,
        but not instead of the plain loops or of an earlier version of that name.
        """
        new = self.checked(finalists, 1 if at_once else most)
        if not new:
            raise TVMagicError(
                f"no schedule that was found for `{self.op.name}` is right: {self.notes[-1]}",
                code="tune.no_right_schedule",
            )
        previous, replaced = self.op.current, self.op.versions.get(self.name)
        old = [*self.op.versions.values()] or [previous]
        times = (self.told if at_once else self.measured_beside)(new, old, finalists, known)
        best = min(new, key=lambda v: times[id(v)])
        before = times[id(previous)]
        faster = times[id(best)] < _FASTER * before or math.isnan(before) and previous.name == "plain"
        current = faster and self.results[id(best)].ok is True
        kept = current or replaced is None and bool(self.op.versions)
        if kept:
            self.op.add_version(best)
        if not current:
            why = (
                f"`{best.name}` is faster, but {self.results[id(best)].verdict}"
                if faster
                else "nothing faster was found"
            )
            self.notes.append(f"calls go on using `{previous.name}`: {why}")
            if self.op.versions:
                self.op.add_version(previous)
        rows = [
            Standing(v.name, times[id(v)], v is previous and not current)
            for v in old
            if (not kept or v is not replaced) and not math.isnan(times[id(v)])
        ]
        rows.append(Standing(best.name if kept else f"{best.name} (new)", times[id(best)], current))
        rows.sort(key=lambda s: s.seconds)
        return Choice(best if kept or replaced is None else replaced, kept, current, (*rows, *self.numpy))

    def measured_beside(
        self, new: Sequence[Version], old: Sequence[Version], finalists: Sequence[Trial], known: Mapping[str, float]
    ) -> dict[int, float]:
        """Seconds a call of new and old versions by identity, of those that are far slower as the workers measured them."""
        best = min(t.seconds or 0.0 for t in finalists)
        far = {id(v): known[v.name] for v in old if known.get(v.name, 0.0) > max(_FAR * best, _SHORT)}
        return far | self.measured([*new, *(v for v in old if id(v) not in far)])

    def told(
        self, new: Sequence[Version], old: Sequence[Version], finalists: Sequence[Trial], known: Mapping[str, float]
    ) -> dict[int, float]:
        """The same as the workers measured them; NaN for a version that they did not."""
        right = next(t for t in finalists if t.number not in self.wrong)
        return {id(v): known.get(v.name, math.nan) for v in old} | {id(v): right.seconds or 0.0 for v in new}

    def checked(self, finalists: Sequence[Trial], most: int) -> list[Version]:
        """The first `most` finalists that are right everywhere; more than one only if there is time for it."""
        found: list[Version] = []
        for trial in finalists:
            begun = time.monotonic()
            try:
                version, result = checked_version(self.op, self.problem, trial.candidate.trace, self.name)
                found.append(version)
                self.results[id(version)] = result
            except TVMagicError as error:
                self.wrong.add(trial.number)
                self.notes.append(f"trial {trial.number} was left out: {error.message}")
            now = time.monotonic()
            if len(found) == most or (found and now + (now - begun) + 0.5 > self.deadline):
                break
        return found

    def measured(self, versions: Sequence[Version]) -> dict[int, float]:
        """Seconds a call of versions by identity, interleaved; NumPy's between two halves of them."""
        op, inputs = self.op, self.inputs
        calls: list[Callable[[], Any]] = []
        for version in versions:
            outputs = version(*inputs)
            calls.append(lambda v=version, o=outputs: v(*inputs, out=o))
        seconds = min(_TURN * len(calls), max(self.deadline - time.monotonic(), 0.2))
        numpy = numpy_baseline(op, inputs)
        with alone():
            least = interleaved(calls, seconds / 3)
            if not numpy.interpreted:
                self.compared_with = numpy.words
                rest()
                times = interleaved([numpy.call], seconds / 3)
                self.numpy = [Standing("NumPy", t) for t in times if t is not None]
                rest()
            again = interleaved(calls, seconds / 3)
        return {id(v): min(a or 0.0, b or 0.0) for v, a, b in zip(versions, least, again)}
