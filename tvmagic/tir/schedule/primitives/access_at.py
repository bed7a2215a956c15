"""Primitives that copy the part of a buffer that one iteration of a loop touches: read_at, write_at."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set import IntSet, union
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.ir.ops import all as all_of
from tvmagic.ir.query import is_one
from tvmagic.tir.blocks.domains import iter_domains, loop_domains
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.regions import effective_regions
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.buffers import BufferReplacer, check_storage_scope, copy_in, prepare_index
from tvmagic.tir.schedule.instruction import BlockRef, Loop, primitive
from tvmagic.tir.schedule.limits import check_writes_all
from tvmagic.tir.schedule.relax import relax_region
from tvmagic.tir.schedule.requirements import check_affine, check_not_in_place, region_at, scope_root
from tvmagic.tir.schedule.rewrite import BlockReuse
from tvmagic.tir.schedule.state import ScheduleState


def _check_below(state: ScheduleState, loop: StmtSRef, block: StmtSRef) -> None:
    if loop not in state.loops_of(block):
        raise ScheduleError(
            f"{loop.label} is not a loop round {block.label} in its scope",
            loop,
            block,
            code="read_at.loop_not_around_block",
        )


def _touching(state: ScheduleState, loop: StmtSRef, buffer: ir.Buffer, side: int) -> list[StmtSRef]:
    """The blocks below a loop that read (side 0) or write (side 1) a buffer, in program order."""
    return [b for b in state.child_blocks(loop) if any(r.buffer is buffer for r in effective_regions(b.block)[side])]


def _touched_box(
    state: ScheduleState, loop: StmtSRef, buffer: ir.Buffer, blocks: list[StmtSRef], side: int
) -> ir.BufferRegion:
    """The box of the buffer that the blocks touch in one iteration of the loop."""
    boxes: list[ir.BufferRegion] = []
    for block in blocks:
        regions = [r for r in effective_regions(block.block)[side] if r.buffer is buffer]
        boxes += [relax_region(state, r, block, block.parent, loop) for r in regions]
    if len(boxes) == 1:
        return boxes[0]
    sides: list[ir.Range] = []
    for axis, size in enumerate(buffer.shape):
        box = union([IntSet.from_range(b.region[axis]) for b in boxes])
        sides.append(box.cover_range(ir.Range.from_min_extent(ir.IntImm(size.dtype, 0), size)))
    return ir.BufferRegion(buffer, sides)


def _within(region: ir.BufferRegion, indices: list[ir.PrimExpr], analyzer: Analyzer) -> ir.PrimExpr | None:
    """The condition that the indices are inside the buffer, if that is not known anyway."""
    conditions: list[ir.PrimExpr] = []
    for side, size, index in zip(region.region, region.buffer.shape, indices):
        if not analyzer.can_prove(side.min >= 0):
            conditions.append(index >= 0)
        if not analyzer.can_prove(side.min + side.extent <= size):
            conditions.append(index < size)
    return all_of(*conditions) if conditions else None


def _copy_block(
    region: ir.BufferRegion, source: ir.Buffer, target: ir.Buffer, name: str, loops: list[StmtSRef]
) -> tuple[ir.Block, ir.BlockRealize]:
    """The block that copies a region; its variables are bound to the loops that the region depends on."""
    analyzer = Analyzer(loop_domains(loops))
    region = region.replace(
        region=tuple(
            [ir.Range.from_min_extent(analyzer.simplify(r.min), analyzer.simplify(r.extent)) for r in region.region]
        )
    )
    by_var = {s.loop.loop_var: s.loop for s in loops}
    used: dict[ir.Var, None] = {}
    for r in region.region:
        for part in (r.min, r.extent):
            ir.post_order_visit(part, lambda n: used.setdefault(n) if isinstance(n, ir.Var) and n in by_var else None)
    iters: list[ir.IterVar] = []
    for i, var in enumerate(used):
        domain = ir.Range.from_min_extent(by_var[var].min, by_var[var].extent)
        iters.append(ir.IterVar(domain, ir.Var(f"v{i}", var.dtype), ir.IterVar.DataPar))
    inside = ir.substitute(region, dict(zip(used, [v.var for v in iters])))
    axes = [ir.Var(f"ax{i}", r.extent.dtype) for i, r in enumerate(inside.region)]
    indices = [r.min + axis for r, axis in zip(inside.region, axes)]
    known = Analyzer(iter_domains(iters))
    body: ir.Stmt = ir.BufferStore(target, ir.BufferLoad(source, indices), indices)
    guard = _within(inside, indices, known)
    if guard is not None:
        body = ir.IfThenElse(guard, body)
    body = ir.loop_nest(axes, [r.extent for r in inside.region], body)
    block = ir.Block(
        iters,
        [inside.replace(buffer=source)],
        [inside.replace(buffer=target)],
        name,
        body,
        annotations={"auto_copy": True},
    )
    return block, ir.BlockRealize(list(used), ir.IntImm("bool", 1), block)


def _statements_with_blocks(
    state: ScheduleState, loop: StmtSRef, blocks: list[StmtSRef]
) -> tuple[list[ir.Stmt], list[int]]:
    """The statements of the loop's body, and the numbers of those that hold the blocks."""
    body = loop.loop.body
    parts = list(body.seq) if isinstance(body, ir.SeqStmt) else [body]
    held: list[int] = []
    for block in blocks:
        sref = block
        while sref.parent is not loop:
            assert sref.parent is not None
            sref = sref.parent
        held.append(max(sref.seq_index, 0))
    return parts, held


