"""Primitives that move a block below a loop of its consumers or producers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.extension import ProofStrength
from tvmagic.arith.int_set import IntSet
from tvmagic.arith.int_set_eval import eval_sets, uses_var
from tvmagic.ir.ops import logical_and
from tvmagic.ir.query import is_one
from tvmagic.tir.blocks.conditions import all_of, both, conditions_on_variables
from tvmagic.tir.blocks.domains import domains_between, loop_domains
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.instruction import BlockRef, Loop, primitive
from tvmagic.tir.schedule.limits import read_anywhere
from tvmagic.tir.schedule.moved_domains import Domain, Regions, provided_regions, variable_domains
from tvmagic.tir.schedule.reduction_order import check_reduces_in_order
from tvmagic.tir.schedule.requirements import (
    DependenceGuard,
    check_bounds_nothing,
    check_complete_or_reduction,
    check_loops_unused,
    check_not_output,
    check_runs_everywhere,
    is_output,
    scope_root,
)
from tvmagic.tir.schedule.rewrite import BlockReuse, remove_child
from tvmagic.tir.schedule.state import ScheduleState, children_of

if TYPE_CHECKING:
    pass

# ---------------------------------------------------------------------------- where it goes


def _check_same_scope(
    state: ScheduleState, block: StmtSRef, loop: StmtSRef, root: StmtSRef, analyzer: Analyzer
) -> None:
    """The loop must be in the block's scope and not around the block; its loops' ranges become known."""
    sref: StmtSRef | None = loop
    while sref is not root:
        if sref is None or sref.is_block:
            raise ScheduleError(
                f"{block.label} and {loop.label} are not in the same scope: both must be under the same block scope",
                block,
                loop,
                code="compute_at.different_scopes",
            )
        stmt = sref.loop
        analyzer.bind(stmt.loop_var, ir.Range.from_min_extent(stmt.min, stmt.extent), True)
        sref = sref.parent
    if loop in block.ancestors():
        raise ScheduleError(
            f"{loop.label} is already an ancestor of block `{block.block.name_hint}`",
            block,
            loop,
            code="compute_at.loop_is_ancestor",
        )


def _subtrees(loop: ir.For) -> tuple[ir.Stmt, ...]:
    return loop.body.seq if isinstance(loop.body, ir.SeqStmt) else (loop.body,)


def _places(loop: StmtSRef, blocks: Iterable[StmtSRef]) -> dict[StmtSRef, int]:
    """Which of the loop's statements holds each of the blocks that are under it."""
    tops: dict[ir.Stmt, int] = {}
    for index, stmt in enumerate(_subtrees(loop.loop)):
        inside = [(stmt, 0)] if isinstance(stmt, ir.For) else children_of(loop.loop.replace(body=stmt))
        tops |= {child: index for child, _ in inside}
    found: dict[StmtSRef, int] = {}
    for block in blocks:
        top = next((s for s in (block, *block.ancestors()) if s.parent is loop), None)
        if top is not None and top.stmt is not None:
            found[block] = tops[top.stmt]
    return found


def _insert_position(
    loop: StmtSRef, producers: Sequence[StmtSRef], consumers: Sequence[StmtSRef], index: int, reverse: bool
) -> int:
    """The place among the loop's statements: after all producers and before all consumers."""
    places = _places(loop, [*producers, *consumers])
    required, what = (producers, "producers") if reverse else (consumers, "consumers")
    missing = [s for s in required if s not in places]
    if missing:
        names = ", ".join(s.label for s in missing)
        raise ScheduleError(
            f"all {what} of the block must be under {loop.label}, but {names} is not: it requires all the "
            f"{what[:-1]}(s) to be present under the target loop",
            loop,
            *missing,
            hint=f"choose a loop that holds all {what}, or move them first",
            code="compute_at.not_covered",
        )
    last_producer = max((places[s] for s in producers if s in places), default=-1)
    first_consumer = min((places[s] for s in consumers if s in places), default=len(_subtrees(loop.loop)))
    if index == -1:
        return first_consumer
    if index == -2:
        return last_producer + 1
    if last_producer < index <= first_consumer:
        return index
    raise ScheduleError(
        f"the index must lie in [{last_producer + 1}, {first_consumer}], not {index}",
        loop,
        code="compute_at.index_out_of_range",
    )


# ---------------------------------------------------------------------------- what it computes


def _required(
    state: ScheduleState, others: Sequence[StmtSRef], loop: StmtSRef, provided: Regions, reverse: bool
) -> Regions:
    """What the blocks under the loop read (or write) of the block's buffers in one of its iterations."""
    needed: Regions = {}
    for sref in others:
        for region in sref.block.writes if reverse else sref.block.reads:
            if region.buffer in provided:
                scope = "global" if reverse else region.buffer.scope()
                domains = domains_between(sref.parent, loop, scope)
                box = read_anywhere(state, region, sref)
                needed.setdefault(region.buffer, []).append(eval_sets(box.region, domains))
    return needed


