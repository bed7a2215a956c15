"""Regions relaxed over loops: what a block touches while the loops between two places run."""

from __future__ import annotations

from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir import BufferRegion, IntImm, Range, Var, substitute
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.state import ScheduleState

__all__ = ["domains_between", "relax_region"]

_SCOPE_RANK = {"global": 0, "shared": 1, "warp": 2, "local": 3}


def _relaxed_by_thread(storage_scope: str, thread_tag: str) -> bool:
    """Whether all threads of `thread_tag` share one copy of memory in `storage_scope`."""
    rank = _SCOPE_RANK.get(storage_scope.split(".")[0], 3)
    thread_rank = 0 if thread_tag.startswith("blockIdx") else 1
    if rank == 2:
        return thread_tag == "threadIdx.x"
    return rank <= thread_rank


def domains_between(low: StmtSRef | None, high: StmtSRef | None, storage_scope: str = "global") -> dict[Var, Range]:
    """The domains of the loops from `low` up to `high`, `high` left out.

    Loops above `high` that are bound to threads which share `storage_scope` count too.
    """
    domains: dict[Var, Range] = {}
    sref = low
    while sref is not None and sref is not high and sref.is_loop:
        loop = sref.loop
        domains[loop.loop_var] = Range.from_min_extent(loop.min, loop.extent)
        sref = sref.parent
    if storage_scope != "global":
        while sref is not None:
            binding = sref.loop.thread_binding if sref.is_loop else None
            if binding is not None and _relaxed_by_thread(storage_scope, binding.thread_tag):
                loop = sref.loop
                domains[loop.loop_var] = Range.from_min_extent(loop.min, loop.extent)
            sref = sref.parent
    return domains


def relax_region(
    state: ScheduleState, region: BufferRegion, block: StmtSRef, low: StmtSRef | None, high: StmtSRef | None
) -> BufferRegion:
    """The box of the buffer that `region` of a block sweeps while the loops from `low` to `high` run."""
    from tvmagic.arith.region_bounds import estimate_region_upper_bound

    realize = state.realize_of(block)
    bound = {v.var: value for v, value in zip(realize.block.iter_vars, realize.iter_values)}
    analyzer = Analyzer()
    sets = estimate_region_upper_bound(
        substitute(region, bound).region,
        domains_between(low, high, region.buffer.scope()),
        realize.predicate,
        analyzer,
    )
    shape = region.buffer.shape
    covers = [s.cover_range(Range.from_min_extent(IntImm(n.dtype, 0), n)) for s, n in zip(sets, shape)]
    return BufferRegion(region.buffer, covers)
