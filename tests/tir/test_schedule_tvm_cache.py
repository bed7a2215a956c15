"""TVM's behaviour of cache_read, cache_write and reindex in schedules, rule by rule."""

from __future__ import annotations

import pytest
from schedule_behaviour import parse, same_results, schedule

from tvmagic.ir import assert_structural_equal
from tvmagic.script import from_source

CONSTANT = """
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    with T.block("root"):
        K = T.allocate_const([1.0, 2.0, 3.0, 4.0], "float32", [4])
        W = T.decl_buffer((4,), data=K)
        for i in range(4):
            with T.block("C"):
                v = T.axis.spatial(4, i)
                C[v] = A[v] * W[v]
"""


def test_121_copies_stand_below_declarations() -> None:
    sch = schedule(CONSTANT)
    sch.cache_read("C", 0, "local")
    sch.cache_read("C", 1, "local")
    sch.cache_write("C", 0, "local")
    lines = [line.strip() for line in sch.mod["main"].script().split("\n")]
    places = [
        next(i for i, line in enumerate(lines) if part in line)
        for part in (
            "T.allocate_const",
            "T.decl_buffer",
            'T.block("W_local")',
            'T.block("A_local")',
            'T.block("C")',
            'T.block("C_local")',
        )
    ]
    assert places == sorted(places)
    same_results(parse(CONSTANT), sch.mod["main"])


BOOLS = """
def main(A: T.Buffer((13, 3), "int32"), B: T.Buffer((13, 3), "int8"), C: T.Buffer((13, 3), "int32")):
    with T.block("root"):
        M = T.alloc_buffer((13, 3), "int8")
        for i, j in T.grid(13, 3):
            with T.block("M"):
                vi, vj = T.axis.remap("SS", [i, j])
                M[vi, vj] = B[vi, vj]
        for i, j in T.grid(13, 3):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.Select(vj % 2 == 0, A[vi, vj], A[vi, vj // 2]) + T.Cast("int32", M[vi, vj])
"""


@pytest.mark.parametrize("call", [lambda s: s.cache_index("C", "global"), lambda s: s.unsafe_set_dtype("M", 0, "bool")])
def test_the_text_of_a_new_buffer_of_bools_is_read_as_what_it_was(call) -> None:
    sch = schedule(BOOLS)
    call(sch)
    assert_structural_equal(from_source(sch.mod["main"].script()), sch.mod["main"])
