"""The cost model: from features of lowered programs to the logarithm of their times, learned while the search runs.

What it knows before anything was measured are the cycles of `%why`'s model (`features.rough`). It learns what times differ
from it by, and believes that the more, the more times it has seen: a model of a dozen times ranks worse than the cycles.
It learns by LightGBM's gradient boosting, if it is installed (3.5 MB; it takes its number of threads as a parameter, so
that a fit is 0.1 s even beside measurements). Without it a ridge regression on the same features, which is worse at what
interacts.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvmagic.tools import LIGHTGBM
from tvmagic.tune.features import rough

_FEWEST = 8  # times without which nothing is learned
_SMALL = 60  # times up to which trees are small, as large ones would learn by heart
_HALF = 40  # times at which what was learned counts half
_HALF_OF_RIDGE = 200
_FLATTEST = 0.1  # slope of times over cycles


class CostModel:
    """Predicts seconds; by gradient boosting if `boosted` and LightGBM is there."""

    def __init__(self, boosted: bool = True) -> None:
        self.boosted = boosted and LIGHTGBM.find() is not None
        self.fitted: Any = None
        self.line: Callable[[np.ndarray], np.ndarray] = lambda cycles: cycles
        self.belief = 0.0
        if self.boosted:  # it takes a second, in which the search has other things to wait for
            threading.Thread(target=_lightgbm, daemon=True).start()

    @property
    def name(self) -> str:
        """What it learns with."""
        return "gradient boosting" if self.boosted else "ridge regression"

    @property
    def note(self) -> str:
        """What is missing for a better one; empty if nothing is."""
        missing = "the cost model is a ridge regression, as `lightgbm` is not there (pip install 'tvmagic[tune]')"
        return "" if self.boosted else missing

    @property
    def ready(self) -> bool:
        """Whether it has learned from enough times to predict others."""
        return self.fitted is not None

    def fit(self, features: Sequence[Sequence[float]], seconds: Sequence[float]) -> None:
        """Learn from programs and their times; fast ones count more, as the search is about them."""
        if len(seconds) < _FEWEST:
            return
        rows, times = np.asarray(features, dtype=np.float64), np.log2(np.asarray(seconds, dtype=np.float64))
        weights = 1.0 / (1.0 + (times - times.min()))
        lightgbm = _lightgbm() if self.boosted else None
        self.boosted = lightgbm is not None
        cycles = rough(rows)
        self.line = _line(cycles, times)
        left = times - self.line(cycles)
        self.fitted = _boosted(lightgbm, rows, left, weights) if lightgbm else _Ridge(rows, left, weights)
        half = _HALF if lightgbm else _HALF_OF_RIDGE
        self.belief = len(seconds) / (len(seconds) + half) if np.ptp(cycles) else 1.0

    def score(self, features: Sequence[Sequence[float]]) -> list[float]:
        """The logarithm of the times of programs; before it has learned, of their cycles, by which they can be ranked."""
        rows = np.asarray(features, dtype=np.float64)
        if self.fitted is None:
            return rough(rows).tolist()
        return (self.line(rough(rows)) + self.belief * np.asarray(self.fitted.predict(rows))).tolist()

    def predict(self, features: Sequence[Sequence[float]]) -> list[float]:
        """Seconds of programs; raises `ValueError` before it is `ready`."""
        if self.fitted is None:
            raise ValueError("the model has learned nothing yet")
        return [2.0**v for v in self.score(features)]


def _line(cycles: np.ndarray, times: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The straight line from cycles to times, both logarithms, that rises."""
    if not np.ptp(cycles):
        return lambda x: np.full(len(x), float(times.mean()))
    slope = max(float(np.polyfit(cycles, times, 1)[0]), _FLATTEST)
    start = float(np.mean(times - slope * cycles))
    return lambda x: slope * x + start


def _boosted(lightgbm: Any, rows: np.ndarray, times: np.ndarray, weights: np.ndarray) -> Any:
    small = len(times) <= _SMALL
    options = {
        "objective": "regression", "learning_rate": 0.05 if small else 0.1, "num_leaves": 4 if small else 15,
        "min_data_in_leaf": 4 if small else 2,
        "min_data_in_bin": 1, "feature_fraction": 0.6, "bagging_fraction": 0.8, "bagging_freq": 1,
        "lambda_l2": 0.1, "num_threads": 1, "verbosity": -1, "deterministic": True, "seed": 0,
    }  # fmt: skip
    data = lightgbm.Dataset(rows, times, weight=weights, free_raw_data=True)
    return lightgbm.train(options, data, 30 if small else 120)


def _lightgbm() -> Any:
    try:
        import lightgbm
    except (ImportError, OSError):  # OSError: its library does not load on this system
        return None
    return lightgbm


class _Ridge:
    """Linear regression on standardized features, with a penalty that keeps it calm while there are few times."""

    def __init__(self, rows: np.ndarray, times: np.ndarray, weights: np.ndarray) -> None:
        self.mean, self.scale = rows.mean(axis=0), rows.std(axis=0)
        self.scale[self.scale < 1e-9] = np.inf
        self.low, self.high = float(times.min()) - 1.0, float(times.max()) + 1.0
        x = np.column_stack([self._standard(rows), np.ones(len(rows))])
        penalty = np.full(x.shape[1], 2.0)
        penalty[-1] = 1e-6
        root = np.sqrt(weights)[:, None]
        left = (x * root).T @ (x * root) + np.diag(penalty)
        self.factors = np.linalg.solve(left, (x * root).T @ (times * root[:, 0]))

    def _standard(self, rows: np.ndarray) -> np.ndarray:
        return (rows - self.mean) / self.scale

    def predict(self, rows: np.ndarray) -> np.ndarray:
        values = np.column_stack([self._standard(rows), np.ones(len(rows))]) @ self.factors
        return np.clip(values, self.low, self.high)


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's: 1 if both order alike, -1 if oppositely; equal values share their ranks. NaN if one does not vary."""
    a, b = _ranks(first), _ranks(second)
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return math.nan
    return float(np.corrcoef(a, b)[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    _, places, counts = np.unique(array, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[places]