def _check_loops_run(state: ScheduleState, block: StmtSRef, loop: StmtSRef, analyzer: Analyzer) -> None:
    """What needs nothing of the loop runs however often the loop does; so that must be once at least."""
    for above in (*state.loops_of(loop), loop):
        if not analyzer.can_prove(above.loop.extent > 0):
            raise ScheduleError(
                f"{above.label} may have no iterations, and {block.label}, which reads nothing that is written there, would "
                "not run",
                block,
                above,
                code="compute_at.loop_may_be_empty",
            )


# ---------------------------------------------------------------------------- the new nest


def _make_nest(
    block: ir.Block,
    domains: Sequence[Domain],
    conditions: Sequence[ir.PrimExpr],
    analyzer: Analyzer,
    preserve_unit_loops: bool,
    around: dict[ir.Var, ir.Range],
) -> ir.Stmt:
    """Loops over the domains around the block, which runs where no domain leaves its bound and `conditions` hold."""
    loops: list[tuple[ir.Var, ir.PrimExpr]] = []
    values: list[ir.PrimExpr] = []
    inner = dict(around)
    predicate: ir.PrimExpr = ir.IntImm("bool", 1)
    for var, domain in zip(block.iter_vars, domains):
        assert var.dom is not None
        span = domain.dom.cover_range(var.dom)
        value = span.min
        if preserve_unit_loops or not is_one(span.extent):
            bits = max(span.min.dtype.bits, span.extent.dtype.bits)
            loop_var = ir.Var(f"ax{len(loops)}", f"int{bits}")
            loops.append((loop_var, analyzer.simplify(span.extent)))
            value = span.min + loop_var
            inner[loop_var] = ir.Range.from_min_extent(ir.IntImm(loop_var.dtype, 0), span.extent)
            analyzer.bind(loop_var, inner[loop_var])
        values.append(value)
        if not domain.bound.is_nothing():
            inside = _counts_inside(value, domain.bound, inner, analyzer)
            for condition in () if inside else (value >= domain.bound.min(), value < domain.bound.max() + 1):
                if not analyzer.can_prove(condition, ProofStrength.SYMBOLIC_BOUND):
                    predicate = logical_and(predicate, condition)
    bindings = {v.var: value for v, value in zip(block.iter_vars, values)}
    predicate = both(predicate, all_of([ir.substitute(c, bindings) for c in conditions]))
    nest = ir.BlockRealize(values, analyzer.simplify(predicate), block)
    return ir.loop_nest([var for var, _ in loops], [extent for _, extent in loops], nest)


def _counts_inside(value: ir.PrimExpr, bound: IntSet, domains: dict[ir.Var, ir.Range], analyzer: Analyzer) -> bool:
    """Whether a value, as an iterator over the loops, stays in the bound: with symbolic sizes intervals do not tell."""
    from tvmagic.arith.iter_map import detect_iter_map

    if not (bound.has_lower_bound() and bound.has_upper_bound()) or isinstance(bound.max(), ir.IntImm):
        return False
    for total in detect_iter_map([value], domains, check_level="nocheck").indices:
        if len(total.args) == 1 and is_one(total.args[0].scale):
            end = total.base + total.args[0].extent
            return analyzer.can_prove(total.base >= bound.min()) and analyzer.can_prove(end <= bound.max() + 1)
    return False


class _Move(ir.Mutator):
    """Puts the new loop in the place of the old one."""

    def __init__(self, old: ir.For, new: ir.For) -> None:
        self.old, self.new = old, new

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        return self.new if node is self.old else self.visit_children(node)

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> ir.Stmt:
        return node


def _check_serial_reduction(state: ScheduleState, block: ir.Block, domains: Sequence[Domain], loop: StmtSRef) -> None:
    """A loop whose iterations run at the same time must not reduce."""
    for sref in [*state.loops_of(loop), loop]:
        if sref.loop.kind not in (ir.ForKind.PARALLEL, ir.ForKind.VECTORIZED):
            continue
        for var, domain in zip(block.iter_vars, domains):
            assert var.dom is not None
            if var.iter_type != ir.IterVar.DataPar and uses_var(
                domain.dom.cover_range(var.dom).min, {sref.loop.loop_var}
            ):
                raise ScheduleError(
                    f"the iterations of {sref.label} run at the same time, and block `{block.name_hint}` would reduce `{var.var.name}` over them",
                    sref,
                    hint="move the block first, then mark the loops that it does not reduce over",
                    code="compute_at.reduction_runs_in_parallel",
                )


