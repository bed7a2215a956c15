"""Buffers replaced by others in the part of a program where they live."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.ir.memory_scope import MemoryScope
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.guards import is_row
from tvmagic.tir.schedule.requirements import access_owner, region_at
from tvmagic.tir.schedule.rewrite import BlockReuse
from tvmagic.tir.schedule.state import ScheduleState


def check_storage_scope(storage_scope: str) -> None:
    """The name of a memory must be one that a program can have."""
    try:
        MemoryScope.of(storage_scope)
    except TVMagicError as error:
        raise ScheduleError(
            f"`{storage_scope}` is not a storage scope", hint=error.hint, code="schedule.unknown_storage_scope"
        ) from error


def defining_block(state: ScheduleState, block: StmtSRef, buffer: ir.Buffer) -> StmtSRef:
    """The block that allocates a buffer; refused for parameters and matched buffers."""
    owner = access_owner(state, block, buffer)
    if owner is None:
        raise ScheduleError(
            f"buffer `{buffer.name}` is not allocated by a block: it is a parameter of the function or matched in a block",
            block,
            code="schedule.buffer_not_allocated",
        )
    return owner


def new_buffer(
    buffer: ir.Buffer, name: str, storage_scope: str | None = None, shape: Sequence[ir.PrimExpr] | None = None
) -> ir.Buffer:
    """A buffer to allocate for elements of `buffer`: rows without gaps, from the beginning of memory of its own.

    What is not given is as in `buffer`.
    """
    annotation = buffer.data.type_annotation
    assert isinstance(annotation, ir.PointerType)
    scope = annotation.storage_scope if storage_scope is None else storage_scope
    offset = buffer.elem_offset
    return buffer.replace(
        data=ir.Var(name, ir.PointerType(annotation.element_type, scope)),
        name=name,
        shape=buffer.shape if shape is None else tuple(shape),
        strides=(),
        elem_offset=offset if isinstance(offset, ir.IntImm) and offset.value == 0 else ir.IntImm(offset.dtype, 0),
        buffer_type="",
    )


def copy_in(buffer: ir.Buffer, storage_scope: str, shape: Sequence[ir.PrimExpr] | None = None) -> ir.Buffer:
    """A new buffer for a copy of `buffer` in another memory, named after it; of another shape if one is given."""
    return new_buffer(buffer, f"{buffer.name}_{storage_scope}", storage_scope, shape)


def matched_in(view: ir.Buffer, source: ir.Buffer, before: ir.Buffer) -> ir.Buffer:
    """The buffer `view`, which matches a part of `source` in place of `before`: of its element type, in its memory.

    Its axes are divided where those of `source` are, if that has changed.
    """
    if [int(s) for s in source.axis_separators] != [int(s) for s in before.axis_separators]:
        gone = len(source.shape) - len(view.shape)  # dimensions that the part is one element wide in
        places = [ir.IntImm("int32", max(0, int(s) - gone)) for s in source.axis_separators]
        view = view.replace(axis_separators=tuple(places))
    if view.dtype is source.dtype and view.scope() == source.scope():
        return view
    data = ir.data_pointer(view.data.name, source.dtype, source.scope())
    return view.replace(data=data, dtype=source.dtype)


class BufferReplacer(ir.Mutator):
    """Puts buffers in the place of others: in accesses, signatures and allocations.

    Subclasses may change the place of an element by `map_indices`, and what an access becomes by `load_of`
    and `store_of`.
    """

    def __init__(self, buffers: Mapping[ir.Buffer, ir.Buffer]) -> None:
        self.buffers = dict(buffers)
        self.data = {old.data: new.data for old, new in buffers.items() if old.data is not new.data}
        self.reuse = BlockReuse()

    def visit_buffer_use(self, buffer: ir.Buffer) -> ir.Buffer:
        return self.buffers.get(buffer, buffer)

    visit_buffer_def = visit_buffer_use

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> ir.Var:
        return self.data.get(node, node)

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        if node.buffer not in self.buffers:
            return self.visit_children(node)
        indices = self.map_indices(node.buffer, ir.mutate_all(self.visit, node.indices))
        return self.load_of(node, ir.BufferLoad(self.buffers[node.buffer], indices, node.predicate, node.span))

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.BufferStore:
        if node.buffer not in self.buffers:
            return self.visit_children(node)
        indices = self.map_indices(node.buffer, ir.mutate_all(self.visit, node.indices))
        value = self.visit(node.value)
        return self.store_of(node, node.replace(buffer=self.buffers[node.buffer], value=value, indices=indices))

    def map_indices(self, buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...]) -> tuple[ir.PrimExpr, ...]:
        """Where an element of a replaced buffer is in the new one."""
        return indices

    def load_of(self, old: ir.BufferLoad, new: ir.BufferLoad) -> ir.PrimExpr:
        """What a load of a replaced buffer becomes."""
        return new

    def store_of(self, old: ir.BufferStore, new: ir.BufferStore) -> ir.BufferStore:
        """What a store to a replaced buffer becomes."""
        return new

    @ir.handles(ir.MatchBufferRegion)
    def match(self, node: ir.MatchBufferRegion) -> ir.MatchBufferRegion:
        source = self.visit(node.source)
        return node if source is node.source else self.matched(node, source)

    def matched(self, node: ir.MatchBufferRegion, source: ir.BufferRegion) -> ir.MatchBufferRegion:
        """What names a part of a buffer, if it is now that of another one."""
        target = matched_in(node.buffer, source.buffer, node.source.buffer)
        if target is not node.buffer:
            self.buffers[node.buffer] = target
            self.data[node.buffer.data] = target.data
        return node.replace(source=source, buffer=target)

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Block:
        new = self.visit_children(node)
        self.reuse.note(node, new)
        return new


def replace_in_block(state: ScheduleState, owner: StmtSRef, replacer: BufferReplacer) -> None:
    """Run a replacer on the block that allocates the buffers."""
    new = replacer.visit(owner.block)
    state.replace(owner, new, replacer.reuse)


# ---------------------------------------------------------------------------- buffers as arguments


def locate_buffer(block: StmtSRef, buffer: Any) -> tuple[str, int]:
    """A buffer given as ("read", 0), by name, or itself, as its place in the block's signature."""
    if is_row(buffer) and len(buffer) == 2:
        side, index = str(buffer[0]), int(buffer[1])
        if side not in ("read", "write"):
            raise TVMagicError(
                f"`{side}` is not a side of a block",
                hint="write `read` or `write`",
                code="schedule.unknown_buffer_side",
            )
        region_at(block, index, side + "s")
        return side, index
    # what is read and written is known by the write
    for side, regions in (("write", block.block.writes), ("read", block.block.reads)):
        for index, region in enumerate(regions):
            if region.buffer is buffer or (isinstance(buffer, str) and region.buffer.name == buffer):
                return side, index
    raise ScheduleError(
        f"{block.label} accesses no buffer `{getattr(buffer, 'name', buffer)}`",
        block,
        code="schedule.buffer_not_accessed",
    )


def buffer_of(block: StmtSRef, place: tuple[str, int]) -> ir.Buffer:
    """The buffer at a place in a block's signature."""
    return region_at(block, place[1], place[0] + "s").buffer


def prepare_index(argument: str, side: str) -> Callable[..., dict[str, Any]]:
    """For a primitive whose `argument` is a buffer's number on one side, its name, or itself: the number."""

    def prepare(state: ScheduleState, values: Mapping[str, Any]) -> dict[str, Any]:
        given, block = values[argument], values["block"]
        if isinstance(given, int):
            return {}
        if isinstance(given, (str, ir.Buffer)):
            regions = getattr(block.block, side + "s")
            for index, region in enumerate(regions):
                if region.buffer is given or region.buffer.name == given:
                    return {argument: index}
        raise ScheduleError(
            f"{block.label} does not {side} a buffer `{getattr(given, 'name', given)}`",
            block,
            code="schedule.buffer_not_accessed",
        )

    return prepare
