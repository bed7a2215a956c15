"""From where to where in the order of the nodes the local buffer of a tensor is needed."""

from __future__ import annotations

from collections.abc import Mapping

from tvmagic.ascend.graph import AscGraph, AscNode, AscTensor


def is_local(node: AscNode) -> bool:
    """Whether what a node computes is in local memory."""
    return node.op.is_call and node.type != "Store"


def readers_through_broadcasts(readers: Mapping[AscTensor, list[AscNode]], node: AscNode) -> list[AscNode]:
    """The nodes that read a tensor, also through broadcasts, which may be left out; `readers` are those of each tensor."""
    found: list[AscNode] = []
    pending = [node]
    while pending:
        for reader in readers[pending.pop().y]:
            found.append(reader)
            if reader.type == "Broadcast":
                pending.append(reader)
    return found


def lifetimes(graph: AscGraph) -> dict[int, tuple[int, int]]:
    """First and last place in the order of the nodes at which a tensor's buffer is needed, by `id` of its node.

    What crosses the border of a loop is needed in all of its iterations.
    """
    places = {id(n): i for i, n in enumerate(graph.nodes)}
    depths = {i: _depth(n) for i, n in enumerate(graph.nodes) if n.op.is_call}
    most = max(depths.values())
    deepest = [i for i, d in depths.items() if d == most]
    nested = len(set(depths.values())) > 1
    begin, end = (deepest[0], deepest[-1]) if nested else (-1, -1)
    result: dict[int, tuple[int, int]] = {}
    readers = graph.readers()
    for node in filter(is_local, graph.nodes):
        first = places[id(node)]
        last = max([places[id(c)] for c in readers_through_broadcasts(readers, node)], default=first)
        if node.op.kind == "reduce" and begin <= first <= end:
            first = begin
        if first < begin <= last:
            last = max(last, end)
        result[id(node)] = first, last
    return result


def _depth(node: AscNode) -> int:
    loop = node.sched.loop_axis
    return next((i + 1 for i, a in enumerate(node.sched.axis) if a is loop), 0)
