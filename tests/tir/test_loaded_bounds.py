"""Bounds that load, `Y[i] = P[K[i]]`: a moved block or a copy must not load what a condition leaves out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvmagic
from tvmagic import tir
from tvmagic.eval.machine import run_function
from tvmagic.script import from_source
from tvmagic.tir.blocks.error import ScheduleError

READS = """
@T.prim_func
def main(X: T.Buffer((8,), "float32"), K: T.Buffer((6,), "int32"), Y: T.Buffer((6,), "float32")):
    P = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("P"):
            v = T.axis.spatial(8, i)
            P[v] = X[v] * T.float32(2)
    for i in range(6):
        with T.block("Y"):
            v = T.axis.spatial(6, i)
            Y[v] = {value}
"""
ADDS = """
@T.prim_func
def main(X: T.Buffer((6,), "float32"), K: T.Buffer((6,), "int32"), Y: T.Buffer((8,), "float32")):
    for i in range(6):
        with T.block("Y"):
            v = T.axis.opaque(6, i)
            Y[K[v]] = Y[K[v]] + X[v]
"""
VALUES = {
    "one place": "P[K[v]]",
    "two places": "P[K[v]] + P[K[5 - v]]",
    "neighbours": "P[K[v]] + P[7 - K[v]]",
    "where a condition holds": "T.if_then_else(v < 4, P[K[v + 2]], T.float32(0))",
}


def check_reads(sch: tir.Schedule, value: str) -> None:
    """A schedule of `READS` computes what the plain loops do, all accesses inside."""
    x, index, y = np.arange(8, dtype="float32"), np.array([3, 7, 0, 0, 5, 2], "int32"), np.zeros(6, "float32")
    wanted = y.copy()
    tvmagic.build(reads(value))(x, index, wanted)
    compare(sch, [x, index, y], wanted)


def check_adds(sch: tir.Schedule) -> None:
    """The same of `ADDS`."""
    x, index, y = np.arange(6, dtype="float32"), np.array([3, 7, 0, 0, 5, 3], "int32"), np.ones(8, "float32")
    wanted = y.copy()
    np.add.at(wanted, index, x)
    compare(sch, [x, index, y], wanted)


def compare(sch: tir.Schedule, arrays: list[Any], wanted: Any) -> None:
    """Run what is scheduled with all accesses checked: compiled, after passes that move conditions, and as it is."""
    for run in (tvmagic.build(sch.mod, check_bounds=True), lambda *given: run_function(sch.mod["main"], given)):
        given = [array.copy() for array in arrays]
        run(*given)
        np.testing.assert_array_equal(given[-1], wanted)


def reads(value: str) -> Any:
    return from_source(READS.format(value=VALUES[value]))


def _split(sch: tir.Schedule, factor: int) -> Any:
    (loop,) = sch.get_loops("Y")
    return sch.split(loop, [None, factor])


def below(sch: tir.Schedule, factor: int) -> None:
    sch.compute_at("P", _split(sch, factor)[1])


def below_outer(sch: tir.Schedule, factor: int) -> None:
    sch.compute_at("P", _split(sch, factor)[0])


def copied(sch: tir.Schedule, factor: int) -> None:
    sch.read_at(_split(sch, factor)[1], "Y", 0, "local")


MOVES: list[Callable[[tir.Schedule, int], None]] = [below, below_outer, copied]


@pytest.mark.parametrize("factor", [1, 2, 4])
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("value", VALUES)
def test_what_is_moved_loads_inside_of_arrays(
    value: str, move: Callable[[tir.Schedule, int], None], factor: int
) -> None:
    sch = tir.Schedule(reads(value))
    move(sch, factor)
    check_reads(sch, value)


@pytest.mark.parametrize("value", VALUES)
def test_conditions_that_come_later_are_asked_before_loads(value: str) -> None:
    """The bounds are inside when the block moves; a split that does not divide comes after."""
    sch = tir.Schedule(reads(value))
    sch.compute_at("P", sch.get_loops("Y")[0])
    sch.split(sch.get_loops("Y")[0], [None, 4])
    check_reads(sch, value)


@pytest.mark.parametrize("factor", [1, 2, 4])
def test_updates_in_a_copy_load_inside_of_arrays(factor: int) -> None:
    before, after = tir.Schedule(from_source(ADDS)), tir.Schedule(from_source(ADDS))
    _split(before, factor)
    before.cache_inplace("Y", 0, "global")
    check_adds(before)
    after.cache_inplace("Y", 0, "global")
    after.split(after.get_loops("Y")[0], [None, factor])
    check_adds(after)


def test_a_bound_that_is_inside_in_every_iteration_stays() -> None:
    sch = tir.Schedule(reads("one place"))
    below(sch, 2)
    assert "T.axis.spatial(8, K[i_0 * 2 + i_1])" in sch.mod.script()


COMPUTED = READS.replace(
    '    for i in range(6):\n        with T.block("Y")',
    """    Q = T.alloc_buffer((6,), "int32")
    for i in range(6):
        with T.block("Q"):
            v = T.axis.spatial(6, i)
            Q[v] = K[v]
    for i in range(6):
        with T.block("Y")""",
).format(value="P[Q[v]]")


def test_what_says_where_is_computed_before_it_is_asked() -> None:
    """`P` was moved to where `Q` says, and `Q` then behind `P`."""
    for names in (["P", "Q"], ["Q", "P"]):
        sch = tir.Schedule(from_source(COMPUTED))
        for name in names:
            sch.compute_at(name, sch.get_loops("Y")[0])
        check_reads(sch, "one place")


def test_what_a_binding_loads_stays_in_front_of_it() -> None:
    func = from_source("""
@T.prim_func
def main(K: T.Buffer((6,), "int32"), Y: T.Buffer((8,), "int32")):
    Q = T.alloc_buffer((6,), "int32")
    for i in range(6):
        with T.block("Q"):
            v = T.axis.spatial(6, i)
            Q[v] = K[v]
    for i in range(6):
        with T.block("Y"):
            v = T.axis.opaque(8, Q[i])
            Y[v] = Y[v] + 1
        with T.block("Z"):
            w = T.axis.spatial(6, i)
            Y[Q[w]] = Y[Q[w]] * 2
""")
    sch = tir.Schedule(func)
    with pytest.raises(ScheduleError, match="`Q`.*`Q`"):
        sch.compute_at("Q", sch.get_loops("Y")[0])
