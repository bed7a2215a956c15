"""Bounds of reductions, for every order in which a schedule may combine the terms.

A sum of n floats in any order, fused or not, is off by at most (n - 1) u sum |x| (Rump, 2012; Jeannerod and Rump,
2013: without the restriction n u < 1 of Higham's gamma_n, Accuracy and Stability of Numerical Algorithms, ch. 3 and 4).
A sum of products is two products of matrices: of the values, and of their magnitudes.

If all terms are multiples of one power of two and the magnitudes add up to no more than the dtype's digits hold, every
partial sum is exact, and so is the bound. Inputs of few bits make use of that (`random_inputs(coarse=True)`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmagic.ir import DataType
from tvmagic.te.error_bound import REFERENCE, Approximate, Value, bounded, format_of, number_of, parts

Array = Any
_GRAINS = 24  # the finest power of two that is looked for is 2^-24


@dataclass
class Sum:
    """A sum, or parts of one that are added up.

    Parameters
    ----------
    value: the sum; float64, or integers that wrapped around.
    size: the sum of the terms' magnitudes, their errors included.
    spread: the sum of the terms' errors.
    grain: a power of two that all terms are multiples of; 0 if none is known.
    wide: the sum of integers in float64, which does not wrap around.
    terms: how many there are; `roundings` of each before it is added.
    """

    value: Array
    size: Array
    spread: Array | None
    grain: float
    wide: Array
    terms: int
    roundings: int = 0

    def __add__(self, other: Sum) -> Sum:
        spread = self.spread if other.spread is None else other.spread if self.spread is None else None
        if self.spread is not None and other.spread is not None:
            spread = self.spread + other.spread
        grain, wide = min(self.grain, other.grain), self.wide + other.wide
        value, size = self.value + other.value, self.size + other.size
        return Sum(value, size, spread, grain, wide, self.terms + other.terms, self.roundings)

    def of_floats(self, dtype: DataType, scale: float = 1.0) -> Value:
        """The sum with its bound."""
        form = format_of(dtype)
        steps = self.roundings + max(self.terms - 1, 0)
        with np.errstate(all="ignore"):
            rate = (1 + form.unit) ** self.roundings - 1
            rate += max(self.terms - 1, 0) * form.unit * (1 + form.unit) ** self.roundings
            own = self.size * (rate * scale + (steps + 1) * REFERENCE)
            if self.roundings:
                own = own + self.terms * self.roundings * form.tiny
            if self.spread is None and self.grain and self.roundings <= 1:
                own = np.where(self.size <= self.grain * 2.0**form.digits, 0.0, own)
            elif self.terms <= 1 and not self.roundings:
                own = np.zeros_like(self.size)
            error = own if self.spread is None else self.spread + own
            overflow = (self.size > form.top) & (np.abs(self.value) < self.size * (1 - 2.0**-20))
            error = np.where(overflow & np.isfinite(self.value), np.inf, error)
        return bounded(self.value, error, self.spread, form)

    def of_integers(self, kind: np.dtype[Any]) -> Value:
        """The sum modulo the dtype's range."""
        if self.spread is None or not np.any(self.spread):
            return self.value
        info = np.iinfo(kind)
        inside = (self.spread == 0) | ((self.wide - self.spread >= info.min) & (self.wide + self.spread <= info.max))
        return Approximate(self.value, np.where(inside, self.spread, np.inf))

    def wraps(self, kind: np.dtype[Any]) -> int:
        """How many of the sums are outside an integer dtype's range."""
        info = np.iinfo(kind)
        return int(np.count_nonzero((self.wide >= float(info.max) + 1) | (self.wide < float(info.min))))