def _put(
    state: ScheduleState, loop: StmtSRef, parts: list[ir.Stmt], copy: ir.Buffer, block: ir.Block, reuse: BlockReuse
) -> StmtSRef:
    """Put the new body of the loop in, and the allocation into its scope."""
    scope = state.scope_of(loop)
    state.replace(loop, loop.loop.replace(body=ir.SeqStmt.flatten(*parts)), reuse)
    stmt = scope.block
    root = stmt.replace(alloc_buffers=(*stmt.alloc_buffers, copy))
    state.replace(scope, root, {stmt: root})
    return state.sref_of(block)


@primitive("ReadAt", prepare=prepare_index("read_buffer_index", "read"))
def read_at(state: ScheduleState, loop: Loop, block: BlockRef, read_buffer_index: Any, storage_scope: str) -> BlockRef:
    """Copy, in each iteration of `loop`, the part of a buffer that is read there into `storage_scope`.

    All blocks below the loop then read the copy. The result is the block that copies; it is marked with
    `auto_copy`.

    Requires: the loop is around the block, in its scope, which is a stage pipeline; nothing below the loop
    writes the buffer.

    Example
    -------
    `copy = sch.read_at(i, "B", 0, "shared")` makes of

        for i, j in T.grid(4, 4):
            with T.block("B"):
                v = T.axis.spatial(16, i * 4 + j)
                B[v] = A[v] + 1.0

    this:

        A_shared = T.alloc_buffer((16,), scope="shared")
        for i in range(4):
            with T.block("A_shared"):
                v0 = T.axis.spatial(4, i)
                T.block_attr({"auto_copy": T.bool(True)})
                for ax0 in range(4):
                    A_shared[v0 * 4 + ax0] = A[v0 * 4 + ax0]
            for j in range(4):
                with T.block("B"):
                    v = T.axis.spatial(16, i * 4 + j)
                    B[v] = A_shared[v] + T.float32(1.0)
    """
    check_storage_scope(storage_scope)
    scope_root(state, block, stage_pipeline=True)
    _check_below(state, loop, block)
    buffer = region_at(block, read_buffer_index, "reads").buffer
    writers = _touching(state, loop, buffer, 1)
    if writers:
        raise ScheduleError(
            f"{writers[0].label} writes buffer `{buffer.name}` below {loop.label}, so a copy would be out of date",
            writers[0],
            loop,
            code="read_at.buffer_written_below",
        )
    readers = _touching(state, loop, buffer, 0)
    region = _touched_box(state, loop, buffer, readers, 0)
    copy = copy_in(buffer, storage_scope)
    new, realize = _copy_block(region, buffer, copy, copy.name, [*state.loops_of(loop), loop])
    parts, held = _statements_with_blocks(state, loop, readers)
    replacer = BufferReplacer({buffer: copy})
    parts = [replacer.visit(part) for part in parts]
    parts.insert(held[0], realize)
    return _put(state, loop, parts, copy, new, replacer.reuse)


