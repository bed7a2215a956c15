"""Which whole numbers of CINN's text cannot be negative.

CINN divides whole numbers as C does: the quotient is rounded towards zero, and a remainder has the sign of the dividend.
For numbers that cannot be negative this is a FloorDiv and a FloorMod, of which more can be proved.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set import IntSet, pos_inf
from tvmagic.arith.int_set_eval import eval_set
from tvmagic.ir.query import variables_in

Ranges = Mapping[ir.Var, ir.Range | IntSet | None]


def never_negative(value: ir.PrimExpr, ranges: Ranges) -> bool:
    """Whether a whole number is at least 0 for all values of its variables.

    A variable without a range is a size of the program, which is at least 0. Overflows are not looked for.
    """
    return _by_parts(value, ranges) or _by_range(value, ranges)


def at_least_0() -> IntSet:
    """All whole numbers that are not negative."""
    return IntSet.interval(0, pos_inf())


def _by_parts(value: ir.PrimExpr, ranges: Ranges) -> bool:
    if value.dtype.is_uint or value.dtype.is_bool:
        return True
    if isinstance(value, ir.IntImm):
        return value.value >= 0
    if isinstance(value, (ir.Add, ir.Mul, ir.Min, ir.FloorDiv, ir.Div)):
        return _by_parts(value.a, ranges) and _by_parts(value.b, ranges)
    if isinstance(value, ir.Max):
        return _by_parts(value.a, ranges) or _by_parts(value.b, ranges)
    if isinstance(value, ir.Select):
        return _by_parts(value.true_value, ranges) and _by_parts(value.false_value, ranges)
    if isinstance(value, ir.FloorMod):  # has the sign of the divisor
        return _by_parts(value.b, ranges)
    if isinstance(value, ir.Mod):
        return _by_parts(value.a, ranges)
    if isinstance(value, ir.Cast) and value.value.dtype.bits < value.dtype.bits and not value.value.dtype.is_float:
        return _by_parts(value.value, ranges)
    return _by_range(value, ranges)


def _by_range(value: ir.PrimExpr, ranges: Ranges) -> bool:
    least = _lower_bound(value, ranges)
    if least is not None and not isinstance(least, ir.IntImm):
        least = _lower_bound(least, {})  # sizes in the ends of ranges
    return least is not None and Analyzer().can_prove(least >= 0)


def _lower_bound(value: ir.PrimExpr, ranges: Ranges) -> ir.PrimExpr | None:
    """The least that a value can be, in the variables of the ranges' ends; None if that is not known."""
    found = eval_set(value, {var: ranges.get(var) or at_least_0() for var in variables_in(value)})
    return found.min() if found.has_lower_bound() else None
