"""The kernels as Halide pipelines, for its autoschedulers: each makes the output from inputs whose innermost dimension is first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.kernels import COLUMNS, ROWS

__all__ = ["HALIDE_KERNELS"]


def _vars(hl: Any, names: str) -> list[Any]:
    return [hl.Var(n) for n in names.split()]


def _sum(hl: Any, name: str, at: list[Any], value: Any) -> Any:
    """A function that sums `value`, which has a reduction domain in it, at the variables `at`."""
    f = hl.Func(name)
    f[at] = hl.f32(0.0)
    f[at] += value
    return f


def _largest(hl: Any, name: str, at: list[Any], value: Any) -> Any:
    """As `_sum`, of the largest value."""
    f = hl.Func(name)
    f[at] = hl.Float(32).min()
    f[at] = hl.max(f[at], value)
    return f


def _result(hl: Any, at: list[Any], value: Any) -> Any:
    f = hl.Func("result")
    f[at] = value
    return f


def _add(hl: Any, a: Any, b: Any) -> Any:
    (i,) = _vars(hl, "i")
    return _result(hl, [i], a[i] + b[i])


def _saxpy(hl: Any, a: Any, b: Any) -> Any:
    (i,) = _vars(hl, "i")
    return _result(hl, [i], a[i] * hl.f32(2.5) + b[i])


def _product(hl: Any, a: Any, b: Any, left: str = "ki", right: str = "jk") -> tuple[Any, list[Any]]:
    """The sums of a product, and its variables; an operand's indices come innermost first."""
    j, i = _vars(hl, "j i")
    k = hl.RDom([(0, a.dim(left.index("k")).extent())])
    at = {"i": i, "j": j, "k": k.x}
    return _sum(hl, "sums", [j, i], a[[at[x] for x in left]] * b[[at[x] for x in right]]), [j, i]


def _matmul(hl: Any, a: Any, b: Any, **orders: str) -> Any:
    sums, at = _product(hl, a, b, **orders)
    return _result(hl, at, sums[at])


def _rectified(hl: Any, a: Any, b: Any, bias: Any) -> Any:
    sums, at = _product(hl, a, b)
    return _result(hl, at, hl.max(sums[at] + bias[at[0]], hl.f32(0.0)))


def _batched(hl: Any, a: Any, b: Any) -> Any:
    j, i, n = at = _vars(hl, "j i n")
    k = hl.RDom([(0, a.dim(0).extent())])
    return _result(hl, at, _sum(hl, "sums", at, a[k.x, i, n] * b[j, k.x, n])[at])


def _vector_product(hl: Any, a: Any, x: Any) -> Any:
    at = _vars(hl, "i")
    k = hl.RDom([(0, a.dim(0).extent())])
    return _result(hl, at, _sum(hl, "sums", at, a[k.x, at[0]] * x[k.x])[at])


def _convolution(hl: Any, x: Any, w: Any) -> Any:
    o, j, i = at = _vars(hl, "o j i")
    r = hl.RDom([(0, x.dim(0).extent()), (0, 3), (0, 3)])
    return _result(hl, at, _sum(hl, "sums", at, x[r.x, j + r.y, i + r.z] * w[o, r.x, r.y, r.z])[at])


def _depthwise(hl: Any, x: Any, w: Any) -> Any:
    c, j, i = at = _vars(hl, "c j i")
    r = hl.RDom([(0, 3), (0, 3)])
    return _result(hl, at, _sum(hl, "sums", at, x[c, j + r.x, i + r.y] * w[c, r.x, r.y])[at])


def _blur(hl: Any, x: Any) -> Any:
    j, i = _vars(hl, "j i")
    third, h = hl.f32(1.0 / 3.0), hl.Func("h")
    h[j, i] = (x[j, i] + x[j + 1, i] + x[j + 2, i]) * third
    return _result(hl, [j, i], (h[j, i] + h[j, i + 1] + h[j, i + 2]) * third)


