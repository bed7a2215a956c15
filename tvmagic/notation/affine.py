"""Sums of index names with whole factors, as they are in the accesses of the index notation."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvmagic.arith import ConstIntBound
from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir import Var, post_order_visit


@dataclass(frozen=True)
class Affine:
    """`constant + sum(factor * name)`; the constant may be an expression where sizes are symbolic."""

    factors: dict[str, int] = field(default_factory=dict)
    constant: Any = 0

    def __add__(self, other: Affine) -> Affine:
        factors = dict(self.factors)
        for name, factor in other.factors.items():
            factors[name] = factors.get(name, 0) + factor
        return Affine({n: f for n, f in factors.items() if f}, self.constant + other.constant)

    def times(self, factor: int) -> Affine:
        """The sum with every term multiplied."""
        return Affine({n: f * factor for n, f in self.factors.items() if f * factor}, self.constant * factor)

    @property
    def plain_name(self) -> str | None:
        """The name where the sum is just one name."""
        if self.constant == 0 and len(self.factors) == 1:
            ((name, factor),) = self.factors.items()
            return name if factor == 1 else None
        return None

    def bounds(self, ranges: Mapping[str, tuple[Any, Any]]) -> tuple[Any, Any] | None:
        """The least and the greatest value, expressions where sizes are symbolic; None for a name without a range."""
        low: Any = self.constant
        high: Any = self.constant
        for name, factor in self.factors.items():
            if name not in ranges:
                return None
            begin, extent = ranges[name]
            ends = (begin * factor, (begin + extent - 1) * factor)
            low, high = low + ends[factor < 0], high + ends[factor > 0]
        return low, high


def affine_of(node: ast.expr, names: set[str], numbers: Mapping[str, Any]) -> Affine | None:
    """The sum that an index expression is; None if it is not one.

    `names` are the index names, `numbers` the whole numbers that other names are, and symbolic sizes.
    """
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return Affine({}, value)
        case ast.Name(id=name) if name in names:
            return Affine({name: 1})
        case ast.Name(id=name) if name in numbers:
            return Affine({}, numbers[name])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = affine_of(operand, names, numbers)
            return inner.times(-1) if inner else None
        case ast.BinOp(left=left, op=op, right=right):
            a, b = affine_of(left, names, numbers), affine_of(right, names, numbers)
            return _combine(op, a, b) if a is not None and b is not None else None
    return None


def quotient_of(node: ast.expr, names: set[str], numbers: Mapping[str, Any]) -> tuple[Affine, int] | None:
    """The sum and the whole number that it is divided by, rounded down, in an index expression; None if it is not such a one.

    `E // c` is below a size as long as `E` is below `c` times that, and both are at least 0 for the same values.
    """
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
        inner, by = quotient_of(node.left, names, numbers), affine_of(node.right, names, numbers)
        if inner is None or by is None or by.factors or not isinstance(by.constant, int) or by.constant < 1:
            return None
        return inner[0], inner[1] * by.constant
    affine = affine_of(node, names, numbers)
    return None if affine is None else (affine, 1)


def _combine(op: ast.operator, a: Affine, b: Affine) -> Affine | None:
    if isinstance(op, ast.Add):
        return a + b
    if isinstance(op, ast.Sub):
        return a + b.times(-1)
    if isinstance(op, ast.Mult) and (not a.factors or not b.factors):
        number, other = (a, b) if not a.factors else (b, a)
        return other.times(number.constant) if isinstance(number.constant, int) else None
    return None


def holds(
    test: ast.expr, names: set[str], numbers: Mapping[str, Any], ranges: Mapping[str, tuple[Any, Any]]
) -> bool | None:
    """Whether a condition on index names holds for all of their values, or for none; None if neither is known."""
    match test:
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            sides = [left, *comparators]
            differences = [_difference(a, b, names, numbers, ranges) for a, b in zip(sides, comparators)]
            parts = [_compared(op, bounds) for op, bounds in zip(ops, differences)]
            return False if False in parts else None if None in parts else True
        case ast.BoolOp(op=op, values=values):
            parts = [holds(value, names, numbers, ranges) for value in values]
            decisive = isinstance(op, ast.Or)
            return decisive if decisive in parts else None if None in parts else not decisive
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = holds(operand, names, numbers, ranges)
            return None if inner is None else not inner
    return None


def _difference(
    a: ast.expr, b: ast.expr, names: set[str], numbers: Mapping[str, Any], ranges: Mapping[str, tuple[Any, Any]]
) -> tuple[Any, Any] | None:
    """The least and the greatest value of `a - b`; None if they are not known."""
    sums = affine_of(a, names, numbers), affine_of(b, names, numbers)
    if sums[0] is not None and sums[1] is not None:
        return (sums[0] + sums[1].times(-1)).bounds(ranges)
    first, second = (_interval(node, names, numbers, ranges) for node in (a, b))
    return None if first is None or second is None else (first[0] - second[1], first[1] - second[0])


def _interval(
    node: ast.expr, names: set[str], numbers: Mapping[str, Any], ranges: Mapping[str, tuple[Any, Any]]
) -> tuple[int, int] | None:
    """The least and the greatest value of an index expression with `//` and `%` by numbers; None if they are not known as numbers."""
    affine = affine_of(node, names, numbers)
    if affine is not None:
        bounds = affine.bounds(ranges)
        return bounds if bounds is not None and all(isinstance(x, int) for x in bounds) else None
    if not isinstance(node, ast.BinOp):
        return None
    first, second = (_interval(side, names, numbers, ranges) for side in (node.left, node.right))
    if first is None or second is None:
        return None
    if isinstance(node.op, (ast.FloorDiv, ast.Mod)):
        return _by_number(node.op, first, second[0]) if second[0] == second[1] > 0 else None
    match node.op:
        case ast.Add():
            return first[0] + second[0], first[1] + second[1]
        case ast.Sub():
            return first[0] - second[1], first[1] - second[0]
        case ast.Mult():
            products = [x * y for x in first for y in second]
            return min(products), max(products)
    return None


def _by_number(op: ast.operator, values: tuple[int, int], number: int) -> tuple[int, int]:
    """What `//` or `%` by a positive number makes of an interval."""
    low, high = values
    if isinstance(op, ast.FloorDiv):
        return low // number, high // number
    return (low % number, high % number) if low // number == high // number else (0, number - 1)


def _compared(op: ast.cmpop, bounds: tuple[Any, Any] | None) -> bool | None:
    """Whether a comparison of two sums holds, by the least and the greatest value of their difference."""
    if bounds is None:
        return None
    low, high = bounds
    if isinstance(op, (ast.Eq, ast.NotEq)):
        equal, apart = is_proved(low >= 0) and is_proved(high <= 0), is_proved(low > 0) or is_proved(high < 0)
        return isinstance(op, ast.Eq) if equal else isinstance(op, ast.NotEq) if apart else None
    match op:
        case ast.Lt() | ast.GtE():
            below, above = high < 0, low >= 0
        case ast.LtE() | ast.Gt():
            below, above = high <= 0, low > 0
        case _:
            return None
    less = isinstance(op, (ast.Lt, ast.LtE))
    return less if is_proved(below) else not less if is_proved(above) else None


def solve_extents(
    accesses: list[tuple[Affine, Any]], known: dict[str, tuple[Any, Any]], wanted: set[str]
) -> dict[str, tuple[Any, Any]]:
    """The ranges of `wanted` names: the longest, from 0, for which no access leaves its dimension.

    `accesses` are the sums with the size of the dimension that each indexes; `known` the ranges
    (min, extent) found so far. A name that is beside another unknown name, or that runs backwards from 0 or less
    (`X[-i]`), is left out of the result.
    """
    found = dict(known)
    while True:
        candidates: dict[str, Any] = {}
        for affine, size in accesses:
            unknown = [n for n in affine.factors if n not in found]
            if len(unknown) != 1 or unknown[0] not in wanted:
                continue
            extent = _longest(affine, unknown[0], size, found)
            if extent is not None:
                candidates[unknown[0]] = _smaller(candidates.get(unknown[0]), extent)
        if not candidates:
            return {n: r for n, r in found.items() if n not in known}
        found.update({name: (0, extent) for name, extent in candidates.items()})


def shrunk(
    accesses: list[tuple[Affine, Any]], ranges: Mapping[str, tuple[Any, Any]], free: set[str]
) -> dict[str, tuple[Any, Any]]:
    """The ranges of `free` names cut so that no access reaches past the end of its dimension.

    An access cuts its name if it has one free name alone; of several, nothing says which one to cut. Nothing is cut
    away whole; arrays for which nothing would be left of a symbolic size are refused by the call.
    """
    result: dict[str, tuple[Any, Any]] = {}
    for affine, size in accesses:
        names = [n for n in affine.factors if n in free]
        if len(names) != 1 or affine.factors[names[0]] < 1 or any(n not in ranges for n in affine.factors):
            continue
        name = names[0]
        begin, extent = result.get(name, ranges[name])
        cut = _longest(affine, name, size, ranges)
        if begin == 0 and cut is not None and is_proved(cut < extent) and not is_proved(cut < 1):
            result[name] = (0, cut)
    return result


def _longest(affine: Affine, name: str, size: Any, found: Mapping[str, tuple[Any, Any]]) -> Any:
    """How far `name` may run from 0 with every index inside; None if the index has no end in that direction."""
    factor = affine.factors[name]
    others = Affine({n: f for n, f in affine.factors.items() if n != name}, affine.constant)
    bounds = others.bounds(found)
    if bounds is None:
        return None
    low, high = bounds
    if factor < 0:  # backwards from `low`, which is the index of 0
        if not is_proved(low > 0 if isinstance(low, int) else low >= 0):
            return None
        extent = low // -factor + 1
    else:
        reach = size - high
        extent = reach if factor == 1 else (reach - 1) // factor + 1
    return extent if isinstance(extent, int) else Analyzer().simplify(extent)


def _smaller(a: Any, b: Any) -> Any:
    """The smaller of two extents; the first if none is proved to be smaller."""
    if a is None or (isinstance(a, int) and isinstance(b, int)):
        return b if a is None else min(a, b)
    return b if is_proved(b <= a) else a


def is_proved(claim: Any) -> bool:
    """Whether a comparison of sizes, which are all at least 1, holds whatever they are."""
    if isinstance(claim, bool):
        return claim
    analyzer = Analyzer()
    sizes: dict[Var, None] = {}
    post_order_visit(claim, lambda node: sizes.setdefault(node) if isinstance(node, Var) else None)
    for size in sizes:
        analyzer.update(size, ConstIntBound(1, ConstIntBound.POS_INF))
    return analyzer.can_prove(claim)
