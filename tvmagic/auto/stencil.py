"""Schedule pipelines of elementwise stages that read adjacent elements: blurs, sharpening, corner detection.

After Halide's automatic scheduler (Mullapudi and others, 2016): the stages are computed tile by tile of the last one,
at the cost of computing the rims of neighbouring tiles twice, so that what is between them stays in registers or cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvmagic.auto.elementwise import vector_axis
from tvmagic.auto.loops import hint_partition, own_loops, share, vector_parts
from tvmagic.auto.program import Access, Axis, BlockInfo, Decisions
from tvmagic.target.machine import Machine
from tvmagic.tir.schedule import Schedule

_ROWS, _COLUMNS = 32, 256  # of a tile whose stages stay in the second cache
_FEW = 6  # rows of a tile in registers: its first stage is computed for two more, say


@dataclass
class Pipeline:
    """Stages that only each other and `out` read; `row` and `column` are the axes of `out` that are tiled."""

    out: BlockInfo
    members: list[BlockInfo]
    row: Axis
    column: Axis


def pipeline_before(sch: Schedule, out: BlockInfo, candidates: list[BlockInfo]) -> Pipeline | None:
    """The stages before a block that are computed tile by tile with it; None if there are none."""
    column = vector_axis(out)
    rows = [a for a in out.spatial if a is not column and (a.extent is None or a.extent > 1)]
    if out.reduced or column is None or not rows or not out.constant:
        return None
    names = {out.name: out}
    members: list[BlockInfo] = []
    for info in reversed(candidates):
        readers = [names.get(sch.get(c).name_hint) for c in sch.get_consumers(info.rv)]
        if not readers or None in readers or info.reduced or not info.constant:
            continue
        names[info.name] = info
        members.insert(0, info)
    return Pipeline(out, members, rows[-1], column) if members else None


def apply(sch: Schedule, plan: Pipeline, machine: Machine, notes: Decisions) -> None:
    """Schedule a pipeline in tiles of its last stage."""
    out = plan.out
    lanes = machine.lanes(out.store.buffer.dtype)
    names = ", ".join(i.name for i in plan.members)
    loops = dict(zip(out.axes, sch.get_loops(out.rv)))
    others = [loops[a] for a in out.axes if a not in (plan.row, plan.column)]
    small = len(plan.members) == 1 and _only_rows(plan, plan.members[0])
    assert plan.row.extent is not None and plan.column.extent is not None
    if small:
        notes.say(f"{names}: computed for {_FEW} rows of {out.name} at a time, a vector of {lanes} wide, in registers")
        height, width = min(_FEW, plan.row.extent), lanes
    else:
        height, width = min(_ROWS, plan.row.extent), min(_COLUMNS, plan.column.extent)
        notes.say(f"{names}: computed for a tile of {height} x {width} of {out.name} at a time, which stays in cache")
    row, rows = sch.split(loops[plan.row], [None, height])
    column, columns = sch.split(loops[plan.column], [None, width])
    sch.reorder(*others, row, column, rows, columns)
    for info in reversed(plan.members):
        if small:
            sch.set_scope(info.rv, 0, "local")
        sch.compute_at(info.rv, column)
    outer = [*others, row]
    share(sch, outer, machine)
    for loop, extent, size in ((row, plan.row.extent, height), (column, plan.column.extent, width)):
        if extent % size and not (loop is row and others):
            hint_partition(sch, loop)
    if not small:
        vector_parts(sch, columns, lanes, bool(out.calls))
        for info in plan.members:
            _stage(sch, info, lanes)
        return
    sch.unroll(rows)
    sch.vectorize(columns)
    across = sch.get_loops(plan.members[0].rv)
    sch.unroll(across[-2])
    sch.vectorize(across[-1])


def _only_rows(plan: Pipeline, info: BlockInfo) -> bool:
    """Whether the last stage reads a stage at its own column only, and the stage's column is the last of two axes."""
    axis = vector_axis(info)
    loads = [a for a in plan.out.loads if a.buffer is info.store.buffer]
    if axis is None or info.axes[-1] is not axis or len(info.axes) < 2:
        return False
    place = next(n for n, i in enumerate(info.store.indices) if i is axis.var)
    return all(a.indices[place] is plan.column.var and _near(a, plan.row) for a in loads)


def _near(access: Access, row: Axis) -> bool:
    return any(access.coefficient(n, row.var) == 1 for n in range(len(access.indices)))


def _stage(sch: Schedule, info: BlockInfo, lanes: int) -> None:
    axis = vector_axis(info)
    loop: Any = own_loops(sch, info.rv, 1).get(axis.var) if axis is not None else None
    if loop is not None:
        vector_parts(sch, loop, lanes, bool(info.calls))
