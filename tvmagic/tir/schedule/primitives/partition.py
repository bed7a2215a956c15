"""Primitives that cut a loop into pieces, and that join loops beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set_eval import eval_set, uses_var
from tvmagic.tir.blocks.domains import loop_domains
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.regions import points_of_boxes
from tvmagic.tir.blocks.scope import DepKind
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.instruction import Loop, Loops, Sizes, primitive
from tvmagic.tir.schedule.requirements import DependenceGuard, check_plain_loop, check_starts_at_zero, only_child
from tvmagic.tir.schedule.state import ScheduleState

TRUE = ir.IntImm("bool", 1)


class _Renewer(ir.BufferRemapper):
    """A copy of a nest with variables and buffers of its own; its blocks renamed, and narrowed to a piece."""

    def __init__(self, suffix: str, domains: dict[ir.Var, ir.Range], values: dict[ir.Var, ir.PrimExpr]) -> None:
        super().__init__()
        self.suffix, self.domains, self.values = suffix, dict(domains), dict(values)
        self.narrowed: dict[ir.Var, ir.Range] = {}

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> ir.PrimExpr:
        return self.values.get(node, node)

    def visit_var_def(self, var: ir.Var) -> ir.Var:
        fresh = self.values[var] = var.copy_with_suffix("")
        return fresh

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        fresh = self.visit_var_def(node.loop_var)
        low, extent = self.visit(node.min), self.visit(node.extent)
        self.domains[fresh] = ir.Range.from_min_extent(low, extent)
        return node.replace(loop_var=fresh, min=low, extent=extent, body=self.visit(node.body))

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> ir.Stmt:
        values = ir.mutate_all(self.visit, node.iter_values)
        predicate = self.visit(node.predicate)
        iters: list[ir.IterVar] = []
        analyzer = Analyzer(self.domains)
        for var, value in zip(node.block.iter_vars, values):
            assert var.dom is not None
            fresh = self.visit_var_def(var.var)
            domain = _subrange(eval_set(value, self.domains).cover_range(var.dom), var.dom, analyzer)
            if (
                var.iter_type == ir.IterVar.CommReduce
                and node.block.init is not None
                and not ir.structural_equal(domain.min, var.dom.min)
            ):
                domain = var.dom  # it is never cut, and its first value, at which the init runs, must be exact
            self.narrowed[fresh] = domain
            iters.append(var.replace(var=fresh, dom=domain))
        block = node.block
        for buffer in (*block.alloc_buffers, *[match.buffer for match in block.match_buffers]):
            for own in (buffer.data, buffer.elem_offset, *buffer.strides):
                if isinstance(own, ir.Var):
                    self.visit_var_def(own)
        renamed = block.replace(
            iter_vars=tuple(iters),
            reads=ir.mutate_all(self.narrowed_region, ir.mutate_all(self.visit, points_of_boxes(block, 0))),
            writes=ir.mutate_all(self.narrowed_region, ir.mutate_all(self.visit, points_of_boxes(block, 1))),
            alloc_buffers=tuple([self.visit_buffer_def(buffer) for buffer in block.alloc_buffers]),
            match_buffers=ir.mutate_all(self.visit, block.match_buffers),
            name_hint=f"{block.name_hint}_{self.suffix}",
            init=None if block.init is None else self.visit(block.init),
            body=self.visit(block.body),
        )
        return node.replace(iter_values=values, predicate=predicate, block=renamed)

    def narrowed_region(self, region: ir.BufferRegion) -> ir.BufferRegion:
        """The box of the domains, if the region is a point of block variables."""
        sides = [self.narrowed.get(r.min) if isinstance(r.min, ir.Var) else None for r in region.region]
        found = [side for side in sides if side is not None]
        return region.replace(region=tuple(found)) if len(found) == len(sides) else region


def _subrange(values: ir.Range, whole: ir.Range, analyzer: Analyzer) -> ir.Range:
    """The values that the loops of a piece give a variable, without those known to be outside its domain `whole`.

    A condition leaves them out. The piece in which there are no others never runs, so that its domain may stay whole.
    """
    end, last = values.min + values.extent, whole.min + whole.extent
    below, beyond = analyzer.can_prove(values.min < whole.min), analyzer.can_prove(last < end)
    if not (below or beyond):
        return values
    first, end = whole.min if below else values.min, last if beyond else end
    return (
        whole if analyzer.can_prove(end <= first) else ir.Range.from_min_extent(first, analyzer.simplify(end - first))
    )


def _piece_sizes(loop: StmtSRef, factors: Sequence[int | None]) -> list[int]:
    extent = loop.loop.extent
    if not isinstance(extent, ir.IntImm):
        raise ScheduleError(
            f"{loop.label} has the symbolic extent `{extent}`, which cannot be partitioned",
            loop,
            code="loop_partition.symbolic_extent",
        )
    if sum(f is None for f in factors) > 1:
        raise ScheduleError("at most one factor may be None", loop, code="loop_partition.several_open_factors")
    if any(f is not None and f <= 0 for f in factors):
        raise ScheduleError(
            f"the factors {list(factors)} of a partition are positive", loop, code="loop_partition.factor_not_positive"
        )
    total = sum(f or 0 for f in factors)
    if total >= extent.value:
        raise ScheduleError(
            f"the factors {list(factors)} sum to {total}, which must be less than the extent {extent.value} of "
            f"{loop.label}",
            loop,
            code="loop_partition.factors_too_large",
        )
    sizes = [extent.value - total if f is None else f for f in factors]
    return sizes if None in factors else [*sizes, extent.value - total]


def _check_no_split_reduction(state: ScheduleState, loop: StmtSRef) -> None:
    """No piece may run a reduction's init again."""
    for block in state.child_blocks(loop):
        if block.block.init is None:
            continue
        realize = state.realize_of(block)
        for var, value in zip(block.block.iter_vars, realize.iter_values):
            if var.iter_type == ir.IterVar.CommReduce and uses_var(value, {loop.loop.loop_var}):
                raise ScheduleError(
                    f"each piece of {loop.label} would run the init of {block.label} again, which gives a wrong result",
                    loop,
                    block,
                    hint="decompose_reduction first, then partition the loop of the update block",
                    code="loop_partition.splits_reduction",
                )


