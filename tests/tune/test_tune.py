"""The search over schedules: its results are right, repeatable and kept."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tvmagic.errors import TVMagicError
from tvmagic.ir import PrimFunc
from tvmagic.operators import Operator, Version, operator
from tvmagic.passes import Record
from tvmagic.tir.schedule import Schedule
from tvmagic.tune import Trial, mutate, random_schedule, tune_operator

DENSE = """X: float32[16, 12]
W: float32[8, 12]
b: float32[8]
Y[i, j] += X[i, k] * W[j, k]
Z[i, j] = max(Y[i, j] + b[j], 0)"""


@pytest.fixture
def dense() -> Operator:
    return operator("dense", DENSE)


def test_the_best_schedule_is_right_and_kept(dense: Operator) -> None:
    seen: list[Trial] = []
    result = tune_operator(dense, 6, seconds=20, seed=3, name="fast", progress=lambda t, _: seen.append(t))
    assert [t.number for t in result.trials] == [1, 2, 3, 4, 5, 6] and tuple(seen) == result.trials
    assert all(t.seconds for t in result.trials), [t.error for t in result.trials]
    assert result.trials[0].origin == "random" and any(t.origin.startswith("change of") for t in result.trials)
    assert result.best.seconds == min(t.seconds or 1 for t in result.good)
    assert dense.current is result.version is dense.versions["fast"]
    x, w, b = dense.random_inputs(1)
    np.testing.assert_allclose(dense(x, w, b), np.maximum(x @ w.T + b, 0), rtol=1e-4, atol=1e-5)


def test_the_python_of_the_best_trace_makes_its_program(dense: Operator) -> None:
    result = tune_operator(dense, 3, seconds=20)
    scope: dict[str, object] = {}
    exec("import tvmagic.tir as tir\n" + result.python, scope)
    again = Schedule(dense.to_prim_func())
    scope["apply_trace"](again)  # type: ignore[operator]
    assert again.script() == result.version.schedule.script()
    assert len(dense.passes(result.version)) > len(result.best.trace.simplified(False).insts) // 2


def test_a_seed_gives_the_same_schedules_again(dense: Operator) -> None:
    def traces() -> list[str]:
        return [str(t.trace) for t in tune_operator(dense, 3, seed=5).trials if t.origin == "random"]

    first, second = traces(), traces()
    assert first[:2] == second[:2]
    assert str(random_schedule(dense.to_prim_func(), 7).trace) == str(random_schedule(dense.to_prim_func(), 7).trace)
    assert str(random_schedule(dense.to_prim_func(), 7).trace) != str(random_schedule(dense.to_prim_func(), 8).trace)


def test_the_space_uses_tiles_vectors_threads_and_inlining() -> None:
    op = operator("f", "X: float32[16, 12]\nA[i, k] = X[i, k] * 2\nY[i] += A[i, k]\nZ[i, j] = A[i, j] - Y[i]")
    used = {i.kind.method for s in range(12) for i in random_schedule(op.to_prim_func(), s).trace.insts}
    assert {"sample_perfect_tile", "split", "reorder", "vectorize", "parallel", "fuse", "compute_inline"} <= used
    assert {"decompose_reduction", "annotate"} <= used
    alone = operator("g", "X: float32[16, 12]\nY[i] += X[i, k]").to_prim_func()
    used = {i.kind.method for s in range(12) for i in random_schedule(alone, s).trace.insts}
    assert {"cache_write", "reverse_compute_at"} <= used


def test_a_change_keeps_the_product_of_tile_sizes(dense: Operator) -> None:
    draw, trace = random.Random(0), random_schedule(dense.to_prim_func(), 1).trace
    for _ in range(20):
        changed = mutate(trace, draw)
        assert changed is not None
        pairs = [(d, changed.decisions[i], i) for i, d in trace.decisions.items()]
        different = [(a, b, i) for a, b, i in pairs if list(a) != list(b)]
        assert len(different) == 1
        ((before, after, inst),) = different
        assert np.prod([int(v) for v in before]) == np.prod(after)
        assert after[-1] <= inst.attrs[1]
        trace = changed


@pytest.mark.parametrize(
    "text",
    [
        "X: float32[n, 6]\nY[i] += X[i, k]",
        "X: float32[7]\nY[i] = X[i] * 2",
        "X: int32[6, 5, 3]\nY[j] = max(X[i, j, k], over=(i, k))",
        "X: float32[9]\nS[()] += X[i]",
        "X: float32[6, 4]\nY[i, j] = exp(X[i, j] - max(X[i, q], over=q))\nZ[i, j] = Y[i, j] / sum(Y[i, q], over=q)",
    ],
)
def test_other_operators(text: str) -> None:
    result = tune_operator(operator("f", text), 4, sizes=10)
    assert all(t.seconds for t in result.trials), [t.error for t in result.trials]


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
    assert tune_operator(op, 2).best.seconds


class Counted:
    """A program whose schedules are not run: a schedule's time is the length of its trace, odd ones are refused."""

    name = "counted"

    def __init__(self, func: PrimFunc) -> None:
        self.func, self.kept = func, ("", "")

    def workload(self, seed: int, sizes: int) -> Counted:
        return self

    def seconds(self, schedule: Schedule) -> float:
        if len(schedule.trace.insts) % 2:
            raise TVMagicError("odd")
        return float(len(schedule.trace.insts))

    def plain_seconds(self) -> float:
        return 1000.0

    def reference(self) -> tuple[float, str]:
        return 500.0, "a guess"

    def keep(self, schedule: Schedule, name: str, record: Record) -> Version:
        self.kept = (name, str(schedule.trace))
        return Version(operator("dense", DENSE), schedule, name, record)


