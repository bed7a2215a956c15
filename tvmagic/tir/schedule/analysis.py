"""Questions about a block that is being scheduled: what an instruction could do of it, and to which elements it writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.index_map import IndexMap
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.ir.query import nodes_of
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.primitives.tensorize import description_block
from tvmagic.tir.schedule.requirements import is_output, scope_root
from tvmagic.tir.schedule.schedule import Schedule


def is_output_block(sch: Schedule, block: Any) -> bool:
    """Whether a block writes a buffer that its scope does not allocate."""
    sref = sch.get_sref(block)
    return is_output(sch.state, sref, scope_root(sch.state, sref))


def has_block(sch: Schedule, block_name: str) -> bool:
    """Whether the module has a block called `block_name`."""
    return any(sref.is_block and sref.block.name_hint == block_name for sref in sch.state.srefs.values())


@dataclass(frozen=True)
class TensorizeInfo:
    """How the loops of a block go with those of an instruction's description.

    `loop_map`: the description's loop for each loop (reference) that is to be tiled; `desc_loop_indexer`: the
    place of each of the description's loops; `block_iter_paddings`: for each block variable the multiple to
    which it must be padded, None if nothing must be.
    """

    loop_map: dict[StmtSRef, ir.For]
    desc_loops: list[ir.For]
    block_iter_paddings: list[int] | None

    @property
    def desc_loop_indexer(self) -> dict[ir.For, int]:
        return {loop: place for place, loop in enumerate(self.desc_loops)}


def _description(desc: ir.PrimFunc) -> tuple[list[ir.For], ir.BlockRealize] | None:
    loops: list[ir.For] = []
    stmt = description_block(desc).body
    while isinstance(stmt, ir.For):
        loops.append(stmt)
        stmt = stmt.body
    return (loops, stmt) if isinstance(stmt, ir.BlockRealize) else None


def _size(extent: Any) -> int | None:
    return extent.value if isinstance(extent, ir.IntImm) else None


def get_tensorize_loop_mapping(
    sch: Schedule, block: Any, desc_func: ir.PrimFunc, allow_padding: bool = False
) -> TensorizeInfo | None:
    """Which loops of a block the loops of a description stand for; None if they do not fit.

    The block's last variables go with the description's, from the innermost out, kind by kind; each needs a
    loop of its own whose extent is a multiple of the description's (or is padded, with `allow_padding`).
    """
    sref = sch.get_sref(block)
    found = _description(desc_func)
    if found is None:
        return None
    desc_loops, desc_realize = found
    realize = sch.state.realize_of(sref)
    loops = {s.loop.loop_var: s for s in sch.state.loops_of(sref)}
    by_var = {loop.loop_var: loop for loop in desc_loops}
    pairs = list(zip(realize.block.iter_vars, realize.iter_values))
    loop_map: dict[StmtSRef, ir.For] = {}
    paddings = [1] * len(pairs)
    at = len(pairs) - 1
    desc_iters = list(zip(desc_realize.block.iter_vars, desc_realize.iter_values))
    for desc_var, desc_value in reversed(desc_iters):
        while at >= 0 and pairs[at][0].iter_type != desc_var.iter_type:
            at -= 1
        if at < 0 or not isinstance(desc_value, ir.Var) or desc_value not in by_var:
            return None
        value, desc_loop = pairs[at][1], by_var[desc_value]
        if not isinstance(value, ir.Var) or value not in loops:
            return None
        size, tile = _size(loops[value].loop.extent), _size(desc_loop.extent)
        if size is None or tile is None or (size % tile and not allow_padding):
            return None
        paddings[at] = tile if size % tile else 1
        loop_map[loops[value]] = desc_loop
        at -= 1
    ordered = {s: loop_map[s] for s in sch.state.loops_of(sref) if s in loop_map}
    return TensorizeInfo(ordered, desc_loops, paddings if any(p > 1 for p in paddings) else None)


# ---------------------------------------------------------------------------- by the shape of accesses


@dataclass(frozen=True)
class AutoTensorizeMappingInfo:
    """Layouts under which a block could be what an instruction's description is.

    `mappings`: maps of the block's variables to as many groups as the description has variables, those without
    a counterpart first; `lhs_iters`, `rhs_iters`: the variables of the block and of the description;
    `lhs_buffer_map`, `rhs_buffer_indices`: which buffer goes with which, and how the description indexes it.
    """

    mappings: list[IndexMap]
    lhs_buffer_map: dict[ir.Buffer, ir.Buffer]
    rhs_buffer_indices: dict[ir.Buffer, tuple[ir.PrimExpr, ...]]
    lhs_iters: list[ir.IterVar]
    rhs_iters: list[ir.IterVar]


def _accesses(block: Any) -> dict[ir.Buffer, tuple[ir.PrimExpr, ...]] | None:
    """How a block with one store indexes each buffer, the stored one first; None if it is not that simple."""
    body = block.body
    if not isinstance(body, ir.BufferStore):
        return None
    found: dict[ir.Buffer, tuple[ir.PrimExpr, ...]] = {body.buffer: body.indices}
    for load in nodes_of(body.value, ir.BufferLoad):
        found.setdefault(load.buffer, load.indices)
    return found


def get_auto_tensorize_mapping_info(
    sch: Schedule, block: Any, desc_func: ir.PrimFunc
) -> AutoTensorizeMappingInfo | None:
    """How the variables of a block could be grouped to those of a description; None if they cannot.

    A variable of the block goes with a variable of the description of the same kind that is used in the same
    buffers; variables that go with none stay outside (batch).
    """
    target = sch.get_sref(block).block
    found = _description(desc_func)
    if found is None:
        return None
    left, right = _accesses(target), _accesses(found[1].block)
    if left is None or right is None or len(left) != len(right):
        return None
    if any(a.dtype is not b.dtype for a, b in zip(left, right)):
        return None

    def signature(var: ir.IterVar, accesses: dict[ir.Buffer, tuple[ir.PrimExpr, ...]]) -> tuple[Any, ...]:
        return (var.iter_type, *[any(uses_var(i, {var.var}) for i in indices) for indices in accesses.values()])

    wanted = [signature(v, right) for v in found[1].block.iter_vars]
    if len(set(wanted)) != len(wanted):
        return None
    groups: list[list[ir.IterVar]] = [[] for _ in wanted]
    batch: list[ir.IterVar] = []
    for var in target.iter_vars:
        own = signature(var, left)
        (groups[wanted.index(own)] if own in wanted else batch).append(var)
    if not all(groups):
        return None
    results: list[ir.PrimExpr] = [v.var for v in batch]
    for group in groups:
        index: ir.PrimExpr = group[0].var
        for var in group[1:]:
            assert var.dom is not None
            index = index * var.dom.extent + var.var
        results.append(index)
    return AutoTensorizeMappingInfo(
        [IndexMap([v.var for v in target.iter_vars], results)],
        dict(zip(left, right)),
        right,
        list(target.iter_vars),
        list(found[1].block.iter_vars),
    )


def _is_all_of_mark(split: Any) -> bool:
    """Whether an iterator is its mark, unscaled."""
    return ir.expr_deep_equal(split.extent, split.source.extent) and split.lower_factor == 1 and split.scale == 1


def suggest_index_map(
    buffer: ir.Buffer, indices: Sequence[ir.PrimExpr], loops: Sequence[ir.For], predicate: ir.PrimExpr
) -> IndexMap | None:
    """A layout in which the loops, as they are nested, walk through the buffer in order.

    The access is taken as one index into the flat buffer, which splits into iterators of the loops; those are
    put in the loops' order. None if the access is not such a sum, or is in order already.
    """
    from tvmagic.arith.iter_map import IterSplitExpr, IterSumExpr, detect_iter_map, normalize_iter_map_to_expr

    domains = {loop.loop_var: ir.Range.from_min_extent(loop.min, loop.extent) for loop in loops}
    analyzer = Analyzer(domains)
    flat = indices[0]
    for index, size in zip(indices[1:], buffer.shape[1:]):
        flat = flat * size + index
    found = detect_iter_map([flat], domains, predicate, check_level="nocheck", analyzer=analyzer)
    if not found.indices:
        return None
    splits: list[IterSplitExpr] = list(found.indices[0].args)
    while len(splits) == 1 and isinstance(splits[0].source.source, IterSumExpr) and _is_all_of_mark(splits[0]):
        splits = list(splits[0].source.source.args)  # iterators fused to one
    names = [loop.loop_var for loop in loops]

    def depth(split: IterSplitExpr) -> tuple[int, int]:
        value = normalize_iter_map_to_expr(split.source.source)
        places = [i for i, var in enumerate(names) if uses_var(value, {var})]
        lower = split.lower_factor
        return (max(places, default=-1), -(lower.value if isinstance(lower, ir.IntImm) else 0))

    order = sorted(range(len(splits)), key=lambda i: depth(splits[i]))
    if order == list(range(len(splits))) or not splits:
        return None
    if not all(isinstance(s.scale, ir.IntImm) and isinstance(s.extent, ir.IntImm) for s in splits):
        return None
    variables = [ir.Var(f"i{i}", size.dtype) for i, size in enumerate(buffer.shape)]
    place: ir.PrimExpr = ir.IntImm(buffer.shape[0].dtype, 0)
    bounds = Analyzer({v: ir.Range.from_min_extent(ir.IntImm(n.dtype, 0), n) for v, n in zip(variables, buffer.shape)})
    for var, size in zip(variables, buffer.shape):
        place = place * size + var
    results: list[ir.PrimExpr] = []
    for i in order:
        part = (place // splits[i].scale) % splits[i].extent
        results.append(bounds.simplify(part))
    return IndexMap(variables, results)
