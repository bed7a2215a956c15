"""Primitives that split, fuse, reorder and mark loops."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.ir.constants import largest_integer
from tvmagic.ir.ops import cast, floordiv, floormod, multiply
from tvmagic.ir.prim_expr import number_text
from tvmagic.ir.query import is_one, nodes_of, variables_in
from tvmagic.tir.blocks.domains import loop_domains
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.flags import is_affine_binding
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.instruction import BlockOrLoop, Lengths, Loop, Loops, primitive
from tvmagic.tir.schedule.requirements import (
    check_affine,
    check_plain_loop,
    check_starts_at_zero,
    check_subtree_compact_dataflow,
    only_child,
)
from tvmagic.tir.schedule.rewrite import BlockReuse, append_predicate, simplify_bindings, substitute_loops
from tvmagic.tir.schedule.state import ScheduleState, replace_child

# ---------------------------------------------------------------------------- split and fuse


def infer_factors(loop: StmtSRef, factors: Sequence[int | ir.PrimExpr | None]) -> list[ir.PrimExpr]:
    """The factors, the missing one (None) filled in, of the loop's type: constants, or multiples of `vscale()`."""
    extent = loop.loop.extent
    dtype = loop.loop.loop_var.dtype
    unknown = [i for i, f in enumerate(factors) if f is None]
    if len(unknown) > 1:
        raise ScheduleError("at most one factor may be None", loop, code="split.several_open_factors")
    if not factors:
        raise ScheduleError("a split takes one factor or more", loop, code="split.no_factors")
    product: ir.PrimExpr = ir.IntImm(dtype, 1)
    result: list[ir.PrimExpr] = []
    for factor in factors:
        if isinstance(factor, int) and factor <= 0:
            raise ScheduleError(
                f"the factors of a split are positive, not {factor}", loop, code="split.factor_not_positive"
            )
        result.append(cast(dtype, 1 if factor is None else factor))
        product = product * result[-1]
    _check_iterations(loop, factors)
    analyzer = Analyzer()
    if unknown:
        simplify = analyzer.simplify if isinstance(product, ir.IntImm) else analyzer.canonical_simplify
        if isinstance(extent, ir.IntImm) and isinstance(product, ir.IntImm):  # their sum may not fit the type
            result[unknown[0]] = ir.IntImm(dtype, -(-extent.value // product.value))
        else:
            result[unknown[0]] = simplify(floordiv(extent + (product - 1), product))
    elif not analyzer.can_prove(product >= extent):
        raise ScheduleError(
            f"the factors [{', '.join(map(str, factors))}] make {product} iterations, fewer than the {extent} of {loop.label}: "
            "The product of factors is not larger than or equal to the extent of loop tir.For#0",
            loop,
            hint="leave one factor None, and it is worked out",
            code="split.factors_too_small",
        )
    return result


def _check_iterations(loop: StmtSRef, factors: Sequence[int | ir.PrimExpr | None]) -> None:
    """The number of iterations that the factors make is a value of the loop's type: indices are computed there."""
    extent = loop.loop.extent
    count = math.prod([f for f in factors if isinstance(f, int)])
    if any(f is None for f in factors) and isinstance(extent, ir.IntImm):
        count *= -(-extent.value // count)
    _check_count(loop, count, "the factors of the split", "take smaller factors")


def _check_count(loop: StmtSRef, count: int, what: str, hint: str) -> None:
    dtype = loop.loop.loop_var.dtype
    if count > largest_integer(dtype):
        raise ScheduleError(
            f"{what} make {number_text(count)} iterations, too many for `{dtype}`, the type of {loop.label}",
            loop,
            hint=hint,
            code="schedule.loop_too_long",
        )


@primitive("Split")
def split(
    state: ScheduleState,
    loop: Loop,
    factors: Lengths,
    preserve_unit_iters: bool = True,
    disable_predication: bool = False,
) -> Loops:
    """Split a loop into one for each factor, outermost first.

    At most one factor is None and is worked out from the extent. If the factors do not divide
    the extent, the blocks inside get a predicate, unless `disable_predication`. For a target with scalable
    vectors a factor may be a multiple of `vscale()`: `[T.ceildiv(n, T.vscale() * 4), T.vscale() * 4]`.

    Requires: the loop starts at 0 and has neither annotations nor a thread binding.

    Example
    -------
    `outer, inner = sch.split(i, [None, 4])` makes of

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + 1.0

    this:

        for i_0, i_1 in T.grid(4, 4):
            with T.block("B"):
                v = T.axis.spatial(16, i_0 * 4 + i_1)
                B[v] = A[v] + T.float32(1.0)
    """
    check_plain_loop(loop)
    check_starts_at_zero(loop)
    sizes = infer_factors(loop, factors)
    stmt = loop.loop
    analyzer = Analyzer()
    value: ir.PrimExpr = ir.IntImm(stmt.loop_var.dtype, 0)
    variables: list[ir.Var] = []
    for i, size in enumerate(sizes):
        var = stmt.loop_var.copy_with_suffix(f"_{i}")
        value = value * size + var
        analyzer.bind(var, ir.Range.from_min_extent(ir.IntImm(var.dtype, 0), size))
        variables.append(var)
    reuse = BlockReuse()
    body = substitute_loops(stmt.body, {stmt.loop_var: value}, reuse)
    predicate = value < stmt.extent
    exact = disable_predication or analyzer.can_prove_equal(functools.reduce(multiply, sizes), stmt.extent)
    if not exact and not analyzer.can_prove(predicate):
        body = append_predicate(body, predicate)
    for var, size in reversed(list(zip(variables, sizes))):
        body = ir.For(var, 0, size, ir.ForKind.SERIAL, body, span=ir.Span.made_of(stmt))
    body = simplify_bindings(body, state.loops_of(loop), reuse, preserve_unit_iters)
    state.replace(loop, body, reuse)
    return _chain_below(state, body, len(sizes))


def _chain_below(state: ScheduleState, stmt: ir.Stmt, count: int) -> list[StmtSRef]:
    """The references of `count` loops, each the body of the one before."""
    found: list[StmtSRef] = []
    for _ in range(count):
        assert isinstance(stmt, ir.For)
        found.append(state.sref_of(stmt))
        stmt = stmt.body
    return found


def check_loop_nest(loops: Sequence[StmtSRef], what: str) -> None:
    """Each loop must be all of the body of the one before, and start at 0."""
    for outer, inner in zip(loops, loops[1:]):
        if only_child(outer.loop) is not inner.stmt:
            raise ScheduleError(
                f"the loops cannot be {what}: the only child of {outer.label} is not {inner.label}",
                outer,
                inner,
                code="schedule.loops_not_nested",
            )
    for loop in loops:
        check_starts_at_zero(loop)


def check_independent_bounds(loops: Sequence[StmtSRef], what: str) -> None:
    """No loop's extent may depend on another loop of the list."""
    variables = {loop.loop.loop_var for loop in loops}
    for loop in loops:
        bounds = (loop.loop.min, loop.loop.extent)
        used = [var for part in bounds for var in variables_in(part) if var in variables]
        if used:
            raise ScheduleError(
                f"the loops cannot be {what}: the bounds of {loop.label} depend on `{used[0].name}`",
                loop,
                code="schedule.bounds_depend_on_loop",
            )


@primitive("Fuse")
def fuse(state: ScheduleState, *loops: Loops, preserve_unit_iters: bool = True) -> Loop:
    """Fuse loops, given from the outermost in, into one.

    Requires: each is all of the body of the one before, starts at 0, has neither annotations nor a
    thread binding, and its extent does not depend on the others.

    Example
    -------
    `fused = sch.fuse(i, j)` makes of

        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + 1.0

    this:

        for i_j_fused in range(256):
            with T.block("B"):
                vi = T.axis.spatial(16, i_j_fused // 16)
                vj = T.axis.spatial(16, i_j_fused % 16)
                B[vi, vj] = A[vi, vj] + T.float32(1.0)
    """
    if not loops:
        raise ScheduleError("fuse takes one loop or more", code="fuse.no_loops")
    nest: list[StmtSRef] = list(loops)  # type: ignore[arg-type]
    for loop in nest:
        check_plain_loop(loop)
    check_loop_nest(nest, "fused")
    check_independent_bounds(nest, "fused")
    stmts = [loop.loop for loop in nest]
    count = math.prod([s.extent.value for s in stmts if isinstance(s.extent, ir.IntImm)])
    _check_count(nest[0], count, "the fused loops", "split them by constant factors and fuse the inner ones")
    suffix = "".join(f"_{s.loop_var.name}" for s in stmts[1:]) + "_fused"
    fused = stmts[0].loop_var.copy_with_suffix(suffix)
    values: dict[ir.Var, ir.PrimExpr] = {}
    lower: ir.PrimExpr = ir.IntImm(fused.dtype, 1)
    for stmt in reversed(stmts[1:]):
        inner = floordiv(floormod(fused, lower * stmt.extent), lower)
        values[stmt.loop_var] = ir.IntImm(fused.dtype, 0) if is_one(stmt.extent) else inner
        lower = lower * stmt.extent
    first = stmts[0]
    values[first.loop_var] = ir.IntImm(fused.dtype, 0) if is_one(first.extent) else floordiv(fused, lower)
    extent = Analyzer().simplify(lower * first.extent)
    reuse = BlockReuse()
    body = substitute_loops(stmts[-1].body, values, reuse)
    body = ir.For(fused, 0, extent, ir.ForKind.SERIAL, body, span=ir.Span.joined(*[s.span for s in stmts]))
    body = simplify_bindings(body, state.loops_of(nest[0]), reuse, preserve_unit_iters)
    state.replace(nest[0], body, reuse)
    return state.sref_of(body)  # type: ignore[arg-type]


# ---------------------------------------------------------------------------- reorder


@primitive("Reorder")
def reorder(state: ScheduleState, *ordered_loops: Loops) -> None:
    """Put loops in the given order; the ones between them that are not named stay where they are.

    Requires: the loops are in one chain with nothing else beside it, and the blocks below have affine
    bindings (so that no bound depends on another loop) and variables that are data parallel or reduced; a loop
    that only repeats a reduction stays on its side of the reduced loops.

    Example
    -------
    `sch.reorder(j, i)` makes of

        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + 1.0

    this:

        for j, i in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1.0)
    """
    wanted: list[StmtSRef] = list(ordered_loops)  # type: ignore[arg-type]
    if len(wanted) <= 1:
        return
    if len(set(wanted)) != len(wanted):
        raise ScheduleError("a loop is named twice", *wanted, code="reorder.repeated_loop")
    chain = _loop_chain(wanted)
    _check_single_branch(chain)
    replacements = iter(wanted)
    order = [next(replacements) if loop in set(wanted) else loop for loop in chain]
    for block in state.child_blocks(chain[0]):
        _check_reorderable_block(state, block, chain[0])
        if block.block.init is not None:
            _check_init_stays_first(state, block, chain, order)
    state.replace(chain[0], ir.within_loops([s.loop for s in order], chain[-1].loop.body))


def _loop_chain(loops: Sequence[StmtSRef]) -> list[StmtSRef]:
    """The loops from the outermost to the innermost of `loops`, all that lie between included."""
    wanted = set(loops)
    bottom = max(loops, key=lambda loop: len(loop.ancestors()))
    chain = [bottom]
    missing = wanted - {bottom}
    above = bottom.parent
    while missing:
        if above is None or not above.is_loop:
            raise ScheduleError("the loops are not in one chain of loops", *loops, code="reorder.not_a_chain")
        chain.append(above)
        missing.discard(above)
        above = above.parent
    chain.reverse()
    return chain


def _check_single_branch(chain: Sequence[StmtSRef]) -> None:
    for outer, inner in zip(chain, chain[1:]):
        if outer.loop.body is not inner.stmt:
            raise ScheduleError(
                f"the loops are not a chain: {outer.label} holds more than {inner.label}",
                outer,
                inner,
                code="reorder.not_single_branch",
            )


def _check_reorderable_block(state: ScheduleState, block: StmtSRef, top: StmtSRef) -> None:
    """The bindings must be affine in the loops from `top` inwards; those farther out stay where they are.

    The block stays in its loops, so that a condition may leave out some of its iterations.
    """
    loops = state.loops_of(block)
    domains = loop_domains(loops[loops.index(top) :])
    realize, analyzer = state.realize_of(block), Analyzer(loop_domains(loops))
    bare = realize.replace(predicate=ir.IntImm("bool", 1))
    if not (is_affine_binding(realize, domains, analyzer) or is_affine_binding(bare, domains, analyzer)):
        raise ScheduleError(
            f"the bindings of {block.label} are not affine in its loops from {top.label} inwards",
            block,
            code="reorder.bindings_not_affine",
        )
    for var in block.block.iter_vars:
        if var.iter_type not in (ir.IterVar.DataPar, ir.IterVar.CommReduce):
            raise ScheduleError(
                f"the variable `{var.var.name}` of {block.label} is neither data parallel nor reduced",
                block,
                code="reorder.opaque_variable",
            )


def _check_init_stays_first(
    state: ScheduleState, block: StmtSRef, chain: Sequence[StmtSRef], order: Sequence[StmtSRef]
) -> None:
    """A reduction must still initialize before it adds up, and add up each element once, if `chain` becomes `order`."""
    kinds: dict[ir.Var, set[int]] = {}
    for var, value in zip(block.block.iter_vars, state.realize_of(block).iter_values):
        for loop_var in variables_in(value):
            kinds.setdefault(loop_var, set()).add(var.iter_type)
    # loops that count both kinds of variables keep their order
    mixed = [loop for loop in chain if len(kinds.get(loop.loop.loop_var, ())) > 1]
    if [loop for loop in order if loop in mixed] != mixed:
        raise ScheduleError(
            f"{mixed[0].label} and {mixed[-1].label} each count a data parallel and a reduced variable of {block.label}; "
            "in another order it would add up before it initializes",
            *mixed,
            hint="decompose_reduction first",
            code="reorder.mixed_loops",
        )
    # loops that repeat the block stay outside (or inside) those over which it is reduced
    reduced = {loop for loop in chain if ir.IterVar.CommReduce in kinds.get(loop.loop.loop_var, ())}
    for loop in chain:
        if loop.loop.loop_var not in kinds and not is_one(loop.loop.extent):
            if reduced.intersection(chain[chain.index(loop) :]) != reduced.intersection(order[order.index(loop) :]):
                raise ScheduleError(
                    f"{loop.label} repeats {block.label}; elsewhere among the loops of the reduction it would add up another "
                    "number of times",
                    loop,
                    block,
                    code="reorder.repeating_loop",
                )


@primitive("AddUnitLoop")
def add_unit_loop(state: ScheduleState, block_or_loop: BlockOrLoop) -> Loop:
    """Put a loop of one iteration around a block or loop.

    Example
    -------
    `unit = sch.add_unit_loop("B")` makes of

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + 1.0

    this:

        for i, u in T.grid(16, 1):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + T.float32(1.0)
    """
    if block_or_loop.is_loop:
        unit = ir.For(ir.Var("u"), 0, 1, ir.ForKind.SERIAL, block_or_loop.loop)
        state.replace(block_or_loop, unit)
        return state.sref_of(unit)
    if block_or_loop.parent is None:
        raise ScheduleError("no loop can be put around the root block", block_or_loop, code="add_unit_loop.root_block")
    realize = state.realize_of(block_or_loop)
    unit = ir.For(ir.Var("u"), 0, 1, ir.ForKind.SERIAL, realize)
    parent = block_or_loop.parent
    assert parent.stmt is not None
    new = parent.stmt.replace(body=replace_child(parent.stmt.body, realize.block, unit))
    state.replace(parent, new, {parent.block: new} if isinstance(new, ir.Block) else None)
    return state.sref_of(unit)


# ---------------------------------------------------------------------------- kinds


def _check_parallelizable(state: ScheduleState, loop: StmtSRef, kind: str, thread_tag: str = "") -> None:
    """Each block below must have affine bindings and use the loop only for data parallel variables
    (for reduced ones too where the loop is bound to threads of one block)."""
    if state.enable_check:
        check_subtree_compact_dataflow(state, loop)
    stack = state.child_blocks(loop)
    variable = loop.loop.loop_var
    for block in stack:
        check_affine(state, block, stays=True)
        realize = state.realize_of(block)
        for iter_var, value in zip(block.block.iter_vars, realize.iter_values):
            reduces = iter_var.iter_type == ir.IterVar.CommReduce and thread_tag.startswith("threadIdx")
            if uses_var(value, {variable}) and iter_var.iter_type != ir.IterVar.DataPar and not reduces:
                raise ScheduleError(
                    f"{loop.label} cannot be {kind}: the variable `{iter_var.var.name}` of {block.label} depends on it "
                    "and is not data parallel",
                    loop,
                    block,
                    hint="split off the reduction with rfactor or decompose_reduction",
                    code="schedule.loop_not_parallel",
                )


def _set_kind(state: ScheduleState, loop: StmtSRef, kind: ir.ForKind, binding: ir.IterVar | None = None) -> None:
    state.replace(loop, loop.loop.replace(kind=kind, thread_binding=binding))


@primitive("Parallel")
def parallel(state: ScheduleState, loop: Loop) -> None:
    """Run the iterations of a loop on several threads.

    Requires: the blocks below are complete or reductions, have affine bindings, and use the loop only
    for data parallel variables.

    Example
    -------
    `sch.parallel(i)` makes of

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + 1.0

    this:

        for i in T.parallel(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + T.float32(1.0)
    """
    _check_parallelizable(state, loop, "run in parallel")
    _set_kind(state, loop, ir.ForKind.PARALLEL)


@primitive("Vectorize")
def vectorize(state: ScheduleState, loop: Loop) -> None:
    """Run the iterations of a loop as lanes of vectors.

    Requires: as for `parallel`.

    Example
    -------
    `sch.vectorize(i)` makes of

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + 1.0

    this:

        for i in T.vectorized(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + T.float32(1.0)
    """
    _check_parallelizable(state, loop, "vectorized")
    _set_kind(state, loop, ir.ForKind.VECTORIZED)


def _check_thread_free(state: ScheduleState, loop: StmtSRef, thread_axis: str) -> None:
    """No loop above or below may be bound to the same threads: they cannot count twice.

    Unless the inner loop does the same for each iteration of the outer one, and for all of its threads together: then
    each thread does its part, as when a block's threads load a tile into shared memory.
    """
    inside = nodes_of(loop.loop.body, ir.For)
    above = [s.loop for s in loop.ancestors() if s.is_loop]
    for other in [*above, *inside]:
        if other.thread_binding is None or other.thread_binding.thread_tag != thread_axis:
            continue
        outer, inner = (other, loop) if other in above else (loop.loop, state.sref_of(other))
        if not _is_work_of_all(state, outer, inner, thread_axis):
            raise ScheduleError(
                f"loop `{other.loop_var.name}`, in a nest with {loop.label}, is bound to `{thread_axis}` already",
                loop,
                code="bind.thread_used_twice",
            )


def _is_work_of_all(state: ScheduleState, outer: ir.For, inner: StmtSRef, thread_axis: str) -> bool:
    """Whether the loop `inner` does the same in each iteration of `outer`, in memory that these threads share."""
    between: list[ir.For] = []
    for sref in inner.ancestors():
        if not sref.is_loop:
            return False
        if sref.loop is outer:
            break
        between.append(sref.loop)
    if any(outer.loop_var in variables_in(e) for part in between for e in (part.min, part.extent)):
        return False
    if outer.loop_var in variables_in(inner.loop):
        return False
    scopes = ("global", "shared", "warp") if thread_axis.startswith("threadIdx") else ("global",)
    for block in state.child_blocks(inner):
        stored = {region.buffer for region in block.block.writes}
        loaded = {region.buffer for region in block.block.reads}
        if block.block.init is not None or stored & loaded:
            return False
        if any(buffer.scope().split(".")[0] not in scopes for buffer in stored | loaded):
            return False
    return True


_THREADS = re.compile(r"(blockIdx|threadIdx)\.[xyz]|vthread.*|cthread")


@primitive("Bind")
def bind(state: ScheduleState, loop: Loop, thread_axis: str) -> None:
    """Bind the iterations of a loop to the threads named `thread_axis` (`blockIdx.x`, `threadIdx.y`, ...).

    Requires: as for `parallel`; a reduced variable may use a loop bound to `threadIdx`; no loop above or below
    is bound to the same threads, unless the inner one does the same for each iteration of the outer one in memory that
    these threads share (they load a tile together).

    Example
    -------
    `sch.bind(i, "threadIdx.x")` makes of

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + 1.0

    this:

        for i in T.thread_binding(16, thread="threadIdx.x"):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + T.float32(1.0)
    """
    if not _THREADS.fullmatch(thread_axis):
        raise ScheduleError(
            f"there are no threads `{thread_axis}`",
            loop,
            hint="name blockIdx.x, threadIdx.x (or .y, .z), or vthread",
            code="bind.unknown_thread",
        )
    _check_parallelizable(state, loop, f"bound to `{thread_axis}`", thread_axis)
    _check_thread_free(state, loop, thread_axis)
    dtype = loop.loop.loop_var.dtype
    binding = ir.IterVar(None, ir.Var(thread_axis, dtype), ir.IterVar.ThreadIndex, thread_axis)
    _set_kind(state, loop, ir.ForKind.THREAD_BINDING, binding)


@primitive("Unroll")
def unroll(state: ScheduleState, loop: Loop) -> None:
    """Mark a loop to be unrolled.

    Example
    -------
    `sch.unroll(i)` makes of

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + 1.0

    this:

        for i in T.unroll(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + T.float32(1.0)
    """
    _set_kind(state, loop, ir.ForKind.UNROLLED)
