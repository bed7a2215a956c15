"""Copies that this machine need not make: its local memory is a cache of the global one.

A load may be left out where the calls that read it step through global memory by ones: they read
the array itself. So may a store behind an elementwise call, which then writes the array itself.
What several calls read is still copied where that packs rows that stand far from each other.
A broadcast may be left out where elementwise calls read it, in rows long enough: they read one element
(or row) again and again.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvmagic.ascend.addressing import by_axis, coefficient
from tvmagic.ascend.graph import AscGraph, AscNode, AscTensor, Axis
from tvmagic.ascend.lifetimes import is_local, lifetimes, readers_through_broadcasts
from tvmagic.ascend.memory import place_of
from tvmagic.ascend.sizes import Size
from tvmagic.ascend.verifier import held_axes

_BY_ELEMENTS = ("elewise", "transpose", "gather")  # calls that compute each element of their result once
_LONG = 128  # elements of a row from which on a loop of its own is worth less than a copy


Readers = Mapping[AscTensor, list[AscNode]]


def stored_in(readers: Readers, store: AscNode) -> AscTensor:
    """The array in global memory that a store writes."""
    return next(n for n in readers[store.y] if n.op.is_buffer).y


def _by_ones(axes: list[Axis], strides: Mapping[int, Size]) -> bool:
    return not axes or coefficient(strides, axes[-1]).is_one


def _packed(node: AscNode, axes: list[Axis], strides: Mapping[int, Size]) -> bool:
    """Whether global memory holds what a call moves as densely as the local buffer."""
    local = {id(a): s for a, s in zip(node.y.vectorized_axis, node.y.vectorized_strides, strict=True)}
    return all(local.get(id(a)) == coefficient(strides, a) for a in axes)


def loads_in_place(graph: AscGraph) -> dict[int, AscNode]:
    """The loads that are left out: by the `id` of a load, or of a Ub2ub behind it alone, the load."""
    found: dict[int, AscNode] = {}
    readers = graph.readers()
    for node in graph.of_type("Load", "Ub2ub"):
        load = node if node.type == "Load" else found.get(id(node.inputs[0].node))
        if load is None:
            continue
        axes, strides = held_axes(node, node.y), by_axis(load, load.inputs[0])
        if _by_ones(axes, strides) and (len(readers[node.y]) == 1 or _packed(node, axes, strides)):
            found[id(node)] = load
    return found


def stores_in_place(graph: AscGraph) -> dict[int, AscNode]:
    """The stores that are left out, by the `id` of the node that writes in their place."""
    found: dict[int, AscNode] = {}
    readers = graph.readers()
    for store in graph.of_type("Store"):
        node = store.inputs[0].node
        same_loops = node.sched.loop_axis is store.sched.loop_axis and node.sched.axis == store.sched.axis
        if node.op.kind not in _BY_ELEMENTS or len(readers[node.y]) != 1 or not same_loops:
            continue
        if _by_ones(held_axes(node, node.y), by_axis(store, stored_in(readers, store))):
            found[id(node)] = store
    return found


def broadcasts_in_place(graph: AscGraph) -> dict[int, AscTensor]:
    """The broadcasts that are left out: what their readers read instead, by the `id` of a broadcast.

    What is read must not have been overwritten by then.
    """
    found: dict[int, AscTensor] = {}
    needed, readers = lifetimes(graph), graph.readers()
    sharing: dict[object, list[AscNode]] = {}
    for node in filter(is_local, graph.nodes):
        sharing.setdefault(place_of(node.y), []).append(node)
    places = {id(n): i for i, n in enumerate(graph.nodes)}
    for node in graph.of_type("Broadcast"):
        source = node.inputs[0]
        source = found.get(id(source.node), source)
        if source.node.type == "Broadcast" or not _read_by_elements(readers, node):
            continue
        place = place_of(source)
        others = sharing.get(place, []) if place is not None else []
        if source.node.op.is_number or (_long_rows(node) and not _overwritten(source.node, others, needed, places)):
            found[id(node)] = source
    return found


def _read_by_elements(readers: Readers, node: AscNode) -> bool:
    kinds = {n.op.kind for n in readers_through_broadcasts(readers, node)}
    return kinds <= {*_BY_ELEMENTS, "store", "broadcast"}


def _long_rows(node: AscNode) -> bool:
    axes = held_axes(node, node.y)
    if not axes:
        return True
    length = axes[-1].size.constant
    return length is None or length >= _LONG


def _overwritten(
    node: AscNode, sharing: list[AscNode], needed: Mapping[int, tuple[int, int]], places: Mapping[int, int]
) -> bool:
    """Whether another tensor in the buffer of a node (`sharing` are all in it) takes it before its last reader."""
    first, last = needed[id(node)]
    return any(places[id(n)] <= last and needed[id(n)][1] > first for n in sharing if n is not node)
