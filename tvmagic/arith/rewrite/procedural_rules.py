"""What patterns cannot say: steps of the rewrite simplifier that look at bounds and remainders."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import gcd
from typing import Any

from tvmagic.arith.rewrite.compile import BUILDERS
from tvmagic.arith.rewrite.compile import integer_constant as _constant
from tvmagic.arith.scalable import prove_for_each_vscale
from tvmagic.arith.transitive import EQ as IS_EQ
from tvmagic.arith.transitive import GE as IS_GE
from tvmagic.arith.transitive import GT as IS_GT
from tvmagic.arith.transitive import LT as IS_LT
from tvmagic.arith.transitive import NE as IS_NE
from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    EQ,
    LE,
    LT,
    Add,
    Broadcast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Ramp,
    Sub,
)
from tvmagic.ir.expr import BOOL
from tvmagic.ir.ops import make_const
from tvmagic.ir.semantics import round_float, truncate_divide

_add, _mul = BUILDERS[Add], BUILDERS[Mul]
_floordiv, _floormod, _truncdiv, _truncmod = BUILDERS[FloorDiv], BUILDERS[FloorMod], BUILDERS[Div], BUILDERS[Mod]
_less, _less_equal = BUILDERS[LT], BUILDERS[LE]


def _bool(e: PrimExpr, value: bool) -> PrimExpr:
    return IntImm(BOOL, value) if e.dtype is BOOL else make_const(e.dtype, value)


# ---------------------------------------------------------------------------- division


def reciprocal(S: Any, e: Div) -> PrimExpr | None:
    """x / 2.0 is x * 0.5; x / 3.0 is another number than x * (1.0 / 3.0)"""
    if type(e.b) is not FloatImm or e.b.value == 0:
        return None
    factor = 1.0 / e.b.value
    exact = abs(math.frexp(e.b.value)[0]) == 0.5 and round_float(factor, e.b.dtype) == factor and math.isfinite(factor)
    return _mul(e.a, make_const(e.b.dtype, factor)) if exact or S.parent.inexact_reciprocals else None


def split_multiple(S: Any, e: FloorDiv) -> PrimExpr | None:
    """(x * c1 + y) // c2 where the rest vanishes, or where c1 divides c2 and y fits in between"""
    if type(e.b) is not IntImm or e.b.value == 0:
        return None
    found = _product_in_sum(e.a)
    if found is None:
        return None
    x, factor, y = found
    c1, c2, dtype = factor.value, e.b.value, e.a.dtype
    y = _constant(dtype, 0) if y is None else y
    rest = _floordiv(
        _add(_mul(x, _constant(dtype, c1 % c2)), _floormod(y, e.b)),
        e.b,
    )
    low, high = S.bound(rest)
    if low == high:
        quotient = _add(_quotient_or_zero(S, y, e.b), _constant(dtype, high))
        return _add(_mul(x, _constant(dtype, c1 // c2)), quotient)
    if c1 > 0 and c2 > 0 and c2 % c1 == 0 and S.prove_less(_floormod(y, e.b), c1):
        return _add(_floordiv(x, _constant(dtype, c2 // c1)), _quotient_or_zero(S, y, e.b))
    return None


def _product_in_sum(e: PrimExpr) -> tuple[PrimExpr, IntImm, PrimExpr | None] | None:
    """x, c and y of x * c + y, x * c or y + x * c"""
    if type(e) is Add:
        if type(e.a) is Mul and type(e.a.b) is IntImm:
            return e.a.a, e.a.b, e.b
        if type(e.b) is Mul and type(e.b.b) is IntImm:
            return e.b.a, e.b.b, e.a
    elif type(e) is Mul and type(e.b) is IntImm:
        return e.a, e.b, None
    return None


def _quotient_or_zero(S: Any, y: PrimExpr, divisor: IntImm) -> PrimExpr:
    quotient = _floordiv(y, divisor)
    return _constant(y.dtype, 0) if S.is_zero(quotient) else quotient


def known_truncmod(S: Any, e: Mod) -> PrimExpr | None:
    """x % c where the remainder of x is known"""
    if type(e.b) is not IntImm or e.b.value <= 0:
        return None
    coeff, base = S.modular(e.a)
    if coeff % e.b.value == 0 and S.prove_greater_equal(e.a, 0):
        return _truncmod(_constant(e.dtype, base), e.b)
    return None


def known_floormod(S: Any, e: FloorMod) -> PrimExpr | None:
    """x % c where the remainder of x is known, or x lies in [0, c)"""
    if type(e.b) is not IntImm or e.b.value <= 0:
        return None
    coeff, base = S.modular(e.a)
    if coeff % e.b.value == 0:
        return _constant(e.dtype, base % e.b.value)
    low, high = S.bound(e.a)
    return e.a if low >= 0 and high < e.b.value else None


# ---------------------------------------------------------------------------- vectors


def _ramp_over_constant(S: Any, e: Any) -> tuple[PrimExpr, int, int, IntImm, PrimExpr] | None:
    """base, stride, divisor (a number and a scalar) and lanes of ramp(base, c1, lanes) op broadcast(c2, lanes)"""
    a, b = e.a, e.b
    if type(a) is Ramp and type(b) is Broadcast and type(a.stride) is IntImm and type(b.value) is IntImm:
        if b.value.value:
            return a.base, a.stride.value, b.value.value, b.value, a.lanes
        if S.parent.trusting:
            raise TVMagicError(
                "division by zero: all lanes of the divisor are 0", node=e, code="analyzer.division_by_zero"
            )
    return None


def _one_sign(S: Any, base: PrimExpr, stride: int) -> bool:
    """Whether no two lanes have different signs, so that truncation rounds all in one direction"""
    if S.parent.trusting:
        return True
    return S.prove_greater_equal(base, 0) if stride >= 0 else S.prove_less(base, 1)


def ramp_quotient(S: Any, e: Div) -> PrimExpr | None:
    """ramp / c, truncated"""
    found = _ramp_over_constant(S, e)
    if found is None:
        return None
    base, c1, c2, divisor, lanes = found
    if c1 % c2 == 0 and _one_sign(S, base, c1):
        return Ramp(_truncdiv(base, divisor), _constant(base.dtype, truncate_divide(c1, c2)), lanes)
    if S.prove_greater_equal(base, 0):
        coeff, start = S.modular(base)
        last = _last_lane(start, c1, lanes)
        if (
            coeff % c2 == 0
            and last is not None
            and truncate_divide(start, c2) == truncate_divide(last, c2)
            and last >= 0
        ):
            return Broadcast(_truncdiv(base, divisor), lanes)
    return None


def ramp_remainder(S: Any, e: Mod) -> PrimExpr | None:
    """ramp % c, truncated"""
    found = _ramp_over_constant(S, e)
    if found is None:
        return None
    base, c1, c2, divisor, lanes = found
    if c1 % c2 == 0 and _one_sign(S, base, c1):
        return Broadcast(_truncmod(base, divisor), lanes)
    if c1 >= 0 and S.prove_greater_equal(base, 0):
        coeff, start = S.modular(base)
        if coeff % c2 == 0:
            ramp = Ramp(_truncmod(_constant(base.dtype, start), divisor), _constant(base.dtype, c1), lanes)
            last = _last_lane(start, c1, lanes)
            same = last is not None and truncate_divide(start, c2) == truncate_divide(last, c2)
            return ramp if same else _truncmod(ramp, e.b)
    return None


def ramp_floordiv(S: Any, e: FloorDiv) -> PrimExpr | None:
    """ramp // c"""
    found = _ramp_over_constant(S, e)
    if found is None:
        return None
    base, c1, c2, divisor, lanes = found
    if c1 % c2 == 0:
        return Ramp(_floordiv(base, divisor), _constant(base.dtype, c1 // c2), lanes)
    if _one_block(S, base, c1, c2, lanes):
        return Broadcast(_floordiv(base, divisor), lanes)
    return None


def _last_lane(start: int, stride: int, lanes: PrimExpr) -> int | None:
    """The value of the last lane; None if the number of lanes is not known"""
    return start + (lanes.value - 1) * stride if isinstance(lanes, IntImm) else None


def _one_block(S: Any, base: PrimExpr, c1: int, c2: int, lanes: PrimExpr) -> bool:
    """Whether all lanes of ramp(base, c1, lanes) have one quotient by c2"""
    coeff, start = S.modular(base)
    last = _last_lane(start, c1, lanes)
    if last is None or start // c2 != last // c2:
        return False
    return coeff % c2 == 0 or (coeff != 0 and c2 % coeff == 0 and 0 <= last < coeff)


def ramp_floormod(S: Any, e: FloorMod) -> PrimExpr | None:
    """ramp % c"""
    found = _ramp_over_constant(S, e)
    if found is None:
        return None
    base, c1, c2, divisor, lanes = found
    if c1 % c2 == 0:
        return Broadcast(_floormod(base, divisor), lanes)
    coeff, start = S.modular(base)
    one_block = _one_block(S, base, c1, c2, lanes)
    if coeff % c2 == 0:
        ramp = Ramp(_constant(base.dtype, start % c2), _constant(base.dtype, c1), lanes)
        return ramp if one_block else _floormod(ramp, e.b)
    return Ramp(_floormod(base, divisor), _constant(base.dtype, c1), lanes) if one_block else None


# ---------------------------------------------------------------------------- extremes


def smaller_by_bounds(S: Any, e: Min) -> PrimExpr | None:
    """min(a, b) where the bounds tell"""
    a, b = S.bound(e.a), S.bound(e.b)
    return e.a if a[1] <= b[0] else e.b if b[1] <= a[0] else None


def larger_by_bounds(S: Any, e: Max) -> PrimExpr | None:
    """max(a, b) where the bounds tell"""
    a, b = S.bound(e.a), S.bound(e.b)
    return e.a if a[0] >= b[1] else e.b if b[0] >= a[1] else None


def smaller_for_each_vscale(S: Any, e: Min) -> PrimExpr | None:
    """min(a, b) where one is smaller for each length of the target's vectors"""
    return _chosen_for_each_vscale(S, e, (e.a, e.b), (e.b, e.a))


def larger_for_each_vscale(S: Any, e: Max) -> PrimExpr | None:
    """max(a, b) where one is larger for each length of the target's vectors"""
    return _chosen_for_each_vscale(S, e, (e.b, e.a), (e.a, e.b))


def _chosen_for_each_vscale(S: Any, e: Min | Max, *orders: tuple[PrimExpr, PrimExpr]) -> PrimExpr | None:
    if not S.parent.contains_vscale(e):
        return None
    for chosen, (low, high) in zip((e.a, e.b), orders):
        if prove_for_each_vscale(S.parent, _less_equal(low, high)):
            return chosen
    return None


def below_scalable(S: Any, e: FloorDiv) -> PrimExpr | None:
    """x // y, where 0 <= x < y and y is the length of a vector"""
    return _constant(e.dtype, 0) if _is_below_scalable(S, e) else None


def remainder_below_scalable(S: Any, e: FloorMod) -> PrimExpr | None:
    """x % y, where 0 <= x < y and y is the length of a vector"""
    return e.a if _is_below_scalable(S, e) else None


def _is_below_scalable(S: Any, e: FloorDiv | FloorMod) -> bool:
    if type(e.b) is IntImm or not S.parent.contains_vscale(e.b):
        return False
    if not S.prove_greater_equal(e.a, 0) or not S.prove_greater_equal(e.b, 0):
        return False
    below = S.parent.simplify(_less(e.a, e.b))
    if isinstance(below, IntImm):
        return below.value != 0
    return prove_for_each_vscale(S.parent, below)


# ---------------------------------------------------------------------------- comparisons


def equal_by_bounds(S: Any, e: EQ) -> PrimExpr | None:
    """a == b where the comparison is known"""
    result = S.compare(e.a, e.b)
    if result == IS_EQ:
        return _bool(e, True)
    return _bool(e, False) if result in (IS_NE, IS_GT, IS_LT) else None


def less_by_bounds(S: Any, e: LT) -> PrimExpr | None:
    """a < b where the comparison is known"""
    result = S.compare(e.a, e.b)
    if result == IS_LT:
        return _bool(e, True)
    return _bool(e, False) if result in (IS_EQ, IS_GT, IS_GE) else None


def constant_offset(e: PrimExpr) -> tuple[PrimExpr, int]:
    """e as x + offset"""
    if type(e) is Add and type(e.b) is IntImm:
        return e.a, e.b.value
    if type(e) is Sub and type(e.b) is IntImm:
        return e.a, -e.b.value
    return e, 0


def merge_offsets(S: Any, e: LT) -> PrimExpr | None:
    """x + c1 < y + c2 with one constant, on the side where it is positive"""
    left, left_offset = constant_offset(e.a)
    right, right_offset = constant_offset(e.b)
    if left_offset == 0 and right_offset == 0:
        return None
    difference = right_offset - left_offset
    if difference == 0:
        return S.again(_less(left, right))
    if difference == 1:
        return S.again(_less_equal(left, right))
    if difference > 0:
        return S.again(_less(left, _add(right, _constant(right.dtype, difference)))) if left_offset else None
    return S.again(_less(_add(left, _constant(left.dtype, -difference)), right)) if right_offset else None


def divide_by_common_factor(S: Any, e: LT) -> PrimExpr | None:
    """a < b where one factor divides both"""
    a, b = S.modular(e.a), S.modular(e.b)
    factor = gcd(*a, *b)
    if factor <= 1:
        return None
    divisor = _constant(e.a.dtype, factor)
    return S.again(_less(_floordiv(e.a, divisor), _floordiv(e.b, divisor)))


STEPS: dict[str, Callable[[Any, Any], PrimExpr | None]] = {
    f.__name__: f
    for f in (
        reciprocal, split_multiple, known_truncmod, known_floormod, ramp_quotient, ramp_remainder, ramp_floordiv,
        ramp_floormod, smaller_by_bounds, larger_by_bounds, equal_by_bounds, less_by_bounds, merge_offsets,
        divide_by_common_factor, smaller_for_each_vscale, larger_for_each_vscale, below_scalable,
        remainder_below_scalable,
    )
}  # fmt: skip
