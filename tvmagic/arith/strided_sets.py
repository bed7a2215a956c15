"""Sets that are exact where an interval is not: strided sets, and unions of boxes.

An interval that covers `{0, 8}` holds seven integers that nobody reads. A `StrideSet` is an
arithmetic progression; a `BoxUnion` keeps a union of boxes, whose axes may be strided, as boxes
that do not overlap, so that its elements can be counted and asked for. Ends are constants here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tvmagic.arith.int_set import IntervalSet, IntSet, constant_interval
from tvmagic.arith.iter_map.expr import structure_key
from tvmagic.errors import TVMagicError
from tvmagic.ir import FloorDiv, FloorMod, IntImm, IterVar, PrimExpr, Range, Var, expr
from tvmagic.ir.query import linear_terms


class Steps(NamedTuple):
    """The integers `first, first + stride, ...`, `count` of them; `count` and `stride` are positive."""

    first: int
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]  # in place of the tuple's own `count`
    stride: int = 1

    @property
    def last(self) -> int:
        return self.first + (self.count - 1) * self.stride

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int) or not self.first <= value <= self.last:
            return False
        return (value - self.first) % self.stride == 0

    def values(self) -> range:
        return range(self.first, self.last + 1, self.stride)

    def intersect(self, other: Steps) -> Steps | None:
        """What both hold; None if it is nothing."""
        divisor = math.gcd(self.stride, other.stride)
        offset = other.first - self.first
        if offset % divisor:
            return None
        # self.first + k * self.stride == other.first (mod other.stride)
        modulus = other.stride // divisor
        k = offset // divisor * pow(self.stride // divisor, -1, modulus) % modulus if modulus > 1 else 0
        stride = self.stride * modulus
        low = max(self.first, other.first)
        first = self.first + k * self.stride
        first += -((first - low) // stride) * stride
        high = min(self.last, other.last)
        return make_steps(first, (high - first) // stride + 1, stride) if first <= high else None

    def minus(self, other: Steps) -> list[Steps]:
        """What `other` does not hold, as progressions that do not overlap."""
        common = self.intersect(other)
        if common is None:
            return [self]
        pieces: list[Steps] = []
        stride = common.stride if common.count > 1 else self.stride
        for first in range(self.first, self.first + stride, self.stride):
            count = (self.last - first) // stride + 1
            if (first - common.first) % stride:
                pieces.append(make_steps(first, count, stride))
                continue
            before = (common.first - first) // stride
            after = (self.last - common.last) // stride
            if before:
                pieces.append(make_steps(first, before, stride))
            if after:
                pieces.append(make_steps(common.last + stride, after, stride))
        return pieces

    def joined(self, other: Steps) -> Steps | None:
        """The union, if it is one progression."""
        a, b = (self, other) if self.first <= other.first else (other, self)
        stride = max(a.stride if a.count > 1 else 0, b.stride if b.count > 1 else 0)
        if not stride:
            return make_steps(a.first, 2, b.first - a.first) if b.first > a.first else a
        if (a.count > 1 and a.stride != stride) or (b.count > 1 and b.stride != stride):
            return None
        if (b.first - a.first) % stride or b.first > a.last + stride:
            return None
        return Steps(a.first, (max(a.last, b.last) - a.first) // stride + 1, stride)

    def plus(self, other: Steps) -> tuple[Steps, bool]:
        """The sums of an element of each, and whether that is exact; else a superset."""
        a, b = (self, other) if self.stride <= other.stride or other.count == 1 else (other, self)
        if a.count == 1:
            a, b = b, a
        first = a.first + b.first
        if b.count == 1:
            return Steps(first, a.count, a.stride), True
        stride = math.gcd(a.stride, b.stride)
        count = (a.last + b.last - first) // stride + 1
        exact = stride == a.stride and b.stride <= a.count * a.stride
        return Steps(first, count, stride), exact

    def times(self, factor: int) -> Steps:
        if factor == 0:
            return Steps(0, 1)
        return make_steps(min(self.first * factor, self.last * factor), self.count, self.stride * abs(factor))

    def floordiv(self, divisor: int) -> tuple[Steps, bool]:
        """The quotients by a positive `divisor`, and whether that is exact."""
        first, last = self.first // divisor, self.last // divisor
        if self.stride % divisor == 0:
            return make_steps(first, self.count, self.stride // divisor), True
        # steps no longer than the divisor leave no quotient out
        return Steps(first, last - first + 1), self.stride <= divisor or self.count == 1

    def floormod(self, divisor: int) -> tuple[Steps, bool]:
        """The remainders by a positive `divisor`, and whether that is exact."""
        if self.first // divisor == self.last // divisor:
            return self._replace(first=self.first % divisor), True
        stride = math.gcd(self.stride, divisor)
        return make_steps(self.first % stride, divisor // stride, stride), self.count >= divisor // stride


def make_steps(first: int, count: int, stride: int) -> Steps:
    """A progression; the stride of a single element is 1."""
    return Steps(first, count, stride if count > 1 else 1)


# ---------------------------------------------------------------------------- strided sets


class StrideSet(IntSet):
    """The integers `min_value, min_value + stride, ..., max_value`.

    It is an `IntSet`, whose ends are constants. `exact` says whether every element is a value of
    the expression that it was made for; else it may hold more.
    """

    __slots__ = ("exact", "max_value", "min_value", "steps")

    def __init__(self, first: int, count: int, stride: int = 1, exact: bool = True, dtype: Any = "int32") -> None:
        if count < 1 or stride < 1:
            raise TVMagicError(
                f"a strided set has a positive count and stride, not {count} and {stride}",
                code="strided_set.wrong_count_or_stride",
            )
        self.steps = make_steps(int(first), int(count), int(stride))
        self.exact = exact
        self.min_value: PrimExpr = IntImm(dtype, self.steps.first)
        self.max_value: PrimExpr = self.min_value if count == 1 else IntImm(dtype, self.steps.last)

    @property
    def stride(self) -> int:
        """The distance of one element to the next."""
        return self.steps.stride

    @property
    def count(self) -> int:
        """How many elements there are."""
        return self.steps.count

    def __contains__(self, value: object) -> bool:
        return int(value) in self.steps  # type: ignore[call-overload]

    def __iter__(self) -> Iterator[int]:
        return iter(self.steps.values())

    def covering(self) -> IntervalSet:
        """The least interval that holds the set."""
        return IntervalSet(self.min_value, self.max_value)

    def __repr__(self) -> str:
        return f"StrideSet[{self.steps.first}, {self.steps.last}; stride={self.stride}]"


def _constant_steps(domain: Any) -> Steps | None:
    """A range, interval or strided set with constant ends as a progression."""
    if isinstance(domain, StrideSet):
        return domain.steps
    low, high = (domain.min, domain.extent) if isinstance(domain, Range) else (domain.min(), domain.max())
    if not (isinstance(low, IntImm) and isinstance(high, IntImm)):
        return None
    count = high.value if isinstance(domain, Range) else high.value - low.value + 1
    return Steps(low.value, count) if count > 0 else None


class _Image(NamedTuple):
    """The values of a part of an expression, and the variables it uses."""

    steps: Steps
    exact: bool
    variables: frozenset[Var]


def _joined_terms(value: PrimExpr) -> tuple[list[tuple[PrimExpr, int]], int]:
    """`value` as factors times what is not a sum, equal parts joined, plus a constant."""
    terms, constant = linear_terms(value)
    if len(terms) > 1:
        joined: dict[Any, tuple[PrimExpr, int]] = {}
        for node, factor in terms:
            key = structure_key(node)
            joined[key] = (node, joined[key][1] + factor if key in joined else factor)
        terms = list(joined.values())
    return [(node, factor) for node, factor in terms if factor], constant


def _image(value: PrimExpr, domains: Mapping[Var, Steps]) -> _Image | None:
    terms, constant = _joined_terms(value)
    parts: list[_Image] = []
    for node, factor in terms:
        part = _atom_image(node, domains)
        if part is None:
            return None
        parts.append(part._replace(steps=part.steps.times(factor)))
    total = _Image(Steps(constant, 1), True, frozenset())
    # small strides first: larger ones then continue where they end
    for part in sorted(parts, key=lambda p: p.steps.stride):
        steps, exact = total.steps.plus(part.steps)
        independent = not (total.variables & part.variables)
        exact = exact and total.exact and part.exact and independent
        total = _Image(steps, exact, total.variables | part.variables)
    return total


def _atom_image(node: PrimExpr, domains: Mapping[Var, Steps]) -> _Image | None:
    if isinstance(node, Var):
        return _Image(domains[node], True, frozenset((node,))) if node in domains else None
    if not isinstance(node, (FloorDiv, FloorMod)) or not isinstance(node.b, IntImm) or node.b.value <= 0:
        return None
    inner = _image(node.a, domains)
    if inner is None:
        return None
    compute = inner.steps.floordiv if isinstance(node, FloorDiv) else inner.steps.floormod
    steps, exact = compute(node.b.value)
    return _Image(steps, exact and inner.exact, inner.variables)


def eval_stride_set(value: Any, dom_map: Mapping[Any, Any]) -> StrideSet | None:
    """The values of an index expression as a strided set.

    Parameters
    ----------
    value: sums, products with constants, quotients and remainders of variables.
    dom_map: for each variable its range or set, with constant ends.

    Returns None if `value` uses another operation or a variable without a constant domain.
    """
    value = expr(value)
    domains: dict[Var, Steps] = {}
    for var, domain in dom_map.items():
        steps = _constant_steps(domain)
        if steps is not None:
            domains[var.var if isinstance(var, IterVar) else var] = steps
    image = _image(value, domains)
    if image is None:
        return None
    return StrideSet(*image.steps, image.exact, value.dtype)


# ---------------------------------------------------------------------------- unions of boxes

Box = tuple[Steps, ...]


class BoxUnion:
    """A union of boxes, kept as boxes that do not overlap.

    Parameters
    ----------
    ndim: the number of axes.
    max_boxes: where more boxes would be needed, the union becomes its covering box and `exact`
        False, so that the work stays bounded.
    """

    def __init__(self, ndim: int, max_boxes: int = 256) -> None:
        self.ndim, self.max_boxes = ndim, max_boxes
        self.boxes: list[Box] = []
        self.exact = True

    def add(self, box: Sequence[Any]) -> None:
        """Add a box; its axes are ranges, integer sets or `Steps`, with constant ends."""
        if len(box) != self.ndim:
            raise TVMagicError(
                f"a box of {len(box)} axes cannot join a union of boxes of {self.ndim} axes",
                code="strided_set.ranks_differ",
            )
        axes: list[Steps] = []
        for axis in box:
            steps = axis if isinstance(axis, Steps) else _constant_steps(axis)
            if steps is None:
                if isinstance(axis, IntSet) and axis.is_nothing():
                    return
                raise TVMagicError(
                    f"`{axis}` has no constant ends, so it cannot join an exact union", code="strided_set.unbounded"
                )
            axes.append(steps)
        pieces: list[Box] = [tuple(axes)]
        for known in self.boxes:
            pieces = [part for piece in pieces for part in _box_minus(piece, known)]
            if len(pieces) > self.max_boxes:  # not yet without what other boxes hold
                self.boxes.append(tuple(axes))
                self._give_up()
                return
        for piece in pieces:
            self._insert(piece)
        if len(self.boxes) > self.max_boxes:
            self._give_up()

    def _give_up(self) -> None:
        self.boxes, self.exact = [self._cover()], False

    def _insert(self, piece: Box) -> None:
        """Add a box that overlaps no other, joined to those it makes one box with."""
        joined = True
        while joined:
            joined = False
            for i, known in enumerate(self.boxes):
                union = _joined_boxes(known, piece)
                if union is not None:
                    piece, joined = union, True
                    del self.boxes[i]
                    break
        self.boxes.append(piece)

    def _cover(self) -> Box:
        axes: list[Steps] = []
        for axis in range(self.ndim):
            first = min(box[axis].first for box in self.boxes)
            axes.append(Steps(first, max(box[axis].last for box in self.boxes) - first + 1))
        return tuple(axes)

    def __contains__(self, point: Sequence[int]) -> bool:
        return any(all(value in axis for value, axis in zip(point, box)) for box in self.boxes)

    def count(self) -> int:
        """The number of points."""
        return sum(math.prod(axis.count for axis in box) for box in self.boxes)

    def points(self) -> Iterator[tuple[int, ...]]:
        """All points, box by box."""
        for box in self.boxes:
            yield from itertools.product(*[axis.values() for axis in box])

    def cover(self) -> list[IntervalSet]:
        """For each axis the least interval that holds the union."""
        if not self.boxes:
            return [IntSet.nothing()] * self.ndim
        return [constant_interval(axis.first, axis.last) for axis in self._cover()]

    def waste(self) -> int:
        """The number of points of the covering box that are not in the union."""
        return math.prod(axis.count for axis in self._cover()) - self.count() if self.boxes else 0

    def __repr__(self) -> str:
        return f"BoxUnion({self.boxes}, exact={self.exact})"


def _box_minus(box: Box, other: Box) -> Iterable[Box]:
    """What `other` does not hold of `box`, as boxes that do not overlap."""
    common: list[Steps] = []
    for mine, theirs in zip(box, other):
        both = mine.intersect(theirs)
        if both is None:
            return [box]
        common.append(both)
    pieces: list[Box] = []
    for axis, mine in enumerate(box):
        for rest in mine.minus(other[axis]):
            pieces.append((*common[:axis], rest, *box[axis + 1 :]))
    return pieces


def _joined_boxes(a: Box, b: Box) -> Box | None:
    """The union of two boxes that do not overlap, if it is a box: they differ in one axis."""
    differing = [axis for axis in range(len(a)) if a[axis] != b[axis]]
    if len(differing) != 1:
        return None
    axis = differing[0]
    union = a[axis].joined(b[axis])
    return None if union is None else (*a[:axis], union, *a[axis + 1 :])


def exact_union(regions: Sequence[Sequence[Any]], max_boxes: int = 256) -> BoxUnion | None:
    """The exact union of boxes with constant ends; None if an end is not a constant.

    Parameters
    ----------
    regions: boxes of one rank, each a sequence of ranges or integer sets.
    max_boxes: see `BoxUnion`.
    """
    union = BoxUnion(len(regions[0]) if regions else 0, max_boxes)
    for region in regions:
        if any(isinstance(axis, IntSet) and axis.is_nothing() for axis in region):
            continue
        if any(not isinstance(axis, Steps) and _constant_steps(axis) is None for axis in region):
            return None
        union.add(region)
    return union
