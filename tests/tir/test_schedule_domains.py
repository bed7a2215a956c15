"""Blocks built again keep the conditions, the domains and the data that the old ones had: results stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvmagic
from tvmagic.ir import PrimFunc
from tvmagic.script import from_source
from tvmagic.tir import Schedule

GUARD = 16


def parse(text: str) -> PrimFunc:
    return from_source("from tvm.script import tir as T\n@T.prim_func\n" + text.strip()).without_attr("global_symbol")


def run(sch: Schedule, *arrays: Any) -> list[np.ndarray]:
    """The arrays after the scheduled function, each with guard zones around it that it must leave alone."""
    for check_bounds in (True, False):
        given = [np.full(np.size(a) + 2 * GUARD, 55, "float32") for a in arrays]
        inside = [g[GUARD:-GUARD].reshape(np.shape(a)) for g, a in zip(given, arrays)]
        for part, array in zip(inside, arrays):
            part[...] = array
        tvmagic.build(sch.mod["main"], check_bounds=check_bounds)(*inside)
        for g in given:
            assert (g[:GUARD] == 55).all() and (g[-GUARD:] == 55).all()
    return inside


WRITTEN_IN_PART = """
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.where({condition})
            B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] * T.float32(2)
"""


@pytest.mark.parametrize(
    ("condition", "covered"),
    [("i < 4", False), ("2 <= i", False), ("i < 3 or 6 <= i", False), ("i % 2 == 0", False), ("i < 9", True)],
)
def test_what_a_condition_leaves_out_is_not_covered(condition: str, covered: bool) -> None:
    sch = Schedule(parse(WRITTEN_IN_PART.format(condition=condition)))
    assert sch.state.get_cached_flags(sch.get_sref(sch.get_block("C"))).region_cover is covered


def test_what_runs_in_part_reads_what_was_written_in_part() -> None:
    text = WRITTEN_IN_PART.format(condition="i % 2 == 0").replace("C[vi] =", "T.where(i % 2 == 0)\n            C[vi] =")
    sch = Schedule(parse(text))
    assert sch.state.get_cached_flags(sch.get_sref(sch.get_block("C"))).region_cover


def test_conditions_of_splits_leave_nothing_out() -> None:
    sch = Schedule(
        parse(
            WRITTEN_IN_PART.format(condition="True")
            .replace(', B: T.Buffer((8,), "float32")', "")
            .replace("    for i", "    B = T.alloc_buffer((8,))\n    for i", 1)
        )
    )
    sch.split(sch.get_loops("C")[0], [None, 3])
    sch.compute_at("B", sch.get_loops("C")[0])
    sch.split(sch.get_loops("B")[1], [None, 2])
    assert sch.state.get_cached_flags(sch.get_sref(sch.get_block("C"))).region_cover
    a = np.arange(8.0)
    np.testing.assert_array_equal(run(sch, a, np.zeros(8))[1], a * 2)
