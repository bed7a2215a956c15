from tvmagic.puzzles import SchedulePuzzle

PUZZLE = SchedulePuzzle(
    title="Sixteen at once",
    task="Do all the work on vectors of 16 lanes, whose elements lie next to each other in memory.",
    program="""
X: float32[32, 64]
b: float32[64]
Y[i, j] = X[i, j] + b[j]
""",
    start="""
y = s[Y]
i, j = y.axis
# your calls here
""",
    solution="""
y = s[Y]
i, j = y.axis
jo, ji = y.split(j, factor=16)
y.vectorize(ji)
""",
    goals=["on_vectors == 100", "lanes == 16", "cycles <= 3_000"],
    hints={
        "on_vectors == 100": "`y.vectorize(loop)` makes one vector of a loop: of all its iterations.",
        "lanes == 16": "The vector has as many lanes as the loop has iterations: split the loop first.",
        "cycles <= 3_000": "16 lanes, but they are not neighbours: a row of `Y` lies in memory along `j`.",
        "refused": "`split` gives an outer and an inner loop; the inner one is to be vectorized.",
    },
    wrong=[
        ("y = s[Y]\ny.vectorize(y.axis[1])", "lanes == 16"),
        ("y = s[Y]\ny.unroll(y.split(y.axis[1], factor=16)[1])", "on_vectors == 100"),
        (
            "y = s[Y]\ni, j = y.axis\nio, ii = y.split(i, factor=16)\ny.reorder(io, j, ii)\ny.vectorize(ii)",
            "cycles <= 3_000",
        ),
    ],
)
