"""Schedules of earlier searches, found again without a trial."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from tvmagic.codegen.target import resolved
from tvmagic.errors import TVMagicError
from tvmagic.operators.operator import Operator
from tvmagic.runtime.threads import num_threads
from tvmagic.tune.candidate import Candidate
from tvmagic.tune.database import Database, Entry
from tvmagic.tune.finish import Finish
from tvmagic.tune.problem import Problem, program_key
from tvmagic.tune.search import Trial, TuneResult
from tvmagic.tune.worker import machine_kind
from tvmagic.tune.workers import LocalWorkers

__all__ = ["find", "load"]


def find(op: Operator, database: Database, target: Any = None) -> list[Entry]:
    """What a database has of an operator for a target, the fastest first: of this kind of machine, else of others."""
    entries = database.entries(program_key(op.to_prim_func()), str(resolved(target)))
    kind = machine_kind()
    return [e for e in entries if e.machine == kind] or entries


def load(
    op: Operator, path: str | Path | None = None, *, name: str = "tuned", sizes: int = 256, target: Any = None
) -> TuneResult:
    """Give an operator the fastest schedule that a file has for its program, this target and this kind of machine.

    It is checked against the reference and measured beside the version that calls use now, which stays if it is faster.
    Without `path` the file is the one that searches write by default. Raises `TVMagicError` if the file has none that
    fits.
    """
    database, started = Database(path), time.monotonic()
    entries = find(op, database, target)
    if not entries:
        raise TVMagicError(
            f"`{database.path}` has no schedule of `{op.name}` for this target",
            hint="; ".join(database.notes()) or f"`%tune {op.name}` searches for one",
        )
    problem = Problem.of(op, 0, sizes, num_threads(), target)
    kind, notes = machine_kind(), database.notes()
    if entries[0].machine != kind:
        notes.append(f"the schedule was measured on another kind of machine: {entries[0].machine}, not {kind}")
    finish = Finish(op, problem, name, started)
    trials = [Trial(n + 1, "database", Candidate.of_trace(e.trace), e.seconds) for n, e in enumerate(entries[:5])]
    choice = finish.choose(trials, _times(op, problem, entries[0].seconds))
    elapsed = time.monotonic() - started
    return TuneResult(op, (), choice, finish.compared_with, elapsed, "", (*notes, *finish.notes), False, database)


def _times(op: Operator, problem: Problem, best: float) -> dict[str, float]:
    """Seconds of the versions that an operator has, each stopped when it has taken three times the best."""
    versions = [*op.versions.values()] or [op.current]
    tasks = [
        {
            "id": v.name,
            "do": "try",
            "candidate": Candidate.of_version(v).data,
            "best": {machine_kind(): best},
            "limit": 10.0,
        }
        for v in versions
    ]
    with LocalWorkers(1) as workers:
        workers.open(problem.to_bytes())
        results = workers.run(tasks, time.monotonic() + 20.0 * len(tasks))
        return {task["id"]: result.get("seconds", math.inf) for task, result in results}
