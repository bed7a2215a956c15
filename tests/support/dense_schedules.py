"""A TensorIR schedule of a dense layer `Y`, `Z`: split, moved, unrolled, vectorized and parallel loops."""

BLOCKS = """y, z = sch.get_block("Y"), sch.get_block("Z")
i, j = sch.get_loops(z)
(io, ii), (jo, ji) = sch.split(i, [None, 6]), sch.split(j, [None, 16])
sch.reorder(io, jo, ii, ji)
sch.compute_at(y, jo)
yi, yj, yk = sch.get_loops(y)[-3:]
sch.reorder(yk, yi, yj)
sch.unroll(yi)
sch.vectorize(yj)
sch.vectorize(ji)
sch.parallel(io)
sch.decompose_reduction(y, yk)"""
