"""Local memory of an ImplGraph: which tensors share a buffer.

A tensor's buffer is free again after its last use. Elementwise nodes may write in the place of an
input that they are the last to read. Buffers are shared by tensors of one type and equal size, or
of known sizes close to each other.
"""

from __future__ import annotations

from collections.abc import Collection

from tvmagic.ascend.graph import AscGraph, AscTensor
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
    ends: list[int] = []  # of each buffer, the last use of the tensor in it
    owners: list[AscTensor] = []
    for number, node in enumerate(graph.nodes):
        y = node.y
        y.mem.tensor_id = number
        if not is_local(node):
            continue
        first, last = needed[id(node)]
        in_place = {id(x) for x in node.inputs} if node.op.compute_type == "elewise" else set()
        chosen = -1
        for buffer, owner in enumerate(owners):
            same = owner.dtype == y.dtype and _fits(buffer_length(owner), buffer_length(y))
            over = ends[buffer] < first or (
                ends[buffer] == first and id(owner) in in_place and owner.vectorized_strides == y.vectorized_strides
            )
            if same and over:
                chosen = buffer
                break
        if chosen < 0:
            chosen = len(owners)
            owners.append(y)
            ends.append(last)
        else:
            note("ascend.reuse", f"`{y}` takes the buffer of `{owners[chosen]}`", buffer=chosen)
            owners[chosen], ends[chosen] = y, last
        moved = node.type == "Load"
        y.mem.hardware, y.mem.reuse_id = "UB", chosen
        y.mem.alloc_type, y.mem.position = ("Queue", "VECIN") if moved else ("Buffer", "VECCALC")
        y.mem.que_id, y.mem.que_depth, y.mem.buf_num = (chosen, 1, 1) if moved else (-1, -1, 1)
    return len(owners)


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
