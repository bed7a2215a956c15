"""Conditions that many primitives share, each with the error that names it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.ir.query import is_one, is_zero, variables_in
from tvmagic.tir.blocks.conditions import runs_everywhere
from tvmagic.tir.blocks.domains import iter_domains, loop_domains
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.reduction import reduction_vars_stay_inside
from tvmagic.tir.blocks.regions import effective_regions, used_by_pointer
from tvmagic.tir.blocks.scope import BlockScope, DepKind
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.state import ScheduleState


def scope_root(state: ScheduleState, sref: StmtSRef, *, stage_pipeline: bool = False) -> StmtSRef:
    """The scope that holds `sref`; if asked for, it must be a stage pipeline."""
    if sref.parent is None:
        raise ScheduleError("the root block cannot be scheduled: no scope holds it", sref, code="schedule.root_block")
    root = state.scope_of(sref)
    if stage_pipeline and not state.flags.stage_pipeline(state, root):
        raise ScheduleError(
            f"{root.label} is not a stage pipeline: some block in it reads what was not written before",
            root,
            hint="reorder or inline the producers so that each covers what its consumers read",
            code="schedule.not_stage_pipeline",
        )
    return root


def _dominant_failure(scope: BlockScope, block: StmtSRef) -> str | None:
    for region in block.block.writes:
        if len(scope.buffer_writers.get(region.buffer, ())) > 1:
            return f"{block.label} is not the only writer of buffer `{region.buffer.name}`"
    return None


def complete_failure(
    state: ScheduleState, block: StmtSRef, root: StmtSRef, scope: BlockScope | None = None
) -> str | None:
    """Why a block is not complete, or None if it is.

    A complete block computes each element of its outputs once, from other buffers: its variables
    are data parallel, it is the only writer, and it does not read what it writes. The only writer in `scope`: some of
    the blocks of `root`, by default all.
    """
    for var in block.block.iter_vars:
        if var.iter_type != ir.IterVar.DataPar:
            return f"its variable `{var.var.name}` is not data parallel"
    failure = _dominant_failure(scope or state.get_block_scope(root), block)
    if failure:
        return failure
    written = {region.buffer for region in block.block.writes}
    for region in block.block.reads:
        if region.buffer in written:
            return f"it reads and writes buffer `{region.buffer.name}`"
    return None


def reduction_failure(
    state: ScheduleState, block: StmtSRef, root: StmtSRef, scope: BlockScope | None = None, stays: bool = False
) -> str | None:
    """Why a block is not a reduction block, or None if it is.

    A reduction block has an init, affine bindings, variables that are data parallel or reduced, is
    the only writer of its outputs and does not index them by a reduced variable. A block that `stays` in its
    loops may have a condition that leaves out some of their iterations.
    """
    if block.block.init is None:
        return "it has no init"
    affine = state.flags.distinct_binding if stays else state.flags.affine_binding
    if not affine(state, block):
        return "its bindings are not affine"
    for var in block.block.iter_vars:
        if var.iter_type not in (ir.IterVar.DataPar, ir.IterVar.CommReduce):
            return f"its variable `{var.var.name}` is neither data parallel nor reduced"
    failure = _dominant_failure(scope or state.get_block_scope(root), block)
    if failure:
        return failure
    return None if reduction_vars_stay_inside(block.block) else "a reduced variable indexes its output"


def is_complete(state: ScheduleState, block: StmtSRef, root: StmtSRef) -> bool:
    return complete_failure(state, block, root) is None


def check_complete(state: ScheduleState, block: StmtSRef, root: StmtSRef) -> None:
    """The block must be complete."""
    failure = complete_failure(state, block, root)
    if failure:
        raise ScheduleError(
            f"{block.label} must be a complete block, but {failure}", block, code="schedule.not_complete_block"
        )


def check_reduction(state: ScheduleState, block: StmtSRef, root: StmtSRef, stays: bool = False) -> None:
    """The block must be a reduction block."""
    failure = reduction_failure(state, block, root, stays=stays)
    if failure:
        raise ScheduleError(
            f"{block.label} must be a reduction block, but {failure}", block, code="schedule.not_reduction_block"
        )


def check_complete_or_reduction(
    state: ScheduleState, block: StmtSRef, root: StmtSRef, scope: BlockScope | None = None, stays: bool = False
) -> None:
    """The block must be complete, or a reduction block."""
    first = complete_failure(state, block, root, scope)
    second = reduction_failure(state, block, root, scope, stays) if first else None
    if first and second:
        parts = block.block.name_hint.endswith(("_init", "_update"))
        hint = "call it before `decompose_reduction`, of whose two blocks neither is one" if parts else None
        raise ScheduleError(
            f"{block.label} is neither a complete block ({first}) nor a reduction block ({second})",
            block,
            hint=hint,
            code="schedule.not_complete_or_reduction",
        )


def check_subtree_compact_dataflow(state: ScheduleState, root: StmtSRef) -> None:
    """Every block below the loop or block `root` must be complete or a reduction, among the blocks below it."""
    above = state.scope_of(root) if not root.is_block else root
    blocks = state.child_blocks(root)
    scope = BlockScope(blocks)
    for child in blocks:
        check_complete_or_reduction(state, child, above, scope, stays=True)


def is_output(state: ScheduleState, block: StmtSRef, root: StmtSRef) -> bool:
    """Whether a block writes what its scope does not allocate: somebody outside sees it."""
    allocated = set(root.block.alloc_buffers)
    return any(region.buffer not in allocated for region in block.block.writes)


def check_not_output(state: ScheduleState, block: StmtSRef, root: StmtSRef) -> None:
    """The block must not write what is seen outside its scope."""
    if is_output(state, block, root):
        raise ScheduleError(
            f"{block.label} is an output block: what it writes is seen outside its scope",
            block,
            code="schedule.output_block",
        )


def check_loops_unused(state: ScheduleState, block: StmtSRef) -> None:
    """What is in the block must know its loops through its variables only, or it could not leave them."""
    loop_vars = {s.loop.loop_var for s in state.loops_of(block)}
    found = [var for var in variables_in(block.block) if var in loop_vars] if loop_vars else []
    if found:
        raise ScheduleError(
            f"{block.label} uses the loop variable `{found[0].name}` inside, not through a binding",
            block,
            code="schedule.loop_variable_used_inside",
        )


def check_runs_everywhere(state: ScheduleState, block: StmtSRef) -> None:
    """Check that the loops of a block without a predicate reach every value of its variables.

    Other loops may reach more values: the block would then write elements that it does not write now.
    """
    realize, loops = state.realize_of(block), loop_domains(state.loops_of(block))
    if is_one(realize.predicate) and not runs_everywhere(realize, loops, realize.predicate):
        raise ScheduleError(
            f"cannot prove that {block.label} runs for every value of its variables; in other loops it would write more "
            "than before",
            block,
            code="block.may_be_skipped",
        )


class _LoadedOutside(ir.Visitor):
    """The memory that is loaded outside blocks: by bindings and conditions of blocks, and by bounds of loops."""

    def __init__(self) -> None:
        self.found: set[ir.Var] = set()

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        self.found.add(node.buffer.data)
        self.visit_children(node)

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> None:
        return None


def check_bounds_nothing(block: StmtSRef, root: StmtSRef) -> None:
    """No binding, condition or loop beside the block may load what it writes: it would have to stay in front of these."""
    loaded = _LoadedOutside()
    loaded.visit(root.block.body)
    for region in block.block.writes:
        if region.buffer.data in loaded.found:
            raise ScheduleError(
                f"a binding, a condition or a loop loads buffer `{region.buffer.name}`, so that {block.label} cannot be moved",
                block,
                hint="move it before the blocks whose places depend on what it writes",
                code="schedule.binding_loads_buffer",
            )


def check_affine(state: ScheduleState, block: StmtSRef, stays: bool = False) -> None:
    """The bindings of the block must be affine; if it `stays` in its loops, apart from its condition."""
    affine = state.flags.distinct_binding if stays else state.flags.affine_binding
    if not affine(state, block):
        raise ScheduleError(
            f"the bindings of {block.label} are not affine in its loops", block, code="schedule.bindings_not_affine"
        )


def buffer_at(block: StmtSRef, index: int, side: str) -> ir.Buffer:
    """The buffer of the block's region number `index` on the side `reads` or `writes`."""
    return region_at(block, index, side).buffer


