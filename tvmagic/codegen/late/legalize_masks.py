"""Legalize masks of loads and stores: one lane per scalar lane, or a condition."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.codegen.late.common import ExpressionMutator, census, late_pass
from tvmagic.errors import BuildError
from tvmagic.passes import note


@late_pass("LegalizeMasks")
def legalize_masks(func: ir.PrimFunc) -> ir.PrimFunc:
    """Give every masked access one lane of mask per scalar lane, or make its mask a condition."""
    return func.with_body(_Legalizer(func).visit(func.body)) if census(func.body).masks else func


class _Legalizer(ExpressionMutator):
    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: ir.BufferLoad | ir.BufferStore) -> Any:
        made = _with_plain_mask(node)
        if made is not node:
            note("late", f"legalized the mask of an access to `{node.buffer.name}`", node)
        return self.visit_children(made)


def require_legal_mask(node: ir.BufferLoad | ir.BufferStore) -> None:
    """Refuse a masked access that has no code as it is."""
    if node.predicate is not None and _with_plain_mask(node) is not node:
        raise BuildError(
            f"cannot emit an access to `{node.buffer.name}`: its mask has not one lane per scalar",
            node=node,
            hint="enable the pass `late.LegalizeMasks`",
            code="codegen.mask_not_legal",
        )


def _with_plain_mask(node: ir.BufferLoad | ir.BufferStore) -> Any:
    """Return an equivalent access whose mask has one lane per scalar lane, or whose mask is a condition.

    A mask of one lane is a condition: of `if_then_else` with the other side 0, or of an `if`. A mask with one lane per element that is
    a vector belongs to an access of the elements' scalars. Raises BuildError if those elements are not contiguous.
    """
    mask, buffer = node.predicate, node.buffer
    if mask is None:
        return node
    *outer, last = node.indices or (buffer.elem_offset,)  # a buffer without dimensions has one element
    lanes, each = last.dtype.lane_code, buffer.dtype.lane_code
    if mask.dtype.lane_code == 1:
        if isinstance(node, ir.BufferStore):
            return ir.IfThenElse(mask, node.replace(predicate=None), None, node.span)
        return ir.ops.if_then_else(mask, node.replace(predicate=None), ir.ops.make_zero(node.dtype))
    dense = lanes == 1 or _is_dense(last)
    if each == 1 or (dense and mask.dtype.lane_code == lanes):
        return node
    if not dense or buffer.strides:
        raise BuildError(
            f"buffer `{buffer.name}` of vectors cannot be accessed with a mask at scattered places",
            hint="access the parts of its elements by a buffer of scalars",
            code="codegen.scattered_vectors",
        )
    base = last.base if isinstance(last, ir.Ramp) else last
    *rows, size = buffer.shape or (ir.IntImm("int32", 1),)
    offset = buffer.elem_offset * each
    view = buffer.replace(dtype=buffer.dtype.element_of, shape=(*rows, size * each), elem_offset=offset)
    return node.replace(buffer=view, indices=(*outer, ir.Ramp(base * each, 1, lanes * each)))


def _is_dense(index: Any) -> bool:
    return isinstance(index, ir.Ramp) and isinstance(index.stride, ir.IntImm) and index.stride.value == 1
