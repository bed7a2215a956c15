"""The interpreter, and the check of every step with it."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refuses

from tvmagic.eval.lanes import OutOfRange
from tvmagic.eval.machine import run_function
from tvmagic.ir import BufferStore, For, Mutator, handles
from tvmagic.notebook.commands import record_of
from tvmagic.operators import Operator, operator
from tvmagic.operators.scheduling import schedule
from tvmagic.operators.verify import NOT_RUN, verify
from tvmagic.script import from_source

DENSE = "X: float32[12, 20]\nW: float32[16, 20]\nb: float32[16]\nY[i, j] += X[i, k] * W[j, k]\nZ[i, j] = max(Y[i, j] + b[j], 0)"
SOFTMAX = "X: float32[n, 10]\nE[i, j] = exp(X[i, j] - max(X[i, q], over=q))\nP[i, j] = E[i, j] / sum(E[i, q], over=q)"
PREFIX = """@T.prim_func
def prefix(a: T.Buffer((16,), "int32"), b: T.Buffer((16,), "int32")):
    for i in range(16):
        b[i] = a[i]
    for i in range(15):
        b[i + 1] = b[i + 1] + b[i]"""

SCHEDULES = {
    "plain": (DENSE, ""),
    "tile": (
        DENSE,
        "y, z = s[Y], s[Z]\nio, jo, ii, ji = z.tile(*z.axis, 4, 8)\ny.compute_at(z, jo)\nz.vectorize(ji)\nz.parallel(io)",
    ),
    "uneven": (DENSE, "z = s[Z]\nio, ii = z.split(z.axis[0], factor=5)\ns[Y].compute_at(z, io)\nz.unroll(ii)"),
    "inline": (SOFTMAX, "p = s[P]\nio, ii = p.split(p.axis[0], 4)\np.vectorize(p.axis[1])"),
    "rfactor": (DENSE, "ko, ki = s[Y].split(s[Y].reduce_axis[0], 4)\ns.rfactor(Y, ki)"),
    "cache": (DENSE, "c = s.cache_write(Z, 'local')\nio, ii = s[Z].split(s[Z].axis[0], 4)\ns[c].compute_at(s[Z], io)"),
    "reduce first": (DENSE, "y = s[Y]\ny.reorder(y.reduce_axis[0], *y.axis)\ny.vectorize(y.axis[1])"),
}


def timeline(text: str, calls: str) -> tuple[Operator, object]:
    op = operator("op", text)
    return op, record_of(schedule(op, calls), code=False)


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_step_of_a_right_schedule_equals_numpy(name: str) -> None:
    op, record = timeline(*SCHEDULES[name])
    verdicts = verify(record, op)  # type: ignore[arg-type]
    assert [v.text for v in verdicts if v.state == "bad"] == []
    assert sum(v.state == "equal" for v in verdicts) > 20
    assert verdicts[-1].state == "equal"


def test_threads_that_reduce_together_run_once_they_are_lowered() -> None:
    op, record = timeline(
        DENSE, "y = s[Y]\nko, ki = y.split(y.reduce_axis[0], 4)\ny.bind(ki, te.thread_axis('threadIdx.x'))"
    )
    verdicts = dict(zip([s.name for s in record.steps], verify(record, op)))  # type: ignore[attr-defined, arg-type]
    assert [v.text for v in verdicts.values() if v.state == "bad"] == []
    assert not verdicts["te.ScheduleOps"].state and "tvm_thread_allreduce" in verdicts["te.ScheduleOps"].text
    for name in ("tir.StorageFlatten", "tir.VectorizeLoop", "tir.CommonSubexprElimTIR"):
        assert verdicts[name].state == "equal"


def test_the_record_ends_with_the_steps_of_threads_and_their_code() -> None:
    op = operator("op", DENSE)
    calls = "y = s[Y]\nko, ki = y.split(y.reduce_axis[0], 4)\ny.bind(ki, te.thread_axis('threadIdx.x'))"
    names = [step.name for step in record_of(schedule(op, calls)) if step.changed]
    lowering = [name for name in names if not name.startswith("late.")]
    assert lowering[-4:] == ["tir.LowerThreadAllreduce", "tir.ThreadsAsLoops", "codegen.llvm", "codegen.assembly"]


def test_a_loop_that_carries_values_runs_one_by_one() -> None:
    op = operator("prefix", PREFIX)
    a = np.arange(16, dtype="int32")
    np.testing.assert_array_equal(op.reference(a), np.cumsum(a))


class _Spoil(Mutator):
    """Makes one loop one iteration shorter."""

    @handles(For)
    def shorten(self, node: For) -> For:
        return node.replace(extent=node.extent - 1)


def test_the_first_step_that_goes_wrong_is_told() -> None:
    op, record = timeline(*SCHEDULES["tile"])
    steps = record.steps  # type: ignore[attr-defined]
    at = next(i for i, s in enumerate(steps) if s.name == "tir.Simplify")
    for step in steps[at:]:
        step.after = step.after.map_functions(lambda f: f.with_body(_Spoil().visit(f.body)))
    verdicts = verify(record, op)  # type: ignore[arg-type]
    wrong = [i for i, v in enumerate(verdicts) if v.state == "bad"]
    assert wrong[0] == at and "the first step that differs" in verdicts[at].text
    assert "first to differ" not in verdicts[at + 1].text


class _Shift(Mutator):
    """Stores one element further on."""

    @handles(BufferStore)
    def shift(self, node: BufferStore) -> BufferStore:
        return node.replace(indices=(*node.indices[:-1], node.indices[-1] + 1))


def test_an_access_outside_a_buffer_is_found() -> None:
    op = operator("f", "X: float32[8]\nY[i] = X[i] + 1.0")
    func = next(iter(op.lower().functions.values()))
    spoiled = func.with_body(_Shift().visit(func.body))
    with refuses("interpreter.index_out_of_range", error=OutOfRange):
        run_function(spoiled, [np.ones(8, "float32"), np.zeros(8, "float32")])


def test_lanes_that_are_off_load_zero() -> None:
    func = from_source("""
