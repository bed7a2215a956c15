"""Fuse a product with the rows computed before it, as in attention: `softmax(Q @ K.T) @ V`.

What is between the two products has a row for each row of the result, and may outgrow the caches, although nothing else reads
it. Some rows at a time are computed from the first product to the last, so that they stay in the second cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tvmagic.auto.contraction import Application, Plan, plan_contraction
from tvmagic.auto.loops import fused
from tvmagic.auto.program import Axis, BlockInfo, Decisions
from tvmagic.auto.row_reductions import Chain, chain_before, schedule_row
from tvmagic.target.machine import Machine
from tvmagic.tir.schedule import Schedule

_LEAST = 8  # rows at a time, as the tiles of the products have some rows


_LARGE = 2  # times the second cache: what is not larger costs no more to keep than to compute in stretches


@dataclass
class Joined:
    """A product `out`, what is computed of each row before it, and the product with which that begins, if it does."""

    chain: Chain
    row: Axis  # of `out`
    rows: int  # at a time
    out: Plan
    first: Plan | None

    @property
    def middle(self) -> list[BlockInfo]:
        """What is between the two products."""
        return [m for m in self.chain.members if self.first is None or m.name != self.first.info.name]


def joined_before(sch: Schedule, out: BlockInfo, candidates: list[BlockInfo], machine: Machine) -> Joined | None:
    """The product that ends with a block and the rows that it reads; None if it is not such a product, or if they stay in cache anyway."""
    chain = chain_before(sch, out, candidates) if out.reduced and len(out.loads) > 1 and out.constant else None
    if chain is None or not chain.members or not all(m.constant for m in chain.members):
        return None
    # What needs no plan first, as plans take time.
    products = [m for m in chain.members if m.reduced and len(m.spatial) > len(chain.shared)]
    held = [m for m in chain.members if m in products or m is chain.members[-1]]
    if len(products) > 1 or any(len(m.spatial) != len(chain.shared) + 1 for m in held):
        return None
    row_bytes = sum(_row(m, chain) for m in held)
    if row_bytes * math.prod(a.extent or 1 for a in chain.shared) <= _LARGE * machine.cache(2):
        return None
    plan = plan_contraction(out, machine)
    if plan is None or plan.row not in chain.shared or chain.members[-1].store.buffer is not plan.narrow.buffer:
        return None
    rows = _rows(plan.row.extent or 1, machine.cache(2) // 2 // row_bytes)
    if rows < _LEAST:
        return None
    last = _fitting(_of_rows(out, chain, plan.row, rows), machine)
    first = _fitting(_of_rows(products[0], chain, plan.row, rows), machine) if products else None
    if last is None or (products and first is None):
        return None
    return Joined(chain, plan.row, rows, last, first)


def _fitting(found: tuple[BlockInfo, Axis] | None, machine: Machine) -> Plan | None:
    """How a product of some rows is computed, if its tiles fill the stretches: others are better computed padded, and apart."""
    plan = plan_contraction(found[0], machine, whole=True) if found is not None else None
    return plan if plan is not None and found is not None and not plan.pack_narrow and plan.row is found[1] else None


def _row(info: BlockInfo, chain: Chain) -> int:
    """How many bytes of a block's result belong to one row."""
    elements = math.prod(a.extent or 1 for a in info.spatial) // math.prod(a.extent or 1 for a in chain.shared)
    return max(1, elements) * max(1, info.store.buffer.dtype.bits // 8)


def _rows(extent: int, most: int) -> int:
    """How many rows belong together: as many as fit, so that all stretches are alike."""
    return max((n for n in range(1, min(extent, most) + 1) if extent % n == 0), default=0)


def _of_rows(info: BlockInfo, chain: Chain, row: Axis, rows: int) -> tuple[BlockInfo, Axis] | None:
    """A block as it is inside the loop over stretches of rows, without the other shared axes and with fewer rows; and its
    row. None if it does not follow all that is shared."""
    places = {a: chain.places[info].get(a.var) for a in info.spatial}
    own = {place: a for a, place in places.items() if place in chain.shared}
    if set(own) != set(chain.shared):
        return None
    few = replace(own[row], extent=rows)
    axes = [few if a is own[row] else a for a in info.axes if a is own[row] or a not in own.values()]
    return replace(info, axes=axes), few


def apply(sch: Schedule, found: Joined, machine: Machine, notes: Decisions) -> None:
    """Loops over stretches of rows, in parallel, around all of it."""
    out = found.chain.out
    applications = [Application(sch, plan, machine, notes, 1) for plan in (found.first, found.out) if plan is not None]
    notes.say(
        f"{', '.join(i.name for i in found.chain.blocks)}: {found.rows} rows at a time, whose parts stay in the second cache "
        f"({machine.cache(2) // 1024} KB) from one to the next"
    )
    for application in applications:
        application.prepare()
    # 1. the loop over stretches of rows
    loops = dict(zip(out.axes, sch.get_loops(out.rv)))
    others = [loops[a] for a in found.chain.shared if a is not found.row]
    far, near = sch.split(loops[found.row], [None, found.rows])
    rest = [loop for a, loop in loops.items() if a not in found.chain.shared]
    sch.reorder(*others, far, near, *rest)
    stretch = fused(sch, [*others, far])
    sch.parallel(stretch)
    # 2. what is between the products, row by row, and the first product
    taken = {name for application in applications for name in application.followers}
    middle = [m for m in found.middle if m.name not in taken]
    if middle:
        sch.compute_at(middle[-1].rv, stretch)
        schedule_row(sch, found.chain, middle, sch.get_loops(middle[-1].rv)[1], machine, notes)
    if found.first is not None:
        sch.compute_at(applications[0].last, stretch)
        sch.compute_at(found.first.info.rv, stretch)
    # 3. the tiles of both
    for application in applications:
        application.tile()
