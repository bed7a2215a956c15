"""Find loops that LLVM would vectorize with scatters, because it unrolls the short loop inside.

With AVX-512 LLVM underestimates the cost of scatters: the elements of a short row are stored one by one, and the row is no vector any more.
Without AVX-512 it vectorizes the row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from tvmagic.codegen.late.iterative_visitor import ChainVisitor
from tvmagic.errors import TVMagicError
from tvmagic.eval.integers import evaluate
from tvmagic.ir import BufferLoad, BufferStore, Call, For, ForKind, IntImm, PrimExpr, Var
from tvmagic.ir.functor import handles
from tvmagic.ir.query import callee, variables_in
from tvmagic.target import Machine

_SHORT = range(3, 16)  # iterations of a loop that is written out before LLVM makes vectors of it
_WRITTEN = 256  # bodies up to which the loops inside a loop are written out
_FREE = {"if_then_else", "likely", "reinterpret", "assume", "fma"}


def loops_that_scatter(body: Any, lets: Mapping[Var, PrimExpr], machine: Machine) -> set[For]:
    """Return the loops along which each store moves by more than one element.

    Along the innermost short loop inside, or in the next statement, the store continues at the adjacent element. Bodies that call functions
    are left out: their vectors gain more than the stores cost.
    """
    if not machine.scatters:
        return set()
    return {inside.loop for inside in _Around(body).found if _scatters(inside, lets)}


@dataclass
class _Inside:
    """Content of a loop: loads and calls, each store with its innermost loop, and the number of bodies once inner loops are unrolled."""

    loop: For
    stores: list[tuple[BufferStore, For]] = field(default_factory=list)
    others: list[BufferLoad | Call] = field(default_factory=list)
    bodies: int = 1

    def add(self, other: _Inside) -> None:
        """Add an inner loop that is unrolled; mark this loop as too long if the inner one is not."""
        extent = other.loop.extent
        short = isinstance(extent, IntImm) and extent.value in _SHORT
        self.bodies += other.bodies * extent.value if short else _WRITTEN + 1  # pyright: ignore[reportAttributeAccessIssue]
        if self.bodies <= _WRITTEN:
            self.stores += other.stores
            self.others += other.others


class _Around(ChainVisitor):
    """Collects the loops whose inner loops are all unrolled, with their content."""

    def __init__(self, body: Any) -> None:
        self.found: list[_Inside] = []
        self.inside: list[_Inside] = []
        self.visit(body)

    @handles(For)
    def loop(self, node: For) -> None:
        made = _Inside(node)
        self.inside.append(made)
        self.visit(node.body)
        self.inside.pop()
        if made.bodies <= _WRITTEN and node.kind in (ForKind.SERIAL, ForKind.PARALLEL):
            self.found.append(made)
        if self.inside:
            self.inside[-1].add(made)

    @handles(BufferStore)
    def store(self, node: BufferStore) -> None:
        if self.inside:
            self.inside[-1].stores.append((node, self.inside[-1].loop))
        self.visit_children(node)

    @handles(BufferLoad, Call)
    def other(self, node: BufferLoad | Call) -> None:
        if self.inside:
            self.inside[-1].others.append(node)
        self.visit_children(node)


def _scatters(inside: _Inside, lets: Mapping[Var, PrimExpr]) -> bool:
    if any(isinstance(n, Call) and callee(n).removeprefix("tir.") not in _FREE for n in inside.others):
        return False
    loaded = {n.buffer.data for n in inside.others if isinstance(n, BufferLoad)}
    places = {(s.buffer.data, _at(s, {}, lets)) for s, inner in inside.stores if inner is inside.loop}
    return bool(inside.stores) and all(
        store.buffer.data not in loaded and _is_adjacent(store, inside.loop, inner, places, lets)
        for store, inner in inside.stores
    )


def _is_adjacent(
    store: BufferStore, loop: For, inner: For, places: Collection[tuple[Var, int | None]], lets: Mapping[Var, PrimExpr]
) -> bool:
    """Return whether a store continues at the adjacent element along the inner loop, or is adjacent to one of `places`, which other
    stores of the same iteration write, and moves further along the outer loop.
    """
    if store.value.dtype.lane_code != 1 or len(store.indices) != 1:
        return False
    first = _at(store, {}, lets)
    around = _at(store, {loop.loop_var: 1}, lets)
    if first is None or around is None or abs(around - first) <= 1:
        return False
    if inner is loop:
        run = [n for n in range(first - 2, first + 3) if (store.buffer.data, n) in places]
        return len(run) >= _SHORT.start  # of two elements LLVM makes a vector and shuffles it
    return _at(store, {inner.loop_var: 1}, lets) == first + 1


def _at(store: BufferStore, values: Mapping[Var, int], lets: Mapping[Var, PrimExpr]) -> int | None:
    """Return the index of a store for values of some variables, all others 0, or None if it is unknown."""
    try:
        return _value(store.indices[0], values, lets)
    except TVMagicError:
        return None


def _value(
    index: PrimExpr, values: Mapping[Var, int], lets: Mapping[Var, PrimExpr], known: dict[Var, int | None] | None = None
) -> int | None:
    known = {} if known is None else known
    for v in variables_in(index):
        if v not in known:
            known[v] = _value(lets[v], values, lets, known) if v in lets else values.get(v, 0)
    return evaluate(index, {v: n for v, n in known.items() if n is not None})
