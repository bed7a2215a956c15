"""What one iteration of a block reads of a buffer that it updates: what was there, or what it has just written."""

from __future__ import annotations

from dataclasses import dataclass

from tvmagic.arith.iter_map import IterMapLevel, detect_iter_map
from tvmagic.ir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    PrimExpr,
    Range,
    Stmt,
    Var,
    Visitor,
    While,
    handles,
    structural_equal,
    substitute,
)
from tvmagic.ir.query import is_one


@dataclass(eq=False)
class _Access:
    """A load or store: its indices in terms of loops, those loops, the stores before it, and its own store."""

    indices: list[PrimExpr]
    loops: list[Stmt]
    earlier: int
    store: BufferStore | None


class _Accesses(Visitor):
    """The loads and the stores of a buffer in the order of the text."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.loops: list[Stmt] = []
        self.values: dict[Var, PrimExpr] = {}
        self.store: BufferStore | None = None
        self.loads: list[_Access] = []
        self.stores: list[_Access] = []
        self.matched = False

    @handles(For)
    @handles(While)
    def loop(self, node: For | While) -> None:
        once = isinstance(node, For) and is_one(node.extent)
        if not once:
            self.loops.append(node)
        self.visit_children(node)
        if not once:
            self.loops.pop()

    @handles(BlockRealize)
    def realize(self, node: BlockRealize) -> None:
        self.visit(node.predicate)
        for var, value in zip(node.block.iter_vars, node.iter_values):
            self.visit(value)
            self.values[var.var] = substitute(value, self.values)
        self.inside(node.block)

    def inside(self, block: Block) -> None:
        """The statements of a block, without the regions that it declares."""
        self.matched = self.matched or any(match.source.buffer is self.buffer for match in block.match_buffers)
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)

    @handles(BufferStore)
    def stored(self, node: BufferStore) -> None:
        if node.buffer is not self.buffer:
            self.visit_children(node)
            return
        self.store = node
        self.visit_children(node)
        self.store = None
        self.stores.append(self.access(node))

    @handles(BufferLoad)
    def loaded(self, node: BufferLoad) -> None:
        self.visit_children(node)
        if node.buffer is self.buffer:
            self.loads.append(self.access(node))

    def access(self, node: BufferLoad | BufferStore) -> _Access:
        indices = [substitute(index, self.values) for index in node.indices]
        return _Access(indices, list(self.loops), len(self.stores), self.store)


def _may_follow(load: _Access, store: _Access, place: int) -> bool:
    """Whether the store, the one at `place` in the text, may run before the load."""
    return place < load.earlier or any(loop in store.loops for loop in load.loops)


def _is_own(load: _Access, store: _Access) -> bool:
    """Whether the load is of the element that its store writes, which no other iteration of the loops writes."""
    if load.store is None or not all(structural_equal(a, b) for a, b in zip(load.indices, store.indices)):
        return False
    domains: dict[Var, Range] = {}
    for loop in store.loops:
        if not isinstance(loop, For):
            return False
        domains[loop.loop_var] = Range.from_min_extent(loop.min, loop.extent)
    found = detect_iter_map(store.indices, domains, check_level=IterMapLevel.Bijective) if domains else None
    return found is None or bool(found.indices)


def reads_before_it_writes(block: Block, buffer: Buffer) -> bool:
    """Whether an iteration of `block` is seen to read no element of `buffer` that it has written before."""
    accesses = _Accesses(buffer)
    accesses.inside(block)
    if accesses.matched:
        return False
    return all(
        not _may_follow(load, store, place) or (len(accesses.stores) == 1 and _is_own(load, store))
        for load in accesses.loads
        for place, store in enumerate(accesses.stores)
    )
