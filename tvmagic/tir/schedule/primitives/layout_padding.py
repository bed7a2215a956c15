"""The padding that a new layout adds: written by the block that writes the buffer, or by one of its own.

Where one block writes the whole buffer in order, it runs over the new shape and stores the padding too.
Where the buffer is written otherwise, a block after the last writer stores the padding. Where it is only
read (a parameter), a block before its readers states what the padding holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.index_map import IndexMap
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.ir.ops import assume, if_then_else, logical_not, logical_or
from tvmagic.ir.query import has_node, is_one, is_zero, nodes_of
from tvmagic.tir.blocks.domains import iter_domains
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.regions import with_detected_regions
from tvmagic.tir.schedule.access_context import AccessSimplifier
from tvmagic.tir.schedule.buffers import BufferReplacer
from tvmagic.tir.schedule.rewrite import BlockReuse


@dataclass(frozen=True)
class Padding:
    """The padding of the buffer `new`, made from `old` by `index_map`.

    `inverse` gives the old indices of new ones, `predicate` (over the variables of `inverse`) says which
    elements are padding, `pad_value` (one result) what they hold.
    """

    old: ir.Buffer
    new: ir.Buffer
    index_map: IndexMap
    inverse: IndexMap
    predicate: ir.PrimExpr
    pad_value: IndexMap

    def is_padding(self, indices: Sequence[ir.PrimExpr]) -> ir.PrimExpr:
        """Whether the element of the new buffer at `indices` is padding."""
        return ir.substitute(self.predicate, dict(zip(self.inverse.initial_indices, indices)))

    def value(self, indices: Sequence[ir.PrimExpr]) -> ir.PrimExpr:
        """What the padding at `indices` of the new buffer holds."""
        value = ir.substitute(self.pad_value.final_indices[0], dict(zip(self.pad_value.initial_indices, indices)))
        return _ToNewBuffer(self).visit(value)

    def loads_itself(self) -> bool:
        """Whether the value of the padding is made of elements of the buffer."""
        return bool(nodes_of(self.pad_value.final_indices[0], ir.BufferLoad))


class _ToNewBuffer(BufferReplacer):
    """The loads of a padding value go to the new buffer."""

    def __init__(self, padding: Padding) -> None:
        super().__init__({padding.old: padding.new})
        self.index_map = padding.index_map
        self.analyzer = Analyzer()

    def map_indices(self, buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...]) -> tuple[ir.PrimExpr, ...]:
        return tuple(self.index_map.map_indices(indices, self.analyzer))


def checked_pad_value(pad_value: IndexMap, old: ir.Buffer, ndim: int, block: Any) -> IndexMap:
    """The padding value as a map to one value of the buffer's dtype; refused if it is not that."""
    if len(pad_value.initial_indices) != ndim or len(pad_value.final_indices) != 1:
        raise ScheduleError(
            f"pad_value takes {len(pad_value.initial_indices)} indices and gives {len(pad_value.final_indices)} "
            f"values; the new layout of buffer `{old.name}` has {ndim} dimensions and one value an element",
            block,
            code="transform_layout.pad_value_shape",
        )
    value = pad_value.final_indices[0]
    for load in nodes_of(value, ir.BufferLoad):
        if load.buffer is not old:
            raise ScheduleError(
                f"pad_value loads buffer `{load.buffer.name}`: it may load `{old.name}` only",
                block,
                code="transform_layout.pad_value_loads_other_buffer",
            )
    if value.dtype is not old.dtype:
        raise ScheduleError(
            f"pad_value is a {value.dtype}, buffer `{old.name}` holds {old.dtype}",
            block,
            hint=f"write T.cast(..., '{old.dtype}')",
            code="transform_layout.pad_value_dtype",
        )
    return IndexMap(pad_value.initial_indices, [value])


def _writes(stmt: ir.Stmt, buffer: ir.Buffer) -> bool:
    def writes(node: Any) -> bool:
        if isinstance(node, ir.BufferStore):
            return node.buffer is buffer
        return isinstance(node, ir.Block) and any(region.buffer is buffer for region in node.writes)

    return has_node(stmt, writes)


def write_padding(scope: ir.Block, padding: Padding, is_parameter: bool, reuse: BlockReuse) -> ir.Block:
    """`scope`, whose accesses are in the new layout already, with the padding written (or stated)."""
    parts = list(scope.body.seq) if isinstance(scope.body, ir.SeqStmt) else [scope.body]
    writing = [i for i, part in enumerate(parts) if _writes(part, padding.new)]
    if not writing:
        if not is_parameter:
            return scope
        parts.insert(0, _own_block(padding, states=True))
    elif len(writing) == 1 and (nest := _padded_nest(parts[writing[0]], padding, reuse)) is not None:
        parts[writing[0]] = nest
    else:
        parts.insert(writing[-1] + 1, _own_block(padding, states=False))
    return scope.replace(body=ir.SeqStmt.flatten(*parts))


