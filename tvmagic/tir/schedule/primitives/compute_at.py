"""Primitives that move a block below a loop of its consumers or producers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.extension import ProofStrength
from tvmagic.arith.int_set import IntSet, intersect, union, union_region
from tvmagic.arith.int_set_eval import eval_sets, uses_var
from tvmagic.ir import (
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    For,
    ForKind,
    IntImm,
    IterVar,
    Mutator,
    PrimExpr,
    Range,
    SeqStmt,
    Stmt,
    Var,
    handles,
    loop_nest,
    substitute,
)
from tvmagic.ir.expr import FloorDiv, FloorMod, Mul
from tvmagic.ir.ops import floordiv, logical_and, maximum
from tvmagic.ir.query import is_one
from tvmagic.tir.blocks.conditions import all_of, both, conditions_on_variables, runs_everywhere
from tvmagic.tir.blocks.domains import analyzer_at, domains_between, iter_domains, loop_domains
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.instruction import BlockRef, Loop, primitive
from tvmagic.tir.schedule.limits import read_anywhere
from tvmagic.tir.schedule.reduction_order import check_reduces_in_order
from tvmagic.tir.schedule.requirements import (
    DependenceGuard,
    check_bounds_nothing,
    check_complete_or_reduction,
    check_loops_unused,
    check_not_output,
    is_output,
    scope_root,
)
from tvmagic.tir.schedule.rewrite import BlockReuse, remove_child
from tvmagic.tir.schedule.state import ScheduleState, children_of

Regions = dict[Buffer, list[list[IntSet]]]


@dataclass
class Domain:
    """What a block variable runs over: `dom` as asked for, `bound` where it must stay inside."""

    dom: IntSet = field(default_factory=IntSet.nothing)
    bound: IntSet = field(default_factory=IntSet.nothing)

    def join(self, dom: IntSet, bound: IntSet) -> None:
        """Run over `dom` too."""
        self.dom = union([self.dom, dom])
        self.bound = union([self.bound, bound])

    def settle(self, whole: Range, analyzer: Analyzer) -> None:
        """Simplify, and drop the bound where the domain is known to stay inside it."""
        limits = IntSet.from_range(whole)
        self.bound = limits if self.bound.is_nothing() else intersect([self.bound, limits])
        if self.dom.is_nothing():
            self.dom = _simplified(self.bound, analyzer)
            self.bound = IntSet.nothing()
            return
        self.dom, self.bound = _simplified(self.dom, analyzer), _simplified(self.bound, analyzer)
        both = _simplified(intersect([self.dom, self.bound]), analyzer)
        if isinstance(both.min(), IntImm) and isinstance(both.max(), IntImm):
            self.dom, self.bound = both, IntSet.nothing()
            return
        if _same_ends(self.dom, both, analyzer):
            self.bound = IntSet.nothing()
        elif _same_ends(self.bound, both, analyzer):
            self.dom, self.bound = self.bound, IntSet.nothing()


def _simplified(interval: IntSet, analyzer: Analyzer) -> IntSet:
    low = analyzer.simplify(interval.min()) if interval.has_lower_bound() else interval.min()
    high = analyzer.simplify(interval.max()) if interval.has_upper_bound() else interval.max()
    return IntSet.interval(low, high)


def _same_ends(a: IntSet, b: IntSet, analyzer: Analyzer) -> bool:
    return analyzer.can_prove_equal(a.min(), b.min()) and analyzer.can_prove_equal(a.max(), b.max())


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
            )
        stmt = sref.loop
        analyzer.bind(stmt.loop_var, Range.from_min_extent(stmt.min, stmt.extent), True)
        sref = sref.parent
    if loop in block.ancestors():
        raise ScheduleError(f"{loop.label} is already an ancestor of block `{block.block.name_hint}`", block, loop)


def _subtrees(loop: For) -> tuple[Stmt, ...]:
    return loop.body.seq if isinstance(loop.body, SeqStmt) else (loop.body,)


def _places(loop: StmtSRef, blocks: Iterable[StmtSRef]) -> dict[StmtSRef, int]:
    """Which of the loop's statements holds each of the blocks that are under it."""
    tops: dict[Stmt, int] = {}
    for index, stmt in enumerate(_subtrees(loop.loop)):
        inside = [(stmt, 0)] if isinstance(stmt, For) else children_of(loop.loop.replace(body=stmt))
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
        )
    last_producer = max((places[s] for s in producers if s in places), default=-1)
    first_consumer = min((places[s] for s in consumers if s in places), default=len(_subtrees(loop.loop)))
    if index == -1:
        return first_consumer
    if index == -2:
        return last_producer + 1
    if last_producer < index <= first_consumer:
        return index
    raise ScheduleError(f"the index must lie in [{last_producer + 1}, {first_consumer}], not {index}", loop)


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


