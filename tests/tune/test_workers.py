"""Worker processes: what happens to one costs a candidate, and the others go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refuses

from tvmagic.ir import structural_equal
from tvmagic.operators import Operator, operator
from tvmagic.tune import workers as workers_module
from tvmagic.tune.candidate import Candidate
from tvmagic.tune.measurement_lock import alone, together
from tvmagic.tune.problem import Case, Problem, program_key
from tvmagic.tune.worker import Bench, machine_kind
from tvmagic.tune.workers import LocalWorkers, end_text

SUM = "X: float32[40, 24]\nY[i] += X[i, k]"
FAULTY = [sys.executable, str(Path(__file__).with_name("faulty_worker.py"))]


@pytest.fixture
def op() -> Operator:
    return operator("rows", SUM)


def calls(op: Operator, count: int) -> Any:
    """The JSON of a trace with a number of calls that change nothing."""
    sch = op.schedule()
    for _ in range(count):
        sch.get_block("Y")
    return sch.trace.as_json()


def tasks(traces: list[Any], limit: float = 30.0) -> list[dict[str, Any]]:
    return [{"id": n, "do": "try", "candidate": {"trace": t}, "limit": limit} for n, t in enumerate(traces)]


def test_results_come_back_with_times_features_and_the_kind_of_machine(op: Operator) -> None:
    problem = Problem.of(op, 0, 16, 1)
    with LocalWorkers(1) as workers:
        workers.open(problem.to_bytes())
        ((task, result),) = workers.run(tasks([calls(op, 0)]), time.monotonic() + 60)
        look = {
            "id": 9,
            "do": "look",
            "candidates": [{"trace": calls(op, 0)}, {"random": 3, "width": 32}],
            "limit": 30.0,
        }
        ((_, looks),) = workers.run([look], time.monotonic() + 60)
    assert task["id"] == 0 and result["checked"] and not result["stopped"]
    assert result["seconds"] == min(result["times"]) > 0 and result["machine"].endswith("1 threads")
    plain, random = looks["looks"]
    assert plain["features"] == result["features"] and plain["hash"] == result["hash"] != random["hash"]
    assert random["trace"][0], "the worker made the schedule"


def test_tasks_that_are_abandoned_end_with_their_processes_and_others_can_follow(op: Operator) -> None:
    with LocalWorkers(1) as workers:
        workers.open(Problem.of(op, 0, 16, 1).to_bytes())
        given = workers.run(tasks([calls(op, 0), calls(op, 1)]), time.monotonic() + 60)
        next(given)
        with pytest.raises(KeyboardInterrupt):
            given.throw(KeyboardInterrupt)  # type: ignore[attr-defined]
        assert workers.processes[0].process.returncode is not None or workers.processes[0].task is None
        ((task, result),) = workers.run([tasks([calls(op, 2)])[0] | {"id": 7}], time.monotonic() + 60)
    assert task["id"] == 7 and "error" not in result


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals")
def test_a_crash_a_hang_or_a_defect_costs_one_candidate(op: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "_SLACK", 1.0)
    with LocalWorkers(2, FAULTY) as workers:
        workers.open(Problem.of(op, 0, 16, 1).to_bytes())
        before = [p.process.pid for p in workers.processes]
        found = {
            t["id"]: r for t, r in workers.run(tasks([calls(op, n) for n in range(8)], 2.0), time.monotonic() + 120)
        }
        after = [p.process.pid for p in workers.processes]
    assert sorted(found) == list(range(8)) and set(before) != set(after)
    assert all(found[n].get("seconds") for n in (0, 4, 7)), found
    assert found[1]["error"] == "the process ended by SIGSEGV while it was compiled"
    assert found[2]["error"] == "stopped: it took too long while it was compiled"
    assert found[3]["error"] == "did not come back in time"
    assert found[5]["error"] == "ZeroDivisionError: a defect"
    assert found[6]["error"] == "the process ended with status 7 while it was compiled"


ENDLESS = """@T.prim_func
def endless(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
    for i in range(1 << 50):
        with T.block("B"):
            vi = T.axis.opaque(1 << 50, i)
            b[0] = b[0] * T.float32(0.5) + a[0]"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals")
def test_compiled_code_that_does_not_end_is_stopped_at_three_times_the_best() -> None:
    op = operator("endless", ENDLESS)
    case = Case([np.ones(4, "float32")], [np.arange(4)], [np.ones(4, "float32")])
    problem = Problem(op.to_prim_func(), "endless", [case], "llvm", 1, False)
    with LocalWorkers(1) as workers:
        workers.open(problem.to_bytes())
        task = {**tasks([[[], []]])[0], "best": {}}
        from tvmagic.runtime.threads import num_threads, set_num_threads

        threads = num_threads()
        set_num_threads(1)
        task["best"] = {machine_kind(): 1e-3}
        set_num_threads(threads)
        ((_, result),) = workers.run([task], time.monotonic() + 60)
    assert result["error"] == "stopped: it took too long while it ran" and result["elapsed"] < 15


