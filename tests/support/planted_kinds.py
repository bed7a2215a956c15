"""A third set of schedules with one mistake each, and of schedules without one: the kinds of programs that people write first.

Attention, softmax, norms, activations, pooling, images, updates of weights, dot products, batches, transposes, threads. In a cell
`LANES` is the number of float32 in a vector.
"""

from __future__ import annotations

from typing import NamedTuple

KERNELS = {
    "tile rows": "A: float32[384, 400]\nB: float32[400, 384]\nC[i, j] += A[i, k] * B[k, j]",
    "stencil": "X: float32[514, 770]\nfor i in range(512):\n    for j in range(768):\n        Y[i, j] = X[i, j + 1] + X[i + 2, j + 1] + X[i + 1, j] + X[i + 1, j + 2] - X[i + 1, j + 1] * 4",
    "rows of partial sums": "A: float32[512, 1024]\nS[i] += A[i, k]",
    "scale f64": "A: float64[512, 512]\nB[i, j] = A[i, j] * float64(2) + float64(1)",
    "mm f64": "A: float64[240, 240]\nB: float64[240, 240]\nC[i, j] += A[i, k] * B[k, j]",
    "transpose tiles": "A: float32[1000, 1000]\nB[i, j] = A[j, i]",
    "depthwise": "X: float32[32, 58, 66]\nW: float32[32, 3, 3]\nfor y in range(56):\n    for x in range(64):\n        Y[c, y, x] += X[c, y + r, x + q] * W[c, r, q]",
    "int8": "A: int8[256, 256]\nB: int8[256, 256]\nC[i, j] += int32(A[i, k]) * int32(B[k, j])",
    "exp": "A: float32[512, 512]\nB[i, j] = exp(A[i, j])",
    "copy": "A: float32[1024, 1024]\nB[i, j] = A[i, j]",
    "symbolic": "n: int32\nA: float32[n, 512]\nB[i, j] = A[i, j] * 2 + 1",
    "outer product": "U: float32[1024]\nV: float32[1024]\nC[i, j] = U[i] * V[j]",
    "relu bias": "A: float32[512, 512]\nb: float32[512]\nC[i, j] = max(A[i, j] + b[j], 0)",
    "blur at": "X: float32[514, 514]\ni: range(512)\nj: range(512)\nH[y, j] = X[y, j] + X[y, j + 1] + X[y, j + 2]\nY[i, j] = H[i, j] + H[i + 1, j] + H[i + 2, j]",
    "scores": "Q: float32[192, 64]\nK: float32[64, 256]\nS[i, j] += Q[i, d] * K[d, j]",
    "attention output": "P: float32[192, 240]\nV: float32[240, 64]\nO[i, d] += P[i, j] * V[j, d]",
    "softmax rfactor": "X: float32[256, 512]\nm[i] = max(X[i, k], over=k)\nE[i, j] = exp(X[i, j] - m[i])\nt[i] = sum(E[i, k], over=k)\nY[i, j] = E[i, j] / t[i]",
    "dot rfactor": "A: float32[4, 16384]\nB: float32[4, 16384]\nS[i] += A[i, k] * B[i, k]",
    "matrix vector rfactor": "A: float32[512, 768]\nx: float32[768]\ny[i] += A[i, k] * x[k]",
    "vector matrix": "x: float32[768]\nA: float32[768, 512]\ny[j] += x[k] * A[k, j]",
    "gelu": "A: float32[384, 512]\nb: float32[512]\nG[i, j] = (A[i, j] + b[j]) / (1 + exp(-1.702 * (A[i, j] + b[j])))",
    "horner": "X: float32[262144]\nY[i] = ((((X[i] * 0.1 + 0.2) * X[i] + 0.3) * X[i] + 0.4) * X[i] + 0.5) * X[i] + 0.6",
    "pool": "X: float32[64, 64, 64]\nfor y in range(32):\n    for x in range(32):\n        P[y, x, c] = max(max(X[y * 2, x * 2, c], X[y * 2, x * 2 + 1, c]), max(X[y * 2 + 1, x * 2, c], X[y * 2 + 1, x * 2 + 1, c]))",
    "image": "X: uint8[720, 1280]\nY[i, j] = 255 - X[i, j]",
    "batches": "A: float32[32, 48, 40]\nB: float32[32, 40, 64]\nC[b, i, j] += A[b, i, k] * B[b, k, j]",
    "parallel tiles": "A: float32[384, 384]\nB: float32[384, 384]\nC[i, j] += A[i, k] * B[k, j]",
    "parallel rows": "A: float32[1024, 1024]\nB[i, j] = A[i, j] * 2 + 1",
    "layer norm": "X: float32[256, 768]\nm[i] = sum(X[i, k], over=k)\nv[i] = sum((X[i, k] - m[i] / 768) * (X[i, k] - m[i] / 768), over=k)\nY[i, j] = (X[i, j] - m[i] / 768) / sqrt(v[i] / 768 + 0.00001)",
    "momentum": "W: float32[300000]\nG: float32[300000]\nV: float32[300000]\nM[i] = V[i] * 0.9 + G[i]\nN[i] = W[i] - M[i] * 0.01",
    "transpose 64 pow2": "A: float32[1024, 1024]\nB[i, j] = A[j, i]",
    "max of rows": "A: float32[512, 1024]\nS[i] = max(A[i, k], over=k)",
    "softmax plain": "X: float32[256, 512]\nY[i, j] = exp(X[i, j] - max(X[i, q], over=q))\nZ[i, j] = Y[i, j] / sum(Y[i, q], over=q)",
    "fused guards": "A: float32[100, 300]\nB[i, j] = A[i, j] * 2 + 1",
    "scores plain": "Q: float32[192, 64]\nK: float32[240, 64]\nS[i, j] += Q[i, d] * K[j, d]",
    "threads beside": "A: float32[512, 512]\nB[i, j] = A[i, j] * 2 + 1",
}  # fmt: skip