def _provided(regions: Sequence[BufferRegion]) -> Regions:
    found: Regions = {}
    for region in regions:
        found.setdefault(region.buffer, []).append([IntSet.from_range(r) for r in region.region])
    return found


def _variable_domains(
    iter_vars: Sequence[IterVar],
    provided: Regions,
    needed: Regions,
    analyzer: Analyzer,
    block: StmtSRef,
    loop: StmtSRef,
    reverse: bool,
) -> list[Domain]:
    domains = {v.var: Domain() for v in iter_vars}
    for buffer, boxes in provided.items():
        if not needed.get(buffer):
            continue
        gives, wants = union_region(boxes), union_region(needed[buffer])
        if not _solve_affine(buffer, iter_vars, gives, wants, analyzer, domains):
            _solve_by_dimension(buffer, gives, wants, analyzer, domains, block)
    known = analyzer_at(loop) if reverse else analyzer
    for v in iter_vars:
        assert v.dom is not None
        if reverse:
            _check_all_needed(v, domains[v.var], known, block)
        domains[v.var].settle(v.dom, analyzer)
    return [domains[v.var] for v in iter_vars]


def _check_all_needed(var: IterVar, domain: Domain, analyzer: Analyzer, block: StmtSRef) -> None:
    """A consumer may have no part that needs nothing of its producers: it would never run (padding, mostly)."""
    assert var.dom is not None
    if domain.bound.is_nothing():
        return
    low, high = domain.bound.min(), domain.bound.max()
    last = var.dom.min + var.dom.extent - 1
    if not (analyzer.can_prove(low <= var.dom.min) and analyzer.can_prove(last <= high)):
        raise ScheduleError(
            f"{block.label} runs over `{var.var.name}` in [{var.dom.min}, {last}], and what its producers give reaches "
            f"[{low}, {high}] alone; the rest would be lost",
            block,
            hint="split the padding off by decompose_padding first",
        )


def _check_runs_everywhere(state: ScheduleState, block: StmtSRef) -> None:
    """A block of which only a part runs, by its loops, must not write more of what others see once it is moved."""
    realize, loops = state.realize_of(block), loop_domains(state.loops_of(block))
    if is_one(realize.predicate) and not runs_everywhere(realize, loops, realize.predicate):
        raise ScheduleError(
            f"it is not known that {block.label} runs for all values of its variables; moved, it would write more than before",
            block,
        )


def _check_loops_run(state: ScheduleState, block: StmtSRef, loop: StmtSRef, analyzer: Analyzer) -> None:
    """What needs nothing of the loop runs however often the loop does; so that must be once at least."""
    for above in (*state.loops_of(loop), loop):
        if not analyzer.can_prove(above.loop.extent > 0):
            raise ScheduleError(
                f"{above.label} may have no iterations, and {block.label}, which reads nothing that is written there, would "
                "not run",
                block,
                above,
            )


def _last(size: PrimExpr) -> PrimExpr:
    return maximum(size - 1, IntImm(size.dtype, 0)) if isinstance(size, IntImm) else size - 1


def _ordered(low: PrimExpr, high: PrimExpr, analyzer: Analyzer) -> IntSet:
    """The interval between two ends, which are given from the upper one if the index falls as the variable rises."""
    low, high = analyzer.simplify(low), analyzer.simplify(high)
    return IntSet.interval(high, low) if analyzer.can_prove(high < low) else IntSet.interval(low, high)


