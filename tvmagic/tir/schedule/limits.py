"""Copies kept inside their buffers.

A block may touch less than it declares: a condition in it can guard an access that would lie outside the
buffer. A copy of what it declares has no such condition.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvmagic.arith import Analyzer
from tvmagic.ir import Buffer, BufferRegion, IntImm, PrimExpr, Range
from tvmagic.ir.ops import maximum, minimum
from tvmagic.tir.schedule.error import ScheduleError
from tvmagic.tir.schedule.sref import StmtSRef

__all__ = ["analyzer_at", "check_inside", "clipped"]


def analyzer_at(sref: StmtSRef) -> Analyzer:
    """What is known of the variables at a block or loop: its own, and those of all above it."""
    analyzer = Analyzer()
    for above in [sref, *sref.ancestors()]:
        if above.is_loop:
            loop = above.loop
            analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
        else:
            for var in above.block.iter_vars:
                assert var.dom is not None
                analyzer.bind(var.var, var.dom)
    return analyzer


def clipped(region: BufferRegion, place: StmtSRef) -> BufferRegion:
    """The part of the region that is inside its buffer, where `place` knows the region's variables."""
    analyzer = analyzer_at(place)
    sides: list[Range] = []
    for side, size in zip(region.region, region.buffer.shape):
        low, end = side.min, side.min + side.extent
        starts, ends = analyzer.can_prove(low >= 0), analyzer.can_prove(end <= size)
        if not (starts and ends):
            low = low if starts else analyzer.simplify(maximum(low, IntImm(low.dtype, 0)))
            end = end if ends else analyzer.simplify(minimum(end, size))
            side = Range.from_min_extent(low, analyzer.simplify(end - low))
        sides.append(side)
    return region.replace(region=tuple(sides))


def check_inside(block: StmtSRef, buffer: Buffer, indices: Sequence[PrimExpr]) -> None:
    """Whatever the block's variables are, the indices must lie inside the buffer."""
    analyzer = analyzer_at(block)
    for index, size in zip(indices, buffer.shape):
        if not (analyzer.can_prove(index >= 0) and analyzer.can_prove(index < size)):
            raise ScheduleError(
                f"{block.label} accesses buffer `{buffer.name}` at `{index}`, which may lie outside its {size} elements; "
                "a condition that guards it there would not guard the copy",
                block,
                hint="inline the block, or take the part with the condition away by decompose_padding first",
            )
