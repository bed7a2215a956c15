"""A sixth set of schedules with one mistake each, and of schedules without one: traps of loops, of sums and of memory.

Wrong orders in three dimensions, sums that begin inside, too few and too many of them, rows of powers of two, stages at the wrong depth, odd
sizes, threads inside. In a cell `LANES` is the number of float32 in a vector.
"""

from __future__ import annotations

from planted_kinds import Kind

KERNELS = {
    "nt": "A: float32[128, 160]\nB: float32[192, 160]\nC[i, j] += A[i, k] * B[j, k]",
    "tn": "A: float32[160, 128]\nB: float32[160, 192]\nC[i, j] += A[k, i] * B[k, j]",
    "rows of batches": "A: float32[16, 120, 144]\nx: float32[16, 144]\ny[b, i] += A[b, i, k] * x[b, k]",
    "nhwc": "X: float32[26, 26, 24]\nW: float32[3, 3, 24, 48]\nY: float32[24, 24, 48]\nY[y, x, o] += X[y + r, x + q, c] * W[r, q, c, o]",
    "pointwise": "W: float32[80, 64]\nX: float32[64, 960]\nY[o, p] += W[o, c] * X[c, p]",
    "rms": "X: float32[256, 640]\nq[i] += X[i, k] * X[i, k]\nY[i, j] = X[i, j] / sqrt(q[i] / 640 + 0.001)",
    "permute": "A: float32[48, 36, 56]\nB: float32[36, 56, 48]\nB[j, k, i] = A[i, j, k]",
    "turn 1024": "A: float32[1024, 256]\nB: float32[256, 1024]\nB[i, j] = A[j, i]",
    "rows of a table": "T: float32[2000, 96]\nI: int64[1200]\nE[t, d] = T[I[t], d] + 1",
    "edges": "X: float32[386, 514]\nH: float32[386, 512]\nH[i, j] = X[i, j + 2] - X[i, j]\nV: float32[384, 512]\nV[i, j] = H[i, j] + H[i + 1, j] * 2 + H[i + 2, j]",
    "softmax": "X: float32[200, 400]\nm[i] = max(X[i, k], over=k)\nE[i, j] = exp(X[i, j] - m[i])\nt[i] += E[i, k]\nY[i, j] = E[i, j] / t[i]",
    "scaled bytes": "X: int8[400, 512]\ns: float32[512]\nY[i, j] = float32(X[i, j]) * s[j]",
    "both ways": "A: float32[40, 48, 64]\nB: float32[64, 48, 40]\nC[i, j, k] = A[i, j, k] + B[k, j, i]",
    "diagonal": "A: float32[300, 800]\nd: float32[300]\nY[i, j] = A[i, j] * d[i]",
    "squares of columns": "A: float32[400, 512]\ns[j] += A[i, j] * A[i, j]",
    "nearest": "P: float32[240]\nQ: float32[2000]\nD[i] = min((P[i] - Q[j]) * (P[i] - Q[j]), over=j)",
    "twice as large": "X: float32[16, 60, 60]\nY: float32[16, 120, 120]\nY[c, y, x] = X[c, y // 2, x // 2]",
    "dots": "A: float32[100, 2000]\nB: float32[100, 2000]\nS[i] += A[i, k] * B[i, k]",
    "large blur": "X: float32[2050, 2048]\nH: float32[2050, 2048]\nH[i, j] = X[i, j] * 0.5 + 1\nY: float32[2048, 2048]\nY[i, j] = H[i, j] + H[i + 1, j] + H[i + 2, j]",
    "exp and product": "X: float32[96, 120]\nW: float32[120, 128]\nE[i, k] = exp(X[i, k])\nY[i, o] += E[i, k] * W[k, o]",
    "halves": "A: float16[300, 512]\nB: float16[300, 512]\nC[i, j] = A[i, j] + B[i, j]",
    "long integers": "A: int64[400, 400]\nB[i, j] = A[i, j] * 3 + 1",
    "swish": "A: float32[300, 512]\nY[i, j] = A[i, j] / (1 + exp(-A[i, j]))",
}  # fmt: skip

