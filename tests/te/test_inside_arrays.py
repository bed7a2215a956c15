"""Schedules whose loops, copies and layouts once ran outside their arrays, or gave other values than NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from guarded import assert_right
from refusals import refuses

import tvmagic
from tvmagic import te, tir
from tvmagic.errors import ScheduleError, TVMagicError
from tvmagic.te.reference import evaluate

SIZES = (0, 1, 3, 4, 5, 8, 9, 17)


# ------------------------------------------------------------------ loops partitioned


def test_a_known_part_that_ends_before_the_loop_begins() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n,), lambda i: B[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], 3)
    _, inner = s[C].split(outer, 3)
    s[B].compute_at(s[C], inner)
    s[B].split(B.op.axis[0], 2)
    mod = tvmagic.lower(s, [A, C])
    assert "T.max(" in str(mod)  # for n = 0, `(n - 10) // 9 + 1` is -1
    for size in (0, 1, 2, 8, 9, 10, 19):
        assert_right(s, [A, C], {n: size}, mod)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_nested_splits_of_sizes_below_zero(dtype: str) -> None:
    n = te.var("n", dtype)
    A = te.placeholder((n,), name="A")
    B = te.compute((n // 2,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], nparts=5)
    outer, _ = s[B].split(outer, 16)
    s[B].split(inner, 3)
    s[B].split(outer, nparts=16)
    mod = tvmagic.lower(s, [A, B])
    for size in (0, 2, 3, 31):
        assert_right(s, [A, B], {n: size}, mod)


def test_constant_loops_partitioned_around_a_moved_stage() -> None:
    with tvmagic.transform.PassContext(config={"tir.LoopPartition": {"partition_const_loop": True}}):
        A = te.placeholder((9,), name="A")
        M = te.compute((9,), lambda i: A[i] * 2.0, name="M")
        B = te.compute((7, 3), lambda i, j: te.if_then_else(i * 2 + j < 9, M[te.min(i * 2 + j, 8)], 0.0), name="B")
        s = te.create_schedule(B.op)
        outer, _ = s[B].split(B.op.axis[0], 2)
        s[M].compute_at(s[B], outer)
        s[M].split(M.op.axis[0], 4)
        assert_right(s, [A, B])


# ------------------------------------------------------------------ double buffers


def doubled(rows: Any, two: bool = False, factor: int = 4, at: int = 0) -> tuple[Any, list[Any]]:
    A = te.placeholder((rows, 8), name="A")
    if two:
        M, N = te.compute((rows, 8), lambda i, j: (A[i, j] + 1.0, A[i, j] * 3.0), name="M")
        B = te.compute((rows, 8), lambda i, j: M[i, j] + N[i, j], name="B")
    else:
        M = te.compute((rows, 8), lambda i, j: A[i, j] + 1.0, name="M")
        B = te.compute((rows, 8), lambda i, j: M[i, j] * 2.0, name="B")
    s = te.create_schedule(B.op)
    loops = s[B].split(B.op.axis[0], factor)
    s[M].compute_at(s[B], loops[at])
    s[M].double_buffer()
    return s, [A, B]


@pytest.mark.parametrize("split", [0, 1, 2])
@pytest.mark.parametrize("two", [False, True])
def test_double_buffer_of_a_symbolic_size(two: bool, split: int) -> None:
    n = te.var("n")
    s, args = doubled(n, two)
    with tvmagic.transform.PassContext(config={"tir.InjectDoubleBuffer": {"split_loop": split}}):
        mod = tvmagic.lower(s, args)
    assert "double_buffer_write" in str(mod)
    for size in SIZES:
        assert_right(s, args, {n: size}, mod)


def test_all_outputs_are_doubled() -> None:
    s, args = doubled(16, two=True)
    text = str(tvmagic.lower(s, args))
    assert text.count("double_buffer_write") == 2
    assert text.count("T.allocate([64]") == 2
    assert_right(s, args)


def test_no_guard_where_the_loop_surely_runs() -> None:
    s, args = doubled(16)
    assert "if " not in str(tvmagic.lower(s, args))


def kept_single(s: Any, args: list[Any], sizes: Any = None) -> None:
    """The stage is not doubled, and the result is right."""
    mod = tvmagic.lower(s, args)
    assert "double_buffer" not in str(mod)
    assert_right(s, args, sizes, mod)


def test_a_size_that_depends_on_the_loop_is_not_doubled() -> None:
    A = te.placeholder((64,), name="A")
    M = te.compute((64,), lambda i: A[i] + 1.0, name="M")
    B = te.compute((8, 8), lambda i, j: M[te.min(i * j, 63)], name="B")
    s = te.create_schedule(B.op)
    s[M].compute_at(s[B], B.op.axis[0])
    s[M].double_buffer()
    kept_single(s, [A, B])


def chain() -> tuple[Any, Any, Any, Any]:
    A = te.placeholder((16, 8), name="A")
    P = te.compute((16, 8), lambda i, j: A[i, j] * 3.0, name="P")
    M = te.compute((16, 8), lambda i, j: P[i, j] + 1.0, name="M")
    B = te.compute((16, 8), lambda i, j: M[i, j] * 2.0 + P[i, j], name="B")
    s = te.create_schedule(B.op)
    for T in (P, M):
        s[T].compute_at(s[B], B.op.axis[0])
    return s, P, M, [A, B]


def test_what_reads_the_same_iteration_is_not_doubled() -> None:
    s, _, M, args = chain()
    s[M].double_buffer()
    kept_single(s, args)


def test_the_first_of_two_double_buffers_is_doubled() -> None:
    s, P, M, args = chain()
    s[P].double_buffer()
    s[M].double_buffer()
    mod = tvmagic.lower(s, args)
    assert str(mod).count("double_buffer_write") == 1
    assert_right(s, args, mod=mod)


def test_a_parallel_loop_is_not_doubled() -> None:
    s, args = doubled(16)
    B = args[1]
    s[B].parallel(s[B].leaf_iter_vars[0])
    kept_single(s, args)


# ------------------------------------------------------------------ scans


def running_sum(rows: Any, columns: Any, back: int = 1) -> tuple[Any, Any, Any, list[Any]]:
    X = te.placeholder((rows, columns), name="X")
    state = te.placeholder((rows, columns), name="state")
    first = te.compute((back, columns), lambda t, i: X[t, i], name="first")
    step = te.compute((rows, columns), lambda t, i: state[t - 1, i] + state[t - back, i] * 0.5 + X[t, i], name="step")
    S = te.scan(first, step, state, inputs=[X], name="S")
    D = te.compute((rows, columns), lambda t, i: S[t, i] * 2.0, name="D")
    return te.create_schedule(D.op), S, D, [X, D]


@pytest.mark.parametrize("back", [1, 2])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_scan_computed_inside_a_loop(axis: int, back: int) -> None:
    s, S, D, args = running_sum(6, 5, back)
    s[S].compute_at(s[D], D.op.axis[axis])
    assert_right(s, args)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_scan_of_symbolic_size_inside_a_loop(axis: int) -> None:
    m, n = te.size_var("m"), te.size_var("n")
    s, S, D, args = running_sum(m, n)
    s[S].compute_at(s[D], D.op.axis[axis])
    mod = tvmagic.lower(s, args)
    for rows, columns in ((1, 1), (3, 4), (7, 1)):
        assert_right(s, args, {m: rows, n: columns}, mod)


def test_a_split_step_of_a_scan_reads_the_state_of_steps_that_nobody_asks_for() -> None:
    _, S, _, args = running_sum(6, 5)
    B = te.compute((3, 5), lambda t, i: S[t, i], name="B")
    s = te.create_schedule(B.op)
    step = S.op.update[0]
    copy = s.cache_read(S.op.state_placeholder[0], "local", [step.op])
    _, inner = s[step].split(s[step].op.axis[0], factor=4)
    s[step].bind(inner, te.thread_axis("vthread"))  # so that it has 4 iterations, for one step
    s[copy].compute_at(s[step], s[step].leaf_iter_vars[-1])
    assert_right(s, [args[0], B])


# ------------------------------------------------------------------ layouts


@pytest.mark.parametrize("layout", [lambda i: [i], lambda i: [i // 4, i % 4], lambda i: [i % 2, i // 2]])
def test_the_layout_of_a_reduction_whose_reader_pads(layout: Callable[..., Any]) -> None:
    A = te.placeholder((16, 5), name="A")
    k = te.reduce_axis((0, 5), "k")
    M = te.compute((16,), lambda i: te.sum(A[i, k], axis=k), name="M")
    B = te.compute((18,), lambda i: te.if_then_else(te.all(i >= 1, i < 17), M[i - 1], 0.0), name="B")
    s = te.create_schedule(B.op)
    s[M].transform_layout(layout)
    assert_right(s, [A, B])


def square(n: Any) -> tuple[Any, Any, list[Any]]:
    A = te.placeholder((n, 8), name="A")
    B = te.compute((n, 8), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((n, 8), lambda i, j: B[i, j] * 2.0, name="C")
    return te.create_schedule(C.op), B, [A, C]


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    "layout",
    [lambda i, j: [i // 2, j], lambda i, j: [i, j % 4], lambda i, j: [i + j], lambda i, j: [i, 0]],
)
def test_a_layout_in_which_elements_share_a_place_is_refused(layout: Callable[..., Any], symbolic: bool) -> None:
    s, B, _ = square(te.var("n") if symbolic else 8)
    with refuses("te.transform_layout.wrong_index_map", error=ScheduleError):
        s[B].transform_layout(layout)


@pytest.mark.parametrize(
    "layout",
    [
        lambda i, j: [j, i],
        lambda i, j: [i // 4, j, i % 4],
        lambda i, j: [i * 8 + j],
        lambda i, j: [i // 3, j // 5, i % 3, j % 5],
    ],
)
def test_other_layouts_are_taken(layout: Callable[..., Any]) -> None:
    n = te.var("n")
    s, B, args = square(n)
    s[B].transform_layout(layout)
    mod = tvmagic.lower(s, args)
    for size in (1, 7, 8):
        assert_right(s, args, {n: size}, mod)


def test_a_layout_that_does_not_begin_at_0_is_refused() -> None:
    s, B, _ = square(8)
    with refuses("te.transform_layout.wrong_index_map", error=ScheduleError):
        s[B].transform_layout(lambda i, j: [i + 3, j])


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("where", range(3))
@pytest.mark.parametrize(
    "layout",
    [
        lambda i, j, k: [i, te.AXIS_SEPARATOR, j, te.AXIS_SEPARATOR, k],
        lambda i, j, k: [i, j, te.AXIS_SEPARATOR, k],
        lambda i, j, k: [i, te.AXIS_SEPARATOR, j, k],
    ],
)
def test_rows_that_are_apart_are_rows_in_flat_memory(layout: Callable[..., Any], where: int, vector: bool) -> None:
    A = te.placeholder((4, 3, 5), name="A")
    B = te.compute((4, 3, 5), lambda i, j, k: A[i, j, k] + 1.0, name="B")
    C = te.compute((4, 3, 5), lambda i, j, k: B[i, j, k] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[(A, B, C)[where]].transform_layout(layout)
    if vector:
        s[C].vectorize(s[C].leaf_iter_vars[-1])
    assert_right(s, [A, C])


@pytest.mark.parametrize("where", range(3))
def test_separators_in_arguments_with_strides(where: int) -> None:
    n = te.var("n")
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((n, n), lambda i, j: B[i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[(A, B, C)[where]].transform_layout(lambda i, j: [i, te.AXIS_SEPARATOR, j])
    assert_right(s, [A, C], {n: 7})


# ------------------------------------------------------------------ reductions that start at 2


def late_reduction() -> tuple[Any, Any, Any, Any, list[Any]]:
    A = te.placeholder((10,), name="A")
    M = te.compute((10,), lambda i: A[i] * 2.0, name="M")
    k = te.reduce_axis((2, 9), "k")
    B = te.compute((4,), lambda i: te.sum(M[k] + A[i], axis=k), name="B")
    return te.create_schedule(B.op), M, B, k, [A, B]


def at_the_axis(s: Any, M: Any, B: Any, k: Any) -> None:
    s[M].compute_at(s[B], k)


def at_its_split(s: Any, M: Any, B: Any, k: Any) -> None:
    s[M].compute_at(s[B], s[B].split(k, 3)[1])


@pytest.mark.parametrize("how", [at_the_axis, at_its_split])
def test_a_reduction_that_starts_at_2(how: Callable[..., None]) -> None:
    s, M, B, k, args = late_reduction()
    how(s, M, B, k)
    assert_right(s, args)


def test_threads_of_a_reduction_that_starts_at_2() -> None:
    s, M, B, k, args = late_reduction()
    s[B].bind(k, te.thread_axis("threadIdx.x"))
    s[M].compute_at(s[B], k)
    assert_right(s, args, interpret=False)


# ------------------------------------------------------------------ nothing there


def test_a_padded_read_of_an_empty_tensor() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n + 3,), lambda i: te.if_then_else(i < n, A[i], 5.0), name="B")
    assert evaluate(B, {A: np.zeros(0, "float32")}).tolist() == [5.0] * 3
    assert_right(te.create_schedule(B.op), [A, B], {n: 0})


def test_a_read_of_an_empty_tensor_is_refused() -> None:
    A = te.placeholder((te.var("n"),), name="A")
    B = te.compute((3,), lambda i: A[i], name="B")
    with pytest.raises(TVMagicError, match="`A`"):
        evaluate(B, {A: np.zeros(0, "float32")})


def test_the_bound_checker_leaves_out_what_is_not_read() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((10,), lambda i: te.if_then_else(tir.all(i >= 1, i < 9), A[i - 1], 0.0), name="B")
    s = te.create_schedule(B.op)
    with tvmagic.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
        mod = tvmagic.lower(s, [A, B])
    assert_right(s, [A, B], mod=mod)


# ------------------------------------------------------------------ reductions of nothing, sizes below 0


def test_a_fused_loop_initializes_what_has_nothing_to_reduce() -> None:
    n = te.var("n")
    A = te.placeholder((4, n), name="A")
    k = te.reduce_axis((0, n), "k")
    B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    s[B].fuse(B.op.axis[0], k)
    assert "range(T.max(n, 1) * 4)" in tvmagic.lower(s, [A, B]).script()
    for size in (0, 1, 3):
        assert_right(s, [A, B], {n: size})


@pytest.mark.parametrize("axis", [0, 1])
def test_rfactor_of_nothing(axis: int) -> None:
    n = te.var("n")
    A = te.placeholder((4, n), name="A")
    k = te.reduce_axis((0, n), "k")
    B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    s.rfactor(B, s[B].split(k, 4)[axis])
    for size in (0, 1, 9):
        assert_right(s, [A, B], {n: size})


@pytest.mark.parametrize("at", [None, 0, 1])
def test_a_stage_of_a_size_below_0(at: int | None) -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    M = te.compute((n - 5,), lambda i: A[i + 5] * 2.0, name="M")
    B = te.compute((n,), lambda i: te.if_then_else(i < n - 5, M[i], 0.0) + A[i], name="B")
    s = te.create_schedule(B.op)
    loops = s[B].split(B.op.axis[0], 4)
    if at is not None:
        s[M].compute_at(s[B], loops[at])
    mod = tvmagic.lower(s, [A, B])
    for size in (0, 1, 4, 5, 6, 13):
        assert_right(s, [A, B], {n: size}, mod, interpret=size > 5)


# ------------------------------------------------------------------ rfactor


def two_reductions() -> tuple[Any, Any, Any, Any, list[Any]]:
    A = te.placeholder((8, 9, 2), name="A")
    k, l = te.reduce_axis((0, 9), "k"), te.reduce_axis((0, 2), "l")
    B = te.compute((8,), lambda i: te.sum(A[i, k, l], axis=[k, l]), name="B")
    return te.create_schedule(B.op), B, k, l, [A, B]


def test_rfactor_of_a_loop_whose_partner_is_fused_with_another_reduction() -> None:
    s, B, k, l, args = two_reductions()
    outer, inner = s[B].split(k, 4)
    s[B].reorder(l, outer, inner)
    s[B].fuse(l, outer)
    s.rfactor(B, inner)
    assert_right(s, args)


def test_rfactor_of_a_loop_whose_partner_is_fused_with_data_is_refused() -> None:
    s, B, k, l, _ = two_reductions()
    outer, inner = s[B].split(k, 4)
    s[B].reorder(B.op.axis[0], outer, inner, l)
    s[B].fuse(B.op.axis[0], outer)
    with pytest.raises(ScheduleError, match="`k.inner`.*`i`"):
        s.rfactor(B, inner)


def test_a_scan_of_which_fewer_steps_are_read_than_it_begins_with() -> None:
    state = te.placeholder((3, 8), "int32", name="state")
    first = te.compute((2, 8), lambda t, i: te.const(1, "int32"), name="first")
    step = te.compute((3, 8), lambda t, i: state[0, i], name="step")
    S = te.scan(first, step, state, inputs=[], name="S")
    B = te.compute((3,), lambda i: S[0, 0] + i, name="B")
    assert_right(te.create_schedule(B.op), [B])


@pytest.mark.parametrize("layout", [lambda i, j: [i % 3, i // 3, j], lambda i, j: [j, i // 4, i % 4]])
def test_the_loops_of_a_layout_begin_before_what_is_read(layout: Callable[..., Any]) -> None:
    A = te.placeholder((12, 4), name="A")
    M = te.compute((12, 4), lambda i, j: A[i, j] + 1.0, name="M")
    B = te.compute((11, 4), lambda i, j: M[i + 1, j] * 2.0, name="B")
    s = te.create_schedule(B.op)
    s[M].transform_layout(layout)
    s[M].compute_at(s[B], B.op.axis[0])
    assert_right(s, [A, B])


def test_a_layout_of_one_of_two_outputs_inside_a_loop() -> None:
    A = te.placeholder((3, 6), name="A")
    M, N = te.compute((3, 6), lambda i, j: (A[i, j] + 1.0, A[i, j] * 2.0), name="M")
    B = te.compute((3, 6), lambda i, j: M[i, j] + N[i, j], name="B")
    s = te.create_schedule(B.op)
    s[M].transform_layout(lambda i, j: [i, j % 3, j // 3])
    s[M].compute_at(s[B], B.op.axis[1])
    assert_right(s, [A, B])


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize(
    "layout",
    [lambda i, j: [j, i % 2, i // 2], lambda i, j: [j, i % 2, te.AXIS_SEPARATOR, i // 2], lambda i, j: [i * 3 + j]],
)
def test_strides_of_an_argument_whose_layout_has_another_rank(layout: Callable[..., Any], size: int) -> None:
    n = te.var("n")
    A = te.placeholder((n, 3), name="A")
    B = te.compute((n, 3), lambda i, j: A[i, j] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[A].transform_layout(layout)
    wide = [int(str(x)) for x in s[A].layout_transforms[0].map_shape([size, 3])]
    built = tvmagic.build(s, [n, A, B], "llvm", check_bounds=True)
    values = np.random.default_rng(1).random((size, 3), "float32")
    memory = np.zeros((*wide[:-1], 2 * wide[-1]), "float32")[..., ::2]
    for i, j in np.ndindex(size, 3):
        place = s[A].layout_transforms[0].map_indices([i, j])
        memory[tuple([int(str(x)) for x in place])] = values[i, j]
    out = np.zeros((size, 3), "float32")
    built(size, memory, out)
    np.testing.assert_array_equal(out, values + 1)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_checked_separators_in_an_argument_with_strides(size: int) -> None:
    n = te.var("n")
    A = te.placeholder((n, n + 2), name="A")
    B = te.compute((n, n + 2), lambda i, j: A[i, j] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].transform_layout(lambda i, j: [i, te.AXIS_SEPARATOR, j])
    built = tvmagic.build(s, [n, A, B], "llvm", check_bounds=True)
    a, b = np.ones((size, size + 2), "float32"), np.zeros((size, size + 2), "float32")
    built(size, a, b)
    assert (b == 2).all()


def test_start_values_are_read_only_inside_the_domain() -> None:
    """A stage inside a loop that overruns its domain has places for all that is computed; what it reads has not."""
    A = te.placeholder((4, 2), name="A")
    B = te.compute((4, 2), lambda i, j: A[i, j] * 2, name="B")
    k = te.reduce_axis((0, 3), name="k")
    C = te.compute(
        (8,), lambda i: te.sum(A[te.floordiv(i, 2), 0] * k, axis=k, init=B[te.floordiv(i, 2), i % 2]), name="C"
    )
    D = te.compute((12,), lambda i: te.if_then_else(i < 8, C[i], 0.0), name="D")
    s = te.create_schedule(D.op)
    outer, inner = s[D].split(D.op.axis[0], factor=5)
    s[C].compute_at(s[D], inner)
    assert_right(s, [A, D])
