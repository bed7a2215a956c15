"""The NumPy calls that an operator is compared with: the same values as the reference, and the calls one would write."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest

from tvmagic import ir, te, tir
from tvmagic.operators import Operator, operator
from tvmagic.operators.arrays import size_values
from tvmagic.operators.comparison import compare, expected_values
from tvmagic.operators.measure import bench
from tvmagic.operators.numpy_code import NumpyCode, numpy_code
from tvmagic.operators.numpy_stages import running_values, scan_parts

DENSE = "X: float32[16, 12]\nW: float32[10, 12]\nb: float32[10]\nY[i, j] += X[i, k] * W[j, k]\nZ[i, j] = max(Y[i, j] + b[j], 0)"
SOFTMAX = "X: float32[8, 6]\nM[i] = max(X[i, k], over=k)\nE[i, j] = exp(X[i, j] - M[i])\nS[i] += E[i, j]\nP[i, j] = E[i, j] / S[i]"
CASES = [
    ("A: float32[6, 6]\nI: int32[6]\nB[i, j] = A[I[i], j]", "B = A[I]"),
    (
        "A: float32[9, 8]\nI: int32[6]\nfor j in range(6): B[i, j] = A[I[i], j]",
        "B = A[I[:, None], np.arange(0, 6, dtype=np.int32)]",
    ),
    ("A: float32[9, 8, 5]\nI: int32[6]\nB[i, k, j] = A[I[i], k, j]", "B = A[I]"),
    (
        "A: float32[9, 8, 5]\nI: int32[6]\nB[i, k, j] = A[I[i], j, k]",
        "B = A[I[:, None, None], np.arange(0, 8, dtype=np.int32), ",
    ),
    ("A: float32[9, 8, 5]\nI: int32[8]\nB[k, j] = A[I[k], k, j]", "B = A[I, np.arange(0, 8, dtype=np.int32)]"),
    (
        "A: float32[9, 8, 8]\nI: int32[4]\nB[i, j] = A[I[i], j, j]",
        "B = A[I[:, None], np.arange(0, 8, dtype=np.int32), ",
    ),
    (
        "A: float32[6, 6]\nI: int32[6]\nB[i, j] = A[I[i], 5 - j]",
        "B = A[I[:, None], 5 - np.arange(0, 6, dtype=np.int32)]",
    ),
    ("A: float32[8, 6]\nB: float32[8, 6]\nC[i, j] = A[i, j] + B[i, j] * 2.0", "C = np.add(A, B * 2.0, out=out)"),
    (DENSE, "Y = np.matmul(X, W.T); Z = np.maximum(Y + b, 0.0, out=out)"),
    ("A: float32[3, 8, 6]\nB: float32[3, 6, 5]\nC[b, i, j] += A[b, i, k] * B[b, k, j]", "C = np.matmul(A, B, out=out)"),
    ("A: float32[8, 6]\nB: float32[6, 5]\nC[j, i] += A[i, k] * B[k, j]", "C = np.matmul(B.T, A.T, out=out)"),
    ("A: float32[8, 6]\nx: float32[8]\ny[j] += A[i, j] * x[i]", "y = np.matmul(A.T, x, out=out)"),
    ("x: float32[6]\ny: float32[7]\nC[i, j] = x[i] * y[j]", "C = np.multiply(x[:, None], y, out=out)"),
    ("X: float32[8, 6]\nS[i] += X[i, k] * X[i, k]", "S = np.einsum('ij,ij->i', X, X, optimize=True, out=out)"),
    (
        SOFTMAX,
        "M = np.max(X, axis=1); E = np.exp(X - M[:, None]); S = np.sum(E, axis=1); P = np.divide(E, S[:, None], out=out)",
    ),
    (
        "A: int8[8, 6]\nB: int8[6, 5]\nC[i, j] += int32(A[i, k]) * int32(B[k, j])",
        "C = np.matmul(A.astype(np.int32), B.astype(np.int32), out=out)",
    ),
    ("A: int32[8, 6]\nC[i] += A[i, k]", "C = np.sum(A, axis=1, dtype=np.int32, out=out)"),
    ("A: float32[n, 6]\nB: float32[6, n]\nC[i, j] += A[i, k] * B[k, j]", "C = np.matmul(A, B, out=out)"),
    ("X: float32[8, 6]\nS[j, i] = X[i, j]", "S = X.T.copy()"),
    ("A: float32[32]\nfor i in range(15): C[i] = A[2 * i + 1]", "C = A[1:30:2].copy()"),
    (
        "A: float32[4, 5]\nB: float32[5, 6]\nC: float32[6, 3]\nD[i, l] += A[i, j] * B[j, k] * C[k, l]",
        "optimize=True, out=out)",
    ),
    (
        "A: float32[12, 11]\nK: float32[3, 2]\nB[i, j] += A[i + r, j + s] * K[r, s]",
        "B = np.matmul(windows(A, (0, 0), (10, 10, 3, 2)",
    ),
    ("out: float32[8]\noutput[i] = out[i] + 1.0", "t_output = np.add(t_out, 1.0, out=out)"),
    (
        "A: float32[8, 6]\nC[i, j] = A[i, j] * 3.0\nD[i] += C[i, j] * 0.5",
        "C = A * 3.0; D = np.sum(C * 0.5, axis=1, out=out)",
    ),
    (
        "X: float32[8, 6]\nN[j] = argmin(X[i, j] * 2.0, over=i)",
        "N_argmin_v0 = np.argmin(X.T * 2.0, axis=1).astype(np.int32)",
    ),
    ("X: int8[8, 6]\nN[i] = argmax(X[i, j], over=j)", "N_argmax_v0 = np.argmax(X, axis=1).astype(np.int32)"),
    (
        "X: float32[8]\nY[i] = sigmoid(X[i] * 2.0) * rsqrt(X[i] * X[i] + 1.0)",
        "1 / (1 + np.exp(-(X * 2.0))), 1 / np.sqrt(X * X + 1.0)",
    ),
    ("X: float32[8, 6]\nf[()] += X[i, j] * X[i, j]\nn[()] = sqrt(f[()])\nY[i, j] = X[i, j] / n[()]", "np.sqrt(f)"),
    ("I: int32[10]\nT: float32[20, 4]\nZ[i, j] = T[I[i], j]", "Z = T[I]"),
    ("I: int32[10]\nT: float32[10, 5]\nL[i] = -log(abs(T[i, I[i]]) + 1.0)", "T[np.arange(0, 10, dtype=np.int32), I]"),
    (
        "I: int32[9]\nT: float32[7, 4]\nZ[i, j] = T[I[i], j] if I[i] >= 0 else 0.0",
        "np.where(I[:, None] >= 0, T[np.clip(I, 0, 6)]",
    ),
    (
        "X: float32[7]\nfor i in range(5): Z[i] = X[i] + X[i < 1]",
        "X[(np.arange(0, 5, dtype=np.int32) < 1).astype(np.int32)]",
    ),
    (
        "X: float32[8, 6]\nfor i in range(20): Z[i, j] = X[(i + 7) % 8, j]",
        "X[(np.arange(0, 20, dtype=np.int32) + 7) % 8]",
    ),
]


def checked(op: Operator) -> NumpyCode:
    """The code of an operator, after its values were compared with the reference's."""
    inputs = op.random_inputs(1, 7)
    code = numpy_code(op.inputs, op.outputs, size_values(op.inputs, inputs))
    expected = op.reference(*inputs)
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    got = code.run(*inputs, *[np.full_like(e, 77) for e in expected])
    got = list(got) if isinstance(got, tuple) else [got]
    assert [(g.shape, g.dtype) for g in got] == [(e.shape, e.dtype) for e in expected]
    assert compare(got, expected_values(op, inputs), [t.name for t in op.outputs]).ok is not False, code.lines
    return code


