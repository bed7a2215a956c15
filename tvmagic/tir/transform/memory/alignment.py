"""Strides of dimensions that are to be aligned (`storage_align`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tvmagic.ir import IntImm, PrimExpr
from tvmagic.ir.ops import floormod


def aligned_strides(
    shape: Sequence[PrimExpr],
    aligned: Mapping[int, tuple[int, int]],
    simplify: Callable[[PrimExpr], PrimExpr] = lambda stride: stride,
) -> tuple[PrimExpr, ...]:
    """The strides of a buffer of `shape`, in elements; padded so that axis `a` has a stride of `k * factor + offset`
    for each `aligned[a] = factor, offset` with a factor."""
    strides: list[PrimExpr] = []
    stride: PrimExpr = IntImm(shape[0].dtype, 1)
    for axis in reversed(range(len(shape))):
        factor, offset = aligned.get(axis, (0, 0))
        if factor:
            stride = simplify(stride + floormod(factor + offset - floormod(stride, factor), factor))
        strides.append(stride)
        stride = stride * shape[axis]
    return tuple(reversed(strides))