class Kind(NamedTuple):
    """A name, the kernel, the text of its `%%schedule` cell, the codes of which one is among the first two findings of a bad one.

    `cores`: of the processor that it is explained for.
    """

    name: str
    kernel: str
    cell: str
    codes: tuple[str, ...] = ()
    cores: int = 1


GOOD = [
    Kind('tile rows', 'tile rows', 'i, j = C.op.axis\nk, = s[C].op.reduce_axis\nio, ii = s[C].split(i, 6)\njo, ji = s[C].split(j, 2*LANES)\ns[C].reorder(jo, io, k, ii, ji)\ns[C].unroll(ii)\ns[C].vectorize(ji)'),
    Kind('packed', 'tile rows', "P = s.cache_read(B, 'global', [C])\ni, j = C.op.axis\nk, = s[C].op.reduce_axis\nio, ii = s[C].split(i, 6)\njo, ji = s[C].split(j, 2*LANES)\ns[C].reorder(jo, io, k, ii, ji)\ns[C].unroll(ii)\ns[C].vectorize(ji)\ns[P].compute_at(s[C], jo)\ns[P].vectorize(s[P].split(s[P].op.axis[1], LANES)[1])"),
    Kind('stencil', 'stencil', 's[Y].vectorize(s[Y].split(Y.op.axis[1], LANES)[1])'),
    Kind('stencil rows', 'stencil', 'pass'),
    Kind('rows of partial sums', 'rows of partial sums', 'k, = s[S].op.reduce_axis\nko, ki = s[S].split(k, 4*LANES)\nR = s.rfactor(S, ki)\ns[R].reorder(s[R].op.axis[1], s[R].op.reduce_axis[0], s[R].op.axis[0])\ns[R].vectorize(s[R].op.axis[0])\ns[R].compute_at(s[S], s[S].op.axis[0])'),
    Kind('scale f64', 'scale f64', 's[B].vectorize(s[B].split(B.op.axis[1], LANES//2)[1])'),
    Kind('mm f64', 'mm f64', 'i, j = C.op.axis\nk, = s[C].op.reduce_axis\nio, ii = s[C].split(i, 6)\njo, ji = s[C].split(j, LANES)\ns[C].reorder(jo, io, k, ii, ji)\ns[C].unroll(ii)\ns[C].vectorize(ji)'),
    Kind('transpose tiles', 'transpose tiles', 'io, jo, ii, ji = s[B].tile(*B.op.axis, 8, 8)'),
    Kind('depthwise', 'depthwise', 'c, y, x = Y.op.axis\nr, q = s[Y].op.reduce_axis\nxo, xi = s[Y].split(x, 4*LANES)\ns[Y].reorder(c, y, xo, r, q, xi)\ns[Y].unroll(r)\ns[Y].unroll(q)\ns[Y].vectorize(xi)'),
    Kind('int8', 'int8', 'i, j = C.op.axis\nk, = s[C].op.reduce_axis\nio, ii = s[C].split(i, 4)\njo, ji = s[C].split(j, 2*LANES)\ns[C].reorder(jo, io, k, ii, ji)\ns[C].unroll(ii)\ns[C].vectorize(ji)'),
    Kind('exp', 'exp', 's[B].vectorize(s[B].split(B.op.axis[1], LANES)[1])'),
    Kind('copy', 'copy', 'pass'),
    Kind('outer product', 'outer product', 's[C].vectorize(s[C].split(C.op.axis[1], LANES)[1])'),
    Kind('relu bias', 'relu bias', 's[C].vectorize(s[C].split(C.op.axis[1], LANES)[1])'),
    Kind('blur at', 'blur at', 'io, ii = s[Y].split(Y.op.axis[0], 32)\ns[Y].vectorize(s[Y].split(Y.op.axis[1], LANES)[1])\ns[H].compute_at(s[Y], io)\ns[H].vectorize(s[H].split(H.op.axis[1], LANES)[1])'),
    Kind('scores', 'scores', 'i, j = S.op.axis\nk, = s[S].op.reduce_axis\nio, ii = s[S].split(i, 6)\njo, ji = s[S].split(j, 2*LANES)\ns[S].reorder(jo, io, k, ii, ji)\ns[S].unroll(ii)\ns[S].vectorize(ji)\n'),
    Kind('attention output', 'attention output', 'i, j = O.op.axis\nk, = s[O].op.reduce_axis\nio, ii = s[O].split(i, 6)\njo, ji = s[O].split(j, 2*LANES)\ns[O].reorder(jo, io, k, ii, ji)\ns[O].unroll(ii)\ns[O].vectorize(ji)\n'),
    Kind('softmax rfactor', 'softmax rfactor', 'k, = s[m].op.reduce_axis\nko, ki = s[m].split(k, 4*LANES)\nRm = s.rfactor(m, ki)\ns[Rm].reorder(s[Rm].op.axis[1], s[Rm].op.reduce_axis[0], s[Rm].op.axis[0])\ns[Rm].vectorize(s[Rm].op.axis[0])\ns[Rm].compute_at(s[m], s[m].op.axis[0])\nk, = s[t].op.reduce_axis\nko, ki = s[t].split(k, 4*LANES)\nRt = s.rfactor(t, ki)\ns[Rt].reorder(s[Rt].op.axis[1], s[Rt].op.reduce_axis[0], s[Rt].op.axis[0])\ns[Rt].vectorize(s[Rt].op.axis[0])\ns[Rt].compute_at(s[t], s[t].op.axis[0])\ns[E].vectorize(s[E].split(E.op.axis[1], LANES)[1])\ns[Y].vectorize(s[Y].split(Y.op.axis[1], LANES)[1])'),
    Kind('softmax rows at once', 'softmax rfactor', 'k, = s[m].op.reduce_axis\nko, ki = s[m].split(k, 4*LANES)\nRm = s.rfactor(m, ki)\ns[Rm].reorder(s[Rm].op.axis[1], s[Rm].op.reduce_axis[0], s[Rm].op.axis[0])\ns[Rm].vectorize(s[Rm].op.axis[0])\ns[Rm].compute_at(s[m], s[m].op.axis[0])\nk, = s[t].op.reduce_axis\nko, ki = s[t].split(k, 4*LANES)\nRt = s.rfactor(t, ki)\ns[Rt].reorder(s[Rt].op.axis[1], s[Rt].op.reduce_axis[0], s[Rt].op.axis[0])\ns[Rt].vectorize(s[Rt].op.axis[0])\ns[Rt].compute_at(s[t], s[t].op.axis[0])\nfor x in (m, E, t):\n    s[x].compute_at(s[Y], Y.op.axis[0])\ns[E].vectorize(s[E].split(E.op.axis[1], LANES)[1])\ns[Y].vectorize(s[Y].split(Y.op.axis[1], LANES)[1])'),
    Kind('dot rfactor', 'dot rfactor', 'k, = s[S].op.reduce_axis\nko, ki = s[S].split(k, 4*LANES)\nRS = s.rfactor(S, ki)\ns[RS].reorder(s[RS].op.axis[1], s[RS].op.reduce_axis[0], s[RS].op.axis[0])\ns[RS].vectorize(s[RS].op.axis[0])\ns[RS].compute_at(s[S], s[S].op.axis[0])\n'),
    Kind('matrix vector rfactor', 'matrix vector rfactor', 'k, = s[y].op.reduce_axis\nko, ki = s[y].split(k, 4*LANES)\nRy = s.rfactor(y, ki)\ns[Ry].reorder(s[Ry].op.axis[1], s[Ry].op.reduce_axis[0], s[Ry].op.axis[0])\ns[Ry].vectorize(s[Ry].op.axis[0])\ns[Ry].compute_at(s[y], s[y].op.axis[0])\n'),
    Kind('vector matrix', 'vector matrix', 'j, = y.op.axis\nk, = s[y].op.reduce_axis\njo, ji = s[y].split(j, 8*LANES)\ns[y].reorder(jo, k, ji)\ns[y].vectorize(ji)'),
    Kind('gelu', 'gelu', 's[G].vectorize(s[G].split(G.op.axis[1], LANES)[1])'),
    Kind('horner', 'horner', 's[Y].vectorize(s[Y].split(Y.op.axis[0], 4*LANES)[1])'),
    Kind('pool', 'pool', 's[P].vectorize(s[P].split(P.op.axis[2], LANES)[1])'),
    Kind('image', 'image', 's[Y].vectorize(s[Y].split(Y.op.axis[1], 4*LANES)[1])'),
    Kind('batches', 'batches', 'b, i, j = C.op.axis\nk, = s[C].op.reduce_axis\nio, ii = s[C].split(i, 6)\njo, ji = s[C].split(j, 2*LANES)\ns[C].reorder(b, jo, io, k, ii, ji)\ns[C].unroll(ii)\ns[C].vectorize(ji)'),
    Kind('parallel tiles', 'parallel tiles', 'i, j = C.op.axis\nk, = s[C].op.reduce_axis\nio, ii = s[C].split(i, 6)\njo, ji = s[C].split(j, 2*LANES)\ns[C].reorder(jo, io, k, ii, ji)\ns[C].unroll(ii)\ns[C].vectorize(ji)\ns[C].parallel(jo)', cores=4),
    Kind('parallel rows', 'parallel rows', 's[B].vectorize(s[B].split(B.op.axis[1], LANES)[1])\ns[B].parallel(B.op.axis[0])', cores=4),
    Kind('layer norm', 'layer norm', 'k, = s[m].op.reduce_axis\nko, ki = s[m].split(k, 4*LANES)\nRm = s.rfactor(m, ki)\ns[Rm].reorder(s[Rm].op.axis[1], s[Rm].op.reduce_axis[0], s[Rm].op.axis[0])\ns[Rm].vectorize(s[Rm].op.axis[0])\ns[Rm].compute_at(s[m], s[m].op.axis[0])\nk, = s[v].op.reduce_axis\nko, ki = s[v].split(k, 4*LANES)\nRv = s.rfactor(v, ki)\ns[Rv].reorder(s[Rv].op.axis[1], s[Rv].op.reduce_axis[0], s[Rv].op.axis[0])\ns[Rv].vectorize(s[Rv].op.axis[0])\ns[Rv].compute_at(s[v], s[v].op.axis[0])\ns[Y].vectorize(s[Y].split(Y.op.axis[1], LANES)[1])'),
    Kind('momentum', 'momentum', 's[M].compute_inline()\ns[N].vectorize(s[N].split(N.op.axis[0], LANES)[1])'),
]  # fmt: skip

