from tvmagic import te
from tvmagic.eval.integers import evaluate
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule
from tvmagic.puzzles import PredictionPuzzle

OPERATOR = """
X: float32[66, 66]
r: range(3)
q: range(3)
H[y, x] += X[y, x + r]
V[y, x] += H[y + q, x]
"""
SCHEDULE = """
v, h = s[V], s[H]
yo, yi = v.split(v.axis[0], factor=16)
h.compute_at(v, yo)
"""


def truth() -> dict[str, object]:
    """The extents that InferBound finds."""
    op = operator("blur", OPERATOR)
    sch = schedule(op, SCHEDULE).schedule.normalize()
    ranges = te.schedule.InferBound(sch)
    stages = {stage.op.name: stage for stage in sch.stages}
    (y, x), (r,) = stages["H"].op.axis, stages["H"].op.reduce_axis
    outer = stages["V"].leaf_iter_vars[0]
    found = {"yo": outer, "h_rows": y, "h_columns": x, "h_r": r}
    return {name: evaluate(ranges[iv].extent, {}) for name, iv in found.items()}


PUZZLE = PredictionPuzzle(
    title="What InferBound will find",
    task="""
Predict how often each loop runs before you let InferBound find it. `H` is computed in the loop `yo` of `V`: how much of it does
one turn of that loop read?
""",
    program=OPERATOR.strip() + "\n\n# the schedule" + SCHEDULE,
    asks={
        "yo": "iterations of the outer loop of V",
        "h_rows": "rows of H that are computed in one turn of it",
        "h_columns": "columns of H",
        "h_r": "iterations of the sum in H",
    },
    truth=truth,
    solution="yo = 4\nh_rows = 18\nh_columns = 64\nh_r = 3",
    hints={
        "yo": "`V` has 64 rows: as many as `y + q` may take without leaving the 66 rows of `H`. They are split by 16.",
        "h_rows": "A turn computes 16 rows of `V`, y to y + 15. Each reads `H` at y + q, with q from 0 to 2: which is the last?",
        "h_columns": "All columns of `V` are computed in one turn, and `H` is read at the same column. How many columns does `V` have?",
        "h_r": "A reduction axis runs whole, whatever is asked of the stage.",
    },
    wrong=[
        ("yo = 4\nh_rows = 16\nh_columns = 64\nh_r = 3", "h_rows"),
        ("yo = 4\nh_rows = 48\nh_columns = 64\nh_r = 3", "h_rows"),
        ("yo = 16\nh_rows = 18\nh_columns = 64\nh_r = 3", "yo"),
        ("yo = 4\nh_rows = 18\nh_columns = 66\nh_r = 3", "h_columns"),
    ],
)
