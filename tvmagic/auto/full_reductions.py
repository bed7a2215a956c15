"""Schedule reductions to few results: the sum of an entire array, the sums of few long rows.

There are fewer results than cores, so that what is reduced over is what the cores share: each of them computes partial
results of a stretch, and these are combined at the end. Along the contiguous axis the values are taken in any order, so
that LLVM makes vectors of the loop.
"""

from __future__ import annotations

import math

from tvmagic.auto.loops import any_order
from tvmagic.auto.program import BlockInfo, Decisions
from tvmagic.ir import Add, Max, Min
from tvmagic.target.machine import Machine
from tvmagic.tir.schedule import Schedule

_ENOUGH = 1 << 15  # values from which threads pay
_STRETCHES = 4  # for each core, so that one that is late has fewer of them


def is_few(info: BlockInfo, machine: Machine) -> bool:
    """Whether a block reduces to a single result, or much to fewer results than there are cores."""
    if not info.reduced or info.combine not in (Add, Max, Min) or any(a.extent is None for a in info.spatial):
        return False
    results = math.prod(a.extent or 1 for a in info.spatial)
    return results == 1 or (results < machine.cores and _size(info) >= _ENOUGH)


def _size(info: BlockInfo) -> int:
    """How many values are reduced; a symbolic number counts as large."""
    return math.prod(a.extent or _ENOUGH for a in info.reduced)


def apply(sch: Schedule, info: BlockInfo, machine: Machine, notes: Decisions) -> None:
    """Partial results of stretches in parallel, then the rest."""
    loops = dict(zip(info.axes, sch.get_loops(info.rv)))
    order = [*info.spatial, *info.reduced]
    if len(order) > 1:
        sch.reorder(*[loops[a] for a in order])
    first = order[len(info.spatial)]
    outer, extent, name = loops[first], first.extent, first.name
    if _flat(info):  # one loop over all values, so that no row is too short for its vectors
        outer, extent, name = sch.fuse(*loops.values()), _size(info), "all axes"
    stretches = _segment_count(extent, machine) if _size(info) >= _ENOUGH and machine.cores > 1 else 1
    if stretches == 1:
        notes.say(f"{info.name}: its values are taken in any order, so that LLVM makes vectors of the loop")
        any_order(sch, info.rv, len(info.spatial))
        return
    notes.say(f"{info.name}: {stretches} partial results, of a stretch of {name} each, on {machine.cores} cores")
    part, _ = sch.split(outer, [stretches, None])
    partial = sch.rfactor(part, 0)
    own = sch.get_loops(partial)
    each = own[len(info.spatial)]
    sch.reorder(each, *own[: len(info.spatial)])
    sch.parallel(each)
    any_order(sch, partial, 1)


def _flat(info: BlockInfo) -> bool:
    """Whether all values are taken, in the order in which each array has them."""
    places = [a.var for a in info.axes]
    whole = all(a.is_at(places) for a in info.loads if a.variables)
    return len(places) > 1 and not info.spatial and info.constant and not info.alone and whole


def _segment_count(extent: int | None, machine: Machine) -> int:
    """Into how many a loop is cut: a number that divides it, of about the right size; 1 if there is none."""
    wanted = machine.cores * _STRETCHES
    even = [n for n in range(machine.cores, 8 * wanted + 1) if extent is not None and extent % n == 0]
    return min(even, key=lambda n: abs(math.log(n / wanted)), default=1)
