"""What simplifying an expression takes, and whether conditions on data have a say in it."""

from __future__ import annotations

from tvmagic.ir import (
    And,
    BufferLoad,
    Call,
    CallEffect,
    CmpOp,
    FloatImm,
    IntImm,
    Not,
    Op,
    Or,
    PrimExpr,
    ProducerLoad,
    Reduce,
    Select,
)
from tvmagic.ir.deep_recursion import parts_of
from tvmagic.ir.query import is_call

MOST = 2_000  # visits
# A condition is simplified by itself, negated, and again as what holds on either side.
_TIMES = 5


class Effort:
    """Estimates of expressions, made once for each node, parts before the whole, without recursion."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[PrimExpr, int, bool]] = {}  # with the node, whose identity stays taken so

    def is_small(self, e: PrimExpr) -> bool:
        """Whether the choices in `e` are simplified under their conditions in some thousand visits.

        Under another condition all is simplified once more. So choices whose conditions and values are choices again, such as
        `a if a > 0 else -a` of an `a` that is one, take a time that is exponential in their depth.
        """
        return self._measure(e)[1] <= MOST

    def reads(self, e: PrimExpr) -> bool:
        """Whether there is a value from memory or of foreign code in `e`, its indices and conditions included."""
        return self._measure(e)[2]

    def is_of_data(self, condition: PrimExpr) -> bool:
        """Whether a condition says something of values that are read, and nothing of expressions without such."""
        if isinstance(condition, (And, Or)):
            return self.is_of_data(condition.a) and self.is_of_data(condition.b)
        if isinstance(condition, Not):
            return self.is_of_data(condition.a)
        sides = (condition.a, condition.b) if isinstance(condition, CmpOp) else (condition,)
        return all(isinstance(side, (IntImm, FloatImm)) or self.reads(side) for side in sides)

    def _measure(self, e: PrimExpr) -> tuple[PrimExpr, int, bool]:
        known = self._known
        todo = [e]
        while todo:
            node = todo[-1]
            if id(node) in known:
                todo.pop()
                continue
            parts = [part for part in parts_of(node) if isinstance(part, PrimExpr)]
            unknown = [part for part in parts if id(part) not in known]
            if unknown:
                todo += unknown
                continue
            visits = [known[id(part)][1] for part in parts]
            if isinstance(node, Select) or is_call(node, "tir.if_then_else"):
                visits[0] *= _TIMES
            reads = _reads(node) or any(known[id(part)][2] for part in parts)
            known[id(node)] = node, min(1 + sum(visits), MOST + 1), reads
            todo.pop()
        return known[id(e)]


def _reads(e: PrimExpr) -> bool:
    if isinstance(e, Call):
        return not isinstance(e.op, Op) or e.op.effect > CallEffect.PURE
    return isinstance(e, (BufferLoad, ProducerLoad, Reduce))
