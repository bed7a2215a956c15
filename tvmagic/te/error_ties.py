"""Undecided comparisons, and value numbers that decide some of them.

A comparison is undecided if its operands are closer to each other than their errors: a correct program may take
either side. Two facts reduce the number of such comparisons:

- Equal value numbers mean equal bits. An exact value is numbered by its bits, the result of an operation by the
  operation and the numbers of its operands, an element of memory by what was stored. So `M[i] >= max(M[k])` is
  decided for the largest element: the maximum is a copy of it.
- A second evaluation can take every comparison as the float64 values say. Where its bound is smaller, the first one
  has accepted both sides of a comparison, and nothing was judged.

Numbers cost about as much as the evaluation, so they are computed only after a first evaluation found a comparison
that it could not decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np

from tvmagic.ir import BufferLoad, PrimExpr, ProducerLoad
from tvmagic.ir.query import contains

Array = Any
_GOLDEN, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


@dataclass
class Ties:
    """How an evaluation treats comparisons.

    Attributes
    ----------
    numbered: whether values carry value numbers.
    decided: whether comparisons are taken as the float64 values say.
    found: number of comparisons that the evaluation could not decide.
    created: number of elements that have got a number of their own.
    compared: the comparisons that were evaluated, by identity; None if nobody asks.
    """

    numbered: bool = False
    decided: bool = False
    found: int = 0
    created: int = 0
    compared: dict[int, Comparison] | None = None

    def observe(self, node: PrimExpr, value: Array, mask: Array | None) -> None:
        """Note which way a comparison of data went, where `mask` says that it counts."""
        if self.compared is None:
            return
        seen = self.compared.get(id(node))
        if seen is None:
            seen = self.compared[id(node)] = Comparison(node, contains(node, ProducerLoad, BufferLoad))
        if not seen.on_data or (seen.held and seen.failed):
            return
        counts = True if mask is None or np.ndim(mask) != np.ndim(value) else mask
        seen.held = seen.held or bool(np.any(np.logical_and(value, counts)))
        seen.failed = seen.failed or bool(np.any(np.logical_and(np.logical_not(value), counts)))


@dataclass
class Comparison:
    """A comparison in a program: whether it reads data, and whether it ever held and ever failed."""

    node: PrimExpr
    on_data: bool
    held: bool = False
    failed: bool = False


_TIES: ContextVar[Ties | None] = ContextVar("ties", default=None)


_PLAIN = Ties()


@contextmanager
def comparing(mode: Ties) -> Iterator[Ties]:
    """Evaluate in a mode."""
    token = _TIES.set(mode)
    try:
        yield mode
    finally:
        _TIES.reset(token)


def ties() -> Ties:
    """The mode of the evaluation in progress."""
    return _TIES.get() or _PLAIN


def undecided(mask: Array) -> Array:
    """Count the elements of `mask`, whose comparisons are undecided; return those that may take either side."""
    mode = ties()
    count = int(np.count_nonzero(mask))
    if not count:
        return mask
    mode.found += count
    return np.zeros_like(mask) if mode.decided else mask


# ---------------------------------------------------------------------------- value numbers; 0 means none


def _scrambled(numbers: Array) -> Array:
    """SplitMix64's finalizer; never 0."""
    with np.errstate(over="ignore"):
        numbers = (numbers ^ (numbers >> np.uint64(30))) * _FIRST
        numbers = (numbers ^ (numbers >> np.uint64(27))) * _SECOND
    return (numbers ^ (numbers >> np.uint64(31))) | np.uint64(1)


def numbers_of_bits(value: Array) -> Array:
    """Value numbers of exact values: of floats by their bits, of integers by their value."""
    value = np.asarray(value)
    wide = (
        value.astype(np.float64).view(np.uint64) if value.dtype.kind == "f" else value.astype(np.int64).view(np.uint64)
    )
    return _scrambled(wide + _GOLDEN)


def mixed(operation: str, numbers: Sequence[Array]) -> Array:
    """Value numbers of the results of an operation; 0 unless all operands have one."""
    result, known = np.asarray(_seed(operation)), np.asarray(True)
    with np.errstate(over="ignore"):
        for number in numbers:
            known = known & (number != 0)
            result = _scrambled(result * _GOLDEN + number)
    return np.where(known, result, np.uint64(0))


@lru_cache
def _seed(operation: str) -> np.uint64:
    return np.uint64(int.from_bytes(blake2b(operation.encode(), digest_size=8).digest(), "little"))


def fresh_numbers(shape: tuple[int, ...]) -> Array:
    """Value numbers that no other value has; all 1 in an evaluation without numbers."""
    mode, count = ties(), int(np.prod(shape, dtype=np.int64))
    if not mode.numbered:
        return np.ones(shape, np.uint64)
    numbers = np.arange(mode.created + 1, mode.created + count + 1, dtype=np.uint64).reshape(shape)
    mode.created += count
    return _scrambled(numbers)