def region_at(block: StmtSRef, index: int, side: str) -> ir.BufferRegion:
    """The block's region number `index` on the side `reads` or `writes`."""
    regions = getattr(block.block, side)
    if not 0 <= index < len(regions):
        raise ScheduleError(
            f"{block.label} has {len(regions)} {side}, so the buffer index lies in [0, {len(regions)}), not {index}",
            block,
            code="schedule.buffer_index_out_of_range",
        )
    return regions[index]


def check_plain_loop(loop: StmtSRef) -> None:
    """The loop must start at 0 and carry neither annotations nor a thread binding."""
    stmt = loop.loop
    if stmt.annotations or stmt.thread_binding is not None:
        raise ScheduleError(
            f"{loop.label} has annotations or a thread binding", loop, code="schedule.loop_annotated_or_bound"
        )


def check_starts_at_zero(loop: StmtSRef) -> None:
    """The loop must start at 0."""
    if not is_zero(loop.loop.min):
        raise ScheduleError(f"{loop.label} does not start at 0", loop, code="schedule.loop_not_from_zero")


def access_owner(state: ScheduleState, block: StmtSRef, buffer: ir.Buffer) -> StmtSRef | None:
    """The block above (or at) `block` that allocates `buffer`, or None if none does."""
    for sref in [block, *block.ancestors()]:
        if sref.is_block and any(b is buffer for b in sref.block.alloc_buffers):
            return sref
    return None


