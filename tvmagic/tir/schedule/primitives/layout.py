"""Primitives that change the order of a buffer's elements or of a block's variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.index_map import IndexMap, SeparatedIndexMap
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.errors import TVMagicError
from tvmagic.ir.ops import cast
from tvmagic.ir.query import is_one, is_zero
from tvmagic.tir.blocks.error import BufferPlaceError, ScheduleError
from tvmagic.tir.blocks.regions import used_buffers, with_regions_of
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.access_context import AccessContext, AccessSimplifier
from tvmagic.tir.schedule.buffers import BufferReplacer, buffer_of, locate_buffer
from tvmagic.tir.schedule.instruction import BlockRef, Value, primitive
from tvmagic.tir.schedule.primitives.layout_padding import Padding, checked_pad_value, write_padding
from tvmagic.tir.schedule.requirements import access_owner, check_loops_unused, check_no_pointer, runs_over, scope_root
from tvmagic.tir.schedule.state import ScheduleState, children_of, replace_child

# ---------------------------------------------------------------------------- arguments


def index_dtype_of(block: ir.Block) -> str:
    """The integer type that a block counts in."""
    if block.iter_vars:
        return block.iter_vars[0].var.dtype
    for region in (*block.reads, *block.writes):
        for r in region.region:
            return r.min.dtype
    return "int64"


def _prepare_buffer(state: ScheduleState, values: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"buffer": locate_buffer(values["block"], values["buffer"])}
    except ScheduleError as error:
        raise BufferPlaceError(error.message, values["block"], code="transform_layout.buffer_not_found") from None


def _prepare_layout(state: ScheduleState, values: Mapping[str, Any]) -> dict[str, Any]:
    block = values["block"]
    place = locate_buffer(block, values["buffer"])
    index_map, pad_value = values["index_map"], values["pad_value"]
    dtype = index_dtype_of(block.block)
    if not isinstance(index_map, IndexMap):
        ndim = len(buffer_of(block, place).shape)
        index_map, separators = IndexMap.from_func_with_separators(index_map, ndim, index_dtype=dtype)
        if separators:
            index_map = SeparatedIndexMap(
                index_map.initial_indices, index_map.final_indices, index_map.inverse_index_map, tuple(separators)
            )
    if pad_value is not None and not isinstance(pad_value, IndexMap):
        pad_value = _pad_map(pad_value, len(index_map.final_indices), buffer_of(block, place), dtype)
    return {"buffer": place, "index_map": index_map, "pad_value": pad_value}


def _pad_map(pad_value: Any, ndim: int, buffer: ir.Buffer, dtype: str) -> IndexMap:
    """A padding value as a function of the new indices."""

    if callable(pad_value):
        return IndexMap.from_func(pad_value, ndim=ndim, index_dtype=dtype)
    variables = [ir.Var(f"i{i}", dtype) for i in range(ndim)]
    if not isinstance(pad_value, (int, float, ir.PrimExpr)):
        raise TVMagicError(
            f"pad_value is a number or a function of the new indices, not {type(pad_value).__name__}",
            code="transform_layout.pad_value_type",
        )
    value = pad_value if isinstance(pad_value, ir.PrimExpr) else _pad_constant(pad_value, buffer)
    return IndexMap(variables, [value])


def _pad_constant(value: int | float, buffer: ir.Buffer) -> ir.PrimExpr:
    """A number as a constant of the buffer's type, which it must have: a float for floats, an integer for integers."""
    from tvmagic.ir.ops import const

    dtype = buffer.dtype
    if isinstance(value, float) != (not (dtype.is_int or dtype.is_uint or dtype.is_bool)):
        raise ScheduleError(
            f"pad_value is {value!r}, buffer `{buffer.name}` holds {dtype}",
            hint="write it as one of those",
            code="transform_layout.pad_value_dtype",
        )
    return const(value, dtype)


# ---------------------------------------------------------------------------- transform_layout


