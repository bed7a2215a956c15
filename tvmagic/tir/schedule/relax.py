"""Regions relaxed over loops: what a block touches while the loops between two places run."""

from __future__ import annotations

from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir import BufferRegion, IntImm, Range
from tvmagic.tir.blocks.domains import domains_between
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.limits import read_anywhere
from tvmagic.tir.schedule.state import ScheduleState


def relax_region(
    state: ScheduleState, region: BufferRegion, block: StmtSRef, low: StmtSRef | None, high: StmtSRef | None
) -> BufferRegion:
    """The box of the buffer that `region` of a block sweeps while the loops from `low` to `high` run."""
    from tvmagic.arith.region_bounds import estimate_region_upper_bound

    analyzer = Analyzer()
    sets = estimate_region_upper_bound(
        read_anywhere(state, region, block).region,
        domains_between(low, high, region.buffer.scope()),
        state.realize_of(block).predicate,
        analyzer,
    )
    shape = region.buffer.shape
    covers = [s.cover_range(Range.from_min_extent(IntImm(n.dtype, 0), n)) for s, n in zip(sets, shape)]
    return BufferRegion(region.buffer, covers)
