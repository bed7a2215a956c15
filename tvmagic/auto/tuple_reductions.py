"""Schedule reductions of several values at once, such as `argmax`: an index and its value.

Each lane of a vector searches a part of what is reduced over, and the few results are combined at the end; or each lane
has a result of its own: if the results are contiguous where what is read is, or if no vectors divide what is reduced
over, so that the lanes gather from several rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvmagic import ir
from tvmagic.auto.loops import extent_of, fused, hint_partition, own_loops
from tvmagic.auto.program import Access, Axis, Decisions, axes_of, loads_in
from tvmagic.ir.query import is_call
from tvmagic.target.machine import Machine
from tvmagic.tir.schedule import Schedule

_STEPS = 8  # that each lane does at least: the partial results are combined one by one
_ROWS = 32  # from which lanes gather, several vectors together; of more the first cache does not hold a line of each
_GATHERED = 8  # lanes from which gathers of integers pay
_TOGETHER = 8  # values that are compared with a result before it is stored, if not all of them
_ENOUGH = 1 << 15  # values from which threads pay


@dataclass(frozen=True)
class Pairs:
    """A block that reduces several values at once over `over`, `width` results or partial results at a time, in vectors
    of `lanes` along the axis `along`. `stretch`: how many results stay in the first cache, if that is better."""

    rv: Any
    name: str
    axes: list[Axis]
    over: Axis
    along: Axis
    width: int
    lanes: int
    stretch: int = 0


def pairs_of(sch: Schedule, rv: Any, machine: Machine) -> Pairs | None:
    """What the rule knows of a block; None if it does not fit: it is not such a reduction, or of more than one axis."""
    block = sch.get(rv)
    axes = axes_of(block)
    stores = _stores(block.body)
    if block.init is None or len(stores) < 2 or axes is None or len(sch.get_loops(rv)) != len(axes):
        return None
    over = [a for a in axes if a.reduced]
    written = {s.buffer for s in stores}
    loads = [a for a in loads_in(block.body) if a.buffer not in written]
    if len(over) != 1 or any(a.step(axis.var) is None for a in loads for axis in axes):
        return None
    lanes = min(machine.lanes(b.dtype) for b in written)
    contiguous = any(a.step(over[0].var) == 1 for a in loads)
    parted = contiguous and _any_order(block.body, written)
    if parted:
        width, vector = _dividing(over[0], lanes)
        if 2 * vector >= lanes:
            return Pairs(rv, block.name_hint, axes, over[0], over[0], width, vector)
    worth = lanes >= _GATHERED or any(b.dtype.is_float for b in written)  # of numbers without NaN a step is short
    if not contiguous or worth:
        for axis in axes:
            own = not axis.reduced and all(Access(s.buffer, tuple(s.indices)).step(axis.var) == 1 for s in stores)
            read = contiguous or any(a.step(axis.var) == 1 for a in loads)
            if own and read and (axis.extent is None or axis.extent >= (_ROWS if contiguous else lanes)):
                width = _ROWS if contiguous else _neighbours(axis, lanes)
                stretch = 0 if contiguous else _stretch(axis, over[0], written, lanes, machine)
                return Pairs(rv, block.name_hint, axes, over[0], axis, width, min(lanes, width), stretch)
    return Pairs(rv, block.name_hint, axes, over[0], over[0], width, vector) if parted and width else None


def _any_order(body: Any, written: set[ir.Buffer]) -> bool:
    """Whether the results are the same in whichever order values are taken in: of equal ones a choice between what is kept and
    what comes would else keep another one, so it has to compare two parts of what is kept, as a value and its place."""
    compared: set[ir.Buffer] = set()
    chosen = False

    def look(node: Any) -> None:
        nonlocal chosen
        if isinstance(node, ir.Select) or is_call(node, "tir.if_then_else"):
            condition = node.condition if isinstance(node, ir.Select) else node.args[0]
            chosen = chosen or any(a.buffer in written for a in loads_in(condition))
        elif isinstance(node, ir.CmpOp):
            compared.update(a.buffer for a in loads_in(node) if a.buffer in written)

    ir.post_order_visit(body, look)
    return not chosen or len(compared) > 1


def _dividing(axis: Axis, lanes: int) -> tuple[int, int]:
    """How many partial results there are along an axis, and how many of them are a vector; (0, 0) if none divide it.

    No lane may ask where the axis ends, and lanes that are not a power of two would be kept one by one. Several vectors
    together hide how long each waits for its last result.
    """
    extent = axis.extent or 1
    vector = next((n for n in (lanes, lanes // 2, lanes // 4, lanes // 8) if 2 <= n < extent and extent % n == 0), 0)
    if not vector:
        return 0, 0
    most = max(1, extent // (vector * _STEPS))
    count = next((n for n in (4, 3, 5, 2, 1) if extent // vector % n == 0 and n <= most), 0)
    return count * vector, vector


def _neighbours(axis: Axis, lanes: int) -> int:
    """How many results along an axis are kept at a time: if possible a divisor, else whole vectors."""
    most = 4 if axis.extent is None else min(4, axis.extent // lanes)
    even = [n * lanes for n in (4, 3, 2, 1) if axis.extent is not None and axis.extent % (n * lanes) == 0]
    return even[0] if even else (4 if most == 4 else 2 if most >= 2 else 1) * lanes


def _stretch(axis: Axis, over: Axis, written: set[ir.Buffer], lanes: int, machine: Machine) -> int:
    """How many results along an axis are kept in the first cache; 0 if the values of all of them are in the second one."""
    if axis.extent is None or over.extent is None or over.extent < 2 * _TOGETHER:
        return 0
    kept = sum(b.dtype.bytes for b in written)
    if axis.extent * over.extent * min(b.dtype.bytes for b in written) <= machine.cache(2) // 2:
        return 0
    return min(axis.extent, machine.cache(1) // 2 // kept) // lanes * lanes


def _stores(body: Any) -> list[ir.BufferStore]:
    """The stores of a body that computes some values and then stores them; empty for any other."""
    while isinstance(body, ir.LetStmt):
        body = body.body
    parts: list[Any] = list(body.seq) if isinstance(body, ir.SeqStmt) else [body]
    return parts if all(isinstance(part, ir.BufferStore) for part in parts) else []


def apply(sch: Schedule, found: Pairs, machine: Machine, notes: Decisions) -> None:
    """Vectors along the chosen axis, rows or stretches of results in parallel."""
    (_in_lanes if found.along is found.over else _of_neighbours)(sch, found, machine, notes)


def _in_lanes(sch: Schedule, found: Pairs, machine: Machine, notes: Decisions) -> None:
    """Each lane searches every so many-th value of what is reduced over."""
    notes.say(
        f"{found.name}: {found.width} partial results along {found.over.name}, in vectors of {found.lanes}, combined at the end"
    )
    loops = dict(zip(found.axes, sch.get_loops(found.rv)))
    spatial = [loops[a] for a in found.axes if not a.reduced]
    _, near = sch.split(loops[found.over], [None, found.width])
    stages = [sch.rfactor(near, len(spatial))]
    if found.width > found.lanes:  # as vectors too, so that no more than a vector is left to be combined one by one
        _, lane = sch.split(sch.get_loops(found.rv)[-1], [None, found.lanes])
        stages.insert(0, sch.rfactor(lane, len(spatial)))
    if spatial:
        row = fused(sch, sch.get_loops(found.rv)[: len(spatial)])
        for stage in stages:
            sch.compute_at(stage, row)
        if _many(found):
            sch.parallel(row)
    for stage in stages:
        _lanes(sch, stage, found, 1 if spatial else 0)


def _lanes(sch: Schedule, partial: Any, found: Pairs, below: int) -> None:
    """Vectors for the partial results that a block below `below` loops gives."""
    own = own_loops(sch, partial, below)
    lane, *others = [own[iv.var] for iv in sch.get(partial).iter_vars if iv.var in own]
    sch.reorder(others[-1], lane)
    count = extent_of(sch, lane)
    if count is not None and count > found.lanes:
        piece, lane = sch.split(lane, [None, found.lanes])
        sch.unroll(piece)
    sch.vectorize(lane)
    sch.decompose_reduction(partial, others[-1])


def _of_neighbours(sch: Schedule, found: Pairs, machine: Machine, notes: Decisions) -> None:
    """Each lane has a result of its own. The results stay in registers; or many of them in the first cache, if the values are
    not in the second one, which loads long stretches of rows ahead."""
    long = found.stretch > found.width
    width = found.stretch if long else found.width
    steps = _steps(found.over) if long else 1
    stay = f"stay in the first cache, {steps} values are compared with each at once" if long else "stay in registers"
    notes.say(f"{found.name}: {width} results at a time along {found.along.name}, in vectors, {stay}")
    loops = dict(zip(found.axes, sch.get_loops(found.rv)))
    others = [loops[a] for a in found.axes if not a.reduced and a is not found.along]
    far, near = sch.split(loops[found.along], [None, width])
    step, *some = sch.split(loops[found.over], [None, steps]) if long else [loops[found.over]]
    *parts, lane = sch.split(near, [None, found.lanes]) if width > found.lanes else [near]
    sch.reorder(*others, far, step, *parts, *some, lane)
    uneven = found.along.extent is None or found.along.extent % width
    if uneven:
        hint_partition(sch, far, *parts, lane)
    if some and (found.over.extent or 0) % steps:
        hint_partition(sch, step, *some)
    if _many(found) and (others or (extent_of(sch, far) or 2) > 1):
        whole = others if uneven and others else [*others, far]
        sch.parallel(fused(sch, whole))
    for part in some if long else parts:
        sch.unroll(part)
    sch.vectorize(lane)
    sch.decompose_reduction(found.rv, step)


def _steps(over: Axis) -> int:
    """How many values are compared with a result before it is stored."""
    return next((n for n in range(_TOGETHER, _TOGETHER // 2, -1) if (over.extent or 1) % n == 0), _TOGETHER)


def _many(found: Pairs) -> bool:
    """Whether there are values enough for threads; a symbolic size counts as large."""
    return math.prod(_ENOUGH if a.extent is None else a.extent for a in found.axes) >= _ENOUGH
