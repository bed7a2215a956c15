"""A fourth set of schedules with one mistake each, as people write them who learn, and of schedules without one."""

from __future__ import annotations

from functools import cache

from planted_kinds import Kind

from tvmagic.operators import Operator, operator

KERNELS = {
    "linear": "X: float32[128, 256]\nW: float32[320, 256]\nb: float32[320]\nY[i, o] += X[i, k] * W[o, k]\nZ[i, o] = max(Y[i, o] + b[o], 0)",
    "conv nhwc": "X: float32[34, 34, 32]\nW: float32[3, 3, 32, 64]\nfor y in range(32):\n    for x in range(32):\n        Y[y, x, o] += X[y + r, x + q, c] * W[r, q, c, o]",
    "saxpy": "X: float32[1000000]\nY: float32[1000000]\nZ[i] = X[i] * 3 + Y[i]",
    "saxpy small": "X: float32[8000]\nY: float32[8000]\nZ[i] = X[i] * 3 + Y[i]",
    "gray": "X: uint8[480, 640, 3]\nw: float32[3]\nG[i, j] += float32(X[i, j, c]) * w[c]",
    "gray planar": "X: uint8[3, 480, 640]\nG[i, j] = float32(X[0, i, j]) * 0.3 + float32(X[1, i, j]) * 0.6 + float32(X[2, i, j]) * 0.1",
    "column means": "X: float32[1000, 700]\nM[j] += X[i, j] * 0.001",
    "row means": "X: float32[1000, 704]\nM[i] += X[i, j]",
    "embedding": "T: float32[5000, 96]\nI: int32[2048]\nE[t, d] = T[I[t], d] * 9.8",
    "mm": "A: float32[512, 512]\nB: float32[512, 512]\nC[i, j] += A[i, k] * B[k, j]",
    "mm wide": "A: float32[64, 1024]\nB: float32[1024, 1024]\nC[i, j] += A[i, k] * B[k, j]",
    "f64 constant": "X: float32[1000, 1000]\nY[i, j] = X[i, j] * float64(0.5) + float64(1)",
    "jacobi": "X: float32[66, 98, 130]\nfor z in range(64):\n    for y in range(96):\n        for x in range(128):\n            Y[z, y, x] = (X[z, y + 1, x + 1] + X[z + 2, y + 1, x + 1] + X[z + 1, y, x + 1] + X[z + 1, y + 2, x + 1] + X[z + 1, y + 1, x] + X[z + 1, y + 1, x + 2]) * 0.16",
    "upsample": "X: float32[300, 400]\nfor i in range(600):\n    for j in range(800):\n        Y[i, j] = X[i // 2, j // 2]",
    "gram": "A: float32[200, 224]\nG[i, j] += A[k, i] * A[k, j]",
    "turn batches": "X: float32[8, 200, 240]\nY: float32[8, 240, 200]\nY[b, j, i] = X[b, i, j]",
    "pad": "X: float32[510, 700]\nfor i in range(512):\n    for j in range(702):\n        Y[i, j] = X[i - 1, j - 1] * 2 if (i > 0 and i < 511 and j > 0 and j < 701) else 0",
    "chain": "X: float32[1026, 1282]\nfor j in range(1280): H[i, j] = exp(X[i, j] * 0.1)\nfor i in range(1024): V[i, j] = H[i, j] + H[i + 1, j] + H[i + 2, j]",
    "cheap chain": "X: float32[1024, 1280]\nH[i, j] = X[i, j] * 2\nV[i, j] = H[i, j] + 1",
    "crop": "X: float32[600, 700]\nfor i in range(512):\n    for j in range(512):\n        Y[i, j] = X[i + 40, j + 50] * 2",
    "strip": "X: float32[80000, 8]\nY[i, j] = X[i, j] * 2",
    "rows cos": "X: float32[3, 200000]\nY[i, j] = exp(X[i, j])",
    "double stencil": "X: float64[402, 404]\nfor i in range(400):\n    for j in range(400):\n        Y[i, j] = X[i, j] + X[i + 1, j + 1] * 2 + X[i + 2, j + 2]",
    "attention": "Q: float32[128, 64]\nK: float32[160, 64]\nS[i, j] += Q[i, d] * K[j, d]\nm[i] = max(S[i, t], over=t)\nP[i, j] = exp(S[i, j] - m[i])\nz[i] = sum(P[i, t], over=t)\nR[i, j] = P[i, j] / z[i]",
    "normalize": "X: float32[600, 800]\nn[i] = sum(X[i, k] * X[i, k], over=k)\nY[i, j] = X[i, j] / sqrt(n[i])",
}  # fmt: skip

