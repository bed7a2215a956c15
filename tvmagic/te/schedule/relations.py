"""How the iteration variables of a stage follow from each other, and the messages they pass.

The relations of a stage form a directed hyper-graph from its root variables to its leaves. Each
message goes along one relation: down from parents to children or up from children to parents.

- domain: the range (down) or the set (up) of a variable;
- index: the value of a variable from those of the others;
- mask: bits that mark variables, joined if several meet;
- check: whether a variable can run past its range.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set import IntervalSet, IntSet
from tvmagic.arith.int_set_eval import eval_set
from tvmagic.errors import TVMagicError
from tvmagic.ir.constants import largest_integer
from tvmagic.ir.ops import cast, floordiv, floormod, less, make_zero

if TYPE_CHECKING:
    from tvmagic.arith.index_map import IndexMap

Ranges = Mapping[ir.IterVar, ir.Range]
UpdateRange = Callable[[ir.IterVar, ir.Range], None]
Masks = dict[ir.IterVar, int]


def is_const(value: ir.PrimExpr, number: int) -> bool:
    """Whether `value` is the integer constant `number`."""
    return isinstance(value, ir.IntImm) and value.value == number


def plus(value: ir.PrimExpr, offset: ir.PrimExpr) -> ir.PrimExpr:
    """`value + offset`, or `value` where the offset is zero."""
    return value if is_const(offset, 0) else value + offset


def minus(value: ir.PrimExpr, offset: ir.PrimExpr) -> ir.PrimExpr:
    """`value - offset`, or `value` where the offset is zero."""
    return value if is_const(offset, 0) else value - offset


def ceil_div(analyzer: Analyzer, a: ir.PrimExpr, b: ir.PrimExpr) -> ir.PrimExpr:
    """`a / b` rounded up, simplified; without the rounding where `b` divides `a`."""
    if isinstance(a, ir.IntImm) and isinstance(b, ir.IntImm):
        return ir.IntImm(a.dtype, -(-a.value // b.value))  # what is added to round up may not fit the type
    if analyzer.can_prove(floormod(a, b).equal(0)):
        return analyzer.simplify(floordiv(a, b))
    return analyzer.simplify(floordiv(a + (b - 1), b))


class DownContext:
    """What passing domains down needs besides the relation.

    `ranges`: those known so far; `update` sets one more. `may_miss`: the roots may be unknown
    (early rewrites). `threads`: variables that dominate a thread; their extents are kept.
    """

    def __init__(
        self,
        ranges: dict[ir.IterVar, ir.Range],
        update: UpdateRange,
        analyzer: Analyzer,
        may_miss: bool,
        threads: set[ir.IterVar],
    ) -> None:
        self.ranges, self.update, self.analyzer = ranges, update, analyzer
        self.may_miss, self.threads = may_miss, threads


def _join(masks: Masks, given: Sequence[ir.IterVar], others: Sequence[ir.IterVar]) -> None:
    """Add the bits of some variables, if any have bits, to those of others."""
    known = [masks[iv] for iv in given if iv in masks]
    for other in others if known else ():
        masks[other] = functools.reduce(operator.or_, known, masks.get(other, 0))


class IterVarRelation(ir.Identified):
    """A relation between iteration variables of one stage."""

    __slots__ = ()
    kind = "relation"

    def parents(self) -> tuple[ir.IterVar, ...]:
        """The variables that it takes apart or joins."""
        raise NotImplementedError

    def children(self) -> tuple[ir.IterVar, ...]:
        """The variables that come of them."""
        raise NotImplementedError

    def domain_down(self, context: DownContext) -> None:
        """Set the ranges of the children from those of the parents."""
        raise NotImplementedError

    def domain_up(self, ranges: Ranges, sets: dict[ir.IterVar, IntSet]) -> str:
        """Set the sets of the parents from those of the children; the case that applied."""
        raise NotImplementedError

    def index_up(self, ranges: Ranges, values: dict[ir.IterVar, ir.PrimExpr]) -> None:
        """Set the values of the parents from those of the children."""
        raise NotImplementedError

    def index_down(self, ranges: Ranges, values: dict[ir.IterVar, ir.PrimExpr]) -> None:
        """Set the values of the children from those of the parents."""
        raise NotImplementedError

    def check_up(self, ranges: Ranges, checks: dict[ir.IterVar, bool], analyzer: Analyzer) -> None:
        """Set whether the parents need a bounds check from whether the children do."""
        inherited = any(checks[c] for c in self.children())
        for parent in self.parents():
            checks[parent] = inherited

    def mask_down(self, masks: Masks) -> None:
        """Join the bits of the parents into those of the children."""
        _join(masks, self.parents(), self.children())

    def mask_up(self, masks: Masks) -> None:
        """Join the bits of the children into those of the parents."""
        _join(masks, self.children(), self.parents())

    def __repr__(self) -> str:
        names = [[iv.var.name for iv in side] for side in (self.parents(), self.children())]
        return f"{self.kind}({', '.join(names[0])} -> {', '.join(names[1])})"


class Split(IterVarRelation):
    """`parent` in blocks: `outer` counts the blocks, `inner` runs inside one.

    Either `factor` (the size of a block) or `nparts` (the number of blocks) is given.
    """

    __slots__ = ("disable_predication", "factor", "inner", "nparts", "outer", "parent")
    kind = "split"

    def __init__(
        self,
        parent: ir.IterVar,
        outer: ir.IterVar,
        inner: ir.IterVar,
        factor: ir.PrimExpr | None,
        nparts: ir.PrimExpr | None,
        disable_predication: bool = False,
    ) -> None:
        self.parent, self.outer, self.inner = parent, outer, inner
        self.factor, self.nparts, self.disable_predication = factor, nparts, disable_predication

    def parents(self) -> tuple[ir.IterVar, ...]:
        return (self.parent,)

    def children(self) -> tuple[ir.IterVar, ...]:
        return (self.outer, self.inner)

    def domain_down(self, context: DownContext) -> None:
        extent = context.ranges[self.parent].extent
        given, other = (self.inner, self.outer) if self.factor is not None else (self.outer, self.inner)
        size = self.factor if self.factor is not None else self.nparts
        assert size is not None
        size = _as_type(size, extent)
        kept = size
        if not (given in context.threads or context.may_miss or is_const(extent, 0)):
            # no more iterations than the parent has
            kept = context.analyzer.simplify(extent if context.analyzer.can_prove(less(extent, size)) else size)
        context.update(given, ir.Range.from_min_extent(make_zero(extent.dtype), kept))
        rest = ceil_div(context.analyzer, extent, size)
        context.update(other, ir.Range.from_min_extent(make_zero(extent.dtype), rest))

    def domain_up(self, ranges: Ranges, sets: dict[ir.IterVar, IntSet]) -> str:
        outer, inner = sets[self.outer], sets[self.inner]
        if outer.match_range(ranges[self.outer]) and inner.match_range(ranges[self.inner]):
            sets[self.parent] = IntSet.from_range(ranges[self.parent])
            return "case 1: both sets are the whole ranges, so the parent's is too"
        value = self.outer.var * ranges[self.inner].extent + self.inner.var + ranges[self.parent].min
        sets[self.parent] = eval_set(value, {self.outer.var: outer, self.inner.var: inner})
        return "case 2: outer * extent(inner) + inner + min(parent)"

    def index_up(self, ranges: Ranges, values: dict[ir.IterVar, ir.PrimExpr]) -> None:
        value = values[self.inner] + values[self.outer] * ranges[self.inner].extent
        values[self.parent] = plus(value, ranges[self.parent].min)

    def index_down(self, ranges: Ranges, values: dict[ir.IterVar, ir.PrimExpr]) -> None:
        value, factor = minus(values[self.parent], ranges[self.parent].min), ranges[self.inner].extent
        values[self.outer], values[self.inner] = floordiv(value, factor), floormod(value, factor)

    def check_up(self, ranges: Ranges, checks: dict[ir.IterVar, bool], analyzer: Analyzer) -> None:
        if self.disable_predication:
            checks[self.parent] = False
            return
        if self.outer not in ranges or self.inner not in ranges or checks[self.outer] or checks[self.inner]:
            checks[self.parent] = True
            return
        product = ranges[self.inner].extent * ranges[self.outer].extent
        checks[self.parent] = not analyzer.can_prove(ranges[self.parent].extent.equal(product))


class Fuse(IterVarRelation):
    """`outer` and `inner` run as one loop, `fused`."""

    __slots__ = ("fused", "inner", "outer")
    kind = "fuse"

    def __init__(self, outer: ir.IterVar, inner: ir.IterVar, fused: ir.IterVar) -> None:
        self.outer, self.inner, self.fused = outer, inner, fused

    def parents(self) -> tuple[ir.IterVar, ...]:
        return (self.outer, self.inner)

    def children(self) -> tuple[ir.IterVar, ...]:
        return (self.fused,)

    def domain_down(self, context: DownContext) -> None:
        outer, inner = context.ranges[self.outer].extent, context.ranges[self.inner].extent
        if isinstance(outer, ir.IntImm) and isinstance(inner, ir.IntImm):
            self._check_count(outer.value * inner.value, outer.dtype)
        context.ranges[self.fused] = ir.Range.from_min_extent(make_zero(outer.dtype), outer * inner)

    def _check_count(self, count: int, dtype: ir.DataType) -> None:
        if count > largest_integer(dtype):
            raise TVMagicError(
                f"the loops `{self.outer.var.name}` and `{self.inner.var.name}` fused make {count} iterations, "
                f"too many for `{dtype}`, the type of their indices",
                hint="split them by constant factors and fuse the inner ones",
                code="te.fuse.loop_too_long",
            )

    def domain_up(self, ranges: Ranges, sets: dict[ir.IterVar, IntSet]) -> str:
        fused, outer, inner = sets[self.fused], ranges[self.outer], ranges[self.inner]
        if fused.match_range(ranges[self.fused]):
            sets[self.outer], sets[self.inner] = IntSet.from_range(outer), IntSet.from_range(inner)
            return "case 1: the set is the whole range, so both parents' are too"
        if fused.is_single_point():
            point = fused.point_value()
            sets[self.outer] = IntSet.single_point(plus(floordiv(point, inner.extent), outer.min))
            sets[self.inner] = IntSet.single_point(plus(floormod(point, inner.extent), inner.min))
            return "case 2: a point, divided by extent(inner)"
        low, high = fused.min(), fused.max()
        sets[self.outer] = IntSet.interval(
            outer.min + floordiv(low, inner.extent), outer.min + floordiv(high, inner.extent)
        )
        if self._inside_one_row(high - low + 1, inner.extent, low):
            sets[self.inner] = IntSet.interval(
                inner.min + floormod(low, inner.extent), inner.min + floormod(high, inner.extent)
            )
            return "case 3: an interval inside one row of the inner loop"
        sets[self.inner] = IntSet.from_range(inner)
        return "case 4: an interval over several rows of the inner loop; whole rows are taken"

    @staticmethod
    def _inside_one_row(size: ir.PrimExpr, row: ir.PrimExpr, low: ir.PrimExpr) -> bool:
        simplify = Analyzer().simplify
        size = simplify(size)
        if is_const(size, 0):
            return False
        return is_const(simplify(floormod(row, size)), 0) and is_const(simplify(floormod(low, size)), 0)

    def index_up(self, ranges: Ranges, values: dict[ir.IterVar, ir.PrimExpr]) -> None:
        value, factor = values[self.fused], ranges[self.inner].extent
        if is_const(factor, 0):  # no iteration runs, and a quotient by 0 cannot be built
            factor = ir.IntImm(factor.dtype, 1)
        outer = plus(floordiv(value, factor), ranges[self.outer].min)
        inner = plus(floormod(value, factor), ranges[self.inner].min)
        values[self.outer], values[self.inner] = cast(self.outer.dtype, outer), cast(self.inner.dtype, inner)

    def index_down(self, ranges: Ranges, values: dict[ir.IterVar, ir.PrimExpr]) -> None:
        outer = minus(values[self.outer], ranges[self.outer].min)
        inner = minus(values[self.inner], ranges[self.inner].min)
        values[self.fused] = outer * ranges[self.inner].extent + inner


class Rebase(IterVarRelation):
    """`rebased` is `parent` counted from zero."""

    __slots__ = ("parent", "rebased")
    kind = "rebase"

    def __init__(self, parent: ir.IterVar, rebased: ir.IterVar) -> None:
        self.parent, self.rebased = parent, rebased

    def parents(self) -> tuple[ir.IterVar, ...]:
        return (self.parent,)

    def children(self) -> tuple[ir.IterVar, ...]:
        return (self.rebased,)

    def domain_down(self, context: DownContext) -> None:
        extent = context.ranges[self.parent].extent
        context.update(self.rebased, ir.Range.from_min_extent(make_zero(extent.dtype), extent))

    def domain_up(self, ranges: Ranges, sets: dict[ir.IterVar, IntSet]) -> str:
        rebased = sets[self.rebased]
        if rebased.match_range(ranges[self.rebased]):
            sets[self.parent] = IntSet.from_range(ranges[self.parent])
            return "case 1: the set is the whole range, so the parent's is too"
        sets[self.parent] = eval_set(self.rebased.var + ranges[self.parent].min, {self.rebased.var: rebased})
        return "case 2: rebased + min(parent)"

    def index_up(self, ranges: Ranges, values: dict[ir.IterVar, ir.PrimExpr]) -> None:
        values[self.parent] = plus(values[self.rebased], ranges[self.parent].min)

    def index_down(self, ranges: Ranges, values: dict[ir.IterVar, ir.PrimExpr]) -> None:
        values[self.rebased] = minus(values[self.parent], ranges[self.parent].min)


class Singleton(IterVarRelation):
    """`iter` runs once; it stems from the fusion of no loops."""

    __slots__ = ("iter",)
    kind = "singleton"

    def __init__(self, iter: ir.IterVar) -> None:
        self.iter = iter

    def parents(self) -> tuple[ir.IterVar, ...]:
        return ()

    def children(self) -> tuple[ir.IterVar, ...]:
        return (self.iter,)

    def domain_down(self, context: DownContext) -> None:
        context.update(self.iter, ir.Range.from_min_extent(ir.expr(0), ir.expr(1)))

    def domain_up(self, ranges: Ranges, sets: dict[ir.IterVar, IntSet]) -> str:
        return "a singleton has no parent"

    def index_up(self, ranges: Ranges, values: dict[ir.IterVar, ir.PrimExpr]) -> None:
        pass

    def index_down(self, ranges: Ranges, values: dict[ir.IterVar, ir.PrimExpr]) -> None:
        values[self.iter] = make_zero(self.iter.dtype)

    def mask_down(self, masks: Masks) -> None:
        masks[self.iter] = 0


class Transform(IterVarRelation):
    """`transformed` are new loops, found from `original` by an index map."""

    __slots__ = ("forward", "inverse", "original", "transformed")
    kind = "transform"

    def __init__(
        self, original: Sequence[ir.IterVar], transformed: Sequence[ir.IterVar], forward: IndexMap, inverse: IndexMap
    ) -> None:
        self.original, self.transformed = tuple(original), tuple(transformed)
        self.forward, self.inverse = forward, inverse

    def parents(self) -> tuple[ir.IterVar, ...]:
        return self.original

    def children(self) -> tuple[ir.IterVar, ...]:
        return self.transformed

    def domain_down(self, context: DownContext) -> None:
        ranges = self.forward.map_ranges([context.ranges[iv] for iv in self.original], context.analyzer)
        for iv, range_ in zip(self.transformed, ranges):
            context.update(iv, range_)

    def domain_up(self, ranges: Ranges, sets: dict[ir.IterVar, IntSet]) -> str:
        if all(sets[iv].match_range(ranges[iv]) for iv in self.transformed):
            for iv in self.original:
                sets[iv] = IntSet.from_range(ranges[iv])
            return "case 1: all sets are the whole ranges, so the parents' are too"
        relaxed: dict[Any, Any] = {v: sets[iv] for v, iv in zip(self.inverse.initial_indices, self.transformed)}
        for iv, value in zip(self.original, self.inverse.final_indices):
            sets[iv] = _bounded(eval_set(value, relaxed), ranges[iv])
        return "case 2: the inverse of the transformation"

    def index_up(self, ranges: Ranges, values: dict[ir.IterVar, ir.PrimExpr]) -> None:
        found = self.inverse.map_indices([values[iv] for iv in self.transformed])
        for iv, value in zip(self.original, found):
            values[iv] = value

    def index_down(self, ranges: Ranges, values: dict[ir.IterVar, ir.PrimExpr]) -> None:
        found = self.forward.map_indices([values[iv] for iv in self.original])
        for iv, value in zip(self.transformed, found):
            values[iv] = value

    def check_up(self, ranges: Ranges, checks: dict[ir.IterVar, bool], analyzer: Analyzer) -> None:
        # the transformed loops may be padded
        for iv in self.original:
            checks[iv] = True


def _bounded(found: IntervalSet, range_: ir.Range) -> IntSet:
    return found if found.has_lower_bound() and found.has_upper_bound() else IntSet.from_range(range_)


def _as_type(value: ir.PrimExpr, like: ir.PrimExpr) -> ir.PrimExpr:
    """A constant in the index type of another expression."""
    return cast(like.dtype, value) if isinstance(value, ir.IntImm) else value
