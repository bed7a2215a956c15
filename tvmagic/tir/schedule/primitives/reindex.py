"""Primitives that copy a buffer in the order in which a block counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.index_map import IndexMap
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.arith.iter_map import detect_iter_map
from tvmagic.ir.query import variables_in
from tvmagic.tir.blocks.conditions import condition_of_some, runs_everywhere
from tvmagic.tir.blocks.domains import iter_domains, loop_domains
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.regions import effective_regions
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.buffers import buffer_of, check_storage_scope, locate_buffer, new_buffer, prepare_index
from tvmagic.tir.schedule.cache_stage import CacheRewriter, CacheStage, find_place, only_writer, put_stage
from tvmagic.tir.schedule.instruction import BlockRef, Value, primitive
from tvmagic.tir.schedule.limits import check_inside, check_writes_all
from tvmagic.tir.schedule.primitives.layout import prepare_block_map
from tvmagic.tir.schedule.requirements import check_loops_unused, check_not_in_place, region_at, scope_root
from tvmagic.tir.schedule.state import ScheduleState

TRUE = ir.IntImm("bool", 1)


def point(indices: Sequence[ir.PrimExpr]) -> list[ir.Range]:
    """The region of one element."""
    return [ir.Range.from_min_extent(i, ir.IntImm(i.dtype, 1)) for i in indices]


def reordered_buffer(
    buffer: ir.Buffer, suffix: str, shape: Sequence[ir.PrimExpr], scope: str | None = None
) -> ir.Buffer:
    """A new buffer of the elements of `buffer` in another shape, named after it."""
    return new_buffer(buffer, f"{buffer.name}_{suffix}", scope, shape).replace(axis_separators=())


class BlockAccessRewriter(CacheRewriter):
    """Puts the copy in, and lets one block access it at new indices in place of the old buffer."""

    def __init__(
        self,
        scope: StmtSRef,
        block: StmtSRef,
        cache: CacheStage,
        old: ir.Buffer,
        new: ir.Buffer,
        indices: Sequence[ir.PrimExpr],
    ) -> None:
        super().__init__(scope, cache, old, new)
        self.target, self.indices = block.block, tuple(indices)

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Block:
        if node is self.scope.stmt:
            return self.scope_block(node)
        if node is not self.target:
            return node
        self.active = True
        new = self.visit_children(node)
        self.active = False
        region = ir.BufferRegion(self.new, point(self.indices))
        new = new.replace(
            reads=tuple([region if r.buffer is self.old else r for r in new.reads]),
            writes=tuple([region if r.buffer is self.old else r for r in new.writes]),
        )
        self.reuse.note(node, new)
        return new

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        if self.active and node.buffer is self.old:
            return ir.BufferLoad(self.new, self.indices, node.predicate, node.span)
        return self.visit_children(node)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.BufferStore:
        if self.active and node.buffer is self.old:
            return node.replace(buffer=self.new, indices=self.indices, value=self.visit(node.value))
        return self.visit_children(node)


# ---------------------------------------------------------------------------- reindex


class _SingleAccess(ir.Visitor):
    """The indices at which a leaf block accesses a buffer, the same each time."""

    def __init__(self, block: StmtSRef, buffer: ir.Buffer) -> None:
        self.label, self.root, self.buffer = block, block.block, buffer
        self.indices: tuple[ir.PrimExpr, ...] | None = None
        self.inside: set[ir.Var] = set()

    def find(self) -> tuple[ir.PrimExpr, ...]:
        if any(match.source.buffer is self.buffer for match in self.root.match_buffers):
            self.fail("is matched, in part and so under another name,", code="reindex.buffer_matched")
        self.visit(self.root.body)
        if self.root.init is not None:
            self.visit(self.root.init)
        if self.indices is None:
            self.fail("is not accessed by loads and stores", code="reindex.buffer_used_by_pointer")
        assert self.indices is not None
        for index in self.indices:
            if uses_var(index, self.inside):
                self.fail(
                    "is accessed at indices that a loop inside makes, not the block's variables,",
                    code="reindex.index_uses_inner_loop",
                )
        return self.indices

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        self.inside.add(node.loop_var)
        self.visit_children(node)

    def fail(self, why: str, code: str) -> None:
        raise ScheduleError(f"buffer `{self.buffer.name}` {why} in {self.label.label}", self.label, code=code)

    @ir.handles(ir.BlockRealize)
    def inner(self, node: ir.BlockRealize) -> None:
        raise ScheduleError(
            f"{self.label.label} must be a leaf block, it holds block `{node.block.name_hint}`",
            self.label,
            code="reindex.not_a_leaf_block",
        )

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: Any) -> None:
        self.visit_children(node)
        if node.buffer is not self.buffer:
            return
        if self.indices is None:
            self.indices = node.indices
        elif not all(ir.structural_equal(a, b) for a, b in zip(self.indices, node.indices)):
            self.fail("is accessed at different indices", code="reindex.different_indices")

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> None:
        if node is self.buffer.data:
            self.fail("is used by its pointer", code="reindex.buffer_used_by_pointer")


def _check_not_updated(state: ScheduleState, block: StmtSRef, buffer: ir.Buffer, read: bool) -> None:
    """The block must not go on from what is in the buffer; a copy for reading alone would not see its own results."""
    check_not_in_place(state, block, buffer, "use cache_inplace")
    if read and any(w.buffer is buffer for w in block.block.writes):
        raise ScheduleError(
            f"{block.label} writes buffer `{buffer.name}`, too, so a copy that it only reads is not enough",
            block,
            hint="name the buffer as what the block writes",
            code="reindex.buffer_written",
        )


def _check_all_copied_back(state: ScheduleState, block: StmtSRef, buffer: ir.Buffer, scope: StmtSRef) -> None:
    """The block must run for all of its variables' domains, over which the copy back runs."""
    realize = state.realize_of(block)
    if buffer in scope.block.alloc_buffers and state.get_block_scope(scope).buffer_writers.get(buffer) == [block]:
        return  # nobody reads the rest
    if not runs_everywhere(realize, loop_domains(state.loops_of(block)), realize.predicate):
        raise ScheduleError(
            f"it is not known that {block.label} runs for all values of its variables; the copy would overwrite what was "
            f"in buffer `{buffer.name}`",
            block,
            hint="use cache_write",
            code="reindex.block_may_be_skipped",
        )


