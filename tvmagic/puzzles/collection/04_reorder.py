from tvmagic.puzzles import SchedulePuzzle

PUZZLE = SchedulePuzzle(
    title="Along the rows",
    task="""
`Y` is the sum of each column. The plain loops go down one column after the other, so each step reads another cache line.
Change the order of the two loops, so that the innermost one goes along a row.
""",
    program="""
X: float32[512, 512]
Y[j] += X[i, j]
""",
    start="""
y = s[Y]
(j,), (i,) = y.axis, y.reduce_axis
# your call here
""",
    solution="""
y = s[Y]
(j,), (i,) = y.axis, y.reduce_axis
y.reorder(i, j)
""",
    goals=["cycles <= 200_000"],
    hints={
        "cycles <= 200_000": "`y.reorder(a, b)` puts the loop `a` outside `b`. Which index should change in every step, so "
        "that the next element read is the neighbour in memory?",
        "refused": "The loops are `j` (each column) and `i` (the rows that are summed); `reorder` takes each once.",
        "values": "`reorder` alone keeps every sum as it is. What else does the cell change?",
    },
    wrong=[
        ("y = s[Y]\ny.reorder(y.axis[0], y.reduce_axis[0])", "cycles <= 200_000"),
        ("y = s[Y]\ny.unroll(y.split(y.reduce_axis[0], factor=4)[1])", "cycles <= 200_000"),
        ("y = s[Y]\ny.reorder(y.axis[0], y.axis[0])", "refused"),
    ],
)
