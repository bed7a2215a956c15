"""What primitives decide about ranges, factors and names, against counting."""

from __future__ import annotations

import itertools
import re

import pytest

from tvmagic import ir, tir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.script import tir as T
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.schedule.primitives.partition import _part
from tvmagic.tir.schedule.primitives.rolling import _roll_of

I = ir.Var("i")


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("divisor", [1, 2, 3])
def test_as_much_of_a_region_stays_as_the_next_iterations_have_in_common(stride: int, divisor: int) -> None:
    steps = [(i + 1) * stride // divisor - i * stride // divisor for i in range(12)]
    low = I * stride if stride > 1 else I
    for extent in range(1, 8):
        roll = _roll_of(ir.Range.from_min_extent(low // divisor if divisor > 1 else low, extent))
        kept = extent - max(steps)
        assert roll is not None and roll.overlap == kept
        assert (roll.var is I) == (kept > 0)


def test_what_does_not_roll() -> None:
    fixed = _roll_of(ir.Range.from_min_extent(3, 2))
    assert fixed is not None and fixed.var is None and fixed.overlap == 0
    assert _roll_of(ir.Range.from_min_extent(I + 1, 2)) is None
    assert _roll_of(ir.Range.from_min_extent(I, ir.SizeVar("n"))) is None


def test_the_part_of_a_range_that_is_inside_another() -> None:
    for low, extent, first, size in itertools.product(range(-2, 4), range(1, 4), range(-1, 2), range(1, 4)):
        values, whole = ir.Range.from_min_extent(low, extent), ir.Range.from_min_extent(first, size)
        inside = sorted({*range(low, low + extent)} & {*range(first, first + size)})
        part = _part(values, whole, Analyzer())
        if inside == [*range(low, low + extent)]:
            assert part is values
        elif not inside:
            assert part is whole
        else:
            assert [*range(int(part.min), int(part.min) + int(part.extent))] == inside


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
def test_the_factor_of_an_alignment_is_positive(factor: int) -> None:
    schedule = tir.Schedule(two_blocks)
    if factor > 0:
        schedule.storage_align(schedule.get_block("first"), 0, 0, factor, 0)
        assert f"[0, 0, {factor}, 0]" in re.sub(r"\((\d.*?)\)", r"[\1]", schedule.mod.script())
    else:
        with pytest.raises(ScheduleError, match=f"the factor of an alignment is positive, not {factor}"):
            schedule.storage_align(schedule.get_block("first"), 0, 0, factor, 0)


def test_a_name_that_no_block_has_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(ScheduleError) as refused:
        tir.Schedule(two_blocks).get_block("xyzzy")
    assert refused.value.hint == "the blocks are `first`, `second`"
