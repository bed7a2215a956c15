"""Whole searches on this machine, with the limits that users give."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tvmagic.operators import operator
from tvmagic.tune import Database, load, tune_operator

pytestmark = pytest.mark.soak

MATMUL = "X: float32[{0}, {0}]\nW: float32[{0}, {0}]\nY[i, j] += X[i, k] * W[k, j]"
SOFTMAX = (
    "X: float32[512, 512]\nY[i, j] = exp(X[i, j] - max(X[i, q], over=q))\nZ[i, j] = Y[i, j] / sum(Y[i, q], over=q)"
)


@pytest.mark.parametrize("text", [MATMUL.format(1024), MATMUL.format(333), SOFTMAX], ids=["1024", "333", "softmax"])
def test_a_minute_is_kept_and_the_result_is_no_slower_than_the_instant_schedule(text: str, tmp_path: Path) -> None:
    op, database = operator("f", text), Database(tmp_path / "results.jsonl")
    begun = time.monotonic()
    result = tune_operator(op, seconds=60.0, database=database)
    assert 0.9 * 60 < time.monotonic() - begun < 1.1 * 60 or any("ended early" in note for note in result.notes)
    instant = next(t for t in result.trials if t.origin == "instant")
    assert result.best is not None and (instant.seconds is None or (result.best.seconds or 0.0) <= instant.seconds)
    assert op.check(result.version.name).ok and not [t for t in result.trials if "NOT equal" in t.error]
    assert not load(operator("g", text), database.path).trials


def test_the_model_ranks_schedules_that_it_has_not_seen(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    result = tune_operator(operator("f", MATMUL.format(256)), seconds=90.0, threads=1)
    assert len(result.predictions) > 40 and result.correlation > 0.3
