"""Schedules of earlier searches, found again without a trial."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.operators.operator import Operator
from tvmagic.runtime.threads import num_threads
from tvmagic.target import resolved
from tvmagic.tune.candidate import Candidate
from tvmagic.tune.database import Database, Entry
from tvmagic.tune.finalize import Finish
from tvmagic.tune.problem import Problem, program_key
from tvmagic.tune.search import Trial, TuneResult
from tvmagic.tune.worker import machine_kind
from tvmagic.tune.workers import LocalWorkers

_MOST = 3  # schedules of a file that are tried
_LIMIT = 10.0  # seconds that each may take
_COMPARING = 1.5  # seconds for the last comparison, as far as more than one has to be compared


def find(op: Operator, database: Database, target: Any = None) -> list[Entry]:
    """What a database has of an operator for a target, the fastest first: of this kind of machine, else of others."""
    entries = database.entries(program_key(op.to_prim_func()), str(resolved(target)))
    kind = machine_kind()
    return [e for e in entries if e.machine == kind] or entries


def load(
    op: Operator,
    path: str | Path | None = None,
    *,
    name: str = "tuned",
    sizes: int = 256,
    target: Any = None,
    inputs: Any = None,
) -> TuneResult:
    """Give an operator the fastest schedule that a file has for its program, this target and this kind of machine.

    It is checked against the reference and measured beside the version that calls use now, which stays if it is faster.
    Without `path` the file is that to which searches write by default. Raises `TVMagicError` if the file has none that
    fits.
    """
    database, started = Database(path), time.monotonic()
    if path is not None and not database.path.exists():
        raise TVMagicError(
            f"there is no file `{path}`",
            hint=f"`%tune {op.name} --database {path}` makes one",
            code="tune.no_such_file",
        )
    entries = find(op, database, target)
    if not entries:
        raise TVMagicError(
            f"`{database.path}` has no schedule of `{op.name}` for this target",
            hint="; ".join(database.notes()) or f"`%tune {op.name}` searches for one",
            code="tune.no_schedule",
        )
    problem = Problem.of(op, 0, sizes, num_threads(), target, inputs)
    kind, notes = machine_kind(), database.notes()
    if entries[0].machine != kind:
        notes.append(f"the schedule was measured on another kind of machine: {entries[0].machine}, not {kind}")
    trials, times = _tried(op, problem, [Candidate.of_trace(e.trace) for e in entries[:_MOST]])
    if not any(t.seconds for t in trials):
        raise TVMagicError(
            f"no schedule that `{database.path}` has of `{op.name}` is right here: {trials[0].error}",
            code="tune.no_right_schedule",
        )
    finish = Finish(op, problem, name, time.monotonic() + _COMPARING)
    choice = finish.choose([t for t in trials if t.seconds], times)
    elapsed = time.monotonic() - started
    return TuneResult(op, (), choice, finish.compared_with, elapsed, "", (*notes, *finish.notes), False, database)


def _tried(op: Operator, problem: Problem, candidates: list[Candidate]) -> tuple[list[Trial], dict[str, float]]:
    """Candidates and the versions that an operator has, each built, checked and measured once by a worker: what a file
    holds is not to harm this process, and what is far slower is stopped. The versions' seconds are by name.
    """
    versions = [*op.versions.values()] or [op.current]
    trials, times = list[Trial](), dict[str, float]()
    with LocalWorkers(1) as workers:
        workers.open(problem.to_bytes())

        def result_of(candidate: Candidate) -> dict[str, Any]:
            best = min((t.seconds for t in trials if t.seconds), default=None)
            known = {} if best is None else {machine_kind(): best}
            task = {"id": 0, "do": "try", "candidate": candidate.data, "best": known, "limit": _LIMIT}
            return next(
                (result for _, result in workers.run([task], time.monotonic() + 6 * _LIMIT)), {"error": "no answer"}
            )

        for candidate in candidates:
            found = result_of(candidate)
            trials.append(Trial(len(trials) + 1, "database", candidate, found.get("seconds"), found.get("error", "")))
        for version in versions if any(t.seconds for t in trials) else []:
            times[version.name] = result_of(Candidate.of_version(version)).get("seconds", math.inf)
    return trials, times
