"""Sums and decisions of Ascend's graphs that few graphs come to."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from dump_texts import SHORT

import tvmagic
from tvmagic import ascend
from tvmagic.ascend import AscGraph, AscTensor, Axis, TmpBuffer, ops
from tvmagic.ascend.autoschedule import merge_axes
from tvmagic.ascend.npu import local_sizes
from tvmagic.ascend.places import _one_step, seen_from
from tvmagic.ascend.rules import _spanned
from tvmagic.ascend.sizes import Size
from tvmagic.ascend.transforms import are_neighbours, mergeable


@pytest.mark.parametrize(
    ("repeats", "strides", "elements"),
    [
        ([], [], 1),
        ([1], [7], 1),
        ([8], [1], 8),
        ([8], [2], 15),
        ([3, 4], [4, 1], 12),
        ([3, 4], [10, 2], 27),
        ([5, 1], [0, 1], 1),
    ],
)
def test_how_far_a_tensor_reaches(repeats: list[int], strides: list[int], elements: int) -> None:
    assert _spanned([Size.of(n) for n in repeats], [Size.of(n) for n in strides]) == elements


def test_which_axes_are_neighbours() -> None:
    graph = AscGraph("axes")
    a, b, c = (graph.create_axis(f"z{n}", 4 + n) for n in range(3))
    assert (
        are_neighbours([a, b, c], [a, b]) and are_neighbours([a, b, c], [b, c]) and are_neighbours([a, b, c], [a, b, c])
    )
    assert not are_neighbours([a, b, c], [a, c]) and not are_neighbours([a, b, c], [b, a])
    assert not are_neighbours([a, b], [b, c]) and not are_neighbours([a, b], [c]) and not are_neighbours([a, b], [])


def test_the_outer_half_of_a_split_is_a_neighbour_wherever_the_inner_one_is() -> None:
    graph = AscGraph("halves")
    a, b = graph.create_axis("z0", 4), graph.create_axis("z1", 6)
    outer, inner = ascend.tile_split(graph, b, 2)
    for order in ([inner, a, outer], [a, outer], [inner, a, outer, graph.create_axis("z2", 3)]):
        assert are_neighbours(order, [a, outer])
    assert are_neighbours([a, outer, inner], [outer, inner]) and are_neighbours([outer, inner, a], [inner, a])


def test_the_inner_half_of_a_split_is_a_neighbour_only_right_behind_the_outer_one() -> None:
    graph = AscGraph("halves")
    a, b = graph.create_axis("z0", 4), graph.create_axis("z1", 6)
    outer, inner = ascend.tile_split(graph, b, 2)
    assert are_neighbours([a, outer, inner], [outer, inner]) and are_neighbours([outer, inner, a], [inner, a])
    for order in ([outer, a, inner], [a, inner, outer], [a, inner]):
        assert not are_neighbours(order, [a, inner])
    for order in ([inner, a, outer], [inner, a]):
        assert not are_neighbours(order, [inner, a])


# ---------------------------------------------------------------------------- axes as one


def places_of(repeats: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Where each element is, the last axis moving first."""
    return [sum(i * s for i, s in zip(at, strides)) for at in itertools.product(*map(range, repeats))]


def test_axes_that_a_tensor_steps_through_as_through_one() -> None:
    """Those of one element aside: with one stride from each place to the next, or not at all."""
    graph = AscGraph("axes")
    found = 0
    for sizes in itertools.product((1, 2, 3), repeat=3):
        axes = [Axis(n, f"z{n}", Size.of(size)) for n, size in enumerate(sizes)]
        for held in itertools.product((False, True), repeat=3):
            repeats = [size if h else 1 for size, h in zip(sizes, held)]
            for steps in itertools.product((1, 2, 6), repeat=3):
                strides = [step if r > 1 else 0 for step, r in zip(steps, repeats)]
                wide = [r for size, r in zip(sizes, repeats) if size > 1]
                at = places_of(repeats, strides)
                even = len({b - a for a, b in itertools.pairwise(at)}) < 2
                whole = all(r > 1 for r in wide)
                as_one = not any(r > 1 for r in wide) or (whole and even)
                given = [Size.of(r) for r in repeats], [Size.of(s) for s in strides]
                assert _one_step([0, 1, 2], axes, *given) is as_one, (sizes, repeats, strides)
                found += as_one
                y = AscTensor(graph.add_node("Data"), axis=axes, repeats=given[0], strides=given[1])
                graph.nodes.clear()
                graph._named.clear()
                assert mergeable(y, axes) is as_one
    assert found > 100


def test_axes_apart_in_memory_are_not_one() -> None:
    a, b, c = (Axis(n, f"z{n}", Size.of(2)) for n in range(3))
    two, one = [Size.of(2)] * 3, [Size.of(4), Size.of(2), Size.of(1)]
    assert _one_step([0, 1], [a, b, c], two, one) and _one_step([1, 2], [a, b, c], two, one)
    assert not _one_step([0, 2], [a, b, c], two, one) and not _one_step([1, 0], [a, b, c], two, one)
    assert _one_step([0, 2], [a, b, c], [Size.of(1), Size.of(2), Size.of(1)], [Size.of(0), Size.of(1), Size.of(0)])