def test_the_search_needs_only_who_times_a_schedule(dense: Operator) -> None:
    counted = Counted(dense.to_prim_func())
    result = tune_operator(counted, 24, name="short", seed=1)
    times = [t.seconds for t in result.trials]
    assert times == [None if len(t.trace.insts) % 2 else len(t.trace.insts) for t in result.trials] and None in times
    assert {t.error for t in result.trials if t.seconds is None} == {"odd"}
    assert result.best.seconds == min(t for t in times if t is not None)
    assert counted.kept == ("short", str(result.best.trace))
    assert (result.plain, result.reference, result.compared_with) == (1000.0, 500.0, "a guess")
    # With times that are always the same, so is the whole search.
    again = tune_operator(counted, 24, name="short", seed=1)
    assert [str(t.trace) for t in again.trials] == [str(t.trace) for t in result.trials]


def test_an_interrupt_keeps_the_best_so_far(dense: Operator) -> None:
    counted = Counted(dense.to_prim_func())

    def stop(trial: Trial, best: Trial | None) -> None:
        if trial.number >= 5 and best is not None:
            raise KeyboardInterrupt

    result = tune_operator(counted, 64, name="short", seed=1, progress=stop)
    assert result.interrupted and 5 <= len(result.trials) < 64
    assert counted.kept == ("short", str(result.best.trace))

    def at_once(trial: Trial, best: Trial | None) -> None:
        raise KeyboardInterrupt

    counted.seconds = lambda schedule: (_ for _ in ()).throw(TVMagicError("wrong"))  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        tune_operator(counted, 64, name="short", seed=1, progress=at_once)


def test_wrong_arguments(dense: Operator) -> None:
    with pytest.raises(TVMagicError, match="at least one trial"):
        tune_operator(dense, 0)
    with pytest.raises(TVMagicError, match="cannot be the name of a schedule"):
        tune_operator(dense, 2, name="plain")
    assert not dense.versions


def test_time_ends_the_search(dense: Operator) -> None:
    assert len(tune_operator(dense, 1000, seconds=0.01).trials) == 1
