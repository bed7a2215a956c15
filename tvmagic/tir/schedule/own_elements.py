"""What one iteration of a block reads of a buffer that it updates: what was there, or what it has just written."""

from __future__ import annotations

from dataclasses import dataclass

from tvmagic import ir
from tvmagic.arith.iter_map import IterMapLevel, detect_iter_map
from tvmagic.ir.query import is_one


@dataclass(eq=False)
class _Access:
    """A load or store: its indices in terms of loops, those loops, the stores before it, and its own store."""

    indices: list[ir.PrimExpr]
    loops: list[ir.Stmt]
    earlier: int
    store: ir.BufferStore | None


class _AccessCollector(ir.Visitor):
    """The loads and the stores of a buffer in the order of the text."""

    def __init__(self, buffer: ir.Buffer) -> None:
        self.buffer = buffer
        self.loops: list[ir.Stmt] = []
        self.values: dict[ir.Var, ir.PrimExpr] = {}
        self.store: ir.BufferStore | None = None
        self.loads: list[_Access] = []
        self.stores: list[_Access] = []
        self.matched = False

    @ir.handles(ir.For)
    @ir.handles(ir.While)
    def loop(self, node: ir.For | ir.While) -> None:
        once = isinstance(node, ir.For) and is_one(node.extent)
        if not once:
            self.loops.append(node)
        self.visit_children(node)
        if not once:
            self.loops.pop()

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> None:
        self.visit(node.predicate)
        for var, value in zip(node.block.iter_vars, node.iter_values):
            self.visit(value)
            self.values[var.var] = ir.substitute(value, self.values)
        self.inside(node.block)

    def inside(self, block: ir.Block) -> None:
        """The statements of a block, without the regions that it declares."""
        self.matched = self.matched or any(match.source.buffer is self.buffer for match in block.match_buffers)
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)

    @ir.handles(ir.BufferStore)
    def stored(self, node: ir.BufferStore) -> None:
        if node.buffer is not self.buffer:
            self.visit_children(node)
            return
        self.store = node
        self.visit_children(node)
        self.store = None
        self.stores.append(self.access(node))

    @ir.handles(ir.BufferLoad)
    def loaded(self, node: ir.BufferLoad) -> None:
        self.visit_children(node)
        if node.buffer is self.buffer:
            self.loads.append(self.access(node))

    def access(self, node: ir.BufferLoad | ir.BufferStore) -> _Access:
        indices = [ir.substitute(index, self.values) for index in node.indices]
        return _Access(indices, list(self.loops), len(self.stores), self.store)


def _may_follow(load: _Access, store: _Access, place: int) -> bool:
    """Whether the store, the one at `place` in the text, may run before the load."""
    return place < load.earlier or any(loop in store.loops for loop in load.loops)


def _is_own(load: _Access, store: _Access) -> bool:
    """Whether the load is of the element that its store writes, which no other iteration of the loops writes."""
    if load.store is None or not all(ir.structural_equal(a, b) for a, b in zip(load.indices, store.indices)):
        return False
    domains: dict[ir.Var, ir.Range] = {}
    for loop in store.loops:
        if not isinstance(loop, ir.For):
            return False
        domains[loop.loop_var] = ir.Range.from_min_extent(loop.min, loop.extent)
    found = detect_iter_map(store.indices, domains, check_level=IterMapLevel.Bijective) if domains else None
    return found is None or bool(found.indices)


def reads_before_it_writes(block: ir.Block, buffer: ir.Buffer) -> bool:
    """Whether an iteration of `block` is seen to read no element of `buffer` that it has written before."""
    accesses = _AccessCollector(buffer)
    accesses.inside(block)
    if accesses.matched:
        return False
    return all(
        not _may_follow(load, store, place) or (len(accesses.stores) == 1 and _is_own(load, store))
        for load in accesses.loads
        for place, store in enumerate(accesses.stores)
    )