class _LayoutRewriter(BufferReplacer, AccessContext):
    """Accesses of the buffer go to the new one at mapped indices."""

    def __init__(self, old: ir.Buffer, new: ir.Buffer, index_map: IndexMap) -> None:
        BufferReplacer.__init__(self, {old: new})
        AccessContext.__init__(self)
        self.old, self.new, self.index_map = old, new, index_map
        self.mapper = Analyzer()

    def map_indices(self, buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...]) -> tuple[ir.PrimExpr, ...]:
        if buffer is not self.old:  # a matched part of it
            return indices
        return tuple(self.simplified(self.index_map.map_indices(indices, self.mapper)))

    @ir.handles(ir.BufferRegion)
    def region(self, node: ir.BufferRegion) -> ir.BufferRegion:
        return node

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        return AccessContext.loop(self, node) if self.old in used_buffers(node) else node

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Block:
        if any(m.source.buffer is self.old and self._matched_region(m.source) is None for m in node.match_buffers):
            raise ScheduleError(
                f"buffer `{self.old.name}` is matched in block `{node.name_hint}`, which knows the old layout",
                node,
                code="transform_layout.buffer_matched",
            )
        new = with_regions_of(AccessContext.block(self, node), self.old, self.new)
        self.reuse.note(node, new)
        return new

    def _matched_region(self, region: ir.BufferRegion) -> ir.BufferRegion | None:
        """A matched part of the old buffer in the new one: of the same dimensions, or a single element; else None."""
        if all(a is b for a, b in zip(self.index_map.final_indices, self.index_map.initial_indices)):
            return region.replace(buffer=self.new) if len(self.new.shape) == len(self.old.shape) else None
        if not all(is_one(side.extent) for side in region.region):
            return None
        indices = self.map_indices(self.old, tuple([side.min for side in region.region]))
        return ir.BufferRegion(self.new, [ir.Range.from_min_extent(i, ir.IntImm(i.dtype, 1)) for i in indices])

    @ir.handles(ir.MatchBufferRegion)
    def match(self, node: ir.MatchBufferRegion) -> ir.MatchBufferRegion:
        source = self._matched_region(node.source) if node.source.buffer is self.old else None
        return node if source is None else self.matched(node, source)


def replace_interface_buffer(state: ScheduleState, block: StmtSRef, old: ir.Buffer, new: ir.Buffer) -> None:
    """Put a buffer in the place of another in the function's parameters."""
    var, function = state.function_of(block)
    mapped = {p: new if b is old else b for p, b in function.buffer_map.items()}
    replaced: ir.PrimFunc = function.replace(buffer_map=mapped)
    state.set_function(var, replaced)


def _inverse_of(index_map: IndexMap, buffer: ir.Buffer, block: StmtSRef) -> tuple[IndexMap, ir.PrimExpr]:
    """The map back, and where the new indices are padding; no two elements may go to one place."""
    try:
        return index_map.injective_inverse(buffer.shape)
    except TVMagicError as error:
        raise ScheduleError(
            f"buffer `{buffer.name}` cannot be stored in this layout: {error.message}",
            block,
            hint=error.hint,
            code="transform_layout.not_invertible",
        ) from error


def _check_padding(old: ir.Buffer, index_map: IndexMap, predicate: ir.PrimExpr, block: StmtSRef) -> None:
    if not is_zero(predicate):
        shape = ", ".join(str(s) for s in old.shape)
        raise ScheduleError(
            f"the transformation `{index_map}` of buffer `{old.name}` of shape [{shape}] adds padding where {predicate}",
            block,
            hint="give pad_value, or pass assume_injective_transform=True if the padding is never read",
            code="transform_layout.adds_padding",
        )


def _owner_of_layout(state: ScheduleState, block: StmtSRef, buffer: ir.Buffer) -> StmtSRef | None:
    """The block that allocates a buffer, None for a parameter; others do not have a layout of their own."""
    owner = access_owner(state, block, buffer)
    _, function = state.function_of(block)
    if owner is None and not any(b is buffer for b in function.buffer_map.values()):
        raise ScheduleError(
            f"buffer `{buffer.name}` is a matched part of another buffer", block, code="transform_layout.buffer_matched"
        )
    return owner


