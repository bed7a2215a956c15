from tvmagic.puzzles import SchedulePuzzle

PUZZLE = SchedulePuzzle(
    title="The zero before the sum",
    task="""
In TensorIR the block of a sum sets its element to zero in its first step: a condition that is tested in every step. Take it
out of the loop over `k`, and put all work on vectors of 16 lanes along `j`.
""",
    program="""
A: float32[16, 32]
B: float32[32, 16]
C[i, j] += A[i, k] * B[k, j]
""",
    start="""
c = sch.get_block("C")
i, j, k = sch.get_loops(c)
sch.reorder(k, j)
# your calls here
""",
    solution="""
c = sch.get_block("C")
i, j, k = sch.get_loops(c)
sch.reorder(k, j)
sch.vectorize(j)
zero = sch.decompose_reduction(c, k)
""",
    goals=["guards == 0", "on_vectors == 100", "stored <= 33_792"],
    hints={
        "guards == 0": "`sch.decompose_reduction(block, loop)` puts the setting to zero into a block of its own, before that loop.",
        "on_vectors == 100": "The sum and the setting to zero are two blocks now; both need vectors. If `j` is vectorized first, both "
        "get them.",
        "stored <= 33_792": "Each element is set to zero more than once: before which loop does that belong?",
        "refused": "The zero has to be set before the sum begins: name the loop over `k`, or one around it. And vectorize first: the block "
        "that only adds, after the decomposition, is not a reduction of its own, so its loops stay as they are.",
    },
    wrong=[
        ('c = sch.get_block("C")\ni, j, k = sch.get_loops(c)\nsch.reorder(k, j)\nsch.vectorize(j)', "guards == 0"),
        ('c = sch.get_block("C")\ni, j, k = sch.get_loops(c)\nsch.reorder(k, j)\nsch.decompose_reduction(c, k)', "on_vectors == 100"),
        ('c = sch.get_block("C")\ni, j, k = sch.get_loops(c)\nsch.reorder(k, j)\nsch.decompose_reduction(c, j)', "refused"),
    ],
)  # fmt: skip
