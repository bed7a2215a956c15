"""The primitive that takes padding out of a block: fill with the constant, then write the inside."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.block_regions import condition_bounds
from tvmagic.arith.int_set import IntSet
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.ir.ops import less, less_equal
from tvmagic.ir.query import contains, is_call, is_one
from tvmagic.tir.blocks.conditions import both
from tvmagic.tir.blocks.domains import iter_domains, loop_domains
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.regions import with_detected_regions
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.access_context import AccessSimplifier
from tvmagic.tir.schedule.instruction import BlockRef, Loop, primitive
from tvmagic.tir.schedule.requirements import check_complete, check_no_matches, runs_over, scope_root
from tvmagic.tir.schedule.state import ScheduleState, children_of, replace_child


def padding_parts(block: StmtSRef) -> tuple[ir.BufferStore, ir.PrimExpr, ir.PrimExpr, ir.PrimExpr]:
    """The store of a block that pads, its condition, the value inside and the constant outside."""
    store = block.block.body
    if not isinstance(store, ir.BufferStore):
        raise ScheduleError(
            f"the body of {block.label} must be one store", block, code="decompose_padding.not_one_store"
        )
    value = store.value
    if not is_call(value, "tir.if_then_else"):
        raise ScheduleError(
            f"what {block.label} stores must be chosen by an if_then_else on its variables",
            block,
            code="decompose_padding.no_condition",
        )
    condition, inside, outside = value.args
    if contains(outside, ir.Var):
        raise ScheduleError(
            f"the padding of {block.label} must be a constant, not `{outside}`",
            block,
            code="decompose_padding.padding_not_constant",
        )
    return store, condition, inside, outside


def inside_domains(block: StmtSRef, condition: ir.PrimExpr) -> dict[ir.Var, ir.Range]:
    """The range of each variable where the condition holds; the condition must be just those ranges."""
    domains = iter_domains(block.block.iter_vars)
    sets = {var: IntSet.from_range(dom) for var, dom in domains.items()}
    bounds = condition_bounds(condition, sets)
    analyzer = Analyzer()
    result: dict[ir.Var, ir.Range] = {}
    for var in domains:
        found = bounds.get(var, sets[var])
        low, high = analyzer.simplify(found.min()), analyzer.simplify(found.max())
        result[var] = ir.Range.from_min_extent(low, analyzer.simplify(high - low + 1))
    if not Analyzer(result).can_prove(condition):
        raise ScheduleError(
            f"the condition `{condition}` of {block.label} is not a range of each variable",
            block,
            code="decompose_padding.condition_not_a_range",
        )
    if all(analyzer.can_prove_equal(r.extent, domains[v].extent) for v, r in result.items()):
        raise ScheduleError(
            f"the condition `{condition}` of {block.label} always holds",
            block,
            code="decompose_padding.condition_always_holds",
        )
    return result


def _copy(
    realize: ir.BlockRealize, block: ir.Block, loops: list[StmtSRef], extents: dict[ir.Var, ir.PrimExpr]
) -> ir.Stmt:
    """The block under loops of its own, those in `extents` with another number of iterations."""
    names: dict[ir.Var, ir.PrimExpr] = {}
    body: ir.Stmt = realize.replace(block=block)
    for sref in reversed(loops):
        loop = sref.loop
        fresh = loop.loop_var.copy_with_suffix("")
        names[loop.loop_var] = fresh
        body = loop.replace(loop_var=fresh, extent=extents.get(loop.loop_var, loop.extent), body=body)
    return ir.substitute(body, names)


def _with_own_variables(block: ir.Block) -> ir.Block:
    fresh: dict[ir.Var, ir.PrimExpr] = {v.var: v.var.copy_with_suffix("") for v in block.iter_vars}
    renamed = ir.substitute(block.replace(iter_vars=()), fresh)
    iters: list[ir.IterVar] = []
    for v in block.iter_vars:
        var = fresh[v.var]
        assert isinstance(var, ir.Var)
        iters.append(v.replace(var=var))
    return renamed.replace(iter_vars=tuple(iters))


@primitive("DecomposePadding")
def decompose_padding(state: ScheduleState, block: BlockRef, loop: Loop) -> BlockRef:
    """Split a block that pads into one that fills with the constant and one that writes just the inside.

    The filling block goes before `loop` and is the result; the other one runs over the inside alone.

    A variable that the condition narrows gets a loop over the inside if it is bound to one of its own at or below
    `loop`; otherwise the block keeps its loops, under a condition.

    Requires: the block is complete and stores `if_then_else(condition, value, constant)`, and the condition is a range
    of each variable; no block in `loop` reads what it writes in front of it.

    Example
    -------
    `fill = sch.decompose_padding("B", i)` makes of

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = T.if_then_else(v < 12, A[v], T.float32(0.0))

    this:

        for i in range(16):
            with T.block("B_pad_const"):
                v = T.axis.spatial(16, i)
                B[v] = T.float32(0.0)
        for i in range(12):
            with T.block("B"):
                v = T.axis.spatial(12, i)
                B[v] = A[v]
    """
    root = scope_root(state, block)
    check_complete(state, block, root)
    check_no_matches(block)
    loops = state.loops_of(block)
    if loop not in loops:
        raise ScheduleError(
            f"{loop.label} is not a loop of {block.label}", loop, block, code="decompose_padding.loop_not_around_block"
        )
    inner = loops[loops.index(loop) :]
    store, condition, inside, outside = padding_parts(block)
    domains = inside_domains(block, condition)
    _check_not_read_before(state, block, loop, store.buffer)
    # loops of one iteration outside are constants
    units: dict[ir.Var, ir.PrimExpr] = {
        s.loop.loop_var: s.loop.min for s in loops if s not in inner and is_one(s.loop.extent)
    }
    realize = state.realize_of(block)
    realize = realize.replace(iter_values=tuple([ir.substitute(value, units) for value in realize.iter_values]))
    stmt = block.block
    filling = stmt.replace(body=store.replace(value=outside), name_hint=stmt.name_hint + "_pad_const")
    filling = with_detected_regions(_with_own_variables(filling))
    first = _copy(realize, filling, inner, {})
    part = _inside_region(state, realize, inner, domains)
    body = _simplified_store(ir.substitute(store.replace(value=inside), part.shifts), part.iters)
    rest = with_detected_regions(stmt.replace(iter_vars=tuple(part.iters), body=body))
    new_realize = realize.replace(block=rest, iter_values=tuple(part.values), predicate=part.predicate)
    second = _in_loops(block, new_realize, inner, part.extents)
    parent = loop.parent
    assert parent is not None and parent.stmt is not None
    new = parent.stmt.replace(
        body=replace_child(parent.stmt.body, loop.loop, ir.SeqStmt([first, second]), loop.seq_index)
    )
    state.replace(parent, new, {stmt: rest, parent.block: new} if isinstance(new, ir.Block) else {stmt: rest})
    return state.sref_of(filling)


@dataclass
class _Inside:
    """The block that writes the inside: its variables, what they are bound to and stand for, and when it runs.

    `extents`: of the loops that run over the inside alone.
    """

    predicate: ir.PrimExpr
    iters: list[ir.IterVar] = field(default_factory=list[ir.IterVar])
    values: list[ir.PrimExpr] = field(default_factory=list[ir.PrimExpr])
    shifts: dict[ir.Var, ir.PrimExpr] = field(default_factory=dict[ir.Var, ir.PrimExpr])
    extents: dict[ir.Var, ir.PrimExpr] = field(default_factory=dict[ir.Var, ir.PrimExpr])


def _inside_region(
    state: ScheduleState, realize: ir.BlockRealize, inner: list[StmtSRef], domains: dict[ir.Var, ir.Range]
) -> _Inside:
    """The inside over loops of its own as far as each variable has one; other variables keep their loops and a condition."""
    part = _Inside(predicate=realize.predicate)
    analyzer = Analyzer(loop_domains(state.loops_of(inner[-1])) | loop_domains(inner))
    alone = _loops_of_block_alone(inner)
    for var, value in zip(realize.block.iter_vars, realize.iter_values):
        assert var.dom is not None
        narrowed = domains[var.var]
        if analyzer.can_prove_equal(narrowed.extent, var.dom.extent):
            part.iters.append(var)
            part.values.append(value)
            continue
        uses = sum(uses_var(other, {value}) for other in realize.iter_values) if isinstance(value, ir.Var) else 0
        own = isinstance(value, ir.Var) and value in alone and uses == 1 and runs_over(alone[value], var)
        if own and is_one(realize.predicate):
            assert isinstance(value, ir.Var)
            part.extents[value] = narrowed.extent
            part.values.append(value)
        else:
            low, end = narrowed.min, analyzer.simplify(narrowed.min + narrowed.extent)
            limits = [c for c in (less_equal(low, value), less(value, end)) if not analyzer.can_prove(c)]
            part.predicate = functools.reduce(both, limits, part.predicate)
            part.values.append(analyzer.simplify(value - low))
        part.shifts[var.var] = analyzer.simplify(var.var + narrowed.min)
        part.iters.append(var.replace(dom=ir.Range.from_min_extent(ir.IntImm(var.var.dtype, 0), narrowed.extent)))
    return part


def _loops_of_block_alone(inner: list[StmtSRef]) -> dict[ir.Var, ir.For]:
    """The innermost loops that hold nothing else."""
    alone: dict[ir.Var, ir.For] = {}
    for sref in reversed(inner):
        if len(children_of(sref.loop)) != 1:
            break
        alone[sref.loop.loop_var] = sref.loop
    return alone


def _in_loops(block: StmtSRef, new: ir.Stmt, inner: list[StmtSRef], extents: dict[ir.Var, ir.PrimExpr]) -> ir.Stmt:
    """The outermost of the loops with the block replaced, and the extents of some loops."""
    child = block
    for sref in reversed(inner):
        loop = sref.loop
        assert child.stmt is not None
        body = replace_child(loop.body, child.stmt, new, child.seq_index)
        new = loop.replace(extent=extents.get(loop.loop_var, loop.extent), body=body)
        child = sref
    return new


def _check_not_read_before(state: ScheduleState, block: StmtSRef, loop: StmtSRef, buffer: ir.Buffer) -> None:
    """No block in the loop may read in front of the padding what the filling, which goes in front of the loop, changes."""
    scope = state.get_block_scope(state.scope_of(block))
    for reader in scope.children:
        if block in scope.overwriters(reader) and loop in state.loops_of(reader):
            raise ScheduleError(
                f"{reader.label} reads buffer `{buffer.name}` in {loop.label} in front of {block.label}",
                reader,
                loop,
                code="decompose_padding.read_before_padding",
            )


def _simplified_store(store: ir.BufferStore, iters: list[ir.IterVar]) -> ir.BufferStore:
    simplifier = AccessSimplifier()
    for v in iters:
        assert v.dom is not None
        simplifier.analyzer.bind(v.var, v.dom)
        simplifier.iterators[v.var] = v.dom
    return simplifier.visit(store)
