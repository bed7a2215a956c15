"""Schedule reductions that are not contractions, and chains of them that share rows: sums, softmax, norms.

The blocks of a chain are computed row by row, so that a row stays in the first cache from its first block to its last.
A reduction along the contiguous axis takes its values in any order, so that LLVM makes vectors of partial results; one
along another axis keeps a vector of results.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvmagic.auto.elementwise import vector_axis
from tvmagic.auto.loops import any_order, hint_partition, own_loops, share, vector_parts
from tvmagic.auto.program import Access, Axis, BlockInfo, Decisions, loads_one_to_one
from tvmagic.ir import Var
from tvmagic.target.machine import K, Machine
from tvmagic.tir.schedule import Schedule

_WINDOW = 32  # steps of a reduction that are written out
_ADDED = 8  # steps of a long reduction that are added to a vector of results before it is stored
_FEW = 4  # steps of a contiguous reduction, from which vectors of partial results pay
_SMALL = 1 << 12  # elements that stay in the first cache
_LOCAL = 32 * K  # bytes of results that the stack holds
_STRIP = 128  # elements of a row that are near enough to each other in all rows
_TILES = 8  # from which on one more for what does not fill a tile costs little


@dataclass
class Chain:
    """Blocks that are computed together for each value of `shared`, axes of the last of them, `out`.

    `places` says for each block which axis of `out` its own are. `follower` is an elementwise block that reads each
    result of `out` once, at the place that it writes: the results are kept in registers and stored by it.
    """

    out: BlockInfo
    members: list[BlockInfo]
    shared: list[Axis]
    places: dict[BlockInfo, dict[Var, Axis]]
    follower: BlockInfo | None = None

    @property
    def blocks(self) -> list[BlockInfo]:
        """All blocks, in the order of the program."""
        return [*self.members, self.out, *([self.follower] if self.follower is not None else [])]


def chain_before(sch: Schedule, out: BlockInfo, candidates: list[BlockInfo]) -> Chain | None:
    """The chain that ends with a block: it and those of `candidates`, the blocks before it, that only the chain reads.

    None if nothing in it is a reduction.
    """
    chain = _alone(out)
    by_name = {out.name: out}
    followed: BlockInfo | None = None
    for info in reversed(candidates):
        readers = [by_name.get(sch.get(c).name_hint) for c in sch.get_consumers(info.rv)]
        if not readers or None in readers:
            continue
        if readers == [out] and _follows_in_order(out, info):
            followed = info
        mapped = _mapped(info, [r for r in readers if r is not None], chain.places)
        shared = [a for a in chain.shared if a in mapped.values()]
        if not shared:
            continue
        if not info.reduced and shared != chain.shared and _elements(info) <= _SMALL:
            continue  # in the cache anyway
        longer = Chain(out, [info, *chain.members], shared, {**chain.places, info: mapped})
        if _by_elements(longer) or (_across(longer) is None and _by_columns(longer)):
            continue
        chain, by_name[info.name] = longer, info
    if followed is not None and chain.members in ([], [followed]):
        alone = _alone(followed)
        if _across(alone) is not None:
            alone.follower = out
            return alone
    if _passes_again(chain):
        return None
    return chain if any(i.reduced for i in chain.blocks) else None


def _alone(out: BlockInfo) -> Chain:
    """The chain of a single block."""
    return Chain(out, [], list(out.spatial), {out: {a.var: a for a in out.spatial}})


def _follows_in_order(info: BlockInfo, before: BlockInfo) -> bool:
    """Whether an elementwise block reads each result of a reduction at the place that it writes alone, in the same order."""
    loads = loads_one_to_one(info, before.store.buffer)
    if not before.reduced or not loads:
        return False
    places = [a.var for a in info.axes]
    same = [a.var for a in before.spatial]
    return all(a.is_at(places) for a in [*loads, info.store]) and before.store.is_at(same)


def _mapped(info: BlockInfo, readers: list[BlockInfo], places: dict[BlockInfo, dict[Var, Axis]]) -> dict[Var, Axis]:
    """Which axis of the chain's last block each axis of a block is: the one at which all readers read it."""
    found: dict[Var, Axis] = {}
    for dimension, index in enumerate(info.store.indices):
        loads = [(r, a.indices[dimension]) for r in readers for a in r.loads if a.buffer is info.store.buffer]
        targets = {places[r].get(i) if isinstance(i, Var) else None for r, i in loads}
        if isinstance(index, Var) and len(targets) == 1 and (target := targets.pop()) is not None:
            found[index] = target
    return found


