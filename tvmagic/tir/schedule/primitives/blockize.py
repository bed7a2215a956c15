"""Primitives that make one block of what is below a loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set import IntSet, union
from tvmagic.arith.int_set_eval import eval_sets, uses_var
from tvmagic.arith.iter_map import (
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    normalize_iter_map_to_expr,
    subspace_divide,
)
from tvmagic.arith.iter_map.expr import to_iter_sum
from tvmagic.ir.ops import logical_and
from tvmagic.ir.query import is_one, is_zero
from tvmagic.tir.blocks.conditions import condition_of_some, conjuncts
from tvmagic.tir.blocks.domains import iter_domains, loop_domains
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.instruction import BlockRef, LoopOrBlocks, primitive
from tvmagic.tir.schedule.primitives.reduction import check_not_repeated
from tvmagic.tir.schedule.requirements import check_no_matches
from tvmagic.tir.schedule.rewrite import BlockReuse
from tvmagic.tir.schedule.state import ScheduleState, children_of

TRUE = ir.IntImm("bool", 1)


@dataclass
class Division:
    """A block's variables divided in an outer and an inner part."""

    outer_iters: list[ir.IterVar] = field(default_factory=list[ir.IterVar])
    outer_values: list[ir.PrimExpr] = field(default_factory=list[ir.PrimExpr])
    inner_iters: list[ir.IterVar] = field(default_factory=list[ir.IterVar])
    inner_values: list[ir.PrimExpr] = field(default_factory=list[ir.PrimExpr])
    values: dict[ir.Var, ir.PrimExpr] = field(default_factory=dict[ir.Var, ir.PrimExpr])
    outer_predicate: ir.PrimExpr = TRUE
    inner_predicate: ir.PrimExpr = TRUE


def single_block_below(state: ScheduleState, loop: StmtSRef) -> StmtSRef:
    """The one block of the scope below a loop, with nothing beside it on the way."""
    sref = loop
    while sref.is_loop:
        children = children_of(sref.loop)
        if len(children) != 1:
            raise ScheduleError(f"{loop.label} must hold one block alone", loop, code="blockize.several_blocks")
        sref = state.sref_of(children[0][0])
    return sref


def _marks(
    realize: ir.BlockRealize, outer: Sequence[StmtSRef], inner: Sequence[StmtSRef], keep_unit: bool, analyzer: Analyzer
) -> list[list[IterMark]]:
    domains = loop_domains([*inner, *outer])
    inner_vars = [s.loop.loop_var for s in inner]
    found = subspace_divide(
        realize.iter_values,
        domains,
        inner_vars,
        realize.predicate,
        simplify_trivial_iterators=not keep_unit,
        analyzer=analyzer,
    )
    marks = found or _trivial_marks(realize, {s.loop.loop_var for s in outer}, set(inner_vars))
    return _keep_predicate(realize, marks, [*outer, *inner], set(inner_vars)) if marks else []


def _keep_predicate(
    realize: ir.BlockRealize, marks: list[list[IterMark]], loops: list[StmtSRef], inner: set[ir.Var]
) -> list[list[IterMark]]:
    """The marks with the conditions that they do not say yet; none if they cannot say them."""
    analyzer = Analyzer(loop_domains(loops))
    for var, value, (outer_mark, inner_mark) in zip(realize.block.iter_vars, realize.iter_values, marks):
        assert var.dom is not None
        if not analyzer.can_prove(outer_mark.extent * inner_mark.extent <= var.dom.extent):
            return []
        joined = normalize_iter_map_to_expr(outer_mark.source) * inner_mark.extent
        if not analyzer.can_prove_equal(joined + normalize_iter_map_to_expr(inner_mark.source), value):
            return []
    missing = conjuncts(realize.predicate)
    if not missing:
        return marks
    outside, inside = marks[-1][0].extent, marks[-1][1].extent
    with analyzer.constraint_scope(logical_and(outside, inside)):
        missing = [c for c in missing if not analyzer.can_prove(c)]
    outer = {s.loop.loop_var for s in loops} - inner
    for condition in missing:
        if not uses_var(condition, inner):
            outside = logical_and(outside, condition)
        elif not uses_var(condition, outer):
            inside = logical_and(inside, condition)
        else:
            return []
    return [*marks[:-1], [IterMark(marks[-1][0].source, outside), IterMark(marks[-1][1].source, inside)]]


