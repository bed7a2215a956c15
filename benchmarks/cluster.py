"""`python -m benchmarks.cluster [--trials 200] [--workers 1,2]`

How long a search of so many trials takes with one and with more workers of a Dask cluster on this machine. Workers of one
machine build beside each other and measure one at a time; on machines of their own they would do both at once.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from tvmagic.operators import operator
from tvmagic.tune import tune_operator

TEXT = "A: float32[128, 128]\nB: float32[128, 128]\nC[i, j] += A[i, k] * B[k, j]"


def seconds_of(trials: int, workers: int) -> tuple[float, int]:
    """Seconds of a search with so many workers, which are there when it begins; and how many trials there were."""
    from distributed import LocalCluster

    options: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    made: Any = LocalCluster(n_workers=workers, **options)
    with made as cluster:
        begin = time.perf_counter()
        result = tune_operator(operator("product", TEXT), trials, seconds=3600, threads=1, on=cluster.scheduler_address)
        return time.perf_counter() - begin, len(result.trials)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--workers", default="1,2")
    options = parser.parse_args()
    for count in map(int, options.workers.split(",")):
        seconds, trials = seconds_of(options.trials, count)
        print(f"{count} workers on {os.cpu_count()} cores: {trials} trials in {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
