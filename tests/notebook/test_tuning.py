"""What `%tune` shows: the picture of a search, its tables."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

import pytest

from tvmagic.notebook.pictures.search import search_picture
from tvmagic.notebook.tuning import Tuned, TuningProgress
from tvmagic.operators import Version, operator
from tvmagic.tune import Trial, TuneResult
from tvmagic.tune.candidate import Candidate
from tvmagic.tune.finalize import Choice, Standing

TRIAL = Trial(1, "random", Candidate.of_seed(1, 32), 1e-3)


def trials(*seconds: float | None, predicted: float | None = None) -> list[Trial]:
    return [replace(TRIAL, number=n + 1, seconds=s, predicted=predicted) for n, s in enumerate(seconds)]


def dots(svg: str) -> list[str]:
    """The titles of the points of a picture, which has to be XML."""
    return [e.findtext("{*}title", "") for e in ET.fromstring(svg).iter() if e.tag.endswith("circle")]


def test_the_picture_has_a_point_for_each_trial_that_is_right() -> None:
    picture = search_picture("a<b", trials(3e-3, None, 2e-3, 1.0))
    assert dots(picture.svg) == ["trial 1: 3.0 ms", "trial 3: 2.0 ms", "trial 4: 1.0 s"]
    assert picture.words == "4 trials, best 2.0 ms" and "a&lt;b" in picture.html()
    with_model = search_picture("f", trials(3e-3, 2e-3, predicted=2.5e-3), 0.5)
    assert dots(with_model.svg)[2:] == ["predicted 2.5 ms, measured 3.0 ms", "predicted 2.5 ms, measured 2.0 ms"]
    assert with_model.words.endswith("rank correlation of predicted and measured times 0.50")


@pytest.mark.parametrize("seconds", [[1e-9], [1e-3, 1e-3], [1e-6, 1e-3, 1.0, 1000.0]])
def test_any_times_can_be_drawn(seconds: list[float]) -> None:
    root = ET.fromstring(search_picture("f", trials(*seconds, predicted=2.0)).svg)
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    points = [e for e in root.iter() if e.tag.endswith("circle")]
    assert len(points) == 2 * len(seconds)
    assert all(0 <= float(p.get("cx", "")) <= width and 0 <= float(p.get("cy", "")) <= height for p in points)


def test_a_search_without_a_right_result_has_words_alone() -> None:
    assert search_picture("f", trials(None, None)).svg == ""


def result(*standings: Standing, **options: Any) -> Tuned:
    op = operator("rows", "X: float32[16, 64]\nY[i] += X[i, k]")
    choice = Choice(Version(op, op.schedule(), "tuned"), True, True, standings)
    return Tuned(TuneResult(op, tuple(options.pop("trials", ())), choice, "np.sum(X)", 3.0, "a model", **options))


def test_the_table_tells_what_is_current_and_what_was_stopped() -> None:
    shown = result(Standing("tuned", 2e-3, True), Standing("plain", math.inf), Standing("NumPy", 1e-3))
    text = shown.text(colour=False)
    rows = [line.split() for line in text.split("\n")[3:6]]
    assert rows == [["tuned", "2.0", "ms", "0.50", "current"], ["plain", "stopped"], ["NumPy", "1.0", "ms", "1.00"]]
    assert "calls of rows use `tuned` now" in text and "NumPy: np.sum(X)" in text
    assert shown.cell == "%%schedule rows -n tuned\npass  # the plain loops"


def test_a_search_without_a_trial_says_what_it_gives() -> None:
    shown = result(Standing("tuned", 2e-3, True), notes=("there was no time for a trial",))
    text = shown.text(colour=False)
    assert "rows: the instant schedule, after 3.0 s" in text and "no time for a trial" in text


def test_the_trials_are_sorted_and_say_how_the_model_did() -> None:
    measured = [replace(t, predicted=t.seconds) for t in trials(*(1e-3 * n for n in range(20, 0, -1)))]
    failed = replace(TRIAL, number=21, seconds=None, error="it fell over")
    text = result(Standing("tuned", 1e-3), trials=[*measured, failed]).text(colour=False)
    assert "failed" in text and "it fell over" in text and "left out of the table: 8" in text
    assert "the rank correlation of predicted and measured times is 1.00, over 20 schedules" in text


def test_progress_is_a_line_in_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    op = operator("rows", "X: float32[16, 64]\nY[i] += X[i, k]")
    progress = TuningProgress(op, 9, 60.0)
    progress.terminal = True
    progress(TRIAL, TRIAL)
    progress(replace(TRIAL, number=2), TRIAL)  # too soon after the first
    progress.end()
    shown = capsys.readouterr().err
    assert "0 of 60 s, trial 1 of 9: best 1.0 ms (trial 1)" in shown and "trial 2 of" not in shown
