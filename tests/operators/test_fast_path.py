"""Calls with plain arrays after the first one: the long way in Python is not gone, and nothing is taken that it refuses."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import tvmagic
from tvmagic import te, tir
from tvmagic.errors import BoundsError, TVMagicError
from tvmagic.operators import Operator, operator
from tvmagic.operators.fast_path import quick_call
from tvmagic.operators.scheduling import schedule

ADD = "A: float32[{n}]\nB: float32[{n}]\nC[i] = A[i] + B[i]"
TWO = "A: float32[n, 4]\nS[i] += A[i, j]\nT[j, i] = A[i, j] * 2"


def warmed(text: str, *arrays: Any) -> Operator:
    """An operator after a call."""
    op = operator("f", text)
    op(*arrays)
    return op


def long_way_is_closed(op: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    def bind(self: Operator, arrays: Any, named: Any) -> Any:
        raise AssertionError("the long way")

    monkeypatch.setattr(Operator, "bind", bind)


@pytest.mark.parametrize("n", ["8", "n"])
def test_the_second_call_takes_the_quick_way(n: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = np.arange(8, dtype="float32"), np.ones(8, "float32")
    op = warmed(ADD.format(n=n), a, b)
    long_way_is_closed(op, monkeypatch)
    out = np.empty(8, "float32")
    np.testing.assert_array_equal(op(a, b), a + 1)
    for given in (out, (out,), [out]):
        out[:] = 0
        assert op(a, b, out=given) is out
        np.testing.assert_array_equal(out, a + 1)
    if n == "n":
        np.testing.assert_array_equal(op(a[:3], b[:3]), a[:3] + 1)


def test_several_outputs_have_their_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.arange(12, dtype="float32").reshape(3, 4)
    op = warmed(TWO, a)
    long_way_is_closed(op, monkeypatch)
    sums, twice = op(a)
    np.testing.assert_array_equal(sums, a.sum(1))
    np.testing.assert_array_equal(twice, 2 * a.T)


F32 = np.dtype("float32")


@pytest.mark.parametrize(
    ("text", "outputs"),
    [
        ("X: float32[n, 4]\nY[j, i] = X[i, j]", [((4, (0, 0)), F32)]),
        ("X: int8[n]\nW: int8[m, n]\nY[i, j] = W[i, j] + X[j]", [(((1, 0), (0, 0)), np.dtype("int8"))]),
        ("X: float32[n]\nY[()] += X[i]\nZ[i] = X[i] * 2", [((), F32), (((0, 0),), F32)]),
        ("X: float32[n]\ni: range(n + 1)\nY[i] = X[0] + i", None),
        ("X: float32[n]\nZ[i] = X[i] * 2\nj: range(n - 1)\nY[i, j] = X[i] + X[j + 1]", None),
        ("@T.prim_func\ndef f(X: T.Buffer((4,)), Y: T.Buffer((2, 2), strides=(3, 1))):\n    for i, j in T.grid(2, 2):\n        Y[i, j] = X[i]", None),
        ("@T.prim_func\ndef f(X: T.Buffer((4,)), Y: T.Buffer((4,))):\n    for i in range(3):\n        Y[i] = X[i]", None),
    ],
)  # fmt: skip
def test_outputs_whose_sizes_are_those_of_inputs(text: str, outputs: Any) -> None:
    """Others, those with strides, and those of which elements stay without a value, are made the long way."""
    op = operator("f", text)
    op(*op.random_inputs())
    assert quick_call(op.current, op.check_bounds).outputs == outputs


def test_what_is_wrong_is_told_as_at_the_first_call() -> None:
    a = np.ones(8, "float32")
    cases: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((a, a.astype("float64")), {}),
        ((a, a[:4]), {}),
        ((a, a.reshape(2, 4)), {}),
        ((a,), {}),
        ((a, a, a), {}),
        ((a, [1.0] * 8), {}),
        ((a, None), {}),
        ((a, a), {"out": np.empty(7, "float32")}),
        ((a, a), {"out": (a, a)}),
        ((a,), {"out": (np.empty(8, "float32"), np.empty(8, "float32"))}),  # as many arrays as the kernel takes
        ((a, a, np.empty(8, "float32")), {"out": ()}),
        ((a, a), {"B": a}),
    ]
    op = warmed(ADD.format(n="n"), a, a)
    for arrays, named in cases:
        with pytest.raises(TVMagicError) as first:
            operator("f", ADD.format(n="n"))(*arrays, **named)
        with pytest.raises(TVMagicError) as later:
            op(*arrays, **named)
        assert str(later.value) == str(first.value)


def test_what_is_no_plain_array_still_computes() -> None:
    a = np.arange(8, dtype="float32")
    op = warmed(ADD.format(n="n"), a, a)
    np.testing.assert_array_equal(op(a[::-1], a), np.full(8, 7))
    np.testing.assert_array_equal(op(a[::2], a[::2]), 2 * a[::2])
    np.testing.assert_array_equal(op(B=a, A=a), 2 * a)
    assert op(a[:0], a[:0]).shape == (0,)
    shifted = a.copy()
    assert op(shifted[:-1], shifted[1:], out=shifted[1:]) is not None  # shares memory with both inputs
    np.testing.assert_array_equal(shifted, [0, 1, 3, 5, 7, 9, 11, 13])


def test_the_checks_of_bounds_stay_switched_as_they_are() -> None:
    x, places = np.arange(4, dtype="float32"), np.array([3, 0], "int32")
    op = warmed("X: float32[4]\nI: int32[2]\nY[i] = X[I[i]]", x, places)
    outside = np.array([1, 9], "int32")
    for _ in range(2):
        with pytest.raises(BoundsError):
            op(x, outside)
        np.testing.assert_array_equal(op(x, places), [3, 0])
    op.check_bounds = False
    np.testing.assert_array_equal(op(x, places), [3, 0])
    op.check_bounds = True
    with pytest.raises(BoundsError):
        op(x, outside)


def test_a_new_schedule_a_copy_and_a_pickle_compute_by_themselves() -> None:
    a = np.arange(8, dtype="float32")
    op = warmed(ADD.format(n="8"), a, a)
    schedule(op, "s[C].vectorize(C.op.axis[0])", "fast")
    for other in (op, copy.deepcopy(op), pickle.loads(pickle.dumps(op))):
        np.testing.assert_array_equal(other(a, a), 2 * a)
        np.testing.assert_array_equal(other(a, a), 2 * a)


def test_what_is_updated_in_place_is_copied_each_time() -> None:
    text = "X: float32[4]\nY: float32[4]\nfor i in range(4):\n    Y[i] = Y[i] + X[i]"
    x, y = np.ones(4, "float32"), np.zeros(4, "float32")
    op = warmed(text, x, y)
    for _ in range(3):
        np.testing.assert_array_equal(op(x, y), 1)
    assert not y.any()


def test_sizes_beyond_their_type_are_rejected_at_every_call() -> None:
    text = "A: int8[n]\nB: int8[4]\ni: range(4)\nC[i] = B[i] + A[0]"
    small, b = np.zeros(8, "int8"), np.ones(4, "int8")
    op = warmed(text, small, b)
    far = np.zeros(2**31 + 8, "int8")  # no page of it is touched
    for called in (op, operator("f", text)):
        with pytest.raises(TVMagicError, match="`n`.*`int32`"):
            called(far, b)
    np.testing.assert_array_equal(op(small, b), 1)


def test_broadcast_sizes_beyond_their_type_are_rejected_by_kernels() -> None:
    n = te.var("n")
    A = te.placeholder((n,), "int8", name="A")
    k = te.reduce_axis((0, n), "k")
    B = te.compute((1,), lambda i: te.max(A[k], axis=k), name="B")
    buffer = tir.decl_buffer((n,), "int8", "A", strides=[te.var("stride")])
    built, out = tvmagic.build(te.create_schedule(B.op), [A, B], binds={A: buffer}), np.zeros(1, "int8")
    for _ in range(3):
        built(np.full(8, 5, "int8"), out)
        with pytest.raises(TVMagicError, match="4294967300.*0"):
            built(np.broadcast_to(np.full(1, 7, "int8"), (2**32 + 4,)), out)
    assert out[0] == 5


def test_strides_whose_span_passes_int32_give_the_same_result() -> None:
    text = "A: int8[n]\nC[i] = A[i] + 1"
    far = np.zeros(5_000_000_000, "int8")[::1_000_000]
    op = warmed(text, np.zeros(8, "int8"))
    schedule(op, "outer, inner = s[C].split(C.op.axis[0], 16)\ns[C].vectorize(inner)")
    for _ in range(2):
        np.testing.assert_array_equal(op(far), 1)
        np.testing.assert_array_equal(op(far[:2000]), 1)


@pytest.mark.parametrize("shared", [False, True])
def test_arrays_that_lie_apart_are_computed_into_at_once(shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An array that is updated is worked in; one that shares memory with another argument gets its values at the end."""
    text = """@T.prim_func
def f(A: T.Buffer((4,), "float32"), X: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("A"):
            v = T.axis.spatial(4, i)
            A[v] = A[v] + X[3 - v]"""
    op = operator("f", text)
    assert op.is_input(op.outputs[0])
    made: list[Any] = []
    fresh = type(op).fresh_outputs
    monkeypatch.setattr(type(op), "fresh_outputs", lambda *given: made.append(given) or fresh(*given))
    memory = np.arange(8, dtype="float32")
    a, x = (memory[:4], memory[2:6]) if shared else (memory[:4], memory[4:])
    wanted = a + x[::-1]
    op.current(a, x, out=a)
    assert (a == wanted).all() and bool(made) == shared