def _new_variables(padding: Padding) -> tuple[list[ir.Var], list[ir.IterVar]]:
    """Loop and block variables over the new buffer, with the names that the inverse of a map gives to its indices."""
    shape = padding.new.shape
    names = [f"axis{i}" for i in range(len(shape))]
    loop_vars = [ir.Var(name, size.dtype) for name, size in zip(names, shape)]
    iters = [
        ir.IterVar(
            ir.Range.from_min_extent(ir.IntImm(size.dtype, 0), size),
            ir.Var(f"v_{name}", size.dtype),
            ir.IterVar.DataPar,
        )
        for name, size in zip(names, shape)
    ]
    return loop_vars, iters


def _own_block(padding: Padding, *, states: bool) -> ir.Stmt:
    """Loops over the new buffer with a block that stores the padding, or states what it holds."""
    loop_vars, iters = _new_variables(padding)
    indices = [v.var for v in iters]
    value, new = padding.value(indices), padding.new
    predicate: ir.PrimExpr = ir.IntImm("bool", 1)
    if states:
        known = ir.BufferLoad(new, indices).equal(value)
        body: ir.Stmt = ir.Evaluate(assume(logical_or(logical_not(padding.is_padding(indices)), known)))
        name = f"buffer_{new.name}_assumptions"
    else:
        body = ir.BufferStore(new, value, indices)
        predicate = padding.is_padding(loop_vars)
        name = f"buffer_{new.name}_padding"
    block = with_detected_regions(ir.Block(iters, [], [], name, body))
    return ir.loop_nest(loop_vars, new.shape, ir.BlockRealize(loop_vars, predicate, block))


# ---------------------------------------------------------------------------- in the writer


class _StorePadding(ir.Mutator):
    """The stores to the buffer choose between its value and the padding's."""

    def __init__(self, padding: Padding, indices: Sequence[ir.Var]) -> None:
        self.padding, self.indices = padding, tuple(indices)
        self.condition = padding.is_padding(indices)
        self.value = padding.value(indices)
        self.place: tuple[ir.PrimExpr, ...] = ()

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.BufferStore:
        self.place = node.indices  # the map of the inverse of the indices: the indices, also if that is not seen
        value = if_then_else(self.condition, self.value, self.visit(node.value))
        return node.replace(value=value, indices=self.indices)

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        new = self.visit_children(node)
        same = new.buffer is self.padding.new and all(
            ir.structural_equal(a, b) for a, b in zip(new.indices, self.place)
        )
        return new.replace(indices=self.indices) if same else new


def _chain(stmt: ir.Stmt) -> tuple[list[ir.For], ir.BlockRealize] | None:
    """The loops and the block of a nest with nothing beside them."""
    loops: list[ir.For] = []
    while isinstance(stmt, ir.For):
        loops.append(stmt)
        stmt = stmt.body
    return (loops, stmt) if isinstance(stmt, ir.BlockRealize) else None


def _stored_variables(block: ir.Block, padding: Padding, domains: dict[ir.Var, ir.Range]) -> list[ir.Var] | None:
    """The variables, of those with `domains`, that index the buffer, each dimension by one, if all stores are to it.

    The stores are mapped already: that they are at `index_map(variables)` is what is checked.
    """
    stores: list[ir.BufferStore] = []
    others: list[Any] = []

    def look(node: Any) -> None:
        if isinstance(node, ir.BufferStore):
            stores.append(node)
        elif isinstance(node, (ir.Block, ir.Evaluate)):
            others.append(node)

    ir.post_order_visit(block.body, look)
    if block.init is not None:
        ir.post_order_visit(block.init, look)
    if others or any(store.buffer is not padding.new for store in stores):
        return None
    analyzer = Analyzer(domains)
    found: list[ir.Var] | None = None
    for store in stores:
        old = [analyzer.simplify(i) for i in padding.inverse.map_indices(store.indices, analyzer)]
        if not all(isinstance(i, ir.Var) and i in domains for i in old) or len(set(old)) != len(old):
            return None
        if found is not None and any(a is not b for a, b in zip(found, old)):
            return None
        found = [i for i in old if isinstance(i, ir.Var)]
    return found


def _replaced_loops(loops: list[ir.For], values: Sequence[ir.PrimExpr], shape: Sequence[ir.PrimExpr]) -> int | None:
    """Where in `loops` those begin that run over the buffer in order; None if they do not."""
    starts = [i for i, loop in enumerate(loops) if values and loop.loop_var is values[0]]
    if not starts or len(loops) - starts[0] < len(values):
        return None
    analyzer = Analyzer()
    for loop, value, size in zip(loops[starts[0] :], values, shape):
        plain = loop.kind == ir.ForKind.SERIAL and not loop.annotations and loop.thread_binding is None
        if loop.loop_var is not value or not plain or not is_zero(loop.min):
            return None
        if not analyzer.can_prove_equal(loop.extent, size):
            return None
    return starts[0]


