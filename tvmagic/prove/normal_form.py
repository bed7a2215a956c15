"""Normal forms of terms: sums of monomials over inputs, functions and conditions.

They decide what residues cannot: maxima are sets, a condition times itself is itself, and the coefficients of integers are
taken modulo 2^n.
"""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

from tvmagic import ir
from tvmagic.prove.terms import Terms
from tvmagic.prove.witness import Evaluator, NoLaw

MOST_MONOMIALS = 10_000
Monomial = tuple[tuple[int, int], ...]  # atoms with their powers
Polynomial = dict[Monomial, Fraction]


class NormalForms:
    """Normal forms of terms of one table. Raises `NoLaw` if one is too large."""

    def __init__(self, terms: Terms, end: float) -> None:
        self.terms, self.end = terms, end  # of the clock
        self.atoms: dict[Any, int] = {}
        self.conditions: set[int] = set()  # atoms that are 0 or 1
        self.found: dict[int, Polynomial] = {}
        self.extrema: dict[
            Any, tuple[str, dict[Any, Polynomial]]
        ] = {}  # by the atom of each: its operator and operands
        self.size = 0

    def equal(self, got: int, wanted: int) -> bool:
        """Whether two terms have the same normal form."""
        for term in Evaluator(self.terms, [got, wanted]).order:
            if term not in self.found:
                self.found[term] = self._normal(term)
                self.size += len(self.found[term])
                if (
                    time.monotonic() > self.end
                    or len(self.found[term]) > MOST_MONOMIALS
                    or self.size > 20 * MOST_MONOMIALS
                ):
                    raise NoLaw("terms too large")
        return self._key(got) == self._key(wanted)

    def _key(self, term: int) -> Any:
        """What tells the value of a term from others."""
        dtype = self._dtype(term)
        return frozenset(_modulo(self.found[term], dtype).items())

    def _operand(self, term: int) -> Any:
        """A term as the argument of a function: its value, and how it wraps around."""
        wraps = "" if self.terms.columns["exact"][term] else self._dtype(term)
        return wraps, self._key(term)

    def _dtype(self, term: int) -> str:
        return self.terms.dtype_names[self.terms.columns["dtype"][term]]

    def _atom(self, key: Any, condition: bool = False) -> Polynomial:
        number = self.atoms.setdefault(key, len(self.atoms))
        if condition:
            self.conditions.add(number)
        return {((number, 1),): Fraction(1)}

    # ------------------------------------------------------------------------ operations

    def _normal(self, term: int) -> Polynomial:
        columns, terms = self.terms.columns, self.terms
        op, dtype = terms.op_names[columns["op"][term]], self._dtype(term)
        if op in ("input", "unwritten"):
            return self._atom((op, term), dtype == "bool")
        if op == "const":
            value = terms.constant_value(term)
            if isinstance(value, str) and value != "-0.0":
                return self._atom(("const", value))
            number = Fraction(0) if isinstance(value, str) else Fraction(value)
            return {(): number} if number else {}
        operands = [int(columns[c][term]) for c in "abc" if columns[c][term]]
        args = [self.found[t] for t in operands]
        if op in ("add", "sub"):
            return _modulo(_sum(args[0], args[1], -1 if op == "sub" else 1), dtype)
        if op == "mul":
            return _modulo(self._product(*args), dtype)
        if op == "div" and (inverse := _inverse(args[1])) is not None:
            return self._product(args[0], inverse)
        if op == "select":
            return _sum(args[2], self._product(args[0], _sum(args[1], args[2], -1)))
        if op in ("not", "and", "or", "ne", "le"):
            return self._condition(op, operands, args)
        if op in ("max", "min"):
            return self._extremum(op, dtype, operands)
        if op.startswith("cast ") and self._keeps_value(term, operands[0]):
            return args[0]
        keys = [self._operand(t) for t in operands]
        keys = sorted(keys, key=hash) if op == "eq" else keys
        salt = "" if op.startswith("cast ") and "float" not in dtype else dtype
        return self._atom((op, salt, *keys), dtype == "bool")

    def _keeps_value(self, term: int, operand: int) -> bool:
        """Whether a cast was given the residues of its operand."""
        return bool((self.terms.p[:, term] == self.terms.p[:, operand]).all())

    def _condition(self, op: str, operands: list[int], args: list[Polynomial]) -> Polynomial:
        one: Polynomial = {(): Fraction(1)}
        if op == "not":
            return _sum(one, args[0], -1)
        if op in ("and", "or"):
            both = self._product(*args)
            return both if op == "and" else _sum(_sum(args[0], args[1]), both, -1)
        keys = [self._operand(t) for t in operands]
        if op == "ne":
            return _sum(one, self._atom(("eq", "bool", *sorted(keys, key=hash)), True), -1)
        return _sum(one, self._atom(("lt", "bool", *reversed(keys)), True), -1)

    def _extremum(self, op: str, dtype: str, operands: list[int]) -> Polynomial:
        leaves: dict[Any, Polynomial] = {}
        start = "-inf" if op == "max" else "inf"
        for term in operands:
            key = frozenset(self.found[term].items())
            atom = self.extrema.get(key) if len(key) == 1 else None
            if atom is not None and atom[0] == op:
                leaves |= atom[1]
            elif self.found[term] != self._atom(("const", start)):
                leaves[self._operand(term)] = self.found[term]
        if len(leaves) == 1:
            return next(iter(leaves.values()))
        made = self._atom((op, frozenset(leaves)))
        self.extrema[frozenset(made.items())] = (op, leaves)
        return made

    def _product(self, a: Polynomial, b: Polynomial) -> Polynomial:
        result: Polynomial = {}
        if len(a) * len(b) > 20 * MOST_MONOMIALS:
            raise NoLaw("terms too large")
        for x, m in a.items():
            for y, n in b.items():
                powers = dict(x)
                for atom, power in y:
                    powers[atom] = 1 if atom in self.conditions else powers.get(atom, 0) + power
                key = tuple(sorted((atom, power) for atom, power in powers.items() if power))
                result[key] = result.get(key, Fraction(0)) + m * n
        return {key: value for key, value in result.items() if value}


def _sum(a: Polynomial, b: Polynomial, sign: int = 1) -> Polynomial:
    result = dict(a)
    for key, value in b.items():
        result[key] = result.get(key, Fraction(0)) + sign * value
        if not result[key]:
            del result[key]
    return result


def _inverse(a: Polynomial) -> Polynomial | None:
    """The inverse of a single monomial, else None."""
    if len(a) != 1:
        return None
    ((monomial, factor),) = a.items()
    return {tuple((atom, -power) for atom, power in monomial): 1 / factor}


def _modulo(a: Polynomial, dtype: str) -> Polynomial:
    """Coefficients of integers modulo 2^n."""
    if not dtype.startswith(("int", "uint")):
        return a
    size = 1 << ir.DataType(dtype).bits
    return {key: value % size for key, value in a.items() if value % size}
