"""The search: what it tries, how it keeps its limits, what it keeps in the end."""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refuses

from tvmagic.errors import TVMagicError
from tvmagic.operators import Operator, Version, operator
from tvmagic.tir.schedule import Schedule
from tvmagic.tune import CostModel, Database, Trial, auto, finalize, tune_operator
from tvmagic.tune.candidate import Candidate, replay
from tvmagic.tune.finalize import Finish
from tvmagic.tune.problem import Problem
from tvmagic.tune.search import Search
from tvmagic.tune.worker import Bench, machine_kind
from tvmagic.tune.workers import TOO_LONG

DENSE = """X: float32[16, 12]
W: float32[8, 12]
b: float32[8]
Y[i, j] += X[i, k] * W[j, k]
Z[i, j] = max(Y[i, j] + b[j], 0)"""
ROWS = "X: float32[16, 64]\nY[i] += X[i, k]"


@pytest.fixture
def rows() -> Operator:
    return operator("rows", ROWS)


class Counted:
    """Workers that run nothing, in this process: a schedule's time follows from its trace, some are refused."""

    count = 2

    def __init__(self, op: Operator, *, slow: float = 0.0, failing: int = 5) -> None:
        self.op, self.slow, self.failing = op, slow, failing
        self.closed, self.begun = False, list[float]()

    def open(self, contents: bytes) -> None:
        assert contents
        self.problem = Problem(self.op.to_prim_func(), self.op.name, [], "llvm", 0, False)

    def features(self, candidate: Candidate) -> list[float]:
        """The number of calls, and logarithms of the tile sizes."""
        if candidate.trace is None:
            return [0.0] * 7
        insts = candidate.trace[0]
        sizes = [float(np.log2(n)) for inst in insts if inst[0] == "Split" for n in inst[1] if isinstance(n, int)]
        return [float(len(insts)), *(sizes + [0.0] * 6)[:6]]

    def seconds(self, candidate: Candidate) -> float:
        return 1e-4 * (1 + len(candidate.trace[0])) if candidate.trace else 1.0

    def look(self, candidate: Candidate) -> dict[str, Any]:
        try:
            made = candidate.made(self.problem)
            made.lower(self.problem) if made.trace is None else replay(self.problem.func, made.trace)
        except TVMagicError as error:
            return {"error": error.message}
        seen = {"hash": str(zlib.crc32(made.text.encode())), "features": self.features(made)}
        return seen if made is candidate else seen | {"trace": made.trace}

    def attempt(self, candidate: Candidate) -> dict[str, Any]:
        seen = self.look(candidate)
        if "error" in seen:
            return seen
        made = candidate.made(self.problem)
        if self.failing and zlib.crc32(made.text.encode()) % self.failing == 0:
            return seen | {"error": "odd"}
        seconds = self.seconds(made)
        return seen | {
            "machine": machine_kind(),
            "seconds": seconds,
            "times": [seconds],
            "stopped": False,
            "checked": True,
        }

    def run(self, tasks: Iterable[dict[str, Any]], deadline: float) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        for task in list(tasks):
            if time.monotonic() > deadline:
                return
            self.begun.append(time.monotonic())
            if task["do"] == "look":
                yield task, {"looks": [self.look(Candidate(c)) for c in task["candidates"]]}
            elif task["do"] == "compare":
                times = [self.seconds(Candidate(c)) for c in task["candidates"]]
                yield task, {"machine": machine_kind(), "seconds": times}
            else:
                time.sleep(self.slow)
                yield task, self.attempt(Candidate(task["candidate"]))

    def close(self) -> None:
        self.closed = True


def search(op: Operator, trials: int | None = 24, **options: Any) -> tuple[Any, Counted]:
    force = options.pop("force", None) or Counted(op)
    return tune_operator(op, trials, workforce=lambda: force, model=CostModel(False), **options), force


def test_a_search_with_processes_finds_a_right_schedule_and_keeps_it(tmp_path: Path) -> None:
    dense, seen = operator("dense", DENSE), list[Trial]()
    database = Database(tmp_path / "results.jsonl")
    result = tune_operator(
        dense,
        8,
        seconds=120,
        name="fast",
        threads=1,
        database=database,
        progress=lambda t, _: seen.append(t),
        model=CostModel(False),
    )
    assert [t.candidate for t in seen] == [t.candidate for t in result.trials]
    assert [t.number for t in seen] == list(range(1, 9))
    assert seen[0].origin in ("instant", "random") and all(t.seconds for t in result.good)
    assert result.version.name == "fast" and result.best is not None
    assert dense.current.name == ("fast" if result.choice.current else "plain")
    x, w, b = dense.random_inputs(1)
    np.testing.assert_allclose(result.version(x, w, b), np.maximum(x @ w.T + b, 0), rtol=1e-4, atol=1e-5)
    best, *others = database.entries()
    assert best.best and not any(e.best for e in others), "and the best is in the file, as that"
    assert best.seconds in [t.seconds for t in result.good]
    scope: dict[str, Any] = {}
    exec("import tvmagic.tir as tir\n" + result.python, scope)
    again = Schedule(dense.to_prim_func())
    scope["apply_trace"](again)
    assert again.script() == result.version.schedule.script()


