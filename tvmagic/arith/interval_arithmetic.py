"""The least and the greatest value of an operator's result, from those of its operands."""

from __future__ import annotations

from collections.abc import Callable

from tvmagic.ir import Add, FloorDiv, FloorMod, Max, Min, Mul, Sub

Ends = tuple[int, int]


def _at_corners(operator: Callable[[int, int], int]) -> Callable[[Ends, Ends], Ends]:
    """The ends of a result that is least and greatest at ends of both operands."""

    def ends(a: Ends, b: Ends) -> Ends:
        found = [operator(x, y) for x in a for y in b]
        return min(found), max(found)

    return ends


def _remainder(a: Ends, b: Ends) -> Ends:
    return (0, min(a[1], b[1] - 1)) if a[0] >= 0 else (0, b[1] - 1)


# By operator. Divisors must be positive.
ENDS_OF: dict[type, Callable[[Ends, Ends], Ends]] = {
    Add: _at_corners(lambda x, y: x + y),
    Sub: _at_corners(lambda x, y: x - y),
    Mul: _at_corners(lambda x, y: x * y),
    Min: _at_corners(min),
    Max: _at_corners(max),
    FloorDiv: _at_corners(lambda x, y: x // y),
    FloorMod: _remainder,
}
