"""Choices between two values, in either of their forms."""

from __future__ import annotations

from tvmagic.ir.operators import Select
from tvmagic.ir.prim_expr import PrimExpr
from tvmagic.ir.query import is_call


def choice(node: PrimExpr) -> tuple[PrimExpr, PrimExpr, PrimExpr] | None:
    """Condition and values of a `Select` or an `if_then_else`; None of anything else."""
    if isinstance(node, Select):
        return node.condition, node.true_value, node.false_value
    if is_call(node, "tir.if_then_else"):
        condition, yes, no = node.args
        return condition, yes, no
    return None
