"""Calls of primitives that are refused."""

from __future__ import annotations

import pytest

from tvmagic import tir
from tvmagic.operators import operator
from tvmagic.script import tir as T
from tvmagic.tir.blocks.error import ScheduleError


@T.prim_func
def two_blocks(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    B = T.alloc_buffer((8, 8))
    for i, j in T.grid(8, 8):
        with T.block("first"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 8):
        with T.block("second"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * T.float32(2)


def test_get_block_names_existing_blocks() -> None:
    with pytest.raises(ScheduleError) as refused:
        tir.Schedule(two_blocks).get_block("xyzzy")
    assert refused.value.hint == "the blocks are `first`, `second`"


def test_block_in_init_is_found_after_decomposition() -> None:
    schedule = tir.Schedule(operator("f", "X: float32[6, 10]\nS[i] += X[i, k]").to_prim_func())
    outer = schedule.blockize(schedule.get_loops("S")[1])
    with pytest.raises(ScheduleError) as refused:
        schedule.get_block("S_init")
    hint = "`S_init` is in the init of another block: `decompose_reduction` makes a block of its own of that"
    assert refused.value.hint == hint
    schedule.decompose_reduction(outer, schedule.get_loops(outer)[0])
    assert schedule.get(schedule.get_block("S_init")).name_hint == "S_init"