@primitive("TransformLayout", prepare=_prepare_layout)
def transform_layout(
    state: ScheduleState,
    block: BlockRef,
    buffer: Any,
    index_map: Value,
    pad_value: Any = None,
    *,
    assume_injective_transform: bool = False,
) -> None:
    """Store the elements of a buffer in another order: element `i` goes to `index_map(i)`.

    `buffer` is ("read", 0) or ("write", 0) of the block, a name or a buffer; `index_map` a function from
    indices to indices, or an `IndexMap`. Where the new shape has more elements than the old one,
    `pad_value` (a number, or a function of the new indices) fills them.

    Requires: the buffer is not a matched part of another, no block matches a part of it, and nothing uses it by its pointer; unless
    `assume_injective_transform`, different elements go to different places, and without `pad_value` the map adds no
    padding.

    Example
    -------
    `sch.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4))` makes of

        B = T.alloc_buffer((16,))
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + 1.0
        for j in range(16):
            with T.block("C"):
                v = T.axis.spatial(16, j)
                C[v] = B[v] * 2.0

    this:

        B = T.alloc_buffer((4, 4))
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v // 4, v % 4] = A[v] + T.float32(1.0)
        for j in range(16):
            with T.block("C"):
                v = T.axis.spatial(16, j)
                C[v] = B[v // 4, v % 4] * T.float32(2.0)
    """
    old = buffer_of(block, buffer)
    owner = _owner_of_layout(state, block, old)
    root = owner if owner is not None else state.root_of(block)  # a parameter may be used in any scope
    check_no_pointer(root.block, old, block)
    inverse, predicate = None, ir.IntImm("bool", 0)
    if not assume_injective_transform:
        inverse, predicate = _inverse_of(index_map, old, block)
    if pad_value is None:
        _check_padding(old, index_map, predicate, block)
    new = old.replace(shape=tuple(index_map.map_shape(old.shape)), strides=())
    if isinstance(index_map, SeparatedIndexMap):
        new = new.replace(axis_separators=tuple([ir.IntImm("int32", s) for s in index_map.separators]))
    rewriter = _LayoutRewriter(old, new, index_map)
    scope = rewriter.visit(root.block)
    reuse = rewriter.reuse
    if pad_value is not None:
        pad_value = checked_pad_value(pad_value, old, len(new.shape), block)
        if inverse is not None and not is_zero(predicate):
            padding = Padding(old, new, index_map, inverse, predicate, pad_value)
            padded = write_padding(scope, padding, owner is None, reuse)
            reuse.note(scope, padded)
            scope = padded
    if owner is None:
        replace_interface_buffer(state, block, old, new)
    state.replace(root, scope, reuse)


@primitive("SetAxisSeparator", prepare=_prepare_buffer)
def set_axis_separator(state: ScheduleState, block: BlockRef, buffer: Any, axis_separators: list[int]) -> None:
    """Set the places that divide the axes of a buffer into groups, each flattened to one dimension.

    Requires: the places lie in order inside the buffer's dimensions; the buffer is not matched.

    Example
    -------
    `sch.set_axis_separator("B", ("write", 0), [1])` makes of

        B = T.alloc_buffer((16, 16))
        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + 1.0
        for i, j in T.grid(16, 16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] * 2.0

    this:

        B = T.alloc_buffer((16, 16), axis_separators=[1])
        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1.0)
        for i, j in T.grid(16, 16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] * T.float32(2.0)
    """
    old = buffer_of(block, buffer)
    places = [int(s) for s in axis_separators]
    if places != sorted(places) or any(not 0 <= p <= len(old.shape) for p in places):
        raise ScheduleError(
            f"the separators {places} are not in order inside [0, {len(old.shape)}]",
            block,
            code="set_axis_separator.not_ordered",
        )
    owner = _owner_of_layout(state, block, old)
    new = old.replace(axis_separators=tuple([ir.IntImm("int32", p) for p in places]))
    root = owner if owner is not None else state.root_of(block)
    replacer = BufferReplacer({old: new})
    scope = replacer.visit(root.block)
    if owner is None:
        replace_interface_buffer(state, block, old, new)
    state.replace(root, scope, replacer.reuse)


