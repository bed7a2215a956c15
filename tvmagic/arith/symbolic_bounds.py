"""Bounds of integers as functions of symbolic sizes.

`const_int_bound` gives numbers, and of a size that only a call knows it gives the range of the type. Here a bound is an
integer or a `Term` over the sizes, so that a call can evaluate it. Equal terms of one `Terms` are the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from tvmagic.arith.interval_arithmetic import ENDS_OF
from tvmagic.ir import Add, BinaryOp, Cast, DataType, FloorDiv, IntImm, Max, Min, Mul, PrimExpr, Sub, Var

_INT64 = DataType("int64")


class Term:
    """An operation on bounds, or a size. `non_negative`: whether it is known to be 0 or more."""

    __slots__ = ("kind", "a", "b", "non_negative")

    def __init__(self, kind: type[BinaryOp] | Var, a: Bound, b: Bound, non_negative: bool) -> None:
        self.kind, self.a, self.b, self.non_negative = kind, a, b, non_negative


Bound: TypeAlias = int | Term
Polynomial: TypeAlias = dict[tuple[Term, ...], int]  # the factor of each product of terms
_MOST_PRODUCTS = 16
_MOST_COMPARED = 8  # largest bounds, with which each of the others is compared


class Interval(NamedTuple):
    """The bounds of a value, both inclusive. The upper one is below the lower one only where nothing is executed."""

    low: Bound
    high: Bound


_NUMBERS: dict[type[BinaryOp], Callable[[int, int], int]] = {
    Add: int.__add__,
    Sub: int.__sub__,
    Mul: int.__mul__,
    Min: min,
    Max: max,
    FloorDiv: int.__floordiv__,
}


def non_negative(bound: Bound) -> bool:
    """Return whether a bound is known to be 0 or more."""
    return bound >= 0 if isinstance(bound, int) else bound.non_negative


class Terms:
    """Creates terms, folds constants in them, and writes them as expressions of int64."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, Bound, Bound], Term] = {}
        self._written: dict[Term, PrimExpr] = {}
        self._expanded: dict[Term, Polynomial] = {}

    def _term(self, kind: type[BinaryOp] | Var, a: Bound, b: Bound, positive: bool) -> Term:
        key = (kind, a, b)
        if key not in self._known:
            self._known[key] = Term(kind, a, b, positive)
        return self._known[key]

    def size(self, var: Var, is_non_negative: bool) -> Term:
        """Return the term of a variable whose value is known where the bounds are evaluated."""
        return self._term(var, 0, 0, is_non_negative)

    def add(self, a: Bound, b: Bound) -> Bound:
        """Return `a + b`; a constant comes last, and there is one at most."""
        if isinstance(a, int):
            if isinstance(b, int):
                return a + b
            a, b = b, a
        if isinstance(b, int) and a.kind is Add and isinstance(a.b, int):
            a, b = a.a, a.b + b
        elif isinstance(b, Term) and b.kind is Add and isinstance(b.b, int):
            return self.add(self.add(a, b.a), b.b)
        if b == 0:
            return a
        if isinstance(a, int):
            return self.add(b, a)
        return self._term(Add, a, b, non_negative(a) and non_negative(b))

    def subtract(self, a: Bound, b: Bound) -> Bound:
        """Return `a - b`."""
        if isinstance(b, int):
            return self.add(a, -b)
        if a is b:
            return 0
        return self._term(Sub, a, b, False)

    def multiply(self, a: Bound, b: Bound) -> Bound:
        """Return `a * b`."""
        if isinstance(a, int):
            a, b = b, a
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if b in (0, 1):
            return a if b else 0
        return self._term(Mul, a, b, non_negative(a) and non_negative(b))

    def minimum(self, a: Bound, b: Bound) -> Bound:
        """Return the smaller bound."""
        if a is b:
            return a
        return self._fold(Min, a, b, non_negative(a) and non_negative(b))

    def maximum(self, a: Bound, b: Bound) -> Bound:
        """Return the larger bound."""
        if a is b:
            return a
        return self._fold(Max, a, b, non_negative(a) or non_negative(b))

    def divide(self, a: Bound, b: Bound) -> Bound:
        """Return `a // b` of a positive `b`."""
        return a if b == 1 or a == 0 else self._fold(FloorDiv, a, b, non_negative(a))

    def _fold(self, kind: type[BinaryOp], a: Bound, b: Bound, positive: bool) -> Bound:
        if isinstance(a, int) and isinstance(b, int):
            return _NUMBERS[kind](a, b)
        return self._term(kind, a, b, positive)

    def expression(self, bound: Bound) -> PrimExpr:
        """Return a bound as an expression of int64. A term that occurs twice is one object."""
        if isinstance(bound, int):
            return IntImm(_INT64, bound)
        if bound not in self._written:
            kind = bound.kind
            if isinstance(kind, Var):
                self._written[bound] = kind if kind.dtype is _INT64 else Cast(_INT64, kind)
            else:
                self._written[bound] = kind(self.expression(bound.a), self.expression(bound.b))
        return self._written[bound]

    def fits_below(self, bounds: Iterable[Bound], size: int, limit: int) -> bool:
        """Return whether no bound exceeds `limit` if every size is below `size`, and none is below `-size`."""
        known: dict[Term, tuple[int, int]] = {}

        def ends(bound: Bound) -> tuple[int, int]:
            if isinstance(bound, int):
                return bound, bound
            if bound not in known:
                if isinstance(bound.kind, Var):
                    known[bound] = (0 if bound.non_negative else 1 - size, size - 1)
                else:
                    a, b = ends(bound.a), ends(bound.b)
                    known[bound] = ENDS_OF[bound.kind](a, b)
            return known[bound]

        return all(ends(bound)[1] <= limit for bound in bounds)

    # ------------------------------------------------------------------ comparisons

    def largest(self, bounds: Iterable[Bound]) -> list[Bound]:
        """Return the bounds without those that are proved to be at most another one, whatever the sizes are."""
        expanded = [(self._polynomial(bound), bound) for bound in bounds]
        expanded.sort(key=lambda pair: -sum(pair[0].values()))  # a larger polynomial has a larger value at ones
        kept: list[tuple[Polynomial, Bound]] = []
        for polynomial, bound in expanded:
            if not any(_is_at_least(other, polynomial) for other, _ in kept[:_MOST_COMPARED]):
                kept.append((polynomial, bound))
        return [bound for _, bound in kept]

    def _polynomial(self, bound: Bound) -> Polynomial:
        """Return a bound as a sum of products of sizes, quotients and extremes."""
        if isinstance(bound, int):
            return {(): bound}
        if bound not in self._expanded:
            self._expanded[bound] = self._expand(bound)
        return self._expanded[bound]

    def _expand(self, bound: Term) -> Polynomial:
        if bound.kind not in (Add, Sub, Mul):
            return {(bound,): 1}
        a, b = self._polynomial(bound.a), self._polynomial(bound.b)
        if bound.kind is not Mul:
            return _sum_of(a, b, 1 if bound.kind is Add else -1)
        if len(a) * len(b) > _MOST_PRODUCTS:
            return {(bound,): 1}
        found: Polynomial = {}
        for one, factor in a.items():
            for other, times in b.items():
                product = tuple(sorted((*one, *other), key=id))
                found[product] = found.get(product, 0) + factor * times
        return found

    # ------------------------------------------------------------------ intervals

    def product(self, a: Interval, b: Interval) -> Interval:
        """Return the bounds of a product."""
        if non_negative(a.low) and non_negative(b.low):
            return Interval(self.multiply(a.low, b.low), self.multiply(a.high, b.high))
        corners = [self.multiply(x, y) for x in dict.fromkeys(a) for y in dict.fromkeys(b)]
        low = high = corners[0]
        for corner in corners[1:]:
            low, high = self.minimum(low, corner), self.maximum(high, corner)
        return Interval(low, high)

    def quotient(self, a: Interval, b: Interval) -> Interval:
        """Return the bounds of `a // b`. The divisor is not 0 where it is executed."""
        if not non_negative(b.low):
            size = self.maximum(a.high, self.subtract(0, a.low))
            return Interval(self.subtract(0, size), size)
        least, most = self.maximum(b.low, 1), self.maximum(b.high, 1)
        if least == most:
            return Interval(self.divide(a.low, least), self.divide(a.high, least))
        if non_negative(a.low):
            return Interval(self.divide(a.low, most), self.divide(a.high, least))
        return Interval(self.minimum(a.low, 0), self.maximum(a.high, 0))

    def remainder(self, a: Interval, b: Interval) -> Interval:
        """Return the bounds of `a % b`."""
        if not non_negative(b.low):
            return Interval(self.minimum(b.low, 0), self.maximum(b.high, 0))
        most = self.add(b.high, -1)
        if non_negative(a.low) and isinstance(a.high, int) and isinstance(most, int):
            most = min(a.high, most)
        return Interval(0, most)

    def truncated(self, a: Interval) -> Interval:
        """Return bounds of a quotient or remainder of `a` that rounds to 0."""
        return Interval(self.minimum(a.low, 0) if not non_negative(a.low) else 0, self.maximum(a.high, 0))


def _sum_of(a: Polynomial, b: Polynomial, factor: int) -> Polynomial:
    found = dict(a)
    for product, times in b.items():
        found[product] = found.get(product, 0) + factor * times
    return found


def _is_at_least(a: Polynomial, b: Polynomial) -> bool:
    """Return whether `a - b` is a sum of products that cannot be negative."""
    return all(
        times == 0 or (times > 0 and all(term.non_negative for term in product))
        for product, times in _sum_of(a, b, -1).items()
    )
