"""Random functions to schedule: made of tensor expressions, and programs that those cannot say."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tvmagic import te, tir
from tvmagic.ir import PrimFunc
from tvmagic.script import from_source


def _sizes(rng: random.Random) -> tuple[int, int, int]:
    return rng.choice((4, 6, 7, 8, 12)), rng.choice((4, 5, 8, 16)), rng.choice((3, 4, 8, 10))


def _elementwise(rng: random.Random) -> list[Any]:
    n, m, _ = _sizes(rng)
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] + 1.0, name="C")
    d = te.compute((n, m), lambda i, j: c[i, j] * b[i, j], name="D")
    return [a, d]


def _matmul(rng: random.Random) -> list[Any]:
    n, m, k = _sizes(rng)
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    d = te.compute((n, m), lambda i, j: c[i, j] + 1.0, name="D")
    return [a, b, d]


def _convolution(rng: random.Random) -> list[Any]:
    n, m, _ = _sizes(rng)
    a, w = te.placeholder((n, m), name="A"), te.placeholder((3,), name="W")
    p = te.compute(
        (n, m + 2),
        lambda i, j: tir.if_then_else(tir.all(j >= 1, j < m + 1), a[i, j - 1], 0.0),
        name="P",
    )
    r = te.reduce_axis((0, 3), name="r")
    c = te.compute((n, m), lambda i, j: te.sum(p[i, j + r] * w[r], axis=r), name="C")
    return [a, w, c]


def _softmax(rng: random.Random) -> list[Any]:
    n, m, _ = _sizes(rng)
    a = te.placeholder((n, m), name="A")
    k, r = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, m), name="r")
    b = te.compute((n,), lambda i: te.max(a[i, k], axis=k), name="B")
    c = te.compute((n, m), lambda i, j: a[i, j] - b[i], name="C")
    d = te.compute((n,), lambda i: te.sum(c[i, r], axis=r), name="D")
    e = te.compute((n, m), lambda i, j: c[i, j] + d[i], name="E")
    return [a, e]


def _layout(rng: random.Random) -> list[Any]:
    n, m, _ = _sizes(rng)
    a = te.placeholder((n, m), name="A")
    b = te.compute((m, n), lambda i, j: a[j, i] + 1.0, name="B")
    c = te.compute((m * n,), lambda i: b[i // n, i % n] * 2.0, name="C")
    r = te.reduce_axis((0, m * n), name="r")
    d = te.compute((1,), lambda i: te.sum(c[r], axis=r), name="D")
    return [a, d]


def _pool(rng: random.Random) -> list[Any]:
    n, m, _ = _sizes(rng)
    a = te.placeholder((n, 2 * m + 1), name="A")
    b = te.compute((n, 2 * m + 1), lambda i, j: a[i, j] + 1.0, name="B")
    r = te.reduce_axis((0, 3), name="r")
    c = te.compute((n, m), lambda i, j: te.max(b[i, j * 2 + r], axis=r), name="C")
    d = te.compute((n, m), lambda i, j: c[i, m - 1 - j] + b[i, j * 2], name="D")
    return [a, d]


_IN_PLACE = """
def f(A: T.Buffer(({n}, {m}), "float32"), D: T.Buffer(({n}, {m}), "float32")):
    B = T.alloc_buffer(({n}, {m}))
    C = T.alloc_buffer(({n}, {m}))
    for i, j in T.grid({n}, {m}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid({n}, {m}):
        with T.block("B_twice"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = B[vi, vj] * T.float32(2)
    for i, j in T.grid({n}, {m}):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + A[vi, vj]
    for i, j in T.grid({n}, {m}):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] * T.float32(3)
"""

_WRITTEN_AGAIN = """
def f(A: T.Buffer(({n}, {m}), "float32"), D: T.Buffer(({n}, {m}), "float32")):
    B = T.alloc_buffer(({n}, {m}))
    C = T.alloc_buffer(({n}, {m}))
    for i, j in T.grid({n}, {m}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid({n}, {m}):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * T.float32(2)
    for i, j in T.grid({n}, {m}):
        with T.block("B_again"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(3)
    for i, j in T.grid({n}, {m}):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] + C[vi, vj]
"""

_PARTLY_WRITTEN = """
def f(A: T.Buffer(({n}, {m}), "float32"), E: T.Buffer(({n}, {m}), "float32"), D: T.Buffer(({n}, 2 * {m}), "float32")):
    B = T.alloc_buffer(({n}, {m}))
    for i, j in T.grid({n}, {m}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid({n}, {m}):
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            if vj < 3:
                E[vi, vj] = B[vi, vj] * T.float32(2)
    for i, j in T.grid({n}, {m}):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj * 2] = B[vi, vj] + E[vi, vj]
"""

_OVERWRITTEN_INPUT = """
def f(A: T.Buffer(({n}, {m}), "float32"), D: T.Buffer(({n}, {m}), "float32")):
    B = T.alloc_buffer(({n}, {m}))
    for i, j in T.grid({n}, {m}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid({n}, {m}):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = T.Cast("float32", vi)
    for i, j in T.grid({n}, {m}):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] - A[vi, vj]
"""

_TENSORS: tuple[Callable[[random.Random], list[Any]], ...] = (
    _elementwise, _matmul, _convolution, _softmax, _layout, _pool,
)  # fmt: skip
_PROGRAMS = (_IN_PLACE, _WRITTEN_AGAIN, _PARTLY_WRITTEN, _OVERWRITTEN_INPUT)


def random_function(rng: random.Random) -> PrimFunc:
    """A function whose last parameters are its outputs."""
    if rng.random() < 0.75:
        return te.create_prim_func(rng.choice(_TENSORS)(rng))
    n, m, _ = _sizes(rng)
    text = rng.choice(_PROGRAMS).strip().format(n=n, m=m)
    return from_source("from tvm.script import tir as T\n@T.prim_func\n" + text).without_attr("global_symbol")
