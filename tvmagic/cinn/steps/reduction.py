"""Rfactor: a loop of a reduction becomes an axis of a tensor of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvmagic import ir
from tvmagic.cinn.cinn_form import SUFFIX, init_block_of, listed
from tvmagic.cinn.steps.coverage import check_adds_once, is_update
from tvmagic.cinn.steps.declaration import step
from tvmagic.cinn.steps.loops import constant_extent, root_body
from tvmagic.cinn.steps.tree import Edit, Leaf, block_ref, commit, leaves, nested, only, renamed_axes, twin_of
from tvmagic.ir.query import is_one, is_zero, variables_in
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.instruction import BlockRef, Loop
from tvmagic.tir.schedule.state import ScheduleState


@dataclass
class _Reduction:
    """A reduction in its nest, as rfactor takes it apart."""

    leaf: Leaf
    first: Leaf
    loop: ir.For
    target: ir.Buffer

    @property
    def store(self) -> ir.BufferStore:
        return self.leaf.stores[0]

    @property
    def spatial(self) -> list[ir.For]:
        return [n for n in self.leaf.loops if n.loop_var not in self.leaf.reducing]

    @property
    def others(self) -> list[ir.For]:
        """The other loops that reduce."""
        return [n for n in self.leaf.loops if n.loop_var in self.leaf.reducing and n is not self.loop]


def _found(state: ScheduleState, loop: StmtSRef) -> _Reduction:
    body, node = root_body(state, loop), loop.loop
    inside = [f for f in leaves(node) if not init_block_of(f.block)]
    if len(inside) != 1:
        raise ScheduleError(
            f"{loop.label} holds {len(inside)} blocks; it must hold one, which reduces",
            loop,
            code="cinn.rfactor.several_blocks",
        )
    leaf = next(f for f in leaves(body) if f.block is inside[0].block)
    if node.loop_var not in leaf.reducing:
        raise ScheduleError(
            f"{loop.label} is not a loop over which `{leaf.name}` adds up",
            loop,
            leaf.block,
            code="cinn.rfactor.loop_not_reduced",
        )
    stores = leaf.stores
    if (
        len(stores) != 1
        or not is_update(stores[0])
        or not isinstance(stores[0].value, (ir.Add, ir.Mul, ir.Max, ir.Min))
    ):
        raise ScheduleError(
            f"`{leaf.name}` is not a sum, product, least or greatest value",
            leaf.block,
            code="cinn.rfactor.unknown_reducer",
        )
    first = twin_of(body, leaf)
    if first is None:
        raise ScheduleError(
            f"there is no block `{leaf.name}{SUFFIX}` with the first values",
            leaf.block,
            code="cinn.rfactor.no_init_block",
        )
    for found in (leaf, first):
        if not isinstance(only(found.block.body), ir.BufferStore):
            raise ScheduleError(
                f"`{found.name}` is more than one store", found.block, code="cinn.rfactor.several_stores"
            )
    if not _is_identity(first.stores[0].value, stores[0].value):
        raise ScheduleError(
            f"`{first.name}` stores `{first.stores[0].value}`; each part would begin with it: that of a sum begins with 0, "
            f"of a product with 1, others with a number",
            first.block,
            code="cinn.rfactor.init_not_identity",
        )
    constant_extent(loop)
    check_adds_once(leaf, leaves(body))
    for axis, value in leaf.bindings:
        mixed = set(variables_in(value)) & leaf.reducing
        if axis.iter_type != ir.IterVar.CommReduce and mixed:
            raise ScheduleError(
                f"`{axis.var.name}` of `{leaf.name}` depends on a loop that reduces",
                leaf.block,
                code="cinn.rfactor.init_depends_on_loop",
            )
    tops = {f.path[_depth(f)] if len(f.path) > _depth(f) else f.realize for f in (leaf, first)}
    extra = [f for top in tops for f in leaves(top) if f.block not in (leaf.block, first.block)]
    if extra:
        raise ScheduleError(
            f"`{extra[0].name}` is in the nest of the reduction too",
            extra[0].block,
            code="cinn.rfactor.init_in_same_nest",
        )
    return _Reduction(leaf, first, node, stores[0].buffer)


def _is_identity(first: ir.PrimExpr, update: ir.PrimExpr) -> bool:
    """Whether first values may be combined with each part: 0 of a sum, 1 of a product, any number of what is idempotent."""
    if isinstance(update, (ir.Max, ir.Min)):
        return not variables_in(first)
    return is_zero(first) if isinstance(update, ir.Add) else is_one(first)


def _depth(leaf: Leaf) -> int:
    """The place of a nest's outermost loop in the path to a block."""
    return next((n for n, node in enumerate(leaf.path) if isinstance(node, ir.For)), len(leaf.path))


