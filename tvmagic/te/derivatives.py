"""Derivatives of expressions by what they read.

`partials(e, is_leaf)` gives for each place at which `e` reads a leaf the derivative of `e` by it. It walks once from the
value down to the leaves, with the derivative of the value by each part on the way (reverse mode).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.ir.deep_recursion import deep
from tvmagic.ir.query import callee


class Partial(NamedTuple):
    """The derivative of a value by one leaf that it reads."""

    leaf: ir.PrimExpr
    coefficient: ir.PrimExpr


def _constant_like(value: float, like: ir.PrimExpr) -> ir.PrimExpr:
    return ir.ops.const(value, like.dtype)


_Rule = Callable[[ir.PrimExpr, ir.PrimExpr], Any]
# The derivative of a function of one argument `x`; `y` is its value.
_FUNCTIONS: dict[str, _Rule] = {
    "exp": lambda x, y: y,
    "exp2": lambda x, y: y * _constant_like(math.log(2), x),
    "exp10": lambda x, y: y * _constant_like(math.log(10), x),
    "log": lambda x, y: _constant_like(1, x) / x,
    "log2": lambda x, y: _constant_like(1 / math.log(2), x) / x,
    "log10": lambda x, y: _constant_like(1 / math.log(10), x) / x,
    "log1p": lambda x, y: _constant_like(1, x) / (_constant_like(1, x) + x),
    "sigmoid": lambda x, y: y * (_constant_like(1, x) - y),
    "sqrt": lambda x, y: _constant_like(0.5, x) / y,
    "rsqrt": lambda x, y: _constant_like(-0.5, x) * y / x,
    "sin": lambda x, y: ir.ops.cos(x),
    "cos": lambda x, y: -ir.ops.sin(x),
    "tan": lambda x, y: _constant_like(1, x) + y * y,
    "asin": lambda x, y: ir.ops.rsqrt(_constant_like(1, x) - x * x),
    "acos": lambda x, y: -ir.ops.rsqrt(_constant_like(1, x) - x * x),
    "atan": lambda x, y: _constant_like(1, x) / (_constant_like(1, x) + x * x),
    "sinh": lambda x, y: ir.ops.cosh(x),
    "cosh": lambda x, y: ir.ops.sinh(x),
    "tanh": lambda x, y: _constant_like(1, x) - y * y,
    "asinh": lambda x, y: ir.ops.rsqrt(x * x + _constant_like(1, x)),
    "acosh": lambda x, y: ir.ops.rsqrt(x * x - _constant_like(1, x)),
    "atanh": lambda x, y: _constant_like(1, x) / (_constant_like(1, x) - x * x),
    "erf": lambda x, y: _constant_like(2 / math.sqrt(math.pi), x) * ir.ops.exp(-(x * x)),
    "fabs": lambda x, y: ir.Select(ir.GE(x, _constant_like(0, x)), _constant_like(1, x), _constant_like(-1, x)),
}
# Functions that are constant between the places at which they jump.
_STEPS = frozenset(("floor", "ceil", "trunc", "round", "nearbyint"))


@deep
def partials(e: ir.PrimExpr, is_leaf: Callable[[ir.PrimExpr], bool], seed: ir.PrimExpr | None = None) -> list[Partial]:
    """The derivative of `e` by each place at which it reads a leaf, in the order of reading, times `seed` (default 1).

    A leaf that is read twice is there twice: the derivatives are to be added. Where a branch is not taken the
    derivative is guarded as its value is. Indices, conditions and whole numbers have no derivative.

    Raises TVMagicError for a function of a leaf whose derivative is not known.
    """
    walk = _Walk(is_leaf)
    walk.down(e, seed)
    return walk.found


class _Walk:
    def __init__(self, is_leaf: Callable[[ir.PrimExpr], bool]) -> None:
        self.is_leaf = is_leaf
        self.found: list[Partial] = []
        self.known: dict[int, bool] = {}
        self.kept: list[ir.PrimExpr] = []

    def reads(self, e: ir.PrimExpr) -> bool:
        """Whether a leaf is inside `e` where it may have a derivative."""
        found = self.known.get(id(e))
        if found is None:
            found = self.is_leaf(e) or any(self.reads(part) for part in _operands(e))
            self.known[id(e)] = found
            self.kept.append(e)  # so that no other node gets its identity
        return found

    def down(self, e: ir.PrimExpr, factor: ir.PrimExpr | None) -> None:
        """Note the partials inside `e`, of which the value's derivative is `factor` (None: 1)."""
        if not self.reads(e):
            return
        if self.is_leaf(e):
            self.found.append(Partial(e, _constant_like(1, e) if factor is None else factor))
            return
        for part, derivative in self.steps(e):
            if not self.reads(part):
                continue
            if isinstance(derivative, (_Guard, _Converted)):
                whole = _constant_like(1, e) if factor is None else factor
                self.down(part, derivative.around(whole))
            elif derivative is None:
                self.down(part, factor)
            else:
                self.down(part, derivative if factor is None else _times(factor, derivative))

    def steps(self, e: ir.PrimExpr) -> list[tuple[ir.PrimExpr, Any]]:
        """The parts of `e`, each with the derivative of `e` by it: an expression, None for 1, or a guard."""
        rule = _RULES.get(type(e))
        if rule is not None:
            return rule(e)
        if isinstance(e, ir.Call):
            return self.call(e)
        raise TVMagicError(f"the derivative of `{e}` is not known", span=e.span, code="gradient.unknown_derivative")

    def call(self, e: ir.Call) -> list[tuple[ir.PrimExpr, Any]]:
        name = callee(e).removeprefix("tir.")
        if name == "if_then_else":
            condition, yes, no = e.args
            return [(yes, _Guard(condition, True, lazy=True)), (no, _Guard(condition, False, lazy=True))]
        if name == "pow":
            x, y = e.args
            return [(x, y * ir.ops.power(x, y - _constant_like(1, y))), (y, ir.ops.log(x) * e)]
        if name in _STEPS:
            return []
        if name not in _FUNCTIONS:
            raise TVMagicError(
                f"the derivative of `{name}` is not known",
                span=e.span,
                hint=f"it is of {', '.join(sorted(_FUNCTIONS))}",
                code="gradient.unknown_derivative",
            )
        return [(e.args[0], _FUNCTIONS[name](e.args[0], e))]


