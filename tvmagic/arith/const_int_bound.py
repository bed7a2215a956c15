"""Constant bounds of integer expressions.

A bound is a pair (min, max) of Python ints; the ends at `POS_INF` and `NEG_INF` say that nothing
is known. Arithmetic on ends saturates there, as TVM's 64-bit analysis does, so that the bounds
have the same values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvmagic.arith.constraint import extract_constraints, side_effect, with_let
from tvmagic.arith.overflow import POS_INF, fit
from tvmagic.arith.scalable import is_vscale, known_vscale_values
from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Add,
    Broadcast,
    Call,
    CallEffect,
    Cast,
    DataType,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    Identified,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Ramp,
    Range,
    Select,
    SizeVar,
    Sub,
    Var,
    ops,
)
from tvmagic.ir.deep_equal import deep_equal
from tvmagic.ir.dtype import integer_limits
from tvmagic.ir.fold import truncate_divide
from tvmagic.ir.query import callee, is_call

NEG_INF = -POS_INF

Bound = tuple[int, int]
UNBOUNDED: Bound = (NEG_INF, POS_INF)


class ConstIntBound(Identified):
    """The closed interval `[min_value, max_value]`; `POS_INF` and `NEG_INF` mean no bound."""

    POS_INF = POS_INF
    NEG_INF = NEG_INF
    __slots__ = ("max_value", "min_value")

    def __init__(self, min_value: int, max_value: int) -> None:
        self.min_value, self.max_value = int(min_value), int(max_value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConstIntBound):
            return NotImplemented
        return (self.min_value, self.max_value) == (other.min_value, other.max_value)

    def __hash__(self) -> int:
        return hash((self.min_value, self.max_value))

    def __repr__(self) -> str:
        return f"ConstIntBound[{_end_text(self.min_value)},{_end_text(self.max_value)}]"


def _end_text(value: int) -> str:
    return {POS_INF: "pos_inf", NEG_INF: "neg_inf"}.get(value, str(value))


# ---------------------------------------------------------------------------- ends


def _clamp(value: int) -> int:
    if value >= POS_INF:
        return POS_INF
    return NEG_INF if value <= NEG_INF else value


def _add(x: int, y: int) -> int:
    if x == POS_INF or x == NEG_INF:
        return x
    if y == POS_INF or y == NEG_INF:
        return y
    return _clamp(x + y)


def _mul(x: int, y: int) -> int:
    return _clamp(x * y)


def _divide(x: int, y: int) -> int:
    if x == POS_INF or x == NEG_INF:
        return x if y > 0 else -x
    return truncate_divide(x, y)


def _floor_divide(x: int, y: int) -> int:
    if x == POS_INF or x == NEG_INF:
        return x if y > 0 else -x
    return x // y


def _shift_left(x: int, y: int) -> int:
    if x == POS_INF or x == NEG_INF:
        return x
    return x << y if x.bit_length() + y < 64 else POS_INF


def _shift_right(x: int, y: int) -> int:
    if x == POS_INF or x == NEG_INF:
        return x
    return x >> min(max(y, 0), 63)


def _at_corners(a: Bound, b: Bound, op: Callable[[int, int], int]) -> Bound:
    """The bound of an operation that is monotonic in each operand."""
    corners = (op(a[0], b[0]), op(a[1], b[1]), op(a[0], b[1]), op(a[1], b[0]))
    return min(corners), max(corners)


def _make(low: int, high: int) -> Bound:
    """A bound of which no value is past the ends: a number at an end of 64 bits is known to be next to it or beyond."""
    return max(NEG_INF, min(low, POS_INF - 1)), min(POS_INF, max(high, NEG_INF + 1))


def known_ends(bound: Bound) -> tuple[float, float]:
    """The ends, infinite where nothing is known: integers of 64 bits may have values at and beyond `NEG_INF`, `POS_INF`."""
    low, high = bound
    return (low if low > NEG_INF else -math.inf), (high if high < POS_INF else math.inf)


_EVERYTHING: dict[DataType, Bound] = {}


def everything(dtype: DataType) -> Bound:
    """All values of a type; no bound for floats and for integers of 64 bits."""
    found = _EVERYTHING.get(dtype)
    if found is None:
        if dtype.is_bool:
            found = (0, 1)
        elif dtype.is_int or dtype.is_uint:
            low, high = integer_limits(dtype)
            found = max(low, NEG_INF), min(high, POS_INF)
        else:
            found = UNBOUNDED
        _EVERYTHING[dtype] = found
    return found


def _divisor(b: Bound) -> Bound:
    """A divisor is not zero in a program that is right: a size n >= 0 is then n >= 1."""
    return (1, b[1]) if b[0] == 0 and b[1] > 0 else b


def _data_quotient(self: ConstIntBoundAnalyzer, e: Any, op: Callable[[int, int], int]) -> Bound:
    """The quotient of data: it is 0 where the divisor is."""
    a, b = self.visit(e.a), self.visit(e.b)
    found = _quotient(a, _divisor(b), e.dtype, op)
    return _union(found, (0, 0)) if b[0] <= 0 <= b[1] and self.parent.wraps(e) else found


def _quotient(a: Bound, b: Bound, dtype: DataType, op: Callable[[int, int], int]) -> Bound:
    if b == (0, 0) or (b[0] > b[1] and 0 in b):
        return everything(
            dtype
        )  # code that is never reached: a division by zero, or conditions that exclude each other
    if b[0] < 0 <= b[1] and dtype.is_int:
        # the quotient is largest at the divisors next to zero, which are not ends of b
        below = _at_corners(a, (b[0], -1), op)
        above = _at_corners(a, (1, b[1]) if b[1] > 0 else everything(dtype), op)
        return min(below[0], above[0]), max(below[1], above[1])
    return _at_corners(a, b, op)


class ConstIntBoundAnalyzer:
    """Bounds of expressions, from the bounds of variables and from conditions that hold."""

    def __init__(self, parent: Any) -> None:
        self.parent = parent
        self.vars: dict[Var, Bound] = {}
        self.facts: list[tuple[PrimExpr, Bound]] = []
        self.memo: dict[int, tuple[PrimExpr, Bound]] = {}

    def bind(self, var: Var, range_: Range, allow_override: bool = False) -> None:
        """Let `var` lie in a range."""
        low = self.visit(range_.min)
        extent = self.visit(range_.extent)
        self.update(var, (low[0], _add(low[1], _add(extent[1], -1))), allow_override)

    def update(self, var: Var, bound: Bound, allow_override: bool = False) -> None:
        """Set the bound of `var`; a different one is an error unless overriding is allowed."""
        old = self.vars.get(var)
        if old is not None and old != bound and not allow_override:
            raise TVMagicError(
                f"`{var.name}` is bound to {ConstIntBound(*old)!r} already, not to {ConstIntBound(*bound)!r}",
                hint="pass allow_override=True to bind it again",
                code="analyzer.bound_differs",
            )
        self.vars[var] = _make(*bound)
        self.memo = {}

    def visit(self, e: PrimExpr) -> Bound:
        """The bound of `e`."""
        if isinstance(e, IntImm):
            return (e.value, e.value) if NEG_INF < e.value < POS_INF else _make(e.value, e.value)
        kind = type(e)
        known = self.memo.get(id(e))
        if known is not None:
            return known[1]
        handler = _HANDLERS.get(kind)
        low, high = handler(self, e) if handler is not None else everything(e.dtype)
        if kind in _MAY_WRAP and self.parent.wraps(e):
            low, high = fit((low, high), everything(e.dtype))
        for expr, bound in self.facts:
            if type(expr) is kind and deep_equal(expr, e):
                low, high = max(low, bound[0]), min(high, bound[1])
        result = (low, high) if low < POS_INF and high > NEG_INF else everything(e.dtype)  # it leaves 64 bits
        self.memo[id(e)] = (e, result)
        return result

    def enter_constraint(self, condition: PrimExpr) -> Callable[[], None] | None:
        """Let `condition` hold until the returned function is called."""
        found: list[tuple[PrimExpr, Bound]] = []
        for part in extract_constraints(condition):
            detected = _comparison_with_constant(part)
            if detected is None or side_effect(detected[0]) > CallEffect.PURE:
                continue  # what is loaded may have another value when it is loaded again
            found.append((detected[0], _make(detected[1], detected[2])))
        if not found:
            return None
        size = len(self.facts)
        self.facts += found
        self.memo = {}

        def recover() -> None:
            del self.facts[size:]
            self.memo = {}

        return recover


# ---------------------------------------------------------------------------- one class of nodes each


def _bound_add(self: ConstIntBoundAnalyzer, e: Add) -> Bound:
    a, b = self.visit(e.a), self.visit(e.b)
    return _add(a[0], b[0]), _add(a[1], b[1])


def _bound_sub(self: ConstIntBoundAnalyzer, e: Sub) -> Bound:
    a, b = self.visit(e.a), self.visit(e.b)
    return _add(a[0], -b[1]), _add(a[1], -b[0])


def _bound_mul(self: ConstIntBoundAnalyzer, e: Mul) -> Bound:
    return _at_corners(self.visit(e.a), self.visit(e.b), _mul)


def _bound_div(self: ConstIntBoundAnalyzer, e: Div) -> Bound:
    return _data_quotient(self, e, _divide)


def _bound_floordiv(self: ConstIntBoundAnalyzer, e: FloorDiv) -> Bound:
    return _data_quotient(self, e, _floor_divide)


def _bound_mod(self: ConstIntBoundAnalyzer, e: Mod) -> Bound:
    a, b = self.visit(e.a), _divisor(self.visit(e.b))
    if b[0] <= 0:
        return everything(e.dtype)
    cap = _add(b[1], -1)
    if a[0] >= 0:
        return a if a[1] < b[0] else (0, min(a[1], cap))
    return max(a[0], -cap), min(max(a[1], 0), cap)


def _bound_floormod(self: ConstIntBoundAnalyzer, e: FloorMod) -> Bound:
    a, b = self.visit(e.a), _divisor(self.visit(e.b))
    if b[0] > 0:
        cap = _add(b[1], -1)
        if a[0] < 0:
            return 0, cap
        return a if a[1] < b[0] else (0, min(a[1], cap))
    low, high = everything(e.dtype)
    return max(low, min(0, _add(b[0], 1))), min(high, max(0, _add(b[1], -1)))


def _bound_min(self: ConstIntBoundAnalyzer, e: Min) -> Bound:
    a, b = self.visit(e.a), self.visit(e.b)
    return min(a[0], b[0]), min(a[1], b[1])


def _bound_max(self: ConstIntBoundAnalyzer, e: Max) -> Bound:
    a, b = self.visit(e.a), self.visit(e.b)
    return max(a[0], b[0]), max(a[1], b[1])


def _union(a: Bound, b: Bound) -> Bound:
    return min(a[0], b[0]), max(a[1], b[1])


def _bound_select(self: ConstIntBoundAnalyzer, e: Select) -> Bound:
    return _union(self.visit(e.true_value), self.visit(e.false_value))


def _bound_var(self: ConstIntBoundAnalyzer, e: Var) -> Bound:
    return self.vars.get(e) or everything(e.dtype)


def _bound_size_var(self: ConstIntBoundAnalyzer, e: SizeVar) -> Bound:
    return self.vars.get(e) or (0, POS_INF)


def _bound_ramp(self: ConstIntBoundAnalyzer, e: Ramp) -> Bound:
    # linear in the lane: the extremes are at the first and at the last one
    steps = ops.cast(e.base.dtype, e.lanes - 1) if e.dtype.is_scalable else IntImm(e.base.dtype, e.dtype.lanes - 1)
    last = e.base + steps * e.stride
    return _union(self.visit(e.base), self.visit(last))


def _bound_broadcast(self: ConstIntBoundAnalyzer, e: Broadcast) -> Bound:
    return self.visit(e.value)


def _bound_cast(self: ConstIntBoundAnalyzer, e: Cast) -> Bound:
    argument = _ceil_log2_argument(e)
    a = self.visit(e.value) if argument is None else _ceil_log2_bound(self, argument)
    b = everything(e.dtype)
    endless = a[1] == POS_INF and e.value.dtype.is_uint and e.dtype.is_int
    if b[0] <= a[0] and a[1] <= b[1] and not endless:
        return a
    # an index or a size fits into the type that it is converted to; what does not is cut to its low bits
    fits = (argument is not None or not self.parent.wraps(e)) and a[0] <= b[1] and b[0] <= a[1]
    return (max(a[0], b[0]), min(a[1], b[1])) if fits else b


def _ceil_log2_argument(e: Cast) -> PrimExpr | None:
    """x of `int(ceil(log2(x)))`, which bounds the loops of sorting and scanning."""
    value = e.value
    if e.dtype.is_int and is_call(value, "tir.ceil"):
        inner = value.args[0]
        if is_call(inner, "tir.log2"):
            return inner.args[0]
    return None


def _ceil_log2_bound(self: ConstIntBoundAnalyzer, argument: PrimExpr) -> Bound:
    if isinstance(argument, FloatImm):
        low = high = argument.value
    else:
        low, high = self.visit(argument.value if isinstance(argument, Cast) else argument)

    def ceil_log2(value: float) -> int:
        return math.ceil(math.log2(value)) if value > 0 else NEG_INF

    return ceil_log2(low), (POS_INF if high == POS_INF else ceil_log2(high))


def _call_shift_left(self: ConstIntBoundAnalyzer, e: Call) -> Bound:
    a, b = self.visit(e.args[0]), self.visit(e.args[1])
    if a[0] < 0 or b[0] < 0:
        return everything(e.dtype)
    return _at_corners(a, b, _shift_left)


def _call_shift_right(self: ConstIntBoundAnalyzer, e: Call) -> Bound:
    a, b = self.visit(e.args[0]), self.visit(e.args[1])
    if b[0] < 0 and self.parent.wraps(e):
        return _union(a, (-1, 0))  # a shift by less than zero shifts everything out
    return _at_corners(a, b, _shift_right)


def _call_bitwise_and(self: ConstIntBoundAnalyzer, e: Call) -> Bound:
    a, b = self.visit(e.args[0]), self.visit(e.args[1])
    tops = [side[1] for side in (a, b) if side[0] >= 0]
    return (0, min(tops)) if tops else everything(e.dtype)


_CALLS: dict[str, Callable[[ConstIntBoundAnalyzer, Any], Bound]] = {
    "tir.shift_left": _call_shift_left,
    "tir.shift_right": _call_shift_right,
    "tir.bitwise_and": _call_bitwise_and,
}


def _bound_call(self: ConstIntBoundAnalyzer, e: Call) -> Bound:
    if is_vscale(e) and (values := known_vscale_values()):
        return values[0], values[-1]
    handler = _CALLS.get(callee(e))
    return handler(self, e) if handler is not None else everything(e.dtype)


_MAY_WRAP = frozenset((Add, Sub, Mul, Div, FloorDiv, Ramp, Call))
_HANDLERS: dict[type, Callable[[ConstIntBoundAnalyzer, Any], Bound]] = {
    Add: _bound_add,
    Sub: _bound_sub,
    Mul: _bound_mul,
    Div: _bound_div,
    Mod: _bound_mod,
    FloorDiv: _bound_floordiv,
    FloorMod: _bound_floormod,
    Min: _bound_min,
    Max: _bound_max,
    Select: _bound_select,
    Var: _bound_var,
    SizeVar: _bound_size_var,
    Let: with_let,
    Ramp: _bound_ramp,
    Broadcast: _bound_broadcast,
    Cast: _bound_cast,
    Call: _bound_call,
}


def _comparison_with_constant(e: PrimExpr) -> tuple[PrimExpr, int, int] | None:
    """The expression that `e` compares with a constant, and the ends it gives.

    The ends are `POS_INF` and `NEG_INF` where `e` says nothing.
    """
    if not isinstance(e, (LT, LE, GT, GE, EQ)):
        return None
    if isinstance(e, (GT, GE)):
        low, high, strict = e.b, e.a, isinstance(e, GT)
    else:
        low, high, strict = e.a, e.b, isinstance(e, LT)
    if isinstance(e, EQ):
        for value, other in ((e.b, e.a), (e.a, e.b)):
            if isinstance(value, IntImm):
                return other, value.value, value.value
        return None
    if isinstance(low, IntImm):
        return high, low.value + strict, POS_INF
    if isinstance(high, IntImm):
        return low, NEG_INF, high.value - strict
    return None
