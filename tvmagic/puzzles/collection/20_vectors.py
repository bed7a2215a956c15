from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule
from tvmagic.puzzles import Facts, PredictionPuzzle

OPERATOR = """
X: float32[40]
Y[i] = X[i] + 1
"""
SCHEDULES = {
    "eight": "y = s[Y]\ny.vectorize(y.split(y.axis[0], factor=8)[1])",
    "sixteen": "y = s[Y]\ny.vectorize(y.split(y.axis[0], factor=16)[1])",
    "parts": "y = s[Y]\ny.vectorize(y.split(y.axis[0], nparts=2)[1])",
}


def truth() -> dict[str, object]:
    """The lanes of the vectors in each lowered program."""
    return {name: Facts(schedule(operator("add", OPERATOR), text)).lanes for name, text in SCHEDULES.items()}


PUZZLE = PredictionPuzzle(
    title="Vector or not?",
    task="""
Three schedules of the same operator. Predict how many lanes the vectors have in each program: 1, if it has none. The pass
VectorizeLoop does not store some lanes of a vector alone.
""",
    program=OPERATOR.strip() + "".join(f"\n\n# {name}\n{text}" for name, text in SCHEDULES.items()),
    asks={name: f"lanes with the schedule `{name}`" for name in SCHEDULES},
    truth=truth,
    solution="eight = 8\nsixteen = 1\nparts = 20",
    hints={
        "eight": "8 divides 40, so the inner loop has 8 iterations and needs no condition.",
        "sixteen": "Two turns of 16 and one of 8: the last one has to be cut off by a condition on the lanes. What does VectorizeLoop do "
        "with that?",
        "parts": "`nparts=2` makes two turns of the outer loop. How many iterations are left to the inner one?",
    },
    wrong=[
        ("eight = 5\nsixteen = 1\nparts = 20", "eight"),
        ("eight = 8\nsixteen = 16\nparts = 20", "sixteen"),
        ("eight = 8\nsixteen = 1\nparts = 2", "parts"),
    ],
)
