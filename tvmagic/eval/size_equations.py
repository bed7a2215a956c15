"""Sizes that follow from dimensions such as `m + 1` and `2 * n`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tvmagic.errors import TVMagicError
from tvmagic.eval.integers import evaluate
from tvmagic.ir import IntImm, PrimExpr, Var
from tvmagic.ir.query import variables_in


class Dimension(NamedTuple):
    """A dimension of a tensor: its size as declared, and the extent that an array has there."""

    size: PrimExpr
    extent: int


def solve_sizes(dimensions: Iterable[Dimension], values: dict[Var, int]) -> Dimension | None:
    """Add to `values` the sizes that dimensions determine. Return the first dimension that contradicts them, or None.

    Dimensions that are one symbol come first. Each other one determines a symbol once it has no second unknown, if it is
    affine in it.
    """
    pending = list(dimensions)
    for size, extent in pending:
        if isinstance(size, Var):
            values.setdefault(size, extent)
    pending = [d for d in pending if not isinstance(d.size, (Var, IntImm))]
    while pending:
        left: list[Dimension] = []
        for dimension in pending:
            unknown = unsolved_size(dimension.size, values)
            if unknown is None:
                if evaluate(dimension.size, values) != dimension.extent:
                    return dimension
            elif not unknown or (slope := _slope(dimension.size, unknown[0], values)) is None:
                left.append(dimension)
            else:
                value, rest = divmod(dimension.extent - slope[1], slope[0])
                if rest or value < 0:
                    return dimension
                values[unknown[0]] = value
        if len(left) == len(pending):
            return None
        pending = left
    return None


def unsolved_size(size: PrimExpr, values: Iterable[Var]) -> list[Var] | None:
    """Return None if all symbols of a size are among `values`, the only one that is not, or an empty list if there are several."""
    known = set(values)
    unknown = [var for var in dict.fromkeys(variables_in(size)) if var not in known]
    return None if not unknown else unknown if len(unknown) == 1 else []


def _slope(size: PrimExpr, symbol: Var, values: dict[Var, int]) -> tuple[int, int] | None:
    """Return a and c if a size is `a * symbol + c` with an `a` other than 0, or None."""
    try:
        first, second, third = (evaluate(size, {**values, symbol: at}) for at in (0, 1, 2))
    except TVMagicError:  # it divides by the symbol
        return None
    slope = second - first
    return (slope, first) if slope and third - second == slope else None