def _solve_affine(
    buffer: Buffer,
    iter_vars: Sequence[IterVar],
    gives: list[IntSet],
    wants: list[IntSet],
    analyzer: Analyzer,
    domains: dict[Var, Domain],
) -> bool:
    """Invert the indices as one affine map, if they are points and a bijection."""
    from tvmagic.arith.iter_map import detect_iter_map, inverse_affine_iter_map

    if not all(s.can_prove_single_point(analyzer) for s in gives):
        return False
    if not all(s.has_lower_bound() and s.has_upper_bound() for s in wants):
        return False
    own = iter_domains(iter_vars)
    if variables := _as_variables(gives, own):  # each is its own inverse
        for var, want, size in zip(variables, wants, buffer.shape):
            bound = IntSet.interval(IntImm(size.dtype, 0), _last(size))
            domains[var].join(_ordered(want.min(), want.max(), analyzer), bound)
        return True
    known = Analyzer(own)
    indices = [known.simplify(s.min()) for s in gives]
    # an index that is the same all over the domain says nothing of a variable
    told = [i for i, (index, want) in enumerate(zip(indices, wants)) if not _is_place(index, want, analyzer)]
    sizes, wants = [buffer.shape[i] for i in told], [wants[i] for i in told]
    used = {var: domain for var, domain in own.items() if any(uses_var(indices[i], {var}) for i in told)}
    found = detect_iter_map(
        [indices[i] for i in told],
        own if len(told) == len(indices) else used,
        check_level="bijective",
        analyzer=analyzer,
        simplify_trivial_iterators=False,
    )
    if not found.indices:
        return False
    zero = [IntImm(s.dtype, 0) for s in sizes]
    low = inverse_affine_iter_map(found.indices, [s.min() for s in wants])
    high = inverse_affine_iter_map(found.indices, [s.max() for s in wants])
    first = inverse_affine_iter_map(found.indices, zero)
    last = inverse_affine_iter_map(found.indices, [_last(s) for s in sizes])
    for var in low:
        dom, bound = _ordered(low[var], high[var], analyzer), _ordered(first[var], last[var], analyzer)
        domains[var].join(dom, bound)
    return True


def _as_variables(gives: list[IntSet], own: dict[Var, Range]) -> list[Var]:
    """The points as the variables of a block, if they are all of them, each once; else nothing."""
    found = [p for s in gives if isinstance(p := s.min(), Var) and p in own]
    return found if len(set(found)) == len(found) == len(gives) == len(own) else []


def _is_place(index: PrimExpr, want: IntSet, analyzer: Analyzer) -> bool:
    """Whether an index is the constant that is wanted."""
    return (
        isinstance(index, IntImm)
        and want.can_prove_single_point(analyzer)
        and analyzer.can_prove_equal(index, want.min())
    )


def _solve_by_dimension(
    buffer: Buffer,
    gives: list[IntSet],
    wants: list[IntSet],
    analyzer: Analyzer,
    domains: dict[Var, Domain],
    block: StmtSRef,
) -> None:
    for size, give, want in zip(buffer.shape, gives, wants):
        if give.can_prove_single_point(analyzer) and isinstance(give.min(), IntImm):
            if not analyzer.can_prove_equal(give.min(), want.min()):
                raise ScheduleError(f"{block.label} does not give what is needed of buffer `{buffer.name}`", block)
            continue
        var, dom, bound = _solve_dimension(give, want, _last(size), analyzer, buffer, block)
        if var in domains and dom is not None and bound is not None:
            domains[var].join(dom, bound)


def _solve_dimension(
    give: IntSet, want: IntSet, last: PrimExpr, analyzer: Analyzer, buffer: Buffer, block: StmtSRef
) -> tuple[Var, IntSet | None, IntSet | None]:
    """The variable that an index names, what it must run over, and where it must stay.

    The index is a variable, its multiple, quotient or remainder; None if it says nothing.
    """
    first, end = analyzer.simplify(give.min()), analyzer.simplify(give.max())
    low, high = analyzer.simplify(want.min()), analyzer.simplify(want.max())
    zero = IntImm(last.dtype, 0)
    if isinstance(first, Mul):
        var, factor = (first.a, first.b) if isinstance(first.a, Var) else (first.b, first.a)
        if isinstance(var, Var):
            span = IntSet.interval(floordiv(low, factor), floordiv(high, factor))
            return var, span, IntSet.interval(zero, floordiv(last, factor))
    elif analyzer.can_prove_equal(first, end):
        if isinstance(first, Var):
            return first, IntSet.interval(low, high), IntSet.interval(zero, last)
        if isinstance(first, FloorDiv) and isinstance(first.a, Var):
            factor = first.b
            if analyzer.can_prove_greater_equal(factor, 1):
                span = IntSet.interval(low * factor, analyzer.simplify(high * factor + factor - 1))
                return first.a, span, IntSet.interval(zero, analyzer.simplify(last * factor + factor - 1))
        if isinstance(first, FloorMod) and isinstance(first.a, Var):
            return first.a, None, None
    raise ScheduleError(
        f"the index `{first}` of buffer `{buffer.name}` in {block.label} cannot be solved for a variable", block
    )


# ---------------------------------------------------------------------------- the new nest