def _simplified(index: ir.PrimExpr, analyzer: Analyzer) -> ir.PrimExpr:
    """The index simplified, unless it would become a constant."""
    simple = analyzer.simplify(index)
    return index if isinstance(simple, ir.IntImm) else simple


def _reindex_stage(
    block: ir.Block,
    cache: CacheStage,
    used: set[ir.Var],
    indices: Sequence[ir.PrimExpr],
    region: ir.BufferRegion,
    read: bool,
) -> None:
    """The loops that copy between the buffer at its indices and the new one at the block's variables."""
    iters: list[ir.IterVar] = []
    renamed: dict[ir.Var, ir.PrimExpr] = {}
    for var in block.iter_vars:
        if var.var in used:
            fresh = ir.Var(f"v{len(iters)}", var.var.dtype)
            renamed[var.var] = fresh
            iters.append(ir.IterVar(var.dom, fresh, ir.IterVar.DataPar))
    new_indices = [v.var for v in iters]
    old_indices = [ir.substitute(i, renamed) for i in indices]
    old_region = ir.substitute(region, renamed)
    new_region = ir.BufferRegion(cache.target if read else cache.source, point(new_indices))
    reads, writes = (old_region, new_region) if read else (new_region, old_region)
    load_at, store_at = (old_indices, new_indices) if read else (new_indices, old_indices)
    cache.block = ir.Block(
        iters,
        [reads],
        [writes],
        f"{cache.target.name}_reindex",
        ir.BufferStore(cache.target, ir.BufferLoad(cache.source, load_at), store_at),
    )
    loops = [ir.Var(f"ax{i}", v.var.dtype) for i, v in enumerate(iters)]
    nest: ir.Stmt = ir.BlockRealize(loops, TRUE, cache.block)
    for var, it in zip(reversed(loops), reversed(iters)):
        assert it.dom is not None
        nest = ir.For(var, it.dom.min, it.dom.extent, ir.ForKind.SERIAL, nest)
    cache.stage = nest


def _prepare_buffer(state: ScheduleState, values: Mapping[str, Any]) -> dict[str, Any]:
    return {"buffer": locate_buffer(values["block"], values["buffer"])}