BAD = [
    Kind('symbolic strides in vectors', 'symbolic', 's[B].vectorize(s[B].split(B.op.axis[1], LANES)[1])', ('strided-vectors',)),
    Kind('reduction outside', 'tile rows', 'i, j = C.op.axis\nk, = s[C].op.reduce_axis\ns[C].reorder(k, i, j)', ('streamed-operand',)),
    Kind('tall tile', 'tile rows', 'i, j = C.op.axis\nk, = s[C].op.reduce_axis\nio, ii = s[C].split(i, 48)\njo, ji = s[C].split(j, 2*LANES)\ns[C].reorder(jo, io, k, ii, ji)\ns[C].unroll(ii)\ns[C].vectorize(ji)', ('spills',)),
    Kind('one lane tile', 'tile rows', 'i, j = C.op.axis\nk, = s[C].op.reduce_axis\nji, jo = s[C].split(j, 2)\ns[C].reorder(i, ji, k, jo)', ('few-accumulators',)),
    Kind('columns first f64', 'scale f64', 's[B].reorder(B.op.axis[1], B.op.axis[0])', ('strided-access',)),
    Kind('transpose 64 pow2', 'transpose 64 pow2', 's[B].tile(*B.op.axis, 64, 64)', ('cache-conflicts',)),
    Kind('transpose plain odd', 'transpose tiles', 'pass', ('strided-access',)),
    Kind('max of rows', 'max of rows', 'pass', ('reduction-order',)),
    Kind('depthwise sum inside', 'depthwise', 'c, y, x = Y.op.axis\ns[Y].reorder(x, y, c, *s[Y].op.reduce_axis)', ('reduction-order', 'short-loop')),
    Kind('blur in the row', 'blur at', 's[H].compute_at(s[Y], Y.op.axis[1])', ('recomputed',)),
    Kind('int8 rows', 'int8', 's[C].reorder(C.op.axis[1], s[C].op.reduce_axis[0], C.op.axis[0])', ('strided-access',)),
    Kind('softmax plain', 'softmax plain', 'pass', ('reduction-order',)),
    Kind('fused guards', 'fused guards', 'f = s[B].fuse(*B.op.axis)\no, i = s[B].split(f, 7)', ('guards', 'narrow-vectors')),
    Kind('stencil columns', 'stencil', 'jo, ji = s[Y].split(Y.op.axis[1], 4)\ns[Y].reorder(jo, Y.op.axis[0], ji)', ('cache-conflicts', 'streamed-operand')),
    Kind('vectors of rows', 'tile rows', 'i, j = C.op.axis\nk, = s[C].op.reduce_axis\nio, ii = s[C].split(i, LANES)\ns[C].reorder(io, j, k, ii)\ns[C].vectorize(ii)', ('strided-vectors',)),
    Kind('six lanes', 'tile rows', 'i, j = C.op.axis\nk, = s[C].op.reduce_axis\njo, ji = s[C].split(j, 6)\ns[C].reorder(i, k, ji, jo)', ('strided-access',)),
    Kind('scores plain', 'scores plain', 'pass', ('reduction-order',)),
    Kind('attention output plain', 'attention output', 'pass', ('reduction-order',)),
    Kind('softmax exp twice', 'softmax rfactor', 's[E].compute_inline()\nk, = s[m].op.reduce_axis\nko, ki = s[m].split(k, 4*LANES)\nRm = s.rfactor(m, ki)\ns[Rm].reorder(s[Rm].op.axis[1], s[Rm].op.reduce_axis[0], s[Rm].op.axis[0])\ns[Rm].vectorize(s[Rm].op.axis[0])\ns[Rm].compute_at(s[m], s[m].op.axis[0])\nk, = s[t].op.reduce_axis\nko, ki = s[t].split(k, 4*LANES)\nRt = s.rfactor(t, ki)\ns[Rt].reorder(s[Rt].op.axis[1], s[Rt].op.reduce_axis[0], s[Rt].op.axis[0])\ns[Rt].vectorize(s[Rt].op.axis[0])\ns[Rt].compute_at(s[t], s[t].op.axis[0])\n', ('recomputed',)),
    Kind('partial sums one by one', 'matrix vector rfactor', 'k, = s[y].op.reduce_axis\nko, ki = s[y].split(k, 32)\nR = s.rfactor(y, ko)', ('reduction-order',)),
    Kind('dot plain', 'dot rfactor', 'pass', ('reduction-order',)),
    Kind('vector matrix plain', 'vector matrix', 'pass', ('reduction-order', 'cache-conflicts')),
    Kind('gelu columns', 'gelu', 's[G].reorder(*reversed(G.op.axis))', ('strided-access',)),
    Kind('horner four', 'horner', 's[Y].vectorize(s[Y].split(Y.op.axis[0], 4)[1])', ('narrow-vectors',)),
    Kind('pool columns', 'pool', 'y, x, c = P.op.axis\ns[P].reorder(c, y, x)', ('strided-access',)),
    Kind('image eight', 'image', 's[Y].vectorize(s[Y].split(Y.op.axis[1], 8)[1])', ('narrow-vectors',)),
    Kind('batch inside', 'batches', 'b, i, j = C.op.axis\nk, = s[C].op.reduce_axis\ns[C].reorder(i, j, k, b)', ('strided-access',)),
    Kind('threads inside', 'parallel tiles', 'i, j = C.op.axis\nk, = s[C].op.reduce_axis\njo, ji = s[C].split(j, LANES)\ns[C].reorder(i, jo, k, ji)\ns[C].vectorize(ji)\ns[C].parallel(jo)', ('parallel-too-fine',), cores=4),
    Kind('three threads', 'parallel tiles', 'i, j = C.op.axis\nk, = s[C].op.reduce_axis\nio, ii = s[C].split(i, 1)\njo, ji = s[C].split(j, 128)\ns[C].reorder(jo, io, k, ii, ji)\ns[C].unroll(ii)\ns[C].vectorize(ji)\ns[C].parallel(jo)', ('parallel-too-coarse', 'parallel-uneven', 'streamed-operand', 'few-accumulators'), cores=4),
    Kind('threads beside', 'threads beside', 'i, j = B.op.axis\ns[B].reorder(j, i)\ns[B].parallel(j)', ('strided-access', 'false-sharing'), cores=4),
    Kind('norm plain', 'layer norm', 'pass', ('reduction-order',)),
    Kind('one core', 'momentum', 's[N].vectorize(s[N].split(N.op.axis[0], LANES)[1])\ns[M].vectorize(s[M].split(M.op.axis[0], LANES)[1])', ('not-parallel',), cores=4),
    Kind('update in two passes', 'momentum', 's[N].vectorize(s[N].split(N.op.axis[0], LANES)[1])\ns[M].vectorize(s[M].split(M.op.axis[0], LANES)[1])', ('stage-in-memory',)),
]  # fmt: skip


def cell(kind: Kind, lanes: int) -> str:
    """The text of a schedule for vectors of so many lanes."""
    return kind.cell.replace("LANES", str(lanes))
