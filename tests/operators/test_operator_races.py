"""Schedules whose iterations race are refused; a check tells of them."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refuses

from tvmagic.errors import TVMagicError
from tvmagic.operators import operator
from tvmagic.operators.operator import Operator
from tvmagic.operators.races import races_of
from tvmagic.operators.scheduling import schedule

COLUMNS = "y = s[Y]\ni = y.op.reduce_axis[0]\ny.reorder(i, *y.op.axis)\ny.parallel(i)\n"


def columns() -> Operator:
    return operator("columns", "X: float32[64, 8]\nY[j] += X[i, j]\n")


def test_a_schedule_that_races_is_refused_at_its_call() -> None:
    op = columns()
    with pytest.raises(TVMagicError, match=r"`i`.*`Y\[0\]`") as caught:
        schedule(op, COLUMNS)
    error = caught.value
    assert error.span is not None and error.span.line == 5  # y.parallel(i)
    assert error.hint is not None and "rfactor" in error.hint
    assert not op.versions


def test_what_the_hint_says_works() -> None:
    op = columns()
    schedule(op, "y = s[Y]\ny.parallel(y.op.axis[0])")
    assert op.check().ok
    schedule(
        op,
        "i, = [s[Y].op.reduce_axis[0]]\nio, ii = s[Y].split(i, 16)\nF = s.rfactor(Y, io)\ns[F].parallel(s[F].op.axis[0])",
    )
    result = op.check()
    assert result.ok and not result.races


def test_a_check_of_a_racing_version_is_not_ok() -> None:
    op = columns()
    with pytest.raises(TVMagicError):
        schedule(op, COLUMNS)
    assert op.attempt is not None
    op.add_version(op.attempt)
    result = op.check()
    assert not result.ok
    assert "a race: iterations i = 0 and i = 1" in str(result)


def test_a_doubt_is_noted_and_no_error() -> None:
    text = """@T.prim_func
def f(P: T.Buffer((8,), "int32"), Y: T.Buffer((8,), "float32")):
    for i in T.parallel(8):
        Y[P[i]] = T.float32(1)"""
    op = operator("f", text)
    (race,) = races_of(op.current)
    assert not race.certain and "`P[i]` depends on data" in race.text


def test_the_plain_interface_is_as_it_was() -> None:
    import tvmagic

    op = columns()
    s = op.te_schedule()
    stage = s[op.outputs[0]]
    stage.parallel(stage.op.reduce_axis[0])
    tvmagic.lower(s, op.args)
    tvmagic.build(s, op.args)


# ---------------------------------------------------------------------------- read and written

INCREMENT = """@T.prim_func
def inc(a: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 4))
    for i in range(n):
        for j in T.vectorized(4):
            A[i, j] = A[i, j] + 1.0"""


@pytest.mark.parametrize("text", [INCREMENT, "A: float32[n, 4]\nA[i, j] = A[i, j] + 1\n"], ids=["function", "notation"])
def test_an_argument_that_is_read_and_written(text: str) -> None:
    op = operator("inc", text)
    assert op.signature == "inc(A: float32[n, 4]) -> A: float32[n, 4]"
    a = np.arange(12, dtype="float32").reshape(3, 4)
    before = a.copy()
    np.testing.assert_array_equal(op(a), before + 1)
    np.testing.assert_array_equal(op.reference(a), before + 1)
    np.testing.assert_array_equal(a, before)  # a call copies
    assert op(a, out=a) is a
    np.testing.assert_array_equal(a, before + 1)  # unless it is told to work in place
    other = np.zeros_like(a)
    op(a, out=other)
    np.testing.assert_array_equal(other, before + 2)
    np.testing.assert_array_equal(a, before + 1)
    assert op.check().ok


def test_times_of_an_update_start_each_call_anew() -> None:
    from tvmagic.operators.measure import bench

    op = operator("inc", INCREMENT)
    result = bench(op, seconds=0.01, sizes=4)
    assert not [note for note in result.notes if "other values" in note]


def test_every_step_of_an_update_is_verified() -> None:
    from tvmagic.operators.verify import verify

    op = operator("inc", INCREMENT)
    assert "bad" not in {verdict.state for verdict in verify(op.passes(code=False), op)}


def test_the_index_notation_reads_old_values() -> None:
    op = operator("shift", "A: float32[8]\nA[i] = A[i - 1] if i > 0 else 0\n")
    a = np.arange(8, dtype="float32")
    wanted = np.concatenate([[0], a[:-1]])
    np.testing.assert_array_equal(op(a), wanted)
    op(a, out=a)
    np.testing.assert_array_equal(a, wanted)


def test_a_sum_is_added_to_what_was_read() -> None:
    op = operator("f", "A: float32[8]\nX: float32[8, 4]\nB[i] = A[i] * 2\nA[i] += X[i, k]\n")
    a, x = op.random_inputs()
    new, double = op(a, x)
    np.testing.assert_allclose(new, a + x.sum(1), rtol=1e-5)
    np.testing.assert_array_equal(double, a * 2)


def test_an_output_that_shares_memory_with_another_input() -> None:
    op = operator("f", "A: float32[8]\nB: float32[8]\nB[i] = A[7 - i]\n")
    a = np.arange(8, dtype="float32")
    op(a, out=a)
    np.testing.assert_array_equal(a, np.arange(8)[::-1])


def test_a_call_that_gets_one_buffer_updates_it() -> None:
    text = """@T.prim_func
def f(A: T.Buffer((8,), "float32")):
    T.evaluate(T.call_extern("int32", "f", A.data))"""
    op = operator("f", text)
    assert op.signature == "f(A: float32[8]) -> A: float32[8]"


def test_an_array_of_another_shape_cannot_be_updated() -> None:
    op = operator("inc", INCREMENT)
    with refuses("array.wrong_size", names="`A`"):
        op(np.zeros((3, 4), "float32"), out=np.zeros((2, 4), "float32"))
