"""The primitive that pads a computation to rounder sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir.ops import ceildiv, if_then_else, make_zero
from tvmagic.ir.query import is_one
from tvmagic.tir.blocks.conditions import all_of
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.buffers import BufferReplacer
from tvmagic.tir.schedule.instruction import BlockRef, primitive
from tvmagic.tir.schedule.primitives.layout import single_nest
from tvmagic.tir.schedule.primitives.reindex import point, reordered_buffer
from tvmagic.tir.schedule.requirements import (
    check_loops_unused,
    check_no_matches,
    check_no_pointer,
    complete_failure,
    reduction_failure,
    runs_over,
    scope_root,
)
from tvmagic.tir.schedule.state import ScheduleState

TRUE = ir.IntImm("bool", 1)


def _check_padding(block: StmtSRef, padding: Sequence[int]) -> None:
    count = len(block.block.iter_vars)
    if len(padding) != count or any(p <= 0 for p in padding):
        raise ScheduleError(
            f"the padding of {block.label} is a list of {count} positive integers, not {list(padding)}",
            block,
            code="pad_einsum.wrong_padding",
        )


Access = tuple[ir.Buffer, Sequence[ir.PrimExpr]]


@dataclass
class _AccessCollector:
    """What a block loads and stores, in its body and its init."""

    block: ir.Block
    loads: list[ir.BufferLoad] = field(default_factory=list[ir.BufferLoad])
    stores: list[ir.BufferStore] = field(default_factory=list[ir.BufferStore])

    def __post_init__(self) -> None:
        ir.post_order_visit(self.block.body, self._look)
        if self.block.init is not None:
            ir.post_order_visit(self.block.init, self._look)

    def _look(self, node: object) -> None:
        if isinstance(node, ir.BufferLoad):
            self.loads.append(node)
        elif isinstance(node, ir.BufferStore):
            self.stores.append(node)

    def read(self) -> list[Access]:
        """Where the block loads: in the order of its regions, which may be larger, then what is in no region, as an index
        that `cache_index` made."""
        places: dict[ir.Buffer, Sequence[ir.PrimExpr]] = {}
        for load in self.loads:
            places.setdefault(load.buffer, load.indices)
        written = {region.buffer for region in self.block.writes}
        return [*_places(self.block.reads, places), *((b, i) for b, i in places.items() if b not in written)]

    def written(self) -> list[Access]:
        """Where the block stores, in the order of its regions, which may be larger."""
        return _places(self.block.writes, {store.buffer: store.indices for store in self.stores})


def _places(regions: Sequence[ir.BufferRegion], places: dict[ir.Buffer, Sequence[ir.PrimExpr]]) -> list[Access]:
    """The place in each region; taken out of `places`."""
    return [(r.buffer, places.pop(r.buffer, [side.min for side in r.region])) for r in regions]


def _check_einsum(
    state: ScheduleState, block: StmtSRef, root: StmtSRef, padded: set[ir.Var], accesses: _AccessCollector
) -> None:
    """Every access is at plain variables, and padding with zeros does not change what is reduced."""

    def refuse(why: str, code: str) -> None:
        raise ScheduleError(f"{block.label} is not a computation that can be padded: {why}", block, code=code)

    if complete_failure(state, block, root) and reduction_failure(state, block, root):
        refuse("it is neither complete nor a reduction", code="pad_einsum.not_complete_or_reduction")
    for access in (*accesses.loads, *accesses.stores):
        for index in access.indices:
            if not isinstance(index, (ir.Var, ir.IntImm)):
                refuse(
                    f"it accesses buffer `{access.buffer.name}` at `{index}`, which is not a plain variable",
                    code="pad_einsum.index_not_a_variable",
                )
    if not isinstance(block.block.body, ir.BufferStore):
        refuse("its body is not one store", code="pad_einsum.not_one_store")
    reduced = {v.var for v in block.block.iter_vars if v.iter_type == ir.IterVar.CommReduce} & padded
    store = block.block.body
    assert isinstance(store, ir.BufferStore)
    for var in padded - reduced:  # else the iterations that are added would overwrite the result
        if not any(index is var for index in store.indices):
            refuse(
                f"what it writes to `{store.buffer.name}` is not indexed by `{var.name}`",
                code="pad_einsum.output_not_indexed",
            )
    if reduced:
        for var in reduced:
            if not (isinstance(store.value, ir.Add) and _vanishes(store.value.b, var)):
                refuse(f"zeros along `{var.name}` would change its result", code="pad_einsum.zeros_change_result")


def _check_outputs_whole(block: StmtSRef, padded: set[ir.Buffer], accesses: _AccessCollector) -> None:
    """The block must write all of each padded output, which is copied back as a whole."""
    extents = {v.var: v.dom.extent for v in block.block.iter_vars if v.dom is not None}
    for buffer, indices in accesses.written():
        sides = zip(indices, buffer.shape)
        whole = [is_one(n) or (isinstance(i, ir.Var) and i in extents and _equal(extents[i], n)) for i, n in sides]
        if buffer in padded and not all(whole):
            raise ScheduleError(
                f"{block.label} writes only a part of buffer `{buffer.name}`, which would be copied back as a whole",
                block,
                hint="pad the computation before it is moved below other blocks",
                code="pad_einsum.partial_output",
            )


def _vanishes(value: ir.PrimExpr, var: ir.Var) -> bool:
    """Whether an expression is 0 where every buffer indexed by `var` is 0."""
    if isinstance(value, ir.Cast):
        return _vanishes(value.value, var)
    if isinstance(value, ir.Mul):
        return _vanishes(value.a, var) or _vanishes(value.b, var)
    if isinstance(value, ir.Add):
        return _vanishes(value.a, var) and _vanishes(value.b, var)
    return isinstance(value, ir.BufferLoad) and any(i is var for i in value.indices)


def _padded_shape(
    buffer: ir.Buffer, indices: Sequence[ir.PrimExpr], extents: dict[ir.Var, ir.PrimExpr]
) -> list[ir.PrimExpr]:
    return [extents[i] if isinstance(i, ir.Var) and i in extents else size for i, size in zip(indices, buffer.shape)]


def _copy_nest(
    source: ir.Buffer, target: ir.Buffer, shape: Sequence[ir.PrimExpr], value_guard: Sequence[ir.PrimExpr] | None
) -> ir.BlockRealize:
    """The block that copies between a buffer and its padded twin; zeros where the guard does not hold."""
    variables = [ir.Var(f"v{i}", s.dtype) for i, s in enumerate(shape)]
    iters = [
        ir.IterVar(ir.Range.from_min_extent(ir.IntImm(s.dtype, 0), s), v, ir.IterVar.DataPar)
        for v, s in zip(variables, shape)
    ]
    value: ir.PrimExpr = ir.BufferLoad(source, variables)
    name = target.name
    if value_guard is None:
        name = source.name
    else:
        conditions = [v < limit for v, limit, size in zip(variables, value_guard, shape) if not _equal(limit, size)]
        value = if_then_else(all_of(conditions), value, make_zero(source.dtype))
    block = ir.Block(
        iters,
        [ir.BufferRegion(source, point(variables))],
        [ir.BufferRegion(target, point(variables))],
        name,
        ir.BufferStore(target, value, variables),
    )
    loops = [ir.Var(f"i{i}", s.dtype) for i, s in enumerate(shape)]
    return ir.BlockRealize(loops, TRUE, block)


def _equal(a: ir.PrimExpr, b: ir.PrimExpr) -> bool:
    return a is b or Analyzer().can_prove_equal(a, b)


def _under_loops(realize: ir.BlockRealize) -> ir.Stmt:
    body: ir.Stmt = realize
    for var, value in reversed(list(zip(realize.block.iter_vars, realize.iter_values))):
        assert var.dom is not None and isinstance(value, ir.Var)
        body = ir.For(value, 0, var.dom.extent, ir.ForKind.SERIAL, body)
    return body


def _own_loops(state: ScheduleState, block: StmtSRef) -> dict[ir.Var, ir.Var]:
    """By its variable, the loop that each variable of a block is bound to and runs over; raises if it has none."""
    realize = state.realize_of(block)
    loops = {s.loop.loop_var: s.loop for s in state.loops_of(block)}
    loop_of: dict[ir.Var, ir.Var] = {}
    for var, value in zip(block.block.iter_vars, realize.iter_values):
        own = isinstance(value, ir.Var) and value not in loop_of and value in loops and runs_over(loops[value], var)
        if not own or not is_one(realize.predicate):
            raise ScheduleError(
                f"the variable `{var.var.name}` of {block.label} is not bound to a loop of its own",
                block,
                code="pad_einsum.variable_without_loop",
            )
        assert isinstance(value, ir.Var)
        loop_of[value] = var.var
    return loop_of


@primitive("PadEinsum")
def pad_einsum(state: ScheduleState, block: BlockRef, padding: list[int]) -> None:
    """Pad the extents of a block's variables to multiples of `padding`, one number a variable.

    Inputs are copied into buffers padded with zeros, the output is computed padded and copied back.

    Requires: the block is alone in its loops, complete or a reduction, its body one store, all accesses at plain
    variables, each bound to a loop over just its domain; padding with zeros does not change what it reduces; its
    output is indexed by each padded variable that it does not reduce over; it writes all of each output.

    Example
    -------
    `sch.pad_einsum("B", [12])` makes of

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] * 2.0

    this:

        A_pad = T.alloc_buffer((24,))
        B_pad = T.alloc_buffer((24,))
        for i0 in range(24):
            with T.block("A_pad"):
                v0 = T.axis.spatial(24, i0)
                A_pad[v0] = T.if_then_else(v0 < 16, A[v0], T.float32(0.0))
        for i in range(24):
            with T.block("B"):
                v = T.axis.spatial(24, i)
                B_pad[v] = A_pad[v] * T.float32(2.0)
        for i0 in range(16):
            with T.block("B_pad"):
                v0 = T.axis.spatial(16, i0)
                B[v0] = B_pad[v0]
    """
    numbers = [int(p) for p in padding]
    _check_padding(block, numbers)
    root = scope_root(state, block)
    check_no_matches(block)
    check_loops_unused(state, block)
    stmt = block.block
    extents, padded = _padded_extents(stmt, numbers)
    accesses = _AccessCollector(stmt)
    if stmt.iter_vars:
        _check_einsum(state, block, root, padded, accesses)
    if not padded:
        return
    outermost = single_nest(state, block)
    before, after, twins = _pad_buffers(accesses, extents)
    _check_outputs_whole(block, set(twins), accesses)
    for buffer in twins:
        check_no_pointer(stmt, buffer, block)
    iters = [
        v.replace(dom=ir.Range.from_min_extent(v.dom.min, extents[v.var])) for v in stmt.iter_vars if v.dom is not None
    ]
    new = BufferReplacer(twins).visit(stmt).replace(iter_vars=tuple(iters))
    assert outermost.parent is root and outermost.stmt is not None
    body = root.block.body
    parts = list(body.seq) if isinstance(body, ir.SeqStmt) else [body]
    place = max(outermost.seq_index, 0)
    parts[place : place + 1] = [*before, _padded_nest(state, block, new, extents), *after]
    scope = root.block.replace(
        body=ir.SeqStmt.flatten(*parts), alloc_buffers=(*root.block.alloc_buffers, *twins.values())
    )
    state.replace(root, scope, {root.block: scope, stmt: new})


def _padded_extents(stmt: ir.Block, numbers: Sequence[int]) -> tuple[dict[ir.Var, ir.PrimExpr], set[ir.Var]]:
    """The extents of a block's variables as multiples of some numbers, and the variables whose extent grows."""
    analyzer = Analyzer()
    extents: dict[ir.Var, ir.PrimExpr] = {}
    padded: set[ir.Var] = set()
    for var, number in zip(stmt.iter_vars, numbers):
        assert var.dom is not None
        extents[var.var] = analyzer.simplify(ceildiv(var.dom.extent, number) * number)
        if not _equal(extents[var.var], var.dom.extent):
            padded.add(var.var)
    return extents, padded


