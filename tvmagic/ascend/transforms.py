"""Axis transformations: split, merge and reorder of a graph's axes, applied to nodes and tensors.

`block_split`, `tile_split` and `merge_axis` only make the new axes; `apply_split`, `apply_merge` and
`apply_reorder` put them in the place of the old ones, in the loops around a node
(`apply_sched_*`), in its tensors (`apply_tensor_*`), or in both. Tensors in global memory (inputs, outputs, workspace) keep
their axes: they are what callers of the graph rely on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tvmagic.ascend.graph import AscendError, AscGraph, AscNode, AscTensor, Axis, AxisType
from tvmagic.ascend.sizes import Size, SizeLike, ceiling
from tvmagic.errors import a_thing


def _split(graph: AscGraph, axis: Axis | str, size: SizeLike | None, letters: str, types: tuple[AxisType, AxisType]):
    axis = graph.find_axis(axis)
    if any(axis in a.from_ for a in graph.axes):
        raise AscendError("axis-transformed-once", f"the axis `{axis.name}` was already split or merged")
    outer_name, inner_name = axis.name + letters[0], axis.name + letters[1]
    inner_size = graph.create_size(f"{inner_name}_size") if size is None else Size.of(size)
    facts = {"allow_unaligned_tail": axis.allow_unaligned_tail, "allow_oversize_axis": axis.allow_oversize_axis}
    facts = {**facts, "from_": (axis,), "align": 1}
    outer = graph.create_axis(outer_name, ceiling(axis.size / inner_size), types[0], **facts)
    inner = graph.create_axis(inner_name, inner_size, types[1], split_pair=outer, **facts)
    outer.split_pair = inner
    return outer, inner


def block_split(graph: AscGraph, axis: Axis | str, size: SizeLike | None = None) -> tuple[Axis, Axis]:
    """Split an axis over the cores: `z0` gives `z0B` of `ceil(s0 / z0b_size)` and `z0b` of `z0b_size`.

    `size` is the inner size; by default a new size variable. A graph has one block-outer axis.
    """
    there = next((a for a in graph.axes if a.type is AxisType.BLOCK_OUT), None)
    if there is not None:
        raise AscendError(
            "one-block-outer",
            f"graph `{graph.name}` has the block-outer axis `{there.name}` already",
            hint="merge the loops that are spread over the cores, then split once",
        )
    return _split(graph, axis, size, "Bb", (AxisType.BLOCK_OUT, AxisType.BLOCK_IN))


def tile_split(graph: AscGraph, axis: Axis | str, size: SizeLike | None = None) -> tuple[Axis, Axis]:
    """Split an axis into tiles: `z0` gives `z0T` of `ceil(s0 / z0t_size)` and `z0t` of `z0t_size`."""
    return _split(graph, axis, size, "Tt", (AxisType.TILE_OUT, AxisType.TILE_IN))


def merge_axis(graph: AscGraph, axes: Sequence[Axis | str]) -> Axis:
    """The axis `z0z1` of the product of the sizes of `z0`, `z1`."""
    axes = graph.find_axes(axes)
    if len(axes) < 2:
        raise AscendError("merge-count", "a merge takes two axes or more")
    size = Size.of(1)
    for axis in axes:
        if any(axis in a.from_ for a in graph.axes):
            raise AscendError("axis-transformed-once", f"the axis `{axis.name}` was already split or merged")
        size = size * axis.size
    merged = graph.create_axis("".join(a.name for a in axes), size, AxisType.MERGED, from_=tuple(axes))
    merged.allow_unaligned_tail = all(a.allow_unaligned_tail for a in axes)
    return merged


def _leaves(axis: Axis) -> tuple[Axis, ...]:
    """The original axes in it, in order."""
    return tuple(leaf for f in axis.from_ for leaf in _leaves(f)) if axis.from_ else (axis,)


def are_neighbours(order: Sequence[Axis], axes: Sequence[Axis]) -> bool:
    """Whether `axes` follow one another in the loops `order` and may become one loop.

    Halves of a split whose order a reorder changed may not: after `[z0, z1T, z2, z1t, z3]`,
    `z1t` was moved from behind `z1T` to behind `z2`, so it merges with neither neighbour. An axis
    that was moved as a whole may merge.
    """
    place = next((i for i, a in enumerate(order) if axes and a is axes[0]), -1)
    if place < 0 or len(order) < place + len(axes):
        return False
    if not all(a is b for a, b in zip(order[place:], axes, strict=False)):
        return False
    return len(axes) == 1 or not any(_moved(order, i) for i in range(place, place + len(axes)))


def _moved(order: Sequence[Axis], place: int) -> bool:
    """Whether the inner half of a split is elsewhere than right behind its outer half.

    Only the inner half counts as moved: what was before the split is still before its outer half.
    """
    axis = order[place]
    if not axis.is_inner or axis.split_pair is None:
        return False
    outer = next((i for i, a in enumerate(order) if _contains(a, axis.split_pair)), None)
    return outer is None or outer > place or not all(_contains(a, axis.split_pair) for a in order[outer:place])


def _contains(axis: Axis | None, part: Axis | None) -> bool:
    """Whether `axis` is `part`, or made of it by later splits and merges."""
    return axis is part or (axis is not None and any(_contains(f, part) for f in axis.from_))


# ---------------------------------------------------------------------------- application


def _nodes(target: AscGraph | AscNode | Iterable[AscNode]) -> list[AscNode]:
    if isinstance(target, AscGraph):
        return [n for n in target.nodes if not n.op.is_buffer]
    return [target] if isinstance(target, AscNode) else list(target)


def _tensors(target: AscGraph | AscNode | Iterable[AscNode]) -> list[AscTensor]:
    """The tensors whose axes change: those in global memory keep theirs, which callers of the graph rely on."""
    return [y for n in _nodes(target) for y in n.outputs if not y.is_global]


def _pair(outer: Axis, inner: Axis) -> Axis:
    wrong = next((half for half in (outer, inner) if not isinstance(half, Axis)), None)
    if wrong is not None:
        raise AscendError(
            "split-pair",
            f"the halves of a split are axes, not {a_thing(wrong)}",
            hint="apply_split(graph, *tile_split(graph, z0))",
        )
    if inner.split_pair is not outer or outer.split_pair is not inner:
        raise AscendError("split-pair", f"`{outer.name}` and `{inner.name}` are not the halves of one split")
    return outer.from_[0]


def apply_sched_split(target: AscGraph | AscNode | Iterable[AscNode], outer: Axis, inner: Axis) -> None:
    """Put the halves of a split in the place of the axis, in the loops only."""
    axis = _pair(outer, inner)
    for node in _nodes(target):
        node.sched.axis = [n for a in node.sched.axis for n in ((outer, inner) if a is axis else (a,))]


def apply_tensor_split(target: AscGraph | AscNode | Iterable[AscNode], outer: Axis, inner: Axis) -> None:
    """Put the halves of a split in the place of the axis, in the tensors only."""
    axis = _pair(outer, inner)
    for y in _tensors(target):
        _split_tensor(y, axis, outer, inner)


def _split_tensor(y: AscTensor, axis: Axis, outer: Axis, inner: Axis) -> None:
    place = next((i for i, a in enumerate(y.axis) if a is axis), None)
    if place is None:
        return
    repeat, stride = y.repeats[place], y.strides[place]
    single = repeat.is_one and not axis.size.is_one
    y.axis[place : place + 1] = [outer, inner]
    y.repeats[place : place + 1] = [Size.of(1)] * 2 if single else [repeat / inner.size, inner.size]
    y.strides[place : place + 1] = [Size.of(0)] * 2 if single else [stride * inner.size, stride]


def apply_split(target: AscGraph | AscNode | Iterable[AscNode], outer: Axis, inner: Axis) -> None:
    """Put the halves of a split in the place of the axis, in loops and tensors."""
    apply_sched_split(target, outer, inner)
    apply_tensor_split(target, outer, inner)


def _merged_axes(merged: Axis) -> tuple[Axis, ...]:
    """What a merged axis was made of."""
    if not isinstance(merged, Axis):
        raise AscendError(
            "merged-axis",
            f"what is applied is a merged axis, not {a_thing(merged)}",
            hint="apply_merge(graph, merge_axis(graph, [z0, z1]))",
        )
    return merged.from_


def apply_sched_merge(target: AscGraph | AscNode | Iterable[AscNode], merged: Axis) -> None:
    """Put a merged axis in the place of its parts, in the loops only."""
    parts = _merged_axes(merged)
    for node in _nodes(target):
        order = node.sched.axis
        if not any(a is parts[0] for a in order):
            continue
        if not are_neighbours(order, parts):
            names, loops = (", ".join(a.name for a in s) for s in (parts, order))
            raise AscendError(
                "merge-neighbours",
                f"[{names}] are not neighbours in the loops [{loops}] of `{node.name}`",
                hint="reorder them first, so that they follow each other",
            )
        place = next(i for i, a in enumerate(order) if a is parts[0])
        node.sched.axis = [*order[:place], merged, *order[place + len(parts) :]]


def apply_tensor_merge(target: AscGraph | AscNode | Iterable[AscNode], merged: Axis) -> None:
    """Put a merged axis in the place of its parts, in the tensors only; they must be contiguous there."""
    parts = _merged_axes(merged)
    for y in _tensors(target):
        place = next((i for i, a in enumerate(y.axis) if a is parts[0]), None)
        if place is None:
            continue
        if not in_order(y, parts):
            raise AscendError("merge-neighbours", f"the parts of `{merged.name}` are not neighbours in `{y}`")
        if all(y.repeat(a).is_one for a in parts):
            _gather_parts(y, parts)
            place = y.axis.index(parts[0])
        end = place + len(parts)
        if not mergeable(y, parts):
            raise AscendError("merge-contiguous", f"`{y}` does not hold the parts of `{merged.name}` contiguously")
        repeat, stride = Size.of(1), Size.of(0)
        for r, s in zip(y.repeats[place:end], y.strides[place:end], strict=True):
            repeat, stride = repeat * r, stride if r.is_one else s
        y.axis[place:end], y.repeats[place:end], y.strides[place:end] = [merged], [repeat], [stride]


def in_order(y: AscTensor, axes: Sequence[Axis]) -> bool:
    """Whether a tensor has `axes` one after the other, in that order; those of size 1 may stand anywhere."""
    if all(y.repeat(a).is_one for a in axes):
        return True
    place = next((i for i, a in enumerate(y.axis) if a is axes[0]), len(y.axis))
    return y.axis[place : place + len(axes)] == list(axes)


def _gather_parts(y: AscTensor, parts: Sequence[Axis]) -> None:
    """Put axes of size 1 behind the first of them."""
    facts = {a: (r, s) for a, r, s in zip(y.axis, y.repeats, y.strides, strict=True)}
    y.axis = [b for a in y.axis for b in (parts if a is parts[0] else () if a in parts else (a,))]
    y.repeats, y.strides = [facts[a][0] for a in y.axis], [facts[a][1] for a in y.axis]


def mergeable(y: AscTensor, axes: Sequence[Axis]) -> bool:
    """Whether a tensor steps through `axes` as through one: with one stride, or not at all."""
    held = [(a.size, y.repeat(a), y.stride(a)) for a in axes if not a.size.is_one]
    if all(r.is_one for _, r, _ in held):
        return True
    if any(r.is_one for _, r, _ in held) or any(size != r for size, r, _ in held[1:]):
        return False
    return all(o[2] == i[2] * i[1] for o, i in zip(held, held[1:], strict=False))


def apply_merge(target: AscGraph | AscNode | Iterable[AscNode], merged: Axis) -> None:
    """Put a merged axis in the place of its parts, in loops and tensors."""
    apply_sched_merge(target, merged)
    apply_tensor_merge(target, merged)


def apply_sched_reorder(target: AscGraph | AscNode | Iterable[AscNode], order: Sequence[Axis]) -> None:
    """Give the loops the order `order`, which names the same axes."""
    for node in _nodes(target):
        _check_permutation(node.name, node.sched.axis, order)
        node.sched.axis = list(order)


def apply_tensor_reorder(target: AscGraph | AscNode | Iterable[AscNode], order: Sequence[Axis]) -> None:
    """Name the axes of the tensors in the order `order`; the memory stays as it is."""
    for y in _tensors(target):
        rank: Callable[[int], int] = lambda i, y=y: next((k for k, a in enumerate(order) if a is y.axis[i]), len(order))  # noqa: E731
        _check_permutation(str(y), y.axis, [a for a in order if any(a is b for b in y.axis)])
        places = sorted(range(len(y.axis)), key=rank)
        y.axis = [y.axis[i] for i in places]
        y.repeats = [y.repeats[i] for i in places]
        y.strides = [y.strides[i] for i in places]


def apply_reorder(target: AscGraph | AscNode | Iterable[AscNode], order: Sequence[Axis]) -> None:
    """Give loops and tensors the order `order`."""
    apply_sched_reorder(target, order)
    apply_tensor_reorder(target, order)


def _check_permutation(name: str, axes: Sequence[Axis], order: Sequence[Axis]) -> None:
    if sorted(a.id for a in axes) != sorted(a.id for a in order):
        old, new = (", ".join(a.name for a in s) for s in (axes, order))
        raise AscendError(
            "reorder-permutation",
            f"[{new}] is not an order of the axes [{old}] of `{name}`",
            hint="give each of its loops once",
        )
