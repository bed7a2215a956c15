"""Stages whose memory each thread or block has of its own, and threads that are launched several times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import te
from tvmagic.errors import ScheduleError, TVMagicError

SHAPE = (3, 3, 2)


def copies(tag: str, scope: str, outside: str = "blockIdx.x") -> tuple[Any, list[Any]]:
    """`C` copies `B`, which copies `A`; a loop of each is bound to the same thread axis, one after the other."""
    A = te.placeholder(SHAPE, name="A")
    B = te.compute(SHAPE, lambda i, j, k: A[i, j, k], name="B")
    C = te.compute(SHAPE, lambda i, j, k: B[i, j, k], name="C")
    s, thread = te.create_schedule(C.op), te.thread_axis(tag)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].set_scope(scope)
    _, inner = s[B].split(B.op.axis[1], SHAPE[1])
    if outside:
        s[C].bind(C.op.axis[0], te.thread_axis(outside))
    s[C].bind(C.op.axis[1], thread)
    s[B].bind(inner, thread)
    return s, [A, C]


@pytest.mark.parametrize("scope", ["local", "shared", ""])
def test_each_thread_reads_what_it_computed(scope: str) -> None:
    s, args = copies("threadIdx.x", scope)
    text = str(tvmagic.lower(s, args)["main"])
    assert "if " not in text  # TVM's `test_local_stage_predicate`
    assert (f"T.allocate([{2 if scope == 'local' else 6}]") in text
    a, c = np.arange(18, dtype="float32").reshape(SHAPE), np.zeros(SHAPE, "float32")
    tvmagic.build(s, args, check_bounds=True)(a, c)
    assert (a == c).all()


def test_a_thread_cannot_read_what_others_have() -> None:
    A = te.placeholder((16, 4), name="A")
    B = te.compute((16, 4), lambda i, j: A[i, j] + 1.0, name="B")
    k = te.reduce_axis((0, 4), name="k")
    C = te.compute((16,), lambda i: te.sum(B[i, k], axis=k), name="C")
    s, thread = te.create_schedule(C.op), te.thread_axis("threadIdx.x")
    _, inner = s[C].split(C.op.axis[0], 4)
    s[C].bind(inner, thread)
    s[B].compute_at(s[C], inner)
    s[B].bind(B.op.axis[1], thread)
    with pytest.raises(ScheduleError, match="`B`.*`j`.*`threadIdx.x`"):
        tvmagic.lower(s, [A, C])
    s[B].set_scope("shared")
    assert tvmagic.lower(s, [A, C])


@pytest.mark.parametrize("outside", ["threadIdx.x", "blockIdx.x"])
def test_a_blocks_memory_ends_with_its_launch(outside: str) -> None:
    s, args = copies("blockIdx.y", "shared", outside)
    assert "if " not in str(tvmagic.lower(s, args)["main"])
    with pytest.raises(TVMagicError, match="`B`.*`blockIdx.y`"):
        tvmagic.build(s, args)


@pytest.mark.parametrize("scope", ["local", "shared", ""])
@pytest.mark.parametrize("tag", ["vthread", "cthread"])
def test_virtual_threads_are_loops_of_one_thread(tag: str, scope: str) -> None:
    """What is computed outside these loops is there for all of their iterations."""
    s, args = copies(tag, scope)
    text = str(tvmagic.lower(s, args)["main"])
    assert "if " not in text and "T.allocate([6]" in text
    a, c = np.arange(18, dtype="float32").reshape(SHAPE), np.zeros(SHAPE, "float32")
    tvmagic.build(s, args)(a, c)
    assert (a == c).all()


def test_a_threads_memory_ends_with_its_kernel() -> None:
    s, args = copies("threadIdx.x", "local", outside="")
    assert tvmagic.lower(s, args)
    with pytest.raises(TVMagicError, match="`B`"):
        tvmagic.build(s, args)


def test_all_threads_come_to_a_launch_inside_of_their_launch() -> None:
    X = te.placeholder((5, 4), name="X")
    state = te.placeholder((5, 4), name="state")
    first = te.compute((1, 4), lambda t, i: X[t, i], name="first")
    update = te.compute((5, 4), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    S = te.scan(first, update, state, [X], name="S")
    s, thread = te.create_schedule(S.op), te.thread_axis("threadIdx.y")
    s[S].fuse()
    _, inner = s[S].split(s[S].leaf_iter_vars[0], 4)
    s[S].bind(inner, thread)
    s[update].bind(update.op.axis[1], thread)
    with pytest.raises(ScheduleError, match="`threadIdx.y`"):
        tvmagic.lower(s, [X, S])


@pytest.mark.parametrize("layout", [None, lambda i, j: [j, i]], ids=["as it is", "transposed"])
@pytest.mark.parametrize("last", [False, True])
def test_loops_outside_of_the_threads_do_not_begin_at_what_these_read(layout: Any, last: bool) -> None:
    A = te.placeholder((4, 4), name="A")
    B = te.compute((4, 4), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((4, 4), lambda i, j: B[j, j], name="C")
    s, thread = te.create_schedule(C.op), te.thread_axis("threadIdx.x")
    s[C].bind(C.op.axis[0], te.thread_axis("blockIdx.x"))
    s[C].bind(C.op.axis[1], thread)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].set_scope("local")
    first, second = B.op.axis if layout is None else s[B].transform_layout(layout)
    _, inner = s[B].split(first, 4)
    s[B].bind(inner, thread)
    if last:
        s[B].reorder(second, inner)
    if last and layout is not None:  # the axes of a layout run from the first element that is read
        with pytest.raises(ScheduleError, match="`B`.*`threadIdx.x`"):
            tvmagic.lower(s, [A, C])
        return
    a, c = np.arange(16, dtype="float32").reshape(4, 4), np.zeros((4, 4), "float32")
    tvmagic.build(s, [A, C], check_bounds=True)(a, c)
    assert (c == np.diag(a) + 1).all()


def test_steps_of_a_scan_are_stored_in_memory_of_the_thread_around_it() -> None:
    state = te.placeholder((3, 2), name="state")
    first = te.compute((1, 2), lambda t, i: te.const(1.0), name="first")
    update = te.compute((3, 2), lambda t, i: state[t - 1, i] + 1.0, name="update")
    S = te.scan(first, update, state, name="S")
    out = te.compute((4,), lambda i: S[2, 0] + S[2, 1], name="out")
    for part, axis in ((first, "i"), (update, "i"), (first, "t")):
        s = te.create_schedule(out.op)
        s[out].bind(out.op.axis[0], te.thread_axis("threadIdx.x"))
        s[S].compute_at(s[out], out.op.axis[0])
        loop = part.op.axis[0 if axis == "t" else 1]
        _, inner = s[part].split(loop, 4)
        s[part].bind(inner, te.thread_axis("threadIdx.y"))
        if axis == "i":  # both elements are read
            with refuses("te.bind.reads_other_threads", error=ScheduleError):
                tvmagic.lower(s, [out])
            s[S].set_scope("shared")
        result = np.zeros(4, "float32")
        tvmagic.build(s, [out])(result)
        assert (result == 6).all()


def test_memory_whose_size_depends_on_an_inner_thread_is_allocated_inside_it() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    C = te.compute((4, 4, n), lambda i, j, k: B[(i + j + k) % n] + B[i + j], name="C")
    s = te.create_schedule(C.op)
    s[C].bind(C.op.axis[0], te.thread_axis("threadIdx.y"))
    s[C].bind(C.op.axis[1], te.thread_axis("threadIdx.x"))
    s[B].compute_at(s[C], C.op.axis[1])
    lines = tvmagic.lower(s, [n, A, C]).script().splitlines()
    inner = next(i for i, line in enumerate(lines) if 'T.launch_thread("threadIdx.x"' in line)
    allocation = next(i for i, line in enumerate(lines) if "B = T.allocate" in line)
    assert "threadIdx_x" in lines[allocation] and allocation > inner


@pytest.mark.parametrize(("axis", "scope"), [(0, "shared"), (1, "shared"), (1, ""), (0, "")])
def test_a_stage_in_the_loop_of_a_reduction_over_threads(axis: int, scope: str) -> None:
    """That loop goes inside the threads, which therefore have memory of their own for the stage."""
    A = te.placeholder((2,), "int32", name="A")
    k = te.reduce_axis((0, 3), name="k")
    B = te.compute((2,), lambda i: te.sum(A[k // 2] + A[i], axis=k), name="B")
    s, thread = te.create_schedule(B.op), te.thread_axis("threadIdx.x")
    part = s.rfactor(B, s[B].split(B.op.reduce_axis[0], factor=2)[0])
    outer, inner = s[B].split(s[B].op.reduce_axis[0], factor=4)
    s[B].bind(inner, thread)
    s[part].compute_at(s[B], outer)
    s[part].bind(s[part].split(s[part].op.axis[axis], factor=4)[1], thread)
    if scope:
        s[part].set_scope(scope)
    elif axis == 0:  # of which each thread reads all
        with pytest.raises(ScheduleError):
            tvmagic.lower(s, [A, B])
        return
    a, b = np.array([1, 5], "int32"), np.zeros(2, "int32")
    tvmagic.build(s, [A, B])(a, b)
    assert b.tolist() == [10, 22]


@pytest.mark.parametrize("size", [1, 0, None])
def test_virtual_threads_have_a_constant_number(size: int | None) -> None:
    A = te.placeholder((te.size_var("n") if size is None else size,), name="A")
    B = te.compute(A.shape, lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("vthread"))
    if size:
        assert tvmagic.lower(s, [A, B])
        return
    with pytest.raises(ScheduleError, match="`vthread`"):
        tvmagic.lower(s, [A, B])


def test_memory_of_a_warp_is_shared_by_its_threads() -> None:
    A = te.placeholder((4, 32), name="A")
    B = te.compute((4, 32), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((4, 32), lambda i, j: B[i, 31 - j] * 2.0, name="C")
    s, thread = te.create_schedule(C.op), te.thread_axis((0, 32), "threadIdx.x")
    s[B].set_scope("warp")
    s[B].double_buffer()
    s[B].compute_at(s[C], C.op.axis[0])
    for stage in (s[B], s[C]):
        stage.bind(stage.op.axis[1], thread)
    text = str(te.schedule.ScheduleOps(s, te.schedule.InferBound(s)))
    assert "T.ProducerRealize(B[i, 0:32], T.bool(True))" in text and '"double_buffer_scope", 1)' in text


@pytest.mark.parametrize("outside", ["blockIdx.x", "threadIdx.y"])
def test_blocks_are_outside_of_the_threads_that_compute_there(outside: str) -> None:
    A = te.placeholder((4, 8), name="A")
    B = te.compute((4, 8), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((4, 8), lambda i, j: B[i, j] * 2.0, name="C")
    s, inside = te.create_schedule(C.op), "threadIdx.y" if outside == "blockIdx.x" else "blockIdx.x"
    s[C].bind(C.op.axis[0], te.thread_axis(outside))
    s[C].bind(C.op.axis[1], te.thread_axis(inside))
    s[B].compute_at(s[C], C.op.axis[1])
    if inside == "blockIdx.x":
        with pytest.raises(ScheduleError):
            tvmagic.lower(s, [A, C])
        s[B].set_scope("local")
    a, c = np.arange(32, dtype="float32").reshape(4, 8), np.zeros((4, 8), "float32")
    tvmagic.build(s, [A, C])(a, c)
    assert (c == (a + 1) * 2).all()


def test_shared_memory_that_is_read_by_what_each_thread_computes_for_itself() -> None:
    """All that the threads read together is computed, though each of them computes from one place."""
    X = te.placeholder((16,), name="X")
    P = te.compute((16,), lambda i: X[i] * 2.0, name="P")
    Q = te.compute((16,), lambda i: P[i] + 1.0, name="Q")
    R = te.compute((16,), lambda i: Q[i] * 3.0, name="R")
    s, thread = te.create_schedule(R.op), te.thread_axis("threadIdx.x")
    outer, inner = s[R].split(R.op.axis[0], 4)
    s[R].bind(outer, te.thread_axis("threadIdx.y"))
    s[R].bind(inner, thread)
    s[Q].compute_at(s[R], outer)
    s[Q].set_scope("local")
    s[Q].bind(s[Q].split(Q.op.axis[0], 4)[1], thread)
    s[P].set_scope("shared")
    s[P].bind(s[P].split(P.op.axis[0], 4)[1], thread)
    assert "T.allocate([16]" in str(tvmagic.lower(s, [X, R])["main"])
    x, r = np.arange(16, dtype="float32"), np.zeros(16, "float32")
    tvmagic.build(s, [X, R], check_bounds=True)(x, r)
    assert (r == (x * 2 + 1) * 3).all()


def test_a_loop_of_another_layout_may_have_more_iterations_than_its_thread_reads() -> None:
    """Each thread reads one element of `B`, but where it is among `i % 2` only the thread knows: it computed the first."""
    A = te.placeholder((6,), name="A")
    B = te.compute((6,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((6,), lambda i: B[i] * 2.0, name="C")
    for bound in (True, False):
        s, tx = te.create_schedule(C.op), te.thread_axis("threadIdx.x")
        first, _ = s[B].transform_layout(lambda i: [i % 2, i // 2])
        _, inner = s[C].split(C.op.axis[0], factor=4)
        s[C].bind(inner, tx)
        s[B].compute_at(s[C], inner)
        if bound:
            s[B].bind(s[B].split(first, factor=4)[1], tx)
            with pytest.raises(ScheduleError, match="`axis0.inner`.*`threadIdx.x`.*`local`"):
                tvmagic.lower(s, [A, C])
    a, c = np.arange(6, dtype="float32"), np.zeros(6, "float32")
    tvmagic.build(s, [A, C])(a, c)
    assert (c == (a + 1) * 2).all()
