"""Small functions that reduce or pad, on which calls of primitives are refused, by name."""

from schedule_refusal_programs import ALLOC, FILL, SIGNATURE, USE, block, function


def declared(body: str, written: str = "C") -> str:
    """A block that declares one element read of A and one written."""
    return function(
        (ALLOC if written == "B" else "")
        + 'for i, j in T.grid(8, 8):\n    with T.block("P"):\n        vi, vj = T.axis.remap("SS", [i, j])\n'
        + f"        T.reads(A[vi, vj])\n        T.writes({written}[vi, vj])\n        {body}\n"
        + (USE if written == "B" else "")
    )


ARGMAX = """
I = T.alloc_buffer((8,), "int32")
V = T.alloc_buffer((8,))
for k in range(8):
    with T.block("V"):
        vk = T.axis.reduce(8, k)
        with T.init():
            I[0] = -1
            V[{first}] = T.min_value("float32")
            {again}
        i: T.int32 = T.Select(V[0] >= A[0, vk], I[0], vk)
        v: T.float32 = T.Select(V[0] >= A[0, vk], V[0], A[0, vk])
        I[0] = i
        V[0] = v
for i, j in T.grid(8, 8):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = V[0] + T.Cast("float32", I[0])
"""

PADDED_ROWS = function(
    ALLOC
    + FILL
    + """
for i, j in T.grid(10, 8):
    with T.block("P"):
        vi, vj = T.axis.remap("SS", [i, j])
        P[vi, vj] = T.if_then_else(2 <= {index}, B[{index} - 2, vj], T.float32(0))
""",
    'A: T.Buffer((8, 8), "float32"), P: T.Buffer((10, 8), "float32")',
)


def branch(side: str) -> str:
    """Loops over a block that stores `side` if an element is positive."""
    return block("C", f"C[vi, vj] = T.if_then_else(A[vi, vj] > T.float32(0), {side}, T.float32(0))")


