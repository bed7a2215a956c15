"""What the parts of a program load and store, found once for each part.

A statement never changes, so what was found for one stays true; after a rewrite only the parts
that are new are searched. That keeps the inlining of a long list of blocks cheap.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

from tvmagic import ir
from tvmagic.arith.block_regions import block_read_write_regions
from tvmagic.tir.blocks.regions import with_detected_regions


class BlockAccesses(NamedTuple):
    """A block in a statement: its stores, the buffers that it loads, what is in it and around it.

    `variables` occur in its stores, `inner` says that the block holds other blocks; `branch` that an `IfThenElse` is in its body or
    between it and the statement's top; `calls` are the names of the operators and functions called.
    """

    block: ir.Block
    stores: tuple[ir.BufferStore, ...]
    stored: frozenset[ir.Buffer]
    loads: frozenset[ir.Buffer]
    variables: frozenset[ir.Var]
    inner: bool
    branch: bool
    calls: frozenset[str]


class Accesses(NamedTuple):
    """The blocks of a statement in program order, and the buffers that all of it loads and stores."""

    blocks: tuple[BlockAccesses, ...]
    loads: frozenset[ir.Buffer]
    stores: frozenset[ir.Buffer]

    def holds(self, block: ir.Block) -> bool:
        return any(found.block is block for found in self.blocks)


class _Open:
    """What is being gathered for one block."""

    def __init__(self, branch: bool) -> None:
        self.stores: list[ir.BufferStore] = []
        self.loads: set[ir.Buffer] = set()
        self.calls: set[str] = set()
        self.variables: set[ir.Var] = set()
        self.inner, self.branch = False, branch


class _Gather(ir.Visitor):
    def __init__(self) -> None:
        self.blocks: list[BlockAccesses] = []
        self.loads: set[ir.Buffer] = set()
        self.stores: set[ir.Buffer] = set()
        self.open: list[_Open] = []
        self.branches = 0

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> None:
        known = _known.get(node)
        if known is not None and not self.open and not self.branches:
            self.blocks += known.blocks
            self.loads |= known.loads
            self.stores |= known.stores
            return
        for outer in self.open:
            outer.inner = True
        here = _Open(self.branches > 0)
        place = len(self.blocks)
        self.open.append(here)
        self.visit(node.body)
        if node.init is not None:
            self.visit(node.init)
        self.open.pop()
        found = BlockAccesses(
            node,
            tuple(here.stores),
            frozenset([store.buffer for store in here.stores]),
            frozenset(here.loads),
            frozenset(here.variables),
            here.inner,
            here.branch,
            frozenset(here.calls),
        )
        self.blocks.insert(place, found)

    @ir.handles(ir.IfThenElse)
    def condition(self, node: ir.IfThenElse) -> None:
        self.branches += 1
        for outer in self.open:
            outer.branch = True
        self.visit_children(node)
        self.branches -= 1

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        self.stores.add(node.buffer)
        for outer in self.open:
            outer.stores.append(node)
        self.visit_children(node)

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        self.loads.add(node.buffer)
        for outer in self.open:
            outer.loads.add(node.buffer)
        for index in node.indices:
            self.visit(index)

    @ir.handles(ir.Var)
    def variable(self, node: ir.Var) -> None:
        for outer in self.open:
            outer.variables.add(node)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        for outer in self.open:
            outer.calls.add(getattr(node.op, "name", None) or node.op.name_hint)  # type: ignore[union-attr]
        self.visit_children(node)


_known: WeakKeyDictionary[ir.Stmt, Accesses] = WeakKeyDictionary()


def accesses(stmt: ir.Stmt) -> Accesses:
    """The blocks, loads and stores of a statement."""
    found = _known.get(stmt)
    if found is None:
        gather = _Gather()
        gather.visit(stmt)
        found = Accesses(tuple(gather.blocks), frozenset(gather.loads), frozenset(gather.stores))
        _known[stmt] = found
    return found


def with_regions(block: ir.Block) -> ir.Block:
    """The block with its reads and writes as its body has them.

    What was found for the body is kept for the new block, so that a long body is searched once.
    """
    found = accesses(block)
    own = found.blocks[0]
    if block.alloc_buffers or block.match_buffers or own.inner:
        return with_detected_regions(block)
    pointers = {buffer.data: buffer for buffer in (*found.loads, *found.stores)}
    reads, writes = block_read_write_regions(block, pointers)
    new = block.replace(reads=reads, writes=writes)
    _known[new] = found._replace(blocks=(own._replace(block=new),))
    return new


class Scope:
    """The blocks under a root: all of them by identity, the leaves in program order, who writes and reads.

    `writers` and `readers` give for each buffer the places in `leaves` of the blocks that store or load
    it; `place` gives a leaf's place, `part` the number of the root's statement that holds a block.
    """

    def __init__(self, root: ir.Block) -> None:
        self.parts = root.body.seq if isinstance(root.body, ir.SeqStmt) else (root.body,)
        self.blocks: dict[ir.Block, BlockAccesses] = {}
        self.part: dict[ir.Block, int] = {}
        self.leaves: list[BlockAccesses] = []
        self.place: dict[ir.Block, int] = {}
        self.writers: dict[ir.Buffer, list[int]] = {}
        self.readers: dict[ir.Buffer, list[int]] = {}
        for number, part in enumerate(self.parts):
            for found in accesses(part).blocks:
                self.blocks[found.block], self.part[found.block] = found, number
                if not found.inner:
                    self.place[found.block] = len(self.leaves)
                    self.leaves.append(found)
        for place, found in enumerate(self.leaves):
            for buffer in found.stored:
                self.writers.setdefault(buffer, []).append(place)
            for buffer in found.loads:
                self.readers.setdefault(buffer, []).append(place)

    def writers_of(self, buffer: ir.Buffer) -> list[BlockAccesses]:
        """The leaves that store `buffer`, in program order."""
        return [self.leaves[place] for place in self.writers.get(buffer, ())]

    def readers_of(self, buffer: ir.Buffer) -> list[BlockAccesses]:
        """The leaves that load `buffer`, in program order."""
        return [self.leaves[place] for place in self.readers.get(buffer, ())]


_scopes: WeakKeyDictionary[ir.Block, Scope] = WeakKeyDictionary()


def scope(root: ir.Block) -> Scope:
    """What the blocks under a root block load and store."""
    found = _scopes.get(root)
    if found is None:
        found = _scopes[root] = Scope(root)
    return found
