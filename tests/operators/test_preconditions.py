"""Assertions of cells: what they mean, what a call that violates one is told, and what a test of them takes."""

from __future__ import annotations

import copy
import pickle
import time
from typing import Any

import numpy as np
import pytest
from refusals import refuses

from tvmagic.errors import BoundsError, PreconditionError
from tvmagic.notation.expressions import NotationError
from tvmagic.operators import Operator, operator

INT, FLOAT = "int32", "float32"


def ints(*values: int) -> np.ndarray:
    return np.array(values, INT)


def asserting(condition: str, declared: str = "X: int32[n]") -> Operator:
    """An operator that copies its first input, below an assertion in line 4."""
    name = declared[0]
    names = ", ".join("ijkl"[: declared.split("\n", 1)[0].count(",") + 1])
    return operator("f", f"{declared}\n\nassert {condition}\nYY[{names}] = {name}[{names}]")


# the condition, inputs that satisfy it, inputs that violate it, and what is said of these
FORMS: list[tuple[str, list[Any], list[Any], str]] = [
    ("0 <= X[i] < 5", [0, 4, 2], [0, 4, 5, 9], "operator.assertion_failed"),
    ("X[i] <= X[i + 1]", [1, 1, 3], [1, 7, 5, 4], "operator.assertion_failed"),
    ("X[i] < X[i + 1]", [1, 2, 3], [1, 2, 2], "operator.assertion_failed"),
    ("X[0] == 3", [3, 8], [4, 3], "operator.assertion_failed"),
    ("X[n - 1] == n", [8, 2], [2, 8], "operator.assertion_failed"),
    ("distinct(X[i], over=i)", [5, 3, 9], [5, 3, 9, 3], "operator.assertion_failed"),
    ("distinct(X[i], over=i)", [5, -(2**31), 2**31 - 1], [2**31 - 1, 0, 2**31 - 1], "operator.assertion_failed"),
    ("X[0] == 1 and X[i] != 4", [1, 5], [1, 4], "operator.assertion_failed"),
    ("X[i] > 5 or X[i] % 2 == 0", [7, 2, 9], [7, 3], "operator.assertion_failed"),
    ("i == 0 or X[i - 1] + X[i] == 4", [1, 3, 1], [1, 3, 3], "operator.assertion_failed"),
    ("sum(X[i], over=i) == 6", [1, 2, 3], [1, 2, 4], "operator.assertion_failed"),
    ("max(X[i], over=i) - min(X[i], over=i) < 4", [1, 4], [1, 5], "operator.assertion_failed"),
    ("all(X[q] < i for q in range(X[i]))", [0, 0, 1], [0, 2, 2], "operator.assertion_failed"),
    ("all(X[q] > 0 for q in range(X[0]) if q != 1)", [3, 0, 2], [3, 0, 0], "operator.assertion_failed"),
    ("any(X[q] == 0 for q in range(n))", [3, 0, 2], [3, 1, 2], "operator.assertion_failed"),
    ("all(X[i] > 0, over=i)", [1, 2], [1, 0], "operator.assertion_failed"),
    ("n % 2 == 0", [1, 2], [1], "operator.assertion_failed"),
    ("sum(max(X[j], over=j) + X[k], over=k) == 5", [2, 1, -4], [2, 2, 2], "operator.assertion_failed"),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "good", "bad", "code"), FORMS, ids=[f"{c}-{m[-9:]}" for c, _, _, m in FORMS])
def test_assertions_are_tested_before_a_call(condition: str, good: list[int], bad: list[int], code: str) -> None:
    op = asserting(condition)
    np.testing.assert_array_equal(op(ints(*good)), good)
    for call in (op, op.reference):
        with pytest.raises(PreconditionError) as caught:
            call(ints(*bad))
        assert code == caught.value.code
        assert caught.value.span is not None and caught.value.span.line == 4
    assert isinstance(caught.value, BoundsError)


def test_preconditions_are_skipped_without_checks() -> None:
    op = asserting("X[i] > 0")
    assert op.check_bounds
    op.check_bounds = False
    np.testing.assert_array_equal(op(ints(0)), [0])
    op.check_bounds = True
    with pytest.raises(PreconditionError):
        op(ints(0))


def test_preconditions_add_no_checks_of_accesses() -> None:
    """Accesses that are all proved to be inside are compiled without checks, also beside assertions."""
    op = asserting("X[i] > 0")
    op(ints(1))
    assert op.check_bounds and list(op.plain.modules) == [False]


def test_outputs_are_unchanged_after_a_violation() -> None:
    op, out = asserting("X[i] > 0"), ints(7, 7)
    with pytest.raises(PreconditionError):
        op(ints(1, -1), out=out)
    np.testing.assert_array_equal(out, [7, 7])


def test_assertions_bound_their_own_accesses_in_order() -> None:
    """A range between data that is wrong is not visited."""
    text = "ptr: int32[m + 1]\ncol: int32[p]\nassert 0 <= ptr[i] <= p\nassert all(col[q] > 0 for q in range(ptr[i], ptr[i + 1]))\n"
    op = operator("f", text + "i: range(m)\nY[i] = ptr[i]")
    with pytest.raises(PreconditionError, match="0.*999999999.*2"):
        op(ints(0, 999999999), ints(1, 1))
    other = operator("f", text.replace("assert 0 <= ptr[i] <= p\n", "") + "i: range(m)\nY[i] = ptr[i]")
    with refuses("call.index_out_of_range", error=BoundsError):
        other(ints(0, 999999999), ints(1, 1))


