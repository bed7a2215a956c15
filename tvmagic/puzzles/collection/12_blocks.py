from tvmagic.puzzles import SchedulePuzzle

PUZZLE = SchedulePuzzle(
    title="The same with blocks",
    task="""
A TensorIR schedule changes a program that is there from the beginning; its blocks and loops have names. Move the block
`B` into the loop over the rows of `Y`, so that two rows of `B` are kept, and nothing else is changed.
""",
    program="""
X: float32[17, 32]
B[i, j] = X[i, j] * X[i, j]
Y[i, j] = B[i, j] + B[i + 1, j]
""",
    start="""
b, y = sch.get_block("B"), sch.get_block("Y")
i, j = sch.get_loops(y)
# your call here
""",
    solution="""
b, y = sch.get_block("B"), sch.get_block("Y")
i, j = sch.get_loops(y)
sch.compute_at(b, i)
""",
    goals=["allocated == 256", "arithmetic <= 1_536", "loops <= 4"],
    hints={
        "allocated == 256": "`sch.compute_at(block, loop)` moves a block under a loop of the block that reads it; its buffer shrinks "
        "to what is needed there. Under the loop over rows these are two rows of 32 numbers.",
        "loops <= 4": "The buffer is small enough, but the program has more loops than the task asks for.",
        "refused": "A loop is named by what `get_loops` gives: the loops of the block that stays, here `y`.",
    },
    wrong=[
        ('b, y = sch.get_block("B"), sch.get_block("Y")\nsch.compute_at(y, sch.get_loops(b)[0])', "refused"),
        ('b = sch.get_block("B")\nsch.vectorize(sch.get_loops(b)[1])', "allocated == 256"),
        (
            'b, y = sch.get_block("B"), sch.get_block("Y")\ni, j = sch.get_loops(y)\nsch.compute_at(b, i)\nsch.split(j, [None, 8])',
            "loops <= 4",
        ),
    ],
)