def grain_of(values: Array) -> float:
    """The largest power of two from 1 down to 2^-24 that all of `values` are multiples of; 0 if there is none."""
    flat = np.asarray(values).reshape(-1)
    for part in (flat[:: max(flat.size // 256, 1)], flat):
        for power in range(_GRAINS + 1):
            scaled = part * 2.0**power
            if np.array_equal(scaled, np.rint(scaled), equal_nan=True):
                break
        else:
            return 0.0
    return 2.0**-power


# ---------------------------------------------------------------------------- sums of terms


def sum_of_terms(terms: Value, axes: tuple[int, ...], kind: np.dtype[Any]) -> Sum:
    """The sum over `axes` of terms of a dtype, all there as an array."""
    value, error = parts(terms)
    number = int(np.prod([value.shape[a] for a in axes], dtype=np.int64))
    if value.dtype.kind == "f":
        size = np.abs(value) if error is None else np.abs(value) + error
        total = value.sum(axis=axes)
        grain = grain_of(value) if error is None else 0.0
        spread = None if error is None else error.sum(axis=axes)
        return Sum(total, size.sum(axis=axes), spread, grain, np.float64(0), number)
    if value.dtype.kind == "b":
        total = value.any(axis=axes)
        spread = None if error is None else error.max(axis=axes)
        return Sum(total, np.float64(0), spread, 0.0, np.float64(0), number)
    spread = None if error is None else error.sum(axis=axes)
    wide = value.sum(axis=axes, dtype=np.float64)
    return Sum(value.sum(axis=axes, dtype=kind), np.float64(0), spread, 0.0, wide, number)


# ---------------------------------------------------------------------------- sums of products


def sum_of_products(values: Sequence[Value], domain: tuple[int, ...], rank: int, kind: np.dtype[Any]) -> Sum | None:
    """The sum over the dimensions of `domain` from `rank` on of the product of factors; each has the length 1 along
    dimensions that it does not depend on.

    None if float64 does not hold the integers that occur.
    """
    raw = [np.asarray(parts(v)[0], np.float64) for v in values]
    raw = [r.reshape((1,) * (len(domain) - r.ndim) + r.shape) for r in raw]
    errors = [parts(v)[1] for v in values]
    floats = kind.kind != "i" and kind.kind != "u"
    sizes = [np.abs(r) for r in raw]
    reach = sizes if all(e is None for e in errors) else [s if e is None else s + e for s, e in zip(sizes, errors)]
    value, size = _contract(raw, domain, rank), _contract(sizes, domain, rank)
    spread: Any = None
    terms = int(np.prod(domain[rank:], dtype=np.int64))
    if reach is not sizes:
        whole = _contract(reach, domain, rank)
        # what float64 loses in the difference is within the bound of the roundings of the sum
        spread = np.maximum(whole - size, 0.0) + whole * (terms + len(raw)) * REFERENCE
        spread = np.where(np.isfinite(whole), spread, np.inf)
        size = whole
    if floats:
        grain = float(np.prod([grain_of(r) for r in raw])) if spread is None else 0.0
        return Sum(value, size, spread, grain, np.float64(0), terms, len(raw) - 1)
    if np.any(size >= 2.0**53):
        return None
    return Sum(value.astype(np.int64).astype(kind), size, spread, 0.0, value, terms)


def _contract(arrays: Sequence[Array], domain: tuple[int, ...], rank: int) -> Array:
    """The sum of the product of arrays that broadcast to `domain` over the dimensions from `rank` on, by matmul."""
    left = list(arrays)
    while len(left) > 2:  # those two first whose product is smallest
        pairs = [(i, j) for i in range(len(left)) for j in range(i)]
        i, j = min(pairs, key=lambda p: np.prod(np.broadcast_shapes(left[p[0]].shape, left[p[1]].shape)))
        both = left[i] * left[j]
        left = [a for n, a in enumerate(left) if n not in (i, j)] + [both]
    a, b = left
    alone = 1.0
    for axis in range(rank, len(domain)):  # what one factor alone depends on is summed first
        if a.shape[axis] == 1 and b.shape[axis] > 1:
            b = b.sum(axis=axis, keepdims=True)
        elif b.shape[axis] == 1 and a.shape[axis] > 1:
            a = a.sum(axis=axis, keepdims=True)
        elif a.shape[axis] == 1 and b.shape[axis] == 1:
            alone *= domain[axis]
    return _matmul(a, b, rank, domain) * alone


def _matmul(a: Array, b: Array, rank: int, domain: tuple[int, ...]) -> Array:
    axes = range(len(domain))
    batch = [k for k in axes if k < rank and a.shape[k] > 1 and b.shape[k] > 1]
    rows = [k for k in axes if k < rank and k not in batch and a.shape[k] > 1]
    columns = [k for k in axes if k < rank and k not in batch and k not in rows]
    summed = [k for k in axes if k >= rank]
    left = _matrix(a, (batch, rows, summed))
    right = _matrix(b, (batch, summed, columns))
    result = left @ right
    made = [*batch, *rows, *columns]
    shape = [b.shape[k] if k in columns else a.shape[k] for k in made]
    result = result.reshape(shape)
    return np.broadcast_to(result.transpose([made.index(k) for k in range(rank)]), domain[:rank])


def _matrix(array: Array, groups: Sequence[Sequence[int]]) -> Array:
    order = [k for group in groups for k in group]
    rest = [k for k in range(array.ndim) if k not in order]  # of length 1
    sizes = [int(np.prod([array.shape[k] for k in group], dtype=np.int64)) for group in groups]
    return array.transpose([*order, *rest]).reshape(sizes)


# ---------------------------------------------------------------------------- other reductions


def extreme(ufunc: np.ufunc, terms: Value, axes: tuple[int, ...]) -> Value:
    """The largest (smallest) term: it lies between that of the lower and that of the upper ends.

    If a single term, or copies of one, can be the result, the result is a copy of it.
    """
    value, error = parts(terms)
    result = ufunc.reduce(value, axis=axes)
    if error is None:
        return result
    with np.errstate(all="ignore"):
        high = ufunc.reduce(value + error, axis=axes) - result
        low = result - ufunc.reduce(value - error, axis=axes)
        moved = np.maximum(high, low)
    sure = np.logical_not(np.isfinite(result) | np.isinf(error).any(axis=axes))  # infinity, or a NaN of the inputs
    moved = np.where(sure, 0.0, np.where(np.isnan(moved), np.inf, moved))
    return Approximate(result, moved, _winner(ufunc, terms, axes))


def _winner(ufunc: np.ufunc, terms: Value, axes: tuple[int, ...]) -> Array | None:
    """The value number that all terms have that can be the largest (smallest) one; 0 if they differ."""
    numbers = number_of(terms)
    if numbers is None:
        return None
    value, error = parts(terms)
    with np.errstate(all="ignore"):
        if ufunc is np.maximum:
            possible = value + error >= (value - error).max(axis=axes, keepdims=True)
        else:
            possible = value - error <= (value + error).min(axis=axes, keepdims=True)
    numbers = np.broadcast_to(numbers, possible.shape)
    first = np.where(possible, numbers, np.uint64(0)).max(axis=axes)
    last = np.where(possible, numbers, np.uint64(2**64 - 1)).min(axis=axes)
    return np.where(first == last, first, np.uint64(0))


def product(terms: Value, axes: tuple[int, ...], dtype: DataType) -> Value:
    """The product of floats: each factor is off by its error, each multiplication by a rounding.

    A partial product that underflows loses up to the smallest number, which the factors above 1 enlarge.
    """
    value, error = parts(terms)
    form, number = format_of(dtype), int(np.prod([value.shape[a] for a in axes], dtype=np.int64))
    with np.errstate(all="ignore"):
        result = value.prod(axis=axes)
        reach = np.abs(value) if error is None else np.abs(value) + error
        whole, large = reach.prod(axis=axes), np.maximum(reach, 1.0).prod(axis=axes)
        spread = None if error is None else np.maximum(whole - np.abs(result), 0.0)
        own = whole * ((1 + form.unit + REFERENCE) ** max(number - 1, 0) - 1) + max(number - 1, 0) * form.tiny * large
        own = np.where((large > form.top) & np.isfinite(result), np.inf, own)
        if error is not None:
            own = own + spread
    return bounded(result, own, spread, form)
