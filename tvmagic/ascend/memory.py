"""Local memory of an ImplGraph: which tensors share a buffer.

A tensor's buffer is free again after its last use. Elementwise nodes may write in the place of an
input that they are the last to read. Buffers are shared by tensors of one type and equal size, or
of known sizes close to each other.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Sequence
from heapq import heappop, heappush

from tvmagic.ascend.graph import AscGraph, AscNode, AscTensor, Queue
from tvmagic.ascend.lifetimes import is_local, lifetimes
from tvmagic.ascend.lower import buffer_length
from tvmagic.ascend.sizes import Size
from tvmagic.passes import note

__all__ = ["assign_memory", "local_buffers"]

_CLOSE = 2  # known sizes within this factor share


def _fits(a: Size, b: Size) -> bool:
    if a == b:
        return True
    x, y = a.constant, b.constant
    return x is not None and y is not None and max(x, y) <= _CLOSE * min(x, y)


def assign_memory(graph: AscGraph) -> int:
    """Give each tensor its memory attributes; returns how many local buffers there are."""
    needed = lifetimes(graph)
    owners: list[AscTensor] = []  # of each buffer, the last tensor in it, and that one's length
    lengths: list[Size] = []
    ends: list[int] = []  # its last use; -1 where it is free
    busy: list[tuple[int, int]] = []  # a heap of last uses, some of them out of date, with the buffer of each
    free: dict[str, list[int]] = {}  # buffers by type, in order
    for number, node in enumerate(graph.nodes):
        node.y.mem.tensor_id = number
    for node in sorted(filter(is_local, graph.nodes), key=lambda n: needed[id(n)][0]):
        y = node.y
        (first, last), length = needed[id(node)], buffer_length(y)
        while busy and busy[0][0] < first:
            end, buffer = heappop(busy)
            if end == ends[buffer]:
                ends[buffer] = -1
                insort(free.setdefault(owners[buffer].dtype, []), buffer)
        chosen = next((b for b in free.get(y.dtype, ()) if _fits(lengths[b], length)), -1)
        over = [b for b in _written_over(node, owners) if ends[b] == first and _fits(lengths[b], length)]
        if over and (chosen < 0 or min(over) < chosen):
            chosen = min(over)
        elif chosen >= 0:
            free[y.dtype].remove(chosen)
        if chosen < 0:
            chosen = len(owners)
            owners.append(y)
            lengths.append(length)
            ends.append(last)
        else:
            note("ascend.reuse", f"`{y}` takes the buffer of `{owners[chosen]}`", buffer=chosen)
            owners[chosen], lengths[chosen], ends[chosen] = y, length, last
        heappush(busy, (last, chosen))
        moved = node.op.unit == "MTE2"
        y.mem.hardware, y.mem.reuse_id = "UB", chosen
        y.mem.alloc_type, y.mem.position = ("Queue", "VECIN") if moved else ("Buffer", "VECCALC")
        y.mem.que = Queue(chosen, 1, 1) if moved else Queue(buf_num=1)
    return len(owners)


def _written_over(node: AscNode, owners: Sequence[AscTensor]) -> list[int]:
    """The buffers of the inputs that an elementwise node may write its result over, where none reads them later."""
    if node.op.compute_type != "elewise":
        return []
    y, buffers = node.y, {x.mem.reuse_id: x for x in node.inputs if is_local(x.node)}
    return [
        b for b, x in buffers.items()
        if owners[b] is x and x.dtype == y.dtype and x.vectorized_strides == y.vectorized_strides
    ]  # fmt: skip


def local_buffers(graph: AscGraph, left_out: Collection[int] = ()) -> list[tuple[Size, str]]:
    """The length and type of each local buffer, those of nodes by `id` left out; of tensors that share one, of the first."""
    found: dict[int, tuple[Size, str]] = {}
    for node in filter(is_local, graph.nodes):
        if id(node) in left_out:
            continue
        y = node.y
        old = found.get(y.mem.reuse_id)
        length = buffer_length(y)
        if old is None or (old[0].constant or 0) < (length.constant or 0):
            found[y.mem.reuse_id] = length, y.dtype
    return list(found.values())