def _trivial_marks(realize: ir.BlockRealize, outer: set[ir.Var], inner: set[ir.Var]) -> list[list[IterMark]]:
    """Bindings that use outer loops alone, or inner ones alone, divide whatever their form."""
    if not is_one(realize.predicate):
        return []

    def mark(value: ir.PrimExpr, extent: ir.PrimExpr) -> IterMark:
        return IterMark(IterSumExpr((), value), extent)

    pairs: list[list[IterMark]] = []
    one, zero = ir.IntImm("int32", 1), ir.IntImm("int32", 0)
    for var, value in zip(realize.block.iter_vars, realize.iter_values):
        assert var.dom is not None
        in_outer, in_inner = uses_var(value, outer), uses_var(value, inner)
        if in_outer and in_inner:
            return []
        if in_inner:
            pairs.append([mark(zero, one), mark(value, var.dom.extent)])
        else:
            pairs.append([mark(value, var.dom.extent), mark(zero, one)])
    true = IterMark(IterSumExpr((), zero), TRUE)
    return [*pairs, [true, true]]


def _mark_range(mark: IterMark, whole: ir.IterVar, loops: set[ir.Var]) -> ir.Range:
    """The values of a mark: those of a sum of iterators from its base on, or all that the variable has."""
    assert whole.dom is not None and isinstance(mark.source, (IterSumExpr, IterSplitExpr))
    base = to_iter_sum(mark.source).base
    if uses_var(base, loops):  # divided as it is: see _trivial_marks
        return whole.dom
    low = Analyzer().simplify(base)  # a division has no negative scales
    return _from_zero(mark.extent) if is_zero(low) else ir.Range.from_min_extent(low, mark.extent)


def divide(realize: ir.BlockRealize, marks: Sequence[Sequence[IterMark]], loops: Sequence[StmtSRef]) -> Division:
    """The variables of the outer and the inner block, and the old ones in terms of them."""
    result = Division()
    loop_vars = {s.loop.loop_var for s in loops}
    for var, (outer, inner) in zip(realize.block.iter_vars, marks):
        outer_var = var.var.copy_with_suffix("_o")
        result.outer_iters.append(ir.IterVar(_mark_range(outer, var, loop_vars), outer_var, var.iter_type))
        result.outer_values.append(normalize_iter_map_to_expr(outer.source))
        inner_range = _mark_range(inner, var, loop_vars)
        if is_one(inner.extent):
            result.values[var.var] = outer_var if is_zero(inner_range.min) else outer_var + inner_range.min
            continue
        inner_var = var.var.copy_with_suffix("_i")
        result.inner_iters.append(ir.IterVar(inner_range, inner_var, var.iter_type))
        result.inner_values.append(normalize_iter_map_to_expr(inner.source))
        base = ir.IntImm(outer_var.dtype, 0) if is_one(outer.extent) else outer_var * inner.extent
        result.values[var.var] = base + inner_var
    result.outer_predicate, result.inner_predicate = marks[-1][0].extent, marks[-1][1].extent
    return result


class _Divide(ir.Mutator):
    """Puts the divided variables in, and simplifies what they change."""

    def __init__(self, division: Division) -> None:
        self.values = division.values
        domains = iter_domains([*division.outer_iters, *division.inner_iters])
        # a variable of one value stays a variable
        self.analyzer = Analyzer({var: dom for var, dom in domains.items() if not is_one(dom.extent)})

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> ir.PrimExpr:
        return self.values.get(node, node)

    @ir.handles(ir.PrimExpr)
    def expression(self, node: ir.PrimExpr) -> ir.PrimExpr:
        new = self.visit_children(node)
        return new if new is node else self.analyzer.simplify(new)


def _from_zero(extent: ir.PrimExpr) -> ir.Range:
    return ir.Range.from_min_extent(ir.IntImm(extent.dtype, 0), extent)


def swept_regions(regions: Sequence[ir.BufferRegion], domains: Mapping[ir.Var, ir.Range]) -> list[ir.BufferRegion]:
    """The boxes that the regions sweep over the domains, one a buffer."""
    found: dict[ir.Buffer, list[list[IntSet]]] = {}
    for region in regions:
        found.setdefault(region.buffer, []).append(eval_sets(region.region, domains))
    result: list[ir.BufferRegion] = []
    for buffer, boxes in found.items():
        sides = [union([box[i] for box in boxes]) if len(boxes) > 1 else boxes[0][i] for i in range(len(buffer.shape))]
        result.append(ir.BufferRegion(buffer, [s.cover_range(_from_zero(n)) for s, n in zip(sides, buffer.shape)]))
    return result


