from tvmagic.puzzles import SchedulePuzzle

PUZZLE = SchedulePuzzle(
    title="A sliding window",
    task="""
The same blur, with nothing computed twice, and no more than the rows in the window kept. From one row of `V` to the next
the window moves by one row: all others have been computed already.
""",
    program="""
X: float32[34, 34]
r: range(3)
q: range(3)
H[y, x] += X[y, x + r]
V[y, x] += H[y + q, x]
""",
    start="""
h, v = sch.get_block("H"), sch.get_block("V")
y, x, q = sch.get_loops(v)
sch.compute_at(h, y)
# your call here
""",
    solution="""
h, v = sch.get_block("H"), sch.get_block("V")
y, x, q = sch.get_loops(v)
sch.compute_at(h, y)
sch.rolling_buffer(h, 0)
""",
    goals=["allocated <= 384", "made <= 15_000"],
    hints={
        "allocated <= 384": "All of `H` is kept. First let it be computed row by row: `sch.compute_at(h, y)`.",
        "made <= 15_000": "Rows of `H` are computed again for each row of `V`. `sch.rolling_buffer(h, 0)` keeps those that the next "
        "turn needs, in a buffer that is used in a circle. In a TE schedule, `rolling_buffer` only leaves a mark for a pass "
        "that is not among the usual ones: answer with `sch`.",
        "refused": "`rolling_buffer` takes the block that is computed in a window, and which of its buffers: it has one, 0.",
    },
    wrong=[
        ('h, v = sch.get_block("H"), sch.get_block("V")\nsch.rolling_buffer(v, 0)', "refused"),
        ('h, v = sch.get_block("H"), sch.get_block("V")\nsch.compute_at(h, sch.get_loops(v)[0])', "made <= 15_000"),
        ("h, v = s[H], s[V]\nh.compute_at(v, v.axis[0])\nh.rolling_buffer()", "made <= 15_000"),
        ('h, v = sch.get_block("H"), sch.get_block("V")\nsch.vectorize(sch.get_loops(h)[1])', "allocated <= 384"),
    ],
)
