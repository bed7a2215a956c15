"""The search: random schedules first, then changes of the best ones; each is checked and measured."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from tvmagic.errors import TVMagicError
from tvmagic.ir import IRModule, PrimFunc
from tvmagic.passes import Record, recording
from tvmagic.tir.schedule import Schedule, Trace
from tvmagic.tune.space import mutate, random_schedule

__all__ = ["Trial", "Tunable", "TuneResult", "Workload", "tune_operator"]

_SURVIVORS = 4  # the best traces, which are changed further
_RANDOM_SHARE = 0.4  # of the trials, before the first change
_EXPLORE = 0.2  # how often a trial after these is random all the same


class Kept(Protocol):
    """What stands for the best schedule where it is kept: a version of the operator."""

    name: str
    schedule: Any


class Workload(Protocol):
    """What a search needs of the program it schedules: who checks and times a schedule, and who keeps the best."""

    func: PrimFunc | IRModule

    def seconds(self, schedule: Schedule) -> float:
        """Seconds a call with a schedule; `TVMagicError` where it cannot be built or its result is wrong."""
        ...

    def plain_seconds(self) -> float:
        """Seconds a call of the program without a schedule."""
        ...

    def reference(self) -> tuple[float, str]:
        """Seconds a call of what the program is compared with, and what that is in words."""
        ...

    def keep(self, schedule: Schedule, name: str, record: Record) -> Kept:
        """Take in the best schedule under a name, with the record of its calls."""
        ...


class Tunable(Protocol):
    """What can be tuned: an operator, by its workload on random inputs."""

    name: str

    def workload(self, seed: int, sizes: int) -> Workload:
        """The operator on inputs drawn from `seed`, its symbolic sizes being `sizes`."""
        ...


@dataclass(frozen=True)
class Trial:
    """One schedule that was tried.

    `seconds` a call is None where it failed; `error` then says why. `origin` is `random`, or
    `change of N` for the trial it comes from.
    """

    number: int
    origin: str
    trace: Trace
    seconds: float | None
    error: str = ""


@dataclass(frozen=True)
class TuneResult:
    """What a search found.

    `version` is what the operator keeps of the best schedule; `plain` the seconds of the plain
    loops; `reference` those of NumPy, of which `compared_with` tells the calls; `elapsed` of the whole search,
    `interrupted` if the user stopped it.
    """

    operator: Tunable
    trials: tuple[Trial, ...]
    version: Kept
    plain: float
    reference: float
    compared_with: str
    elapsed: float
    interrupted: bool = False

    @property
    def best(self) -> Trial:
        """The fastest trial."""
        return min(self.good, key=lambda t: t.seconds or 0.0)

    @property
    def good(self) -> list[Trial]:
        """The trials whose results were right."""
        return [t for t in self.trials if t.seconds is not None]

    @property
    def python(self) -> str:
        """The best trace as a Python function that applies it to a schedule."""
        return str(self.best.trace.simplified(remove_postproc=False))


def tune_operator(
    op: Tunable,
    trials: int = 64,
    *,
    seconds: float = 60.0,
    seed: int = 0,
    name: str = "tuned",
    sizes: int = 256,
    progress: Callable[[Trial, Trial | None], None] | None = None,
) -> TuneResult:
    """Search for a fast schedule of an operator and keep it as its version `name`.

    Parameters
    ----------
    trials: how many schedules to try at most.
    seconds: after how many no further trial is begun.
    seed: the same one gives the same random schedules. What follows depends on the times measured.
    sizes: the value of symbolic sizes.
    progress: called after each trial with it and the best so far.

    An interrupt ends the search with the best schedule so far; before one is right it goes through.

    Raises `TVMagicError` where the arguments are out of range or no schedule gave the right result.
    """
    if trials < 1 or seconds <= 0:
        raise TVMagicError("a search needs at least one trial and some time")
    if not name.isidentifier() or name == "plain":
        raise TVMagicError(f"`{name}` cannot be the name of a schedule", hint="write a name such as `tuned`")
    started = time.perf_counter()
    workload = op.workload(seed, sizes)
    search, interrupted = _Search(workload, seed), False
    try:
        while len(search.trials) < trials and (not search.trials or time.perf_counter() - started < seconds):
            trial = search.step(trials)
            if trial is None:
                break
            if progress is not None:
                progress(trial, search.best)
    except KeyboardInterrupt:
        interrupted = True
        if search.best is None:
            raise
    if search.best is None:
        first = next((t.error for t in search.trials if t.error), "there is nothing to schedule")
        raise TVMagicError(f"none of {len(search.trials)} schedules of `{op.name}` gave the right result: {first}")
    plain = workload.plain_seconds()
    record = Record(title=op.name)
    with recording(record=record):
        schedule = search.replay(search.best.trace)
    version = workload.keep(schedule, name, record)
    elapsed = time.perf_counter() - started
    return TuneResult(op, tuple(search.trials), version, plain, *workload.reference(), elapsed, interrupted)


class _Search:
    """The state of a search: the trials so far, and what was tried in them."""

    def __init__(self, workload: Workload, seed: int) -> None:
        self.workload, self.seed = workload, seed
        self.draw = random.Random(seed)
        self.trials: list[Trial] = []
        self.seen: set[str] = set()
        self.next_seed = seed * 1_000_003

    @property
    def best(self) -> Trial | None:
        ranked = self.ranked()
        return ranked[0] if ranked else None

    def ranked(self) -> list[Trial]:
        """The trials that are right, the fastest first."""
        return sorted((t for t in self.trials if t.seconds is not None), key=lambda t: t.seconds or 0.0)

    def step(self, total: int) -> Trial | None:
        """Try a schedule that was not tried yet; None where none can be found."""
        for _ in range(50):
            candidate = self.candidate(total)
            if candidate is None:
                continue
            origin, sch = candidate
            text = str(sch.trace)
            if text in self.seen:
                continue
            self.seen.add(text)
            trial = self.evaluate(origin, sch)
            self.trials.append(trial)
            return trial
        return None

    def candidate(self, total: int) -> tuple[str, Schedule] | None:
        """A random schedule, or a change of one of the best."""
        parents = self.ranked()[:_SURVIVORS]
        if not parents or len(self.trials) < _RANDOM_SHARE * total or self.draw.random() < _EXPLORE:
            self.next_seed += 1
            return "random", random_schedule(self.workload.func, self.next_seed)
        parent = self.draw.choice(parents)
        trace = mutate(parent.trace, self.draw)
        if trace is None:
            return None
        try:
            return f"change of {parent.number}", self.replay(trace)
        except TVMagicError:  # such sizes do not fit this arrangement
            return None

    def replay(self, trace: Trace) -> Schedule:
        """A fresh schedule with the trace applied."""
        sch = Schedule(self.workload.func, seed=self.seed + 1)
        trace.apply_to_schedule(sch)
        return sch

    def evaluate(self, origin: str, sch: Schedule) -> Trial:
        """Let a schedule be built, checked and timed."""
        number = len(self.trials) + 1
        try:
            return Trial(number, origin, sch.trace, self.workload.seconds(sch))
        except TVMagicError as error:
            return Trial(number, origin, sch.trace, None, error.message)