def test_the_first_trial_is_the_instant_schedule_and_the_rest_are_changes_and_new_ones(rows: Operator) -> None:
    result, force = search(rows, 40, seconds=240)
    assert force.closed and 30 <= len(result.trials) <= 40, "so small an operator may have no more schedules"
    first, *others = result.trials
    assert first.origin == "instant" and first.candidate.text == Candidate.of_trace(auto(rows).trace).text
    kinds = {t.origin.split(" of ")[0] for t in others}
    assert {"change", "random"} <= kinds <= {"change", "random", "variant", "version plain"}
    texts = [t.candidate.text for t in result.good]
    assert len(set(texts)) == len(texts), "nothing is measured twice"
    assert {t.error for t in result.trials if t.seconds is None} >= {"odd"}


def test_what_was_tried_is_not_built_again(rows: Operator) -> None:
    """A seed that gives a program that is known ends in the worker, and is no trial."""
    bench = Bench(Problem.of(rows, 0, 16, 1))
    first = bench.attempt(Candidate.of_seed(3, 16), None, 60.0)
    again = bench.attempt(Candidate.of_seed(3, 16), None, 60.0, [first["hash"]])
    assert first["seconds"] > 0 and again["old"] and "seconds" not in again


def test_the_last_comparison_is_of_right_ones_and_leaves_out_what_cannot_be_built(rows: Operator) -> None:
    bench = Bench(Problem.of(rows, 0, 16, 1))
    broken = Candidate.of_trace([[["GetBlock", [], ["nobody", "main"], ["b0"]]], []])
    result = bench.run(
        {"do": "compare", "candidates": [{"trace": [[], []]}, broken.data], "seconds": 0.01, "limit": 60.0}
    )
    assert result["machine"] == machine_kind() and result["seconds"][0] > 0 and result["seconds"][1] is None


@pytest.mark.parametrize("gain, kept", [(1.01, "instant"), (1.5, "change")])
def test_what_is_hardly_faster_does_not_replace_the_instant_schedule(rows: Operator, gain: float, kept: str) -> None:
    class Times(Counted):
        """All schedules take 1 ms but those that no rule made, which are faster by `gain`."""

        def seconds(self, candidate: Candidate) -> float:
            return 1e-3 if candidate.text == instant else 1e-3 / gain

    instant = Candidate.of_trace(auto(rows).trace).text
    result, _ = search(rows, 6, force=Times(rows, failing=0), seconds=240)
    found = Candidate.of_trace(result.version.schedule.trace).text
    assert (found == instant) == (kept == "instant")


def test_the_same_seed_and_times_give_the_same_search(rows: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Search, "pool_size", lambda self, count: 2 * count)
    first, second = (search(operator("rows", ROWS), seed=4)[0] for _ in range(2))
    assert [t.candidate.text for t in first.trials] == [t.candidate.text for t in second.trials]
    assert [t.candidate.text for t in search(rows, seed=5)[0].trials] != [t.candidate.text for t in first.trials]


def test_the_model_leads_to_what_is_fast(rows: Operator) -> None:
    class Sizes(Counted):
        def seconds(self, candidate: Candidate) -> float:
            """Fast is what the features tell: few calls, large first tiles."""
            calls, first, *_ = self.features(candidate)
            return 1e-6 * 2 ** (0.1 * calls - 0.4 * first)

    result, _ = search(rows, 60, force=Sizes(rows, failing=0), seconds=120)
    assert len(result.predictions) > 25 and result.correlation > 0.4
    half = len(result.good) // 2
    early, late = ([t.seconds for t in part] for part in (result.good[:half], result.good[half:]))
    assert np.median(late) <= np.median(early)
    assert min(late) <= np.quantile(early, 0.1)  # the best of all may be among the first, which are drawn at random


