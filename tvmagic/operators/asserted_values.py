"""Random arrays that satisfy assertions of some forms.

    a <= X[...] < b         bounds of elements, by sizes, indices and tensors that are drawn before; also `X[0] == a`
    X[i] <= X[i + 1]        sorted elements, also with `<`, `>=` and `>`, and in ranges between data
    distinct(X[i], over=i)  no two are equal
    X[i, j] == X[j, i]      equal elements

Whoever draws them tests the assertions; others are left to chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tvmagic.errors import TVMagicError
from tvmagic.ir import Cast, PrimExpr, ProducerLoad, Var, post_order_visit
from tvmagic.notation.assertions import Assertion, Side
from tvmagic.operators.assertion_points import Points

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}
_FAR = 1 << 62  # beyond every bound of an integer
_FINE = 64  # steps in 1 of floats of 16 bits, which hold them without rounding


class Window:
    """The values of an array without assertions: from `least` to `most`; floats are multiples of 1 / `steps` if there are any."""

    def __init__(self, least: float, most: float, steps: int = 0) -> None:
        self.least, self.most, self.steps = least, most, steps


class AssertedArray:
    """The elements of one tensor, as far as assertions say something of them.

    `arrays`: the tensors that are drawn already; `sizes`: the values of symbolic sizes.
    """

    def __init__(
        self,
        tensor: Any,
        shape: tuple[int, ...],
        dtype: Any,
        window: Window,
        arrays: Mapping[Any, np.ndarray],
        sizes: Mapping[Var, int],
    ) -> None:
        self.tensor, self.shape, self.dtype, self.window = tensor, shape, dtype, window
        self.arrays, self.sizes = arrays, sizes
        self.count = int(np.prod(shape, dtype=np.int64))
        self.is_float = np.dtype(dtype).kind not in "iub"
        kind = np.float64 if self.is_float else np.int64
        low, high = (-np.inf, np.inf) if self.is_float else _limits(dtype)
        self.low, self.high = np.full(self.count, low, kind), np.full(self.count, high, kind)
        self.has_low, self.has_high = np.zeros(self.count, bool), np.zeros(self.count, bool)
        self.follows = np.zeros(self.count, np.int8)  # 1 if an element is at most the next in `order`, 2 if it is less
        self.axis: int | None = None
        self.falls = False
        self.groups: list[np.ndarray] = []  # flat indices of elements that are distinct
        self.equal: list[tuple[np.ndarray, np.ndarray]] = []
        self.found = False

    def take(self, assertions: Iterable[Assertion]) -> bool:
        """Note what assertions say. Return whether they say anything in a form that is known."""
        for assertion in assertions:
            if self.tensor in assertion.tensors:
                try:
                    self._take(assertion)
                except TVMagicError:  # an access outside, or what NumPy does not have: the test decides
                    continue
        return self.found

    def _take(self, assertion: Assertion) -> None:
        points = Points(self.arrays, self.sizes)
        if not self._is_known(e for loop in assertion.loops for e in (loop.begin, loop.end)):
            return
        if assertion.over:
            load = self._own(assertion.condition)
            size = points.enter(assertion.loops[-assertion.over :]).count
            points = Points(self.arrays, self.sizes).enter(assertion.loops)
            if load is not None and points.count:
                self.groups += list(self._places(load, points).reshape(-1, size))
                self.found = True
            return
        points.enter(assertion.loops)
        for left, sign, right in zip(assertion.sides, assertion.signs, assertion.sides[1:]):
            self._compare(left, sign, right, points)

    def _is_known(self, expressions: Iterable[Any]) -> bool:
        """Whether expressions read only what is drawn already."""
        return all(load.producer in self.arrays for e in expressions for load in _loads(e))

    def _own(self, expr: Any) -> ProducerLoad | None:
        """The access that an expression is, if it is one of this tensor with indices that are known."""
        while isinstance(expr, Cast) and (expr.dtype.is_int or expr.dtype.is_uint):
            expr = expr.value
        if isinstance(expr, ProducerLoad) and expr.producer is self.tensor and self._is_known(expr.indices):
            return expr
        return None

    def _places(self, load: ProducerLoad, points: Points) -> np.ndarray:
        """The index of an access in the flat array at each point; one outside is left to the test."""
        indices = [np.broadcast_to(points.value(i), points.count) for i in load.indices]
        if not indices:
            return np.zeros(points.count, np.int64)
        clipped = [np.clip(index, 0, max(size - 1, 0)) for index, size in zip(indices, self.shape)]
        return np.ravel_multi_index(tuple(clipped), self.shape) if self.count else np.zeros(0, np.int64)

    def _compare(self, left: Side, sign: str, right: Side, points: Points) -> None:
        if sign not in _TURNED or left.reductions or right.reductions:
            return
        first, second = self._own(left.value), self._own(right.value)
        if first is not None and second is not None:
            self._relate(self._places(first, points), sign, self._places(second, points))
        elif first is not None and self._is_known([right.value]):
            self._bound(self._places(first, points), sign, points.value(right.value))
        elif second is not None and self._is_known([left.value]):
            self._bound(self._places(second, points), _TURNED[sign], points.value(left.value))

    def _bound(self, places: np.ndarray, sign: str, value: np.ndarray) -> None:
        """`X[places] sign value`."""
        self.found = True
        value = np.broadcast_to(value, places.shape)
        value = value.astype(np.float64) if self.is_float else _as_integers(value, sign)
        if sign in ("<", "<=", "=="):
            most = self._adjacent(value, -1) if sign == "<" else value
            np.minimum.at(self.high, places, most)
            self.has_high[places] = True
        if sign in (">", ">=", "=="):
            least = self._adjacent(value, 1) if sign == ">" else value
            np.maximum.at(self.low, places, least)
            self.has_low[places] = True

    def _adjacent(self, value: np.ndarray, step: int) -> np.ndarray:
        """The next number up or down of the array's type; of floats of 16 bits a fine step."""
        if not self.is_float:
            return value + step
        if np.dtype(self.dtype).itemsize == 2:
            return value + step / _FINE
        return np.nextafter(value.astype(self.dtype), np.asarray(step * np.inf, self.dtype)).astype(np.float64)

    def _relate(self, first: np.ndarray, sign: str, second: np.ndarray) -> None:
        """`X[first] sign X[second]`: equal elements, or neighbours along an axis in order."""
        if sign == "==":
            self.equal.append((first, second))
            self.found = True
            return
        apart = np.unique(second - first)
        if len(apart) != 1:
            return
        if apart[0] < 0:
            first, second, sign, apart = second, first, _TURNED[sign], -apart
        strides = np.cumprod([1, *self.shape[:0:-1]])[::-1]
        axes = [axis for axis, stride in enumerate(strides) if stride == apart[0] and self.shape[axis] > 1]
        falls = sign in (">", ">=")
        if not axes or (self.axis is not None and (self.axis, self.falls) != (axes[-1], falls)):
            return
        self.axis, self.falls, self.found = axes[-1], falls, True
        np.maximum.at(self.follows, first, np.int8(2 if sign in ("<", ">") else 1))

    # ------------------------------------------------------------------------ values

    def draw(self, generator: np.random.Generator) -> np.ndarray:
        """A random array, of the flat elements."""
        if self.axis is not None:
            values = self._sorted(generator)
        else:
            longest = max([len(g) for g in self.groups], default=0)  # room for as many values
            low, high = self._bounds(
                self.low, self.high, self.has_low, self.has_high, 0 if self.is_float else 2 * longest
            )
            values = self._between(low, high, generator)
            for places in self.groups:
                values[places] = _distinct(low[places], high[places], generator, values[places])
        for first, second in self.equal:
            later = first > second
            values[first[later]] = values[second[later]]
            values[second[~later]] = values[first[~later]]
        return values.astype(self.dtype)

    def _bounds(
        self, low: np.ndarray, high: np.ndarray, has_low: np.ndarray, has_high: np.ndarray, room: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """The least and the greatest value of each element: as asserted; what has one of them only, or none, has the usual window.

        `room`: how wide the window is at least.
        """
        least, most = self.window.least, self.window.most
        most = max(most, least + room)
        if self.falls:
            least, most = -most, -least
        bottom, top = (-np.inf, np.inf) if self.is_float else _limits(self.dtype)
        bottom, top = (-top, -bottom) if self.falls else (bottom, top)
        wide = most - least
        low, high = low.copy(), high.copy()
        only_low, only_high, neither = has_low & ~has_high, has_high & ~has_low, ~has_low & ~has_high
        low[neither], high[neither] = max(least, bottom), min(most, top)
        high[only_low] = np.maximum(most, np.minimum(low[only_low], top - wide) + wide)
        low[only_high] = np.minimum(least, np.maximum(high[only_high], bottom + wide) - wide)
        return np.maximum(low, bottom), np.minimum(high, top)

    def _between(self, low: np.ndarray, high: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Values from `low` to `high`."""
        high = np.maximum(low, high)
        if not self.is_float:
            return generator.integers(low, high, endpoint=True)
        values = low + (high - low) * generator.random(low.shape)
        steps = _FINE if np.dtype(self.dtype).itemsize == 2 else 0 if self.axis is not None else self.window.steps
        if not steps:
            return _clamp(values, low, high, self.dtype)
        first, last = np.ceil(low * steps), np.floor(high * steps)
        some = first <= last
        values[some] = (
            generator.integers(first[some].astype(np.int64), last[some].astype(np.int64), endpoint=True) / steps
        )
        return values

    def _sorted(self, generator: np.random.Generator) -> np.ndarray:
        """Values in order within each chain of elements that follow each other: drawn between ends that are in order, then sorted.

        What is less than the next is drawn less its place in the chain, which is added after sorting.
        """
        assert self.axis is not None
        order = np.moveaxis(np.arange(self.count).reshape(self.shape), self.axis, -1).ravel()
        follows = self.follows[order]
        if self.groups and not self.is_float:  # in order, and distinct
            follows = np.where(follows > 0, 2, 0)
        low, high, has_low, has_high = (a[order] for a in (self.low, self.high, self.has_low, self.has_high))
        if self.falls:
            low, high, has_low, has_high = -high, -low, has_high, has_low
        chain = np.concatenate([[0], np.cumsum(follows[:-1] == 0)]).astype(np.int64)
        starts = np.flatnonzero(np.diff(chain, prepend=-1))
        chains = [
            (first, last)
            for first, last in zip(starts.tolist(), [*starts[1:].tolist(), self.count])
            if last - first > 1
        ]
        steps = np.zeros(self.count, low.dtype)
        if not self.is_float:
            steps = np.concatenate([[0], np.cumsum(follows[:-1] == 2)])
            steps -= steps[starts][chain]
        none = np.inf if self.is_float else _FAR
        low, high = np.where(has_low, low - steps, -none), np.where(has_high, high - steps, none)
        _in_order(low, high, chains)
        low, high = self._bounds(
            low, high, low > -none, high < none, 0 if self.is_float else max((b - a for a, b in chains), default=0)
        )
        if not self.is_float:
            high = np.minimum(high, max(abs(n) for n in _limits(self.dtype)) - 1 - steps)
        _in_order(low, high, chains)
        values = self._between(low, high, generator)
        values = values[np.lexsort((values, chain))] + steps
        result = np.empty_like(values)
        result[order] = -values if self.falls else values
        return result


def _in_order(low: np.ndarray, high: np.ndarray, chains: Sequence[tuple[int, int]]) -> None:
    """Raise least values to those before them in a chain, and lower greatest values to those after them."""
    for first, last in chains:
        low[first:last] = np.maximum.accumulate(low[first:last])
        high[first:last] = np.minimum.accumulate(high[first:last][::-1])[::-1]


def _loads(expr: Any) -> Iterator[ProducerLoad]:
    """The accesses of tensors in an expression."""
    found: list[ProducerLoad] = []
    if isinstance(expr, PrimExpr):
        post_order_visit(expr, lambda node: found.append(node) if isinstance(node, ProducerLoad) else None)
    return iter(found)


def _limits(dtype: Any) -> tuple[int, int]:
    """The least and the greatest value of an integer type, as far as they are near enough to 0 to be added."""
    if np.dtype(dtype).kind == "b":
        return 0, 1
    info = np.iinfo(dtype)
    return max(int(info.min), 2 - _FAR), min(int(info.max), _FAR - 2)


def _as_integers(value: np.ndarray, sign: str) -> np.ndarray:
    """Bounds of integers, which may be written as floats."""
    if value.dtype.kind != "f":
        return value.astype(np.int64)
    return (np.ceil(value) if sign in ("<", ">=") else np.floor(value)).astype(np.int64)


def _clamp(values: np.ndarray, low: np.ndarray, high: np.ndarray, dtype: Any) -> np.ndarray:
    """Values that stay between their bounds when they are rounded to a type."""
    rounded = values.astype(dtype)
    up, down = (np.nextafter(rounded, np.asarray(side * np.inf, dtype)) for side in (1, -1))
    return np.where(rounded < low, up, np.where(rounded > high, down, rounded)).astype(np.float64)


def _distinct(low: np.ndarray, high: np.ndarray, generator: np.random.Generator, values: np.ndarray) -> np.ndarray:
    """Distinct values between the ends that all elements have; the present ones if there are too few."""
    least, most = int(low.max()), int(high.min())
    if most - least + 1 < len(values):
        return values
    return least + generator.choice(most - least + 1, len(values), replace=False)
