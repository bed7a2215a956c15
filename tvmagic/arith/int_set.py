"""Integer sets: intervals with symbolic or infinite ends, and the operations between them.

The sets and the form of their ends are those of TVM: an interval with both ends the same object
is a point; unions and intersections take minima and maxima of the ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir import Identified, IntImm, IterVar, PrimExpr, Range, Var, expr, ops
from tvmagic.ir.expr import HANDLE
from tvmagic.ir.ops import make_const
from tvmagic.ir.views import viewed

POS_INF = Var("pos_inf", HANDLE)
NEG_INF = Var("neg_inf", HANDLE)


class SymbolicLimits:
    """The two infinities, which may be the ends of an interval."""

    pos_inf_ = POS_INF
    neg_inf_ = NEG_INF


def pos_inf() -> Var:
    """Positive infinity as an end of an interval."""
    return POS_INF


def neg_inf() -> Var:
    """Negative infinity as an end of an interval."""
    return NEG_INF


def is_pos_inf(value: PrimExpr) -> bool:
    return value is POS_INF


def is_neg_inf(value: PrimExpr) -> bool:
    return value is NEG_INF


def is_infinite(value: PrimExpr) -> bool:
    """Whether `value` is one of the two infinities."""
    return value is POS_INF or value is NEG_INF


def new_analyzer(ranges: Mapping[Var, Range] | None = None) -> Analyzer:
    """A fresh analyzer that knows some ranges."""
    return Analyzer(ranges)


def is_const(value: PrimExpr, number: int) -> bool:
    """Whether `value` is the scalar integer constant `number`."""
    return isinstance(value, IntImm) and value.value == number


def negate(value: PrimExpr) -> PrimExpr:
    """`-value`, as a difference from zero."""
    if isinstance(value, IntImm):
        return IntImm(value.dtype, -value.value)
    return ops.subtract(make_const(value.dtype, 0), value)


def min_of(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The smaller of two ends."""
    if a is POS_INF or b is NEG_INF:
        return b
    if b is POS_INF or a is NEG_INF:
        return a
    return ops.minimum(a, b)


