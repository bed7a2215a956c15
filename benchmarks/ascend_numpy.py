"""Graphs of 4096x4096 scheduled and tiled by `tvmagic.ascend` against NumPy, one thread.

    python -m benchmarks.ascend_numpy [--only softmax,sum]

Both sides take turns; the best round counts. Printed: both times, and NumPy's over ours.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import tvmagic
from benchmarks.sides import aligned
from tvmagic import ascend
from tvmagic.operators import operator

ROUNDS = 12
_TWO = "X: float32[4096, 4096]\nY: float32[4096, 4096]\n"
_ONE = "X: float32[4096, 4096]\n"

Arrays = list[np.ndarray]


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


GRAPHS: dict[str, tuple[str, Callable[..., np.ndarray]]] = {
    "elementwise chain": (
        _TWO + "Z[i, j] = abs(X[i, j] * Y[i, j] + X[i, j]) - max(X[i, j], Y[i, j])",
        lambda x, y: np.abs(x * y + x) - np.maximum(x, y),
    ),
    "bias and relu": (
        _ONE + "b: float32[4096]\nZ[i, j] = max(X[i, j] + b[j], 0)",
        lambda x, b: np.maximum(x + b, 0),
    ),
    "row sum of a product": (_TWO + "Z[i] += X[i, j] * Y[i, j]", lambda x, y: (x * y).sum(axis=1)),
    "column sum of a product": (_TWO + "Z[j] += X[i, j] * Y[i, j]", lambda x, y: (x * y).sum(axis=0)),
    "column sum of magnitudes": (_ONE + "Z[j] += abs(X[i, j])", lambda x: np.abs(x).sum(axis=0)),
    "row sum of exponentials": (_ONE + "Z[i] += exp(X[i, j])", lambda x: np.exp(x).sum(axis=1)),
    "softmax": (
        _ONE + "M[i] = max(X[i, k], over=k)\nE[i, j] = exp(X[i, j] - M[i])\nS[i] += E[i, k]\nZ[i, j] = E[i, j] / S[i]",
        softmax,
    ),
    "transposed sum": (_TWO + "Z[j, i] = X[i, j] + Y[j, i]", lambda x, y: x.T + y),
    "exponential of rows at indices": (
        _ONE + "I: int32[4096]\nZ[i, j] = exp(X[I[i], j])", lambda x, i: np.exp(x[i])
    ),
    "row sum": (_ONE + "Z[i] += X[i, j]", lambda x: x.sum(axis=1)),
    "column sum": (_ONE + "Z[j] += X[i, j]", lambda x: x.sum(axis=0)),
}  # fmt: skip


def compare(cell: str, numpy: Callable[..., np.ndarray]) -> tuple[float, float, str]:
    """Seconds of ours and of NumPy's, and what was chosen."""
    op = operator("graph", cell)
    tiling = ascend.auto_tiling(ascend.auto_schedule(ascend.hint_graph(op)), machine=ascend.this_machine(1))
    kernel = tvmagic.build(tiling.lower())
    arrays = [aligned(a) for a in op.random_inputs()]
    wanted = numpy(*arrays)
    out = aligned(np.zeros_like(wanted))
    kernel(*arrays, out)
    np.testing.assert_allclose(out, wanted, rtol=2e-2, atol=2e-3)
    ours = theirs = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        kernel(*arrays, out)
        middle = time.perf_counter()
        numpy(*arrays)
        ours, theirs = min(ours, middle - begin), min(theirs, time.perf_counter() - middle)
    return ours, theirs, "; ".join(f"{c.impl.case} {list(c.sizes.values())}" for c in tiling.choices)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="parts of graphs' names, divided by commas")
    options = parser.parse_args()
    for name, (cell, numpy) in GRAPHS.items():
        if not options.only or any(part in name for part in options.only.split(",")):
            ours, theirs, chosen = compare(cell, numpy)
            print(
                f"{name:26s} {ours * 1e3:7.2f} ms, NumPy {theirs * 1e3:7.2f} ms, {theirs / ours:5.2f}  {chosen}",
                flush=True,
            )


if __name__ == "__main__":
    main()
