"""What holds where: the parts of conditions, what they say of bounds, and the values of lets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    BinaryOp,
    BufferLoad,
    Call,
    CallEffect,
    CmpOp,
    IntImm,
    Let,
    Node,
    Not,
    Or,
    PrimExpr,
    Var,
    pre_order_visit,
)


def normalize_boolean(e: PrimExpr) -> PrimExpr:
    """`e` with negations pushed inwards and comparisons turned to `<`, `<=`, `==`, `!=`."""
    if isinstance(e, GE):
        return LE(e.b, e.a)
    if isinstance(e, GT):
        return LT(e.b, e.a)
    if not isinstance(e, Not):
        return e
    a = e.a
    if isinstance(a, Not):
        return normalize_boolean(a.a)
    if isinstance(a, Or):
        return And(normalize_boolean(Not(a.a)), normalize_boolean(Not(a.b)))
    if isinstance(a, And):
        return Or(normalize_boolean(Not(a.a)), normalize_boolean(Not(a.b)))
    opposite = _OPPOSITE.get(type(a))
    if opposite is None or (isinstance(a, CmpOp) and a.a.dtype.is_float and not isinstance(a, (EQ, NE))):
        return e  # with NaN neither `a < b` nor `b <= a` holds
    return opposite(a)


_OPPOSITE: dict[type, Callable[[Any], PrimExpr]] = {
    LT: lambda c: LE(c.b, c.a),
    LE: lambda c: LT(c.b, c.a),
    GT: lambda c: LE(c.a, c.b),
    GE: lambda c: LT(c.a, c.b),
    EQ: lambda c: NE(c.a, c.b),
    NE: lambda c: EQ(c.a, c.b),
}


def extract_constraints(e: PrimExpr, keep_composite: bool = True) -> list[PrimExpr]:
    """The conditions that hold where `e` does: `e` itself and the terms of its conjunction.

    Without `keep_composite` only the parts that are not conjunctions themselves.
    """
    found: list[PrimExpr] = []
    _collect(e, found, keep_composite)
    return found


def _collect(e: PrimExpr, found: list[PrimExpr], keep_composite: bool) -> None:
    if isinstance(e, And):
        parts = [e.a, e.b]
    elif isinstance(e, Not) and isinstance(e.a, Or):
        parts = [normalize_boolean(Not(e.a.a)), normalize_boolean(Not(e.a.b))]
    else:
        found.append(e)
        return
    if keep_composite:
        found.append(e)
    for part in parts:
        _collect(part, found, keep_composite)


def side_effect(e: PrimExpr) -> CallEffect:
    """The strongest effect of computing `e`: `PURE`, `READ_STATE`, ... `OPAQUE`.

    An element of a tensor is a value and no state: it is the same whenever it is read.
    """
    worst = CallEffect.PURE
    seen: set[int] = set()  # a part may be in many places

    def look(node: Node) -> bool:
        nonlocal worst
        if id(node) in seen:
            return False
        seen.add(id(node))
        if isinstance(node, Call):
            worst = max(worst, getattr(node.op, "effect", CallEffect.OPAQUE))
        elif isinstance(node, BufferLoad):
            worst = max(worst, CallEffect.READ_STATE)
        return True

    todo = [e]
    while todo:  # most conditions are made of these alone
        node = todo.pop()
        if isinstance(node, BinaryOp):
            if id(node) not in seen:
                seen.add(id(node))
                todo += (node.a, node.b)
        elif not isinstance(node, (Var, IntImm)):
            pre_order_visit(node, look)
    return worst


def with_let(self: Any, e: Let) -> Any:
    """The handler of `Let` for an analyzer with `vars`, `memo`, `update` and `visit`: its variable is as its value is."""
    if e.var in self.vars:
        return self.visit(e.body)
    self.update(e.var, self.visit(e.value))
    try:
        return self.visit(e.body)
    finally:
        del self.vars[e.var]
        self.memo = {}