def _padded_nest(state: ScheduleState, block: StmtSRef, new: ir.Block, extents: dict[ir.Var, ir.PrimExpr]) -> ir.Stmt:
    """The new block in its loops, those of its variables with the new extents."""
    loop_of = _own_loops(state, block)
    nest: ir.Stmt = state.realize_of(block).replace(block=new)
    for sref in reversed(state.loops_of(block)):
        loop = sref.loop
        extent = extents[loop_of[loop.loop_var]] if loop.loop_var in loop_of else loop.extent
        nest = loop.replace(extent=extent, body=nest)
    return nest


def _pad_buffers(
    accesses: _AccessCollector, extents: dict[ir.Var, ir.PrimExpr]
) -> tuple[list[ir.Stmt], list[ir.Stmt], dict[ir.Buffer, ir.Buffer]]:
    """The copies before and after the block, and the padded twin of each buffer that grows."""
    before: list[ir.Stmt] = []
    after: list[ir.Stmt] = []
    twins: dict[ir.Buffer, ir.Buffer] = {}
    for side, places in (("read", accesses.read()), ("write", accesses.written())):
        for buffer, indices in places:
            shape = _padded_shape(buffer, indices, extents)
            if buffer in twins or all(_equal(a, b) for a, b in zip(shape, buffer.shape)):
                continue
            twin = twins[buffer] = reordered_buffer(buffer, "pad", shape)
            if side == "read":
                before.append(_under_loops(_copy_nest(buffer, twin, shape, buffer.shape)))
            else:
                after.append(_under_loops(_copy_nest(twin, buffer, buffer.shape, None)))
    return before, after, twins