@pytest.mark.parametrize(("text", "words"), CASES, ids=[t.split("\n")[-1] for t, _ in CASES])
def test_the_calls_give_what_the_reference_gives(text: str, words: str) -> None:
    code = checked(operator("f", text))
    assert not code.elementwise and words in code.words


def from_te(*tensors: Any) -> Operator:
    inputs = [t for t in tensors if isinstance(t.op, te.PlaceholderOp)]
    return Operator("f", inputs, [t for t in tensors if t not in inputs])


def test_a_padded_and_strided_convolution() -> None:
    a, k = te.placeholder((2, 3, 9, 8), name="A"), te.placeholder((4, 3, 3, 3), name="K")
    inside = lambda i, j: tir.all(i >= 1, i < 10, j >= 1, j < 9)  # noqa: E731
    pad = te.compute(
        (2, 3, 11, 10), lambda n, c, i, j: te.if_then_else(inside(i, j), a[n, c, i - 1, j - 1], 0.0), name="P"
    )
    c, r, s = (te.reduce_axis((0, n), name=x) for n, x in ((3, "c"), (3, "r"), (3, "s")))
    conv = te.compute(
        (2, 4, 5, 4),
        lambda n, o, i, j: te.sum(pad[n, c, 2 * i + r, 2 * j + s] * k[o, c, r, s], axis=[c, r, s]),
        name="B",
    )
    code = checked(from_te(a, k, conv))
    assert not code.elementwise and "np.pad(A" in code.words and "np.matmul(windows(P" in code.words


