"""Splits, merges and reorders of axes keep where each element of a tensor is, as counted for every index."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from tvmagic import ascend
from tvmagic.ascend import AscendError, AscGraph, Axis, AxisType, Size, ops
from tvmagic.ascend.transforms import in_order, mergeable

SIZES = {"z0": 4, "z1": 6, "z2": 1, "z3": 8}
Index = dict[Axis, int]


def graph_of(held: list[bool]) -> AscGraph:
    """Two computed tensors over four axes, the first of size 1 along those that are not held."""
    graph = AscGraph("axes")
    axes = [graph.create_axis(name, size) for name, size in SIZES.items()]
    sizes = [size if wide else 1 for size, wide in zip(SIZES.values(), held)]
    part = ops.Abs(ops.Load(ops.Data(graph, "x", sizes=sizes)))
    ops.Output(ops.Store(ops.Neg(ops.broadcast_to(part, axes))), "out")
    return graph


def index_of(axis: Axis, at: Index) -> int:
    """The index along an axis that splits and merges made, from those along the original ones."""
    if not axis.from_:
        return at[axis]
    if axis.type is AxisType.MERGED:
        total = 0
        for part in axis.from_:
            total = total * part.size.evaluate({}) + index_of(part, at)
        return total
    inner = axis if axis.is_inner else axis.split_pair
    assert inner is not None
    outer, rest = divmod(index_of(axis.from_[0], at), inner.size.evaluate({}))
    return rest if axis is inner else outer


def addresses(graph: AscGraph, name: str) -> list[int]:
    """Where the element at each index of the original axes is in the memory of a node's tensor."""
    y, original = graph.find_node(name).y, graph.axes[: len(SIZES)]
    found = []
    for numbers in itertools.product(*(range(a.size.evaluate({})) for a in original)):
        at = dict(zip(original, numbers))
        found.append(sum(index_of(a, at) * s.evaluate({}) for a, s in zip(y.axis, y.strides, strict=True)))
    return found


def elements(graph: AscGraph, name: str) -> int:
    return graph.find_node(name).y.elements.evaluate({})


def split(graph: AscGraph, rng: random.Random) -> None:
    loops = graph.find_node("abs_0").sched.axis
    axis = rng.choice(loops)
    size = axis.size.evaluate({})
    pair = ascend.tile_split(graph, axis, rng.choice([n for n in range(1, size + 1) if size % n == 0]))
    ascend.apply_split(graph, *pair)
    assert graph.find_node("abs_0").sched.axis == [b for a in loops for b in (pair if a is axis else (a,))]


def merge(graph: AscGraph, rng: random.Random) -> None:
    """Merge two loops, where that is legal: the tensors then still have their elements where they were."""
    loops = graph.find_node("abs_0").sched.axis
    if len(loops) < 2:
        return
    place = rng.randrange(len(loops) - 1)
    pair = loops[place : place + 2]
    tensors = [y for y in graph.tensors() if not y.is_global]
    legal = ascend.are_neighbours(loops, pair) and all(in_order(y, pair) and mergeable(y, pair) for y in tensors)
    copy = graph.copy()
    merged = ascend.merge_axis(copy, [a.name for a in pair])
    if not legal:
        with pytest.raises(AscendError, match="merge-"):
            ascend.apply_merge(copy, merged)
        return
    merged = ascend.merge_axis(graph, pair)
    ascend.apply_merge(graph, merged)
    assert graph.find_node("abs_0").sched.axis == [*loops[:place], merged, *loops[place + 2 :]]


def reorder(graph: AscGraph, rng: random.Random) -> None:
    loops = graph.find_node("abs_0").sched.axis
    order = rng.sample(loops, len(loops))
    ascend.apply_reorder(graph, order)
    assert all(graph.find_node(n).sched.axis == order for n in ("load_0", "abs_0", "neg_0", "store_0"))
    assert [a for a in order if a in graph.find_node("neg_0").y.axis] == graph.find_node("neg_0").y.axis


STEPS: list[Callable[[AscGraph, random.Random], None]] = [split, merge, merge, reorder]


