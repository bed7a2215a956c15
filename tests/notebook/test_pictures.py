"""Pictures: what stands beside the grid of a region, graphs of Ascend."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ascend_graphs import softmax

from tvmagic import ascend, te
from tvmagic.notebook import display
from tvmagic.notebook.pictures import asc_axes, asc_nodes, block_tree
from tvmagic.notebook.pictures.regions import grid_svg
from tvmagic.notebook.pictures.roofline import Point, roofline
from tvmagic.notebook.pictures.svg import Edge, Graph, Vertex
from tvmagic.operators import operator
from tvmagic.operators.peaks import Peaks


@pytest.mark.parametrize(
    "shape, labels", [((1, 16), ["5"]), ((2, 300), ["5-6"]), ((4, 4), ["5", "8"]), ((40, 8), ["5", "44"])]
)
def test_the_first_and_the_last_row_are_told_without_overlap(shape: tuple[int, int], labels: list[str]) -> None:
    grid = np.ones(shape, bool)
    svg = grid_svg(grid, grid, (5, 0), "Region", "words")
    found = re.findall(r'<text x="2" y="([\d.]+)"[^>]*>([^<]*)</text>', svg)
    assert [word for _, word in found] == labels
    heights = [float(y) for y, _ in found]
    assert all(b - a >= 12 for a, b in zip(heights, heights[1:]))


def test_a_graph_of_ascend_shows_axes_vectors_and_memory() -> None:
    a, r = te.placeholder((1000, 300), name="A"), te.reduce_axis((0, 300), name="r")
    rows = te.compute((1000,), lambda i: te.sum(te.exp(a[i, r]), axis=r), name="B")
    hint = ascend.hint_graph([rows], [a], "rows<b>")
    result = ascend.auto_schedule(hint)[0]
    impl = result.groups[0].impls[0].graph
    nodes, axes = asc_nodes(impl), asc_axes(impl)
    assert {v.key for v in nodes.vertices} == {n.name for n in impl.nodes}
    assert {(e.start, e.end) for e in nodes.edges} == {(t.node.name, n.name) for n in impl.nodes for t in n.inputs}
    text = nodes.words()
    assert "exp_0: Exp" in text and "vectors over" in text and "buffer 0" in text and "GM" in text
    assert {(e.start, e.end) for e in axes.edges} == {(f.name, a.name) for a in impl.axes for f in a.from_}
    assert any(e.end.endswith("B") for e in axes.edges) and "block_out" in axes.words()
    shown = display.shown(hint)
    assert shown is not None and "<b>" not in shown.html() and "rows&lt;b&gt;" in shown.html()
    assert "Axes of rows<b>" in shown.text() and "z0 = 1000 (original)" in shown.text()


def test_the_tiles_of_a_core_are_drawn_with_and_without_double_buffers() -> None:
    """Where a tile goes, and when: every word inside the drawing, the same in words, names as text."""
    graph = ascend.AscGraph("a<b>")
    graph.create_axis("z0", 4096), graph.create_axis("z1", 4096)
    x = ascend.ops.Load(ascend.ops.Data(graph, "<x>"))
    ascend.ops.Output(ascend.ops.Store(ascend.ops.Gelu(ascend.ops.Exp(x))), "y")
    tiling = ascend.auto_tiling(ascend.auto_schedule(graph), machine="atlas_a2")
    shown = display.shown(tiling)
    assert shown is not None
    page, words = shown.html(), shown.text(colour=False)
    assert "<script" not in page and "<x>" not in page and "&lt;x&gt;" in page and 'role="img"' in page
    (width,) = re.findall(r'<svg[^>]* width="(\d+)"', page)
    for place, size in re.findall(r'<rect x="([\d.]+)"[^>]* width="([\d.]+)"', page):
        assert float(place) + float(size) <= float(width)
    for place, word in re.findall(r'<text x="([\d.]+)" y="[\d.]+"(?: font-weight="600")?>([^<]*)</text>', page):
        assert float(place) + 5.2 * len(word) <= float(width) + 20, word
    tiles = choice.sizes["z0z1Tb_size"] if (choice := tiling.choices[0]) else 0
    assert f"tiles on 48 cores: one core takes {tiles}" in words
    assert "copy in <x> [4096, 4096]; compute Exp, Gelu; copy out y [4096, 4096]." in words
    assert "With one buffer in each queue 4 tiles take 100% of the time." in words
    share = re.search(r"With two buffers in each queue 4 tiles take (\d+)% of the time", words)
    assert share is not None and int(share.group(1)) < 90
    assert "BEGIN_TILING_DATA_DEF_T" in words and "assumed" in words


def test_a_queue_that_lends_its_memory_is_named_by_what_moves() -> None:
    """The queue that holds what is copied out is called so, though a result in between lies in it first."""
    shown = display.shown(ascend.auto_tiling(ascend.auto_schedule(softmax()), machine="atlas_a2"))
    assert shown is not None and "to copy out (q1): div_0, broadcast_0" in shown.text(colour=False)


def test_a_tiling_of_this_machine_is_drawn_too() -> None:
    graph = ascend.AscGraph("small")
    graph.create_axis("z0", 3)
    ascend.ops.Output(ascend.ops.Store(ascend.ops.Abs(ascend.ops.Load(ascend.ops.Data(graph, "x")))), "y")
    shown = display.shown(ascend.auto_tiling(ascend.auto_schedule(graph), machine=ascend.Machine()))
    assert shown is not None and re.search(
        r"on 1 core: (one core takes \d|each core takes one)", shown.text(colour=False)
    )


def test_a_long_arrow_goes_past_all_of_a_tall_box() -> None:
    graph = Graph("past", [Vertex("a", ["a"]), Vertex("b", ["b", "has", "many", "lines"]), Vertex("c", ["c"])])
    graph.edges += [Edge("a", "b"), Edge("b", "c"), Edge("a", "c")]
    svg, box = graph.svg(), graph.vertices[1]
    assert svg.count(f" {box.y + box.height:.1f}C") == 2  # where the arrow from b begins, and where the other may turn


def test_blocks_are_rows_in_the_order_of_the_program_and_no_arrow_crosses_a_box() -> None:
    """Also the words beside arrows are in rows of their own: nothing is drawn over anything else."""
    source = "X: float32[8, 4]\nM[i] = max(X[i, k], over=k)\nD[i, k] = X[i, k] - M[i]\nS[i] += D[i, k]\nY[i, k] = D[i, k] / S[i] + M[i]"
    tree = block_tree(operator("rows", source).to_prim_func())
    svg = tree.svg()
    boxes = [(v.lines[0], v.y) for v in tree.vertices]
    assert [y for _, y in boxes] == sorted({y for _, y in boxes}), "a row each"
    assert [name for name, _ in boxes if len(name) == 1] == ["M", "D", "S", "Y"]
    right = {
        float(y): float(x) + float(w)
        for x, y, w in re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"', svg)
    }
    arrows = re.findall(r'd="M([\d.]+) ([\d.]+)H([\d.]+)V([\d.]+)H([\d.]+)" fill="none" [^>]*marker-end', svg)
    assert len(arrows) == len([e for e in tree.edges if e.dashed]) == 5
    lanes: dict[str, list[tuple[float, float]]] = {}
    for start, leaves, lane, enters, end in arrows:
        assert float(lane) > max(right.values()) and min(float(start), float(end)) >= min(right.values())
        low, high = sorted((float(leaves), float(enters)))
        assert all(b < low or high < a for a, b in lanes.setdefault(lane, [])), "two arrows in one lane share no row"
        lanes[lane].append((low, high))
    assert svg.count(">RAW</text>") == 3, "one word for all arrows to a box"


def test_the_names_of_points_with_the_same_speed_are_apart() -> None:
    peaks = Peaks(1e11, 1e10)
    svg = roofline(peaks, [Point(name, 32.0, 1e9) for name in ("first", "second", "third")], "Roofline").svg
    heights = sorted(float(y) for y in re.findall(r'y="([\d.]+)"[^>]*>(?:first|second|third) ', svg))
    assert len(heights) == 3 and all(b - a >= 12 for a, b in zip(heights, heights[1:]))
