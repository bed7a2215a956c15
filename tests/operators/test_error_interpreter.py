"""Interpretation with error bounds: conditions that rounding leaves open."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tvmagic.eval.lanes import OutOfRange
from tvmagic.operators import Operator
from tvmagic.operators.error_interpreter import run_with_errors
from tvmagic.script import from_source
from tvmagic.te.error_bound import parts


def function(text: str, parameters: str = 'X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")') -> Any:
    """A function of TensorIR with the given statements."""
    body = "\n".join(f"    {line}" for line in text.split("\n"))
    return from_source(f"@T.prim_func\ndef f({parameters}):\n{body}")


@pytest.mark.parametrize("tag", ["", "threadIdx.x"])
def test_select_and_not_follow_rounding(tag: str) -> None:
    loop = f'for i in T.thread_binding(8, thread="{tag}"):' if tag else "for i in range(8):"
    body = f"""{loop}
    third: T.float32 = X[i] / T.float32(3)
    Y[i] = T.if_then_else(not third > T.float32(0.2), third * third, T.exp(X[i])) + T.Select(X[i] > T.float32(0), third, X[i])"""
    op = Operator.from_prim_func("f", function(body))
    x = np.linspace(-1, 2, 8).astype("float32")
    value, error = parts(run_with_errors(op, [x]).values[0])
    wide = x.astype("float64")
    expected = np.where(wide / 3 <= 0.2, (wide / 3) ** 2, np.exp(wide)) + np.where(wide > 0, wide / 3, wide)
    assert np.allclose(value, expected, rtol=1e-12) and error is not None
    assert (np.abs(op.plain(x) - expected) <= error).all() and (error < 1e-5).all()
    assert op.check().ok


@pytest.mark.parametrize(
    ("condition", "is_open"),
    [
        ("third > c and X[i] > T.float32(0)", True),
        ("third > c and X[i] < T.float32(0)", False),
        ("X[i] > T.float32(0) and third > c", True),
        ("X[i] < T.float32(0) and third > c", False),
        ("third > c or X[i] < T.float32(0)", True),
        ("third > c or X[i] > T.float32(0)", False),
        ("X[i] > T.float32(0) or third > c", False),
        ("X[i] < T.float32(0) or third > c", True),
    ],
)
def test_open_condition_takes_both_sides(condition: str, is_open: bool) -> None:
    """The other operand is looked at where the first leaves open what holds; both sides of a choice are then possible."""
    third = float(np.float32(1) / np.float32(3))
    body = f"""for i in range(8):
    third: T.float32 = X[i] / T.float32(3)
    c: T.float32 = T.float32({third!r})
    Y[i] = T.if_then_else({condition}, T.float32(64), T.float32(-64))"""
    op = Operator.from_prim_func("f", function(body))
    x = np.array([1, 1, 2, 4, 1, 0.5, 0.25, 1], "float32")
    value, error = parts(run_with_errors(op, [x]).values[0])
    holds = {"third": x.astype("float64") / 3 > third, "more": x > 0, "less": x < 0}
    first, word, second = re.fullmatch(r"(.*) (and|or) (.*)", condition).groups()  # type: ignore[union-attr]
    a, b = (holds["third" if "third" in side else "more" if ">" in side else "less"] for side in (first, second))
    expected = np.where(a & b if word == "and" else a | b, 64, -64)
    wide = np.zeros(8) if error is None else np.broadcast_to(error, 8)
    assert (np.abs(value - expected) <= wide).all()
    assert ((wide >= 128) == ((x == 1) & is_open)).all() and (wide[x != 1] == 0).all()


@pytest.mark.parametrize(
    ("value", "x", "plain", "open_at"),
    [
        (
            "T.if_then_else(third > c and X[i + 1] > T.float32(2), 64, -64)",
            [0.5, 1, 4, 0.25, 1, 0.25, 4, 0.25],
            [-64, None, -64, -64, -64, -64, -64, -64],
            {1: 128},
        ),
        (
            "T.if_then_else(third > c or X[i + 1] > T.float32(2), 64, -64)",
            [4, 1, 0.5, 4, 1, 4, 0.25, 4],
            [64, None, 64, 64, 64, 64, 64, 64],
            {1: 128},
        ),
        (
            "T.if_then_else(third > c, X[i + 1], X[i - 1])",
            [4, 1, 2, 0.25, 4, 1, 8, 0.25],
            [1, None, 0.25, 2, 1, None, 0.25, 8],
            {1: 2, 5: 4},
        ),
        (
            "T.if_then_else(X[1] > T.float32(2), X[i - 1 + i // 9], X[(i + 1) % 8])",
            [4, 1, 2, 3, 5, 6, 8, 7],
            [1, 2, 3, 5, 6, 8, 7, 4],
            {},
        ),
    ],
)
def test_skipped_lanes_are_not_read(
    value: str, x: list[float], plain: list[float | None], open_at: dict[int, float]
) -> None:
    """Neither outside the array in the lanes that are off, nor elsewhere in those that rounding leaves open."""
    third = float(np.float32(1) / np.float32(3))
    words = re.sub(r"\b-?64\b", lambda m: f"T.float32({m[0]})", value)
    body = f"""for i in range(8):
    third: T.float32 = X[i] / T.float32(3)
    c: T.float32 = T.float32({third!r})
    Y[i] = {words.replace("-T.float32(64)", "T.float32(-64)")}"""
    found, error = parts(
        run_with_errors(Operator.from_prim_func("f", function(body)), [np.array(x, "float32")]).values[0]
    )
    wide = np.zeros(8) if error is None else np.broadcast_to(error, 8)
    for i, expected in enumerate(plain):
        assert wide[i] == open_at.get(i, 0) and expected in (None, found[i]), i


@pytest.mark.parametrize(
    "value",
    [
        "T.if_then_else(third > c, X[i + 1], X[i])",
        "T.if_then_else(third > c, X[i], X[i + 1])",
        "T.if_then_else(third > c and X[i + 1] > c, c, third)",
        "T.if_then_else(third > c or X[i + 1] > c, c, third)",
    ],
)
@pytest.mark.parametrize("last", [0.25, 1, 4])
def test_open_lanes_are_read(value: str, last: float) -> None:
    """Outside the array it is an error, also in a lane of which rounding leaves open whether it does."""
    third = float(np.float32(1) / np.float32(3))
    body = f"""for i in range(8):
    third: T.float32 = X[i] / T.float32(3)
    c: T.float32 = T.float32({third!r})
    Y[i] = {value}"""
    op, x = Operator.from_prim_func("f", function(body)), np.array([*[0.5] * 7, last], "float32")
    takes_first = " and " in value or ("X[i + 1], X[i])" in value)
    if last == (0.25 if takes_first else 4):
        run_with_errors(op, [x])
        return
    with pytest.raises(OutOfRange):
        run_with_errors(op, [x])
