"""What the parts of a program load and store, found once for each part.

A statement never changes, so what was found for one stays true; after a rewrite only the parts
that are new are searched. That keeps the inlining of a long list of blocks cheap.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

from tvmagic.arith.block_regions import block_read_write_regions
from tvmagic.ir import Block, Buffer, BufferLoad, BufferStore, Call, IfThenElse, SeqStmt, Stmt, Var, Visitor, handles
from tvmagic.tir.blocks.regions import with_detected_regions


class BlockAccesses(NamedTuple):
    """A block in a statement: its stores, the buffers that it loads, what is in it and around it.

    `variables` occur in its stores, `inner` says that the block holds other blocks; `branch` that an `IfThenElse` is in its body or
    between it and the statement's top; `calls` are the names of the operators and functions called.
    """

    block: Block
    stores: tuple[BufferStore, ...]
    stored: frozenset[Buffer]
    loads: frozenset[Buffer]
    variables: frozenset[Var]
    inner: bool
    branch: bool
    calls: frozenset[str]


class Accesses(NamedTuple):
    """The blocks of a statement in program order, and the buffers that all of it loads and stores."""

    blocks: tuple[BlockAccesses, ...]
    loads: frozenset[Buffer]
    stores: frozenset[Buffer]

    def holds(self, block: Block) -> bool:
        return any(found.block is block for found in self.blocks)


class _Open:
    """What is being gathered for one block."""

    def __init__(self, branch: bool) -> None:
        self.stores: list[BufferStore] = []
        self.loads: set[Buffer] = set()
        self.calls: set[str] = set()
        self.variables: set[Var] = set()
        self.inner, self.branch = False, branch


class _Gather(Visitor):
    def __init__(self) -> None:
        self.blocks: list[BlockAccesses] = []
        self.loads: set[Buffer] = set()
        self.stores: set[Buffer] = set()
        self.open: list[_Open] = []
        self.branches = 0

    @handles(Block)
    def block(self, node: Block) -> None:
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

    @handles(IfThenElse)
    def condition(self, node: IfThenElse) -> None:
        self.branches += 1
        for outer in self.open:
            outer.branch = True
        self.visit_children(node)
        self.branches -= 1

    @handles(BufferStore)
    def store(self, node: BufferStore) -> None:
        self.stores.add(node.buffer)
        for outer in self.open:
            outer.stores.append(node)
        self.visit_children(node)

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> None:
        self.loads.add(node.buffer)
        for outer in self.open:
            outer.loads.add(node.buffer)
        for index in node.indices:
            self.visit(index)

    @handles(Var)
    def variable(self, node: Var) -> None:
        for outer in self.open:
            outer.variables.add(node)

    @handles(Call)
    def call(self, node: Call) -> None:
        for outer in self.open:
            outer.calls.add(getattr(node.op, "name", None) or node.op.name_hint)  # type: ignore[union-attr]
        self.visit_children(node)


_known: WeakKeyDictionary[Stmt, Accesses] = WeakKeyDictionary()


def accesses(stmt: Stmt) -> Accesses:
    """The blocks, loads and stores of a statement."""
    found = _known.get(stmt)
    if found is None:
        gather = _Gather()
        gather.visit(stmt)
        found = Accesses(tuple(gather.blocks), frozenset(gather.loads), frozenset(gather.stores))
        _known[stmt] = found
    return found


def with_regions(block: Block) -> Block:
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

    def __init__(self, root: Block) -> None:
        self.parts = root.body.seq if isinstance(root.body, SeqStmt) else (root.body,)
        self.blocks: dict[Block, BlockAccesses] = {}
        self.part: dict[Block, int] = {}
        self.leaves: list[BlockAccesses] = []
        self.place: dict[Block, int] = {}
        self.writers: dict[Buffer, list[int]] = {}
        self.readers: dict[Buffer, list[int]] = {}
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

    def writers_of(self, buffer: Buffer) -> list[BlockAccesses]:
        """The leaves that store `buffer`, in program order."""
        return [self.leaves[place] for place in self.writers.get(buffer, ())]

    def readers_of(self, buffer: Buffer) -> list[BlockAccesses]:
        """The leaves that load `buffer`, in program order."""
        return [self.leaves[place] for place in self.readers.get(buffer, ())]


_scopes: WeakKeyDictionary[Block, Scope] = WeakKeyDictionary()


def scope(root: Block) -> Scope:
    """What the blocks under a root block load and store."""
    found = _scopes.get(root)
    if found is None:
        found = _scopes[root] = Scope(root)
    return found
