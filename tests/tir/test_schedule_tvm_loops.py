"""TVM's behaviour of loops, compute_at and inlining in schedules, rule by rule."""

from __future__ import annotations

from schedule_behaviour import block, parse, same_results, schedule

CONSTANT = """
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4,))
    K = T.allocate_const([1.0, 2.0, 3.0, 4.0], "float32", [4])
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            W = T.Buffer((4,), data=K)
            B[v] = A[v] * W[v]
    for i in range(4):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[v] + T.float32(1)
"""


def test_135_mere_views_are_not_listed_in_regions() -> None:
    sch = schedule(CONSTANT)
    assert [str(r) for r in block(sch, "B").reads] == ["A[v]"]
    sch.compute_inline("B")
    assert [str(r) for r in block(sch, "C").reads] == ["A[v]"]
    same_results(parse(CONSTANT), sch.mod["main"])