# ---------------------------------------------------------------------------- the variables of a block


def _replace_nest(state: ScheduleState, block: StmtSRef, outermost: StmtSRef, nest: ir.Stmt, new: ir.Block) -> None:
    """Put a nest in the place of a block's outermost loop (or of the block, if it has none)."""
    parent = outermost.parent
    assert parent is not None and parent.stmt is not None
    assert outermost.stmt is not None
    stmt = parent.stmt.replace(body=replace_child(parent.stmt.body, outermost.stmt, nest, outermost.seq_index))
    reuse = {block.block: new}
    if isinstance(stmt, ir.Block):
        reuse[parent.block] = stmt
    state.replace(parent, stmt, reuse)


@primitive("ReorderBlockIterVar")
def reorder_block_iter_var(state: ScheduleState, block: BlockRef, new_order: list[int]) -> None:
    """Put a block's variables in the order `new_order`, a permutation of their places.

    Example
    -------
    `sch.reorder_block_iter_var("B", [1, 0])` makes of

        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + 1.0

    this:

        for i, j in T.grid(16, 16):
            with T.block("B"):
                vj, vi = T.axis.remap("SS", [j, i])
                B[vi, vj] = A[vi, vj] + T.float32(1.0)
    """
    scope_root(state, block)
    count = len(block.block.iter_vars)
    order = [int(i) for i in new_order]
    if sorted(order) != list(range(count)):
        raise ScheduleError(
            f"{order} is not a permutation of the places 0 to {count - 1} of {block.label}",
            block,
            code="reorder_block_iter_var.not_a_permutation",
        )
    realize = state.realize_of(block)
    new = block.block.replace(iter_vars=tuple([block.block.iter_vars[i] for i in order]))
    nest = realize.replace(iter_values=tuple([realize.iter_values[i] for i in order]), block=new)
    _replace_nest(state, block, block, nest, new)


def prepare_block_map(state: ScheduleState, values: Mapping[str, Any]) -> dict[str, Any]:
    """For a primitive whose `index_map` takes the variables of its `block`: the map of a Python function."""
    index_map, block = values["index_map"], values["block"].block
    if not isinstance(index_map, IndexMap):
        index_map = IndexMap.from_func(index_map, ndim=len(block.iter_vars), index_dtype=index_dtype_of(block))
    return {"index_map": index_map}


def _new_iter_type(value: ir.PrimExpr, types: Mapping[ir.Var, int], block: StmtSRef) -> int:
    found: set[int] = set()
    ir.post_order_visit(value, lambda n: found.add(types[n]) if isinstance(n, ir.Var) and n in types else None)
    if not found:
        return ir.IterVar.DataPar  # of one value, the same in all iterations
    if len(found) > 1:
        raise ScheduleError(
            f"`{value}` mixes data parallel and reduced variables of {block.label}",
            block,
            code="transform_block_layout.mixed_variables",
        )
    (kind,) = found
    if kind not in (ir.IterVar.DataPar, ir.IterVar.CommReduce):
        raise ScheduleError(
            f"`{value}` is made of an opaque variable of {block.label}, whose iterations stay in their order",
            block,
            code="transform_block_layout.opaque_variable",
        )
    return kind


def single_nest(state: ScheduleState, block: StmtSRef) -> StmtSRef:
    """The outermost loop of the block, if each loop holds nothing else; the block if it has none."""
    loops = state.loops_of(block)
    for loop in loops:
        if len(children_of(loop.loop)) != 1:
            raise ScheduleError(
                f"{loop.label} must hold {block.label} alone", loop, code="transform_block_layout.several_statements"
            )
    return loops[0] if loops else block


