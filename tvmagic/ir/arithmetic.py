"""Arithmetic, comparisons, logic and bits of expressions: types are matched and constants folded as in TVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tvmagic.errors import TVMagicError, WrongValueError
from tvmagic.ir.constants import cast, make_const
from tvmagic.ir.expr import (
    BOOL,
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    Call,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Sub,
    expr,
)
from tvmagic.ir.fold import FOLDERS
from tvmagic.ir.node import Span
from tvmagic.ir.operators import lanes_of
from tvmagic.ir.semantics import wrap_int

if TYPE_CHECKING:
    pass


def match_types(a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Both operands with one type: lanes broadcast, integers to floats, fewer bits to more, signed to unsigned."""
    left, right = a.dtype, b.dtype
    if left is right:
        return a, b
    if left.lane_code != right.lane_code:
        a, b = match_lanes(a, b)
        left, right = a.dtype, b.dtype
    if left is right:
        return a, b
    if left.is_handle or right.is_handle:
        raise TVMagicError(f"`{left}` and `{right}` do not go together", code="expression.dtypes_differ")
    if left.is_float != right.is_float:
        return (a, cast(left, b)) if left.is_float else (cast(right, a), b)
    if left.is_float:
        if left.bits == right.bits:  # float16 and bfloat16
            return (cast(right, a), b) if left.code == "bfloat" else (a, cast(left, b))
        return (cast(right, a), b) if left.bits < right.bits else (a, cast(left, b))
    if left.bits == right.bits and left.is_int:  # signed beside unsigned of one width
        return cast(right, a), b
    return (cast(right, a), b) if left.bits < right.bits else (a, cast(left, b))


