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


@dataclass(frozen=True)
class Program:
    """A function, and what it computes of integers, which float32 adds exactly."""

    function: PrimFunc
    reference: Callable[..., list[np.ndarray]]
    outputs: int = 1

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


def _normed() -> Program:
    """Rows less their sums: a tensor with two readers, one of them a reduction in between."""
    a, k0 = te.placeholder((12, 18), name="A"), te.reduce_axis((0, 18), name="k0")
    b = te.compute((12, 18), lambda i, j: a[i, j] * 3.0, name="B")
    s = te.compute((12,), lambda i: te.sum(b[i, k0], axis=k0), name="S")
    c = te.compute((12, 18), lambda i, j: b[i, j] - s[i], name="C")
    return Program(lower([a, c]), lambda a: [3 * a - (3 * a).sum(1, keepdims=True)])


def _padded() -> Program:
    """A convolution over rows that are padded by zeros."""
    a, w = te.placeholder((6, 11), name="A"), te.placeholder((3,), name="W")
    k0 = te.reduce_axis((0, 3), name="k0")
    zero = tir.const(0.0, "float32")
    b = te.compute((6, 13), lambda i, j: tir.Select(tir.all(j >= 1, j < 12), a[i, j - 1], zero), name="B")
    c = te.compute((6, 11), lambda i, j: te.sum(b[i, j + k0] * w[k0], axis=k0), name="C")
    d = te.compute((6, 11), lambda i, j: tir.max(c[i, j], zero), name="D")

    def reference(a: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
        wide = np.pad(a, ((0, 0), (1, 1)))
        return [np.maximum(sum(wide[:, k : k + 11] * w[k] for k in range(3)), 0)]

    return Program(lower([a, w, d]), reference)


def _outputs() -> Program:
    """Two outputs, the second of which reads the first; loops of one iteration in the middle."""
    a = te.placeholder((5, 1, 7), name="A")
    b = te.compute((5, 1, 7), lambda i, j, k: a[i, j, k] + 2.0, name="B")
    c = te.compute((5, 1, 7), lambda i, j, k: b[i, j, k] * a[i, 0, 6 - k], name="C")
    return Program(lower([a, b, c]), lambda a: [a + 2, (a + 2) * a[:, :, ::-1]], outputs=2)


def _pooled() -> Program:
    """The greatest of windows, after a sum of two inputs."""
    a, b = te.placeholder((8, 14), name="A"), te.placeholder((14,), name="V")
    x = te.compute((8, 14), lambda i, j: a[i, j] + b[j], name="B")
    k0, k1 = te.reduce_axis((0, 2), name="k0"), te.reduce_axis((0, 2), name="k1")
    c = te.compute((4, 7), lambda i, j: te.max(x[2 * i + k0, 2 * j + k1], axis=[k0, k1]), name="C")
    return Program(lower([a, b, c]), lambda a, v: [(a + v).reshape(4, 2, 7, 2).max((1, 3))])


_MADE: dict[str, Callable[[], Program]] = {
    "matmul": _matmul,
    "chain": _chain,
    "blur": _blur,
    "two_sums": _two_sums,
    "row_max": _row_max,
    "transposed": _transposed,
    "normed": _normed,
    "padded": _padded,
    "outputs": _outputs,
    "pooled": _pooled,
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
    outputs = found.outputs
    inputs = {n: rng.integers(-8, 8, shapes[n]).astype("float32") for n in names[:-outputs]}
    results = {n: np.full(shapes[n], 77, "float32") for n in names[-outputs:]}
    given = {**inputs, **results}
    tvmagic.build(func)(*[given[b.name] for b in buffers])
    for got, right in zip(results.values(), found.reference(*inputs.values())):
        np.testing.assert_array_equal(got, right)
