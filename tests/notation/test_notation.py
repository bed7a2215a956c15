"""The index notation: what it means, by values against NumPy, and how it tells mistakes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from refusals import refuses

from tvmagic.errors import TVMagicError
from tvmagic.ir import Reduce
from tvmagic.operators import NotationError, excerpt, operator

RNG = np.random.default_rng(0)
START = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Each test has the same arrays, whatever ran before it."""
    RNG.bit_generator.state = START


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(dtype)


def test_names_on_the_right_only_are_summed() -> None:
    op = operator("dense", "X: float32[8, 5]\nW: float32[6, 5]\nY[i, j] += X[i, k] * W[j, k]")
    x, w = array(8, 5), array(6, 5)
    np.testing.assert_allclose(op(x, w), x @ w.T, rtol=1e-5)
    np.testing.assert_allclose(op.reference(x, w), x @ w.T, rtol=1e-5)
    assert op.signature == "dense(X: float32[8, 5], W: float32[6, 5]) -> Y: float32[8, 6]"


def test_axes_and_sizes_have_the_names_of_the_cell() -> None:
    op = operator("f", "X: float32[n, 256]\nY[row] = max(X[row, c], over=c)")
    (y,) = op.outputs
    assert [iv.var.name for iv in y.op.axis] == ["row"]
    assert [iv.var.name for iv in y.op.reduce_axis] == ["c"]
    assert op.inputs[0].shape[0].name == "n"
    x = array(3, 256)
    np.testing.assert_array_equal(op(x), x.max(axis=1))


def test_elementwise_broadcast_and_constants() -> None:
    op = operator("f", "X: float64[4, 6]\nb: float64[6]\ns: float64\nY[i, j] = (X[i, j] + b[j]) * s / 0.1 + 2")
    x, b = array(4, 6, dtype="float64"), array(6, dtype="float64")
    s = np.array(3.0)
    np.testing.assert_allclose(op(x, b, s), (x + b) * 3.0 / 0.1 + 2, rtol=1e-12)


@pytest.mark.parametrize(
    "value, numpy",
    [
        ("X[i] / sqrt(3.0)", lambda x, i: x / np.sqrt(3)),
        ("X[i] * cos(2 * pi * i / 7) + 0.1 * i", lambda x, i: x * np.cos(2 * np.pi * i / 7) + 0.1 * i),
        ("X[i] * (0.1 if i < 4 else 0.7)", lambda x, i: x * np.where(i < 4, 0.1, 0.7)),
        ("where(X[i] > 0, 0.1, 2) + erf(0.5)", lambda x, i: np.where(x > 0, 0.1, 2) + 0.5204998778130465),
        ("max(0.1 * i, 0.3) + X[i] ** 0.5 if X[i] > 0 else pow(0.1, 3)", lambda x, i: np.where(x > 0, np.maximum(0.1 * i, 0.3) + np.sqrt(abs(x)), 0.1**3)),
    ],
)  # fmt: skip
def test_fractions_beside_whole_numbers_are_float64_where_the_statement_has_it(value: str, numpy: Any) -> None:
    op = operator("f", f"X: float64[9]\nY[i] = {value}")
    x, i = array(9, dtype="float64"), np.arange(9)
    np.testing.assert_allclose(op(x), numpy(x, i), rtol=1e-13)
    np.testing.assert_allclose(op.reference(x), numpy(x, i), rtol=1e-13)


def test_a_declared_float64_is_computed_in_it() -> None:
    op = operator("f", "X: int32[9]\nY: float64[9]\nZ: float64[9]\nY[i] = X[i] * 0.1\nZ[i] = 0.1")
    y, z = op(np.arange(9, dtype="int32"))
    np.testing.assert_array_equal(y, np.arange(9) * 0.1)
    np.testing.assert_array_equal(z, np.full(9, 0.1))


