"""Copies that this machine need not make: its local memory is a cache of the global one.

A load may be left out where the calls that read it step through global memory by ones: they read
the array itself. So may a store behind an elementwise call, which then writes the array itself.
What several calls read is still copied where that packs rows that stand far from each other.
A broadcast may be left out where elementwise calls read it, in rows long enough: they read one element
(or row) again and again.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvmagic.ascend.graph import AscGraph, AscNode, AscTensor, Axis
from tvmagic.ascend.lifetimes import is_local, lifetimes, readers
from tvmagic.ascend.places import by_axis, coefficient
from tvmagic.ascend.rules import calls_axes
from tvmagic.ascend.sizes import Size

__all__ = ["broadcasts_in_place", "loads_in_place", "stored_in", "stores_in_place"]

_LONG = 128  # elements of a row from which on a loop of its own is worth less than a copy


def stored_in(graph: AscGraph, store: AscNode) -> AscTensor:
    """The array in global memory that a store writes."""
    return next(n for n in graph.consumers(store.y) if n.op.is_buffer).y


def _held(node: AscNode) -> list[Axis]:
    return [a for a in calls_axes(node) if not node.y.repeat(a).is_one]


def _by_ones(axes: list[Axis], strides: Mapping[int, Size]) -> bool:
    return not axes or coefficient(strides, axes[-1]).is_one


def _packed(node: AscNode, axes: list[Axis], strides: Mapping[int, Size]) -> bool:
    """Whether global memory holds what a call moves as densely as the local buffer."""
    local = {id(a): s for a, s in zip(node.y.vectorized_axis, node.y.vectorized_strides, strict=True)}
    return all(local.get(id(a)) == coefficient(strides, a) for a in axes)


def loads_in_place(graph: AscGraph) -> dict[int, AscTensor]:
    """The loads that are left out: the array in global memory by the `id` of a load."""
    found: dict[int, AscTensor] = {}
    for node in graph.of_type("Load"):
        source, axes = node.inputs[0], _held(node)
        strides = by_axis(source)
        if _by_ones(axes, strides) and (len(graph.consumers(node.y)) == 1 or _packed(node, axes, strides)):
            found[id(node)] = source
    return found


def stores_in_place(graph: AscGraph) -> dict[int, AscNode]:
    """The stores that are left out, by the `id` of the node that writes in their place."""
    found: dict[int, AscNode] = {}
    for store in graph.of_type("Store"):
        node = store.inputs[0].node
        same_loops = node.sched.loop_axis is store.sched.loop_axis and node.sched.axis == store.sched.axis
        if node.op.compute_type != "elewise" or len(graph.consumers(node.y)) != 1 or not same_loops:
            continue
        if _by_ones(_held(node), by_axis(stored_in(graph, store))):
            found[id(node)] = store
    return found


def broadcasts_in_place(graph: AscGraph) -> dict[int, AscTensor]:
    """The broadcasts that are left out: what their readers read instead, by the `id` of a broadcast.

    What is read must not have been overwritten by then.
    """
    found: dict[int, AscTensor] = {}
    needed = lifetimes(graph)
    places = {id(n): i for i, n in enumerate(graph.nodes)}
    for node in graph.of_type("Broadcast"):
        source = node.inputs[0]
        source = found.get(id(source.node), source)
        if source.node.type == "Broadcast" or not _read_by_elements(graph, node):
            continue
        if source.node.type == "Scalar" or (_long_rows(node) and not _overwritten(graph, source.node, needed, places)):
            found[id(node)] = source
    return found


def _read_by_elements(graph: AscGraph, node: AscNode) -> bool:
    kinds = {n.op.compute_type for n in readers(graph, node)}
    return kinds <= {"elewise", "store", "broadcast"}


def _long_rows(node: AscNode) -> bool:
    axes = _held(node)
    if not axes:
        return True
    length = axes[-1].size.constant
    return length is None or length >= _LONG


def _overwritten(
    graph: AscGraph, node: AscNode, needed: Mapping[int, tuple[int, int]], places: Mapping[int, int]
) -> bool:
    """Whether another tensor takes the buffer of a node before its last reader."""
    buffer = node.y.mem.reuse_id
    if buffer < 0:
        return False
    first, last = needed[id(node)]
    others = (n for n in graph.nodes if n is not node and is_local(n) and n.y.mem.reuse_id == buffer)
    return any(places[id(n)] <= last and needed[id(n)][1] > first for n in others)
