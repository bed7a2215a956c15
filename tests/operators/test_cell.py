"""Python in a `%%tensor` cell: names from outside, and what is told where index notation was meant."""

from __future__ import annotations

import copy
import math
import re
from typing import Any

import numpy as np
import pytest
from refusals import refuses

from tvmagic.errors import DefectError, TVMagicError
from tvmagic.notation.source import excerpt
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule

X = "X: float32[4]\n"


def test_a_tensor_hides_the_name_of_an_array_or_an_operator_outside() -> None:
    kept = np.zeros(4)
    for outside in (kept, operator("Y", X + "Y[i] = X[i]"), {}, 3):
        op = operator("f", X + "Y[k] = X[k] * 2", {"Y": outside, "k": 2})
        np.testing.assert_array_equal(op(np.ones(4, "float32")), [2, 2, 2, 2])
    assert not kept.any()


def test_elements_of_what_the_cell_makes_itself_are_python() -> None:
    outside: dict[str, int] = {}
    text = X + "c = {}\nc[k] = 3\nl = [0] * 3\nl[1] = 5\nd['y'] = c[k] + l[1]\nf = float(d['y'])\nY[i] = X[i] * f"
    op = operator("f", text, {"k": 2, "d": outside})
    assert outside == {"y": 8}
    np.testing.assert_array_equal(op(np.ones(4, "float32")), [8, 8, 8, 8])


def test_a_tensor_of_te_is_added_to_by_index_notation() -> None:
    op = operator("f", X + "Y = te.compute((4,), lambda i: X[i] * 2, name='Y')\nY[i] += X[i] * X[k]")
    np.testing.assert_array_equal(op(np.ones(4, "float32")), [6, 6, 6, 6])