@pytest.mark.parametrize("seed", range(40))
def test_random_steps_move_no_element(seed: int) -> None:
    rng = random.Random(seed)
    graph = graph_of([rng.random() < 0.7 for _ in SIZES])
    before = {name: (addresses(graph, name), elements(graph, name)) for name in ("abs_0", "neg_0")}
    for _ in range(rng.randint(1, 6)):
        rng.choice(STEPS)(graph, rng)
        for name, wanted in before.items():
            assert (addresses(graph, name), elements(graph, name)) == wanted, seed
    for name in ("x", "store_0", "out"):  # what callers rely on stays
        assert [a.name for a in graph.find_node(name).y.axis] == list(SIZES)


@pytest.mark.parametrize(
    ("sizes", "strides", "can"),
    [
        ([4, 6], [6, 1], True), ([4, 6], [7, 1], False), ([4, 6], [0, 0], True), ([1, 6], [0, 1], False), ([4, 1], [1, 0], False),
        ([4, 3], [3, 1], False), ([2, 6], [6, 1], True), ([4, 6], [12, 2], True), ([4, 6], [1, 4], False), ([1, 1], [0, 0], True),
    ],
)  # fmt: skip
def test_axes_that_a_tensor_steps_through_as_one(sizes: list[int], strides: list[int], can: bool) -> None:
    """The outer one may be a part of its axis, the inner one not, of which rows would be missing."""
    graph = AscGraph("two")
    axes = [graph.create_axis("a", 4), graph.create_axis("b", 6)]
    y = ops.Abs(ops.Load(ops.Data(graph, "x")))
    y.repeats, y.strides = [Size.of(n) for n in sizes], [Size.of(0 if n == 1 else s) for n, s in zip(sizes, strides)]
    assert mergeable(y, axes) is can
    assert in_order(y, axes) and in_order(y, axes[::-1]) is (sizes == [1, 1])


def test_axes_of_one_element_may_be_merged_from_anywhere() -> None:
    graph = AscGraph("ones")
    a, b, c = (graph.create_axis(name, size) for name, size in (("a", 4), ("b", 5), ("c", 6)))
    y = ops.Abs(ops.Load(ops.Data(graph, "x", sizes=[1, 5, 1])))
    merged = ascend.merge_axis(graph, [a, c])
    ascend.apply_tensor_merge(y.node, merged)
    assert (y.axis, y.repeats, y.strides) == ([merged, b], [1, 5], [0, 1])
    wide = ops.Abs(ops.Load(ops.Data(graph, "w", sizes=[4, 5, 1])))
    with pytest.raises(AscendError, match="merge-neighbours"):
        ascend.apply_tensor_merge(wide.node, merged)


def test_what_halves_and_merged_axes_say_of_tails() -> None:
    graph = AscGraph("facts")
    a, b = graph.create_axis("a", 7), graph.create_axis("b", 6, allow_unaligned_tail=False, allow_oversize_axis=True)
    outer, inner = ascend.tile_split(graph, b, 4)
    for half in (outer, inner):
        assert (half.align, half.allow_unaligned_tail, half.allow_oversize_axis) == (1, False, True)
    assert (str(outer.size), str(inner.size)) == ("2", "4") and a.align == -1
    other = AscGraph("merged")
    axes = [other.create_axis(n, 2, allow_unaligned_tail=n != "c") for n in "abcd"]
    assert ascend.merge_axis(other, axes[:2]).allow_unaligned_tail
    assert not ascend.merge_axis(other, axes[2:]).allow_unaligned_tail
    with pytest.raises(AscendError, match="axis-transformed-once"):
        ascend.merge_axis(other, axes[1:3])
    with pytest.raises(AscendError, match="merge-count"):
        ascend.merge_axis(AscGraph("none"), [])


def test_a_split_of_what_has_one_element() -> None:
    graph = AscGraph("single")
    graph.create_axis("z0", 8), graph.create_axis("z1", 1)
    part = ops.Abs(ops.Load(ops.Data(graph, "x", sizes=[1, 1])))
    whole = ops.Neg(ops.Load(ops.Data(graph, "y")))
    for axis, size in (("z0", 4), ("z1", 1)):
        ascend.apply_split(graph, *ascend.tile_split(graph, axis, size))
    assert part.repeats == [1, 1, 1, 1] and part.strides == [0, 0, 0, 0]
    assert whole.repeats == [2, 4, 1, 1] and whole.strides[:2] == [4, 1]