def test_trials_and_seconds_are_kept(rows: Operator) -> None:
    assert len(search(rows, 1)[0].trials) == 1
    assert len(search(rows, 7)[0].trials) == 7
    begun, force = time.monotonic(), Counted(rows, slow=0.02)
    result, _ = search(rows, None, seconds=3.0, force=force)
    assert result.trials and max(force.begun) < begun + 3.0, (
        "no trial begins late; the end has its own share of the time"
    )


def test_without_time_for_a_trial_the_instant_schedule_is_the_result(rows: Operator, tmp_path: Path) -> None:
    database = Database(tmp_path / "results.jsonl")
    result, force = search(rows, None, seconds=0.01, database=database)
    assert database.entries() == [], "it was not measured"
    assert force.begun == [] and result.trials == () and result.best is None
    assert result.version.schedule.script() == auto(rows).script()
    assert any("no time for a trial: this is the instant schedule" in note for note in result.notes)


def test_if_every_trial_is_stopped_for_the_time_the_instant_schedule_is_the_result(rows: Operator) -> None:
    class Late(Counted):
        """A machine so slow that nothing is compiled in time."""

        def attempt(self, candidate: Candidate) -> dict[str, Any]:
            return self.look(candidate) | {"error": f"{TOO_LONG} while it was compiled"}

    result, _ = search(rows, 3, force=Late(rows))
    assert len(result.trials) == 3 and result.best is None
    assert result.version.schedule.script() == auto(rows).script()
    assert any("this is the instant schedule" in note for note in result.notes)


def test_a_space_that_is_exhausted_ends_the_search() -> None:
    class Same(Counted):
        """All schedules are the same program."""

        def look(self, candidate: Candidate) -> dict[str, Any]:
            return super().look(candidate) | {"hash": "same"}

    result, _ = search(op := operator("s", "X: float32[8]\nY[i] = X[i]"), 500, seconds=60.0, force=Same(op, failing=0))
    assert len(result.trials) < 20 and any("ended early" in note for note in result.notes)


