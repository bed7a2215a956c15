"""Sizes of axes: sums of products of size variables, their quotients, and functions of those such as `Ceiling`.

A `Size` is kept in a normal form, so that two sizes that are equal as rational expressions are
equal objects for `==` and `hash`. The text is that of the graph's dump:
`Ceiling((40000 / (z0z1t_size)))`.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Union

from tvmagic import ir
from tvmagic.errors import TVMagicError

SizeLike = Union["Size", int]
_Monomial = tuple[tuple[Any, int], ...]  # (atom, power), sorted by the atom's text; an atom is a name or a _Function


class _Function:
    """An atom such as `Ceiling(argument)` or `Max(a, b)`."""

    __slots__ = ("arguments", "name")

    def __init__(self, name: str, arguments: tuple[Size, ...]) -> None:
        self.name, self.arguments = name, arguments

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Function) and (self.name, self.arguments) == (other.name, other.arguments)

    def __hash__(self) -> int:
        return hash((self.name, self.arguments))

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.arguments))})"


class Size:
    """A size: a number, a variable, or what `+`, `-`, `*`, `/` and `ceiling` make of them."""

    __slots__ = ("_hash", "constant", "terms")

    def __init__(self, terms: Mapping[_Monomial, Fraction]) -> None:
        kept = [(m, c) for m, c in terms.items() if c != 0]
        self.terms = tuple(sorted(kept, key=lambda t: [(str(a), p) for a, p in t[0]]))
        self.constant = _constant(self.terms)
        """The whole number that this is; None if it is not one."""
        self._hash = hash(self.terms)

    @staticmethod
    def of(value: SizeLike | str | Fraction) -> Size:
        """The size of a number, or the variable of a name."""
        return value if isinstance(value, Size) else _size_of(value)

    @property
    def is_one(self) -> bool:
        """Whether the size is known to be 1."""
        return self.constant == 1

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return self.constant == other
        return isinstance(other, Size) and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: SizeLike) -> Size:
        return _sum(self, Size.of(other))

    __radd__ = __add__

    def __sub__(self, other: SizeLike) -> Size:
        return self + Size.of(other) * -1

    def __mul__(self, other: SizeLike) -> Size:
        return _times(self, Size.of(other))

    __rmul__ = __mul__

    def __truediv__(self, other: SizeLike) -> Size:
        divisor = Size.of(other)
        if len(divisor.terms) != 1:
            if self == divisor and divisor.terms:
                return Size.of(1)
            raise TVMagicError(f"the size `{self}` cannot be divided by `{divisor}`", code="ascend.size.not_divisible")
        monomial, factor = divisor.terms[0]
        return Size({_product(m, monomial, -1): c / factor for m, c in self.terms})

    def __rtruediv__(self, other: SizeLike) -> Size:
        return Size.of(other) / self

    def covers(self, other: SizeLike) -> bool:
        """Whether this is known to be at least `other`; variables are at least 1."""
        rest = (self - other).terms
        whole = all(c >= 0 and all(p > 0 for _, p in m) for m, c in rest if m)
        return whole and sum(c for m, c in rest if all(_is_positive(atom) for atom, _ in m)) >= 0

    def names(self) -> set[str]:
        """The variables in it."""
        found: set[str] = set()
        for monomial, _ in self.terms:
            for atom, _ in monomial:
                found |= set().union(*(a.names() for a in atom.arguments)) if isinstance(atom, _Function) else {atom}
        return found

    def substitute(self, values: Mapping[str, SizeLike]) -> Size:
        """The size with some variables replaced."""
        total = Size.of(0)
        for monomial, factor in self.terms:
            term = Size.of(factor)
            for atom, power in monomial:
                if isinstance(atom, _Function):
                    new = function(atom.name, *(a.substitute(values) for a in atom.arguments))
                else:
                    new = Size.of(values.get(atom, atom))
                for _ in range(abs(power)):
                    term = term * new if power > 0 else term / new
            total = total + term
        return total

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The number for given variables; fractions are rounded up, as sizes are."""
        result = self.substitute(values)
        if result.names():
            missing = ", ".join(f"`{n}`" for n in sorted(result.names()))
            first = sorted(result.names())[0]
            raise TVMagicError(
                f"the size `{self}` is not a number: {missing} {'has' if len(result.names()) == 1 else 'have'} no value",
                hint=f"give one, as in {{'{first}': 1024}}",
                code="ascend.size.variable_without_value",
            )
        return math.ceil(result.terms[0][1]) if result.terms else 0

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        texts = [_term_text(m, c) for m, c in self.terms]
        return texts[0] if len(texts) == 1 else "(" + " + ".join(texts) + ")"

    __repr__ = __str__