def match_lanes(a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Both operands with as many lanes: a scalar beside a vector is broadcast."""
    left, right = a.dtype, b.dtype
    if left.lane_code == right.lane_code:
        return a, b
    if left.is_scalar:
        return Broadcast(a, lanes_of(right)), b
    if right.is_scalar:
        return a, Broadcast(b, lanes_of(left))
    if left.is_scalable != right.is_scalable:
        raise TVMagicError(
            f"Can't match scalable and fixed length vectors: `{left}` and `{right}`",
            code="expression.scalable_and_fixed",
        )
    raise TVMagicError(
        f"Cannot match type {left} vs {right}: they have different numbers of lanes", code="expression.lanes_differ"
    )


def binary(op: type[BinaryOp], a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`op(a, b)` with types matched and constants folded."""
    a = a if isinstance(a, PrimExpr) else expr(a)
    b = b if isinstance(b, PrimExpr) else expr(b)
    if a.dtype is not b.dtype:
        a, b = match_types(a, b)
    folded = FOLDERS[op](a, b)
    return folded if folded is not None else op(a, b, span)


def add(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """`lhs + rhs`"""
    return binary(Add, lhs, rhs, span)


def subtract(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """`lhs - rhs`"""
    result = binary(Sub, lhs, rhs, span)
    if result.dtype.is_uint and isinstance(result, IntImm) and isinstance(lhs, IntImm) and isinstance(rhs, IntImm):
        if lhs.value < rhs.value:
            raise TVMagicError(
                f"{lhs} - {rhs} is below zero, which `{result.dtype}` does not hold", code="expression.below_zero"
            )
    return result


def multiply(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """`lhs * rhs`"""
    return binary(Mul, lhs, rhs, span)


def div(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a / b` as C divides: integers towards zero."""
    return binary(Div, a, _divisor(b), span)


def _divisor(b: Any) -> PrimExpr:
    b = expr(b)
    if isinstance(b, FloatImm) and b.value == 0:
        raise TVMagicError("division by the constant zero", node=b, code="expression.division_by_zero")
    return b


def true_divide(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a / b` on floats; on two integers the rounding must be named."""
    a, b = expr(a), _divisor(b)
    if not a.dtype.is_float and not b.dtype.is_float:
        raise TVMagicError(
            "`/` on two integers does not say how it rounds",
            hint='write `//` (down), truncdiv (towards zero), or convert one side, as in `float32(x)` or `x.astype("float32")`',
            code="expression.ambiguous_division",
        )
    return binary(Div, a, b, span)


# What is written for floats.
_INSTEAD = {
    "bitwise_xor": "a power is `**`",
    **dict.fromkeys(
        ("bitwise_and", "bitwise_or"), "cast with astype; of comparisons each is in brackets, as in `(a > 0) & (b < 1)`"
    ),
    **dict.fromkeys(("floordiv", "floormod", "truncdiv", "truncmod"), "cast with astype, or use `/`"),
}


def _integers(name: str, a: Any, b: Any) -> tuple[PrimExpr, PrimExpr]:
    hint = _INSTEAD.get(name, "cast with astype")
    return integer(name, a, hint), integer(name, b, hint)


def integer(name: str, x: Any, hint: str = "cast with astype") -> PrimExpr:
    """`x`, which the operator `name` takes only if it is an integer."""
    x = expr(x)
    if x.dtype.is_float or x.dtype.is_handle:
        raise TVMagicError(f"`{name}` takes integers, not `{x.dtype}`", hint=hint, code="expression.not_an_integer")
    return x


def floordiv(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a // b`, rounded down. Integers."""
    a, b = _integers("floordiv", a, b)
    return binary(FloorDiv, a, b, span)


def floormod(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a % b`, with the sign of `b`. Integers."""
    a, b = _integers("floormod", a, b)
    return binary(FloorMod, a, b, span)


def truncdiv(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a / b`, rounded towards zero. Integers."""
    a, b = _integers("truncdiv", a, b)
    return binary(Div, a, b, span)


def truncmod(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """The remainder of `truncdiv`, with the sign of `a`. Integers."""
    a, b = _integers("truncmod", a, b)
    return binary(Mod, a, b, span)


def ceildiv(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """`lhs / rhs`, rounded up. Integers."""
    lhs, rhs = _integers("ceildiv", lhs, rhs)
    return floordiv(lhs + rhs - 1, rhs, span)


indexdiv, indexmod = floordiv, floormod


def negative(a: Any, span: Span | None = None) -> PrimExpr:
    """`-a`, as a product with -1 (TVM's form)."""
    a = expr(a)
    return multiply(a, make_const(a.dtype, -1), span)


def minimum(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """The smaller of two values."""
    return binary(Min, a, b, span)


def maximum(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """The larger of two values."""
    return binary(Max, a, b, span)


def equal(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a == b`"""
    return binary(EQ, a, b, span)


def not_equal(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a != b`"""
    return binary(NE, a, b, span)


def less(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a < b`"""
    return binary(LT, a, b, span)


def less_equal(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a <= b`"""
    return binary(LE, a, b, span)


def greater(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a > b`"""
    return binary(GT, a, b, span)


def greater_equal(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a >= b`"""
    return binary(GE, a, b, span)


def logical_and(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a and b`"""
    return binary(And, a, b, span)


def logical_or(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a or b`"""
    return binary(Or, a, b, span)


def logical_not(a: Any, span: Span | None = None) -> PrimExpr:
    """`not a`"""
    a = expr(a)
    return IntImm(BOOL, not a.value) if isinstance(a, IntImm) else Not(a, span)


def _chain(name: str, combine: Callable[..., PrimExpr], args: tuple[Any, ...], span: Span | None) -> PrimExpr:
    if not args:
        raise WrongValueError(f"`{name}` takes one condition or more", code="expression.no_conditions")
    for arg in args:
        if not expr(arg).dtype.is_bool:
            raise TVMagicError(
                f"`{name}` takes bools, not `{expr(arg).dtype}`",
                hint="write a comparison",
                code="expression.not_a_bool",
            )
    result = expr(args[0])
    for arg in args[1:]:
        result = combine(result, arg, span)
    return result


def all(*args: Any, span: Span | None = None) -> PrimExpr:
    """The conjunction of the conditions."""
    return _chain("all", logical_and, args, span)


def any(*args: Any, span: Span | None = None) -> PrimExpr:
    """The disjunction of the conditions."""
    return _chain("any", logical_or, args, span)


# ---------------------------------------------------------------------------- bits


def _bit_operands(name: str, a: Any, b: Any) -> tuple[PrimExpr, PrimExpr]:
    # a Python number takes the type of the other side
    if isinstance(b, int) and isinstance(a, PrimExpr) and not isinstance(b, bool):
        a, b = _integers(name, a, 0)[0], make_const(a.dtype, b)
    elif isinstance(a, int) and isinstance(b, PrimExpr) and not isinstance(a, bool):
        a, b = make_const(b.dtype, a), _integers(name, b, 0)[0]
    a, b = match_types(*_integers(name, a, b))
    return a, b


def _bitwise(name: str, compute: Callable[[int, int], int], a: Any, b: Any, span: Span | None) -> PrimExpr:
    a, b = _bit_operands(name, a, b)
    if isinstance(a, IntImm) and isinstance(b, IntImm) and a.dtype.is_index:
        return IntImm(a.dtype, wrap_int(compute(a.value, b.value), a.dtype))
    return Call(a.dtype, f"tir.{name}", (a, b), span)


def bitwise_and(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """`x & y`"""
    return _bitwise("bitwise_and", lambda p, q: p & q, x, y, span)


def bitwise_or(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """`x | y`"""
    return _bitwise("bitwise_or", lambda p, q: p | q, x, y, span)


def bitwise_xor(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """`x ^ y`"""
    return _bitwise("bitwise_xor", lambda p, q: p ^ q, x, y, span)


def bitwise_not(x: Any, span: Span | None = None) -> PrimExpr:
    """`~x`"""
    x = expr(x)
    if x.dtype.is_float:
        raise TVMagicError("Cannot use ~ operator on float type Expr.", code="expression.not_on_float")
    return Call(x.dtype, "tir.bitwise_not", (_integers("bitwise_not", x, 0)[0],), span)


def _shift(name: str, compute: Callable[[int, int], int], x: Any, y: Any, span: Span | None) -> PrimExpr:
    x, y = _bit_operands(name, x, y)
    if isinstance(y, IntImm) and not 0 <= y.value < x.dtype.bits:
        raise TVMagicError(
            f"a shift by {y.value} is outside 0 to {x.dtype.bits - 1}", code="expression.shift_out_of_range"
        )
    if isinstance(y, IntImm) and y.value == 0 and x.dtype.is_index:
        return x
    return _bitwise(name, compute, x, y, span)


def shift_left(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """`x << y`"""
    return _shift("shift_left", int.__lshift__, x, y, span)


def shift_right(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """`x >> y`; keeps the sign of signed integers."""
    return _shift("shift_right", int.__rshift__, x, y, span)
