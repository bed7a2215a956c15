"""What follows from conditions on integers: unions of systems of linear inequalities.

A condition is kept as a union of cases; a case is a set of literals that all hold. A literal says that a linear sum is
at least 0, or that a condition which is not linear holds or does not. Quotients and remainders by constants are terms
of sums, with the inequalities that define them. Whether a case is impossible is decided by Fourier-Motzkin elimination
over the rationals, with coefficients divided by their common divisor and constants rounded: a case that is called
impossible is; another one may be impossible, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tvmagic.arith.constraint import normalize_boolean
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
    Cast,
    CmpOp,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Not,
    Or,
    PrimExpr,
    Range,
    Sub,
    Var,
    ops,
    substitute,
)
from tvmagic.ir.deep_equal import deep_equal
from tvmagic.ir.query import is_call
from tvmagic.lazy import cached_property

MOST_CASES = 24  # of a condition
MOST_ROWS = 60  # of a system while variables are eliminated
MOST_WORK = 150_000  # rows looked at for all systems since the last `restart`


class TooMuchWork(Exception):
    """A question takes too long; whoever asks it does without the answer."""


class Linear:
    """A sum of terms with integer factors, and a constant."""

    __slots__ = ("constant", "hashed", "terms")

    def __init__(self, terms: Mapping[Any, int], constant: int) -> None:
        self.terms = {t: c for t, c in terms.items() if c}
        self.constant = constant
        self.hashed = hash((frozenset((_key(t), c) for t, c in self.terms.items()), constant))

    def __hash__(self) -> int:
        return self.hashed

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Linear) or self.hashed != other.hashed or self.constant != other.constant:
            return False
        return len(self.terms) == len(other.terms) and all(other.terms.get(t) == c for t, c in self.terms.items())

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """`self + factor * other`"""
        terms = dict(self.terms)
        for t, c in other.terms.items():
            terms[t] = terms.get(t, 0) + factor * c
        return Linear(terms, self.constant + factor * other.constant)

    def times(self, factor: int) -> Linear:
        """`factor * self`"""
        return Linear({t: c * factor for t, c in self.terms.items()}, self.constant * factor)

    def shifted(self, by: int) -> Linear:
        """`self + by`"""
        return Linear(self.terms, self.constant + by)


class Quotient(NamedTuple):
    """The term `dividend // divisor`."""

    dividend: Linear
    divisor: int


class Opaque(NamedTuple):
    """An expression that is not linear, by its number in the table."""

    number: int


def _key(term: Any) -> Any:
    return id(term) if isinstance(term, Var) else term


class Literal(NamedTuple):
    """`sum >= 0`, or for `sum` None that the condition of number `number` has the value `holds`."""

    sum: Linear | None
    number: int = 0
    holds: bool = True

    def negated(self) -> Literal:
        """Its opposite."""
        if self.sum is not None:
            return Literal(self.sum.times(-1).shifted(-1))
        return Literal(None, self.number, not self.holds)


Case = frozenset[Literal]


class Condition:
    """A union of cases; no case is false, the case without literals is true."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self.cases = tuple(dict.fromkeys(cases))

    @property
    def is_true(self) -> bool:
        """Whether it says nothing."""
        return any(not case for case in self.cases)

    @property
    def is_false(self) -> bool:
        """Whether it has no case."""
        return not self.cases

    @cached_property
    def variables(self) -> frozenset[Var]:
        """The variables in its sums; those of what is not linear are not among them."""
        found: set[Var] = set()
        for case in self.cases:
            for literal in case:
                if literal.sum is not None:
                    _collect(literal.sum, found)
        return frozenset(found)


TRUE, FALSE = Condition([frozenset()]), Condition([])


def _collect(value: Linear, found: set[Var]) -> None:
    for term in value.terms:
        if isinstance(term, Var):
            found.add(term)
        elif isinstance(term, Quotient):
            _collect(term.dividend, found)


