"""transform_layout: results stored and computed in another order."""

from __future__ import annotations

import pytest

import tvmagic
from tvmagic import te
from tvmagic.errors import ScheduleError


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
    with pytest.raises(ScheduleError, match="stage `B`: transform_layout on `i`"):
        s[B].transform_layout(lambda i, j: [j, i])
