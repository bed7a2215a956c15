"""Where an element stands: the index of any axis from the loops that are open, and offsets in tensors.

An axis that is not a loop itself is found through the splits and merges it went through: a split
axis is `outer * inner_size + inner`, a part of a merged axis a quotient of its index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tvmagic.ascend.graph import AscendError, AscGraph, AscTensor, Axis, AxisType
from tvmagic.ascend.sizes import Size
from tvmagic.ir import IntImm, PrimExpr, ops

__all__ = ["Places", "coefficient"]

INNER = (AxisType.BLOCK_IN, AxisType.TILE_IN)


class Places:
    """Indices of axes inside some open loops; `to_expr` turns a size into an expression."""

    def __init__(self, graph: AscGraph, to_expr: Callable[[Size], PrimExpr], zero: IntImm) -> None:
        self.to_expr, self.zero = to_expr, zero
        self.open: dict[int, PrimExpr] = {}
        self.inner_of: dict[int, Axis] = {}
        self.merged_in: dict[int, Axis] = {}
        for axis in graph.axes:
            if axis.type is AxisType.MERGED:
                for part in axis.from_:
                    self.merged_in[id(part)] = axis
            elif axis.type in INNER:
                self.inner_of[id(axis.from_[0])] = axis

    def index(self, axis: Axis) -> PrimExpr:
        """The index along an axis; 0 along one that is no loop here."""
        if id(axis) in self.open:
            return self.open[id(axis)]
        if axis.size.is_one:
            return self.zero
        inner = self.inner_of.get(id(axis))
        if inner is not None:
            assert inner.split_pair is not None
            return self.index(inner.split_pair) * self.to_expr(inner.size) + self.index(inner)
        merged = self.merged_in.get(id(axis))
        return self.zero if merged is None else self._part(merged, axis)

    def _part(self, merged: Axis, axis: Axis) -> PrimExpr:
        after = Size.of(1)
        place = next(i for i, a in enumerate(merged.from_) if a is axis)
        for part in merged.from_[place + 1 :]:
            after = after * part.size
        index = self.index(merged)
        if not after.is_one:
            index = ops.floordiv(index, self.to_expr(after))
        return index if place == 0 else ops.floormod(index, self.to_expr(axis.size))

    def extent(self, axis: Axis) -> tuple[PrimExpr, Size | None]:
        """How long an axis is inside the loops that are open: shorter in the tail of a split.

        The second value is the size where there is no shorter tail.
        """
        if axis.type not in INNER:
            return self.to_expr(axis.size), axis.size
        outer = axis.split_pair
        assert outer is not None
        whole, size = self.extent(axis.from_[0])
        tile = self.to_expr(axis.size)
        if size is not None and size.constant is not None and axis.size.constant is not None:
            if size.constant % axis.size.constant == 0:
                return tile, axis.size
            if size.constant <= axis.size.constant:
                return whole, size
        elif size is not None and size == axis.size:
            return tile, axis.size
        return ops.minimum(tile, whole - self.index(outer) * tile), None

    def offset(self, axes: Sequence[Axis], strides: Sequence[Size]) -> PrimExpr:
        """The place of the element in an array of such strides."""
        total: PrimExpr | None = None
        for axis, stride in zip(axes, strides, strict=True):
            if stride == 0:
                continue
            term = self.index(axis)
            if isinstance(term, IntImm) and term.value == 0:
                continue
            if not stride.is_one:
                term = term * self.to_expr(stride)
            total = term if total is None else total + term
        return self.zero if total is None else total


def coefficient(strides: Mapping[int, Size], axis: Axis) -> Size:
    """By how much one step along `axis` moves in an array; `strides` are by `id` of its axes."""
    if id(axis) in strides:
        return strides[id(axis)]
    if axis.type is AxisType.MERGED:
        return coefficient(strides, axis.from_[-1])
    if not axis.from_:
        return Size.of(0)
    step = coefficient(strides, axis.from_[0])
    if axis.type in INNER:
        return step
    if axis.split_pair is None:
        raise AscendError("split-pair", f"the axis `{axis.name}` has no other half")
    return step * axis.split_pair.size


def by_axis(y: AscTensor) -> dict[int, Size]:
    """The strides of a tensor by the `id` of its axes."""
    return {id(a): s for a, s in zip(y.axis, y.strides, strict=True)}