def _move_block(
    state: ScheduleState, block: StmtSRef, loop: StmtSRef, preserve_unit_loops: bool, index: int, reverse: bool
) -> None:
    # 1. the block may be moved, and the loop is one to which it may be moved
    root = scope_root(state, block, stage_pipeline=True)
    scope = state.get_block_scope(root)
    producers, consumers = scope.producers(block), scope.consumers(block)
    check_complete_or_reduction(state, block, root)
    check_loops_unused(state, block)
    check_bounds_nothing(block, root)
    analyzer = Analyzer()
    _check_same_scope(state, block, loop, root, analyzer)
    if not reverse:
        check_not_output(state, block, root)
    conditions = conditions_on_variables(state, block)
    if reverse and is_output(state, block, root):
        check_runs_everywhere(state, block)
    if reverse and not producers:
        _check_loops_run(state, block, loop, analyzer)
    # 2. the scope without the block, and its place among the statements of the loop: behind all producers, in front of all
    #    consumers
    rest = remove_child(root.block.body, block.block)
    assert rest is not None  # the loop, which is not around the block, is left
    position = _insert_position(loop, producers, consumers, index, reverse)
    # 3. the regions that the blocks below the loop need in one of its iterations, and those that one iteration of the
    #    block provides, as functions of its variables
    stmt = block.block
    provided = provided_regions(stmt.reads if reverse else stmt.writes)
    needed = _required(state, producers if reverse else consumers, loop, provided, reverse)
    # 4. solved for the variables of the block: the values that each must take there
    domains = variable_domains(stmt.iter_vars, provided, needed, analyzer, block, loop, reverse)
    # 5. new loops over these values around the block
    around = loop_domains([*state.loops_of(loop), loop])
    nest = _make_nest(stmt, domains, conditions, analyzer, preserve_unit_loops, around)
    _check_serial_reduction(state, stmt, domains, loop)
    # 6. the new nest at its place; the dependences between blocks stay as they were
    parts = list(_subtrees(loop.loop))
    parts.insert(position, nest)
    new_loop = loop.loop.replace(body=ir.SeqStmt.flatten(*parts))
    body = _Move(loop.loop, new_loop).visit(rest)
    new_root = root.block.replace(body=body)
    reuse = BlockReuse()
    reuse.note(root.block, new_root)
    guard = DependenceGuard(state, root)
    state.replace(root, new_root, reuse)
    guard.check()
    if reverse:  # moved to its consumers, a block has all loops of its reduction around it again
        check_reduces_in_order(state, block)


@primitive("ComputeAt")
def compute_at(
    state: ScheduleState, block: BlockRef, loop: Loop, preserve_unit_loops: bool = False, index: int = -1
) -> None:
    """Move a block under a loop of its consumers, with loops that compute just what they need there.

    `index` is the place among the loop's statements: -1 the last possible, -2 the first possible.

    Requires: the block is complete or a reduction, not an output block; all its consumers are under the
    loop; block and loop are in one scope, a stage pipeline; the block is not the only leaf of it; its condition
    holds all over its variables' domains or can be said in its variables, so that it goes along.

    Example
    -------
    `sch.compute_at("B", j)` makes of

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

        B = T.alloc_buffer((16,))
        for j in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, j)
                B[v] = A[v] + T.float32(1.0)
            with T.block("C"):
                v = T.axis.spatial(16, j)
                C[v] = B[v] * T.float32(2.0)
    """
    if loop is StmtSRef.inline_mark():
        from tvmagic.tir.schedule.primitives.inline import compute_inline

        compute_inline(state, block)
    elif loop is not StmtSRef.root_mark():
        _move_block(state, block, loop, preserve_unit_loops, index, reverse=False)


@primitive("ReverseComputeAt")
def reverse_compute_at(
    state: ScheduleState, block: BlockRef, loop: Loop, preserve_unit_loops: bool = False, index: int = -1
) -> None:
    """Move a block under a loop of its producers, with loops over just what they give there.

    Requires: the block is complete or a reduction; all its producers are under the loop; block and loop
    are in one scope, a stage pipeline; the block is not the only leaf of it and does not reduce over a parallel or
    vectorized loop; each of its iterations needs something of the producers; its condition is as for `compute_at`.

    Example
    -------
    `sch.reverse_compute_at("C", i)` makes of

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

        B = T.alloc_buffer((16,))
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + T.float32(1.0)
            with T.block("C"):
                v = T.axis.spatial(16, i)
                C[v] = B[v] * T.float32(2.0)
    """
    if loop is StmtSRef.inline_mark():
        from tvmagic.tir.schedule.primitives.inline import reverse_compute_inline

        reverse_compute_inline(state, block)
    elif loop is not StmtSRef.root_mark():
        _move_block(state, block, loop, preserve_unit_loops, index, reverse=True)