def _swept_inside(
    regions: Sequence[ir.BufferRegion], iters: Sequence[ir.IterVar], loops: Sequence[StmtSRef]
) -> list[ir.BufferRegion]:
    """The boxes that the regions of a block sweep inside `loops`, which the domains of its variables may follow."""
    found, domains = swept_regions(regions, iter_domains(iters)), loop_domains(loops)
    follow = any(
        uses_var(part, set(domains)) for box in found for side in box.region for part in (side.min, side.extent)
    )
    return swept_regions(found, domains) if follow else found


def _inner_block(block: ir.Block, division: Division) -> ir.Block:
    """The block below the loops; with an init outside it, it reads what it writes."""
    reads = (*block.writes, *block.reads) if block.init is not None else block.reads
    return block.replace(iter_vars=tuple(division.inner_iters), reads=reads, init=None)


def _outer_init(init: ir.Stmt, realize: ir.BlockRealize, loops: Sequence[StmtSRef], inner: StmtSRef) -> ir.Stmt:
    """The loops that initialize all that the outer block writes."""
    renamed: dict[ir.Var, ir.PrimExpr] = {}
    iters: list[ir.IterVar] = []
    values: list[ir.PrimExpr] = []
    for var, value in zip(realize.block.iter_vars, realize.iter_values):
        if var.iter_type == ir.IterVar.DataPar and uses_var(init, {var.var}):
            fresh = var.var.copy_with_suffix("_init")
            renamed[var.var] = fresh
            iters.append(var.replace(var=fresh))
            values.append(value)
    block = ir.Block(
        iters,
        [],
        [ir.substitute(w, renamed) for w in realize.block.writes],
        inner.block.name_hint + "_init",
        ir.substitute(init, renamed),
        span=realize.block.span,
    )
    kept = {s.loop.loop_var for s in loops if any(uses_var(value, {s.loop.loop_var}) for value in values)}
    dropped = loop_domains([s for s in loops if s.loop.loop_var not in kept])
    nest: ir.Stmt = ir.BlockRealize(values, condition_of_some(realize.predicate, dropped, inner), block)
    loop_names: dict[ir.Var, ir.PrimExpr] = {}
    for sref in reversed(loops):
        loop = sref.loop
        if loop.loop_var in kept:
            fresh = loop.loop_var.copy_with_suffix("")
            loop_names[loop.loop_var] = fresh
            nest = loop.replace(loop_var=fresh, body=nest)
    return ir.substitute(nest, loop_names)


def blockize_loop(
    state: ScheduleState, loop: StmtSRef, preserve_unit_iters: bool, reuse: BlockReuse
) -> ir.BlockRealize:
    """The realize of the block that holds all below `loop`; the caller puts it in place."""
    inner_sref = single_block_below(state, loop)
    realize = state.realize_of(inner_sref)
    loops = state.loops_of(inner_sref)
    place = loops.index(loop)
    outer, inner = loops[:place], loops[place:]
    marks = _marks(realize, outer, inner, preserve_unit_iters, Analyzer(loop_domains(loops)))
    if not marks:
        raise ScheduleError(
            f"the variables of {inner_sref.label} cannot be divided into a part outside and a part inside {loop.label}",
            loop,
            inner_sref,
            hint="split and reorder the loops so that each variable is `outer * extent + inner`",
            code="blockize.variables_not_divisible",
        )
    division = divide(realize, marks, loops)
    block = inner_sref.block
    substituted = _Divide(division).visit(block.replace(iter_vars=()))
    new_inner = _inner_block(substituted, division)
    reuse.note(block, new_inner)
    inner_realize = ir.BlockRealize(division.inner_values, division.inner_predicate, new_inner)
    body = ir.within_loops([s.loop for s in inner], inner_realize)
    init = None
    if substituted.init is not None:
        check_no_matches(inner_sref)
        check_not_repeated(inner_sref, realize, loops, inner)
        init = _outer_init(substituted.init, inner_realize, inner, inner_sref)
    outer_block = ir.Block(
        division.outer_iters,
        _swept_inside(substituted.reads, division.inner_iters, inner),
        _swept_inside(substituted.writes, division.inner_iters, inner),
        block.name_hint + "_o",
        body,
        init,
        span=block.span,
    )
    return ir.BlockRealize(division.outer_values, division.outer_predicate, outer_block)