def _opaque(name: str, body: ir.Stmt) -> ir.BlockRealize:
    return ir.BlockRealize([], TRUE, ir.Block([], [], [], name, body))


@primitive("LoopPartition")
def loop_partition(state: ScheduleState, loop: Loop, factors: Sizes, preserve_unit_iters: bool = True) -> Loops:
    """Cut a loop into loops that run one after the other, each in a block of its own.

    The factors are the numbers of iterations; at most one is None, for what the others leave.

    Requires: the loop starts at 0, has a constant extent, neither annotations nor a thread binding; the
    factors sum to less than the extent; the loop does not reduce in a block with an init.

    Example
    -------
    `first, rest = sch.loop_partition(i, [4, None])` makes of

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + 1.0

    this:

        with T.block("root"):
            T.reads()
            T.writes()
            with T.block("B_i_common"):
                T.reads()
                T.writes()
                with T.block("B_i0_partition"):
                    T.reads()
                    T.writes()
                    for i0 in range(4):
                        with T.block("B_i0"):
                            v = T.axis.spatial(4, i0)
                            T.reads(A[0:4])
                            T.writes(B[0:4])
                            B[v] = A[v] + T.float32(1.0)
                with T.block("B_i1_partition"):
                    T.reads()
                    T.writes()
                    for i1 in range(4, 16):
                        with T.block("B_i1"):
                            v = T.axis.spatial((4, 16), i1)
                            T.reads(A[4:16])
                            T.writes(B[4:16])
                            B[v] = A[v] + T.float32(1.0)
    """
    check_plain_loop(loop)
    check_starts_at_zero(loop)
    sizes = _piece_sizes(loop, factors)
    _check_no_split_reduction(state, loop)
    stmt = loop.loop
    name = state.child_blocks(loop)[0].block.name_hint
    outer = state.loops_of(loop)
    pieces: list[ir.Stmt] = []
    loops: list[ir.For] = []
    start = 0
    for i, size in enumerate(sizes):
        var = stmt.loop_var.copy_with_suffix(str(i))
        low = ir.IntImm(var.dtype, start)
        domains = {**loop_domains(outer), var: ir.Range.from_min_extent(low, ir.IntImm(var.dtype, size))}
        body = _Renewer(var.name, domains, {stmt.loop_var: var}).visit(stmt.body)
        piece = ir.For(var, low, size, ir.ForKind.SERIAL, body, span=stmt.span)
        loops.append(piece)
        pieces.append(_opaque(f"{name}_{var.name}_partition", piece))
        start += size
    state.replace(loop, _opaque(f"{name}_{stmt.loop_var.name}_common", ir.SeqStmt(pieces)))
    return [state.sref_of(piece) for piece in loops]


# ---------------------------------------------------------------------------- merge


def _lowest_common(loops: Sequence[StmtSRef]) -> StmtSRef:
    shared: list[StmtSRef] = loops[0].ancestors()
    for loop in loops[1:]:
        above = set(loop.ancestors())
        shared = [s for s in shared if s in above]
    if not shared:
        raise ScheduleError("the loops are in different functions", *loops, code="merge.different_functions")
    return shared[0]


