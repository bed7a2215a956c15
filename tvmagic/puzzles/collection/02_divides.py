from tvmagic.puzzles import SchedulePuzzle

PUZZLE = SchedulePuzzle(
    title="A factor that divides",
    task="""
Put all work of `Y` on vectors of at least 10 lanes. The loop has 100 iterations: which factors leave no remainder?

A remainder needs a condition at every element, and a vector cannot store some of its lanes alone.
""",
    program="""
X: float32[100]
Y[i] = X[i] + 1
""",
    start="""
y = s[Y]
io, ii = y.split(y.axis[0], factor=16)
y.vectorize(ii)
""",
    solution="""
y = s[Y]
io, ii = y.split(y.axis[0], factor=20)
y.vectorize(ii)
""",
    goals=["on_vectors == 100", "lanes >= 10"],
    hints={
        "on_vectors == 100": "Look for the condition in the program: 16 does not divide 100, so the last turn is cut off. "
        "Take a factor without remainder, and call `vectorize` on the inner loop.",
        "lanes >= 10": "That factor divides 100, but the vector is too short: it has as many lanes as the factor.",
        "refused": "`split` gives the outer and the inner loop; `vectorize` takes the inner one.",
    },
    wrong=[
        ("y = s[Y]\nio, ii = y.split(y.axis[0], factor=32)\ny.vectorize(ii)", "on_vectors == 100"),
        ("y = s[Y]\nio, ii = y.split(y.axis[0], factor=4)\ny.vectorize(ii)", "lanes >= 10"),
        ("y = s[Y]\ny.vectorize(y.split(y.axis[0], factor=20))", "refused"),
    ],
)
