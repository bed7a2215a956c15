"""Constant bounds of index expressions, as far as cheap division and extension need them."""

from __future__ import annotations

from collections.abc import Callable

from tvmagic.arith.corners import ENDS_OF
from tvmagic.arith.corners import Ends as Interval
from tvmagic.arith.scalable import most_lanes
from tvmagic.ir import (
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    PrimExpr,
    Ramp,
    SizeVar,
    Var,
)
from tvmagic.ir.dtype import integer_limits
from tvmagic.ir.query import callee

__all__ = ["Intervals"]

_DEEPEST = 32


class Intervals:
    """What integers an expression can be, from what its loop variables can be."""

    def __init__(self) -> None:
        self.known: dict[Var, Interval] = {}

    def of(self, expr: PrimExpr, depth: int = 0) -> Interval:
        """The least and the largest value of `expr`, every lane counted."""
        low, high = self._raw(expr, depth)
        limit_low, limit_high = _limits(expr)
        return (low, high) if limit_low <= low and high <= limit_high else (limit_low, limit_high)

    def inside(self, index: PrimExpr, size: int) -> bool:
        """Whether every lane of `index` is one of a dimension of `size` elements."""
        low, high = self.of(index)
        return 0 <= low and high < size

    def _raw(self, expr: PrimExpr, depth: int) -> Interval:
        if isinstance(expr, IntImm):
            return expr.value, expr.value
        if isinstance(expr, Var):
            known = self.known.get(expr)
            return known if known is not None else (0, _limits(expr)[1]) if isinstance(expr, SizeVar) else _limits(expr)
        rule = _RULES.get(type(expr))
        if rule is None or depth > _DEEPEST:
            return _limits(expr)
        return rule(self, expr, depth + 1)


def _limits(expr: PrimExpr) -> Interval:
    return integer_limits(expr.dtype) if expr.dtype.bits else (0, 1)


def _of_two(bounds: Intervals, expr: BinaryOp, depth: int) -> Interval:
    a, b = bounds.of(expr.a, depth), bounds.of(expr.b, depth)
    if isinstance(expr, (FloorDiv, FloorMod)) and b[0] <= 0:
        return _limits(expr)
    return ENDS_OF[type(expr)](a, b)


def _ramp(bounds: Intervals, expr: Ramp, depth: int) -> Interval:
    base, stride = bounds.of(expr.base, depth), bounds.of(expr.stride, depth)
    last = [b + s * (most_lanes(expr.dtype) - 1) for b in base for s in stride]
    return min(*base, *last), max(*base, *last)


def _cast(bounds: Intervals, expr: Cast, depth: int) -> Interval:
    if expr.value.dtype.is_float or expr.value.dtype.is_handle:
        return _limits(expr)
    return bounds.of(expr.value, depth)


def _call(bounds: Intervals, expr: Call, depth: int) -> Interval:
    name = callee(expr)
    if name == "tir.shift_right" and isinstance(expr.args[1], IntImm):
        low, high = bounds.of(expr.args[0], depth)
        return low >> expr.args[1].value, high >> expr.args[1].value
    if name == "tir.likely":
        return bounds.of(expr.args[0], depth)
    if name == "tir.bitwise_and":  # with a number that is not negative, neither sign nor size of the other counts
        most = [high for low, high in (bounds.of(arg, depth) for arg in expr.args) if low >= 0]
        return (0, min(most)) if most else _limits(expr)
    if name == "tir.checked_index":  # behind its check; an array that repeats one element may be read at any index
        _, extent, _, repeats, _ = expr.args
        if isinstance(extent, IntImm) and extent.value > bool(repeats.value):
            return 0, extent.value - 1
    return _limits(expr)


_RULES: dict[type, Callable[..., Interval]] = {
    **dict.fromkeys(ENDS_OF, _of_two),
    Ramp: _ramp,
    Broadcast: lambda bounds, expr, depth: bounds.of(expr.value, depth),
    Cast: _cast,
    Call: _call,
}
