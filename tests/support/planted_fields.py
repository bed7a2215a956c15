"""A fifth set of schedules with one mistake each, and of schedules without one: what people compute in other fields.

Waves and heat in three dimensions, distances, covariances, signals, tables with indices of 64 bits, statistics of rows. In a cell
`LANES` is the number of float32 in a vector.
"""

from __future__ import annotations

from planted_kinds import Kind

KERNELS = {
    "heat": "U: float32[50, 66, 98]\nV: float32[48, 64, 96]\nV[z, y, x] = U[z + 1, y + 1, x + 1] * 0.4 + (U[z, y + 1, x + 1] + U[z + 2, y + 1, x + 1] + U[z + 1, y, x + 1] + U[z + 1, y + 2, x + 1] + U[z + 1, y + 1, x] + U[z + 1, y + 1, x + 2]) * 0.1",
    "contraction": "T: float32[20, 36, 60]\nM: float32[60, 96]\nR[a, b, d] += T[a, b, c] * M[c, d]",
    "distances": "P: float32[300, 24]\nQ: float32[320, 24]\nD[i, j] += (P[i, k] - Q[j, k]) * (P[i, k] - Q[j, k])",
    "covariance": "X: float32[500, 96]\nS[a, b] += X[n, a] * X[n, b]",
    "table": "T: float32[3000, 80]\nI: int64[1600]\nE[t, d] = T[I[t], d] * 2",
    "float64": "X: float32[900, 800]\nY[i, j] = X[i, j] * float64(0.25)",
    "gauss": "X: float32[514, 640]\nG: float32[514, 640]\nG[i, j] = exp(-X[i, j] * X[i, j])\nY: float32[512, 640]\nY[i, j] = G[i, j] + G[i + 1, j] * 2 + G[i + 2, j]",
    "odd": "X: float32[333, 777]\nY[i, j] = X[i, j] * 3 + 1",
    "flip batches": "X: float32[6, 120, 200]\nY: float32[6, 200, 120]\nY[b, j, i] = X[b, i, j]",
    "weights": "A: float32[700, 896]\nx: float32[700]\ny[j] += A[i, j] * x[i]",
    "turn 2048": "A: float32[2048, 512]\nB: float32[512, 2048]\nB[i, j] = A[j, i]",
    "large product": "A: float32[240, 768]\nB: float32[768, 480]\nC[i, j] += A[i, k] * B[k, j]",
    "signal": "X: float32[64, 1030]\nW: float32[32, 64, 7]\nY: float32[32, 1024]\nY[o, x] += X[c, x + r] * W[o, c, r]",
    "unit rows": "X: float32[300, 480]\nn[i] += X[i, k] * X[i, k]\nY[i, j] = X[i, j] / sqrt(n[i] + 1)",
    "short sums": "A: int16[500, 600]\nS[i] += int32(A[i, k])",
    "double product": "A: float64[160, 192]\nB: float64[192, 160]\nC[i, j] += A[i, k] * B[k, j]",
    "strided pool": "X: float32[20, 65, 97]\nr: range(3)\nq: range(3)\nP: float32[20, 32, 48]\nP[c, y, x] = max(X[c, 2 * y + r, 2 * x + q], over=(r, q))",
    "scaled channels": "X: float32[60, 60, 96]\ns: float32[96]\nb: float32[96]\nY[y, x, c] = max(X[y, x, c] * s[c] + b[c], 0)",
    "smallest": "A: float32[400, 1200]\nM[i] = min(A[i, k], over=k)",
    "two planes": "A: float32[2, 300, 400]\nB: float32[2, 300, 400]\nR[i, j] = A[0, i, j] * B[0, i, j] - A[1, i, j] * B[1, i, j]",
    "band": "A: float32[600, 600]\nY: float32[600, 600]\nY[i, j] = A[i, j] if j <= i else 0",
    "moments": "X: float32[256, 1024]\nm[i] += X[i, k]\nv[i] += X[i, k] * X[i, k]\nY[i, j] = (X[i, j] - m[i] / 1024) / sqrt(v[i] / 1024 + 0.001)",
    "waves": "X: float32[258, 640]\nA: float32[258, 640]\nA[i, j] = X[i, j] * 2 + 1\nB: float32[258, 638]\nB[i, j] = A[i, j] + A[i, j + 2]\nC: float32[256, 638]\nC[i, j] = B[i, j] + B[i + 2, j]",
}  # fmt: skip

