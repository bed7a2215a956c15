"""Sums of variables times numbers: a quick way to what most questions about indices of loops need.

The indices of a loop nest are mostly `i * 8 + j`. Such a sum is kept as a number for each variable, so that a difference,
the least value, or the ends over some loops take a few additions; the simplifier would take a thousand times as long.
Whatever is not such a sum is not answered here, and the caller asks an Analyzer. As in the rules of the simplifier, indices of
type int32 and int64 do not overflow.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping
from typing import Any, NamedTuple

from tvmagic.ir import Add, FloorDiv, FloorMod, IntImm, Mul, Node, PrimExpr, Range, Sub, Var, Visitor, handles
from tvmagic.ir.deep_recursion import deep

_INDEX = ("int32", "int64")


class Sum(NamedTuple):
    """`constant` and each term times its number, which is not 0; a term is a variable, or a quotient or remainder of a sum."""

    terms: dict[Hashable, int]
    constant: int

    def plus(self, other: Sum, times: int = 1) -> Sum:
        """The sum of this and `times` the other one."""
        terms = dict(self.terms)
        for term, number in other.terms.items():
            total = terms.get(term, 0) + number * times
            if total:
                terms[term] = total
            else:
                terms.pop(term, None)
        return Sum(terms, self.constant + other.constant * times)


class _Part(NamedTuple):
    """A quotient or remainder as a term: the same for equal sums."""

    kind: type
    terms: frozenset[tuple[Hashable, int]]
    constant: int
    divisor: int


class Sums(Visitor):
    """Expressions as sums, with what is known of the variables.

    domains: the ranges of variables. One whose ends are not numbers is a variable of which nothing is known.
    """

    def __init__(self, domains: Mapping[Var, Range]) -> None:
        self.ends: dict[Hashable, tuple[int, int]] = {}
        self.inside: dict[Hashable, frozenset[Hashable]] = {}  # the variables in a quotient or remainder
        for var, domain in domains.items():
            if isinstance(domain.min, IntImm) and isinstance(domain.extent, IntImm):
                self.ends[var] = domain.min.value, domain.min.value + domain.extent.value - 1

    @deep
    def of(self, value: PrimExpr) -> Sum | None:
        """An expression as a sum; None if it is not one."""
        return self.visit(value) if value.dtype in _INDEX else None

    def least(self, total: Sum) -> int | None:
        """A number that a sum is never below; None if there is none."""
        found = total.constant
        for term, number in total.terms.items():
            ends = self.ends.get(term)
            if ends is None:
                return None
            found += min(number * end for end in ends)
        return found

    def greatest(self, total: Sum) -> int | None:
        """A number that a sum is never above; None if there is none."""
        least = self.least(Sum({}, 0).plus(total, -1))
        return None if least is None else -least

    def below(self, a: Sum, b: Sum) -> bool:
        """Whether `a <= b` is known to hold."""
        least = self.least(b.plus(a, -1))
        return least is not None and least >= 0

    def span(self, total: Sum, moving: Container[Any]) -> tuple[Sum, Sum] | None:
        """The least and the greatest value while the variables `moving` take all their values, as sums of the others."""
        low, high = total, total
        for term, number in total.terms.items():
            inside = self.inside.get(term, (term,))
            move = [var in moving for var in inside]
            if not any(move):
                continue
            ends = self.ends.get(term)
            if ends is None or not all(move):
                return None
            this, values = Sum({term: 1}, 0), [number * end for end in ends]
            low = low.plus(this, -number).plus(Sum({}, min(values)))
            high = high.plus(this, -number).plus(Sum({}, max(values)))
        return low, high

    # ------------------------------------------------------------------------ expressions

    @handles(Node)
    def other(self, node: Node) -> Sum | None:
        return None

    @handles(IntImm)
    def number(self, node: IntImm) -> Sum | None:
        return Sum({}, node.value)

    @handles(Var)
    def var(self, node: Var) -> Sum | None:
        return Sum({node: 1}, 0) if node.dtype in _INDEX else None

    @handles(Add)
    def add(self, node: Add) -> Sum | None:
        a, b = self.visit(node.a), self.visit(node.b)
        return None if a is None or b is None else a.plus(b)

    @handles(Sub)
    def subtract(self, node: Sub) -> Sum | None:
        a, b = self.visit(node.a), self.visit(node.b)
        return None if a is None or b is None else a.plus(b, -1)

    @handles(Mul)
    def multiply(self, node: Mul) -> Sum | None:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is None or b is None or (a.terms and b.terms):
            return None
        total, times = (a, b.constant) if a.terms else (b, a.constant)
        return Sum({}, 0).plus(total, times) if times else Sum({}, 0)

    @handles(FloorDiv)
    def quotient(self, node: FloorDiv) -> Sum | None:
        divided = self._divided(node)
        if divided is None:
            return None
        whole, rest, divisor = divided
        least, greatest = self.least(rest), self.greatest(rest)
        if least is None or greatest is None:
            return whole.plus(self._slice(FloorDiv, rest, divisor, None))
        if least // divisor == greatest // divisor:
            return whole.plus(Sum({}, least // divisor))
        return whole.plus(self._slice(FloorDiv, rest, divisor, (least // divisor, greatest // divisor)))

    @handles(FloorMod)
    def remainder(self, node: FloorMod) -> Sum | None:
        divided = self._divided(node)
        if divided is None:
            return None
        _, rest, divisor = divided
        least, greatest = self.least(rest), self.greatest(rest)
        if least is not None and greatest is not None and least // divisor == greatest // divisor:
            return rest.plus(Sum({}, -(least // divisor) * divisor))
        return self._slice(FloorMod, rest, divisor, (0, divisor - 1))

    def _divided(self, node: FloorDiv | FloorMod) -> tuple[Sum, Sum, int] | None:
        """What is divided as a multiple of the divisor, divided, and a rest; and the divisor."""
        total, divisor = self.visit(node.a), node.b.value if isinstance(node.b, IntImm) else 0
        if total is None or divisor <= 0:
            return None
        whole = {term: number // divisor for term, number in total.terms.items() if number % divisor == 0}
        rest = {term: number for term, number in total.terms.items() if number % divisor}
        constant = total.constant % divisor
        return Sum(whole, (total.constant - constant) // divisor), Sum(rest, constant), divisor

    def _slice(self, kind: type, total: Sum, divisor: int, ends: tuple[int, int] | None) -> Sum:
        part = _Part(kind, frozenset(total.terms.items()), total.constant, divisor)
        if ends is not None:
            self.ends[part] = ends
        self.inside[part] = frozenset(var for term in total.terms for var in self.inside.get(term, (term,)))
        return Sum({part: 1}, 0)
