from tvmagic.puzzles import SchedulePuzzle

PUZZLE = SchedulePuzzle(
    title="A sum in sixteen lanes",
    task="""
Each addition of a long sum waits for the one before, so it cannot be a vector as it is. Make sixteen partial sums next to
each other, and add these at the end.
""",
    program="""
X: float32[1024, 1]
S[i] += X[k, i]
""",
    start="""
r = s[S]
ko, ki = r.split(r.reduce_axis[0], factor=16)
# your calls here
""",
    solution="""
r = s[S]
ko, ki = r.split(r.reduce_axis[0], factor=16)
partial = s.rfactor(S, ki)
f = s[partial]
lanes, i = f.axis
f.reorder(i, f.reduce_axis[0], lanes)
f.vectorize(lanes)
""",
    goals=["on_vectors >= 90", "lanes == 16", "allocated <= 64"],
    hints={
        "on_vectors >= 90": "`partial = s.rfactor(S, loop)` makes a stage with one partial sum for each iteration of that loop: "
        "its first axis. Move that axis inside the others, by `reorder`, and vectorize it.",
        "lanes == 16": "There are as many partial sums as the loop given to `rfactor` has iterations: take `ki`.",
        "allocated <= 64": "Sixteen partial sums take 64 bytes; these are too many.",
        "refused": "The lanes of a reduction would all add to one element. `rfactor` comes first, then `vectorize` on the new stage's "
        "axis, not on the sum's loop.",
    },
    wrong=[
        ("r = s[S]\nko, ki = r.split(r.reduce_axis[0], factor=16)\nr.vectorize(ki)", "refused"),
        ("r = s[S]\nko, ki = r.split(r.reduce_axis[0], factor=16)\nr.unroll(ki)", "on_vectors >= 90"),
        ("r = s[S]\nko, ki = r.split(r.reduce_axis[0], factor=16)\nf = s[s.rfactor(S, ko)]\nlanes, i = f.axis\n"
         "f.reorder(i, f.reduce_axis[0], lanes)\nf.vectorize(lanes)", "lanes == 16"),
    ],
)  # fmt: skip
