"""The NumPy value of tensor expressions, against NumPy written by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from refusals import refuses

from tvmagic import te, tir
from tvmagic.errors import BoundsError, TVMagicError
from tvmagic.te.reference import BLOCK_ELEMENTS, blocks, evaluate, evaluate_all

random = np.random.default_rng(1)


@pytest.mark.parametrize(
    "ends", [[(0, 17)], [(2, 19), (0, 11)], [(0, 3), (-4, 5), (1, 8)], [(0, 1), (0, 300)], [(0, 2), (3, 3)]]
)
@pytest.mark.parametrize("most", [1, 10, 100, 1000])
def test_blocks_partition_their_box(ends: list[tuple[int, int]], most: int) -> None:
    def points(box: list[tuple[int, int]]) -> list[tuple[int, ...]]:
        return list(itertools.product(*(range(low, high) for low, high in box)))

    parts = [points(box) for box in blocks(ends, BLOCK_ELEMENTS // most)]
    assert sorted(itertools.chain(*parts)) == points(ends)
    assert all(len(part) <= most for part in parts)


def test_matmul_equals_numpy() -> None:
    A = te.placeholder((17, 23), name="A")
    B = te.placeholder((23, 11), name="B")
    k = te.reduce_axis((0, 23), name="k")
    C = te.compute((17, 11), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    a, b = random.random((17, 23), "float32"), random.random((23, 11), "float32")
    whole = evaluate(C, {A: a, B: b})
    np.testing.assert_allclose(whole, a @ b, rtol=1e-5)
    assert whole.dtype == np.float32


def test_padding_reads_nothing_outside() -> None:
    A = te.placeholder((5,), name="A")
    P = te.compute((9,), lambda i: te.if_then_else(te.all(i >= 2, i < 7), A[i - 2], 0.0), name="P")
    a = random.random(5, "float32")
    np.testing.assert_array_equal(evaluate(P, {A: a}), np.pad(a, 2))


def test_a_read_outside_is_an_error() -> None:
    A = te.placeholder((5,), name="A")
    Q = te.compute((9,), lambda i: A[i - 2], name="Q")
    with refuses("te.reference.index_out_of_range", error=BoundsError):
        evaluate(Q, {A: np.zeros(5, "float32")})


def test_symbolic_sizes_come_from_the_arrays() -> None:
    n, m = te.size_var("n"), te.size_var("m")
    A = te.placeholder((n, m), name="A")
    B = te.compute((m, n), lambda i, j: A[j, i] + m.astype("float32"), name="B")
    a = random.random((3, 4), "float32")
    np.testing.assert_allclose(evaluate(B, {A: a}), a.T + 4)


def test_tuple_reduction_and_shared_work() -> None:
    V = te.placeholder((6, 13), name="V")
    k = te.reduce_axis((0, 13), name="k")
    argmax = te.comm_reducer(
        lambda x, y: (tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    place, value = te.compute((6,), lambda i: argmax((k.var, V[i, k]), axis=k), name="T")
    v = random.random((6, 13), "float32")
    found = evaluate_all([place, value], {V: v})
    np.testing.assert_array_equal(found[0], v.argmax(1))
    np.testing.assert_array_equal(found[1], v.max(1))


def test_where_init_and_empty_reductions() -> None:
    A = te.placeholder((4, 8), name="A")
    k, e = te.reduce_axis((0, 8), name="k"), te.reduce_axis((0, 0), name="e")
    W = te.compute((4,), lambda i: te.sum(A[i, k], axis=k, where=k.var % 2 == 0), name="W")
    S = te.compute((4,), lambda i: te.max(A[i, k], axis=k, init=te.const(0.75)), name="S")
    N = te.compute((4,), lambda i: te.sum(A[i, e], axis=e), name="N")
    a = random.random((4, 8), "float32")
    np.testing.assert_allclose(evaluate(W, {A: a}), a[:, ::2].sum(1), rtol=1e-6)
    np.testing.assert_allclose(evaluate(S, {A: a}), np.maximum(a.max(1), 0.75))
    np.testing.assert_array_equal(evaluate(N, {A: a}), np.zeros(4))


INTEGERS = {
    "truncdiv": (te.truncdiv, lambda a, b: np.trunc(a / b).astype("int32")),
    "truncmod": (te.truncmod, np.fmod),
    "floordiv": (te.floordiv, np.floor_divide),
    "floormod": (te.floormod, np.mod),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_division(name: str) -> None:
    build, wanted = INTEGERS[name]
    A = te.placeholder((40,), "int32", name="A")
    B = te.placeholder((40,), "int32", name="B")
    C = te.compute((40,), lambda i: build(A[i], B[i]), name="C")
    a = random.integers(-20, 20, 40).astype("int32")
    b = random.choice([-7, -3, -2, 1, 2, 5], 40).astype("int32")
    np.testing.assert_array_equal(evaluate(C, {A: a, B: b}), wanted(a, b))


FLOATS = [
    "exp",
    "tanh",
    "sigmoid",
    "sqrt",
    "erf",
    "floor",
    "round",
    "log1p",
    "atan",
    "rsqrt",
    "cosh",
    "abs",
    "exp10",
    "trunc",
]


@pytest.mark.parametrize("name", FLOATS)
def test_float_functions(name: str) -> None:
    import math

    A = te.placeholder((16,), "float64", name="A")
    C = te.compute((16,), lambda i: getattr(te, name)(A[i]), name="C")
    a = random.random(16) * 3 + 0.1
    by_hand = {
        "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
        "rsqrt": lambda x: 1 / math.sqrt(x),
        "exp10": lambda x: 10**x,
        "abs": abs,
        "round": lambda x: math.floor(x + 0.5),
    }
    wanted = [by_hand.get(name, getattr(math, name, None))(x) for x in a]
    np.testing.assert_allclose(evaluate(C, {A: a}), wanted, rtol=1e-12)


def test_small_integers_wrap() -> None:
    A = te.placeholder((4,), "int8", name="A")
    C = te.compute((4,), lambda i: A[i] + A[i], name="C")
    np.testing.assert_array_equal(
        evaluate(C, {A: np.array([100, -100, 3, 0], "int8")}), np.array([-56, 56, 6, 0], "int8")
    )


def test_what_is_missing() -> None:
    A = te.placeholder((4,), name="A")
    n = te.var("n")
    C = te.compute((4,), lambda i: A[i] * n.astype("float32"), name="C")
    with pytest.raises(TVMagicError, match="`A`"):
        evaluate(C, {n: 2})
    with refuses("te.reference.variable_without_value", names="`n`"):
        evaluate(C, {A: np.zeros(4, "float32")})
    with pytest.raises(TVMagicError, match="`A`"):
        evaluate(C, {A: np.zeros(5, "float32")})
    np.testing.assert_array_equal(evaluate(C, {A: np.ones(4, "float32"), n: 3}), np.full(4, 3))
