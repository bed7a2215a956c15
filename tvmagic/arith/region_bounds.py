"""Bounds of a region, whose box moves with iterators, over all values of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tvmagic.arith.int_set import IntSet, as_int_set, is_const, new_analyzer
from tvmagic.arith.int_set_eval import eval_set, uses_var
from tvmagic.arith.iter_map import IterMapLevel, IterSumExpr, detect_iter_map
from tvmagic.arith.iter_map.detect import iterator_domains
from tvmagic.ir import IntImm, PrimExpr, Range, Var, ops, substitute

if TYPE_CHECKING:
    from tvmagic.arith.analyzer import Analyzer


def _touched(first: IterSumExpr, extent: PrimExpr, analyzer: Analyzer) -> IntSet | None:
    """The interval that windows of `extent` integers, from the values of `first` on, cover.

    None if the windows may leave gaps.
    """
    if analyzer.can_prove(ops.equal(extent, 0)):
        return IntSet.nothing()
    if not first.args:
        return IntSet.from_min_extent(first.base, extent)
    (split,) = first.args
    if not analyzer.can_prove(ops.greater_equal(extent, split.scale)):
        return None
    reach = (split.extent - 1) * split.scale
    if analyzer.can_prove(ops.less(split.scale, 0)):
        return IntSet.from_min_extent(first.base + reach, extent - reach)
    return IntSet.from_min_extent(first.base, extent + reach)


def estimate_region_strict_bound(
    region: Sequence[Range],
    var_dom: Mapping[Any, Range],
    predicate: Any = True,
    analyzer: Analyzer | None = None,
) -> list[IntSet] | None:
    """The intervals, one an axis, whose box is just the union of `region` over `var_dom`.

    Parameters
    ----------
    region: a range an axis, with constant extents; its minima use the iterators.
    var_dom: the iterators and their domains.
    predicate: a condition that holds for the iterators.

    Returns None if the union is not a box, or cannot be shown to be one.
    """
    return _map_bound(region, var_dom, predicate, analyzer or new_analyzer(), exact=True)


def _map_bound(
    region: Sequence[Range], var_dom: Mapping[Any, Range], predicate: Any, analyzer: Analyzer, exact: bool
) -> list[IntSet] | None:
    """The bound that the iterator map of `region` gives; with `exact`, only one without padding."""
    if not all(isinstance(r.extent, IntImm) for r in region):
        return None
    firsts = [r.min for r in region]
    found = detect_iter_map(firsts, var_dom, predicate, IterMapLevel.Surjective, True, analyzer)
    if not found.indices or (exact and not found.takes_all_values):
        return None
    domains = iterator_domains(var_dom)
    result: list[IntSet] = []
    for total, range_ in zip(found.indices, region):
        first = _without_trivial(total, domains)
        touched = None if first is None else _touched(first, range_.extent, analyzer)
        if touched is None:
            return None
        result.append(touched)
    return result


def _without_trivial(total: IterSumExpr, domains: Mapping[Var, Range]) -> IterSumExpr | None:
    """`total` with trivial iterators replaced by their only values, which are not simplified inside quotients.

    None if another iterator is left, which has one value because of the predicate.
    """
    if isinstance(total.base, IntImm) or not uses_var(total.base, domains):
        return total
    values = {var: domain.min for var, domain in domains.items() if is_const(domain.extent, 1)}
    base = substitute(total.base, values)
    return None if uses_var(base, domains) else total.replace(base=base)


def estimate_region_lower_bound(
    region: Sequence[Range],
    var_dom: Mapping[Any, Range],
    predicate: Any = True,
    analyzer: Analyzer | None = None,
) -> list[IntSet] | None:
    """Intervals whose box lies in the union of `region` over `var_dom`, or None."""
    return estimate_region_strict_bound(region, var_dom, predicate, analyzer)


def estimate_region_upper_bound(
    region: Sequence[Range],
    var_dom: Mapping[Any, Range],
    predicate: Any = True,
    analyzer: Analyzer | None = None,
) -> list[IntSet]:
    """Intervals whose box holds the union of `region` over `var_dom`."""
    analyzer = analyzer or new_analyzer()
    strict = _map_bound(region, var_dom, predicate, analyzer, exact=False)
    if strict is not None:
        return strict
    result: list[IntSet] = []
    sets = as_int_set(var_dom)
    for range_ in region:
        # the axes may depend on each other; each alone may still be exact
        single = _map_bound([range_], var_dom, predicate, analyzer, exact=False)
        result.append(single[0] if single is not None else eval_set(range_, sets))
    return result
