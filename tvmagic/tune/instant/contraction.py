"""The rule for contractions: sums of products of two operands, in whatever order their indices are.

After the analytical model of BLIS (Low, Igual, Smith, Quintana-Orti: Analytical Modeling Is Enough for High-Performance
BLIS, 2016): a tile of sums stays in registers; the operand that is read as vectors is packed into panels as wide as the tile;
a block of the other one stays in the second cache while all panels pass by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from tvmagic.codegen.target.machine import Machine, Tile
from tvmagic.ir import Add, IntImm, Max, Min, Mul, Var
from tvmagic.tir.schedule import Schedule
from tvmagic.tune.instant.loops import chunks, copy_block
from tvmagic.tune.instant.program import Access, Axis, BlockInfo, Decisions, look

__all__ = ["Plan", "apply", "plan_contraction"]

_PACK_ROWS = 32  # rows of the product from which packing the vector operand is worth its copy


@dataclass
class Plan:
    """How a contraction is computed.

    `wide` is read as vectors along `column`, `narrow` one element at a time, along `row` (None where there is one row).
    `tile` is what stays in registers; `pad` is whether the sizes are rounded up to it.
    """

    info: BlockInfo
    wide: Access
    narrow: Access
    column: Axis
    row: Axis | None
    tile: Tile
    pad: bool
    pack_wide: bool
    pack_narrow: bool
    cost: float = field(default=math.inf)

    def padded(self, axis: Axis) -> int:
        """The extent of an axis, rounded up to the tile where sizes are."""
        assert axis.extent is not None
        size = self.tile.columns if axis is self.column else self.tile.rows if axis is self.row else 1
        return -(-axis.extent // size) * size if self.pad else axis.extent


def plan_contraction(info: BlockInfo, machine: Machine) -> Plan | None:
    """The cheapest way to compute a block as a contraction; None where it is not one."""
    if info.combine not in (Add, Max, Min, Mul) or not info.constant or not info.store.plain:
        return None
    operands = [a for a in info.loads if a.variables]
    if len(operands) != 2 or operands[0].buffer is operands[1].buffer or any(not a.extent for a in info.axes):
        return None
    best: Plan | None = None
    for wide, narrow in (operands, operands[::-1]):
        for column in info.spatial:
            if column.var not in wide.variables or column.var in narrow.variables or (column.extent or 0) < 2:
                continue
            for plan in _plans(info, machine, wide, narrow, column):
                if best is None or plan.cost < best.cost:
                    best = plan
    return best


def _plans(info: BlockInfo, machine: Machine, wide: Access, narrow: Access, column: Axis) -> list[Plan]:
    """The ways with vectors along `column` of the operand `wide`."""
    rows = [
        a for a in info.spatial if a.var in narrow.variables and a.var not in wide.variables and (a.extent or 0) > 1
    ]
    if not rows:
        return []
    padding = info.store.plain and wide.plain and narrow.plain and info.combine is Add and _is_product(info)
    lanes = machine.lanes(info.store.buffer.dtype)
    found: list[Plan] = []
    for row in rows:
        for count, vectors in machine.tiles():
            shape = Tile(count, vectors, lanes)
            plan = _planned(info, machine, wide, narrow, column, row, shape, padding)
            if plan is not None:
                found.append(plan)
    return found


def _is_product(info: BlockInfo) -> bool:
    return isinstance(info.value, Mul)


def _planned(
    info: BlockInfo, machine: Machine, wide: Access, narrow: Access, column: Axis, row: Axis, tile: Tile, padding: bool
) -> Plan | None:
    assert column.extent is not None and row.extent is not None
    if tile.rows > row.extent or tile.columns >= 2 * max(column.extent, tile.lanes):
        return None
    uneven = column.extent % tile.columns != 0 or row.extent % tile.rows != 0
    if uneven and not padding:
        return None
    rows = math.prod(a.extent or 1 for a in info.spatial if a.var in narrow.variables and a.var not in wide.variables)
    last = info.reduced[-1].var if info.reduced else None
    pack_wide = wide.plain and (uneven or wide.step(column.var) != 1 or rows >= _PACK_ROWS)
    if wide.step(column.var) != 1 and not pack_wide:
        return None
    streams = narrow.step(last) in (0, 1) if last is not None else True
    pack_narrow = narrow.plain and (row.extent % tile.rows != 0 or not streams)
    plan = Plan(info, wide, narrow, column, row, tile, uneven, pack_wide, pack_narrow)
    plan.cost = _cost(plan, machine, rows)
    return plan


def _cost(plan: Plan, machine: Machine, rows: int) -> float:
    """Cycles by the model: steps of the tile, copies into packed operands, stores of the result."""
    info, tile = plan.info, plan.tile
    extents = {a.var: plan.padded(a) for a in info.axes}
    steps = math.prod(extents.values()) / (tile.rows * tile.columns)
    cycles = steps * (
        machine.tile_cost(tile.rows, tile.vectors) - 0.02 * tile.rows * tile.vectors / (tile.rows + tile.vectors)
    )
    columns = extents[plan.column.var]
    if plan.pack_wide:
        contiguous = plan.wide.step(plan.column.var) == 1
        cycles += plan.wide.elements(extents) * (2 / tile.lanes if contiguous else 1.5)
    if plan.pack_narrow:
        cycles += plan.narrow.elements(extents) * 1.2
    stored = math.prod(e for a, e in zip(info.axes, extents.values()) if not a.reduced)
    contiguous = info.store.step(plan.column.var) == 1
    cycles += stored * (1 / tile.lanes if contiguous and not plan.column.extent % tile.lanes else 1.0)
    del rows, columns
    return cycles


# ---------------------------------------------------------------------------- applying it


def apply(sch: Schedule, plan: Plan, machine: Machine, notes: Decisions) -> None:
    """Schedule a contraction as planned, with the elementwise blocks after it joined to its tiles."""
    _Application(sch, plan, machine, notes).run()


class _Application:
    def __init__(self, sch: Schedule, plan: Plan, machine: Machine, notes: Decisions) -> None:
        self.sch, self.plan, self.machine, self.notes = sch, plan, machine, notes
        self.block = plan.info.rv

    def run(self) -> None:
        plan, sch = self.plan, self.sch
        self.notes.say(plan.tile.words(self.machine))
        if plan.pad:
            self._pad()
        wide = self._packed(plan.wide, plan.column, plan.tile.columns) if plan.pack_wide else None
        narrow = self._packed(plan.narrow, plan.row, plan.tile.rows) if plan.pack_narrow else None
        last = self._last()
        del sch
        self._tile(wide, narrow, last)

    # ------------------------------------------------------------------------ sizes, packing

    def _pad(self) -> None:
        """Round the sizes up to the tile."""
        plan = self.plan
        sizes = {plan.column: plan.tile.columns, plan.row: plan.tile.rows}
        names = [
            f"{a.name} {a.extent} to {plan.padded(a)}"
            for a in (plan.row, plan.column)
            if a and plan.padded(a) != a.extent
        ]
        self.notes.say(
            f"sizes rounded up to whole tiles in the packed copies, so that no step asks: {', '.join(names)}"
        )
        self.sch.pad_einsum(self.block, [sizes.get(a, 1) for a in plan.info.axes])

    def _reading(self, access: Access) -> int:
        """Which of the block's reads is the one of an operand, whose buffer may have been replaced."""
        reads = self.sch.get(self.block).reads
        for number, region in enumerate(reads):
            if region.buffer is access.buffer or region.buffer.name in (f"{access.buffer.name}_pad",):
                return number
        raise LookupError(access.buffer.name)

    def _packed(self, access: Access, axis: Axis | None, width: int) -> Any:
        """A copy of an operand in panels of `width` elements of `axis`; the block that writes it."""
        assert axis is not None
        sch, plan = self.sch, self.plan
        number = self._reading(access)
        buffer = sch.get(self.block).reads[number].buffer
        copy = None
        if buffer is not access.buffer:
            copy = next(p for p in sch.get_producers(self.block) if sch.get(p).writes[0].buffer is buffer)
        else:
            copy = sch.cache_read(self.block, number, "global")
        place = {v: n for n, v in enumerate(access.indices) if isinstance(v, Var)}
        others = [a for a in plan.info.axes if a.var in place and a is not axis]
        batch = [a for a in others if not a.reduced and a.var in plan.wide.variables and a.var in plan.narrow.variables]
        inner = [a for a in others if a.reduced]
        outer = [a for a in others if a not in batch and a not in inner]
        fixed = [n for n, v in enumerate(access.indices) if not isinstance(v, Var)]

        def layout(*d: Any) -> list[Any]:
            at = d[place[axis.var]]
            return [
                *[d[n] for n in fixed],
                *[d[place[a.var]] for a in (*batch, *outer)],
                at // width,
                *[d[place[a.var]] for a in inner],
                at % width,
            ]

        names = ", ".join(f"d{n}" for n in range(len(access.indices)))
        function = eval(f"lambda {names}: layout({names})", {"layout": layout})  # of as many parameters as dimensions
        why = "strided" if access.step(axis.var) != 1 else "read again for each tile"
        self.notes.say(f"{access.buffer.name} is {why}: copied into panels of {width} along {axis.name}")
        sch.transform_layout(copy, ("write", 0), function)
        self._inline_producer(copy)
        return copy

    def _inline_producer(self, copy: Any) -> None:
        """An elementwise block that only the copy reads is computed while copying."""
        sch = self.sch
        for producer in sch.get_producers(copy):
            info = look(sch, producer)
            if info is not None and not info.reduced and len(sch.get_consumers(producer)) == 1:
                self.notes.say(f"{info.name} is computed while it is copied")
                sch.compute_inline(producer)

    # ------------------------------------------------------------------------ what follows the sums

    def _last(self) -> Any:
        """The block that stores the tile: the last of the elementwise blocks that follow, or a copy."""
        sch, block = self.sch, self.block
        chain: list[Any] = []
        current = block
        while True:
            consumers = sch.get_consumers(current)
            if len(consumers) != 1:
                break
            info = look(sch, consumers[0])
            if info is None or not self._follows(current, info):
                break
            chain.append(consumers[0])
            current = consumers[0]
        if not chain:
            return sch.cache_write(block, 0, "local")
        names = [sch.get(b).name_hint for b in chain[(1 if self.plan.pad else 0) :]]
        if names:
            self.notes.say(f"{', '.join(names)} computed on each tile before it leaves the registers")
        for middle in chain[:-1]:
            sch.compute_inline(middle)
        sch.set_scope(block, 0, "local")
        return chain[-1]

    def _follows(self, producer: Any, info: BlockInfo) -> bool:
        """Whether a block reads each element of the producer's result once, at the place that it writes."""
        result = self.sch.get(producer).writes[0].buffer
        loads = [a for a in info.loads if a.buffer is result]
        if info.reduced or len(loads) != 1 or not loads[0].plain or not info.store.plain:
            return False
        return loads[0].variables == {a.var for a in info.axes if a.extent != 1} | loads[0].variables

    # ------------------------------------------------------------------------ loops

    def _tile(self, wide: Any, narrow: Any, last: Any) -> None:
        sch, plan, machine = self.sch, self.plan, self.machine
        axes = plan.info.axes
        loops = dict(zip(axes, sch.get_loops(self.block)))
        tile = plan.tile
        assert plan.row is not None
        # 1. the loops of the tile
        column, columns, lanes = sch.split(loops[plan.column], [None, tile.vectors, tile.lanes])
        row, rows = sch.split(loops[plan.row], [None, tile.rows])
        # 2. how much of the operand that is read by elements stays in the second cache
        outer, inner = self._blocks(loops, row)
        reduced = [loops[a] for a in plan.info.reduced]
        panel = [column]
        sch.reorder(*outer, *panel, *inner, *reduced, rows, columns, lanes)
        if len(outer) < 1 or self._count(outer) < machine.cores:
            outer, panel = [*outer, column], []
        # 3. what stores the tile, and the copies
        self.notes.say("the tile is stored once its sums are complete")
        sch.reverse_compute_at(last, (inner or panel or outer)[-1])
        everywhere = sch.fuse(*outer) if len(outer) > 1 else outer[0]
        if narrow is not None:
            sch.compute_at(narrow, everywhere)
        self.notes.say(f"{self._count([everywhere])} blocks in parallel on {machine.cores} cores")
        sch.parallel(everywhere)
        sch.unroll(rows)
        sch.unroll(columns)
        sch.vectorize(lanes)
        sch.decompose_reduction(self.block, reduced[0])
        self._store(last)
        if wide is not None:
            copy_block(sch, wide, plan.wide, plan.column, tile.columns, machine)
        if narrow is not None:
            copy_block(sch, narrow, plan.narrow, plan.row, tile.rows, machine, below=1)

    def _blocks(self, loops: dict[Axis, Any], row: Any) -> tuple[list[Any], list[Any]]:
        """The loops outside of the panels and those inside, so that what is read by elements inside stays in cache."""
        sch, plan, machine = self.sch, self.plan, self.machine
        limit = machine.cache(2) // 2
        narrow = plan.narrow
        size = narrow.buffer.dtype.bits // 8
        extents = {a.var: plan.padded(a) for a in plan.info.reduced}
        assert plan.row is not None
        extents[plan.row.var] = plan.tile.rows
        others = [
            a for a in plan.info.spatial
            if a not in (plan.row, plan.column) and a.var in narrow.variables and a.var not in plan.wide.variables
        ]  # fmt: skip
        outer = [loops[a] for a in plan.info.spatial if a not in (plan.row, plan.column, *others)]
        inner: list[Any] = []
        full = True
        for axis, loop, unit in [(plan.row, row, plan.tile.rows), *[(a, loops[a], 1) for a in reversed(others)]]:
            count = plan.padded(axis) // unit
            fits = 1
            for wanted in range(1, count + 1) if full else ():
                extents[axis.var] = wanted * unit
                if narrow.elements(extents) * size > limit:
                    break
                fits = wanted
            tasks = max(1, count // 2) if machine.cores > 1 and axis is plan.row else count
            chosen = min(fits, tasks) if full else 1
            extents[axis.var] = chosen * unit
            if chosen == count:
                inner.insert(0, loop)
            elif chosen == 1:
                outer.append(loop)
                full = False
            else:
                chosen = chunks(count, chosen, machine.cores)
                out, ins = sch.split(loop, [None, chosen])
                outer.append(out)
                inner.insert(0, ins)
                full = False
        held = narrow.elements(extents) * size
        self.notes.say(
            f"{held // 1024} KB of {narrow.buffer.name} stay in the second cache ({machine.cache(2) // 1024} KB) "
            f"while the panels of {plan.wide.buffer.name} pass by"
        )
        return outer, inner

    def _count(self, loops: list[Any]) -> int:
        return math.prod(self._extent(loop) for loop in loops)

    def _extent(self, loop: Any) -> int:
        extent = self.sch.get(loop).extent
        return extent.value if isinstance(extent, IntImm) else 1

    def _store(self, last: Any) -> None:
        """Vectors for the block that stores the tile, along the axis in which its result is contiguous."""
        sch, tile = self.sch, self.plan.tile
        loops = sch.get_loops(last)
        info = sch.get(last)
        axes = [iv.var for iv in info.iter_vars]
        inner = loops[-len(axes) :]
        store = info.body
        contiguous = Access(store.buffer, tuple(store.indices))
        for loop, var in zip(inner, axes):
            extent = self._extent(loop)
            if extent < 2:
                continue
            if contiguous.step(var) == 1 and extent == tile.columns:
                pieces = sch.split(loop, [None, tile.lanes]) if tile.vectors > 1 else [loop]
                for piece in pieces[:-1]:
                    sch.unroll(piece)
                sch.vectorize(pieces[-1])
            else:
                sch.unroll(loop)