def _across(chain: Chain) -> Axis | None:
    """The shared axis along which the results of the last block are contiguous and its reductions do not run."""
    axis = vector_axis(chain.out)
    if axis is None or axis not in chain.shared:
        return None
    for info in chain.blocks:
        along = info.along
        if along is not None and not (info is chain.out and _slides(chain.out, axis, along)):
            return None
    return axis


def _slides(out: BlockInfo, axis: Axis, along: Axis) -> bool:
    """Whether a block reduces over a small window that moves along `axis`, by few elements, as along `along`."""
    if along not in _window(out):
        return False
    moving = [a for a in out.loads if along.var in a.variables and axis.var in a.variables]
    return bool(moving) and all(1 <= (a.step(axis.var) or 0) <= Machine.widest_shuffle for a in moving)


def _window(info: BlockInfo) -> list[Axis]:
    """The last reduced axes of a block that have few steps together: these can be written out."""
    found: list[Axis] = []
    steps = 1
    for axis in reversed(info.reduced):
        steps *= axis.extent or 1000
        if steps > _WINDOW:
            break
        found.insert(0, axis)
    return found


def _stretch(extent: int, most: int, lanes: int) -> int:
    """How many of `extent` results belong together, at most `most` if that is a vector: a divisor of whole vectors if
    one is near, else whole vectors, so many that few results are left beyond the last full stretch."""
    if extent <= max(most, lanes):
        return extent
    vectors, near = extent // lanes, most // lanes
    if extent % lanes == 0:
        found = next((n for n in range(near, near // 2, -1) if vectors % n == 0), 0)
        if found:
            return found * lanes
    return max(1, vectors // -(-extent // most)) * lanes


def _by_elements(chain: Chain) -> bool:
    """Whether a loop over what is shared would compute one result at a time of a reduction that alone has vectors of them."""
    across = _across(chain)
    for info in chain.blocks:
        axis = vector_axis(info) if info.reduced else None
        place = chain.places[info].get(axis.var) if axis is not None else None
        if place is not across and place in chain.shared and _across(_alone(info)) is not None:
            return True
    return False


def _elements(info: BlockInfo) -> float:
    """How many elements a block computes; a symbolic number counts as many."""
    return math.prod(a.extent or math.inf for a in info.axes)


def _by_columns(chain: Chain) -> bool:
    """Whether a loop over what is shared would compute a column at a time of some block, against the order of its elements."""
    for info in chain.blocks:
        axis, places = vector_axis(info), chain.places[info]
        own = [a for a in info.spatial if places.get(a.var) not in chain.shared and a.extent != 1]
        if own and axis is not None and places.get(axis.var) in chain.shared:
            return True
    return False


def _passes_again(chain: Chain) -> bool:
    """Whether what is before the last block is all reductions of columns that it only reads. Then each is computed of whole
    rows, which pass by in the order of memory: a stretch of each row, again and again, is loaded as slowly as it is short."""
    across = _across(chain)
    if across is None or chain.out.reduced or not chain.members or not all(i.reduced for i in chain.members):
        return False
    return across.extent is None or across.extent > _STRIP


def apply(sch: Schedule, chain: Chain, machine: Machine, notes: Decisions) -> None:
    """Schedule the blocks of a chain under loops over what they share."""
    _Rows(sch, chain, machine, notes).run()


def _run_on(info: BlockInfo) -> list[Axis]:
    """The last reduced axes that run through each array without a gap, as one long loop; one of them at least."""
    *others, last = info.reduced
    found = [last]
    for outer in reversed(others):
        inner = found[0]
        extents = (outer.extent, inner.extent)
        if any(e is None or e < 2 for e in extents) or info.alone & {outer.var, inner.var}:
            break
        steps = [(a.step(outer.var), a.step(inner.var)) for a in info.loads]
        if any(far is None or near is None or far != near * (inner.extent or 1) for far, near in steps):
            break
        found.insert(0, outer)
    return found


def schedule_row(
    sch: Schedule, chain: Chain, members: list[BlockInfo], row: Any, machine: Machine, notes: Decisions
) -> None:
    """Compute members of a chain, of which the last has its loops, together in its loop `row`."""
    rows = _Rows(sch, chain, machine, notes)
    below = [sch.get_sref(loop) for loop in sch.get_loops(members[-1].rv)].index(sch.get_sref(row)) + 1
    for info in reversed(members):
        if info is not members[-1]:
            sch.compute_at(info.rv, row)
        rows.row_block(info, below)


class _Rows:
    def __init__(self, sch: Schedule, chain: Chain, machine: Machine, notes: Decisions) -> None:
        self.sch, self.chain, self.machine, self.notes = sch, chain, machine, notes

    def run(self) -> None:
        sch, chain, out = self.sch, self.chain, self.chain.out
        loops = dict(zip(out.axes, sch.get_loops(out.rv)))
        across = _across(chain)
        outer = [loops[a] for a in chain.shared if a is not across]
        store = None
        if across is not None and out.reduced:
            store = self._store()
            loops = dict(zip(out.axes, sch.get_loops(out.rv)))
            outer = [loops[a] for a in chain.shared if a is not across]
        inside = [loops[a] for a in out.spatial if a not in chain.shared]
        if across is not None:
            self._columns(across, loops, outer, inside, store)
            return
        if not outer:
            return
        sch.reorder(*outer, *inside, *[loops[a] for a in out.reduced])
        names = ", ".join(i.name for i in chain.blocks)
        self.notes.say(f"{names}: a row at a time, which stays in the first cache; rows in parallel")
        around = share(sch, outer, self.machine)
        # From the last block back, as each is moved to where it is read.
        for info in reversed(chain.blocks):
            if info is not out:
                sch.compute_at(info.rv, around[-1])
            self.row_block(info, len(around))

    def _store(self) -> Any:
        """The block that stores the last block's results, which are kept in registers."""
        sch, out, follower = self.sch, self.chain.out, self.chain.follower
        if follower is None:
            return sch.cache_write(out.rv, 0, "local")
        self.notes.say(f"{follower.name} is computed on each tile before it leaves the registers")
        sch.set_scope(out.rv, 0, "local")
        return follower.rv

    # ------------------------------------------------------------------------ along rows

    def row_block(self, info: BlockInfo, below: int) -> None:
        """Vectors for one block of a row, below `below` loops: of elements, or of partial sums."""
        sch = self.sch
        if not info.reduced:
            axis = vector_axis(info)
            loop = own_loops(sch, info.rv, below).get(axis.var) if axis is not None else None
            if loop is not None:
                vector_parts(sch, loop, self.machine.lanes(info.store.buffer.dtype), bool(info.calls))
            return
        if info.along is not None and math.prod(a.extent or _FEW for a in _run_on(info)) >= _FEW:
            self.notes.say(f"{info.name}: its values are taken in any order, so that LLVM makes vectors of the loop")
            own = own_loops(sch, info.rv, below)
            steps = [own[a.var] for a in info.reduced if a.var in own]
            if info.reduced != [a for a in info.axes if a.reduced] and len(steps) > 1:
                sch.reorder(*steps)
            run = [own[a.var] for a in _run_on(info) if a.var in own]
            if len(run) > 1:
                sch.fuse(*run)
            any_order(sch, info.rv, below)

    # ------------------------------------------------------------------------ along columns

    def _columns(self, across: Axis, loops: dict[Axis, Any], outer: list[Any], inside: list[Any], store: Any) -> None:
        """Vectors of results along an axis that is not reduced over."""
        sch, chain, out = self.sch, self.chain, self.chain.out
        lanes = self.machine.lanes(out.store.buffer.dtype)
        reduced = [loops[a] for a in out.reduced]
        window, along = _window(out), out.along
        if len(window) < len(reduced) and (along is None or not _slides(out, across, along)):
            window = []
        if store is not None and not window and not chain.members and across.extent is not None:
            self._long_columns(across, loops, outer, inside, store)
            return
        rows, tile, vectors = self._tile(across, lanes, bool(window))
        far, middle, near = sch.split(loops[across], [None, vectors, lanes])
        uneven = across.extent is None or across.extent % (vectors * lanes) != 0
        tiled: list[Any] = []
        if rows is not None:
            position = outer.index(loops[rows])
            outer[position], ii = sch.split(loops[rows], [None, tile])
            tiled = [ii]
            if (rows.extent or 0) % tile:
                hint_partition(sch, outer[position], ii)
            # The tiled axis next to the reduction, so that neighbours share what they read.
            sch.reorder(*outer[:-1], far, outer[-1], *inside, *reduced, *tiled, middle, near)
        else:
            sch.reorder(*outer, far, *inside, *reduced, middle, near)
        at = outer[-1] if tiled else far
        self.notes.say(
            f"{out.name}: {tile * vectors} vectors of {lanes} results at a time along {across.name}"
            + (f", {tile} of them along {rows.name}" if rows is not None else "")
        )
        if store is not None:
            sch.reverse_compute_at(store, at)
        for info in reversed(chain.members):
            sch.compute_at(info.rv, at)
        whole = outer[:-1] if tiled else outer if uneven else [*outer, far]
        share(sch, whole or [far], self.machine)
        if uneven:
            hint_partition(sch, far, middle, near)
        for loop in (*(loops[a] for a in window), *tiled, middle):
            sch.unroll(loop)
        sch.vectorize(near)
        if out.reduced:
            sch.decompose_reduction(out.rv, reduced[0])
        if store is not None:
            self._stored(store, vectors, lanes, bool(tiled), uneven)
        for info in chain.members:
            self._column_block(info, lanes)

    def _stored(self, store: Any, vectors: int, lanes: int, tiled: bool, uneven: bool) -> None:
        """Vectors for the block that stores what was kept; `uneven`: the last tile is not full."""
        sch = self.sch
        parts = [sch.get_loops(store)[-1]]
        if vectors > 1:
            parts = sch.split(parts[0], [None, lanes])
            sch.unroll(parts[0])
        if uneven:
            hint_partition(sch, *parts)
        sch.vectorize(parts[-1])
        if tiled:
            row = sch.get_loops(store)[-3 if vectors > 1 else -2]
            hint_partition(sch, row)
            sch.unroll(row)

    def _long_columns(
        self, across: Axis, loops: dict[Axis, Any], outer: list[Any], inside: list[Any], store: Any
    ) -> None:
        """Long reductions: a stretch of results in the first cache, to which some rows at a time are added; or in registers,
        if they are so few."""
        sch, out = self.sch, self.chain.out
        lanes = self.machine.lanes(out.store.buffer.dtype)
        extent = across.extent
        assert extent is not None
        most = min(self.machine.cache(1) // 2, _LOCAL) // (out.store.buffer.dtype.bits // 8)
        rest = math.prod(self.chain_extent(a) for a in self.chain.shared if a is not across)
        if rest < self.machine.cores:
            most = min(most, -(-extent // self.machine.cores))
        width = _stretch(extent, most, lanes)
        last = out.reduced[-1]
        steps = next((d for d in range(_ADDED, 3, -1) if last.extent is not None and last.extent % d == 0), _ADDED)
        steps = min(steps, last.extent or steps)
        few = width % lanes == 0 and width // lanes <= self.machine.vector_registers // 2
        self.notes.say(
            f"{out.name}: {width} results at a time stay in registers"
            if few
            else f"{out.name}: {width} results at a time stay in the first cache, {steps} values are added to each at once"
        )
        far, near = sch.split(loops[across], [None, width])
        reduced = [loops[a] for a in out.reduced]
        *parts, vector = sch.split(near, [None, lanes]) if width > lanes else [near]
        some: list[Any] = []
        if few:
            sch.reorder(*outer, far, *inside, *reduced, *parts, vector)
        else:
            reduced[-1], *some = sch.split(reduced[-1], [None, steps])
            sch.reorder(*outer, far, *inside, *reduced, *parts, *some, vector)
        sch.reverse_compute_at(store, far)
        uneven = extent % width != 0
        share(sch, outer if outer and uneven else [*outer, far], self.machine)
        if uneven:
            hint_partition(sch, far)
        if some and (last.extent is None or last.extent % steps):
            hint_partition(sch, reduced[-1], *some)
        if uneven or width % lanes:
            hint_partition(sch, *parts, vector)
        for loop in parts if few else some:
            sch.unroll(loop)
        sch.vectorize(vector)
        sch.decompose_reduction(out.rv, reduced[0])
        loop = sch.get_loops(store)[-1]
        vector_parts(sch, loop, lanes, uneven)

    @staticmethod
    def chain_extent(axis: Axis) -> int:
        """The extent of an axis; a symbolic one counts as large."""
        return axis.extent if axis.extent is not None else 1 << 20

    def _tile(self, across: Axis, lanes: int, short: bool) -> tuple[Axis | None, int, int]:
        """Which results are kept in registers at a time: how many along another axis, that axis (None for one of it), and
        how many vectors along `across`. Of all tiles in a quarter of the registers, the one with the fewest loads for a result."""
        widths = self._widths(across, lanes)
        best, least = (None, 1, widths[0]), math.inf
        # Of two axes alike the first one: rows of the tile pass by together, and each is read for fewer tiles.
        rows = [a for a in self.chain.shared if a is not across and self._shared_along(a)] if short else []
        if not self.chain.out.reduced or self.chain.members or not rows:
            return best
        most = max(1, self.machine.vector_registers // 4)
        for vectors in widths:
            for axis in rows:
                assert axis.extent is not None
                last = axis is [a for a in self.chain.shared if a is not across][-1]  # its rest gets a loop of its own
                for tile in range(1, min(most // vectors, axis.extent) + 1):
                    rest = axis.extent % tile
                    if rest and not (last and axis.extent >= _TILES * tile):
                        continue
                    loads = sum(self._loaded(a, axis, tile, across, vectors) for a in self.chain.out.loads)
                    loads *= (1 + rest / axis.extent) / (tile * vectors)
                    if loads < least:
                        least, best = loads, (axis if tile > 1 else None, tile, vectors)
        return best

    def _widths(self, across: Axis, lanes: int) -> list[int]:
        """How many vectors of results may be kept along an axis, the most first."""
        extent = across.extent
        if extent is None:
            return [1]
        even = [v for v in (8, 4, 2, 1) if extent % (v * lanes) == 0]
        most = min(4, max(1, extent // lanes))
        return even if len(even) > 1 else [v for v in (4, 3, 2, 1) if v == most or (v < most and v != 3)]

    def _loaded(self, access: Access, axis: Axis, tile: int, across: Axis, vectors: int) -> int:
        """How many vectors, or elements for all lanes, are loaded for a tile: neighbours share what they read."""
        count = vectors if across.var in access.variables else 1
        steps = [(axis.var, tile), *[(a.var, a.extent or 1) for a in self.chain.out.reduced]]
        for dimension in range(len(access.indices)):
            places = {0}
            for var, extent in steps:
                step = access.coefficient(dimension, var) or 0
                places = {p + step * n for p in places for n in range(extent)} if step else places
            count *= len(places)
        return count

    def _shared_along(self, axis: Axis) -> bool:
        """Whether neighbours along an axis share what they read, of a window that moves with it."""
        out = self.chain.out
        shares = any(axis.var not in a.variables for a in out.loads if a.variables) or len(out.loads) == 1
        return axis.extent is not None and shares and self._windowed(axis)

    def _windowed(self, axis: Axis) -> bool:
        """Whether some access runs over an axis and a reduced one together."""
        return any(
            axis.var in a.variables and any(r.var in a.variables for r in self.chain.out.reduced)
            for a in self.chain.out.loads
        )

    def _column_block(self, info: BlockInfo, lanes: int) -> None:
        """Vectors for a block that is computed for the columns at hand."""
        sch = self.sch
        axis = vector_axis(info)
        loop = own_loops(sch, info.rv, 1).get(axis.var) if axis is not None else None
        if axis is None or loop is None:
            return
        reduced = [x for a in info.reduced if (x := own_loops(sch, info.rv, 1).get(a.var)) is not None]
        if reduced:
            sch.reorder(*reduced, loop)
        vector_parts(sch, loop, lanes, True)
        if reduced:
            sch.decompose_reduction(info.rv, reduced[0])