@primitive("ReIndex", method="reindex", prepare=_prepare_buffer)
def reindex(state: ScheduleState, block: BlockRef, buffer: Any) -> BlockRef:
    """Copy a buffer into one indexed by the block's variables alone, and let the block access that.

    `buffer` is ("read", 0) or ("write", 0), a name or a buffer; only the variables that its indices use
    become dimensions. The result is the block that copies.

    Requires: the block is a leaf that uses no loop variables but through its bindings and accesses the buffer at one
    place, which is inside it whatever the block's variables are, and not in place; no other block in its loops writes
    the buffer (or, for "write", reads it).

    Example
    -------
    `copy = sch.reindex("B", ("read", 0))` makes of

        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vj, vi] + 1.0

    this:

        A_reindex = T.alloc_buffer((16, 16))
        for ax0, ax1 in T.grid(16, 16):
            with T.block("A_reindex_reindex"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                A_reindex[v0, v1] = A[v1, v0]
        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A_reindex[vi, vj] + T.float32(1.0)
    """
    old = buffer_of(block, buffer)
    read = buffer[0] == "read"
    check_loops_unused(state, block)
    _check_not_updated(state, block, old, read)
    scope = scope_root(state, block, stage_pipeline=True)
    indices = _SingleAccess(block, old).find()
    analyzer = Analyzer(iter_domains(block.block.iter_vars))
    check_inside(block, old, indices)
    if not read:
        check_writes_all(state, block, old, scope)
        _check_all_copied_back(state, block, old, scope)
    indices = [_simplified(i, analyzer) for i in indices]
    used = {var for index in indices for var in variables_in(index)}
    shape = [v.dom.min + v.dom.extent for v in block.block.iter_vars if v.var in used and v.dom is not None]
    new = reordered_buffer(old, "reindex", shape)
    place = _place_beside(state, block, scope, old, read) + (0 if read else 1)
    source, target = (old, new) if read else (new, old)
    cache = CacheStage(source, target, new, scope, place)
    region = ir.BufferRegion(old, point(indices))
    _reindex_stage(block.block, cache, used, indices, region, read)
    accessed = [v.var for v in block.block.iter_vars if v.var in used]
    return put_stage(state, scope, BlockAccessRewriter(scope, block, cache, old, new, accessed))


def _place_beside(state: ScheduleState, block: StmtSRef, scope: StmtSRef, buffer: ir.Buffer, read: bool) -> int:
    """The place in the scope of the nest that holds the block, if a copy made beside it is in time."""
    top = block
    while top.parent is not scope:
        above = top.parent
        assert above is not None
        if top.is_loop and above.loop.body is not top.stmt:
            raise ScheduleError(
                f"{top.label} must be all of {above.label}", top, above, code="reindex.several_statements"
            )
        top = above
    for other in [] if top is block else state.child_blocks(top):
        reads, writes = effective_regions(other.block)
        touched = writes if read else (*reads, *writes)
        if other is not block and any(r.buffer is buffer for r in touched):
            raise ScheduleError(
                f"{other.label} uses buffer `{buffer.name}` in the loops of {block.label}, beside which the copy is made",
                other,
                block,
                hint="use cache_read or cache_write, which copy inside the loops",
                code="reindex.buffer_used_in_loops",
            )
    return max(top.seq_index, 0)


# ---------------------------------------------------------------------------- reindex_cache_read and _write


def _prepare_map(argument: str, side: str) -> Callable[..., dict[str, Any]]:
    number = prepare_index(argument, side)

    def prepare(state: ScheduleState, values: Mapping[str, Any]) -> dict[str, Any]:
        return {**prepare_block_map(state, values), **number(state, values)}

    return prepare