BAD = [
    Kind('linear plain', 'linear', 'pass', ('reduction-order',)),
    Kind('linear unpacked', 'linear', 'i, o = Y.op.axis\nk, = s[Y].op.reduce_axis\noo, oi = s[Y].split(o, LANES)\ns[Y].reorder(i, oo, k, oi)\ns[Y].vectorize(oi)', ('strided-vectors',)),
    Kind('strided innermost', 'mm', 'i, j = C.op.axis\nk, = s[C].op.reduce_axis\ns[C].reorder(k, j, i)', ('strided-access',)),
    Kind('parallel inner tile loop', 'mm', 'i, j = C.op.axis\nk, = s[C].op.reduce_axis\nio, jo, ii, ji = s[C].tile(i, j, 8, 64)\ns[C].reorder(io, jo, ii, k, ji)\ns[C].vectorize(ji)\ns[C].parallel(ii)', ('parallel-too-fine', 'streamed-operand'), cores=4),
    Kind('split by 7', 'saxpy small', 'io, ii = s[Z].split(Z.op.axis[0], 7)', ('narrow-vectors', 'guards')),
    Kind('unroll 64', 'mm', 'i, j = C.op.axis\nk, = s[C].op.reduce_axis\nio, ii = s[C].split(i, 64)\njo, ji = s[C].split(j, LANES)\ns[C].reorder(io, jo, k, ii, ji)\ns[C].vectorize(ji)\ns[C].unroll(ii)', ('spills',)),
    Kind('compute_at too deep', 'chain', 's[H].compute_at(s[V], V.op.axis[1])', ('recomputed',)),
    Kind('compute_root', 'chain', 's[V].vectorize(s[V].split(V.op.axis[1], LANES)[1])\ns[H].vectorize(s[H].split(H.op.axis[1], LANES)[1])', ('stage-in-memory',)),
    Kind('cheap stage stored', 'cheap chain', 's[V].vectorize(s[V].split(V.op.axis[1], LANES)[1])\ns[H].vectorize(s[H].split(H.op.axis[1], LANES)[1])', ('stage-in-memory',)),
    Kind('fuse destroys rows', 'crop', 'f = s[Y].fuse(*Y.op.axis)\nfo, fi = s[Y].split(f, 100)', ('index-division', 'guards', 'strided-access', 'not-vectorized')),
    Kind('sums in memory', 'mm', 'i, j = C.op.axis\nk, = s[C].op.reduce_axis\njo, ji = s[C].split(j, LANES)\ns[C].reorder(i, k, jo, ji)\ns[C].vectorize(ji)', ('streamed-operand', 'few-accumulators', 'small-tile')),
    Kind('false sharing', 'strip', 'i, j = Y.op.axis\ns[Y].reorder(j, i)\ns[Y].parallel(j)', ('false-sharing', 'strided-access'), cores=4),
    Kind('float64 constant', 'f64 constant', 's[Y].vectorize(s[Y].split(Y.op.axis[1], LANES//2)[1])', ('conversion',)),
    Kind('gather by columns', 'embedding', 't, d = E.op.axis\ns[E].reorder(d, t)', ('strided-access', 'streamed-operand')),
    Kind('gather vectors of rows', 'embedding', 't, d = E.op.axis\nto, ti = s[E].split(t, LANES)\ns[E].reorder(to, d, ti)\ns[E].vectorize(ti)', ('strided-vectors',)),
    Kind('fused upsample', 'upsample', 'f = s[Y].fuse(*Y.op.axis)\nfo, fi = s[Y].split(f, 48)', ('index-division', 'strided-access', 'not-vectorized')),
    Kind('columns upsample', 'upsample', 'i, j = Y.op.axis\ns[Y].reorder(j, i)', ('strided-access',)),
    Kind('pad columns', 'pad', 'i, j = Y.op.axis\ns[Y].reorder(j, i)', ('strided-access', 'guards')),
    Kind('three threads', 'rows cos', 's[Y].parallel(Y.op.axis[0])', ('parallel-too-coarse', 'parallel-uneven'), cores=4),
    Kind('threads in rows', 'saxpy', 'io, ii = s[Z].split(Z.op.axis[0], 1000)\ns[Z].parallel(ii)', ('parallel-too-fine',), cores=4),
    Kind('no packing', 'mm wide', 'i, j = C.op.axis\nk, = s[C].op.reduce_axis\nio, ii = s[C].split(i, 1)\njo, ji = s[C].split(j, LANES)\ns[C].reorder(io, jo, k, ii, ji)\ns[C].vectorize(ji)', ('few-accumulators', 'cache-conflicts', 'streamed-operand')),
    Kind('gray plain', 'gray', 'pass', ('reduction-order', 'short-loop')),
    Kind('conv x vectors', 'conv nhwc', 'y, x, o = Y.op.axis\nr, q, c = s[Y].op.reduce_axis\nxo, xi = s[Y].split(x, LANES)\ns[Y].reorder(y, xo, o, r, q, c, xi)\ns[Y].vectorize(xi)', ('strided-vectors',)),
    Kind('conv plain', 'conv nhwc', 'pass', ('reduction-order', 'strided-access')),
    Kind('column sums down', 'column means', 'pass', ('reduction-order', 'strided-access')),
    Kind('gram plain', 'gram', 'pass', ('reduction-order',)),
    Kind('jacobi z inside', 'jacobi', 'z, y, x = Y.op.axis\ns[Y].reorder(y, x, z)', ('strided-access',)),
    Kind('four lanes', 'saxpy small', 's[Z].vectorize(s[Z].split(Z.op.axis[0], 4)[1])', ('narrow-vectors',)),
    Kind('inlined exp', 'chain', 's[H].compute_inline()\ns[V].vectorize(s[V].split(V.op.axis[1], LANES)[1])', ('recomputed',)),
    Kind('tiny tile', 'mm', 'i, j = C.op.axis\nk, = s[C].op.reduce_axis\nio, jo, ii, ji = s[C].tile(i, j, 2, LANES)\ns[C].reorder(io, jo, k, ii, ji)\ns[C].vectorize(ji)\ns[C].unroll(ii)', ('few-accumulators', 'small-tile')),
    Kind('tir strided', 'mm', 'i, j, k = sch.get_loops(sch.get_block("C"))\nsch.reorder(k, j, i)', ('strided-access',)),
    Kind('tir too deep', 'chain', 'i, j = sch.get_loops(sch.get_block("V"))\nsch.compute_at(sch.get_block("H"), j)', ('recomputed',)),
    Kind('tir parallel inside', 'jacobi', 'z, y, x = sch.get_loops(sch.get_block("Y"))\nsch.parallel(y)', ('parallel-too-fine',), cores=4),
    Kind('tir split 7', 'pad', 'i, j = sch.get_loops(sch.get_block("Y"))\njo, ji = sch.split(j, [None, 7])', ('guards', 'short-loop', 'not-vectorized', 'narrow-vectors')),
    Kind('attention plain', 'attention', 'pass', ('reduction-order',)),
    Kind('normalize plain', 'normalize', 'pass', ('reduction-order',)),
]  # fmt: skip

