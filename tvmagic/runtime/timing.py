"""Timing of compiled functions, with TVM's interface."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any


class BenchmarkResult:
    """Times of a function in seconds: one of each repeat, averaged over its runs, in `results`."""

    def __init__(self, results: Sequence[float]) -> None:
        import statistics

        self.results = list(results)
        self.mean = statistics.fmean(self.results)
        self.median = statistics.median(self.results)
        self.min, self.max = min(self.results), max(self.results)
        self.std = statistics.pstdev(self.results)

    def __repr__(self) -> str:
        values = ", ".join(f"{n}={getattr(self, n):.3e}" for n in ("min", "mean", "median", "max", "std"))
        return f"BenchmarkResult({values})"

    def __str__(self) -> str:
        names = ("mean", "median", "max", "min", "std")
        head = "".join(f"{n + ' (ms)':^14}" for n in names)
        return head + "\n" + "".join(f"{getattr(self, n) * 1e3:^14.4f}" for n in names)


def time_evaluator(
    kernel: Any, number: int = 10, repeat: int = 1, min_repeat_ms: float = 0, limit_zero_time_iterations: int = 100
) -> Any:
    """A function of the kernel's arguments that gives a `BenchmarkResult`.

    Each of `repeat` measurements runs the kernel `number` times, or more until it takes
    `min_repeat_ms` milliseconds. One run before is not measured.
    """

    def evaluator(*args: Any) -> BenchmarkResult:
        run = kernel.prepared(*args)
        run()
        runs, results = number, []
        for _ in range(repeat):
            for _ in range(limit_zero_time_iterations):
                begin = time.perf_counter()
                for _ in range(runs):
                    run()
                seconds = time.perf_counter() - begin
                if seconds * 1e3 >= min_repeat_ms:
                    break
                runs = max(int(min_repeat_ms / (seconds * 1e3) * runs) + 1, int(runs * 1.618)) if seconds else runs * 10
            results.append(seconds / runs)
        return BenchmarkResult(results)

    return evaluator
