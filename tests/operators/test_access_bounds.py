"""Accesses: those proved to be inside run unchecked, all others are checked, so that no cell kills the process."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refuses

from tvmagic.errors import BoundsError, TVMagicError
from tvmagic.operators import operator
from tvmagic.operators.measure import bench, check
from tvmagic.operators.scheduling import schedule

FAR = 100_000_000  # elements outside: unchecked, the access would end the process

PROVED = {
    "dense": "X: float32[64, 32]\nW: float32[48, 32]\nY[i, j] += X[i, k] * W[j, k]",
    "symbolic": "X: float32[n, m]\nW: float32[m, 32]\nY[i, j] += X[i, k] * W[k, j]",
    "padding": "X: float32[n]\nP: float32[n + 2]\nP[i] = X[i - 1] if 1 <= i < n + 1 else 0",
    "shifted": "X: float32[n]\nZ: float32[n - 1]\nZ[i] = X[i] + X[i + 1]",
    "convolution": "A: float32[n]\nK: float32[k]\nC[i] += A[i + r] * K[r]",
    "reversed": "X: float32[n]\nY: float32[n]\nY[i] = X[n - 1 - i]",
    "halves": "X: float32[n]\nY[i] = max(X[2 * i], X[2 * i + 1])",
    "clipped": "X: float32[5]\nI: int32[9]\nY[i] = X[max(min(I[i], 4), 0)]",
    "guarded": "X: float32[5]\nI: int32[9]\nY[i] = X[I[i]] if 0 <= I[i] < 5 else 0",
    **{
        f"a shared axis of {extent}": f"X = te.placeholder((8, 4), name='X')\nk = te.reduce_axis((0, {extent}), name='k')\n"
        "A = te.compute((8,), lambda i: te.sum(X[i, k], axis=k), name='A')\n"
        "B = te.compute((8,), lambda i: te.sum(X[7 - i, k] * A[i], axis=k), name='B')"
        for extent in (1, 4)
    },
    "recurrence": "A = te.placeholder((8,), name='A')\nS = te.placeholder((8,), name='S')\n"
    "init = te.compute((1,), lambda _: A[0])\nstep = te.compute((8,), lambda t: S[t - 1] + A[t])\n"
    "Y = te.scan(init, step, S, inputs=[A])",
    "blocks": "@T.prim_func\ndef f(A: T.Buffer((64,)), B: T.Buffer((64,))):\n    for i, j in T.grid(8, 8):\n"
    "        with T.block('B'):\n            v = T.axis.spatial(64, i * 8 + j)\n            B[v] = A[63 - v]",
    "predicate": "@T.prim_func\ndef f(A: T.Buffer((60,)), B: T.Buffer((60,))):\n    for i, j in T.grid(8, 8):\n"
    "        with T.block('B'):\n            v = T.axis.spatial(60, i * 8 + j)\n            T.where(i * 8 + j < 60)\n"
    "            B[v] = A[v]",
}  # fmt: skip


@pytest.mark.parametrize("name", PROVED)
def test_what_is_proved_to_be_inside_runs_unchecked(name: str) -> None:
    op = operator("f", PROVED[name])
    assert op.accesses.open == [] and not op.check_bounds


OUTSIDE = {
    "data": "X: float32[4]\nI: int32[4]\nY[i] = X[I[i]]",
    "half guarded": "X: float32[4]\nI: int32[4]\nY[i] = X[I[i]] if I[i] < 4 else 0",
    "te": f"A = te.placeholder((8,), name='A')\nB = te.compute((8,), lambda i: A[i + {FAR}], name='B')",
    "store": f"@T.prim_func\ndef f(A: T.Buffer((8,)), B: T.Buffer((8,))):\n    for i in range(8):\n        B[i + {FAR}] = A[i]",
    "claimed": "@T.prim_func\ndef f(A: T.Buffer((8,)), B: T.Buffer((8,))):\n    for i in range(8):\n"
    f"        with T.block('B'):\n            v = T.axis.spatial(8, i + {FAR})\n            B[v] = A[0]",
    "vector": "@T.prim_func\ndef f(A: T.Buffer((8,)), B: T.Buffer((8,))):\n    for i in range(2):\n"
    f"        B[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(i * {FAR}, 1, 4)]",
    "sizes": f"X: float32[n]\nW: float32[m]\nY: float32[m]\nY[i] = X[i * {FAR}] + W[i]",
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_is_not_is_checked_and_ends_in_an_error(name: str) -> None:
    op = operator("f", OUTSIDE[name])
    assert op.check_bounds
    arrays = op.random_inputs()
    if op.inputs[-1].dtype == "int32":
        arrays[-1][:] = -FAR
    with refuses("call.index_out_of_range", error=BoundsError):
        op(*arrays)


HEAD = "@T.prim_func\ndef f(a: T.handle, b: T.handle):\n    n = T.int32()\n    A, B = T.match_buffer(a, (n, 4)), T.match_buffer(b, (n, 4))\n"
VIEWS = {  # whether all is inside, and what the body does with B
    "flat": (True, "    C = T.Buffer((n * 4,), data=B.data)\n    for i in range(n * 4):\n        C[i] = A[i // 4, i % 4]"),
    "bytes": (True, "    C = T.Buffer((n * 16,), 'int8', data=B.data)\n    for i in range(n * 16):\n        C[i] = T.int8(1)"),
    "columns": (True, "    C = T.Buffer((4, n), strides=[1, 4], data=B.data)\n    for i, j in T.grid(4, n):\n        C[i, j] = A[j, i]"),
    "longer": (False, "    C = T.Buffer((n * 4 + 10000000,), data=B.data)\n    for i in range(n * 4 + 10000000):\n        C[i] = T.float32(1)"),
    "wider": (False, "    C = T.Buffer((n * 4000000,), 'float64', data=B.data)\n    for i in range(n * 4000000):\n        C[i] = T.float64(1)"),
    "later": (False, "    C = T.Buffer((n * 4,), data=B.data, elem_offset=100000000)\n    for i in range(n * 4):\n        C[i] = A[i // 4, i % 4]"),
    "matched": (False, "    for i in range(n):\n        with T.block('b'):\n            v = T.axis.spatial(n, i)\n            V = T.match_buffer(B[v, 0:100000000], (100000000,), strides=[1], offset_factor=1)\n            V[99999999] = A[v, 0]"),
    "handed on": (False, "    for i in range(n):\n        B[i, 0] = A[i, 0]\n    T.evaluate(T.call_extern('int32', 'memset', B.access_ptr('w', offset=100000000), 0, 4))"),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_other_buffers_on_the_memory_of_an_array(name: str) -> None:
    proved, body = VIEWS[name]
    op = operator("f", HEAD + body)
    assert op.check_bounds is not proved
    if not proved:
        with pytest.raises(BoundsError):
            op(np.ones((6, 4), "float32"))


@pytest.mark.parametrize(
    ("first", "count", "inside"),
    [
        (20, 4, True),
        (21, 4, False),
        (24, 0, True),
        (25, 0, False),
        (0, 24, True),
        (100, 4, False),
        (-1, 4, False),
        (4, -1, False),
    ],
)
def test_regions_that_a_function_gets(first: int, count: int, inside: bool) -> None:
    pointer = f"T.tvm_access_ptr(T.type_annotation('float32'), B.data, {first}, {count}, 2)"
    body = f"    for i in range(24):\n        B[i] = A[i]\n    T.evaluate(T.call_extern('int32', 'memset', {pointer}, 0, 4))"
    op = operator("f", f"@T.prim_func\ndef f(A: T.Buffer((24,)), B: T.Buffer((24,))):\n{body}")
    assert op.check_bounds is not inside


CHOSEN = "tir.if_then_else(I[i] > 0, I[i], 0)", "tir.if_then_else(I[i] > 0, 0, I[i])", "tir.Select(I[i] > 0, I[i], tir.const(0, 'int64'))", "tir.Select(I[i] > 0, tir.const(0, 'int64'), I[i])", "I[i].astype('int32')"  # fmt: skip


@pytest.mark.parametrize("value", CHOSEN)
def test_random_numbers_that_are_indices_after_a_choice_are_inside(value: str) -> None:
    op = operator(
        "f",
        "X, I = te.placeholder((3,), name='X'), te.placeholder((40,), 'int64', name='I')\n"
        f"J = te.compute((40,), lambda i: {value}, name='J')\nY = te.compute((40,), lambda i: X[J[i]], name='Y')",
    )
    assert set(op.random_inputs()[0]) == {0, 1, 2}


def test_random_indices_are_inside_so_that_a_gather_can_be_checked_and_measured() -> None:
    op = operator("f", "X: float32[3, 5]\nI: int64[40]\nJ: uint8[40]\nY[i] = X[I[i], int32(J[i])]")
    _, i, j = op.random_inputs()
    assert set(i) == {0, 1, 2} and set(j) == {0, 1, 2, 3, 4}
    version = schedule(op, "s[Y].vectorize(s[Y].split(s[Y].axis[0], 8)[1])")
    assert check(version).ok
    assert any("X[I[i], T.Cast" in n and "check_bounds = False" in n for n in bench(op, seconds=0.001).notes)


@pytest.mark.parametrize(
    "lines",
    [
        "Q[i] = T[0, S[i]] if i < 1 else T[Q[i - 1], S[i]]",
        "Q[i] = int32(T[0, S[i]])\nR[i] = T[Q[i], 0]",
        "Q[i] = T[1, 2] if S[i] > 0 else T[2, 1]\nR[i] = T[where(S[i] > 1, Q[i], 0), 0]\nP[i] = T[R[i], 1] + T[Q[i], 1]",
    ],
)
def test_random_elements_that_become_indices_in_a_later_stage_are_inside(lines: str) -> None:
    op = operator("f", f"T: uint8[4, 6]\nS: uint8[9]\n{lines}")
    assert op.check().ok
    assert op.random_inputs()[0].max() < 4


def test_an_index_computed_from_random_numbers_is_said_to_be() -> None:
    op = operator("f", "T: int32[4]\nS: int32[9]\nQ[i] = T[S[i] * S[i]]")
    with pytest.raises(TVMagicError, match="`T`") as caught:
        op.check()
    assert caught.value.hint is not None and "set `f.example_inputs`, or write `--inputs EXPR`" in caught.value.hint
    op = operator("f", "T: int32[4]\nQ[i] = T[i] if i % 2 == 0 else T[i + 1]")
    with pytest.raises(TVMagicError, match="`T`") as caught:
        op.check()
    assert caught.value.hint is None  # no input leads there


def test_checks_can_be_left_out() -> None:
    op = operator("f", OUTSIDE["data"])
    x, i = op.random_inputs()
    checked = op.current.build()
    op.check_bounds = False
    assert op.current.build() is not checked
    assert not any("checked" in n for n in bench(op, seconds=0.001).notes)
    np.testing.assert_array_equal(op(x, i), x[i])


def test_stages_larger_than_memory_are_rejected_unless_a_schedule_keeps_a_part() -> None:
    op = operator("f", "X: float32[4194304]\nY[i, j] = X[i] * X[j]\nZ[i] += Y[i, j]")
    with pytest.raises(TVMagicError, match="`Y`.*`f`"):
        op(np.ones(4194304, "float32"))
    with pytest.raises(TVMagicError, match="`Y` of `f`"):
        schedule(op, "s[Z].parallel(s[Z].axis[0])").build()
    schedule(op, "s[Y].compute_inline()").build()
    schedule(op, "s[Y].compute_at(s[Z], s[Z].axis[0])").build()
    operator("g", "X: float32[65536, 65536]\nY[i, j] = X[i, j]").current.build()
    operator("h", "X: float32[1 << 33]\nY[i] = X[i]").current.build()  # its indices have 64 bits
