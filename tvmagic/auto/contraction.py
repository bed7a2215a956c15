"""Schedule contractions: sums of products of two operands, with their indices in any order.

After the analytical model of BLIS (Low, Igual, Smith, Quintana-Orti: Analytical Modeling Is Enough for High-Performance
BLIS, 2016): a tile of sums stays in registers; the operand that is read as vectors is packed into panels as wide as the tile;
a block of the other one stays in the second cache while all panels pass by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import permutations, product
from typing import Any

from tvmagic import ir
from tvmagic.auto.loops import chunks, copy_block, fused, hint_partition
from tvmagic.auto.program import (
    SYMBOLIC,
    Access,
    Axis,
    BlockInfo,
    Decisions,
    blocks_of,
    constant,
    distinct,
    extent_or_guess,
    loads_in,
    loads_one_to_one,
    look,
    same_element,
)
from tvmagic.ir.query import variables_in
from tvmagic.target.machine import Machine, Tile
from tvmagic.tir.schedule import Schedule, ScheduleError

_REST = 6.0  # how much slower the elements are that do not fill a tile
_LAST = 4 << 20  # bytes of a packed operand in the last cache at most, as others use that cache too
_NARROWER = 256  # bits of the vectors that are worth it where wider ones would not be full; shorter ones are not
_PACK_ROWS = 8  # rows of the product from which packing the vector operand is worth its copy


@dataclass
class Plan:
    """How a contraction is computed.

    `wide` is read as vectors along `column`, `narrow` one element at a time along `row`. `tile` is what stays in
    registers. Sizes that it does not divide are rounded up to it (`pad`), or the rest gets loops of its own.
    """

    info: BlockInfo
    wide: Access
    narrow: Access
    column: Axis
    row: Axis
    tile: Tile
    pad: bool
    pack_wide: bool
    pack_narrow: bool
    cost: float = field(default=math.inf)

    def unit(self, axis: Axis) -> int:
        """How many values of an axis are in a tile."""
        return self.tile.columns if axis is self.column else self.tile.rows if axis is self.row else 1

    def padded(self, axis: Axis) -> int:
        """The extent of an axis, rounded up to the tile; a guess for a symbolic one."""
        unit = self.unit(axis)
        return -(-extent_or_guess(axis) // unit) * unit

    def uneven(self, axis: Axis) -> bool:
        """Whether the tile does not divide an axis."""
        return axis.extent is None or axis.extent % self.unit(axis) != 0


def plan_contraction(info: BlockInfo, machine: Machine, whole: bool = False) -> Plan | None:
    """The cheapest way to compute a block as a contraction; None if it is not one.

    `whole`: only with tiles that divide the sizes as they are.
    """
    if info.combine not in (ir.Add, ir.Max, ir.Min, ir.Mul) or not info.store.plain or not info.reduced:
        return None
    operands = distinct([a for a in info.loads if a.variables])
    if len(operands) < 2 or any(a.extent == 0 for a in info.axes):
        return None
    best: Plan | None = None
    for wide, narrow in permutations(_multiplied(info, operands), 2):
        others = [a for a in operands if a is not wide and a is not narrow]
        for column in info.spatial:
            if column.var in wide.variables and column.var not in narrow.variables and column.extent != 1:
                if any(a.step(column.var) not in (0, 1) for a in others):  # whose vectors would have to be gathered
                    continue
                best = _cheaper(best, info, machine, wide, narrow, column, others, whole)
    terms = math.prod(extent_or_guess(a) for a in info.axes)
    return best if best is not None and best.cost < terms else None  # copies may cost more than a cycle for each term


def _multiplied(info: BlockInfo, operands: list[Access]) -> list[Access]:
    """The operands without those that only conditions read, such as masks, if two others are left."""
    asked = distinct([load for c in info.conditions for load in loads_in(c)])
    others = [a for a in operands if not any(same_element(a, b) for b in asked)]
    return others if len(others) > 1 else operands


def _divides(value: ir.PrimExpr) -> bool:
    """Whether integers are divided in an expression."""
    found: list[ir.PrimExpr] = []
    ir.post_order_visit(
        value, lambda node: found.append(node) if isinstance(node, (ir.Div, ir.FloorDiv, ir.FloorMod, ir.Mod)) else None
    )
    return any(not node.dtype.is_float for node in found)


def _cheaper(
    best: Plan | None,
    info: BlockInfo,
    machine: Machine,
    wide: Access,
    narrow: Access,
    column: Axis,
    others: list[Access],
    whole: bool,
) -> Plan | None:
    """The cheapest of `best` and the ways with vectors along `column` of the operand `wide`.

    `others` are further operands, such as a mask or weights of the reduced axis: they are read as they are, in vectors if
    they have the column, else one element at a time. None of them has a row and a column, as it would be read for each sum.
    """
    rows = [a for a in info.spatial if a.var in narrow.variables and a.var not in wide.variables and a.extent != 1]
    rows = [a for a in rows if not any({a.var, column.var} <= other.variables for other in others)]
    most = machine.lanes(info.store.buffer.dtype)
    widths = [most]
    bits = info.store.buffer.dtype.bits
    if column.extent is not None and column.extent < most and column.extent * bits == _NARROWER:
        widths.insert(0, column.extent)  # a narrower vector that is full
    steps = math.prod(extent_or_guess(a) for a in info.axes)
    for row, lanes in product(rows, widths):
        # Rounding up needs accesses at plain variables, each of a buffer of its own. What is computed of the zeros there is
        # not stored, whatever it is; but integers cannot be divided by them, and conditions would be asked for them too.
        own = len({a.buffer for a in info.loads}) == len(distinct(info.loads))
        padding = own and all(a.plain for a in info.loads) and not info.conditions and not _divides(info.value)
        for count, vectors in _by_cost(machine):
            tile = Tile(count, vectors, lanes, machine.vector_registers)
            if best is not None and steps / (tile.rows * tile.columns) * machine.tile_cost(count, vectors) >= best.cost:
                break  # its steps alone cost more, as do those of the tiles after it
            plan = _planned(info, machine, wide, narrow, column, row, tile, padding)
            if plan is not None and not (whole and (plan.uneven(column) or plan.uneven(row))):
                best = plan if best is None or plan.cost < best.cost else best
    return best


@lru_cache(maxsize=16)
def _by_cost(machine: Machine) -> list[tuple[int, int]]:
    """The tiles of a machine from the one whose steps cost the least for an element."""
    return sorted(machine.tiles(), key=lambda shape: machine.tile_cost(*shape) / (shape[0] * shape[1]))


def _planned(
    info: BlockInfo, machine: Machine, wide: Access, narrow: Access, column: Axis, row: Axis, tile: Tile, padding: bool
) -> Plan | None:
    if tile.rows > extent_or_guess(row) or tile.columns >= 2 * max(extent_or_guess(column), tile.lanes):
        return None
    plan = Plan(info, wide, narrow, column, row, tile, False, False, False)
    uneven = plan.uneven(column) or plan.uneven(row)
    plan.pad = uneven and padding
    rows = math.prod(
        extent_or_guess(a) for a in info.spatial if a.var in narrow.variables and a.var not in wide.variables
    )
    packable = wide.plain and (plan.pad or not plan.uneven(column)) and _is_full_panels(plan, wide, column)
    # A copy has whole cache lines for each step of the tile, even if there is one panel; read once, it is not worth it.
    again = rows >= _PACK_ROWS and rows > tile.rows
    plan.pack_wide = packable and (plan.pad or wide.step(column.var) != 1 or again)
    if wide.step(column.var) != 1 and not plan.pack_wide:
        return None
    streams = narrow.step(info.reduced[-1].var) in (0, 1)
    even = (plan.pad or not plan.uneven(row)) and _is_full_panels(plan, narrow, row)
    once = plan.pack_wide and narrow.buffer is wide.buffer  # one copy takes all that is read of a buffer
    plan.pack_narrow = narrow.plain and even and not once and (plan.uneven(row) or not streams)
    plan.cost = _cost(plan, machine)
    return plan


def _is_full_panels(plan: Plan, access: Access, axis: Axis) -> bool:
    """Whether the dimension of an operand along an axis is in panels without a rest: of some arrays only a part is read."""
    size = next((constant(n) for n, i in zip(access.buffer.shape, access.indices) if i is axis.var), None)
    return size is None or size == axis.extent or size % plan.unit(axis) == 0


def _cost(plan: Plan, machine: Machine) -> float:
    """Cycles by the model: steps of the tile, copies into packed operands, stores of the result."""
    info, tile = plan.info, plan.tile
    extents = {a.var: plan.padded(a) for a in info.axes}
    cycles = math.prod(extents.values()) / (tile.rows * tile.columns) * machine.tile_cost(tile.rows, tile.vectors)
    for axis in (plan.row, plan.column):
        if not plan.pad and plan.uneven(axis):  # the rest is computed by elements
            share = (extent_or_guess(axis) % plan.unit(axis)) / extent_or_guess(axis)
            cycles *= 1 + share * (_REST if axis.extent is not None else 1)
    if plan.pack_wide:
        contiguous = plan.wide.step(plan.column.var) == 1
        cycles += _copied(plan.wide, extents) * (2 / tile.lanes if contiguous else 1.5)
    if plan.pack_narrow:
        cycles += _copied(plan.narrow, extents) * 1.2
    stored = math.prod(e for a, e in zip(info.axes, extents.values()) if not a.reduced)
    contiguous = info.store.step(plan.column.var) == 1
    whole = contiguous and plan.column.extent is not None and not plan.column.extent % tile.lanes
    return cycles + stored * (1 / tile.lanes if whole else 1.0 if contiguous else 3.0)


def _copied(access: Access, extents: dict[ir.Var, int]) -> int:
    """How many elements a copy of an operand has: along the axes, all of its array, of which the loops may read a part."""
    sizes = [constant(n) or 1 for n, i in zip(access.buffer.shape, access.indices) if i in extents]
    return max(access.elements(extents), math.prod(sizes))


# ---------------------------------------------------------------------------- applying it


def apply(sch: Schedule, plan: Plan, machine: Machine, notes: Decisions) -> None:
    """Schedule a contraction as planned, with the elementwise blocks after it joined to its tiles."""
    application = Application(sch, plan, machine, notes)
    application.prepare()
    application.tile()


class Application:
    """A contraction being scheduled: first what is beside its loops, then these.

    In between, the block may be moved to `below` loops of another block, of which the outermost is parallel; `plan` is then
    one of what is computed in them.
    """

    def __init__(self, sch: Schedule, plan: Plan, machine: Machine, notes: Decisions, below: int = 0) -> None:
        self.sch, self.plan, self.machine, self.notes = sch, plan, machine, notes
        self.block, self.below = plan.info.rv, below
        self.wide: Any = None  # the blocks that pack the operands, if they are packed
        self.narrow: Any = None
        self.last: Any = None  # the block that stores the tile
        self.followers: list[str] = []  # elementwise blocks that are computed on the tile

    def prepare(self) -> None:
        """Pad the sizes, pack the operands, keep the sums apart from the result."""
        plan = self.plan
        if plan.info.branches:
            self._choose()
        self.notes.say(str(plan.tile))
        if plan.pad:
            self._pad()
        self.wide = self._packed(plan.wide, plan.column) if plan.pack_wide else None
        self.narrow = self._packed(plan.narrow, plan.row) if plan.pack_narrow else None
        self.last = self._last()

    # ------------------------------------------------------------------------ sizes, packing

    def _choose(self) -> None:
        """Compute both sides of conditions, unless one reads what is there only if it is taken."""
        at = len(self.sch.trace.insts)
        try:
            self.sch.select_branches(self.block)
        except ScheduleError:
            return
        name = self.plan.info.name
        self.notes.items.append((at, f"{name}: both sides of its conditions are computed, so that they can be vectors"))

    def _pad(self) -> None:
        """Pad the sizes to the tile."""
        plan = self.plan
        names = [
            f"{a.name} to a multiple of {plan.unit(a)}"
            if a.extent is None
            else f"{a.name} {a.extent} to {plan.padded(a)}"
            for a in (plan.row, plan.column)
            if plan.uneven(a)
        ]
        self.notes.say(
            f"sizes rounded up to whole tiles in the packed copies, so that no step asks: {', '.join(names)}"
        )
        self.sch.pad_einsum(self.block, [plan.unit(a) for a in plan.info.axes])

    def _reading(self, access: Access) -> int:
        """Which of the block's reads is the one of an operand, whose buffer may have been replaced."""
        reads = self.sch.get(self.block).reads
        for number, region in enumerate(reads):
            if region.buffer is access.buffer or region.buffer.name in (f"{access.buffer.name}_pad",):
                return number
        raise LookupError(access.buffer.name)

    def _packed(self, access: Access, axis: Axis) -> Any:
        """A copy of an operand in panels of the tile's elements of `axis`; the block that writes it."""
        sch, plan, width = self.sch, self.plan, self.plan.unit(axis)
        number = self._reading(access)
        buffer = sch.get(self.block).reads[number].buffer
        copy = None
        if buffer is not access.buffer:
            copy = next(p for p in sch.get_producers(self.block) if sch.get(p).writes[0].buffer is buffer)
        else:
            # What else reads the array does not wait for the copy: it may be what the other operand is made by.
            readers = [b for b in blocks_of(sch) if any(r.buffer is buffer for r in sch.get(b).reads)]
            copy = sch.cache_read(self.block, number, "global", [self.block] if len(readers) > 1 else [])
        place = {v: n for n, v in enumerate(access.indices) if isinstance(v, ir.Var)}
        others = [a for a in plan.info.axes if a.var in place and a is not axis]
        batch = [a for a in others if not a.reduced and a.var in plan.wide.variables and a.var in plan.narrow.variables]
        inner = [a for a in others if a.reduced]
        outer = [a for a in others if a not in batch and a not in inner]
        fixed = [n for n in range(len(access.indices)) if n not in {place[a.var] for a in (axis, *others)}]

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
            if len(consumers) != 1 or len(sch.get_producers(consumers[0])) != 1:
                break  # a block with another producer waits for it, and cannot be computed on the tiles of this one
            info = look(sch, consumers[0])
            if info is None or len(loads_one_to_one(info, sch.get(current).writes[0].buffer)) != 1:
                break
            chain.append(consumers[0])
            current = consumers[0]
        if not chain:
            stored = sch.cache_write(block, 0, "local")
            self._columns_last()
            return stored
        names = self.followers = [sch.get(b).name_hint for b in chain[(1 if self.plan.pad else 0) :]]
        if names:
            self.notes.say(f"{', '.join(names)} computed on each tile before it leaves the registers")
        for middle in chain[:-1]:
            sch.compute_inline(middle)
        sch.set_scope(block, 0, "local")
        self._columns_last()
        return chain[-1]

    def _columns_last(self) -> None:
        """A tile whose columns are not the last axis of the result is kept with them last, so that they are vectors."""
        plan = self.plan
        indices = list(plan.info.store.indices)
        place = indices.index(plan.column.var)
        if place == len(indices) - 1:
            return
        order = [n for n in range(len(indices)) if n != place] + [place]
        names = [f"d{n}" for n in range(len(indices))]
        layout = eval(f"lambda {', '.join(names)}: [{', '.join(names[n] for n in order)}]")
        self.notes.say(f"the tile is kept with {plan.column.name} last, and turned when it is stored")
        self.sch.transform_layout(self.block, ("write", 0), layout)

    def _tile_by_tile(self) -> None:
        """Keep the sums of a tile at constant places, whatever the sizes are: a number for the tile first, then what is in it."""
        plan = self.plan
        columns = plan.column.var  # the last dimension by now
        places = [*(i for i in plan.info.store.indices if i is not columns), columns]
        units = [plan.unit(next(a for a in plan.info.axes if a.var is i)) for i in places]
        names = [f"d{n}" for n in range(len(units))]
        far = [f"{name} // {unit}" if unit > 1 else name for name, unit in zip(names, units)]
        near = [f"{name} % {unit}" for name, unit in zip(names, units) if unit > 1]
        self.notes.say("the sums of a tile have constant places whatever the sizes are, so that they stay in registers")
        self.sch.transform_layout(
            self.block, ("write", 0), eval(f"lambda {', '.join(names)}: [{', '.join(far + near)}]")
        )

    # ------------------------------------------------------------------------ loops

    def tile(self) -> None:
        """Make the loops of the tile, of the blocks that stay in cache, and of the copies."""
        sch, plan, machine, tile = self.sch, self.plan, self.machine, self.plan.tile
        wide, narrow, last = self.wide, self.narrow, self.last
        loops = dict(zip(plan.info.axes, sch.get_loops(self.block)[self.below :]))
        # 1. the loops of the tile
        column, columns, lanes = sch.split(loops[plan.column], [None, tile.vectors, tile.lanes])
        row, rows = sch.split(loops[plan.row], [None, tile.rows])
        # 2. how much of the operand that is read by elements stays in the second cache
        outer, inner = self._blocks(loops, row)
        rests = [] if plan.pad else [x for x, a in ((row, plan.row), (column, plan.column)) if plan.uneven(a)]
        panel = [column]
        if not outer or (self._count(outer) < machine.cores and column not in rests):
            outer, panel = [*outer, column], []
        together = [loop for loop in outer if loop not in rests] or outer[:1]
        outer = [*together, *[loop for loop in outer if loop not in together]]
        reduced = [loops[a] for a in plan.info.reduced]
        stretch, panel = self._split_segments(wide, panel)
        sch.reorder(*stretch, *outer, *panel, *inner, *reduced, rows, columns, lanes)
        # 3. what stores the tile, and the copies
        self.notes.say("the tile is stored once its sums are complete")
        tiles = (inner or panel or outer)[-1]
        sch.reverse_compute_at(last, tiles)
        if plan.pad and not plan.info.constant:
            self._tile_by_tile()
        batches = {sch.get_sref(loops[a]) for a in self._batch()}
        each = (
            wide is not None
            and plan.info.constant
            and self._read_once(plan.wide)
            and bool(panel)
            and {sch.get_sref(loop) for loop in together} == batches
        )
        everywhere = fused(sch, together)
        if each:  # the panels of one product at a time stay in cache
            sch.compute_at(wide, everywhere)
        elif stretch:
            sch.compute_at(wide, stretch[0])
        # With stretches it would be copied again for each of them.
        near = narrow is not None and plan.info.constant and not stretch and self._read_once(plan.narrow)
        if near:
            sch.compute_at(narrow, everywhere)
        count = self._count([everywhere])
        if not self.below:
            if count > 1:
                self.notes.say(f"{count} blocks in parallel on {machine.cores} cores")
            sch.parallel(everywhere)
        sch.unroll(rows)
        sch.unroll(columns)
        sch.vectorize(lanes)
        sch.decompose_reduction(self.block, reduced[0])
        self._store(last, tiles)
        if wide is not None:
            below = 1 if each or stretch else 0
            copy_block(sch, wide, plan.wide, plan.column, tile.columns, machine, below, parallel=not each)
        if narrow is not None:
            copy_block(sch, narrow, plan.narrow, plan.row, tile.rows, machine, int(near), parallel=not near)
        if rests:
            self.notes.say("what does not fill a tile gets loops of its own, so that no full tile asks")
        for loop in rests:
            hint_partition(sch, loop)

    def _read_once(self, access: Access) -> bool:
        """Whether the block reads the array of an operand at no other place, so that a part of it has what a part of the loops needs."""
        return len([a for a in distinct(self.plan.info.loads) if a.buffer is access.buffer]) == 1

    def _split_segments(self, wide: Any, panel: list[Any]) -> tuple[list[Any], list[Any]]:
        """A loop over stretches of columns and one over the panels of each, so that a packed stretch stays in the last cache
        while the other operand passes by; no loop over stretches if all panels do."""
        plan, machine = self.plan, self.machine
        if wide is None or not panel or self._batch() or plan.column.extent is None or self.below:
            return [], panel
        size = max(1, plan.wide.buffer.dtype.bits // 8)
        extents = {a.var: plan.padded(a) for a in plan.info.axes}
        one = plan.wide.elements({**extents, plan.column.var: plan.tile.columns}) * size
        count, most = plan.padded(plan.column) // plan.tile.columns, max(1, min(machine.cache(3) // 2, _LAST) // one)
        if count <= most:
            return [], panel
        most = chunks(count, most, 1)
        self.notes.say(
            f"{most} panels of {plan.wide.buffer.name} at a time, which stay in the last cache ({most * one // 1024} KB)"
        )
        far, near = self.sch.split(panel[0], [None, most])
        return [far], [near]

    def _blocks(self, loops: dict[Axis, Any], row: Any) -> tuple[list[Any], list[Any]]:
        """The loops outside the panels and those inside, so that what is read by elements inside stays in cache."""
        sch, plan, machine = self.sch, self.plan, self.machine
        limit = machine.cache(2) // 2
        narrow, size = plan.narrow, max(1, plan.narrow.buffer.dtype.bits // 8)
        extents = {a.var: plan.padded(a) * (1 if a.extent is not None else 2) for a in plan.info.reduced}
        extents[plan.row.var] = plan.tile.rows
        tiled = (plan.row, plan.column)
        others = [
            a for a in plan.info.spatial
            if a not in tiled and a.var in narrow.variables and a.var not in plan.wide.variables
        ]  # fmt: skip
        outer = [loops[a] for a in plan.info.spatial if a not in (*tiled, *others)]
        inner: list[Any] = []
        full = True
        for axis, loop in [(plan.row, row), *[(a, loops[a]) for a in reversed(others)]]:
            unit = plan.unit(axis)
            count = plan.padded(axis) // unit
            fits = self._fitting(axis, count, extents, limit // size) if full else 1
            rest = not plan.pad and plan.uneven(axis)
            alone = math.prod(map(extent_or_guess, self._batch())) < 2 * machine.cores
            together = machine.cores > 1 and alone and not self.below
            if axis is plan.row and together and not rest and plan.column.extent is not None:
                fits = min(fits, max(1, count // 2))
            if axis.extent is None and not (axis is plan.row and plan.pad) or fits == 1 < count:
                outer.append(loop)
                full, fits = False, 1
            elif (fits == count and axis.extent is not None) or rest:
                inner.insert(0, loop)
            else:
                fits = fits if axis.extent is None else chunks(count, fits, machine.cores)
                out, ins = sch.split(loop, [None, fits])
                outer.append(out)
                inner.insert(0, ins)
                full = False
            extents[axis.var] = fits * unit
        held = narrow.elements(extents) * size
        self.notes.say(
            f"{held // 1024} KB of {narrow.buffer.name} stay in the second cache ({machine.cache(2) // 1024} KB) "
            f"while the panels of {plan.wide.buffer.name} pass by"
        )
        return outer, inner

    def _batch(self) -> list[Axis]:
        """The axes of both operands: each of their values is a product of its own."""
        plan = self.plan
        return [a for a in plan.info.spatial if a.var in plan.wide.variables and a.var in plan.narrow.variables]

    def _fitting(self, axis: Axis, count: int, extents: dict[ir.Var, int], limit: int) -> int:
        """How many steps along an axis the operand may take until what is read is more than `limit` elements; at least 1."""
        unit = self.plan.unit(axis)
        low, high = 1, count
        while low < high:
            middle = (low + high + 1) // 2
            if self.plan.narrow.elements({**extents, axis.var: middle * unit}) <= limit:
                low = middle
            else:
                high = middle - 1
        return low

    def _count(self, loops: list[Any]) -> int:
        return math.prod(self._extent(loop) for loop in loops)

    def _extent(self, loop: Any) -> int:
        extent = self.sch.get(loop).extent
        return extent.value if isinstance(extent, ir.IntImm) else SYMBOLIC

    def _store(self, last: Any, tiles: Any) -> None:
        """Vectors for the block that stores the tile, in the loop `tiles`, along the axis in which its result is contiguous."""
        sch, tile = self.sch, self.plan.tile
        loops = sch.get_loops(last)
        outside = [sch.get_sref(loop) for loop in loops].index(sch.get_sref(tiles)) + 1
        info = sch.get(last)
        values = sch.state.realize_of(sch.get_sref(last)).iter_values
        store = info.body
        contiguous = Access(store.buffer, tuple(store.indices))
        for loop in loops[outside:]:
            extent, loop_var = self._extent(loop), sch.get(loop).loop_var
            if extent < 2 or not isinstance(sch.get(loop).extent, ir.IntImm):
                continue
            step = sum(
                contiguous.step(iv.var) or 0 for iv, v in zip(info.iter_vars, values) if loop_var in variables_in(v)
            )
            if step == 1 and extent == tile.columns:
                pieces = sch.split(loop, [None, tile.lanes]) if tile.vectors > 1 else [loop]
                for piece in pieces[:-1]:
                    sch.unroll(piece)
                sch.vectorize(pieces[-1])
            else:
                sch.unroll(loop)
