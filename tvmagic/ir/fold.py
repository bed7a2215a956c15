"""Constant folding of one operation, as TVM folds while a user writes `a + 1`.

Each function takes two operands of one type and gives the folded result or None. What folds:
two constants; a neutral or absorbing constant. Remainders fold on the index types only (scalar
int32 and int64), and float16 constants are not added up, as in TVM. Floats fold only if the value is the same for
NaN, infinities and zeros of either sign: `x * 0.0` stays, and so does `x + 0.0`, which is 0.0 for -0.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tvmagic.errors import TVMagicError
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
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Or,
    PrimExpr,
    Sub,
)
from tvmagic.ir.semantics import compute, round_float, truncate_divide, wrap_int

__all__ = ["FOLDERS", "fold", "round_float", "truncate_divide", "wrap_int"]


Folder = Callable[[PrimExpr, PrimExpr], "PrimExpr | None"]


def _is(node: PrimExpr, value: int) -> bool:
    """Whether `node` is the scalar constant `value`."""
    return isinstance(node, (IntImm, FloatImm)) and node.value == value


def _is_zero(node: PrimExpr, negative: bool) -> bool:
    """Whether `node` is the constant 0; of floats the one with this sign, the neutral one."""
    if isinstance(node, FloatImm):
        return node.value == 0 and (math.copysign(1, node.value) < 0) == negative
    return _is(node, 0)


def _both(op: type, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """The constant of two constants; None for the floats that TVM does not fold, those of 16 bits."""
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return IntImm(a.dtype, compute(op, a.value, b.value, a.dtype))
    if isinstance(a, FloatImm) and isinstance(b, FloatImm) and a.dtype.bits in (32, 64):
        return FloatImm(a.dtype, compute(op, a.value, b.value, a.dtype))
    return None


def fold_add(a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    both = _both(Add, a, b)
    if both is not None:
        return both
    if _is_zero(a, True):
        return b
    return a if _is_zero(b, True) else None


def fold_sub(a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    both = _both(Sub, a, b)
    return a if both is None and _is_zero(b, False) else both


def fold_mul(a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    both = _both(Mul, a, b)
    if both is not None:
        return both
    if _is(b, 1) or (_is(a, 0) and isinstance(a, IntImm)):
        return a
    if _is(a, 1) or (_is(b, 0) and isinstance(b, IntImm)):
        return b
    return None


def _check_divisor(b: PrimExpr) -> None:
    if _is(b, 0) and isinstance(b, IntImm):
        raise TVMagicError("division by the constant zero", node=b, code="expression.division_by_zero")


def fold_div(a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    _check_divisor(b)
    both = None if _is(b, 0) else _both(Div, a, b)
    return a if both is None and (_is(b, 1) or (_is(a, 0) and isinstance(a, IntImm))) else both


def fold_floordiv(a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    _check_divisor(b)
    both = None if _is(b, 0) else _both(FloorDiv, a, b)
    return a if both is None and not a.dtype.is_float and (_is(b, 1) or _is(a, 0)) else both


def _remainder_folder(op: type) -> Folder:
    def folder(a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
        _check_divisor(b)
        if not a.dtype.is_index:
            return None
        both = _both(op, a, b)
        if both is not None or _is(a, 0):
            return a if both is None else both
        return IntImm(a.dtype, 0) if _is(b, 1) else None

    return folder


def _extreme_folder(op: type) -> Folder:
    def folder(a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
        if isinstance(a, FloatImm) and isinstance(b, FloatImm):
            return FloatImm(a.dtype, compute(op, a.value, b.value, a.dtype))
        both = _both(op, a, b)
        return a if both is None and a is b else both

    return folder


def _comparison_folder(op: type) -> Folder:
    def folder(a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
        if type(a) is type(b) and isinstance(a, (IntImm, FloatImm)) and isinstance(b, (IntImm, FloatImm)):
            return IntImm(BOOL, compute(op, a.value, b.value, a.dtype))
        return None

    return folder


def fold_and(a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    if isinstance(a, IntImm):
        return b if a.value else a
    if isinstance(b, IntImm):
        return a if b.value else b
    return None


def fold_or(a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    if isinstance(a, IntImm):
        return a if a.value else b
    if isinstance(b, IntImm):
        return b if b.value else a
    return None


FOLDERS: dict[type, Folder] = {
    Add: fold_add,
    Sub: fold_sub,
    Mul: fold_mul,
    Div: fold_div,
    Mod: _remainder_folder(Mod),
    FloorDiv: fold_floordiv,
    FloorMod: _remainder_folder(FloorMod),
    Min: _extreme_folder(Min),
    Max: _extreme_folder(Max),
    **{op: _comparison_folder(op) for op in (EQ, NE, LT, LE, GT, GE)},
    And: fold_and,
    Or: fold_or,
}


def fold(op: type, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """The folded `op(a, b)`, or None if nothing folds."""
    return FOLDERS[op](a, b)
