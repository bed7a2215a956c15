"""Buffers replaced by others in the part of a program where they live."""

from __future__ import annotations

from collections.abc import Mapping

from tvmagic.ir import (
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    MatchBufferRegion,
    Mutator,
    PointerType,
    PrimExpr,
    Var,
    handles,
    mutate_all,
)
from tvmagic.tir.schedule.error import ScheduleError
from tvmagic.tir.schedule.requirements import access_owner
from tvmagic.tir.schedule.rewrite import BlockReuse
from tvmagic.tir.schedule.sref import StmtSRef
from tvmagic.tir.schedule.state import ScheduleState

__all__ = ["BufferReplacer", "check_storage_scope", "defining_block", "replace_in_block"]


def check_storage_scope(storage_scope: str) -> None:
    """The name of a memory must be one that a program can have."""
    known = ("global", "shared", "local", "warp", "wmma.", "texture", "m16n8k8.", "metal.", "amx.")
    if storage_scope != "" and not storage_scope.startswith(known):
        raise ScheduleError(
            f"`{storage_scope}` is not a storage scope", hint="write global, shared, local, warp or one of their parts"
        )


def defining_block(state: ScheduleState, block: StmtSRef, buffer: Buffer) -> StmtSRef:
    """The block that allocates a buffer; refused for parameters and matched buffers."""
    owner = access_owner(state, block, buffer)
    if owner is None:
        raise ScheduleError(
            f"buffer `{buffer.name}` is not allocated by a block: it is a parameter of the function or matched in a block",
            block,
        )
    return owner


class BufferReplacer(Mutator):
    """Puts buffers in the place of others: in accesses, signatures and allocations.

    Subclasses may change where an element goes by `map_indices`, and what an access becomes by `load_of`
    and `store_of`.
    """

    def __init__(self, buffers: Mapping[Buffer, Buffer]) -> None:
        self.buffers = dict(buffers)
        self.data = {old.data: new.data for old, new in buffers.items() if old.data is not new.data}
        self.reuse = BlockReuse()

    def visit_buffer_use(self, buffer: Buffer) -> Buffer:
        return self.buffers.get(buffer, buffer)

    visit_buffer_def = visit_buffer_use

    @handles(Var)
    def var(self, node: Var) -> Var:
        return self.data.get(node, node)

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> PrimExpr:
        if node.buffer not in self.buffers:
            return self.visit_children(node)
        indices = self.map_indices(node.buffer, mutate_all(self.visit, node.indices))
        return self.load_of(node, BufferLoad(self.buffers[node.buffer], indices, node.predicate, node.span))

    @handles(BufferStore)
    def store(self, node: BufferStore) -> BufferStore:
        if node.buffer not in self.buffers:
            return self.visit_children(node)
        indices = self.map_indices(node.buffer, mutate_all(self.visit, node.indices))
        value = self.visit(node.value)
        return self.store_of(node, node.replace(buffer=self.buffers[node.buffer], value=value, indices=indices))

    def map_indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """Where an element of a replaced buffer is in the new one."""
        return indices

    def load_of(self, old: BufferLoad, new: BufferLoad) -> PrimExpr:
        """What a load of a replaced buffer becomes."""
        return new

    def store_of(self, old: BufferStore, new: BufferStore) -> BufferStore:
        """What a store to a replaced buffer becomes."""
        return new

    @handles(MatchBufferRegion)
    def match(self, node: MatchBufferRegion) -> MatchBufferRegion:
        source = self.visit(node.source)
        if source is node.source:
            return node
        target = node.buffer
        annotation = target.data.type_annotation
        assert isinstance(annotation, PointerType)
        if target.dtype is not source.buffer.dtype or target.scope() != source.buffer.scope():
            data = Var(target.data.name, PointerType(annotation.element_type, source.buffer.scope()))
            target = target.replace(data=data, dtype=source.buffer.dtype)
            self.buffers[node.buffer] = target
            self.data[node.buffer.data] = data
        return node.replace(source=source, buffer=target)

    @handles(Block)
    def block(self, node: Block) -> Block:
        new = self.visit_children(node)
        self.reuse.note(node, new)
        return new


def replace_in_block(state: ScheduleState, owner: StmtSRef, replacer: BufferReplacer) -> None:
    """Run a replacer on the block that allocates the buffers."""
    new = replacer.visit(owner.block)
    state.replace(owner, new, replacer.reuse)
