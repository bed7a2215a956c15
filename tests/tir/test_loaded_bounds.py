"""Bounds that load, `Y[i] = P[K[i]]`: a moved block or a copy must not load what a condition leaves out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvmagic
from tvmagic import tir
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
    for i in range({extent}):
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
    sch = tir.Schedule(from_source(READS.format(extent=6, value=VALUES[value])))
    if move is below and factor < 4 and value in ("two places", "neighbours"):
        with pytest.raises(ScheduleError, match="have not written yet"):  # two loads say how much: that is not followed
            move(sch, factor)
        return
    move(sch, factor)
    x, index, y = np.arange(8, dtype="float32"), np.array([3, 7, 0, 0, 5, 2], "int32"), np.zeros(6, "float32")
    plain = tvmagic.build(from_source(READS.format(extent=6, value=VALUES[value])))
    wanted = np.zeros(6, "float32")
    plain(x, index, wanted)
    tvmagic.build(sch.mod, check_bounds=True)(x, index, y)
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("factor", [1, 2, 4])
def test_updates_in_a_copy_load_inside_of_arrays(factor: int) -> None:
    sch = tir.Schedule(from_source(ADDS))
    _split(sch, factor)
    sch.cache_inplace("Y", 0, "global")
    x, index, y = np.arange(6, dtype="float32"), np.array([3, 7, 0, 0, 5, 3], "int32"), np.ones(8, "float32")
    wanted = y.copy()
    np.add.at(wanted, index, x)
    tvmagic.build(sch.mod, check_bounds=True)(x, index, y)
    np.testing.assert_array_equal(y, wanted)


def test_a_bound_that_is_inside_in_every_iteration_stays() -> None:
    sch = tir.Schedule(from_source(READS.format(extent=6, value="P[K[v]]")))
    below(sch, 2)
    assert "T.axis.spatial(8, K[i_0 * 2 + i_1])" in sch.mod.script()
