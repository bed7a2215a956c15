"""Algebraic laws of reducers: whether a schedule may regroup or reorder what a reduction combines.

`rfactor` and reductions over threads combine partial results, each of which starts with the neutral element. The result
stays the same if the reducer is associative and commutative. Each component of a reducer is proved in one of three ways:

- it is `min`, `max`, `and`, `or` or `xor` of its two sides;
- it chooses one side by comparing components in a fixed order, as argmax and argmin do. If all compared components are
  equal, either side is a right result;
- it is a polynomial, and the law holds as an identity of polynomials. Integers wrap, so the law holds for them as well.
  For floats it holds up to rounding.

A reducer that is declared associative (`te.comm_reducer(..., associative=True)`) is believed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import isfinite
from typing import NamedTuple

from tvmagic.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    BinaryOp,
    Call,
    CommReducer,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Sub,
    Var,
)
from tvmagic.ir.conditional import choice
from tvmagic.ir.query import callee, is_zero, operands

_MOST_TERMS = 500
_IDEMPOTENT_CALLS = ("tir.bitwise_and", "tir.bitwise_or")

_Polynomial = dict[tuple[Var, ...], Fraction]  # the coefficient of each product of variables, which are sorted


class _Key(NamedTuple):
    """A component that a choice compares, and whether the greater value is chosen."""

    component: int
    greatest: bool


class _NotPolynomial(Exception):
    """An expression is not a polynomial, or has too many terms."""


def can_regroup(reducer: CommReducer) -> bool:
    """Return whether partial results that start with the neutral elements can be combined in any order."""
    return bool(reducer.attrs.get("associative")) or _holds(reducer, _is_commutative_monoid)


def can_reorder(reducer: CommReducer) -> bool:
    """Return whether a reduction that takes in one value after the other can take them in any order."""
    return bool(reducer.attrs.get("associative")) or _holds(reducer, _takes_in_any_order)


def _holds(reducer: CommReducer, law: Callable[[CommReducer, Sequence[int]], bool]) -> bool:
    keys = {i: k for i in range(len(reducer.result)) if (k := _keys(reducer, i)) is not None}
    others = [i for i in range(len(reducer.result)) if i not in keys]
    return all(_keys_agree(keys, own) for own in keys.values()) and law(reducer, others)


# ---------------------------------------------------------------------------- extremes and choices


def _keys(reducer: CommReducer, place: int) -> list[_Key] | None:
    """Return what decides which side component `place` is taken from: nothing for `and` and its kind, None if unknown."""
    result = reducer.result[place]
    sides = (reducer.lhs[place], reducer.rhs[place])
    if isinstance(result, BinaryOp) and _is_pair((result.a, result.b), sides):
        if isinstance(result, (Min, Max)):
            return [_Key(place, isinstance(result, Max))]
        return [] if isinstance(result, (And, Or)) else None
    if isinstance(result, Call) and len(result.args) == 2 and _is_pair(result.args, sides):
        starts_neutral = callee(result) == "tir.bitwise_xor" and is_zero(reducer.identity_element[place])
        return [] if starts_neutral or callee(result) in _IDEMPOTENT_CALLS else None
    chosen = choice(result)
    if chosen is None or not _is_pair(chosen[1:], sides):
        return None
    return _order(_without_nan(chosen[0]), reducer, chosen[1] is sides[0])


def _without_nan(condition: PrimExpr) -> PrimExpr:
    """Return a comparison that orders NaN before all numbers as one of numbers alone: both are total orders.

    `a > b or isnan(a) and not isnan(b)` becomes `a > b`, and `a == b or isnan(a) and isnan(b)` becomes `a == b`. A
    condition that does one without the other is returned as it is.
    """
    parts, kept, changed = operands(condition, Or), list[PrimExpr](), set[str]()
    for part in parts:
        if any(_prefers_nan(part, other) for other in parts if isinstance(other, (LT, GT))):
            changed.add("better")
            continue
        terms = operands(part, And)
        equal = [_equal_or_nan(term) for term in terms]
        if any(found is not None for found in equal):
            changed.add("equal")
            terms = [term if found is None else found for found, term in zip(equal, terms)]
            part = functools.reduce(And, terms)
        kept.append(part)
    complete = changed == ({"better", "equal"} if len(kept) > 1 else {"better"})
    return functools.reduce(Or, kept) if complete else condition


def _prefers_nan(node: PrimExpr, better: BinaryOp) -> bool:
    """Whether `node` holds if the side that `better` takes is NaN and the other one is not."""
    terms = operands(node, And)
    if len(terms) != 2 or not isinstance(terms[1], Not):
        return False
    return _is_nan(terms[0], better.a) and _is_nan(terms[1].a, better.b)


def _equal_or_nan(node: PrimExpr) -> EQ | None:
    """The equality in `a == b or isnan(a) and isnan(b)`; None if `node` is something else."""
    parts = operands(node, Or)
    if len(parts) != 2 or not isinstance(parts[0], EQ):
        return None
    terms, equal = operands(parts[1], And), parts[0]
    pairs = ((equal.a, equal.b), (equal.b, equal.a))
    both = len(terms) == 2 and any(_is_nan(terms[0], a) and _is_nan(terms[1], b) for a, b in pairs)
    return equal if both else None


def _is_nan(node: PrimExpr, value: PrimExpr) -> bool:
    return isinstance(node, Call) and callee(node) == "tir.isnan" and node.args[0] is value


def _is_pair(values: Sequence[PrimExpr], sides: tuple[Var, Var]) -> bool:
    (a, b), (left, right) = values, sides
    return (a is left and b is right) or (a is right and b is left)


def _order(condition: PrimExpr, reducer: CommReducer, takes_left: bool) -> list[_Key] | None:
    """Return the components that `condition` compares, most significant first, or None if it is not such a comparison.

    The left side is taken if the condition holds and `takes_left`, or if neither.
    """
    if isinstance(condition, (LT, LE, GT, GE)):
        place = _compared(condition, reducer)
        if place is None:
            return None
        is_left_greater = isinstance(condition, (GT, GE)) == (condition.a is reducer.lhs[place])
        return [_Key(place, is_left_greater == takes_left)]
    if not isinstance(condition, Or):
        return None
    for better, otherwise in ((condition.a, condition.b), (condition.b, condition.a)):
        if not isinstance(better, (LT, GT)):
            continue
        first = _order(better, reducer, takes_left)
        parts = operands(otherwise, And)
        equal = [p for p in parts if isinstance(p, EQ) and first and _compared(p, reducer) == first[0].component]
        rest = [p for p in parts if p not in equal]
        if first and len(equal) == 1 and len(rest) == 1:
            last = _order(rest[0], reducer, takes_left)
            return None if last is None else [*first, *last]
    return None


def _compared(node: BinaryOp, reducer: CommReducer) -> int | None:
    """Return the component of which a comparison compares both sides, or None."""
    pairs = zip(reducer.lhs, reducer.rhs)
    return next((i for i, pair in enumerate(pairs) if _is_pair((node.a, node.b), pair)), None)


def _keys_agree(keys: Mapping[int, list[_Key]], own: Sequence[_Key]) -> bool:
    """Return whether each component that a choice compares is itself chosen by the comparisons up to it."""
    return all(keys.get(key.component, [])[: n + 1] == list(own[: n + 1]) for n, key in enumerate(own))


# ---------------------------------------------------------------------------- polynomials


def _is_commutative_monoid(reducer: CommReducer, places: Sequence[int]) -> bool:
    """Return whether these components are associative and commutative, and start with their neutral elements."""
    if not places:
        return True
    try:
        x, y, z = (_variables(reducer, places, name) for name in "xyz")
        xy = _combined(reducer, places, x, y)
        start = [_polynomial(reducer.identity_element[i], {}) for i in places]
        return (
            xy == _combined(reducer, places, y, x)
            and _combined(reducer, places, start, x) == x
            and _combined(reducer, places, xy, z) == _combined(reducer, places, x, _combined(reducer, places, y, z))
        )
    except _NotPolynomial:
        return False


def _takes_in_any_order(reducer: CommReducer, places: Sequence[int]) -> bool:
    """Return whether these components are the same if two neighbouring values change places."""
    try:
        x, y, z = (_variables(reducer, places, name) for name in "xyz")
        first = _combined(reducer, places, _combined(reducer, places, x, y), z)
        return first == _combined(reducer, places, _combined(reducer, places, x, z), y)
    except _NotPolynomial:
        return False


def _variables(reducer: CommReducer, places: Sequence[int], name: str) -> list[_Polynomial]:
    return [{(Var(f"{name}{i}", reducer.lhs[i].dtype),): Fraction(1)} for i in places]


def _combined(
    reducer: CommReducer, places: Sequence[int], left: Sequence[_Polynomial], right: Sequence[_Polynomial]
) -> list[_Polynomial]:
    """Return the results of these components as polynomials, if those of the two sides are known."""
    values = {reducer.lhs[i]: p for i, p in zip(places, left)} | {reducer.rhs[i]: p for i, p in zip(places, right)}
    return [_polynomial(reducer.result[i], values) for i in places]


def _polynomial(e: PrimExpr, values: Mapping[Var, _Polynomial]) -> _Polynomial:
    """Return `e` as a polynomial; raise `_NotPolynomial` if it is not one."""
    if isinstance(e, Var) and e in values:
        return values[e]
    if isinstance(e, IntImm) or (isinstance(e, FloatImm) and isfinite(e.value)):
        return {(): Fraction(e.value)} if e.value else {}
    if isinstance(e, (Add, Sub, Mul)) and not e.dtype.is_bool:
        a, b = _polynomial(e.a, values), _polynomial(e.b, values)
        return _product(a, b) if isinstance(e, Mul) else _sum(a, b, 1 if isinstance(e, Add) else -1)
    raise _NotPolynomial


def _sum(a: _Polynomial, b: _Polynomial, sign: int) -> _Polynomial:
    result = dict(a)
    for product, factor in b.items():
        result[product] = result.get(product, Fraction(0)) + sign * factor
    return {product: factor for product, factor in result.items() if factor}


def _product(a: _Polynomial, b: _Polynomial) -> _Polynomial:
    if len(a) * len(b) > _MOST_TERMS:
        raise _NotPolynomial
    result: _Polynomial = {}
    for left, factor in a.items():
        result = _sum(result, {tuple(sorted((*left, *right), key=id)): factor * f for right, f in b.items()}, 1)
    return result
