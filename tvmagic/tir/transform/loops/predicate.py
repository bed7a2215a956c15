"""Masks in the place of a branch: loads and stores that act only in the lanes below a limit."""

from __future__ import annotations

from typing import Any

from tvmagic.ir import (
    LT,
    Broadcast,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    IntImm,
    Mutator,
    PrimExpr,
    Ramp,
    Stmt,
    While,
    handles,
)
from tvmagic.ir.equal import structural_equal
from tvmagic.ir.expr import BOOL


class _Masker(Mutator):
    """Masks each access whose vector of indices begins where the condition's does."""

    def __init__(self, base: PrimExpr, limit: PrimExpr) -> None:
        self.base, self.limit = base, limit
        self.seen = self.masked = 0

    @handles(BufferLoad, BufferStore)
    def access(self, node: Any) -> Any:
        node = self.visit_children(node)
        self.seen += 1
        index = node.indices[-1] if node.indices else None
        if node.predicate is not None or not isinstance(index, Ramp) or not structural_equal(index.base, self.base):
            return node
        self.masked += 1
        mask = Call(BOOL.with_lanes_of(index.dtype), "tir.get_active_lane_mask", (self.base, self.limit))
        return node.replace(predicate=mask)

    @handles(Evaluate, While)
    def effect(self, node: Stmt) -> Stmt:
        self.seen += 1  # its effect cannot be masked
        return node


def predicate_accesses(stmt: Stmt, condition: PrimExpr) -> Stmt | None:
    """The vector statement `stmt` with its accesses masked by `condition`; None if one cannot be.

    `condition` is `Ramp(base, 1, lanes) < Broadcast(limit)`, and every access starts at `base`.
    """
    if not isinstance(condition, LT):
        return None
    if not isinstance(condition.a, Ramp) or not isinstance(condition.b, Broadcast):
        return None
    if not isinstance(condition.a.stride, IntImm) or condition.a.stride.value != 1:
        return None
    masker = _Masker(condition.a.base, condition.b.value)
    masked = masker.visit(stmt)
    return masked if 0 < masker.seen == masker.masked else None
