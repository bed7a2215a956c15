"""Schedule sums of few terms whose adjacent results read the same elements: points times a matrix, mixed colours.

Their loops become vectors of many points in the last program (late pass VectorizeInterleavedStores).
"""

from __future__ import annotations

import math

from tvmagic.auto.loops import share
from tvmagic.auto.program import BlockInfo, Decisions
from tvmagic.target.machine import Machine
from tvmagic.tir.schedule import Schedule

_TERMS = 4
_ENOUGH = 1 << 17  # terms from which threads pay


def is_short(info: BlockInfo, machine: Machine) -> bool:
    """Whether a block reduces few terms to each of a few neighbours, again and again along the axis before these."""
    extents = [a.extent for a in info.axes]
    if not info.reduced or len(info.spatial) < 2 or not info.constant or None in extents:
        return False
    outer, inner = info.spatial[-2:]
    if math.prod(a.extent or 0 for a in info.reduced) > _TERMS or inner.extent not in machine.interleaved:
        return False
    if info.store.step(inner.var) != 1 or info.store.step(outer.var) != inner.extent:
        return False
    near = all((step := a.step(outer.var)) is not None and 0 <= step <= machine.widest_shuffle for a in info.loads)
    return near and not info.conditions and (outer.extent or 0) >= 2 * machine.lanes(info.store.buffer.dtype)


def apply(sch: Schedule, info: BlockInfo, machine: Machine, notes: Decisions) -> None:
    """The plain loops, the outer ones in parallel."""
    loops = dict(zip(info.axes, sch.get_loops(info.rv)))
    order = [*info.spatial, *info.reduced]
    if order != info.axes:
        sch.reorder(*[loops[a] for a in order])
    notes.say(
        f"{info.name}: {info.spatial[-1].extent} neighbours with {math.prod(a.extent or 1 for a in info.reduced)} terms each in "
        f"plain loops, which become vectors along {info.spatial[-2].name}"
    )
    if math.prod(a.extent or 1 for a in info.axes) >= _ENOUGH:
        share(sch, [loops[a] for a in info.spatial[:-1]], machine)
    sch.decompose_reduction(info.rv, loops[info.reduced[0]])
