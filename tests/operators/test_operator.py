"""Operators: running, schedules, versions, checks, times, costs, and their errors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from refusals import refuses

from tvmagic import te
from tvmagic.errors import ScheduleError, TVMagicError
from tvmagic.eval.cost import count
from tvmagic.operators import operator
from tvmagic.operators.arrays import require_memory
from tvmagic.operators.cpu_contention import rest
from tvmagic.operators.measure import Timing, bench, check, compare, measure, measure_in_turns
from tvmagic.operators.scheduling import CellError, schedule
from tvmagic.operators.stage_memory import check_memory_of_stages
from tvmagic.passes import Record

DENSE = "X: float32[64, 32]\nW: float32[48, 32]\nY[i, j] += X[i, k] * W[j, k]"
TILE = "y = s[Y]\nio, jo, ii, ji = y.tile(*y.axis, 8, 16)\ny.vectorize(ji)\ny.parallel(io)"


def dense() -> tuple:
    op = operator("dense", DENSE)
    return op, op.random_inputs()


def test_a_schedule_keeps_the_result_and_is_used_from_then_on() -> None:
    op, inputs = dense()
    plain = op(*inputs)
    version = schedule(op, TILE)
    assert op.current is version
    np.testing.assert_allclose(op(*inputs), plain, rtol=1e-4, atol=1e-5)
    assert check(version).ok


def test_versions_are_kept_by_name() -> None:
    op, _ = dense()
    schedule(op, TILE, "tiled")
    schedule(op, "s[Y].parallel(s[Y].axis[0])", "rows")
    assert list(op.versions) == ["tiled", "rows"]
    assert op.version("tiled").name == "tiled" and op.current.name == "rows"
    with refuses("operator.unknown_version", names="`nope`") as caught:
        op.version("nope")
    assert "`tiled`" in (caught.value.hint or "")


def test_each_schedule_call_is_a_step_with_its_text_and_place() -> None:
    op, _ = dense()
    record = schedule(op, TILE).record
    assert isinstance(record, Record)
    assert [s.name for s in record] == ["y.tile(*y.axis, 8, 16)", "y.vectorize(ji)", "y.parallel(io)"]
    assert all(s.kind == "schedule" for s in record)
    assert record.steps[1].span.line == 4
    assert record.steps[0].after is record.steps[1].before


def test_calls_inside_loops_and_helpers_are_steps_too() -> None:
    op, _ = dense()
    record = schedule(
        op, "for axis, factor in zip(list(s[Y].axis), (8, 16)):\n    s[Y].split(axis, factor=factor)"
    ).record
    assert record is not None
    assert [s.name for s in record] == ["s[Y].split(i, factor=8)", "s[Y].split(j, factor=16)"]


def test_calls_on_another_schedule_and_calls_of_calls_are_no_steps() -> None:
    op, _ = dense()
    cell = "other = te.create_schedule(s[Y].op)\nother[Y].split(Y.op.axis[0], factor=4)\ns[Y].tile(*s[Y].axis, 8, 16)"
    record = schedule(op, cell).record
    assert record is not None
    assert [s.name for s in record] == ["s[Y].tile(*s[Y].axis, 8, 16)"]
    again = schedule(op, "s.cache_write(Y, 'local')\ns[Y].split(s[Y].axis[0], factor=4)").record
    assert again is not None and len(again) == 2


def test_a_schedule_records_only_while_its_cell_runs() -> None:
    op, _ = dense()
    before = te.schedule.Stage.split
    record = schedule(op, "s[Y].split(s[Y].axis[0], factor=4)").record
    assert te.schedule.Stage.split is before
    assert record is not None and len(record) == 1


def test_a_failing_call_leaves_the_state_before_it_usable() -> None:
    op, inputs = dense()
    good = schedule(op, TILE)
    with pytest.raises(ScheduleError) as caught:
        schedule(op, "y = s[Y]\nio, ii = y.split(y.axis[0], 8)\ny.vectorize(y.axis[0])")
    assert caught.value.span is not None and caught.value.span.line == 4
    assert op.current is good
    assert op.attempt is not None and op.attempt.record is not None
    assert [s.error is None for s in op.attempt.record] == [True, False]
    np.testing.assert_allclose(op.attempt(*inputs), op.reference(*inputs), rtol=1e-4, atol=1e-5)


def test_python_errors_of_a_cell_have_its_place() -> None:
    op, _ = dense()
    with refuses("cell.python_error", error=CellError) as caught:
        schedule(op, "y = s[Y]\nnope(y)")
    assert caught.value.span is not None and caught.value.span.line == 3


def test_a_tensorir_schedule() -> None:
    op, inputs = dense()
    version = schedule(
        op,
        "block = sch.get_block('Y')\ni, j, k = sch.get_loops(block)\nio, ii = sch.split(i, [None, 8])\nsch.parallel(io)",
    )
    assert check(version).ok
    assert version.record is not None
    assert [s.name.split("(")[0] for s in version.record][-1].endswith("parallel")


def test_calls_of_one_line_are_steps_of_their_own_names() -> None:
    op, _ = dense()
    version = schedule(
        op,
        "b = sch.get_block('Y'); i, j, k = sch.get_loops(b)\n"
        "é = '; é'; sch.parallel(i); io, ii = sch.split(j, [None, 8])  # tiles\n"
        "for a in [io]: sch.annotate(a,\n    'é', 1); sch.unroll(ii)\n"
        "for a in sch.split(k, [None, 8]): pass",
    )
    assert version.record is not None and [s.name for s in version.record if s.kind == "schedule"] == [
        "sch.parallel(i)", "io, ii = sch.split(j, [None, 8])", "sch.annotate(a, 'é', 1)", "sch.unroll(ii)",
        "for a in sch.split(k, [None, 8]): pass",
    ]  # fmt: skip


def test_both_schedules_in_one_cell_are_refused() -> None:
    op, _ = dense()
    with refuses("cell.two_schedules", names="`s`.*`sch`"):
        schedule(op, "s[Y]; sch.get_block('Y')")


def test_outputs_can_be_given_and_inputs_named() -> None:
    op, (x, w) = dense()
    out = np.empty((64, 48), "float32")
    assert op(W=w, X=x, out=out) is out
    np.testing.assert_allclose(out, x @ w.T, rtol=1e-4, atol=1e-5)


class Foreign:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.array


def test_arrays_of_other_libraries_are_taken() -> None:
    op, (x, w) = dense()
    np.testing.assert_allclose(op(Foreign(x), w), x @ w.T, rtol=1e-4, atol=1e-5)


def wrong_calls() -> list[tuple[str, object]]:
    x, w = np.ones((64, 32), "float32"), np.ones((48, 32), "float32")
    return [
        ("operator.wrong_input_count", lambda op: op(x)),
        ("operator.unknown_input", lambda op: op(x, Q=w)),
        ("array.wrong_dtype", lambda op: op(x.astype("float64"), w)),
        ("array.wrong_rank", lambda op: op(x[0], w)),
        ("array.wrong_size", lambda op: op(x, w[:, :31])),
        ("array.not_an_array", lambda op: op([[1.0]], w)),
        ("call.read_only_output", lambda op: op(x, w, out=read_only())),
        ("call.size_mismatch", lambda op: op(x, w, out=np.empty((64, 47), "float32"))),
    ]


def read_only() -> np.ndarray:
    array = np.zeros((64, 48), "float32")
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(("code", "call"), wrong_calls(), ids=range(len(wrong_calls())))
def test_wrong_arguments_are_told_and_nothing_is_written(code: str, call) -> None:
    op, _ = dense()
    with pytest.raises(TVMagicError) as caught:
        call(op)
    assert code == caught.value.code


def test_symbolic_sizes_must_agree() -> None:
    op = operator("f", "X: float32[n, 4]\nY: float32[n]\nZ[i] += X[i, k] * Y[i]")
    assert op(np.ones((3, 4), "float32"), np.ones(3, "float32")).tolist() == [4, 4, 4]
    assert op(np.ones((5, 4), "float32"), np.ones(5, "float32")).shape == (5,)
    with pytest.raises(TVMagicError, match="`n`.*`X`"):
        op(np.ones((3, 4), "float32"), np.ones(4, "float32"))


def test_compare_tells_the_largest_error_and_where() -> None:
    expected = np.arange(6, dtype="float32").reshape(2, 3)
    got = expected.copy()
    got[1, 2] += 0.5
    result = compare([got], [expected], ["Y"])
    assert not result.ok and result.absolute == 0.5 and result.place == "Y[1, 2]"
    assert "NOT equal" in str(result)


def test_benchmarks_hold_every_version_and_numpy() -> None:
    op, _ = dense()
    schedule(op, TILE, "tiled")
    result = bench(op, seconds=0.01)
    assert [name for name, _ in result.rows] == ["tiled", "NumPy"]
    assert result.ratio("tiled") > 0


def clock(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], Callable[[str, float, float], Callable[[], None]]]:
    """Calls that take the time they say, by a clock of their own; what is called or slept is listed in order."""
    now, order = [0.0], list[str]()

    def taking(name: str, seconds: float, more: float = 0.0) -> Callable[[], None]:
        def call() -> None:
            order.append(name)
            now[0] += seconds + (more if order.count(name) > 9 else 0.0)

        return call

    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    monkeypatch.setattr("time.process_time", lambda: 0.0)
    monkeypatch.setattr("time.sleep", lambda seconds: order.append("pause"))
    return order, taking


def test_versions_are_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    order, taking = clock(monkeypatch)
    first, second = measure_in_turns([taking("a", 0.25, 0.5), taking("b", 0.125)], 8.0, turns=4, repeats=2)
    # one call each to see how long it takes, then runs of 1 s: 4 of `a`, 8 of `b`, two runs a turn
    turn = ["pause", *["a"] * 8, "pause", *["b"] * 16]
    assert order == ["a", "b", *turn * 4]
    assert (second.best, second.median, second.calls) == (0.125, 0.125, 64)
    # `a` was slowed down after its first turn: the best time does not tell, the median does
    assert (first.best, first.median, first.calls) == (0.25, 0.75, 32)


def test_slow_calls_are_measured_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    order, taking = clock(monkeypatch)
    slow, quick = measure_in_turns([taking("slow", 16.0), taking("quick", 1.0)], 8.0, turns=4, repeats=2)
    assert slow == Timing(16.0, 16.0, 3) and quick == Timing(1.0, 1.0, 8)
    assert [n for n in order if n == "slow"] == ["slow"] * 4
    order.clear()
    assert measure(taking("alone", 0.5), seconds=7.0) == Timing(0.5, 0.5, 14)
    assert "pause" not in order


@pytest.mark.parametrize(("spinning", "slept", "rests"), [(0.0, 0.02, True), (0.11, 0.12, True), (9.0, 0.4, False)])
def test_what_is_measured_waits_for_threads_that_compute(
    monkeypatch: pytest.MonkeyPatch, spinning: float, slept: float, rests: bool
) -> None:
    # a thread of this process computes for the first `spinning` seconds, as those of a BLAS do after a call
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    monkeypatch.setattr("time.process_time", lambda: min(now[0], spinning))
    assert rest(0.4) is rests
    assert now[0] == pytest.approx(slept, abs=0.021)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="what is counted is Linux's")
def test_two_programs_on_one_processor_wait_for_each_other() -> None:
    code = """if True:
        import os, subprocess, sys, time
        from tvmagic.operators.cpu_contention import Sharing
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            with Sharing() as sharing:
                begun = time.perf_counter()
                while time.perf_counter() - begun < 0.6:
                    pass
        finally:
            other.kill()
        print(sharing.share)
    """
    share = float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert share > 0.2


def test_costs_are_counted_exactly() -> None:
    op, _ = dense()
    cost = count(next(iter(op.lower().functions.values())))
    assert cost.total.arithmetic == 2 * 64 * 48 * 32
    assert cost.total.stored["global"] == 4 * (64 * 48 + 64 * 48 * 32)
    assert (cost.lanes, cost.parallel, cost.allocated) == (1, 1, 0)
    tiled = count(next(iter(schedule(op, TILE).lower().functions.values())))
    assert tiled.total.arithmetic == cost.total.arithmetic
    assert (tiled.lanes, tiled.parallel) == (16, 8)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("s[Y].splitt(1)", "did you mean `split`?"),
        ("s[Y].vectorise(Y.op.axis[0])", "did you mean `vectorize`?"),
        ("sch.get_bloc('Y')", "did you mean `get_block`?"),
        ("s[YY].split(1)", "did you mean `Y`?"),
        ("s[Y].qqqq", None),
        ("s[Q].split(1)", "the tensors are `X`, `Y`"),
        ("sch.vectorize('i')", "`get_loops(BLOCK)` gives the loops around a block"),
        (
            "sch.tile(1, 4)",
            "`tile` is of a stage of the TE schedule: `s[TENSOR].tile`; here `split` both loops, then `reorder`",
        ),
        ("s[Y].blockize()", "`blockize` is of the TensorIR schedule: `sch.blockize`, in a cell that uses `sch` alone"),
        (
            "s[Y].split(Y.op.axis[0], 2)\ns[Y].parallel(inner)",
            "the loops of `Y` are `i.outer`, `i.inner`; a call gives those that it makes, as in `fused = s[Y].fuse(...)`",
        ),
        ("s[Y].parallel(inner)", "the loops of `Y` are `s[Y].op.axis`"),
        ("s[Y].compute_at(Y, Y.op.axis[0])", "write `s[Y]`"),
        ("s[Y].reorder(Y.op.axis)", "write `*` before it"),
        ("s[Y].split(Y.op.axis[0], '4')", "a factor is a whole number, such as 4"),
        ("s[Y].split(Y.op.axis[0], 4.0)", "a factor is a whole number, such as 4"),
        ("sch.undo()", "delete the line and run the cell again: each run begins with a fresh schedule"),
        ("Y.update().vectorize(x, 8)", "a sum and what it begins with are one stage: `s[TENSOR]`"),
        ("s[Y].gpu_blocks(Y.op.axis[0])", 'bind the loop: `s[TENSOR].bind(loop, te.thread_axis("blockIdx.x"))`'),
        ("ComputeAt(Y, 4)", "`ComputeAt` is a call of a schedule: `s[TENSOR].compute_at`"),
        ("ir_sch.Split('Y', 0, [4])", None),
        ("rows, = s[Y].op.axis\ns[Y].parallel(inner)", "the loops of `Y` are `rows`"),
        ("s[Y].parallel(i)", "`i` is a loop of `Y`, and has no name here yet: `s[Y].op.axis[0]`"),
        ("sch.parallel(i)", '`i` is a loop of `Y`, and has no name here yet: `sch.get_loops("Y")[0]`'),
        ("Y.split(Y.op.axis[0], 4)", "`split` is of the stage of a tensor: `s[Y].split`"),
        ("s.vectorize(Y.op.axis[0])", "`vectorize` is of a stage of the schedule: `s[TENSOR].vectorize`"),
        (
            "s[Y].cache_write('local')",
            "`cache_write` is of the schedule, which takes the tensor: `s.cache_write(Y, ...)`",
        ),
        ("Y.op.axis[0].split(4)", "`split` is of the stage, which takes the loop: `s[TENSOR].split(loop, ...)`"),
        ("sch.get_block('Y').split(4)", "`split` is of the schedule, which takes the block: `sch.split`"),
        ("s[X].parallel(s[X].op.axis[0])", "an input has no loops: nothing computes it"),
        ("s[Y].parallel('i')", "write `s[Y].op.axis[0]`"),
        ("s[Y].parallel(0)", "the loops of the stage are `i`"),
        ("tile(4)", "`tile` is a call of a schedule: `s[TENSOR].tile`"),
        ("cache_write(Y)", "`cache_write` is a call of a schedule: `s.cache_write`"),
        ("get_block('Y')", "`get_block` is a call of a schedule: `sch.get_block`"),
        ("thread_axis('threadIdx.x')", "write `te.thread_axis`"),
        ("s[Y].split(Y.op.axis[0], 2, 4)", "a loop in three is made by two calls: split the inner one again"),
        ("s[Y].compute_at(s[Y], Y.op.axis[0])", "give the stage that reads it, and a loop of that"),
        ("s[Y].vectorize(Y.op.axis[0], 8)", "it is called as `vectorize(var)`"),
        ("s[Y].compute_at(s[X])", "it is called as `compute_at(parent, scope)`"),
        ("te.var(nam='n')", "it is called as `var(name='tindex', dtype='int32', span=None)`"),
        (
            "sch.split(sch.get_loops('Y')[0])",
            "it is called as `split(loop, factors, preserve_unit_iters=True, disable_predication=False)`",
        ),
    ],
)
def test_a_wrong_method_is_answered_with_the_nearest(text: str, hint: str | None) -> None:
    op = operator("f", "X: float32[8]\nY[i] = X[i]")
    with pytest.raises(TVMagicError) as caught:
        schedule(op, text)
    assert caught.value.hint == hint


def test_a_loop_of_the_stage_that_is_named_is_meant() -> None:
    op = operator("f", "X: float32[8]\nA[i] = X[i] * 2\nB[i] = A[i] * 2\nC[i] = B[i] * 2\nY[i] = A[i] + B[i] + C[i]")
    for text, hint in (
        ("s[Y].parallel(i)", "`i` is a loop of `Y`, and has no name here yet: `s[Y].op.axis[0]`"),
        (
            "s[Y].compute_at(s[C], i)",
            "`i` is a loop of `C` and `Y`, and has no name here yet: `s[C].op.axis[0]`, `s[Y].op.axis[0]`",
        ),
        (
            "x = i",
            "`i` is a loop of `A` and `B` and `C`, and has no name here yet: `s[A].op.axis[0]`, `s[B].op.axis[0]`, `s[C].op.axis[0]`",
        ),
    ):
        with pytest.raises(TVMagicError) as caught:
            schedule(op, text + "\ns[Y]")
        assert caught.value.hint == hint


def test_arguments_that_are_no_arrays_are_told() -> None:
    class Broken:
        def __array__(self, *_: object) -> object:
            raise ValueError("not today")

    op, (x, w) = dense()
    with pytest.raises(TVMagicError, match="`X`"):
        op(Broken(), w)
    with pytest.raises(TVMagicError, match="`X`.*`dense`"):
        op(x, w, X=x)


def test_random_inputs_are_made_in_parts_that_make_no_difference() -> None:
    op = operator("f", "X: float32[1500, 1000]\nI: int64[1500, 1000]\nY[i, j] = X[i, j] * float32(I[i, j])")
    x, i = op.random_inputs(3)
    generator = np.random.default_rng(3)
    np.testing.assert_array_equal(x, generator.uniform(-1, 1, (1500, 1000)).astype("float32"))
    np.testing.assert_array_equal(i, generator.integers(-8, 8, (1500, 1000)))


def test_indices_stay_inside_of_tensors_of_symbolic_sizes() -> None:
    op = operator("gather", "X: float32[n]\nV: float32[n + 3]\nI: int32[m]\nJ: int32[m]\nY[i] = X[I[i]] * 2 + V[J[i]]")
    inputs = dict(zip("XVIJ", op.random_inputs(sizes={"n": 5, "m": 400})))
    assert inputs["I"].min() == 0 and inputs["I"].max() == 4
    assert inputs["J"].min() == 0 and inputs["J"].max() == 7
    assert op.check(sizes={"n": 5, "m": 400}).word.startswith("equal")


def test_stages_larger_than_memory_are_rejected() -> None:
    size = 1 << 25
    X = te.placeholder((size,), "uint8", name="X")
    Y = te.compute((size, size), lambda i, j: X[i] + X[j], name="Y")
    Z = te.compute((size,), lambda i: Y[i, i], name="Z")
    with pytest.raises(TVMagicError, match="`Y`.*`f`"):
        check_memory_of_stages("f", [Z], None)
    check_memory_of_stages("f", [Y], None)  # a call makes its outputs


def test_memory_is_what_the_system_and_the_group_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"/proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 3000000 kB\n"}

    def read(path: Path, **_: object) -> str:
        if str(path) not in files:
            raise OSError(path)
        return files[str(path)]

    monkeypatch.setattr(Path, "read_text", read)
    require_memory(2 << 30, "an array")
    with pytest.raises(TVMagicError, match="3.*2.86"):
        require_memory(3 << 30, "an array")
    files["/sys/fs/cgroup/memory.max"], files["/sys/fs/cgroup/memory.current"] = str(3 << 30), str(2 << 30)
    with refuses("array.out_of_memory"):
        require_memory(2 << 30, "an array")
    files["/sys/fs/cgroup/memory.max"] = "max"
    require_memory(2 << 30, "an array")


def test_a_stencil_of_a_symbolic_size_runs_as_far_as_it_can_and_refuses_arrays_that_are_too_short() -> None:
    op = operator("f", "X: float32[n]\nY[i] = X[i] + X[i + 1] + X[i + 5]\n")
    x = np.arange(9, dtype="float32")
    assert str(op.outputs[0].shape[0]) == "n - 5"
    for compute in (op, op.reference):
        np.testing.assert_array_equal(compute(x), x[:4] + x[1:5] + x[5:])
        assert compute(x[:5]).shape == (0,)
        with pytest.raises(TVMagicError, match="`Y`.*`n - 5`.*`n`"):
            compute(x[:4])


@pytest.mark.parametrize("reducer", ["sum", "prod"])
def test_a_reduction_over_nothing_has_its_neutral_element_under_any_schedule(reducer: str) -> None:
    op = operator("op", f"X: float32[4, n]\nS[i] = {reducer}(X[i, k], over=k)")
    calls = ("sch.parallel(sch.get_loops(sch.get_block('S'))[0])", "s[S].parallel(S.op.axis[0])")
    for call in calls:
        version = schedule(op, f"S = op.outputs[0]\n{call}", namespace={"op": op})
        out = np.full(4, 7, "float32")
        version(np.zeros((4, 0), "float32"), out=out)
        np.testing.assert_array_equal(out, np.full(4, reducer == "prod", "float32"))
        np.testing.assert_array_equal(version(np.full((4, 1), 3, "float32")), np.full(4, 3, "float32"))


def test_inputs_that_get_new_values_are_results_though_later_lines_read_them() -> None:
    """As the state of an optimizer: the new moments are read below, and kept for the next step."""
    cell = """w: float32[n]
g: float32[n]
m: float32[n]
m[i] = 0.9 * m[i] + 0.1 * g[i]
w[i] = w[i] - 0.5 * m[i]
y[t] = m[t] if t == 0 else y[t - 1] + w[t]
s[()] = y[n - 1]"""
    op = operator("momentum", cell)
    assert [t.name for t in op.outputs] == ["w", "m", "s"]
    w, g, m = (np.array(values, "float32") for values in ([1, 2, 3], [0.5, 1, -1], [4, 5, 6]))
    new = np.float32(0.9) * m + np.float32(0.1) * g
    for got in (op(w, g, m), op.reference(w, g, m)):
        for value, expected in zip(got, (w - new / 2, new, new[0] + (w - new / 2)[1:].sum())):
            np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert m.tolist() == [4, 5, 6] and op.check().ok
    places = [w.copy(), m.copy(), np.empty((), "float32")]
    op(w, g, m, out=places)
    np.testing.assert_allclose(places[1], new, rtol=1e-5)
