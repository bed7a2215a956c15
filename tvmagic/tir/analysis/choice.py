"""Choices between two values, in either of their forms."""

from __future__ import annotations

from tvmagic.ir import Call, PrimExpr, Select

__all__ = ["choice"]


def choice(node: PrimExpr) -> tuple[PrimExpr, PrimExpr, PrimExpr] | None:
    """Condition and values of a `Select` or an `if_then_else`; None of anything else."""
    if isinstance(node, Select):
        return node.condition, node.true_value, node.false_value
    if isinstance(node, Call) and getattr(node.op, "name", "") == "tir.if_then_else":
        condition, yes, no = node.args
        return condition, yes, no
    return None
