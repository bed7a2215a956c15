"""The search: it starts from the instant schedule and changes what was fast, led by a model of what is slow.

A round: (1) changes of the fastest schedules, variants of the instant one, and some random ones; (2) the workers lower
them, and the model predicts their times from features; (3) the changes of those predicted to be fast are looked at in the
same way; (4) the workers build, check and measure the best predictions and a few others; (5) the model learns from them.
At the end the best ones are measured again, interleaved, as the least of many times is often one that was lucky.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tvmagic.auto import auto
from tvmagic.errors import TVMagicError
from tvmagic.operators.operator import Operator, Version
from tvmagic.tune.candidate import Candidate
from tvmagic.tune.database import Database, Entry
from tvmagic.tune.finalize import Choice, Finish
from tvmagic.tune.model import CostModel, rank_correlation
from tvmagic.tune.problem import Problem
from tvmagic.tune.trial import Trial
from tvmagic.tune.worker import machine_kind
from tvmagic.tune.workers import TOO_LONG, LocalWorkers, Result, Task, Workforce

_PARENTS = 8  # the fastest trials, which are changed further
_BATCH = 4  # trials of a round for each worker
_POOL = 6  # candidates that are looked at for each trial of a round, at most; a third are changes of the best others
_EXPLORE = 0.15  # the share of trials that the model does not choose
_RANDOM = 0.1  # the share of candidates that are new structures
_VARIANTS = 0.25  # and of variants of the instant schedule
_FIRST = 0.6  # and of these, before the model can tell which changes are worth a trial
_CLOSE = 1.25  # times the best, within which a trial may turn out to be better
_EQUAL = 1.02  # times the best, within which it is no better than the instant schedule after the last comparison
_FINALISTS = 6  # of which the last comparison is
_FINAL = 0.03  # the share of the search's time that it takes
_FINAL_OF_SPENT = 0.1  # and at most of the time that the trials took: a few of them need no long comparison
_LONGER = 3.0  # times the lowering of the instant schedule that others may take: LLVM takes ten times longer still
_PATIENCE = 0.25, 1.0  # seconds of a lowering that are allowed at least and at most
_LIMIT = 10.0  # seconds that a trial may take
_IDLE_ROUNDS = 6  # rounds in a row without a new program, after which there is nothing left to try


@dataclass(frozen=True)
class TuneResult:
    """What a search found.

    `choice` has the version that was found, and the times of all versions measured interleaved at the end, the fastest
    first, with NumPy's. `elapsed` are seconds of the whole search, `interrupted` if the user stopped it; `notes` are
    sentences on what is remarkable.
    """

    operator: Operator
    trials: tuple[Trial, ...]
    choice: Choice
    compared_with: str
    elapsed: float
    model: str = ""
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    database: Database | None = None

    @property
    def version(self) -> Version:
        """The version that was found; the operator has it if `choice.kept`."""
        return self.choice.version

    @property
    def good(self) -> list[Trial]:
        """The trials whose results were right."""
        return [t for t in self.trials if t.seconds is not None]

    @property
    def best(self) -> Trial | None:
        """The fastest trial; None if the schedule comes from a file."""
        return min(self.good, key=lambda t: t.seconds or 0.0, default=None)

    @property
    def python(self) -> str:
        """The trace of the version as a Python function that applies it to a schedule."""
        return str(self.version.schedule.trace.simplified(remove_postproc=False))

    @property
    def predictions(self) -> list[tuple[float, float]]:
        """Predicted and measured seconds of the trials that the model had not seen when it predicted them."""
        return [(t.predicted, t.seconds) for t in self.trials if t.predicted is not None and t.seconds is not None]

    @property
    def correlation(self) -> float:
        """Spearman's rank correlation of `predictions`; NaN if there are too few."""
        pairs = self.predictions
        return rank_correlation([p for p, _ in pairs], [m for _, m in pairs]) if len(pairs) > 3 else math.nan


Report = Callable[[Trial, "Trial | None"], None]


