"""Two iterations that touch the same element, found by counting through them with arrays.

All accesses of a buffer are evaluated for all values of the variables that they depend on, one row for each;
sorted by element, the rows of an element that differ in their iteration are next to each other. The work is
linear in the number of rows, which is bounded: beyond the bound only a part of each range is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.arith.interval_arithmetic import ENDS_OF, Ends
from tvmagic.eval.indices import Unevaluated, evaluate
from tvmagic.ir.conditional import choice
from tvmagic.ir.query import variables_in
from tvmagic.tir.analysis.race_accesses import Access, Domain

MOST_ROWS = 1 << 19  # rows of all accesses of one buffer together
Array = Any


def variables(nodes: Iterable[ir.PrimExpr]) -> set[ir.Var]:
    """The variables in expressions."""
    return {var for node in nodes for var in variables_in(node)}


@dataclass(frozen=True)
class Conflict:
    """Two accesses to one element by two iterations: the values of the variables of each, and the element's place.

    `certain` is False if data decide whether both happen.
    """

    first: Access
    second: Access
    values: tuple[dict[ir.Var, int], dict[ir.Var, int]]
    element: tuple[int, ...]
    certain: bool


@dataclass(frozen=True)
class Found:
    """What a search found: a conflict or none, and why it did not look at everything, if it did not."""

    conflict: Conflict | None
    reason: str


@dataclass
class _Rows:
    """The places that one access touches: by row its element, its iteration, its time, and all variables."""

    access: Access
    element: list[Array]
    outer: list[Array]
    iteration: Array
    time: Array
    certain: bool
    values: dict[ir.Var, Array]


@dataclass
class Search:
    """A search in one buffer for the iterations of one loop.

    parallel: the domains whose values make an iteration.
    shared: the domains that are around both iterations.
    sizes: values of variables that are not loops'.
    times: when an access happens as a number, for vectorized loops; else None.
    """

    parallel: Sequence[Domain]
    shared: Sequence[Domain]
    sizes: Mapping[ir.Var, int]
    times: Callable[[Access, Mapping[ir.Var, Array]], Array] | None = None
    reason: str = ""

    def run(self, accesses: Sequence[Access]) -> Found:
        """Look for a conflict among `accesses`."""
        wanted = self._shared_used(accesses)
        rows: list[_Rows] = []
        for access in accesses:
            if any(isinstance(d.extent, ir.IntImm) and d.extent.value <= 0 for d in access.domains):
                continue
            try:
                rows.append(self._rows(access, wanted, MOST_ROWS // len(accesses)))
            except Unevaluated as unknown:
                self._give_up(f"`{unknown.node}` depends on data or on sizes that are not known")
        rows = [r for r in rows if len(r.iteration)]
        certain = [r for r in rows if r.certain]
        conflict = self._conflict(certain, True) if certain else None
        if conflict is None and len(certain) < len(rows):
            conflict = self._conflict(rows, False)
        return Found(conflict, self.reason)

    def _give_up(self, reason: str) -> None:
        self.reason = self.reason or reason

    # ------------------------------------------------------------------------ rows

    def _needed(self, access: Access) -> set[ir.Var]:
        """The variables that decide whether an access happens and what it touches."""
        found = variables([*(access.indices or ()), *(g for g, _ in access.place.guards)])
        found |= {d.var for d in self.parallel}
        if self.times is not None:
            found |= {d.var for d in access.place.domains} - {d.var for d in self.shared}
        by_var = {d.var: d for d in (*self.shared, *self.parallel, *access.domains)}
        found |= {d.var for d in access.domains if not isinstance(d.extent, ir.IntImm)}
        pending = list(found)
        while pending:
            domain = by_var.get(pending.pop())
            if domain is not None:
                more = variables([domain.begin, domain.extent]) - found
                found |= more
                pending += more
        return found

    def _shared_used(self, accesses: Sequence[Access]) -> list[Domain]:
        used = {var for access in accesses for var in self._needed(access)}
        return [d for d in self.shared if d.var in used]

    def _rows(self, access: Access, shared: Sequence[Domain], most: int) -> _Rows:
        needed = self._needed(access)
        mine = [*shared, *self.parallel]
        ours = {d.var for d in mine} | {d.var for d in self.shared}
        inner = [d for d in access.domains if d.var in needed and d.var not in ours]
        order = [*mine, *inner]
        extents = self._extents(order, most)
        grid = np.indices(extents, dtype=np.int64).reshape(len(extents), -1) if extents else np.zeros((0, 1), np.int64)
        values: dict[ir.Var, Array] = {v: np.int64(n) for v, n in self.sizes.items()}
        keep = np.ones(grid.shape[1], bool)
        for domain, places in zip(order, grid):
            keep &= places < evaluate(domain.extent, values)
            values[domain.var] = evaluate(domain.begin, values) + places
        certain = access.exact and access.place.known
        conditions = [guard for guard, _ in access.place.guards]
        for condition in [*conditions, *(d.extent > 0 for d in access.domains if d.var not in values)]:
            try:
                keep = keep & evaluate(condition, values)
            except Unevaluated:
                certain = False
        chosen = np.flatnonzero(keep)
        kept = {v: (a[chosen] if np.ndim(a) else np.full(len(chosen), a)) for v, a in values.items()}
        element = [np.broadcast_to(evaluate(i, kept), chosen.shape) for i in access.indices or ()]
        iteration = np.zeros(len(chosen), np.int64)
        for number, domain in enumerate(self.parallel):
            iteration = iteration * (extents[len(shared) + number] or 1) + grid[len(shared) + number][chosen]
        time = iteration * 0 if self.times is None else self.times(access, kept) + iteration * 0
        return _Rows(access, element, [kept[d.var] for d in shared], iteration, time, certain, kept)

    def _extents(self, domains: Sequence[Domain], most: int) -> list[int]:
        """How many values of each variable are looked at: all, or fewer of the longest ranges."""
        limits: dict[ir.Var, tuple[int, int]] = {v: (n, n) for v, n in self.sizes.items()}
        full: list[int] = []
        for domain in domains:
            low, high = _bounds(domain.begin, limits), _bounds(domain.extent, limits)
            full.append(max(high[1], 0))
            limits[domain.var] = (low[0], low[1] + max(high[1] - 1, 0))
        extents = list(full)
        while math.prod(extents) > most and max(extents) > 2:
            longest = extents.index(max(extents))
            extents[longest] = (extents[longest] + 1) // 2
        if math.prod(extents) > most:
            extents = [min(e, 1) for e in extents]
        if extents != full:
            self._give_up("there are too many iterations to look at all")
        return extents

    # ------------------------------------------------------------------------ conflicts

    def _conflict(self, rows: Sequence[_Rows], certain: bool) -> Conflict | None:
        """The first element that two iterations touch, at least one of them by a write, out of order if times count."""
        numbers = np.concatenate([np.full(len(r.iteration), n) for n, r in enumerate(rows)])
        starts = np.concatenate([[0], np.cumsum([len(r.iteration) for r in rows])])
        columns = zip(*([*r.outer, *r.element] for r in rows), strict=True)
        key = _ranks([np.concatenate(column) for column in columns], len(numbers))
        iteration = np.concatenate([r.iteration for r in rows])
        time = np.concatenate([r.time for r in rows])
        write = np.array([r.access.write for r in rows])[numbers]
        pair = (_unordered if self.times is None else _reordered)(key, iteration, time, write)
        if pair is None:
            return None
        return self._describe([(rows[int(numbers[at])], int(at - starts[numbers[at]])) for at in pair], certain)

    def _describe(self, pair: Sequence[tuple[_Rows, int]], certain: bool) -> Conflict:
        (a, at), (b, _) = pair
        values = tuple({v: int(x[row]) for v, x in r.values.items()} for r, row in pair)
        element = tuple(int(column[at]) for column in a.element)
        return Conflict(a.access, b.access, (values[0], values[1]), element, certain)


def _ranks(columns: Sequence[Array], count: int) -> Array:
    """A number for each row, the same for rows that are equal in all columns."""
    key = np.zeros(count, np.int64)
    for column in columns:
        low = int(column.min())
        extent = int(column.max()) - low + 1
        if int(key.max(initial=0)) * extent > 1 << 60:
            key = np.unique(key, return_inverse=True)[1]
        key = key * extent + (column - low)
    return key


def _unordered(key: Array, iteration: Array, time: Array, write: Array) -> tuple[int, int] | None:
    """Two rows of one element and different iterations, the first a write."""
    order = np.lexsort((~write, iteration, key))
    key, iteration, write = key[order], iteration[order], write[order]
    starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    ends = np.concatenate([starts[1:], [len(key)]]) - 1
    bad = np.logical_or.reduceat(write, starts) & (iteration[starts] != iteration[ends])
    if not bad.any():
        return None
    group = int(np.argmax(bad))
    rows = range(int(starts[group]), int(ends[group]) + 1)
    first = next(row for row in rows if write[row])
    others = [row for row in rows if iteration[row] != iteration[first]]
    second = next((row for row in others if write[row]), others[0])
    return int(order[first]), int(order[second])


def _reordered(key: Array, iteration: Array, time: Array, write: Array) -> tuple[int, int] | None:
    """Two rows of one element, one of them a write, of which that of the later iteration comes first in time."""
    order = np.lexsort((iteration, key))
    key, iteration, time, write = key[order], iteration[order], time[order], write[order]
    # 1. the latest time of any row, and of any write, of an earlier iteration of the same element
    new_key = np.concatenate([[True], key[1:] != key[:-1]])
    run = np.concatenate([[True], new_key[1:] | (iteration[1:] != iteration[:-1])])
    group = np.cumsum(new_key) - 1
    span = int(time.max()) + 2
    for earlier, later in ((np.ones_like(write), write), (write, np.ones_like(write))):
        latest = np.maximum.accumulate(np.where(earlier, time + 1, 0) + group * span)
        # 2. each row sees what was there before the run of its iteration began
        begin = np.maximum.accumulate(np.where(run, np.arange(len(key)), 0))
        before = np.where(begin > 0, latest[np.maximum(begin - 1, 0)], 0) - group * span
        bad = later & (before > time + 1)
        if bad.any():
            second = int(np.argmax(bad))
            rows = np.flatnonzero(
                (key == key[second]) & (iteration < iteration[second]) & earlier & (time > time[second])
            )
            return int(order[rows[0]]), int(order[second])
    return None


def _bounds(node: ir.PrimExpr, limits: Mapping[ir.Var, Ends]) -> Ends:
    """The least and the largest value of an expression, from those of its variables."""
    if isinstance(node, ir.IntImm):
        return node.value, node.value
    if isinstance(node, ir.Var) and node in limits:
        return limits[node]
    if isinstance(node, ir.Cast):
        return _bounds(node.value, limits)
    if isinstance(node, ir.BinaryOp) and type(node) in ENDS_OF:
        divides = isinstance(node, (ir.FloorDiv, ir.FloorMod))
        right = _bounds(node.b, limits)
        if divides and right[0] <= 0:
            raise Unevaluated(node)
        return ENDS_OF[type(node)](_bounds(node.a, limits), right)
    parts = choice(node)
    if parts is not None:
        (a, b), (c, d) = (_bounds(p, limits) for p in parts[1:])
        return min(a, c), max(b, d)
    raise Unevaluated(node)
