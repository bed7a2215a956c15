"""Reductions over threads in TE: the text, and results where threads do not divide the sizes."""

from typing import Any

import pytest
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


def test_only_some_elements_take_part() -> None:
    """A condition on the reduction is one on what each thread takes in, not on the store."""
    a, k = te.placeholder((4, 12), name="A"), te.reduce_axis((0, 12), name="k")
    b = te.compute((4,), lambda i: te.max(a[i, k], axis=k, where=tir.all(k > 2, i < 3)), name="B")
    s = te.create_schedule(b.op)
    s[b].bind(k, te.thread_axis("threadIdx.x"))
    assert largest_difference(s, [a, b]) == 0


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