def test_what_has_no_numpy_call_is_named() -> None:
    a = te.placeholder((6, 5), name="A")
    erf = te.compute((6, 5), lambda i, j: te.erf(a[i, j]), name="<img src=x>")
    total = te.compute((6, 5), lambda i, j: erf[i, j] + 1.0, name="T")
    code = checked(from_te(a, total))
    assert code.elementwise == ("<img src=x>",)
    assert (
        code.words
        == "T = np.add(t, 1.0, out=out); `<img src=x>` evaluated from the expression, as there is no NumPy call for it"
    )


@pytest.mark.parametrize(("last", "sign"), [(False, 1), (True, 1), (False, -1)])
def test_numpys_argmax_is_the_first_of_equal_values(last: bool, sign: int) -> None:
    """A reducer whose last place wins is none of NumPy's."""

    def better(x: Any, y: Any) -> Any:
        """The greater of two values with their places, or the less; of equal ones, the first or the last."""
        value = x[1] > y[1] if sign > 0 else x[1] < y[1]
        place = x[0] > y[0] if last else x[0] < y[0]
        wins = tir.any(value, tir.all(x[1].equal(y[1]), place))
        return tir.Select(wins, x[0], y[0]), tir.Select(value, x[1], y[1])

    def none(place: str, value: str) -> Any:
        return tir.const(-1, place), te.min_value(value) if sign > 0 else te.max_value(value)

    a, k = te.placeholder((6, 5), name="A"), te.reduce_axis((0, 5), name="k")
    reducer = te.comm_reducer(better, none, name="best")
    pair = te.compute((6,), lambda i: reducer((k.var, a[i, k]), axis=k), name="pair")
    best = te.compute((6,), lambda i: pair[0][i], name="best")
    assert bool(checked(from_te(a, best)).elementwise) == last


@pytest.mark.parametrize(
    "combine",
    [
        lambda x, y: y * y + x * x,
        lambda x, y: x + y * y,
        lambda x, y: x * x + y,
        lambda x, y: y + x,
        lambda x, y: x - y,
    ],
)
def test_a_reducer_that_does_more_than_add_is_not_one_of_numpys(combine: Any) -> None:
    a, k = te.placeholder((6, 5), name="A"), te.reduce_axis((0, 5), name="k")
    total = te.compute((6,), lambda i: te.comm_reducer(combine, lambda t: tir.const(0, t))(a[i, k], axis=k), name="C")
    assert checked(from_te(a, total)).elementwise == ("C",)


