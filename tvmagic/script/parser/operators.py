"""What Python's operators do in a script: on expressions they build, on Python's values they compute."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.script.ir_builder.tir.values import DTypeFunction, HandleFunction, as_value

BOOL = ir.DataType("bool")
_GREATEST_SHIFT = 512
_LONGEST = 100_000


def is_expr(value: Any) -> bool:
    """Whether an operator on `value` builds an expression."""
    return isinstance(value, (ir.PrimExpr, ir.BufferRegion, ir.ExprOp)) or hasattr(value, "asobject")


# ---------------------------------------------------------------------------- arithmetic

_BINARY: dict[type, tuple[str, Callable[..., Any] | None, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", ir.ops.add, operator.add),
    ast.Sub: ("-", ir.ops.subtract, operator.sub),
    ast.Mult: ("*", ir.ops.multiply, operator.mul),
    ast.Div: ("/", ir.ops.true_divide, operator.truediv),
    ast.FloorDiv: ("//", ir.ops.floordiv, operator.floordiv),
    ast.Mod: ("%", ir.ops.floormod, operator.mod),
    ast.LShift: ("<<", ir.ops.shift_left, operator.lshift),
    ast.RShift: (">>", ir.ops.shift_right, operator.rshift),
    ast.BitAnd: ("&", ir.ops.bitwise_and, operator.and_),
    ast.BitOr: ("|", ir.ops.bitwise_or, operator.or_),
    ast.BitXor: ("^", ir.ops.bitwise_xor, operator.xor),
    ast.Pow: ("**", None, operator.pow),
    ast.MatMult: ("@", None, operator.matmul),
}


def binary(op: type, a: Any, b: Any, span: ir.Span) -> Any:
    """`a op b`"""
    symbol, build, compute = _BINARY[op]
    if isinstance(a, ir.PrimExpr) or isinstance(b, ir.PrimExpr) or is_expr(a) or is_expr(b):
        if build is None:
            hint = "write `T.pow(x, y)`" if symbol == "**" else None
            raise TVMagicError(
                f"`{symbol}` has no meaning on expressions", hint=hint, code="script.unsupported_operator"
            )
        return build(_operand(a, symbol), _operand(b, symbol), span)
    _guard(symbol, a, b)
    return _computed(symbol, compute, a, b)


def _operand(value: Any, symbol: str) -> ir.PrimExpr:
    if isinstance(value, ir.PrimExpr):
        return value
    if (
        isinstance(value, (int, float, ir.BufferRegion, ir.ExprOp))
        or hasattr(value, "asobject")
        or hasattr(value, "item")
    ):
        return ir.expr(as_value(value))
    raise TVMagicError(f"`{symbol}` takes numbers and expressions, not {describe(value)}", code="script.wrong_operand")


def describe(value: Any) -> str:
    """A value by its kind, for a message."""
    kind = _KINDS.get(type(value))
    if kind is not None:
        return kind
    if isinstance(value, ir.Buffer):
        return f"the buffer `{value.name}`"
    if isinstance(value, ir.PrimExpr):
        return f"an expression of type `{value.dtype}`"
    if isinstance(value, (DTypeFunction, HandleFunction)):
        return f"the type `{value!r}`"
    return "a function" if callable(value) else f"a `{type(value).__name__}`"


_KINDS = {
    str: "a text",
    tuple: "a tuple",
    list: "a list",
    dict: "a mapping",
    type(None): "None",
    int: "a number",
    float: "a number",
    bool: "a truth value",
}


def _computed(symbol: str, compute: Callable[..., Any], *values: Any) -> Any:
    """What Python computes of values that are not expressions."""
    try:
        return compute(*values)
    except TypeError:
        shown = " and ".join([describe(v) for v in values])
        raise TVMagicError(f"`{symbol}` has no meaning on {shown}", code="script.wrong_operand") from None


def _guard(symbol: str, a: Any, b: Any) -> None:
    """Refuse what would take a program of one line for ever, or all memory."""
    if symbol in ("**", "<<") and isinstance(a, int) and isinstance(b, int) and abs(b) > _GREATEST_SHIFT:
        raise TVMagicError(f"`{symbol}` by {b} is too much", code="script.exponent_too_large")
    if isinstance(a, int) and isinstance(b, int) and a.bit_length() + b.bit_length() > 1 << 14:
        raise TVMagicError("a constant is too large", code="script.constant_too_large")
    if symbol == "%" and isinstance(a, (str, bytes)):
        raise TVMagicError(
            "`%` on a text has no meaning here",
            hint='write an f-string such as f"block_{i}"',
            code="script.text_formatting",
        )
    if symbol == "*":
        for left, right in ((a, b), (b, a)):
            if isinstance(left, (str, list, tuple)) and isinstance(right, int) and len(left) * right > _LONGEST:
                raise TVMagicError("a repeated sequence is too long", code="script.sequence_too_long")


def unary(op: type, value: Any, span: ir.Span) -> Any:
    """`-value`, `+value`, `~value`, `not value`"""
    value = as_value(value)
    symbol, build, compute = _UNARY[op]
    return build(ir.expr(value), span) if is_expr(value) else _computed(symbol, compute, value)


def _not(value: ir.PrimExpr, span: ir.Span) -> ir.PrimExpr:
    return ir.ops.bitwise_not(value, span) if value.dtype.is_vector else ir.Not(value, span)


_UNARY: dict[type, tuple[str, Callable[..., Any], Callable[[Any], Any]]] = {
    ast.USub: ("-", ir.ops.negative, operator.neg),
    ast.UAdd: ("+", lambda value, span: value, operator.pos),
    ast.Invert: ("~", ir.ops.bitwise_not, operator.invert),
    ast.Not: ("not", _not, operator.not_),
}

# ---------------------------------------------------------------------------- comparison

_COMPARE: dict[type, tuple[str, type | None, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("==", ir.EQ, operator.eq),
    ast.NotEq: ("!=", ir.NE, operator.ne),
    ast.Lt: ("<", ir.LT, operator.lt),
    ast.LtE: ("<=", ir.LE, operator.le),
    ast.Gt: (">", ir.GT, operator.gt),
    ast.GtE: (">=", ir.GE, operator.ge),
    ast.Is: ("is", None, operator.is_),
    ast.IsNot: ("is not", None, operator.is_not),
    ast.In: ("in", None, lambda a, b: a in b),
    ast.NotIn: ("not in", None, lambda a, b: a not in b),
}


def compare(op: type, a: Any, b: Any, span: ir.Span) -> Any:
    """`a op b`; on expressions nothing folds, and a Python number takes the type of the other side."""
    symbol, node, compute = _COMPARE[op]
    if node is None or not (isinstance(a, ir.PrimExpr) or isinstance(b, ir.PrimExpr) or is_expr(a) or is_expr(b)):
        return _computed(symbol, compute, a, b)
    a, b = _number_like(as_value(a), b), as_value(b)
    b = _number_like(b, a)
    return node(*ir.ops.match_lanes(a, b), span)


def _number_like(value: Any, other: Any) -> ir.PrimExpr:
    """`value` as an expression; a Python number as a constant of the type that `other` has."""
    if isinstance(value, ir.PrimExpr):
        return value
    if isinstance(value, (int, float)):
        dtype = other.dtype.element_of if isinstance(other, ir.PrimExpr) else None
        if dtype is None and isinstance(other, ir.BufferRegion):
            dtype = other.buffer.dtype.element_of
        if dtype is None:
            return ir.expr(value)
        if dtype.is_float:
            return ir.FloatImm(dtype, ir.ops.const(float(value), dtype).value)  # type: ignore[attr-defined]
        if isinstance(value, int) and (dtype.is_int or dtype.is_uint):
            return ir.IntImm(dtype, value)
    if isinstance(value, (str, list, tuple, dict, type(None))):
        raise TVMagicError(f"an expression cannot be compared with {describe(value)}", code="script.wrong_comparison")
    return ir.expr(value)


# ---------------------------------------------------------------------------- logic


def boolean(op: type, a: Any, b: Any, span: ir.Span) -> Any:
    """`a and b`, `a or b`; on expressions nothing folds. Those of vectors are operators on bits."""
    a, b = as_value(a), as_value(b)
    if not (is_expr(a) or is_expr(b)):
        return (a and b) if op is ast.And else (a or b)
    left = ir.IntImm(BOOL, a) if isinstance(a, bool) else ir.expr(ir.convert(a))
    right = ir.IntImm(BOOL, b) if isinstance(b, bool) else ir.expr(ir.convert(b))
    if left.dtype.is_vector or right.dtype.is_vector:  # of vectors lane by lane
        build = ir.ops.bitwise_and if op is ast.And else ir.ops.bitwise_or
        return build(*ir.ops.match_types(left, right), span)
    return (ir.And if op is ast.And else ir.Or)(left, right, span)