def runs_over(loop: ir.For, var: ir.IterVar) -> bool:
    """Whether a loop runs over just the domain of a block's variable, which starts at 0."""
    assert var.dom is not None
    same = var.dom.extent is loop.extent or Analyzer().can_prove_equal(var.dom.extent, loop.extent)
    return is_zero(loop.min) and is_zero(var.dom.min) and same


def only_child(loop: ir.For) -> Any:
    """The loop or block that is all of a loop's body, or None."""
    body = loop.body
    if isinstance(body, ir.BlockRealize):
        return body.block
    return body if isinstance(body, ir.For) else None


def check_not_in_place(state: ScheduleState, block: StmtSRef, buffer: ir.Buffer, hint: str) -> None:
    """The block must not go on from what is in a buffer that it writes.

    A copy that is only written back (or only read) would lose what was there.
    """
    stmt = block.block
    if not any(w.buffer is buffer for w in stmt.writes):
        return
    if stmt.init is None:
        if any(r.buffer is buffer for r in stmt.reads):
            raise ScheduleError(
                f"{block.label} updates buffer `{buffer.name}` in place",
                block,
                hint=hint,
                code="schedule.updates_in_place",
            )
        return
    # a copy begins and ends with the scope; the reduction may not go on from one time to the next
    scope = state.scope_of(block)
    around: dict[ir.Var, ir.Range] = {}
    for above in (scope, *scope.ancestors()):
        around |= loop_domains([above]) if above.is_loop else iter_domains(above.block.iter_vars)
    for var, value in zip(stmt.iter_vars, state.realize_of(block).iter_values if around else ()):
        outer = [v for v in variables_in(value) if v in around and not is_one(around[v].extent)]
        if outer and var.iter_type == ir.IterVar.CommReduce:
            raise ScheduleError(
                f"{block.label} reduces over `{outer[0].name}`, which is outside {scope.label}, and so updates "
                f"buffer `{buffer.name}` in place",
                block,
                hint="decompose_reduction first, then use cache_inplace",
                code="schedule.reduces_over_outer_loop",
            )


def check_no_matches(block: StmtSRef) -> None:
    """The block must not match parts of buffers: what is written elsewhere does not know them under these names."""
    if block.block.match_buffers:
        match = block.block.match_buffers[0]
        raise ScheduleError(
            f"{block.label} matches a part of buffer `{match.source.buffer.name}` as `{match.buffer.name}`, which only the "
            "block itself knows",
            block,
            hint="access the buffer directly",
            code="schedule.block_matches_buffer",
        )


def check_no_pointer(scope: ir.Stmt, buffer: ir.Buffer, block: StmtSRef) -> None:
    """Nothing in the scope may reach the buffer by its pointer, since such an access would stay as it is."""
    if used_by_pointer(scope, buffer):
        raise ScheduleError(
            f"buffer `{buffer.name}` is also used by its pointer, which would stay as it is",
            block,
            hint="access it by loads and stores alone",
            code="schedule.buffer_used_by_pointer",
        )


def matched_parts(scope: ir.Stmt, buffer: ir.Buffer) -> list[ir.Buffer]:
    """The names that blocks in the scope have for parts of the buffer, by `match_buffer`, and for parts of those."""
    found = [buffer]

    def look(node: object) -> None:
        if isinstance(node, ir.Block):
            found.extend(match.buffer for match in node.match_buffers if match.source.buffer in found)

    ir.pre_order_visit(scope, look)
    return found[1:]


