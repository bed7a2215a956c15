"""What each line of a dump says of the graph, and how each fact is printed: line by line, in both generations."""

from __future__ import annotations

import pytest
from refusals import refuses

from tvmagic import ascend
from tvmagic.ascend import AscendError, AscGraph, ops

HEAD = "Graph: g\nSizes:\n  n: VAR\n  m: CONST(4)\nAxis:\n"
AXES = "  a(0) : n, ORIGINAL, align: -1\n  b(1) : 6, ORIGINAL, align: -1\n"


NODE = (
    HEAD
    + AXES
    + "Nodes:\n  x: Data (0)\n    .ir_attr =  {.index = i: 0}\n    .axis = {a, b, }\n    .y.dtype = float32\n    .y.axis = {a, b, }\n"
)


def test_sizes_and_sections() -> None:
    graph = ascend.parse_graph(
        "Graph: my graph\nSizes:\n  n: VAR\n  m: CONST(12)\n  k: 7\nAxis:\n  a(0) : n, ORIGINAL\nNodes:\n"
    )
    assert (graph.name, graph.sizes, graph.generation, graph.nodes) == ("my graph", {"n": None, "m": 12, "k": 7}, 1, [])
    for text, rule in (
        ("Graph: g\nAxis:\nSizes:\n", "text"),
        ("Graph: g\nSizes:\nSizes:\n", "text"),
        ("Sizes:\n  n: VAR\nGraph: g\n", "text"),
        ("Graph: g\nSizes:\n  : VAR\n", "text"),
        ("Graph: g\nSizes:\n  n: CONST(x)\n", "text"),
        ("Graph: g\nAxis:\n  z(0) : n, ODD\n", "text"),
        ("Graph: g\nAxis:\n  z(0) : ORIGINAL\n", "text"),
        ("n: VAR\n", "text"),
        ("Graph: g\nNodes:\n  .x = a.y\n", "text"),
        (NODE + "    nothing\n", "text"),
        (NODE + "  x: Data (1)\n", "unique-name"),
        (NODE + "    .y.mem.tensor_id = 1.5\n", "text"),
        (NODE.replace("i: 0", "f: much"), "text"),
    ):
        with pytest.raises(AscendError) as raised:
            ascend.parse_graph(text)
        assert raised.value.rule == rule, text
        quoted = raised.value.message.split("`")
        if len(quoted) > 1 and raised.value.source_line and quoted[1] in raised.value.source_line:
            column = raised.value.source_line.index(quoted[1]) + 1
            assert (raised.value.span.column, raised.value.span.end_column) == (column, column + len(quoted[1]))


def test_nodes_are_found_by_name() -> None:
    graph = AscGraph("g")
    graph.create_axis("z0", 4)
    x = ops.Load(ops.Data(graph, "x"))
    y = ops.Abs(x)
    assert graph.find_node("abs_0") is y.node and ops.Abs(x).node.name == "abs_1"
    graph.nodes.remove(y.node)
    with refuses("ascend.node_known", error=AscendError, names="`abs_0`"):
        graph.find_node("abs_0")
    assert ops.Abs(x, name="abs_0").node is graph.find_node("abs_0")  # the name is free again
    with pytest.raises(AscendError, match="`abs_0`"):
        ops.Abs(x, name="abs_0")
    assert ops.Abs(x).node.name == "abs_2"
    with pytest.raises(AscendError, match="`abs_2`.*`y1`"):
        graph.nodes[-1].output("y1")
    assert graph.nodes[-1].output("y") is graph.nodes[-1].y
