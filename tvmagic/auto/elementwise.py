"""Schedule blocks without a reduction: inline them, or vectorize and parallelize their own loops."""

from __future__ import annotations

import math
from typing import Any

from tvmagic.auto.loops import hint_partition, in_vectors, share
from tvmagic.auto.program import Access, Axis, BlockInfo, Decisions, distinct, loads_in, look
from tvmagic.ir import And, Not, Or, PrimExpr, structural_equal
from tvmagic.ir.query import variables_in
from tvmagic.target.machine import Machine
from tvmagic.tir.schedule import Schedule

_ENOUGH = 1 << 18  # elements from which threads pay: they take some 20 microseconds, as waking a thread does
_LONG = 8  # elements that take as long as one with a long call, or with one that is read across the lines of the cache
_COMPUTED = 4  # elements that take as long as one that is read at a place that is computed, as of `X[i // 2]`
_SHORT = 8  # loads of an expression that may be repeated in its reader, as what is alike is computed once
_COSTLY = {
    "tir.exp",
    "tir.tanh",
    "tir.sigmoid",
    "tir.log",
    "tir.pow",
    "tir.erf",
    "tir.sin",
    "tir.cos",
    "tir.tan",
    "tir.call_pure_extern",
}


def inline_cheap(sch: Schedule, info: BlockInfo, notes: Decisions) -> bool:
    """Compute an elementwise block in the elementwise blocks that read it, if that repeats no work; whether it was done.

    A block that reads the same element several times, as in `d * d`, computes it once; calls are repeated.
    """
    consumers = sch.get_consumers(info.rv)
    if info.reduced or not consumers:
        return False
    total, short = 0, len(info.loads) <= _SHORT and not info.calls & _COSTLY
    for consumer in consumers:
        reader = look(sch, consumer)
        if reader is None or reader.reduced:
            return False
        loads = [a for a in reader.loads if a.buffer is info.store.buffer]
        total += len(distinct(loads) if short else loads)
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
        order, inner = [], [sch.fuse(*loops.values())]
    elif axis is not None:
        inner = [loops[axis]]
    if order and inner:
        sch.reorder(*order, *inner)
    along = axis.name if axis and not whole else "all axes"
    if inner and axis is not None and _wants_vectors(info, axis):
        notes.say(f"{info.name}: vectors of {lanes} along {along}")
        inner = in_vectors(sch, inner[0], lanes)
    elif inner:
        notes.say(f"{info.name}: a plain loop along {along}, of which LLVM makes vectors")
        if axis is not None and _at_places(info, axis):
            notes.say(f"loops of their own between the places along {axis.name} at which its conditions change")
            hint_partition(sch, inner[0])
    _on_cores(sch, order, inner, info, machine, axis)


def _wants_vectors(info: BlockInfo, axis: Axis) -> bool:
    """Whether vectors are asked for, as LLVM makes none of a loop, or not as good ones: where elements are read that are
    a few places apart, and of long calls.

    What depends on data, or on a condition, is left to it: it knows what a gather and a mask cost on the processor.
    """
    steps = [a.step(axis.var) for a in info.loads]
    if None in steps or any(axis.var in variables_in(c) for c in info.conditions):
        return False
    return bool(info.calls & _COSTLY) or any(abs(step or 0) in range(2, Machine.widest_shuffle + 1) for step in steps)


def _at_places(info: BlockInfo, axis: Axis) -> bool:
    """Whether conditions change at places along an axis that are known without data, as those of padding and triangles do.

    LoopPartition gives what is between two such places a loop of its own. If several conditions move with other axes,
    it leaves them in the loops.
    """
    asked = [c for c in _comparisons(info.conditions) if axis.var in variables_in(c)]
    moving = [c for c in asked if set(variables_in(c)) - {axis.var}]
    return bool(asked) and not any(map(loads_in, asked)) and (not moving or len(asked) == 1)


def _comparisons(conditions: list[PrimExpr]) -> list[PrimExpr]:
    """The parts of conditions that `and`, `or` and `not` join, each once."""
    found: list[PrimExpr] = []
    todo = list(conditions)
    while todo:
        node = todo.pop()
        if isinstance(node, (And, Or)):
            todo += [node.a, node.b]
        elif isinstance(node, Not):
            todo.append(node.a)
        elif not any(structural_equal(node, other) for other in found):
            found.append(node)
    return found


def _flat(info: BlockInfo) -> bool:
    """Whether all axes together run through each array once from begin to end."""
    places = [a.var for a in info.axes]
    plain = [info.store, *info.loads]
    compact = not any(a.buffer.strides for a in plain)
    return compact and all(a.is_at(places) or not a.variables for a in plain) and info.constant and not info.alone


def _on_cores(
    sch: Schedule, order: list[Any], inner: list[Any], info: BlockInfo, machine: Machine, axis: Axis | None
) -> None:
    """The outer loops in parallel; each core gets stretches of what is left of the innermost if there are none."""
    outer = order or inner
    computed = axis is not None and any(a.step(axis.var) is None for a in info.loads)
    weight = _LONG if info.calls & _COSTLY else _COMPUTED if computed else _moved(info)
    if outer and _size(info.axes) * weight >= _ENOUGH:
        share(sch, outer, machine)


def _moved(info: BlockInfo) -> int:
    """How many times as long as for one of 32 bits, read and written once, the loads and stores for an element take."""
    wide = max(1, info.store.buffer.dtype.bits // 32)
    return wide * max(1, len(distinct(info.loads)) // 2)


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
    for loops_of, a, part in (((far, near), axis, width), ((far_other, near_other), other, height)):
        if a.extent is None or a.extent % part:
            hint_partition(sch, *loops_of)
    outer = [*rest, far_other]
    if _size(info.axes) * _LONG >= _ENOUGH:
        share(sch, outer[: len(outer) - bool((other.extent or 1) % height and len(outer) > 1)], machine)
