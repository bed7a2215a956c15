"""Conditions as a conjunction of disjunctions, simplified pair by pair.

The terms of one disjunction are simplified against each other, then disjunctions that differ in
one term only. The number of disjunctions is bounded: a condition that would have more stays.
"""

from __future__ import annotations

from typing import Any

from tvmagic.arith.extension import Extension
from tvmagic.arith.rewrite.compile import BUILDERS
from tvmagic.ir import And, IntImm, Or, PrimExpr
from tvmagic.ir.deep_equal import deep_equal
from tvmagic.ir.expr import BOOL

MAX_CHUNKS = 64  # products of conjunctions under disjunctions grow fast

_and, _or = BUILDERS[And], BUILDERS[Or]


class _TooLarge(Exception):
    pass


def _conjuncts(e: PrimExpr) -> list[list[PrimExpr]]:
    """`e` as a conjunction of disjunctions."""
    if type(e) is And:
        found = _conjuncts(e.a) + _conjuncts(e.b)
    elif type(e) is Or:
        left, right = _conjuncts(e.a), _conjuncts(e.b)
        if len(left) * len(right) > MAX_CHUNKS:
            raise _TooLarge
        found = [a + b for a in left for b in right]
    else:
        found = [[e]]
    if len(found) > MAX_CHUNKS:
        raise _TooLarge
    return found


class _AndOfOrs:
    """The terms by number; 0 is true, 1 is false."""

    TRUE, FALSE = 0, 1

    def __init__(self, e: PrimExpr, analyzer: Any) -> None:
        self.analyzer = analyzer
        self.terms: list[PrimExpr] = [IntImm(BOOL, 1), IntImm(BOOL, 0)]
        self.chunks: list[list[int]] = []
        seen: set[frozenset[int]] = set()
        for terms in _conjuncts(e):
            chunk = list(dict.fromkeys(map(self.number, terms)))
            if frozenset(chunk) not in seen:
                seen.add(frozenset(chunk))
                self.chunks.append(chunk)

    def number(self, e: PrimExpr) -> int:
        """The number of a term."""
        for i, term in enumerate(self.terms):
            if deep_equal(term, e):
                return i
        self.terms.append(e)
        return len(self.terms) - 1

    def joined(self, op: type, neutral: int, i: int, j: int) -> tuple[int, int]:
        """The two terms after `op` of both was simplified; one is `neutral` where it became one."""
        joint = BUILDERS[op](self.terms[i], self.terms[j])
        simplified = self.analyzer.simplify(joint)
        if deep_equal(simplified, joint):
            return i, j
        if type(simplified) is op:
            return self.number(simplified.a), self.number(simplified.b)  # type: ignore[attr-defined]
        return neutral, self.number(simplified)

    def within_chunks(self) -> None:
        """Simplify the terms of each disjunction in pairs."""
        for chunk in self.chunks:
            for i in range(len(chunk)):
                for j in range(i + 1, len(chunk)):
                    chunk[i], chunk[j] = self.joined(Or, self.FALSE, chunk[i], chunk[j])

    def across_chunks(self) -> None:
        """Simplify the disjunctions in pairs."""
        for i in range(len(self.chunks)):
            for j in range(i + 1, len(self.chunks)):
                self.two_chunks(i, j)

    def two_chunks(self, i: int, j: int) -> None:
        """Simplify two disjunctions that differ in one term, or of which one implies the other."""
        first, second = self.chunks[i], self.chunks[j]
        only_first = [k for k in first if k not in second]
        only_second = [k for k in second if k not in first]
        if len(first) > 1 or len(second) > 1:
            # what implies the other makes it superfluous
            if not only_first:
                self.chunks[j] = [self.TRUE]
                return
            if not only_second:
                self.chunks[i] = [self.TRUE]
                return
        if len(first) == len(second) and len(only_first) == len(only_second) == 1:
            a, b = self.joined(And, self.TRUE, only_first[0], only_second[0])
            first[first.index(only_first[0])] = a
            second[second.index(only_second[0])] = b

    def drop_constants(self) -> None:
        """Leave out true disjunctions and false terms."""
        chunks: list[list[int]] = []
        for chunk in self.chunks:
            if self.TRUE in chunk:
                continue
            kept = [k for k in chunk if k != self.FALSE]
            if not kept:
                self.chunks = [[]]
                return
            chunks.append(kept)
        self.chunks = chunks

    def expression(self) -> PrimExpr:
        """The condition."""
        result: PrimExpr = IntImm(BOOL, 1)
        for chunk in self.chunks:
            disjunction: PrimExpr = IntImm(BOOL, 0)
            for k in chunk:
                disjunction = _or(disjunction, self.terms[k])
            result = _and(result, disjunction)
        return result


def simplify_as_and_of_ors(e: PrimExpr, analyzer: Any) -> PrimExpr:
    """The condition `e`, simplified as a conjunction of disjunctions."""
    extensions = analyzer.enabled_extensions
    analyzer.set_enabled_extensions(extensions & ~Extension.ConvertBooleanToAndOfOrs)
    try:
        form = _AndOfOrs(analyzer.simplify(e), analyzer)
        form.within_chunks()
        form.drop_constants()
        form.across_chunks()
        form.drop_constants()
        return form.expression()
    except _TooLarge:
        return e
    finally:
        analyzer.set_enabled_extensions(extensions)
