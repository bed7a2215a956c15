"""The IR types that a node instantiates: how many inputs, what kind of API, what it computes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvmagic.ir import DataType, PrimExpr, dtype_of, ops

__all__ = ["OP_TYPES", "OpType", "reduce_identity"]


@dataclass(frozen=True)
class OpType:
    """A type of node.

    `inputs`: how many tensors it takes (-1: one or more). `compute_type`, `unit`: as in the dump.
    `compute`: of elementwise types, from the inputs' elements (IR expressions) and the output's
    type to the element; of reductions, the combination of two elements. `numpy` names the NumPy
    function of the same meaning. `result` is the output's type where it is not the first input's.
    `cost`: arithmetic of one element, in units of one addition.
    """

    name: str
    inputs: int
    compute_type: str
    unit: str
    compute: Callable[..., PrimExpr] | None = None
    numpy: str = ""
    result: str | None = None
    cost: float = 1.0

    @property
    def is_buffer(self) -> bool:
        """Whether it stands for memory rather than for a call."""
        return self.unit == "None"


def _elementwise(
    name: str, inputs: int, compute: Any, numpy: str, result: str | None = None, cost: float = 1
) -> OpType:
    return OpType(name, inputs, "elewise", "Vector", compute, numpy, result, cost)


def _one(value: PrimExpr) -> PrimExpr:
    return ops.const(1, value.dtype)


def _zero(value: PrimExpr) -> PrimExpr:
    return ops.const(0, value.dtype)


_TYPES = [
    OpType("Data", 0, "data", "None"),
    OpType("Output", -1, "data", "None"),
    OpType("Workspace", -1, "data", "None"),
    OpType("Scalar", 0, "data", "Vector"),
    OpType("Load", 1, "load", "MTE2"),
    OpType("Store", 1, "store", "MTE3"),
    OpType("Broadcast", 1, "broadcast", "Vector"),
    OpType("Concat", -1, "concat", "Vector"),
    OpType("Transpose", 1, "transpose", "Vector"),
    OpType("Gather", 2, "gather", "MTE2"),
    _elementwise("Abs", 1, ops.abs, "abs"),
    _elementwise("Neg", 1, lambda x: _zero(x) - x, "negative"),
    _elementwise("Exp", 1, ops.exp, "exp", cost=12),
    _elementwise("Ln", 1, ops.log, "log", cost=14),
    _elementwise("Sqrt", 1, ops.sqrt, "sqrt", cost=4),
    _elementwise("Rsqrt", 1, ops.rsqrt, "", cost=8),
    _elementwise("Erf", 1, ops.erf, "", cost=20),
    _elementwise("Sin", 1, ops.sin, "sin", cost=20),
    _elementwise("Cos", 1, ops.cos, "cos", cost=20),
    _elementwise("Floor", 1, ops.floor, "floor"),
    _elementwise("Ceil", 1, ops.ceil, "ceil"),
    _elementwise("Tanh", 1, ops.tanh, "tanh", cost=16),
    _elementwise("Sigmoid", 1, lambda x: _one(x) / (_one(x) + ops.exp(_zero(x) - x)), "", cost=16),
    _elementwise("Relu", 1, lambda x: ops.maximum(x, _zero(x)), ""),
    _elementwise("Reciprocal", 1, lambda x: _one(x) / x, "reciprocal", cost=4),
    _elementwise("Square", 1, lambda x: x * x, "square"),
    _elementwise("Cast", 1, None, ""),
    _elementwise("LogicalNot", 1, ops.logical_not, "logical_not"),
    _elementwise("Add", 2, operator.add, "add"),
    _elementwise("Sub", 2, operator.sub, "subtract"),
    _elementwise("Mul", 2, operator.mul, "multiply"),
    _elementwise("Div", 2, ops.div, "divide", cost=4),
    _elementwise("Pow", 2, ops.power, "power", cost=30),
    _elementwise("Maximum", 2, ops.maximum, "maximum"),
    _elementwise("Minimum", 2, ops.minimum, "minimum"),
    _elementwise("Lt", 2, ops.less, "less", "bool"),
    _elementwise("Le", 2, ops.less_equal, "less_equal", "bool"),
    _elementwise("Gt", 2, ops.greater, "greater", "bool"),
    _elementwise("Ge", 2, ops.greater_equal, "greater_equal", "bool"),
    _elementwise("Eq", 2, ops.equal, "equal", "bool"),
    _elementwise("Ne", 2, ops.not_equal, "not_equal", "bool"),
    _elementwise("LogicalAnd", 2, ops.logical_and, "logical_and"),
    _elementwise("LogicalOr", 2, ops.logical_or, "logical_or"),
    _elementwise("Where", 3, None, "where", cost=2),
    OpType("Sum", 1, "reduce", "Vector", operator.add, "sum"),
    OpType("Mean", 1, "reduce", "Vector", operator.add, "mean"),
    OpType("Max", 1, "reduce", "Vector", ops.maximum, "max"),
    OpType("Min", 1, "reduce", "Vector", ops.minimum, "min"),
    OpType("Prod", 1, "reduce", "Vector", operator.mul, "prod"),
]
OP_TYPES: dict[str, OpType] = {t.name: t for t in _TYPES}

_IDENTITIES: dict[str, Callable[[DataType], PrimExpr]] = {
    "Sum": lambda t: ops.const(0, t),
    "Mean": lambda t: ops.const(0, t),
    "Prod": lambda t: ops.const(1, t),
    "Max": ops.min_value,
    "Min": ops.max_value,
}


def reduce_identity(name: str, dtype: str) -> PrimExpr:
    """The value from which a reduction starts."""
    return _IDENTITIES[name](dtype_of(dtype))
