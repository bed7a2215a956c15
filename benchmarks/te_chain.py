"""How the time to schedule and lower a chain of stages grows with its length.

Each stage is split and reordered, and either inlined or computed at a loop of the last stage.
Prints the seconds for 50, 100 and 200 stages, and the three ratios to a growth in proportion.

usage: python benchmarks/te_chain.py [--full]     (--full: all passes of lower, not TE's alone)
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import tvmagic
from tvmagic import te

ROWS, COLUMNS = 64, 64
LENGTHS = (50, 100, 200)


def chain(length: int) -> tuple[Any, list[Any]]:
    """The schedule of `length` stages, and its arguments."""
    first = x = te.placeholder((ROWS, COLUMNS), name="A")
    stages = []
    for number in range(length):
        x = step(x, number)
        stages.append(x)
    s = te.create_schedule(x.op)
    outer, inner = s[x].split(x.op.axis[0], factor=8)
    s[x].reorder(outer, x.op.axis[1], inner)
    for number, tensor in enumerate(stages[:-1]):
        i, j = tensor.op.axis
        j_outer, j_inner = s[tensor].split(j, factor=8)
        s[tensor].reorder(j_outer, i, j_inner)
        if number % 2:
            s[tensor].compute_at(s[x], outer)
        else:
            s[tensor].compute_inline()
    return s, [first, x]


def step(x: Any, number: int) -> Any:
    return te.compute((ROWS, COLUMNS), lambda i, j: x[i, j] * 2.0 + float(number), name=f"S{number}")


def seconds(length: int, full: bool) -> float:
    """The best time of three runs."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        s, args = chain(length)
        if full:
            tvmagic.lower(s, args)
        else:
            n = s.normalize()
            te.schedule.ScheduleOps(n, te.schedule.InferBound(n), False)
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="run all passes of lower")
    full = parser.parse_args().full
    times = {length: seconds(length, full) for length in LENGTHS}
    for length, spent in times.items():
        print(f"{length:4d} stages  {spent:.3f} s  {1000 * spent / length:.2f} ms a stage")
    for a, b in ((50, 100), (100, 200), (50, 200)):
        print(f"time({b}) / time({a}) = {times[b] / times[a]:.2f}, {times[b] / times[a] / (b / a):.2f} of linear")


if __name__ == "__main__":
    main()
