"""transform_layout: results stored and computed in another order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvmagic
from tvmagic import te, tir
from tvmagic.errors import ScheduleError, TVMagicError


def stages() -> tuple:
    A = te.placeholder((8, 16), name="A")
    B = te.compute((8, 16), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((8, 16), lambda i, j: B[i, j] * 2.0, name="C")
    return te.create_schedule(C.op), A, B, C


def test_loops_over_the_new_indices() -> None:
    s, A, B, C = stages()
    loops = s[B].transform_layout(lambda i, j: [j // 4, i, j % 4])
    assert [int(iv.dom.extent) for iv in loops] == [4, 8, 4]
    assert s[B].leaf_iter_vars == loops
    text = str(tvmagic.lower(s, [A, C])["main"])
    assert "B_1[axis0 * 32 + axis1 * 4 + axis2] = A_1[axis1 * 16 + axis0 * 4 + axis2]" in text
    assert "B_1[j // 4 * 32 + i * 4 + j % 4]" in text


def test_a_placeholder_is_read_in_its_layout() -> None:
    s, A, B, C = stages()
    assert s[A].transform_layout(lambda i, j: [j, i]) is None
    func = tvmagic.lower(s, [A, C])["main"]
    assert "A_1[j * 8 + i]" in str(func)


def test_axis_separators_divide_the_buffer() -> None:
    s, A, B, C = stages()
    s[C].transform_layout(lambda i, j: [i, te.AXIS_SEPARATOR, j])
    func = tvmagic.lower(s, [A, C])["main"]
    assert [int(x) for x in next(b for b in func.buffer_map.values() if b.name == "C").axis_separators] == [1]


def test_a_new_order_in_groups() -> None:
    s, A, B, C = stages()
    s[A].transform_layout(lambda i, j: [j // 4, te.AXIS_SEPARATOR, i, j % 4])
    func = tvmagic.lower(s, [A, C])["main"]
    buffer = next(b for b in func.buffer_map.values() if b.name == "A")
    assert [int(x) for x in buffer.shape] == [4, 8, 4]
    assert "A_2[j // 4, i * 4 + j % 4]" in str(func)


def test_after_a_split_it_is_refused() -> None:
    s, A, B, C = stages()
    s[B].split(B.op.axis[0], 2)
    with pytest.raises(ScheduleError, match="`B`.*`i`"):
        s[B].transform_layout(lambda i, j: [j, i])


def scan() -> tuple:
    X = te.placeholder((5, 2), name="X")
    state = te.placeholder((5, 2), name="state")
    first = te.compute((2, 2), lambda t, i: X[t, i], name="first")
    update = te.compute((5, 2), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    S = te.scan(first, update, state, [X], name="S")
    return te.create_schedule(S.op), X, S, (first, update, state)


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_part_of_a_scan_has_no_layout_of_its_own(part: int) -> None:
    s, _, S, parts = scan()
    with pytest.raises(ScheduleError, match="`S`"):
        s[parts[part]].transform_layout(lambda t, i: [t // 2, t % 2, i])
    s[S].transform_layout(lambda t, i: [i, t])


def test_a_scan_in_another_layout() -> None:
    s, X, S, _ = scan()
    s[S].transform_layout(lambda t, i: [i, t])
    x, out = np.arange(10, dtype="float32").reshape(5, 2), np.zeros((2, 5), "float32")
    tvmagic.build(s, [X, S])(x, out)
    assert (out.T == np.concatenate([x[:1], np.cumsum(x[1:], axis=0)])).all()


def test_a_double_buffer_in_another_layout() -> None:
    s, A, B, C = stages()
    s[B].transform_layout(lambda i, j: [j, i])
    s[B].compute_at(s[C], s[C].op.axis[0])
    s[B].double_buffer()
    assert "double_buffer_write" in str(tvmagic.lower(s, [A, C])["main"])
    a, c = np.arange(128, dtype="float32").reshape(8, 16), np.zeros((8, 16), "float32")
    tvmagic.build(s, [A, C], check_bounds=True)(a, c)
    assert (c == (a + 1) * 2).all()


def test_a_double_buffer_of_several_groups_of_axes_is_refused() -> None:
    s, A, B, C = stages()
    s[B].transform_layout(lambda i, j: [i, te.AXIS_SEPARATOR, j])
    s[B].compute_at(s[C], s[C].op.axis[0])
    s[B].double_buffer()
    with pytest.raises(TVMagicError, match="`B`"):
        tvmagic.lower(s, [A, C])


def test_an_intrinsic_knows_no_other_layout() -> None:
    s, A, B, C = stages()
    D = te.extern((8, 16), [C], lambda ins, outs: tir.call_extern("int32", "f", ins[0].data, outs[0].data), name="D")
    s = te.create_schedule(D.op)
    s[C].transform_layout(lambda i, j: [j, i])
    with pytest.raises(TVMagicError, match="`C`"):
        tvmagic.lower(s, [A, D])


@pytest.mark.parametrize("layout", [lambda i, j: [j, i], lambda i, j: [i, te.AXIS_SEPARATOR, j]])
def test_memory_in_another_layout_keeps_its_scope(layout: Any) -> None:
    s, A, B, C = stages()
    s[B].transform_layout(layout)
    s[B].compute_at(s[C], s[C].op.axis[0])
    s[B].set_scope("local")
    assert 'scope="local"' in str(tvmagic.lower(s, [A, C]))


@pytest.mark.parametrize("count", [1, 2])
def test_virtual_threads_of_a_layout_that_begins_before_0(count: int) -> None:
    A = te.placeholder((6, 8), name="A")
    results = te.compute((6, 8), lambda i, j: [A[i, j] + 1.0, A[i, j] * 2.0][:count], name="B")
    B = results[-1] if count > 1 else te.compute((6, 8), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((2, 6), lambda i, j: te.if_then_else(i * 2 >= 1, B[i - 1, 0], -1.0), name="C")
    s = te.create_schedule(C.op)
    s[B].transform_layout(lambda i, j: [i % 3, j % 4, i // 3, j // 4])
    s[B].bind(s[B].leaf_iter_vars[2], te.thread_axis("vthread"))
    assert "if axis0 < 1" in str(tvmagic.lower(s, [A, C])["main"])
    a, c = np.random.default_rng(0).random((6, 8), dtype="float32"), np.zeros((2, 6), "float32")
    tvmagic.build(s, [A, C], check_bounds=True)(a, c)
    expected = np.full((2, 6), -1.0, "float32")
    expected[1] = a[0, 0] * 2
    np.testing.assert_array_equal(c, expected)
