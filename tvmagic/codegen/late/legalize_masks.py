"""Masks of loads and stores that have not one lane for each element of a vector of scalars."""

from __future__ import annotations

from typing import Any

from tvmagic.errors import BuildError
from tvmagic.ir import BufferLoad, BufferStore, IfThenElse, IntImm, Ramp, ops

__all__ = ["with_plain_mask"]


def with_plain_mask(node: BufferLoad | BufferStore) -> Any:
    """What does the same as a masked access: one whose mask has a lane for each lane of its index, or a condition.

    A mask of one lane is a condition: of `if_then_else`, 0 otherwise, or of an `if`. A mask with a lane for each part
    of the elements, which are vectors, belongs to an access of those parts; if the elements are not next to each other
    there is no code for it.
    """
    mask, buffer = node.predicate, node.buffer
    if mask is None:
        return node
    *outer, last = node.indices or (buffer.elem_offset,)  # a buffer without dimensions has one element
    lanes, each = last.dtype.lane_code, buffer.dtype.lane_code
    if mask.dtype.lane_code == 1:
        if isinstance(node, BufferStore):
            return IfThenElse(mask, node.replace(predicate=None), None, node.span)
        return ops.if_then_else(mask, node.replace(predicate=None), ops.make_zero(node.dtype))
    dense = lanes == 1 or _is_dense(last)
    if each == 1 or (dense and mask.dtype.lane_code == lanes):
        return node
    if not dense or buffer.strides:
        raise BuildError(
            f"buffer `{buffer.name}` of vectors cannot be accessed with a mask at scattered places",
            hint="access the parts of its elements by a buffer of scalars",
            code="codegen.scattered_vectors",
        )
    base = last.base if isinstance(last, Ramp) else last
    *rows, size = buffer.shape or (1,)
    offset = buffer.elem_offset * each
    view = buffer.replace(dtype=buffer.dtype.element_of, shape=(*rows, size * each), elem_offset=offset)
    return node.replace(buffer=view, indices=(*outer, Ramp(base * each, 1, lanes * each)))


def _is_dense(index: Any) -> bool:
    return isinstance(index, Ramp) and isinstance(index.stride, IntImm) and index.stride.value == 1
