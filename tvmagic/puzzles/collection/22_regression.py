from tvmagic.puzzles import SchedulePuzzle

PUZZLE = SchedulePuzzle(
    title="Undo the regression",
    task="""
Yesterday this schedule took fewer than 12,000 cycles, by the model. Somebody changed one line, and now it takes more than
twice as many. The tiles are as they were. Find the line, and mend it.
""",
    program="""
X: float32[64, 64]
W: float32[64, 64]
b: float32[64]
Y[i, j] += X[i, k] * W[k, j]
Z[i, j] = max(Y[i, j] + b[j], 0)
""",
    start="""
y, z = s[Y], s[Z]
io, jo, ii, ji = z.tile(*z.axis, 4, 16)
y.compute_at(z, jo)
yi, yj = y.axis
y.reorder(yi, y.reduce_axis[0], yj)
y.unroll(yi)
y.vectorize(yj)
z.vectorize(ji)
z.parallel(io)
""",
    solution="""
y, z = s[Y], s[Z]
io, jo, ii, ji = z.tile(*z.axis, 4, 16)
y.compute_at(z, jo)
yi, yj = y.axis
y.reorder(y.reduce_axis[0], yi, yj)
y.unroll(yi)
y.vectorize(yj)
z.vectorize(ji)
z.parallel(io)
""",
    goals=["allocated == 256", "on_vectors == 100", "cycles <= 12_000"],
    hints={
        "cycles <= 12_000": "The same vectors, the same tiles: only the order can have changed. How many sums go on side by side while "
        "`k` runs? If it is one, each addition waits for the one before.",
        "allocated == 256": "The tiles were 4 by 16, 256 bytes: leave them as they are.",
        "on_vectors == 100": "A vector got lost. Both `vectorize` calls were right.",
        "refused": "Every call of the cell is legal as it stands; what you have changed is not.",
    },
    wrong=[
        ("y, z = s[Y], s[Z]\nio, jo, ii, ji = z.tile(*z.axis, 4, 16)\ny.compute_at(z, jo)\nyi, yj = y.axis\n"
         "y.reorder(yi, y.reduce_axis[0], yj)\ny.vectorize(yj)\nz.vectorize(ji)\nz.parallel(io)", "cycles <= 12_000"),
        ("y, z = s[Y], s[Z]\nio, jo, ii, ji = z.tile(*z.axis, 8, 16)\ny.compute_at(z, jo)\nyi, yj = y.axis\n"
         "y.reorder(y.reduce_axis[0], yi, yj)\ny.unroll(yi)\ny.vectorize(yj)\nz.vectorize(ji)\nz.parallel(io)", "allocated == 256"),
        ("y, z = s[Y], s[Z]\nio, jo, ii, ji = z.tile(*z.axis, 4, 16)\ny.compute_at(z, jo)\nyi, yj = y.axis\n"
         "y.reorder(y.reduce_axis[0], yi, yj)\ny.unroll(yi)\nz.vectorize(ji)\nz.parallel(io)", "on_vectors == 100"),
    ],
)  # fmt: skip