MEANT = [
    ("Y[i] == X[i]", "by one `=`: `Y[i] = X[i]`", "Y[i] == X[i]"),
    ("W = float32[4]", "declare an input as `W: float32[4]`", "float32"),
    ("Y = X[i] + X[j]", "on the left too: `Y[i, j] = X[i] + X[j]`", "i"),
    ("Y = sum(X[i], over=i)", "`Y[()] = sum(X[i], over=i)`", "i"),
    ("Y[i], Z[i] = X[i], X[i]", "a statement for each tensor", "i"),
    ("Y[i] = Z[i] = X[i]", "a statement for each tensor", "i"),
    ("while True:\n    Y[i] = X[i]", "at the top of a cell", "i"),
    ("if X[i] > 0:\n    Y[i] = X[i]", "`Y[i] = X[i] if X[i] > 0 else 0`", "i"),
    ("if X[i] > 0:\n    Y[i] = X[i]\nelse:\n    Y[i] = 2", "`Y[i] = X[i] if X[i] > 0 else 2`", "i"),
    ("for q in range(3):\n    Y[i] = X[i]\n    print()", "at the top of a cell", "i"),
    ("for q in range(3):\n    Y[i] = X[i]\nelse:\n    Z[i] = X[i]", None, "Z[i] = X[i]"),
    ("Y[i] = X[i]\nreturn", "write `return Y`", "return"),
    ("W: np.float32[4]", "write it as `float32[...]`", "np.float32"),
    ("W: float32(4)", "write it as `float32[...]`", "float32(4)"),
    ("W: float[4]", "did you mean `float32`?", "float"),
    ("W: int[4]", "did you mean `int32`?", "int"),
    ("W: float32[4] = 3", "write `W: float32[4]`", "3"),
    ("Y[i] = print(X[i])", None, "print"),
    ("Y[i] = maxx(X[i], 0)", "did you mean `max`?", "maxx"),
    ("Y[i] = max(X[i])", "`max(..., over=k)`", "max(X[i])"),
    ("Y[i] max= X[i]", "`Y[i] = max(..., over=k)`", "max"),
    ("W: float32[4], V: float32[5]", "a line for each declaration", ","),
    ("Y[i] = X[i] +", None, ""),
    ("Y[i] = X[i] if X[i] > 0", "`Y[i] = X[i] if X[i] > 0 else 0`", "X[i] if"),
    ("V: float32[4, 8]\nY = V @ V.T", "`Y[i, j] += V[i, k] * V[j, k]`", "V.T"),
    ("V: float32[4, 8]\nY = V.T @ X", "`Y[i] += V[k, i] * X[k]`", "V.T"),
    ("Y = X @ X", "`Y[()] += X[k] * X[k]`", "X @ X"),
    ("W: float32[]", "by its type alone: `W: float32`", "]"),
    ("Y = max(X[i])", "`Y[()] = max(X[i], over=i)` of all elements", "i"),
    ("Y = mean(X)", "`Y[()] = mean(X[i], over=i)`", "mean"),
    ("Y = X.sum()", "`Y[()] = sum(X[i], over=i)`", "X.sum"),
    ("Y = softmax(X)", "`Y[i] = softmax(X[i], over=i)`", "softmax"),
    ("V: float32[4, 8]\nY = V.max(axis=-1)", "`Y[i] = max(V[i, j], over=j)`", "V.max"),
    ("V: float32[4, 8]\nY = np.sum(V, axis=(0, 1))", "`Y[()] = sum(V[i, j], over=(i, j))`", None),
    ("V: float32[4, 8]\nY = einsum('i,ik->k', X, V)", "`Y[k] += X[i] * V[i, k]`", "einsum"),
    ("V: float32[4, 8]\nY = einsum('ij->ji', V)", "`Y[j, i] = V[i, j]`", "einsum"),
    ("W = placeholder((4, 8), dtype='float16')", "declare an input as `W: float16[4, 8]`", "placeholder"),
    ("W = compute((4,), lambda i: X[i])", "write `te.compute`", "compute"),
    ("W: (4, n)", "write `W: float32[4, n]`", "(4"),
    ("W: int8[4][8][2]", "write `W: int8[4, 8, 2]`", "int8"),
    ("W: Tensor[(4, 8), 'int8']", "write `W: int8[4, 8]`", "Tensor"),
    ("W: T.Buffer((4, 8), 'int8')", "write `W: int8[4, 8]`", "T.B"),
    ("W: f16[4]", "did you mean `float16`?", "f16"),
    ("W: bf16[4]", "did you mean `bfloat16`?", "bf16"),
    ("W: complex64[4]", "in two tensors of float32", "complex64"),
    ("W, V: float32[4]", "a line for each declaration", "W"),
    ("W float32[4]", "declare an input as `W: float32[4]`", "float32"),
    ("float W[4];", "declare an input as `W: float32[4]`", "W"),
    ("Y(i) = X[i]", "in square brackets: `Y[i]`", "Y"),
    ("Y[i] := X[i]", "by `=`: `Y[i] = X[i]`", "Y"),
    ("Y[i] = X[X.shape[i] - 1 - i]", "`X` has the sizes 4", "X.shape"),
    ("Y[i] = X[i] + X[-1]", "an index counts from the front: write `X[3]`", "-1"),
    ("Y[i][j] = X[i] + X[j]", "in one pair of brackets: `Y[i, j] = X[i] + X[j]`", None),
    ("Y = sum(X[k] for k in range(4))", "a tensor of a single value is `Y[()] = ...`", None),
    ("for i in range(4):\n    a = 0\n    for k in range(4):\n        a += X[k]\n    Y[i] = a", "`Y[i] += X[k]`", None),
    ("Y[i] -= X[i]", "of a tensor above, `Y[i] = Y[i] - X[i]`", "Y"),
    ("Y[i] = X[i] * float(i)", "write `float32(...)`", "float(i)"),
    ("Y[i] = X[i] ^ 2", "a power is `**`", "X[i] ^"),
    ("Y[()] = sum(X[k])", "as in `sum(X[k], over=k)`", "k"),
    ("Y[i] = X[i] / sum(X[k] ** 2)", "as in `sum(X[k] ** 2, over=k)`", "k"),
    ("def f(Y):\n    Y[i] = X[i]", "at the top of the cell", "def"),
    ("Y = X / sqrt(mean(X**2))", "`M[()] = mean(X[i] ** 2, over=i)`", "sqrt"),
    ("V: float32[4, 8]\nY = V / sqrt(mean(V * V))", "`M[i] = mean(V[i, j] * V[i, j], over=j)`", "sqrt"),
    ("Y = relu(X) + max(X, 0)", "`Y[i] = relu(X[i]) + max(X[i], 0)`", "relu"),
    ("Y = np.exp(X) * 2", "on both sides: `Y[i] = exp(X[i]) * 2`", "np.exp"),
    ("Y = torch.nn.functional.relu(X)", "`Y[i] = relu(X[i])`", "torch"),
    ("V: float32[4, 8]\nY = V.T", "`Y[j, i] = V[i, j]`", "V.T"),
    ("V: float32[4, 8]\nY = V.reshape(32)", "`Y[i] = V[i // 8, i % 8]`", "V.reshape"),
    ("Y[i] = 1 if i == 0 or X[i] > X[i - 1] else 0", "`True if i == 0 else X[i] > X[i - 1]`", "i - 1"),
    ("Y[i] = 1 if i > 0 and X[i] > X[i - 1] else 0", "`X[i] > X[i - 1] if i > 0 else False`", "i - 1"),
    (
        "Y[i] = max(X[2 * i + r], over=r)",
        "`2 * i + r` fits as soon as one of the two is known: write `r: range(...)`",
        "i",
    ),
    (
        "V: float32[4, 8]\nY[i, j] = max(V[2 * i + r, 2 * j + s], over=(r, s))",
        "`r: range(...)` and `s: range(...)` above",
        "i",
    ),
    (
        "V: float32[8, 4]\nM[i] = mean(V[2 * i + c, k], over=(c, k))\nY[c] += V[c, k]",
        "`for c in range(...):` around it",
        "i",
    ),
    ("V: float32[4, 8]\nY[i] = max(V[i, k] * V[r, k])", "over=(k, r))`", "k"),
    (
        "V: float32[4, 8]\nS[i, k] = V[i, k] + 1\nY[k] += S[i, 0] == k",
        "above for both, and `int32(S[i, 0] == k)` for a sum that counts",
        "k",
    ),
    (
        "V: float32[4, 8]\nS[i, k] = V[i, k] + 1\nY[k] += 1 if S[i, 0] == k else 0",
        "over 8 in line 4; write `k: range(8)` above",
        "k",
    ),
    (
        "V: float32[4, 8]\nY[i] = sum(V[(i + p) % 4, (i + q) % 8], over=(p, q)) - X[i]",
        "write `p: range(...)` and `q: range(...)` above",
        "sum",
    ),
    ("Y[i] = X[max(i - 1, 0)]", "for example `i: range(4)` above", "i"),
    (
        "W: float32[3]\nY[i] += X[i + r - 1] * W[r]",
        "`... if 0 <= i + r - 1 < 4 else 0` for padding, and declare the shape of `Y`",
        "i + r - 1",
    ),
    ("Y[i] = X[i] - X[i - 1]", "`... if i - 1 >= 0 else 0` for padding", "i - 1"),
    (
        "W: float32[3]\nY[2 * i + r] += X[i] * W[r]",
        "`Y[p] += X[(p - r) // 2] * W[r] if (p - r) % 2 == 0 and 0 <= (p - r) // 2 < 4 else 0`",
        "2 * i + r",
    ),
    ("W: float32[3, 2]\nY[2 * i + r] += X[i] * W[r, p]", "`Y[q] += X[(q - r) // 2] * W[r, p] if", "2 * i + r"),
    ("Y = concat(X, X)", "`A[i] if i < 10 else B[i - 10]`", "concat"),
    ("Y[i] = pad(X, 1)", "`X[i - 1] if 1 <= i < 65 else 0`", "X"),
    ("@njit\ndef g(A, B):\n    B[0] = A[0]", "a loop over elements is one statement", "njit"),
    ("Y[i] = X[i].exp()", "write `exp(X[i])`", "X[i].exp()"),
    ("Y[i] = X[i].sum()", "write `sum(X[i], over=i)`", "X[i].sum()"),
    ("Y[...] = X[...]", "`Y[i, j] = ...`", "..."),
    ("Y = outer(X, X)", "`Y[i, j] = A[i] * B[j]`", "outer"),
    ("import tvm", "`import tvmagic as tvm`", "import"),
    ("from tvm import te", "`import tvmagic as tvm`", "from"),
    ("Y[i] = X[i] > 0 ? 1 : 0", "`A if CONDITION else B`", None),
    ("W = te.placeholder((4,), 'W')", "write `name='W'`", "te.placeholder"),
    ("Y = te.compute((), lambda: te.sum(X[0]))", "`sum(..., axis=k)`", "te.sum"),
    ("Y[b] = sum(X[i], over=i, b=3)", "as in `b: range(10)`", "b=3"),
    ("Y[i // 2] += X[i]", "as in `Y[j] += X[10 * j + r]`", "i // 2"),
    ("Y[i] = X[i] and X[i] > 0", "as in `X[i] != 0`", "X[i] and"),
    ("Y = sum(X) * 0.5", "`M[()] = sum(X[i], over=i)`", "sum(X)"),
    ("Y = max(X)", "`Y[()] = max(X[i], over=i)`", "max(X)"),
    ("Y = list(X)", "an element of it is `X[i, j]`", "list(X)"),
    ("for x in X: pass", "an element of it is `X[i, j]`", None),
    ("Y = exp(X) * 2", "on both sides: `Y[i] = exp(X[i]) * 2`", "exp"),
    ("T[0] = sum(X[i], over=i)", "a single value is `T[()] = sum(X[i], over=i)`", "i"),
    (
        "for i in range(2): for j in range(3): Y[i, j] = X[i]",
        "`i: range(2)` and `j: range(3)`, each on a line above",
        None,
    ),
    ("for i, j in range(2), range(3): Y[i, j] = X[i]", "`i: range(2)` and `j: range(3)`, each on a line above", None),
    ("for i in range(2)\n    Y[i] = X[i]", "write a colon after it: `for i in range(2):`", None),
    ("for i in 0..3: Y[i] = X[i]", "`i: range(0, 3)` on a line above", None),
    ("i: 0..3\nY[i] = X[i]", "a range is `range(0, 3)`, without its end", None),
    ("return X[i] * 2", "return the name", "X[i] * 2"),
    ("Y[i] = 1 if X[i] else 0", "as in `X[i] != 0`", "X[i] else"),
    ("Y[i] = not X[i]", "as in `X[i] != 0`", "X[i]"),
    ("Y[i] = X[i] > 0 & X[i] < 1", "of comparisons each is in brackets", "0 & X[i]"),
    ("Y[i] = X[i + 1] - X[i - 1]", "add 1 to `i` wherever the right side reads", "i - 1"),
    ("Y[()] += X[i] + X[i + 1]", "write `i: range(3)` above", "i + 1"),
    ("Y[()] += X[i] + X[i - 1]", "write `i: range(1, 4)` above", "i - 1"),
    ("Y[i] = mean(X[i + k], over=k in range(3))", "write `k: range(3)` above, and `over=k`", "k in"),
    ("Y[()] = max(X[i], over=0)", "name the index that is reduced", "0)"),
    ("Y[i] = gelu(X[i])", "`0.5 * x * (1 + erf(x / sqrt(2.0)))`", "gelu"),
    ("Y[()] = topk(X[k], over=k)", "without its place for the second", "topk"),
    ("%timeit 1", "belongs in a cell of its own", "%timeit"),
    ("!ls", "belongs in a cell of its own", "!ls"),
    (" Y[i] = X[i]", "begin the line without blanks", None),
    ("1 / 0", None, "1 / 0"),
    ("open('/nowhere')", None, "open('/nowhere')"),
]


