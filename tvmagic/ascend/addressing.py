"""Where an element is: the index of any axis from the loops that are open, and offsets in tensors.

An axis that is not a loop itself is found through the splits and merges it went through: a split
axis is `outer * inner_size + inner`, a part of a merged axis a quotient of its index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tvmagic.ascend.graph import AscendError, AscGraph, AscNode, AscTensor, Axis
from tvmagic.ascend.sizes import Size
from tvmagic.ir import IntImm, PrimExpr, ops


class Places:
    """Indices of axes inside some open loops; `to_expr` turns a size into an expression."""

    def __init__(self, graph: AscGraph, to_expr: Callable[[Size], PrimExpr], zero: IntImm) -> None:
        self.to_expr, self.zero = to_expr, zero
        self.open: dict[int, PrimExpr] = {}
        self.inner_of: dict[int, Axis] = {}
        self.merged_in: dict[int, Axis] = {}
        for axis in graph.axes:
            if axis.is_merged:
                for part in axis.from_:
                    self.merged_in[id(part)] = axis
            elif axis.is_inner:
                self.inner_of[id(axis.from_[0])] = axis

    def index(self, axis: Axis) -> PrimExpr:
        """The index along an axis; 0 along one that is not a loop here."""
        if id(axis) in self.open:
            return self.open[id(axis)]
        if axis.size.is_one:
            return self.zero
        inner = self.inner_of.get(id(axis))
        if inner is not None:
            assert inner.split_pair is not None
            return self.index(inner.split_pair) * self.to_expr(inner.size) + self.index(inner)
        merged = self.merged_in.get(id(axis))
        return self.zero if merged is None else self._component(merged, axis)

    def _component(self, merged: Axis, axis: Axis) -> PrimExpr:
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

        The second value is the size if there is no shorter tail.
        """
        if not axis.is_inner:
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
    if axis.is_merged:
        return coefficient(
            strides, next((part for part in reversed(axis.from_) if not part.size.is_one), axis.from_[0])
        )
    if not axis.from_:
        return Size.of(0)
    step = coefficient(strides, axis.from_[0])
    if axis.is_inner:
        return step
    if axis.split_pair is None:
        raise AscendError("split-pair", f"the axis `{axis.name}` has no other half")
    return step * axis.split_pair.size


def _ancestors(axes: Sequence[Axis]) -> list[Axis]:
    """The axes that `axes` were made of, with themselves, in the order of their creation."""
    found = {id(part): part for axis in axes for part in axis.ancestors()}
    return sorted(found.values(), key=lambda a: a.id)


def seen_from(node: AscNode, y: AscTensor) -> tuple[list[Axis], list[Size], list[Size]]:
    """Axes, sizes and strides of a tensor in global memory, in terms of the merged axes of the node that moves it.

    The tensor itself keeps its axes, whatever becomes of the loops. Axes merge that follow each other in memory without a
    gap, or of which the tensor has one at most (what is read at indices).
    """
    axes, repeats, strides = list(y.axis), list(y.repeats), list(y.strides)
    table = node.type == "Gather" and y is node.inputs[0]
    for merged in _ancestors(node.sched.axis) if y.is_global else ():
        places = [i for i, a in enumerate(axes) if any(a is part for part in merged.from_)]
        if not merged.is_merged or len(places) != len(merged.from_):
            continue
        held = [i for i in places if not repeats[i].is_one]
        if not (table and len(held) <= 1) and not _one_step(places, axes, repeats, strides):
            continue
        size, stride = Size.of(1), strides[held[-1]] if held else Size.of(0)
        for i in held:
            size = size * repeats[i]
        first = held[0] if held else places[0]
        axes[first], repeats[first], strides[first] = merged, size, stride
        kept = [i for i in range(len(axes)) if i == first or i not in places]
        axes, repeats, strides = [axes[i] for i in kept], [repeats[i] for i in kept], [strides[i] for i in kept]
    return axes, repeats, strides


def _one_step(places: Sequence[int], axes: list[Axis], repeats: list[Size], strides: list[Size]) -> bool:
    """Whether a tensor steps through some of its axes as through one: with one stride, or not at all."""
    wide = [i for i in places if not axes[i].size.is_one]
    if all(repeats[i].is_one for i in wide):
        return True
    if list(places) != list(range(places[0], places[0] + len(places))):
        return False
    if any(repeats[i].is_one for i in wide) or any(repeats[i] != axes[i].size for i in wide[1:]):
        return False
    return all(strides[a] == strides[b] * repeats[b] for a, b in zip(wide, wide[1:], strict=False))


def by_axis(node: AscNode, y: AscTensor) -> dict[int, Size]:
    """The strides of a tensor in global memory by the `id` of its axes, as `seen_from` the node that moves it."""
    axes, _, strides = seen_from(node, y)
    return {id(a): s for a, s in zip(axes, strides, strict=True)}
