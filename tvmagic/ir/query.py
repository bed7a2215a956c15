"""Questions about expressions that passes of all levels ask."""

from __future__ import annotations

from typing import Any

from tvmagic.ir.expr import IntImm, Var
from tvmagic.ir.functor import Visitor, handles
from tvmagic.ir.node import Node
from tvmagic.ir.op import Op

__all__ = ["is_access_ptr", "is_one", "is_zero", "variables_in"]


class _Finder(Visitor):
    def __init__(self) -> None:
        self.found: list[Var] = []

    @handles(Var)
    def var(self, var: Var) -> Any:
        self.found.append(var)


def variables_in(expr: Node) -> list[Var]:
    """The variables in an expression or a statement, each as often as it occurs, from left to right.

    The pointers and sizes of the buffers that are accessed do not count.
    """
    if isinstance(expr, Var):
        return [expr]
    finder = _Finder()
    if not isinstance(expr, IntImm):
        finder.visit(expr)
    return finder.found


def is_zero(value: Any) -> bool:
    """Whether an expression is the constant 0."""
    return getattr(value, "value", None) == 0


def is_one(value: Any) -> bool:
    """Whether an expression is the constant 1 (or true)."""
    return getattr(value, "value", None) == 1


def is_access_ptr(call: Any) -> bool:
    """Whether a call is `tvm_access_ptr(type, pointer, offset, extent, mask)`."""
    return isinstance(call.op, Op) and call.op.name == "tir.tvm_access_ptr"
