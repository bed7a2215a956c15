"""The value of an expression at a point, computed plainly: what simplifiers must keep.

Integers wrap around in their types; those of indices have to be small enough not to.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from tvmagic import ir
from tvmagic.ir.fold import truncate_divide, wrap_int

BINARY = {
    ir.Add: operator.add,
    ir.Sub: operator.sub,
    ir.Mul: operator.mul,
    ir.FloorDiv: operator.floordiv,
    ir.FloorMod: operator.mod,
    ir.Div: truncate_divide,
    ir.Mod: lambda a, b: a - truncate_divide(a, b) * b,
    ir.Min: min,
    ir.Max: max,
    ir.EQ: operator.eq,
    ir.NE: operator.ne,
    ir.LT: operator.lt,
    ir.LE: operator.le,
    ir.GT: operator.gt,
    ir.GE: operator.ge,
    ir.And: lambda a, b: a and b,
    ir.Or: lambda a, b: a or b,
}
CALLS = {
    "tir.shift_left": operator.lshift,
    "tir.shift_right": operator.rshift,
    "tir.bitwise_and": operator.and_,
    "tir.likely": lambda a: a,
}


def evaluate(e: Any, point: Mapping[ir.Var, Any]) -> Any:
    """The value of `e`: an int, a bool, a float, or a list with one of these for each lane."""
    if isinstance(e, ir.Var):
        return point[e]
    if isinstance(e, (ir.IntImm, ir.FloatImm)):
        return bool(e.value) if e.dtype.is_bool else e.value
    if isinstance(e, ir.BinaryOp):
        return fitted(lanewise(BINARY[type(e)], e.a, e.b, point), e.dtype)
    if isinstance(e, ir.Not):
        value = evaluate(e.a, point)
        return [not v for v in value] if isinstance(value, list) else not value
    if isinstance(e, ir.Select):
        return evaluate(e.true_value if evaluate(e.condition, point) else e.false_value, point)
    if isinstance(e, ir.Ramp):
        base, stride = evaluate(e.base, point), evaluate(e.stride, point)
        return [base + i * stride for i in range(e.dtype.lanes)]
    if isinstance(e, ir.Broadcast):
        return [evaluate(e.value, point)] * e.dtype.lanes
    if isinstance(e, ir.Cast):
        return wrap_int(int(evaluate(e.value, point)), e.dtype)
    if isinstance(e, ir.BufferLoad):
        return point[e.buffer.data][evaluate(e.indices[0], point)]
    if isinstance(e, ir.Let):
        return evaluate(e.body, {**point, e.var: evaluate(e.value, point)})
    assert isinstance(e, ir.Call), type(e)
    if e.op.name == "tir.if_then_else":
        return evaluate(e.args[1] if evaluate(e.args[0], point) else e.args[2], point)
    return fitted(CALLS[e.op.name](*[evaluate(a, point) for a in e.args]), e.dtype)


def fitted(value: Any, dtype: ir.DataType) -> Any:
    """A number, or one for each lane, as integers of the type hold it."""
    if isinstance(value, list):
        return [fitted(v, dtype) for v in value]
    return wrap_int(value, dtype) if type(value) is int and not dtype.is_float else value


def lanewise(op: Any, left: Any, right: Any, point: Mapping[ir.Var, Any]) -> Any:
    a, b = evaluate(left, point), evaluate(right, point)
    if isinstance(a, list):
        return [op(x, y) for x, y in zip(a, b)]
    return op(a, b)
