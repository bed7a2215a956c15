"""The regions of buffers that a block reads and writes, found from its body.

What TVM's script completion and its schedule primitives call the access regions of a block.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set import IntSet, intersect, neg_inf, pos_inf, union
from tvmagic.arith.int_set_eval import eval_set
from tvmagic.ir.buffer import Buffer, BufferRegion, MatchBufferRegion
from tvmagic.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BufferLoad,
    Call,
    CmpOp,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Let,
    Mul,
    Not,
    PrimExpr,
    Range,
    Sub,
    Var,
)
from tvmagic.ir.functor import Visitor, handles, post_order_visit, substitute
from tvmagic.ir.op import Op
from tvmagic.ir.query import linear_terms, nodes_of, operands
from tvmagic.ir.stmt import Block, BlockRealize, BufferStore, For, IfThenElse, LetStmt

_IF = Op.get("tir.if_then_else")
_ACCESS_PTR = Op.get("tir.tvm_access_ptr")
_LIKELY = Op.get("tir.likely")
Regions = tuple[BufferRegion, ...]


def block_access_regions(block: Block, buffer_var_map: Mapping[Var, Buffer]) -> tuple[Regions, Regions, Regions]:
    """What `block` reads, writes, and uses by its pointer alone, one region for each buffer.

    Parameters
    ----------
    block: its body is searched; of blocks inside it the declared regions are taken.
    buffer_var_map: the buffers that live outside the block, by their pointers; others are left out.

    Loop variables of the body are relaxed over their ranges, within the conditions around the
    access. A buffer that a block with an `init` writes does not count as read.
    """
    finder = _RegionCollector(block, buffer_var_map)
    finder.visit(block)
    writes = finder.writes.collect()
    written: set[int] = {id(region.buffer) for region in writes} if block.init is not None else set()
    reads = tuple([region for region in finder.reads.collect() if id(region.buffer) not in written])
    return reads, writes, finder.opaque.collect()


def block_read_write_regions(block: Block, buffer_var_map: Mapping[Var, Buffer]) -> tuple[Regions, Regions]:
    """What `block` reads and writes; a buffer used by its pointer counts as both, whole."""
    reads, writes, opaque = block_access_regions(block, buffer_var_map)
    whole = {id(region.buffer) for region in opaque}
    return (
        (*[r for r in reads if id(r.buffer) not in whole], *opaque),
        (*[w for w in writes if id(w.buffer) not in whole], *opaque),
    )


class _AccessedIndices:
    """The sets of indices by which buffers are accessed, in the order of first access."""

    def __init__(self) -> None:
        self.sets: dict[int, tuple[Buffer, list[Any]]] = {}
        self.points: dict[Buffer, tuple[Var, ...] | None] = {}

    def only_at(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> bool:
        """Whether `buffer` was accessed before, and each time at these indices, which are variables.

        Asked before an access if no variable is relaxed; the access then adds nothing.
        """
        known = self.points.get(buffer)
        if known is not None and len(known) == len(indices) and all(a is b for a, b in zip(known, indices)):
            return True
        plain = buffer not in self.points and id(buffer) not in self.sets
        variables = tuple([i for i in indices if isinstance(i, Var)]) if plain else ()
        self.points[buffer] = variables if plain and len(variables) == len(indices) else None
        return False

    def add(self, buffer: Buffer, sets: list[Any]) -> None:
        known = self.sets.get(id(buffer))
        if known is None:
            self.sets[id(buffer)] = (buffer, sets)
        else:
            known[1][:] = [union([old, new]) for old, new in zip(known[1], sets)]

    def collect(self) -> Regions:
        analyzer = Analyzer()
        result: list[BufferRegion] = []
        for buffer, sets in self.sets.values():
            ranges: list[Range] = []
            for found, size in zip(sets, buffer.shape):
                if found.can_prove_single_point(analyzer):
                    low = found.min()
                    ranges.append(Range.from_min_extent(low, IntImm(low.dtype, 1)))
                else:
                    ranges.append(found.cover_range(Range.from_min_extent(IntImm(size.dtype, 0), size)))
            result.append(BufferRegion(buffer, ranges))
        return tuple(result)


class _RegionCollector(Visitor):
    def __init__(self, block: Block, buffer_var_map: Mapping[Var, Buffer]) -> None:
        self.buffers: dict[Var, Buffer] = dict(buffer_var_map)
        self.matches: dict[Var, MatchBufferRegion] = {}
        for match in block.match_buffers:
            if match.source.buffer.data in self.buffers:
                self.matches[match.buffer.data] = match
                self.buffers[match.buffer.data] = match.buffer
        self.block = block
        self.own: set[Buffer] | None = None
        self.domains: dict[Var, Any] = {}
        self.lets: dict[Var, PrimExpr] = {}
        self.reads, self.writes, self.opaque = _AccessedIndices(), _AccessedIndices(), _AccessedIndices()

    def relaxed(self, value: Any) -> Any:
        """The set of an index, or of a range, over all iterations."""
        if isinstance(value, Range):
            return eval_set(self._seen_outside(value.min, value.extent), self.domains)
        index = self._without_lets(value)
        return IntSet.everything() if self._follows_own_memory(index) else eval_set(index, self.domains)

    def _seen_outside(self, first: PrimExpr, extent: PrimExpr) -> Any:
        """The set of a range, by what is known outside the block."""
        low, size = self._without_lets(first), self._without_lets(extent)
        if self._follows_own_memory(low) or self._follows_own_memory(size):
            return IntSet.everything()
        return IntSet.from_min_extent(low, size)

    def _follows_own_memory(self, value: PrimExpr) -> bool:
        """Whether a value is loaded from what the block allocates or stores: outside it, nothing is known of that."""
        if isinstance(value, (Var, IntImm)):
            return False
        loaded = {load.buffer for load in nodes_of(value, BufferLoad)}
        if loaded and self.own is None:
            self.own = {*self.block.alloc_buffers, *[store.buffer for store in nodes_of(self.block.body, BufferStore)]}
        return bool(loaded) and self.own is not None and not loaded.isdisjoint(self.own)

    def _without_lets(self, value: PrimExpr) -> PrimExpr:
        while self.lets:
            replaced = substitute(value, self.lets.get)
            if replaced is value:
                break
            value = replaced
        return value

    def access(self, found: _AccessedIndices, buffer: Buffer, sets: list[Any]) -> None:
        if buffer.data not in self.buffers:
            return
        match = self.matches.get(buffer.data)
        if match is not None:
            buffer, sets = match.source.buffer, self._in_source(match, sets)
        found.add(buffer, sets)

    def _in_source(self, match: MatchBufferRegion, sets: list[Any]) -> list[Any]:
        """The sets in the buffer that the accessed one is a window of."""
        source = match.source.region
        extra = len(source) - len(sets)
        ranges = [Range.from_min_extent(r.min, IntImm(r.min.dtype, 1)) for r in source[:extra]]
        for found, size, window in zip(sets, match.buffer.shape, source[extra:]):
            inner = found.cover_range(Range.from_min_extent(IntImm(size.dtype, 0), size))
            ranges.append(Range.from_min_extent(window.min + inner.min, inner.extent))
        return [self.relaxed(r) for r in ranges]

    @handles(Var)
    def pointer(self, var: Var) -> None:
        buffer = self.buffers.get(var)
        if buffer is not None:
            whole = [Range.from_min_extent(IntImm(size.dtype, 0), size) for size in buffer.shape]
            self.access(self.opaque, buffer, [self.relaxed(r) for r in whole])

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> None:
        if self.domains or self.lets or self.matches:
            self.reads.points[node.buffer] = None
        elif self.reads.only_at(node.buffer, node.indices):
            return
        self.access(self.reads, node.buffer, [self.relaxed(i) for i in node.indices])
        self.visit_children(node)

    @handles(BufferStore)
    def store(self, node: BufferStore) -> None:
        self.access(self.writes, node.buffer, [self.relaxed(i) for i in node.indices])
        self.visit_children(node)

    @handles(For)
    def loop(self, node: For) -> None:
        self.domains[node.loop_var] = self._seen_outside(node.min, node.extent)
        self.visit_children(node)
        del self.domains[node.loop_var]

    @handles(LetStmt, Let)
    def let(self, node: LetStmt | Let) -> None:
        self.lets[node.var] = node.value
        self.visit_children(node)
        del self.lets[node.var]

    @handles(IfThenElse)
    def branch(self, node: IfThenElse) -> None:
        self.visit(node.condition)
        with self._where(node.condition, True):
            self.visit(node.then_case)
        if node.else_case is not None:
            with self._where(node.condition, False):
                self.visit(node.else_case)

    @handles(Call)
    def call(self, node: Call) -> None:
        if node.op is _ACCESS_PTR and self._access_pointer(node):
            return
        if node.op is not _IF:
            self.visit_children(node)
            return
        condition, then, other = node.args
        self.visit(condition)
        with self._where(condition, True):
            self.visit(then)
        with self._where(condition, False):
            self.visit(other)

    def _access_pointer(self, node: Call) -> bool:
        """Note what a pointer's mask says: 1 that it reads, 2 that it writes. Whether pointer and mask are known."""
        _, pointer, offset, extent, mask = node.args
        buffer = self.buffers.get(pointer) if isinstance(pointer, Var) else None
        if not isinstance(pointer, Var) or not isinstance(mask, IntImm):
            return False
        found = {1: self.reads, 2: self.writes, 3: self.opaque}.get(mask.value & 3)
        if buffer is not None and found is not None:
            whole = [Range.from_min_extent(IntImm(size.dtype, 0), size) for size in buffer.shape]
            self.access(found, buffer, [self.relaxed(r) for r in whole])
        self.visit(offset)
        self.visit(extent)
        return True

    @contextmanager
    def _where(self, condition: PrimExpr, holds: bool) -> Generator[None]:
        before = self.domains
        self.domains = {**before, **condition_bounds(condition, before, holds)}
        yield
        self.domains = before

    @handles(BlockRealize)
    def inner_block(self, node: BlockRealize) -> None:
        values = {axis.var: value for axis, value in zip(node.block.iter_vars, node.iter_values)}
        for found, regions in ((self.reads, node.block.reads), (self.writes, node.block.writes)):
            for region in regions:
                ranges = [substitute(r, values) for r in region.region]
                self.access(found, region.buffer, [self.relaxed(r) for r in ranges])

    @handles(IterVar)
    def axis(self, node: IterVar) -> None:
        if node.dom is not None:
            self.visit(node.dom)


