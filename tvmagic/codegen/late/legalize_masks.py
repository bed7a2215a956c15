"""Legalize masks of loads and stores: one lane per scalar lane, or a condition."""

from __future__ import annotations

from typing import Any

from tvmagic.codegen.late.common import StatementMutator, census, late_pass
from tvmagic.errors import BuildError
from tvmagic.ir import BufferLoad, BufferStore, IfThenElse, IntImm, PrimExpr, PrimFunc, Ramp, handles, ops
from tvmagic.passes import note


@late_pass("LegalizeMasks")
def legalize_masks(func: PrimFunc) -> PrimFunc:
    """Give every masked access one lane of mask per scalar lane, or make its mask a condition."""
    return func.with_body(_Legalizer(func).visit(func.body)) if census(func.body).masks else func


class _Legalizer(StatementMutator):
    @handles(PrimExpr)
    def expression(self, node: PrimExpr) -> PrimExpr:
        return self.visit_children(node)

    @handles(BufferLoad, BufferStore)
    def access(self, node: BufferLoad | BufferStore) -> Any:
        made = _with_plain_mask(node)
        if made is not node:
            note("late", f"legalized the mask of an access to `{node.buffer.name}`", node)
        return self.visit_children(made)


def require_legal_mask(node: BufferLoad | BufferStore) -> None:
    """Refuse a masked access that has no code as it is."""
    if node.predicate is not None and _with_plain_mask(node) is not node:
        raise BuildError(
            f"cannot emit an access to `{node.buffer.name}`: its mask has not one lane per scalar",
            node=node,
            hint="enable the pass `late.LegalizeMasks`",
            code="codegen.mask_not_legal",
        )


def _with_plain_mask(node: BufferLoad | BufferStore) -> Any:
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
    *rows, size = buffer.shape or (IntImm("int32", 1),)
    offset = buffer.elem_offset * each
    view = buffer.replace(dtype=buffer.dtype.element_of, shape=(*rows, size * each), elem_offset=offset)
    return node.replace(buffer=view, indices=(*outer, Ramp(base * each, 1, lanes * each)))


def _is_dense(index: Any) -> bool:
    return isinstance(index, Ramp) and isinstance(index.stride, IntImm) and index.stride.value == 1
