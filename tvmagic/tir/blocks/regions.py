"""The regions that a block's body touches, found again after a rewrite."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from tvmagic import ir
from tvmagic.arith.block_regions import block_read_write_regions
from tvmagic.ir.query import is_call, is_one, nodes_of

_known: WeakKeyDictionary[ir.Block, tuple[tuple[ir.BufferRegion, ...], tuple[ir.BufferRegion, ...]]] = (
    WeakKeyDictionary()
)


class _Outside(ir.Visitor):
    """The buffers that a block uses and does not itself allocate, by their pointers."""

    def __init__(self) -> None:
        self.used: dict[ir.Var, ir.Buffer] = {}
        self.inside: set[ir.Buffer] = set()
        self.loaded: set[ir.Buffer] = set()
        self.stored: set[ir.Buffer] = set()

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        self.loaded.add(node.buffer)
        self.visit_children(node)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        self.stored.add(node.buffer)
        self.visit_children(node)

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> None:
        """What a block declares counts: its body may use a view of the buffer, or its pointer."""
        self.loaded.update([region.buffer for region in node.reads])
        self.stored.update([region.buffer for region in node.writes])
        self.visit_children(node)

    def visit_buffer_use(self, buffer: ir.Buffer) -> None:
        self.used.setdefault(buffer.data, buffer)

    def visit_buffer_def(self, buffer: ir.Buffer) -> None:
        self.inside.add(buffer)


class _Uses(ir.Visitor):
    """The buffers that a statement accesses or names."""

    def __init__(self) -> None:
        self.used: set[ir.Buffer] = set()

    def visit_buffer_use(self, buffer: ir.Buffer) -> None:
        self.used.add(buffer)


def _addressed(call: ir.Call) -> ir.Buffer | None:
    """The buffer of which a call takes the address of an element; None if it does not."""
    taken = call.args[0] if is_call(call, "tir.address_of") else None
    return taken.buffer if isinstance(taken, ir.BufferLoad) else None


class _PointerUses(ir.Visitor):
    """Whether a buffer's memory is reached other than by its own loads and stores."""

    def __init__(self, buffer: ir.Buffer) -> None:
        self.buffer, self.found = buffer, False

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> None:
        self.found = self.found or node is self.buffer.data

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        self.found = self.found or _addressed(node) is self.buffer
        self.visit_children(node)

    def visit_buffer_use(self, buffer: ir.Buffer) -> None:
        self.found = self.found or (buffer.data is self.buffer.data and buffer is not self.buffer)

    visit_buffer_def = visit_buffer_use


def used_by_pointer(stmt: ir.Stmt, buffer: ir.Buffer) -> bool:
    """Whether a statement reaches a buffer by its pointer, an address, or another buffer in the same memory."""
    uses = _PointerUses(buffer)
    uses.visit(stmt)
    return uses.found


_used: WeakKeyDictionary[ir.Stmt, frozenset[ir.Buffer]] = WeakKeyDictionary()


def used_buffers(stmt: ir.Stmt) -> frozenset[ir.Buffer]:
    """The buffers that a statement accesses or names, kept by the statement's identity."""
    found = _used.get(stmt)
    if found is None:
        finder = _Uses()
        finder.visit(stmt)
        found = _used[stmt] = frozenset(finder.used)
    return found


def outside_buffers(block: ir.Block) -> dict[ir.Var, ir.Buffer]:
    """The buffers that a block uses and does not itself allocate, by their pointers."""
    finder = _Outside()
    finder.visit(block)
    return {data: buffer for data, buffer in finder.used.items() if buffer not in finder.inside}


def detected_regions(block: ir.Block) -> tuple[tuple[ir.BufferRegion, ...], tuple[ir.BufferRegion, ...]]:
    """What the body of a block reads and writes; what it touches in unknown ways counts as both.

    What happens to a buffer by the address of an element, nobody but the block can tell: its declared regions stay.
    """
    found = _known.get(block)
    if found is None:
        reads, writes = block_read_write_regions(_with_effective_inside(block), outside_buffers(block))
        addressed = {_addressed(call) for call in nodes_of(block.body, ir.Call)}
        reads, writes = _declared_of(addressed, block.reads, reads), _declared_of(addressed, block.writes, writes)
        found = _known[block] = reads, writes
    return found


def _declared_of(
    buffers: set[ir.Buffer | None], declared: Sequence[ir.BufferRegion], found: Sequence[ir.BufferRegion]
) -> tuple[ir.BufferRegion, ...]:
    """The regions that were found, those of some buffers as they are declared."""
    kept = {region.buffer: region for region in declared if region.buffer in buffers}
    return (*[kept.pop(region.buffer, region) for region in found], *kept.values())


def _missing(buffers: set[ir.Buffer], known: Sequence[ir.BufferRegion]) -> list[ir.BufferRegion]:
    named = {region.buffer for region in known}
    return [whole_region(b) for b in sorted(buffers, key=lambda b: b.name) if b not in named]


