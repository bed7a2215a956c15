"""Whether every variable is defined once, and which variables a statement takes from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic import ir
from tvmagic.ir.query import launches_thread


class _Definitions(ir.Visitor):
    def __init__(self) -> None:
        self.defined: set[ir.Var] = set()
        self.lets: dict[ir.Var, Any] = {}
        self.single = True

    def visit_var_def(self, var: ir.Var) -> None:
        self.single = self.single and var not in self.defined
        self.defined.add(var)

    @ir.handles(ir.Let)
    def let(self, node: ir.Let) -> None:
        # the same let may be in several places of an expression
        known = self.lets.get(node.var)
        if known is None or not ir.expr_deep_equal(known, node.value):
            self.visit_var_def(node.var)
            self.lets[node.var] = node.value
        self.visit(node.value)
        self.visit(node.body)


def verify_ssa(func: ir.PrimFunc) -> bool:
    """Whether every variable of `func` is defined once."""
    visitor = _Definitions()
    for param in func.params:
        visitor.visit_var_def(param)
    visitor.visit(func.body)
    return visitor.single


class _Undefined(ir.Visitor):
    def __init__(self, defined: Sequence[ir.Var]) -> None:
        self.defined = set(defined)
        self.found: dict[ir.Var, None] = {}

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> None:
        if var not in self.defined:
            self.found[var] = None

    def visit_var_def(self, var: ir.Var) -> None:
        self.defined.add(var)

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        if launches_thread(node):
            self.defined.add(node.node.var)
        self.visit_children(node)

    def visit_buffer_use(self, buffer: ir.Buffer) -> None:
        for field in (buffer.data, *buffer.shape, *buffer.strides, buffer.elem_offset):
            self.visit(field)

    def visit_buffer_def(self, buffer: ir.Buffer) -> None:
        self.defined.add(buffer.data)
        self.visit_buffer_use(buffer)


def undefined_vars(node: Any, defs: Sequence[ir.Var] = ()) -> list[ir.Var]:
    """The variables that `node` uses and neither it nor `defs` define, in order of first use."""
    visitor = _Undefined(defs)
    visitor.visit(node)
    return list(visitor.found)
