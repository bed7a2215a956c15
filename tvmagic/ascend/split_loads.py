"""Splits as loads at an offset: every part of what was loaded, or of what goes through workspace."""

from __future__ import annotations

from tvmagic.ascend import ops
from tvmagic.ascend.graph import AscGraph, AscNode, AscTensor, dense_strides
from tvmagic.ascend.sizes import Size
from tvmagic.ascend.verifier import axis_of, split_before
from tvmagic.passes import note


def split_parts(graph: AscGraph) -> AscGraph:
    """The graph with a Load for every output of a Split.

    A part of what a Load has loaded is loaded from the same array. What was computed is stored to workspace first, as the
    parts of one tile's rows are not in one place.
    """
    graph = graph.copy()
    order: list[AscNode] = []
    moved: dict[AscTensor, AscTensor] = {}
    starts = {n: split_before(n) for n in graph.of_type("Split")}
    arrays: dict[AscTensor, tuple[AscTensor, Size]] = {}
    for node in list(graph.nodes):
        node.inputs = [moved.get(x, x) for x in node.inputs]
        if node.type != "Split":
            order.append(node)
            continue
        known = len(graph.nodes)
        moved.update(_split_outputs(graph, node, starts, arrays))
        order += graph.nodes[known:]
        note("ascend.split", f"`{node.name}` becomes {len(node.outputs)} loads", axis=axis_of(node).name)
    needed = {id(x.node) for n in order for x in n.inputs}
    graph.nodes = [n for n in order if id(n) in needed or n.op.is_buffer]
    for place, node in enumerate(graph.nodes):
        node.sched.exec_order = place
    return graph


def _split_outputs(
    graph: AscGraph, node: AscNode, starts: dict[AscNode, Size], arrays: dict[AscTensor, tuple[AscTensor, Size]]
) -> dict[AscTensor, AscTensor]:
    source, axis, before = node.inputs[0], axis_of(node), starts[node]
    array, offset = arrays.get(source) or arrays.setdefault(source, _array(graph, node, source))
    found: dict[AscTensor, AscTensor] = {}
    for y in node.outputs:
        place = offset + before * array.stride(axis)
        found[y] = ops.Load(array, f"{node.name}_{y.name}", offset=place, sizes=y.repeats)
        before = before + y.repeat(axis)
    return found


def _array(graph: AscGraph, node: AscNode, source: AscTensor) -> tuple[AscTensor, Size]:
    """Where the parts are loaded from: the array of a Load, or new workspace."""
    if source.node.type == "Load":
        return source.node.inputs[0], Size.of(source.node.attr("offset"))
    stored = ops.Store(source, f"{node.name}_store")
    y = graph.add_node("Workspace", [stored], f"{node.name}_ws").y
    y.dtype, y.axis, y.repeats = source.dtype, list(source.axis), list(source.repeats)
    y.strides = dense_strides(y.repeats)
    y.mem.alloc_type, y.mem.hardware, y.mem.position = "Global", "GM", "GM"
    return y, Size.of(0)