@T.prim_func
def main(X: T.Buffer((16,), "float32"), Y: T.Buffer((16,), "float32"), Z: T.Buffer((16,), "float32"), n: T.int32):
    for i in range(4):
        Y[i * 4:i * 4 + 4] = X.vload([T.Ramp(i * 4, 1, 4)], predicate=T.Ramp(i * 4, 1, 4) < T.Broadcast(n, 4))
    for i in range(16):
        Z[i] = X.vload([i], predicate=i < n)
""")
    x, y, z = np.arange(1, 17, dtype="float32"), np.full(16, -1, "float32"), np.full(16, -1, "float32")
    run_function(func, [x, y, z, np.array(6, "int32")])
    for loaded in (y, z):
        np.testing.assert_array_equal(loaded, [1, 2, 3, 4, 5, 6, *[0] * 10])


def test_verifying_comes_to_an_end() -> None:
    op = operator("mm", "A: float32[256, 256]\nB: float32[256, 256]\nC[i, j] += A[i, k] * B[k, j]")
    verdicts = verify(op.passes(code=False), op, seconds=0.05)
    assert {v.state for v in verdicts} == {""} and any(v.text.startswith(NOT_RUN) for v in verdicts)


@pytest.mark.parametrize("outer", ["for i in range(2)", 'with T.launch_thread("blockIdx.x", 2) as i'])
def test_threads_run_each_time_that_they_are_launched(outer: str) -> None:
    func = from_source(
        f"""from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((4,), "int32")):
    {outer}:
        with T.launch_thread("threadIdx.x", 4) as t:
            A[t] = A[t] * 2 + i + t"""
    )
    array = np.zeros(4, "int32")
    run_function(func, [array])
    assert array.tolist() == [1, 4, 7, 10]


@pytest.mark.parametrize(
    "layout", ["strides=(12, 1)", "strides=(1, 8)", "elem_offset=16", "strides=(16, 2), elem_offset=3"]
)
def test_a_buffer_of_a_block_has_room_for_its_strides_and_its_offset(layout: str) -> None:
    func = from_source(
        f"""from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    B = T.alloc_buffer((8, 8), "int32", {layout})
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + vi
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[7 - vi, vj]
"""
    )
    a, c = np.arange(64, dtype="int32").reshape(8, 8), np.zeros((8, 8), "int32")
    run_function(func, [a, c])
    np.testing.assert_array_equal(c, (a + np.arange(8)[:, None])[::-1])


def test_call_of_absent_function_is_named() -> None:
    func = from_source(
        '# from tvm.script import tir as T\n@T.prim_func\ndef main(A: T.Buffer((4,), "int32")):\n'
        '    T.evaluate(T.call_extern("call_impl", A.data, dtype=""))\n'
    )
    with refuses("interpreter.unsupported_call", names="`call_impl`"):
        run_function(func, [np.zeros(4, "int32")])
