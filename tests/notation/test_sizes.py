"""Sizes and ranges of the index notation: numbers, names, symbolic sizes, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvmagic.errors import TVMagicError
from tvmagic.notation.expressions import NotationError
from tvmagic.notation.scope import Layered
from tvmagic.operators import operator

ROW = "X: float32[{}]\nY[i] = X[i]"


@pytest.mark.parametrize(("size", "value"), [("1 << 4", 16), ("2**3 - 1", 7), ("17 % 4", 1), ("-3 + 4", 1), ("N", 9)])
def test_sizes_are_counted_out(size: str, value: int) -> None:
    op = operator("f", ROW.format(size), {"N": np.int64(9)})
    assert [int(s) for s in op.inputs[0].shape] == [value]


WRONG = [
    (ROW.format("0"), "notation.size.too_large"),
    (ROW.format("-4"), "notation.size.too_large"),
    (ROW.format("10**18 * 100"), "notation.size.too_large"),
    (ROW.format("9**9**9"), "notation.size.not_a_size"),
    (ROW.format("4 // 0"), "notation.size.not_computable"),
    (ROW.format("H"), "notation.size.not_an_integer"),
    ("X: float32[n, n // 0]\nY[i, j] = X[i, j]", "notation.size.not_computable"),
    ("i: range('a')\nY[i] = i", "notation.size.not_a_size"),
    ("i: range(4.5)\nY[i] = i", "notation.size.not_a_size"),
    ("i: range(3, 3)\nY[i] = i", "notation.size.empty_range"),
    ("i: range(0, 9, 2)\nY[i] = i", "notation.size.wrong_range"),
    ("X: float32[n]\ni: range(m)\nY[i] = X[i]", "notation.size.not_determined"),
    ("X: float32[n * m]\nY[i] = X[i]", "notation.size.not_determined"),
    ("X: float32[n * n]\nY[i] = X[i]", "notation.size.not_determined"),
    ("X: float32[n // 2]\nY[i] = X[i]", "notation.size.not_determined"),
    ("X: float32[n]\ni: range(n)\nY[i] = X[i] + X[i + 1]", "notation.index_out_of_range"),
    ("X: float32[n]\ni: range(n + 2)\nY[i] = X[i]", "notation.index_out_of_range"),
    ("X: float32[n]\ni: range(n)\nY[i] = X[i - 1]", "notation.index_out_of_range"),
]


@pytest.mark.parametrize(("text", "code"), WRONG, ids=[m for _, m in WRONG])
def test_wrong_sizes_are_told_with_their_place(text: str, code: str) -> None:
    names: dict[str, Any] = {"H": 3.5}
    with pytest.raises(NotationError) as caught:
        operator("f", text, names)
    assert code == caught.value.code and caught.value.span is not None


@pytest.mark.parametrize(
    ("size", "n", "extents"),
    [
        ("n + 1", 4, 5),
        ("n - 1", 4, 3),
        ("2 * n", 0, 0),
        ("2 * n", 4, 8),
        ("3 * n + 2", 2, 8),
        ("n + n", 3, 6),
        ("4 - n", 1, 3),
    ],
)
def test_calls_solve_sizes(size: str, n: int, extents: int) -> None:
    op = operator("f", f"X: float32[{size}]\nY[i] = X[i] + n")
    x = np.arange(extents, dtype="float32")
    np.testing.assert_array_equal(op(x), x + n)
    np.testing.assert_array_equal(op.reference(x), x + n)
    assert op.check(sizes=3).ok


def test_a_size_is_solved_once_the_others_are_known() -> None:
    op = operator(
        "f", "X: float32[n * m + k]\nA: float32[n]\nB: float32[k + 1]\nY[i] = X[i]\nZ[i, j] = A[i] + B[j] + m"
    )
    y, z = op(np.ones(14, "float32"), np.zeros(4, "float32"), np.zeros(3, "float32"))  # 14 = 4 * m + 2
    assert y.shape == (14,) and z.shape == (4, 3) and np.all(z == 3)
    with pytest.raises(TVMagicError, match=r"`X`.*`f`.*`n \* m \+ k`.*`n`.*`k`"):
        op(np.ones(15, "float32"), np.zeros(4, "float32"), np.zeros(3, "float32"))


def test_rows_of_a_sparse_matrix_are_one_less_than_their_ends() -> None:
    op = operator(
        "f",
        "s: int32[n + 1]\nv: float32[z]\ni: range(n)\ny[i] = sum(v[j] if s[i] <= j and j < s[i + 1] else 0.0, over=j)",
    )
    starts, values = np.array([0, 2, 2, 5], "int32"), np.arange(5, dtype="float32")
    np.testing.assert_array_equal(op(starts, values), [1, 0, 9])


@pytest.mark.parametrize(
    ("size", "shape", "code"),
    [
        ("2 * n", (7,), "array.size_mismatch"),
        ("n + 3", (2,), "array.size_mismatch"),
        ("8, n + 3", (8, 1), "array.size_mismatch"),
        ("n, n + 1", (3, 3), "array.size_mismatch"),
    ],
)
def test_arrays_without_a_solution_are_refused(size: str, shape: tuple[int, ...], code: str) -> None:
    names = ", ".join("ij"[: len(shape)])
    op = operator("f", f"X: float32[{size}]\nY[{names}] = X[{names}] + n")
    with pytest.raises(TVMagicError) as caught:
        op(np.zeros(shape, "float32"))
    assert code == caught.value.code


def test_functions_have_sizes_that_calls_solve() -> None:
    text = """@T.prim_func
def f(a: T.handle, b: T.handle):
    m = T.int32()
    A = T.match_buffer(a, (m + 1,))
    B = T.match_buffer(b, (m,))
    for i in range(m):
        B[i] = A[i + 1] - A[i]"""
    op = operator("f", text)
    np.testing.assert_array_equal(op(np.array([1, 4, 9], "float32")), [3, 5])
    assert op.check(sizes=7).ok


def test_ranges_may_begin_below_zero() -> None:
    op = operator("f", "X: float32[16]\nr: range(-1, 2)\ni: range(1, 15)\nY[()] += X[i + r]")
    (x,) = op.random_inputs()
    np.testing.assert_allclose(op(x), x[:-2].sum() + x[1:-1].sum() + x[2:].sum(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 7, 8])
def test_the_smaller_of_two_symbolic_extents_is_taken(n: int) -> None:
    op = operator("f", "X: float32[n]\nY[i] = max(X[2 * i], X[2 * i + 1])")
    x = np.arange(n, dtype="float32")
    np.testing.assert_array_equal(op(x), x[: n // 2 * 2].reshape(-1, 2).max(1) if n > 1 else x[:0])


def test_a_size_that_is_only_a_number_needs_an_input_that_is_read() -> None:
    op = operator("f", "X: float32[n, m]\nY[i] = X[i, 0] * m")
    np.testing.assert_array_equal(op(np.ones((2, 7), "float32")), [7, 7])


@pytest.mark.parametrize(
    ("ends", "hint"), [("0, 9, 2", "for every second element, index by a multiple: `X[2 * k]`"), ("", None)]
)
def test_a_range_with_steps_has_a_hint(ends: str, hint: str | None) -> None:
    with pytest.raises(NotationError) as caught:
        operator("f", f"i: range({ends})\nY[i] = i")
    assert caught.value.hint == hint


def test_names_of_several_layers_count_once() -> None:
    layered = Layered({"a": 1, "b": 2}, {"b": 3, "c": np.float32(4)})
    assert len(layered) == 3 and list(layered) == ["a", "b", "c"] and layered["b"] == 2
