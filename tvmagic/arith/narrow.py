"""Conditions without some of their variables: what must hold for all values of these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    FloorDiv,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Range,
    Sub,
    Var,
    ops,
    pre_order_visit,
)
from tvmagic.ir.expr import BOOL

__all__ = ["narrow_predicate_expression"]


def narrow_predicate_expression(expr: PrimExpr, free_parameters: Mapping[Var, Range]) -> PrimExpr:
    """A condition without the free parameters that holds only if `expr` does for all of them.

    Each parameter is replaced by the end of its range that makes `expr` hardest to meet; a
    comparison that is not monotonic in it becomes False.
    """
    if not expr.dtype.is_bool:
        raise TVMagicError(
            f"a condition is a bool, not `{expr.dtype}`", node=expr, code="narrow_predicate.not_a_condition"
        )
    return _Narrower(free_parameters).condition(expr, True)


class _Narrower:
    def __init__(self, ranges: Mapping[Var, Range]) -> None:
        self.ranges = ranges

    def is_free_of(self, e: PrimExpr) -> bool:
        """Whether no parameter is in `e`."""
        found = False

        def look(node: Any) -> None:
            nonlocal found
            found = found or (isinstance(node, Var) and node in self.ranges)

        pre_order_visit(e, look)
        return not found

    def condition(self, e: PrimExpr, wanted: bool) -> PrimExpr:
        """A stronger condition than `e`; a weaker one if `wanted` is False."""
        if self.is_free_of(e):
            return e
        if isinstance(e, And):
            return ops.logical_and(self.condition(e.a, wanted), self.condition(e.b, wanted))
        if isinstance(e, Or):
            return ops.logical_or(self.condition(e.a, wanted), self.condition(e.b, wanted))
        if isinstance(e, Not):
            return ops.logical_not(self.condition(e.a, not wanted))
        if isinstance(e, EQ):
            return self.condition(And(LE(e.a, e.b), LE(e.b, e.a)), wanted)
        if isinstance(e, NE):
            return self.condition(Or(LT(e.a, e.b), LT(e.b, e.a)), wanted)
        if isinstance(e, (LT, LE)):
            return self.comparison(type(e), e.a, e.b, wanted)
        if isinstance(e, (GT, GE)):
            return self.comparison(LT if isinstance(e, GT) else LE, e.b, e.a, wanted)
        return IntImm(BOOL, not wanted)

    def comparison(self, op: type, low: PrimExpr, high: PrimExpr, wanted: bool) -> PrimExpr:
        """`low op high`, each side at the end that makes it hardest to meet."""
        a, b = self.end(low, wanted), self.end(high, not wanted)
        return IntImm(BOOL, not wanted) if a is None or b is None else ops.binary(op, a, b)

    def end(self, e: PrimExpr, largest: bool) -> PrimExpr | None:
        """The largest or the least value of `e` over the parameters; None if it is not known."""
        if self.is_free_of(e):
            return e
        if isinstance(e, Var):
            domain = self.ranges[e]
            return domain.min + domain.extent - 1 if largest else domain.min
        if isinstance(e, (Add, Min, Max)):
            a, b = self.end(e.a, largest), self.end(e.b, largest)
        elif isinstance(e, Sub):
            a, b = self.end(e.a, largest), self.end(e.b, not largest)
        elif isinstance(e, Mul) and isinstance(e.b, IntImm):
            a, b = self.end(e.a, largest == (e.b.value >= 0)), e.b
        elif isinstance(e, Mul) and isinstance(e.a, IntImm):
            a, b = e.a, self.end(e.b, largest == (e.a.value >= 0))
        elif isinstance(e, FloorDiv) and isinstance(e.b, IntImm) and e.b.value > 0:
            a, b = self.end(e.a, largest), e.b
        else:
            return None
        return None if a is None or b is None else ops.binary(type(e), a, b)
