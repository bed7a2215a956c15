from tvmagic.puzzles import SchedulePuzzle

PUZZLE = SchedulePuzzle(
    title="Packed, fused, in registers, in parallel",
    task="""
All at once: `P` has the columns of `B` in panels of 16, `C` is the product, `D` cuts it off at zero. Compute `P` first, in parallel; then
`D` in tiles of 4 by 16, rows of tiles in parallel, with the tile of `C` summed up where it is needed; everything on vectors.
""",
    program="""
A: float32[64, 64]
B: float32[64, 64]
P = te.compute((4, 64, 16), lambda p, k, j: B[k, p * 16 + j], name="P")
j: range(64)
C[i, j] += A[i, k] * P[j // 16, k, j % 16]
D[i, j] = max(C[i, j], 0)
""",
    start="""
p, c, d = s[P], s[C], s[D]
# your calls here
""",
    solution="""
p, c, d = s[P], s[C], s[D]
p.parallel(p.axis[0])
p.vectorize(p.axis[2])
io, jo, ii, ji = d.tile(*d.axis, 4, 16)
d.parallel(io)
d.vectorize(ji)
c.compute_at(d, jo)
ci, cj = c.axis
c.reorder(c.reduce_axis[0], ci, cj)
c.unroll(ci)
c.vectorize(cj)
""",
    goals=["allocated <= 16_640", "on_vectors == 100", "parallel == 16", "cycles <= 18_000"],
    hints={
        "allocated <= 16_640": "`P` takes 16,384 bytes and a tile of `C` 256. Tile `D`, and attach `c` at the loop from tile to tile.",
        "on_vectors == 100": "Three stages, three loops along a row: each of them has to be a vector, in `c` inside the sum's loop.",
        "parallel == 16": "64 rows in tiles of 4 are 16 rows of tiles: that loop of `D` may run in parallel.",
        "cycles <= 18_000": "The sums wait for each other, or threads are started again and again: let the rows of a tile be unrolled "
        "inside the sum's loop, and only outermost loops be parallel.",
        "refused": "`tile` gives four loops of `D`: rows of tiles, tiles, rows, columns. Attach `c` before you arrange its loops.",
    },
    wrong=[
        ("p, c, d = s[P], s[C], s[D]\np.parallel(p.axis[0])\np.vectorize(p.axis[2])\nd.parallel(d.axis[0])", "allocated <= 16_640"),
        ("p, c, d = s[P], s[C], s[D]\np.vectorize(p.axis[2])\nio, jo, ii, ji = d.tile(*d.axis, 4, 16)\nd.parallel(io)\nd.vectorize(ji)\n"
         "c.compute_at(d, jo)", "on_vectors == 100"),
        ("p, c, d = s[P], s[C], s[D]\np.vectorize(p.axis[2])\nio, jo, ii, ji = d.tile(*d.axis, 4, 16)\nd.vectorize(ji)\nc.compute_at(d, jo)\n"
         "ci, cj = c.axis\nc.reorder(c.reduce_axis[0], ci, cj)\nc.unroll(ci)\nc.vectorize(cj)\np.parallel(p.axis[0])", "parallel == 16"),
    ],
)  # fmt: skip