_CB = 'b = sch.get_block("R")\na_, b_, d_, c_ = sch.get_loops(b)\n'
_R = "a, b, d = R.op.axis\nc, = s[R].op.reduce_axis\n"
_C = "i, j = C.op.axis\nk, = s[C].op.reduce_axis\n"

BAD = [
    Kind("heat from the inside", "heat", "z, y, x = V.op.axis\ns[V].reorder(x, y, z)", ("strided-access",)),
    Kind("heat with z inside", "heat", "z, y, x = V.op.axis\ns[V].reorder(y, x, z)", ("strided-access",)),
    Kind("heat in vectors of y", "heat", "z, y, x = V.op.axis\nyo, yi = s[V].split(y, LANES)\ns[V].reorder(z, yo, x, yi)\ns[V].vectorize(yi)", ("strided-vectors",)),
    Kind("heat, threads on four", "heat", "z, y, x = V.op.axis\nxo, xi = s[V].split(x, 4)\ns[V].parallel(xi)", ("parallel-too-fine", "false-sharing"), cores=4),
    Kind("heat, all of x unrolled", "heat", "z, y, x = V.op.axis\ns[V].reorder(x, z, y)", ("strided-access",)),
    Kind("contraction plain", "contraction", "pass", ("reduction-order",)),
    Kind("contraction with a inside", "contraction", _R + "s[R].reorder(b, d, c, a)", ("strided-access",)),
    Kind("contraction, sums in memory", "contraction", _R + "s[R].reorder(c, a, b, d)", ("small-tile", "streamed-operand")),
    Kind("contraction, one vector", "contraction", _R + "do, di = s[R].split(d, LANES)\ns[R].reorder(a, b, do, c, di)\ns[R].vectorize(di)", ("few-accumulators", "small-tile")),
    Kind("contraction, tile of 36 rows", "contraction", _R + "do, di = s[R].split(d, 2 * LANES)\ns[R].reorder(a, do, c, b, di)\ns[R].unroll(b)\ns[R].vectorize(di)", ("spills",)),
    Kind("tir contraction, threads on columns", "contraction", _CB + "sch.reorder(d_, a_, b_, c_)\nsch.parallel(d_)", ("reduction-order",)),
    Kind("tir contraction, guards", "contraction", _CB + "do, di = sch.split(d_, [None, 20])\nsch.reorder(a_, b_, do, c_, di)", ("guards", "few-accumulators", "narrow-vectors", "short-loop")),
    Kind("distances plain", "distances", "pass", ("reduction-order",)),
    Kind("distances in vectors of j", "distances", "i, j = D.op.axis\nk, = s[D].op.reduce_axis\njo, ji = s[D].split(j, LANES)\ns[D].reorder(i, jo, k, ji)\ns[D].vectorize(ji)", ("strided-vectors",)),
    Kind("covariance plain", "covariance", "pass", ("reduction-order", "strided-access")),
    Kind("covariance, one row", "covariance", "a, b = S.op.axis\nn, = s[S].op.reduce_axis\ns[S].reorder(n, a, b)", ("small-tile", "streamed-operand")),
    Kind("covariance, four lanes", "covariance", "a, b = S.op.axis\nn, = s[S].op.reduce_axis\nao, ai = s[S].split(a, 4)\nbo, bi = s[S].split(b, 4)\ns[S].reorder(ao, bo, n, ai, bi)\ns[S].vectorize(bi)\ns[S].unroll(ai)", ("narrow-vectors",)),
    Kind("table by columns", "table", "s[E].reorder(E.op.axis[1], E.op.axis[0])", ("strided-access", "streamed-operand", "cache-conflicts")),
    Kind("float64 by a constant", "float64", "pass", ("conversion",)),
    Kind("gauss inlined", "gauss", "s[G].compute_inline()", ("recomputed",)),
    Kind("gauss in each row", "gauss", "s[G].compute_at(s[Y], Y.op.axis[0])", ("recomputed",)),
    Kind("tir gauss in each row", "gauss", 'i, j = sch.get_loops(sch.get_block("Y"))\nsch.compute_at(sch.get_block("G"), i)', ("recomputed",)),
    Kind("odd by columns", "odd", "s[Y].reorder(*reversed(Y.op.axis))", ("strided-access",)),
    Kind("flip batches plain", "flip batches", "pass", ("strided-access", "streamed-operand")),
    Kind("weights plain", "weights", "pass", ("reduction-order", "strided-access")),
    Kind("weights, one vector", "weights", "j, = y.op.axis\ni, = s[y].op.reduce_axis\njo, ji = s[y].split(j, LANES)\ns[y].reorder(jo, i, ji)\ns[y].vectorize(ji)", ("few-accumulators",)),
    Kind("turn 2048 in tiles of 64", "turn 2048", "s[B].tile(*B.op.axis, 64, 64)", ("cache-conflicts",)),
    Kind("large product, one row", "large product", _C + "s[C].reorder(i, k, j)", ("small-tile", "streamed-operand")),
    Kind("large product, tile of 96 columns and 16 rows", "large product", _C + "io, ii = s[C].split(i, 16)\njo, ji = s[C].split(j, 96)\ns[C].reorder(io, jo, k, ii, ji)\ns[C].unroll(ii)\ns[C].vectorize(ji)", ("spills",)),
    Kind("large product, two threads", "large product", _C + "io, ii = s[C].split(i, 120)\njo, ji = s[C].split(j, 2 * LANES)\ni2, i3 = s[C].split(ii, 6)\ns[C].reorder(io, jo, i2, k, i3, ji)\ns[C].unroll(i3)\ns[C].vectorize(ji)\ns[C].parallel(io)", ("parallel-too-coarse",), cores=4),
    Kind("signal plain", "signal", "pass", ("reduction-order",)),
    Kind("signal, taps outside", "signal", "o, x = Y.op.axis\nc, r = s[Y].op.reduce_axis\ns[Y].reorder(c, r, o, x)", ("small-tile", "streamed-operand")),
    Kind("unit rows plain", "unit rows", "pass", ("reduction-order",)),
    Kind("tir unit rows, at each row", "unit rows", 'i, j = sch.get_loops(sch.get_block("Y"))\nsch.compute_at(sch.get_block("n"), i)', ("reduction-order",)),
    Kind("unit rows, at each element", "unit rows", "s[n].compute_at(s[Y], Y.op.axis[1])", ("recomputed", "reduction-order")),
    Kind("double product plain", "double product", "pass", ("reduction-order",)),
    Kind("pool by channels", "strided pool", "c, y, x = P.op.axis\ns[P].reorder(y, x, c)", ("strided-access", "reduction-order", "short-loop")),
    Kind("channels inside out", "scaled channels", "y, x, c = Y.op.axis\ns[Y].reorder(c, y, x)", ("strided-access",)),
    Kind("smallest plain", "smallest", "pass", ("reduction-order",)),
    Kind("tir smallest, threads", "smallest", 'sch.parallel(sch.get_loops(sch.get_block("M"))[0])', ("reduction-order",)),
    Kind("planes by columns", "two planes", "s[R].reorder(*reversed(R.op.axis))", ("strided-access",)),
    Kind("tir band in vectors", "band", 'i, j = sch.get_loops(sch.get_block("Y"))\njo, ji = sch.split(j, [None, 8])\nsch.vectorize(ji)', ("guards", "not-vectorized")),
    Kind("moments plain", "moments", "pass", ("reduction-order",)),
]  # fmt: skip

