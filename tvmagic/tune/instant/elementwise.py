"""The rule for blocks without a reduction: computed in their readers or on their own, in vectors, on all cores."""

from __future__ import annotations

import math
from typing import Any

from tvmagic.codegen.target.machine import Machine
from tvmagic.tir.schedule import Schedule
from tvmagic.tune.instant.loops import extent_of, hint_partition
from tvmagic.tune.instant.program import Access, Axis, BlockInfo, Decisions, look

__all__ = ["inline_cheap", "spread", "vector_axis"]

_CHUNK = 8192  # elements of a chunk at least: less does not pay for waking a thread
_COSTLY = {
    "tir.exp",
    "tir.tanh",
    "tir.sigmoid",
    "tir.log",
    "tir.pow",
    "tir.erf",
    "tir.sin",
    "tir.cos",
    "tir.call_pure_extern",
}


def inline_cheap(sch: Schedule, info: BlockInfo, notes: Decisions) -> bool:
    """Compute an elementwise block in the elementwise blocks that read it, if that repeats no work; whether it was done."""
    consumers = sch.get_consumers(info.rv)
    if info.reduced or not consumers:
        return False
    total = 0
    for consumer in consumers:
        reader = look(sch, consumer)
        if reader is None or reader.reduced:
            return False
        loads = [a for a in reader.loads if a.buffer is info.store.buffer]
        total += len(loads)
        if _size(reader.axes) > _size(info.axes) and not _trivial(info):
            return False
    if total > 1 and not _trivial(info):
        return False
    notes.say(f"{info.name} is computed where it is read")
    sch.compute_inline(info.rv)
    return True


def _trivial(info: BlockInfo) -> bool:
    """Whether a block only moves elements, or does next to nothing with them."""
    return len(info.loads) <= 1 and not info.calls & _COSTLY


def _size(axes: list[Axis]) -> float:
    return math.prod(a.extent or 256 for a in axes)


def vector_axis(info: BlockInfo) -> Axis | None:
    """The axis along which most accesses move by one element, the store before all; None if no store does."""
    best, most = None, 0.0
    for axis in info.spatial:
        if axis.extent is not None and axis.extent < 2:
            continue
        score = 100.0 * (info.store.step(axis.var) == 1) + sum(_moves(a, axis) for a in info.loads)
        if score >= max(most, 50.0):
            best, most = axis, score
    return best


def _moves(access: Access, axis: Axis) -> float:
    step = access.step(axis.var)
    return 1.0 if step == 1 else 0.5 if step == 0 else 0.0


def spread(sch: Schedule, info: BlockInfo, machine: Machine, notes: Decisions) -> None:
    """Vectors along the contiguous axis of an elementwise block, and its other loops on all cores."""
    loops = dict(zip(info.axes, sch.get_loops(info.rv)))
    if not loops:
        return
    axis = vector_axis(info)
    lanes = machine.lanes(info.store.buffer.dtype)
    if axis is not None and (other := _crossed(info, axis)) is not None:
        _transposed(sch, info, loops, axis, other, machine, notes)
        return
    order = [loop for a, loop in loops.items() if a is not axis]
    inner: list[Any] = []
    whole = _flat(info) and len(loops) > 1
    if whole:
        fused = sch.fuse(*loops.values())
        order, inner = [], [fused]
    elif axis is not None:
        inner = [loops[axis]]
    hint = None
    if inner:
        extent = extent_of(sch, inner[0])
        if extent is None or extent % lanes == 0 or info.calls:
            if extent is None or extent > lanes:
                far, near = sch.split(inner[0], [None, lanes])
                if extent is None or extent % lanes:
                    hint = far
                inner = [far, near]
            notes.say(f"{info.name}: vectors of {lanes} along {axis.name if axis and not whole else 'all axes'}")
    if order and inner:
        sch.reorder(*order, *inner)
    if inner and (hint is not None or len(inner) == 2 or extent_of(sch, inner[-1]) == lanes):
        sch.vectorize(inner[-1])
        outer = [*order, *inner[:-1]]
    else:
        outer = [*order, *inner]
    if hint is not None:
        hint_partition(sch, hint)
    _on_cores(sch, outer, order, info, machine)


def _flat(info: BlockInfo) -> bool:
    """Whether all axes together run through each array once from begin to end."""
    places = [a.var for a in info.axes]
    plain = [info.store, *info.loads]
    return all(list(a.indices) == places or not a.variables for a in plain) and info.constant


def _on_cores(sch: Schedule, outer: list[Any], order: list[Any], info: BlockInfo, machine: Machine) -> None:
    """The outer loops in parallel, in chunks of some size."""
    if not outer or _size(info.axes) < _CHUNK:
        return
    if len(outer) == 1 and not order:
        extent = extent_of(sch, outer[0])
        if extent is not None and extent > machine.cores:
            chunk = max(1, _CHUNK // machine.lanes(info.store.buffer.dtype))
            while extent % chunk and chunk > 1:
                chunk -= 1
            if chunk > 1:
                outer = list(sch.split(outer[0], [None, chunk]))
        sch.parallel(outer[0])
        return
    sch.parallel(order[0] if len(order) == 1 else sch.fuse(*order) if order else outer[0])


def _crossed(info: BlockInfo, axis: Axis) -> Axis | None:
    """Another axis along which something is read that moves far along `axis`: a transpose."""
    for access in info.loads:
        if access.step(axis.var) not in (0, 1):
            for other in info.spatial:
                if access.step(other.var) == 1 and (other.extent or 256) >= 8 and (axis.extent or 256) >= 8:
                    return other
    return None


def _transposed(
    sch: Schedule, info: BlockInfo, loops: dict[Axis, Any], axis: Axis, other: Axis, machine: Machine, notes: Decisions
) -> None:
    """Tiles that are read in whole cache lines and written in vectors.

    Lines that are a power of two apart share a set of the cache, which holds some eight of them: a tile reads from no more.
    """
    size = max(1, info.store.buffer.dtype.bits // 8)
    height, width = machine.line // size, 8 if size >= 4 else 16
    if other.extent is not None and other.extent % height and other.extent % (height // 2) == 0:
        height //= 2
    notes.say(
        f"{info.name}: tiles of {height} x {width}, as it is read along {other.name} and written along {axis.name}: "
        f"{width} lines are read together, each as a whole"
    )
    far, near = sch.split(loops[axis], [None, width])
    far_other, near_other = sch.split(loops[other], [None, height])
    rest = [loop for a, loop in loops.items() if a not in (axis, other)]
    sch.reorder(*rest, far_other, far, near_other, near)
    sch.vectorize(near)
    for loop, a, part in ((far, axis, width), (far_other, other, height)):
        if a.extent is None or a.extent % part:
            hint_partition(sch, loop)
    outer = [*rest, far_other]
    if _size(info.axes) >= _CHUNK:
        sch.parallel(outer[0] if len(outer) == 1 or (other.extent or 1) % height else sch.fuse(*outer))
