"""How long it takes until a knob of the playground has redrawn everything, for a matmul of 256 x 256.

Run as `python benchmarks/playground.py`. A value that comes for the first time is scheduled, lowered, compiled and
described; one that was there before is only measured again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from tvmagic.codegen.llvm.cache import clear_cache
from tvmagic.notebook import playground
from tvmagic.notebook.stepper import packed_view
from tvmagic.notebook.view import make_view
from tvmagic.operators import Source, operator

OPERATOR = """A: float32[256, 256]
B: float32[256, 256]
C[i, j] += A[i, k] * B[k, j]"""
SCHEDULE = """%%schedule matmul --play
t = knob(32, [8, 16, 32, 64])
CC = s.cache_write(C, "global")
io, jo, ii, ji = s[C].tile(*s[C].axis, t, 32)
s[CC].compute_at(s[C], jo)
i, j = s[CC].op.axis
ko, ki = s[CC].split(s[CC].op.reduce_axis[0], 4)
s[CC].reorder(ko, i, ki, j)
s[CC].vectorize(j)
s[CC].unroll(ki)
s[C].vectorize(ji)
s[C].parallel(io)"""
ROUNDS = 5


def timed(run: Callable[[], Any]) -> tuple[float, float]:
    """Milliseconds of processor time and of wall time."""
    cpu, wall = time.process_time(), time.perf_counter()
    run()
    return (time.process_time() - cpu) * 1e3, (time.perf_counter() - wall) * 1e3


def best(runs: list[tuple[float, float]]) -> str:
    cpu, wall = (min(r[k] for r in runs) for k in (0, 1))
    return f"{cpu:6.0f} ms of processor time, {wall:6.0f} ms"


def main() -> None:
    """Print the least times of several rounds over three values."""
    op = operator("matmul", OPERATOR)
    first: list[tuple[float, float]] = []
    again: list[tuple[float, float]] = []
    parts: dict[str, list[tuple[float, float]]] = {"described for the stepper": [], "assembly": []}
    for _ in range(ROUNDS):
        clear_cache()
        shown = playground(op, Source("schedule matmul", SCHEDULE))
        for value in (8, 16, 64):
            first.append(timed(lambda v=value, s=shown: s.turn("t", v)))
            parts["described for the stepper"].append(timed(lambda s=shown: packed_view(make_view(s.record))))
            parts["assembly"].append(timed(lambda s=shown: s.version.build().get_source("asm")))
        again += [timed(lambda v=value, s=shown: s.turn("t", v)) for value in (8, 16)]
    print("a new value    ", best(first))
    for name, runs in parts.items():
        print(f"    {name}: {best(runs).strip()}")
    print("a value again  ", best(again))
    print(f"sent to the stepper: {len(json.dumps(shown.stepper.data)) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