def test_after_an_interrupt_the_best_so_far_is_checked_and_nothing_measured(
    rows: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    times_of(monkeypatch)  # none is measured: the user waits

    def stop(trial: Trial, best: Trial | None) -> None:
        if trial.number >= 5 and best is not None:
            raise KeyboardInterrupt

    result, _ = search(rows, 64, progress=stop)
    assert result.choice.current and rows.current is result.version
    assert [s.name for s in result.choice.standings] == ["tuned", "plain"]


def test_an_interrupt_keeps_the_best_so_far(rows: Operator) -> None:
    def stop(trial: Trial, best: Trial | None) -> None:
        if trial.number >= 5 and best is not None:
            raise KeyboardInterrupt

    result, force = search(rows, 64, progress=stop)
    assert result.interrupted and 5 <= len(result.trials) < 64 and force.closed

    def at_once(trial: Trial, best: Trial | None) -> None:
        raise KeyboardInterrupt

    force = Counted(rows, failing=1)
    with pytest.raises(KeyboardInterrupt):
        search(rows, 64, progress=at_once, force=force)
    assert force.closed


def test_wrong_arguments_and_no_right_schedule(rows: Operator) -> None:
    with refuses("tune.no_trials"):
        tune_operator(rows, 0)
    with refuses("tune.no_trials"):
        tune_operator(rows, seconds=math.nan)
    with refuses("tune.wrong_name"):
        tune_operator(rows, 2, name="plain")
    with refuses("tune.other_machine"):
        tune_operator(rows, 2, target="llvm -mtriple=aarch64-linux-gnu")
    with pytest.raises(TVMagicError, match="`rows`"):
        search(rows, 6, force=Counted(rows, failing=1))
    assert not rows.versions


# ---------------------------------------------------------------------------- what is kept


def times_of(monkeypatch: pytest.MonkeyPatch, **seconds: float) -> list[Callable[[Version], float]]:
    """Let versions take these seconds at the end, by name; return a list whose only item gives the seconds of a version."""
    given: list[Callable[[Version], float]] = [lambda version: seconds[version.name]]
    monkeypatch.setattr(finalize, "_SHORT", 10.0)
    monkeypatch.setattr(Finish, "measured", lambda self, versions: {id(v): given[0](v) for v in versions})
    return given


def mine(op: Operator) -> Version:
    sch = op.schedule()
    sch.parallel(sch.get_loops(sch.get_block("Y"))[0])
    op.add_version(Version(op, sch, "mine"))
    return op.current


def test_a_faster_version_becomes_current(rows: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    version = mine(rows)
    times_of(monkeypatch, mine=2.0, tuned=1.0)
    result, _ = search(rows, 6)
    assert [t.origin for t in result.trials[:2]] == ["instant", "version mine"]
    assert (
        rows.current is result.version and list(rows.versions) == ["mine", "tuned"] and rows.versions["mine"] is version
    )
    assert [(s.name, s.current) for s in result.choice.standings] == [("tuned", True), ("mine", False)]


def test_the_users_schedule_stays_if_it_is_faster(rows: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    version = mine(rows)
    times_of(monkeypatch, mine=1.0, tuned=1.005)
    result, _ = search(rows, 6)
    assert rows.current is version and set(rows.versions) == {"mine", "tuned"} and result.choice.kept
    assert [(s.name, s.current) for s in result.choice.standings] == [("mine", True), ("tuned", False)]
    assert "calls go on using `mine`: nothing faster was found" in result.notes


def test_what_workers_found_far_slower_is_not_called_here(rows: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain loops may take minutes, and nothing could stop them in this process."""

    class Stopped(Counted):
        def attempt(self, candidate: Candidate) -> dict[str, Any]:
            found = super().attempt(candidate)
            return {"error": "stopped"} if candidate.trace is None else found

    version = mine(rows)
    version.schedule = rows.te_schedule()  # one without a trace
    result, _ = search(rows, 6, force=Stopped(rows))
    assert result.choice.current and [s.name for s in result.choice.standings][:2] == ["tuned", "mine"]
    assert result.choice.standings[1].seconds == math.inf


def test_plain_loops_that_are_faster_stay(rows: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    times_of(monkeypatch, plain=1.0, tuned=2.0)
    result, _ = search(rows, 4)
    assert rows.versions == {} and rows.current.name == "plain" and not result.choice.kept
    assert [s.name for s in result.choice.standings] == ["plain", "tuned (new)"]
    assert result.version.schedule.trace.insts, "what was found can be looked at all the same"


def test_a_second_search_does_not_replace_a_better_result_of_the_first(
    rows: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = times_of(monkeypatch, plain=2.0, tuned=1.0)
    first, _ = search(rows, 4)
    assert rows.current is first.version
    found[0] = lambda version: 1.0 if version is first.version else 1.5
    second, _ = search(rows, 4)
    assert rows.current is first.version is second.version and list(rows.versions) == ["tuned"]
    assert [s.name for s in second.choice.standings] == ["tuned", "tuned (new)"]


def test_a_schedule_that_is_wrong_is_never_kept(rows: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers say that all is well; the whole reference does not."""
    usual = Problem.of

    def other(*arguments: Any) -> Problem:
        problem = usual(*arguments)
        value = problem.whole[1][1].values[0]
        value.value.flat[7] += 1.0
        return problem

    monkeypatch.setattr(Problem, "of", staticmethod(other))
    with refuses("tune.no_right_schedule"):
        search(rows, 6)
    assert not rows.versions


def test_a_second_session_begins_with_what_the_file_has(rows: Operator, tmp_path: Path) -> None:
    database = Database(tmp_path / "results.jsonl")
    first, _ = search(rows, 30, database=database)
    known = database.entries()
    assert known and known[0].seconds == first.best.seconds and known[0].machine == machine_kind()
    second, _ = search(operator("other", ROWS), 5, database=database)
    assert second.trials[1].origin == "database"
    assert json.loads(second.trials[1].candidate.text)["trace"] == known[0].trace
    assert second.best.seconds <= first.best.seconds


def test_a_file_that_cannot_be_written_does_not_end_the_search(rows: Operator, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result, _ = search(rows, 6, database=Database(tmp_path / "file" / "results.jsonl"))
    assert len(result.trials) == 6 and sum("cannot be written" in note for note in result.notes) == 1


@pytest.mark.parametrize(
    "text",
    [
        "X: float32[n, 6]\nY[i] += X[i, k]",
        "X: float32[7]\nX[i] = X[i] * 2",
        "X: float32[9]\nS[()] += X[i]",
    ],
)
def test_other_operators(text: str) -> None:
    result, _ = search(operator("f", text), 4, sizes=10)
    assert result.good and result.version is not None


def test_a_function_of_tensorir_is_tuned_too() -> None:
    op = operator(
        "twice",
        """@T.prim_func
def twice(a: T.Buffer((16,), "float32"), b: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            b[vi] = a[vi] * T.float32(2)""",
    )
    result, _ = search(op, 3)
    assert result.good and [s.name for s in result.choice.standings if s.name == "NumPy"] == []
