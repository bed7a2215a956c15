from tvmagic.puzzles import SchedulePuzzle

PUZZLE = SchedulePuzzle(
    title="A transpose in tiles",
    task="""
Whichever loop is inside, one of the two tensors is walked through against its order, and a whole cache line is fetched
for each of its elements. Work on square tiles, so that a line that is fetched is used up before it is thrown out.

4.3 MB are read and 4.3 MB written, and a line is read before it is written: 13 MB is the least that can be moved.
""",
    program="""
X: float32[1040, 1040]
Y[i, j] = X[j, i]
""",
    start="""
y = s[Y]
i, j = y.axis
# your calls here
""",
    solution="""
y = s[Y]
i, j = y.axis
y.tile(i, j, 16, 16)
""",
    goals=["moved <= 16_000_000", "cycles <= 4_000_000"],
    hints={
        "moved <= 16_000_000": "`y.tile(i, j, a, b)` is two splits and a reorder. A cache line has 64 bytes, 16 of these "
        "numbers: tiles with fewer than 16 rows or columns waste parts of lines.",
        "cycles <= 4_000_000": "The tiles move few bytes, but they take too long. Both sides should divide 1040, or a condition is tested at "
        "every element; and the lines of a tile should fit into the first cache together: try sides of 16 to 40.",
        "refused": "`tile` takes the two loops and the two sizes of a tile: `y.tile(i, j, 16, 16)`.",
    },
    wrong=[
        ("y = s[Y]\ny.reorder(y.axis[1], y.axis[0])", "moved <= 16_000_000"),
        ("y = s[Y]\ny.tile(*y.axis, 1, 512)", "moved <= 16_000_000"),
        ("y = s[Y]\ny.tile(*y.axis, 64, 64)", "cycles <= 4_000_000"),
        ("y = s[Y]\ny.tile(*y.axis, 16)", "refused"),
    ],
)