_TILE = "io, ii = s[C].split(i, 6)\njo, ji = s[C].split(j, 2 * LANES)\ns[C].reorder(jo, io, k, ii, ji)\ns[C].unroll(ii)\ns[C].vectorize(ji)"

GOOD = [
    Kind("heat plain", "heat", "pass"),
    Kind("heat in vectors", "heat", "s[V].vectorize(s[V].split(V.op.axis[2], LANES)[1])"),
    Kind("heat, threads on z", "heat", "s[V].vectorize(s[V].split(V.op.axis[2], LANES)[1])\ns[V].parallel(V.op.axis[0])", cores=4),
    Kind("contraction in tiles", "contraction", _R + "bo, bi = s[R].split(b, 6)\ndo, di = s[R].split(d, 2 * LANES)\ns[R].reorder(a, do, bo, c, bi, di)\ns[R].unroll(bi)\ns[R].vectorize(di)"),
    Kind("tir contraction in tiles", "contraction", _CB + "bo, bi = sch.split(b_, [None, 6])\ndo, di = sch.split(d_, [None, 2 * LANES])\nsch.reorder(a_, do, bo, c_, bi, di)\nsch.unroll(bi)\nsch.vectorize(di)"),
    Kind("covariance in tiles", "covariance", "a, b = S.op.axis\nn, = s[S].op.reduce_axis\nao, ai = s[S].split(a, 6)\nbo, bi = s[S].split(b, 2 * LANES)\ns[S].reorder(ao, bo, n, ai, bi)\ns[S].unroll(ai)\ns[S].vectorize(bi)"),
    Kind("table in vectors", "table", "s[E].vectorize(s[E].split(E.op.axis[1], 16)[1])"),
    Kind("table plain", "table", "pass"),
    Kind("odd plain", "odd", "pass"),
    Kind("gauss in blocks", "gauss", "io, ii = s[Y].split(Y.op.axis[0], 64)\ns[G].compute_at(s[Y], io)\ns[Y].vectorize(s[Y].split(Y.op.axis[1], LANES)[1])\ns[G].vectorize(s[G].split(G.op.axis[1], LANES)[1])"),
    Kind("weights in vectors", "weights", "j, = y.op.axis\ni, = s[y].op.reduce_axis\njo, ji = s[y].split(j, 8 * LANES)\ns[y].reorder(jo, i, ji)\ns[y].vectorize(ji)"),
    Kind("large product in tiles", "large product", _C + _TILE),
    Kind("large product, threads", "large product", _C + _TILE + "\ns[C].parallel(jo)", cores=4),
    Kind("double product in tiles", "double product", _C + _TILE.replace("2 * LANES", "LANES")),
    Kind("unit rows in any order", "unit rows", 's[n].pragma(s[n].op.reduce_axis[0], "any_order")\ns[n].compute_at(s[Y], Y.op.axis[0])'),
    Kind("tir unit rows in any order", "unit rows", 'n = sch.get_block("n")\ni, k = sch.get_loops(n)\nsch.decompose_reduction(n, k)\nsch.annotate(k, "pragma_any_order", 1)'),
    Kind("channels plain", "scaled channels", "pass"),
    Kind("channels in vectors", "scaled channels", "s[Y].vectorize(s[Y].split(Y.op.axis[2], LANES)[1])"),
    Kind("smallest in any order", "smallest", 's[M].pragma(s[M].op.reduce_axis[0], "any_order")'),
    Kind("planes plain", "two planes", "pass"),
    Kind("tir planes, threads", "two planes", 'i, j = sch.get_loops(sch.get_block("R"))\nsch.parallel(i)', cores=4),
    Kind("waves inlined", "waves", "s[A].compute_inline()\ns[B].compute_inline()"),
    Kind("short sums plain", "short sums", "pass"),
]  # fmt: skip
