"""A second set of schedules with one mistake each, and of schedules without one, over operators that the first set has not.

Convolutions of one dimension and of each channel alone, batches of products, stencils of three dimensions, norms, gathers,
triangles, histograms, scans, other data types, symbolic sizes.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from tvmagic.operators import Operator, operator

# What is computed. Sizes that are no powers of two keep columns from falling onto the same cache lines.
KERNELS = {
    "conv1d": "X: float32[60, 1042]\nW: float32[96, 60, 7]\nY: float32[96, 1036]\nY[o, t] += X[c, t + r] * W[o, c, r]",
    "depthwise": "X: float32[90, 58, 66]\nW: float32[90, 3, 3]\nY: float32[90, 56, 64]\nY[c, y, x] += X[c, y + r, x + q] * W[c, r, q]",
    "bmm": "A: float32[6, 192, 200]\nB: float32[6, 200, 240]\nC[b, i, j] += A[b, i, k] * B[b, k, j]",
    "bmmt": "A: float32[6, 180, 192]\nB: float32[6, 240, 192]\nC[b, i, j] += A[b, i, k] * B[b, j, k]",
    "heat": "X: float32[66, 98, 258]\nY: float32[64, 96, 256]\nY[z, y, x] = X[z + 1, y + 1, x + 1] * 0.4 + (X[z, y + 1, x + 1] + X[z + 2, y + 1, x + 1] + X[z + 1, y, x + 1] + X[z + 1, y + 2, x + 1] + X[z + 1, y + 1, x] + X[z + 1, y + 1, x + 2]) * 0.1",
    "norm": "X: float32[600, 1000]\ng: float32[1000]\nb: float32[1000]\nM[i] = mean(X[i, k], over=k)\nV[i] = mean((X[i, k] - M[i]) ** 2, over=k)\nY[i, k] = (X[i, k] - M[i]) * rsqrt(V[i] + 1e-5) * g[k] + b[k]",
    "gather": "T: float32[5000, 304]\nI: int32[3000]\nE[i, j] = T[I[i], j]",
    "outer": "U: float32[1500]\nV: float32[1408]\nC[i, j] = U[i] * V[j]",
    "small outer": "U: float32[60]\nV: float32[448]\nC[i, j] = U[i] * V[j]",
    "tri": "X: float32[1200, 1120]\nY[i, j] = X[i, j] * 2 + 1 if j <= i else 0",
    "hist": "X: int32[60000]\nfor b in range(48): H[b] += 1 if X[i] == b else 0",
    "dot8": "A: int8[384, 512]\nB: int8[320, 512]\nC[i, j] += int32(A[i, k]) * int32(B[j, k])",
    "mm64": "A: float64[300, 320]\nB: float64[320, 288]\nC[i, j] += A[i, k] * B[k, j]",
    "free": "A: float32[n, m]\nB: float32[n, m]\nC[i, j] = A[i, j] * B[i, j] + 1",
    "freemm": "A: float32[n, k]\nB: float32[k, m]\nC[i, j] += A[i, r] * B[r, j]",
    "turn3": "X: float32[60, 112, 144]\nY: float32[144, 60, 112]\nY[c, a, b] = X[a, b, c]",
    "pool": "X: float32[64, 114, 128]\nr: range(2)\nq: range(2)\nY: float32[64, 57, 64]\nY[c, i, j] = max(X[c, 2 * i + r, 2 * j + q], over=(r, q))",
    "running": "X: float32[800, 640]\nS[i, k] = cumsum(X[i, k], over=k)",
    "soft": "X: float32[500, 640]\nY[i, k] = softmax(X[i, k], over=k)",
    "wave": "X: float64[900, 1204]\nfor j in range(1200): H[i, j] = X[i, j] * 0.25 + X[i, j + 2] * 0.5 + X[i, j + 4] * 0.25\nfor i in range(896): V[i, j] = H[i, j] * 0.25 + H[i + 2, j] * 0.5 + H[i + 4, j] * 0.25",
    "sigmoids": "X: float32[402, 1000]\nH[i, j] = sigmoid(X[i, j])\nfor i in range(400): V[i, j] = H[i, j] * H[i + 1, j] * H[i + 2, j]",
    "most": "X: float32[700, 1100]\nM[i] = max(X[i, k], over=k)",
    "scale": "X: float32[1300, 1000]\ns: float32[1000]\nY[i, j] = X[i, j] * s[j]",
    "sum0": "X: float64[900, 800]\nS[j] += X[i, j]",
    "strip": "X: float32[60000, 16]\ns: float32[16]\nY[i, j] = X[i, j] * s[j]",
    "mix": "X: float32[160, 30, 200]\nW: float32[30, 40]\nY[b, o, t] += X[b, c, t] * W[c, o]",
}  # fmt: skip


class Planted(NamedTuple):
    """A kernel, the text of its `%%schedule` cell, and the codes of which one has to be among the first two findings.

    `but`: a target on which it is no mistake.
    """

    kernel: str
    cell: str
    codes: tuple[str, ...]
    but: str = ""


_CONV = "o, t = Y.op.axis\nc, r = s[Y].op.reduce_axis"
_BMM = "b, i, j = C.op.axis\nk, = s[C].op.reduce_axis"
_DEPTH = "c, y, x = Y.op.axis\nr, q = s[Y].op.reduce_axis"
_HEAT = "z, y, x = Y.op.axis"
_MM = "i, j = C.op.axis\nk, = s[C].op.reduce_axis"
_MMJ = _MM + "\njo, ji = s[C].split(j, 8)\nio, ii = s[C].split(i, 4)"
_WAVE = "s[V].vectorize(s[V].split(V.op.axis[1], 8)[1])\ns[H].vectorize(s[H].split(H.op.axis[1], 8)[1])\n"
_SIG = "s[V].vectorize(s[V].split(V.op.axis[1], 8)[1])\ns[H].vectorize(s[H].split(H.op.axis[1], 8)[1])\n"

PLANTED = [
    Planted("conv1d", "pass", ("reduction-order",)),
    Planted("conv1d", _CONV + "\ns[Y].reorder(t, c, r, o)", ("strided-access",)),
    Planted("conv1d", _CONV + "\nto, ti = s[Y].split(t, 4)\ns[Y].reorder(o, to, c, r, ti)\ns[Y].vectorize(ti)", ("few-accumulators", "small-tile")),
    Planted("conv1d", _CONV + "\nto, ti = s[Y].split(t, 16)\ns[Y].reorder(to, o, c, r, ti)\ns[Y].vectorize(ti)", ("few-accumulators", "guards", "small-tile")),
    Planted("conv1d", _CONV + "\noo, oi = s[Y].split(o, 48)\nto, ti = s[Y].split(t, 28)\ns[Y].reorder(oo, to, c, r, oi, ti)\ns[Y].vectorize(ti)\ns[Y].unroll(oi)", ("spills",)),
    Planted("depthwise", _DEPTH + "\ns[Y].reorder(y, x, r, q, c)", ("strided-access",)),
    Planted("depthwise", _DEPTH + "\nco, ci = s[Y].split(c, 9)\ns[Y].reorder(co, y, x, r, q, ci)\ns[Y].vectorize(ci)", ("strided-vectors",)),
    Planted("bmm", "pass", ("reduction-order",)),
    Planted("bmmt", "pass", ("reduction-order",)),
    Planted("bmm", "s[C].parallel(C.op.axis[0])", ("reduction-order",)),
    Planted("bmm", _BMM + "\ns[C].reorder(b, j, k, i)", ("strided-access",)),
    Planted("bmm", _BMM + "\njo, ji = s[C].split(j, 8)\ns[C].reorder(b, i, jo, k, ji)\ns[C].vectorize(ji)", ("few-accumulators",)),
    Planted("bmm", _BMM + "\nio, ii = s[C].split(i, 48)\njo, ji = s[C].split(j, 16)\ns[C].reorder(b, io, jo, k, ii, ji)\ns[C].vectorize(ji)\ns[C].unroll(ii)", ("spills",)),
    Planted("bmm", _BMM + "\nio, ii = s[C].split(i, 4)\njo, ji = s[C].split(j, 24)\ns[C].reorder(b, io, jo, k, ii, ji)\ns[C].vectorize(ji)\ns[C].unroll(ii)\ns[C].parallel(jo)", ("parallel-too-fine",)),
    Planted("heat", _HEAT + "\ns[Y].reorder(x, y, z)", ("strided-access",)),
    Planted("heat", _HEAT + "\ns[Y].reorder(z, x, y)", ("strided-access",)),
    Planted("heat", _HEAT + "\nyo, yi = s[Y].split(y, 8)\ns[Y].reorder(z, yo, x, yi)\ns[Y].vectorize(yi)", ("strided-vectors",)),
    Planted("heat", _HEAT + "\ns[Y].vectorize(s[Y].split(x, 8)[1])\ns[Y].parallel(y)", ("parallel-too-fine",)),
    Planted("heat", _HEAT + "\nzo, zi = s[Y].split(z, 32)\ns[Y].vectorize(s[Y].split(x, 8)[1])\ns[Y].parallel(zo)", ("parallel-too-coarse",)),
    Planted("heat", _HEAT + "\nf = s[Y].fuse(z, y, x)\nfo, fi = s[Y].split(f, 1000)", ("index-division", "guards", "not-vectorized", "strided-access")),
    Planted("norm", "pass", ("reduction-order",)),
    Planted("norm", "i, k = Y.op.axis\ns[Y].reorder(k, i)", ("reduction-order", "strided-access")),
    Planted("gather", "i, j = E.op.axis\ns[E].reorder(j, i)", ("strided-access", "streamed-operand")),
    Planted("gather", "i, j = E.op.axis\nio, ii = s[E].split(i, 8)\ns[E].reorder(io, j, ii)\ns[E].vectorize(ii)", ("strided-vectors",), "v2"),
    Planted("outer", "i, j = C.op.axis\ns[C].reorder(j, i)", ("strided-access", "streamed-operand")),
    Planted("small outer", "i, j = C.op.axis\njo, ji = s[C].split(j, 3)", ("narrow-vectors", "short-loop")),
    Planted("outer", "i, j = C.op.axis\nio, ii = s[C].split(i, 500)\ns[C].parallel(io)", ("parallel-too-coarse",)),
    Planted("tri", "i, j = Y.op.axis\ns[Y].reorder(j, i)", ("strided-access", "streamed-operand", "guards")),
    Planted("dot8", "i, j = C.op.axis\nk, = s[C].op.reduce_axis\ns[C].reorder(i, k, j)", ("strided-access",)),
    Planted("dot8", "i, j = C.op.axis\nk, = s[C].op.reduce_axis\njo, ji = s[C].split(j, 16)\ns[C].reorder(i, jo, k, ji)\ns[C].vectorize(ji)", ("strided-vectors",)),
    Planted("mm64", "pass", ("reduction-order",)),
    Planted("mm64", _MM + "\ns[C].reorder(j, k, i)", ("strided-access",)),
    Planted("mm64", _MMJ + "\ns[C].reorder(io, ii, jo, k, ji)\ns[C].vectorize(ji)", ("few-accumulators",)),
    Planted("mm64", _MM + "\nio, ii = s[C].split(i, 30)\njo, ji = s[C].split(j, 32)\ns[C].reorder(io, jo, k, ii, ji)\ns[C].vectorize(ji)\ns[C].unroll(ii)", ("spills",)),
    Planted("free", "i, j = C.op.axis\ns[C].reorder(j, i)", ("strided-access",)),
    Planted("freemm", "pass", ("reduction-order",)),
    Planted("freemm", "i, j = C.op.axis\nr, = s[C].op.reduce_axis\ns[C].reorder(j, r, i)", ("strided-access",)),
    Planted("turn3", "pass", ("strided-access", "streamed-operand")),
    Planted("pool", "pass", ("reduction-order", "strided-access", "short-loop")),
    Planted("pool", "c, i, j = Y.op.axis\ns[Y].reorder(i, j, *s[Y].op.reduce_axis, c)", ("strided-access",)),
    Planted("soft", "s[Y].reorder(Y.op.axis[1], Y.op.axis[0])", ("strided-access", "reduction-order")),
    Planted("wave", _WAVE, ("stage-in-memory",)),
    Planted("wave", "s[H].compute_at(s[V], V.op.axis[0])\n" + _WAVE, ("recomputed",)),
    Planted("sigmoids", "s[H].compute_at(s[V], V.op.axis[0])\n" + _SIG, ("recomputed",)),
    Planted("sigmoids", "s[H].compute_inline()\ns[V].vectorize(s[V].split(V.op.axis[1], 8)[1])", ("recomputed",)),
    Planted("most", "pass", ("reduction-order",)),
    Planted("scale", "i, j = Y.op.axis\ns[Y].reorder(j, i)\ns[Y].parallel(j)", ("strided-access", "false-sharing")),
    Planted("scale", "i, j = Y.op.axis\nio, ii = s[Y].split(i, 260)\ns[Y].parallel(io)", ("parallel-uneven",)),
    Planted("sum0", "pass", ("reduction-order", "strided-access")),
    Planted("strip", "i, j = Y.op.axis\ns[Y].reorder(j, i)\ns[Y].parallel(j)", ("false-sharing", "strided-access")),
    Planted("strip", "i, j = Y.op.axis\njo, ji = s[Y].split(j, 4)\ns[Y].reorder(jo, i, ji)\ns[Y].vectorize(ji)\ns[Y].parallel(jo)", ("false-sharing",)),
    Planted("hist", "b, = H.op.axis\ni, = s[H].op.reduce_axis\nbo, bi = s[H].split(b, 5)\ns[H].reorder(bo, i, bi)\ns[H].vectorize(bi)", ("guards", "not-vectorized")),
    Planted("mix", "b, o, t = Y.op.axis\nc, = s[Y].op.reduce_axis\ns[Y].reorder(b, t, c, o)", ("strided-access",)),
]  # fmt: skip


def _tir(block: str, loops: str, *calls: str) -> str:
    return "\n".join([f'block = sch.get_block("{block}")', f"{loops} = sch.get_loops(block)", *calls])


# The same by TensorIR schedules.
PLANTED += [
    Planted("conv1d", _tir("Y", "o, t, c, r", "sch.reorder(t, c, r, o)"), ("strided-access",)),
    Planted("conv1d", _tir("Y", "o, t, c, r", "to, ti = sch.split(t, [None, 4])", "sch.reorder(o, to, c, r, ti)", "sch.vectorize(ti)"), ("few-accumulators", "small-tile")),
    Planted("bmm", _tir("C", "b, i, j, k", "sch.parallel(b)"), ("reduction-order",)),
    Planted("bmm", _tir("C", "b, i, j, k", "io, ii = sch.split(i, [None, 32])", "jo, ji = sch.split(j, [None, 48])", "sch.reorder(b, io, jo, k, ii, ji)", "sch.vectorize(ji)", "sch.unroll(ii)"), ("spills",)),
    Planted("bmmt", _tir("C", "b, i, j, k", "jo, ji = sch.split(j, [None, 16])", "sch.reorder(b, i, jo, k, ji)", "sch.vectorize(ji)"), ("strided-vectors",)),
    Planted("heat", _tir("Y", "z, y, x", "sch.reorder(x, z, y)"), ("strided-access",)),
    Planted("heat", _tir("Y", "z, y, x", "xo, xi = sch.split(x, [None, 8])", "sch.vectorize(xi)", "sch.parallel(xo)"), ("parallel-too-fine",)),
    Planted("turn3", _tir("Y", "c, a, b", "sch.reorder(a, b, c)"), ("strided-access", "streamed-operand")),
    Planted("outer", _tir("C", "i, j", "sch.reorder(j, i)"), ("strided-access", "streamed-operand")),
    Planted("mm64", _tir("C", "i, j, k", "sch.reorder(i, k, j)"), ("streamed-operand", "small-tile")),
    Planted("mix", _tir("Y", "b, o, t, c", "sch.reorder(b, t, c, o)"), ("strided-access",)),
    Planted("wave", 'sch.parallel(sch.get_loops(sch.get_block("V"))[0])\nsch.parallel(sch.get_loops(sch.get_block("H"))[0])', ("stage-in-memory",)),
    Planted("sigmoids", 'sch.compute_at(sch.get_block("H"), sch.get_loops(sch.get_block("V"))[0])', ("recomputed",)),
    Planted("strip", _tir("Y", "i, j", "sch.reorder(j, i)", "sch.parallel(j)"), ("false-sharing", "strided-access")),
    Planted("sigmoids", 'sch.compute_inline(sch.get_block("H"))\nsch.parallel(sch.get_loops(sch.get_block("V"))[0])', ("recomputed",)),
    Planted("scale", _tir("Y", "i, j", "sch.parallel(i)", "jo, ji = sch.split(j, [None, 5])", "sch.reorder(jo, i, ji)"), ("parallel-too-fine", "short-loop", "strided-access", "streamed-operand")),
]  # fmt: skip

# Schedules without a mistake.
GOOD = [
    ("conv1d", _CONV + "\noo, oi = s[Y].split(o, 3)\nto, ti = s[Y].split(t, 28)\ns[Y].reorder(oo, to, c, r, oi, ti)\ns[Y].vectorize(ti)\ns[Y].unroll(oi)\ns[Y].parallel(oo)"),
    ("scale", "i, j = Y.op.axis\ns[Y].parallel(i)"),
    ("scale", _tir("Y", "i, j", "sch.parallel(i)")),
    ("scale", "i, j = Y.op.axis\nio, ii = s[Y].split(i, 13)\ns[Y].parallel(io)\ns[Y].vectorize(s[Y].split(j, 8)[1])"),
    ("heat", _HEAT + "\ns[Y].parallel(z)"),
    ("heat", _HEAT + "\nf = s[Y].fuse(z, y)\ns[Y].parallel(f)\ns[Y].vectorize(s[Y].split(x, 16)[1])"),
    ("outer", "i, j = C.op.axis\ns[C].parallel(i)\ns[C].vectorize(s[C].split(j, 16)[1])"),
    ("gather", "i, j = E.op.axis\ns[E].parallel(i)\ns[E].vectorize(s[E].split(j, 16)[1])"),
    ("gather", "s[E].parallel(E.op.axis[0])"),
    ("free", "s[C].parallel(C.op.axis[0])"),
    ("wave", "io, ii = s[V].split(V.op.axis[0], 32)\ns[V].vectorize(s[V].split(V.op.axis[1], 8)[1])\ns[H].compute_at(s[V], io)\ns[H].vectorize(s[H].split(H.op.axis[1], 8)[1])\ns[V].parallel(io)"),
    ("tri", "s[Y].parallel(Y.op.axis[0])"),
    ("depthwise", "s[Y].parallel(Y.op.axis[0])"),
    ("hist", "b, = H.op.axis\ni, = s[H].op.reduce_axis\ns[H].reorder(i, b)"),
    ("freemm", "i, j = C.op.axis\nr, = s[C].op.reduce_axis\ns[C].reorder(i, r, j)\ns[C].parallel(i)"),
    ("strip", "s[Y].parallel(Y.op.axis[0])"),
    ("outer", _tir("C", "i, j", "sch.parallel(i)", "jo, ji = sch.split(j, [None, 16])", "sch.vectorize(ji)")),
    ("scale", _tir("Y", "i, j", "sch.parallel(i)")),
    ("heat", _tir("Y", "z, y, x", "sch.parallel(sch.fuse(z, y))")),
    ("bmm", _BMM + "\nio, ii = s[C].split(i, 4)\njo, ji = s[C].split(j, 3 * LANES)\ns[C].reorder(b, io, jo, k, ii, ji)\ns[C].vectorize(ji)\ns[C].unroll(ii)\ns[C].parallel(s[C].fuse(b, io))"),
]  # fmt: skip

INSTANT = ("conv1d", "depthwise", "bmm", "bmmt", "heat", "norm", "gather", "outer", "tri", "hist", "dot8", "mm64", "free", "freemm", "turn3", "pool", "soft", "wave", "sigmoids", "most", "scale", "sum0", "mix")  # fmt: skip


@cache
def kernel(name: str) -> Operator:
    """The operator of a kernel."""
    return operator(name, KERNELS[name])
