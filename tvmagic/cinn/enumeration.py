"""What is found by looking at all values of the variables of loops, if they are not too many.

Splits of fused loops leave quotients and remainders whose parts no longer show that they belong together, such as
`(8 * i + j / 3) % 5`. Iteration maps do not know these, nor conditions on another sum than what is bound; the numbers do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmagic.arith.enumeration import all_points, constant_range
from tvmagic.arith.iter_map import detect_iter_map
from tvmagic.eval.indices import Unevaluated, evaluate
from tvmagic.ir import IterVar, PrimExpr, Range, Var
from tvmagic.ir.query import is_one, variables_in
from tvmagic.tir.blocks.conditions import conjuncts

_MOST = 1 << 18  # values of all variables together

Bindings = Sequence[tuple[IterVar, PrimExpr]]


def counted_values(
    values: Sequence[PrimExpr], ranges: Mapping[Var, Range], conditions: Sequence[PrimExpr]
) -> list[Any] | None:
    """What expressions are, as arrays, for all values of their variables for which conditions hold.

    Of the conditions those are asked that are in the variables of the expressions. None if that is not known in numbers, or
    too much.
    """
    used = {var: ranges.get(var) for value in values for var in variables_in(value)}
    asked = [c for c in conditions if used.keys() >= set(variables_in(c))]
    points = all_points(list(used.values()), _MOST) if used else None
    if points is None:
        return None
    places: dict[Var, Any] = dict(zip(used, points))
    try:
        keep = np.ones(points.shape[1], bool)
        for condition in asked:
            keep &= evaluate(condition, places) != 0
        return [np.broadcast_to(evaluate(value, places), keep.shape)[keep] for value in values]
    except Unevaluated:
        return None


def counted_all(
    bindings: Bindings, ranges: Mapping[Var, Range], condition: PrimExpr, *, once: bool = False
) -> bool | None:
    """Whether variables of a block have all their values in some loops under a condition; each once if asked.

    None if that cannot be counted. Variables that are bound to a number are left aside.
    """
    moving = [(axis, value) for axis, value in bindings if variables_in(value)]
    domains = [constant_range(axis.dom) for axis, _ in moving]
    used = {var for _, value in moving for var in variables_in(value)}
    if not moving or None in domains or not used >= set(variables_in(condition)):
        return None
    found = counted_values([value for _, value in moving], ranges, conjuncts(condition))
    if found is None:
        return None
    number, inside = np.zeros_like(found[0]), np.ones(len(found[0]), bool)
    for numbers, domain in zip(found, domains):
        first, size = domain or (0, 0)
        inside &= (numbers >= first) & (numbers < first + size)
        number = number * size + numbers - first
    different = len(np.unique(number))
    idle = [var for var, range_ in ranges.items() if var not in used and not is_one(range_.extent)]
    repeated = bool(idle) or different < len(number)
    return bool(inside.all()) and different == math.prod(d[1] for d in domains if d) and not (once and repeated)


def reaches_all(bindings: Bindings, ranges: Mapping[Var, Range], condition: PrimExpr, *, once: bool) -> bool:
    """What `counted_all` says; of what cannot be counted, what an iteration map does under the condition."""
    counted = counted_all(bindings, ranges, condition, once=once)
    if counted is not None:
        return counted
    values = [value for _, value in bindings if variables_in(value)]
    return bool(detect_iter_map(values, ranges, condition, check_level="bijective" if once else "surjective").indices)