def test_nan_is_a_constant_and_types_may_be_numpys() -> None:
    op = operator(
        "f", "X: float32[9]\nY[i] = X[i] if X[i] > 0 else nan\nZ[i] = X[i].astype(np.float64)\nW[i] = X[i].astype(int8)"
    )
    x = array(9) * 3
    y, z, w = op(x)
    np.testing.assert_array_equal(y, np.where(x > 0, x, np.nan))
    assert (z.dtype, w.dtype) == ("float64", "int8") and (z == x).all() and (w == x.astype("int8")).all()
    assert op.check().ok


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("Y[i] = X[i] > 0 && X[i] < 1", "`&&` is written `and`"),
        ("Y[i] = X[i] <> 1", "`<>` is written `!=`"),
        ("Y[] = sum(X[i], over=i)", "a single value has an empty index: `Y[()]`"),
        ("Y[i] = X[i].astype(T)", "write `.astype('float32')`"),
        ("i = 3\nY[i] = X[i]", "give the index another name"),
        ("Y[i] = !X[i]", "`!` is written `not`"),
        ("Y[i] = X[i]++", "`++` is written `+ 1`"),
        ("Y[i] = 10L + X[i]", "write `10` for `10L`"),
        ("Y[i] = X[i] * 1.5f", "write `1.5` for `1.5f`"),
        ("Y[i] = 08 + X[i]", "write `8` for `08`"),
        ("Y[i] = 2X[i]", "a product is written `2 * X[i]`"),
        ("Y[i] = X[i] 2", "write what is computed of both: `X[i] * 2` is their product"),
        ("Y[i] = X[i] // times two", "a comment begins with `#`"),
        ("Y[i] = X[i] /* c */ + 1", "a comment begins with `#`"),
        ("in: float32[8]", "`in` is a word of Python: give the tensor another name, such as `IN`"),
        ("lambda[i] = X[i]", "`lambda` is a word of Python: give the tensor another name, such as `LAMBDA`"),
        ("```python", "leave out the backquotes, which are of Markdown"),
        ("$Y_i = X_i$", "a sum of products such as this formula's is written `C[i, j] += A[i, k] * B[k, j]`"),
        ("ij,jk->ik", "einsum's letters are the indices here: `C[i, k] += A[i, j] * B[j, k]`"),
        ("for i in xrange(9): Y[i] = X[i]", "write `for i in range(9):`"),
        ("V: float32[8] W: float32[8]", "write a line for each declaration"),
        ("Y[i] = X[...]", "write their names, on both sides of `=`"),
        ("Y[i] = sum(X[k], over=k) + max(X[k] for k in range(3))", "give that `for` a name of its own"),
        ("print X[0]", None),
        ("Y[i] = X[i]] # \u6ce8\uff0c", None),
    ],
)  # fmt: skip
def test_what_other_languages_write_is_said_how_to_write(line: str, hint: str) -> None:
    with pytest.raises(TVMagicError) as caught:
        operator("f", f"X: float32[9]\n{line}")
    assert caught.value.hint == hint


def test_reductions_of_a_module_are_those_of_the_notation() -> None:
    op, w = (
        operator("f", "W: float32[4, 5]\nY[i] = np.sum(W[i, k], over=k) + torch.max(W[i, r] for r in range(3))"),
        array(4, 5),
    )
    np.testing.assert_allclose(op(w), w.sum(1) + w[:, :3].max(1), rtol=1e-5)


def test_functions_of_numbers_take_the_type_of_what_they_meet() -> None:
    op = operator(
        "f", "X: float16[4]\nN: int64[4]\nY[i] = X[i] / sqrt(4.0) + exp(0)\nM[i] = N[i] + popcount(255) - abs(-3)"
    )
    y, m = op(np.ones(4, "float16"), np.ones(4, "int64"))
    assert y.dtype == "float16" and (y == 1.5).all()
    assert m.dtype == "int64" and (m == 6).all()


def test_a_softmax_with_reductions_inside_expressions() -> None:
    op = operator(
        "softmax",
        "X: float32[7, 10]\nY[i, j] = exp(X[i, j] - max(X[i, q], over=q))\nZ[i, j] = Y[i, j] / sum(Y[i, q], over=q)",
    )
    x = array(7, 10) * 5
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(op(x), e / e.sum(axis=1, keepdims=True), rtol=1e-5)


def test_convolution_with_padding() -> None:
    op = operator(
        "conv",
        """X: float32[2, 3, 9, 8]
K: float32[4, 3, 3, 3]
P: float32[2, 3, 11, 10]
P[n, c, y, x] = X[n, c, y - 1, x - 1] if 1 <= y < 10 and 1 <= x < 9 else 0
O[n, f, y, x] += P[n, c, y + r, x + s] * K[f, c, r, s]""",
    )
    x, k = array(2, 3, 9, 8), array(4, 3, 3, 3)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    np.testing.assert_allclose(op(x, k), np.einsum("ncyxrs,fcrs->nfyx", windows, k), rtol=1e-4, atol=1e-5)
    assert [int(s) for s in op.outputs[0].shape] == [2, 4, 9, 8]


