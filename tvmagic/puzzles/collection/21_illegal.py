import ast

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
    """The line of the call that is refused, its loop, and how many iterations of that loop add to one element."""
    op = operator("product", OPERATOR)
    try:
        schedule(op, CALLS)
    except TVMagicError as error:
        line = error.span.line - 1 if error.span is not None else 0
        (call,) = ast.parse(CALLS.splitlines()[line - 1]).body
        assert isinstance(call, ast.Expr) and isinstance(call.value, ast.Call)
        loop = ast.unparse(call.value.args[0])
        (k,) = op.outputs[0].op.reduce_axis
        return {"line": line, "loop": loop, "adding": int(k.dom.extent) if k.var.name == loop else 1}
    return {"line": 0, "loop": "", "adding": 0}


PUZZLE = PredictionPuzzle(
    title="Find the illegal call",
    task="""
One of these calls would change the result, and is refused. Which one? All calls before it are legal. Give its line, counted
from 1; the name of its loop; and the reason as a number: of the iterations of that loop, how many add to the same element of `C`?
""",
    program=OPERATOR.strip()
    + "\n\n"
    + "\n".join(f"{n:2}  {line}" for n, line in enumerate(CALLS.splitlines(), start=1)),
    asks={
        "line": "the line of the illegal call",
        "loop": "the name of its loop, in quotes",
        "adding": "iterations of that loop that add to one element of C",
    },
    truth=truth,
    solution='line = 8\nloop = "k"\nadding = 32',
    hints={
        "line": "Which loops may run in any order, and at the same time? Those of different elements of `C` may; those that add to "
        "the same element may not. Go through the calls, and ask it of each one's loop. Moving a loop (`reorder`) and writing it out "
        "(`unroll`) keep all additions.",
        "loop": 'The loop is the argument of the call, a text such as `"jo"`. `i`, `jo` and `ji` choose an element of `C`; what does '
        "the fourth loop do?",
        "adding": "`C[i, j]` is named by `i` and `j` alone. While these stand still, how often does the loop of the illegal call run?",
        "refused": "Write `line = ` and a number, `loop = ` and a text in quotes, `adding = ` and a number.",
        "unanswered": "There are three things to find, a line for each of them.",
    },
    wrong=[
        ('line = 4\nloop = "i"\nadding = 1', "line"),
        ('line = 6\nloop = "ji"\nadding = 8', "line"),
        ('line = 7\nloop = "k"\nadding = 32', "line"),
        ('line = 8\nloop = "jo"\nadding = 4', "loop"),
        ('line = 8\nloop = "k"\nadding = 1', "adding"),
        ("line = 8", "unanswered"),
        ("line = 8\nloop = k\nadding = 32", "refused"),
    ],
)
