"""Constant folding of one operation, as TVM folds while a user writes `a + 1`.

Each function takes two operands of one type and gives the folded result or None. What folds:
two constants; a neutral or absorbing constant. Remainders fold on the index types only (scalar
int32 and int64), and float16 constants are not added up, as in TVM.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from tvmagic.errors import TVMagicError
from tvmagic.ir.dtype import DataType
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

__all__ = ["FOLDERS", "fold", "round_float", "wrap_int"]


def wrap_int(value: int, dtype: DataType) -> int:
    """`value` as an integer of type `dtype` holds it: modulo 2 to the number of bits."""
    bits = dtype.bits
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.is_int and value >> (bits - 1) else value


def round_float(value: float, dtype: DataType) -> float:
    """`value` rounded to the nearest one that `dtype` holds."""
    if dtype.bits == 64 or math.isnan(value) or math.isinf(value):
        return value
    if dtype.code == "bfloat":
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        bits += 0x7FFF + ((bits >> 16) & 1)
        return struct.unpack("<f", struct.pack("<I", (bits >> 16 << 16) & 0xFFFFFFFF))[0]
    code = "<f" if dtype.bits == 32 else "<e"
    try:
        return struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def _int_result(dtype: DataType, value: int) -> IntImm:
    return IntImm(dtype, wrap_int(value, dtype))


def _float_result(dtype: DataType, value: float) -> FloatImm | None:
    return FloatImm(dtype, round_float(value, dtype)) if dtype.bits in (32, 64) else None


def _is(node: PrimExpr, value: int) -> bool:
    """Whether `node` is the scalar constant `value`."""
    return isinstance(node, (IntImm, FloatImm)) and node.value == value


def _both(a: PrimExpr, b: PrimExpr, compute: Callable[[float, float], float]) -> PrimExpr | None:
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return _int_result(a.dtype, int(compute(a.value, b.value)))
    if isinstance(a, FloatImm) and isinstance(b, FloatImm):
        return _float_result(a.dtype, compute(a.value, b.value))
    return None


def fold_add(a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    if _is(a, 0):
        return b if not _is(b, 0) or isinstance(a, IntImm) else _both(a, b, lambda x, y: x + y)
    if _is(b, 0):
        return a
    return _both(a, b, lambda x, y: x + y)


def fold_sub(a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    return a if _is(b, 0) else _both(a, b, lambda x, y: x - y)


def fold_mul(a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    both = _both(a, b, lambda x, y: x * y)
    if both is not None:
        return both
    if _is(a, 0) or _is(b, 1):
        return a
    if _is(b, 0) or _is(a, 1):
        return b
    return None


def _check_divisor(b: PrimExpr) -> None:
    if _is(b, 0) and isinstance(b, IntImm):
        raise TVMagicError("division by the constant zero", node=b)


def truncate_divide(x: int, y: int) -> int:
    """`x / y` rounded towards zero."""
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def fold_div(a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    _check_divisor(b)
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return _int_result(a.dtype, truncate_divide(a.value, b.value))
    if isinstance(a, FloatImm) and isinstance(b, FloatImm) and b.value != 0:
        return _float_result(a.dtype, a.value / b.value)
    if _is(a, 0) or _is(b, 1):
        return a
    return None


def fold_floordiv(a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    _check_divisor(b)
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return _int_result(a.dtype, a.value // b.value)
    if isinstance(a, FloatImm) and isinstance(b, FloatImm) and b.value != 0:
        return _float_result(a.dtype, float(math.floor(a.value / b.value)))
    if _is(a, 0) or _is(b, 1):
        return a
    return None


def _fold_remainder(a: PrimExpr, b: PrimExpr, compute: Callable[[int, int], int]) -> PrimExpr | None:
    _check_divisor(b)
    if not a.dtype.is_index:
        return None
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return _int_result(a.dtype, compute(a.value, b.value))
    if _is(a, 0):
        return a
    return IntImm(a.dtype, 0) if _is(b, 1) else None


def fold_mod(a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    return _fold_remainder(a, b, lambda x, y: x - truncate_divide(x, y) * y)


def fold_floormod(a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    return _fold_remainder(a, b, lambda x, y: x % y)


def _fold_extreme(a: PrimExpr, b: PrimExpr, pick: Callable[..., float]) -> PrimExpr | None:
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return IntImm(a.dtype, pick(a.value, b.value))
    if isinstance(a, FloatImm) and isinstance(b, FloatImm):
        return FloatImm(a.dtype, pick(a.value, b.value))
    return a if a is b else None


def fold_min(a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    return _fold_extreme(a, b, min)


def fold_max(a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    return _fold_extreme(a, b, max)


def _comparison(compare: Callable[[float, float], bool]) -> Callable[[PrimExpr, PrimExpr], PrimExpr | None]:
    def folder(a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return IntImm(BOOL, compare(a.value, b.value))
        if isinstance(a, FloatImm) and isinstance(b, FloatImm):
            return IntImm(BOOL, compare(a.value, b.value))
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


Folder = Callable[[PrimExpr, PrimExpr], "PrimExpr | None"]
FOLDERS: dict[type, Folder] = {
    Add: fold_add,
    Sub: fold_sub,
    Mul: fold_mul,
    Div: fold_div,
    Mod: fold_mod,
    FloorDiv: fold_floordiv,
    FloorMod: fold_floormod,
    Min: fold_min,
    Max: fold_max,
    EQ: _comparison(lambda x, y: x == y),
    NE: _comparison(lambda x, y: x != y),
    LT: _comparison(lambda x, y: x < y),
    LE: _comparison(lambda x, y: x <= y),
    GT: _comparison(lambda x, y: x > y),
    GE: _comparison(lambda x, y: x >= y),
    And: fold_and,
    Or: fold_or,
}


def fold(op: type, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """The folded `op(a, b)`, or None where nothing folds."""
    return FOLDERS[op](a, b)
