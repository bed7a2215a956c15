"""Constant dimensions of 0: schedules compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvmagic
from tvmagic import te

SCHEDULES: dict[str, Callable[[Any, Any], Any]] = {
    "fuse": lambda s, b: s[b].fuse(*b.op.axis),
    "fuse and split": lambda s, b: s[b].split(s[b].fuse(*b.op.axis), 4),
    "tile": lambda s, b: s[b].tile(*b.op.axis, 2, 2),
    "nparts": lambda s, b: s[b].split(b.op.axis[0], nparts=2),
    "parallel": lambda s, b: s[b].parallel(s[b].fuse(*b.op.axis)),
}


@pytest.mark.parametrize("shape", [(4, 0), (0, 4), (0, 0)])
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_of_nothing(name: str, shape: tuple[int, ...]) -> None:
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda i, j: a[i, j] + 1.0, name="B")
    s = te.create_schedule(b.op)
    SCHEDULES[name](s, b)
    tvmagic.build(s, [a, b])(np.zeros(shape, "float32"), np.zeros(shape, "float32"))


def test_a_sum_over_a_fused_axis_of_nothing_is_0() -> None:
    a, k, l = te.placeholder((4, 3, 0), name="A"), te.reduce_axis((0, 3), "k"), te.reduce_axis((0, 0), "l")
    b = te.compute((4,), lambda i: te.sum(a[i, k, l], axis=[k, l]), name="B")
    s = te.create_schedule(b.op)
    s[b].fuse(k, l)
    found = np.full(4, np.nan, "float32")
    tvmagic.build(s, [a, b])(np.zeros((4, 3, 0), "float32"), found)
    assert (found == 0).all()
