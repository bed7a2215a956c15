"""Recurrences: their loops, bounds and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refuses
from te_execution import largest_difference

import tvmagic
from tvmagic import te
from tvmagic.errors import TVMagicError
from tvmagic.script import tir as T
from tvmagic.te.schedule.scan import scan_fix_point_analysis


def ops_text(s: Any) -> str:
    n = s.normalize()
    return str(te.schedule.ScheduleOps(n, te.schedule.InferBound(n), False))


class TwoStates:
    """Two states that update each other through a stage `mid`, and their sum `D`."""

    def __init__(self, m: int = 9, n: int = 12) -> None:
        self.X = te.placeholder((m, n), name="X")
        a, b = te.placeholder((m, n), name="a"), te.placeholder((m, n), name="b")
        self.first = te.compute((1, n), lambda _, i: self.X[0, i], name="first")
        second = te.compute((1, n), lambda _, i: self.X[0, i] * 2.0, name="second")
        self.mid = te.compute((m, n), lambda t, i: a[t - 1, i] + b[t - 1, n - 1 - i], name="mid")
        self.u = te.compute((m, n), lambda t, i: self.mid[t, i] * 0.5 + self.X[t, i], name="u")
        self.v = te.compute((m, n), lambda t, i: self.mid[t, i] - b[t - 1, i] * 0.5, name="v")
        self.S = te.scan([self.first, second], [self.u, self.v], [a, b], inputs=[self.X], name="S")
        self.D = te.compute((m, n), lambda i, j: self.S[0][i, j] + self.S[1][i, j], name="D")
        self.s = te.create_schedule(self.D.op)


def second_order(columns: Callable[[Any, Any], Any]) -> tuple[Any, Any, Any, Any]:
    m = te.size_var("m")
    X = te.placeholder((m, 8), name="X")
    state = te.placeholder((m, 8), name="state")
    first = te.compute((2, 8), lambda t, i: X[t, i], name="first")
    update = te.compute(
        (m, 8), lambda t, i: state[t - 1, i] * 0.5 + state[t - 2, columns(t, i)] + X[t, i], name="update"
    )
    R = te.scan(first, update, state, inputs=[X], name="R")
    D = te.compute((m, 3), lambda i, j: R[i, j + 2] * 2.0, name="D")
    return te.create_schedule(D.op), X, R, D


def test_columns_apart_are_computed_in_part() -> None:
    s, X, R, D = second_order(lambda t, i: i)
    text = ops_text(s)
    assert "R[0:m, 2:5]" in text and "T.grid(m - 2, 3)" in text
    assert largest_difference(s, [X, D]) < 1e-5


def test_columns_that_mix_are_computed_whole() -> None:
    s, X, R, D = second_order(lambda t, i: 7 - i)
    assert "R[0:m, 0:8]" in ops_text(s)
    assert largest_difference(s, [X, D]) < 1e-5


def test_thread_axes_around_a_scan() -> None:
    p = TwoStates()
    p.s[p.S[0]].env_threads([te.thread_axis((0, 4), "threadIdx.x")])
    assert "thread_extent" in ops_text(p.s) or "launch_thread" in ops_text(p.s)
    with refuses("te.env_threads.called_twice"):
        p.s[p.S[0]].env_threads([te.thread_axis((0, 4), "threadIdx.x")])


def test_refused_scans() -> None:
    X = te.placeholder((9, 4), name="X")
    state = te.placeholder((9, 4), name="state")
    first = te.compute((1, 4), lambda _, i: X[0, i])
    wrong = te.compute((9,), lambda t: X[t, 0])
    with pytest.raises(TVMagicError, match="`R`.*`state`"):
        te.scan(first, wrong, state, name="R")
    with refuses("te.scan.wrong_tensor_count"):
        te.scan([first, first], [wrong], [state], name="R")
    alone = te.scan(first, te.compute((9, 4), lambda t, i: X[t, i], name="alone"), state, name="R")
    with pytest.raises(TVMagicError, match="`alone`.*`R`"):
        te.create_schedule(alone.op)


@pytest.mark.parametrize(("dtype", "rows", "split"), [("int32", 1, False), ("int64", 2, True)])
def test_an_output_too_small_for_the_first_rows_is_refused(dtype: str, rows: int, split: bool) -> None:
    """A scan writes its first rows whatever the size is; with too few rows they would be outside of the array."""
    n, m = te.var("n", dtype), te.var("m", dtype)
    X, state = te.placeholder((n, m), name="X"), te.placeholder((n, m), name="s")
    init = te.compute((rows, m), lambda t, i: X[t, i], name="init")
    update = te.compute((n, m), lambda t, i: state[t - rows, i] + X[t, i], name="update")
    S = te.scan(init, update, state, inputs=[X])
    s = te.create_schedule(S.op)
    if split:
        s[init].split(init.op.axis[1], 4)
        s[init].unroll(init.op.axis[0])
    run = tvmagic.build(s, [X, S])
    for size, width in ((rows - 1, 3), (0, 1), (0, 0), (rows, 3), (rows + 2, 5)):
        x, memory = np.ones((size, width), "float32"), np.full((size + 4, width), 7, "float32")
        y = memory[2 : 2 + size]
        if size < rows and width:
            with refuses("call.assertion_failed"):
                run(x, y)
            assert (memory == 7).all()
        else:
            run(x, y)
            assert (memory[:2] == 7).all() and (memory[2 + size :] == 7).all()
            assert (y == (np.arange(size) // rows + 1)[:, None]).all()


def test_a_row_that_a_function_always_writes_has_to_be_there() -> None:
    @T.prim_func
    def first(a: T.handle, b: T.handle) -> None:
        n = T.int32()
        A, B = T.match_buffer(a, (4,)), T.match_buffer(b, (n,))
        for i in range(2):
            with T.block("x"):
                v = T.axis.spatial(2, i)
                B[v] = A[v]

    run, memory = tvmagic.build(first), np.full(8, 7, "float32")
    with pytest.raises(TVMagicError, match="`B`"):
        run(np.ones(4, "float32"), memory[2:3])
    assert (memory == 7).all()
    run(np.ones(4, "float32"), memory[2:4])
    assert memory.tolist() == [7, 7, 1, 1, 7, 7, 7, 7]


@pytest.mark.parametrize(
    ("step", "apart"),
    [
        (lambda s, x, t, i, j: s[t - 1, i, j] + x[t, i, j], (True, True)),
        (lambda s, x, t, i, j: s[t - 1, i, 0] + x[t, i, j], (True, False)),
        (lambda s, x, t, i, j: s[t - 1, 7 - i, j] + x[t, i, j], (False, True)),
        (lambda s, x, t, i, j: s[t - 1, j, i] + x[t, i, j], (False, False)),
        (lambda s, x, t, i, j: s[t - 1, i, j] + s[t - 1, i, i], (False, False)),
        (lambda s, x, t, i, j: s[t - 1, i, i] + s[t - 1, j, j], (False, False)),
        (lambda s, x, t, i, j: x[t, i, j], (False, False)),
    ],
)
def test_scan_axes_are_independent_across_steps(step: Any, apart: tuple[bool, bool]) -> None:
    x = te.placeholder((5, 8, 8), name="X")
    state = te.placeholder((5, 8, 8), name="state")
    first = te.compute((1, 8, 8), lambda t, i, j: x[0, i, j], name="first")
    update = te.compute((5, 8, 8), lambda t, i, j: step(state, x, t, i, j), name="update")
    scan = te.scan(first, update, state, inputs=[x], name="scan")
    assert tuple(scan_fix_point_analysis(scan.op).values()) == apart
