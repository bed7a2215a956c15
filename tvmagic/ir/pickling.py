"""Expressions as tables, so that pickling one that nests thousands of levels deep needs no deep stack.

Variables, buffers and tensors stay objects of their own: what a pickle holds twice is one object afterwards too.
"""

from __future__ import annotations

from typing import Any

from tvmagic.ir.container import JoinedTuple
from tvmagic.ir.deep_recursion import parts_of
from tvmagic.ir.methods import method_of
from tvmagic.ir.node import Node, slots_of
from tvmagic.ir.prim_expr import PrimExpr, class_of


class _At(int):
    """The place of a part in the table."""


_Row = tuple[type[Node], dict[str, Any]]


def pack(root: PrimExpr) -> list[_Row]:
    """The nodes of an expression, each after its parts, which it names by their places."""
    rows: list[_Row] = []
    places: dict[int, _At] = {}

    def place(value: Any) -> Any:
        items: list[Any] = list(value) if class_of(value) in (tuple, JoinedTuple) else []
        if any(id(item) in places for item in items):
            return [places.get(id(item), item) for item in items]
        return places.get(id(value), value)

    todo: list[Any] = [root]
    while todo:
        node = todo[-1]
        missing = [p for p in parts_of(node) if _is_inside(p) and id(p) not in places]
        if missing:
            todo += missing
            continue
        todo.pop()
        if id(node) not in places:
            cls = class_of(node)
            row = {name: place(getattr(node, name)) for name in slots_of(cls) if hasattr(node, name)}
            places[id(node)] = _At(len(rows))
            rows.append((cls, row))
    return rows


def _is_inside(node: Node) -> bool:
    return isinstance(node, PrimExpr) and bool(parts_of(node))


def unpack(rows: list[_Row]) -> PrimExpr:
    """The expression that `pack` made a table of."""
    nodes: list[Any] = []
    for cls, row in rows:
        node = cls.__new__(cls)
        for name, value in row.items():
            if isinstance(value, _At):
                value = nodes[value]
            elif isinstance(value, list):  # `pack` writes a tuple with parts as a list
                items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
                value = tuple([nodes[item] if isinstance(item, _At) else item for item in items])
            setattr(node, name, value)
        nodes.append(node)
    return nodes[-1]


@method_of(PrimExpr, name="__reduce_ex__")
def _reduce(self: PrimExpr, protocol: Any) -> Any:
    return (unpack, (pack(self),)) if parts_of(self) else super(PrimExpr, self).__reduce_ex__(protocol)
