"""Masks in the place of a branch: loads and stores that act only in the lanes below a limit."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.ir.expr import BOOL


class _Masker(ir.Mutator):
    """Masks each access whose vector of indices begins where the condition's does."""

    def __init__(self, base: ir.PrimExpr, limit: ir.PrimExpr) -> None:
        self.base, self.limit = base, limit
        self.seen = self.masked = 0

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: Any) -> Any:
        node = self.visit_children(node)
        self.seen += 1
        index = node.indices[-1] if node.indices else None
        if (
            node.predicate is not None
            or not isinstance(index, ir.Ramp)
            or not ir.structural_equal(index.base, self.base)
        ):
            return node
        self.masked += 1
        mask = ir.Call(BOOL.with_lanes_of(index.dtype), "tir.get_active_lane_mask", (self.base, self.limit))
        return node.replace(predicate=mask)

    @ir.handles(ir.Evaluate, ir.While)
    def effect(self, node: ir.Stmt) -> ir.Stmt:
        self.seen += 1  # its effect cannot be masked
        return node


def predicate_accesses(stmt: ir.Stmt, condition: ir.PrimExpr) -> ir.Stmt | None:
    """The vector statement `stmt` with its accesses masked by `condition`; None if one cannot be.

    `condition` is `Ramp(base, 1, lanes) < Broadcast(limit)`, and every access starts at `base`.
    """
    if not isinstance(condition, ir.LT):
        return None
    if not isinstance(condition.a, ir.Ramp) or not isinstance(condition.b, ir.Broadcast):
        return None
    if not isinstance(condition.a.stride, ir.IntImm) or condition.a.stride.value != 1:
        return None
    masker = _Masker(condition.a.base, condition.b.value)
    masked = masker.visit(stmt)
    return masked if 0 < masker.seen == masker.masked else None
