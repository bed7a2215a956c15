"""`python -m benchmarks.odd_sizes [--target haswell] [--only pool,product]`

What sizes that nothing divides cost: each operator with the instant schedule for a size that vectors and tiles divide,
and for odd ones near it, interleaved in one process on one thread. A row has the time of an element, of an odd size
over that of the dividing one; elements of a product are its multiply-adds.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

ROUNDS, LEAST_SECONDS = 20, 0.4
# For each operator the text with the size `n`, and what an element is, of which there are so many.
CELLS: dict[str, tuple[str, Callable[[int], float]]] = {
    "product": ("A: float32[{n}, {n}]\nB: float32[{n}, {n}]\nC[i, j] += A[i, k] * B[k, j]", lambda n: n**3),
    "product of the transpose": ("A: float32[{n}, {n}]\nC[i, j] += A[i, k] * A[j, k]", lambda n: n**3),
    "matrix times vector": ("A: float32[{n}, {n}]\nx: float32[{n}]\ny[i] += A[i, k] * x[k]", lambda n: n**2),
    "convolution": (
        "X: float32[16, {n}, 66]\nW: float32[16, 16, 3, 3]\nr: range(3)\nq: range(3)\nY: float32[16, {n} - 2, 64]\n"
        "Y[o, i, j] += X[c, i+r, j+q] * W[o, c, r, q]", lambda n: 16 * 16 * 9 * 64 * (n - 2.0)),
    "average pooling": (
        "X: float32[4, {n} + 2, {n} + 2]\nr: range(3)\nq: range(3)\nY: float32[4, {n}, {n}]\n"
        "Y[c, i, j] += X[c, i+r, j+q] / 9", lambda n: 4.0 * n * n),
    "max pooling": (
        "X: float32[4, 2 * {n}, 2 * {n}]\nr: range(2)\nq: range(2)\nY: float32[4, {n}, {n}]\n"
        "Y[c, i, j] = max(X[c, 2*i+r, 2*j+q], over=(r, q))", lambda n: 4.0 * n * n),
    "blur": (
        "X: float32[{n} + 2, {n} + 2]\nH[i, j] = X[i, j] + X[i, j+1] + X[i, j+2]\nY: float32[{n}, {n}]\n"
        "Y[i, j] = (H[i, j] + H[i+1, j] + H[i+2, j]) / 9", lambda n: n**2),
    "row sums": ("X: float32[{n}, {n}]\nY[i] += X[i, j]", lambda n: n**2),
    "column sums": ("X: float32[{n}, {n}]\nY[j] += X[i, j]", lambda n: n**2),
    "softmax": ("X: float32[{n}, {n}]\nY[i, j] = softmax(X[i, j], over=j)", lambda n: n**2),
    "places of rows": ("X: float32[{n}, {n}]\nY[i] = argmax(X[i, j], over=j)", lambda n: n**2),
    "relu of a sum": ("X: float32[{n}, {n}]\nb: float32[{n}]\nY[i, j] = max(X[i, j] + b[j], 0)", lambda n: n**2),
    "tanh": ("X: float32[{n}, {n}]\nY[i, j] = tanh(X[i, j])", lambda n: n**2),
    "transpose": ("X: float32[{n}, {n}]\nY[i, j] = X[j, i]", lambda n: n**2),
    "transpose of float16": ("X: float16[{n}, {n}]\nY[i, j] = X[j, i]", lambda n: n**2),
    "transpose of bytes": ("X: uint8[{n}, {n}]\nY[i, j] = X[j, i]", lambda n: n**2),
}  # fmt: skip
DIVIDING, ODD = 480, (481, 487, 494, 499)  # 480 is no power of two, of which caches hold few lines


def calls_of(text: str, sizes: tuple[int, ...]) -> list[Callable[[], Any]]:
    """A call of the operator with its instant schedule for each size."""
    import tvmagic
    from tvmagic import tune
    from tvmagic.operators import operator

    calls: list[Callable[[], Any]] = []
    for n in sizes:
        op = operator("f", text.format(n=n))
        inputs = op.random_inputs()
        arguments = op.arguments(inputs, op.fresh_outputs(inputs))
        calls.append(tvmagic.build(tune.auto(op).mod).entry_func.prepared(*arguments))
    return calls


def least_times(calls: list[Callable[[], Any]]) -> list[float]:
    """The least seconds of each call, interleaved."""
    best = [float("inf")] * len(calls)
    rounds, end = 0, time.perf_counter() + LEAST_SECONDS
    while rounds < ROUNDS or time.perf_counter() < end:
        rounds += 1
        for n, call in enumerate(calls):
            for _ in range(3):
                begin = time.perf_counter()
                call()
                best[n] = min(best[n], time.perf_counter() - begin)
    return best


def measure(name: str) -> list[float]:
    """The time of an element for the dividing size in nanoseconds, then those of the odd sizes over it."""
    text, elements = CELLS[name]
    sizes = (DIVIDING, *ODD)
    times = [t / elements(n) for t, n in zip(least_times(calls_of(text, sizes)), sizes)]
    return [times[0] * 1e9, *(t / times[0] for t in times[1:])]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.odd_sizes", description=__doc__)
    parser.add_argument("--target", default="", help="a CPU, such as haswell")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if options.target:
        os.environ["TVMAGIC_TARGET"] = f"llvm -mcpu={options.target}"
    from tvmagic.runtime import set_num_threads

    set_num_threads(1)
    words = [w for w in options.only.split(",") if w]
    print(f"| operator | {DIVIDING}: ns an element | {' | '.join(map(str, ODD))} |\n|---|---|{'---|' * len(ODD)}")
    for name in CELLS:
        if not words or any(w in name for w in words):
            first, *ratios = measure(name)
            print(f"| {name} | {first:.4f} | {' | '.join(f'{r:.2f}' for r in ratios)} |", flush=True)


if __name__ == "__main__":
    main()