def _nest_above(loop: StmtSRef, top: StmtSRef) -> list[StmtSRef]:
    """The loops from below `top` to `loop`, outermost first, each all of the one before."""
    nest = [loop]
    while nest[-1].parent is not top:
        above = nest[-1].parent
        assert above is not None
        if not above.is_loop or only_child(above.loop) is not nest[-1].stmt:
            raise ScheduleError(
                f"{nest[-1].label} must be all of {above.label} to be merged",
                nest[-1],
                above,
                code="merge.several_statements",
            )
        nest.append(above)
    nest.reverse()
    for part in nest:
        check_plain_loop(part)
        check_starts_at_zero(part)
    return nest


def _check_mergeable(nests: Sequence[Sequence[StmtSRef]]) -> None:
    first = nests[0]
    for nest in nests[1:]:
        same = len(nest) == len(first) and all(
            ir.structural_equal(a.loop.extent, b.loop.extent) for a, b in zip(first, nest)
        )
        if not same:
            extents = [[str(s.loop.extent) for s in n] for n in (first, nest)]
            raise ScheduleError(
                f"loops to merge must have the same extents, not {extents[0]} and {extents[1]}",
                nest[-1],
                code="merge.different_extents",
            )


def _check_dependences(state: ScheduleState, nests: Sequence[Sequence[StmtSRef]], scope: StmtSRef) -> None:
    """A later nest may read what an earlier one writes, not write what it reads or writes."""
    place = {block: i for i, nest in enumerate(nests) for block in state.child_blocks(nest[0])}
    for block, i in place.items():
        for dep in state.get_block_scope(scope).get_deps_by_src(block):
            if place.get(dep.dst, i) > i and dep.kind is not DepKind.RAW:
                raise ScheduleError(
                    f"{dep.dst.label} writes a buffer that {block.label} uses, so their loops cannot be merged",
                    dep.dst,
                    code="merge.dependent_loops",
                )


@primitive("Merge")
def merge(state: ScheduleState, *loops: Loops) -> Loop:
    """Join loops that are beside each other into one, with their bodies one after the other.

    Loops above the given ones, up to where all meet, are joined too.

    Requires: two loops or more that stand side by side, in nests of the same depth and extents; each is all
    of the loop above it, starts at 0 and has neither annotations nor a thread binding; what a later
    body reads at an iteration was written by then.

    Example
    -------
    `merged = sch.merge(i, j)` makes of

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + 1.0
        for j in range(16):
            with T.block("C"):
                v = T.axis.spatial(16, j)
                C[v] = A[v] * 2.0

    this:

        for i_m in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i_m)
                B[v] = A[v] + T.float32(1.0)
            with T.block("C"):
                v = T.axis.spatial(16, i_m)
                C[v] = A[v] * T.float32(2.0)
    """
    chosen: list[StmtSRef] = list(loops)  # type: ignore[arg-type]
    if len(chosen) < 2 or len(set(chosen)) != len(chosen):
        raise ScheduleError("merge takes two different loops or more", code="merge.too_few_loops")
    top = _lowest_common(chosen)
    if any(loop in other.ancestors() for loop in chosen for other in chosen):
        raise ScheduleError("a loop cannot be merged with one that holds it", *chosen, code="merge.nested_loops")
    nests = sorted([_nest_above(loop, top) for loop in chosen], key=lambda nest: nest[0].seq_index)
    _check_mergeable(nests)
    assert top.stmt is not None
    body = top.stmt.body
    first = nests[0][0].seq_index
    side_by_side = [nest[0].seq_index for nest in nests] == list(range(first, first + len(nests)))
    if not isinstance(body, ir.SeqStmt) or first < 0 or not side_by_side:
        raise ScheduleError(
            "the loops to merge must be directly one after the other", *chosen, code="merge.not_adjacent"
        )
    scope = top if top.is_block else state.scope_of(top)
    _check_dependences(state, nests, scope)
    guard = DependenceGuard(state, scope)
    merged_vars = [s.loop.loop_var.copy_with_suffix("_m") for s in nests[0]]
    bodies: list[ir.Stmt] = []
    for nest in nests:
        values: dict[ir.Var, ir.PrimExpr] = {s.loop.loop_var: v for s, v in zip(nest, merged_vars)}
        bodies.append(ir.substitute(nest[-1].loop.body, values))
    merged: Any = ir.SeqStmt.flatten(*bodies)
    innermost: ir.For | None = None
    for var, sref in zip(reversed(merged_vars), reversed(nests[0])):
        merged = ir.For(var, 0, sref.loop.extent, ir.ForKind.SERIAL, merged, span=sref.loop.span)
        innermost = innermost or merged
    parts = (*body.seq[:first], merged, *body.seq[first + len(nests) :])
    new = top.stmt.replace(body=ir.SeqStmt.flatten(*parts))
    state.replace(top, new, {top.block: new} if isinstance(new, ir.Block) else None)
    guard.check()
    assert innermost is not None
    return state.sref_of(innermost)