# ---------------------------------------------------------------------------- several blocks


def _common_parent(blocks: Sequence[StmtSRef]) -> StmtSRef:
    """The innermost loop or block that holds all the blocks."""
    paths = [[*reversed(b.ancestors())] for b in blocks]
    common = paths[0][0]  # the root: the blocks are of one scope
    for level in zip(*paths):
        if any(sref is not level[0] for sref in level):
            break
        common = level[0]
    return common


def _parts_of(state: ScheduleState, parent: StmtSRef, blocks: Sequence[StmtSRef]) -> tuple[list[ir.Stmt], int, int]:
    """The statements below `parent`, and the range of those that hold the blocks, and nothing else."""
    assert parent.stmt is not None
    body = parent.stmt.body
    parts = list(body.seq) if isinstance(body, ir.SeqStmt) else [body]
    places: dict[int, list[StmtSRef]] = {}
    for block in blocks:
        sref = block
        while sref.parent is not parent:
            assert sref.parent is not None
            sref = sref.parent
        places.setdefault(max(sref.seq_index, 0), []).append(sref)
    first, last = min(places), max(places)
    wanted = {id(b) for b in blocks}
    if sorted(places) != list(range(first, last + 1)):
        raise ScheduleError("the blocks to join must follow one another", *blocks, code="blockize.blocks_not_adjacent")
    for sref, *_ in places.values():
        for found in [sref] if sref.is_block else state.child_blocks(sref):
            if id(found) not in wanted:
                raise ScheduleError(
                    f"{found.label} is between the blocks to join", found, *blocks, code="blockize.block_in_between"
                )
    return parts, first, last + 1


class _Outer:
    """The variables of the joint block: those of the blocks, the same values taken as one."""

    def __init__(self) -> None:
        self.iters: list[ir.IterVar] = []
        self.values: list[ir.PrimExpr] = []

    def join(self, division: Division, preserve_unit_iters: bool) -> dict[ir.Var, ir.PrimExpr]:
        """Add a block's outer variables; gives what replaces them in the joint block: its variables, or constants."""
        taken: set[int] = set()
        names: dict[ir.Var, ir.PrimExpr] = {}
        for var, value in zip(division.outer_iters, division.outer_values):
            if not preserve_unit_iters and var.dom is not None and is_one(var.dom.extent):
                names[var.var] = var.dom.min
                continue
            at = next((i for i in range(len(self.iters)) if i not in taken and self._fits(i, var, value)), None)
            if at is None:
                at = len(self.iters)
                self.iters.append(var)
                self.values.append(value)
            taken.add(at)
            names[var.var] = self.iters[at].var
        return names

    def _fits(self, at: int, var: ir.IterVar, value: ir.PrimExpr) -> bool:
        known = self.iters[at]
        assert known.dom is not None and var.dom is not None
        same = ir.structural_equal(self.values[at], value) and ir.structural_equal(known.dom.extent, var.dom.extent)
        return same and known.iter_type == var.iter_type


def _divided(
    state: ScheduleState, sref: StmtSRef, outer: list[StmtSRef], preserve_unit_iters: bool
) -> tuple[Division, ir.BlockRealize]:
    """A block divided at its outer loops; its init must stay inside."""
    realize, loops = state.realize_of(sref), state.loops_of(sref)
    inner = loops[len(outer) :]
    marks = _marks(realize, outer, inner, preserve_unit_iters, Analyzer(loop_domains(loops)))
    if not marks:
        raise ScheduleError(
            f"the variables of {sref.label} cannot be divided at the loops around the blocks",
            sref,
            code="blockize.variables_not_divisible",
        )
    division = divide(realize, marks, loops)
    if not is_one(division.outer_predicate):
        raise ScheduleError(
            f"the predicate of {sref.label} depends on the loops around the blocks",
            sref,
            code="blockize.predicate_uses_outer_loops",
        )
    for i, var in enumerate(division.outer_iters):
        if var.iter_type == ir.IterVar.DataPar:
            continue
        if var.dom is None or not is_one(var.dom.extent):
            raise ScheduleError(
                f"{sref.label} is reduced over the loops around the blocks, so it cannot be initialized inside",
                sref,
                hint="decompose the reduction, or move it under the loops",
                code="blockize.reduced_over_outer_loops",
            )
        division.outer_iters[i] = var.replace(iter_type=ir.IterVar.DataPar)
    return division, realize


