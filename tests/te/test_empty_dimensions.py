"""Constant dimensions of 0: schedules and operators of TOPI, compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvmagic
from tvmagic import te, topi
from tvmagic.errors import TVMagicError

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


OPERATORS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "reshape": (lambda a: topi.reshape(a, (0, 5)), lambda x: x.reshape(0, 5)),
    "reshape to three": (lambda a: topi.reshape(a, (3, 0, 2)), lambda x: x.reshape(3, 0, 2)),
    "flatten": (lambda a: topi.nn.flatten(a), lambda x: x.reshape(2, 0)),
    "transpose": (lambda a: topi.transpose(a, (2, 1, 0)), lambda x: x.transpose(2, 1, 0)),
    "concatenate": (lambda a: topi.concatenate([a, a], 1), lambda x: np.concatenate([x, x], 1)),
    "tile": (lambda a: topi.tile(a, (2, 2, 1)), lambda x: np.tile(x, (2, 2, 1))),
    "repeat": (lambda a: topi.repeat(a, 2, 1), lambda x: np.repeat(x, 2, 1)),
    "sum": (lambda a: topi.sum(a, 1), lambda x: x.sum(1)),
    "softmax": (lambda a: topi.nn.softmax(a, 1), lambda x: x),
    "pad": (lambda a: topi.nn.pad(a, (0, 1, 0)), lambda x: np.pad(x, ((0, 0), (1, 1), (0, 0)))),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_of_nothing(name: str) -> None:
    operator, numpy = OPERATORS[name]
    x = np.zeros((2, 0, 3), "float32")
    a = te.placeholder(x.shape, name="A")
    b, wanted = operator(a), numpy(x)
    found = np.full(wanted.shape, np.nan, "float32")
    assert tuple(map(int, b.shape)) == wanted.shape
    tvmagic.build(te.create_schedule(b.op), [a, b])(x, found)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("operator", [topi.argmax, topi.argmin])
def test_the_place_of_an_extreme_of_nothing_is_refused(operator: Any) -> None:
    a = te.placeholder((4, 0), name="A")
    with pytest.raises(TVMagicError, match="cannot take arg(max|min) of `A` over axis 1: the axis has no elements"):
        operator(a, axis=1)
    assert operator(a, axis=0).shape[0].value == 0


@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_elements_are_not_taken_from_nothing(mode: str) -> None:
    a, i = te.placeholder((4, 0), name="A"), te.placeholder((2,), "int32", name="I")
    with pytest.raises(TVMagicError, match="cannot take elements of `A`: it has none along that axis"):
        topi.take(a, i, axis=1, mode=mode)