def tune_operator(
    op: Operator,
    trials: int | None = None,
    *,
    seconds: float = 60.0,
    seed: int = 0,
    name: str = "tuned",
    sizes: int = 256,
    target: Any = None,
    threads: int = 0,
    database: Database | None = None,
    on: str | None = None,
    workforce: Callable[[], Workforce] | None = None,
    model: CostModel | None = None,
    progress: Report | None = None,
    inputs: Any = None,
) -> TuneResult:
    """Search for a fast schedule of an operator and keep it as its version `name`, current if it is the fastest.

    Parameters
    ----------
    trials: how many schedules to try at most; as many as there is time for if None.
    seconds: of the whole search, compiling and checking included.
    seed: the same one gives the same random schedules. What follows depends on the times measured.
    sizes: the value of symbolic sizes.
    target: what is compiled for, the default target if None; it has to run on the machines that measure.
    threads: how many run a parallel loop; as many as the process has by default, as each worker of a cluster has there.
    database: where results are kept and found again; None for nowhere.
    on: the address of the scheduler of a Dask cluster, whose workers measure.
    workforce: who measures, instead of processes on this machine.
    progress: called after each trial with it and the best so far.
    inputs: what is measured and compared on, by default the operator's `example_inputs`, else random; see `make_inputs`.

    An interrupt ends the search with the best schedule so far, which is checked but not measured again; before one is
    right it goes through.

    Raises `TVMagicError` if the arguments are out of range or no schedule gave the right result.
    """
    _check_arguments(trials, seconds, name)
    started = time.monotonic()
    if not threads and on is None:
        from tvmagic.runtime.threads import num_threads

        threads = num_threads()
    force = workforce() if workforce else _workforce(on)
    try:
        problem = Problem.of(op, seed, sizes, threads, target, inputs)
        prepared = time.monotonic() - started
        force.open(problem.to_bytes())
        search = Search(op, problem, force, seed, database, model or CostModel(), progress)
        interrupted = search.all_of(trials, seconds, started, 0.08 * seconds + min(0.2 * seconds, 0.5 * prepared + 0.8))
    finally:
        force.close()
    finalists = search.finalists() or search.untried()
    if not finalists:
        raise search.failure()
    finish = Finish(op, problem, name, started + seconds)
    most = 1 if search.compared else _FINALISTS
    choice = finish.choose(finalists, search.times_of_versions(), most, at_once=interrupted)
    if search.compared:
        search.keep_best(next(t for t in finalists if t.number not in finish.wrong))
    notes = [*search.notes, *finish.notes, *([search.model.note] if search.model.note else [])]
    return TuneResult(
        op, tuple(search.trials), choice, finish.compared_with, time.monotonic() - started, search.model.name,
        tuple(notes), interrupted, database,
    )  # fmt: skip


def _check_arguments(trials: int | None, seconds: float, name: str) -> None:
    if trials is not None and trials < 1 or not seconds > 0:
        raise TVMagicError("a search needs at least one trial and some time", code="tune.no_trials")
    if not name.isidentifier() or name == "plain":
        raise TVMagicError(
            f"`{name}` cannot be the name of a schedule", hint="write a name such as `tuned`", code="tune.wrong_name"
        )


def _workforce(on: str | None) -> Workforce:
    if on is not None:
        from tvmagic.tune.cluster import Cluster

        return Cluster(on)
    # Some build while one measures; with more than four, measuring is what they wait for.
    return LocalWorkers(min(os.cpu_count() or 1, 4))


@dataclass
class _Proposal:
    """A candidate with where it comes from, and what was seen of it."""

    origin: str
    candidate: Candidate
    features: list[float] = field(default_factory=list)
    score: float = math.inf
    predicted: float | None = None


