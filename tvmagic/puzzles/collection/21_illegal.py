from tvmagic.errors import TVMagicError
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule
from tvmagic.puzzles import PredictionPuzzle

OPERATOR = """
A: float32[32, 32]
B: float32[32, 32]
C[i, j] += A[i, k] * B[k, j]
"""
CALLS = """c = sch.get_block("C")
i, j, k = sch.get_loops(c)
jo, ji = sch.split(j, [None, 8])
sch.reorder(jo, i, k, ji)
sch.parallel(i)
sch.vectorize(ji)
sch.decompose_reduction(c, k)
sch.parallel(k)
sch.unroll(jo)"""


def truth() -> dict[str, object]:
    """The line of the call that is refused."""
    try:
        schedule(operator("product", OPERATOR), CALLS)
    except TVMagicError as error:
        return {"line": error.span.line - 1 if error.span is not None else 0}
    return {"line": 0}


PUZZLE = PredictionPuzzle(
    title="Find the illegal call",
    task="""
One of these calls would change the result, and is refused. Which one? All calls before it are legal. Give its line, counted
from 1.
""",
    program=OPERATOR.strip()
    + "\n\n"
    + "\n".join(f"{n:2}  {line}" for n, line in enumerate(CALLS.splitlines(), start=1)),
    asks={"line": "the line of the illegal call"},
    truth=truth,
    solution="line = 8",
    hints={
        "line": "Which loops may run in any order, and at the same time? Those of different elements of `C` may; those that add to "
        "the same element may not. What does each loop stand for?",
        "unanswered": "A line for each call: the first is 1.",
        "refused": "Write `line = ` and a number.",
    },
    wrong=[("line = 4", "line"), ("line = 6", "line"), ("line = 7", "line"), ('line = "parallel"', "line")],
)
