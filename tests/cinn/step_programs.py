"""Programs for the tests of a CINN schedule's steps, each with what it computes in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tvmagic
from tvmagic import te, tir
from tvmagic.cinn import IRSchedule, lower
from tvmagic.ir import PrimFunc

__all__ = ["PROGRAMS", "Program", "check", "program"]


@dataclass(frozen=True)
class Program:
    """A function, and what it computes of integers, which float32 adds exactly."""

    function: PrimFunc
    reference: Callable[..., list[np.ndarray]]

    def schedule(self, seed: int = 3) -> IRSchedule:
        return IRSchedule(self.function, seed=seed)


def _matmul() -> Program:
    a, w = te.placeholder((16, 8), name="A"), te.placeholder((8, 24), name="W")
    k = te.reduce_axis((0, 8), name="k0")
    b = te.compute((16, 24), lambda i, j: te.sum(a[i, k] * w[k, j], axis=k), name="B")
    c = te.compute((16, 24), lambda i, j: tir.max(b[i, j], tir.const(0.0, "float32")), name="C")
    return Program(lower([a, w, c]), lambda a, w: [np.maximum(a @ w, 0)])


def _chain() -> Program:
    a = te.placeholder((12, 10), name="A")
    b = te.compute((12, 10), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((12, 10), lambda i, j: b[i, j] + 1.0, name="C")
    d = te.compute((12, 10), lambda i, j: c[i, j] * b[i, j], name="D")
    return Program(lower([a, d]), lambda a: [(2 * a + 1) * 2 * a])


def _blur() -> Program:
    a = te.placeholder((14, 9), name="A")
    b = te.compute((14, 9), lambda i, j: a[i, j] + 3.0, name="B")
    c = te.compute((12, 9), lambda i, j: b[i, j] + b[i + 1, j] + b[i + 2, j], name="C")
    return Program(lower([a, c]), lambda a: [a[:-2] + a[1:-1] + a[2:] + 9])


def _two_sums() -> Program:
    a = te.placeholder((16, 4, 6), name="A")
    j0, k0 = te.reduce_axis((0, 4), name="j0"), te.reduce_axis((0, 6), name="k0")
    b = te.compute((16,), lambda i: te.sum(a[i, j0, k0], axis=[j0, k0]), name="B")
    return Program(lower([a, b]), lambda a: [a.sum((1, 2))])


def _row_max() -> Program:
    a = te.placeholder((10, 12), name="A")
    k0 = te.reduce_axis((0, 12), name="k0")
    b = te.compute((10,), lambda i: te.max(a[i, k0], axis=k0), name="B")
    c = te.compute((10, 12), lambda i, j: a[i, j] - b[i], name="C")
    return Program(lower([a, c]), lambda a: [a - a.max(1, keepdims=True)])


def _transposed() -> Program:
    a = te.placeholder((8, 6), name="A")
    b = te.compute((6, 8), lambda i, j: a[j, i] * 2.0, name="B")
    c = te.compute((1, 6, 8), lambda i, j, k: b[j, k] + 1.0, name="C")
    return Program(lower([a, c]), lambda a: [(2 * a.T + 1)[None]])


_MADE: dict[str, Callable[[], Program]] = {
    "matmul": _matmul,
    "chain": _chain,
    "blur": _blur,
    "two_sums": _two_sums,
    "row_max": _row_max,
    "transposed": _transposed,
}
PROGRAMS = tuple(_MADE)
_known: dict[str, Program] = {}


def program(name: str) -> Program:
    """A program by its name."""
    if name not in _known:
        _known[name] = _MADE[name]()
    return _known[name]


def check(name: str, schedule: IRSchedule | PrimFunc) -> None:
    """Build what a schedule holds and compare its results with NumPy's; outputs hold other numbers before."""
    found = program(name)
    func: Any = schedule.func if isinstance(schedule, IRSchedule) else schedule
    rng = np.random.default_rng(7)
    buffers = [func.buffer_map[p] for p in func.params]
    shapes = {b.name: tuple(int(n) for n in b.shape) for b in buffers}
    names = [found.function.buffer_map[p].name for p in found.function.params]
    outputs = len(found.reference(*[np.zeros(shapes[n]) for n in names[:-1]])) if len(names) > 1 else 1
    inputs = {n: rng.integers(-8, 8, shapes[n]).astype("float32") for n in names[:-outputs]}
    results = {n: np.full(shapes[n], 77, "float32") for n in names[-outputs:]}
    given = {**inputs, **results}
    tvmagic.build(func)(*[given[b.name] for b in buffers])
    for got, right in zip(results.values(), found.reference(*inputs.values())):
        np.testing.assert_array_equal(got, right)
