"""Text of the types of graphs, as constructors: they are for people to read, not for the parser."""

from __future__ import annotations

from typing import Any

from tvmagic.compat.graph_types import (
    GlobalTypeVar,
    IncompleteType,
    RelayRefType,
    TensorType,
    TypeCall,
    TypeConstraint,
    TypeRelation,
    TypeVar,
)
from tvmagic.ir import FuncType
from tvmagic.ir.node import Node
from tvmagic.script.printer.core import ATOM, Printer, Text, prints

_SHOWN: dict[type[Node], str] = {
    TensorType: "shape dtype",
    TypeVar: "name_hint",
    GlobalTypeVar: "name_hint",
    TypeConstraint: "",
    TypeCall: "func args",
    TypeRelation: "args num_inputs",
    IncompleteType: "",
    RelayRefType: "value",
    FuncType: "type_params arg_types ret_type type_constraints",
}


def _part(printer: Printer, value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join([_part(printer, item) for item in value])}]"
    return printer.text(value) if isinstance(value, Node) else str(value)


@prints(*_SHOWN)
def _type(printer: Printer, node: Node) -> Text:
    parts = [_part(printer, getattr(node, name)) for name in _SHOWN[type(node)].split()]
    return f"{type(node).__name__}({', '.join(parts)})", ATOM
