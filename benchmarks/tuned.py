"""`python -m benchmarks.tuned [--seconds 60] [--threads 1] [--only matmul,softmax] [--out FILE]`

What a search (`%tune`) finds, beside the instant schedule and, for kernels that have one, the schedule by hand: each
kernel is searched for a while with a database of its own, then the versions are interleaved in this process and the
least time of each counts. Then a second session takes the schedule from the database.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import kernels
from benchmarks.kernels import KERNELS, Kernel
from benchmarks.more_kernels import MORE_KERNELS
from benchmarks.sides import Instant, Ours, aligned
from tvmagic import te
from tvmagic.operators import Operator
from tvmagic.runtime import set_num_threads
from tvmagic.tune import Database, TuneResult, load, tune_operator

# The names here, and those of the kernels.
SEARCHED = {
    "matmul 512": "matmul 512", "matmul 1000x777x1023": "matmul odd", "conv2d": "conv2d 3x3", "softmax": "softmax of rows",
    "layer norm": "layer norm", "blur": "blur 3x3", "row sums": "row sums", "transpose": "transpose",
    "attention": "attention",
}  # fmt: skip
ROUNDS, LEAST_SECONDS = 15, 3.0


def found_kernel(name: str) -> Kernel:
    """The kernel of one of the names above; the product of 512 with the schedule by hand of the one of 1024."""
    kernel = next(k for k in [*KERNELS, *MORE_KERNELS] if k.name == SEARCHED[name])
    if name == "matmul 512":
        hand = next(k for k in KERNELS if k.name == "matmul")
        kernels.N = 512
        kernel.plain, kernel.build, kernel.schedule = kernel.build, hand.build, hand.schedule
    return kernel


def operator_of(kernel: Kernel) -> Operator:
    """The operator of a kernel's expression without packing."""
    *inputs, output = (kernel.plain or kernel.build)(te)
    return Operator(kernel.name.replace(" ", "_"), inputs, [output])


def least_times(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The least seconds of each call, interleaved."""
    best = dict.fromkeys(calls, float("inf"))
    rounds, end = 0, time.perf_counter() + LEAST_SECONDS
    while rounds < ROUNDS or time.perf_counter() < end:
        rounds += 1
        for name, call in calls.items():
            for _ in range(2):
                begin = time.perf_counter()
                call()
                best[name] = min(best[name], time.perf_counter() - begin)
    return best


def compared(kernel: Kernel, threads: int, versions: dict[str, Any]) -> dict[str, float]:
    """Seconds of built modules by name, of the instant schedule and of the schedule by hand, interleaved."""
    arrays = [aligned(a) for a in kernel.inputs(np.random.default_rng(0))]
    expected = kernel.numpy(*arrays)
    output = aligned(np.zeros_like(expected))  # of all: where an array is in memory may change times by a fifth
    calls: dict[str, Callable[[], Any]] = {n: b.entry_func.prepared(*arrays, output) for n, b in versions.items()}
    for name, side in (("auto", Instant), ("by hand", Ours)):
        if name == "auto" or kernel.schedule is not None:
            calls[name] = side(threads).runner(kernel, arrays, output)
    limit = kernel.tolerance * max(1.0, float(np.abs(expected).max()))
    for name, call in calls.items():
        output.fill(np.nan)
        call()
        if not float(np.abs(output - expected).max()) <= limit:
            raise SystemExit(f"{kernel.name}: {name} is wrong")
    return least_times(calls)


def measure(name: str, seconds: float, threads: int, seed: int) -> dict[str, Any]:
    """The search of one kernel and what came of it."""
    set_num_threads(threads)
    kernel = found_kernel(name)
    with tempfile.TemporaryDirectory() as folder:
        database = Database(Path(folder) / "tuned.jsonl")
        begin = time.perf_counter()
        result = tune_operator(operator_of(kernel), seconds=seconds, threads=threads, database=database, seed=seed)
        used = time.perf_counter() - begin
        again = load(operator_of(kernel), database.path)
    times = compared(kernel, threads, {"tuned": result.version.build(), "again": again.version.build()})
    best = min(times[n] for n in ("auto", "by hand") if n in times)
    return {
        "name": name, "seconds": times, "gain": best / times["tuned"], "over auto": times["auto"] / times["tuned"],
        "used": used, "trials": len(result.trials), "failed": len(result.trials) - len(result.good),
        "correlation": result.correlation, "second session": times["tuned"] / times["again"],
        "trials of the second": len(again.trials), "best": told(result), "notes": list(result.notes),
        "current": result.choice.current,
    }  # fmt: skip


def told(result: TuneResult) -> str:
    """Which trial was the best and where it comes from, back to what is no change of another."""
    trials = {t.number: t for t in result.trials}
    words, trial = list[str](), result.best
    while trial is not None:
        words.append(f"{trial.number}")
        origin = trial.origin
        trial = trials.get(int(origin.rpartition(" ")[2])) if origin.startswith("change of") else None
        if trial is None:
            words.append(origin)
    return " < ".join(words)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuned", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    words, rows = [w for w in options.only.split(",") if w], list[dict[str, Any]]()
    for name in SEARCHED:
        if words and not any(w in name for w in words):
            continue
        row = measure(name, options.seconds, options.threads, options.seed)
        rows.append(row)
        times = ", ".join(f"{n} {t * 1e3:.3f} ms" for n, t in row["seconds"].items())
        print(
            f"{name}: {row['gain']:.2f} of the better, {row['over auto']:.2f} of auto ({times}); {row['used']:.1f} s, "
            f"{row['trials']} trials, {row['failed']} failed, correlation {row['correlation']:.2f}; best {row['best']}; "
            f"second session {row['second session']:.2f} with {row['trials of the second']} trials; {row['notes']}",
            flush=True,
        )
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
