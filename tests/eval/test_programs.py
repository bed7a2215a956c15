# pyright: reportInvalidTypeForm=false
"""Cells whose algebra is tempting: compiled, interpreted and referenced they give what NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvmagic
from tvmagic import ir, te, tir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.eval.machine import run_function
from tvmagic.operators import operator
from tvmagic.passes import IRModule, PassContext
from tvmagic.script import tir as T
from tvmagic.te.reference import evaluate

INF, NAN = float("inf"), float("nan")
FLOATS = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 3e38], "float32")
X, Y = np.repeat(FLOATS, len(FLOATS)), np.tile(FLOATS, len(FLOATS))
N = len(X)
OF_FLOATS = {
    "(X[i] + Y[i]) - Y[i]": lambda x, y: (x + y) - y,
    "X[i] - X[i]": lambda x, y: x - x,
    "X[i] * 0": lambda x, y: x * 0,
    "0 / X[i]": lambda x, y: np.float32(0) / x,
    "X[i] + 0.0": lambda x, y: x + np.float32(0),
    "X[i] / 3.0": lambda x, y: x / np.float32(3),
    "X[i] == X[i]": lambda x, y: x == x,
    "not (X[i] < Y[i])": lambda x, y: ~(x < y),
    "not (X[i] >= Y[i])": lambda x, y: ~(x >= y),
    "X[i] < Y[i] or X[i] >= Y[i]": lambda x, y: (x < y) | (x >= y),
    "X[i] < Y[i] or Y[i] < X[i]": lambda x, y: (x < y) | (y < x),
    "X[i] <= Y[i]": lambda x, y: x <= y,
    "max(X[i], Y[i], 1.0)": lambda x, y: np.maximum(np.maximum(x, y), np.float32(1)),
    "min(max(X[i], Y[i]), X[i])": lambda x, y: np.minimum(np.maximum(x, y), x),
    "round(X[i] + 0.5)": lambda x, y: np.rint(x + np.float32(0.5)),
    "(X[i] if X[i] < Y[i] else Y[i]) - Y[i]": lambda x, y: np.where(x < y, x, y) - y,
}


def same(got: np.ndarray, wanted: np.ndarray) -> None:
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)
    if got.dtype.kind == "f":
        known = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(wanted[known]))


@pytest.mark.parametrize("text", OF_FLOATS)
def test_floats_are_no_real_numbers(text: str) -> None:
    op = operator("f", f"X: float32[{N}]\nY: float32[{N}]\nZ[i] = {text}")
    with np.errstate(all="ignore"):
        wanted = OF_FLOATS[text](X, Y)
    arrays = [X, Y][: len(op.inputs)]
    same(op(*arrays), wanted)
    same(op.reference(*arrays), wanted)


EDGES = {
    "int8": [-128, -127, -64, -1, 0, 1, 2, 63, 64, 100, 126, 127],
    "uint8": [0, 1, 2, 127, 128, 200, 254, 255],
    "int32": [-(1 << 31), -(1 << 31) + 1, -(1 << 30), -1, 0, 1, 3, (1 << 30), (1 << 31) - 2, (1 << 31) - 1],
    "uint32": [0, 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 2, (1 << 32) - 1],
    "int64": [-(1 << 63), -(1 << 63) + 1, -(1 << 62), -1, 0, 1, 5, 1 << 62, (1 << 63) - 2, (1 << 63) - 1],
    "uint64": [0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1],
}
OF_INTEGERS = {
    "X[i] + c > X[i]": lambda x, y, c: x + c > x,
    "X[i] + c <= Y[i] + c": lambda x, y, c: x + c <= y + c,
    "(X[i] * t) // t": lambda x, y, t: x * t // t,
    "(X[i] * t + c) % t": lambda x, y, t: (x * t + t // t) % t,
    "(X[i] + Y[i]) // t - Y[i] // t": lambda x, y, t: (x + y) // t - y // t,
    "max(X[i] + c, X[i])": lambda x, y, c: np.maximum(x + c, x),
    "min(X[i] + Y[i], X[i])": lambda x, y, c: np.minimum(x + y, x),
    "max(X[i] * t, Y[i] * t)": lambda x, y, t: np.maximum(x * t, y * t),
    "X[i] - Y[i] < t - t": lambda x, y, c: x - y < np.zeros_like(x),
    "X[i] // X[i]": lambda x, y, c: x // np.where(x == 0, x.dtype.type(1), x) * (x != 0).astype(x.dtype),
    "X[i] % Y[i]": lambda x, y, c: np.where(y == 0, x.dtype.type(0), x % np.where(y == 0, x.dtype.type(1), y)),
    "X[i] * 0": lambda x, y, c: x * x.dtype.type(0),
}


@pytest.mark.parametrize("dtype", EDGES)
@pytest.mark.parametrize("text", OF_INTEGERS)
def test_loaded_integers_wrap_around(text: str, dtype: str) -> None:
    values = np.array(EDGES[dtype], dtype)
    x, y = np.repeat(values, len(values)), np.tile(values, len(values))
    cell = text.replace("t", f"{dtype}(2)").replace(" c", f" {dtype}(1)")
    op = operator("f", f"X: {dtype}[{len(x)}]\nY: {dtype}[{len(x)}]\nZ[i] = {cell}")
    one = x.dtype.type(2 if "t" in text else 1)
    with np.errstate(all="ignore"):
        wanted = np.asarray(OF_INTEGERS[text](x, y, one))
    arrays = [x, y][: len(op.inputs)]
    same(op(*arrays), wanted)
    same(op.reference(*arrays), wanted)


def test_an_input_stays_in_the_signature() -> None:
    op = operator("f", "X: int32[4]\nY: int32[4]\nZ[i] = X[i] * 0 + Y[i]")
    assert op.signature == "f(X: int32[4], Y: int32[4]) -> Z: int32[4]"
    np.testing.assert_array_equal(op(np.ones(4, "int32"), np.arange(4, dtype="int32")), np.arange(4))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_reductions_of_infinities(kind: str, dtype: str) -> None:
    op = operator("f", f"X: {dtype}[4, 5]\nY[i] = {kind}(X[i, k], over=k)")
    x = np.full((4, 5), -INF if kind == "max" else INF, dtype)
    x[1, 2], x[2, 3] = 1.0, NAN
    wanted = getattr(np, kind)(x, axis=1)
    same(op(x), wanted)
    same(op.reference(x), wanted)


@pytest.mark.parametrize("kind", ["max", "min"])
def test_reductions_of_infinities_in_te(kind: str) -> None:
    """TVM's text has the largest finite number as the neutral element; the value is NumPy's."""
    A, k = te.placeholder((3, 16), name="A"), te.reduce_axis((0, 16), "k")
    B = te.compute((3,), lambda i: getattr(te, kind)(A[i, k], axis=k), name="B")
    x = np.full((3, 16), -INF if kind == "max" else INF, "float32")
    x[1, 3] = 0
    plain, factored = te.create_schedule(B.op), te.create_schedule(B.op)
    outer, _ = factored[B].split(factored[B].op.reduce_axis[0], factor=4)
    factored.rfactor(B, outer)
    sch = tir.Schedule(te.create_prim_func([A, B]))
    sch.rfactor(sch.split(sch.get_loops("B")[1], [4, 4])[0], 0)
    for made in (plain, factored, sch.mod):
        lowered: Any = made if made is sch.mod else tvmagic.lower(made, [A, B])
        if made is plain:
            assert (
                f"T.float32({'-' if kind == 'max' else ''}340282346638528859811704183484516925440.0)"
                in lowered["main"].script()
            )
        out = np.zeros(3, "float32")
        tvmagic.build(lowered)(x, out)
        same(out, getattr(np, kind)(x, axis=1))
        out = np.zeros(3, "float32")
        run_function(lowered["main"], [x, out])
        same(out, getattr(np, kind)(x, axis=1))


def test_a_guard_of_and() -> None:
    """What the right side of `and` reads where the left one is false is not used, so it may lie outside."""
    A = te.placeholder((8,), name="A")
    B = te.compute((16,), lambda i: tir.if_then_else(tir.And(i < 8, A[i] > 0), 1, 2), name="B")
    x = np.linspace(-1, 1, 8).astype("float32")
    wanted = np.where(np.r_[x > 0, np.zeros(8, bool)], 1, 2).astype("int32")
    same(evaluate(B, {A: x}), wanted)
    for lanes in (1, 8):
        s = te.create_schedule(B.op)
        if lanes > 1:
            s[B].vectorize(s[B].split(B.op.axis[0], factor=lanes)[1])
        lowered = tvmagic.lower(s, [A, B])
        out = np.zeros(16, "int32")
        run_function(lowered["main"], [x, out])
        same(out, wanted)
        page = np.full(16, 5, "float32")  # what lies behind the array is not what decides
        page[:8] = x
        tvmagic.build(lowered)(page[:8], out)
        same(out, wanted)


def test_a_sum_of_bools() -> None:
    op = operator("f", "X: bool[4]\nY: bool[4]\nZ[i] = X[i] + Y[i]")
    x, y = np.array([False, False, True, True]), np.array([False, True, False, True])
    same(op(x, y), x + y)
    same(op.reference(x, y), x + y)


# ---------------------------------------------------------------------------- what the analyzer knows of data


def load(dtype: str) -> ir.PrimExpr:
    buffer: ir.Buffer = ir.decl_buffer((4,), dtype, "A")
    return buffer[0]


def test_indices_do_not_wrap_around() -> None:
    analyzer, i = Analyzer(), ir.Var("i")
    assert analyzer.can_prove(i < i + 1) and analyzer.simplify(i * 2 // 2) is i


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_data_may_wrap_around(dtype: str) -> None:
    analyzer, x = Analyzer(), load(dtype)
    two = ir.IntImm(dtype, 2)
    assert not analyzer.can_prove(x < x + 1)
    assert not isinstance(analyzer.simplify(x * 2 // two), tir.BufferLoad)
    assert str(analyzer.simplify(x + 3 - x)) in ("3", "T.int64(3)")  # true of what wraps around, too
    bound = analyzer.const_int_bound(x + 1)
    assert bound.min_value == analyzer.const_int_bound(x).min_value
    assert analyzer.modular_set(x * 6) == (2, 0)
    assert analyzer.modular_set(ir.Var("i", dtype) * 6) == (6, 0)


def test_what_is_bound_to_data_is_data() -> None:
    analyzer, x = Analyzer(), ir.Var("x")
    analyzer.bind(x, load("int32"))
    assert not analyzer.can_prove(x < x + 1)


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_a_cast_from_unsigned_may_be_negative(dtype: str) -> None:
    analyzer, u = Analyzer(), ir.Var("u", dtype)
    signed = u.astype(dtype[1:])
    assert not analyzer.can_prove(signed >= 0)
    assert analyzer.const_int_bound(signed).min_value < 0
    assert analyzer.modular_set((u * 3).astype("int16")) == (1, 0)


@T.prim_func
def _stored_anew(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")) -> None:
    if A[0] < 5:
        A[0] = A[0] + 10
        B[0] = T.Select(A[0] < 5, 1, 2)
        if A[0] < 6:
            B[1] = 1


@T.prim_func
def _bound_to_data(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")) -> None:
    x: T.int32 = A[0]
    A[0] = x + 1
    B[0] = T.Select(x + 1 > x, 1, 2)
    B[1] = (x * 2) // 2
    if x < 5:
        B[2] = T.Select(x + 3 < 8, 1, 2)
    B[3] = T.Cast("int32", T.Cast("uint8", x)) // 2


@pytest.mark.parametrize("function", [_stored_anew, _bound_to_data], ids=["stored again", "bound to data"])
@pytest.mark.parametrize("first", [3, (1 << 31) - 1, -(1 << 31), 300])
def test_what_is_known_of_a_load(function: ir.PrimFunc, first: int) -> None:
    """A condition on what is loaded says nothing after a store; a variable of what is loaded wraps around."""
    a, b = np.array([first, 1, 2, 3], "int32"), np.zeros(4, "int32")
    c, d = a.copy(), b.copy()
    tvmagic.build(function)(a, b)
    run_function(function, [c, d])
    same(a, c)
    same(b, d)
    if function is _stored_anew and first == 3:
        assert list(b) == [2, 0, 0, 0]


def test_fast_math_is_asked_for() -> None:
    @T.prim_func
    def difference(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")) -> None:
        for i in range(4):
            B[i] = A[i] - A[i]

    module = IRModule({"main": difference})
    assert "A[i] - A[i]" in tir.transform.Simplify()(module).script()
    with PassContext(config={"tir.Simplify": {"fast_math": True}}):
        assert "B[i] = T.float32(0.0)" in tir.transform.Simplify()(module).script()
