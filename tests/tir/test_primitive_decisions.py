"""What primitives decide about ranges, factors and names, against counting."""

from __future__ import annotations

import itertools
import re

import pytest

from tvmagic import ir, tir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.operators import operator
from tvmagic.script import from_source
from tvmagic.script import tir as T
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.schedule.primitives.partition import _part
from tvmagic.tir.schedule.primitives.rolling import _roll_of
from tvmagic.tir.schedule.primitives.sampling import _iter_type

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


def test_a_block_in_the_init_of_another_is_found_once_it_is_taken_out() -> None:
    schedule = tir.Schedule(operator("f", "X: float32[6, 10]\nS[i] += X[i, k]").to_prim_func())
    outer = schedule.blockize(schedule.get_loops("S")[1])
    with pytest.raises(ScheduleError) as refused:
        schedule.get_block("S_init")
    hint = "`S_init` is in the init of another block: `decompose_reduction` makes a block of its own of that"
    assert refused.value.hint == hint
    schedule.decompose_reduction(outer, schedule.get_loops(outer)[0])
    assert schedule.get(schedule.get_block("S_init")).name_hint == "S_init"


# ---------------------------------------------------------------------------- loops, variables and what blocks access

UNIT = """
from tvm.script import tir as T
@T.prim_func
def f(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "float32")):
{loop}
    with T.block("B"):
        {var}
        T.reads(A[0])
        T.writes(B[0])
        B[0] = A[0] + T.float32(1)
"""


def test_blocks_that_lose_all_loops_or_get_their_first() -> None:
    with_loop = UNIT.format(loop="  for i in range(1):", var="v = T.axis.spatial(1, i)")
    without = UNIT.format(loop="  with T.block('root'):", var="pass")
    for text, index_map, loops in (
        (with_loop, lambda i: (), 0),
        (without, lambda: (0,), 1),
        (with_loop, lambda i: (i, 0), 2),
    ):
        sch = tir.Schedule(from_source(text), debug_mask="all")
        sch.transform_block_layout("B", index_map)
        assert len(sch.get_loops("B")) == loops


@pytest.mark.parametrize(
    ("kinds", "kind"),
    [
        ("", ir.IterVar.DataPar),
        ("S", ir.IterVar.DataPar),
        ("SS", ir.IterVar.DataPar),
        ("R", ir.IterVar.CommReduce),
        ("SR", ir.IterVar.Opaque),
        ("RS", ir.IterVar.Opaque),
        ("O", ir.IterVar.Ordered),
        ("SRO", ir.IterVar.Opaque),
    ],
)
def test_what_a_loop_counts_in_the_blocks_below(kinds: str, kind: int) -> None:
    names = {"S": "spatial", "R": "reduce", "O": "scan"}
    blocks = "".join(
        f"        with T.block('{n}'):\n            v = T.axis.{names[k]}(8, i)\n            T.reads()\n            T.writes()\n            T.evaluate(v)\n"
        for n, k in enumerate(kinds)
    )
    text = f"from tvm.script import tir as T\n@T.prim_func\ndef f():\n    for i in range(8):\n{blocks}        with T.block('last'):\n            T.evaluate(0)\n"
    sch = tir.Schedule(from_source(text))
    assert _iter_type(sch.state, sch.get_sref(sch.get_loops("last")[0])) == kind


def test_an_initial_value_at_another_index_is_another_access() -> None:
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
    with pytest.raises(ScheduleError, match="buffer `C` is accessed at different indices in block `C`"):
        tir.Schedule(from_source(text.format(index="0"))).reindex("C", ("write", 0))


@pytest.mark.parametrize("written", [6, 7, 8])
def test_a_consumer_is_inlined_only_if_all_that_it_reads_is_written(written: int) -> None:
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
    with pytest.raises(ScheduleError, match="is not covered by its producer: `vj` goes beyond what is written"):
        sch.reverse_compute_inline("C")
