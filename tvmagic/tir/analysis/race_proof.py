"""Proofs that two iterations of a loop never touch the same element.

An index is a sum of digits of loop variables: `io * 16 + ii`, and with `p = fuse(i, j)` of 8 columns
`p // 8` and `p % 8`. That two iterations touch one element is an equation for each dimension. An equation falls
into two where the large factors have a common divisor that the rest cannot reach: from
`16 * (io - io') + (ii - ii') = 0` with `ii` and `ii'` below 16 follow `io = io'` and `ii = ii'`. If all digits of
the loop's variable turn out equal, the iterations are the same one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir.query import operands
from tvmagic.tir.analysis.race_accesses import Access, Domain

INF = math.inf
# A part of a variable: (variable, low, high) is `variable // low % (high // low)`, without the remainder if high is 0.
_Atom = tuple[Any, ...]
_Sum = tuple[dict[_Atom, int], int]


@dataclass(frozen=True)
class Form:
    """The equations' side of one access: for each dimension the factors of its digits and a constant.

    `facts` are sums that are 0 wherever the access runs.
    """

    dims: tuple[tuple[tuple[tuple[_Atom, int], ...], int], ...]
    facts: tuple[tuple[tuple[tuple[_Atom, int], ...], int], ...] = ()


class Forms:
    """Indices of accesses as sums of digits, all cut at the same places.

    parallel: the variables whose iterations run at the same time.
    shared: the variables that are the same for both accesses; data: those that stand for what memory held.
    """

    def __init__(self, parallel: Sequence[ir.Var], shared: set[ir.Var], data: set[ir.Var]) -> None:
        self.parallel, self.shared, self.data = parallel, shared, data
        self.analyzer = Analyzer()
        self.domains: dict[ir.Var, Domain] = {}
        self.cuts: dict[ir.Var, set[int]] = {}
        self.symbolic: dict[ir.Var, set[int]] = {}
        self.opaque: list[ir.PrimExpr] = []
        self.hashes: dict[int, list[int]] = {}

    def add_domains(self, domains: Iterable[Domain]) -> None:
        """Learn the ranges of variables."""
        for domain in domains:
            if domain.var not in self.domains:
                self.domains[domain.var] = domain
                self.analyzer.bind(domain.var, ir.Range.from_min_extent(domain.begin, domain.extent), True)

    def of(self, accesses: Sequence[Access]) -> list[Form]:
        """The forms of accesses with indices, in order."""
        for access in accesses:
            self.add_domains(access.domains)
        raw = [([self._sum(i) for i in a.indices or ()], [self._sum(g) for g in _zeros(a)]) for a in accesses]
        return [Form(tuple(map(self._digits, dims)), tuple(map(self._digits, facts))) for dims, facts in raw]

    # ------------------------------------------------------------------------ sums

    def _sum(self, node: ir.PrimExpr) -> _Sum:
        """A sum of parts of variables; the cuts that the parts need are noted."""
        if isinstance(node, ir.IntImm):
            return {}, node.value
        if isinstance(node, ir.Var) and node.dtype.is_index:
            return self._variable(node)
        if isinstance(node, ir.Cast) and node.dtype.is_index and node.value.dtype.is_index:
            return self._sum(node.value)
        if isinstance(node, (ir.Add, ir.Sub)):
            (a, ka), (b, kb) = self._sum(node.a), self._sum(node.b)
            sign = 1 if isinstance(node, ir.Add) else -1
            return _plus(a, b, sign), ka + sign * kb
        if isinstance(node, ir.Mul):
            for factor, other in ((node.a, node.b), (node.b, node.a)):
                if isinstance(factor, ir.IntImm):
                    terms, constant = self._sum(other)
                    return {t: c * factor.value for t, c in terms.items() if factor.value}, constant * factor.value
        if isinstance(node, (ir.FloorDiv, ir.FloorMod)):
            found = self._quotient(node)
            if found is not None:
                return found
        return {self._opaque(node): 1}, 0

    def _variable(self, var: ir.Var) -> _Sum:
        domain = self.domains.get(var)
        terms, constant = ({}, 0) if domain is None else self._sum(domain.begin)
        return _plus(terms, {("v", var, 1, 0): 1}, 1), constant

    def _opaque(self, node: ir.PrimExpr) -> _Atom:
        return ("o", self._key(node))

    def _key(self, node: ir.PrimExpr) -> int:
        """A number for an expression, the same for equal ones."""
        alike = self.hashes.setdefault(ir.structural_hash(node, True), [])
        for number in alike:
            if ir.structural_equal(self.opaque[number], node):
                return number
        alike.append(len(self.opaque))
        self.opaque.append(node)
        return alike[-1]

    def _quotient(self, node: ir.FloorDiv | ir.FloorMod) -> _Sum | None:
        """`node` as a sum, if what it divides is a multiple of the divisor plus a part of one variable."""
        if not isinstance(node.b, ir.IntImm):
            return self._symbolic_quotient(node)
        divisor = node.b.value
        if divisor <= 0:
            return None
        terms, constant = self._sum(node.a)
        whole = {t: c // divisor for t, c in terms.items() if c % divisor == 0}
        rest = {t: c for t, c in terms.items() if c % divisor}
        quotient, constant = divmod(constant, divisor)
        low, high = self.reach(rest.items(), constant)
        if low >= 0 and high < divisor:
            return (whole, quotient) if isinstance(node, ir.FloorDiv) else (rest, constant)
        top = max(rest, key=lambda t: abs(rest[t]))
        factor = rest.pop(top)
        low, high = self.reach(rest.items(), constant)
        if top[0] != "v" or factor <= 0 or divisor % factor or low < 0 or high >= factor:
            return None
        _, var, begin, end = top
        cut = begin * (divisor // factor)
        if end and end % cut:
            return None
        self.cuts.setdefault(var, set()).update((begin, cut))
        if isinstance(node, ir.FloorDiv):
            return _plus(whole, {("v", var, cut, end): 1}, 1), quotient
        return _plus(rest, {("v", var, begin, cut): factor}, 1), constant

    def _symbolic_quotient(self, node: ir.FloorDiv | ir.FloorMod) -> _Sum | None:
        """`p // n` and `p % n` of a variable alone and a size that both iterations share."""
        if not isinstance(node.a, ir.Var) or node.a not in self.domains or not self._is_shared(node.b):
            return None
        key = self._key(node.b)
        self.symbolic.setdefault(node.a, set()).add(key)
        return {("div" if isinstance(node, ir.FloorDiv) else "mod", node.a, key): 1}, 0

    def _is_shared(self, node: ir.PrimExpr) -> bool:
        found: list[ir.Node] = []
        ir.post_order_visit(node, found.append)
        return not any(
            isinstance(n, (ir.BufferLoad, ir.Call)) or (isinstance(n, ir.Var) and not self._common(n)) for n in found
        )

    def _common(self, var: ir.Var) -> bool:
        return var in self.shared and var not in self.data

    # ------------------------------------------------------------------------ digits

    def _digits(self, value: _Sum) -> tuple[tuple[tuple[_Atom, int], ...], int]:
        terms: dict[_Atom, int] = {}
        for atom, factor in value[0].items():
            for digit, weight in self._split(atom):
                terms[digit] = terms.get(digit, 0) + weight * factor
        return tuple((t, c) for t, c in terms.items() if c), value[1]

    def chain(self, var: ir.Var) -> list[int] | None:
        """Where a variable is cut into digits, from 1 upwards; None if no digits fit all cuts."""
        cuts = sorted({1, *self.cuts.get(var, ())})
        return None if any(b % a for a, b in pairwise(cuts)) else cuts

    def _split(self, atom: _Atom) -> list[tuple[_Atom, int]]:
        """A part of a variable as digits, each with its weight."""
        if atom[0] != "v":
            return [(atom, 1)]
        _, var, low, high = atom
        chain = self.chain(var)
        if chain is None:
            return [(atom, 1)]
        ends = [c for c in chain if c >= low and (not high or c <= high)]
        bounds = [*ends, 0] if not high else ends
        return [(("v", var, a, b), a // low) for a, b in pairwise(bounds)]

    def digits_of(self, var: ir.Var) -> list[list[_Atom]]:
        """The sets of digits that tell a variable's value, each enough by itself."""
        chain = self.chain(var)
        found: list[list[_Atom]] = [[("v", var, 1, 0)]]
        if chain is not None:
            found.append([digit for digit, _ in self._split(("v", var, 1, 0))])
        return [*found, *([("div", var, key), ("mod", var, key)] for key in self.symbolic.get(var, ()))]

    # ------------------------------------------------------------------------ ranges

    def range(self, atom: _Atom) -> tuple[float, float]:
        """The least and the largest value of a digit."""
        if atom[0] == "v":
            _, var, low, high = atom
            domain = self.domains.get(var)
            most = INF
            if domain is not None:
                bound = self.analyzer.const_int_bound(domain.extent).max_value
                most = bound - 1 if bound < 1 << 40 else INF
                most = max(most, 0)
            elif var not in self.shared:
                return -INF, INF
            last = most // low if most != INF else INF
            return (0 if domain is not None else -INF), min(last, high // low - 1) if high else last
        if atom[0] == "o":
            bound = self.analyzer.const_int_bound(self.opaque[atom[1]])
            low, high = int(bound.min_value), int(bound.max_value)
            limit = 1 << 40
            return (low if low > -limit else -INF), (high if high < limit else INF)
        return (0 if atom[0] == "mod" else -INF), INF

    def reach(self, terms: Iterable[tuple[_Atom, int]], constant: int) -> tuple[float, float]:
        """The least and the greatest value of a sum of digits."""
        low = high = float(constant)
        for atom, factor in terms:
            ends = [e * factor for e in self.range(atom)]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def is_common(self, atom: _Atom) -> bool:
        """Whether a digit has the same value for both accesses."""
        if atom[0] == "o":
            number: int = atom[1]
            return self._is_shared(self.opaque[number])
        return self._common(atom[1])


def _plus(a: Mapping[_Atom, int], b: Mapping[_Atom, int], sign: int) -> dict[_Atom, int]:
    result = dict(a)
    for atom, factor in b.items():
        result[atom] = result.get(atom, 0) + sign * factor
    return {t: c for t, c in result.items() if c}


def _zeros(access: Access) -> list[ir.PrimExpr]:
    """Differences that are 0 where an access runs: those of the equalities among its conditions."""
    guards = [part for guard, _ in access.place.guards for part in operands(guard, ir.And)]
    return [guard.a - guard.b for guard in guards if isinstance(guard, ir.EQ) and guard.a.dtype.is_index]


# ---------------------------------------------------------------------------- equations


class _Never(Exception):
    """The equations have no solution."""


class _Equations:
    """What follows from equations between the digits of two accesses."""

    def __init__(self, forms: Forms) -> None:
        self.forms = forms
        self.known: dict[_Atom, _Atom | int] = {}  # by digit: the one it equals, or its value
        self.changed = False

    def value(self, atom: _Atom) -> _Atom | int:
        """What a digit equals, as far as it is known."""
        while atom in self.known:
            found = self.known[atom]
            if isinstance(found, int):
                return found
            atom = found
        return atom

    def equate(self, terms: Iterable[tuple[_Atom, int]], constant: int) -> None:
        """Learn that a sum of digits is 0."""
        merged: dict[_Atom, int] = {}
        for atom, factor in terms:
            value = self.value(atom)
            if isinstance(value, int):
                constant += factor * value
            else:
                merged[value] = merged.get(value, 0) + factor
        self._divide(sorted(((a, c) for a, c in merged.items() if c), key=lambda t: -abs(t[1])), constant)

    def _divide(self, terms: list[tuple[_Atom, int]], constant: int) -> None:
        """Split an equation, its terms by falling factors, as long as that is possible."""
        low, high = self._bounds(terms, constant)
        if low > 0 or high < 0:
            raise _Never
        common = 0
        for count in range(1, len(terms) + 1):
            common = math.gcd(common, terms[count - 1][1])
            if count < len(terms) and abs(terms[count][1]) == abs(terms[count - 1][1]):
                continue
            low, high = self._bounds(terms[count:], constant)
            if math.isinf(low) or math.isinf(high):
                continue
            first = -int(-low // common) * common
            if first > high:
                raise _Never
            if count < len(terms) and first + common > high:
                self._divide(terms[count:], constant - first)
                self._divide(terms[:count], first)
                return
        self._leaf(terms, constant)

    def _leaf(self, terms: list[tuple[_Atom, int]], constant: int) -> None:
        if len(terms) == 1:
            self._learn(terms[0][0], -constant // terms[0][1])
        elif len(terms) == 2 and terms[0][1] == -terms[1][1] and constant == 0:
            self._learn(terms[0][0], terms[1][0])

    def _learn(self, atom: _Atom, value: _Atom | int) -> None:
        self.known[atom] = value
        self.changed = True

    def _bounds(self, terms: Iterable[tuple[_Atom, int]], constant: int) -> tuple[float, float]:
        return self.forms.reach([(atom, factor) for (_, atom), factor in terms], constant)


def never_meet(forms: Forms, first: Form, second: Form) -> bool:
    """Whether it is proved that two different iterations never touch one element by these accesses."""
    if len(first.dims) != len(second.dims):
        return False
    equations = _Equations(forms)

    def tagged(terms: Iterable[tuple[_Atom, int]], side: int, sign: int) -> list[tuple[_Atom, int]]:
        return [((2 if forms.is_common(atom) else side, atom), sign * factor) for atom, factor in terms]

    try:
        for _ in range(4):
            equations.changed = False
            for side, form in enumerate((first, second)):
                for terms, constant in form.facts:
                    equations.equate(tagged(terms, side, 1), constant)
            for (left, a), (right, b) in zip(first.dims, second.dims):
                equations.equate([*tagged(left, 0, 1), *tagged(right, 1, -1)], a - b)
            if not equations.changed:
                break
    except _Never:
        return True

    def same(atom: _Atom) -> bool:
        low, high = forms.range(atom)
        return low == high or equations.value((0, atom)) == equations.value((1, atom))

    return all(any(all(map(same, digits)) for digits in forms.digits_of(var)) for var in forms.parallel)