_C = "i, j = C.op.axis\nk, = s[C].op.reduce_axis\n"
_T = 'b = sch.get_block("C")\ni, j, k = sch.get_loops(b)\n'
_Y = "y, x, o = Y.op.axis\nr, q, c = s[Y].op.reduce_axis\n"

BAD = [
    Kind("nt plain", "nt", "pass", ("reduction-order",)),
    Kind("nt in vectors of j", "nt", _C + "jo, ji = s[C].split(j, LANES)\ns[C].reorder(i, jo, k, ji)\ns[C].vectorize(ji)", ("strided-vectors",)),
    Kind("nt with i inside", "nt", _C + "s[C].reorder(k, j, i)", ("strided-access", "streamed-operand")),
    Kind("tn plain", "tn", "pass", ("reduction-order", "strided-access")),
    Kind("tn, sums in memory", "tn", _C + "s[C].reorder(k, i, j)", ("small-tile", "streamed-operand")),
    Kind("tn, one vector", "tn", _C + "jo, ji = s[C].split(j, LANES)\ns[C].reorder(i, jo, k, ji)\ns[C].vectorize(ji)", ("few-accumulators",)),
    Kind("tn, 32 rows", "tn", _C + "io, ii = s[C].split(i, 32)\njo, ji = s[C].split(j, 2 * LANES)\ns[C].reorder(io, jo, k, ii, ji)\ns[C].unroll(ii)\ns[C].vectorize(ji)", ("spills",)),
    Kind("tn, four lanes", "tn", _C + "io, ii = s[C].split(i, 4)\njo, ji = s[C].split(j, 4)\ns[C].reorder(io, jo, k, ii, ji)\ns[C].unroll(ii)\ns[C].vectorize(ji)", ("narrow-vectors", "few-accumulators")),
    Kind("tn, rows by 7", "tn", _C + "io, ii = s[C].split(i, 7)\ns[C].reorder(io, k, ii, j)", ("guards", "streamed-operand", "small-tile")),
    Kind("tn, threads on three parts", "tn", _C + "io, ii = s[C].split(i, 43)\njo, ji = s[C].split(j, 2 * LANES)\ns[C].reorder(io, jo, ii, k, ji)\ns[C].vectorize(ji)\ns[C].parallel(io)", ("parallel-too-coarse", "few-accumulators"), cores=4),
    Kind("tir tn, begun in two loops", "tn", _T + "ko, ki = sch.split(k, [None, 16])\nio, ii = sch.split(i, [None, 8])\njo, ji = sch.split(j, [None, LANES])\nsch.reorder(io, jo, ko, ki, ii, ji)\nsch.unroll(ii)\nsch.vectorize(ji)", ("guards",)),
    Kind("tir tn, begun inside", "tn", _T + "io, ii = sch.split(i, [None, 4])\njo, ji = sch.split(j, [None, 16])\nsch.reorder(io, jo, k, ii, ji)\nsch.unroll(ii)", ("guards", "few-accumulators")),
    Kind("tir tn, begun in each step", "tn", _T + "jo, ji = sch.split(j, [None, 16])\nsch.reorder(i, jo, k, ji)", ("guards", "few-accumulators", "not-vectorized")),
    Kind("batches plain", "rows of batches", "pass", ("reduction-order",)),
    Kind("batches with rows inside", "rows of batches", "b, i = y.op.axis\nk, = s[y].op.reduce_axis\ns[y].reorder(b, k, i)", ("strided-access",)),
    Kind("tir batches, threads", "rows of batches", 'sch.parallel(sch.get_loops(sch.get_block("y"))[0])', ("reduction-order",)),
    Kind("nhwc plain", "nhwc", "pass", ("reduction-order", "strided-access")),
    Kind("nhwc with x inside", "nhwc", _Y + "s[Y].reorder(y, o, r, q, c, x)", ("strided-access",)),
    Kind("nhwc, one vector", "nhwc", _Y + "oo, oi = s[Y].split(o, LANES)\ns[Y].reorder(y, x, oo, r, q, c, oi)\ns[Y].vectorize(oi)", ("few-accumulators",)),
    Kind("nhwc, sums in memory", "nhwc", _Y + "s[Y].reorder(r, q, c, y, x, o)", ("small-tile", "streamed-operand")),
    Kind("nhwc, columns by 20", "nhwc", _Y + "oo, oi = s[Y].split(o, 20)\ns[Y].reorder(y, x, oo, r, q, c, oi)", ("guards", "narrow-vectors", "few-accumulators", "short-loop")),
    Kind("pointwise plain", "pointwise", "pass", ("reduction-order", "strided-access")),
    Kind("pointwise, whole rows", "pointwise", "o, p = Y.op.axis\nc, = s[Y].op.reduce_axis\ns[Y].reorder(o, c, p)", ("small-tile", "streamed-operand")),
    Kind("rms plain", "rms", "pass", ("reduction-order",)),
    Kind("rms at each element", "rms", "s[q].compute_at(s[Y], Y.op.axis[1])", ("recomputed", "reduction-order")),
    Kind("permute plain", "permute", "pass", ("strided-access", "streamed-operand", "strided-vectors", "cache-conflicts")),
    Kind("permute with j inside", "permute", "j, k, i = B.op.axis\ns[B].reorder(i, k, j)", ("strided-access", "streamed-operand", "cache-conflicts")),
    Kind("turn 1024 plain", "turn 1024", "pass", ("cache-conflicts", "strided-access")),
    Kind("turn 1024 in tiles of 128", "turn 1024", "s[B].tile(*B.op.axis, 128, 128)", ("cache-conflicts", "strided-access")),
    Kind("table by columns", "rows of a table", "s[E].reorder(E.op.axis[1], E.op.axis[0])", ("strided-access", "streamed-operand", "cache-conflicts")),
    Kind("edges by columns", "edges", "s[V].reorder(*reversed(V.op.axis))", ("strided-access",)),
    Kind("softmax, exp inlined", "softmax", "s[E].compute_inline()", ("recomputed", "reduction-order")),
    Kind("softmax plain", "softmax", "pass", ("reduction-order",)),
    Kind("bytes by columns", "scaled bytes", "s[Y].reorder(*reversed(Y.op.axis))", ("strided-access",)),
    Kind("both ways from the inside", "both ways", "i, j, k = C.op.axis\ns[C].reorder(k, j, i)", ("strided-access", "streamed-operand")),
    Kind("both ways with j inside", "both ways", "i, j, k = C.op.axis\ns[C].reorder(i, k, j)", ("strided-access",)),
    Kind("diagonal by columns", "diagonal", "s[Y].reorder(*reversed(Y.op.axis))", ("strided-access",)),
    Kind("diagonal, threads inside", "diagonal", "s[Y].parallel(Y.op.axis[1])", ("parallel-too-fine", "false-sharing"), cores=4),
    Kind("squares of columns plain", "squares of columns", "pass", ("reduction-order", "strided-access", "cache-conflicts")),
    Kind("tir squares of columns, one vector", "squares of columns", 'b = sch.get_block("s")\nj, i = sch.get_loops(b)\njo, ji = sch.split(j, [None, LANES])\nsch.reorder(jo, i, ji)\nsch.vectorize(ji)\nsch.decompose_reduction(b, i)', ("few-accumulators",)),
    Kind("nearest plain", "nearest", "pass", ("reduction-order",)),
    Kind("twice as large, fused by 7", "twice as large", "s[Y].split(s[Y].fuse(*Y.op.axis), 7)", ("index-division", "guards", "short-loop", "not-vectorized")),
    Kind("dots plain", "dots", "pass", ("reduction-order",)),
    Kind("tir dots, two threads", "dots", 'S = sch.get_block("S")\ni, k = sch.get_loops(S)\nio, ii = sch.split(i, [None, 50])\nsch.parallel(io)', ("reduction-order", "parallel-too-coarse"), cores=4),
    Kind("large blur through memory", "large blur", "pass", ("stage-in-memory",)),
    Kind("large blur in each row", "large blur", "s[H].compute_at(s[Y], Y.op.axis[0])", ("recomputed",)),
    Kind("exp in a product", "exp and product", "i, o = Y.op.axis\nk, = s[Y].op.reduce_axis\ns[E].compute_inline()\ns[Y].reorder(o, i, k)", ("recomputed", "reduction-order")),
    Kind("long integers by columns", "long integers", "s[B].reorder(*reversed(B.op.axis))", ("strided-access",)),
]  # fmt: skip