def test_pairs_that_are_summed_are_no_place_of_the_best() -> None:
    a, k = te.placeholder((6, 5), name="A"), te.reduce_axis((0, 5), name="k")
    add = te.comm_reducer(lambda x, y: (x[0] + y[0], te.max(x[1], y[1])), lambda *t: (0, te.min_value("float32")))
    both = te.compute((6,), lambda i: add((k, a[i, k]), axis=k), name="B")
    assert checked(from_te(a, *both)).elementwise == ("B.v0", "B.v1")


@pytest.mark.parametrize(
    ("value", "call"),
    [
        (lambda x, y: ir.FloorDiv(x, tir.const(3, "int32")), "A // 3"),
        (lambda x, y: ir.FloorDiv(x, tir.const(1, "int32")), "A // 1"),
        (lambda x, y: ir.FloorMod(x, tir.const(1, "int32")), "A % 1"),
        (lambda x, y: ir.FloorMod(x, tir.const(4, "int32")), "A % 4"),
        (lambda x, y: ir.FloorDiv(x, tir.const(-3, "int32")), None),
        (lambda x, y: ir.FloorMod(x, tir.const(-3, "int32")), None),
        (lambda x, y: ir.FloorDiv(x, y * y + 1), None),
        (lambda x, y: ir.FloorMod(x, y * y + 1), None),
        (lambda x, y: ir.Div(x, tir.const(3, "int32")), None),
        (lambda x, y: ir.Mod(x, tir.const(3, "int32")), None),
        (lambda x, y: ir.Min(x, y), "np.minimum(A, B"),
    ],
)
def test_quotients_by_constants_are_numpys(value: Any, call: str | None) -> None:
    """By positive ones; the others are evaluated from the expression."""
    a, b = (te.placeholder((6,), "int32", name) for name in "AB")
    code = checked(from_te(a, b, te.compute((6,), lambda i: value(a[i], b[i]), name="C")))
    assert code.elementwise == (() if call else ("C",)) and (call or "") in code.words
    c = te.compute((6,), lambda i: ir.FloorDiv(a[i], tir.const(0, "int32")), name="C")
    assert numpy_code([a], [c], {}).elementwise == ("C",)


def test_what_is_evaluated_from_the_definition_has_no_ratio() -> None:
    a = te.placeholder((6, 5), name="A")
    result = bench(from_te(a, te.compute((6, 5), lambda i, j: te.erf(a[i, j]), name="E")), seconds=0.01)
    assert result.baseline.interpreted and [name for name, _ in result.rows] == ["plain", "reference"]
    assert "no speed to compare with" in result.notes[0]


def test_indices_as_values_reversed_axes_and_several_outputs() -> None:
    a = te.placeholder((6, 5), name="A")
    first = te.compute((6, 5), lambda i, j: a[5 - i, j] + te.const(1.0, "float32") * i.astype("float32"), name="F")
    second = te.compute((6, 5), lambda i, j: te.if_then_else(i > j, 0.0, a[i, j]), name="S")
    assert not checked(from_te(a, first, second)).elementwise


def test_benchmarks_name_what_they_compare_with() -> None:
    op = operator("dense", DENSE)
    result = bench(op, seconds=0.01)
    assert result.notes == ["NumPy: Y = np.matmul(X, W.T); Z = np.maximum(Y + b, 0.0, out=out)"]
    own = bench(op, seconds=0.01, against=("mine", lambda x, w, b: np.maximum(x @ w.T + b, 0)))
    assert [name for name, _ in own.rows] == ["plain", "NumPy", "mine"] and own.baseline.name == "mine"
    assert own.ratio("plain") == own.rows[2][1].best / own.rows[0][1].best
    wrong = bench(op, seconds=0.01, against=("wrong", lambda x, w, b: x @ w.T))
    assert "wrong gives other values: worst error" in wrong.notes[-1]
    shape = bench(op, seconds=0.01, against=("shape", lambda x, w, b: x))
    assert shape.notes[-1] == "shape gives arrays of other shapes: (16, 12)"


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("cumsum", "np.cumsum(Y_terms, axis=0, dtype=np.float32)"),
        ("cumprod", "np.cumprod(Y_terms, axis=0, dtype=np.float32)"),
        ("cummax", "np.maximum.accumulate(Y_terms, axis=0)"),
        ("cummin", "np.minimum.accumulate(Y_terms, axis=0)"),
    ],
)
def test_scans_are_numpys_running_sums(function: str, call: str) -> None:
    op = operator("f", f"X: float32[6, 9]\nY[i, k] = {function}(X[i, k], over=k)")
    result = bench(op, seconds=0.01)
    assert f"Y_terms = X.T; Y_terms_{function} = {call}; Y = " in result.baseline.words
    assert not any("gives other values" in note for note in result.notes)