@pytest.mark.parametrize(("text", "hint", "marked"), MEANT, ids=[m[0] for m in MEANT])
def test_what_fails_as_python_is_told_with_its_place_and_what_was_meant(
    text: str, hint: str | None, marked: str | None
) -> None:
    with pytest.raises(TVMagicError) as caught:
        operator("f", X + text)
    error = caught.value
    assert not isinstance(error, DefectError) and (hint is None or hint in (error.hint or ""))
    assert error.span is not None and error.span.source == "tensor f"
    line = (X + text).split("\n")[error.span.line - 2]
    assert marked is None or line[error.span.column - 1 :].startswith(marked[:3])


ROW = "A: T.Buffer((8,), 'float32')"
FUNCTION = "@T.prim_func\ndef f({}):\n    for i in range(8):\n        {}"
MODULE = (
    "@I.ir_module\nclass M:\n"
    + "    @T.prim_func\n    def {}(A: T.Buffer((8,)), B: T.Buffer((8,))):\n        for i in range(8):\n            B[i] = A[i] * 2.0\n"
)


def test_a_module_of_one_function_is_an_operator() -> None:
    op = operator("f", MODULE.format("main"))
    np.testing.assert_array_equal(op(np.ones(8, "float32")), [2] * 8)


FUNCTIONS = [
    (FUNCTION.format(ROW + ", n: T.int32", "A[i] = 1.0"), "operator.scalar_parameter", 3),
    (FUNCTION.format(ROW, "T.evaluate(A[i])"), "operator.no_output", 3),
    (
        FUNCTION.format(ROW, "j = 0\n        while j < 8:\n            A[j] = 1.0\n            j += 1"),
        "operator.endless_loop",
        6,
    ),
    (FUNCTION.format(ROW, "while True:\n            A[i] = 1.0"), "operator.endless_loop", 5),
]