REDUCTIONS: dict[str, str] = {
    # a product whose second factor reads what a block in the same loops writes, the row before
    "product_beside": function(
        """
B = T.alloc_buffer((8, 8))
for i, j in T.grid(8, 8):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj]
    for k in range(8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vj, vk] * B[vi, 0]
"""
    ),
    # the last factor is a number, and half of the rows are summed up
    "product_of_half": function(
        """
for i, j, k in T.grid(8, 8, 8):
    with T.block("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        T.where(i < 4)
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + A[vi, vk] * A[vk, vj] * T.exp(T.float32(2))
"""
    ),
    # the extent of the sum depends on the block around
    "product_of_row": function(
        """
for n in range(8):
    with T.block("outer"):
        vn = T.axis.spatial(8, n)
        T.reads(A[0:8, 0:8])
        T.writes(C[vn, 0:8])
        for j in range(8):
            for k in range(vn + 1):
                with T.block("C"):
                    vj = T.axis.spatial(8, j)
                    vk = T.axis.reduce(vn + 1, k)
                    with T.init():
                        C[vn, vj] = T.float32(0)
                    C[vn, vj] = C[vn, vj] + A[vk, 0] * A[vj, 1]
"""
    ),
    # in one branch a division, a read beyond the end, and a call with effects
    "branch_divides": function(branch("T.Cast('float32', T.Cast('int32', A[vi, vj]) // T.Cast('int32', A[vj, vi]))")),
    "branch_outside": function(branch("A[vi + 1, vj]")),
    "branch_calls": function(branch("T.call_extern('float32', 'change', A[vi, vj])")),
    "branch_of_statement": function(
        """
for i, j in T.grid(8, 8):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        if A[vi, vj] > T.float32(0):
            C[vi, vj] = T.float32(0)
"""
    ),
    "matmul": function(
        """
for i, j, k in T.grid(8, 8, 8):
    with T.block("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + A[vi, vk] * A[vk, vj]
"""
    ),
    # a reduction into B, which C reads
    "sum_chain": function(
        """
B = T.alloc_buffer((8,))
for i, k in T.grid(8, 8):
    with T.block("B"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            B[vi] = T.float32(0)
        B[vi] = B[vi] + A[vi, vk]
for i, j in T.grid(8, 8):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = B[vi] + A[vi, vj]
"""
    ),
    # elementwise into a reduction
    "into_sum": function(
        ALLOC
        + FILL
        + """
for i, k in T.grid(8, 8):
    with T.block("S"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi, 0] = T.float32(0)
        C[vi, 0] = C[vi, 0] + B[vi, vk]
"""
    ),
    "opaque_sum": function(
        """
for i, k in T.grid(8, 8):
    with T.block("C"):
        vi = T.axis.opaque(8, i)
        vk = T.axis.reduce(8, k)
        with T.init():
            C[vi, 0] = T.float32(0)
        C[vi, 0] = C[vi, 0] + A[vi, vk]
"""
    ),
    "square_sum": function(
        """
for i, k in T.grid(3, 8):
    with T.block("C"):
        vi = T.axis.spatial(8, i * i)
        vk = T.axis.reduce(8, k)
        with T.init():
            C[vi, 0] = T.float32(0)
        C[vi, 0] = C[vi, 0] + A[vi, vk]
"""
    ),
    # a reduced variable in the index of what is stored
    "scatter": function(
        """
for i, k in T.grid(8, 8):
    with T.block("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi, vk] = T.float32(0)
        C[vi, vk] = C[vi, vk] + A[vi, vk]
"""
    ),
    # two blocks write C, the second a reduction
    "twice": function(
        block("Z", "C[vi, vj] = A[vi, vj]")
        + """
for i, j, k in T.grid(8, 8, 8):
    with T.block("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + A[vi, vk]
"""
    ),
    # a reduction that is not alone in its loops
    "sum_beside": function(
        """
for i in range(8):
    for k in range(8):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi, 0] = T.float32(0)
            C[vi, 0] = C[vi, 0] + A[vi, vk]
    for j in range(7):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = A[vi, vj]
""",
        SIGNATURE + ', D: T.Buffer((8, 8), "float32")',
    ),
    "padded": function(
        """
for i in range(10):
    with T.block("P"):
        vi = T.axis.spatial(10, i)
        P[vi] = T.if_then_else(1 <= vi and vi < 9, X[vi - 1], T.float32(0))
""",
        'X: T.Buffer((8,), "float32"), P: T.Buffer((10,), "float32")',
    ),
    # rows of padding, for which nothing of B is needed
    "padded_rows": PADDED_ROWS.format(index="vi"),
    "padded_rows_reversed": PADDED_ROWS.format(index="9 - vi"),
    # an init and an update of different forms; an update of no known form
    "sum_steps": function(
        """
for i, k in T.grid(8, 8):
    with T.block("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi, 0] = T.float32(0)
        C[vi, 0] = C[vi, 0] + A[vi, vk]
        T.evaluate(1)
"""
    ),
    "difference": function(
        """
for i, k in T.grid(8, 8):
    with T.block("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi, 0] = T.float32(0)
        C[vi, 0] = C[vi, 0] - A[vi, vk]
"""
    ),
    "largest": function(
        """
for i, k in T.grid(8, 7):
    with T.block("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi, 0] = T.float32(-1)
        C[vi, 0] = T.max(C[vi, 0], A[vi, vk])
"""
    ),
    "reduced_outside": function(
        """
for k in range(8):
    for i in range(8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi, 0] = T.float32(0)
            C[vi, 0] = C[vi, 0] + A[vi, vk]
"""
    ),
    "padded_by_variable": function(
        """
for i in range(10):
    with T.block("P"):
        vi = T.axis.spatial(10, i)
        P[vi] = T.if_then_else(1 <= vi and vi < 9, X[vi - 1], T.cast(vi, "float32"))
""",
        'X: T.Buffer((8,), "float32"), P: T.Buffer((10,), "float32")',
    ),
    "padded_between": function(
        """
for i in range(8):
    with T.block("P"):
        vi = T.axis.spatial(8, i)
        P[vi] = T.if_then_else(vi % 2 == 0, X[vi], T.float32(0))
""",
        'X: T.Buffer((8,), "float32"), P: T.Buffer((8,), "float32")',
    ),
    "padded_nowhere": function(
        """
for i in range(8):
    with T.block("P"):
        vi = T.axis.spatial(8, i)
        P[vi] = T.if_then_else(vi < 8, X[vi], T.float32(0))
""",
        'X: T.Buffer((8,), "float32"), P: T.Buffer((8,), "float32")',
    ),
    # a row, and the sum of all of it
    "whole_sum": function(
        """
B = T.alloc_buffer((8,))
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = A[vi, 0]
for i, k in T.grid(1, 8):
    with T.block("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi, 0] = T.float32(0)
        C[vi, 0] = C[vi, 0] + B[vk]
"""
    ),
    # the loop of the sum makes D too, and C needs the whole sum for each element of D
    "running_sum": function(
        """
B = T.alloc_buffer((1,))
D = T.alloc_buffer((8,))
for k in range(8):
    with T.block("D"):
        vi = T.axis.spatial(8, k)
        D[vi] = A[vi, 0]
    with T.block("B"):
        vk = T.axis.reduce(8, k)
        with T.init():
            B[0] = T.float32(0)
        B[0] = B[0] + A[0, vk]
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi, 0] = B[0] + D[vi]
"""
    ),
    # each sum is done twice, in a loop that no variable uses
    "repeated_sum": function(
        """
for i, r, k in T.grid(8, 2, 8):
    with T.block("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi, 0] = T.float32(0)
        C[vi, 0] = C[vi, 0] + A[vi, vk]
"""
    ),
    # each sum is done twice, by two iterations of i
    "halved_sum": function(
        """
for i, k in T.grid(16, 8):
    with T.block("C"):
        vi = T.axis.spatial(8, i // 2)
        vk = T.axis.reduce(8, k)
        with T.init():
            C[vi, 0] = T.float32(0)
        C[vi, 0] = C[vi, 0] + A[vi, vk]
"""
    ),
    # in the loop of the sum, M is made of it, and C of one element of M
    "used_in_sum": function(
        """
B = T.alloc_buffer((1,))
M = T.alloc_buffer((8,))
for k in range(8):
    with T.block("B"):
        vk = T.axis.reduce(8, k)
        with T.init():
            B[0] = T.float32(0)
        B[0] = B[0] + A[0, vk]
    for j in range(8):
        with T.block("M"):
            vj = T.axis.spatial(8, j)
            M[vj] = B[0] + A[vj, 0]
    for u in range(1):
        with T.block("C"):
            vi = T.axis.spatial(8, k + u)
            C[vi, 0] = M[vi]
"""
    ),
    "window": function(
        """
B = T.alloc_buffer((4, 10))
for i, j in T.grid(4, 10):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] + T.float32(1)
for i, j in T.grid(4, 8):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = B[vi, vj] + B[vi, vj + 1] + B[vi, vj + 2]
""",
        'A: T.Buffer((4, 10), "float32"), C: T.Buffer((4, 8), "float32")',
    ),
    "once_of_two": function(
        """
for u, i in T.grid(2, 8):
    with T.block("C"):
        T.where(u < 1)
        vi = T.axis.spatial(8, i)
        C[vi] = A[vi] + T.float32(1)
""",
        'A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")',
    ),
    # vi is 1 where the loop u, which binds nothing, is 1
    "at_one_of_two": function(
        """
B = T.alloc_buffer((8,))
for u, i in T.grid(2, 8):
    with T.block("B"):
        T.where(i * 2 + u == 3)
        vi = T.axis.spatial(8, i)
        B[vi] = A[vi] + T.float32(1)
for u, i in T.grid(2, 8):
    with T.block("C"):
        T.where(i * 2 + u == 3)
        vi = T.axis.spatial(8, i)
        C[vi] = B[vi] * T.float32(2)
""",
        'A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")',
    ),
    # blocks that declare one element of A and of C, and do something else
    # the sums leave their first term out
    "late_sum": function(
        """
for i, k in T.grid(8, 8):
    with T.block("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        T.where(1 <= k)
        T.reads(X[vi], A[vi, vk])
        T.writes(D[vi])
        with T.init():
            D[vi] = T.float32(0)
        D[vi] = D[vi] + X[vi] * A[vi, vk]
""",
        SIGNATURE + ', X: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")',
    ),
    "late_double_sum": function(
        """
for i, k, l in T.grid(8, 4, 2):
    with T.block("C"):
        vi, vk, vl = T.axis.remap("SRR", [i, k, l])
        T.where(1 <= k)
        with T.init():
            C[vi, 0] = T.float32(0)
        C[vi, 0] = C[vi, 0] + A[vi, vk] * A[vi, vl]
"""
    ),
    # a loop of a data parallel and of a reduced variable
    "shared_loop": function(
        """
for io, m, ki in T.grid(2, 16, 2):
    with T.block("C"):
        vi = T.axis.spatial(8, io * 4 + m // 4)
        vk = T.axis.reduce(8, m % 4 * 2 + ki)
        with T.init():
            C[vi, 0] = T.float32(0)
        C[vi, 0] = C[vi, 0] + A[vi, vk]
"""
    ),
    "sum_from_two": function(
        """
for i in range(8):
    for k in range(2, 8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            vk = T.axis.reduce((2, 8), k)
            with T.init():
                C[vi, 0] = T.float32(0)
            C[vi, 0] = C[vi, 0] + A[vi, vk]
"""
    ),
    # sums for half of what C reads
    "half_sums": function(
        """
B = T.alloc_buffer((8,))
for i, k in T.grid(4, 8):
    with T.block("B"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            B[vi] = T.float32(0)
        B[vi] = B[vi] + A[vi, vk]
for i, j in T.grid(8, 8):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = B[vi] + A[vi, vj]
"""
    ),
    # the place and the value of the largest element: the first is set twice at the start; it starts somewhere else
    "argmax_twice": function(ARGMAX.format(again="I[0] = -1", first="0")),
    "argmax_elsewhere": function(ARGMAX.format(again="", first="1")),
    # declares that it reads what it writes
    "accumulated_sum": function(
        """
for i, k in T.grid(8, 8):
    with T.block("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        T.reads(C[vi, 0], A[vi, vk])
        T.writes(C[vi, 0])
        with T.init():
            C[vi, 0] = T.float32(0)
        C[vi, 0] = C[vi, 0] + A[vi, vk]
"""
    ),
    "declared_apart": declared("C[vi, vj] = A[vi, vj] + A[vj, vi]\n        C[vj, vi] = T.float32(0)"),
    "declared_loop": declared("for k in range(8):\n            C[vi, k] = A[vi, k]"),
    "declared_nested": declared(
        'for k in range(1):\n            with T.block("N"):\n                u = T.axis.spatial(1, k)\n'
        "                C[vi, vj] = A[vi, vj]"
    ),
    "declared_untouched": declared("T.evaluate(0)", "B"),
    "declared_pointers": declared('T.evaluate(T.call_extern("void", "f", A.data, B.data))', "B"),
    # the last of the terms is ready first
    "backward_terms": function(
        """
B = T.alloc_buffer((8,))
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, 7 - i)
        B[vi] = A[vi, 0]
for k in range(8):
    with T.block("C"):
        vk = T.axis.reduce(8, k)
        with T.init():
            C[0, 0] = T.float32(0)
        C[0, 0] = C[0, 0] + B[vk]
"""
    ),
    # each term is a sum
    "sum_of_sums": function(
        """
B = T.alloc_buffer((8,))
for i, k in T.grid(8, 8):
    with T.block("B"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            B[vi] = T.float32(0)
        B[vi] = B[vi] + A[vi, vk]
for k in range(8):
    with T.block("C"):
        vk = T.axis.reduce(8, k)
        with T.init():
            C[0, 0] = T.float32(0)
        C[0, 0] = C[0, 0] + B[vk]
"""
    ),
}
