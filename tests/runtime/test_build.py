"""`tvmagic.build` from a schedule to a kernel."""

import numpy as np
import pytest

import tvmagic
from tvmagic import te, tir
from tvmagic.errors import BoundsError, TVMagicError
from tvmagic.passes import recording


def scaled(factor):
    a = te.placeholder((64, 32), name="A")
    b = te.compute((64, 32), lambda i, j: a[i, j] * factor + 1.0, name="B")
    return [a, b]


def test_a_te_schedule_runs():
    a, b = scaled(2.0)
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[1], factor=8)
    s[b].vectorize(inner)
    s[b].parallel(b.op.axis[0])
    values = np.random.default_rng(0).standard_normal((64, 32)).astype("float32")
    np.testing.assert_allclose(tvmagic.build(s, [a, b])(values), values * 2 + 1, rtol=1e-6)


def test_a_module_built_before_comes_at_once():
    func = te.create_prim_func(scaled(3.0))
    first = tvmagic.build(func)
    again = te.create_prim_func(scaled(3.0))
    assert tvmagic.build(again) is first
    assert tvmagic.build(again, check_bounds=True) is not first


def test_a_schedule_with_the_loops_of_one_built_before_is_not_lowered_again(calls):
    def build():
        a, b = scaled(5.0)
        s = te.create_schedule(b.op)
        s[b].split(b.op.axis[1], factor=8)
        return tvmagic.build(s, [a, b])

    first = calls(build)
    assert build() is build() and calls(build) < first / 5
    a, b = scaled(5.0)
    assert tvmagic.build(te.create_schedule(b.op), [a, b]) is not build()


def test_what_is_recorded_is_lowered_again():
    func = te.create_prim_func(scaled(6.0))
    tvmagic.build(func)
    with recording() as record:
        tvmagic.build(func)
    assert "tir.FlattenBuffer" in [step.name for step in record]


def test_check_bounds_reaches_a_schedule():
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i + 1], name="B")
    sch = tir.Schedule(te.create_prim_func([a, b]))
    with pytest.raises(BoundsError, match=r"`A\w*`"):
        tvmagic.build(sch.mod, check_bounds=True)(np.zeros(8, "float32"))


def test_symbolic_sizes_from_te():
    n = te.var("n")
    a = te.placeholder((n, n), name="A")
    b = te.compute((n, n), lambda i, j: a[j, i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    built = tvmagic.build(s, [a, b])
    values = np.arange(9, dtype="float32").reshape(3, 3)
    np.testing.assert_array_equal(built(values), values.T + 1)
    np.testing.assert_array_equal(built(values[:2, :2]), values[:2, :2].T + 1)
    with pytest.raises(TVMagicError, match="`A`.*`n`"):
        built(values[:, :2])