# ---------------------------------------------------------------------------- conditions


def condition_bounds(condition: PrimExpr, domains: Mapping[Var, Any], holds: bool = True) -> dict[Var, Any]:
    """The sets of loop variables where `condition` holds (or, with `holds` False, does not).

    As in TVM, the comparisons of a conjunction narrow the sets where each of them is linear in one
    variable of a known domain; if one of them is not, nothing is narrowed.
    """
    comparisons = _comparisons(Analyzer().simplify(condition if holds else Not(condition)))
    sums = [_difference(comparison) for comparison in comparisons]
    if any(terms is None for terms in sums):
        return {}
    _put_in_known([(type(c), terms) for c, terms in zip(comparisons, sums) if terms is not None])
    result: dict[Var, Any] = {}
    for comparison, terms in zip(comparisons, sums):
        assert terms is not None
        constant = terms.pop(None)
        variables = [v for v, factor in terms.items() if factor and v is not None]
        if len(variables) != 1:
            return {}
        var = variables[0]
        if var not in domains:
            if isinstance(comparison, EQ):
                continue
            return {}
        narrower = intersect([result.get(var, domains[var]), _bound(type(comparison), var, terms[var], constant)])
        if narrower.is_nothing():
            return {}
        result[var] = narrower
    return result


def _put_in_known(sums: list[tuple[type, dict[Var | None, int]]]) -> None:
    """Replace variables that an equation fixes in the other comparisons."""
    for op, terms in sums:
        variables = [v for v, factor in terms.items() if factor and v is not None]
        if op is not EQ or len(variables) != 1 or terms[None] % terms[variables[0]]:
            continue
        var = variables[0]
        value = -terms[None] // terms[var]
        for _, others in sums:
            if others is not terms and others.get(var):
                others[None] += others.pop(var) * value


