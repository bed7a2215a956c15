"""Kernels without a schedule by hand: what the instant schedule makes of them, beside NumPy and Numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.kernels import Kernel

__all__ = ["MORE_KERNELS"]


def _inputs(*shapes: tuple[int, ...], dtype: str = "float32") -> Callable[[np.random.Generator], list[np.ndarray]]:
    if dtype == "int8":
        return lambda rng: [rng.integers(-100, 100, s).astype("int8") for s in shapes]
    return lambda rng: [rng.standard_normal(s, dtype="float32") for s in shapes]


def _product(
    m: int, n: int, k: int, left: str = "ik", right: str = "kj", relu: bool = False
) -> Callable[[Any], list[Any]]:
    """A product whose operands have their indices in the order given; with `relu` a bias and a rectifier follow."""
    sizes = {"i": m, "j": n, "k": k}

    def build(te: Any) -> list[Any]:
        a = te.placeholder([sizes[x] for x in left], name="A")
        b = te.placeholder([sizes[x] for x in right], name="B")
        axis = te.reduce_axis((0, k), name="k")

        def value(i: Any, j: Any) -> Any:
            at = {"i": i, "j": j, "k": axis}
            return te.sum(a[tuple(at[x] for x in left)] * b[tuple(at[x] for x in right)], axis=axis)

        c = te.compute((m, n), value, name="C")
        if not relu:
            return [a, b, c]
        bias = te.placeholder((n,), name="bias")
        from tvmagic import tir

        return [
            a,
            b,
            bias,
            te.compute((m, n), lambda i, j: tir.max(c[i, j] + bias[j], tir.const(0.0, "float32")), name="D"),
        ]

    return build


def _square(name: str, n: int) -> Kernel:
    return Kernel(f"matmul {name}", f"{n} x {n} x {n}", _product(n, n, n), None, _inputs((n, n), (n, n)), np.matmul, None,
                  flops=2.0 * n**3, tolerance=1e-2)  # fmt: skip


def _int8(te: Any) -> list[Any]:
    a, b = te.placeholder((512, 512), dtype="int8", name="A"), te.placeholder((512, 512), dtype="int8", name="B")
    k = te.reduce_axis((0, 512), name="k")
    return [
        a,
        b,
        te.compute((512, 512), lambda i, j: te.sum(a[i, k].astype("int32") * b[k, j].astype("int32"), axis=k)),
    ]


def _convolution(h: int, c: int, o: int, stride: int, side: int = 3) -> Kernel:
    """A convolution with padding, channels last."""
    pad = side // 2
    out = (h + 2 * pad - side) // stride + 1

    def build(te: Any) -> list[Any]:
        from tvmagic import tir

        x = te.placeholder((h, h, c), name="X")
        w = te.placeholder((side, side, c, o), name="W")

        def padded(i: Any, j: Any, ch: Any) -> Any:
            inside = tir.all(i >= pad, i < h + pad, j >= pad, j < h + pad)
            return tir.if_then_else(inside, x[i - pad, j - pad, ch], tir.const(0.0, "float32"))

        p = te.compute((h + 2 * pad, h + 2 * pad, c), padded, name="pad")
        r, q, ch = (te.reduce_axis((0, e), name=n) for e, n in ((side, "r"), (side, "q"), (c, "c")))
        y = te.compute(
            (out, out, o),
            lambda i, j, k: te.sum(p[i * stride + r, j * stride + q, ch] * w[r, q, ch, k], axis=[r, q, ch]),
            name="Y",
        )
        return [x, w, y]

    def numpy(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        p = np.pad(x, ((pad, pad), (pad, pad), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(p, (side, side), axis=(0, 1))[::stride, ::stride]
        columns = windows.transpose(0, 1, 3, 4, 2).reshape(out * out, side * side * c)
        return (columns @ w.reshape(side * side * c, o)).reshape(out, out, o)

    name = f"conv {side}x{side} of {h}x{h}, stride {stride}"
    return Kernel(name, f"{c} to {o} channels, padded", build, None, _inputs((h, h, c), (side, side, c, o)), numpy, None,
                  flops=2.0 * out * out * o * side * side * c, tolerance=1e-2)  # fmt: skip


def _reduced(axis: int) -> Callable[[Any], list[Any]]:
    def build(te: Any) -> list[Any]:
        x = te.placeholder((4096, 1024), name="X")
        k = te.reduce_axis((0, x.shape[axis]), name="k")
        if axis:
            return [x, te.compute((4096,), lambda i: te.sum(x[i, k], axis=k), name="S")]
        return [x, te.compute((1024,), lambda j: te.sum(x[k, j], axis=k), name="S")]

    return build


def _gemv(te: Any) -> list[Any]:
    a, x = te.placeholder((2048, 2048), name="A"), te.placeholder((2048,), name="X")
    k = te.reduce_axis((0, 2048), name="k")
    return [a, x, te.compute((2048,), lambda i: te.sum(a[i, k] * x[k], axis=k), name="Y")]


def _transpose(te: Any) -> list[Any]:
    a = te.placeholder((2048, 2048), name="A")
    return [a, te.compute((2048, 2048), lambda i, j: a[j, i], name="T")]


def _gather(te: Any) -> list[Any]:
    table, index = te.placeholder((50_000, 256), name="T"), te.placeholder((8192,), dtype="int32", name="I")
    return [table, index, te.compute((8192, 256), lambda i, j: table[index[i], j], name="G")]


def _attention(te: Any) -> list[Any]:
    """One head: 1024 queries, keys and values of 64 numbers."""
    n, d = 1024, 64
    q, k, v = (te.placeholder((n, d), name=x) for x in "QKV")
    e = te.reduce_axis((0, d), name="e")
    a, b, c = (te.reduce_axis((0, n), name=x) for x in "abc")
    s = te.compute((n, n), lambda i, j: te.sum(q[i, e] * k[j, e], axis=e), name="S")
    top = te.compute((n,), lambda i: te.max(s[i, a], axis=a), name="top")
    x = te.compute((n, n), lambda i, j: te.exp((s[i, j] - top[i]) * 0.125), name="E")
    total = te.compute((n,), lambda i: te.sum(x[i, b], axis=b), name="total")
    p = te.compute((n, n), lambda i, j: x[i, j] / total[i], name="P")
    return [q, k, v, te.compute((n, d), lambda i, j: te.sum(p[i, c] * v[c, j], axis=c), name="O")]


def _attention_numpy(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = q @ k.T
    e = np.exp((s - s.max(axis=1, keepdims=True)) * np.float32(0.125))
    return (e / e.sum(axis=1, keepdims=True)) @ v


_ODD = 2.0 * 1000 * 777 * 1023
MORE_KERNELS = [
    _square("512", 512),
    _square("2048", 2048),
    Kernel("matmul odd", "1000 x 777 x 1023", _product(1000, 777, 1023), None, _inputs((1000, 1023), (1023, 777)), np.matmul,
           None, flops=_ODD, tolerance=1e-2),
    Kernel("matmul transposed left", "1024 x 1024 x 1024", _product(1024, 1024, 1024, left="ki"), None,
           _inputs((1024, 1024), (1024, 1024)), lambda a, b: a.T @ b, None, flops=2.0 * 1024**3, tolerance=1e-2),
    Kernel("matmul transposed right", "1024 x 1024 x 1024", _product(1024, 1024, 1024, right="jk"), None,
           _inputs((1024, 1024), (1024, 1024)), lambda a, b: a @ b.T, None, flops=2.0 * 1024**3, tolerance=1e-2),
    Kernel("matmul, bias, relu", "1024 x 1024 x 1024", _product(1024, 1024, 1024, relu=True), None,
           _inputs((1024, 1024), (1024, 1024), (1024,)), lambda a, b, c: np.maximum(a @ b + c, 0), None,
           flops=2.0 * 1024**3, tolerance=1e-2),
    Kernel("matmul int8 to int32", "512 x 512 x 512", _int8, None, _inputs((512, 512), (512, 512), dtype="int8"),
           lambda a, b: a.astype("int32") @ b.astype("int32"), None, flops=2.0 * 512**3),
    _convolution(56, 64, 128, 2),
    _convolution(14, 256, 256, 1),
    _convolution(112, 32, 64, 2, 5),
    Kernel("matrix times vector", "2048 x 2048", _gemv, None, _inputs((2048, 2048), (2048,)), np.matmul, None,
           bytes=4.0 * 2048 * 2048, tolerance=1e-3),
    Kernel("row sums", "4096 x 1024", _reduced(1), None, _inputs((4096, 1024)), lambda x: x.sum(axis=1), None,
           bytes=4.0 * 4096 * 1024, tolerance=1e-3),
    Kernel("column sums", "4096 x 1024", _reduced(0), None, _inputs((4096, 1024)), lambda x: x.sum(axis=0), None,
           bytes=4.0 * 4096 * 1024, tolerance=1e-3),
    Kernel("transpose", "2048 x 2048", _transpose, None, _inputs((2048, 2048)), lambda a: np.ascontiguousarray(a.T), None,
           bytes=8.0 * 2048 * 2048),
    Kernel("gather", "8192 rows of 256", _gather, None,
           lambda rng: [rng.standard_normal((50_000, 256), dtype="float32"), rng.integers(0, 50_000, 8192, dtype="int32")],
           lambda t, i: t[i], None, bytes=8.0 * 8192 * 256),
    Kernel("attention", "1024 by 64, one head", _attention, None, _inputs((1024, 64), (1024, 64), (1024, 64)),
           _attention_numpy, None, flops=4.0 * 1024 * 1024 * 64, tolerance=1e-3),
]  # fmt: skip
