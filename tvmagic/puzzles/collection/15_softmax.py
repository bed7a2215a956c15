from tvmagic.puzzles import SchedulePuzzle

PUZZLE = SchedulePuzzle(
    title="A softmax in two passes",
    task="""
Four stages: the largest of a row `M`, the exponentials `E`, their sum `P_sum`, the quotient `P`. Read the input twice, compute each exponential once, and keep no more than one row in between.
""",
    program="""
X: float32[8, 64]
M[i] = max(X[i, k], over=k)
E[i, k] = exp(X[i, k] - M[i])
P[i, k] = E[i, k] / sum(E[i, q], over=q)
""",
    start="""
p = s[P]
row = p.axis[0]
s[E].compute_inline()
""",
    solution="""
p = s[P]
row = p.axis[0]
s[P_sum].compute_at(p, row)
s[E].compute_at(p, row)
s[M].compute_at(p, row)
""",
    goals=["allocated <= 272", "read <= 4_096", "arithmetic <= 2_600"],
    hints={
        "allocated <= 272": "A row of `E` takes 256 bytes, its maximum and its sum 4 each. Which stages are still computed for all rows "
        "at once? Attach each of them at the loop over the rows of `P`.",
        "read <= 4_096": "`E` is inlined, so the input is read again for each use of it. Let `E` be a stage: computed once for each "
        "row, then read twice.",
        "arithmetic <= 2_600": "Something is computed again for each column: attach it at the rows, `p.axis[0]`.",
        "refused": "Attach the stages at a loop of `P`, the last stage first.",
    },
    wrong=[
        ("s[E].compute_at(s[P], s[P].axis[0])", "refused"),
        ("s[M].compute_at(s[E], s[E].axis[0])", "allocated <= 272"),
        ("p = s[P]\ns[P_sum].compute_at(p, p.axis[0])\ns[E].compute_inline()\ns[M].compute_at(p, p.axis[0])", "read <= 4_096"),
    ],
)  # fmt: skip
