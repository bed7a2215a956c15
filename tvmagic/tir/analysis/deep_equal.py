"""Equality of expressions as they stand: the same operators on the same variables."""

from __future__ import annotations

from typing import Any

from tvmagic.ir import Buffer, Node, PrimExpr, Var
from tvmagic.ir.node import Kind
from tvmagic.ir.values import TUPLES


def expr_deep_equal(lhs: PrimExpr, rhs: PrimExpr) -> bool:
    """Whether two expressions are built alike, from the very same variables and buffers."""
    stack: list[tuple[Any, Any]] = [(lhs, rhs)]
    while stack:
        a, b = stack.pop()
        if a is b:
            continue
        if type(a) is not type(b):
            return False
        if isinstance(a, TUPLES):
            if len(a) != len(b):
                return False
            stack.extend(zip(a, b))
            continue
        if isinstance(a, (Var, Buffer)):
            return False
        if not isinstance(a, Node):
            if a != b:
                return False
            continue
        if isinstance(a, PrimExpr) and a.dtype is not b.dtype:
            return False
        if not a.FIELDS:
            return False
        for field in a.FIELDS:
            if field.kind is not Kind.NAME:
                stack.append((getattr(a, field.name), getattr(b, field.name)))
    return True