def test_strided_accesses_run_as_far_as_they_may() -> None:
    op = operator("f", "A: float32[20]\nK: float32[3]\nC[i] += A[2 * i + r] * K[r]")
    a, k = array(20), array(3)
    expected = [a[2 * i : 2 * i + 3] @ k for i in range(9)]
    np.testing.assert_allclose(op(a, k), expected, rtol=1e-5)


@pytest.mark.parametrize(
    "text", ["for i in range(5): C[i] = A[2 * i]", "i: range(5)\nC[i] = A[2 * i]", "C: float32[5]\nC[i] = A[2 * i]"]
)
def test_the_range_of_an_index_can_be_given(text: str) -> None:
    op = operator("f", "A: float32[20]\n" + text)
    a = array(20)
    np.testing.assert_array_equal(op(a), a[:10:2])


def test_products_and_sums_onto_what_is_there() -> None:
    op = operator("f", "X: float32[3, 4]\nP[i] *= X[i, k]\nQ[i] = P[i] * 2\nQ[i] += X[i, k]\nreturn Q")
    x = array(3, 4)
    np.testing.assert_allclose(op(x), x.prod(axis=1) * 2 + x.sum(axis=1), rtol=1e-5)


def test_several_outputs() -> None:
    op = operator("f", "X: float32[3, 4]\nS[i] += X[i, k]\nM[i] = min(X[i, k], over=k)")
    x = array(3, 4)
    s, m = op(x)
    np.testing.assert_allclose(s, x.sum(axis=1), rtol=1e-5)
    np.testing.assert_array_equal(m, x.min(axis=1))


def test_calls_of_te_and_notation_in_one_cell() -> None:
    op = operator(
        "f",
        "N = 8\nA = te.placeholder((N, N), name='A')\nB = te.compute((N, N), lambda i, j: A[i, j] * 2.0, name='B')\nC[i] += B[i, k]",
    )
    a = array(8, 8)
    np.testing.assert_allclose(op(a), 2 * a.sum(axis=1), rtol=1e-5)


def test_a_function_of_tensorir() -> None:
    op = operator(
        "twice",
        """@T.prim_func
def twice(a: T.Buffer((16,), "float32"), b: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            b[vi] = a[vi] * T.float32(2)""",
    )
    a = array(16)
    np.testing.assert_array_equal(op(a), 2 * a)
    np.testing.assert_array_equal(op.reference(a), 2 * a)


def test_numbers_of_the_notebook_are_sizes_and_values() -> None:
    op = operator("f", "X: float32[N]\nY[i] = X[i] * scale", {"N": 4, "scale": 2.5, "i": 77})
    np.testing.assert_array_equal(op(np.ones(4, "float32")), np.full(4, 2.5, "float32"))


