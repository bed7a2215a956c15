"""Whether every variable is defined once, and which variables a statement takes from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic.ir import AttrStmt, Buffer, Let, PrimFunc, Var, Visitor, handles
from tvmagic.ir.deep_equal import expr_deep_equal
from tvmagic.ir.query import launches_thread


class _Definitions(Visitor):
    def __init__(self) -> None:
        self.defined: set[Var] = set()
        self.lets: dict[Var, Any] = {}
        self.single = True

    def visit_var_def(self, var: Var) -> None:
        self.single = self.single and var not in self.defined
        self.defined.add(var)

    @handles(Let)
    def let(self, node: Let) -> None:
        # the same let may be in several places of an expression
        known = self.lets.get(node.var)
        if known is None or not expr_deep_equal(known, node.value):
            self.visit_var_def(node.var)
            self.lets[node.var] = node.value
        self.visit(node.value)
        self.visit(node.body)


def verify_ssa(func: PrimFunc) -> bool:
    """Whether every variable of `func` is defined once."""
    visitor = _Definitions()
    for param in func.params:
        visitor.visit_var_def(param)
    visitor.visit(func.body)
    return visitor.single


class _Undefined(Visitor):
    def __init__(self, defined: Sequence[Var]) -> None:
        self.defined = set(defined)
        self.found: dict[Var, None] = {}

    @handles(Var)
    def var(self, var: Var) -> None:
        if var not in self.defined:
            self.found[var] = None

    def visit_var_def(self, var: Var) -> None:
        self.defined.add(var)

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> None:
        if launches_thread(node):
            self.defined.add(node.node.var)
        self.visit_children(node)

    def visit_buffer_use(self, buffer: Buffer) -> None:
        for field in (buffer.data, *buffer.shape, *buffer.strides, buffer.elem_offset):
            self.visit(field)

    def visit_buffer_def(self, buffer: Buffer) -> None:
        self.defined.add(buffer.data)
        self.visit_buffer_use(buffer)


def undefined_vars(node: Any, defs: Sequence[Var] = ()) -> list[Var]:
    """The variables that `node` uses and neither it nor `defs` define, in order of first use."""
    visitor = _Undefined(defs)
    visitor.visit(node)
    return list(visitor.found)
