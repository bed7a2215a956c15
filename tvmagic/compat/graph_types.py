"""Types of graphs of operators: of tensors, and with variables, constraints and relations between types.

Nothing here checks a program with them. They are what code that describes such types is made of, and compare, print,
hash and become JSON as all types do.
"""

from __future__ import annotations

import enum
from typing import Any

from tvmagic.errors import WrongValueError
from tvmagic.ir import FuncType
from tvmagic.ir.derive import node
from tvmagic.ir.dtype import DataType, dtype_of
from tvmagic.ir.equal import COMPARE, Comparison
from tvmagic.ir.hash import HASH
from tvmagic.ir.node import Name, Node, Object, Span
from tvmagic.ir.prim_expr import IntImm, PrimExpr, Type, exprs
from tvmagic.script.printer.core import ATOM, Printer, Text, prints

__all__ = [
    "GlobalTypeVar", "IncompleteType", "RelayRefType", "TensorType", "TypeCall", "TypeConstraint", "TypeKind",
    "TypeRelation", "TypeVar",
]  # fmt: skip


class TypeKind(enum.IntEnum):
    """What a variable of types stands for."""

    Type = 0
    ShapeVar = 1
    BaseType = 2
    Constraint = 4
    AdtHandle = 5
    TypeData = 6


@node
class TensorType(Type):
    """A tensor of a shape, each size an expression, with elements of type `dtype`."""

    shape: tuple[PrimExpr, ...]
    dtype: DataType

    def __init__(self, shape: Any, dtype: Any = "float32", span: Span | None = None) -> None:
        if isinstance(shape, str):
            raise WrongValueError(
                f"the shape of a tensor is a sequence of sizes, not the text `{shape}`",
                code="tensor_type.shape_is_text",
            )
        self.shape = exprs(shape)
        self.dtype = dtype_of(dtype)
        self.span = span

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """The sizes as numbers."""
        for size in self.shape:
            if not isinstance(size, IntImm):
                raise WrongValueError(
                    f"the size `{size}` of a tensor is not a constant", code="tensor_type.symbolic_size"
                )
        return tuple([size.value for size in self.shape if isinstance(size, IntImm)])


@node
class TypeVar(Type):
    """A variable that stands for a type. Like other variables, it is what it is by identity."""

    name_hint: Name
    kind: int = TypeKind.Type

    def __call__(self, *args: Any) -> TypeCall:
        return TypeCall(self, args)


@node
class GlobalTypeVar(TypeVar):
    """A variable that stands for a type that a module defines."""

    name_hint: Name
    kind: int = TypeKind.AdtHandle


@node
class TypeConstraint(Type):
    """What types have to fulfil."""


@node
class TypeCall(Type):
    """A type made of others by a function of types."""

    func: Type
    args: tuple[Type, ...]


@node
class TypeRelation(TypeConstraint):
    """A relation of types, checked by a function: the first `num_inputs` of `args` are inputs, the others outputs."""

    func: Object
    args: tuple[Type, ...]
    num_inputs: int
    attrs: Object = None


@node
class IncompleteType(Type):
    """A type that is not known yet, of a kind that is."""

    kind: int = TypeKind.Type


@node
class RelayRefType(Type):
    """A reference to a value of a type."""

    value: Type


def _same_variable(state: Comparison, a: TypeVar, b: TypeVar) -> bool:
    known = state.forward.get(id(a))
    if known is not None:
        return known == id(b)
    same = a is b or (state.map_free and a.kind == b.kind and id(b) not in state.backward)
    return same and state.bind(a, b)


COMPARE.update(dict.fromkeys((TypeVar, GlobalTypeVar), _same_variable))
HASH.update(dict.fromkeys((TypeVar, GlobalTypeVar), lambda numbers, var: hash(("type variable", int(var.kind)))))


# ---------------------------------------------------------------------------- text, for people to read and not for the parser


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


def _operand_text(printer: Printer, value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join([_operand_text(printer, item) for item in value])}]"
    return printer.text(value) if isinstance(value, Node) else str(value)


@prints(*_SHOWN)
def _type(printer: Printer, node: Node) -> Text:
    parts = [_operand_text(printer, getattr(node, name)) for name in _SHOWN[type(node)].split()]
    return f"{type(node).__name__}({', '.join(parts)})", ATOM