@pytest.mark.parametrize(
    ("dtype", "kind"), [("bfloat16", "ml_dtypes.bfloat16"), ("bool", "np.bool_"), ("int8", "np.int8")]
)
def test_types_are_named_as_their_modules_do(dtype: str, kind: str) -> None:
    one = {"bool": "False", "int8": "int8(1)"}.get(dtype, f"{dtype}(1)")
    op = operator("f", f"X: {dtype}[6]\nW: int32[6]\nY[i] = {dtype}(W[i])\nZ[i] = {one} if W[i] < 2 else X[i]")
    result = bench(op, seconds=0.001)
    assert kind in result.notes[0]
    assert not any("gives other values" in note for note in result.notes)


RUNNING = {  # which scans of rows are running sums of `X`, or products, or extremes
    "X[0, i]; S[t - 1, i] + X[t, i]": "np.cumsum(X, axis=0, dtype=np.float32)",
    "X[0, i]; S[t - 1, i] * X[t, i]": "np.cumprod(X, axis=0, dtype=np.float32)",
    "X[0, i]; te.max(S[t - 1, i], X[t, i])": "np.maximum.accumulate(X, axis=0)",
    "X[0, i]; te.min(S[t - 1, i], X[t, i])": "np.minimum.accumulate(X, axis=0)",
    "X[0, i]; S[t - 1, i] - X[t, i]": None,
    "X[0, i]; S[t - 1, i] * 2 + X[t, i]": None,
    "X[0, i]; S[t - 1, i] + X[t, i] * 2": None,
    "X[0, i]; S[t - 1, i] + X[t - 1, i]": None,
    "X[0, i]; S[t - 1, i] + X[t, 3 - i]": None,
    "X[0, i]; S[t - 1, 3 - i] + X[t, i]": None,
    "X[0, i]; S[t - 1, i] + Z[t, i]": None,
    "X[1, i]; S[t - 1, i] + X[t, i]": None,
    "X[0, i] * 2; S[t - 1, i] + X[t, i]": None,
    "X[0, 3 - i]; S[t - 1, i] + X[t, i]": None,
    "Z[0, i]; S[t - 1, i] + X[t, i]": None,
}


@pytest.mark.parametrize("steps", RUNNING)
@pytest.mark.parametrize(("rows", "begins"), [(6, 1), (7, 1), (6, 2)])
def test_running_sums_are_recognized(steps: str, rows: int, begins: int) -> None:
    """Those that begin with the first row and take every other row of the same array, in order, as it is."""
    begin, step = steps.split("; ")
    cell = (
        f"X = te.placeholder(({rows}, 4), name='X')\nZ = te.placeholder((7, 4), name='Z')\n"
        "S = te.placeholder((6, 4), name='S')\n"
        f"first = te.compute(({begins}, 4), lambda t, i: {begin.replace('[0', '[t')})\n"
        f"step = te.compute((6, 4), lambda t, i: {step})\nY = te.scan(first, step, S, inputs=[X])"
    )
    scope: dict[str, Any] = {"te": te}
    exec(cell, scope)
    found = running_values(scope["Y"].op, {scope["X"]: "X", scope["Z"]: "Z"})
    text = None if found is None else ast.unparse(found)
    assert text == (RUNNING[steps] if (rows, begins) == (6, 1) else None)
    assert (scope["first"].op in scan_parts(scope["Y"].op)) is (text is not None)