@pytest.mark.parametrize(("text", "code", "line"), FUNCTIONS, ids=[f[1] for f in FUNCTIONS])
def test_functions_that_are_no_operators_are_told_with_their_place(text: str, code: str, line: int) -> None:
    with refuses(code) as caught:
        operator("f", text)
    assert caught.value.span is not None and caught.value.span.line == line


def test_values_that_no_array_holds_are_told() -> None:
    text = "A = te.placeholder((8,), name='A')\nB = te.compute((8,), lambda i: 'x', name='B')"
    with pytest.raises(TVMagicError, match="`B`.*`f`"):
        operator("f", text)
    import ml_dtypes  # noqa: F401  it gives NumPy an int4, but not one that arrays of ours have

    op = operator("f", "A = te.placeholder((8,), 'int4', name='A')\nB = te.compute((8,), lambda i: A[i], name='B')")
    with pytest.raises(TVMagicError, match="`int4`"):
        op.random_inputs()


def test_a_long_line_is_shown_in_part_and_deep_nesting_is_told() -> None:
    with refuses("cell.nested_too_deeply"):
        operator("f", X + "Y[i] = " + "-" * 100_000 + "X[i]")
    with refuses("cell.nested_too_deeply"):
        operator("f", X + "Y[i] = X[i]" + " + X[i]" * 100_000)
    with pytest.raises(TVMagicError) as caught:
        operator("f", X + "Y[i] = " + "X[i] + " * 300 + "Q[i]" + " + X[i]" * 300)
    line, marks = excerpt(caught.value.span).split("\n")
    assert len(line) < 180 and line[marks.index("^")] == "Q"


