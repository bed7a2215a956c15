"""The cost model and its features."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import numpy as np
import pytest
from tools import needs

from tvmagic.codegen import last_program
from tvmagic.ir import IRModule
from tvmagic.operators import operator
from tvmagic.target import resolved
from tvmagic.tune import CostModel, random_schedule, rank_correlation
from tvmagic.tune.features import NAMES, features_of

TARGET = resolved("llvm -mcpu=haswell")
MACHINE = replace(TARGET.machine, cores=2)
MATMUL = "X: float32[64, 64]\nW: float32[64, 64]\nY[i, j] += X[i, k] * W[k, j]"


def features(text: str, schedule=lambda sch: None) -> dict[str, float]:
    op = operator("f", text)
    sch = op.schedule()
    schedule(sch)
    values = features_of(last_program(op.lower(sch), TARGET), MACHINE)
    assert len(values) == len(NAMES) and all(math.isfinite(v) for v in values)
    return dict(zip(NAMES, values))


@pytest.mark.parametrize(
    "text",
    [
        MATMUL, "X: float32[n, 6]\nY[i] += X[i, k]", "X: float32[9]\nS[()] += X[i]", "X: int32[5]\nI: int32[4]\nY[i] = X[I[i]]",
        "X: float32[16]\nY[i] = exp(X[i]) if X[i] > 0 else 0", "X: float32[20]\nY: float32[20]\nY[i] = X[i - 1] if 1 <= i < 16 else 0",
    ],
)  # fmt: skip
def test_every_program_has_the_same_number_of_features(text: str) -> None:
    features(text)
    func = operator("f", text).to_prim_func()
    op = operator("f", text)
    for seed in range(2):
        values = features_of(last_program(op.lower(random_schedule(func, seed, 32)), TARGET), MACHINE)
        assert len(values) == len(NAMES) and all(math.isfinite(v) for v in values)
    assert len(features_of(IRModule({}), MACHINE)) == len(NAMES)


def test_features_tell_what_a_schedule_changes() -> None:
    plain = features(MATMUL)
    assert plain["iterations of nest 1"] == pytest.approx(math.log2(64 * 64 * 63 + 1)), (
        "sums begin in a loop of their own"
    )
    assert plain["lanes of nest 1"] == 1.0 and plain["share of parallel loops"] == 0.0  # log2(1 + 1)

    def vectors(sch) -> None:
        i, j, k = sch.get_loops(sch.get_block("Y"))
        _, lane = sch.split(j, [None, 16])
        sch.reorder(k, lane)
        sch.vectorize(lane)
        sch.parallel(i)

    tiled = features(MATMUL, vectors)
    assert tiled["lanes of nest 1"] == pytest.approx(math.log2(17)) and tiled["share of vectors"] > 0.9
    assert tiled["share of parallel loops"] == 1.0 and tiled["starts of threads"] == 1.0
    assert tiled["cycles"] < plain["cycles"]


def test_a_program_without_loops_has_features_of_zero() -> None:
    assert features_of(IRModule({}), MACHINE) == [0.0] * len(NAMES)


def test_traffic_follows_from_what_fits_into_a_cache() -> None:
    large = "X: float32[1024, 1024]\nW: float32[1024, 1024]\nY[i, j] += X[i, k] * W[k, j]"

    def blocks(sch) -> None:
        i, j, k = sch.get_loops(sch.get_block("Y"))
        (i0, i1), (j0, j1), (k0, k1) = (sch.split(loop, [None, 32]) for loop in (i, j, k))
        sch.reorder(i0, j0, k0, i1, k1, j1)

    plain, blocked = features(large), features(large, blocks)
    name = "bytes from L2 of nest 1"
    assert plain[name] - blocked[name] > 3, "an eighth or less comes from beyond the first cache"


@pytest.mark.parametrize("boosted", [False, pytest.param(True, marks=needs("lightgbm"))])
def test_it_learns_and_ranks_what_it_has_not_seen(boosted: bool) -> None:
    random = np.random.default_rng(0)
    rows = random.uniform(0, 4, (160, 12))
    times = 2.0 ** (rows[:, 0] + 0.5 * rows[:, 1] - 0.7 * rows[:, 2])
    model = CostModel(boosted)
    assert not model.ready
    with pytest.raises(ValueError):
        model.predict(rows[:1])
    model.fit(rows[:3], times[:3])
    assert not model.ready, "three times tell nothing"
    model.fit(rows[:120], times[:120])
    assert model.ready and rank_correlation(model.predict(rows[120:]), times[120:]) > (0.8 if boosted else 0.95)
    assert (model.name == "gradient boosting") == boosted and bool(model.note) == (not boosted)


def test_without_lightgbm_it_is_a_regression_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    model = CostModel(True)
    model.fit(np.eye(10), np.arange(10) + 1.0)
    assert model.fitted is not None and "pip install 'tvmagic[tune]'" in model.note
    assert all(math.isfinite(v) for v in model.predict(100 * np.eye(10)))


@pytest.mark.parametrize(
    "first, second, wanted",
    [
        ([1, 2, 3, 4], [10, 20, 30, 40], 1.0), ([1, 2, 3, 4], [4, 3, 2, 1], -1.0), ([1, 2, 3], [1, 3, 2], 0.5),
        ([1, 1, 2, 3], [5, 5, 7, 9], 1.0), ([1, 2, 2, 3], [1, 3, 2, 4], 0.9486832980505138),
    ],
)  # fmt: skip
def test_rank_correlation(first: list[float], second: list[float], wanted: float) -> None:
    assert rank_correlation(first, second) == pytest.approx(wanted)


def test_rank_correlation_of_what_does_not_vary_is_unknown() -> None:
    assert math.isnan(rank_correlation([1, 1], [1, 2])) and math.isnan(rank_correlation([], []))
