"""The kernels that are scheduled by hand: each as a tensor expression with a TensorIR schedule, in NumPy and for Numba.

`build(te)` gives the tensors; the same calls make them in tvmagic and in TVM. `schedule(s)` gets a `Steps` over
either system's schedule. `numpy` and `numba` compute the same from arrays. `plain(te)` is the expression without the
packing that a schedule by hand wants, for the instant schedule, which packs by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmagic.target import resolved

MACHINE = resolved().machine
VECTOR = MACHINE.lanes("float32")
# A tile of a product that divides the sizes here: as many rows as the registers hold beside two vectors of columns.
ROWS_IN_REGISTERS = 8 if MACHINE.vector_registers >= 32 else 4
COLUMNS_IN_REGISTERS = 2 * VECTOR


class Steps:
    """A schedule's calls under one name for tvmagic and TVM (`get_block`, `get_sblock`)."""

    def __init__(self, sch: Any) -> None:
        self.sch = sch
        self.block = getattr(sch, "get_sblock", None) or sch.get_block

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sch, name)

    def elementwise(self, name: str, chunk: int = 8192) -> None:
        """All axes of a block fused, in parallel chunks, vectorized."""
        loops = self.sch.get_loops(self.block(name))
        fused = self.sch.fuse(*loops) if len(loops) > 1 else loops[0]
        outer, _, inner = self.sch.split(fused, [None, chunk // VECTOR, VECTOR])
        self.sch.parallel(outer)
        self.sch.vectorize(inner)


@dataclass
class Kernel:
    name: str
    work: str
    build: Callable[[Any], list[Any]]
    schedule: Callable[[Steps], None] | None
    inputs: Callable[[np.random.Generator], list[np.ndarray]]
    numpy: Callable[..., np.ndarray]
    numba: Callable[[Any, bool], Callable[..., Any]] | None
    flops: float = 0.0
    bytes: float = 0.0
    tolerance: float = 1e-4
    plain: Callable[[Any], list[Any]] | None = None


def _random(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], list[np.ndarray]]:
    return lambda rng: [rng.standard_normal(s, dtype="float32") for s in shapes]


# ---------------------------------------------------------------------------- vector add, saxpy

LENGTH = 1 << 24


def _add(te: Any) -> list[Any]:
    a, b = (te.placeholder((LENGTH,), name=n) for n in "AB")
    return [a, b, te.compute((LENGTH,), lambda i: a[i] + b[i], name="C")]


def _add_numba(nb: Any, parallel: bool) -> Callable[..., Any]:
    @nb.njit(fastmath=True, parallel=parallel)
    def run(a, b, c):
        for i in nb.prange(a.shape[0]):
            c[i] = a[i] + b[i]

    return run


def _saxpy(te: Any) -> list[Any]:
    x, y = (te.placeholder((LENGTH,), name=n) for n in "XY")
    return [x, y, te.compute((LENGTH,), lambda i: x[i] * 2.5 + y[i], name="C")]


def _saxpy_numba(nb: Any, parallel: bool) -> Callable[..., Any]:
    @nb.njit(fastmath=True, parallel=parallel)
    def run(x, y, c):
        for i in nb.prange(x.shape[0]):
            c[i] = np.float32(2.5) * x[i] + y[i]

    return run


# ---------------------------------------------------------------------------- matrix products

N = 1024
BATCH, M = 16, 256


def _matmul(te: Any) -> list[Any]:
    a, b = (te.placeholder((N, N), name=n) for n in "AB")
    w = COLUMNS_IN_REGISTERS
    panels = te.compute((N // w, N, w), lambda p, k, j: b[k, p * w + j], name="P")
    k = te.reduce_axis((0, N), name="k")
    c = te.compute(
        (N, N), lambda i, j: te.sum(a[i, k] * panels[te.indexdiv(j, w), k, te.indexmod(j, w)], axis=k), name="C"
    )
    return [a, b, c]


def _plain_matmul(te: Any) -> list[Any]:
    a, b = (te.placeholder((N, N), name=n) for n in "AB")
    k = te.reduce_axis((0, N), name="k")
    return [a, b, te.compute((N, N), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]


def _in_registers(s: Steps, block: Any, tile: Any, k: Any, row: Any, column: Any) -> None:
    """The loops of a tile of a product: rows side by side, columns as vectors, the tile cleared before `k`."""
    s.unroll(row)
    s.vectorize(column)
    s.decompose_reduction(block, k)
    rows, columns = s.get_loops(tile)[-2:]
    s.unroll(rows)
    s.vectorize(columns)


def _matmul_schedule(s: Steps) -> None:
    p, k, j = s.get_loops(s.block("P"))
    s.parallel(p)
    s.vectorize(j)
    block = s.block("C")
    tile = s.cache_write(block, 0, "local")
    i, j, k = s.get_loops(block)
    io, ii = s.split(i, [None, ROWS_IN_REGISTERS])
    jo, ji = s.split(j, [None, COLUMNS_IN_REGISTERS])
    s.reorder(io, jo, k, ii, ji)
    s.reverse_compute_at(tile, jo)
    s.parallel(io)
    _in_registers(s, block, tile, k, ii, ji)


def _matmul_numba(nb: Any, parallel: bool) -> Callable[..., Any]:
    @nb.njit(fastmath=True, parallel=parallel)
    def run(a, b, c):
        for i in nb.prange(a.shape[0]):
            for j in range(b.shape[1]):
                c[i, j] = 0
            for k in range(a.shape[1]):
                for j in range(b.shape[1]):
                    c[i, j] += a[i, k] * b[k, j]

    return run


def _batched(te: Any) -> list[Any]:
    a, b = (te.placeholder((BATCH, M, M), name=n) for n in "AB")
    w = COLUMNS_IN_REGISTERS
    panels = te.compute((BATCH, M // w, M, w), lambda n, p, k, j: b[n, k, p * w + j], name="P")
    k = te.reduce_axis((0, M), name="k")
    c = te.compute(
        (BATCH, M, M),
        lambda n, i, j: te.sum(a[n, i, k] * panels[n, te.indexdiv(j, w), k, te.indexmod(j, w)], axis=k),
        name="C",
    )
    return [a, b, c]


def _plain_batched(te: Any) -> list[Any]:
    a, b = (te.placeholder((BATCH, M, M), name=n) for n in "AB")
    k = te.reduce_axis((0, M), name="k")
    return [a, b, te.compute((BATCH, M, M), lambda n, i, j: te.sum(a[n, i, k] * b[n, k, j], axis=k), name="C")]


def _batched_schedule(s: Steps) -> None:
    block = s.block("C")
    tile = s.cache_write(block, 0, "local")
    n, i, j, k = s.get_loops(block)
    io, ii = s.split(i, [None, ROWS_IN_REGISTERS])
    jo, ji = s.split(j, [None, COLUMNS_IN_REGISTERS])
    s.reorder(n, jo, io, k, ii, ji)
    s.reverse_compute_at(tile, io)
    both = s.fuse(n, jo)
    s.compute_at(s.block("P"), both)
    s.vectorize(s.get_loops(s.block("P"))[-1])
    s.parallel(both)
    _in_registers(s, block, tile, k, ii, ji)


def _batched_numba(nb: Any, parallel: bool) -> Callable[..., Any]:
    @nb.njit(fastmath=True, parallel=parallel)
    def run(a, b, c):
        for n in nb.prange(a.shape[0]):
            for i in range(a.shape[1]):
                for j in range(b.shape[2]):
                    c[n, i, j] = 0
                for k in range(a.shape[2]):
                    for j in range(b.shape[2]):
                        c[n, i, j] += a[n, i, k] * b[n, k, j]

    return run


# ---------------------------------------------------------------------------- convolutions

SIDE, CHANNELS = 56, 64
WIDE = 112


def _conv(te: Any) -> list[Any]:
    x = te.placeholder((SIDE + 2, SIDE + 2, CHANNELS), name="X")
    w = te.placeholder((3, 3, CHANNELS, CHANNELS), name="W")
    v = COLUMNS_IN_REGISTERS
    panels = te.compute((CHANNELS // v, 3, 3, CHANNELS, v), lambda p, r, q, c, o: w[r, q, c, p * v + o], name="P")
    r, q, c = (te.reduce_axis((0, e), name=n) for e, n in ((3, "r"), (3, "q"), (CHANNELS, "c")))
    y = te.compute(
        (SIDE, SIDE, CHANNELS),
        lambda i, j, o: te.sum(
            x[i + r, j + q, c] * panels[te.indexdiv(o, v), r, q, c, te.indexmod(o, v)], axis=[r, q, c]
        ),
        name="Y",
    )
    return [x, w, y]


def _plain_conv(te: Any) -> list[Any]:
    x = te.placeholder((SIDE + 2, SIDE + 2, CHANNELS), name="X")
    w = te.placeholder((3, 3, CHANNELS, CHANNELS), name="W")
    r, q, c = (te.reduce_axis((0, e), name=n) for e, n in ((3, "r"), (3, "q"), (CHANNELS, "c")))
    y = te.compute(
        (SIDE, SIDE, CHANNELS),
        lambda i, j, o: te.sum(x[i + r, j + q, c] * w[r, q, c, o], axis=[r, q, c]),
        name="Y",
    )
    return [x, w, y]


def _conv_schedule(s: Steps) -> None:
    s.vectorize(s.get_loops(s.block("P"))[-1])
    block = s.block("Y")
    tile = s.cache_write(block, 0, "local")
    i, j, o, r, q, c = s.get_loops(block)
    jo, ji = s.split(j, [None, 7 if ROWS_IN_REGISTERS == 8 else 4])
    oo, oi = s.split(o, [None, COLUMNS_IN_REGISTERS])
    s.reorder(i, oo, jo, r, q, c, ji, oi)
    s.reverse_compute_at(tile, jo)
    s.parallel(i)
    s.unroll(ji)
    s.vectorize(oi)
    s.decompose_reduction(block, r)
    columns, lanes = s.get_loops(tile)[-2:]
    s.unroll(columns)
    s.vectorize(lanes)


def _conv_numpy(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(0, 1))
    columns = windows.transpose(0, 1, 3, 4, 2).reshape(SIDE * SIDE, 9 * CHANNELS)
    return (columns @ w.reshape(9 * CHANNELS, CHANNELS)).reshape(SIDE, SIDE, CHANNELS)


def _conv_numba(nb: Any, parallel: bool) -> Callable[..., Any]:
    @nb.njit(fastmath=True, parallel=parallel)
    def run(x, w, y):
        for i in nb.prange(y.shape[0]):
            for j in range(y.shape[1]):
                for o in range(y.shape[2]):
                    y[i, j, o] = 0
                for r in range(3):
                    for q in range(3):
                        for c in range(x.shape[2]):
                            v = x[i + r, j + q, c]
                            for o in range(y.shape[2]):
                                y[i, j, o] += v * w[r, q, c, o]

    return run


def _depthwise(te: Any) -> list[Any]:
    x = te.placeholder((WIDE + 2, WIDE + 2, CHANNELS), name="X")
    w = te.placeholder((3, 3, CHANNELS), name="W")
    r, q = (te.reduce_axis((0, 3), name=n) for n in "rq")
    y = te.compute(
        (WIDE, WIDE, CHANNELS), lambda i, j, c: te.sum(x[i + r, j + q, c] * w[r, q, c], axis=[r, q]), name="Y"
    )
    return [x, w, y]


def _depthwise_schedule(s: Steps) -> None:
    block = s.block("Y")
    tile = s.cache_write(block, 0, "local")
    i, j, c, r, q = s.get_loops(block)
    co, ci = s.split(c, [None, VECTOR])
    jo, ji = s.split(j, [None, 8])
    s.reorder(i, co, jo, r, q, ji, ci)
    s.reverse_compute_at(tile, jo)
    s.parallel(i)
    for loop in (r, q, ji):
        s.unroll(loop)
    s.vectorize(ci)
    s.decompose_reduction(block, r)
    columns, lanes = s.get_loops(tile)[-2:]
    s.unroll(columns)
    s.vectorize(lanes)


def _depthwise_numpy(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    result = np.zeros((WIDE, WIDE, CHANNELS), "float32")
    for r in range(3):
        for q in range(3):
            result += x[r : r + WIDE, q : q + WIDE] * w[r, q]
    return result


def _depthwise_numba(nb: Any, parallel: bool) -> Callable[..., Any]:
    @nb.njit(fastmath=True, parallel=parallel)
    def run(x, w, y):
        for i in nb.prange(y.shape[0]):
            for j in range(y.shape[1]):
                for c in range(y.shape[2]):
                    total = np.float32(0)
                    for r in range(3):
                        for q in range(3):
                            total += x[i + r, j + q, c] * w[r, q, c]
                    y[i, j, c] = total

    return run


# ---------------------------------------------------------------------------- blur

HEIGHT = 2048


def _blur(te: Any) -> list[Any]:
    x = te.placeholder((HEIGHT + 2, HEIGHT + 2), name="X")
    third = 1.0 / 3.0
    h = te.compute(
        (HEIGHT + 2, HEIGHT), lambda i, j: (x[i, j] + x[i, j + 1] + x[i, j + 2]) * te_const(te, third), name="H"
    )
    y = te.compute((HEIGHT, HEIGHT), lambda i, j: (h[i, j] + h[i + 1, j] + h[i + 2, j]) * te_const(te, third), name="Y")
    return [x, y]


def te_const(te: Any, value: float) -> Any:
    """A float32 constant of the system that `te` belongs to."""
    return te.const(value, "float32") if hasattr(te, "const") else value


def _blur_schedule(s: Steps) -> None:
    i, j = s.get_loops(s.block("Y"))
    io, ii = s.split(i, [None, 6])
    jo, ji = s.split(j, [None, VECTOR])
    s.reorder(io, jo, ii, ji)
    across = s.block("H")
    s.set_scope(across, 0, "local")
    s.compute_at(across, jo)
    s.parallel(io)
    rows, lanes = s.get_loops(across)[-2:]
    for loop in (ii, rows):
        s.unroll(loop)
    for loop in (ji, lanes):
        s.vectorize(loop)


def _blur_numpy(x: np.ndarray) -> np.ndarray:
    third = np.float32(1 / 3)
    h = (x[:, :-2] + x[:, 1:-1] + x[:, 2:]) * third
    return (h[:-2] + h[1:-1] + h[2:]) * third


def _blur_numba(nb: Any, parallel: bool) -> Callable[..., Any]:
    third = np.float32(1 / 3)

    @nb.njit(fastmath=True, parallel=parallel)
    def run(x, y):
        for i in nb.prange(y.shape[0]):
            for j in range(y.shape[1]):
                total = np.float32(0)
                for r in range(3):
                    total += (x[i + r, j] + x[i + r, j + 1] + x[i + r, j + 2]) * third
                y[i, j] = total * third

    return run


# ---------------------------------------------------------------------------- rows: softmax, layer norm

ROWS, COLUMNS = 4096, 1024


def _row_reduction(s: Steps, name: str, at: Any, lanes: int = 32) -> None:
    """A row's reduction in `lanes` partial results, under the loop `at`."""
    block = s.block(name)
    inner = s.split(s.get_loops(block)[-1], [None, lanes])[1]
    partial = s.rfactor(inner, 1)
    s.compute_at(block, at)
    s.compute_at(partial, at)
    lane, many = s.get_loops(partial)[-2:]
    s.reorder(many, lane)
    s.vectorize(lane)
    s.decompose_reduction(partial, many)


def _softmax(te: Any) -> list[Any]:
    x = te.placeholder((ROWS, COLUMNS), name="X")
    k, q = (te.reduce_axis((0, COLUMNS), name=n) for n in "kq")
    top = te.compute((ROWS,), lambda i: te.max(x[i, k], axis=k), name="top")
    e = te.compute((ROWS, COLUMNS), lambda i, j: te.exp(x[i, j] - top[i]), name="E")
    total = te.compute((ROWS,), lambda i: te.sum(e[i, q], axis=q), name="total")
    return [x, te.compute((ROWS, COLUMNS), lambda i, j: e[i, j] / total[i], name="Y")]


def _softmax_schedule(s: Steps) -> None:
    row, column = s.get_loops(s.block("Y"))
    s.parallel(row)
    s.vectorize(s.split(column, [None, VECTOR])[1])
    _row_reduction(s, "total", row)
    s.compute_at(s.block("E"), row)
    s.vectorize(s.split(s.get_loops(s.block("E"))[-1], [None, VECTOR])[1])
    _row_reduction(s, "top", row)


def _softmax_numpy(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _softmax_numba(nb: Any, parallel: bool) -> Callable[..., Any]:
    @nb.njit(fastmath=True, parallel=parallel)
    def run(x, y):
        for i in nb.prange(x.shape[0]):
            top = x[i, 0]
            for j in range(x.shape[1]):
                top = max(top, x[i, j])
            total = np.float32(0)
            for j in range(x.shape[1]):
                e = np.exp(x[i, j] - top)
                y[i, j] = e
                total += e
            for j in range(x.shape[1]):
                y[i, j] /= total

    return run


def _norm(te: Any) -> list[Any]:
    x = te.placeholder((ROWS, COLUMNS), name="X")
    g, b = (te.placeholder((COLUMNS,), name=n) for n in ("G", "B"))
    k, q = (te.reduce_axis((0, COLUMNS), name=n) for n in "kq")
    scale = 1.0 / COLUMNS
    total = te.compute((ROWS,), lambda i: te.sum(x[i, k], axis=k), name="total")
    square = te.compute(
        (ROWS,),
        lambda i: te.sum((x[i, q] - total[i] * scale) * (x[i, q] - total[i] * scale), axis=q),
        name="square",
    )
    y = te.compute(
        (ROWS, COLUMNS),
        lambda i, j: (x[i, j] - total[i] * scale) * te.rsqrt(square[i] * scale + 1e-5) * g[j] + b[j],
        name="Y",
    )
    return [x, g, b, y]


def _norm_schedule(s: Steps) -> None:
    row, column = s.get_loops(s.block("Y"))
    s.parallel(row)
    s.vectorize(s.split(column, [None, VECTOR])[1])
    _row_reduction(s, "square", row)
    _row_reduction(s, "total", row)


def _norm_numpy(x: np.ndarray, g: np.ndarray, b: np.ndarray) -> np.ndarray:
    mean = x.mean(axis=1, keepdims=True)
    centred = x - mean
    variance = (centred * centred).mean(axis=1, keepdims=True)
    return centred / np.sqrt(variance + np.float32(1e-5)) * g + b


def _norm_numba(nb: Any, parallel: bool) -> Callable[..., Any]:
    @nb.njit(fastmath=True, parallel=parallel)
    def run(x, g, b, y):
        count = np.float32(x.shape[1])
        for i in nb.prange(x.shape[0]):
            total = np.float32(0)
            for j in range(x.shape[1]):
                total += x[i, j]
            mean = total / count
            square = np.float32(0)
            for j in range(x.shape[1]):
                square += (x[i, j] - mean) * (x[i, j] - mean)
            scale = np.float32(1) / np.sqrt(square / count + np.float32(1e-5))
            for j in range(x.shape[1]):
                y[i, j] = (x[i, j] - mean) * scale * g[j] + b[j]

    return run


# ---------------------------------------------------------------------------- GELU

GELU_LENGTH = 1 << 22
_ROOT = math.sqrt(2 / math.pi)


def _gelu(te: Any) -> list[Any]:
    x = te.placeholder((GELU_LENGTH,), name="X")

    def value(i: Any) -> Any:
        v = x[i]
        return v * 0.5 * (te.tanh((v * v * v * 0.044715 + v) * _ROOT) + 1.0)

    return [x, te.compute((GELU_LENGTH,), value, name="Y")]


def _gelu_numpy(x: np.ndarray) -> np.ndarray:
    return x * np.float32(0.5) * (np.tanh((x * x * x * np.float32(0.044715) + x) * np.float32(_ROOT)) + np.float32(1))


def _gelu_numba(nb: Any, parallel: bool) -> Callable[..., Any]:
    root = np.float32(_ROOT)

    @nb.njit(fastmath=True, parallel=parallel)
    def run(x, y):
        for i in nb.prange(x.shape[0]):
            v = x[i]
            inner = (v * v * v * np.float32(0.044715) + v) * root
            y[i] = v * np.float32(0.5) * (np.tanh(inner) + np.float32(1))

    return run


_ROW_BYTES = 8.0 * ROWS * COLUMNS
KERNELS = [
    Kernel("vector add", f"{LENGTH} floats", _add, lambda s: s.elementwise("C"), _random((LENGTH,), (LENGTH,)),
           np.add, _add_numba, bytes=12.0 * LENGTH),
    Kernel("saxpy", f"{LENGTH} floats", _saxpy, lambda s: s.elementwise("C"), _random((LENGTH,), (LENGTH,)),
           lambda x, y: np.float32(2.5) * x + y, _saxpy_numba, bytes=12.0 * LENGTH),
    Kernel("matmul", "1024 x 1024 x 1024", _matmul, _matmul_schedule, _random((N, N), (N, N)),
           np.matmul, _matmul_numba, flops=2.0 * N**3, tolerance=1e-2, plain=_plain_matmul),
    Kernel("batched matmul", "16 of 256 x 256 x 256", _batched, _batched_schedule, _random((BATCH, M, M), (BATCH, M, M)),
           np.matmul, _batched_numba, flops=2.0 * BATCH * M**3, tolerance=1e-2, plain=_plain_batched),
    Kernel("conv2d 3x3", "56 x 56, 64 to 64 channels", _conv, _conv_schedule,
           _random((SIDE + 2, SIDE + 2, CHANNELS), (3, 3, CHANNELS, CHANNELS)), _conv_numpy, _conv_numba,
           flops=2.0 * SIDE * SIDE * 9 * CHANNELS * CHANNELS, tolerance=1e-2, plain=_plain_conv),
    Kernel("depthwise conv 3x3", "112 x 112, 64 channels", _depthwise, _depthwise_schedule,
           _random((WIDE + 2, WIDE + 2, CHANNELS), (3, 3, CHANNELS)), _depthwise_numpy, _depthwise_numba,
           flops=2.0 * WIDE * WIDE * 9 * CHANNELS),
    Kernel("blur 3x3", "2048 x 2048", _blur, _blur_schedule, _random((HEIGHT + 2, HEIGHT + 2)), _blur_numpy,
           _blur_numba, bytes=8.0 * HEIGHT * HEIGHT),
    Kernel("softmax of rows", "4096 x 1024", _softmax, _softmax_schedule, _random((ROWS, COLUMNS)), _softmax_numpy,
           _softmax_numba, bytes=_ROW_BYTES),
    Kernel("layer norm", "4096 x 1024", _norm, _norm_schedule, _random((ROWS, COLUMNS), (COLUMNS,), (COLUMNS,)),
           _norm_numpy, _norm_numba, bytes=_ROW_BYTES, tolerance=1e-3),
    Kernel("GELU", f"{GELU_LENGTH} floats", _gelu, lambda s: s.elementwise("Y"), _random((GELU_LENGTH,)), _gelu_numpy,
           _gelu_numba, bytes=8.0 * GELU_LENGTH),
]  # fmt: skip
