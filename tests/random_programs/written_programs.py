"""Programs as users of TVM write them, of kinds that no generator makes: each with its meaning in NumPy and with schedules.

`PROGRAMS` has them by name: a function that gives a `Written`. They run plain, in each of their schedules, and as `%auto`
schedules them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvmagic import te, tir
from tvmagic.script import from_source

PROGRAMS: dict[str, Callable[[], Written]] = {}
RNG = np.random.default_rng(0)
f32 = np.float32


@dataclass
class Written:
    """A program: tensors of TE in the order of its parameters, or the text of a TensorIR function.

    `arrays` are given for the parameters, an integer for a size, and `wanted` what the written ones hold afterwards, None for
    others. `schedules` are functions of a `te.Schedule` (with the tensors behind it) or of a `tir.Schedule`.
    `inexact`: whether results round. `te_only`: there is no TensorIR function for it.
    """

    program: Any
    arrays: list[Any]
    wanted: list[Any]
    schedules: list[Callable[..., None]] = field(default_factory=list)
    inexact: bool = False
    te_only: bool = False


def program(make: Callable[[], Written]) -> Callable[[], Written]:
    PROGRAMS[make.__name__] = make
    return make


def whole(*shape: int, dtype: Any = f32, low: int = -4, high: int = 5) -> Any:
    """Whole numbers, whose sums are exact."""
    return RNG.integers(low, high, shape).astype(dtype)


# ---------------------------------------------------------------------------- tensor expressions: scans


@program
def fibonacci_of_two_states() -> Written:
    """Two states that read each other."""
    n, m = 9, 6
    A, B = te.placeholder((n, m), name="A"), te.placeholder((n, m), name="B")
    a, b = te.placeholder((1, m), name="a"), te.placeholder((1, m), name="b")
    a0, b0 = te.compute((1, m), lambda _, j: a[0, j]), te.compute((1, m), lambda _, j: b[0, j])
    a1 = te.compute((n, m), lambda t, j: A[t - 1, j] + B[t - 1, j], name="a1")
    b1 = te.compute((n, m), lambda t, j: A[t - 1, j] - 1, name="b1")
    x, y = te.scan([a0, b0], [a1, b1], [A, B])
    first, second = whole(1, m), whole(1, m)
    wa, wb = np.zeros((n, m), "f4"), np.zeros((n, m), "f4")
    wa[0], wb[0] = first, second
    for t in range(1, n):
        wa[t], wb[t] = wa[t - 1] + wb[t - 1], wa[t - 1] - 1

    def vectors(s: Any, *_: Any) -> None:
        for stage in (a1, b1):
            s[stage].vectorize(s[stage].split(stage.op.axis[1], 4)[1])

    def threads(s: Any, *_: Any) -> None:
        for stage in (a0, b0, a1, b1):
            s[stage].bind(stage.op.axis[1], te.thread_axis((0, m), "threadIdx.x"))

    return Written([a, b, x, y], [first, second, wa, wb], [None, None, wa, wb], [vectors, threads], te_only=True)


@program
def recurrence_of_two_steps_back() -> Written:
    n, m = 12, 5
    X, S = te.placeholder((n, m), name="X"), te.placeholder((n, m), name="S")
    first = te.compute((2, m), lambda t, j: X[t, j], name="first")
    step = te.compute(
        (n, m), lambda t, j: S[t - 2, j] + X[t, j] * te.if_then_else(S[t - 1, j] > 0, 1.0, -1.0), name="step"
    )
    Y = te.scan(first, step, S, inputs=[X])
    x = whole(n, m)
    w = x.copy()
    for t in range(2, n):
        w[t] = w[t - 2] + x[t] * np.where(w[t - 1] > 0, 1, -1)

    def tiled(s: Any, *_: Any) -> None:
        C = s.cache_write(step, "local")
        o, i = s[step].split(s[step].op.axis[1], 2)
        s[C].compute_at(s[step], o)
        s[step].vectorize(i)

    return Written([X, Y], [x, w], [None, w], [tiled], te_only=True)


@program
def scan_of_a_matrix_product() -> Written:
    """A recurrent layer: a state times a matrix in each step."""
    n, m = 5, 7
    X, W, S = te.placeholder((n, m), name="X"), te.placeholder((m, m), name="W"), te.placeholder((n, m), name="S")
    k = te.reduce_axis((0, m), "k")
    dot = te.compute((n, m), lambda t, j: te.sum(S[t - 1, k] * W[k, j], axis=k), name="dot")
    step = te.compute((n, m), lambda t, j: te.max(te.min(dot[t, j] + X[t, j], 4.0), -4.0) if False else
                      tir.max(tir.min(dot[t, j] + X[t, j], 4.0), -4.0), name="step")  # fmt: skip
    first = te.compute((1, m), lambda t, j: X[t, j], name="first")
    Y = te.scan(first, step, S, inputs=[X])
    x, w = whole(n, m, low=-2, high=3), whole(m, m, low=-1, high=2)
    y = x.copy()
    for t in range(1, n):
        y[t] = np.clip(y[t - 1] @ w + x[t], -4, 4)

    def at_step(s: Any, *_: Any) -> None:
        o, i = s[step].split(s[step].op.axis[1], 4)
        s[dot].compute_at(s[step], o)
        s[dot].vectorize(s[dot].op.axis[1])
        s[dot].unroll(s[dot].op.reduce_axis[0])

    return Written([X, W, Y], [x, w, y], [None, None, y], [at_step], te_only=True)


# ---------------------------------------------------------------------------- reductions of several values


def _arg(better: Callable[[Any, Any], Any], worst: Callable[[str], Any]) -> Any:
    def combine(x: Any, y: Any) -> Any:
        first = tir.any(better(x[1], y[1]), tir.all(tir.EQ(x[1], y[1]), x[0] < y[0]))
        return tir.Select(first, x[0], y[0]), tir.Select(first, x[1], y[1])

    return te.comm_reducer(combine, lambda i, v: (tir.const(2**31 - 1, i), worst(v)), "arg")


def _argument(pick: str, n: int, m: int) -> Written:
    X = te.placeholder((n, m), "float32", name="X")
    k = te.reduce_axis((0, m), "k")
    better, worst, of = {
        "max": (lambda a, b: a > b, te.min_value, np.argmax),
        "min": (lambda a, b: a < b, te.max_value, np.argmin),
    }[pick]
    I, V = te.compute((n,), lambda i: _arg(better, worst)((k, X[i, k]), axis=k), name="arg")
    x = whole(n, m, low=-1, high=2)  # many ties
    at = of(x, axis=1)
    wanted = [None, at.astype("int32"), np.take_along_axis(x, at[:, None], 1)[:, 0]]

    def rfactored(s: Any, *_: Any) -> None:
        o, i = s[I].split(s[I].op.reduce_axis[0], 4)
        s.rfactor(I, i)

    def vectors(s: Any, *_: Any) -> None:
        o, i = s[I].split(s[I].op.axis[0], 4)
        s[I].reorder(o, s[I].op.reduce_axis[0], i)
        s[I].vectorize(i)

    def threads(s: Any, *_: Any) -> None:
        s[I].bind(s[I].op.reduce_axis[0], te.thread_axis("threadIdx.x"))

    return Written([X, I, V], [x, *wanted[1:]], wanted, [rfactored, vectors, threads])


@program
def argmin_with_ties() -> Written:
    return _argument("min", 6, 23)


@program
def argmax_with_ties() -> Written:
    return _argument("max", 5, 16)


@program
def mean_and_variance_in_one_pass() -> Written:
    n, m = 7, 13
    X = te.placeholder((n, m), name="X")
    k = te.reduce_axis((0, m), "k")
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] + y[1]), lambda a, b: (te.const(0, a), te.const(0, b)), "both"
    )
    S, Q = te.compute((n,), lambda i: both((X[i, k], X[i, k] * X[i, k]), axis=k), name="sums")
    x = whole(n, m)

    def rfactored(s: Any, *_: Any) -> None:
        o, i = s[S].split(s[S].op.reduce_axis[0], 4)
        parts = s.rfactor(S, i, 1)
        s[parts[0]].vectorize(s[parts[0]].op.axis[1])

    return Written([X, S, Q], [x, x.sum(1), (x * x).sum(1)], [None, x.sum(1), (x * x).sum(1)], [rfactored])


# ---------------------------------------------------------------------------- products


def _product(n: int, m: int, l: int, inner: str, outer: str, low: int, high: int) -> Written:
    A, B = te.placeholder((n, l), inner, name="A"), te.placeholder((m, l), inner, name="B")
    k = te.reduce_axis((0, l), "k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k].astype(outer) * B[j, k].astype(outer), axis=k), name="C")
    a, b = whole(n, l, dtype=inner, low=low, high=high), whole(m, l, dtype=inner, low=low, high=high)
    c = (a.astype("int64") @ b.T.astype("int64")).astype(outer)

    def tiled(s: Any, *_: Any) -> None:
        cache = s.cache_write(C, "local")
        io, jo, ii, ji = s[C].tile(*s[C].op.axis, 4, 8)
        s[cache].compute_at(s[C], jo)
        ko, ki = s[cache].split(s[cache].op.reduce_axis[0], 4)
        s[cache].reorder(ko, s[cache].op.axis[0], ki, s[cache].op.axis[1])
        s[cache].vectorize(s[cache].op.axis[1])
        s[cache].unroll(ki)
        s[C].vectorize(ji)
        s[C].parallel(io)

    def lanes_of_k(s: Any, *_: Any) -> None:
        ko, ki = s[C].split(s[C].op.reduce_axis[0], 16)
        F = s.rfactor(C, ki)
        s[F].vectorize(s[F].op.axis[0])

    def packed(s: Any, *_: Any) -> None:
        R = s.cache_read(B, "global", [C])
        io, jo, ii, ji = s[C].tile(*s[C].op.axis, 3, 5)
        s[R].compute_at(s[C], jo)
        s[R].vectorize(s[R].op.axis[1])

    return Written([A, B, C], [a, b, c], [None, None, c], [tiled, lanes_of_k, packed])


@program
def int8_products_in_int32() -> Written:
    return _product(9, 11, 33, "int8", "int32", -128, 128)


@program
def uint8_products_in_int32() -> Written:
    return _product(8, 16, 64, "uint8", "int32", 0, 256)


@program
def int16_products_in_int64() -> Written:
    return _product(5, 7, 19, "int16", "int64", -(2**15), 2**15)


@program
def float16_products_in_float32() -> Written:
    return _product(6, 9, 40, "float16", "float32", -4, 5)


@program
def float16_sums_in_float16() -> Written:
    """The sums are exact as long as they are below 2048."""
    return _product(4, 8, 24, "float16", "float16", -2, 3)


# ---------------------------------------------------------------------------- stages in stages


@program
def three_blurs_computed_at_each_other() -> Written:
    n = 29
    X = te.placeholder((n + 6,), name="X")
    A = te.compute((n + 4,), lambda i: X[i] + X[i + 1] * 2 + X[i + 2], name="A")
    B = te.compute((n + 2,), lambda i: A[i] - A[i + 2], name="B")
    C = te.compute((n,), lambda i: B[i] + B[i + 1] + B[i + 2], name="C")
    x = whole(n + 6)
    a = x[:-2] + x[1:-1] * 2 + x[2:]
    b = a[:-2] - a[2:]
    c = b[:-2] + b[1:-1] + b[2:]

    def nested(s: Any, *_: Any) -> None:
        o, i = s[C].split(s[C].op.axis[0], 8)
        s[B].compute_at(s[C], o)
        bo, bi = s[B].split(s[B].op.axis[0], 4)
        s[A].compute_at(s[B], bo)
        s[A].vectorize(s[A].split(s[A].op.axis[0], 4)[1])
        R = s.cache_read(X, "local", [A])
        s[R].compute_at(s[B], bo)
        s[C].vectorize(i)

    def cached(s: Any, *_: Any) -> None:
        W = s.cache_write(C, "local")
        o, i = s[C].split(s[C].op.axis[0], 5)
        s[W].compute_at(s[C], o)
        s[B].compute_at(s[W], s[W].op.axis[0])
        s[A].compute_at(s[C], o)
        R = s.cache_read(A, "local", [B])
        s[R].compute_at(s[C], o)

    def sliding(s: Any, *_: Any) -> None:
        o, i = s[C].split(s[C].op.axis[0], 4)
        s[A].compute_at(s[C], o)
        s[B].compute_at(s[C], i)
        s[A].double_buffer()

    return Written([X, C], [x, c], [None, c], [nested, cached, sliding])


@program
def softmax_of_rows() -> Written:
    n, m = 6, 21
    X = te.placeholder((n, m), name="X")
    k, l = te.reduce_axis((0, m), "k"), te.reduce_axis((0, m), "l")
    M = te.compute((n,), lambda i: te.max(X[i, k], axis=k), name="M")
    E = te.compute((n, m), lambda i, j: te.exp(X[i, j] - M[i]), name="E")
    S = te.compute((n,), lambda i: te.sum(E[i, l], axis=l), name="S")
    Y = te.compute((n, m), lambda i, j: E[i, j] / S[i], name="Y")
    x = whole(n, m)
    e = np.exp(x - x.max(1, keepdims=True))
    y = e / e.sum(1, keepdims=True)

    def in_rows(s: Any, *_: Any) -> None:
        for stage in (M, E, S):
            s[stage].compute_at(s[Y], s[Y].op.axis[0])
        s[E].vectorize(s[E].split(s[E].op.axis[1], 8)[1])
        s[Y].vectorize(s[Y].split(s[Y].op.axis[1], 8)[1])
        s[Y].parallel(s[Y].op.axis[0])

    def inlined(s: Any, *_: Any) -> None:
        s[E].compute_inline()
        ko, ki = s[S].split(s[S].op.reduce_axis[0], 4)
        F = s.rfactor(S, ki, 1)
        s[F].compute_at(s[S], s[S].op.axis[0])
        s[F].vectorize(s[F].op.axis[1])

    return Written([X, Y], [x, y], [None, y], [in_rows, inlined], inexact=True)


@program
def convolution_with_padding_and_stride() -> Written:
    n, c, o = 11, 3, 4
    X, W = te.placeholder((c, n, n), name="X"), te.placeholder((o, c, 3, 3), name="W")
    P = te.compute((c, n + 2, n + 2), lambda q, i, j: te.if_then_else(
        te.all(i > 0, i <= n, j > 0, j <= n), X[q, i - 1, j - 1], 0.0), name="P")  # fmt: skip
    q, di, dj = te.reduce_axis((0, c), "q"), te.reduce_axis((0, 3), "di"), te.reduce_axis((0, 3), "dj")
    h = (n - 1) // 2 + 1
    Y = te.compute(
        (o, h, h), lambda f, i, j: te.sum(P[q, i * 2 + di, j * 2 + dj] * W[f, q, di, dj], axis=[q, di, dj]), name="Y"
    )
    x, w = whole(c, n, n), whole(o, c, 3, 3, low=-1, high=2)
    p = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    y = np.zeros((o, h, h), "f4")
    for a in range(3):
        for b in range(3):
            y += np.einsum("qij,fq->fij", p[:, a : a + 2 * h - 1 : 2, b : b + 2 * h - 1 : 2], w[:, :, a, b])

    def tiled(s: Any, *_: Any) -> None:
        f, i, j = s[Y].op.axis
        jo, ji = s[Y].split(j, 4)
        s[Y].reorder(f, i, jo, *s[Y].op.reduce_axis, ji)
        s[Y].vectorize(ji)
        s[P].compute_at(s[Y], jo)
        s[P].vectorize(s[P].op.axis[2])

    def inlined(s: Any, *_: Any) -> None:
        s[P].compute_inline()
        fused = s[Y].fuse(*s[Y].op.axis)
        s[Y].vectorize(s[Y].split(fused, 8)[1])

    return Written([X, W, Y], [x, w, y], [None, None, y], [tiled, inlined])


# ---------------------------------------------------------------------------- symbolic sizes


def _symbolic(value: int) -> Written:
    n = te.size_var("n")
    X, Z = te.placeholder((n,), name="X"), te.placeholder((n + 1,), name="Z")
    A = te.compute((n,), lambda i: X[i] * Z[i + 1], name="A")
    B = te.compute((n,), lambda i: A[n - 1 - i] + 1, name="B")
    x, z = whole(value), whole(value + 1)
    b = (x * z[1:])[::-1] + 1

    def tails(s: Any, *_: Any) -> None:
        o, i = s[B].split(s[B].op.axis[0], 8)
        s[A].compute_at(s[B], o)
        s[A].vectorize(s[A].split(s[A].op.axis[0], 4)[1])
        s[B].vectorize(i)

    def parts(s: Any, *_: Any) -> None:
        o, i = s[B].split(s[B].op.axis[0], nparts=3)
        io, ii = s[B].split(i, 4)
        s[B].unroll(ii)
        s[B].parallel(o)
        s[A].compute_at(s[B], io)

    return Written([X, Z, B], [x, z, b], [None, None, b], [tails, parts])


for count in (0, 1, 7, 8, 9, 33):
    PROGRAMS[f"tails_of_{count}"] = lambda count=count: _symbolic(count)


@program
def sums_of_symbolic_rows() -> Written:
    n, m = te.size_var("n"), te.size_var("m")
    X = te.placeholder((n, m), name="X")
    k = te.reduce_axis((0, m), "k")
    Y = te.compute((n,), lambda i: te.sum(X[i, k], axis=k), name="Y")
    x = whole(5, 13)

    def blocks(s: Any, *_: Any) -> None:
        ko, ki = s[Y].split(s[Y].op.reduce_axis[0], 8)
        F = s.rfactor(Y, ki, 1)
        s[F].compute_at(s[Y], s[Y].op.axis[0])
        s[F].vectorize(s[F].op.axis[1])

    return Written([X, Y], [x, x.sum(1)], [None, x.sum(1)], [blocks])


# ---------------------------------------------------------------------------- TensorIR


def text(arguments: str, body: str) -> Any:
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    return from_source(f"from tvm.script import tir as T\n\n@T.prim_func\ndef main({arguments}):\n{lines}\n")


@program
def prefix_sums_in_blocks() -> Written:
    """Sums inside blocks of 8, then those of the blocks before are added."""
    func = text(
        "X: T.Buffer((40,)), Y: T.Buffer((40,))",
        """
