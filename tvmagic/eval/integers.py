"""The value of an integer expression of known sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.ir.semantics import NUMBERS, convert_number

OF_SIZES = (ir.Add, ir.Sub, ir.Mul, ir.FloorDiv, ir.FloorMod, ir.Min, ir.Max)  # what `evaluate` computes of two numbers


def evaluate(expr: ir.PrimExpr, values: Mapping[ir.Var, int]) -> Any:
    """The value of `expr`; None if it names a variable that `values` does not have."""
    if isinstance(expr, ir.IntImm):
        return expr.value
    if isinstance(expr, ir.Var):
        return values.get(expr)
    if isinstance(expr, ir.Cast):
        value = evaluate(expr.value, values)
        return None if value is None else convert_number(value, expr.dtype)
    if not isinstance(expr, OF_SIZES):
        raise TVMagicError(f"a size cannot be the expression `{expr}`", node=expr, code="size.unsupported_expression")
    a, b = evaluate(expr.a, values), evaluate(expr.b, values)
    if a is None or b is None:
        return None
    if b == 0 and isinstance(expr, (ir.FloorDiv, ir.FloorMod)):
        raise TVMagicError(f"the size `{expr}` divides by zero", node=expr, code="size.division_by_zero")
    return NUMBERS[type(expr)](a, b, expr.dtype)