# In a cell `LANES` is the number of float32 in a vector.
GOOD = [
    Kind('saxpy plain', 'saxpy', 'pass'),
    Kind('saxpy vectors', 'saxpy small', 's[Z].vectorize(s[Z].split(Z.op.axis[0], 2*LANES)[1])'),
    Kind('saxpy threads', 'saxpy', 'io, ii = s[Z].split(Z.op.axis[0], 10000)\ns[Z].parallel(io)', cores=4),
    Kind('gray planar', 'gray planar', 's[G].vectorize(s[G].split(G.op.axis[1], LANES)[1])'),
    Kind('column sums in rows', 'column means', 'k, = s[M].op.reduce_axis\nj, = M.op.axis\ns[M].reorder(k, j)'),
    Kind('row means', 'row means', 'k, = s[M].op.reduce_axis\nko, ki = s[M].split(k, 4*LANES)\nR = s.rfactor(M, ki)\ns[R].reorder(s[R].op.axis[1], s[R].op.reduce_axis[0], s[R].op.axis[0])\ns[R].vectorize(s[R].op.axis[0])\ns[R].compute_at(s[M], s[M].op.axis[0])'),
    Kind('embedding rows', 'embedding', 'pass'),
    Kind('embedding threads', 'embedding', 's[E].parallel(E.op.axis[0])', cores=4),
    Kind('mm packed', 'mm', "P = s.cache_read(B, 'global', [C])\ni, j = C.op.axis\nk, = s[C].op.reduce_axis\nio, ii = s[C].split(i, 4)\njo, ji = s[C].split(j, 2*LANES)\ns[C].reorder(jo, io, k, ii, ji)\ns[C].vectorize(ji)\ns[C].unroll(ii)\ns[P].compute_at(s[C], jo)\ns[P].vectorize(s[P].split(s[P].op.axis[1], LANES)[1])"),
    Kind('jacobi rows', 'jacobi', 'pass'),
    Kind('jacobi threads', 'jacobi', 's[Y].parallel(s[Y].fuse(Y.op.axis[0], Y.op.axis[1]))', cores=4),
    Kind('gram tile', 'gram', 'i, j = G.op.axis\nk, = s[G].op.reduce_axis\nio, ii = s[G].split(i, 4)\njo, ji = s[G].split(j, 2*LANES)\ns[G].reorder(jo, io, k, ii, ji)\ns[G].vectorize(ji)\ns[G].unroll(ii)'),
    Kind('turn tiles', 'turn batches', 'b, j, i = Y.op.axis\njo, ji = s[Y].split(j, 8)\nio, ii = s[Y].split(i, 8)\ns[Y].reorder(b, jo, io, ji, ii)'),
    Kind('chain in blocks', 'chain', 'io, ii = s[V].split(V.op.axis[0], 32)\ns[H].compute_at(s[V], io)\ns[V].vectorize(s[V].split(V.op.axis[1], LANES)[1])\ns[H].vectorize(s[H].split(H.op.axis[1], LANES)[1])'),
    Kind('cheap chain inlined', 'cheap chain', 's[H].compute_inline()\ns[V].vectorize(s[V].split(V.op.axis[1], LANES)[1])'),
    Kind('crop rows', 'crop', 's[Y].vectorize(s[Y].split(Y.op.axis[1], LANES)[1])'),
    Kind('strip rows', 'strip', 'pass'),
    Kind('double stencil', 'double stencil', 'pass'),
    Kind('conv channels', 'conv nhwc', 'y, x, o = Y.op.axis\nr, q, c = s[Y].op.reduce_axis\nxo, xi = s[Y].split(x, 4)\noo, oi = s[Y].split(o, 2*LANES)\ns[Y].reorder(y, oo, xo, r, q, c, xi, oi)\ns[Y].vectorize(oi)\ns[Y].unroll(xi)'),
    Kind('tir jacobi', 'jacobi', 'sch.parallel(sch.get_loops(sch.get_block("Y"))[0])', cores=4),
    Kind('tir saxpy', 'saxpy small', 'i, = sch.get_loops(sch.get_block("Z"))\nio, ii = sch.split(i, [None, 2*LANES])\nsch.vectorize(ii)'),
    Kind('threads in shares', 'rows cos', 'f = s[Y].fuse(*Y.op.axis)\nfo, fi = s[Y].split(f, 10000)\ns[Y].parallel(fo)\ns[Y].vectorize(s[Y].split(fi, LANES)[1])', cores=4),
    Kind('pad in fours', 'pad', 'i, j = Y.op.axis\njo, ji = s[Y].split(j, 4)'),
    Kind("split by 7 from memory", "saxpy", "io, ii = s[Z].split(Z.op.axis[0], 7)"),
]  # fmt: skip


@cache
def kernel(name: str) -> Operator:
    """The operator of a name."""
    return operator("k", KERNELS[name])