def points_of_boxes(block: ir.Block, side: int) -> tuple[ir.BufferRegion, ...]:
    """What a block declares, with boxes of its variables' domains as the points of the variables again.

    A piece of a partitioned loop has such boxes. `side` is 0 for what the block reads, 1 for what it writes.
    """
    declared = (block.reads, block.writes)[side]
    domains = {v.var: v.dom for v in block.iter_vars}
    if not any(r.region and all(part in domains.values() for part in r.region) for r in declared):
        return declared
    found = {r.buffer: r for r in detected_regions(block)[side]}

    def point_of(region: ir.BufferRegion) -> ir.BufferRegion:
        point = found.get(region.buffer, region)
        boxes = [domains.get(part.min) if isinstance(part.min, ir.Var) else None for part in point.region]
        return point if all(map(operator.eq, boxes, region.region)) else region

    return tuple([point_of(region) for region in declared])


def _with_ranges(block: ir.Block, side: int) -> tuple[ir.BufferRegion, ...]:
    """What a block declares; of a piece of a partitioned loop, which declares one element of a range only, all of the range."""
    declared, points = (block.reads, block.writes)[side], points_of_boxes(block, side)
    if points is declared:
        return declared
    return tuple([old if all(is_one(r.extent) for r in new.region) else new for old, new in zip(declared, points)])


_effective: WeakKeyDictionary[ir.Block, tuple[tuple[ir.BufferRegion, ...], tuple[ir.BufferRegion, ...]]] = (
    WeakKeyDictionary()
)


class _Effective(ir.Mutator):
    """Blocks with their effective regions as the declared ones."""

    @ir.handles(ir.PrimExpr)
    def leaf(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return node

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Block:
        reads, writes = effective_regions(node)
        return node.with_(reads=reads, writes=writes)


def _with_effective_inside(block: ir.Block) -> ir.Block:
    """A block of which those that are next inside declare all that they do."""
    inside = _Effective()
    return block.with_(body=inside.visit(block.body), init=None if block.init is None else inside.visit(block.init))


def effective_regions(block: ir.Block) -> tuple[tuple[ir.BufferRegion, ...], tuple[ir.BufferRegion, ...]]:
    """What a block reads and writes: as it declares, and what its body touches besides.

    Some primitives declare less than the body does (hidden accesses, cached indices, pieces of a
    partitioned loop); dependences and copies must not miss it.
    """
    found = _effective.get(block)
    if found is None:
        finder = _Outside()
        finder.visit(block)
        hidden = {m.buffer for m in block.match_buffers} | finder.inside
        written = {w.buffer for w in block.writes}
        touched = set(finder.used.values()) - hidden - written - {r.buffer for r in block.reads}
        stored = finder.stored - hidden - written
        reads, writes = (_with_ranges(block, side) for side in (0, 1))
        if touched or stored:
            more_reads, more_writes = detected_regions(block)
            reads = (*reads, *[r for r in more_reads if r.buffer in touched])
            writes = (*writes, *[w for w in more_writes if w.buffer in touched | stored])
            # blocks inside that declare less than they do hide it from the detection, too
            reads = (*reads, *_missing(touched & finder.loaded, more_reads))
            writes = (*writes, *_missing(stored, more_writes))
        found = _effective[block] = (tuple(reads), tuple(writes))
    return found


def with_regions_of(block: ir.Block, old: ir.Buffer, new: ir.Buffer) -> ir.Block:
    """A block that accesses `new` in the place of `old`: the regions of `old` replaced by those detected of `new`."""

    def renewed(
        regions: tuple[ir.BufferRegion, ...], found: tuple[ir.BufferRegion, ...]
    ) -> tuple[ir.BufferRegion, ...]:
        known = {r.buffer: r for r in found}
        return tuple([known.get(new, r) if r.buffer is old else r for r in regions])

    if all(r.buffer is not old for r in (*block.reads, *block.writes)):
        return block
    reads, writes = detected_regions(block)
    return block.replace(reads=renewed(block.reads, reads), writes=renewed(block.writes, writes))


def with_detected_regions(block: ir.Block) -> ir.Block:
    """The block with its reads and writes as its body has them."""
    reads, writes = detected_regions(block)
    return block.replace(reads=tuple(reads), writes=tuple(writes))


def whole_region(buffer: ir.Buffer) -> ir.BufferRegion:
    """All of a buffer."""
    return ir.BufferRegion(buffer, [ir.Range.from_min_extent(ir.IntImm(s.dtype, 0), s) for s in buffer.shape])


def replace_buffer_in_regions(
    regions: Sequence[ir.BufferRegion], old: ir.Buffer, new: ir.Buffer
) -> tuple[ir.BufferRegion, ...]:
    """The regions with one buffer in place of another."""
    return tuple([r.replace(buffer=new) if r.buffer is old else r for r in regions])
