"""Linear inequalities over the integers, solved by Fourier-Motzkin elimination."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tvmagic.arith.int_constraints import (
    SIMPLIFY_STEPS,
    IntConstraints,
    IntConstraintsTransform,
    IntGroupBounds,
    as_conditions,
    contradiction,
)
from tvmagic.arith.int_set import is_const, negate, new_analyzer
from tvmagic.arith.iter_map.constraints import expr_size
from tvmagic.arith.linear import detect_linear_equation
from tvmagic.errors import TVMagicError
from tvmagic.ir import EQ, GE, GT, LE, LT, NE, CmpOp, IntImm, PrimExpr, Range, Var, ops, substitute
from tvmagic.ir.deep import deep
from tvmagic.ir.deep_equal import deep_equal
from tvmagic.ir.fold import truncate_divide
from tvmagic.ir.ops import make_const

if TYPE_CHECKING:
    from tvmagic.arith.analyzer import Analyzer

__all__ = ["solve_inequalities_as_condition", "solve_linear_inequalities"]

# (c, e) stands for c*v + e <= 0
_Term = tuple[int, PrimExpr]


def _normalized(condition: PrimExpr, analyzer: Analyzer) -> PrimExpr:
    """A comparison as `e <= 0`, `e == 0` or `e != 0`."""
    if not isinstance(condition, CmpOp):
        return condition
    a, b, kind = condition.a, condition.b, type(condition)
    if kind in (GT, GE):
        a, b, kind = b, a, LT if kind is GT else LE
    zero = make_const(a.dtype, 0)
    if kind is LT and (a.dtype.is_int or a.dtype.is_uint):
        return LE(analyzer.simplify(a - b + 1), zero)
    assert kind in (LT, LE, EQ, NE)
    return kind(analyzer.simplify(a - b), zero)


class _Eliminator:
    """Eliminates the variables of a system one after another."""

    def __init__(self, system: IntConstraints) -> None:
        self.system = system
        self.analyzer = new_analyzer(system.ranges)
        self.rest: list[PrimExpr] = []
        self.current: list[PrimExpr] = []
        for relation in system.relations:
            self._add(self.current, self._prepare(relation))

    def simplify(self, value: PrimExpr) -> PrimExpr:
        return self.analyzer.simplify(value, SIMPLIFY_STEPS)

    def _prepare(self, relation: PrimExpr) -> PrimExpr:
        return _normalized(self.simplify(relation), new_analyzer())

    def _not_above(self, a: PrimExpr, b: PrimExpr) -> bool:
        return self.analyzer.can_prove(ops.less_equal(a - b, 0))

    def _add(self, conditions: list[PrimExpr], new: PrimExpr) -> None:
        """Add a condition unless it follows from the ranges or another one; drop those it implies."""
        if self.analyzer.can_prove(new) or any(deep_equal(new, old) for old in conditions):
            return
        if isinstance(new, LE):
            kept: list[PrimExpr] = []
            for i, old in enumerate(conditions):
                if isinstance(old, LE) and self._not_above(new.a, old.a):
                    conditions[:] = [*kept, *conditions[i:]]
                    return
                if not (isinstance(old, LE) and self._not_above(old.a, new.a)):
                    kept.append(old)
            conditions[:] = kept
        conditions.append(new)

    def eliminate(self, var: Var) -> IntGroupBounds:
        """The bounds of `var`; the other conditions are those without it from now on."""
        positive: list[_Term] = []
        negative: list[_Term] = []
        remaining: list[PrimExpr] = []
        domain = self.system.ranges.get(var)
        if domain is not None:
            negative.append((-1, self.simplify(domain.min)))
            positive.append((1, negate(self.simplify(domain.min + domain.extent - 1))))
        for condition in self.current:
            self._classify(condition, var, positive, negative, remaining)
        for above, upper in positive:
            for below, lower in negative:
                divisor = math.gcd(above, below)
                factor_lower = make_const(var.dtype, above // divisor)
                factor_upper = make_const(var.dtype, truncate_divide(below, divisor))
                total = factor_lower * lower - factor_upper * upper
                self._add(remaining, self._prepare(LE(total, make_const(upper.dtype, 0))))
        self.current = remaining
        return self._bounds(var, positive, negative)

    def _classify(
        self, condition: PrimExpr, var: Var, positive: list[_Term], negative: list[_Term], remaining: list[PrimExpr]
    ) -> None:
        """Put a condition where its coefficient of `var` belongs."""
        if isinstance(condition, (LE, EQ)):
            parts = detect_linear_equation(condition.a, [var])
            if parts and isinstance(parts[0], IntImm):
                factor, offset = parts[0].value, parts[1]
                if factor == 0:
                    self._add(remaining, condition)
                    return
                terms = [(factor, offset)]
                if isinstance(condition, EQ):  # as two inequalities
                    terms.append((-factor, negate(offset)))
                for term in terms:
                    (positive if term[0] > 0 else negative).append(term)
                return
        self.rest.append(condition)

    def _bounds(self, var: Var, positive: list[_Term], negative: list[_Term]) -> IntGroupBounds:
        """Bounds of a common multiple of `var`."""
        multiple = math.lcm(1, *[factor for factor, _ in (*positive, *negative)])
        upper: list[PrimExpr] = []
        lower: list[PrimExpr] = []
        for factor, offset in positive:
            self._add_bound(upper, var, multiple, factor, offset, self._not_above)
        for factor, offset in negative:
            self._add_bound(lower, var, multiple, factor, offset, lambda a, b: self._not_above(b, a))
        equal = [u for u in upper if any(deep_equal(u, low) for low in lower)]
        upper = [u for u in upper if not any(u is e for e in equal)]
        lower = [low for low in lower if not any(deep_equal(low, e) for e in equal)]
        equal.sort(key=expr_size)
        return IntGroupBounds(make_const(var.dtype, multiple), lower, equal, upper)

    def _add_bound(
        self,
        bounds: list[PrimExpr],
        var: Var,
        multiple: int,
        factor: int,
        offset: PrimExpr,
        tighter: Callable[[PrimExpr, PrimExpr], bool],
    ) -> None:
        """Add the bound of `factor * var + offset <= 0` unless another is tighter; drop looser ones."""
        bound = self.simplify(make_const(var.dtype, truncate_divide(-multiple, factor)) * offset)
        if any(tighter(old, bound) for old in bounds):
            return
        bounds[:] = [old for old in bounds if not tighter(bound, old)]
        bounds.append(bound)

    def conditions_left(self) -> list[PrimExpr]:
        """What remains of the relations after all variables are gone."""
        result: list[PrimExpr] = []
        for condition in self.current:
            condition = self.simplify(condition)
            if is_const(condition, 0):
                result = [make_const(condition.dtype, 0)]
                break
            if not is_const(condition, 1):
                result.append(condition)
        return [*result, *self.rest]


def _solve(system: IntConstraints) -> tuple[dict[Var, IntGroupBounds], list[PrimExpr]]:
    """The bounds of each variable in terms of the later ones, and the other conditions."""
    eliminator = _Eliminator(system)
    bounds: dict[Var, IntGroupBounds] = {}
    for var in system.variables:
        if var in bounds:
            raise TVMagicError(f"the variable `{var.name}` occurs twice among those to solve for")
        bounds[var] = eliminator.eliminate(var)
    return bounds, eliminator.conditions_left()


def _is_equation(group: IntGroupBounds) -> bool:
    """Whether the variable itself equals an expression, so that it needs no range."""
    return is_const(group.coef, 1) and bool(group.equal)


def _to_ranges(system: IntConstraints) -> IntConstraints:
    bounds, others = _solve(system)
    known = dict(system.ranges)
    result: dict[Var, Range] = {}
    # the last variable has bounds without the others
    for var in reversed(system.variables):
        analyzer = new_analyzer(known)
        group = bounds[var]
        if _is_equation(group):
            best: Range | None = Range(group.equal[0], analyzer.simplify(group.equal[0] + 1, SIMPLIFY_STEPS))
        else:
            if var in known:
                group = group + known[var]
            best = group.find_best_range(known)
            if best is not None and analyzer.can_prove_greater_equal(negate(best.extent), 0):
                return contradiction()
        if best is not None:
            result[var] = known[var] = best
    analyzer = new_analyzer(known)
    conditions = as_conditions(system.variables, bounds, others)
    return IntConstraints(system.variables, result, [c for c in conditions if not analyzer.can_prove(c)])


class _Deskewer:
    """Replaces each variable by one that starts from 0."""

    def __init__(self, system: IntConstraints) -> None:
        self.system = system
        self.bounds, self.others = _solve(system)
        self.known = dict(system.ranges)
        self.analyzer = new_analyzer(self.known)
        self.src_to_dst: dict[Var, PrimExpr] = {}
        self.dst_to_src: dict[Var, PrimExpr] = {}
        self.variables: list[Var] = []
        self.ranges: dict[Var, Range] = {}

    def run(self) -> IntConstraintsTransform:
        for var in reversed(self.system.variables):
            if not self._replace(var):
                return IntConstraintsTransform(self.system, contradiction(), {}, {})
        relations: list[PrimExpr] = []
        for old in as_conditions(self.system.variables, self.bounds, self.others):
            new = self.analyzer.simplify(substitute(old, self.src_to_dst))
            if not is_const(new, 1):
                relations.append(new)
        target = IntConstraints(self.variables[::-1], self.ranges, relations)
        return IntConstraintsTransform(self.system, target, self.src_to_dst, self.dst_to_src)

    def _replace(self, var: Var) -> bool:
        """Find what `var` becomes; False if it can have no value."""
        group = self.bounds[var].substitute(self.src_to_dst)
        if _is_equation(group):
            self.src_to_dst[var] = group.equal[0]
            return True
        if var in self.known:
            group = group + self.known[var]
        best = group.find_best_range(self.known)
        if best is None:
            self.src_to_dst[var] = self.dst_to_src[var] = var
            self.variables.append(var)
            return True
        if is_const(best.extent, 1):
            self.src_to_dst[var] = best.min
            return True
        if self.analyzer.can_prove_greater_equal(negate(best.extent), 0):
            return False
        shifted = var.copy_with_suffix(".shifted")
        self.src_to_dst[var] = shifted + best.min
        self.dst_to_src[shifted] = self.analyzer.simplify(var - substitute(best.min, self.dst_to_src))
        range_ = Range.from_min_extent(make_const(shifted.dtype, 0), best.extent)
        self.variables.append(shifted)
        self.ranges[shifted] = self.known[shifted] = range_
        self.analyzer.bind(shifted, range_)
        return True


def _system(equations: Any, variables: Any, ranges: Any) -> IntConstraints:
    return equations if isinstance(equations, IntConstraints) else IntConstraints(variables, ranges, equations)


@deep
def solve_linear_inequalities(
    equations: Any, variables: Any = None, ranges: Any = None, deskew_range: bool = False
) -> IntConstraints | IntConstraintsTransform:
    """Solve a system of linear inequalities for integers.

    Parameters
    ----------
    equations: the system as `IntConstraints`, or its relations.
    variables: the variables to solve for; each one's range may use those after it.
    ranges: the ranges of variables.
    deskew_range: whether to replace the variables by ones that start from 0.

    Returns
    -------
    The system with the ranges found and the relations that they do not imply; with `deskew_range`
    the transform to the system in new variables. The relation false if there is no solution.
    """
    system = _system(equations, variables, ranges)
    return _Deskewer(system).run() if deskew_range else _to_ranges(system)


@deep
def solve_inequalities_as_condition(variables: Any, ranges: Any = None, relations: Any = None) -> Sequence[PrimExpr]:
    """The solution of a system as conditions on the variables, each one's in terms of later ones."""
    system = _system(variables, variables, ranges) if relations is None else _system(relations, variables, ranges)
    return as_conditions(system.variables, *_solve(system))
