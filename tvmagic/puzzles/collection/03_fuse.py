from tvmagic.puzzles import SchedulePuzzle

PUZZLE = SchedulePuzzle(
    title="One loop of two",
    task="""
Twelve rows are too few for 16 cores. Make a single loop of both loops, and let its 120 iterations run in parallel.
""",
    program="""
X: float32[12, 10]
Y[i, j] = X[i, j] * X[i, j]
""",
    start="""
y = s[Y]
i, j = y.axis
y.parallel(i)
""",
    solution="""
y = s[Y]
i, j = y.axis
y.parallel(y.fuse(i, j))
""",
    goals=["loops == 1", "parallel >= 120"],
    hints={
        "loops == 1": "`fuse` makes one loop of two that are directly inside each other, and gives it back.",
        "parallel >= 120": "One loop it is. Now mark the loop that `fuse` gave back: `y.parallel(...)`.",
        "refused": "Only one loop can be parallel, so fuse both, the outer one first. Afterwards the two are gone, and only "
        "the loop that `fuse` gave back is there.",
    },
    wrong=[
        ("y = s[Y]\ni, j = y.axis\ny.parallel(j)", "loops == 1"),
        ("y = s[Y]\ni, j = y.axis\ny.fuse(i, j)", "parallel >= 120"),
        ("y = s[Y]\ni, j = y.axis\ny.fuse(i, j)\ny.parallel(j)", "refused"),
    ],
)
