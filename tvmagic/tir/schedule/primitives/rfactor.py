"""rfactor: a reduction in two steps, through a buffer of partial results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.ir.query import is_one, variables_in
from tvmagic.tir.blocks.conditions import condition_of_some, conjuncts
from tvmagic.tir.blocks.domains import loop_domains
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.reduction import BlockReduction
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.buffers import new_buffer
from tvmagic.tir.schedule.instruction import BlockRef, Loop, primitive
from tvmagic.tir.schedule.primitives.blockize import single_block_below
from tvmagic.tir.schedule.reducers import combine, match_reduction
from tvmagic.tir.schedule.requirements import (
    check_loops_unused,
    check_no_matches,
    check_reduction,
    check_starts_at_zero,
    scope_root,
)
from tvmagic.tir.schedule.state import ScheduleState, children_of, replace_child


@dataclass
class _Iters:
    """The variables of a new block, what they are bound to, and the old ones in terms of them."""

    iters: list[ir.IterVar] = field(default_factory=list[ir.IterVar])
    values: list[ir.PrimExpr] = field(default_factory=list[ir.PrimExpr])
    old: dict[ir.Var, ir.PrimExpr] = field(default_factory=dict[ir.Var, ir.PrimExpr])
    by_loop: dict[ir.Var, ir.PrimExpr] = field(default_factory=dict[ir.Var, ir.PrimExpr])

    def add_loop(self, loop: ir.For, iter_type: int) -> ir.Var:
        """A variable that runs over a loop."""
        var = ir.Var("v" + loop.loop_var.name, loop.loop_var.dtype)
        self.iters.append(ir.IterVar(ir.Range.from_min_extent(loop.min, loop.extent), var, iter_type))
        self.values.append(loop.loop_var)
        self.by_loop[loop.loop_var] = var
        return var

    def keep(self, axis: ir.IterVar, value: ir.PrimExpr) -> None:
        """A variable of the old block, under its name and bound as it was."""
        fresh = axis.var.copy_with_suffix("")
        self.iters.append(axis.replace(var=fresh))
        self.values.append(value)
        self.old[axis.var] = fresh


def _types_using(realize: ir.BlockRealize, loop_var: ir.Var) -> set[int]:
    """The types of the variables that are bound to a loop."""
    pairs = zip(realize.block.iter_vars, realize.iter_values)
    return {v.iter_type for v, value in pairs if uses_var(value, {loop_var})}


def _check(state: ScheduleState, loop: StmtSRef, block: StmtSRef, factor_axis: int) -> tuple[StmtSRef, list[StmtSRef]]:
    """The scope and the loops of the reduction; raises if rfactor is not legal."""
    root = scope_root(state, block, stage_pipeline=True)
    check_loops_unused(state, block)
    check_reduction(state, block, root)
    check_no_matches(block)
    if loop.loop.kind != ir.ForKind.SERIAL:
        raise ScheduleError(f"{loop.label} must be a serial loop", loop, code="rfactor.loop_not_serial")
    realize = state.realize_of(block)
    unused = is_one(loop.loop.extent) and not _types_using(realize, loop.loop.loop_var)
    if not unused and _types_using(realize, loop.loop.loop_var) != {ir.IterVar.CommReduce}:
        raise ScheduleError(
            f"{loop.label} must be used by reduced variables alone",
            loop,
            hint="choose a loop of the reduction",
            code="rfactor.loop_not_reduced",
        )
    loops = state.loops_of(block)
    for above in loops:
        if len(children_of(above.loop)) != 1:
            _check_first_of_several(state, block, above)
        if len(_types_using(realize, above.loop.loop_var)) > 1:
            raise ScheduleError(
                f"{above.label} is used by a data parallel and by a reduced variable of {block.label}",
                above,
                block,
                hint="use rfactor before the loops are fused, or split the loop so that each part has one use",
                code="rfactor.mixed_loop",
            )
        check_starts_at_zero(above)
    ndim = len(block.block.writes[0].buffer.shape)
    if not -(ndim + 1) <= factor_axis <= ndim:
        raise ScheduleError(
            f"the factor axis lies in [{-(ndim + 1)}, {ndim}], not {factor_axis}",
            loop,
            code="rfactor.axis_out_of_range",
        )
    return root, loops


def _check_first_of_several(state: ScheduleState, block: StmtSRef, loop: StmtSRef) -> None:
    """In a loop with other blocks the reduction comes first, and the loop must be data parallel.

    Its first step runs in front of the whole nest, so that no other block may write what it reads.
    """
    types = _types_using(state.realize_of(block), loop.loop.loop_var)
    loops = state.loops_of(block)
    inner = loops[loops.index(loop) + 1 :]
    first = bool(inner) and children_of(loop.loop)[0][0] is inner[0].stmt
    outer_reduces = any(
        ir.IterVar.CommReduce in _types_using(state.realize_of(block), s.loop.loop_var)
        for s in loops[: loops.index(loop)]
    )
    scope = state.get_block_scope(state.scope_of(block))
    overwritten = [other for other in scope.overwriters(block) if loop in state.loops_of(other)]
    if types != {ir.IterVar.DataPar} or not first or outer_reduces or overwritten:
        raise ScheduleError(
            f"{loop.label} must hold the reduction alone, or be data parallel with the reduction in front of the others, which "
            "may not write what it reads",
            loop,
            *overwritten,
            code="rfactor.not_only_reduction",
        )


def _partial_iters(realize: ir.BlockRealize, loops: list[StmtSRef], loop: ir.For) -> _Iters:
    """The variables of the block of partial results: the factored loop is data parallel there."""
    result = _Iters()
    result.add_loop(loop, ir.IterVar.DataPar)
    by_var = {s.loop.loop_var: s.loop for s in loops}
    for var, value in zip(realize.block.iter_vars, realize.iter_values):
        if var.iter_type == ir.IterVar.DataPar or not uses_var(value, {loop.loop_var}):
            result.keep(var, value)
            continue
        for loop_var in variables_in(value):
            if loop_var in by_var and loop_var not in result.by_loop:
                result.add_loop(by_var[loop_var], ir.IterVar.CommReduce)
        result.old[var.var] = ir.substitute(value, result.by_loop)
    return result


def _final_iters(realize: ir.BlockRealize, loop: ir.For) -> _Iters:
    """The variables of the block that combines the partial results over the factored loop."""
    result = _Iters()
    result.add_loop(loop, ir.IterVar.CommReduce)
    for var, value in zip(realize.block.iter_vars, realize.iter_values):
        if var.iter_type == ir.IterVar.DataPar:
            result.keep(var, value)
    return result


def _partial_buffer(buffer: ir.Buffer, axis: int, extent: ir.PrimExpr) -> ir.Buffer:
    shape = list(buffer.shape)
    shape.insert(axis, extent)
    return new_buffer(buffer, buffer.name + ".rf", shape=shape)


class _IntoPartial(ir.Mutator):
    """The init and update of the reduction, into the buffers of partial results."""

    def __init__(self, buffers: dict[ir.Buffer, ir.Buffer], axis: int, var: ir.Var) -> None:
        self.buffers, self.axis, self.var = buffers, axis, var

    def _at(self, indices: tuple[ir.PrimExpr, ...]) -> tuple[ir.PrimExpr, ...]:
        return (*indices[: self.axis], self.var, *indices[self.axis :])

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        indices = tuple([self.visit(i) for i in node.indices])
        if node.buffer not in self.buffers:
            return node.replace(indices=indices)
        return ir.BufferLoad(self.buffers[node.buffer], self._at(indices), None, node.span)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.BufferStore:
        indices = tuple([self.visit(i) for i in node.indices])
        value = self.visit(node.value)
        if node.buffer not in self.buffers:
            return node.replace(indices=indices, value=value)
        return ir.BufferStore(self.buffers[node.buffer], value, self._at(indices), None, node.span)

    @ir.handles(ir.BufferRegion)
    def region(self, node: ir.BufferRegion) -> ir.BufferRegion:
        if node.buffer not in self.buffers:
            return node
        point = ir.Range.from_min_extent(self.var, ir.IntImm(self.var.dtype, 1))
        return ir.BufferRegion(
            self.buffers[node.buffer], (*node.region[: self.axis], point, *node.region[self.axis :]), node.span
        )


def _partial_block(
    block: ir.Block, pattern: BlockReduction, iters: _Iters, buffers: dict[ir.Buffer, ir.Buffer], axis: int
) -> ir.Block:
    into = _IntoPartial(buffers, axis, iters.iters[0].var)
    renamed = ir.substitute(block.replace(iter_vars=()), iters.old)
    if all(v.iter_type != ir.IterVar.CommReduce for v in iters.iters):
        # nothing is left to reduce: each partial result is one value
        stores = [
            into.visit(ir.substitute(s.replace(value=v), iters.old)) for s, v in zip(pattern.updates, pattern.added)
        ]
        renamed = renamed.replace(init=None, body=ir.SeqStmt.flatten(*stores))
    return renamed.replace(
        iter_vars=tuple(iters.iters),
        reads=tuple([into.visit(r) for r in renamed.reads]),
        writes=tuple([into.visit(w) for w in renamed.writes]),
        name_hint=block.name_hint + "_rf",
        init=None if renamed.init is None else into.visit(renamed.init),
        body=into.visit(renamed.body),
    )


def _final_block(
    block: ir.Block, pattern: BlockReduction, iters: _Iters, buffers: dict[ir.Buffer, ir.Buffer], axis: int
) -> ir.Block:
    """Combines the partial results into the outputs of the reduction."""
    var = iters.iters[0].var
    renamed = ir.substitute(block.replace(iter_vars=()), iters.old)
    into = _IntoPartial(buffers, axis, var)
    reads = tuple([into.visit(w) for w in renamed.writes])
    loads = [
        ir.BufferLoad(buffers[store.buffer], (*indices[:axis], var, *indices[axis:]))
        for store in pattern.updates
        for indices in [tuple([ir.substitute(i, iters.old) for i in store.indices])]
    ]
    body = combine(pattern, loads, iters.old)
    return renamed.replace(iter_vars=tuple(iters.iters), reads=reads, init=renamed.init, body=body)


def _nest(realize: ir.BlockRealize, loops: list[ir.For], fresh: bool) -> ir.Stmt:
    """The realize under the loops; with new variables where asked for."""
    names: dict[ir.Var, ir.PrimExpr] = {}
    body: ir.Stmt = realize
    for loop in reversed(loops):
        var = loop.loop_var.copy_with_suffix("") if fresh else loop.loop_var
        names[loop.loop_var] = var
        body = loop.replace(loop_var=var, body=body)
    return ir.substitute(body, names) if fresh else body


@primitive("RFactor")
def rfactor(state: ScheduleState, loop: Loop, factor_axis: int) -> BlockRef:
    """Reduce in two steps: over all loops but `loop` into a new buffer, then over `loop`.

    The new buffer has `loop` as a dimension at `factor_axis`; the block that fills it, which is the
    result, can run `loop` in parallel or vectorized.

    Requires: the block below is a reduction block whose combination is known (sum, product, min, max, or
    tuples as argmax); its loops start at 0 and are each used by reduced or by data parallel variables alone; it is
    alone in them, or the first block of data parallel loops; `loop` is serial and of the reduction, or of one
    iteration that no variable uses; the scope is a stage pipeline.

    Example
    -------
    `partial = sch.rfactor(k, 0)` makes of

        for i, k in T.grid(16, 16):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = 0.0
                B[vi] = B[vi] + A[vi, vk]

    this:

        B_rf = T.alloc_buffer((16, 16))
        for i, k in T.grid(16, 16):
            with T.block("B_rf"):
                vk, vi = T.axis.remap("SS", [k, i])
                B_rf[vk, vi] = A[vi, vk]
        for i, k in T.grid(16, 16):
            with T.block("B"):
                vk, vi = T.axis.remap("RS", [k, i])
                with T.init():
                    B[vi] = T.float32(0.0)
                B[vi] = B[vi] + B_rf[vk, vi]
    """
    # 1. the reduction below the loop, and how it combines values
    block = single_block_below(state, loop)
    root, loops = _check(state, loop, block, factor_axis)
    stmt = block.block
    pattern = match_reduction(block)
    # 2. buffers for the partial results: a dimension more, over the factored loop
    axis = factor_axis if factor_axis >= 0 else factor_axis + len(stmt.writes[0].buffer.shape) + 1
    buffers = {s.buffer: _partial_buffer(s.buffer, axis, loop.loop.extent) for s in pattern.updates}
    # 3. the block of the partial results, to which the factored loop is data parallel
    realize = state.realize_of(block)
    partial_iters = _partial_iters(realize, loops, loop.loop)
    partial = _partial_block(stmt, pattern, partial_iters, buffers, axis)
    # 4. the block that combines them, which reduces over the factored loop alone
    final_iters = _final_iters(realize, loop.loop)
    final = _final_block(stmt, pattern, final_iters, buffers, axis)
    # 5. loops for both: all for the first, those in its bindings for the second, which runs if some iteration of the
    #    loops that it lacks does
    needed = _final_loops(realize, loops, final_iters.values)
    gone = loop_domains([s for s in loops if all(s.loop is not n for n in needed)])
    _check_each_part_runs(realize.predicate, loops, loop, set(gone))
    predicate = condition_of_some(realize.predicate, gone, block)
    first = _nest(ir.BlockRealize(partial_iters.values, realize.predicate, partial), [s.loop for s in loops], True)
    several = [i for i, s in enumerate(loops) if len(children_of(s.loop)) != 1]
    own = loops[several[-1] + 1 :] if several else loops  # below the loops that hold more
    inside = [s for s in needed if any(s is o.loop for o in own)]
    second = _nest(ir.BlockRealize(final_iters.values, predicate, final), inside, False)
    # 6. the two nests, one behind the other, instead of the old one
    both = ir.SeqStmt([first, _in_place_of(own[0], second, loops[0])])
    _replace_nest(state, root, loops[0], both, buffers.values(), {stmt: final})
    return state.sref_of(partial)


def _replace_nest(
    state: ScheduleState,
    root: StmtSRef,
    top: StmtSRef,
    both: ir.Stmt,
    buffers: Iterable[ir.Buffer],
    reuse: Mapping[ir.Block, ir.Block],
) -> None:
    """Put `both` instead of the nest below `top`, and allocate `buffers` if its parent is the root block."""
    parent = top.parent
    assert parent is not None and parent.stmt is not None
    changed = parent.stmt.replace(body=replace_child(parent.stmt.body, top.loop, both, top.seq_index))
    if isinstance(changed, ir.Block) and parent is root:
        changed = changed.replace(alloc_buffers=(*changed.alloc_buffers, *buffers))
    state.replace(parent, changed, {**reuse, parent.block: changed} if isinstance(changed, ir.Block) else {**reuse})


def _final_loops(realize: ir.BlockRealize, loops: Sequence[StmtSRef], values: Sequence[ir.PrimExpr]) -> list[ir.For]:
    """The loops around the final block: those in its bindings, and those of one iteration that nothing uses."""
    return [
        s.loop
        for s in loops
        if any(uses_var(v, {s.loop.loop_var}) for v in values)
        or (is_one(s.loop.extent) and not _types_using(realize, s.loop.loop_var))
    ]


def _in_place_of(old: StmtSRef, new: ir.Stmt, top: StmtSRef) -> ir.Stmt:
    """The loop `top` with the loop `old`, which is below it or it itself, replaced."""
    while old is not top:
        above = old.parent
        assert above is not None and above.is_loop and old.stmt is not None
        new = above.loop.replace(body=replace_child(above.loop.body, old.stmt, new, old.seq_index))
        old = above
    return new


def _check_each_part_runs(predicate: ir.PrimExpr, loops: list[StmtSRef], loop: StmtSRef, gone: set[ir.Var]) -> None:
    """For each value of `loop` some iteration must pass the predicate: else a part is read that nobody made."""
    first = {s.loop.loop_var: s.loop.min for s in loops if s.loop.loop_var in gone}
    analyzer = Analyzer(loop_domains(loops))
    for condition in conjuncts(predicate):
        if uses_var(condition, {loop.loop.loop_var}) and not analyzer.can_prove(ir.substitute(condition, first)):
            raise ScheduleError(
                f"the condition `{condition}` keeps some values of {loop.label} from running at all, so that their part of "
                "the result would not be there",
                loop,
                hint="take a factor that divides the extent, or one not greater than it",
                code="rfactor.part_may_be_skipped",
            )
