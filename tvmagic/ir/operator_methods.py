"""Python's operators of expressions: `a + b` is `ops.add(a, b)`, and so on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.ir import ops
from tvmagic.ir.methods import method_of
from tvmagic.ir.node import Span
from tvmagic.ir.prim_expr import EqualOp, ExprOp, NotEqualOp, PrimExpr

_BINARY: dict[str, Callable[[Any, Any], PrimExpr]] = {
    "add": ops.add,
    "sub": ops.subtract,
    "mul": ops.multiply,
    "truediv": ops.true_divide,
    "floordiv": ops.floordiv,
    "mod": ops.floormod,
    "lshift": ops.shift_left,
    "rshift": ops.shift_right,
    "and": ops.bitwise_and,
    "or": ops.bitwise_or,
    "xor": ops.bitwise_xor,
}
_OTHERS: dict[str, Callable[..., PrimExpr]] = {
    "neg": ops.negative,
    "invert": ops.bitwise_not,
    "lt": ops.less,
    "le": ops.less_equal,
    "gt": ops.greater,
    "ge": ops.greater_equal,
}


def _reflected(function: Callable[[Any, Any], PrimExpr]) -> Callable[[Any, Any], PrimExpr]:
    return lambda self, other: function(other, self)


for _name, _function in (_BINARY | _OTHERS).items():
    method_of(ExprOp, name=f"__{_name}__")(_function)
for _name, _function in _BINARY.items():
    method_of(ExprOp, name=f"__r{_name}__")(_reflected(_function))


@method_of(ExprOp)
def equal(self: ExprOp, other: Any, span: Span | None = None) -> PrimExpr:
    """The expression `self == other`."""
    return ops.equal(self, other, span)


@method_of(ExprOp)
def astype(self: ExprOp, dtype: Any, span: Span | None = None) -> PrimExpr:
    """`self` converted to `dtype`."""
    return ops.cast(dtype, self, span)


@method_of(EqualOp, name="asobject")
def _equality(self: EqualOp) -> PrimExpr:
    """The comparison as an expression."""
    return ops.equal(self.a, self.b, self.span)


@method_of(NotEqualOp, name="asobject")
def _inequality(self: NotEqualOp) -> PrimExpr:
    """The comparison as an expression."""
    return ops.not_equal(self.a, self.b, self.span)
