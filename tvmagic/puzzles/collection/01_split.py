from tvmagic.puzzles import SchedulePuzzle

PUZZLE = SchedulePuzzle(
    title="One split",
    task="Make two loops of the one loop of `Y`, so that the inner one runs 16 times.",
    program="""
X: float32[64]
Y[i] = 2 * X[i]
""",
    start="""
y = s[Y]
(i,) = y.axis
# your call here
""",
    solution="""
y = s[Y]
(i,) = y.axis
y.split(i, factor=16)
""",
    goals=["loops == 2", "innermost == 16"],
    hints={
        "loops == 2": "`y.split(i, ...)` makes two loops of the loop `i`. Here it has to be called once.",
        "innermost == 16": "`factor` is how often the inner loop runs, `nparts` how often the outer one does.",
        "refused": "`split` takes a loop and a number: `y.split(i, factor=...)`.",
    },
    wrong=[
        ("y = s[Y]\ny.split(y.axis[0], nparts=16)", "innermost == 16"),
        ("y = s[Y]\no, i = y.split(y.axis[0], factor=16)\ny.split(i, factor=4)", "loops == 2"),
        ("s[Y].split(16)", "refused"),
    ],
)
