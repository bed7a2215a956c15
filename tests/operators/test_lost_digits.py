"""Sums so long that their dtype keeps too few digits: they are named, and what is said to write keeps the digits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvmagic.operators import Operator, operator
from tvmagic.operators.comparison import as_list, expected_values
from tvmagic.operators.lost_digits import lost_digits

MANY = 1 << 19


def said(op: Operator, count: int = MANY, run: bool = True) -> tuple[str, ...]:
    x = np.full(count, 0.1, op.inputs[0].dtype)
    return lost_digits(op, [x], expected_values(op, [x]), as_list(op(x)) if run else None)


def digits(op: Operator, count: int = MANY) -> float:
    """The largest error relative to the largest value."""
    x = np.full(count, 0.1, op.inputs[0].dtype)
    expected = expected_values(op, [x]).values
    pairs = [(np.asarray(got, "float64"), wanted.value) for got, wanted in zip(as_list(op(x)), expected)]  # type: ignore[union-attr]
    return max(float(abs(got - wanted).max() / abs(wanted).max()) for got, wanted in pairs)


CELLS = [
    ("X: float32[n]", "Y[()] += X[k]", "Y[()] = float32(sum(float64(X[k]), over=k))"),
    ("X: float32[n]", "Y[()] = mean(X[k], over=k)", "Y[()] = float32(mean(float64(X[k]), over=k))"),
    ("X: float32[n]", "Y[()] = sum(X[k], over=k) / n", "Y[()] = float32(sum(float64(X[k]), over=k)) / n"),
    ("X: float32[n]", "Y[()] = sum(X[k] for k in range(n))", "Y[()] = float32(sum((float64(X[k]) for k in range(n))))"),
    ("X: float32[n]\nY[()] = X[0]", "Y[()] += X[k]", "Y[()] = Y[()] + float32(sum(float64(X[k]), over=k))"),
    ("X: float16[n]", "Y[()] = mean(X[k], over=k)", "Y[()] = float16(mean(float64(X[k]), over=k))"),
    ("X: float16[n]", "Y[()] += X[k] / 1024", "Y[()] = float16(sum(float64(X[k] / 1024), over=k))"),
    ("X: float16[n]", "Y[()] += float32(X[k])", "Y[()] = float32(sum(float64(float32(X[k])), over=k))"),
    ("X: float16[n]\nr: range(2)", "Y[()] += X[k] * r / 1024", "Y[()] = float16(sum(float64(X[k] * r / 1024), over=(k, r)))"),
]  # fmt: skip


@pytest.mark.parametrize(("head", "statement", "better"), CELLS)
def test_what_is_said_keeps_the_digits(head: str, statement: str, better: str) -> None:
    op = operator("total", f"{head}\n{statement}")
    (sentence,) = said(op)
    assert "terms in float32" in sentence
    assert f"`{better}`" in sentence
    typed = operator("total", f"{head}\n{better}")
    assert [str(t.dtype) for t in typed.outputs] == [str(t.dtype) for t in op.outputs]
    assert said(typed) == ()
    assert digits(op) > 1e-3 > digits(typed)


def test_the_bound_alone_tells_of_sums_longer_than_float32_counts() -> None:
    op = operator("mean", "X: float32[n]\nY[()] = mean(X[k], over=k)")
    assert said(op, 1 << 25, run=False)
    assert not said(op, 1 << 14, run=False)


@pytest.mark.parametrize(
    "cell",
    [
        "X: float32[n]\nY[k] = exp(X[k])",
        "X: float64[n]\nY[()] += X[k]",
        "X: float32[n]\nY[()] = max(X[k], over=k)",
        "X: float32[n]\nY[()] += int32(X[k])",
    ],
)
def test_nothing_is_said_of_what_keeps_its_digits(cell: str) -> None:
    assert said(operator("kept", cell)) == ()


def test_calls_of_te_are_told_to_convert_the_terms() -> None:
    cell = "X: {}[n]\nk = te.reduce_axis((0, X.shape[0]), 'k')\nY = te.compute((1,), lambda i: te.sum(X[k]{}, axis=k), name='Y')"
    (sentence,) = said(operator("total", cell.format("float32", "")))
    assert '`te.sum(X[k].astype("float64"), axis=k)`' in sentence
    assert said(operator("total", cell.format("float32", '.astype("float64")'))) == ()
    (sentence,) = said(operator("total", cell.format("float16", "")), 4096)
    assert '`te.sum(X[k].astype("float32"), axis=k)`' in sentence


def test_definitions_by_programs_are_left_out() -> None:
    text = """@T.prim_func
def total(X: T.Buffer((524288,), "float32"), Y: T.Buffer((1,), "float32")):
    Y[0] = 0.0
    for k in range(524288):
        Y[0] = Y[0] + X[k]"""
    values: Any = [np.full(MANY, 0.1, "float32")]
    op = operator("total", text)
    assert lost_digits(op, values, expected_values(operator("t", "X: float32[524288]\nY[()] += X[k]"), values)) == ()


def test_check_names_the_statement_that_keeps_the_digits() -> None:
    notes = operator("total", f"X: float32[{MANY}]\nY[()] += X[k]").check().notes
    assert any("write `Y[()] = float32(sum(float64(X[k]), over=k))`" in note for note in notes)
    assert not operator("rows", "X: float32[4, 4096]\nY[i] += X[i, k]").check().notes
