"""How long primitives take: on a function of 100 blocks, in the 20-step matmul trace, N of them on one function.

Run as `python benchmarks/tir_primitives.py`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from tvmagic import te
from tvmagic.tir import Schedule


def _next(last: Any, name: str) -> Any:
    return te.compute((64, 64), lambda x, y: last[x, y] + 1.0, name=name)


def chain(blocks: int) -> Any:
    """A function of `blocks` elementwise blocks, each reading the one before."""
    tensors = [te.placeholder((64, 64), name="A")]
    for i in range(blocks):
        tensors.append(_next(tensors[-1], f"B{i}"))
    return te.create_prim_func([tensors[0], tensors[-1]])


PRIMITIVES: dict[str, Callable[[Schedule], Any]] = {
    "split": lambda s: s.split(s.get_loops("B50")[0], [8, 8]),
    "fuse": lambda s: s.fuse(*s.get_loops("B50")),
    "reorder": lambda s: s.reorder(*reversed(s.get_loops("B50"))),
    "parallel": lambda s: s.parallel(s.get_loops("B50")[0]),
    "vectorize": lambda s: s.vectorize(s.get_loops("B50")[1]),
    "unroll": lambda s: s.unroll(s.get_loops("B50")[1]),
    "add_unit_loop": lambda s: s.add_unit_loop("B50"),
    "cache_read": lambda s: s.cache_read("B50", 0, "global"),
    "cache_write": lambda s: s.cache_write("B50", 0, "global"),
    "read_at": lambda s: s.read_at(s.get_loops("B50")[0], "B50", 0, "global"),
    "reindex": lambda s: s.reindex("B50", ("read", 0)),
    "compute_at": lambda s: s.compute_at("B50", s.get_loops("B51")[0]),
    "reverse_compute_at": lambda s: s.reverse_compute_at("B51", s.get_loops("B50")[0]),
    "compute_inline": lambda s: s.compute_inline("B50"),
    "reverse_compute_inline": lambda s: s.reverse_compute_inline("B51"),
    "blockize": lambda s: s.blockize(s.get_loops("B50")[1]),
    "set_scope": lambda s: s.set_scope("B50", 0, "local"),
    "storage_align": lambda s: s.storage_align("B50", 0, 0, 8, 1),
    "transform_layout": lambda s: s.transform_layout("B50", ("write", 0), lambda i, j: [j, i]),
    "annotate": lambda s: s.annotate("B50", "note", 1),
}


def seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def matmul_trace() -> float:
    """Seconds of a matmul's schedule of 20 calls."""
    a, b = te.placeholder((512, 512), name="A"), te.placeholder((512, 512), name="B")
    k = te.reduce_axis((0, 512), name="k")
    c = te.compute((512, 512), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    function = te.create_prim_func([a, b, c])

    def run() -> None:
        sch = Schedule(function)
        block = sch.get_block("C")
        i, j, r = sch.get_loops(block)
        i0, i1 = sch.split(i, [None, 32])
        j0, j1 = sch.split(j, [None, 32])
        r0, r1 = sch.split(r, [None, 4])
        sch.reorder(i0, j0, r0, i1, r1, j1)
        copy = sch.cache_write(block, 0, "global")
        sch.reverse_compute_at(copy, j0)
        packed = sch.cache_read(block, 1, "global")
        sch.transform_layout(packed, ("write", 0), lambda x, y: [y // 32, x, y % 32])
        x, y = sch.get_loops(packed)
        y0, y1 = sch.split(y, [None, 32])
        sch.reorder(y0, x, y1)
        sch.vectorize(y1)
        sch.parallel(y0)
        sch.vectorize(j1)
        sch.unroll(r1)
        sch.parallel(i0)
        sch.decompose_reduction(block, r0)

    run()
    return statistics.median([seconds(run) for _ in range(5)])


def many(count: int, function: Any) -> float:
    """Seconds for `count` primitives on one function."""
    sch = Schedule(function)
    start = time.perf_counter()
    for i in range(count):
        loop = sch.get_loops(f"B{i % 100}")[i % 2]
        sch.annotate(loop, f"note{i}", i)
    return time.perf_counter() - start


def main() -> None:
    function = chain(100)
    times: dict[str, float] = {}
    for name, call in PRIMITIVES.items():
        runs: list[float] = []
        for _ in range(3):
            sch = Schedule(function)
            runs.append(seconds(lambda s=sch, c=call: c(s)))
        times[name] = statistics.median(runs)
    for name, spent in sorted(times.items(), key=lambda item: -item[1]):
        print(f"{name:24} {spent * 1e3:8.2f} ms")
    print(f"{'median':24} {statistics.median(times.values()) * 1e3:8.2f} ms")
    print(f"{'matmul trace':24} {matmul_trace() * 1e3:8.2f} ms")
    base = many(50, function)
    for count in (50, 100, 200):
        print(f"{count:3} primitives: {many(count, function) / base:.2f} times 50")


if __name__ == "__main__":
    main()