def test_integers_and_bools() -> None:
    op = operator("f", "X: int32[6]\nm: bool[6]\nY[i] = X[i] // 2 + X[i] % 3 if m[i] else -X[i]")
    x, m = np.arange(-3, 3, dtype="int32"), np.array([True, False] * 3)
    np.testing.assert_array_equal(op(x, m), np.where(m, x // 2 + x % 3, -x))


def test_the_negative_of_unsigned_integers_wraps_around() -> None:
    op = operator("f", "X: uint8[3]\nY[i] = -X[i]")
    x = np.array([0, 3, 255], "uint8")
    np.testing.assert_array_equal(op(x), -x)
    with pytest.raises(NotationError, match=r"`-`.*`X\[i\]`"):
        operator("f", "X: bool[3]\nY[i] = -X[i]")


def test_the_extremes_of_two_bools() -> None:
    op = operator("f", "X: bool[4]\nZ: bool[4]\nU[i] = max(X[i], Z[i])\nI[i] = min(X[i], Z[i])")
    x, z = np.array([False, False, True, True]), np.array([False, True, False, True])
    np.testing.assert_array_equal(op(x, z), [x | z, x & z])


def test_expressions_have_their_place_in_the_cell() -> None:
    op = operator("f", "X: float32[4]\nY[i] = exp(X[i])")
    body = op.outputs[0].op.body[0]
    assert (body.span.source, body.span.line, body.span.column) == ("tensor f", 3, 8)
    assert excerpt(body.span).split("\n")[1].endswith("^^^^^^^^^")


MISTAKES = [
    ("X: float32[4]\nY[i] = X[i / 2]", "notation.index_not_integer", "i / 2"),
    ("X: float32[4]\nY[i] = X[i] + X[1.5]", "notation.index_not_integer", "1.5"),
    ("X: float32[4]\nY[i] = X[i:2]", "notation.slice_index", "i:2"),
    ("X: float32[4]\nY[i] = cast(X[i], 'flot32')", "notation.unknown_dtype", "'flot32'"),
    ("X: float32[4]\nY[i] = X[i].astype('flot32')", "notation.unknown_dtype", "'flot32'"),
    ("X: float32[4, 4]\nY[i] = max(X[i, k], over=q)", "notation.unused_index", "q"),
    ("X: int32[4]\nY[i] += (X[i] >> k) & 1", "notation.unknown_range", "k"),
    ("X: float32[4, 4]\nY[i] = max(X[i, k], ovr=k)", "notation.unknown_argument", "ovr=k"),
    ("X: float32[4, 4]\nY[i, j] = Q[j, i]", "notation.undefined_name", "Q"),
    ("X: float32[4, 4]\nY[i, j] = Q[j, i] if i > 0 else 0", "notation.undefined_name", "Q"),
    ("X: float32[4]\nY[i] = X[Q[i]]", "notation.undefined_name", "Q"),
    ("X: float32[4, 4]\nY[i, j] = X[j, i, k]", "notation.wrong_index_count", "X[j, i, k]"),
    ("X: float32[4, 4]\nY[i, j] = X[i]", "notation.wrong_index_count", "X[i]"),
    ("X: float32[4, 5]\nW: float32[4, 6]\nY[i] += X[i, k] * W[i, k]", "notation.ranges_differ", "W[i, k]"),
    ("X: float32[4]\nY[i] = X[i] + Q[i]", "notation.undefined_name", "Q"),
    ("X: float32[4]\nY[i] = X[i] + yy", "notation.undefined_name", "yy"),
    ("X: float32[4]\nfor i in range(4): Y[i] = X[i + 1]", "notation.index_out_of_range", "i + 1"),
    ("X: float32[4]\nfor i in range(4): Y[i] = X[i - 1]", "notation.index_out_of_range", "i - 1"),
    ("X: float33[4]\nY[i] = X[i]", "notation.unknown_dtype", "float33"),
    ("X: float32[4]\nY[i] = fooo(X[i])", "notation.unknown_function", "fooo"),
    ("X: float32[4]\nY[i, j] = X[i]", "notation.extent_not_inferred", "j"),
    ("X: float32[4, 4]\nY[i] = X[i, k]", "notation.index_only_on_right", "k"),
    ("X: float32[4]\nY[i] = X[i, i]", "notation.wrong_index_count", "X[i, i]"),
    ("X: float32[4]\nY[i] = X", "notation.tensor_without_indices", "X"),
    ("X: float32[4]\nY[i] = X[i] % 2", "notation.not_an_integer", "X[i] % 2"),
    ("X: int32[4]\nY[i] = exp(X[i] + 1)", "notation.not_a_float", "X[i] + 1"),
    ("X: float32[4]\nY[i] = atan2(X[i], X[i] > 0)", "notation.not_a_float", "X[i] > 0"),
    ("X: int32[4]\nY[i] = X[i] / 2", "expression.ambiguous_division", "X[i] / 2"),
    ("X: float32[4]\nY[i] += X[i]", "notation.nothing_to_reduce", "Y[i]"),
    ("X: float32[4]\nZ[i] = Z[i] + X[i]", "notation.read_before_computed", "Z"),
    ("X: float32[0]\nY[i] = X[i]", "notation.size.too_large", "0"),
    ("X: float32[4]\nY[i, i] = X[i]", "notation.repeated_index", "i"),
    ("X: float32[4]\nY[0] = X[0]", "notation.left_side_not_indices", "0"),
    ("X: float32[4]\nY[i] -= X[i]", "notation.unsupported_assignment", "Y[i] -= X[i]"),
    ("X: float32[4]\nY[i] = X['a']", "notation.not_a_number", "'a'"),
    ("X: float32[4]\nY[i] = X[X[i]]", "notation.index_not_integer", "X[i]"),
    ("X: float32[4]\nY: int32[4]\nY[i] = X[i]", "notation.declared_dtype_differs", "Y[i]"),
    ("X: float32[4]\nY[i] = max(X[i])", "notation.wrong_argument_count", "max(X[i])"),
    ("X: float32[4]\nY[i] = sum(X[i])", "notation.reduction_without_index", "sum(X[i])"),
    ("X: float32[4, 4]\nY[i] = max(X[i, k] for k in range(4) if k > 1)", "notation.condition_in_wrong_place", "k > 1"),
    ("X: float32[4, 4]\nY[i] = sum(x for x in X)", "notation.wrong_range", "X"),
    ("X: float32[4, 4]\nY[i] = sum(X[i, k] for i in range(4))", "notation.index_on_left", "i"),
    ("X: float32[4]\nY[()] = sum(X[k] for k in range(4)) - sum(X[k] for k in range(2))", "notation.ranges_differ", "k"),
    (
        "X: float32[4, 4]\nY[i] = exp(X[i, k] for k in range(2))",
        "notation.stray_for",
        "(X[i, k] for k in range(2))",
    ),
    (
        "X: float32[4, 4]\nY[i] = sum(max(X[i, k], over=k), over=k)",
        "notation.reduced_inside",
        "sum(max(X[i, k], over=k), over=k)",
    ),
    ("X: float32[4, 4]\nY[t] = X[t, 0] if t == 0 else Y[t - 1] + X[t, k]", "notation.index_only_on_right", "k"),
    ("X: float32[4, 4]\nY[i] = max(X[i, k], over=(k in 2))", "notation.over_not_indices", "k in 2"),
    ("X: float32[4]\ni: range(3, 1)\nY[i] = X[i]", "notation.size.empty_range", "range(3, 1)"),
]


@pytest.mark.parametrize(("text", "code", "place"), MISTAKES, ids=[m[1] for m in MISTAKES])
def test_mistakes_point_at_their_place(text: str, code: str, place: str) -> None:
    with pytest.raises(NotationError) as caught:
        operator("bad", text)
    error = caught.value
    assert code == error.code
    lines = ["%%tensor bad", *text.split("\n")]
    assert error.span is not None
    assert lines[error.span.line - 1][error.span.column - 1 : error.span.end_column - 1] == place


def test_an_array_outside_has_a_shape_and_a_dtype() -> None:
    class Sized:
        shape = (4,)

    for value, code in ((np.zeros(4, "float32"), "notation.outside_array"), (Sized(), "notation.undefined_name")):
        with refuses(code, error=NotationError):
            operator("bad", "X: float32[4]\nY[i] = X[i] + Q[i]", {"Q": value})


def test_syntax_errors_have_a_place() -> None:
    with refuses("cell.syntax_error") as caught:
        operator("bad", "X: float32[4]\nY[i] = X[i")
    assert caught.value.span is not None and caught.value.span.line == 3


def test_errors_of_te_calls_name_the_line_of_the_cell() -> None:
    with pytest.raises(TVMagicError) as caught:
        operator("bad", "A = te.placeholder((4,), name='A')\nB = te.compute((4,), lambda i, j: A[i], name='B')")
    assert caught.value.span is not None and caught.value.span.line == 3


def test_a_cell_without_a_computed_tensor() -> None:
    with refuses("cell.no_tensor"):
        operator("bad", "X: float32[4]")


RANGES = [
    ("I: float32[6, 10]\nH[i, j] = (I[i, j] + I[i, j + 1] + I[i, j + 2]) / 3", (6, 8)),
    ("X: float32[10]\nY[i] = X[9 - i]", (10,)),
    ("X: float32[10]\nY[i] = X[9 - 2 * i]", (5,)),
    ("X: float32[10]\nY[i] = X[i] - X[9 - i]", (10,)),
    ("X: float32[10]\nW: float32[3]\nY[i] += X[i + k] * W[k]", (8,)),
    ("X: float32[10]\nW: float32[3]\nA: float32[10]\nY[i] = A[i] + sum(X[i + k] * W[k], over=k)", (8,)),
    ("X: float32[10]\nY[i] = X[i] + X[2 * i]", (5,)),
]


@pytest.mark.parametrize("text, shape", RANGES)
def test_the_range_keeps_every_access_inside(text: str, shape: tuple[int, ...]) -> None:
    op = operator("f", text)
    assert tuple(int(n) for n in op.outputs[0].shape) == shape
    inputs = op.random_inputs(0)
    np.testing.assert_allclose(op(*inputs), op.reference(*inputs), rtol=1e-5)


@pytest.mark.parametrize("text", ["X: float32[n]\nY[i] = X[n - 1 - i]", "X: float32[size]\nY[i] = X[size - 1 - i]"])
def test_a_size_is_a_number_in_an_index(text: str) -> None:
    """A symbolic one, and one that the notebook has."""
    op = operator("f", text, {"size": 7})
    x = np.arange(7, dtype="float32")
    np.testing.assert_array_equal(op(x), x[::-1])


def test_a_name_that_is_a_size_and_a_whole_index_is_an_index() -> None:
    op = operator("f", "X: float32[size, k]\nY[i] += X[i, k]", {"size": 7, "k": 5})
    x = np.arange(35, dtype="float32").reshape(7, 5)
    np.testing.assert_array_equal(op(x), x.sum(1))


@pytest.mark.parametrize("condition", ["0 <= i < 8", "i <= 7 and k >= 0", "not i > 7"])
def test_a_condition_inside_the_range_of_what_it_guards_is_one(condition: str) -> None:
    op = operator("f", f"X: float32[9, 2]\nY[i, k] = X[i, k] if {condition} else 5")
    x = np.zeros((9, 2), "float32")
    np.testing.assert_array_equal(op(x), np.where(np.arange(9)[:, None] < 8, x, 5))


def test_a_symbolic_range_keeps_every_access_inside() -> None:
    op = operator("f", "X: float32[n]\nY[i] = X[i] + X[i + 1]")
    x = np.arange(7, dtype="float32")
    np.testing.assert_array_equal(op(x), x[:-1] + x[1:])


@pytest.mark.parametrize(
    "text, words",
    [
        ("X: float32[10]\ni: range(10)\nY[i] = X[i] + X[i + 1]", "notation.index_out_of_range"),
        ("X: float32[10]\nY[i] = X[i] + X[i + 10]", "notation.index_out_of_range"),
        (
            "X: float32[10]\nY[i] = X[-i]",
            "notation.extent_not_inferred",
        ),
        ("X: float32[n]\nY[i] = X[-1 - i]", "notation.extent_not_inferred"),
        ("X: float32[10]\nY[i] = X[i + 10]", "notation.index_out_of_range"),
        ("X: float32[n]\nY[i] = X[i + n]", "notation.index_out_of_range"),
        (
            "X: float32[9]\nZ: float32[4]\nY[i] = X[i] if i < 9 else Z[i - 9]",
            "notation.extent_not_inferred",
        ),
        ("X: float32[9]\nZ: float32[4]\nY[i] = Z[i - 9] if not 0 <= i < 9 else X[i]", "notation.extent_not_inferred"),
        ("X: float32[n]\nY[i] = X[i] if i >= n or i < 0 else 0", "notation.extent_not_inferred"),
        (
            "X: float32[10]\nA: float32[8]\nB: float32[8]\nY[i, j] = X[i + j] + A[i] + B[j]",
            "notation.index_out_of_range",
        ),
        (
            "X: float32[10]\nW: float32[3]\nA: float32[9]\nY[i] = A[i] * sum(X[k + 8] * W[k], over=k)",
            "notation.index_out_of_range",
        ),
        ("X: float32[10]\nY[i] = X[i - 1] if i >= 1 else 0", "notation.extent_not_inferred"),
    ],
)
def test_a_range_that_cannot_be_told_is_asked_for(text: str, words: str) -> None:
    with refuses(words):
        operator("f", text)


def test_indices_that_are_divided_say_how_far_they_run() -> None:
    """The range is the longest one from 0 for which no index leaves its dimension, whatever is divided by what."""
    draw = random.Random(0)
    for _ in range(200):
        size, factor, by = draw.randint(1, 9), draw.randint(1, 4), draw.randint(1, 5)
        offset, again = draw.randint(0, 6), draw.choice(["", " // 2"])
        index = f"({factor} * i + {offset}) // {by}{again}"
        place = eval(f"lambda i: {index}")
        longest = next(n for n in range(200) if place(n) >= size)
        text = f"X: float32[{size}]\nY[i] = X[{index}]"
        if longest == 0:
            with refuses("notation.index_out_of_range"):
                operator("f", text)
        else:
            assert [int(n) for n in operator("f", text).outputs[0].shape] == [longest], text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("X: float32[4]\nY[i] = X[(i - 1) // 2]", "notation.index_out_of_range"),
        ("X: float32[4]\nY: float32[9]\nY[i] = X[i // 2]", "notation.index_out_of_range"),
        ("X: float32[4]\nY[i] = X[i // 0]", "notation.extent_not_inferred"),
        ("X: float32[4]\nY[i] = X[i // -2]", "notation.extent_not_inferred"),
        ("X: float32[4]\nt[0] += X[i]", "notation.left_side_not_indices"),
        (
            "X: float32[4]\nt[0, i] = X[i]",
            "notation.left_side_not_indices",
        ),
    ],
)
def test_indices_that_are_divided_or_numbers_are_refused_where_they_are_wrong(text: str, code: str) -> None:
    with pytest.raises(TVMagicError) as caught:
        operator("f", text)
    assert code == caught.value.code


