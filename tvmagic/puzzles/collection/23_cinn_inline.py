from tvmagic.puzzles import ProgramPuzzle

BOTH = """
serial for (i, 0, 8) { serial for (j, 0, 8) {
  ScheduleBlock(B) {
    i0, i1 = axis.bind(i, j)
    B[i0, i1] = ((2.0f * A[i0, i1]) + bias[i1])
  }
} }
serial for (i, 0, 8) { serial for (j, 0, 8) {
  ScheduleBlock(C) {
    i0, i1 = axis.bind(i, j)
    C[i0, i1] = cinn_max(B[i1, i0], 0.0f)
  }
} }
"""
ONE = """
serial for (i, 0, 8) {{ serial for (j, 0, 8) {{
  ScheduleBlock(C) {{
    i0, i1 = axis.bind(i, j)
    C[i0, i1] = cinn_max({value}, 0.0f)
  }}
}} }}
"""

PUZZLE = ProgramPuzzle(
    title="CINN's ComputeInline, by hand",
    task="""
Be the inliner: write the block `B` into the block `C`, which reads it, and take `B` with its loops away. The stored value takes
the load's place, with the indices of the load for the variables of the store: `B[i1, i0]` is read, `B[i0, i1]` is stored.
""",
    program=BOTH,
    start=BOTH,
    solution=ONE.format(value="((2.0f * A[i1, i0]) + bias[i0])"),
    goals=["allocated == 0", "loops <= 2"],
    hints={
        "values": "The variables of the store are replaced all at the same time, everywhere in the value: `i0` by `i1`, and `i1` by `i0`. "
        "Is there one that you have left?",
        "allocated == 0": "`B` is still stored and read. Its value has to be in the place of the load.",
        "loops <= 2": "The block `B` is gone; the empty loops around it have to go as well, or too many are left.",
        "refused": "The text is CINN's: a load is `A[i1, i0]`, a number `2.0f`, and every sum and product is in parentheses of its own. Every tensor that is read has to be an input, or stored "
        "by a block.",
    },
    wrong=[
        (ONE.format(value="((2.0f * A[i0, i1]) + bias[i1])"), "values"),
        (ONE.format(value="((2.0f * A[i1, i0]) + bias[i1])"), "values"),
        (ONE.format(value="(2.0f * A[i1, i0])"), "refused"),
        (BOTH.replace("2.0f * A[i0, i1]", "A[i0, i1] + A[i0, i1]"), "allocated == 0"),
    ],
)