def _update(
    store: ir.BufferStore, target: ir.Buffer, indices: Sequence[ir.PrimExpr], value: ir.PrimExpr
) -> ir.BufferStore:
    """The store that adds `value` to an element, with the operands in the order of `store`."""
    op, loaded = store.value, ir.BufferLoad(target, indices)
    assert isinstance(op, (ir.Add, ir.Mul, ir.Max, ir.Min))
    own_first = isinstance(op.a, ir.BufferLoad) and op.a.buffer is store.buffer
    return ir.BufferStore(target, type(op)(loaded, value) if own_first else type(op)(value, loaded), indices)


def _added(store: ir.BufferStore) -> ir.PrimExpr:
    """What a reduction adds."""
    op = store.value
    assert isinstance(op, (ir.Add, ir.Mul, ir.Max, ir.Min))
    return op.b if isinstance(op.a, ir.BufferLoad) and op.a.buffer is store.buffer else op.a


class _Rename:
    """Fresh loops of the same names, which get other bodies, and expressions with their variables."""

    def __init__(self) -> None:
        self.values: dict[ir.Var, ir.PrimExpr] = {}

    def loop(self, old: ir.For, name: str | None = None) -> ir.For:
        var = ir.Var(name or old.loop_var.name, old.loop_var.dtype)
        self.values[old.loop_var] = var
        return old.replace(loop_var=var)

    def __call__(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        return ir.substitute(expr, self.values)


def _numbered(block: ir.Block) -> ir.Block:
    return renamed_axes(block, [f"i{n}" for n in range(len(block.iter_vars))])


def _partial_nest(r: _Reduction, partial: ir.Buffer, axis: int, name: str) -> ir.Stmt:
    """The nest that fills the new tensor: its loop is at `axis` among the spatial loops."""
    rename = _Rename()
    factor_first = rename.loop(r.loop, f"rf_{r.loop.loop_var.name}")
    spatial = [rename.loop(n) for n in r.spatial]
    others = [rename.loop(n) for n in r.others]
    loops = [*spatial[:axis], factor_first, *spatial[axis:]]
    at = factor_first.loop_var
    conditions = [rename(c) for c in r.leaf.conditions]
    inner = {at, *(n.loop_var for n in others)}  # first values are stored for all iterations of the loop
    outer_conditions = [c for c in conditions if not inner.intersection(variables_in(c))]
    new = ir.Var("rf", at.dtype)
    spans = [(a, rename(v)) for a, v in r.leaf.bindings if a.iter_type != ir.IterVar.CommReduce]
    kept: list[tuple[ir.IterVar, ir.PrimExpr]] = [(_renewed(a), v) for a, v in spans]
    places = {a.var: k.var for (a, _), (k, _) in zip(spans, kept)}
    kept.insert(axis, (ir.IterVar(ir.Range.from_min_extent(0, r.loop.extent), new, ir.IterVar.DataPar), at))
    reduce_axes = [
        ir.IterVar(ir.Range.from_min_extent(0, n.extent), ir.Var("r", at.dtype), ir.IterVar.CommReduce) for n in others
    ]
    inside: dict[ir.Var, ir.PrimExpr] = {at: new, **{n.loop_var: a.var for n, a in zip(others, reduce_axes)}}
    values: dict[ir.Var, ir.PrimExpr] = {**places}
    for a, v in r.leaf.bindings:
        if a.iter_type == ir.IterVar.CommReduce:
            values[a.var] = ir.substitute(rename(v), inside)
    indices = [ir.substitute(i, values) for i in r.store.indices]
    indices.insert(axis, new)
    body = _update(r.store, partial, indices, ir.substitute(_added(r.store), values))
    axes = [*kept, *zip(reduce_axes, [n.loop_var for n in others])]
    update = ir.BlockRealize([v for _, v in axes], True, _numbered(ir.Block([a for a, _ in axes], [], [], name, body)))
    first_axes = [(_renewed(a), v) for a, v in kept]
    by_first: dict[ir.Var, ir.PrimExpr] = {a.var: b.var for (a, _), (b, _) in zip(kept, first_axes)}
    first_store = ir.BufferStore(partial, r.first.stores[0].value, [ir.substitute(i, by_first) for i in indices])
    first_block = ir.Block([a for a, _ in first_axes], [], [], name + SUFFIX, first_store)
    first = ir.BlockRealize([v for _, v in first_axes], True, _numbered(first_block))
    deep = [c for c in conditions if inner.intersection(variables_in(c))]
    return nested(loops, outer_conditions, listed(first, nested(others, deep, update)))


def _renewed(axis: ir.IterVar) -> ir.IterVar:
    return axis.replace(var=ir.Var(axis.var.name, axis.var.dtype))


def _final_nest(r: _Reduction, partial: ir.Buffer, axis: int) -> ir.Stmt:
    """The nest that adds up the new tensor: spatial loops, the first values, one loop."""
    rename = _Rename()
    spatial = [rename.loop(n) for n in r.spatial]
    loop = rename.loop(r.loop)
    gone = {n.loop_var for n in (*r.others, r.loop)}
    conditions = [rename(c) for c in r.leaf.conditions if not gone.intersection(variables_in(c))]
    kept = [(_renewed(a), rename(v), a.var) for a, v in r.leaf.bindings if a.iter_type != ir.IterVar.CommReduce]
    values: dict[ir.Var, ir.PrimExpr] = {old: a.var for a, _, old in kept}
    reduce_axis = ir.IterVar(
        ir.Range.from_min_extent(0, r.loop.extent), ir.Var("r", loop.loop_var.dtype), ir.IterVar.CommReduce
    )
    indices = [ir.substitute(i, values) for i in r.store.indices]
    read = [*indices[:axis], reduce_axis.var, *indices[axis:]]
    body = _update(r.store, r.target, indices, ir.BufferLoad(partial, read))
    block = ir.Block([*[a for a, _, _ in kept], reduce_axis], [], [], r.leaf.name, body,
                  annotations=r.leaf.block.annotations)  # fmt: skip
    update = ir.BlockRealize([*[v for _, v, _ in kept], loop.loop_var], True, _numbered(block))
    first_values = [rename(v) for _, v in r.first.bindings] if _same_loops(r) else [v for _, v, _ in kept]
    first_block = r.first.block
    first = ir.BlockRealize(first_values, True, renamed_axes(first_block, [a.var.name for a in first_block.iter_vars]))
    return nested(spatial, conditions, listed(first, loop.replace(body=update)))


def _same_loops(r: _Reduction) -> bool:
    """Whether the first values are in the loops of the reduction, not in a nest of their own."""
    return all(v in {n.loop_var for n in r.spatial} for _, x in r.first.bindings for v in variables_in(x))


@step("Rfactor")
def rfactor(state: ScheduleState, rf_loop: Loop, rf_axis: int) -> BlockRef:
    """Add up in parts: the loop becomes dimension `rf_axis` of a new tensor `rf_B`, which a second nest adds up.

    The block that fills the new tensor, whose loop `rf_k0` is at depth `rf_axis` among the spatial loops.

    Requires: the loop begins at 0, has a number as its extent, and holds one block, which adds up over it: a sum, a
    product, the least or the greatest value, with its first values in a block of their own, which are 0 of a sum and 1 of a
    product; `rf_axis` is in [0, the number of dimensions].
    """
    found = _found(state, rf_loop)
    rank = len(found.target.shape)
    if not 0 <= rf_axis <= rank:
        raise ScheduleError(
            f"the axis is in [0, {rank}], not {rf_axis}", rf_loop, code="cinn.rfactor.axis_out_of_range"
        )
    root, body = state.root_of(rf_loop), root_body(state, rf_loop)
    name = f"rf_{found.leaf.name}"
    if any(f.name == name for f in leaves(body)):
        raise ScheduleError(f"there is a block `{name}` already", rf_loop, code="cinn.rfactor.repeated_block")
    shape = [*found.target.shape[:rf_axis], found.loop.extent, *found.target.shape[rf_axis:]]
    data = ir.data_pointer(f"rf__{found.target.name}", found.target.dtype)
    partial = ir.decl_buffer(shape, found.target.dtype, f"rf_{found.target.name}", data)
    top = found.leaf.path[_depth(found.leaf)]
    first_top = found.first.path[_depth(found.first)] if found.first.loops else found.first.realize
    nests = [_partial_nest(found, partial, rf_axis, name), _final_nest(found, partial, rf_axis)]
    changes: dict[ir.Stmt, ir.Stmt | None] = {top: listed(*nests)}
    if first_top is not top:
        changes[first_top] = None
    commit(state, rf_loop, Edit(changes)(body), added=[partial])
    return block_ref(state, root, name)
