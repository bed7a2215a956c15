from tvmagic.puzzles import SchedulePuzzle

PUZZLE = SchedulePuzzle(
    title="A layer in tiles",
    task="""
A layer of a network: a product, then a bias and a cut at zero. Compute both in tiles of 8 by 16, so that the product's
tile is still at hand when the bias is added; let no more than one tile be allocated, and put everything on vectors.
""",
    program="""
X: float32[32, 32]
W: float32[32, 32]
b: float32[32]
Y[i, j] += X[i, k] * W[k, j]
Z[i, j] = max(Y[i, j] + b[j], 0)
""",
    start="""
y, z = s[Y], s[Z]
io, jo, ii, ji = z.tile(*z.axis, 8, 16)
# your calls here
""",
    solution="""
y, z = s[Y], s[Z]
io, jo, ii, ji = z.tile(*z.axis, 8, 16)
y.compute_at(z, jo)
yi, yj = y.axis
y.reorder(y.reduce_axis[0], yi, yj)
y.vectorize(yj)
z.vectorize(ji)
""",
    goals=["allocated <= 512", "arithmetic <= 67_584", "on_vectors >= 99"],
    hints={
        "allocated <= 512": "8 * 16 * 4 bytes are one tile. Attach `y` at the loop of `z` that goes from tile to tile.",
        "arithmetic <= 67_584": "Something is computed more than once: attach `y` where each tile begins, not around it.",
        "on_vectors >= 99": "Two stages, two calls: `z.vectorize(ji)`, and in `y` its own loop along the row, which must be inside "
        "the sum's loop (`reorder`).",
        "refused": "Attach `y` before you arrange its loops; its loops are `y.axis` and `y.reduce_axis`. In TensorIR, vectorize before "
        "you decompose the reduction.",
    },
    wrong=[
        ("y, z = s[Y], s[Z]\nio, jo, ii, ji = z.tile(*z.axis, 8, 16)\nz.vectorize(ji)", "allocated <= 512"),
        (
            "y, z = s[Y], s[Z]\nio, jo, ii, ji = z.tile(*z.axis, 8, 16)\ny.compute_at(z, io)\nz.vectorize(ji)",
            "allocated <= 512",
        ),
        (
            "y, z = s[Y], s[Z]\nio, jo, ii, ji = z.tile(*z.axis, 8, 16)\ny.compute_at(z, jo)\nz.vectorize(ji)",
            "on_vectors >= 99",
        ),
    ],
)