_TILE = "io, ii = s[C].split(i, 6)\njo, ji = s[C].split(j, 2 * LANES)\ns[C].reorder(jo, io, k, ii, ji)\ns[C].unroll(ii)\ns[C].vectorize(ji)"

GOOD = [
    Kind("tn in tiles", "tn", _C + _TILE.replace("i, 6", "i, 4")),
    Kind("tn in tiles of 8 rows", "tn", _C + _TILE.replace("i, 6", "i, 8").replace("2 * LANES", "LANES")),
    Kind("tn in tiles, threads", "tn", _C + _TILE.replace("i, 6", "i, 4").replace("jo, io", "io, jo") + "\ns[C].parallel(io)", cores=4),
    Kind("tir tn in tiles", "tn", _T + "io, ii = sch.split(i, [None, 4])\njo, ji = sch.split(j, [None, 2 * LANES])\nsch.reorder(jo, io, k, ii, ji)\nsch.unroll(ii)\nsch.vectorize(ji)\nsch.decompose_reduction(b, k)"),
    Kind("batches in any order", "rows of batches", 's[y].pragma(s[y].op.reduce_axis[0], "any_order")'),
    Kind("nhwc in tiles", "nhwc", _Y + "oo, oi = s[Y].split(o, LANES)\nxo, xi = s[Y].split(x, 12)\ns[Y].reorder(y, oo, xo, r, q, c, xi, oi)\ns[Y].unroll(xi)\ns[Y].vectorize(oi)"),
    Kind("pointwise in tiles", "pointwise", "o, p = Y.op.axis\nc, = s[Y].op.reduce_axis\noo, oi = s[Y].split(o, 5)\npo, pi = s[Y].split(p, 2 * LANES)\ns[Y].reorder(po, oo, c, oi, pi)\ns[Y].unroll(oi)\ns[Y].vectorize(pi)"),
    Kind("rms in any order", "rms", 's[q].pragma(s[q].op.reduce_axis[0], "any_order")\ns[q].compute_at(s[Y], Y.op.axis[0])'),
    Kind("table plain", "rows of a table", "pass"),
    Kind("edges inlined", "edges", "s[H].compute_inline()"),
    Kind("bytes plain", "scaled bytes", "pass"),
    Kind("diagonal plain", "diagonal", "pass"),
    Kind("diagonal in vectors", "diagonal", "s[Y].vectorize(s[Y].split(Y.op.axis[1], LANES)[1])"),
    Kind("diagonal, threads on rows", "diagonal", "s[Y].parallel(Y.op.axis[0])", cores=4),
    Kind("tir diagonal, threads on rows", "diagonal", 'sch.parallel(sch.get_loops(sch.get_block("Y"))[0])', cores=4),
    Kind("nearest in any order", "nearest", 's[D].pragma(s[D].op.reduce_axis[0], "any_order")'),
    Kind("dots in any order", "dots", 's[S].pragma(s[S].op.reduce_axis[0], "any_order")'),
    Kind("large blur inlined", "large blur", "s[H].compute_inline()"),
    Kind("halves plain", "halves", "pass"),
    Kind("long integers plain", "long integers", "pass"),
    Kind("swish plain", "swish", "pass"),
    Kind("swish in vectors", "swish", "s[Y].vectorize(s[Y].split(Y.op.axis[1], LANES)[1])"),
]  # fmt: skip