def test_tensors_of_assertions_alone_are_inputs() -> None:
    op = asserting("X[i] < L[0]", "X: int32[n]\nL: int32[1]")
    assert [t.name for t in op.inputs] == ["X", "L"]
    with pytest.raises(PreconditionError, match="5 < 5"):
        op(ints(1, 5), ints(5))


def test_strided_arrays_are_tested() -> None:
    op = asserting("X[i] <= X[i + 1]")
    with pytest.raises(PreconditionError, match="`i = 1`"):
        op(ints(1, 9, 4, 9, 2, 9)[::2])


def test_ranges_of_lines_above_hold_for_assertions() -> None:
    op = operator(
        "f",
        "X: int32[9]\ni: range(3)\nassert X[i] > 0\nfor k in range(5, 7): assert X[k] == 4\nj: range(9)\nY[j] = X[j]",
    )
    op(ints(1, 1, 1, 0, 0, 4, 4, 0, 0))
    with pytest.raises(PreconditionError, match="`k = 6`"):
        op(ints(1, 1, 1, 0, 0, 4, 0, 0, 0))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64", "uint64", "float16", "float32", "float64"])
def test_assertions_compare_in_the_types_of_tensors(dtype: str) -> None:
    op = asserting("X[i] >= X[i + 1]", f"X: {dtype}[n]")
    most = np.finfo(dtype).max if "float" in dtype else np.iinfo(dtype).max
    op(np.array([most, 1, 1, 0], dtype))
    with pytest.raises(PreconditionError, match="`i = 0`"):
        op(np.array([1, most], dtype))


def test_nan_violates_a_bound() -> None:
    op = asserting("X[i] >= 0", "X: float32[n]")
    with pytest.raises(PreconditionError, match="nan >= 0"):
        op(np.array([1, np.nan], FLOAT))


def test_message_after_a_comma_is_a_hint() -> None:
    with pytest.raises(PreconditionError) as caught:
        asserting('X[i] > 0, "counts are positive"')(ints(0))
    assert caught.value.hint == "counts are positive"


def test_assertions_of_python_stay_python() -> None:
    text = "N = 4\nassert N == {}\nX: float32[N]\nY[i] = X[i]"
    assert not operator("f", text.format(4)).assertions
    with refuses("cell.python_error"):
        operator("f", text.format(5))
    assert not operator("f", "A = te.placeholder((4,), name='A')\nassert A.shape[0] == 4\nB[i] = A[i]").assertions


def test_operators_with_assertions_are_pickled_and_copied() -> None:
    op = asserting("X[i] > 0")
    op(ints(1))
    for made in (pickle.loads(pickle.dumps(op)), copy.copy(op)):
        with pytest.raises(PreconditionError):
            made(ints(0))


REFUSED = [
    ("Y[i] > 0", "notation.assert.reads_computed_tensor"),
    ("Q[i] > 0", "notation.undefined_name"),
    ("X[i, j] > 0", "notation.wrong_index_count"),
    ("X[i]", "notation.assert.not_a_condition"),
    ("X[i] < k", "notation.undefined_name"),
    ("distinct(X[i])", "notation.assert.distinct_without_index"),
    ("distinct(X[q] for q in range(X[0], X[1]))", "notation.assert.distinct_without_index"),
    ("distinct(X[i], over=k)", "notation.assert.unused_index"),
    ("argmax(X[i], over=i) == 0", "notation.assert.unsupported"),
    ("sum(X[i] > 0, over=i) < 3", "notation.assert.reduction_of_bools"),
    ("all(X[q] > 0 for q in X)", "notation.assert.wrong_range"),
    ("X[i] < Z[i]", "notation.assert.wrong_range"),
    ("X[2 * i + j] < 3", "notation.assert.unknown_range"),
]


@pytest.mark.parametrize(("condition", "code"), REFUSED, ids=[c for c, _ in REFUSED])
def test_unclear_assertions_are_refused_with_their_place(condition: str, code: str) -> None:
    text = f"X: int32[n]\nZ: int32[m]\nY[i] = X[i]\nassert {condition}"
    with pytest.raises(NotationError) as caught:
        operator("f", text)
    assert code == caught.value.code and caught.value.span is not None and caught.value.span.line == 5


def seconds(op: Operator, *inputs: np.ndarray) -> float:
    op.test_preconditions(inputs)
    times = []
    for _ in range(5):
        begin = time.process_time()
        op.test_preconditions(inputs)
        times.append(time.process_time() - begin)
    return min(times)


def test_tests_take_time_linear_in_their_loops() -> None:
    """Rows times entries would be 10,000 times as many steps as there are entries."""
    text = "ptr: int32[m + 1]\ncol: int32[p]\nassert all(0 <= col[q] < 9 for q in range(ptr[i], ptr[i + 1]))\nassert distinct(ptr[i], over=i)\n"
    op = operator("f", text + "for i in range(m): Y[i] = ptr[i]")

    def inputs(m: int) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(0, 20 * m + 1, 20, dtype=INT), np.zeros(20 * m, INT)

    assert seconds(op, *inputs(40_000)) < 40 * max(seconds(op, *inputs(10_000)), 2e-4)
    assert seconds(op, *inputs(40_000)) < 0.2  # 16 million steps of each of 40,000 rows would take minutes
