from tvmagic.puzzles import SchedulePuzzle

PUZZLE = SchedulePuzzle(
    title="Store a sum once",
    task="""
Every step of the sum loads `C` and stores it again. Sum up in a small local tensor, and write each element of `C` to
memory once.
""",
    program="""
A: float32[16, 32]
B: float32[32, 16]
C[i, j] += A[i, k] * B[k, j]
""",
    start="""
local = s.cache_write(C, "local")
c, t = s[C], s[local]
# your call here
""",
    solution="""
local = s.cache_write(C, "local")
c, t = s[C], s[local]
t.compute_at(c, c.axis[1])
""",
    goals=["stored == 1_024", "allocated <= 64"],
    hints={
        "stored == 1_024": '16 * 16 numbers of 4 bytes are the least. `s.cache_write(C, "local")` gives a stage that does the sums; '
        "`C` then only copies.",
        "allocated <= 64": "The local tensor is as large as `C`. `compute_at` makes it as small as what one turn of a loop of `C` "
        "needs.",
        "refused": "After `cache_write` the loops of `C` are new: take them from `s[C].axis`, and attach the local stage to them.",
    },
    wrong=[
        ("c = s[C]\nc.unroll(c.reduce_axis[0])", "stored == 1_024"),
        ('s.cache_write(C, "local")', "allocated <= 64"),
        ('i, j = s[C].axis\nlocal = s.cache_write(C, "local")\ns[local].compute_at(s[C], C)', "refused"),
    ],
)
