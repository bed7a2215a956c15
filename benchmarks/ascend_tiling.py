"""How good the tilings that Ascend's auto tiling chooses are, one thread.

    python -m benchmarks.ascend_tiling [--only softmax,row] [--show 5]

For each workload every ImplGraph of every result is built with every tile size of a grid: powers of
two (of four where two sizes are chosen), and halves and all of the axis. Groups that run one after the other are searched one at a time,
the others as chosen. What was within twice the best of a first try takes turns in further rounds, of
which the best counts. Printed: the time of the chosen tiling over that of the best one.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import tvmagic
from benchmarks.sides import aligned
from tvmagic import ascend
from tvmagic.ascend.cost import CostModel
from tvmagic.ascend.lower import lower_graphs
from tvmagic.operators import operator

LEAST_ROUNDS, LEAST_SECONDS = 15, 1.0

CELLS = {
    "elementwise chain": """
X: float32[2048, 2048]
Y: float32[2048, 2048]
Z[i, j] = abs(X[i, j] * Y[i, j] + X[i, j]) - max(X[i, j], Y[i, j])""",
    "exponential": """
X: float32[1000, 1500]
Z[i, j] = exp(X[i, j] * 0.5) + 1""",
    "bias and relu": """
X: float32[3000, 700]
b: float32[700]
Z[i, j] = max(X[i, j] + b[j], 0)""",
    "outer sum": """
A: float32[1024]
B: float32[2048]
Z[i, j] = abs(A[i] + B[j])""",
    "row sum of a product": """
X: float32[2048, 2048]
Y: float32[2048, 2048]
Z[i] += X[i, j] * Y[i, j]""",
    "column sum of magnitudes": """
X: float32[2048, 2048]
Z[j] += abs(X[i, j])""",
    "sum of a middle axis": """
X: float32[64, 100, 300]
Z[a, c] += X[a, b, c] * X[a, b, c]""",
    "sum of all": """
X: float32[1, 1024, 2048]
Z[o] += abs(X[o, i, j])""",
    "softmax": """
X: float32[1000, 1000]
M[i] = max(X[i, k], over=k)
E[i, j] = exp(X[i, j] - M[i])
S[i] += E[i, k]
Z[i, j] = E[i, j] / S[i]""",
    "norm of columns": """
X: float32[1024, 512]
S[j] += X[i, j]
V[j] += (X[i, j] - S[j] / 1024) ** 2
Z[i, j] = (X[i, j] - S[j] / 1024) * rsqrt(V[j] / 1024 + 1e-5)""",
    "transposed sum": """
X: float32[2048, 1500]
Y: float32[1500, 2048]
Z[j, i] = X[i, j] * 2 + Y[j, i]""",
    "rows at indices": """
X: float32[1000, 256]
I: int32[8192]
Z[i, j] = abs(X[I[i], j])""",
    "concat": """
X: float32[2000, 300]
Y: float32[2000, 500]
for i in range(2000):
    for j in range(800):
        C[i, j] = X[i, j] if j < 300 else Y[i, j - 300]
Z[i, j] = max(C[i, j], 0)""",
}  # fmt: skip
Choices = list[tuple[ascend.ImplGraph, dict[str, int]]]  # of each group


@dataclass
class Measured:
    """A built implementation with its best time, in s."""

    label: str
    run: Callable[[], None]
    seconds: float = float("inf")

    def time(self) -> None:
        begin = time.perf_counter()
        self.run()
        self.seconds = min(self.seconds, time.perf_counter() - begin)


def grid(size: int, coarse: bool) -> list[int]:
    """Tile sizes to try along an axis."""
    powers = {1 << k for k in range(0, size.bit_length(), 2 if coarse else 1)}
    return sorted({p for p in powers if p <= size} | {size, -(-size // 2)})


def candidates(impl: ascend.ImplGraph, machine: ascend.Machine) -> Iterator[dict[str, int]]:
    """All tile sizes of the grid, on one core."""
    inner = {f"{a.name}_size": a for a in impl.graph.axes if a.split_pair is not None}
    grids = [grid(inner[n].from_[0].size.evaluate({}), len(impl.tiles) > 1) for n in impl.tiles]
    model = CostModel(impl, {}, machine)
    for values in itertools.product(*grids):
        sizes = dict(zip(impl.tiles, values, strict=True))
        if impl.block is not None:
            sizes[impl.block] = model.loop_count(sizes)
        yield sizes


def ways(results: list[ascend.ScheduleResult], machine: ascend.Machine) -> Iterator[Choices]:
    """Every implementation to try: of each result the best guess, with one group changed at a time."""
    for result in results:
        guess = ascend.auto_tiling([result], machine=machine)
        start = [(c.impl, c.sizes) for c in guess.choices]
        for place, group in enumerate(result.groups):
            for impl in group.impls:
                for sizes in candidates(impl, machine):
                    yield [*start[:place], (impl, sizes), *start[place + 1 :]]


def label_of(choices: Choices) -> str:
    return "; ".join(f"{i.template.name} {i.case} {list(s.values())}" for i, s in choices)


def search(cell: str) -> tuple[Measured, list[Measured]]:
    """The chosen implementation, and all that were tried, the best first."""
    machine = ascend.this_machine(1)
    op = operator("workload", cell)
    hint = ascend.hint_graph(op)
    arrays = [aligned(a) for a in op.random_inputs()]
    wanted = op.reference(*arrays)
    out = aligned(np.zeros_like(wanted))
    results = ascend.auto_schedule(hint)
    tiling = ascend.auto_tiling(results, machine=machine)

    def build(choices: Choices) -> Measured:
        func = lower_graphs(hint, [i.graph for i, _ in choices], [s for _, s in choices])
        kernel = tvmagic.build(func)
        made = Measured(label_of(choices), lambda: kernel(*arrays, out))
        out[...] = 0
        made.run()
        np.testing.assert_allclose(out, wanted, rtol=1e-3, atol=1e-3, err_msg=made.label)
        made.time()
        return made

    chosen = build([(c.impl, c.sizes) for c in tiling.choices])
    tried, best, seen = [chosen], chosen.seconds, {chosen.label}
    for choices in ways(results, machine):
        if label_of(choices) in seen:
            continue
        made = build(choices)
        seen.add(made.label)
        best = min(best, made.seconds)
        if made.seconds < 2 * best:
            made.time()
        best = min(best, made.seconds)
        tried.append(made)
    finalists = [m for m in tried if m is chosen or m.seconds <= 1.5 * best]
    rounds, end = 0, time.perf_counter() + LEAST_SECONDS
    while rounds < LEAST_ROUNDS or time.perf_counter() < end:
        rounds += 1
        for made in finalists:
            made.time()
    return chosen, sorted(tried, key=lambda m: m.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="parts of workloads' names, divided by commas")
    parser.add_argument("--show", type=int, default=0, help="how many of the best to list")
    options = parser.parse_args()
    worst = 0.0
    for name, cell in CELLS.items():
        if options.only and not any(part in name for part in options.only.split(",")):
            continue
        chosen, tried = search(cell)
        ratio = chosen.seconds / tried[0].seconds
        worst = max(worst, ratio)
        print(f"{name:26s} {chosen.seconds * 1e3:8.3f} ms, {ratio:5.2f} times the best of {len(tried)}", flush=True)
        for made in [chosen, *tried[: options.show]] if options.show else ():
            print(f"    {made.seconds * 1e3:8.3f} ms  {made.label}", flush=True)
    print(f"worst: {worst:.2f}")


if __name__ == "__main__":
    main()