def _padded_nest(stmt: ir.Stmt, padding: Padding, reuse: BlockReuse) -> ir.Stmt | None:
    """The nest that writes the buffer, over the new shape; None if it does not write all of it in order."""
    chain = _chain(stmt)
    if chain is None or padding.loads_itself():
        return None
    loops, realize = chain
    block = realize.block
    if not is_one(realize.predicate) or block.match_buffers or block.alloc_buffers:
        return None
    if not block.iter_vars:
        return _padded_plain_nest(loops, realize, padding, reuse)
    variables = _stored_variables(block, padding, iter_domains(block.iter_vars))
    types = {v.var: v.iter_type for v in block.iter_vars}
    if variables is None or any(types[v] != ir.IterVar.DataPar for v in variables):
        return None
    bound = dict(zip([v.var for v in block.iter_vars], realize.iter_values))
    values = [bound.pop(v) for v in variables]
    start = _replaced_loops(loops, values, padding.old.shape)
    gone = {v for v in values if isinstance(v, ir.Var)}
    kept = [*bound.values(), *[e for loop in loops for e in (loop.min, loop.extent)]]
    if start is None or any(uses_var(e, gone) for e in kept):
        return None
    loop_vars, iters = _new_variables(padding)
    new_block = _padded_block(block, padding, variables, iters)
    reuse.note(block, new_block)
    # the block's new variables are where the first of those that they replace was
    before = next(i for i, v in enumerate(block.iter_vars) if v.var in set(variables))
    new_values = list(bound.values())
    new_values[before:before] = loop_vars
    nest: ir.Stmt = realize.replace(block=new_block, iter_values=tuple(new_values))
    nest = ir.within_loops(loops[start + len(values) :], nest)
    return ir.within_loops(loops[:start], ir.loop_nest(loop_vars, padding.new.shape, nest))


def _padded_plain_nest(
    loops: list[ir.For], realize: ir.BlockRealize, padding: Padding, reuse: BlockReuse
) -> ir.Stmt | None:
    """The nest of a block without variables of its own, which stores at its loops' variables, over the new shape."""
    domains = {loop.loop_var: ir.Range.from_min_extent(loop.min, loop.extent) for loop in loops}
    variables = _stored_variables(realize.block, padding, domains)
    start = None if variables is None else _replaced_loops(loops, variables, padding.old.shape)
    if variables is None or start is None or len(loops) != start + len(variables):
        return None
    loop_vars, _ = _new_variables(padding)
    values = dict(zip(variables, padding.inverse.map_indices(loop_vars, Analyzer())))
    new_block = _with_padding(ir.substitute(realize.block, values), padding, loop_vars)
    reuse.note(realize.block, new_block)
    nest = ir.loop_nest(loop_vars, padding.new.shape, realize.replace(block=new_block))
    return ir.within_loops(loops[:start], nest)


def _padded_block(block: ir.Block, padding: Padding, variables: list[ir.Var], iters: list[ir.IterVar]) -> ir.Block:
    """The writer over the new variables `iters`, its stores with the padding."""
    indices = [v.var for v in iters]
    values = dict(zip(variables, padding.inverse.map_indices(indices, Analyzer())))
    kept = [v for v in block.iter_vars if v.var not in values]
    first = next(i for i, v in enumerate(block.iter_vars) if v.var in values)
    new_iters = [*kept[:first], *iters, *kept[first:]]
    new = ir.substitute(block.replace(iter_vars=()), values).replace(iter_vars=tuple(new_iters))
    return _with_padding(new, padding, indices)


def _with_padding(block: ir.Block, padding: Padding, indices: Sequence[ir.Var]) -> ir.Block:
    """The writer, in terms of the new variables `indices`, with the padding in its stores."""

    class Indices(AccessSimplifier):
        # the variables make more elements than the maps allow for, so they are simplified as plain numbers
        def simplified(self, indices: Sequence[ir.PrimExpr]) -> list[ir.PrimExpr]:
            return [self.analyzer.simplify(i) for i in indices]

    simple = Indices()
    for var, size in zip(indices, padding.new.shape):
        simple.analyzer.bind(var, ir.Range.from_min_extent(ir.IntImm(var.dtype, 0), size))
    new = simple.visit(block)
    change = _StorePadding(padding, indices)
    init = change.visit(new.init) if new.init is not None else None
    return with_detected_regions(new.replace(body=change.visit(new.body), init=init))
