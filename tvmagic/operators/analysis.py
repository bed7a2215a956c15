"""Facts on functions that operators need."""

from __future__ import annotations

from typing import Any

from tvmagic.ir import Buffer, BufferLoad, BufferStore, PrimFunc, Visitor, handles

__all__ = ["read_before_written", "written_buffers"]


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


class _Order(Visitor):
    """Which buffers are stored into, and the first load of each that comes before any store."""

    def __init__(self) -> None:
        self.stored: set[Any] = set()
        self.early: dict[Any, BufferLoad] = {}

    @handles(BufferStore)
    def store(self, node: BufferStore) -> None:
        self.visit_children(node)
        self.stored.add(node.buffer.data)

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> None:
        self.visit_children(node)
        if node.buffer.data not in self.stored:
            self.early.setdefault(node.buffer.data, node)


def read_before_written(func: PrimFunc, outputs: list[Any]) -> BufferLoad | None:
    """The load of an output that stands before all stores into it: what it reads is not computed yet."""
    order = _Order()
    order.visit(func.body)
    return next((order.early[b.data] for b in outputs if b.data in order.early), None)
