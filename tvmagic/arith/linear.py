"""Expressions that are linear in variables: their coefficients, and bounds in conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvmagic.arith.int_set import max_of, min_of, negate, new_analyzer
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.ir import (
    EQ,
    LE,
    LT,
    Add,
    And,
    CmpOp,
    DataType,
    IntImm,
    IterVar,
    Mul,
    Node,
    PrimExpr,
    Sub,
    Var,
    Visitor,
    expr,
    handles,
)
from tvmagic.ir.deep_recursion import deep
from tvmagic.ir.ops import make_const
from tvmagic.ir.prim_expr import SEQUENCES
from tvmagic.ir.query import operands

# (base, coefficient); None stands for a zero that was never built
_Parts = tuple[PrimExpr | None, PrimExpr | None]


def _sum(a: PrimExpr | None, b: PrimExpr | None) -> PrimExpr | None:
    return b if a is None else a if b is None else a + b


def _difference(a: PrimExpr | None, b: PrimExpr | None) -> PrimExpr | None:
    return a if b is None else negate(b) if a is None else a - b


def _product(a: PrimExpr | None, b: PrimExpr | None) -> PrimExpr | None:
    return None if a is None or b is None else a * b


def _signed(dtype: DataType) -> DataType:
    """The type of coefficients: an unsigned variable may be subtracted."""
    return DataType(f"int{dtype.bits}") if dtype.is_uint and not dtype.is_bool else dtype


class _NotLinear(Exception):
    """The variable occurs other than by a coefficient."""


class _Linear(Visitor):
    """Gives an expression as `base + coefficient * variable`."""

    def __init__(self, variable: Var) -> None:
        self.variable = variable

    @handles(Add)
    def add(self, node: Add) -> _Parts:
        (base_a, a), (base_b, b) = self.visit(node.a), self.visit(node.b)
        return _sum(base_a, base_b), _sum(a, b)

    @handles(Sub)
    def subtract(self, node: Sub) -> _Parts:
        (base_a, a), (base_b, b) = self.visit(node.a), self.visit(node.b)
        return _difference(base_a, base_b), _difference(a, b)

    @handles(Mul)
    def multiply(self, node: Mul) -> _Parts:
        (factor, a), (base, b) = self.visit(node.a), self.visit(node.b)
        if a is not None:
            if b is not None:
                raise _NotLinear
            factor, base, b = base, factor, a
        return _product(factor, base), _product(factor, b)

    @handles(Var)
    def var(self, node: Var) -> _Parts:
        return (None, make_const(_signed(node.dtype), 1)) if node is self.variable else (node, None)

    @handles(Node)
    def other(self, node: PrimExpr) -> _Parts:
        if uses_var(node, lambda var: var is self.variable):
            raise _NotLinear
        return node, None


@deep
def linear_parts(value: PrimExpr, variable: Var) -> tuple[PrimExpr, PrimExpr] | None:
    """`(base, coefficient)` of `value` in `variable`; None if it is not linear in it."""
    try:
        base, coefficient = _Linear(variable).visit(value)
    except _NotLinear:
        return None
    zero = make_const(variable.dtype, 0)
    return (zero if base is None else base), (zero if coefficient is None else coefficient)


def _variables(variables: Any) -> list[Var]:
    items = variables if isinstance(variables, SEQUENCES) else [variables]
    return [v.var if isinstance(v, IterVar) else v for v in items]


@deep
def detect_linear_equation(value: Any, variables: Sequence[Any]) -> list[PrimExpr]:
    """The coefficients of `variables` in `value`, in their order, and last the rest.

    Empty if `value` is not linear in them, or a coefficient holds another of them.
    """
    names, rest = _variables(variables), expr(value)
    coefficients: list[PrimExpr] = []
    for variable in names:
        parts = linear_parts(rest, variable)
        if parts is None:
            return []
        rest, coefficient = parts
        coefficients.append(coefficient)
    later: set[Var] = set()
    for i in range(len(names) - 1, 0, -1):
        later.add(names[i])
        if uses_var(coefficients[i - 1], later):
            return []
    return [*coefficients, rest]


# ---------------------------------------------------------------------------- clip bounds

# Simplified conditions have no `>` and `>=`.
_NOT_NEGATIVE: dict[type, Callable[[PrimExpr, PrimExpr], PrimExpr]] = {
    LT: lambda a, b: b - a - make_const(a.dtype, 1),
    LE: lambda a, b: b - a,
    EQ: lambda a, b: a - b,
}


def _clip(term: PrimExpr, names: Sequence[Var]) -> tuple[Var, PrimExpr | None, PrimExpr | None] | None:
    """The variable that a comparison bounds, and its least and greatest value."""
    used = [v for v in names if uses_var(term, lambda var, v=v: var is v)]
    if len(used) != 1 or type(term) not in _NOT_NEGATIVE:
        return None
    assert isinstance(term, CmpOp)
    if not term.a.dtype.is_int:
        return None
    parts = linear_parts(_NOT_NEGATIVE[type(term)](term.a, term.b), used[0])
    if parts is None:
        return None
    base, coefficient = parts
    coefficient = new_analyzer().simplify(coefficient)
    if not isinstance(coefficient, IntImm) or coefficient.value not in (1, -1):
        return None
    bound = negate(base) if coefficient.value == 1 else base
    if isinstance(term, EQ):
        return used[0], bound, bound
    return (used[0], bound, None) if coefficient.value == 1 else (used[0], None, bound)


@deep
def detect_clip_bound(condition: Any, variables: Sequence[Any]) -> list[PrimExpr | None]:
    """The least and the greatest value of each of `variables` that the conjunction allows.

    For each variable two values follow each other; None stands for no bound. Empty if a term
    of the conjunction is not a bound of a single variable.
    """
    names, analyzer = _variables(variables), new_analyzer()
    lows: dict[Var, PrimExpr] = {}
    highs: dict[Var, PrimExpr] = {}
    for term in operands(analyzer.simplify(expr(condition)), And):
        found = _clip(term, names)
        if found is None:
            return []
        var, low, high = found
        if low is not None:
            lows[var] = max_of(lows[var], low) if var in lows else low
        if high is not None:
            highs[var] = min_of(highs[var], high) if var in highs else high
    result: list[PrimExpr | None] = []
    for var in names:
        for bounds in (lows, highs):
            result.append(analyzer.simplify(bounds[var]) if var in bounds else None)
    return result