def test_what_is_not_done_at_the_deadline_is_given_up(op: Operator) -> None:
    with LocalWorkers(1, FAULTY) as workers:
        workers.open(Problem.of(op, 0, 16, 1).to_bytes())
        assert len(list(workers.run(tasks([calls(op, 0)]), time.monotonic() + 60))) == 1
        start = time.monotonic()
        assert list(workers.run(tasks([calls(op, 2)] * 3), start + 0.5)) == [] and time.monotonic() - start < 5
        assert len(list(workers.run(tasks([calls(op, 0)]), time.monotonic() + 60))) == 1, "it was started again"
        pids = [p.process.pid for p in workers.processes]
    for pid in pids:
        with pytest.raises(OSError):
            os.kill(pid, 0)


def test_processes_that_do_not_start_are_an_error(op: Operator) -> None:

    with LocalWorkers(1, [sys.executable, "-c", "raise SystemExit(3)"]) as workers:
        workers.open(Problem.of(op, 0, 16, 1).to_bytes())
        with refuses("tune.no_workers"):
            list(workers.run(tasks([calls(op, 0)]), time.monotonic() + 60))


def test_a_worker_ends_when_its_search_is_gone(op: Operator, tmp_path: Path) -> None:
    process = subprocess.Popen(FAULTY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    path = tmp_path / "problem.npz"
    path.write_bytes(Problem.of(op, 0, 16, 1).to_bytes())
    process.stdin.write(f'"{path}"\n')
    process.stdin.flush()
    assert "ready" in process.stdout.readline()
    process.stdin.write(json.dumps(tasks([calls(op, 3)], 100.0)[0]) + "\n")
    process.stdin.close()
    assert process.wait(20) == 0
    process.stdout.close()


@pytest.mark.parametrize(
    "status, text", [(-9, "SIGKILL"), (-14, "too long"), (-27, "too long"), (3, "status 3"), (None, "status None")]
)
def test_the_end_of_a_process_in_words(status: int | None, text: str) -> None:
    assert text in end_text(status, "run") and end_text(status, "run").endswith("while it ran")


# ---------------------------------------------------------------------------- in this process


def test_a_wrong_result_is_an_error_and_so_is_a_refused_call(op: Operator) -> None:
    problem = Problem.of(op, 0, 16, 0)
    bench = Bench(problem)
    assert bench.attempt(Candidate({"trace": calls(op, 0)}), None, 30.0)["checked"]
    refused = [[["GetBlock", [], ["nobody", "main"], ["b0"]]], []]
    assert "nobody" in bench.attempt(Candidate({"trace": refused}), None, 30.0)["error"]
    assert "not a trace" in bench.look(Candidate({"trace": [[["GetLoops", ["b7"], [], ["l0"]]], []]}))["error"]
    problem.cases[1].expected[0][0][3] += 1.0  # as if the schedule had left it out
    error = bench.attempt(Candidate({"trace": calls(op, 0)}), None, 30.0)["error"]
    assert "NOT equal to NumPy" in error and "1 of 40" in error


def test_a_worker_finds_what_another_compiled(op: Operator, tmp_path: Path) -> None:
    problem, candidate = Problem.of(op, 0, 16, 0), Candidate({"trace": calls(op, 0)})
    Bench(problem, folder=tmp_path).built(candidate)
    compiled = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    other = Bench(problem, folder=tmp_path)
    assert other.attempt(candidate, None, 30.0)["checked"]
    assert other.side_by_side([candidate], 0.01, 30.0)["seconds"][0] > 0
    assert compiled == {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} != {}


def test_only_a_candidate_that_was_not_looked_at_tells_how_long_that_takes(op: Operator) -> None:
    bench, candidate = Bench(Problem.of(op, 0, 16, 0)), Candidate({"trace": calls(op, 0)})
    assert bench.attempt(candidate, None, 30.0)["looked"] > 0
    assert "looked" not in bench.attempt(candidate, None, 30.0)


def test_a_slow_candidate_is_called_once(op: Operator) -> None:
    found = Bench(Problem.of(op, 0, 16, 0)).attempt(Candidate({"trace": calls(op, 0)}), 1e-12, 30.0)
    assert found["stopped"] or found["seconds"] < 1e-3  # below a millisecond nothing is saved
    wide = operator("rows", "X: float32[3000, 3000]\nY[i] += X[i, k] * X[i, k]")
    found = Bench(Problem.of(wide, 0, 16, 0)).attempt(Candidate({"trace": calls(wide, 0)}), 1e-9, 30.0)
    assert found["stopped"] and not found["checked"] and len(found["times"]) == 1


def test_a_candidate_that_was_interrupted_is_called_again(op: Operator) -> None:
    """A short call during which another process had the processor is not a slow one."""
    bench = Bench(Problem.of(op, 0, 16, 0))
    quick = bench.built(Candidate({"trace": calls(op, 0)}))
    seen: list[int] = []

    def interrupted(*arguments: Any) -> None:
        seen.append(1)
        if len(seen) == 1:
            time.sleep(0.02)
        quick(*arguments)

    assert bench.check(interrupted, 1.0, 30.0, 1e-5) < 0.02 and len(seen) > 1


def test_what_the_first_call_of_a_process_takes_in_addition_is_not_counted(op: Operator) -> None:
    bench, taken = Bench(Problem.of(op, 0, 16, 0)), [0.2]

    def module(x: Any, y: Any) -> None:
        time.sleep(taken.pop() if taken else 0)
        y[:] = op.reference(x)

    assert bench.check(module, 30.0, 30.0, 1e-5) < 0.1
    taken.append(0.2)  # a candidate that is as slow as that
    assert bench.check(module, 30.0, 30.0, 1e-5) > 0.15


def test_a_problem_is_the_same_from_its_file(tmp_path: Path) -> None:
    text = "X: float32[7, n]\nI: int32[n]\nY[i] = X[I[i], 2] * 2\nZ[i] += X[i, k]"
    problem = Problem.of(operator("gather", text), 1, 9, 3)
    path = tmp_path / "problem.npz"
    path.write_bytes(problem.to_bytes())
    again = Problem.load(path)
    assert structural_equal(again.func, problem.func) and again.key == problem.key
    assert (again.threads, again.target, again.check_bounds) == (3, problem.target, problem.check_bounds)
    for one, other in zip(problem.cases, again.cases, strict=True):
        for a, b in zip([*one.inputs, *one.places], [*other.inputs, *other.places], strict=True):
            assert a.dtype == b.dtype and (a == b).all()
        assert str(one.expected) == str(other.expected)


@pytest.mark.parametrize(
    "text",
    [
        "X: float16[16, 8]\nY[i, j] = X[i, j] * 2",
        "X: bfloat16[16, 64]\nY[i] += X[i, k]",
        "X: float32[16]\nB[i] = X[i] > 0",
        "X: float32[8, 8]\nY[i, j] = X[i, j] * 2\nZ[i] += Y[i, j]",
        "X: int8[16, 8]\nY[i] += int32(X[i, k])",
        "A: float32[30]\nA[i] = A[i] + 1",
        "X: float32[20]\nI: int32[9]\nY[i] = X[I[i]]",
    ],
)
def test_operators_of_all_kinds_are_tried_from_their_files(tmp_path: Path, text: str) -> None:
    op = operator("f", text)
    path = tmp_path / "problem.npz"
    path.write_bytes(Problem.of(op, 0, 16, 0).to_bytes())
    bench = Bench(Problem.load(path))
    for candidate in (Candidate.of_trace([[], []]), Candidate.of_version(op.current)):
        found = bench.attempt(candidate, None, 30.0)
        assert found.get("checked"), found


def test_a_sample_of_a_large_output_has_some_of_each_row() -> None:
    problem = Problem.of(operator("twice", "X: float32[1000, 700]\nY[i, j] = X[i, j] * 2"), 0, 16, 0)
    places = problem.cases[0].places[0]
    assert len(places) < 1000 * 700 and places[0] == 0 and places[-1] == 1000 * 700 - 1
    assert set(places // 700) == set(range(1000)) and set(places % 700) == set(range(700))


def test_the_key_of_a_program_is_that_of_its_structure() -> None:
    keys = {program_key(operator(name, SUM).to_prim_func()) for name in ("a", "b")}
    assert len(keys) == 1 and program_key(operator("a", SUM.replace("40", "41")).to_prim_func()) not in keys


def test_who_measures_is_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # locks of its own: while it holds one and waits for its children, a search of another test would stop all of them
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    script = "import sys, time\nfrom tvmagic.tune.measurement_lock import {0}\nwith {0}() as had:\n    print(had, flush=True)\n    sys.stdin.read()"
    start = lambda kind: subprocess.Popen(  # noqa: E731
        [sys.executable, "-c", script.format(kind)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with together():
        with start("together") as builder:
            assert builder.stdout is not None and builder.stdout.readline() == "True\n", (
                "builders do not wait for each other"
            )
            assert builder.stdin is not None
            builder.stdin.close()
        other = start("alone")
        time.sleep(1.0)
        assert other.poll() is None
    with other:
        assert other.stdout is not None and other.stdout.readline() == "True\n"
        os.kill(other.pid, signal.SIGKILL)  # the system gives its lock back
        with alone() as had:
            assert had
