"""Detection of iterator maps and simplification by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tvmagic.arith.int_set import new_analyzer
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.arith.iter_map.check import check_mapping
from tvmagic.arith.iter_map.constraints import expr_size, match_bound_constraints
from tvmagic.arith.iter_map.expr import IterMapLevel, IterMapResult, IterSumExpr, Report, is_const
from tvmagic.arith.iter_map.normalize import ToExpr
from tvmagic.arith.iter_map.rewriter import IterMapRewriter
from tvmagic.errors import TVMagicError
from tvmagic.ir import IntImm, IterVar, PrimExpr, Range, Var, expr, exprs, ops

if TYPE_CHECKING:
    from tvmagic.arith.analyzer import Analyzer


def iterator_domains(input_iters: Mapping[Any, Range]) -> dict[Var, Range]:
    """The domains with variables as keys."""
    return {(v.var if isinstance(v, IterVar) else v): domain for v, domain in input_iters.items()}


def independent(domains: Mapping[Var, Range]) -> bool:
    """Whether no domain depends on an iterator."""
    is_iter = domains.__contains__
    return not any(
        uses_var(end, is_iter)
        for domain in domains.values()
        for end in (domain.min, domain.extent)
        if not isinstance(end, IntImm)
    )


def detect_iter_map(
    indices: Sequence[Any],
    input_iters: Mapping[Any, Range],
    predicate: Any = True,
    check_level: Any = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
    analyzer: Analyzer | None = None,
) -> IterMapResult:
    """Write `indices` as an iterator map over `input_iters`.

    Parameters
    ----------
    indices: index expressions.
    input_iters: iterators with their domains.
    predicate: a conjunction of comparisons that holds for the iterators.
    check_level: an `IterMapLevel`, its number or name.
    simplify_trivial_iterators: whether an iterator of extent 1 counts as a constant.
    analyzer: what is known of other variables.

    Returns
    -------
    The sums, one an index; none if the indices are not such a map, with the reasons in `errors`.
    """
    level, report = IterMapLevel.of(check_level), Report()
    analyzer = analyzer or new_analyzer()
    values, condition = exprs(list(indices)), expr(predicate)
    domains = iterator_domains(input_iters)
    failed = IterMapResult((), report, None)
    if not independent(domains):
        report.add("Invalid iterators.  Iterators may not be expressions of each other.")
        return failed
    constraints: list[Any] = []
    if not is_const(condition, 1):
        matched = match_bound_constraints(condition, domains)
        if matched is None:
            report.add("Could not parse predicate as constraints on the input iterators.")
            return failed
        domains, constraints = matched
        if any(isinstance(domain.extent, IntImm) and domain.extent.value < 0 for domain in domains.values()):
            report.add("The predicate leaves no values to an iterator.")
            return failed
    rewriter = IterMapRewriter(analyzer, domains, level, simplify_trivial_iterators, report)
    # shorter sums first: longer ones hold them
    for constraint in sorted(constraints, key=lambda c: expr_size(c.value)):
        rewriter.fuser.constrain(rewriter.to_sum(constraint.value), constraint.low, constraint.high)
        if report:
            return failed
    if not rewriter.fuser.constraints_consistent():
        report.add("Invalid constraints.")
        return failed
    sums = _rewrite_indices(rewriter, values, level)
    if sums is None:
        return failed
    padding = rewriter.padder.predicate
    if check_mapping(rewriter, sums, level):
        return IterMapResult(sums, report, padding, rewriter.takes_all_values)
    if level is IterMapLevel.Bijective:
        report.add("Index mapping does not form a bijective transform.")
    else:
        report.add("Mapped indices are not independent.")
    return IterMapResult((), report, padding)


def _rewrite_indices(
    rewriter: IterMapRewriter, values: Sequence[PrimExpr], level: IterMapLevel
) -> list[IterSumExpr] | None:
    """The sums of the indices; a first pass finds what padding they need, unless none is allowed."""
    if level is not IterMapLevel.Bijective:
        sums = rewriter.rewrite_all(values, collect_padding=True)
        if sums is None or not rewriter.padder.required:
            return sums
    return rewriter.rewrite_all(values)


def normalize_to_iter_sum(
    index: Any, input_iters: Mapping[Any, Range], analyzer: Analyzer | None = None
) -> IterSumExpr:
    """`index` as a sum of splits with symbolic scales, by falling scale; nothing is checked.

    What is not a part of the map is in the base.
    """
    domains = iterator_domains(input_iters)
    if not independent(domains):
        raise TVMagicError(
            "the domain of an iterator may not depend on another iterator", code="iter_map.dependent_domain"
        )
    rewriter = IterMapRewriter(analyzer or new_analyzer(), domains, IterMapLevel.NoCheck, True, Report())
    return rewriter.fuser.as_sorted_sum(rewriter.to_sum(expr(index)))


def iter_map_simplify(
    indices: Sequence[Any],
    input_iters: Mapping[Any, Range],
    predicate: Any = True,
    check_level: Any = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
    analyzer: Analyzer | None = None,
) -> list[PrimExpr]:
    """`indices` simplified as an iterator map; as they are if they are not one."""
    values, level = exprs(list(indices)), IterMapLevel.of(check_level)
    domains, condition = iterator_domains(input_iters), expr(predicate)
    if not independent(domains) or not all(value.dtype.is_scalar for value in values):
        return list(values)
    analyzer = analyzer or new_analyzer()
    found = detect_iter_map(values, domains, condition, level, simplify_trivial_iterators, analyzer).indices
    if not found and not is_const(condition, 1) and level is not IterMapLevel.Bijective:
        # the map holds without the predicate too
        found = detect_iter_map(values, domains, True, level, simplify_trivial_iterators, analyzer).indices
    if not found:
        return list(values)
    to_expr = ToExpr(analyzer)
    return [to_expr.visit(total) for total in found]


def iter_map_simplify_with_context(
    indices: Sequence[PrimExpr],
    iter_vars: Mapping[Any, Range],
    predicates: Sequence[PrimExpr],
    analyzer: Analyzer,
    non_trivial_only: bool,
) -> list[PrimExpr]:
    """`indices` simplified as a map over the loops `iter_vars` under the conditions `predicates`.

    `non_trivial_only`: a lone variable that would become a constant stays as it is.
    """
    condition: PrimExpr = IntImm("bool", 1)
    for predicate in predicates:
        condition = ops.logical_and(condition, predicate)
    simplified = iter_map_simplify(indices, iter_vars, condition, IterMapLevel.Surjective, analyzer=analyzer)
    if not non_trivial_only:
        return simplified
    return [old if isinstance(new, IntImm) and isinstance(old, Var) else new for old, new in zip(indices, simplified)]
