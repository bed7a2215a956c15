from tvmagic.puzzles import SchedulePuzzle

PUZZLE = SchedulePuzzle(
    title="A tile in registers",
    task="""
A product of matrices in tiles of 4 by 16: each tile is summed up in a local tensor, so that one load of `B` serves four rows.
Put all work on vectors, and write the four rows out, so that each has registers of its own.
""",
    program="""
A: float32[64, 64]
B: float32[64, 64]
C[i, j] += A[i, k] * B[k, j]
""",
    start="""
local = s.cache_write(C, "local")
c, t = s[C], s[local]
io, jo, ii, ji = c.tile(*c.axis, 4, 16)
t.compute_at(c, jo)
# your calls here
""",
    solution="""
local = s.cache_write(C, "local")
c, t = s[C], s[local]
io, jo, ii, ji = c.tile(*c.axis, 4, 16)
t.compute_at(c, jo)
ti, tj = t.axis
t.reorder(t.reduce_axis[0], ti, tj)
t.unroll(ti)
t.vectorize(tj)
c.vectorize(ji)
""",
    goals=["stored == 16_384", "on_vectors == 100", "cycles <= 25_000", "loops <= 5"],
    hints={
        "stored == 16_384": "Each element of `C` is to be stored once: sum up in a stage of its own, by `cache_write`.",
        "on_vectors == 100": "Both stages have a loop along the row: vectorize it in `t` and in `c`. In `t` it must be inside the "
        "loop of the sum: `reorder` first.",
        "cycles <= 25_000": "The vectors wait for each other. Let the loop of the sum be outside, the rows inside it and unrolled: "
        "then four sums go on side by side.",
        "loops <= 5": "The rows of the sum are still a loop: `t.unroll(ti)`, of the loop `ti` over them, writes them out.",
        "refused": "The loops of the local stage are `t.axis` and `t.reduce_axis`; those of `C` came from `tile`.",
    },
    wrong=[
        ("c = s[C]\nio, jo, ii, ji = c.tile(*c.axis, 4, 16)\nc.reorder(io, jo, c.reduce_axis[0], ii, ji)\nc.vectorize(ji)", "stored == 16_384"),
        ('local = s.cache_write(C, "local")\nc, t = s[C], s[local]\nio, jo, ii, ji = c.tile(*c.axis, 4, 16)\nt.compute_at(c, jo)\nc.vectorize(ji)', "on_vectors == 100"),
        ('local = s.cache_write(C, "local")\nc, t = s[C], s[local]\nio, jo, ii, ji = c.tile(*c.axis, 4, 16)\nt.compute_at(c, jo)\n'
         "t.reorder(t.axis[0], t.reduce_axis[0], t.axis[1])\nt.vectorize(t.axis[1])\nc.vectorize(ji)", "cycles <= 25_000"),
        ('local = s.cache_write(C, "local")\nc, t = s[C], s[local]\nio, jo, ii, ji = c.tile(*c.axis, 4, 16)\nt.compute_at(c, jo)\n'
         "t.reorder(t.reduce_axis[0], *t.axis)\nt.vectorize(t.axis[1])\nc.vectorize(ji)", "loops <= 5"),
    ],
)  # fmt: skip
