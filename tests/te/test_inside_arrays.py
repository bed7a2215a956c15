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


# ------------------------------------------------------------------ layouts


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


def test_a_layout_that_does_not_begin_at_0_is_refused() -> None:
    s, B, _ = square(8)
    with refuses("te.transform_layout.wrong_index_map", error=ScheduleError):
        s[B].transform_layout(lambda i, j: [i + 3, j])


# ------------------------------------------------------------------ nothing there


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


# ------------------------------------------------------------------ rfactor


def two_reductions() -> tuple[Any, Any, Any, Any, list[Any]]:
    A = te.placeholder((8, 9, 2), name="A")
    k, l = te.reduce_axis((0, 9), "k"), te.reduce_axis((0, 2), "l")
    B = te.compute((8,), lambda i: te.sum(A[i, k, l], axis=[k, l]), name="B")
    return te.create_schedule(B.op), B, k, l, [A, B]


def test_rfactor_of_a_loop_whose_partner_is_fused_with_data_is_refused() -> None:
    s, B, k, l, _ = two_reductions()
    outer, inner = s[B].split(k, 4)
    s[B].reorder(B.op.axis[0], outer, inner, l)
    s[B].fuse(B.op.axis[0], outer)
    with pytest.raises(ScheduleError, match="`k.inner`.*`i`"):
        s.rfactor(B, inner)


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