# Graphs have few sizes, which every pass multiplies again: sums and products are remembered.
_remembered = functools.lru_cache(1 << 14)


@_remembered
def _size_of(value: int | str | Fraction) -> Size:
    return Size({((value, 1),) if isinstance(value, str) else (): Fraction(1 if isinstance(value, str) else value)})


@_remembered
def _sum(a: Size, b: Size) -> Size:
    terms = dict(a.terms)
    for monomial, factor in b.terms:
        terms[monomial] = terms.get(monomial, Fraction(0)) + factor
    return Size(terms)


@_remembered
def _times(a: Size, b: Size) -> Size:
    terms: dict[_Monomial, Fraction] = {}
    for left, x in a.terms:
        for right, y in b.terms:
            product = _product(left, right, 1)
            terms[product] = terms.get(product, Fraction(0)) + x * y
    return Size(terms)


def _constant(terms: tuple[tuple[_Monomial, Fraction], ...]) -> int | None:
    if not terms:
        return 0
    if len(terms) == 1 and not terms[0][0] and terms[0][1].denominator == 1:
        return int(terms[0][1])
    return None


def _product(left: _Monomial, right: _Monomial, sign: int) -> _Monomial:
    powers = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) + sign * power
    return tuple(sorted([(a, p) for a, p in powers.items() if p], key=lambda f: str(f[0])))


def _term_text(monomial: _Monomial, factor: Fraction) -> str:
    over = [str(a) for a, p in monomial for _ in range(p)]
    under = [str(a) for a, p in monomial for _ in range(-p)]
    if factor.numerator != 1 or not over:
        over.insert(0, str(factor.numerator))
    if factor.denominator != 1:
        under.insert(0, str(factor.denominator))
    text = " * ".join(over)
    if under:
        return f"({text} / ({' * '.join(under)}))"
    return text if len(over) == 1 else f"({text})"


def _is_positive(atom: Any) -> bool:
    """Whether an atom is known to be at least 1; a `Floor` or a `Mod` may be 0."""
    if not isinstance(atom, _Function):
        return True
    terms = atom.arguments[0].terms
    rounded_up = atom.name in ("Ceiling", "Align") and all(c > 0 for _, c in terms)
    return rounded_up and any(all(_is_positive(a) for a, _ in m) for m, _ in terms)


def _denominator(size: Size) -> Size:
    """The least product by which the size has whole factors and no quotients."""
    number, powers = 1, dict[Any, int]()
    for monomial, factor in size.terms:
        number = math.lcm(number, factor.denominator)
        for atom, power in monomial:
            powers[atom] = max(powers.get(atom, 0), -power)
    return Size({_product((), tuple(powers.items()), 1): Fraction(number)})


def ceiling(value: SizeLike) -> Size:
    """The least whole size that is not smaller; the size itself if it has no quotients."""
    size = Size.of(value)
    if not size.names():
        return Size.of(math.ceil(size.terms[0][1]) if size.terms else 0)
    if _denominator(size).is_one:
        return size
    return Size({((_Function("Ceiling", (size,)), 1),): Fraction(1)})


# What the functions of sizes do with numbers, how many arguments they have, and what they are in the IR.
NUMBERS: dict[str, tuple[int, Callable[..., Any]]] = {
    "Ceiling": (1, math.ceil),
    "Floor": (1, math.floor),
    "Max": (2, max),
    "Min": (2, min),
    "Mod": (2, lambda a, b: a % b),
    "Align": (2, lambda a, b: math.ceil(Fraction(a) / b) * b),
}
_EXPRESSIONS: dict[str, Callable[..., ir.PrimExpr]] = {
    "Max": ir.ops.maximum,
    "Min": ir.ops.minimum,
    "Mod": ir.ops.floormod,
    "Align": lambda a, b: ir.ops.ceildiv(a, b) * b,
}


def function(name: str, *arguments: SizeLike) -> Size:
    """A function of sizes (`Ceiling`, `Floor`, `Max`, `Min`, `Mod`, `Align`); a number if all arguments are numbers."""
    sizes = tuple(map(Size.of, arguments))
    count, compute = NUMBERS[name]
    if len(sizes) != count:
        raise TVMagicError(
            f"`{name}` of sizes takes {count} arguments, not {len(sizes)}", code="ascend.size.wrong_argument_count"
        )
    if name == "Ceiling":
        return ceiling(sizes[0])
    if not any(s.names() for s in sizes):
        values = [s.terms[0][1] if s.terms else Fraction(0) for s in sizes]
        if name in ("Mod", "Align") and not values[1]:
            raise TVMagicError(f"`{name}` of sizes divides by zero", code="ascend.size.division_by_zero")
        return Size.of(Fraction(compute(*values)))
    if name == "Floor" and _denominator(sizes[0]).is_one:
        return sizes[0]
    return Size({((_Function(name, sizes), 1),): Fraction(1)})


