"""`nextafter` of small floats: the neighbour of a number, by its bits."""

from __future__ import annotations

from tvmagic.ir import EQ, NE, Call, DataType, PrimExpr, Select, ops


def next_small(node: Call, x: PrimExpr, y: PrimExpr) -> PrimExpr:
    """`node`, a `nextafter` of floats of 16 or 8 bits, in operations of integers.

    `x` and `y` are its arguments, of its type or of a wider one in which they are compared. Bits grow with the number
    away from 0, and an infinity follows the largest number.
    """
    dtype = node.dtype
    word = DataType(f"int{dtype.bits}").with_lanes_of(dtype)
    bits = ops.reinterpret(word, ops.cast(dtype, x))
    one, zero = ops.make_const(word, 1), ops.make_const(x.dtype, 0)
    least = ops.make_const(word, -(1 << dtype.bits - 1) + 1)  # the bits of the negative number next to 0
    away = EQ(ops.less(x, y), ops.less(zero, x))
    moved = Select(away, ops.add(bits, one), ops.subtract(bits, one))
    moved = Select(EQ(x, zero), Select(ops.less(y, zero), least, one), moved)
    found = Select(EQ(x, y), ops.cast(dtype, y), ops.reinterpret(dtype, moved))
    nan = ops.make_const(dtype, float("nan"))
    return Select(ops.logical_or(NE(x, x), NE(y, y)), nan, found)