def test_the_states_of_a_recurrence_are_no_inputs() -> None:
    text = (
        "A = te.placeholder((8, 4), name='A')\nS = te.placeholder((8, 4), name='S')\n"
        "first = te.compute((1, 4), lambda _, i: A[0, i])\n"
        "step = te.compute((8, 4), lambda t, i: S[t - 1, i] + A[t, i])\nY = te.scan(first, step, S, inputs=[A])"
    )
    op = operator("running", text)
    assert [t.name for t in op.inputs] == ["A"]
    (a,) = op.random_inputs()
    np.testing.assert_allclose(op(a), np.cumsum(a, 0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(op.reference(a), np.cumsum(a, 0), rtol=1e-5, atol=1e-6)


NORM = """X: float32[6, 10]
mu[i] = sum(X[i, j], over=j) / 10
var[i] = sum((X[i, j] - mu[i]) * (X[i, j] - mu[i]), over=j) / 10
Y[i, j] = (X[i, j] - mu[i]) / sqrt(var[i] + 0.5)
"""


def test_stages_that_the_notation_makes_have_names() -> None:
    op = operator("norm", NORM)
    assert list(op.tensors) == ["X", "mu", "var", "Y", "mu_sum", "var_sum"]
    lines = ["s[mu_sum].compute_at(s[mu], mu.op.axis[0])", "s['var_sum'].parallel(var_sum.op.axis[0])"]
    version = schedule(op, "\n".join(lines))
    text = version.lower().script()
    assert "for i in T.parallel(6)" in text and "mu_sum_1[0]" in text
    x = np.random.default_rng(0).normal(size=(6, 10)).astype("float32")
    expected = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 0.5)
    np.testing.assert_allclose(op(x), expected, rtol=1e-4, atol=1e-5)


def test_two_reductions_of_one_statement_have_names_of_their_own() -> None:
    op = operator("f", "X: float32[4, 8]\nY[i] = sum(X[i, j], over=j) * sum(X[i, j] * X[i, j], over=j)\n")
    assert [n for n in op.tensors if n.startswith("Y_")] == ["Y_sum", "Y_sum_1"]


def test_a_name_that_the_cell_uses_itself_stays_its_own() -> None:
    op = operator("f", "X: float32[4, 8]\nY_sum[i] = X[i, 0] * 2\nY[i] = sum(X[i, j], over=j) + Y_sum[i]\n")
    assert op.tensors["Y_sum"].op.input_tensors[0].name == "X" and "Y_sum_1" in op.tensors


def test_operators_on_whole_tensors_are_those_of_te() -> None:
    op = operator("f", X + "Y = X + 1\nZ[i] = Y[i] * 2")
    np.testing.assert_array_equal(op(np.arange(4, dtype="float32")), [2, 4, 6, 8])


FORMULAS = [
    ("gelu", lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2.0)))),
    ("silu", lambda x: x / (1 + np.exp(-x))),
    ("softplus", lambda x: np.log1p(np.exp(x))),
    ("leaky_relu", lambda x: np.where(x > 0, x, 0.01 * x)),
    ("sign", np.sign),
    ("square", np.square),
]