class _Guard(NamedTuple):
    """A derivative that counts if a condition has a value."""

    condition: ir.PrimExpr
    wanted: bool
    lazy: bool = False  # the branch not taken may not be evaluated

    def around(self, factor: ir.PrimExpr) -> ir.PrimExpr:
        """`factor`, or 0 where the condition has the other value."""
        zero = _constant_like(0, factor)
        branches = (factor, zero) if self.wanted else (zero, factor)
        return ir.ops.if_then_else(self.condition, *branches) if self.lazy else ir.Select(self.condition, *branches)


def _times(a: ir.PrimExpr, b: ir.PrimExpr) -> ir.PrimExpr:
    return b if isinstance(a, (ir.IntImm, ir.FloatImm)) and a.value == 1 else a * b


def _operands(e: ir.PrimExpr) -> list[ir.PrimExpr]:
    """The parts by which `e` may have a derivative."""
    if isinstance(e, (ir.Reduce, ir.ProducerLoad, ir.Var)):
        return []
    if isinstance(e, ir.Let):
        return [ir.substitute(e.body, {e.var: e.value})]
    if isinstance(e, ir.Cast):
        return [e.value] if e.dtype.is_float and e.value.dtype.is_float else []
    if isinstance(e, ir.Select):
        return [e.true_value, e.false_value]
    if isinstance(e, ir.Call):
        return list(e.args[1:] if callee(e) == "tir.if_then_else" else e.args)
    if not e.dtype.is_float:
        return []
    return [part for part in (getattr(e, "a", None), getattr(e, "b", None)) if part is not None]


def _extreme(e: Any, first: type) -> list[tuple[ir.PrimExpr, Any]]:
    condition = first(e.a, e.b)
    return [(e.a, _Guard(condition, True)), (e.b, _Guard(condition, False))]


_RULES: dict[type, Callable[[Any], list[tuple[ir.PrimExpr, Any]]]] = {
    ir.Add: lambda e: [(e.a, None), (e.b, None)],
    ir.Sub: lambda e: [(e.a, None), (e.b, _constant_like(-1, e))],
    ir.Mul: lambda e: [(e.a, e.b), (e.b, e.a)],
    ir.Div: lambda e: [(e.a, _constant_like(1, e) / e.b), (e.b, -e.a / (e.b * e.b))],
    ir.Max: lambda e: _extreme(e, ir.GE),
    ir.Min: lambda e: _extreme(e, ir.LE),
    ir.Select: lambda e: [(e.true_value, _Guard(e.condition, True)), (e.false_value, _Guard(e.condition, False))],
    ir.Cast: lambda e: [(e.value, _Converted(e.value.dtype))],
    ir.Let: lambda e: [(_operands(e)[0], None)],
}


class _Converted(NamedTuple):
    """The derivative goes on in the type that was converted from."""

    dtype: Any

    def around(self, factor: ir.PrimExpr) -> ir.PrimExpr:
        """`factor` in that type."""
        return ir.expr(factor).astype(self.dtype)
