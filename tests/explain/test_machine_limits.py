"""What limits an operator, by kept peaks and by the model; what `%bench` says of it."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest
from refusals import refuses

from tvmagic import runtime
from tvmagic.explain.machine_limits import HERTZ, roof_of
from tvmagic.notebook.commands import bench_table
from tvmagic.operators import operator
from tvmagic.operators.measure import Baseline, Benchmark, Timing, Work, work_of
from tvmagic.operators.peaks import Peaks, kept_peaks
from tvmagic.target import resolved

LARGE = 1 << 33  # bytes that no cache holds


@pytest.fixture(autouse=True)
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("TVMAGIC_CACHE", str(tmp_path))
    return tmp_path


def keep(folder: pathlib.Path, flops: float, bandwidth: float) -> None:
    machine = resolved(None).machine
    key = f"{resolved('llvm').machine.name}, {machine.vector_bits} bits, {machine.vector_registers} registers"
    (folder / "machine.json").write_text(json.dumps({key: [flops, bandwidth]}))


def test_the_work_of_a_call_follows_from_its_sizes() -> None:
    op = operator("mm", "A: float32[n, 8]\nB: float32[8, m]\nC[i, j] += A[i, k] * B[k, j]")
    inputs = op.random_inputs(0, {"n": 16, "m": 4})
    assert work_of(op, inputs) == Work(2 * 16 * 8 * 4, 4 * (16 * 8 + 8 * 4 + 16 * 4), 32)
    counts = operator("counts", "A: int8[64, 8]\nC[i] += int32(A[i, j])")
    assert work_of(counts, counts.random_inputs()) == Work(0, 64 * 8 + 64 * 4, 0)


def test_kept_peaks_are_used_and_the_model_without_them(cache: pathlib.Path) -> None:
    threads, machine = runtime.num_threads(), resolved(None).machine
    busy, moving = Work(10**12, LARGE, 32), Work(1, LARGE, 32)
    assert kept_peaks() is None
    model = roof_of(busy)
    assert model.unit == "GFLOP/s" and "by the model, at 3 GHz" in model.words
    assert model.peak == 2 * machine.lanes("float32") * machine.fma_per_cycle * HERTZ * threads
    assert roof_of(moving).unit == "GB/s" and "by the model" in roof_of(moving).words
    keep(cache, 1e11, 2e10)
    assert kept_peaks() == Peaks(1e11, 2e10)
    assert roof_of(busy).peak == pytest.approx(1e11 * threads) and "measured by `%machine`" in roof_of(busy).words
    assert roof_of(moving).peak == 2e10 and roof_of(moving).share(LARGE / 1e10) == pytest.approx(0.5)
    assert roof_of(moving).rate(LARGE / 1e10) == pytest.approx(10)


def test_doubles_have_half_the_peak_and_halves_that_of_floats(cache: pathlib.Path) -> None:
    keep(cache, 1e11, 2e10)
    single, double, half = (roof_of(Work(10**12, 1, bits)).peak for bits in (32, 64, 16))
    assert double == pytest.approx(single / 2) and half == single


def test_what_a_cache_holds_is_measured_against_that_cache(cache: pathlib.Path) -> None:
    keep(cache, 1e11, 2e10)
    roofs = [roof_of(Work(1, size, 32)) for size in (1024, resolved(None).machine.cache(1) + 1, LARGE)]
    assert [("which L1 holds" in r.words, "which L2 holds" in r.words) for r in roofs] == [(1, 0), (0, 1), (0, 0)]
    assert roofs[0].peak > roofs[1].peak > roofs[2].peak


def test_a_target_that_is_no_cpu_has_no_roof() -> None:
    with refuses("target.not_a_cpu"):
        roof_of(Work(1, 1, 32), "cuda")


def test_the_table_has_rate_and_share_and_says_if_more_was_reached(cache: pathlib.Path) -> None:
    keep(cache, 1e11 / runtime.num_threads(), 2e10)
    op = operator("f", "A: float32[4]\nB[i] = A[i] + 1.0")
    rows = [("V", Timing(2.0, 1.0, 10)), ("NumPy", Timing(4.0, 2.0, 10))]
    baselines = [Baseline("NumPy", lambda: np.zeros(1), "one call")]
    table = bench_table(Benchmark(op, rows, baselines, work=Work(5 * 10**10, 1, 32)))
    assert table.columns == ["version", "best, times NumPy's speed", "median, ratio", "GFLOP/s", "of peak", "calls"]
    assert table.rows[0] == ["V", "1.0 s, 2.00", "2.0 s, 2.00", "50", "50%", 10] and table.rows[1][3:5] == ["25", "25%"]
    assert max(map(len, table.text(False).split("\n")[:5])) <= 80 and "more was reached" not in table.text(False)
    table = bench_table(Benchmark(op, rows, baselines, work=Work(3 * 10**11, 1, 32)))
    assert table.rows[0][4] == "300%" and "more was reached" in table.text(False) and "300%" in table.html()
