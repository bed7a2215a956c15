from tvmagic.puzzles import SchedulePuzzle

PUZZLE = SchedulePuzzle(
    title="No tensor in between",
    task="`B` is stored as a whole, only to be read again. Write its expression into `Y`, so that no memory is allocated.",
    program="""
X: float32[16, 16]
B[i, j] = X[i, j] + 1
Y[i, j] = 2 * B[j, i]
""",
    start="""
# your call here
""",
    solution="""
s[B].compute_inline()
""",
    goals=["allocated == 0", "arithmetic == 512"],
    hints={
        "allocated == 0": "A stage that is inlined is computed where it is read, as part of the expression: `compute_inline`.",
        "refused": "The result cannot be inlined, as nobody reads it. Which stage lies in between?",
        "arithmetic == 512": "Each value of `B` is read once, so nothing has to be computed twice.",
    },
    wrong=[
        ("s[Y].compute_inline()", "refused"),
        ("s[B].compute_at(s[Y], s[Y].op.axis[1])", "allocated == 0"),
        ("s[B].compute_at(s[Y], s[Y].op.axis[0])", "allocated == 0"),
    ],
)
