from tvmagic.puzzles import SchedulePuzzle

PUZZLE = SchedulePuzzle(
    title="Strips of a blur",
    task="""
`H` blurs along the rows, `V` along the columns. Keep at most 5,000 bytes of `H` at a time, and compute no more than an
eighth of it twice.

For each row of `V`, nine rows of `H` are read; for 32 rows together, how many?
""",
    program="""
X: float32[72, 64]
r: range(9)
q: range(9)
H[y, x] += X[y, x + r]
V[y, x] += H[y + q, x]
""",
    start="""
v, h = s[V], s[H]
y, x = v.axis
h.compute_at(v, y)
""",
    solution="""
v, h = s[V], s[H]
y, x = v.axis
yo, yi = v.split(y, factor=32)
xo, xi = v.split(x, factor=28)
v.reorder(yo, xo, yi, xi)
h.compute_at(v, xo)
""",
    goals=["allocated <= 5_000", "arithmetic <= 73_000"],
    hints={
        "allocated <= 5_000": "`compute_at` keeps what one turn of the loop needs. A strip of n rows needs n + 8 rows of `H`, and "
        "56 columns of 4 bytes each: is the strip too high, or may it be narrower?",
        "arithmetic <= 73_000": "A strip of n rows computes n + 8 rows of `H`: the higher the strip, the less is computed twice. "
        "Columns of `H` overlap nowhere, so strips may be narrow.",
        "refused": "Split `y` (and perhaps `x`), `reorder` the loops, then attach `h` at one of the outer loops of `v`.",
    },
    wrong=[
        ("v, h = s[V], s[H]\nh.compute_at(v, v.axis[1])", "arithmetic <= 73_000"),
        ("v, h = s[V], s[H]\nyo, yi = v.split(v.axis[0], factor=32)\nh.compute_at(v, yo)", "allocated <= 5_000"),
        ("v, h = s[V], s[H]\nyo, yi = v.split(v.axis[0], factor=4)\nh.compute_at(v, yo)", "arithmetic <= 73_000"),
        ("s[H].compute_inline()", "refused"),
    ],
)
