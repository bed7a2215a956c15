"""Small functions on which calls of primitives are refused, by name. Each breaks one requirement at least."""

SIGNATURE = 'A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")'


def function(body: str, signature: str = SIGNATURE) -> str:
    lines = [f"    {line}" if line else line for line in body.strip("\n").split("\n")]
    return f"@T.prim_func(private=True)\ndef f({signature}):\n" + "\n".join(lines) + "\n"


def block(name: str, store: str) -> str:
    """Loops i and j over 8 by 8, and a block that stores."""
    return (
        f'for i, j in T.grid(8, 8):\n    with T.block("{name}"):\n'
        f'        vi, vj = T.axis.remap("SS", [i, j])\n        {store}\n'
    )


ALLOC = "B = T.alloc_buffer((8, 8))\n"
FILL = block("B", "B[vi, vj] = A[vi, vj] + T.float32(1)")
USE = block("C", "C[vi, vj] = B[vi, vj] * T.float32(2)")

MATCHING = """
for i, j in T.grid(8, 8):
    with T.block("{target}"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.reads({source}[vi, vj])
        T.writes({target}[vi, vj])
        M = T.match_buffer({source}[vi, vj], (1, 1), offset_factor=1)
        {target}[vi, vj] = M[0, 0]
"""

PROGRAMS: dict[str, str] = {
    # B from A, C from B
    "chain": function(ALLOC + FILL + USE),
    # both blocks name a loop around them
    "loops_inside": function(
        ALLOC + block("B", "B[vi, vj] = A[vi, j]") + block("C", "C[vi, vj] = B[vi, vj] + A[i, vj]")
    ),
    # a sum that names the loop around it
    "sum_of_loop": function(
        """
for i, k in T.grid(8, 8):
    with T.block("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi, 0] = T.float32(0)
        C[vi, 0] = C[vi, 0] + A[i, vk]
"""
    ),
    # the consumer of half of the rows of B
    "half_of_rows": function(
        ALLOC
        + FILL
        + """
for i, j in T.grid(4, 8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        vj = T.axis.spatial(8, j)
        C[vi, vj] = B[vi, vj] * T.float32(2)
"""
    ),
    # one block, C from A
    "single": function(block("C", "C[vi, vj] = A[vi, vj] + T.float32(1)")),
    # a parameter Z is written first, and read by C
    "through": function(
        block("Z", "Z[vi, vj] = A[vi, vj]") + block("C", "C[vi, vj] = Z[vi, vj]"),
        SIGNATURE + ', Z: T.Buffer((8, 8), "float32")',
    ),
    # B holds what two blocks write, one half each
    "two_writers": function(
        ALLOC
        + """
for i, j in T.grid(4, 8):
    with T.block("B0"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj]
for i, j in T.grid(4, 8):
    with T.block("B1"):
        vi = T.axis.spatial(8, i + 4)
        vj = T.axis.spatial(8, j)
        B[vi, vj] = A[vi, vj] * T.float32(2)
"""
        + USE
    ),
    # only half of what C reads was written
    "half": function(
        ALLOC
        + """
for i, j in T.grid(4, 8):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj]
"""
        + USE
    ),
    # C is read and written by the same block
    "in_place": function(block("C", "C[vi, vj] = C[vi, vj] + A[vi, vj]")),
    # B is updated in place before C reads it
    "in_place_chain": function(ALLOC + FILL + block("U", "B[vi, vj] = B[vi, vj] * T.float32(2)") + USE),
    # a variable that is neither data parallel nor reduced
    "opaque": function(
        """
for i, j in T.grid(8, 8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        vj = T.axis.opaque(8, j)
        C[vi, vj] = A[vi, vj]
"""
    ),
    # a binding that is not affine in the loops
    "square": function(
        """
for i, j in T.grid(3, 8):
    with T.block("C"):
        vi = T.axis.spatial(8, i * i)
        vj = T.axis.spatial(8, j)
        C[vi, vj] = A[vi, vj]
"""
    ),
    # both blocks write C, the second all of it
    "overwrite": function(block("B", "C[vi, vj] = A[vi, vj]") + block("C", "C[vi, vj] = A[vi, vj] * T.float32(2)")),
    # two blocks below one loop
    "beside": function(
        ALLOC
        + """
for i in range(8):
    for j in range(8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for j in range(8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj]
"""
    ),
    # the second loop runs to the first's variable
    "triangle": function(
        """
for i in range(8):
    for j in range(i + 1):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
"""
    ),
    # loops that do not start at 0
    "from_one": function(
        """
for i in range(1, 8):
    for j in range(8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
for i in range(1, 8):
    for j in range(8):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = A[vi, vj]
""",
        SIGNATURE + ', D: T.Buffer((8, 8), "float32")',
    ),
    # two outputs of the same shape, a third of another
    "outputs": function(
        block("C", "C[vi, vj] = A[vi, vj]")
        + block("D", "D[vi, vj] = A[vi, vj] + T.float32(1)")
        + """
for i, j in T.grid(8, 4):
    with T.block("E"):
        vi, vj = T.axis.remap("SS", [i, j])
        E[vi, vj] = A[vi, vj]
""",
        SIGNATURE + ', D: T.Buffer((8, 8), "float32"), E: T.Buffer((8, 4), "float32")',
    ),
    "symbolic": """
@T.prim_func(private=True)
def f(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,))
    C = T.match_buffer(c, (n,))
    for i in range(n):
        with T.block("C"):
            vi = T.axis.spatial(n, i)
            C[vi] = A[vi]
""",
    # a loop variable is used inside the block, not through a binding
    "loop_inside": function(
        ALLOC + block("B", "B[vi, vj] = A[vi, j]") + block("C", "C[vi, vj] = B[vi, vj] + A[i, vj]")
    ),
    # a block that stores by two statements
    "two_stores": function(
        """
B = T.alloc_buffer((8, 8))
D = T.alloc_buffer((8, 8))
for i, j in T.grid(8, 8):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj]
        D[vi, vj] = A[vi, vj]
for i, j in T.grid(8, 8):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = B[vi, vj] + D[vi, vj]
"""
    ),
    # one buffer, two statements
    "steps": function(
        """
B = T.alloc_buffer((8, 8))
for i, j in T.grid(8, 8):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj]
        T.evaluate(1)
for i, j in T.grid(8, 8):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = B[vi, vj]
        T.evaluate(1)
"""
    ),
    # stores along a diagonal
    "diagonal": function(
        """
B = T.alloc_buffer((8, 8))
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi, vi] = A[vi, vi]
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi, vi] = B[vi, vi]
"""
    ),
    # C reads B at two places
    "neighbours": function(ALLOC + FILL + block("C", "C[vi, vj] = B[vi, vj] + B[vj, vi]")),
    # C reads B where it cannot be inverted
    "folded": function(ALLOC + FILL + block("C", "C[vi, vj] = B[vi // 2 * 2, vj]")),
    # two rows of C read one of B
    "read_twice": function(ALLOC + FILL + block("C", "C[vi, vj] = B[vi // 2, vj]")),
    # C runs over its first row alone, which it writes at a number
    "one_row": function(
        """
for i, j in T.grid(1, 8):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[0, vj] = A[vi, vj]
"""
    ),
    # C runs over more than is written
    "wider": function(
        """
B = T.alloc_buffer((8, 8))
for i, j in T.grid(8, 8):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj]
for i, j, k in T.grid(8, 8, 2):
    with T.block("C"):
        vi, vj, vk = T.axis.remap("SSS", [i, j, k])
        C[vi, vj, vk] = B[vi, vj]
""",
        'A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8, 2), "float32")',
    ),
    # C reads the buffers of two blocks; B has two readers
    "fork": function(
        """
B = T.alloc_buffer((8, 8))
D = T.alloc_buffer((8, 8))
"""
        + FILL
        + block("D", "D[vi, vj] = B[vi, vj] + A[vi, vj]")
        + block("C", "C[vi, vj] = B[vi, vj] + D[vi, vj]")
    ),
    # the readers of B are under two loops
    "two_readers": function(
        ALLOC + FILL + block("C", "C[vi, vj] = B[vi, vj]") + block("D", "D[vi, vj] = B[vi, vj]"),
        SIGNATURE + ', D: T.Buffer((8, 8), "float32")',
    ),
    # a block with a predicate
    "guarded": function(
        ALLOC
        + FILL
        + """
for i, j in T.grid(10, 8):
    with T.block("C"):
        T.where(i < 8)
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = B[vi, vj]
"""
    ),
    # a buffer matched in a block inside
    "matched": function(
        ALLOC
        + FILL
        + """
for i, j in T.grid(8, 8):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.reads(B[vi, vj])
        T.writes(C[vi, vj])
        M = T.match_buffer(B[vi, vj], (1, 1), offset_factor=1)
        C[vi, vj] = M[0, 0]
"""
    ),
    # a block in a block
    "nested": function(
        """
B = T.alloc_buffer((8, 8))
for i in range(8):
    with T.block("O"):
        vi = T.axis.spatial(8, i)
        T.reads(A[vi, 0:8])
        T.writes(B[vi, 0:8])
        for j in range(8):
            with T.block("N"):
                vj = T.axis.spatial(8, j)
                T.reads(A[vi, vj])
                T.writes(B[vi, vj])
                B[vi, vj] = A[vi, vj]
"""
        + USE
    ),
    "module": """
@I.ir_module
class Module:
    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("F"):
                vi = T.axis.spatial(8, i)
                C[vi] = A[vi]
    @T.prim_func
    def g(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("G"):
                vi = T.axis.spatial(8, i)
                C[vi] = A[vi]
""",
    # the root block says what it reads and writes
    "signed_root": function(
        """
with T.block("root"):
    T.reads(A[0:8, 0:8], D[0:8, 0:8])
    T.writes(C[0:8, 0:8], D[0:8, 0:8])
"""
        + "\n".join(f"    {line}" for line in block("C", "C[vi, vj] = A[vi, vj]").splitlines()),
        SIGNATURE + ', D: T.Buffer((8, 8), "float32")',
    ),
    "same_names": function(
        ALLOC + block("C", "B[vi, vj] = A[vi, vj]") + block("C", "C[vi, vj] = B[vi, vj] * T.float32(2)")
    ),
    # B is not read by anybody
    "alone": function(ALLOC + FILL),
    "opaque_chain": function(
        ALLOC
        + FILL
        + """
for i, j in T.grid(8, 8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        vj = T.axis.opaque(8, j)
        C[vi, vj] = B[vi, vj]
"""
    ),
    # the producer writes through a part of B
    "matched_writer": function(
        ALLOC
        + """
for i, j in T.grid(8, 8):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.reads(A[vi, vj])
        T.writes(B[0:8, 0:8])
        M = T.match_buffer(B[0:8, 0:8], (8, 8), offset_factor=1)
        M[vi, vj] = A[vi, vj]
"""
        + USE
    ),
    # an inner block reads a part of A
    "matched_inside": function(
        """
for i in range(8):
    with T.block("O"):
        vi = T.axis.spatial(8, i)
        T.reads(A[vi, 0:8])
        T.writes(C[vi, 0:8])
        M = T.match_buffer(A[vi, 0:8], (1, 8), offset_factor=1)
        for j in range(8):
            with T.block("N"):
                vj = T.axis.spatial(8, j)
                C[vi, vj] = M[0, vj]
"""
    ),
    # what C reads of B is guarded, so that only row 0 is needed
    "row": function(
        """
B = T.alloc_buffer((1, 5))
for j in range(8):
    with T.block("B"):
        vj = T.axis.spatial(8, j)
        B[0, (vj + 1) // 2] = A[0, vj]
for i, j in T.grid(8, 5):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.reads(B[vi, vj])
        T.writes(C[vi, vj])
        C[vi, vj] = T.if_then_else(vi < 1, B[vi, vj], T.float32(0))
"""
    ),
    # C reads row 0 alone
    "first_row": function(ALLOC + FILL + block("C", "C[vi, vj] = B[0, vj]")),
    # the index of what B writes, and of what C reads, is no variable and not invertible
    "halved": function(
        """
B = T.alloc_buffer((5, 8))
for i, j in T.grid(8, 8):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[(vi + 1) // 2, vj] = A[vi, vj]
for i, j in T.grid(8, 8):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = B[(vi + 1) // 2, vj]
"""
    ),
    # A is overwritten after B read it
    "overwritten_input": function(ALLOC + FILL + block("W", "A[vi, vj] = T.float32(0)") + USE),
    "read_before_and_after": function(
        ALLOC + FILL + block("W", "A[vi, vj] = T.float32(0)") + block("D", "D[vi, vj] = A[vi, vj]") + USE,
        SIGNATURE + ', D: T.Buffer((8, 8), "float32")',
    ),
    "cut_producer": function(
        ALLOC
        + """
for i, j in T.grid(8, 8):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.where(i < 6)
        B[vi, vj] = A[vi, vj]
"""
        + USE
    ),
    "read_inside": function(
        ALLOC
        + FILL
        + """
for i in range(8):
    with T.block("O"):
        vi = T.axis.spatial(8, i)
        for j in range(8):
            with T.block("I"):
                vj = T.axis.spatial(8, j)
                C[vi, vj] = B[vi, vj]
"""
    ),
    "sum_second": function(
        ALLOC
        + """
for i in range(8):
    for j in range(8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for k in range(8):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi, 0] = T.float32(0)
            C[vi, 0] = C[vi, 0] + B[vi, vk]
"""
    ),
    "pad_after_read": function(
        """
for i in range(8):
    for j in range(8):
        with T.block("R"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj]
    for j in range(8):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.if_then_else(vj < 4, A[vi, vj], T.float32(0))
""",
        SIGNATURE + ', D: T.Buffer((8, 8), "float32")',
    ),
    "matched_row": function(
        ALLOC
        + FILL
        + """
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        T.reads(B[vi, 0:8])
        T.writes(C[vi, 0])
        M = T.match_buffer(B[vi, 0:8], (8,), offset_factor=1)
        C[vi, 0] = M[0] + M[7]
"""
    ),
    "shifted_update": function(block("U", "A[vi, vj] = A[T.max(vi - 1, 0), vj]")),
    "doubled_update": function(block("U", "for t in range(3):\n            A[vi, vj] = A[vi, vj] * 2.0")),
    "pointer_update": function(
        """
for i in range(1):
    with T.block("U"):
        T.reads(A[0:8, 0:8])
        T.writes(A[0:8, 0:8])
        T.evaluate(T.call_extern("int32", "twist", A.data))
"""
    ),
    # each iteration goes on from what the one before left in A
    "read_then_written": function(
        """
B = T.alloc_buffer((8,))
for t in range(4):
    for i in range(8):
        with T.block("R"):
            vt, vi = T.axis.remap("SS", [t, i])
            B[vi] = A[vi, 0]
    for i in range(8):
        with T.block("W"):
            vt, vi = T.axis.remap("SS", [t, i])
            A[vi, 0] = B[vi] * T.float32(2)
"""
    ),
    # D reads C before it is overwritten
    "read_first": function(
        ALLOC + FILL + block("D", "D[vi, vj] = C[vi, vj]") + USE, SIGNATURE + ', D: T.Buffer((8, 8), "float32")'
    ),
    # one loop round two producers, which C reads in opposite directions
    "crossed": function(
        """
B = T.alloc_buffer((8,))
P = T.alloc_buffer((8,))
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = A[vi, 0]
    with T.block("P"):
        vi = T.axis.spatial(8, i)
        P[vi] = A[vi, 1]
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi, 0] = B[vi] + P[7 - vi]
"""
    ),
    # two blocks below one loop write C; D reads what is written in the same iteration, before and after
    "writers_below": function(
        """
for i in range(8):
    for j in range(4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
    for j in range(4):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            vj = T.axis.spatial(8, j + 4)
            C[vi, vj] = A[vi, vj]
"""
    ),
    "read_below": function(
        """
D = T.alloc_buffer((8, 8))
for i in range(8):
    for j in range(8):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj]
    for j in range(8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
"""
    ),
    # a buffer that is accessed through its pointer, and one at all elements of a loop inside
    "pointer": function(
        """
for i, j in T.grid(8, 8):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.reads(A[vi, vj])
        T.writes(C[vi, vj])
        C[vi, vj] = T.call_extern("float32", "first", A.data)
"""
    ),
    # blocks that know a part of a buffer under another name
    "matching_producer": function(ALLOC + MATCHING.format(target="B", source="A") + USE),
    "matching_consumer": function(
        ALLOC
        + FILL
        + MATCHING.format(target="C", source="A")
        .replace("T.reads(", "T.reads(B[vi, vj], ")
        .replace("M[0, 0]", "M[0, 0] + B[vi, vj]")
    ),
    "matching_writer": function(
        ALLOC
        + """
for i, j in T.grid(8, 8):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.reads(A[vi, vj])
        T.writes(B[vi, vj])
        M = T.match_buffer(B[vi, vj], (1, 1), offset_factor=1)
        M[0, 0] = A[vi, vj]
"""
        + USE
    ),
    "matching_sum": function(
        """
for i, k in T.grid(8, 8):
    with T.block("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        T.reads(A[vi, vk])
        T.writes(C[vi, 0])
        M = T.match_buffer(A[vi, vk], (1, 1), offset_factor=1)
        with T.init():
            C[vi, 0] = T.float32(0)
        C[vi, 0] = C[vi, 0] + M[0, 0]
"""
    ),
    # a part of C is written
    "from_third": function(
        """
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        T.where(3 <= i)
        C[vi, 0] = A[vi, 0]
"""
    ),
    # C takes half of B over
    "half_taken": function(
        ALLOC
        + FILL
        + USE.replace("T.grid(8, 8)", "T.grid(4, 8)").replace(
            'vi, vj = T.axis.remap("SS", [i, j])', "vi = T.axis.spatial(8, i)\n        vj = T.axis.spatial(8, j)"
        )
    ),
    "pointer_chain": function(
        ALLOC
        + FILL
        + """
for i, j in T.grid(8, 8):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.reads(B[0:8, 0:8])
        T.writes(C[vi, vj])
        C[vi, vj] = B[vi, vj] + T.call_extern("float32", "first", B.data)
"""
    ),
    "pointer_part": function(
        ALLOC
        + FILL
        + """
for i, j in T.grid(8, 8):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.reads(B[vi, 0:8])
        T.writes(C[vi, vj])
        R = T.match_buffer(B[vi, 0:8], (8,), offset_factor=1)
        C[vi, vj] = B[vi, vj] + T.call_extern("float32", "first", R.data)
"""
    ),
    "address_chain": function(
        ALLOC
        + FILL
        + """
for i, j in T.grid(8, 8):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.reads(B[0:8, 0:8])
        T.writes(C[vi, vj])
        C[vi, vj] = B[vi, vj] + T.call_extern("float32", "first", T.address_of(B[0, 0]))
"""
    ),
    # B has no elements, and C reads none
    "beside_nothing": function(
        """
B = T.alloc_buffer((0, 8))
for i, j in T.grid(0, 8):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj]
for i, j in T.grid(8, 8):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = A[vi, vj]
"""
    ),
    # the same loop for two variables
    "squared_loop": function(
        """
for i in range(8):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, i])
        C[vi, vj] = A[vi, vj]
"""
    ),
    # rows that are written one by one
    "rows": function(
        """
for i in range(8):
    with T.block("O"):
        vi = T.axis.spatial(8, i)
        T.reads(A[vi, 0:8])
        T.writes(C[vi, 0:8])
        for j in range(8):
            with T.block("C"):
                vj = T.axis.spatial(8, j)
                C[vi, vj] = A[vi, vj] + T.float32(1)
"""
    ),
    "untouched": function(
        """
for i, j in T.grid(8, 8):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.reads(A[vi, vj])
        T.writes(C[vi, vj])
        C[vi, vj] = T.float32(1)
"""
    ),
    "loop_in_block": function(
        """
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        for j in range(8):
            C[vi, j] = A[vi, j]
"""
    ),
    # below the loops of two blocks and beside them
    "three": function(
        """
B = T.alloc_buffer((8, 8))
D = T.alloc_buffer((8, 8))
for i in range(8):
    for j in range(8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for j in range(8):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj]
"""
        + block("C", "C[vi, vj] = D[vi, vj]")
    ),
    # a variable of both loops; a predicate and a reduction over the loop around both blocks
    "sum_of_loops": function(
        """
for i in range(4):
    for j in range(5):
        with T.block("C"):
            vi = T.axis.spatial(8, i + j)
            C[vi, 0] = A[vi, 0]
"""
    ),
    "sums_below": function(
        """
B = T.alloc_buffer((8,))
for i in range(4):
    for j in range(5):
        with T.block("B"):
            vi = T.axis.spatial(8, i + j)
            B[vi] = A[vi, 0]
    for j in range(5):
        with T.block("C"):
            vi = T.axis.spatial(8, i + j)
            C[vi, 0] = B[vi]
"""
    ),
    "guarded_outside": function(
        """
for i in range(3):
    for j in range(3):
        with T.block("C"):
            T.where(i < 2)
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
"""
    ),
    # B and C in the same loops
    "together": function(
        ALLOC
        + """
for i, j in T.grid(8, 8):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj]
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = B[vi, vj]
"""
    ),
    # a condition keeps the store inside B
    "guarded_store": function(
        """
B = T.alloc_buffer((8,))
for i in range(10):
    with T.block("B"):
        vi = T.axis.spatial(10, i)
        T.reads()
        T.writes(B[vi])
        if vi < 8:
            B[vi] = T.float32(1)
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        P[vi] = B[vi]
""",
        'P: T.Buffer((8,), "float32")',
    ),
    # under a condition elements of P are stored, and others than those that are read are overwritten
    "half_stored": function(
        """
for i in range(8):
    with T.block("P"):
        vi = T.axis.spatial(8, i)
        if X[vi] < T.float32(0):
            P[vi] = T.float32(1)
""",
        'X: T.Buffer((8,), "float32"), P: T.Buffer((8,), "float32")',
    ),
    # declares that it writes more than it does, as the pieces of a partitioned loop do
    "declared_more": function(
        """
for i in range(6):
    with T.block("P"):
        vi = T.axis.spatial(8, i)
        T.reads()
        T.writes(P[0:8])
        P[vi] = T.float32(1)
""",
        'P: T.Buffer((8,), "float32")',
    ),
    # in half of the iterations of `outer` nothing is written
    "run_sometimes": function(
        """
for k in range(4):
    with T.block("outer"):
        T.reads()
        T.writes(P[0:8])
        for i in range(8):
            with T.block("P"):
                vi = T.axis.spatial(8, i)
                T.where(k < 2)
                P[vi] = T.float32(1)
""",
        'P: T.Buffer((8,), "float32")',
    ),
    # a copy in `outer` begins with each of its iterations, and the sum goes on from one to the next
    "sum_over_scope": function(
        """
for k in range(4):
    with T.block("outer"):
        T.reads(X[0:8])
        T.writes(P[0:8])
        for i in range(8):
            with T.block("P"):
                vi, vk = T.axis.spatial(8, i), T.axis.reduce(4, k)
                with T.init():
                    P[vi] = T.float32(0)
                P[vi] = P[vi] + X[vi]
""",
        'X: T.Buffer((8,), "float32"), P: T.Buffer((8,), "float32")',
    ),
    "half_reversed": function(
        """
for i in range(8):
    with T.block("P"):
        vi = T.axis.spatial(8, i)
        if P[vi] < T.float32(0):
            P[7 - vi] = T.float32(0)
""",
        'P: T.Buffer((8,), "float32")',
    ),
    # A is overwritten in the loop of C, and B, which C reads, is made of A before
    "overwritten_beside": function(
        ALLOC
        + FILL
        + """
for i in range(8):
    for j in range(8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj]
    for j in range(8):
        with T.block("W"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = T.float32(0)
"""
    ),
    # what W writes says where R is
    "bounded": function(
        """
P = T.alloc_buffer((8,), "int32")
Q = T.alloc_buffer((8,), "int32")
for i in range(8):
    with T.block("F"):
        vi = T.axis.spatial(8, i)
        P[vi] = 7 - vi
for i in range(8):
    with T.block("W"):
        vi = T.axis.spatial(8, i)
        Q[vi] = P[vi]
for i in range(8):
    with T.block("R"):
        vi = T.axis.spatial(8, Q[i])
        R[vi] = vi
    with T.block("S"):
        vi = T.axis.spatial(8, i)
        S[vi] = Q[vi]
""",
        'R: T.Buffer((8,), "int32"), S: T.Buffer((8,), "int32")',
    ),
    # A is overwritten by what is made of it
    "written_back": function(ALLOC + FILL + block("W", "A[vi, vj] = B[vi, vj] * T.float32(2)")),
}
