"""The predicate of an iterator map taken apart into bounds of iterators and of sums of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tvmagic.arith.int_set import max_of, min_of, new_analyzer
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.arith.iter_map.expr import int_const
from tvmagic.ir import GE, GT, LE, LT, Add, And, CmpOp, IntImm, PrimExpr, Range, Sub, Var, pre_order_visit


class IterConstraint(NamedTuple):
    """`low <= value < high`, for each end that is given."""

    value: PrimExpr
    low: PrimExpr | None
    high: PrimExpr | None


def expr_size(value: PrimExpr) -> int:
    """The number of nodes of an expression."""
    count = 0

    def look(node: object) -> None:
        nonlocal count
        count += 1

    pre_order_visit(value, look)
    return count


_COMPARISONS: tuple[type[CmpOp], ...] = (LT, LE, GT, GE)


def _next_comparison(predicate: PrimExpr) -> tuple[CmpOp, PrimExpr | None] | None:
    """A comparison of the conjunction and the rest of it."""
    for kind in _COMPARISONS:
        if isinstance(predicate, And):
            if type(predicate.b) is kind:
                return predicate.b, predicate.a
            if type(predicate.a) is kind:
                return predicate.a, predicate.b
        if type(predicate) is kind and isinstance(predicate, CmpOp):
            return predicate, None
    return None


def match_bound_constraints(
    predicate: PrimExpr, input_iters: dict[Var, Range]
) -> tuple[dict[Var, Range], list[IterConstraint]] | None:
    """The bounds that the conjunction `predicate` says.

    Returns the domains of the iterators, made smaller by bounds of single ones, and the bounds of
    other expressions; None if a term is not a comparison of integers.
    """
    domains = dict(input_iters)
    constraints: list[IterConstraint] = []
    rest: PrimExpr | None = predicate
    while rest is not None:
        match = _next_comparison(rest)
        if match is None:
            return None
        comparison, rest = match
        if not (comparison.a.dtype.is_int or comparison.a.dtype.is_uint):
            return None
        bound = _bound_of(comparison, domains.__contains__)
        if bound is None:
            continue
        if isinstance(bound.value, Var):
            domains[bound.value] = _narrowed(domains[bound.value], bound)
        else:
            constraints.append(bound)
    return domains, constraints


def _narrowed(domain: Range, bound: IterConstraint) -> Range:
    first, end = domain.min, domain.min + domain.extent
    if bound.low is not None:
        first = max_of(first, bound.low)
    if bound.high is not None:
        end = min_of(end, bound.high)
    return Range(first, end)


def _bound_of(comparison: CmpOp, is_iter: Callable[[Var], bool]) -> IterConstraint | None:
    """What the comparison says of iterators; None if it has none of them."""
    lhs, rhs = comparison.a, comparison.b
    left_uses, right_uses = uses_var(lhs, is_iter), uses_var(rhs, is_iter)
    if not (left_uses or right_uses):
        return None
    if left_uses and right_uses:
        lhs, rhs = _separate(lhs - rhs, is_iter)
    bound_at_left = not left_uses
    strict = isinstance(comparison, (LT, GT))
    greater = isinstance(comparison, (GT, GE))
    value, bound = (rhs, lhs) if bound_at_left else (lhs, rhs)
    if greater == bound_at_left:  # value < bound, value <= bound
        return IterConstraint(value, None, bound if strict else bound + 1)
    return IterConstraint(value, bound + 1 if strict else bound, None)


def _separate(difference: PrimExpr, is_iter: Callable[[Var], bool]) -> tuple[PrimExpr, PrimExpr]:
    """`value` and `bound` of `difference < 0` written as `value < bound`, the bound free of iterators."""
    value: PrimExpr = int_const("int32", 0)
    bound: PrimExpr = int_const("int32", 0)
    todo: list[tuple[PrimExpr, bool]] = [(difference, True)]
    while todo:
        part, positive = todo.pop()
        if isinstance(part, (Add, Sub)):
            todo += [(part.b, positive == isinstance(part, Add)), (part.a, positive)]
        elif uses_var(part, is_iter):
            value = value + part if positive else value - part
        else:
            bound = bound - part if positive else bound + part
    simplify = new_analyzer().simplify
    return simplify(value), bound if isinstance(bound, IntImm) else simplify(bound)
