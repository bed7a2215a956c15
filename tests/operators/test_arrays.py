"""Arrays and sizes that an operator takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvmagic import te
from tvmagic.errors import TVMagicError
from tvmagic.operators.arrays import (
    as_array,
    check_inputs,
    chosen_sizes,
    evaluate_size,
    random_inputs,
    shapes_of,
    share_memory,
)

N, M = te.size_var("n"), te.size_var("m")


X = te.placeholder((N, 4), "float32", name="X")


Y = te.placeholder((M, N), "int32", name="Y")


def refused(call: Any) -> TVMagicError:
    with pytest.raises(TVMagicError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize(
    ("x", "y", "code"),
    [
        (np.zeros((3, 4), "float32"), np.zeros((2, 3), "int32"), ""),
        (np.zeros((3, 4), "float64"), np.zeros((2, 3), "int32"), "array.wrong_dtype"),
        (np.zeros((3, 4), "float32"), np.zeros((2, 3, 1), "int32"), "array.wrong_rank"),
        (np.zeros((3, 5), "float32"), np.zeros((2, 3), "int32"), "array.wrong_size"),
        (
            np.zeros((3, 4), "float32"),
            np.zeros((2, 5), "int32"),
            "array.wrong_size",
        ),
        (np.zeros((0, 4), "float32"), np.zeros((0, 0), "int32"), ""),
    ],
)
def test_operator_refuses_unfit_arrays(x: np.ndarray, y: np.ndarray, code: str) -> None:
    if code:
        assert code == refused(lambda: check_inputs("f", [X, Y], [x, y])).code
    else:
        assert check_inputs("f", [X, Y], [x, y]) == [x, y]


def test_sizes_follow_from_names_and_shapes() -> None:
    assert chosen_sizes([X, Y], 5) == {N: 5, M: 5} and chosen_sizes([X, Y], {"n": 3}) == {N: 3, M: 16}
    sizes = {N: 3, M: 2}
    assert evaluate_size(N, sizes) == 3 and evaluate_size(N * 2 - M, sizes) == 4 and evaluate_size(X.shape[1], {}) == 4
    assert refused(lambda: evaluate_size(N + 1, {M: 2})).code == "array.size_not_determined"
    shrunk = te.placeholder((4, N - 3, M), name="Z")
    assert shapes_of([shrunk, X], sizes) == [(4, 0, 2), (3, 4)]
    error = refused(lambda: shapes_of([shrunk], {N: 2, M: 1}))
    assert error.code == "array.wrong_shape" and "`n - 3`" in str(error)
    assert shapes_of([te.placeholder((), name="S")], {}) == [()]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "float16", "float32", "float64"])
def test_random_arrays_are_small(dtype: str) -> None:
    tensor = te.placeholder((40, 50), dtype, name="R")
    (first,), (again,), (other,) = (random_inputs([tensor], seed, 7) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert first.dtype == dtype and first.shape == (40, 50) and not np.array_equal(first, other)
    if dtype == "bool":
        assert 0.4 < first.mean() < 0.6
    elif first.dtype.kind in "iu":
        least = -8 if first.dtype.kind == "i" else 0
        assert set(np.unique(first)) == set(range(least, 8))
        (limited,) = random_inputs([tensor], 1, 7, lambda tensor, sizes: 3)
        assert set(np.unique(limited)) == {0, 1, 2}
    else:
        assert first.min() < -0.9 and first.max() > 0.9 and np.abs(first).max() <= 1
        (coarse,) = random_inputs([tensor], 1, 7, coarse=True)
        steps = 2 if dtype == "float16" else 4
        assert set(np.unique(coarse)) == {v / steps for v in range(-steps, steps + 1)}


def test_array_conversion_accepts_or_refuses() -> None:
    class Other:
        def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
            return np.arange(3)

    class Host:
        def numpy(self) -> np.ndarray:
            return np.arange(2)

    class Broken:
        def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
            raise ValueError("no")

    plain = np.zeros(3)
    assert as_array(plain, "X") is plain and as_array(Other(), "X").size == 3 and as_array(Host(), "X").size == 2
    masked = np.ma.masked_array([1, 2], [False, True])
    assert refused(lambda: as_array(masked, "X")).code == "array.masked"
    assert as_array(np.ma.masked_array([1, 2]), "X").size == 2
    assert refused(lambda: as_array(Broken(), "X")).code == "array.not_convertible"
    for value in ([1, 2], 3, None):
        assert refused(lambda value=value: as_array(value, "X")).code == "array.not_an_array"
    assert (
        share_memory([plain], [plain[1:]])
        and not share_memory([plain], [np.zeros(3)])
        and not share_memory([], [plain])
    )
