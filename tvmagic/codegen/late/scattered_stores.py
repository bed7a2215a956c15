"""Loops of which LLVM would make vectors whose lanes are apart in memory, as it wrote out the short loop inside them.

On a processor that can store such lanes (AVX-512) LLVM thinks too well of it: the elements of a short row go to memory one by one,
and the row is not a vector any more. Without that LLVM makes vectors of the row, as far as it goes.
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

__all__ = ["SCATTERS", "loops_that_scatter"]

SCATTERS = 512  # bits of a vector from which x86 stores lanes that are apart
_SHORT = range(3, 16)  # iterations of a loop that is written out before LLVM makes vectors of it
_WRITTEN = 256  # bodies up to which the loops inside a loop are written out
_FREE = {"if_then_else", "likely", "reinterpret", "assume", "fma"}


def loops_that_scatter(body: Any, lets: Mapping[Var, PrimExpr], machine: Machine) -> set[For]:
    """The loops along which each store moves by more than one element, while it goes to the next one along the innermost of short
    loops inside, or in the next statement. Bodies that call functions are left alone: vectors of those are worth more than what the stores cost."""
    if machine.vector_bits < SCATTERS:
        return set()
    return {inside.loop for inside in _Around(body).found if _scatters(inside, lets)}


@dataclass
class _Inside:
    """What is in a loop: loads and calls, the stores each with the innermost loop around it, and how many bodies there are once
    the loops in it are written out."""

    loop: For
    stores: list[tuple[BufferStore, For]] = field(default_factory=list)
    others: list[BufferLoad | Call] = field(default_factory=list)
    bodies: int = 1

    def add(self, other: _Inside) -> None:
        """Add a loop inside that is written out; if it is not one, this one is not, either."""
        extent = other.loop.extent
        short = isinstance(extent, IntImm) and extent.value in _SHORT
        self.bodies += other.bodies * extent.value if short else _WRITTEN + 1  # pyright: ignore[reportAttributeAccessIssue]
        if self.bodies <= _WRITTEN:
            self.stores += other.stores
            self.others += other.others


class _Around(ChainVisitor):
    """The loops around loops that are all written out, with what is in them."""

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
        store.buffer.data not in loaded and _apart(store, inside.loop, inner, places, lets)
        for store, inner in inside.stores
    )


def _apart(
    store: BufferStore, loop: For, inner: For, places: Collection[tuple[Var, int | None]], lets: Mapping[Var, PrimExpr]
) -> bool:
    """Whether a store of one element goes to the next one along the inner loop, or is next to one of `places`, which others store
    to in the same iteration; and goes further along the outer loop."""
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
    """The place of a store if variables have these values, and all others are 0; None if that is not known."""
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
