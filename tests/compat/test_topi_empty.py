"""Operators of TOPI on tensors without elements, compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import te, topi

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
    with refuses("topi.empty_axis"):
        operator(a, axis=1)
    assert operator(a, axis=0).shape[0].value == 0


@pytest.mark.parametrize("operator", [topi.argmax, topi.argmin])
def test_arg_reductions_reject_symbolic_axes_without_elements(operator: Any) -> None:
    a = te.placeholder((3, te.var("n")), name="A")
    b = operator(a, axis=1)
    built, found = tvmagic.build(te.create_schedule(b.op), [a, b]), np.full(3, 7, "int32")
    with refuses("call.assertion_failed"):
        built(np.zeros((3, 0), "float32"), found)
    assert found.tolist() == [7, 7, 7]
    built(np.zeros((3, 2), "float32"), found)
    assert found.tolist() == [0, 0, 0]


@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_elements_are_not_taken_from_nothing(mode: str) -> None:
    a, i = te.placeholder((4, 0), name="A"), te.placeholder((2,), "int32", name="I")
    with refuses("topi.empty_axis"):
        topi.take(a, i, axis=1, mode=mode)
