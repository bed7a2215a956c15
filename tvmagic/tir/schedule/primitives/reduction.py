"""Primitives that take a reduction apart."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.arith.iter_map import detect_iter_map
from tvmagic.ir.query import is_one
from tvmagic.tir.blocks.conditions import all_of, condition_of_some, conjuncts
from tvmagic.tir.blocks.domains import loop_domains
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.instruction import BlockRef, Loop, primitive
from tvmagic.tir.schedule.requirements import check_no_matches, check_reduction, scope_root
from tvmagic.tir.schedule.state import ScheduleState, replace_child

# ---------------------------------------------------------------------------- decompose_reduction


def _loops_from(loops: list[StmtSRef], loop: StmtSRef, block: StmtSRef) -> list[StmtSRef]:
    if loop not in loops:
        raise ScheduleError(
            f"{loop.label} is not a loop of {block.label}",
            loop,
            block,
            code="decompose_reduction.loop_not_around_block",
        )
    return loops[loops.index(loop) :]


def _check_above_reduction(realize: ir.BlockRealize, loops: list[StmtSRef], loop: StmtSRef) -> None:
    above = {sref.loop.loop_var for sref in loops[: loops.index(loop)]}
    for var, value in zip(realize.block.iter_vars, realize.iter_values):
        if var.iter_type == ir.IterVar.CommReduce and uses_var(value, above):
            raise ScheduleError(
                f"{loop.label} must be outside all loops that the reduction uses; `{var.var.name}` uses one above it",
                loop,
                hint="choose a loop further out, or reorder the reduced loops inwards",
                code="decompose_reduction.loop_below_reduction",
            )


def check_not_repeated(block: StmtSRef, realize: ir.BlockRealize, loops: list[StmtSRef], inner: list[StmtSRef]) -> None:
    """The inner loops must run the block once for each of its elements, for the init before them runs once."""
    used = [s for s in loops if any(uses_var(v, {s.loop.loop_var}) for v in realize.iter_values)]
    for sref in inner:
        if sref not in used and not is_one(sref.loop.extent):
            raise ScheduleError(
                f"{sref.label} runs {block.label} again for the same elements, each time from its init",
                sref,
                block,
                hint="choose a loop inside it",
                code="schedule.block_repeated",
            )
    used_inside = [s for s in used if s in inner]
    variables = {s.loop.loop_var for s in used_inside}
    inside = all_of([c for c in conjuncts(realize.predicate) if uses_var(c, variables)])
    always = ir.IntImm("bool", 1)  # if all iterations have values of their own, those that a condition leaves have, too
    once = not used_inside or any(
        detect_iter_map(realize.iter_values, loop_domains(part), condition, "bijective").indices
        for part, condition in ((used_inside, inside), (used, realize.predicate), (used_inside, always))
    )
    if not once:
        raise ScheduleError(
            f"the loops may run {block.label} more than once for the same elements, each time from its init",
            block,
            *used_inside,
            hint="choose a loop further in",
            code="schedule.block_may_repeat",
        )


def _init_block(realize: ir.BlockRealize) -> tuple[ir.Block, list[ir.PrimExpr]]:
    """The block that initializes, with variables of its own, and what they are bound to."""
    block = realize.block
    renamed: dict[ir.Var, ir.PrimExpr] = {}
    iters: list[ir.IterVar] = []
    values: list[ir.PrimExpr] = []
    for var, value in zip(block.iter_vars, realize.iter_values):
        if var.iter_type == ir.IterVar.DataPar:
            fresh = var.var.copy_with_suffix("")
            renamed[var.var] = fresh
            iters.append(var.replace(var=fresh))
            values.append(value)
    assert block.init is not None
    init = ir.Block(
        iters,
        [],
        [ir.substitute(region, renamed) for region in block.writes],
        block.name_hint + "_init",
        ir.substitute(block.init, renamed),
        annotations=block.annotations,
        span=block.span,
    )
    return init, values


def _update_block(block: ir.Block) -> ir.Block:
    """The block without its init, which now reads what it writes."""
    read = {region.buffer for region in block.reads}
    added = [region for region in block.writes if region.buffer not in read]
    return block.replace(name_hint=block.name_hint + "_update", reads=(*added, *block.reads), init=None)


@primitive("DecomposeReduction")
def decompose_reduction(state: ScheduleState, block: BlockRef, loop: Loop) -> BlockRef:
    """Move the init of a reduction into a block of its own, placed just before `loop`.

    The result is the block that initializes; the other one becomes `..._update`.

    Requires: the block is a reduction block; `loop` is one of its loops, outside all that the reduction
    uses; from it inwards the loops run the block once for each of its elements.

    Example
    -------
    `init = sch.decompose_reduction("B", k)` makes of

        for i, k in T.grid(16, 16):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = 0.0
                B[vi] = B[vi] + A[vi, vk]

    this:

        for i in range(16):
            with T.block("B_init"):
                vi = T.axis.spatial(16, i)
                B[vi] = T.float32(0.0)
            for k in range(16):
                with T.block("B_update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    B[vi] = B[vi] + A[vi, vk]
    """
    root = scope_root(state, block)
    loops = state.loops_of(block)
    inner = _loops_from(loops, loop, block)
    check_reduction(state, block, root, stays=True)
    check_no_matches(block)
    realize = state.realize_of(block)
    _check_above_reduction(realize, loops, loop)
    check_not_repeated(block, realize, loops, inner)
    init, values = _init_block(realize)
    dropped = loop_domains([s for s in inner if not any(uses_var(v, {s.loop.loop_var}) for v in values)])
    predicate = condition_of_some(realize.predicate, dropped, block)
    nest: ir.Stmt = ir.BlockRealize(values, predicate, init)
    renamed: dict[ir.Var, ir.PrimExpr] = {}
    for sref in reversed(inner):
        old = sref.loop
        if old.loop_var not in dropped:
            fresh = old.loop_var.copy_with_suffix("_init")
            renamed[old.loop_var] = fresh
            binding = old.thread_binding
            if binding is not None:  # the same threads, under a variable of its own
                binding = binding.replace(var=binding.var.copy_with_suffix(""))
            nest = old.replace(loop_var=fresh, body=nest, thread_binding=binding)
    nest = ir.substitute(nest, renamed)
    update = _update_block(block.block)
    body: ir.Stmt = _with_block(loop, block, update)
    parent = loop.parent
    assert parent is not None and parent.stmt is not None
    both = ir.SeqStmt([nest, body])
    new = parent.stmt.replace(body=replace_child(parent.stmt.body, loop.loop, both, loop.seq_index))
    reuse = {block.block: update}
    if isinstance(new, ir.Block):
        reuse[parent.block] = new
    state.replace(parent, new, reuse)
    return state.sref_of(_find_block(nest))


def _with_block(loop: StmtSRef, block: StmtSRef, new: ir.Block) -> ir.Stmt:
    """The loop's statement with one block below it replaced."""
    old_child: Any = block.block
    replacement: Any = new
    sref = block
    while sref is not loop:
        above = sref.parent
        assert above is not None and above.stmt is not None
        replacement = above.stmt.replace(body=replace_child(above.stmt.body, old_child, replacement, sref.seq_index))
        old_child, sref = above.stmt, above
    return replacement


def _find_block(stmt: ir.Stmt) -> ir.Block:
    while isinstance(stmt, ir.For):
        stmt = stmt.body
    assert isinstance(stmt, ir.BlockRealize)
    return stmt.block
