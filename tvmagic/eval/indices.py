"""Integer expressions and conditions for whole arrays of values: what indices are, all at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.eval.ops import BINARY, CALLS

# the calls in indices and conditions whose values integers alone decide
_CALLS = frozenset(
    f"tir.{n}" for n in "likely if_then_else shift_left shift_right bitwise_and bitwise_or bitwise_xor".split()
)
Array = Any
_WHERE: Callable[..., Array] = np.where


class Unevaluated(Exception):
    """An expression depends on data, or on what nothing bounds."""

    def __init__(self, node: Any) -> None:
        super().__init__(str(node))
        self.node = node


def evaluate(node: ir.PrimExpr, values: Mapping[ir.Var, Array]) -> Array:
    """An integer expression or a condition for whole arrays of values; `Unevaluated` if it depends on data."""
    if isinstance(node, ir.IntImm):
        return np.int64(node.value)
    if isinstance(node, ir.Var):
        if node not in values:
            raise Unevaluated(node)
        return values[node]
    if isinstance(node, ir.BinaryOp) and type(node) in BINARY:
        return BINARY[type(node)](evaluate(node.a, values), evaluate(node.b, values))
    if isinstance(node, ir.Not):
        return np.logical_not(evaluate(node.a, values))
    if isinstance(node, ir.Cast) and (node.dtype.is_int or node.dtype.is_uint) and node.dtype.bits >= 32:
        return evaluate(node.value, values)
    if isinstance(node, ir.Select):
        return _WHERE(*(evaluate(p, values) for p in (node.condition, node.true_value, node.false_value)))
    if isinstance(node, ir.Call) and isinstance(node.op, ir.Op) and node.op.name in _CALLS:
        compute = _WHERE if node.op.name == "tir.if_then_else" else CALLS[node.op.name]
        return compute(*(evaluate(a, values) for a in node.args))
    raise Unevaluated(node)