class _SwapRealizes(ir.Mutator):
    def __init__(self, realizes: Mapping[ir.Block, ir.BlockRealize]) -> None:
        self.realizes = realizes

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> ir.BlockRealize:
        return self.realizes.get(node.block, node)


def blockize_blocks(state: ScheduleState, blocks: Sequence[StmtSRef], preserve_unit_iters: bool) -> BlockRef:
    """Make one block of several that follow one another."""
    if not blocks:
        raise ScheduleError("there are no blocks to join", code="blockize.no_blocks")
    if len(set(blocks)) != len(blocks):
        raise ScheduleError("a block is given twice", *blocks, code="blockize.repeated_block")
    for block in blocks:
        if block.parent is None:
            raise ScheduleError("the root block cannot be joined to others", block, code="blockize.root_block")
        if state.scope_of(block) is not state.scope_of(blocks[0]):
            raise ScheduleError("the blocks are not in the same scope", *blocks, code="blockize.different_scopes")
    parent = _common_parent(blocks)
    parts, first, end = _parts_of(state, parent, blocks)
    outer_loops = [*state.loops_of(parent), parent] if parent.is_loop else []
    outer, reuse = _Outer(), BlockReuse()
    realizes: dict[ir.Block, ir.BlockRealize] = {}
    reads: list[ir.BufferRegion] = []
    writes: list[ir.BufferRegion] = []
    for sref in blocks:
        division, realize = _divided(state, sref, outer_loops, preserve_unit_iters)
        names = outer.join(division, preserve_unit_iters)
        new = _Divide(division).visit(sref.block.replace(iter_vars=()))
        new = ir.substitute(new, names).replace(iter_vars=tuple(division.inner_iters))
        reuse.note(sref.block, new)
        realizes[sref.block] = ir.BlockRealize(division.inner_values, division.inner_predicate, new, span=realize.span)
        inner = state.loops_of(sref)[len(outer_loops) :]
        reads[:0] = _swept_inside(new.reads, division.inner_iters, inner)
        writes[:0] = _swept_inside(new.writes, division.inner_iters, inner)
    body = ir.SeqStmt.flatten(*[_SwapRealizes(realizes).visit(part) for part in parts[first:end]])
    name = "outer_" + "".join([sref.block.name_hint + "_" for sref in blocks])
    block = ir.Block(outer.iters, swept_regions(reads, {}), swept_regions(writes, {}), name, body)
    joined = ir.BlockRealize(outer.values, TRUE, block)
    assert parent.stmt is not None
    stmt = parent.stmt.replace(body=ir.SeqStmt.flatten(*parts[:first], joined, *parts[end:]))
    if isinstance(stmt, ir.Block):
        reuse.note(parent.block, stmt)
    state.replace(parent, stmt, reuse)
    return state.sref_of(block)


@primitive("Blockize")
def blockize(state: ScheduleState, target: LoopOrBlocks, preserve_unit_iters: bool = True) -> BlockRef:
    """Make one block of all that is below a loop, or of several blocks that follow one another.

    The result is that block: `..._o` for a loop, `outer_..._` for blocks.

    Requires: a loop holds one block alone, whose variables divide into a part that the loops outside
    bind and a part that the loops inside bind. Blocks are of one scope, with nothing between them; each
    divides at the loops that all of them share, and none is reduced over those. Below a loop, a reduction runs once
    for each of its elements.

    Example
    -------
    `outer = sch.blockize(j)` makes of

        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + 1.0

    this:

        for i in range(16):
            with T.block("B_o"):
                vi_o = T.axis.spatial(16, i)
                vj_o = T.axis.spatial(1, 0)
                for j in range(16):
                    with T.block("B"):
                        vj_i = T.axis.spatial(16, j)
                        B[vi_o, vj_i] = A[vi_o, vj_i] + T.float32(1.0)
    """
    if not isinstance(target, StmtSRef):
        return blockize_blocks(state, target, preserve_unit_iters)
    reuse = BlockReuse()
    realize = blockize_loop(state, target, preserve_unit_iters, reuse)
    state.replace(target, realize, reuse)
    return state.sref_of(realize.block)
