"""Kernels scheduled both ways: by TensorIR's primitives (`kernels.py`) and by a TE schedule that says the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from benchmarks.kernels import COLUMNS_IN_REGISTERS, KERNELS, ROWS_IN_REGISTERS, Kernel, Steps
from benchmarks.sides import aligned
from tvmagic import build, runtime, te, tir

ROUNDS, LEAST_SECONDS = 9, 1.0


def _matmul(a: Any, b: Any, c: Any) -> te.Schedule:
    s = te.create_schedule(c.op)
    panels = c.op.input_tensors[1]
    p, _, j = panels.op.axis
    s[panels].parallel(p)
    s[panels].vectorize(j)
    tile = s.cache_write(c, "local")
    io, ii = s[c].split(c.op.axis[0], factor=ROWS_IN_REGISTERS)
    jo, ji = s[c].split(c.op.axis[1], factor=COLUMNS_IN_REGISTERS)
    s[c].reorder(io, jo, ii, ji)
    s[tile].compute_at(s[c], jo)
    rows, columns = tile.op.axis
    s[tile].reorder(tile.op.reduce_axis[0], rows, columns)
    for stage, unrolled, vector in ((s[tile], rows, columns), (s[c], ii, ji)):
        stage.unroll(unrolled)
        stage.vectorize(vector)
    s[c].parallel(io)
    return s


def _conv(x: Any, w: Any, y: Any) -> te.Schedule:
    s = te.create_schedule(y.op)
    panels = y.op.input_tensors[1]
    s[panels].vectorize(panels.op.axis[-1])
    tile = s.cache_write(y, "local")
    i, j, o = y.op.axis
    jo, ji = s[y].split(j, factor=7 if ROWS_IN_REGISTERS == 8 else 4)
    oo, oi = s[y].split(o, factor=COLUMNS_IN_REGISTERS)
    s[y].reorder(i, oo, jo, ji, oi)
    s[tile].compute_at(s[y], jo)
    row, columns, lanes = tile.op.axis
    s[tile].reorder(row, *tile.op.reduce_axis, columns, lanes)
    for stage, unrolled, vector in ((s[tile], columns, lanes), (s[y], ji, oi)):
        stage.unroll(unrolled)
        stage.vectorize(vector)
    s[y].parallel(i)
    return s


TWINS: dict[str, Callable[..., te.Schedule]] = {"matmul": _matmul, "conv2d 3x3": _conv}


def kernel_named(name: str) -> Kernel:
    return next(k for k in KERNELS if k.name == name)


def both(name: str) -> dict[str, Any]:
    """The built kernel of each way to schedule it."""
    kernel = kernel_named(name)
    sch = tir.Schedule(te.create_prim_func(kernel.build(te)))
    assert kernel.schedule is not None
    kernel.schedule(Steps(sch))
    tensors = kernel.build(te)
    return {"TensorIR": build(sch.mod), "TE": build(TWINS[name](*tensors), tensors)}


def measure(names: Iterable[str] = TWINS) -> dict[str, dict[str, float]]:
    """The best time of each way in seconds, the two taking turns on the same arrays."""
    rng = np.random.default_rng(0)
    result: dict[str, dict[str, float]] = {}
    for name in [n for n in names if n in TWINS]:
        kernel = kernel_named(name)
        arrays = [aligned(a) for a in kernel.inputs(rng)]
        out = aligned(np.zeros_like(kernel.numpy(*arrays)))
        runs = {way: built.entry_func.prepared(*arrays, out) for way, built in both(name).items()}
        best = dict.fromkeys(runs, float("inf"))
        end, rounds = time.perf_counter() + LEAST_SECONDS, 0
        while rounds < ROUNDS or time.perf_counter() < end:
            rounds += 1
            for way, run in runs.items():
                begin = time.perf_counter()
                run()
                best[way] = min(best[way], time.perf_counter() - begin)
        result[name] = best
    return result


def main() -> None:
    runtime.set_num_threads(1)
    for name, times in measure().items():
        shown = ", ".join(f"{way} {spent * 1e3:.2f} ms" for way, spent in times.items())
        print(f"{name:14} {shown}, TE over TensorIR {times['TE'] / times['TensorIR']:.2f}")


if __name__ == "__main__":
    main()
