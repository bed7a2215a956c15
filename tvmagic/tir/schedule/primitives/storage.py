"""Primitives that change how a buffer is stored: alignment, memory, element type."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.schedule.buffers import (
    BufferReplacer,
    check_storage_scope,
    copy_in,
    defining_block,
    prepare_index,
    replace_in_block,
)
from tvmagic.tir.schedule.instruction import BlockRef, primitive
from tvmagic.tir.schedule.primitives.annotate import set_annotations
from tvmagic.tir.schedule.requirements import check_no_pointer, matched_parts, region_at
from tvmagic.tir.schedule.state import ScheduleState

BUFFER_DIM_ALIGN = "buffer_dim_align"


@primitive("StorageAlign", prepare=prepare_index("buffer_index", "write"))
def storage_align(
    state: ScheduleState, block: BlockRef, buffer_index: Any, axis: int, factor: int, offset: int
) -> None:
    """Ask for a stride of `axis` of the block's written buffer that is `offset` modulo `factor`, in elements.

    Requires: the buffer is allocated by a block; `axis` lies in [-ndim, ndim); `factor` is positive.

    Example
    -------
    `sch.storage_align("B", 0, 0, 8, 1)` makes of

        B = T.alloc_buffer((16,))
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + 1.0
        for j in range(16):
            with T.block("C"):
                v = T.axis.spatial(16, j)
                C[v] = B[v] * 2.0

    this:

        B = T.alloc_buffer((16,))
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                T.block_attr({"buffer_dim_align": [[0, 0, 8, 1]]})
                B[v] = A[v] + T.float32(1.0)
        for j in range(16):
            with T.block("C"):
                v = T.axis.spatial(16, j)
                C[v] = B[v] * T.float32(2.0)
    """
    region = region_at(block, buffer_index, "writes")
    buffer, ndim = region.buffer, len(region.buffer.shape)
    defining_block(state, block, buffer)
    if not -ndim <= axis < ndim:
        raise ScheduleError(
            f"buffer `{buffer.name}` has {ndim} dimensions, so the axis lies in [{-ndim}, {ndim}), not {axis}",
            block,
            code="storage_align.axis_out_of_range",
        )
    if factor <= 0:
        raise ScheduleError(
            f"the factor of an alignment is positive, not {factor}", block, code="storage_align.factor_not_positive"
        )
    axis %= ndim
    known = block.block.annotations
    entries = [e for e in known.get(BUFFER_DIM_ALIGN, ()) if (int(e[0]), int(e[1])) != (buffer_index, axis)]
    entry = ir.attr_value((buffer_index, axis, factor, offset))
    set_annotations(state, block, {**known, BUFFER_DIM_ALIGN: (*entries, entry)})


@primitive("SetScope", prepare=prepare_index("buffer_index", "write"))
def set_scope(state: ScheduleState, block: BlockRef, buffer_index: Any, storage_scope: str) -> None:
    """Put a buffer that the block writes into the memory `storage_scope`.

    Requires: the buffer is allocated by a block.

    Example
    -------
    `sch.set_scope("B", 0, "local")` makes of

        B = T.alloc_buffer((16,))
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + 1.0
        for j in range(16):
            with T.block("C"):
                v = T.axis.spatial(16, j)
                C[v] = B[v] * 2.0

    this:

        B_local = T.alloc_buffer((16,), scope="local")
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B_local[v] = A[v] + T.float32(1.0)
        for j in range(16):
            with T.block("C"):
                v = T.axis.spatial(16, j)
                C[v] = B_local[v] * T.float32(2.0)
    """
    check_storage_scope(storage_scope)
    buffer = region_at(block, buffer_index, "writes").buffer
    owner = defining_block(state, block, buffer)
    if buffer.scope() != storage_scope:
        moved = copy_in(buffer, storage_scope).replace(strides=buffer.strides)
        replace_in_block(state, owner, BufferReplacer({buffer: moved}))


class _DtypeReplacer(BufferReplacer):
    """Accesses convert between the old and the new element type."""

    def load_of(self, old: ir.BufferLoad, new: ir.BufferLoad) -> ir.PrimExpr:
        return ir.Cast(old.dtype, new, old.span)

    def store_of(self, old: ir.BufferStore, new: ir.BufferStore) -> ir.BufferStore:
        element: ir.DataType = new.buffer.dtype
        return new.replace(value=ir.Cast(element.with_lanes_of(new.value.dtype), new.value))


@primitive("UnsafeSetDType", method="unsafe_set_dtype", prepare=prepare_index("buffer_index", "write"))
def unsafe_set_dtype(state: ScheduleState, block: BlockRef, buffer_index: Any, dtype: str) -> None:
    """Store a buffer that the block writes as `dtype`; its accesses convert.

    This may change results: values are rounded to `dtype`.

    Requires: the buffer is allocated by a block; nothing uses it, or a matched part of it, by its pointer.

    Example
    -------
    `sch.unsafe_set_dtype("B", 0, "float16")` makes of

        B = T.alloc_buffer((16,))
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + 1.0
        for j in range(16):
            with T.block("C"):
                v = T.axis.spatial(16, j)
                C[v] = B[v] * 2.0

    this:

        B = T.alloc_buffer((16,), "float16")
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = T.Cast("float16", A[v] + T.float32(1.0))
        for j in range(16):
            with T.block("C"):
                v = T.axis.spatial(16, j)
                C[v] = T.Cast("float32", B[v]) * T.float32(2.0)
    """
    element = ir.dtype_of(dtype)
    buffer = region_at(block, buffer_index, "writes").buffer
    owner = defining_block(state, block, buffer)
    if buffer.dtype is element:
        return
    for name in (buffer, *matched_parts(owner.block, buffer)):
        check_no_pointer(owner.block, name, block)
    annotation = buffer.data.type_annotation
    assert isinstance(annotation, ir.PointerType)
    data = ir.data_pointer(buffer.data.name, element, annotation.storage_scope)
    replace_in_block(state, owner, _DtypeReplacer({buffer: buffer.replace(data=data, dtype=element)}))
