"""Prefetches of TE schedules: hints, which read nothing and follow the tensor that is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from guarded import assert_right
from refusals import refuses

import tvmagic
from tvmagic import te, tir
from tvmagic.errors import ScheduleError


def twice(size: int = 8) -> tuple[Any, Any]:
    A = te.placeholder((size, 4), name="A")
    return A, te.compute((size, 4), lambda i, j: A[i, j] * 2.0, name="B")


def test_a_prefetch_behind_the_end_is_no_access() -> None:
    A, B = twice()
    s = te.create_schedule(B.op)
    s[B].prefetch(A, B.op.axis[0], 3)
    checked = tvmagic.build(s, [A, B], "llvm", check_bounds=True)
    assert "prefetch" in str(tvmagic.lower(s, [A, B]))
    assert_right(s, [A, B])
    a, b = tvmagic.nd.array(np.arange(32, dtype="float32").reshape(8, 4)), tvmagic.nd.empty((8, 4))
    checked(a, b)
    assert (b.numpy() == a.numpy() * 2).all()


@pytest.mark.parametrize("how", [lambda i, j: [j, i], lambda i, j: [i // 4, j, i % 4], lambda i, j: [i * 4 + j]])
def test_a_prefetch_of_another_layout(how: Any) -> None:
    A, B = twice()
    s = te.create_schedule(B.op)
    s[A].transform_layout(how)
    s[B].prefetch(A, B.op.axis[0], 1)
    assert "prefetch" in str(tvmagic.lower(s, [A, B]))
    tvmagic.build(s, [A, B], "llvm")


def test_a_prefetch_where_nothing_is_read() -> None:
    A = te.placeholder((4,), name="A")
    k = te.reduce_axis((0, 2), name="k")
    B = te.compute((8,), lambda i: te.sum(A[0], axis=[k], where=i < 4), name="B")
    s = te.create_schedule(B.op)
    s[B].reorder(k, B.op.axis[0])
    s[B].prefetch(A, B.op.axis[0], 1)
    assert_right(s, [A, B])


def test_a_prefetch_of_a_tensor_that_is_rewritten_later() -> None:
    A = te.placeholder((8,), name="A")
    M = te.compute((8,), lambda i: A[i] + 1.0, name="M")
    B = te.compute((8,), lambda i: M[i] * 2.0, name="B")
    C = te.compute((8,), lambda i: B[i] - tir.max(B[i], 0.0), name="C")
    s = te.create_schedule(C.op)
    s[C].prefetch(s[C].op.input_tensors[0], C.op.axis[0], 1)
    s.cache_write(M, "local")
    s[M].compute_inline()
    assert "prefetch" in str(tvmagic.lower(s, [A, C]))
    assert_right(s, [A, C])


def test_a_prefetch_outside_of_where_it_is_computed_is_refused() -> None:
    A = te.placeholder((8, 4), name="A")
    M = te.compute((8, 4), lambda i, j: A[i, j] + 1.0, name="M")
    B = te.compute((8, 4), lambda i, j: M[i, j] * 2.0, name="B")
    for at in range(2):
        s = te.create_schedule(B.op)
        s[M].compute_at(s[B], B.op.axis[at])
        s[B].prefetch(M, B.op.axis[0], 1)
        with refuses("te.prefetch.computed_inside_loop", error=ScheduleError):
            tvmagic.lower(s, [A, B])
    s = te.create_schedule(B.op)
    s[M].compute_at(s[B], B.op.axis[0])
    s[B].prefetch(M, B.op.axis[1], 1)
    assert_right(s, [A, B])
