"""Fuse the tiled loops of a program into one loop per axis, so that the rules recognize them."""

from __future__ import annotations

from typing import Any

from tvmagic.auto.loops import extent_of
from tvmagic.auto.program import Decisions
from tvmagic.ir import ForKind, PrimExpr
from tvmagic.ir.query import is_one, is_zero, linear_terms
from tvmagic.tir.schedule import Schedule, ScheduleError


def join_tiles(sch: Schedule, block: Any, notes: Decisions) -> None:
    """Fuse the serial loops of a block that an axis is split into, the axes in the order in which the block has them.

    Nothing is done if an axis is something else than its loops' places in a row, or under a condition.
    """
    loops = list(sch.get_loops(block))
    realize = sch.state.realize_of(sch.get_sref(block))
    if not is_one(realize.predicate):
        return
    by_var: dict[PrimExpr, Any] = {sch.get(loop).loop_var: loop for loop in loops}
    if any(sch.get(x).kind != ForKind.SERIAL or sch.get(x).annotations or not is_zero(sch.get(x).min) for x in loops):
        return
    groups = [_digits(sch, value, by_var) for value in realize.iter_values]
    order = [loop for group in groups for loop in group or ()]
    tiled = [group for group in groups if group and len(group) > 1]
    if not tiled or None in groups or len(order) != len(loops) or {id(x) for x in order} != {id(x) for x in loops}:
        return
    at = len(sch.trace.insts)
    try:
        if [id(x) for x in order] != [id(x) for x in loops]:
            sch.reorder(*order)
    except ScheduleError:  # another block is in some of the loops
        return
    for group in tiled:
        sch.fuse(*group)
    name = realize.block.name_hint
    notes.items.append((at, f"{name}: its tiles are put together again, one loop for each axis"))


def _digits(sch: Schedule, value: PrimExpr, loops: dict[PrimExpr, Any]) -> list[Any] | None:
    """The loops of which a value is made as a number of its digits, the outermost first; None if it is not."""
    terms, rest = linear_terms(value)
    if rest or any(factor <= 0 or term not in loops for term, factor in terms):
        return None
    terms.sort(key=lambda part: -part[1])
    found = [loops[term] for term, _ in terms]
    size = 1
    for loop, (_, factor) in zip(reversed(found), reversed(terms)):
        extent = extent_of(sch, loop)
        if factor != size or (extent is None and loop is not found[0]):
            return None
        size *= extent or 1
    return found
