"""Random choices of a schedule: the linear congruential engine that TVM uses.

The engine is `x -> 48271 * x mod 2147483647` (the "minimal standard" generator with Park and
Miller's later multiplier). Integers and weighted choices are drawn from it the way libstdc++
draws them, so that a seed gives the same samples as in TVM.
"""

from __future__ import annotations

import bisect
import itertools
import math
import secrets
from collections.abc import Sequence
from typing import Any

from tvmagic.errors import TVMagicError, WrongTypeError, a_thing
from tvmagic.ir.numpy_types import as_integer

_MULTIPLIER = 48271
_MODULUS = 2147483647


def check_seed(seed: Any) -> None:
    """Raise TVMagicError for a number that TVM refuses as the seed of a schedule: it takes -1 and 1 to 2147483647."""
    given = as_integer(seed)
    if given is not None and given != -1 and not 0 < given <= _MODULUS:
        raise TVMagicError(f"a seed must be -1 or from 1 to {_MODULUS}, got {given}", code="schedule.wrong_seed")


class LinearCongruentialEngine:
    """A stream of random numbers from a seed; -1 (or None) takes a seed from the system."""

    def __init__(self, seed: int | None = None) -> None:
        self.state = 1
        self.seed(seed)

    def seed(self, seed: int | None = None) -> None:
        """Start the stream again."""
        given = -1 if seed is None else as_integer(seed)
        if given is None:
            raise WrongTypeError(f"a seed must be an integer, got {a_thing(seed)}", code="schedule.wrong_seed")
        if given == -1:
            given = secrets.randbelow(_MODULUS - 1) + 1
        if given < 0:
            raise TVMagicError(f"a seed must be -1 or not negative, got {given}", code="schedule.wrong_seed")
        self.state = (given or 1) % _MODULUS

    def next(self) -> int:
        """The next number, from 0 to 2147483646."""
        self.state = self.state * _MULTIPLIER % _MODULUS
        return self.state

    def fork_seed(self) -> int:
        """A seed for another stream that does not follow this one."""
        return self.next() * 32767 % 1999999973

    def integer(self, low: int, high: int) -> int:
        """An integer from `low` to `high - 1`, each as likely as the others."""
        if low + 1 >= high:
            return low
        size = high - low
        scaling = (_MODULUS - 1) // size
        past = size * scaling
        while True:
            value = self.next()
            if value < past:
                return low + value // scaling

    def real(self) -> float:
        """A number from 0 up to 1, the 1 left out, with 53 random bits."""
        first, second = self.next(), self.next()
        value = (float(first) + float(second) * _MODULUS) / (float(_MODULUS) * _MODULUS)
        return value if value < 1.0 else math.nextafter(1.0, 0.0)

    def weighted(self, weights: Sequence[float]) -> int:
        """An index, each as likely as its weight says."""
        total = math.fsum(weights)
        if len(weights) < 2:
            return 0
        cumulative = list(itertools.accumulate(w / total for w in weights))
        cumulative[-1] = 1.0
        return min(bisect.bisect_left(cumulative, self.real()), len(weights) - 1)

    def distinct(self, size: int, count: int) -> list[int]:
        """`count` different integers below `size`, in the order in which they were drawn."""
        if count == 2:  # the second is drawn from the others by their order
            first, second = self.integer(0, size), self.integer(0, size - 1)
            return [first, second + (second >= first)]
        pool = list(range(size))
        for i in range(count):
            j = self.integer(i, size)
            pool[i], pool[j] = pool[j], pool[i]
        return pool[:count]
