"""Modular sets: which remainder an integer expression has.

The set `(coeff, base)` is `{coeff * k + base | k an integer}`; `(1, 0)` holds every integer and
`(0, base)` just one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any, NamedTuple

from tvmagic.arith.constraint import with_let
from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    EQ,
    Add,
    Call,
    Cast,
    DataType,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Select,
    Sub,
    Var,
)
from tvmagic.ir.fold import wrap_int
from tvmagic.ir.query import callee

Entry = tuple[int, int]
EVERYTHING: Entry = (1, 0)
NOTHING: Entry = (0, 1)


class ModularSet(NamedTuple):
    """The integers `coeff * k + base`."""

    coeff: int
    base: int

    def __repr__(self) -> str:
        return f"ModularSet(coeff={self.coeff}, base={self.base})"


def _entry(coeff: int, base: int) -> Entry:
    if coeff < 0:
        # the sign convention of the canonical form: x % -c is -(-x % c)
        coeff, base = -coeff, -base
    return coeff, (base % coeff if coeff else base)


def _union(a: Entry, b: Entry) -> Entry:
    coeff = gcd(a[0], b[0])
    if coeff == 0:
        return a if a[1] == b[1] else EVERYTHING
    base0, base1 = a[1] % coeff, b[1] % coeff
    return (coeff, base0) if base0 == base1 else _entry(gcd(base0, base1, coeff), base0)


def _intersect(a: Entry, b: Entry) -> Entry:
    """The solutions of both congruences, by the Chinese remainder theorem."""
    (c1, b1), (c2, b2) = a, b
    if c1 == 0 or c2 == 0:
        point, (coeff, base) = (b1, b) if c1 == 0 else (b2, a)
        same = point == base if coeff == 0 else (point - base) % coeff == 0
        return (0, point) if same else NOTHING
    common = gcd(c1, c2)
    if (b2 - b1) % common:
        return NOTHING
    step = c2 // common
    k = (b2 - b1) // common * pow(c1 // common, -1, step)
    return _entry(c1 // common * c2, b1 + k * c1)


def _wrapped(entry: Entry, dtype: DataType) -> Entry:
    """The set of values that wrap around modulo 2 to the number of bits."""
    coeff, base = entry
    return _entry(gcd(coeff, 1 << dtype.bits), base) if coeff else (0, wrap_int(base, dtype))


class ModularSetAnalyzer:
    """Modular sets of expressions, from those of variables and from conditions that hold."""

    def __init__(self, parent: Any) -> None:
        self.parent = parent
        self.vars: dict[Var, Entry] = {}
        self.memo: dict[int, tuple[PrimExpr, Entry]] = {}

    def update(self, var: Var, info: Entry, allow_override: bool = False) -> None:
        """Set what is known of `var`; something different is an error unless overriding is allowed."""
        new = _entry(*info)
        old = self.vars.get(var)
        if old is not None and old != new and not allow_override:
            raise TVMagicError(
                f"`{var.name}` is bound to {ModularSet(*old)!r} already, not to {ModularSet(*new)!r}",
                code="analyzer.bound_differs",
            )
        self.vars[var] = new
        self.memo = {}

    def visit(self, e: PrimExpr) -> Entry:
        """The set of `e`."""
        if type(e) is IntImm:
            return (0, e.value)
        known = self.memo.get(id(e))
        if known is None:
            handler = _HANDLERS.get(type(e))
            entry = handler(self, e) if handler is not None else EVERYTHING
            if (entry[0] == 0 or (1 << e.dtype.bits) % entry[0]) and self.may_wrap(e):
                entry = _wrapped(entry, e.dtype)
            known = self.memo[id(e)] = (e, entry)
        return known[1]

    def may_wrap(self, e: PrimExpr) -> bool:
        """Whether the value of `e`, computed without end, may differ from what its type holds of it."""
        if type(e) not in _MAY_WRAP or not self.parent.wraps(e):
            return False
        return not isinstance(e, Cast) or not _widens(e.value.dtype, e.dtype)

    def enter_constraint(self, condition: PrimExpr) -> Callable[[], None] | None:
        """Let `condition` hold until the returned function is called."""
        found = _detect(condition)
        if found is None:
            return None
        var, entry = found
        had, old = var in self.vars, self.vars.get(var, EVERYTHING)
        self.vars[var] = _intersect(old, entry)
        self.memo = {}

        def recover() -> None:
            if had:
                self.vars[var] = old
            else:
                del self.vars[var]
            self.memo = {}

        return recover


def _detect(condition: PrimExpr) -> tuple[Var, Entry] | None:
    """The variable and its set, of `var % c == b`, `var == b` or `b == var`."""
    if not isinstance(condition, EQ):
        return None
    a, b = condition.a, condition.b
    if isinstance(a, (Mod, FloorMod)) and isinstance(b, IntImm):
        if isinstance(a.a, Var) and isinstance(a.b, IntImm) and a.b.value:
            return a.a, _entry(a.b.value, b.value)
        return None
    # TVM keeps coefficient 1 here, which says nothing; the bounds know that the value is b
    return None


def _set_add(self: ModularSetAnalyzer, e: Add) -> Entry:
    a, b = self.visit(e.a), self.visit(e.b)
    return _entry(gcd(a[0], b[0]), a[1] + b[1])


def _set_sub(self: ModularSetAnalyzer, e: Sub) -> Entry:
    a, b = self.visit(e.a), self.visit(e.b)
    return _entry(gcd(a[0], b[0]), a[1] - b[1])


def _set_mul(self: ModularSetAnalyzer, e: Mul) -> Entry:
    # (p x + n)(q y + m) = pq xy + pm x + qn y + nm
    (p, n), (q, m) = self.visit(e.a), self.visit(e.b)
    return _entry(gcd(p * q, p * m, n * q), n * m)


def _quotient(self: ModularSetAnalyzer, a: PrimExpr, divisor: int, round_down: bool) -> Entry:
    coeff, base = self.visit(a)
    if divisor and coeff % divisor == 0:
        if base == 0:
            return _entry(abs(coeff // divisor), 0)
        if base > 0 and divisor > 0 and (round_down or self.parent.can_prove_greater_equal(a, 0)):
            return _entry(coeff // divisor, base // divisor)
    return EVERYTHING


def _remainder(self: ModularSetAnalyzer, a: PrimExpr, divisor: int, round_down: bool) -> Entry:
    coeff, base = self.visit(a)
    if divisor == 0:
        return EVERYTHING
    step = gcd(coeff, divisor)
    if base % step == 0 or (base > 0 and (round_down or self.parent.can_prove_greater_equal(a, 0))):
        return _entry(step, base % step)
    return EVERYTHING


def _by_constant(rule: Callable[..., Entry], round_down: bool) -> Callable[[ModularSetAnalyzer, Any], Entry]:
    def handler(self: ModularSetAnalyzer, e: Div) -> Entry:
        coeff, base = self.visit(e.b)
        return rule(self, e.a, base, round_down) if coeff == 0 else EVERYTHING

    return handler


def _set_union(self: ModularSetAnalyzer, e: Min) -> Entry:
    return _union(self.visit(e.a), self.visit(e.b))


def _set_select(self: ModularSetAnalyzer, e: Select) -> Entry:
    return _union(self.visit(e.true_value), self.visit(e.false_value))


def _set_cast(self: ModularSetAnalyzer, e: Cast) -> Entry:
    return self.visit(e.value)


def _set_var(self: ModularSetAnalyzer, e: Var) -> Entry:
    return self.vars.get(e, EVERYTHING)


def _set_call(self: ModularSetAnalyzer, e: Call) -> Entry:
    name = callee(e)
    if name == "tir.shift_right":
        coeff, base = self.visit(e.args[1])
        return _quotient(self, e.args[0], 1 << base, True) if coeff == 0 and 0 <= base < 64 else EVERYTHING
    if name == "tir.bitwise_and":
        coeff, base = self.visit(e.args[1])
        if coeff == 0 and base >= 0 and (base & (base + 1)) == 0:
            return _remainder(self, e.args[0], base + 1, True)
    return EVERYTHING


def _widens(source: DataType, target: DataType) -> bool:
    """Whether `target` holds every value of `source`."""
    if source.is_uint:
        return source.bits < target.bits or (target.is_uint and source.bits == target.bits)
    return source.is_int and target.is_int and source.bits <= target.bits


_MAY_WRAP = frozenset((Add, Sub, Mul, Cast))
_HANDLERS: dict[type, Callable[[ModularSetAnalyzer, Any], Entry]] = {
    Add: _set_add,
    Sub: _set_sub,
    Mul: _set_mul,
    Div: _by_constant(_quotient, False),
    FloorDiv: _by_constant(_quotient, True),
    Mod: _by_constant(_remainder, False),
    FloorMod: _by_constant(_remainder, True),
    Min: _set_union,
    Max: _set_union,
    Select: _set_select,
    Cast: _set_cast,
    Let: with_let,
    Call: _set_call,
}
for _class in (Var, *Var.__subclasses__()):
    _HANDLERS[_class] = _set_var