def _softmax_of(hl: Any, scores: Any, columns: int, scale: float = 1.0) -> Any:
    """The softmax of the rows of a function or an input."""
    j, i = _vars(hl, "j i")
    k, q = hl.RDom([(0, columns)]), hl.RDom([(0, columns)])
    top, e = _largest(hl, "top", [i], scores[k.x, i]), hl.Func("e")
    e[j, i] = hl.exp((scores[j, i] - top[i]) * hl.f32(scale))
    total, share = _sum(hl, "total", [i], e[q.x, i]), hl.Func("share")
    share[j, i] = e[j, i] / total[i]
    return share


def _softmax(hl: Any, x: Any) -> Any:
    at = _vars(hl, "j i")
    return _result(hl, at, _softmax_of(hl, x, COLUMNS)[at])


def _attention(hl: Any, q: Any, k: Any, v: Any) -> Any:
    rows = 1024
    d, j, i = _vars(hl, "d j i")
    e, c = hl.RDom([(0, 64)]), hl.RDom([(0, rows)])
    scores = _sum(hl, "scores", [j, i], q[e.x, i] * k[e.x, j])
    share = _softmax_of(hl, scores, rows, 0.125)
    return _result(hl, [d, i], _sum(hl, "sums", [d, i], share[c.x, i] * v[d, c.x])[d, i])


def _norm(hl: Any, x: Any, g: Any, b: Any) -> Any:
    j, i = _vars(hl, "j i")
    k, q, scale = hl.RDom([(0, COLUMNS)]), hl.RDom([(0, COLUMNS)]), hl.f32(1.0 / COLUMNS)
    total = _sum(hl, "total", [i], x[k.x, i])
    away = x[q.x, i] - total[i] * scale
    square = _sum(hl, "square", [i], away * away)
    root = hl.f32(1.0) / hl.sqrt(square[i] * scale + hl.f32(1e-5))
    return _result(hl, [j, i], (x[j, i] - total[i] * scale) * root * g[j] + b[j])


def _gelu(hl: Any, x: Any) -> Any:
    (i,) = _vars(hl, "i")
    v = x[i]
    inner = (v * v * v * hl.f32(0.044715) + v) * hl.f32(0.7978845608)
    return _result(hl, [i], v * hl.f32(0.5) * (hl.tanh(inner) + hl.f32(1.0)))


def _row_sums(hl: Any, x: Any) -> Any:
    at, k = _vars(hl, "i"), hl.RDom([(0, COLUMNS)])
    return _result(hl, at, _sum(hl, "sums", at, x[k.x, at[0]])[at])


def _column_sums(hl: Any, x: Any) -> Any:
    at, k = _vars(hl, "j"), hl.RDom([(0, ROWS)])
    return _result(hl, at, _sum(hl, "sums", at, x[at[0], k.x])[at])


def _transpose(hl: Any, a: Any) -> Any:
    j, i = _vars(hl, "j i")
    return _result(hl, [j, i], a[i, j])


# By the name of a kernel.
HALIDE_KERNELS: dict[str, Callable[..., Any]] = {
    "vector add": _add,
    "saxpy": _saxpy,
    "matmul": _matmul,
    "matmul 512": _matmul,
    "matmul odd": _matmul,
    "matmul transposed left": lambda hl, a, b: _matmul(hl, a, b, left="ik"),
    "matmul transposed right": lambda hl, a, b: _matmul(hl, a, b, right="kj"),
    "matmul, bias, relu": _rectified,
    "batched matmul": _batched,
    "matrix times vector": _vector_product,
    "conv2d 3x3": _convolution,
    "depthwise conv 3x3": _depthwise,
    "blur 3x3": _blur,
    "softmax of rows": _softmax,
    "layer norm": _norm,
    "GELU": _gelu,
    "row sums": _row_sums,
    "column sums": _column_sums,
    "transpose": _transpose,
    "attention": _attention,
}
