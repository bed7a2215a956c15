"""Positions of the new dimension of `rfactor`."""

from __future__ import annotations

from typing import Any

import pytest

from tvmagic import te
from tvmagic.errors import ScheduleError


def sums() -> tuple[Any, Any, Any]:
    a = te.placeholder((12, 9, 10), name="A")
    k = te.reduce_axis((0, 10), "k")
    b = te.compute((12, 9), lambda i, j: te.sum(a[i, j, k], k), name="B")
    return a, b, te.create_schedule(b.op)


@pytest.mark.parametrize(
    ("place", "shape"),
    [
        (0, "10 12 9"),
        (1, "12 10 9"),
        (2, "12 9 10"),
        (-1, "12 9 10"),
        (-2, "12 10 9"),
        (-3, "10 12 9"),
        (3, ""),
        (-4, ""),
    ],
)
def test_rfactor_axis_position_is_checked(place: int, shape: str) -> None:
    _, b, s = sums()
    if not shape:
        with pytest.raises(ScheduleError):
            s.rfactor(b, b.op.reduce_axis[0], place)
    else:
        assert " ".join(str(n) for n in s.rfactor(b, b.op.reduce_axis[0], place).shape) == shape
