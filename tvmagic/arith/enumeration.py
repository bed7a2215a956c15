"""All values of variables whose ranges are numbers, as arrays, to look at an expression at each of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvmagic.ir import IntImm, Range


def constant_range(range_: Range | None) -> tuple[int, int] | None:
    """The first value and how many there are, if both are numbers."""
    if range_ is None or not isinstance(range_.min, IntImm) or not isinstance(range_.extent, IntImm):
        return None
    return range_.min.value, max(range_.extent.value, 0)


def all_points(ranges: Sequence[Range | None], most: int) -> Any:
    """All points in ranges, an array of int64 with a row for each range; None if some range is not of numbers, or if they hold more
    than `most`."""
    import numpy as np

    known = [numbers for numbers in map(constant_range, ranges) if numbers is not None]
    counts = [count for _, count in known]
    if len(known) < len(ranges) or math.prod(counts) > most:
        return None
    grid = np.indices(counts, dtype=np.int64).reshape(len(known), math.prod(counts))
    return grid + np.array([first for first, _ in known], np.int64).reshape(-1, 1)