def test_an_enlarged_picture_of_any_size_equals_numpy() -> None:
    op = operator("larger", "X: float32[n, 5]\nY[i, j] = X[i // 2, j // 3]")
    x = np.random.default_rng(0).standard_normal((4, 5)).astype("float32")
    np.testing.assert_array_equal(op(x), x.repeat(2, 0).repeat(3, 1))


def test_python_functions_are_called_with_expressions() -> None:
    text = "def twice(x, by=2):\n    return x * by\nX: float32[5]\nY[i] = twice(half(X[i]), by=3) + clip(X[i], -1, 0.5)"
    op = operator("f", text, namespace={"half": lambda x: x / 2})
    x = array(5)
    np.testing.assert_allclose(op(x), x / 2 * 3 + x.clip(-1, 0.5), rtol=1e-6)
    assert [int(n) for n in operator("g", "X: int32[4]\nY[i] = clip(X[i], 0, 3)").outputs[0].shape] == [4]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("Y[i] = broken(X[i])", "notation.own_function_failed"),
        ("Y[i] = text(X[i])", "notation.own_function_result"),
        ("Y[i] = text(X[i], X[i])", "notation.own_function_failed"),
        ("Y[i] = X(X[i])", "notation.tensor_without_indices"),
        ("Y[i] = nobody(X[i])", "notation.unknown_function"),
        ("Y[i] = X[i] @ X[i]", "notation.unsupported_operator"),
        ("Y[i, i] = X[i]", "notation.repeated_index"),
    ],
)
def test_what_python_functions_give_is_told_where_it_is_no_number(line: str, code: str) -> None:
    names = {"broken": lambda x: 1 // 0, "text": lambda x: "a"}
    with pytest.raises(NotationError) as caught:
        operator("f", f"X: float32[5]\n{line}", namespace=names)
    assert code == caught.value.code and caught.value.span is not None and caught.value.span.line == 3


@pytest.mark.parametrize(
    ("line", "place"),
    [("Y[i] += X[i, k] * 2", "X[i, k] * 2"), ("Y[i] = sum(X[i, k] + 1, over=k)", "X[i, k] + 1"), ("Y[i] = 2 * max(X[i, k], over=k)", "X[i, k]"),
     ("Y[i] = prod(X[i, k] for k in range(4))", "X[i, k]"), ("Y[()] = sum(min(X[i, k], over=k), over=i)", "X[i, k]")],
)  # fmt: skip
def test_the_place_of_a_reduction_is_what_it_reduces(line: str, place: str) -> None:
    op = operator("f", f"X: float32[8, 4]\n{line}")
    reductions = [b for t in op.tensors.values() for b in getattr(t.op, "body", ()) if isinstance(b, Reduce)]
    spans = [reduction.span for reduction in reductions]
    assert all(span is not None and span.line == span.end_line == 3 for span in spans)
    assert place in [line[span.column - 1 : span.end_column - 1] for span in spans if span is not None]