def _mapped_buffer(
    block: StmtSRef, region: ir.BufferRegion, storage_scope: str, index_map: IndexMap, what: str
) -> tuple[ir.Buffer, list[ir.PrimExpr]]:
    """The new buffer, and the indices in it of the element that the block accesses."""
    analyzer = Analyzer()
    if not all(analyzer.can_prove_equal(r.extent, 1) for r in region.region):
        raise ScheduleError(
            f"the region of buffer `{region.buffer.name}` that {block.label} accesses is not a single element",
            block,
            code="reindex_cache.region_not_an_element",
        )
    _SingleAccess(block, region.buffer).find()
    check_inside(block, region.buffer, [r.min for r in region.region])
    iter_vars = block.block.iter_vars
    variables = [v.var for v in iter_vars]
    if len(index_map.initial_indices) != len(variables):
        raise ScheduleError(
            f"`{index_map}` does not take the {len(variables)} variables of {block.label}",
            block,
            code="reindex_cache.wrong_variable_count",
        )
    indices = index_map.map_indices(variables, analyzer)
    ranges = index_map.map_ranges([v.dom for v in iter_vars if v.dom is not None], analyzer)
    if not all(analyzer.can_prove(r.min >= 0) for r in ranges):
        raise ScheduleError(
            f"`{index_map}` leads to indices that may be negative", block, code="reindex_cache.negative_index"
        )
    shape = [analyzer.simplify(r.min + r.extent) for r in ranges]
    for var in variables:
        in_new = any(uses_var(i, {var}) for i in indices)
        in_old = any(uses_var(r.min, {var}) for r in region.region)
        if in_new != in_old:
            where, other = ("the new indices", "the old") if in_new else ("the old indices", "the new")
            raise ScheduleError(
                f"{what}: the variable `{var.name}` of {block.label} is in {where}, but not in {other} ones",
                block,
                code="reindex_cache.variable_left_over",
            )
    _check_one_to_one(block, region, indices)
    return reordered_buffer(region.buffer, storage_scope, shape, storage_scope), indices


def _check_one_to_one(block: StmtSRef, region: ir.BufferRegion, indices: Sequence[ir.PrimExpr]) -> None:
    """No two elements of the old buffer may meet at one place of the new one.

    An old index that is a new index too is known from it; the other new indices must tell the variables of the
    other old indices.
    """
    old = [r.min for r in region.region]
    rest = [i for i in old if not any(ir.structural_equal(i, n) for n in indices)]
    domains = {
        v.var: v.dom for v in block.block.iter_vars if v.dom is not None and any(uses_var(i, {v.var}) for i in rest)
    }
    others = {v.var for v in block.block.iter_vars} - set(domains)
    telling = [n for n in indices if uses_var(n, set(domains)) and not uses_var(n, others)]
    if domains and not detect_iter_map(telling, domains, check_level="bijective").indices:
        raise ScheduleError(
            f"the new indices ({', '.join([str(n) for n in indices])}) of buffer `{region.buffer.name}` may be the same for "
            "different elements",
            block,
            hint="give each variable of the old indices an index of its own, or split it into several",
            code="reindex_cache.not_one_to_one",
        )


def _mapped_stage(
    state: ScheduleState,
    block: StmtSRef,
    cache: CacheStage,
    region: ir.BufferRegion,
    indices: Sequence[ir.PrimExpr],
    read: bool,
) -> None:
    """The loops that copy, over the loops of the block that its element depends on; those around the copy are shared."""
    realize = state.realize_of(block)
    around = {cache.place, *cache.place.ancestors()}
    own = [sref for sref in state.loops_of(block) if sref not in around]
    loops = [sref.loop for sref in own]
    loop_names: dict[ir.Var, ir.PrimExpr] = {s.loop_var: s.loop_var.copy_with_suffix("") for s in loops}
    renamed: dict[ir.Var, ir.PrimExpr] = {}
    iters: list[ir.IterVar] = []
    values: list[ir.PrimExpr] = []
    for var, value in zip(realize.block.iter_vars, realize.iter_values):
        if any(uses_var(i, {var.var}) for i in indices):
            fresh = var.var.copy_with_suffix("")
            renamed[var.var] = fresh
            iters.append(ir.IterVar(var.dom, fresh, ir.IterVar.DataPar))
            values.append(value)
    kept = [s for s in loops if any(uses_var(v, {s.loop_var}) for v in values)]
    dropped = loop_domains([s for s in own if s.loop not in kept])
    predicate = condition_of_some(realize.predicate, dropped, block)
    new_indices = [ir.substitute(i, renamed) for i in indices]
    old_region = ir.substitute(region, renamed)
    old_indices = [r.min for r in old_region.region]
    new_region = ir.BufferRegion(cache.buffer, point(new_indices))
    reads, writes = (old_region, new_region) if read else (new_region, old_region)
    load_at, store_at = (old_indices, new_indices) if read else (new_indices, old_indices)
    name = cache.buffer.name
    body = ir.BufferStore(cache.target, ir.BufferLoad(cache.source, load_at), store_at)
    cache.block = ir.Block(iters, [reads], [writes], name, body)
    nest: ir.Stmt = ir.BlockRealize(
        [ir.substitute(v, loop_names) for v in values], ir.substitute(predicate, loop_names), cache.block
    )
    for loop in reversed(kept):
        fresh_var = loop_names[loop.loop_var]
        assert isinstance(fresh_var, ir.Var)
        nest = ir.For(
            fresh_var,
            ir.substitute(loop.min, loop_names),
            ir.substitute(loop.extent, loop_names),
            ir.ForKind.SERIAL,
            nest,
        )
    cache.stage = nest