@pytest.mark.parametrize(
    ("sizes", "strides", "seen"),
    [
        ([4, 6], [6, 1], "z0z1 24 1"), ([3, 6], [6, 1], "z0z1 18 1"), ([1, 1], [0, 0], "z0z1 1 0"), ([1, 6], [0, 1], "z0 1 0, z1 6 1"),
        ([4, 1], [1, 0], "z0 4 1, z1 1 0"), ([4, 6], [7, 1], "z0 4 7, z1 6 1"), ([4, 6], [1, 4], "z0 4 1, z1 6 4"), ([4, 5], [5, 1], "z0 4 5, z1 5 1"),
    ],
)  # fmt: skip
def test_an_array_as_a_move_along_merged_axes_sees_it(sizes: list[int], strides: list[int], seen: str) -> None:
    """Along one axis if its elements follow each other; of a table, if it has one of the axes alone."""
    graph = AscGraph("seen")
    axes = [graph.create_axis("z0", 4), graph.create_axis("z1", 6)]
    x, at = ops.Data(graph, "x"), ops.Load(ops.Data(graph, "i", [axes[0]], dtype="int32"))
    x.repeats, x.strides = [Size.of(n) for n in sizes], [Size.of(n) for n in strides]
    merged = ascend.merge_axis(graph, axes)
    for move in (ops.Load(x).node, ops.Gather(x, at, axes[0]).node):
        move.sched.axis = [merged]
        facts = ", ".join(f"{a.name} {r} {s}" for a, r, s in zip(*seen_from(move, x), strict=True))
        one = move.type == "Gather" and 1 in sizes and sizes != [1, 1]
        assert facts == (f"z0z1 {max(sizes)} 1" if one else seen)


def test_a_broadcast_between_others_is_passed_over_only_along_the_merged_axes() -> None:
    """Along `z0`, then `z2`, then `z1`: what is repeated along `z2` in between keeps `z0` and `z1` apart."""
    for order, merged in (((0, 2, 1), ["z0", "z1z2"]), ((0, 1, 2), ["z0z1z2"]), ((2, 1, 0), ["z0z1z2"])):
        graph = AscGraph("between")
        axes = [graph.create_axis(f"z{n}", size) for n, size in enumerate((4, 6, 5))]
        x = y = ops.Load(ops.Data(graph, "x", sizes=[1, 1, 1]))
        for place in order:
            y = ops.Broadcast(y, axes[place])
        ops.Output(ops.Store(ops.Add(y, ops.Load(ops.Data(graph, "w")))), "out")
        assert x.repeats == [1, 1, 1] and [a.name for a in merge_axes(graph).sched_axes] == merged
        given = [np.full((1, 1, 1), 2, "float32"), np.arange(120, dtype="float32").reshape(4, 6, 5)]
        out = np.zeros((4, 6, 5), "float32")
        tvmagic.build(ascend.compile_graph(graph, machine=ascend.Machine(threads=1)))(*given, out)
        np.testing.assert_array_equal(out, given[1] + 2)


# ---------------------------------------------------------------------------- names, temporaries, calls without loops


def test_names_of_nodes_that_are_taken() -> None:
    graph = AscGraph("names")
    graph.create_axis("z0", 4)
    x = ops.Load(ops.Data(graph, "x"), name="abs_1")
    assert [ops.Abs(x).node.name for _ in range(3)] == ["abs_0", "abs_2", "abs_3"]


def test_bytes_of_temporaries_are_whole_blocks() -> None:
    graph = ascend.parse_graph(SHORT)
    sizes = {"s0": 40, "z0t_size": 8}
    before = local_sizes(graph, sizes)
    assert before["tmp"] == (8192, 1) and [*before] == ["q0", "q1", "q2", "b0", "tmp"]
    graph.nodes[-1].tmp_buffers = [TmpBuffer(2, Size.of("z0t_size") * 5), TmpBuffer(3, Size.of(1))]
    assert local_sizes(graph, sizes)["tmp"] == (8192 + 64 + 32, 1)
    assert local_sizes(graph, sizes, 512)["tmp"] == (8192 + 2 * 512, 1)
    for node in graph.nodes:
        node.tmp_buffers = []
    assert local_sizes(graph, sizes) == {name: found for name, found in before.items() if name != "tmp"}


def test_a_sum_of_one_element_a_call() -> None:
    """All axes are loops, so that a call has none."""
    graph = AscGraph("each")
    z1 = [graph.create_axis("z0", 4), graph.create_axis("z1", 6)][1]
    ops.Output(ops.Store(ops.Sum(ops.Load(ops.Data(graph, "x")), z1)), "out")
    for node in graph.nodes:
        if node.op.is_call:
            node.sched.loop_axis = z1
    x, out = np.arange(24, dtype="float32").reshape(4, 6), np.full((4, 1), 7, "float32")
    tvmagic.build(ascend.lower_graph(graph))(x, out)
    np.testing.assert_array_equal(out, x.sum(1, keepdims=True))
