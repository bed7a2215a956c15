"""The bound of a variable that follows from a comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvmagic.arith.int_set import NEG_INF, POS_INF, IntervalSet, IntSet, as_int_set, is_infinite, negate, new_analyzer
from tvmagic.arith.int_set_eval import IntervalSetEvaluator, eval_set
from tvmagic.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Add,
    BinaryOp,
    CmpOp,
    FloorDiv,
    Mul,
    Node,
    PrimExpr,
    Sub,
    Var,
    expr,
    ops,
    pre_order_visit,
)
from tvmagic.ir.deep_recursion import deep

_GREATER, _LESS, _EQUAL = ">=", "<=", "=="
_REVERSED = {_GREATER: _LESS, _LESS: _GREATER, _EQUAL: _EQUAL}


class _Undeducible(Exception):
    """No bound follows by the rules here."""


def _contains(node: PrimExpr, target: PrimExpr) -> bool:
    return _count(node, target) > 0


def _count(node: PrimExpr, target: PrimExpr) -> int:
    count = 0

    def look(item: Node) -> None:
        nonlocal count
        count += item is target

    pre_order_visit(node, look)
    return count


# comparison -> (direction where the target is in `a`, change of `b`, direction where in `b`, change of `a`)
_DIRECTIONS: dict[type, tuple[str, int, str, int]] = {
    LT: (_LESS, -1, _GREATER, 1),
    LE: (_LESS, 0, _GREATER, 0),
    GT: (_GREATER, 1, _LESS, -1),
    GE: (_GREATER, 0, _LESS, 0),
    EQ: (_EQUAL, 0, _EQUAL, 0),
}


class _Deducer:
    """Solves `value direction bound` for a target inside `value`, from outside inwards."""

    def __init__(self, target: PrimExpr, hint_map: Mapping[Var, IntSet], relax_map: Mapping[Var, IntSet]) -> None:
        self.target, self.relax_map = target, relax_map
        self.analyzer = new_analyzer()
        self.hints = IntervalSetEvaluator(self.analyzer, hint_map)
        self.direction = _GREATER
        self.bound: PrimExpr = POS_INF

    def deduce(self, condition: PrimExpr) -> IntSet:
        if _count(condition, self.target) != 1 or type(condition) not in _DIRECTIONS:
            raise _Undeducible
        assert isinstance(condition, CmpOp)
        at_a, change_b, at_b, change_a = _DIRECTIONS[type(condition)]
        if _contains(condition.a, self.target):
            value, self.direction, self.bound = condition.a, at_a, condition.b + change_b
        else:
            value, self.direction, self.bound = condition.b, at_b, condition.a + change_a
        value = self._relaxed(value)
        if not _contains(value, self.target):
            raise _Undeducible
        while value is not self.target:
            step = _STEPS.get(type(value))
            if step is None:
                raise _Undeducible
            assert isinstance(value, BinaryOp)
            value = step(self, value, _contains(value.a, self.target))
        bound = self.bound if is_infinite(self.bound) else self.analyzer.simplify(self.bound)
        low = NEG_INF if self.direction is _LESS else bound
        return IntervalSet(low, POS_INF if self.direction is _GREATER else bound)

    def _relaxed(self, value: PrimExpr) -> PrimExpr:
        """The side with the target, and the bound, at the ends that hold for all relaxed values."""
        a, b = eval_set(value, self.relax_map), eval_set(self.bound, self.relax_map)
        if a.is_everything() or b.is_everything():
            raise _Undeducible
        if self.direction is _EQUAL and not all(self._is_point(s) for s in (b, a)):
            raise _Undeducible
        self.bound = b.max() if self.direction is _GREATER else b.min()
        result = a.min() if self.direction is _GREATER else a.max()
        if is_infinite(result) or is_infinite(self.bound):
            raise _Undeducible
        return result

    def _is_point(self, interval: IntSet) -> bool:
        if not (interval.has_lower_bound() and interval.has_upper_bound()):
            return False
        return self.analyzer.can_prove(ops.equal(interval.min(), interval.max()))

    def is_negative(self, factor: PrimExpr) -> bool:
        """Whether `factor` is below 0; an error if it may be 0, or of either sign."""
        values = self.hints.visit(factor)
        negative = values.can_prove_negative()
        if not (negative or factor.dtype.is_uint or values.can_prove_positive()):
            raise _Undeducible
        return negative

    # ------------------------------------------------------------------ steps

    def through_add(self, node: BinaryOp, left: bool) -> PrimExpr:
        self.bound = self.bound - (node.b if left else node.a)
        return node.a if left else node.b

    def through_sub(self, node: BinaryOp, left: bool) -> PrimExpr:
        if left:
            self.bound = self.bound + node.b
            return node.a
        self.bound = negate(self.bound - node.a)
        self.direction = _REVERSED[self.direction]
        return node.b

    def through_mul(self, node: BinaryOp, left: bool) -> PrimExpr:
        factor = node.b if left else node.a
        if self.is_negative(factor):
            self.direction = _REVERSED[self.direction]
        exact = self.analyzer.can_prove(ops.equal(ops.floormod(self.bound, factor), 0))
        self.bound = ops.floordiv(self.bound, factor)
        if not exact:
            # the quotient was rounded down
            if self.direction is _GREATER:
                self.bound = self.bound + 1
            elif self.direction is _EQUAL:
                raise _Undeducible
        return node.a if left else node.b

    def through_floordiv(self, node: BinaryOp, left: bool) -> PrimExpr:
        divisor = node.b
        if not left or self.analyzer.can_prove_equal(divisor, 0):
            raise _Undeducible
        negative = self.is_negative(divisor)
        if self.direction is _EQUAL:
            raise _Undeducible
        if negative:
            self.direction = _REVERSED[self.direction]
            divisor, self.bound = negate(divisor), negate(self.bound)
        self.bound = self.bound * divisor
        if self.direction is _LESS:
            self.bound = self.bound + divisor - 1
        if negative:
            # x // -c is -ceildiv(x, c)
            self.bound = self.bound - divisor + 1
        return node.a


_STEPS: dict[type, Callable[[_Deducer, BinaryOp, bool], PrimExpr]] = {
    Add: _Deducer.through_add,
    Sub: _Deducer.through_sub,
    Mul: _Deducer.through_mul,
    FloorDiv: _Deducer.through_floordiv,
}


@deep
def deduce_bound(var: Any, cond: Any, hint_map: Mapping[Any, Any], relax_map: Mapping[Any, Any]) -> IntSet:
    """The set of values of `var` for which `cond` holds whatever values relaxed variables take.

    Parameters
    ----------
    var: a variable (or an expression) that occurs once in `cond`.
    cond: a comparison.
    hint_map: sets of variables; they tell the signs of factors.
    relax_map: sets of the variables that may take any value of their set.

    Returns nothing (the empty set) if no bound can be deduced.
    """
    target = var.var if hasattr(var, "var") else var
    try:
        return _Deducer(target, as_int_set(hint_map), as_int_set(relax_map)).deduce(expr(cond))
    except _Undeducible:
        return IntSet.nothing()