@primitive("ReindexCacheRead", prepare=_prepare_map("read_buffer_index", "read"))
def reindex_cache_read(
    state: ScheduleState, block: BlockRef, read_buffer_index: Any, storage_scope: str, index_map: Value
) -> BlockRef:
    """Copy what a block reads of a buffer into a new one, ordered by `index_map`, and let it read that.

    `index_map` takes the block's variables to the indices in the new buffer. The result is the block that
    copies.

    Requires: the block is a leaf that reads one element of the buffer an iteration, at one place; the new
    indices use just the variables that the old ones use, and are others for other elements; at most one block of
    the scope writes the buffer.

    Example
    -------
    `copy = sch.reindex_cache_read("B", 0, "local", lambda i, j: (i, j))` makes of

        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vj, vi] + 1.0

    this:

        A_local = T.alloc_buffer((16, 16), scope="local")
        for i, j in T.grid(16, 16):
            with T.block("A_local"):
                vi, vj = T.axis.remap("SS", [i, j])
                A_local[vi, vj] = A[vj, vi]
        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A_local[vi, vj] + T.float32(1.0)
    """
    check_storage_scope(storage_scope)
    region = region_at(block, read_buffer_index, "reads")
    _check_not_updated(state, block, region.buffer, read=True)
    scope = scope_root(state, block, stage_pipeline=True)
    writer = only_writer(state, scope, region.buffer)
    place, index = (scope, 0) if writer is None else find_place(state, writer, scope, [block])
    new, indices = _mapped_buffer(block, region, storage_scope, index_map, "reindex_cache_read")
    cache = CacheStage(region.buffer, new, new, place, index)
    _mapped_stage(state, block, cache, region, indices, read=True)
    return put_stage(state, scope, BlockAccessRewriter(scope, block, cache, region.buffer, new, indices))


@primitive("ReindexCacheWrite", prepare=_prepare_map("write_buffer_index", "write"))
def reindex_cache_write(
    state: ScheduleState, block: BlockRef, write_buffer_index: Any, storage_scope: str, index_map: Value
) -> BlockRef:
    """Let a block write a new buffer, ordered by `index_map`, which another block copies to the old one.

    `index_map` takes the block's variables to the indices in the new buffer. The result is the block that
    copies.

    Requires: the block is a leaf that writes one element of the buffer an iteration, as its only writer; the new
    indices use just the variables that the old ones use, and are others for other elements.

    Example
    -------
    `copy = sch.reindex_cache_write("B", 0, "local", lambda i, j: (j, i))` makes of

        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vj, vi] + 1.0

    this:

        B_local = T.alloc_buffer((16, 16), scope="local")
        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B_local[vj, vi] = A[vj, vi] + T.float32(1.0)
        for i, j in T.grid(16, 16):
            with T.block("B_local"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = B_local[vj, vi]
    """
    check_storage_scope(storage_scope)
    region = region_at(block, write_buffer_index, "writes")
    check_not_in_place(state, block, region.buffer, "use cache_inplace")
    scope = scope_root(state, block, stage_pipeline=True)
    only_writer(state, scope, region.buffer)
    place, index = find_place(state, block, scope, ())
    check_writes_all(state, block, region.buffer, scope, place)
    new, indices = _mapped_buffer(block, region, storage_scope, index_map, "reindex_cache_write")
    cache = CacheStage(new, region.buffer, new, place, index)
    _mapped_stage(state, block, cache, region, indices, read=False)
    return put_stage(state, scope, BlockAccessRewriter(scope, block, cache, region.buffer, new, indices))
