"""Schedules with one mistake each and the finding that it has to get; and schedules without a mistake."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from tvmagic.operators import Operator, operator

# What is computed; sizes that are no powers of two keep columns from falling onto the same cache lines.
KERNELS = {
    "mm": "A: float32[480, 500]\nB: float32[500, 576]\nC[i, j] += A[i, k] * B[k, j]",
    "mmt": "A: float32[480, 512]\nB: float32[576, 512]\nC[i, j] += A[i, k] * B[j, k]",
    "add": "A: float32[1440, 1920]\nB: float32[1440, 1920]\nC[i, j] = A[i, j] + B[i, j] * 2",
    "turn": "A: float32[800, 608]\nfor i in range(608): C[i, j] = A[j, i] + 1",
    "square": "A: float32[1024, 1024]\nB[i, j] = A[j, i]",
    "rows": "A: float32[960, 2048]\nS[i] += A[i, k]",
    "total": "A: float32[4, 262144]\nS[i] += A[i, k]",
    "columns": "A: float32[100, 480]\nS[j] += A[k, j]",
    "weighted": "A: float32[1200, 64]\nX: float32[1200]\nS[j] += A[k, j] * X[k]",
    "blur": "X: float32[2050, 1922]\nfor j in range(1920): H[i, j] = X[i, j] + X[i, j + 1] + X[i, j + 2]\nfor i in range(2048): V[i, j] = H[i, j] + H[i + 1, j] + H[i + 2, j]",
    "small": "A: float32[240, 320]\nB: float32[240, 320]\nC[i, j] = exp(A[i, j]) * B[i, j]",
    "heavy": "X: float32[514, 962]\nfor j in range(960): H[i, j] = exp(X[i, j]) + exp(X[i, j + 1])\nfor i in range(512): V[i, j] = H[i, j] + H[i + 1, j] + H[i + 2, j]",
    "conv": "X: float32[34, 58, 58]\nW: float32[48, 34, 3, 3]\nfor y in range(56):\n    for x in range(56):\n        Y[o, y, x] += X[c, y + r, x + q] * W[o, c, r, q]",
    "mv": "A: float32[2048, 2000]\nX: float32[2000]\nY[i] += A[i, k] * X[k]",
    "bytes": "A: int8[480, 512]\nB: int8[512, 576]\nC[i, j] += int32(A[i, k]) * int32(B[k, j])",
}  # fmt: skip


class Planted(NamedTuple):
    """A kernel, the text of its `%%schedule` cell, and the codes of which one has to be among the first two findings."""

    kernel: str
    cell: str
    codes: tuple[str, ...]


def _mm(rows: int, columns: int, order: str = "io, jo, k, ii, ji", last: str = "") -> str:
    return (
        f"io, jo, ii, ji = s[C].tile(*C.op.axis, {rows}, {columns})\nk, = s[C].op.reduce_axis\n"
        f"s[C].reorder({order})\ns[C].vectorize(ji)\ns[C].unroll(ii)\n{last}"
    )


_BLUR = "s[V].vectorize(s[V].split(V.op.axis[1], 16)[1])\ns[H].vectorize(s[H].split(H.op.axis[1], 16)[1])\n"

PLANTED = [
    Planted("mm", "pass", ("reduction-order",)),
    Planted("mmt", "pass", ("reduction-order",)),
    Planted("rows", "pass", ("reduction-order",)),
    Planted("total", "pass", ("reduction-order",)),
    Planted("mv", "pass", ("reduction-order",)),
    Planted("conv", "pass", ("reduction-order",)),
    Planted("mm", "s[C].parallel(C.op.axis[0])", ("reduction-order",)),
    Planted("mm", "i, j = C.op.axis\nk, = s[C].op.reduce_axis\ns[C].reorder(j, k, i)", ("strided-access",)),
    Planted("columns", "pass", ("reduction-order", "strided-access")),
    Planted("add", "s[C].reorder(C.op.axis[1], C.op.axis[0])", ("strided-access",)),
    Planted("turn", "pass", ("strided-access", "streamed-operand")),
    Planted("small", "i, j = C.op.axis\njo, ji = s[C].split(j, 16)\nio, ii = s[C].split(i, 16)\ns[C].reorder(io, jo, ji, ii)\ns[C].vectorize(ii)", ("strided-vectors",)),
    Planted("mm", "i, j = C.op.axis\nk, = s[C].op.reduce_axis\nio, ii = s[C].split(i, 16)\ns[C].reorder(io, j, k, ii)\ns[C].vectorize(ii)", ("strided-vectors",)),
    Planted("weighted", "k, = s[S].op.reduce_axis\nj, = S.op.axis\njo, ji = s[S].split(j, 16)\ns[S].reorder(jo, k, ji)\ns[S].vectorize(ji)", ("few-accumulators",)),
    Planted("mm", _mm(1, 16), ("few-accumulators", "small-tile")),
    Planted("mm", _mm(2, 16), ("few-accumulators", "small-tile")),
    Planted("mm", "i, j = C.op.axis\nk, = s[C].op.reduce_axis\njo, ji = s[C].split(j, 16)\ns[C].reorder(jo, i, k, ji)\ns[C].vectorize(ji)", ("few-accumulators",)),
    Planted("conv", "o, y, x = Y.op.axis\nxo, xi = s[Y].split(x, 8)\ns[Y].reorder(o, y, xo, *s[Y].op.reduce_axis, xi)\ns[Y].vectorize(xi)", ("few-accumulators", "short-loop")),
    Planted("mm", _mm(16, 64), ("spills",)),
    Planted("mm", _mm(32, 48), ("spills",)),
    Planted("mm", _mm(24, 64), ("spills",)),
    Planted("mm", _mm(48, 32), ("spills",)),
    Planted("bytes", "io, jo, ii, ji = s[C].tile(*C.op.axis, 32, 64)\nk, = s[C].op.reduce_axis\ns[C].reorder(io, jo, k, ii, ji)\ns[C].vectorize(ji)\ns[C].unroll(ii)", ("spills",)),
    Planted("blur", _BLUR, ("stage-in-memory",)),
    Planted("blur", _BLUR + "s[V].parallel(V.op.axis[0])\ns[H].parallel(H.op.axis[0])", ("stage-in-memory",)),
    Planted("blur", "i, j = V.op.axis\ns[H].compute_at(s[V], j)", ("recomputed",)),
    Planted("heavy", "s[H].compute_at(s[V], V.op.axis[0])\n" + _BLUR, ("recomputed",)),
    Planted("heavy", "io, ii = s[V].split(V.op.axis[0], 2)\ns[H].compute_at(s[V], io)\n" + _BLUR, ("recomputed",)),
    Planted("add", "i, j = C.op.axis\ns[C].vectorize(s[C].split(j, 16)[1])\ns[C].parallel(s[C].leaf_iter_vars[1])", ("parallel-too-fine",)),
    Planted("mm", "i, j = C.op.axis\nk, = s[C].op.reduce_axis\njo, ji = s[C].split(j, 64)\ns[C].reorder(i, jo, k, ji)\ns[C].vectorize(ji)\ns[C].parallel(jo)", ("parallel-too-fine", "streamed-operand", "few-accumulators")),
    Planted("add", "i, j = C.op.axis\nio, ii = s[C].split(i, 720)\ns[C].vectorize(s[C].split(j, 16)[1])\ns[C].parallel(io)", ("parallel-too-coarse",)),
    Planted("mm", _mm(4, 48, last="").replace("*C.op.axis, 4", "*C.op.axis, 240").replace("io, jo, k, ii, ji", "io, jo, ii, k, ji").replace("s[C].unroll(ii)", "s[C].parallel(io)"), ("parallel-too-coarse", "few-accumulators")),
    Planted("add", "i, j = C.op.axis\nio, ii = s[C].split(i, 288)\ns[C].vectorize(s[C].split(j, 16)[1])\ns[C].parallel(io)", ("parallel-uneven",)),
    Planted("small", "f = s[C].fuse(*C.op.axis)\nfo, fi = s[C].split(f, 36)", ("index-division", "guards", "not-vectorized", "strided-access", "short-loop")),
    Planted("small", "i, j = C.op.axis\njo, ji = s[C].split(j, 7)", ("guards", "short-loop", "narrow-vectors")),
    Planted("small", "i, j = C.op.axis\njo, ji = s[C].split(j, 100)", ("guards",)),
    Planted("mm", "i, j = C.op.axis\nk, = s[C].op.reduce_axis\njo, ji = s[C].split(j, 5)\ns[C].reorder(i, jo, k, ji)", ("guards", "short-loop", "not-vectorized", "few-accumulators")),
    Planted("mm", "i, j = C.op.axis\nk, = s[C].op.reduce_axis\njo, ji = s[C].split(j, 64)\ns[C].reorder(jo, i, k, ji)\ns[C].vectorize(ji)", ("small-tile", "few-accumulators", "streamed-operand")),
    Planted("mmt", "i, j = C.op.axis\nk, = s[C].op.reduce_axis\njo, ji = s[C].split(j, 16)\ns[C].reorder(i, jo, k, ji)\ns[C].vectorize(ji)", ("strided-vectors",)),
    Planted("mm", "s[C].reorder(C.op.axis[0], *s[C].op.reduce_axis, C.op.axis[1])", ("streamed-operand", "small-tile")),
    Planted("bytes", "s[C].reorder(C.op.axis[0], *s[C].op.reduce_axis, C.op.axis[1])", ("conversion", "streamed-operand")),
    Planted("square", "s[B].tile(*B.op.axis, 64, 64)", ("cache-conflicts",)),
]  # fmt: skip

# The same by TensorIR schedules.
_LOOPS = 'block = sch.get_block("C")\ni, j, k = sch.get_loops(block)\n'
PLANTED += [
    Planted("mm", _LOOPS, ("reduction-order",)),
    Planted("mm", _LOOPS + "sch.reorder(j, k, i)", ("strided-access",)),
    Planted("mm", _LOOPS + "jo, ji = sch.split(j, [None, 16])\nsch.reorder(i, jo, k, ji)\nsch.vectorize(ji)", ("few-accumulators",)),
    Planted("mm", _LOOPS + "io, ii = sch.split(i, [None, 16])\nsch.reorder(j, io, k, ii)\nsch.vectorize(ii)", ("strided-vectors",)),
    Planted("add", 'i, j = sch.get_loops(sch.get_block("C"))\nsch.reorder(j, i)', ("strided-access", "streamed-operand")),
    Planted("blur", 'sch.parallel(sch.get_loops(sch.get_block("V"))[0])\nsch.parallel(sch.get_loops(sch.get_block("H"))[0])', ("stage-in-memory",)),
    Planted("heavy", 'i, j = sch.get_loops(sch.get_block("V"))\nsch.compute_at(sch.get_block("H"), i)', ("recomputed",)),
    Planted("add", 'i, j = sch.get_loops(sch.get_block("C"))\nio, ii = sch.split(i, [None, 288])\nsch.parallel(io)', ("parallel-uneven",)),
    Planted("mm", _mm(4, 4), ("narrow-vectors",)),
    Planted("conv", "o, y, x = Y.op.axis\nxo, xi = s[Y].split(x, 2)\ns[Y].reorder(o, y, xo, *s[Y].op.reduce_axis, xi)\ns[Y].vectorize(xi)", ("narrow-vectors",)),
    Planted("conv", "o, y, x = Y.op.axis\noo, oi = s[Y].split(o, 16)\ns[Y].reorder(oo, y, x, *s[Y].op.reduce_axis, oi)\ns[Y].vectorize(oi)", ("strided-vectors",)),
    Planted("mm", "i, j = C.op.axis\nk, = s[C].op.reduce_axis\ns[C].reorder(i, k, j)\ns[C].vectorize(s[C].split(j, 16)[1])", ("streamed-operand",)),
]  # fmt: skip


@cache
def kernel(name: str) -> Operator:
    """The operator of a kernel."""
    return operator(name, KERNELS[name])
