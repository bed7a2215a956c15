"""Calls of primitives that are refused."""

from __future__ import annotations

import re

import pytest

from tvmagic import tir
from tvmagic.operators import operator
from tvmagic.script import from_source
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


@pytest.mark.parametrize("factor", [-1, 0, 1, 2])
def test_storage_align_refuses_nonpositive_factor(factor: int) -> None:
    schedule = tir.Schedule(two_blocks)
    if factor > 0:
        schedule.storage_align(schedule.get_block("first"), 0, 0, factor, 0)
        assert f"[0, 0, {factor}, 0]" in re.sub(r"\((\d.*?)\)", r"[\1]", schedule.mod.script())
    else:
        with pytest.raises(ScheduleError):
            schedule.storage_align(schedule.get_block("first"), 0, 0, factor, 0)


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


def test_decompose_refuses_init_at_other_index() -> None:
    text = """
from tvm.script import tir as T
@T.prim_func
def f(A: T.Buffer((1, 8), "float32"), C: T.Buffer((1,), "float32")):
    for i, k in T.grid(1, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[{index}] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""
    tir.Schedule(from_source(text.format(index="vi"))).reindex("C", ("write", 0))
    with pytest.raises(ScheduleError):
        tir.Schedule(from_source(text.format(index="0"))).reindex("C", ("write", 0))


@pytest.mark.parametrize("written", [6, 7, 8])
def test_reverse_inline_requires_full_write(written: int) -> None:
    """Of eight elements; the last one alone that is missing counts, too."""
    sch = tir.Schedule(
        from_source(f"""
@T.prim_func
def f(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range({written}):
        with T.block("B"):
            vi = T.axis.spatial({written}, i)
            B[vi] = A[vi] * T.float32(2)
    for j in range(8):
        with T.block("C"):
            vj = T.axis.spatial(8, j)
            C[vj] = B[vj] + T.float32(1)
""")
    )
    if written == 8:
        sch.reverse_compute_inline("C")
        return
    with pytest.raises(ScheduleError):
        sch.reverse_compute_inline("C")


COPY = """from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((4, 6), 'float32'), C: T.Buffer((4, 6), 'float32')):
    B = T.alloc_buffer((4, 6))
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj]
"""


@pytest.mark.parametrize(
    ("places", "fits"),
    [([], True), ([0], True), ([1], True), ([2], True), ([0, 2], True), ([3], False), ([-1], False), ([2, 1], False)],
)
def test_axis_separator_position_is_checked(places: list[int], fits: bool) -> None:
    sch = tir.Schedule(from_source(COPY))
    if not fits:
        with pytest.raises(ScheduleError):
            sch.set_axis_separator("B", ("write", 0), places)
    else:
        sch.set_axis_separator("B", ("write", 0), places)
        assert [int(p) for p in sch.get(sch.get_block("B")).writes[0].buffer.axis_separators] == places