def _check_writes_all(state: ScheduleState, block: StmtSRef, loop: StmtSRef, region: ir.BufferRegion) -> None:
    """The block must write each element of the region in one iteration of the loop.

    What is copied back and was not written would overwrite the buffer with nothing.
    """
    realize = state.realize_of(block)
    bound = {v.var: value for v, value in zip(realize.block.iter_vars, realize.iter_values)}
    (written,) = [w for w in block.block.writes if w.buffer is region.buffer]
    loops = state.loops_of(block)
    inner = loops[loops.index(loop) + 1 :]
    values = [bound.get(r.min) if isinstance(r.min, ir.Var) and is_one(r.extent) else None for r in written.region]
    exact = is_one(realize.predicate) and all(v is not None for v in values) and len(set(values)) == len(values)
    if exact:
        known = [v for v in values if v is not None]
        count, box = ir.IntImm("int64", 1), ir.IntImm("int64", 1)
        for sref in inner:
            if any(uses_var(v, {sref.loop.loop_var}) for v in known):
                count = count * sref.loop.extent.astype("int64")
        for r in region.region:
            box = box * r.extent.astype("int64")
        exact = Analyzer().can_prove_equal(count, box)
    if not exact:
        raise ScheduleError(
            f"it is not known that {block.label} writes all of the region of buffer `{region.buffer.name}` that would be "
            f"copied back in each iteration of {loop.label}",
            block,
            loop,
            hint="take another loop, or split without a predicate",
            code="write_at.region_not_fully_written",
        )


@primitive("WriteAt", prepare=prepare_index("write_buffer_index", "write"))
def write_at(
    state: ScheduleState, loop: Loop, block: BlockRef, write_buffer_index: Any, storage_scope: str
) -> BlockRef:
    """Let a block write a buffer in `storage_scope`, and copy back what each iteration of `loop` wrote.

    The result is the block that copies; it is marked with `auto_copy`.

    Requires: the loop is around the block, in its scope, which is a stage pipeline; the block alone writes the
    buffer below the loop, all of the region that is copied, in an affine way and not in place; no other block
    beside it reads the buffer before the copy.

    Example
    -------
    `copy = sch.write_at(i, "B", 0, "shared")` makes of

        for i, j in T.grid(4, 4):
            with T.block("B"):
                v = T.axis.spatial(16, i * 4 + j)
                B[v] = A[v] + 1.0

    this:

        B_shared = T.alloc_buffer((16,), scope="shared")
        for i in range(4):
            for j in range(4):
                with T.block("B"):
                    v = T.axis.spatial(16, i * 4 + j)
                    B_shared[v] = A[v] + T.float32(1.0)
            with T.block("B_shared"):
                v0 = T.axis.spatial(4, i)
                T.block_attr({"auto_copy": T.bool(True)})
                for ax0 in range(4):
                    B[v0 * 4 + ax0] = B_shared[v0 * 4 + ax0]
    """
    check_storage_scope(storage_scope)
    scope_root(state, block, stage_pipeline=True)
    _check_below(state, loop, block)
    buffer = region_at(block, write_buffer_index, "writes").buffer
    check_not_in_place(state, block, buffer, "use cache_inplace")
    check_affine(state, block)
    writers = _touching(state, loop, buffer, 1)
    if len(writers) > 1:
        raise ScheduleError(
            f"{len(writers)} blocks below {loop.label} write buffer `{buffer.name}`",
            loop,
            *writers,
            code="write_at.several_writers",
        )
    parts, (at,) = _statements_with_blocks(state, loop, writers)
    readers = [b for b in _touching(state, loop, buffer, 0) if b is not block]
    _, reading = _statements_with_blocks(state, loop, readers)
    for reader, place in zip(readers, reading):
        if place <= at:
            raise ScheduleError(
                f"{reader.label} reads buffer `{buffer.name}` before it is copied back",
                reader,
                block,
                loop,
                code="write_at.read_before_copy",
            )
    region = _touched_box(state, loop, buffer, writers, 1)
    _check_writes_all(state, block, loop, region)
    check_writes_all(state, block, buffer, state.scope_of(block), loop, region)
    copy = copy_in(buffer, storage_scope)
    new, realize = _copy_block(region, copy, buffer, copy.name, [*state.loops_of(loop), loop])
    replacer = BufferReplacer({buffer: copy})
    parts[at] = replacer.visit(parts[at])
    parts.insert(at + 1, realize)
    return _put(state, loop, parts, copy, new, replacer.reuse)
