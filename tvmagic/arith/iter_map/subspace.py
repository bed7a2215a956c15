"""Division of an iterator map into the part over some of its iterators and the part over the rest."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tvmagic.arith.int_set import new_analyzer
from tvmagic.arith.iter_map.check import MarkSplits
from tvmagic.arith.iter_map.constraints import match_bound_constraints
from tvmagic.arith.iter_map.detect import detect_iter_map, independent, iterator_domains
from tvmagic.arith.iter_map.expr import (
    IterMapExpr,
    IterMapLevel,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    int_const,
    is_const,
    to_iter_sum,
)
from tvmagic.arith.iter_map.normalize import Prover, ToExpr
from tvmagic.ir import IntImm, IterVar, PrimExpr, Range, Var, expr, ops

if TYPE_CHECKING:
    from tvmagic.arith.analyzer import Analyzer


class _Kind(enum.Enum):
    INNER = "made of inner iterators alone"
    OUTER = "made of outer iterators alone"
    MIXED = "made of both"


class _Division(NamedTuple):
    """`outer * inner_extent + inner`"""

    outer: IterMapExpr
    outer_extent: PrimExpr
    inner: IterMapExpr
    inner_extent: PrimExpr
    kind: _Kind = _Kind.MIXED

    @property
    def split(self) -> IterSplitExpr:
        """The side that is not empty, as one split."""
        side, extent = (self.inner, self.inner_extent) if self.kind is _Kind.INNER else (self.outer, self.outer_extent)
        return side if isinstance(side, IterSplitExpr) else IterSplitExpr(IterMark(side, extent))


def _nothing(dtype: Any) -> tuple[IterSumExpr, PrimExpr]:
    return IterSumExpr((), int_const(dtype, 0)), int_const(dtype, 1)


def _inner(side: IterMapExpr, extent: PrimExpr) -> _Division:
    return _Division(*_nothing(side.dtype), side, extent, _Kind.INNER)


def _outer(side: IterMapExpr, extent: PrimExpr) -> _Division:
    return _Division(side, extent, *_nothing(side.dtype), _Kind.OUTER)


class _Indivisible(Exception):
    """The map cannot be divided."""


def _fuse_splits(inner_first: Sequence[IterSplitExpr], base: PrimExpr) -> tuple[IterSumExpr, PrimExpr]:
    """The sum of splits that count one through the other, and its extent."""
    args: list[IterSplitExpr] = []
    extent: PrimExpr = int_const(base.dtype, 1)
    for split in inner_first:
        args.append(split.replace(scale=extent))
        extent = extent * split.extent
    return IterSumExpr(args[::-1], base), extent


class _Divider:
    """Divides sums and splits of one map; `sub_iters` are the inner iterators."""

    def __init__(self, analyzer: Analyzer, sums: Sequence[IterSumExpr], sub_iters: frozenset[Var]) -> None:
        self.analyzer, self.sub_iters = analyzer, sub_iters
        self.prover = Prover(analyzer)
        self.mark_splits = MarkSplits(sums).splits
        self.outer_predicate: PrimExpr = IntImm("bool", 1)
        self.inner_predicate: PrimExpr = IntImm("bool", 1)
        self._divisions: dict[IterSplitExpr, _Division] = {}

    def divide_sum(self, total: IterSumExpr, mark_extent: PrimExpr) -> _Division:
        """Divide a sum whose mark has the extent `mark_extent`; 0 stands for that of the sum itself."""
        if not total.args:
            one = int_const(total.dtype, 1)
            return _Division(*_nothing(total.dtype), IterSumExpr((), total.base), one)
        if len(total.args) == 1:
            division = self._divide_single(total)
            extent = division.outer_extent * division.inner_extent
            if is_const(mark_extent, 0) or self.prover.equal(extent, mark_extent):
                return division
            return self._under_predicate(to_iter_sum(division.outer), to_iter_sum(division.inner), mark_extent)
        sides: dict[_Kind, list[IterSplitExpr]] = {_Kind.INNER: [], _Kind.OUTER: []}
        extent: PrimExpr = int_const(total.dtype, 1)
        for arg in reversed(total.args):
            division = self.divide_split(arg)
            # outer splits first, then inner ones
            if division.kind is _Kind.MIXED or (division.kind is _Kind.INNER and sides[_Kind.OUTER]):
                raise _Indivisible
            part = division.split
            sides[division.kind].append(part)
            extent = extent * part.extent
        if not any(is_const(arg.scale, 1) for arg in total.args):
            raise _Indivisible
        outer, outer_extent = _fuse_splits(sides[_Kind.OUTER], int_const(total.dtype, 0))
        inner, inner_extent = _fuse_splits(sides[_Kind.INNER], total.base)
        if self.prover.equal(extent, mark_extent):
            return _Division(outer, outer_extent, inner, inner_extent)
        return self._under_predicate(outer, inner, mark_extent)

    def _divide_single(self, total: IterSumExpr) -> _Division:
        if not is_const(total.args[0].scale, 1):
            raise _Indivisible
        division = self.divide_split(total.args[0])
        if is_const(total.base, 0):
            return division
        inner = to_iter_sum(division.inner)
        base = total.base if isinstance(division.inner, IterSplitExpr) else inner.base + total.base
        return division._replace(inner=IterSumExpr(inner.args, base))

    def _under_predicate(self, outer: IterSumExpr, inner: IterSumExpr, mark_extent: PrimExpr) -> _Division:
        """A sum that a predicate bounds lies on one side as a whole."""
        if not (is_const(outer.base, 0) and is_const(inner.base, 0)):
            raise _Indivisible
        to_expr = ToExpr(self.analyzer)
        if not inner.args:
            holds = ops.less(to_expr.visit(outer), mark_extent)
            self.outer_predicate = ops.logical_and(self.outer_predicate, holds)
            return _outer(outer, mark_extent)
        if not outer.args:
            holds = ops.less(to_expr.visit(inner), mark_extent)
            self.inner_predicate = ops.logical_and(self.inner_predicate, holds)
            return _inner(inner, mark_extent)
        raise _Indivisible

    def divide_split(self, split: IterSplitExpr) -> _Division:
        known = self._divisions.get(split)
        if known is not None:
            return known
        splits = self.mark_splits[split.source]
        source = split.source.source
        if isinstance(source, Var):
            side = _inner if source in self.sub_iters else _outer
            self._divisions.update({s: side(s, s.extent) for s in splits})
        elif isinstance(source, IterSumExpr):
            division = self.divide_sum(source, split.source.extent)
            if len(splits) == 1:
                return division
            self._divide_mark(splits, division)
        else:
            raise _Indivisible
        return self._divisions[split]

    def take_bounds(self, domains: Mapping[Var, Range], predicate: PrimExpr) -> None:
        """Keep what the predicate says of single iterators, which their extents have taken in."""
        matched = match_bound_constraints(predicate, dict(domains))
        assert matched is not None  # the map was detected under this predicate
        for var, narrowed in matched[0].items():
            domain, holds = domains[var], IntImm("bool", 1)
            if narrowed is domain:
                continue
            if not self.prover.equal(narrowed.min, domain.min):
                holds = ops.logical_and(holds, var >= narrowed.min)
            end = narrowed.min + narrowed.extent
            if not self.prover.equal(end, domain.min + domain.extent):
                holds = ops.logical_and(holds, var < end)
            if var in self.sub_iters:
                self.inner_predicate = ops.logical_and(self.inner_predicate, holds)
            else:
                self.outer_predicate = ops.logical_and(self.outer_predicate, holds)

    def _divide_mark(self, splits: Sequence[IterSplitExpr], division: _Division) -> None:
        """Tell for each split of a divided mark on which side it lies.

        The extents of the inner splits multiply to that of the inner side.
        """
        inner_mark = IterMark(to_iter_sum(division.inner), division.inner_extent)
        outer_mark = IterMark(to_iter_sum(division.outer), division.outer_extent)
        at_outer = division.kind is _Kind.OUTER
        rest, expected = list(splits), int_const(splits[0].dtype, 1)
        first_outer: IterSplitExpr | None = None
        while rest:
            index = next((i for i, s in enumerate(rest) if self.prover.equal(s.lower_factor, expected)), None)
            if index is None:
                raise _Indivisible
            split = rest.pop(index)
            if at_outer:
                first_outer = split if first_outer is None else first_outer
                factor = ops.floordiv(split.lower_factor, first_outer.lower_factor)
                self._divisions[split] = _outer(split.replace(source=outer_mark, lower_factor=factor), split.extent)
            else:
                self._divisions[split] = _inner(split.replace(source=inner_mark), split.extent)
            expected = expected * split.extent
            at_outer = at_outer or self.prover.equal(expected, division.inner_extent)
        if not at_outer:
            raise _Indivisible


def subspace_divide(
    bindings: Sequence[Any],
    input_iters: Mapping[Any, Range],
    sub_iters: Sequence[Any],
    predicate: Any = True,
    check_level: Any = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
    analyzer: Analyzer | None = None,
) -> list[list[IterMark]]:
    """Write each binding as `outer * inner_extent + inner`.

    `inner` uses `sub_iters` alone and `outer` the other iterators of `input_iters`.

    Returns
    -------
    A pair of marks (outer, inner) for each binding, then a pair whose extents are the predicates of
    the outer and of the inner space; empty if the bindings cannot be divided.
    """
    domains = iterator_domains(input_iters)
    if not independent(domains):
        return []
    analyzer = analyzer or new_analyzer()
    level = IterMapLevel.of(check_level)
    sums = detect_iter_map(bindings, domains, expr(predicate), level, simplify_trivial_iterators, analyzer).indices
    if not sums:
        return []
    inner_vars = frozenset([v.var if isinstance(v, IterVar) else v for v in sub_iters])
    divider = _Divider(analyzer, sums, inner_vars)
    if not is_const(expr(predicate), 1):
        divider.take_bounds(domains, expr(predicate))
    try:
        divisions = [divider.divide_sum(total, int_const("int32", 0)) for total in sums]
    except _Indivisible:
        return []
    nothing = IterSumExpr((), int_const("int32", 0))
    pairs = [[IterMark(d.outer, d.outer_extent), IterMark(d.inner, d.inner_extent)] for d in divisions]
    return [*pairs, [IterMark(nothing, divider.outer_predicate), IterMark(nothing, divider.inner_predicate)]]
