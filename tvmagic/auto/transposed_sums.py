"""Schedule sums that store their results across the order in which their terms are read.

Of `S[j, i] += X[p, i, j]` neighbours along `j` are read together, and neighbours along `i` stored. The sums are computed in
the order in which the terms are read, as they are many more, into an array of their own, which is then turned.
"""

from __future__ import annotations

import math
from typing import Any

from tvmagic.auto.elementwise import spread
from tvmagic.auto.program import Axis, BlockInfo, Decisions, extent_or_guess, look
from tvmagic.ir import Var
from tvmagic.target.machine import Machine
from tvmagic.tir.schedule import Schedule

_NARROW = 4  # neighbours, from which they are worth vectors
_TERMS = 4  # of each result, from which a pass over the results costs less than reading across lines of the cache


def turn_sums(sch: Schedule, info: BlockInfo, machine: Machine, notes: Decisions) -> str | None:
    """Compute a block's sums in the order of what it reads, and turn them afterwards if that pays; the name of the
    block that turns them, which is scheduled."""
    lanes = machine.lanes(info.store.buffer.dtype)
    order = _order(info, lanes)
    if order is None:
        return None
    before = ", ".join(str(i) for i in info.store.indices)
    notes.say(
        f"{info.name}: computed in the order [{', '.join(a.name for a in order)}], in which most of what it reads is, and "
        f"then turned into [{before.replace('v_', '')}]"
    )
    copy: Any = sch.cache_write(info.rv, 0, "global")
    places = [list(info.store.indices).index(a.var) for a in order]
    names = [f"d{n}" for n in range(len(places))]
    layout = eval(f"lambda {', '.join(names)}: [{', '.join(names[n] for n in places)}]")
    sch.transform_layout(info.rv, ("write", 0), layout)
    copy = _computed_by_reader(sch, copy)
    turning = look(sch, copy)
    assert turning is not None  # a plain copy, or what an elementwise block was
    spread(sch, turning, machine, notes)
    return turning.name


def _computed_by_reader(sch: Schedule, copy: Any) -> Any:
    """The block that reads the turned results: the elementwise one that alone reads the copy, which is then none, or the copy."""
    readers = sch.get_consumers(copy)
    reader = look(sch, readers[0]) if len(readers) == 1 else None
    if reader is None or reader.reduced or len(sch.get_producers(reader.rv)) != 1:
        return copy
    sch.compute_inline(copy)
    return reader.rv


def _order(info: BlockInfo, lanes: int) -> list[Axis] | None:
    """The axes of a block's results in the order in which its largest operand has them; None if its results are stored so
    that they are vectors as it is, or what is read is contiguous along what is reduced."""
    stored = list(info.store.indices)
    if not info.reduced or not info.store.plain or not all(isinstance(i, Var) for i in stored) or not info.loads:
        return None
    extents = {a.var: extent_or_guess(a) for a in info.axes}
    largest = max(info.loads, key=lambda a: a.elements(extents))
    terms = math.prod(extents[a.var] for a in info.reduced if a.var in largest.variables)
    if terms < _TERMS or len(stored) != len(info.spatial) or any(largest.step(a.var) is None for a in info.axes):
        return None
    contiguous = {a: _contiguous(info, a, extents) for a in info.axes}
    lead = max(contiguous, key=lambda a: contiguous[a])
    if lead.reduced or extents[lead.var] < max(_NARROW, lanes // 2) or largest.step(lead.var) != 1:
        return None
    if any(contiguous[a] == contiguous[lead] and info.store.step(a.var) == 1 for a in info.spatial):
        return None
    return sorted(info.spatial, key=lambda a: -(largest.step(a.var) or math.inf))


def _contiguous(info: BlockInfo, axis: Axis, extents: dict[Var, int]) -> int:
    """How many elements are read along an axis one after another."""
    along = [a for a in info.loads if a.step(axis.var) == 1 and extents[axis.var] > 1]
    return sum(a.elements(extents) for a in along)