def from_expr(expr: ir.PrimExpr) -> Size | None:
    """Return the size that an expression of the IR is, or None unless it is made of integers, variables, `+`, `-` and `*`."""
    if isinstance(expr, ir.IntImm):
        return Size.of(expr.value)
    if isinstance(expr, ir.Var):
        return Size.of(expr.name)
    if not isinstance(expr, (ir.Add, ir.Sub, ir.Mul)):
        return None
    a, b = from_expr(expr.a), from_expr(expr.b)
    if a is None or b is None:
        return None
    return a + b if isinstance(expr, ir.Add) else a - b if isinstance(expr, ir.Sub) else a * b


def to_expr(size: Size, variables: Mapping[str, ir.PrimExpr], dtype: str = "int32") -> ir.PrimExpr:
    """The size as an expression of the IR; quotients are rounded up.

    `variables` holds an expression for each variable of the size.
    """
    denominator = _denominator(size)
    total: ir.PrimExpr | None = None
    for monomial, factor in (size * denominator).terms:
        term: ir.PrimExpr | None = None if factor == 1 and monomial else ir.IntImm(dtype, int(factor))
        for atom, power in monomial:
            if isinstance(atom, _Function):
                value = _function_expr(atom, variables, dtype)
            elif atom in variables:
                value = variables[atom]
            else:
                raise TVMagicError(
                    f"the size variable `{atom}` has no value here", code="ascend.size.variable_without_value"
                )
            for _ in range(power):
                term = value if term is None else term * value
        assert term is not None
        total = term if total is None else total + term
    total = ir.IntImm(dtype, 0) if total is None else total
    return total if denominator.is_one else ir.ops.ceildiv(total, to_expr(denominator, variables, dtype))


def _function_expr(atom: _Function, variables: Mapping[str, ir.PrimExpr], dtype: str) -> ir.PrimExpr:
    if atom.name == "Floor":
        size = atom.arguments[0]
        below = _denominator(size)
        return ir.ops.floordiv(to_expr(size * below, variables, dtype), to_expr(below, variables, dtype))
    values = [to_expr(a, variables, dtype) for a in atom.arguments]
    return values[0] if atom.name == "Ceiling" else _EXPRESSIONS[atom.name](*values)


_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|(.))")


class _Reader:
    """Reads the text of a size: sums of products of numbers, names, functions such as `Ceiling(...)`, parentheses."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [m.groups() for m in _TOKEN.finditer(text) if m.group().strip()]
        self.place = 0

    def fail(self) -> TVMagicError:
        return TVMagicError(f"`{self.text}` is not a size", code="ascend.size.not_a_size")

    def sign(self, choices: str) -> str | None:
        if self.place < len(self.tokens) and (sign := self.tokens[self.place][2]) and sign in choices:
            self.place += 1
            return sign
        return None

    def sum(self) -> Size:
        total = self.product()
        while sign := self.sign("+-"):
            total = total + self.product() if sign == "+" else total - self.product()
        return total

    def product(self) -> Size:
        total = self.atom()
        while sign := self.sign("*/"):
            total = total * self.atom() if sign == "*" else total / self.atom()
        return total

    def atom(self) -> Size:
        if self.sign("-"):
            return self.atom() * -1
        if self.sign("("):
            return self.closed()
        if self.place >= len(self.tokens):
            raise self.fail()
        number, name, _ = self.tokens[self.place]
        self.place += 1
        if name in NUMBERS and self.sign("("):
            return self.function(name)
        if number is None and name is None:
            raise self.fail()
        return Size.of(name if number is None else int(number))

    def function(self, name: str) -> Size:
        arguments = [self.sum()]
        while self.sign(","):
            arguments.append(self.sum())
        if not self.sign(")"):
            raise self.fail()
        return function(name, *arguments)

    def closed(self) -> Size:
        inside = self.sum()
        if not self.sign(")"):
            raise self.fail()
        return inside


def parse_size(text: str) -> Size:
    """The size of a text that `str` gave."""
    reader = _Reader(text)
    size = reader.sum()
    if reader.place != len(reader.tokens):
        raise reader.fail()
    return size
