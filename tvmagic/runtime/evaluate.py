"""The value of an integer expression of known sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import Add, Cast, FloorDiv, FloorMod, IntImm, Max, Min, Mul, PrimExpr, Sub, Var

__all__ = ["evaluate"]

_RULES: dict[type, Callable[[int, int], int]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    Min: min,
    Max: max,
}


def evaluate(expr: PrimExpr, values: Mapping[Var, int]) -> Any:
    """The value of `expr`; None where it names a variable that `values` does not have."""
    if isinstance(expr, IntImm):
        return expr.value
    if isinstance(expr, Var):
        return values.get(expr)
    if isinstance(expr, Cast):
        return evaluate(expr.value, values)
    rule = _RULES.get(type(expr))
    if rule is None:
        raise TVMagicError(f"a size cannot be the expression `{expr}`", node=expr)
    a, b = evaluate(expr.a, values), evaluate(expr.b, values)  # type: ignore[attr-defined]
    if a is None or b is None:
        return None
    if b == 0 and isinstance(expr, (FloorDiv, FloorMod)):
        raise TVMagicError(f"the size `{expr}` divides by zero", node=expr)
    return rule(a, b)
