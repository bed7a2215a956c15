"""Reductions over threads in TE: the text, and results where threads do not divide the sizes."""

from typing import Any

import numpy as np
import pytest
from refusals import refuses
from te_execution import largest_difference

import tvmagic
from tvmagic import te, tir
from tvmagic.errors import ScheduleError, TVMagicError

SCOPE = 'T.comm_reducer(lambda x, y: x + y, [T.float32(0.0)]), "reduce_scope", T.reinterpret("handle", T.uint64(0))'


def row_sums(n: Any, m: Any, factor: int | None, divide: bool = False) -> tuple[te.Schedule, list[te.Tensor]]:
    """The sums of `n` rows of `m` by the threads of `factor` columns (of all unless given), stored by the first.

    `divide`: eight rows for each block, one for each `threadIdx.y`.
    """
    a, k = te.placeholder((n, m), name="A"), te.reduce_axis((0, m), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    columns = k if factor is None else s[b].split(k, factor=factor)[1]
    thread = te.thread_axis("threadIdx.x")
    if divide:
        outer, inner = s[b].split(b.op.axis[0], factor=8)
        s[b].bind(outer, te.thread_axis("blockIdx.x"))
        s[b].bind(inner, te.thread_axis("threadIdx.y"))
    s[b].bind(columns, thread)
    s[b].set_store_predicate(thread.var.equal(0))
    return s, [a, b]


def lowered(s: te.Schedule, args: list[te.Tensor]) -> list[str]:
    """The lines of the lowered function after its head."""
    lines = tvmagic.lower(s, args, simple_mode=True).script(show_meta=False).splitlines()
    start = next(n for n, line in enumerate(lines) if "T.func_attr" in line) + 1
    return [line[8:] for line in lines[start:]]


def test_text_of_own_parts_before() -> None:
    s, args = row_sums(8, 64, 16)
    assert lowered(s, args) == [
        "for i in range(8):",
        '    threadIdx_x = T.launch_thread("threadIdx.x", 16)',
        '    normal_reduce_temp0 = T.allocate([1], "float32", "local")',
        '    reduce_temp0 = T.allocate([1], "float32", "local")',
        '    normal_reduce_temp0_1 = T.Buffer((1,), data=normal_reduce_temp0, scope="local")',
        "    normal_reduce_temp0_1[0] = T.float32(0.0)",
        "    for k_outer in range(4):",
        "        A_1 = T.Buffer((512,), data=A.data)",
        "        normal_reduce_temp0_1[0] = normal_reduce_temp0_1[0] + A_1[i * 64 + k_outer * 16 + threadIdx_x]",
        '    reduce_temp0_1 = T.Buffer((1,), data=reduce_temp0, scope="local")',
        f"    with T.attr({SCOPE}):",
        "        T.tvm_thread_allreduce(T.uint32(1), normal_reduce_temp0_1[0], T.bool(True), reduce_temp0_1[0], threadIdx_x)",
        "    if threadIdx_x == 0:",
        "        B[i] = reduce_temp0_1[0]",
    ]


def test_text_of_a_value_for_each_thread() -> None:
    s, args = row_sums(8, 16, None)
    assert lowered(s, args)[2:] == [
        '    reduce_temp0 = T.allocate([1], "float32", "local")',
        '    reduce_temp0_1 = T.Buffer((1,), data=reduce_temp0, scope="local")',
        f"    with T.attr({SCOPE}):",
        "        A_1 = T.Buffer((128,), data=A.data)",
        "        T.tvm_thread_allreduce(T.uint32(1), A_1[i * 16 + threadIdx_x], T.bool(True), reduce_temp0_1[0], threadIdx_x)",
        "    if threadIdx_x == 0:",
        "        B[i] = reduce_temp0_1[0]",
    ]


def test_text_of_schedule_ops() -> None:
    """Conditions that always hold are written, as TVM does; those of the reduction are not `likely`."""
    s, _ = row_sums(8, 60, 16)
    s = s.normalize()
    text = str(te.schedule.ScheduleOps(s, te.schedule.InferBound(s)))
    assert "\n            if threadIdx_x + k_outer * 16 < 60:\n                if T.bool(True):\n" in text
    assert text.endswith("if threadIdx_x == 0:\n            if T.bool(True):\n                B[i] = reduce_temp0_1[0]")


def rfactored(n: Any, m: Any) -> tuple[te.Schedule, list[te.Tensor]]:
    """Partial sums in each thread, of every sixteenth element; a row for each `threadIdx.y`."""
    a, k = te.placeholder((n, m), name="A"), te.reduce_axis((0, m), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    partial = s.rfactor(b, s[b].split(k, factor=16)[1])
    outer, inner = s[b].split(s[b].op.axis[0], factor=32)
    thread = te.thread_axis("threadIdx.x")
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].bind(inner, te.thread_axis("threadIdx.y"))
    s[b].bind(s[b].op.reduce_axis[0], thread)
    s[partial].compute_at(s[b], s[b].op.reduce_axis[0])
    s[b].set_store_predicate(thread.var.equal(0))
    return s, [a, b]


def test_text_of_partial_results() -> None:
    """What is computed inside the loops of a thread is in its own memory, and reduced from there."""
    s, args = rfactored(64, te.var("m"))
    lines = lowered(s, args)
    assert '    B_rf = T.allocate([1], "float32", "local")' in ["    " + line for line in lines]
    assert lines[-3:] == [
        "    T.tvm_thread_allreduce(T.uint32(1), B_rf_1[0], T.bool(True), reduce_temp0_1[0], threadIdx_x)",
        "if threadIdx_x == 0:",
        "    B[blockIdx_x * 32 + threadIdx_y] = reduce_temp0_1[0]",
    ]


@pytest.mark.parametrize(("n", "m", "factor"), [(8, 64, 16), (5, 60, 16), (3, 33, None), (4, 3, 5), (2, 1, None)])
@pytest.mark.parametrize("divide", [False, True])
def test_results(n: int, m: int, factor: int | None, divide: bool) -> None:
    assert largest_difference(*row_sums(n, m, factor, divide)) < 1e-4


@pytest.mark.parametrize(("n", "m"), [(64, 48), (33, 50), (7, 3)])
def test_results_of_partial_results(n: int, m: int) -> None:
    assert largest_difference(*rfactored(n, m)) < 1e-4


def pairs(reducer: Any, dtypes: tuple[str, str]) -> tuple[te.Schedule, list[te.Tensor]]:
    """A reduction of pairs over threads of both axes of its domain."""
    u, v = (te.placeholder((5, 6, 7), dtype, name=name) for dtype, name in zip(dtypes, "UV"))
    k, l = te.reduce_axis((0, 6), name="k"), te.reduce_axis((0, 7), name="l")
    r0, r1 = te.compute((5,), lambda i: reducer((u[i, k, l], v[i, k, l]), axis=[k, l]), name="R")
    s = te.create_schedule(r0.op)
    outer, inner = s[r0].split(k, factor=4)
    s[r0].bind(inner, te.thread_axis("threadIdx.y"))
    s[r0].bind(l, te.thread_axis("threadIdx.x"))
    return s, [u, v, r0, r1]


def test_reductions_of_pairs() -> None:
    largest = te.comm_reducer(
        lambda x, y: (tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    product = te.comm_reducer(
        lambda x, y: (x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]),
        lambda a, b: (te.const(1, a), te.const(0, b)),
        name="complex_product",
    )
    assert largest_difference(*pairs(largest, ("int32", "float32"))) == 0
    assert largest_difference(*pairs(product, ("int32", "int32"))) == 0


def test_only_some_elements_take_part() -> None:
    """A condition on the reduction is one on what each thread takes in, not on the store."""
    a, k = te.placeholder((4, 12), name="A"), te.reduce_axis((0, 12), name="k")
    b = te.compute((4,), lambda i: te.max(a[i, k], axis=k, where=tir.all(k > 2, i < 3)), name="B")
    s = te.create_schedule(b.op)
    s[b].bind(k, te.thread_axis("threadIdx.x"))
    assert largest_difference(s, [a, b]) == 0


def test_a_consumer_in_the_same_kernel() -> None:
    """Each thread reads what all of them reduced."""
    a, k = te.placeholder((6, 20), name="A"), te.reduce_axis((0, 20), name="k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((6, 20), lambda i, j: a[i, j] / b[i], name="C")
    s = te.create_schedule(c.op)
    thread = te.thread_axis((0, 20), "threadIdx.x")
    s[c].bind(c.op.axis[0], te.thread_axis("blockIdx.x"))
    s[c].bind(c.op.axis[1], thread)
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].bind(k, thread)
    assert largest_difference(s, [a, c]) < 1e-5


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", "int64"])
def test_results_of_other_types(dtype: str) -> None:
    a, k = te.placeholder((5, 19), dtype, name="A"), te.reduce_axis((0, 19), name="k")
    b = te.compute((5,), lambda i: te.max(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].bind(k, te.thread_axis("threadIdx.x"))
    assert largest_difference(s, [a, b]) == 0


def test_values_that_are_computed_in_another_type() -> None:
    """BF16ComputeLegalize lets bfloat16 be reduced as float32; the result is bfloat16 again."""
    a, k = te.placeholder((4, 32), name="A"), te.reduce_axis((0, 32), name="k")
    b = te.compute((4,), lambda i: te.max(a[i, k].astype("bfloat16"), axis=k), name="B")
    c = te.compute((4,), lambda i: b[i].astype("float32"), name="C")
    s = te.create_schedule(c.op)
    s[b].bind(k, te.thread_axis("threadIdx.x"))
    values = np.random.default_rng(0).integers(-255, 256, (4, 32)).astype("float32")
    np.testing.assert_array_equal(tvmagic.build(s, [a, c])(values), values.max(axis=1))


@pytest.mark.parametrize("rows", [te.var("n"), 7])
def test_sizes_that_are_variables(rows: Any) -> None:
    assert largest_difference(*row_sums(rows, te.var("m"), 16, divide=True)) < 1e-5


def test_unrolled_rows() -> None:
    s, args = row_sums(4, 33, 8)
    s[args[1]].unroll(args[1].op.axis[0])
    assert largest_difference(s, args) < 1e-5


def test_virtual_threads_are_refused() -> None:
    s, args = row_sums(8, 33, 8)
    s[args[1]].bind(args[1].op.axis[0], te.thread_axis("vthread"))
    with pytest.raises(TVMagicError, match="`reduce_temp0`"):
        tvmagic.build(s, args)


def test_a_start_is_refused() -> None:
    a, k = te.placeholder((12,), name="A"), te.reduce_axis((0, 12), name="k")
    b = te.compute((1,), lambda i: te.sum(a[k], axis=k, init=3.0), name="B")
    s = te.create_schedule(b.op)
    s[b].bind(k, te.thread_axis("threadIdx.x"))
    with pytest.raises(ScheduleError, match="`B`"):
        tvmagic.lower(s, [a, b])


def test_a_stage_inside_a_loop_that_goes_further_in_is_refused() -> None:
    a, k = te.placeholder((4, 32), name="A"), te.reduce_axis((0, 32), name="k")
    b = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    partial = s.rfactor(b, s[b].split(k, factor=8)[1])
    outer, inner = s[b].split(s[b].op.reduce_axis[0], factor=4)
    s[b].bind(inner, te.thread_axis("threadIdx.x"))
    s[partial].compute_at(s[b], inner)
    with pytest.raises(ScheduleError, match="`B.rf`.*`k.inner.v.inner`.*`B`"):
        tvmagic.lower(s, [a, b])
    s[b].reorder(inner, outer)
    assert largest_difference(s, [a, b]) < 1e-5


@pytest.mark.parametrize("shared", [True, False])
def test_threads_that_each_have_an_element_of_their_own_do_not_reduce_it_together(shared: bool) -> None:
    a, k = te.placeholder((8, 4), name="A"), te.reduce_axis((0, 4), name="k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((8,), lambda i: b[i] + 1.0, name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=4)
    threads = te.thread_axis("threadIdx.y")
    s[c].bind(inner, threads)
    s[b].compute_at(s[c], inner)
    s[b].bind(k, threads if shared else te.thread_axis("threadIdx.y"))
    with pytest.raises(ScheduleError, match="`B`.*`threadIdx.y`.*`C`"):
        tvmagic.lower(s, [a, c])
    s[b].compute_at(s[c], outer)
    s[b].set_scope("shared")
    assert largest_difference(s, [a, c]) < 1e-5


@pytest.mark.parametrize("tag", ["threadIdx.x", "threadIdx.y"])
def test_a_step_of_a_scan_is_reduced_by_threads_that_have_the_same_element(tag: str) -> None:
    """The step is inside the scan, and the scan inside a loop over threads: each has an element of its own there."""
    x, w = te.placeholder((6, 4), name="X"), te.placeholder((4, 4), name="W")
    state, k = te.placeholder((6, 4), name="S"), te.reduce_axis((0, 4), "k")
    step = te.compute((6, 4), lambda t, i: te.sum(state[t - 1, i] * w[k, i], axis=k), name="step")
    rows = te.scan(te.compute((1, 4), lambda _, i: x[0, i]), step, state, inputs=[x], name="R")
    c = te.compute((4,), lambda i: rows[5, i] * 2, name="C")
    s = te.create_schedule(c.op)
    s[c].bind(c.op.axis[0], te.thread_axis("threadIdx.x"))
    s[rows].compute_at(s[c], c.op.axis[0])
    s[step].bind(k, te.thread_axis(tag))
    if tag == "threadIdx.y":
        assert largest_difference(s, [x, w, c]) < 1e-5
    else:
        with pytest.raises(ScheduleError, match="`step`.*`threadIdx.x`.*`C`"):
            tvmagic.lower(s, [x, w, c])


@pytest.mark.parametrize("position", ["inside", "outside"])
def test_results_of_a_vectorized_axis_are_not_lost(position: str) -> None:
    """Each lane would reduce into the same place; only the last result would be there when all are stored."""
    A = te.placeholder((8, 4), name="A")
    k = te.reduce_axis((0, 8), name="k")
    B = te.compute((4,), lambda i: te.sum(A[k, i], axis=k), name="B")
    s = te.create_schedule(B.op)
    (i,) = B.op.axis
    if position == "inside":
        s[B].reorder(k, i)
    s[B].bind(k, te.thread_axis("threadIdx.x"))
    s[B].vectorize(i)
    with refuses("tir.thread_reduction.result_overwritten"):
        tvmagic.build(s, [A, B])
