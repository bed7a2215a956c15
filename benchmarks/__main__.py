"""`python -m benchmarks [--threads 1,4] [--only matmul,softmax] [--target haswell] [--out FOLDER]`

Measures the kernels, scheduled by hand and by the instant schedule, against NumPy, Numba and TVM, with one thread and
with all, prints the ratios and writes `results.json` and a page with a plot. What is not installed is left out and named.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
from typing import Any

from benchmarks.page import base_of, page, ratios, reached_by

_THREAD_SETTINGS = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "TVM_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


# What would have NumPy's BLAS take another kernel than the one for this processor.
_BLAS_SETTINGS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OPENBLAS_VERBOSE")


def run(threads: int, only: list[str], target: str = "") -> dict[str, Any]:
    """The report of one process, whose libraries are all told how many threads to use.

    `target` is the processor that tvmagic, TVM and Numba make code for; NumPy takes what it has for this one. TVM would bind the calling thread to a processor, and so to fewer processors than threads those of the others.
    """
    env = {**os.environ, **dict.fromkeys(_THREAD_SETTINGS, str(threads)), "TVM_BIND_THREADS": "0"}
    for name in _BLAS_SETTINGS:
        env.pop(name, None)
    if target:
        env["TVMAGIC_TARGET"] = target if target.startswith("llvm") else f"llvm -mcpu={target}"
        env["NUMBA_CPU_NAME"] = (
            env["TVMAGIC_TARGET"].partition("-mcpu=")[2].split()[0] if "-mcpu=" in env["TVMAGIC_TARGET"] else ""
        )
    command = [sys.executable, "-m", "benchmarks.measure", str(threads), *only]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def machine() -> str:
    name = platform.processor() or platform.machine()
    info = pathlib.Path("/proc/cpuinfo")
    if info.exists():
        name = next((x.split(":", 1)[1].strip() for x in info.read_text().splitlines() if "model name" in x), name)
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--threads", default=f"1,{os.cpu_count()}", help="numbers of threads, divided by commas")
    parser.add_argument("--only", default="", help="parts of kernels' names, divided by commas")
    parser.add_argument("--target", default="", help="a processor such as haswell, or a whole target")
    parser.add_argument("--out", default="benchmarks/results", help="the folder of the page")
    options = parser.parse_args()
    counts = sorted({int(t) for t in options.threads.split(",")})
    only = [w for w in options.only.split(",") if w]
    reports = [run(threads, only, options.target) for threads in counts]
    for report in reports:
        print(
            f"\n{report['threads']} thread(s): times of the others over tvmagic's (over auto's where nothing is scheduled by hand)"
        )
        print(
            f"  NumPy's BLAS: {report['blas']}; {report['peak_flops'] / 1e9:.0f} GFLOP/s of multiply-adds in registers"
        )
        for side, why in report["missing"].items():
            print(f"  {side} is left out: {why}")
        for name, entry in report["kernels"].items():
            shown = "  ".join(f"{s} {r:.2f}" for s, r in ratios(report, name).items() if s != base_of(report, name))
            print(f"  {name:28s} {shown}  {reached_by(report, name)}")
            for side, problem in entry["problems"].items():
                print(f"    {side}: {problem}")
        if report["decisions"]:
            slowest = max(report["decisions"], key=report["decisions"].__getitem__)
            print(f"  the instant schedule decides in {report['decisions'][slowest] * 1e3:.0f} ms or less ({slowest})")
        for name, times in report.get("twins", {}).items():
            print(f"  {name} scheduled in TE: {times['TE'] / times['TensorIR']:.2f} of the time")
        for what, seconds in report.get("compile", {}).items():
            print(f"  matmul lowered and built, {what}: {seconds * 1e3:.0f} ms")
        for title, times in report.get("schedule", {}).items():
            print(f"  {title}")
            for what, seconds in times.items():
                print(f"    {what:32s} {seconds * 1e3:8.2f} ms")
    folder = pathlib.Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(reports, indent=1))
    (folder / "index.html").write_text(page(reports, machine()))
    print(f"\nwritten: {folder / 'index.html'}")


if __name__ == "__main__":
    main()
