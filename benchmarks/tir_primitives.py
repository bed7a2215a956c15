"""How long primitives take: on a function of 100 blocks, in the 20-step matmul trace, N of them on one function.

Part of `python -m benchmarks`; alone: `python -m benchmarks.tir_primitives`.
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
    "bind": lambda s: s.bind(s.get_loops("B50")[0], "threadIdx.x"),
    "loop_partition": lambda s: s.loop_partition(s.get_loops("B50")[0], [8, None]),
    "merge": lambda s: s.merge(s.get_loops("B50")[1], s.get_loops("B51")[1]),
    "write_at": lambda s: s.write_at(s.get_loops("B50")[0], "B50", 0, "global"),
    "reindex_cache_read": lambda s: s.reindex_cache_read("B50", 0, "global", lambda i, j: (j, i)),
    "reindex_cache_write": lambda s: s.reindex_cache_write("B50", 0, "global", lambda i, j: (j, i)),
    "transform_block_layout": lambda s: s.transform_block_layout("B50", lambda i, j: (i * 64 + j,)),
    "reorder_block_iter_var": lambda s: s.reorder_block_iter_var("B50", [1, 0]),
    "set_axis_separator": lambda s: s.set_axis_separator("B50", ("write", 0), [1]),
    "unsafe_set_dtype": lambda s: s.unsafe_set_dtype("B50", 0, "float16"),
    "pad_einsum": lambda s: s.pad_einsum("B50", [48, 48]),
    "get_producers": lambda s: s.get_producers("B50"),
    "sample_compute_location": lambda s: s.sample_compute_location("B50"),
    "sample_perfect_tile": lambda s: s.sample_perfect_tile(s.get_loops("B50")[0], 4),
}


def seconds(run: Callable[[], Any]) -> float:
    """Processor time of a run, in s."""
    start = time.process_time()
    run()
    return time.process_time() - start


def matmul() -> Any:
    """A product of 512 by 512 matrices as a function."""
    a, b = te.placeholder((512, 512), name="A"), te.placeholder((512, 512), name="B")
    k = te.reduce_axis((0, 512), name="k")
    return te.create_prim_func([a, b, te.compute((512, 512), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")])


def matmul_schedule() -> Schedule:
    """The matmul scheduled by 21 calls."""
    sch = Schedule(matmul())
    block = sch.get_block("C")
    i, j, r = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 32])
    j0, j1 = sch.split(j, [None, 32])
    r0, r1 = sch.split(r, [None, 4])
    sch.reorder(i0, j0, r0, i1, r1, j1)
    copy = sch.cache_write(block, 0, "global")
    sch.reverse_compute_at(copy, j0)
    sch.vectorize(sch.get_loops(copy)[-1])
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
    return sch


def trace_seconds() -> float:
    """Seconds to apply the matmul's trace to its function."""
    done, function = matmul_schedule(), matmul()
    return min([seconds(lambda: done.trace.apply_to_schedule(Schedule(function))) for _ in range(5)])


def annotate_many(sch: Schedule, count: int) -> None:
    """`count` primitives on one function of 100 blocks."""
    for i in range(count):
        sch.annotate(sch.get_loops(f"B{i % 100}")[i % 2], f"note{i}", i)


def compute_many(count: int) -> None:
    """`count` blocks computed at a loop of the last one, each after its consumers."""
    sch = Schedule(chain(count + 1))
    loop = sch.get_loops(f"B{count}")[0]
    for i in reversed(range(count)):
        sch.compute_at(f"B{i}", loop)


def measure() -> dict[str, dict[str, float]]:
    """Seconds of each primitive, of the matmul's trace, and of 50, 100 and 200 primitives."""
    function = chain(100)
    one: dict[str, float] = {}
    for name, call in PRIMITIVES.items():
        one[name] = min([seconds(lambda s=s, c=call: c(s)) for s in (Schedule(function), Schedule(function))])
    one["median of these"] = statistics.median(one.values())
    one["the matmul's trace of 21 calls"] = trace_seconds()
    many: dict[str, float] = {}
    for count in (50, 100, 200):
        many[f"annotate, {count} times"] = seconds(lambda n=count: annotate_many(Schedule(function), n))
        many[f"compute_at, {count} blocks"] = seconds(lambda n=count: compute_many(n))
    return {"Schedule primitives on 100 blocks": one, "Many primitives": many}


def main() -> None:
    for times in measure().values():
        for name, spent in sorted(times.items(), key=lambda item: -item[1]):
            print(f"{name:30} {spent * 1e3:8.2f} ms")


if __name__ == "__main__":
    main()
