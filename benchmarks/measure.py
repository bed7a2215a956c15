"""Times of all kernels on all sides, in one process with one number of threads."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

from benchmarks import te_twins, tir_primitives
from benchmarks.kernels import KERNELS, Kernel
from benchmarks.more_kernels import MORE_KERNELS
from benchmarks.sides import SIDES, Instant, NotThere, Ours, TVMSide, aligned
from tvmagic.operators.cpu_contention import rest
from tvmagic.operators.peaks import copy_bandwidth, peak_flops

# A side's time is the best of this many rounds or more: other work on the machine comes and goes.
ROUNDS, LEAST_SECONDS = 9, 2.0
# With several threads each side waits until those of the side before rest, and has several calls: its own have to wake up.
CALLS = 4


def start_sides(threads: int) -> tuple[list[Any], dict[str, str]]:
    """The sides that are there, and for each that is not, why."""
    sides, missing = [], {}
    for make in SIDES:
        try:
            sides.append(make(threads))
        except ImportError as error:
            missing[make.name] = f"not installed ({error})"
    return sides, missing


def measure(kernel: Kernel, sides: list[Any], rng: np.random.Generator, threads: int = 1) -> dict[str, Any]:
    """The best time of each side in seconds, the sides taking turns; or what went wrong with it."""
    arrays = [aligned(a) for a in kernel.inputs(rng)]
    expected = kernel.numpy(*arrays)
    limit = kernel.tolerance * max(1.0, float(np.abs(expected).max()))
    runs, problems = {}, {}
    for side in sides:
        out = aligned(np.zeros_like(expected))
        try:
            run = side.runner(kernel, arrays, out)
            run()
        except NotThere as error:
            problems[side.name] = str(error)
            continue
        except Exception as error:
            lines = str(error).strip().splitlines() or [""]
            problems[side.name] = f"{type(error).__name__}: {lines[0]}"
            continue
        difference = float(np.abs(out - expected).max())
        if difference > limit:
            problems[side.name] = f"wrong by {difference:.2g}"
            continue
        runs[side.name] = run
    best = dict.fromkeys(runs, float("inf"))
    end = time.perf_counter() + LEAST_SECONDS
    rounds = 0
    while rounds < ROUNDS or time.perf_counter() < end:
        rounds += 1
        for name, run in runs.items():
            if threads > 1:
                rest()
            for _ in range(CALLS if threads > 1 else 1):
                begin = time.perf_counter()
                run()
                best[name] = min(best[name], time.perf_counter() - begin)
    return {"seconds": best, "problems": problems}


def compile_times(sides: list[Any]) -> dict[str, float]:
    """Seconds to lower and build the matmul, the best of three."""
    kernel = next(k for k in KERNELS if k.name == "matmul")
    result: dict[str, float] = {}
    for side in sides:
        if type(side) is Ours:
            times = [side.compile(kernel)[1:] for _ in range(3)]
            result["tvmagic"] = min(sum(t) for t in times)
            result["tvmagic, lowering alone"] = min(t[0] for t in times)
        elif isinstance(side, TVMSide):
            result["TVM"] = min(side.compile(kernel)[1] for _ in range(3))
    return result


def blas_kernel() -> str:
    """The kernel of NumPy's BLAS that ran, as threadpoolctl tells it; what to install where that is not there."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return "unknown (threadpoolctl is not installed)"
    found = [i for i in threadpool_info() if i.get("user_api") == "blas"]
    return ", ".join(f"{i['internal_api']} {i.get('version')} {i.get('architecture', '')}".strip() for i in found)


def decision_times(sides: list[Any], kernels: list[Kernel]) -> dict[str, float]:
    """Seconds that the instant schedule takes to decide, the best of three."""
    instant = next((s for s in sides if isinstance(s, Instant)), None)
    return {} if instant is None else {k.name: min(instant.decide(k) for _ in range(3)) for k in kernels}


def call_overhead() -> float:
    """Seconds that a call with three small arrays takes beyond the kernel itself."""
    import tvmagic
    from tvmagic import te, tir

    a, b = (te.placeholder((16,), name=n) for n in "AB")
    func = te.create_prim_func([a, b, te.compute((16,), lambda i: a[i] + b[i], name="C")])
    kernel = tvmagic.build(tir.Schedule(func).mod).entry_func
    arrays = [np.zeros(16, "float32") for _ in range(3)]
    kernel(*arrays)
    prepared = kernel.prepared(*arrays)

    def per_call(run: Any, *args: Any) -> float:
        best = float("inf")
        for _ in range(5):
            begin = time.perf_counter()
            for _ in range(5000):
                run(*args)
            best = min(best, (time.perf_counter() - begin) / 5000)
        return best

    return per_call(kernel, *arrays) - per_call(prepared)


def main(threads: int, only: list[str]) -> None:
    """Measure and write one JSON object to the standard output."""
    sides, missing = start_sides(threads)
    rng = np.random.default_rng(0)
    kernels = [k for k in [*KERNELS, *MORE_KERNELS] if not only or any(word in k.name for word in only)]
    report: dict[str, Any] = {"threads": threads, "missing": missing, "kernels": {}}
    for kernel in kernels:
        report["kernels"][kernel.name] = measure(kernel, sides, rng, threads)
        times = report["kernels"][kernel.name]["seconds"]
        print(kernel.name, {n: f"{t * 1e3:.2f} ms" for n, t in times.items()}, file=sys.stderr)
    report["blas"] = blas_kernel()
    report["decisions"] = decision_times(sides, kernels)
    report["twins"] = te_twins.measure([k.name for k in kernels])
    report["peak_flops"], report["copy_bandwidth"] = peak_flops(), copy_bandwidth()
    if threads == 1:
        report["compile"] = compile_times(sides)
        report["call_overhead"] = call_overhead()
        report["schedule"] = tir_primitives.measure()
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
