"""The primitive that takes padding out of a block: fill with the constant, then write the inside."""

from __future__ import annotations

from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.block_regions import condition_bounds
from tvmagic.arith.int_set import IntSet
from tvmagic.ir import (
    Block,
    BlockRealize,
    BufferStore,
    Call,
    IntImm,
    IterVar,
    PrimExpr,
    Range,
    SeqStmt,
    Stmt,
    Var,
    post_order_visit,
    substitute,
)
from tvmagic.ir.query import is_one
from tvmagic.tir.blocks.domains import iter_domains
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.regions import with_detected_regions
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.instruction import BlockRef, Loop, primitive
from tvmagic.tir.schedule.requirements import check_complete, check_no_matches, runs_over, scope_root
from tvmagic.tir.schedule.state import ScheduleState, children_of, replace_child


def padding_parts(block: StmtSRef) -> tuple[BufferStore, PrimExpr, PrimExpr, PrimExpr]:
    """The store of a block that pads, its condition, the value inside and the constant outside."""
    store = block.block.body
    if not isinstance(store, BufferStore):
        raise ScheduleError(f"the body of {block.label} must be one store", block)
    value = store.value
    if not (isinstance(value, Call) and getattr(value.op, "name", "") == "tir.if_then_else"):
        raise ScheduleError(f"what {block.label} stores must be chosen by an if_then_else on its variables", block)
    condition, inside, outside = value.args
    variables: list[Var] = []
    post_order_visit(outside, lambda n: variables.append(n) if isinstance(n, Var) else None)
    if variables:
        raise ScheduleError(f"the padding of {block.label} must be a constant, not `{outside}`", block)
    return store, condition, inside, outside


def inside_domains(block: StmtSRef, condition: PrimExpr) -> dict[Var, Range]:
    """The range of each variable where the condition holds; the condition must be just those ranges."""
    domains = iter_domains(block.block.iter_vars)
    sets = {var: IntSet.from_range(dom) for var, dom in domains.items()}
    bounds = condition_bounds(condition, sets)
    analyzer = Analyzer()
    result: dict[Var, Range] = {}
    for var in domains:
        found = bounds.get(var, sets[var])
        low, high = analyzer.simplify(found.min()), analyzer.simplify(found.max())
        result[var] = Range.from_min_extent(low, analyzer.simplify(high - low + 1))
    if not Analyzer(result).can_prove(condition):
        raise ScheduleError(f"the condition `{condition}` of {block.label} is not a range of each variable", block)
    if all(analyzer.can_prove_equal(r.extent, domains[v].extent) for v, r in result.items()):
        raise ScheduleError(f"the condition `{condition}` of {block.label} always holds", block)
    return result


def _copy(realize: BlockRealize, block: Block, loops: list[StmtSRef], extents: dict[Var, PrimExpr]) -> Stmt:
    """The block under loops of its own, those in `extents` with another number of iterations."""
    names: dict[Var, PrimExpr] = {}
    body: Stmt = realize.replace(block=block)
    for sref in reversed(loops):
        loop = sref.loop
        fresh = loop.loop_var.copy_with_suffix("")
        names[loop.loop_var] = fresh
        body = loop.replace(loop_var=fresh, extent=extents.get(loop.loop_var, loop.extent), body=body)
    return substitute(body, names)


def _with_own_variables(block: Block) -> Block:
    fresh: dict[Var, PrimExpr] = {v.var: v.var.copy_with_suffix("") for v in block.iter_vars}
    renamed = substitute(block.replace(iter_vars=()), fresh)
    iters: list[IterVar] = []
    for v in block.iter_vars:
        var = fresh[v.var]
        assert isinstance(var, Var)
        iters.append(v.replace(var=var))
    return renamed.replace(iter_vars=tuple(iters))


@primitive("DecomposePadding")
def decompose_padding(state: ScheduleState, block: BlockRef, loop: Loop) -> BlockRef:
    """Split a block that pads into one that fills with the constant and one that writes just the inside.

    The filling block goes before `loop` and is the result; the other one runs over the inside alone.

    Requires: the block is complete, alone below `loop`, and stores `if_then_else(condition, value,
    constant)` where the condition is a range of each variable; each variable that the condition narrows is
    bound to a loop of its own at or below `loop`.
    """
    root = scope_root(state, block)
    check_complete(state, block, root)
    check_no_matches(block)
    loops = state.loops_of(block)
    if loop not in loops:
        raise ScheduleError(f"{loop.label} is not a loop of {block.label}", loop, block)
    inner = loops[loops.index(loop) :]
    if any(len(children_of(s.loop)) != 1 for s in inner):
        raise ScheduleError(f"{loop.label} must hold {block.label} alone", loop, block)
    store, condition, inside, outside = padding_parts(block)
    domains = inside_domains(block, condition)
    realize = state.realize_of(block)
    stmt = block.block
    filling = stmt.replace(body=store.replace(value=outside), name_hint=stmt.name_hint + "_pad_const")
    filling = with_detected_regions(_with_own_variables(filling))
    first = _copy(realize, filling, inner, {})
    inner_loops = {s.loop.loop_var: s.loop for s in inner}
    shifts: dict[Var, PrimExpr] = {}
    extents: dict[Var, PrimExpr] = {}
    iters: list[IterVar] = []
    for var, value in zip(stmt.iter_vars, realize.iter_values):
        assert var.dom is not None
        narrowed = domains[var.var]
        if Analyzer().can_prove_equal(narrowed.extent, var.dom.extent):
            iters.append(var)
            continue
        own = isinstance(value, Var) and value in inner_loops and runs_over(inner_loops[value], var)
        if not own or not is_one(realize.predicate):
            raise ScheduleError(
                f"the variable `{var.var.name}` of {block.label} is not bound to a loop of its own below {loop.label}",
                block,
                hint="decompose the padding before the loop is split or fused",
            )
        assert isinstance(value, Var)
        extents[value] = narrowed.extent
        shifts[var.var] = var.var + narrowed.min
        iters.append(var.replace(dom=Range.from_min_extent(IntImm(var.var.dtype, 0), narrowed.extent)))
    body = _simplified_store(substitute(store.replace(value=inside), shifts), iters)
    rest = with_detected_regions(stmt.replace(iter_vars=tuple(iters), body=body))
    second: Stmt = realize.replace(block=rest)
    for sref in reversed(inner):
        second = sref.loop.replace(extent=extents.get(sref.loop.loop_var, sref.loop.extent), body=second)
    parent = loop.parent
    assert parent is not None and parent.stmt is not None
    new = parent.stmt.replace(body=replace_child(parent.stmt.body, loop.loop, SeqStmt([first, second]), loop.seq_index))
    state.replace(parent, new, {stmt: rest, parent.block: new} if isinstance(new, Block) else {stmt: rest})
    return state.sref_of(filling)


def _simplified_store(store: BufferStore, iters: list[IterVar]) -> BufferStore:
    from tvmagic.tir.schedule.primitives.layout import AccessSimplifier

    simplifier = AccessSimplifier()
    for v in iters:
        assert v.dom is not None
        simplifier.analyzer.bind(v.var, v.dom)
        simplifier.iterators[v.var] = v.dom
    return simplifier.visit(store)