def _make_nest(
    block: Block,
    domains: Sequence[Domain],
    conditions: Sequence[PrimExpr],
    analyzer: Analyzer,
    preserve_unit_loops: bool,
    around: dict[Var, Range],
) -> Stmt:
    """Loops over the domains around the block, which runs where no domain leaves its bound and `conditions` hold."""
    loops: list[tuple[Var, PrimExpr]] = []
    values: list[PrimExpr] = []
    inner = dict(around)
    predicate: PrimExpr = IntImm("bool", 1)
    for var, domain in zip(block.iter_vars, domains):
        assert var.dom is not None
        span = domain.dom.cover_range(var.dom)
        value = span.min
        if preserve_unit_loops or not is_one(span.extent):
            bits = max(span.min.dtype.bits, span.extent.dtype.bits)
            loop_var = Var(f"ax{len(loops)}", f"int{bits}")
            loops.append((loop_var, analyzer.simplify(span.extent)))
            value = span.min + loop_var
            inner[loop_var] = Range.from_min_extent(IntImm(loop_var.dtype, 0), span.extent)
            analyzer.bind(loop_var, inner[loop_var])
        values.append(value)
        if not domain.bound.is_nothing():
            inside = _counts_inside(value, domain.bound, inner, analyzer)
            for condition in () if inside else (value >= domain.bound.min(), value < domain.bound.max() + 1):
                if not analyzer.can_prove(condition, ProofStrength.SYMBOLIC_BOUND):
                    predicate = logical_and(predicate, condition)
    bindings = {v.var: value for v, value in zip(block.iter_vars, values)}
    predicate = both(predicate, all_of([substitute(c, bindings) for c in conditions]))
    nest = BlockRealize(values, analyzer.simplify(predicate), block)
    return loop_nest([var for var, _ in loops], [extent for _, extent in loops], nest)


def _counts_inside(value: PrimExpr, bound: IntSet, domains: dict[Var, Range], analyzer: Analyzer) -> bool:
    """Whether a value, as an iterator over the loops, stays in the bound: with symbolic sizes intervals do not tell."""
    from tvmagic.arith.iter_map import detect_iter_map

    if not (bound.has_lower_bound() and bound.has_upper_bound()) or isinstance(bound.max(), IntImm):
        return False
    for total in detect_iter_map([value], domains, check_level="nocheck").indices:
        if len(total.args) == 1 and is_one(total.args[0].scale):
            end = total.base + total.args[0].extent
            return analyzer.can_prove(total.base >= bound.min()) and analyzer.can_prove(end <= bound.max() + 1)
    return False


class _Move(Mutator):
    """Puts the new loop in the place of the old one."""

    def __init__(self, old: For, new: For) -> None:
        self.old, self.new = old, new

    @handles(For)
    def loop(self, node: For) -> Stmt:
        return self.new if node is self.old else self.visit_children(node)

    @handles(BlockRealize)
    def realize(self, node: BlockRealize) -> Stmt:
        return node


def _check_serial_reduction(state: ScheduleState, block: Block, domains: Sequence[Domain], loop: StmtSRef) -> None:
    """A loop whose iterations run at the same time must not reduce."""
    for sref in [*state.loops_of(loop), loop]:
        if sref.loop.kind not in (ForKind.PARALLEL, ForKind.VECTORIZED):
            continue
        for var, domain in zip(block.iter_vars, domains):
            assert var.dom is not None
            if var.iter_type != IterVar.DataPar and uses_var(domain.dom.cover_range(var.dom).min, {sref.loop.loop_var}):
                raise ScheduleError(
                    f"the iterations of {sref.label} run at the same time, and block `{block.name_hint}` would reduce `{var.var.name}` over them",
                    sref,
                    hint="move the block first, then mark the loops that it does not reduce over",
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
        _check_runs_everywhere(state, block)
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
    provided = _provided(stmt.reads if reverse else stmt.writes)
    needed = _required(state, producers if reverse else consumers, loop, provided, reverse)
    # 4. solved for the variables of the block: the values that each must take there
    domains = _variable_domains(stmt.iter_vars, provided, needed, analyzer, block, loop, reverse)
    # 5. new loops over these values around the block
    around = loop_domains([*state.loops_of(loop), loop])
    nest = _make_nest(stmt, domains, conditions, analyzer, preserve_unit_loops, around)
    _check_serial_reduction(state, stmt, domains, loop)
    # 6. the new nest at its place; the dependences between blocks stay as they were
    parts = list(_subtrees(loop.loop))
    parts.insert(position, nest)
    new_loop = loop.loop.replace(body=SeqStmt.flatten(*parts))
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