class DependenceGuard:
    """What depends on what in a scope, to be kept by a primitive that moves blocks."""

    def __init__(self, state: ScheduleState, root: StmtSRef) -> None:
        self.state, self.root = state, root
        scope = state.get_block_scope(root)
        self.pairs = {(d.src, d.dst, d.kind) for deps in scope.src2deps.values() for d in deps}
        self.covered = state.flags.covered(state, root)
        self.partial = set(_reads_of_partial_results(state, scope))
        self.shared = {
            (src, dst): _shared_loops(state, src, dst) for src, dst, kind in self.pairs if kind in _OVERWRITES
        }

    def check(self) -> None:
        """Raise if a block would run before one it depends on, or read what is not (wholly) written yet."""
        scope = self.state.get_block_scope(self.root)
        now = {(d.src, d.dst, d.kind) for deps in scope.src2deps.values() for d in deps}
        for src, dst, _ in self.pairs - now:
            if src.stmt is not None and dst.stmt is not None:
                raise ScheduleError(
                    f"{dst.label} would run before {src.label}, on which it depends",
                    dst,
                    src,
                    code="schedule.runs_before_producer",
                )
        for (src, dst), loops in self.shared.items():
            added = _shared_loops(self.state, src, dst) - loops if src.stmt is not None and dst.stmt is not None else ()
            if added:
                reads, writes = effective_regions(src.block)
                lost = _shared_buffers((*reads, *writes), effective_regions(dst.block)[1])
                raise ScheduleError(
                    f"{dst.label} overwrites {lost}, which {src.label} may still need in other iterations of a loop "
                    "around both",
                    dst,
                    src,
                    hint=f"let {dst.label} write a copy by cache_write first",
                    code="schedule.overwrites_before_reader",
                )
        covered = self.state.flags.covered(self.state, self.root)
        for block in scope.children:
            if block in self.covered and block not in covered:
                raise ScheduleError(
                    f"{block.label} would read what its producers have not written yet",
                    block,
                    code="schedule.reads_before_producer",
                )
        for src, dst in _reads_of_partial_results(self.state, scope):
            if (src, dst) not in self.partial:
                unfinished = _shared_buffers(effective_regions(src.block)[1], effective_regions(dst.block)[0])
                raise ScheduleError(
                    f"{dst.label} would read {unfinished}, which {src.label} has only reduced in part",
                    dst,
                    src,
                    hint=f"share only the loops outside those over which {src.label} is reduced",
                    code="schedule.reads_partial_reduction",
                )


_OVERWRITES = (DepKind.WAR, DepKind.WAW)


def _shared_loops(state: ScheduleState, first: StmtSRef, second: StmtSRef) -> set[StmtSRef]:
    return set(state.loops_of(first)) & set(state.loops_of(second))


def _shared_buffers(first: Sequence[ir.BufferRegion], second: Sequence[ir.BufferRegion]) -> str:
    """The buffers that have a region on both sides, as a message names them."""
    both = {r.buffer for r in first} & {r.buffer for r in second}
    names = [f"`{b.name}`" for b in dict.fromkeys(r.buffer for r in first) if b in both]
    return ("buffer " if len(names) == 1 else "buffers ") + ", ".join(names)


def _reads_of_partial_results(state: ScheduleState, scope: BlockScope) -> list[tuple[StmtSRef, StmtSRef]]:
    """The pairs of a producer and a consumer that reads what is not reduced to the end: a loop around both still reduces.

    A consumer that does the same in each iteration of that loop is not such a pair: the last one makes it right.
    """
    if not any(v.iter_type == ir.IterVar.CommReduce for b in scope.children for v in b.block.iter_vars):
        return []
    found: list[tuple[StmtSRef, StmtSRef]] = []
    reduced: dict[StmtSRef, list[ir.PrimExpr]] = {}
    for block in scope.children:
        realize = state.realize_of(block)
        domains = loop_domains(state.loops_of(block))
        around = set(domains)
        pending = [
            value
            for var, value in zip(block.block.iter_vars, realize.iter_values)
            if var.iter_type == ir.IterVar.CommReduce
        ]
        for producer in scope.producers(block):
            shared = [value for value in reduced[producer] if uses_var(value, around)]
            if shared and not _independent(shared, realize, domains):
                found.append((producer, block))
            pending += shared
        reduced[block] = pending
    return found


def _independent(reduced: list[ir.PrimExpr], realize: ir.BlockRealize, domains: dict[ir.Var, ir.Range]) -> bool:
    """Whether the block's bindings stay as they are while the reduced values change."""
    from tvmagic.arith.iter_map import detect_iter_map

    variables = {v for v in domains if any(uses_var(value, {v}) for value in reduced)}
    values = [value for value in realize.iter_values if uses_var(value, variables)]
    if not values:
        return True
    return bool(detect_iter_map([*reduced, *values], domains).indices)
