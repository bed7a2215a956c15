"""Graphs of Ascend: nodes with their axes and memory, and the axes with what they were made of."""

from __future__ import annotations

from typing import Any

from tvmagic.notebook.pictures.svg import Edge, Graph, Vertex

_ROUND = {"Data": "input", "Scalar": "input", "Output": "output"}


def asc_nodes(graph: Any) -> Graph:
    """The nodes of an `AscGraph`: type, axes with sizes, the loop axis, vectorized axes, and where the output lives."""
    data = graph.describe()
    drawn = Graph(f"Nodes of {data['name']}")
    for node in data["nodes"]:
        lines = [f"{node['name']}: {node['type']}", _tensor(node)]
        if node["vectorized_axis"]:
            loops = f"loops to {node['loop_axis']}, " if node["loop_axis"] else ""
            lines.append(f"{loops}vectors over {', '.join(node['vectorized_axis'])}")
        lines += _memory(node["mem"])
        tone = _ROUND.get(node["type"], "panel")
        strides = ", ".join(f"{a}: {s}" for a, s in zip(node["tensor_axis"], node["strides"]))
        shape = "round" if tone == "input" else "box"
        drawn.vertices.append(Vertex(node["name"], lines, shape, tone, f"strides {strides}" if strides else ""))
    drawn.edges = [Edge(start, end) for start, end in data["edges"]]
    return drawn


def _tensor(node: dict[str, Any]) -> str:
    """The type of a node's output: its axes, whose sizes are in the picture of axes; `=1` if it is broadcast or reduced."""
    sides = " ".join(axis + "=1" * (size == "1") for axis, size in zip(node["tensor_axis"], node["repeats"]))
    return f"{node['dtype']}[{sides}]"


def _memory(mem: dict[str, Any]) -> list[str]:
    """The memory of a tensor as a line, if one was chosen."""
    parts = [part for part in dict.fromkeys((mem["hardware"], mem["position"])) if part]
    if mem["que"]["id"] >= 0:
        parts.append(f"queue {mem['que']['id']}")
    if mem["buf"]["id"] >= 0:
        parts.append(f"buffer {mem['buf']['id']}")
    return [" ".join(parts)] if parts else []


def asc_axes(graph: Any) -> Graph:
    """The axes of an `AscGraph`: an arrow from each to the axes that splits and merges made of it."""
    data = graph.describe()
    drawn = Graph(f"Axes of {data['name']}")
    for axis in data["axes"]:
        tone = "panel" if axis["from"] else "input"
        drawn.vertices.append(
            Vertex(axis["name"], [f"{axis['name']} = {axis['size']}", axis["type"].lower()], "round", tone)
        )
        drawn.edges += [Edge(start, axis["name"]) for start in axis["from"]]
    return drawn