P = T.alloc_buffer((5,))
for b, i in T.grid(5, 8):
    with T.block("inside"):
        vb = T.axis.S(5, b)
        vi = T.axis.opaque(8, i)
        T.reads(X[vb * 8 + vi], Y[vb * 8 + vi - 1])
        T.writes(Y[vb * 8 + vi])
        if vi == 0:
            Y[vb * 8] = X[vb * 8]
        else:
            Y[vb * 8 + vi] = Y[vb * 8 + vi - 1] + X[vb * 8 + vi]
for b in range(5):
    with T.block("before"):
        vb = T.axis.opaque(5, b)
        T.reads(P[vb - 1], Y[vb * 8 - 1])
        T.writes(P[vb])
        if vb == 0:
            P[0] = T.float32(0)
        else:
            P[vb] = P[vb - 1] + Y[vb * 8 - 1]
for b, i in T.grid(5, 8):
    with T.block("add"):
        vb, vi = T.axis.remap("SS", [b, i])
        Y[vb * 8 + vi] = Y[vb * 8 + vi] + P[vb]
""",
    )
    x = whole(40)
    y = np.zeros(40, "f4")
    for b in range(5):
        y[b * 8 : b * 8 + 8] = np.cumsum(x[b * 8 : b * 8 + 8])
    before = np.concatenate([[0], np.cumsum(y[7::8])[:-1]])
    sums = (y + np.repeat(before, 8)).astype(
        "f4"
    )  # which is the prefix sum, as the blocks' sums are before they are changed

    def split(sch: Any) -> None:
        b, i = sch.get_loops(sch.get_block("add"))
        sch.unroll(sch.split(i, [None, 4])[1])
        sch.split(sch.get_loops(sch.get_block("inside"))[1], [None, 3])

    assert (sums == np.cumsum(x)).all()
    return Written(func, [x, sums], [None, sums], [split])


MATMUL = """
for i, j, k in T.grid(16, 16, 16):
    with T.block("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.{dtype}(0)
        C[vi, vj] = C[vi, vj] + {a} * {b}
"""


def _matmul(dtype: str = "float32", inner: str = "float32") -> tuple[Any, list[Any], list[Any]]:
    convert = (lambda e: e) if inner == dtype else lambda e: f'T.Cast("{dtype}", {e})'
    body = MATMUL.format(dtype=dtype, a=convert("A[vi, vk]"), b=convert("B[vk, vj]"))
    shape = "T.Buffer((16, 16), '{}')"
    func = text(f"A: {shape.format(inner)}, B: {shape.format(inner)}, C: {shape.format(dtype)}", body)
    a, b = whole(16, 16, dtype=inner), whole(16, 16, dtype=inner)
    c = (a.astype("f8") @ b.astype("f8")).astype(dtype)
    return func, [a, b, c], [None, None, c]


@program
def decomposed_and_tensorized() -> Written:
    func, arrays, wanted = _matmul()
    dot = text(
        "a: T.handle, b: T.handle, c: T.handle",
        """
A = T.match_buffer(a, (4, 4), offset_factor=1, strides=[T.int32(), 1])
B = T.match_buffer(b, (4, 4), offset_factor=1, strides=[T.int32(), 1])
C = T.match_buffer(c, (4, 4), offset_factor=1, strides=[T.int32(), 1])
with T.block("root"):
    T.reads(C[0:4, 0:4], A[0:4, 0:4], B[0:4, 0:4])
    T.writes(C[0:4, 0:4])
    for i, j, k in T.grid(4, 4, 4):
        with T.block("m"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""",
    )
    implementation = text(
        "a: T.handle, b: T.handle, c: T.handle",
        """
sa, sb, sc = T.int32(), T.int32(), T.int32()
A = T.match_buffer(a, (4, 4), offset_factor=1, strides=[sa, 1])
B = T.match_buffer(b, (4, 4), offset_factor=1, strides=[sb, 1])
C = T.match_buffer(c, (4, 4), offset_factor=1, strides=[sc, 1])
with T.block("root"):
    T.reads(C[0:4, 0:4], A[0:4, 0:4], B[0:4, 0:4])
    T.writes(C[0:4, 0:4])
    for k, i in T.grid(4, 4):
        C[i, T.Ramp(0, 1, 4)] = C[i, T.Ramp(0, 1, 4)] + T.Broadcast(A[i, k], 4) * B[k, T.Ramp(0, 1, 4)]
""",
    )
    if "written_dot_4x4" not in KNOWN:
        tir.TensorIntrin.register("written_dot_4x4", dot, implementation)
        KNOWN.add("written_dot_4x4")

    def tensorized(sch: Any) -> None:
        block = sch.get_block("C")
        i, j, k = sch.get_loops(block)
        (io, ii), (jo, ji), (ko, ki) = (sch.split(loop, [None, 4]) for loop in (i, j, k))
        sch.reorder(io, jo, ko, ii, ji, ki)
        sch.decompose_reduction(block, ko)
        sch.tensorize(ii, "written_dot_4x4")

    def cached(sch: Any) -> None:
        tensorized_first = sch.get_block("C")
        W = sch.cache_write(tensorized_first, 0, "global")
        R = sch.cache_read(tensorized_first, 0, "global")
        i, j, k = sch.get_loops(tensorized_first)
        (io, ii), (jo, ji), (ko, ki) = (sch.split(loop, [None, 4]) for loop in (i, j, k))
        sch.reorder(io, jo, ko, ii, ji, ki)
        sch.reverse_compute_at(W, jo)
        sch.compute_at(R, ko)
        sch.decompose_reduction(tensorized_first, ko)
        sch.tensorize(ii, "written_dot_4x4")

    return Written(func, arrays, wanted, [tensorized, cached])


KNOWN: set[str] = set()


@program
def products_with_a_chain_of_epilogues() -> Written:
    shape = "T.Buffer((16, 16))"
    func = text(f"A: {shape}, B: {shape}, E: {shape}", """
C = T.alloc_buffer((16, 16))
D = T.alloc_buffer((16, 16))
""" + MATMUL.format(dtype="float32", a="A[vi, vk]", b="B[vk, vj]") + """
for i, j in T.grid(16, 16):
    with T.block("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj] = C[vi, vj] * T.float32(2) + T.Cast("float32", vi)
for i, j in T.grid(16, 16):
    with T.block("E"):
        vi, vj = T.axis.remap("SS", [i, j])
        E[vi, vj] = T.max(D[vi, vj], T.float32(0))
""")  # fmt: skip
    a, b = whole(16, 16), whole(16, 16)
    e = np.maximum(a @ b * 2 + np.arange(16)[:, None], 0).astype("f4")

    def chained(sch: Any) -> None:
        C, D, E = (sch.get_block(name) for name in "CDE")
        i, j, k = sch.get_loops(C)
        io, ii = sch.split(i, [None, 4])
        jo, ji = sch.split(j, [None, 8])
        sch.reorder(io, jo, ii, ji, k)
        sch.reverse_compute_at(D, jo)
        sch.reverse_compute_at(E, jo)
        sch.parallel(io)
        sch.vectorize(sch.get_loops(E)[-1])

    def inlined(sch: Any) -> None:
        sch.reverse_compute_inline(sch.get_block("E"))
        C = sch.get_block("C")
        i, j, k = sch.get_loops(C)
        sch.reorder(i, k, j)
        sch.vectorize(j)
        sch.decompose_reduction(C, k)
        sch.reverse_compute_at(sch.get_block("D"), i)

    def factored(sch: Any) -> None:
        C = sch.get_block("C")
        i, j, k = sch.get_loops(C)
        ko, ki = sch.split(k, [None, 4])
        F = sch.rfactor(ki, 2)
        sch.compute_at(F, sch.get_loops(sch.get_block("C"))[0])
        sch.compute_inline(sch.get_block("D"))

    return Written(func, [a, b, e], [None, None, e], [chained, inlined, factored])


@program
def a_view_of_the_same_memory() -> Written:
    """Rows of an array that is flat elsewhere in the function."""
    func = text(
        "X: T.Buffer((48,)), Y: T.Buffer((6, 8))",
        """
R = T.Buffer((6, 8), data=X.data)
F = T.Buffer((48,), data=Y.data)
for i, j in T.grid(6, 8):
    Y[i, j] = R[5 - i, j] + X[i * 8 + 7 - j]
for i in range(24):
    F[i * 2] = F[i * 2] + F[i * 2 + 1]
""",
    )
    x = whole(48)
    y = x.reshape(6, 8)[::-1] + x.reshape(6, 8)[:, ::-1]
    y = y.reshape(-1).copy()
    y[::2] += y[1::2]
    return Written(func, [x, y.reshape(6, 8)], [None, y.reshape(6, 8)])


@program
def a_matched_part_of_a_buffer() -> Written:
    func = text(
        "X: T.Buffer((8, 12)), Y: T.Buffer((8, 12))",
        """
for i, j in T.grid(4, 3):
    with T.block("tile"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.reads(X[vi * 2:vi * 2 + 2, vj * 4:vj * 4 + 4])
        T.writes(Y[vi * 2:vi * 2 + 2, vj * 4:vj * 4 + 4])
        A = T.match_buffer(X[vi * 2:vi * 2 + 2, vj * 4:vj * 4 + 4], (2, 4), strides=[T.int32(), 1], offset_factor=1)
        B = T.match_buffer(Y[vi * 2:vi * 2 + 2, vj * 4:vj * 4 + 4], (2, 4), strides=[T.int32(), 1], offset_factor=1)
        for a, b in T.grid(2, 4):
            with T.block("in"):
                va, vb = T.axis.remap("SS", [a, b])
                B[va, vb] = A[1 - va, 3 - vb]
""",
    )
    x = whole(8, 12)
    y = x.reshape(4, 2, 3, 4)[:, ::-1, :, ::-1].reshape(8, 12)

    def parallel(sch: Any) -> None:
        i, j = sch.get_loops(sch.get_block("tile"))
        sch.parallel(sch.fuse(i, j))
        sch.vectorize(sch.get_loops(sch.get_block("in"))[-1])

    return Written(func, [x, y], [None, y], [parallel])


@program
def a_stencil_in_place() -> Written:
    """Each row from the one before, which has its new values."""
    func = text(
        "A: T.Buffer((9, 14))",
        """
for t, i in T.grid(8, 12):
    with T.block("A"):
        vt = T.axis.opaque(8, t)
        vi = T.axis.S(12, i)
        T.reads(A[vt, vi:vi + 3])
        T.writes(A[vt + 1, vi + 1])
        A[vt + 1, vi + 1] = A[vt, vi] - A[vt, vi + 1] + A[vt, vi + 2] + A[vt + 1, vi + 1]
""",
    )
    a = whole(9, 14, low=-1, high=2)
    w = a.copy()
    for t in range(8):
        w[t + 1, 1:13] = w[t, :12] - w[t, 1:13] + w[t, 2:14] + w[t + 1, 1:13]

    def split(sch: Any) -> None:
        t, i = sch.get_loops(sch.get_block("A"))
        sch.split(i, [None, 8])
        sch.split(t, [3, None])

    return Written(func, [a], [w], [split])


@program
def histogram() -> Written:
    func = text(
        "I: T.Buffer((50,), 'int32'), H: T.Buffer((7,), 'int32')",
        """
for i in range(7):
    H[i] = 0
for i in range(50):
    if 0 <= I[i] and I[i] < 7:
        H[I[i]] = H[I[i]] + 1
""",
    )
    i = whole(50, dtype="int32", low=-3, high=10)
    h = np.bincount(i[(i >= 0) & (i < 7)], minlength=7).astype("int32")
    return Written(func, [i, h], [None, h])


@program
def rows_of_a_sparse_matrix() -> Written:
    func = text(
        "P: T.Buffer((6,), 'int32'), J: T.Buffer((11,), 'int32'), V: T.Buffer((11,)), X: T.Buffer((8,)), Y: T.Buffer((5,))",
        """
for i in range(5):
    with T.block("row"):
        vi = T.axis.S(5, i)
        T.reads(P[vi:vi + 2], J[0:11], V[0:11], X[0:8])
        T.writes(Y[vi])
        Y[vi] = T.float32(0)
        for k in range(P[vi + 1] - P[vi]):
            Y[vi] = Y[vi] + V[P[vi] + k] * X[J[P[vi] + k]]
""",
    )
    p = np.array([0, 3, 3, 4, 9, 11], "int32")
    j, v, x = whole(11, dtype="int32", low=0, high=8), whole(11), whole(8)
    y = np.array([sum(v[k] * x[j[k]] for k in range(p[i], p[i + 1])) for i in range(5)], "f4")

    def parallel(sch: Any) -> None:
        sch.parallel(sch.get_loops(sch.get_block("row"))[0])

    return Written(func, [p, j, v, x, y], [None] * 4 + [y], [parallel])


@program
def a_search_by_halves() -> Written:
    func = text(
        "S: T.Buffer((20,)), Q: T.Buffer((13,)), R: T.Buffer((13,), 'int32')",
        """
for i in range(13):
    with T.block("q"):
        vi = T.axis.S(13, i)
        T.reads(S[0:20], Q[vi])
        T.writes(R[vi])
        low = T.alloc_buffer((1,), "int32", scope="local")
        high = T.alloc_buffer((1,), "int32", scope="local")
        low[0] = 0
        high[0] = 20
        while low[0] < high[0]:
            if S[(low[0] + high[0]) // 2] < Q[vi]:
                low[0] = (low[0] + high[0]) // 2 + 1
            else:
                high[0] = (low[0] + high[0]) // 2
        R[vi] = low[0]
""",
    )
    s, q = np.sort(whole(20, low=-20, high=20)), whole(13, low=-25, high=25)
    r = np.searchsorted(s, q).astype("int32")

    def parallel(sch: Any) -> None:
        sch.parallel(sch.get_loops(sch.get_block("q"))[0])

    return Written(func, [s, q, r], [None, None, r], [parallel])


@program
def max_pool_with_negative_infinity() -> Written:
    func = text(
        "X: T.Buffer((10, 10)), Y: T.Buffer((5, 5))",
        """
P = T.alloc_buffer((12, 12))
for i, j in T.grid(12, 12):
    with T.block("pad"):
        vi, vj = T.axis.remap("SS", [i, j])
        P[vi, vj] = T.if_then_else(1 <= vi and vi < 11 and 1 <= vj and vj < 11, X[vi - 1, vj - 1], T.float32("-inf"))
for i, j, a, b in T.grid(5, 5, 3, 3):
    with T.block("max"):
        vi, vj, va, vb = T.axis.remap("SSRR", [i, j, a, b])
        with T.init():
            Y[vi, vj] = T.float32("-inf")
        Y[vi, vj] = T.max(Y[vi, vj], P[vi * 2 + va, vj * 2 + vb])
""",
    )
    x = whole(10, 10)
    x[0:3, 0:3] = -np.inf
    p = np.pad(x, 1, constant_values=-np.inf)
    y = np.max([p[a : a + 10 : 2, b : b + 10 : 2][:5, :5] for a in range(3) for b in range(3)], axis=0)

    def rolled(sch: Any) -> None:
        i, *_ = sch.get_loops(sch.get_block("max"))
        sch.compute_at(sch.get_block("pad"), i)
        sch.vectorize(sch.get_loops(sch.get_block("pad"))[-1])

    def inlined(sch: Any) -> None:
        sch.compute_inline(sch.get_block("pad"))
        i, j, a, b = sch.get_loops(sch.get_block("max"))
        sch.reorder(a, b, i, j)
        sch.vectorize(sch.split(j, [None, 4])[1])

    def rolling(sch: Any) -> None:
        i, j, *_ = sch.get_loops(sch.get_block("max"))
        pad = sch.get_block("pad")
        sch.compute_at(pad, i)
        sch.rolling_buffer(pad, 0)

    return Written(func, [x, y], [None, y], [rolled, inlined, rolling])


@program
def transposition_in_tiles() -> Written:
    func = text(
        "X: T.Buffer((20, 12), 'float16'), Y: T.Buffer((12, 20), 'float16')",
        """
for i, j in T.grid(12, 20):
    with T.block("Y"):
        vi, vj = T.axis.remap("SS", [i, j])
        Y[vi, vj] = X[vj, vi]
""",
    )
    x = whole(20, 12, dtype="float16")

    def tiled(sch: Any) -> None:
        block = sch.get_block("Y")
        R = sch.cache_read(block, 0, "local")
        i, j = sch.get_loops(block)
        (io, ii), (jo, ji) = sch.split(i, [None, 8]), sch.split(j, [None, 8])
        sch.reorder(io, jo, ii, ji)
        sch.compute_at(R, jo)
        sch.vectorize(ji)
        sch.storage_align(R, 0, 0, 8, 1)

    def laid_out(sch: Any) -> None:
        block = sch.get_block("Y")
        R = sch.cache_read(block, 0, "global")
        sch.transform_layout(R, ("write", 0), lambda i, j: [i // 4, j // 4, i % 4, j % 4])
        sch.vectorize(sch.get_loops(block)[-1])

    return Written(func, [x, x.T.copy()], [None, x.T.copy()], [tiled, laid_out])


@program
def sums_of_bfloat16_in_float32() -> Written:
    import ml_dtypes

    func = text(
        "X: T.Buffer((6, 40), 'bfloat16'), Y: T.Buffer((6,), 'float32')",
        """
for i, k in T.grid(6, 40):
    with T.block("Y"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            Y[vi] = T.float32(0)
        Y[vi] = Y[vi] + T.Cast("float32", X[vi, vk])
""",
    )
    x = whole(6, 40).astype(ml_dtypes.bfloat16)
    y = x.astype("f4").sum(1)

    def lanes(sch: Any) -> None:
        i, k = sch.get_loops(sch.get_block("Y"))
        ko, ki = sch.split(k, [None, 8])
        F = sch.rfactor(ki, 1)
        a, b, c = sch.get_loops(F)
        sch.reorder(a, b, c)
        sch.decompose_reduction(F, b) if sch.get(b).extent != 8 else None

    return Written(func, [x, y], [None, y], [lanes])


@program
def running_maxima_and_counts() -> Written:
    """A maximum and how often it occurs, in one reduction."""
    n, m = 5, 30
    X = te.placeholder((n, m), "int32", name="X")
    k = te.reduce_axis((0, m), "k")

    def combine(x: Any, y: Any) -> Any:
        best = tir.max(x[0], y[0])
        count = tir.Select(x[0] == best, x[1], 0) + tir.Select(y[0] == best, y[1], 0)
        return best, count

    both = te.comm_reducer(combine, lambda v, c: (te.min_value(v), tir.const(0, c)), "most")
    M, C = te.compute((n,), lambda i: both((X[i, k], tir.const(1, "int32")), axis=k), name="most")
    x = whole(n, m, dtype="int32", low=0, high=4)
    wanted = [None, x.max(1), (x == x.max(1, keepdims=True)).sum(1).astype("int32")]

    def rfactored(s: Any, *_: Any) -> None:
        o, i = s[M].split(s[M].op.reduce_axis[0], 8)
        F = s.rfactor(M, i)
        s[F[0]].vectorize(s[F[0]].op.axis[0])

    return Written([X, M, C], [x, *wanted[1:]], wanted, [rfactored])


@program
def unsigned_differences_and_shifts() -> Written:
    func = text(
        "X: T.Buffer((33,), 'uint8'), Y: T.Buffer((33,), 'uint8'), Z: T.Buffer((33,), 'int32')",
        """
for i in range(33):
    with T.block("Z"):
        v = T.axis.S(33, i)
        Z[v] = T.Cast("int32", T.max(X[v], Y[v]) - T.min(X[v], Y[v])) + T.Cast("int32", T.shift_right(X[v], T.uint8(3)) - Y[v])
""",
    )
    x, y = whole(33, dtype="uint8", low=0, high=256), whole(33, dtype="uint8", low=0, high=256)
    z = (np.maximum(x, y) - np.minimum(x, y)).astype("int32") + ((x >> 3) - y).astype("int32")

    def vectors(sch: Any) -> None:
        sch.vectorize(sch.split(sch.get_loops(sch.get_block("Z"))[0], [None, 16])[1])

    return Written(func, [x, y, z], [None, None, z], [vectors])


@program
def integer_divisions_of_negative_data() -> Written:
    func = text(
        "X: T.Buffer((41,), 'int32'), Y: T.Buffer((41,), 'int32'), Z: T.Buffer((41,), 'int32')",
        """
for i in range(41):
    with T.block("Z"):
        v = T.axis.S(41, i)
        Z[v] = X[v] // 7 * 1000 + X[v] % 7 + T.truncdiv(X[v], 4) * 10 + T.truncmod(X[v], Y[v]) + T.floordiv(X[v], Y[v])
""",
    )
    x, y = whole(41, dtype="int32", low=-50, high=50), whole(41, dtype="int32", low=1, high=9)
    y[::2] *= -1
    quotient = np.trunc(x / 4).astype("int32")
    z = x // 7 * 1000 + x % 7 + quotient * 10 + np.fmod(x, y) + x // y

    def vectors(sch: Any) -> None:
        sch.vectorize(sch.split(sch.get_loops(sch.get_block("Z"))[0], [None, 8])[1])

    return Written(func, [x, y, z.astype("int32")], [None, None, z.astype("int32")], [vectors])


@program
def triangular_solve() -> Written:
    """Forward substitution: each element from all before it."""
    func = text(
        "L: T.Buffer((12, 12)), B: T.Buffer((12,)), X: T.Buffer((12,))",
        """
for i in range(12):
    X[i] = B[i]
    for j in range(i):
        X[i] = X[i] - L[i, j] * X[j]
""",
    )
    lower, b = np.tril(whole(12, 12, low=-1, high=2), -1), whole(12)
    x = b.copy()
    for i in range(12):
        x[i] -= lower[i, :i] @ x[:i]
    return Written(func, [lower.astype("f4"), b, x], [None, None, x])


@program
def layer_norm() -> Written:
    n, m = 5, 24
    X = te.placeholder((n, m), name="X")
    k, l = te.reduce_axis((0, m), "k"), te.reduce_axis((0, m), "l")
    S = te.compute((n,), lambda i: te.sum(X[i, k], axis=k), name="S")
    V = te.compute((n,), lambda i: te.sum((X[i, l] - S[i] / m) * (X[i, l] - S[i] / m), axis=l), name="V")
    Y = te.compute((n, m), lambda i, j: (X[i, j] - S[i] / m) / te.sqrt(V[i] / m + 1.0), name="Y")
    x = whole(n, m)
    mean = x.mean(1, keepdims=True)
    y = ((x - mean) / np.sqrt(((x - mean) ** 2).mean(1, keepdims=True) + 1)).astype("f4")

    def in_rows(s: Any, *_: Any) -> None:
        i = s[Y].op.axis[0]
        for stage in (S, V):
            s[stage].compute_at(s[Y], i)
        s[Y].vectorize(s[Y].split(s[Y].op.axis[1], 8)[1])
        s[Y].parallel(i)

    return Written([X, Y], [x, y], [None, y], [in_rows], inexact=True)


@program
def gather_with_negative_indices() -> Written:
    X, I = te.placeholder((9, 4), name="X"), te.placeholder((14,), "int64", name="I")
    Y = te.compute((14, 4), lambda i, j: X[te.if_then_else(I[i] < 0, I[i] + 9, I[i]), j], name="Y")
    x, i = whole(9, 4), whole(14, dtype="int64", low=-9, high=9)

    def vectors(s: Any, *_: Any) -> None:
        s[Y].vectorize(s[Y].split(s[Y].fuse(*s[Y].op.axis), 8)[1])

    return Written([X, I, Y], [x, i, x[i]], [None, None, x[i]], [vectors])


@program
def concatenation_and_slices() -> Written:
    X, Z = te.placeholder((5, 3), name="X"), te.placeholder((4, 3), name="Z")
    C = te.compute((9, 3), lambda i, j: te.if_then_else(i < 5, X[i, j], Z[i - 5, j]), name="C")
    D = te.compute((4, 3), lambda i, j: C[i * 2 + 1, 2 - j], name="D")
    x, z = whole(5, 3), whole(4, 3)
    d = np.concatenate([x, z])[1::2, ::-1].copy()

    def inlined(s: Any, *_: Any) -> None:
        s[C].compute_inline()
        s[D].vectorize(s[D].fuse(*s[D].op.axis))

    def inside(s: Any, *_: Any) -> None:
        s[C].compute_at(s[D], s[D].op.axis[0])
        s[C].vectorize(s[C].op.axis[1])

    return Written([X, Z, D], [x, z, d], [None, None, d], [inlined, inside])
