"""Operators of two tensors, or of a tensor and a number, that broadcast as NumPy's do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.ir import PrimExpr, ops
from tvmagic.te.elementwise import elementwise


def _operator(name: str, combine: Callable[[Any, Any], PrimExpr]) -> Callable[[Any, Any], Any]:
    def operator(lhs: Any, rhs: Any) -> Any:
        return elementwise(name, lhs, rhs, combine=combine)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"`{name}` of each element of two tensors or numbers, which broadcast."
    return operator


add = _operator("add", ops.add)
subtract = _operator("subtract", ops.subtract)
multiply = _operator("multiply", ops.multiply)
divide = _operator("divide", ops.div)
floor_divide = _operator("floor_divide", ops.floordiv)
mod = _operator("mod", ops.truncmod)
floor_mod = _operator("floor_mod", ops.floormod)
maximum = _operator("maximum", ops.maximum)
minimum = _operator("minimum", ops.minimum)
power = _operator("power", ops.power)
left_shift = _operator("left_shift", ops.shift_left)
right_shift = _operator("right_shift", ops.shift_right)
bitwise_and = _operator("bitwise_and", ops.bitwise_and)
bitwise_or = _operator("bitwise_or", ops.bitwise_or)
bitwise_xor = _operator("bitwise_xor", ops.bitwise_xor)
logical_and = _operator("logical_and", ops.logical_and)
logical_or = _operator("logical_or", ops.logical_or)
equal = _operator("equal", ops.equal)
not_equal = _operator("not_equal", ops.not_equal)
less = _operator("less", ops.less)
less_equal = _operator("less_equal", ops.less_equal)
greater = _operator("greater", ops.greater)
greater_equal = _operator("greater_equal", ops.greater_equal)
logical_xor = _operator(
    "logical_xor",
    lambda a, b: ops.logical_or(ops.logical_and(a, ops.logical_not(b)), ops.logical_and(ops.logical_not(a), b)),
)
log_add_exp = _operator(
    "log_add_exp",
    lambda a, b: ops.maximum(a, b) + ops.log(ops.exp(a - ops.maximum(a, b)) + ops.exp(b - ops.maximum(a, b))),
)
