"""Queues that are short: copies within local memory, so that no more tensors wait in queues than there are queues.

A tensor that was loaded and is read much later leaves its queue by a `Ub2ub` behind its load; a result that is stored much
later enters its queue by one in front of its store.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from tvmagic.ascend.graph import AscGraph, AscNode, AscTensor
from tvmagic.ascend.lifetimes import is_local, lifetimes
from tvmagic.passes import note

MOST_QUEUES = 4  # VECIN, and as many VECOUT
Readers = Mapping[AscTensor, list[AscNode]]
Life = tuple[int, int]


def in_queue(readers: Readers, y: AscTensor) -> bool:
    """Whether a tensor goes from one hardware unit to another: what is loaded or gathered, and what another unit reads."""
    unit = y.node.op.unit
    return unit == "MTE2" or any(n.op.unit != unit for n in readers[y])


def load_groups(graph: AscGraph, readers: Readers) -> list[list[AscTensor]]:
    """The tensors that are loaded, in order; together those that lie side by side, as one node alone reads them."""
    found: dict[object, list[AscTensor]] = {}
    for node in filter(is_local, graph.nodes):
        if node.op.unit != "MTE2":
            continue
        alone = len(readers[node.y]) == 1 and node.type == "Load"
        key = (id(readers[node.y][0]), id(node.sched.loop_axis)) if alone else id(node)
        found.setdefault(key, []).append(node.y)
    return list(found.values())


def _too_many(lives: list[Life], again: bool) -> set[int]:
    """Which lives are to be cut short, so that at most `MOST_QUEUES` overlap.

    Of those that overlap the one with the latest end is cut: to its start, which was before; or (`again`) to its end,
    at which it begins once more.
    """
    cut: set[int] = set()
    events = [(first, number) for number, (first, _) in enumerate(lives)]
    heapify(events)
    live: list[tuple[int, int]] = []  # (-end, number)
    while events:
        now, number = heappop(events)
        live = [(end, n) for end, n in live if -end >= now]
        if len(live) >= MOST_QUEUES:
            end, longest = min(live)
            if again and lives[number][1] > -end and number not in cut:
                cut.add(number)
                heappush(events, (lives[number][1], number))
                continue
            if longest not in cut:
                cut.add(longest)
                if again:
                    heappush(events, (-end, longest))
            live.remove((end, longest))
        live.append((-lives[number][1], number))
    return cut


def shorten_lives(graph: AscGraph) -> int:
    """Put in copies where more tensors than queues would wait at once; returns how many."""
    readers, lives = graph.readers(), lifetimes(graph)
    groups = load_groups(graph, readers)
    spans = [(min(lives[id(y.node)][0] for y in g), max(lives[id(y.node)][1] for y in g)) for g in groups]
    behind = {y.node: y for i in _too_many(spans, False) for y in groups[i]}
    results = [
        n.y for n in graph.nodes if is_local(n) and n.op.unit != "MTE2" and in_queue(readers, n.y)
    ]  # fmt: skip
    cut = _too_many([lives[id(y.node)] for y in results], True)
    before = {store: results[i] for i in cut for store in readers[results[i]] if store.op.unit == "MTE3"}
    order: list[AscNode] = []
    for node in graph.nodes:
        if node in before:
            order.append(_copy(graph, before[node], [node]))
        order.append(node)
        if node in behind:
            order.append(_copy(graph, node.y, readers[node.y]))
    graph.nodes = order
    for place, node in enumerate(order):
        node.sched.exec_order = place
    return len(behind) + len(before)


def _copy(graph: AscGraph, x: AscTensor, readers: list[AscNode]) -> AscNode:
    """A copy of a tensor, which some nodes read instead."""
    node = graph.add_node("Ub2ub", [x])
    graph.nodes.pop()
    node.sched.axis, node.sched.loop_axis = list(x.node.sched.axis), x.node.sched.loop_axis
    y = node.y
    y.dtype, y.axis, y.repeats, y.strides = x.dtype, list(x.axis), list(x.repeats), list(x.strides)
    y.vectorized_axis, y.vectorized_strides = list(x.vectorized_axis), list(x.vectorized_strides)
    for reader in readers:
        reader.inputs = [y if t is x else t for t in reader.inputs]
    note("ascend.ub2ub", f"`{node.name}` copies `{x}`, so that its queue is free")
    return node
