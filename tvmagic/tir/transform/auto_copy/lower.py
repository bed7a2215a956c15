"""LowerAutoCopy: blocks with the annotation `auto_copy` copy in the way that is best between their memories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.ir.memory_scope import StorageRank as Rank
from tvmagic.passes import note
from tvmagic.tir.schedule.buffers import BufferReplacer
from tvmagic.tir.transform.auto_copy.coalesce import coalesced, in_order_of_target
from tvmagic.tir.transform.auto_copy.copies import Copy
from tvmagic.tir.transform.auto_copy.padding import Padding
from tvmagic.tir.transform.auto_copy.stage import through_registers
from tvmagic.tir.transform.declaration import tir_pass

# What is done with a copy from memory of one rank to memory of another, in this order; a copy between others stays.
_RULES: dict[tuple[Rank, Rank], tuple[Callable[[ir.Stmt, Copy], ir.Stmt], ...]] = {
    (Rank.GLOBAL, Rank.SHARED): (coalesced,),
    (Rank.SHARED, Rank.GLOBAL): (in_order_of_target, coalesced),
}


@tir_pass("tir.LowerAutoCopy")
def LowerAutoCopy(func: ir.PrimFunc) -> ir.PrimFunc:
    """Write copies between memories of a GPU in the way that is fast there.

    They are the blocks with the annotation `auto_copy` (`sch.read_at` and `sch.write_at` make them), each a nest of
    loops around one store. Between global and shared memory, the threads of a block share the elements, vectors of
    `vector_bytes` bytes each; with `local_stage` all loads come before the first store. Shared memory gets longer
    rows if that avoids conflicts between banks. Raises `TVMagicError` for a copy of another form.
    """
    lowering = _Lowering(_thread_counts(func.body))
    body = lowering.visit(func.body)
    if lowering.padding.padded:
        body = BufferReplacer(lowering.padding.padded).visit(body)
    return func.with_body(body)


class _ThreadCounts(ir.Visitor):
    def __init__(self) -> None:
        self.found: dict[str, int] = {}

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> None:
        if _int_annotation(node, "warp_execution", 0):
            self.found["threadIdx.x"] = 32
        self.visit_children(node)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        thread = node.thread_binding
        if thread is not None and thread.iter_type == ir.IterVar.ThreadIndex and isinstance(node.extent, ir.IntImm):
            self.found[thread.thread_tag] = node.extent.value
        self.visit_children(node)


def _thread_counts(body: ir.Stmt) -> dict[str, int]:
    counter = _ThreadCounts()
    counter.visit(body)
    return counter.found


def _int_annotation(block: ir.Block, key: str, default: int) -> int:
    value: Any = block.annotations.get(key, default)
    return int(getattr(value, "value", value))


class _Lowering(ir.StmtMutator):
    def __init__(self, threads: dict[str, int]) -> None:
        self.threads, self.padding = threads, Padding()
        self.loops: list[ir.For] = []

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        self.loops.append(node)
        new = self.visit_children(node)
        self.loops.pop()
        return new

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Stmt:
        new: ir.Block = self.visit_children(node)
        if _int_annotation(node, "auto_copy", 0):
            new = self._lowered(new)
        padded = self.padding.pad(new.alloc_buffers)
        same = all(a is b for a, b in zip(padded, new.alloc_buffers))
        return new if same else new.replace(alloc_buffers=padded)

    def _lowered(self, block: ir.Block) -> ir.Block:
        copy = Copy(
            block.name_hint,
            _source(block),
            block.writes[0],
            tuple(self.loops),
            self.threads,
            _int_annotation(block, "vector_bytes", 1),
            _int_annotation(block, "local_stage", 0) == 1,
        )
        body = block.body
        for (source, target), rules in _RULES.items():
            if copy.between(source, target):
                for rule in rules:
                    body = rule(body, copy)
                note("copy", f"`{copy.name}` copies from {source.name} to {target.name} memory", node=block)
        if copy.between(Rank.GLOBAL, Rank.SHARED) and copy.local_stage:
            body = through_registers(body, copy)
        self.padding.look_at(body, copy)
        return block.replace(body=body, alloc_buffers=(*block.alloc_buffers, *copy.new_buffers))


def _source(block: ir.Block) -> ir.BufferRegion:
    """The region that a block copies: the only one that it reads, or of several the accumulator."""
    accumulators = [r for r in block.reads if r.buffer.scope() == "wmma.accumulator"]
    candidates = [*block.reads] if len(block.reads) == 1 else accumulators
    if len(block.writes) != 1 or not candidates:
        raise TVMagicError(
            f"the block `{block.name_hint}` with `auto_copy` reads {len(block.reads)} regions and writes "
            f"{len(block.writes)}",
            node=block,
            hint="it is to copy one region to one other",
            code="auto_copy.wrong_region_count",
        )
    return candidates[-1]
