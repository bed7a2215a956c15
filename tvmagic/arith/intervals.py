"""What integers the code of an index expression computes, as far as cheap division and extension need it.

`arith.const_int_bound` answers another question. It serves proofs, which take indices not to overflow, as TVM does: with an
`x` of int32 `x * 4` reaches beyond int32. Here a value that may wrap is any of its type; what a condition says of a sum
bounds the multiples of the sum; and an index that is checked as the code runs lies in its buffer. Both move the ends of
operands by the same table, `arith.corners`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from tvmagic.arith.interval_arithmetic import ENDS_OF
from tvmagic.arith.interval_arithmetic import Ends as Interval
from tvmagic.arith.scalable import most_lanes
from tvmagic.ir import (
    LE,
    LT,
    And,
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
from tvmagic.ir.query import callee, is_call, linear_terms, operands

_DEEPEST = 32


class Intervals:
    """What integers an expression can be, from what its loop variables can be."""

    def __init__(self) -> None:
        self.known: dict[Var, Interval] = {}
        self.given: list[tuple[dict[Var, int], int]] = []  # sums of multiples of variables, each with its largest value

    def of(self, expr: PrimExpr, depth: int = 0) -> Interval:
        """The least and the largest value of `expr`, every lane counted."""
        low, high = self._raw(expr, depth)
        limit_low, limit_high = _limits(expr)
        return (low, high) if limit_low <= low and high <= limit_high else (limit_low, limit_high)

    def inside(self, index: PrimExpr, size: int) -> bool:
        """Whether every lane of `index` is one of a dimension of `size` elements."""
        low, high = self.of(index)
        return 0 <= low and (high < size or self._high_as_given(index, high) < size)

    def define(self, var: Var, value: PrimExpr) -> None:
        """Let a variable have the values of an expression."""
        low, high = self.of(value)
        self.known[var] = low, self._high_as_given(value, high)

    def counts(self, var: Var, extent: PrimExpr, first: PrimExpr | None = None) -> None:
        """Let a variable go through the values of a loop of `extent` iterations that begins at `first`, or at 0."""
        low, high = self.of(first) if first is not None else (0, 0)
        self.known[var] = low, max(low, high + self.of(extent)[1] - 1)

    @contextmanager
    def where(self, condition: PrimExpr) -> Generator[None]:
        """What a condition says of sums of its variables, such as `i * 13 + j < 50`, holds inside."""
        before = len(self.given)
        for part in operands(condition, And):
            if is_call(part, "tir.likely"):
                part = part.args[0]
            if isinstance(part, (LT, LE)) and isinstance(part.b, IntImm):
                terms = _multiples(part.a)
                if terms is not None and min(map(abs, terms[0].values()), default=0) and self._stays(part.a, *terms):
                    self.given.append((terms[0], part.b.value - isinstance(part, LT) - terms[1]))
        yield
        del self.given[before:]

    def _high_as_given(self, index: PrimExpr, high: int) -> int:
        """The largest value of an index by what is known of sums of its variables: `most` of one, and what the rest adds."""
        found = _multiples(index) if self.given else None
        if found is None or not self._stays(index, *found):
            return high
        terms, constant = found
        for known, most in self.given:
            first = next(iter(known))
            times, rest = divmod(terms.get(first, 0), known[first])
            if times <= 0 or rest or any(terms.get(var) != times * size for var, size in known.items()):
                continue
            others = [self.of(var * IntImm(var.dtype, size))[1] for var, size in terms.items() if var not in known]
            high = min(high, times * most + constant + sum(others))
        return high

    def _stays(self, expr: PrimExpr, terms: dict[Var, int], constant: int) -> bool:
        """Whether a sum of multiples never wraps, as one outside its type would."""
        ends = [sorted(end * size for end in self.of(var)) for var, size in terms.items()]
        low, high = _limits(expr)
        return low <= constant + sum(e[0] for e in ends) and constant + sum(e[1] for e in ends) <= high

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

    def fits(self, expr: PrimExpr) -> bool:
        """Whether an expression is known not to wrap, its parts not counted."""
        (low, high), (least, most) = self._raw(expr, 0), _limits(expr)
        return least <= low and high <= most


def _limits(expr: PrimExpr) -> Interval:
    return integer_limits(expr.dtype) if expr.dtype.bits else (0, 1)


def _multiples(expr: PrimExpr) -> tuple[dict[Var, int], int] | None:
    """An expression as multiples of variables and a number, the largest one for lanes; None if it is not such a sum."""
    if isinstance(expr, Broadcast):
        return _multiples(expr.value)
    if isinstance(expr, Ramp) and isinstance(expr.stride, IntImm) and expr.stride.value >= 0:
        base = _multiples(expr.base)
        return base and (base[0], base[1] + expr.stride.value * (most_lanes(expr.dtype) - 1))
    terms, constant = linear_terms(expr)
    found: dict[Var, int] = {}
    for term, times in terms:
        if not isinstance(term, Var):
            return None
        found[term] = found.get(term, 0) + times
    return found, constant


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
    if name == "tir.shift_right" and isinstance(expr.args[1], IntImm) and expr.args[1].value >= 0:
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


def _broadcast(bounds: Intervals, expr: Broadcast, depth: int) -> Interval:
    return bounds.of(expr.value, depth)


_RULES: dict[type, Callable[..., Interval]] = {
    **dict.fromkeys(ENDS_OF, _of_two),
    Ramp: _ramp,
    Broadcast: _broadcast,
    Cast: _cast,
    Call: _call,
}