def max_of(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The larger of two ends."""
    if a is POS_INF or b is NEG_INF:
        return a
    if b is POS_INF or a is NEG_INF:
        return b
    return ops.maximum(a, b)


@viewed("integer set")
class IntSet(Identified):
    """A set of integers; every set here is an interval, `IntervalSet`."""

    __slots__ = ()

    # ------------------------------------------------------------------ constructors

    @staticmethod
    def nothing() -> IntervalSet:
        """The empty set."""
        return IntervalSet(POS_INF, NEG_INF)

    @staticmethod
    def everything() -> IntervalSet:
        """All integers."""
        return IntervalSet(NEG_INF, POS_INF)

    @staticmethod
    def single_point(point: Any) -> IntervalSet:
        """The set of `point` alone."""
        point = expr(point)
        return IntervalSet(point, point)

    if TYPE_CHECKING:  # `int_set_eval` attaches it

        @staticmethod
        def vector(vec: Any) -> IntervalSet: ...

    @staticmethod
    def interval(min_value: Any, max_value: Any) -> IntervalSet:
        """The integers from `min_value` to `max_value`, both included."""
        return IntervalSet(min_value, max_value)

    @staticmethod
    def from_range(range_: Range) -> IntervalSet:
        """The integers of `range_`; a point where its extent is the constant 1."""
        return IntSet.from_min_extent(range_.min, range_.extent)

    @staticmethod
    def from_min_extent(min_value: Any, extent: Any) -> IntervalSet:
        """The `extent` integers from `min_value` on; a point where `extent` is the constant 1."""
        low, size = expr(min_value), expr(extent)
        if is_const(size, 1):
            return IntervalSet(low, low)
        return IntervalSet(low, size + low - 1)

    # ------------------------------------------------------------------ queries

    @property
    def _interval(self) -> IntervalSet:
        return cast("IntervalSet", self)

    def min(self) -> PrimExpr:
        """The lower end."""
        return self._interval.min_value

    def max(self) -> PrimExpr:
        """The upper end."""
        return self._interval.max_value

    def is_nothing(self) -> bool:
        """Whether the set is the empty one that the operations here make."""
        return self._interval.min_value is POS_INF or self._interval.max_value is NEG_INF

    is_empty = is_nothing

    def is_everything(self) -> bool:
        """Whether the set is known to hold every integer."""
        return self._interval.min_value is NEG_INF and self._interval.max_value is POS_INF

    def is_single_point(self) -> bool:
        """Whether both ends are one and the same object, and not infinite."""
        end = self._interval.min_value
        return end is self._interval.max_value and not is_infinite(end)

    def can_prove_single_point(self, analyzer: Analyzer) -> bool:
        """Whether both ends can be proved to be equal."""
        if not (self.has_lower_bound() and self.has_upper_bound()):
            return False
        return self.is_single_point() or analyzer.can_prove_equal(self.min(), self.max())

    def point_value(self) -> PrimExpr:
        """The only element; an error unless `is_single_point()`."""
        if not self.is_single_point():
            raise TVMagicError(f"`{self!r}` is not a single point", code="int_set.not_a_point")
        return self._interval.min_value

    def has_upper_bound(self) -> bool:
        """Whether no element is larger than some known bound."""
        return self._interval.max_value is not POS_INF and not self.is_nothing()

    def has_lower_bound(self) -> bool:
        """Whether no element is smaller than some known bound."""
        return self._interval.min_value is not NEG_INF and not self.is_nothing()

    def can_prove_positive(self) -> bool:
        """Whether every element is known to be above 0."""
        low = self._simplified_end(self.min())
        return low is not None and low > 0

    def can_prove_negative(self) -> bool:
        """Whether every element is known to be below 0."""
        high = self._simplified_end(self.max())
        return high is not None and high < 0

    def can_prove_non_positive(self) -> bool:
        """Whether every element is known to be 0 or below."""
        high = self._simplified_end(self.max())
        return high is not None and high <= 0

    def can_prove_non_negative(self) -> bool:
        """Whether every element is known to be 0 or above."""
        low = self._simplified_end(self.min())
        return low is not None and low >= 0

    def _simplified_end(self, end: PrimExpr) -> int | None:
        if is_infinite(end):
            return None
        end = new_analyzer().simplify(end)
        return end.value if isinstance(end, IntImm) else None

    # ------------------------------------------------------------------ conversions

    def as_range(self) -> Range | None:
        """The range of the set's elements; None if the set has no end on a side."""
        if not (self.has_lower_bound() and self.has_upper_bound()):
            return None
        low, high = self.min(), self.max()
        simplify = new_analyzer().simplify
        return Range.from_min_extent(simplify(low), simplify(high + 1 - low))

    def cover_range(self, max_range: Range) -> Range:
        """The range of the set's elements, or `max_range` if the set has no end on a side."""
        range_ = self.as_range()
        return max_range if range_ is None else range_

    def match_range(self, range_: Range) -> bool:
        """Whether the set can be proved to hold just the integers of `range_`."""
        if not (self.has_lower_bound() and self.has_upper_bound()):
            return False
        simplify = new_analyzer().simplify
        return is_const(simplify(self.min() - range_.min), 0) and is_const(
            simplify(self.max() - (range_.extent + range_.min - 1)), 0
        )


class IntervalSet(IntSet):
    """The integers from `min_value` to `max_value`, both included.

    An end is an integer expression, or `pos_inf()`/`neg_inf()`.
    """

    __slots__ = ("max_value", "min_value")
    min_value: PrimExpr
    max_value: PrimExpr

    def __init__(self, min_value: Any, max_value: Any) -> None:
        self.min_value = min_value if isinstance(min_value, PrimExpr) else expr(min_value)
        self.max_value = max_value if isinstance(max_value, PrimExpr) else expr(max_value)

    def __repr__(self) -> str:
        return f"IntervalSet[{self.min_value}, {self.max_value}]"

    __str__ = __repr__


def to_interval(value: Any) -> IntervalSet:
    """A set, range or expression as an interval."""
    if isinstance(value, IntervalSet):
        return value
    if isinstance(value, Range):
        return IntSet.from_range(value)
    if isinstance(value, IntSet):
        return IntervalSet(value.min(), value.max())
    return IntSet.single_point(value)


def as_int_set(var_dom: Mapping[Any, Any]) -> dict[Var, IntervalSet]:
    """A mapping from variables to ranges (or sets) as one to sets."""
    return {(v.var if isinstance(v, IterVar) else v): to_interval(dom) for v, dom in var_dom.items()}


# ---------------------------------------------------------------------------- union, intersection


def union_of(a: IntervalSet, b: IntervalSet) -> IntervalSet:
    """The least interval with both in it, its ends not simplified."""
    if a.is_nothing():
        return b
    if b.is_nothing():
        return a
    high = max_of(a.max_value, b.max_value)
    return IntervalSet(min_of(a.min_value, b.min_value), high)


def intersection_of(analyzer: Analyzer, a: IntervalSet, b: IntervalSet) -> IntervalSet:
    """What both hold, its ends not simplified; nothing if that can be proved."""
    high = min_of(a.max_value, b.max_value)
    low = max_of(a.min_value, b.min_value)
    if not (is_infinite(low) or is_infinite(high)) and analyzer.can_prove_greater_equal(low - high, 1):
        return IntSet.nothing()
    return IntervalSet(low, high)


def _simplified(analyzer: Analyzer, interval: IntervalSet) -> IntervalSet:
    low, high = interval.min_value, interval.max_value
    return IntervalSet(
        low if is_infinite(low) else analyzer.simplify(low), high if is_infinite(high) else analyzer.simplify(high)
    )


def union(sets: Sequence[IntSet]) -> IntSet:
    """The least interval that holds every set of `sets`."""
    if len(sets) < 2:
        return sets[0] if sets else IntSet.nothing()
    result = to_interval(sets[0])
    for other in sets[1:]:
        result = union_of(result, to_interval(other))
    return _simplified(new_analyzer(), result)


def union_region(regions: Sequence[Sequence[IntSet]]) -> list[IntSet]:
    """For each dimension the least interval that holds that of every region."""
    return [union([region[axis] for region in regions]) for axis in range(len(regions[0]))] if regions else []


def union_lower_bound(sets: Sequence[IntSet]) -> IntSet:
    """An interval inside the union of `sets`: those that provably touch the first are joined to it."""
    if len(sets) < 2:
        return sets[0] if sets else IntSet.nothing()
    analyzer = new_analyzer()
    low, high = sets[0].min(), sets[0].max()
    for other in sets[1:]:
        new_low, new_high = other.min(), other.max()
        starts_in_reach = is_neg_inf(new_low) or is_pos_inf(high) or _reaches(analyzer, new_low, high)
        ends_in_reach = is_neg_inf(low) or is_pos_inf(new_high) or _reaches(analyzer, low, new_high)
        if starts_in_reach and ends_in_reach:
            low, high = min_of(low, new_low), max_of(high, new_high)
    return IntSet.interval(low, high)


def _reaches(analyzer: Analyzer, low: PrimExpr, high: PrimExpr) -> bool:
    """Whether no integer lies between the end `high` of one set and the start `low` of another."""
    if is_infinite(low) or is_infinite(high):
        return False
    return analyzer.can_prove(ops.less_equal(low, high + 1))


def union_region_lower_bound(regions: Sequence[Sequence[IntSet]]) -> list[IntSet]:
    """`union_lower_bound` in each dimension."""
    return (
        [union_lower_bound([region[axis] for region in regions]) for axis in range(len(regions[0]))] if regions else []
    )


def joined(boxes: Sequence[Sequence[IntSet]], analyzer: Analyzer) -> list[list[IntSet]]:
    """Boxes that cover together just what `boxes` do, fewer where two of them make one.

    Two make one if they are provably the same in all dimensions but one, and touch or overlap in that one.
    """
    found: list[list[IntSet]] = []
    pending = [list(box) for box in boxes]
    while pending:
        box = pending.pop()
        for i, other in enumerate(found):
            both = _as_one_box(other, box, analyzer)
            if both is not None:  # which may make one with those that `box` did not
                del found[i]
                pending.append(both)
                break
        else:
            found.append(box)
    return found


def _as_one_box(a: list[IntSet], b: list[IntSet], analyzer: Analyzer) -> list[IntSet] | None:
    """The box that two boxes are together; None if they are not provably one."""
    other = [axis for axis, (x, y) in enumerate(zip(a, b)) if not same_ends(x, y, analyzer)]
    if len(other) > 1:
        return None
    both = list(a)
    for axis in other:
        x, y = a[axis], b[axis]
        if not all(s.has_lower_bound() and s.has_upper_bound() for s in (x, y)):
            return None
        if not (_reaches(analyzer, y.min(), x.max()) and _reaches(analyzer, x.min(), y.max())):
            return None
        both[axis] = IntSet.interval(
            analyzer.simplify(min_of(x.min(), y.min())), analyzer.simplify(max_of(x.max(), y.max()))
        )
    return both


def same_ends(a: IntSet, b: IntSet, analyzer: Analyzer) -> bool:
    """Whether two sets are proved to have the same ends."""
    return analyzer.can_prove_equal(a.min(), b.min()) and analyzer.can_prove_equal(a.max(), b.max())


def intersect(sets: Sequence[IntSet]) -> IntSet:
    """What every set of `sets` holds."""
    if len(sets) < 2:
        return sets[0] if sets else IntSet.nothing()
    analyzer = new_analyzer()
    result = to_interval(sets[0])
    for other in sets[1:]:
        result = intersection_of(analyzer, result, to_interval(other))
    return _simplified(analyzer, result)


def constant_interval(low: int, high: int, dtype: Any = "int32") -> IntervalSet:
    """The interval of the constants `low` and `high`."""
    from tvmagic.ir import dtype_of

    return IntervalSet(make_const(dtype_of(dtype), low), make_const(dtype_of(dtype), high))