class IntegerLogic:
    """Reasons about conditions on variables in `ranges`.

    `max_steps`: how many systems may be decided; 0 for any number. Beyond them a TVMagicError is raised.
    """

    def __init__(self, ranges: Mapping[Var, Range] | None = None, max_steps: int = 0) -> None:
        self.steps, self.max_steps = 0, max_steps
        self.work = 0
        self.opaque: list[PrimExpr] = []
        self.limits: dict[Var, list[Linear]] = {}
        self.memo: dict[frozenset[Literal], bool] = {}
        for var, range_ in (ranges or {}).items():
            self.bind(var, range_)

    def restart(self) -> None:
        """Begin a question that may take as much work as the ones before."""
        self.work = 0

    def bind(self, var: Var, range_: Range) -> None:
        """Let `var` lie in a range."""
        at = Linear({var: 1}, 0)
        low = self.linear(range_.min)
        high = low.plus(self.linear(range_.extent)).shifted(-1)
        self.limits[var] = [at.plus(low, -1), high.plus(at, -1)]
        self.memo.clear()

    # ------------------------------------------------------------------ from expressions

    def linear(self, e: PrimExpr) -> Linear:
        """An integer expression as a sum; what is not linear is a term of its own."""
        if isinstance(e, IntImm):
            return Linear({}, e.value)
        if isinstance(e, Var) and e.dtype.is_index:
            return Linear({e: 1}, 0)
        if isinstance(e, Cast) and e.dtype.is_index and e.value.dtype.is_index:
            return self.linear(e.value)
        if isinstance(e, (Add, Sub)) and e.dtype.is_index:
            return self.linear(e.a).plus(self.linear(e.b), 1 if isinstance(e, Add) else -1)
        if isinstance(e, Mul) and e.dtype.is_index:
            a, b = self.linear(e.a), self.linear(e.b)
            if not b.terms:
                return a.times(b.constant)
            if not a.terms:
                return b.times(a.constant)
        if isinstance(e, (FloorDiv, FloorMod)) and e.dtype.is_index and isinstance(e.b, IntImm) and e.b.value > 0:
            a = self.linear(e.a)
            quotient = self.quotient(a, e.b.value)
            return quotient if isinstance(e, FloorDiv) else a.plus(quotient, -e.b.value)
        return Linear({Opaque(self._opaque_number(e)): 1}, 0)

    def quotient(self, a: Linear, divisor: int) -> Linear:
        """`a // divisor`, with what the divisor divides taken out."""
        whole = Linear({t: c // divisor for t, c in a.terms.items() if c % divisor == 0}, a.constant // divisor)
        rest = Linear({t: c for t, c in a.terms.items() if c % divisor}, a.constant % divisor)
        return whole.plus(Linear({Quotient(rest, divisor): 1}, 0)) if rest.terms else whole

    def _opaque_number(self, e: PrimExpr) -> int:
        for number, known in enumerate(self.opaque):
            if known is e or deep_equal(known, e):
                return number
        self.opaque.append(e)
        return len(self.opaque) - 1

    def condition(self, e: PrimExpr) -> Condition:
        """A condition as a union of cases."""
        if isinstance(e, IntImm):
            return TRUE if e.value else FALSE
        if is_call(e, "tir.likely"):
            return self.condition(e.args[0])
        if isinstance(e, And):
            return self.both(self.condition(e.a), self.condition(e.b))
        if isinstance(e, Or):
            return self.either(self.condition(e.a), self.condition(e.b))
        if isinstance(e, Not):
            inner = normalize_boolean(e)
            return self.opposite(self.condition(e.a)) if isinstance(inner, Not) else self.condition(inner)
        if isinstance(e, CmpOp) and e.a.dtype.is_index and e.b.dtype.is_index:
            return self._comparison(e)
        if not e.dtype.is_bool and e.dtype.is_index:
            return self._comparison(NE(e, IntImm(e.dtype, 0)))
        return Condition([frozenset([Literal(None, self._opaque_number(e))])])

    def _comparison(self, e: CmpOp) -> Condition:
        difference = self.linear(e.b).plus(self.linear(e.a), -1)
        if isinstance(e, (GT, GE)):
            difference = difference.times(-1)
        if isinstance(e, (LT, GT)):
            return self.at_least_zero(difference.shifted(-1))
        if isinstance(e, (LE, GE)):
            return self.at_least_zero(difference)
        equal = self.equal(difference, Linear({}, 0))
        assert isinstance(e, (EQ, NE))
        return equal if isinstance(e, EQ) else self.opposite(equal)

    def at_least_zero(self, value: Linear) -> Condition:
        """`value >= 0`"""
        value = _tightened(value)
        if not value.terms:
            return TRUE if value.constant >= 0 else FALSE
        return Condition([frozenset([Literal(value)])])

    def equal(self, a: Linear, b: Linear) -> Condition:
        """`a == b`"""
        return self.both(self.at_least_zero(a.plus(b, -1)), self.at_least_zero(b.plus(a, -1)))

    def expression(self, value: Linear, dtype: Any) -> PrimExpr:
        """A sum as an expression of an integer type."""
        result: PrimExpr = IntImm(dtype, 0)
        for term, factor in value.terms.items():
            result = result + self._term(term, dtype) * IntImm(dtype, factor)
        return result + IntImm(dtype, value.constant)

    def _term(self, term: Any, dtype: Any) -> PrimExpr:
        if isinstance(term, Var):
            return term
        if isinstance(term, Quotient):
            return ops.floordiv(self.expression(term.dividend, dtype), IntImm(dtype, term.divisor))
        return self._opaque(term)

    def _opaque(self, term: Opaque) -> PrimExpr:
        return self.opaque[term.number]

    # ------------------------------------------------------------------ algebra

    def both(self, *conditions: Condition) -> Condition:
        """The conjunction."""
        cases: list[Case] = [frozenset()]
        for condition in conditions:
            cases = [a | b for a in cases for b in condition.cases]
            if len(cases) > 1 or len(condition.cases) != 1:
                cases = [case for case in dict.fromkeys(cases) if not self._impossible(case)]
        return Condition(cases)

    def either(self, *conditions: Condition) -> Condition:
        """The disjunction."""
        if any(c.is_true for c in conditions):
            return TRUE
        return Condition([case for condition in conditions for case in condition.cases])

    def opposite(self, condition: Condition) -> Condition:
        """The negation."""
        return self.both(*[Condition([frozenset([l.negated()]) for l in case]) for case in condition.cases])

    def without(self, condition: Condition, removed: Condition) -> Condition:
        """The part of `condition` in which `removed` does not hold."""
        if condition.is_false or removed.is_false:
            return condition
        return self.reduced(self.both(condition, self.opposite(removed)))

    def replaced(self, condition: Condition, values: Mapping[Var, Linear], exprs: Mapping[Var, PrimExpr]) -> Condition:
        """The condition with variables replaced; `values` and `exprs` say the same."""
        cases: list[Case] = []
        for case in condition.cases:
            new = TRUE
            for literal in case:
                if literal.sum is not None:
                    part = self.at_least_zero(self.replaced_sum(literal.sum, values, exprs))
                else:
                    part = self.condition(substitute(self.opaque[literal.number], exprs))
                    part = part if literal.holds else self.opposite(part)
                new = self.both(new, part)
            cases += new.cases
        return Condition(cases)

    def replaced_sum(self, value: Linear, values: Mapping[Var, Linear], exprs: Mapping[Var, PrimExpr]) -> Linear:
        """The sum with variables replaced."""
        result = Linear({}, value.constant)
        for term, factor in value.terms.items():
            if isinstance(term, Var):
                new = values.get(term) or Linear({term: 1}, 0)
            elif isinstance(term, Quotient):
                new = self.quotient(self.replaced_sum(term.dividend, values, exprs), term.divisor)
            else:
                old = self._opaque(term)
                changed = substitute(old, exprs)
                new = Linear({term: 1}, 0) if changed is old else self.linear(changed)
            result = result.plus(new, factor)
        return result

    # ------------------------------------------------------------------ proofs

    def impossible(self, *conditions: Condition) -> bool:
        """Whether the conditions are proved never to hold together."""
        return all(self._impossible(case) for case in self.both(*conditions).cases)

    def implies(self, condition: Condition, goal: Condition) -> bool:
        """Whether it is proved that `goal` holds where `condition` does."""
        if goal.is_true or condition.is_false:
            return True
        return all(self._covered(case, goal) for case in condition.cases)

    def _covered(self, case: Case, goal: Condition) -> bool:
        if self._impossible(case):
            return True
        left: list[Case] = [case]
        for other in goal.cases:
            left = [c | {l.negated()} for c in left for l in other if l not in c]
            left = [c for c in dict.fromkeys(left) if not self._impossible(c)]
            if not left:
                return True
            if len(left) > 4 * MOST_CASES:
                return False
        return False

    def equivalent(self, a: Condition, b: Condition) -> bool:
        """Whether both are proved to hold at the same points."""
        return set(a.cases) == set(b.cases) or (self.implies(a, b) and self.implies(b, a))

    def reduced(self, condition: Condition) -> Condition:
        """A shorter condition; if there are too many cases it may be a stronger one."""
        cases = [self._without_implied(case) for case in condition.cases if not self._impossible(case)]
        cases = list(dict.fromkeys(cases))
        if any(not case for case in cases):
            return TRUE
        cases = self._merged(cases)
        if len(cases) > MOST_CASES:
            cases = sorted(cases, key=len)[:MOST_CASES]
        return Condition(cases)

    def _without_implied(self, case: Case) -> Case:
        """The case without literals that follow from the others."""
        kept = sorted(case, key=lambda l: (l.sum is None, len(l.sum.terms) if l.sum is not None else 0))
        for literal in list(kept):
            rest = [l for l in kept if l is not literal]
            if self._impossible(frozenset([*rest, literal.negated()])):
                kept = rest
        return frozenset(kept)

    def _merged(self, cases: list[Case]) -> list[Case]:
        """Fewer cases: two become one if what both say together is no more than either."""
        changed = True
        while changed:
            changed = False
            for i, a in enumerate(cases):
                for j in range(i + 1, len(cases)):
                    joint = self._joint(a, cases[j])
                    if joint is not None:
                        cases = [joint, *[c for k, c in enumerate(cases) if k not in (i, j)]]
                        changed = True
                        break
                if changed:
                    break
        return cases

    def _joint(self, a: Case, b: Case) -> Case | None:
        common = {l for l in a if l in b or self._impossible(b | {l.negated()})}
        common |= {l for l in b if l in a or self._impossible(a | {l.negated()})}
        joint = frozenset(common)
        return joint if self._covered(joint, Condition([a, b])) else None

    # ------------------------------------------------------------------ elimination

    def _count(self) -> None:
        self.steps, self.work = self.steps + 1, self.work + 5
        if self.work > MOST_WORK:
            self.work = 0
            raise TooMuchWork
        if self.max_steps and self.steps > self.max_steps:
            raise TVMagicError(
                f"RewriteSimplifier exceeded maximum number of rewrites allowed ({self.max_steps})",
                hint="raise `max_simplification_steps`, or set it to 0",
                code="analyzer.too_many_rewrites",
            )

    def _impossible(self, case: Case) -> bool:
        self._count()
        known = self.memo.get(case)
        if known is None:
            flags = {(l.number, l.holds) for l in case if l.sum is None}
            known = any((number, not holds) in flags for number, holds in flags)
            if not known:
                rows = LinearSystem(self, [l.sum for l in case if l.sum is not None])
                known = rows.impossible()
                self.work += rows.work
            self.memo[case] = known
        return known


def _tightened(value: Linear) -> Linear:
    """The strongest sum that is at least 0 exactly where `value` is."""
    divisor = math.gcd(*value.terms.values()) if value.terms else 1
    if divisor <= 1:
        return value
    return Linear({t: c // divisor for t, c in value.terms.items()}, value.constant // divisor)


class LinearSystem:
    """A system of sums that are at least 0, with the terms numbered."""

    def __init__(self, logic: IntegerLogic, sums: Sequence[Linear]) -> None:
        self.rows: dict[tuple[tuple[int, int], ...], int] = {}
        self.contradiction = False
        self.work = 0
        numbers: dict[Any, int] = {}
        todo = list(sums)
        while todo:  # the rows, and what is known of the terms in them
            row = todo.pop()
            terms: list[tuple[int, int]] = []
            for term, factor in row.terms.items():
                number = numbers.get(_key(term))
                if number is None:
                    number = numbers[_key(term)] = len(numbers)
                    todo += _known_of(logic, term)
                terms.append((number, factor))
            self.add(tuple(sorted(terms)), row.constant)

    def add(self, terms: tuple[tuple[int, int], ...], constant: int) -> None:
        """Add a row; of rows with equal terms the stronger one stays."""
        if not terms:
            self.contradiction = self.contradiction or constant < 0
            return
        divisor = math.gcd(*[factor for _, factor in terms])
        if divisor > 1:
            terms = tuple([(n, factor // divisor) for n, factor in terms])
            constant //= divisor
        old = self.rows.get(terms)
        if old is None or constant < old:
            self.rows[terms] = constant

    def impossible(self) -> bool:
        """Whether the system is proved to have no solution in integers."""
        while self.rows and not self.contradiction:
            number = self._next()
            lows: list[tuple[dict[int, int], int]] = []
            highs: list[tuple[dict[int, int], int]] = []
            rows, self.rows = self.rows, {}
            for terms, constant in rows.items():
                factors = dict(terms)
                factor = factors.get(number, 0)
                if factor:
                    (lows if factor > 0 else highs).append((factors, constant))
                else:
                    self.rows[terms] = constant
            self.work += len(rows) + len(lows) * len(highs)
            if len(self.rows) + len(lows) * len(highs) > MOST_ROWS:
                return False
            for low, first in lows:
                for high, second in highs:
                    self._combine(number, low, first, high, second)
        return self.contradiction

    def _combine(self, number: int, low: dict[int, int], first: int, high: dict[int, int], second: int) -> None:
        """Add the sum of two rows in which a term cancels."""
        a, b = low[number], -high[number]
        divisor = math.gcd(a, b)
        a, b = a // divisor, b // divisor
        total = {n: factor * b for n, factor in low.items()}
        for n, factor in high.items():
            total[n] = total.get(n, 0) + factor * a
        self.add(tuple(sorted([(n, factor) for n, factor in total.items() if factor])), first * b + second * a)

    def _next(self) -> int:
        """The term whose elimination makes the fewest rows; one with factors of 1 loses no integer."""
        counts: dict[int, list[int]] = {}
        for terms in self.rows:
            for number, factor in terms:
                entry = counts.setdefault(number, [0, 0, 0])
                entry[0 if factor > 0 else 1] += 1
                entry[2] = max(entry[2], abs(factor))
        return min(counts, key=lambda n: (counts[n][2] > 1, counts[n][0] * counts[n][1] - sum(counts[n][:2])))


def _known_of(logic: IntegerLogic, term: Any) -> list[Linear]:
    """What is known of a term wherever it is: the range of a variable, the definition of a quotient."""
    if isinstance(term, Var):
        return logic.limits.get(term, [])
    if isinstance(term, Quotient):
        rest = term.dividend.plus(Linear({term: 1}, 0), -term.divisor)
        return [rest, rest.times(-1).shifted(term.divisor - 1)]
    return []
