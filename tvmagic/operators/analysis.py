"""Facts on functions that operators need."""

from __future__ import annotations

from typing import Any

from tvmagic.ir import Buffer, BufferStore, PrimFunc, Visitor, handles

__all__ = ["written_buffers"]


class _Writes(Visitor):
    def __init__(self) -> None:
        self.found: list[Buffer] = []

    @handles(BufferStore)
    def store(self, node: BufferStore) -> None:
        if all(node.buffer.data is not b.data for b in self.found):
            self.found.append(node.buffer)
        self.visit_children(node)


def written_buffers(func: PrimFunc) -> list[Any]:
    """The parameters' buffers that the function stores into, in the order of its parameters."""
    writes = _Writes()
    writes.visit(func.body)
    data = {b.data for b in writes.found}
    return [b for p in func.params if (b := func.buffer_map.get(p)) is not None and b.data in data]