class Search:
    """The state of a search: the trials so far, and the programs that were tried in them."""

    def __init__(
        self, op: Operator, problem: Problem, force: Workforce, seed: int, database: Database | None,
        model: CostModel, progress: Report | None,
    ) -> None:  # fmt: skip
        self.op, self.problem, self.force, self.database = op, problem, force, database
        self.model, self.progress = model, progress
        self.draw, self.next_seed = random.Random(seed), seed * 1_000_003
        self.width = problem.code_target.machine.vector_bits // 8
        self.trials: list[Trial] = []
        self.texts: set[str] = set()  # of candidates that were proposed
        self.hashes: set[str] = set()  # of lowered programs that were looked at or tried
        self.tried: set[str] = set()  # of those that were tried
        self.notes: list[str] = []
        self.tasks, self.deadline = 0, 0.0
        self.compared = False
        self.trial_seconds, self.look_seconds = 0.3, 0.05  # that one takes, waiting for others included
        self.patience = _PATIENCE[1]  # seconds that the lowering of a candidate may take
        self.usual = 0.01  # seconds from the begin of a trial to its result

    # ------------------------------------------------------------------ what is known

    def ranked(self, machine: str | None = None) -> list[Trial]:
        """The trials that are right (and were measured on one kind of machine), the fastest first."""
        right = [t for t in self.trials if t.seconds is not None and machine in (None, t.machine)]
        return sorted(right, key=lambda t: t.seconds or 0.0)

    def best(self, machine: str | None = None) -> Trial | None:
        """The fastest trial; None if none was right."""
        return next(iter(self.ranked(machine)), None)

    def bests(self) -> dict[str, float]:
        """The least seconds on each kind of machine."""
        found: dict[str, float] = {}
        for trial in self.ranked():
            found.setdefault(trial.machine, trial.seconds or 0.0)
        return found

    def finalists(self) -> list[Trial]:
        """The trials that may be the best, of this kind of machine if it measured some, the fastest first.

        The instant schedule is among them if it is not far slower. After they were compared it is before those that are
        not clearly faster: what differs by less is chance.
        """
        ranked = [t for t in self.ranked(machine_kind()) or self.ranked() if t.candidate.trace is not None]
        factor = _EQUAL if self.compared else _CLOSE
        close = [t for t in ranked if (t.seconds or 0.0) <= factor * (ranked[0].seconds or 0.0)]
        instant = [t for t in close if t.origin == "instant"]
        if self.compared:
            return [*instant, *(t for t in close if t not in instant)]
        return [*close[:_FINALISTS], *(t for t in instant if t not in close[:_FINALISTS])]

    def untried(self) -> list[Trial]:
        """The instant schedule, if there was no time for a trial to end."""
        if any(not t.error.startswith(TOO_LONG) for t in self.trials):
            return []
        self.notes.append("there was no time for a trial: this is the instant schedule; `--seconds` gives it more")
        trace = auto(self.op.to_prim_func(), self.problem.code_target).trace
        return [Trial(1, "instant", Candidate.of_trace(trace), None)]

    def times_of_versions(self) -> dict[str, float]:
        """Seconds of the versions that the operator has, by name; infinite if they were stopped or failed."""
        origins = {t.origin: math.inf if t.seconds is None else t.seconds for t in self.trials}
        versions = [*self.op.versions.values()] or [self.op.current]
        return {v.name: origins[f"version {v.name}"] for v in versions if f"version {v.name}" in origins}

    def failure(self) -> TVMagicError:
        """The error of a search in which no schedule was right."""
        first = next((t.error for t in self.trials if t.error), "there was no time for one")
        return TVMagicError(
            f"none of {len(self.trials)} schedules of `{self.op.name}` gave the right result: {first}",
            code="tune.no_right_schedule",
        )

    # ------------------------------------------------------------------ the rounds

    def all_of(self, most: int | None, seconds: float, started: float, reserve: float) -> bool:
        """Run the rounds and the last comparison; whether the user interrupted them. Before a schedule is right the
        interrupt goes through."""
        try:
            self.run(most, started + seconds, reserve)
            spent = time.monotonic() - started
            self.compare(min(_FINAL * seconds, _FINAL_OF_SPENT * spent), started + seconds)
        except KeyboardInterrupt:
            if self.best() is None:
                raise
            return True
        return False

    def run(self, most: int | None, deadline: float, reserve: float) -> None:
        """Try schedules until `most` were tried, there is nothing new, or `reserve` seconds are left until `deadline`."""
        self.deadline, left = deadline - reserve, most if most is not None else 1 << 30
        first, *others = self.seeds()
        left -= self.measure([first])  # alone, so that the others can be stopped at three times its time
        # What follows the trials builds and checks as they do, on a machine that may be busy.
        self.deadline -= min(0.5 * reserve, self.usual)
        left -= self.measure(others[: max(left, 0)])
        idle = 0
        while left > 0 and (room := self.room()) and idle < _IDLE_ROUNDS:
            tried = self.measure(self.proposals(min(left, _BATCH * self.force.count, room)))
            left, idle = left - tried, 0 if tried else idle + 1
            if time.monotonic() < self.deadline:
                self.learn()
        if left > 0 and idle == _IDLE_ROUNDS:
            self.notes.append("the search ended early: no other schedules were found")

    def room(self) -> int:
        """How many trials there is time for; one that has to be given up costs the start of a process."""
        left = self.deadline - time.monotonic()
        usual = max(self.usual, 1e-3)
        return int(left / usual) * self.force.count if left > usual else 0

    def compare(self, seconds: float, deadline: float) -> None:
        """Measure the finalists again, interleaved on one worker for `seconds`; their times are then those."""
        finalists = self.finalists()
        if len(finalists) < 2:  # all others are far slower
            self.compared = bool(finalists)
            return
        task = self.task(do="compare", candidates=[t.candidate.data for t in finalists], seconds=seconds)
        for _, result in self.force.run([task], deadline):
            again = dict(zip((t.number for t in finalists), result.get("seconds", ())))
            if result.get("machine") == finalists[0].machine and any(again.values()):
                self.compared = True
                self.trials = [replace(t, seconds=again[t.number]) if again.get(t.number) else t for t in self.trials]

    def seeds(self) -> list[_Proposal]:
        """What is tried first: the instant schedule, those of the database, the versions that the operator has."""
        found = [_Proposal("instant", Candidate.of_trace(auto(self.op.to_prim_func(), self.problem.code_target).trace))]
        if self.database is not None:
            known = self.database.entries(self.problem.key, self.problem.target)
            self.notes += self.database.notes()
            found += [_Proposal("database", Candidate.of_trace(e.trace)) for e in known[:_PARENTS]]
        for version in reversed([*self.op.versions.values()] or [self.op.current]):
            found.append(_Proposal(f"version {version.name}", Candidate.of_version(version)))
        return self.new(found)

    def proposals(self, count: int) -> list[_Proposal]:
        """The candidates of a round: those that the model expects to be fast, and a few others."""
        size = self.pool_size(count)
        first = max(count, 2 * size // 3)
        pool = self.look(self.new(self.some() for _ in range(first)))
        pool.sort(key=lambda p: p.score)
        good = pool[:count]
        further = (self.changed(p.candidate, p.origin) for p in (good * (1 + size // count))[: size - first])
        pool = sorted([*pool, *self.look(self.new(further))], key=lambda p: p.score)
        chosen = pool[: max(count - int(_EXPLORE * count + self.draw.random()), 1)]
        others = pool[len(chosen) :]
        return [*chosen, *self.draw.sample(others, min(count - len(chosen), len(others)))]

    def pool_size(self, count: int) -> int:
        """How many candidates to look at for `count` trials: so many that it takes less time than trying those."""
        worth = 0.5 * count * self.trial_seconds / max(self.look_seconds, 1e-3)
        return int(min(max(worth, count), _POOL * count))

    def learn(self) -> None:
        """Let the model learn from all trials, on each kind of machine as multiples of its best time."""
        bests = self.bests()
        known = [t for t in self.trials if t.seconds is not None and t.features]
        self.model.fit([t.features for t in known], [(t.seconds or 0.0) / bests[t.machine] for t in known])

    # ------------------------------------------------------------------ candidates

    def some(self) -> _Proposal | None:
        """A change of one of the fastest trials, the faster the likelier, a variant of the instant one, or a random one."""
        parents = [t for t in self.ranked()[: 2 * _PARENTS] if t.candidate.trace is not None][:_PARENTS]
        drawn = self.draw.random()
        if drawn < _RANDOM or not parents:
            return _Proposal("random", Candidate.of_seed(self.seed(), self.width))
        if drawn < _RANDOM + (_VARIANTS if self.model.ready else _FIRST):
            return _Proposal("variant", Candidate.of_variant(self.seed()))
        parent = parents[min(int(self.draw.expovariate(0.5)), len(parents) - 1)]
        return self.changed(parent.candidate, f"change of {parent.number}")

    def seed(self) -> int:
        """One that no candidate had."""
        self.next_seed += 1
        return self.next_seed

    def changed(self, candidate: Candidate, origin: str) -> _Proposal | None:
        """A candidate with one to three changes."""
        return None if candidate.trace is None else _Proposal(origin, Candidate.of_change(candidate.trace, self.seed()))

    def new(self, proposals: Any) -> list[_Proposal]:
        """Those that were not proposed before."""
        fresh: list[_Proposal] = []
        for proposal in proposals:
            if proposal is not None and proposal.candidate.text not in self.texts:
                self.texts.add(proposal.candidate.text)
                fresh.append(proposal)
        return fresh

    # ------------------------------------------------------------------ work for others

    def task(self, **values: Any) -> Task:
        self.tasks += 1
        return {"id": self.tasks, "limit": _LIMIT, "patience": self.patience, **values}

    def look(self, proposals: Sequence[_Proposal]) -> list[_Proposal]:
        """The proposals that can be lowered to programs that were not tried, with features and predictions."""
        begun, parts = time.monotonic(), min(4 * self.force.count, len(proposals)) or 1
        shares = [list(proposals[n::parts]) for n in range(parts)]
        tasks = {
            (task := self.task(do="look", candidates=[p.candidate.data for p in share]))["id"]: (task, share)
            for share in shares
            if share
        }
        found: list[_Proposal] = []
        for task, result in self.force.run([task for task, _ in tasks.values()], self.deadline):
            for proposal, seen in zip(tasks[task["id"]][1], result.get("looks", ())):
                if "hash" in seen and seen["hash"] not in self.hashes:
                    self.hashes.add(seen["hash"])
                    proposal.features = seen["features"]
                    if "trace" in seen:
                        proposal.candidate = Candidate.of_trace(seen["trace"])
                        if not self.new([proposal]):
                            continue
                    found.append(proposal)
        self.look_seconds += 0.5 * ((time.monotonic() - begun) / max(len(proposals), 1) - self.look_seconds)
        if found:
            scores = self.model.score([p.features for p in found])
            best = min(self.bests().values(), default=0.0)
            for proposal, score in zip(found, scores):
                proposal.score, proposal.predicted = score, 2.0**score * best if self.model.ready else None
        return found

    def measure(self, proposals: Sequence[_Proposal]) -> int:
        """Try proposals; how many were tried before the time was up."""
        left = self.deadline - time.monotonic()
        limit = min(_LIMIT, max(0.4 * left, min(left, 4 * self.usual), 0.1))
        tasks = {
            (task := self.task(do="try", candidate=p.candidate.data, limit=limit))["id"]: (task, p) for p in proposals
        }
        before, begun = len(self.trials), time.monotonic()
        self.inform(tasks.values())
        for task, result in self.force.run([task for task, _ in tasks.values()], self.deadline):
            self.add(tasks[task["id"]][1], result)
            self.inform(tasks.values())
        tried = len(self.trials) - before
        if tried:
            self.trial_seconds += 0.5 * ((time.monotonic() - begun) / tried - self.trial_seconds)
        return tried

    def inform(self, tasks: Iterable[tuple[Task, _Proposal]]) -> None:
        """Update the tasks that have not begun with what is known now."""
        bests, known = self.bests(), sorted(self.tried)
        for task, proposal in tasks:
            task["best"], task["known"] = bests, known if proposal.candidate.is_seed else []

    def add(self, proposal: _Proposal, result: Result) -> None:
        """Add a trial, and report it; one whose seed turned out to give the program of another trial does not count,
        nor one of which no schedule could be made."""
        right = "error" not in result
        if proposal.candidate.is_seed and (
            result.get("hash") in self.tried or not ("hash" in result or "lost" in result)
        ):
            return
        if "trace" in result:
            made = Candidate.of_trace(result["trace"])
            if made.text != proposal.candidate.text and made.text in self.texts:
                return
            self.texts.add(made.text)
            proposal.candidate = made
        self.hashes.add(result.get("hash", ""))
        self.tried.add(result.get("hash", ""))
        if "looked" in result:
            first = proposal.origin == "instant"  # what was known before it is a guess
            self.look_seconds += (1.0 if first else 0.3) * (result["looked"] / self.force.count - self.look_seconds)
            if first:
                self.patience = min(max(_LONGER * result["looked"], _PATIENCE[0]), _PATIENCE[1])
        trial = Trial(
            len(self.trials) + 1, proposal.origin, proposal.candidate, result["seconds"] if right else None,
            result.get("error", ""), proposal.predicted, bool(result.get("stopped")), result.get("machine", ""),
            tuple(result.get("times", ())), tuple(result.get("features") or proposal.features), result.get("elapsed", 0.0),
        )  # fmt: skip
        best = self.best(trial.machine)
        self.trials.append(trial)
        self.usual += (0.3 if len(self.trials) > 1 else 1.0) * (trial.elapsed - self.usual)
        near = right and result["checked"] and (best is None or (trial.seconds or 0.0) < 1.2 * (best.seconds or 0.0))
        if near and self.database is not None and trial.candidate.trace is not None:
            self.keep(trial)
        if self.progress is not None:
            self.progress(trial, self.best())

    def keep_best(self, trial: Trial) -> None:
        """Write the trial that turned out to be the best once more, as that."""
        if self.database is not None and trial.candidate.trace is not None:
            self.keep(trial, best=True)

    def keep(self, trial: Trial, best: bool = False) -> None:
        """Write a trial to the database; a file that cannot be written is told once."""
        assert self.database is not None and trial.seconds is not None
        problem, times = self.problem, list(trial.times)
        entry = Entry(
            problem.key, problem.target, trial.machine, trial.candidate.trace, trial.seconds, times, problem.name, best
        )
        try:
            self.database.add(entry)
        except TVMagicError as error:
            self.notes.append(error.message)
            self.database = None