@primitive("TransformBlockLayout", prepare=prepare_block_map)
def transform_block_layout(state: ScheduleState, block: BlockRef, index_map: Value) -> None:
    """Run a block over other variables: those that `index_map` makes of the ones it has, with new loops.

    Requires: the map is an affine bijection; each new variable comes from data parallel variables alone or
    from reduced ones alone, not from opaque ones; the block's variables are bound to its loops, which hold nothing else.

    Example
    -------
    `sch.transform_block_layout("B", lambda i: (i // 4, i % 4))` makes of

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + 1.0

    this:

        for ax0, ax1 in T.grid(4, 4):
            with T.block("B"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                B[v0 * 4 + v1] = A[v0 * 4 + v1] + T.float32(1.0)
    """
    scope_root(state, block)
    stmt = block.block
    outermost = single_nest(state, block)
    check_loops_unused(state, block)
    realize = state.realize_of(block)
    loops = {s.loop.loop_var: s.loop for s in state.loops_of(block)}
    _check_bound_to_loops(block, realize, loops)
    if len(index_map.initial_indices) != len(stmt.iter_vars):
        raise ScheduleError(
            f"`{index_map}` does not take the {len(stmt.iter_vars)} variables of {block.label}",
            block,
            code="transform_block_layout.wrong_variable_count",
        )
    old_vars = [v.var for v in stmt.iter_vars]
    extents = [v.dom.extent for v in stmt.iter_vars if v.dom is not None]
    analyzer = Analyzer()
    mapped = index_map.map_indices(old_vars, analyzer)
    try:
        inverse = index_map.inverse(extents)
    except TVMagicError:
        raise ScheduleError(
            f"the index map `{index_map}` is not an affine bijection",
            block,
            code="transform_block_layout.not_bijective",
        ) from None
    sizes = index_map.map_shape(extents, analyzer)
    types = {v.var: v.iter_type for v in stmt.iter_vars}
    iters = [
        ir.IterVar(
            ir.Range.from_min_extent(ir.IntImm(e.dtype, 0), cast(e.dtype, n)),
            ir.Var(f"v{i}", e.dtype),
            _new_iter_type(e, types, block),
        )
        for i, (e, n) in enumerate(zip(mapped, sizes))
    ]
    values = dict(zip(old_vars, inverse.map_indices([v.var for v in iters], analyzer)))
    new = ir.substitute(stmt.replace(iter_vars=()), values).replace(iter_vars=tuple(iters))
    new = AccessSimplifier().visit(new)
    new_loops = [ir.Var(f"ax{i}", v.var.dtype) for i, v in enumerate(iters)]
    bound = dict(zip(realize.iter_values, inverse.map_indices(new_loops, analyzer)))
    predicate = _predicate_over(bound, block, realize, loops)
    nest = ir.loop_nest(new_loops, sizes, ir.BlockRealize(new_loops, predicate, new))
    _replace_nest(state, block, outermost, nest, new)


def _check_bound_to_loops(block: StmtSRef, realize: ir.BlockRealize, loops: Mapping[ir.Var, ir.For]) -> None:
    """Raise unless each variable of a block is bound to a loop over its domain, no two to the same."""
    bound_to = [loops.get(v) if isinstance(v, ir.Var) else None for v in realize.iter_values]
    if not all(loop is not None and runs_over(loop, v) for loop, v in zip(bound_to, block.block.iter_vars)):
        raise ScheduleError(
            f"the variables of {block.label} are not bound to its loops, each to one over its domain",
            block,
            code="transform_block_layout.variables_not_loops",
        )
    if len(set(bound_to)) != len(bound_to):
        raise ScheduleError(
            f"two variables of {block.label} are bound to the same loop",
            block,
            code="transform_block_layout.loop_bound_twice",
        )


def _predicate_over(
    bound: Mapping[ir.PrimExpr, ir.PrimExpr], block: StmtSRef, realize: ir.BlockRealize, loops: Mapping[ir.Var, ir.For]
) -> ir.PrimExpr:
    """Return the predicate of a block with its loop variables replaced by their values in `bound`."""
    if is_one(realize.predicate):
        return realize.predicate
    if uses_var(realize.predicate, set(loops) - set(bound)):
        raise ScheduleError(
            f"the condition of {block.label} depends on a loop that binds none of its variables",
            block,
            code="transform_block_layout.condition_uses_other_loops",
        )
    return ir.substitute(realize.predicate, {v: value for v, value in bound.items() if isinstance(v, ir.Var)})