@pytest.mark.parametrize(("name", "expected"), FORMULAS, ids=[f[0] for f in FORMULAS])
def test_the_formula_of_a_function_that_is_not_there_computes_it(name: str, expected: Any) -> None:
    with pytest.raises(TVMagicError) as caught:
        operator("f", f"X: float32[4]\nY[i] = {name}(X[i])")
    found = re.match(r"write `(.*)`, with", caught.value.hint or "")
    assert found is not None
    op = operator("f", "X: float32[4]\nY[i] = " + re.sub(r"\bx\b", "X[i]", found[1]))
    x = np.array([-2, -0.5, 0, 3], "float32")
    np.testing.assert_allclose(op(x), expected(x.astype("float64")), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("attribute", "said"),
    [
        ("asm", "`%asm f` shows"),
        ("Y", '`f.tensors["Y"]`'),
        ("buidl", "did you mean `f.build`?"),
        ("run", "`f(...)`"),
        ("xyzzy", "has no attribute"),
    ],
)
def test_an_attribute_that_an_operator_does_not_have_is_answered(attribute: str, said: str) -> None:
    op = operator("f", X + "Y[i] = X[i] + 1")
    with pytest.raises(AttributeError, match=re.escape(said)):
        getattr(op, attribute)
    assert not hasattr(op, "_repr_png_") and copy.copy(op).name == "f"