_SIMPLE = (Add, Sub, Mul, FloorDiv, FloorMod, IntImm, Var)


def _comparisons(condition: PrimExpr) -> list[CmpOp]:
    """The comparisons of a conjunction that have simple integer operands."""
    if isinstance(condition, Call) and condition.op is _LIKELY:
        return _comparisons(condition.args[0])
    if isinstance(condition, And):
        return [c for part in operands(condition, And) for c in _comparisons(part)]
    if not isinstance(condition, CmpOp) or not (condition.a.dtype.is_int or condition.a.dtype.is_uint):
        return []
    simple = True

    def look(node: Any) -> None:
        nonlocal simple
        simple = simple and isinstance(node, _SIMPLE)

    post_order_visit(condition.a, look)
    post_order_visit(condition.b, look)
    return [condition] if simple else []


def _difference(node: CmpOp) -> dict[Var | None, int] | None:
    """`a - b` as a sum of variables with integer factors; the constant is under None."""
    (left, plus), (right, minus) = linear_terms(node.a), linear_terms(node.b)
    terms: dict[Var | None, int] = {None: plus - minus}
    for part, factor in (*left, *[(part, -factor) for part, factor in right]):
        if not isinstance(part, Var):
            return None
        terms[part] = terms.get(part, 0) + factor
    return None if isinstance(node, NE) else terms


def _bound(op: type, var: Var, factor: int, constant: int) -> Any:
    """The set of `var` where `factor * var + constant op 0`."""
    if op in (LT, GT):  # on integers a strict comparison is one with the next number
        constant, op = (constant + 1, LE) if op is LT else (constant - 1, GE)
    if factor < 0:
        factor, constant, op = -factor, -constant, {LE: GE, GE: LE, EQ: EQ}[op]
    high = IntImm(var.dtype, -constant // factor)
    low = IntImm(var.dtype, -(constant // factor))
    if op is EQ:
        return IntSet.interval(low, high)
    return IntSet.interval(neg_inf(), high) if op is LE else IntSet.interval(low, pos_inf())
