"""`nextafter` of small floats: the neighbour of a number, by its bits."""

from __future__ import annotations

from tvmagic import ir


def next_small(node: ir.Call, x: ir.PrimExpr, y: ir.PrimExpr) -> ir.PrimExpr:
    """`node`, a `nextafter` of floats of 16 or 8 bits, in operations of integers.

    `x` and `y` are its arguments, of its type or of a wider one in which they are compared. Bits grow with the number
    away from 0, and an infinity follows the largest number.
    """
    dtype = node.dtype
    word = ir.DataType(f"int{dtype.bits}").with_lanes_of(dtype)
    bits = ir.ops.reinterpret(word, ir.ops.cast(dtype, x))
    one, zero = ir.ops.make_const(word, 1), ir.ops.make_const(x.dtype, 0)
    least = ir.ops.make_const(word, -(1 << dtype.bits - 1) + 1)  # the bits of the negative number next to 0
    away = ir.EQ(ir.ops.less(x, y), ir.ops.less(zero, x))
    moved = ir.Select(away, ir.ops.add(bits, one), ir.ops.subtract(bits, one))
    moved = ir.Select(ir.EQ(x, zero), ir.Select(ir.ops.less(y, zero), least, one), moved)
    found = ir.Select(ir.EQ(x, y), ir.ops.cast(dtype, y), ir.ops.reinterpret(dtype, moved))
    nan = ir.ops.make_const(dtype, float("nan"))
    return ir.Select(ir.ops.logical_or(ir.NE(x, x), ir.NE(y, y)), nan, found)
