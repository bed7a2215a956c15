"""Concrete inputs for which two terms have different values, both computed exactly.

Floats are rational numbers, and numbers of 60 digits once a function is involved; integers wrap around as the machine's
do. An operation without an exact value at some inputs (a rounding, a quotient by zero) rules these inputs out.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.eval.ops import CALLS
from tvmagic.ir.dtype import integer_limits
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.ir.semantics import compute, wrap_int
from tvmagic.prove.terms import Terms

Number = Any  # int, bool, Fraction or Decimal
_DIGITS = Context(prec=60, Emax=10**6, Emin=-(10**6))
_CLOSE = Decimal("1e-30")  # differences below are taken for errors of 60 digits
_MOST_NODES = 20_000
_LARGEST = 200  # argument of an exponential function


class Undefined(Exception):
    """Raised if a term has no exact value for the given inputs."""


class NoLaw(Exception):
    """Raised if a term calls a function that cannot be evaluated to 60 digits, or if terms are too large."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True)
class Witness:
    """Inputs for which two terms differ, and the values of both. All other inputs are 0."""

    inputs: dict[str, str]
    got: str
    wanted: str


# ---------------------------------------------------------------------------- functions of 60 digits


def _decimal(value: Number) -> Decimal:
    if isinstance(value, Decimal):
        return value
    number = Fraction(value)
    return Decimal(number.numerator) / Decimal(number.denominator)


def _exp(x: Number) -> Number:
    if x == 0:
        return Fraction(1)
    if abs(x) > _LARGEST:
        raise Undefined
    return _decimal(x).exp()


def _log(x: Number) -> Number:
    if x <= 0:
        raise Undefined
    return Fraction(0) if x == 1 else _decimal(x).ln()


def _sqrt(x: Number) -> Number:
    if x < 0:
        raise Undefined
    if isinstance(x, Fraction):
        root = Fraction(_integer_root(x.numerator), _integer_root(x.denominator))
        if root * root == x:
            return root
    return _decimal(x).sqrt()


def _integer_root(n: int) -> int:
    return int(Decimal(n).sqrt())


def _tanh(x: Number) -> Number:
    if x == 0:
        return Fraction(0)
    twice = _exp(2 * x)
    return (twice - 1) / (twice + 1)


def _series(x: Number, factor: Callable[[int, Decimal], Decimal]) -> Decimal:
    """The sum of x * factor(1) * factor(2) * ...'s partial products."""
    argument = _decimal(x)
    if abs(argument) > 8:
        raise Undefined
    term = total = argument
    for n in itertools.count(1):
        term = term * factor(n, argument)
        total += term
        if abs(term) < Decimal("1e-58"):
            return total
    raise AssertionError


def _sin(x: Number) -> Number:
    return Fraction(0) if x == 0 else _series(x, lambda n, a: -a * a / (2 * n * (2 * n + 1)))


def _cos(x: Number) -> Number:
    half = _sin(x / 2)
    return 1 - 2 * half * half


def _erf(x: Number) -> Number:
    if x == 0:
        return Fraction(0)
    pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
    return 2 / pi.sqrt() * _series(x, lambda n, a: -a * a * (2 * n - 1) / (n * (2 * n + 1)))


def _pow(x: Number, y: Number) -> Number:
    if isinstance(y, Fraction) and y.denominator == 1 and abs(y) < 64:
        if x == 0 and y <= 0:
            raise Undefined
        return x ** int(y)
    if y == Fraction(1, 2):
        return _sqrt(x)
    return _exp(_decimal(y) * _decimal(_log(x)))


def _rounded(how: Callable[[Fraction], int]) -> Callable[[Number], Number]:
    def rounded(x: Number) -> Number:
        if not isinstance(x, Fraction):
            raise Undefined
        return Fraction(how(x))

    return rounded


FUNCTIONS: dict[str, Callable[..., Number]] = {
    "exp": _exp,
    "exp2": lambda x: _pow(Fraction(2), x),
    "exp10": lambda x: _pow(Fraction(10), x),
    "log": _log,
    "log2": lambda x: _log(x) / _decimal(_log(Fraction(2))) if x != 1 else Fraction(0),
    "log10": lambda x: _log(x) / _decimal(_log(Fraction(10))) if x != 1 else Fraction(0),
    "log1p": lambda x: _log(1 + x),
    "sqrt": _sqrt,
    "tanh": _tanh,
    "sin": _sin,
    "cos": _cos,
    "tan": lambda x: _sin(x) / _cos(x) if x != 0 else Fraction(0),
    "erf": _erf,
    "pow": _pow,
    "fabs": abs,
    "floor": _rounded(lambda x: x.__floor__()),
    "ceil": _rounded(lambda x: x.__ceil__()),
    "trunc": _rounded(lambda x: x.__trunc__()),
    "round": _rounded(round),
    "nearbyint": _rounded(round),
}


# ---------------------------------------------------------------------------- values of terms


class Evaluator:
    """Values of terms at inputs, exact."""

    def __init__(self, terms: Terms, roots: list[int]) -> None:
        self.terms = terms
        self.order = _ordered(terms, roots)

    def leaves(self) -> list[int]:
        """The inputs and unwritten elements among the terms."""
        leaf = {self.terms.code("input"), self.terms.code("unwritten")}
        return [t for t in self.order if int(self.terms.columns["op"][t]) in leaf]

    def values(self, inputs: Mapping[int, Number]) -> dict[int, Number]:
        """The value of each term. Raises `Undefined`, or `NoLaw` for a function that is not known."""
        found: dict[int, Number] = dict(inputs)
        for term in self.order:
            if term not in found:
                found[term] = self._value(term, found)
        return found

    def _value(self, term: int, found: Mapping[int, Number]) -> Number:
        columns, terms = self.terms.columns, self.terms
        op, dtype = terms.op_names[columns["op"][term]], terms.dtype_names[columns["dtype"][term]]
        if op == "const":
            value = terms.constant_value(term)
            if isinstance(value, str) and value != "-0.0":
                return value  # an infinity, of which a maximum starts
            return Fraction(0) if isinstance(value, str) else value
        operands = [int(columns[c][term]) for c in "abc" if columns[c][term]]
        args = [found[a] for a in operands]
        if op == "select":
            return args[1] if args[0] else args[2]
        if op in ("max", "min"):
            return _extremum(op, args)
        if op in ("lt", "le", "eq", "ne") and "nan" not in args:
            args = [float(a) if isinstance(a, str) else a for a in args]
        if any(isinstance(a, str) for a in args):
            raise Undefined
        kinds = [terms.dtype_names[columns["dtype"][a]] for a in operands]
        return _computed(op, dtype, kinds, args)


def _extremum(op: str, args: list[Number]) -> Number:
    start = "-inf" if op == "max" else "inf"
    finite = [a for a in args if a != start]
    if any(isinstance(a, str) for a in finite):
        raise Undefined
    return (max if op == "max" else min)(finite) if finite else start


_INTEGER_OPS = {
    "add": ir.Add, "sub": ir.Sub, "mul": ir.Mul, "truncdiv": ir.Div, "truncmod": ir.Mod, "floordiv": ir.FloorDiv,
    "floormod": ir.FloorMod,
}  # fmt: skip


def _computed(op: str, dtype: str, kinds: list[str], args: list[Number]) -> Number:
    """The value of an operation on numbers."""
    if op in ("lt", "le", "eq", "ne"):
        return _compared(op, *args)
    if op in ("and", "or", "not"):
        return not args[0] if op == "not" else (args[0] and args[1] if op == "and" else args[0] or args[1])
    if op.startswith("cast "):
        return _converted(args[0], kinds[0], dtype)
    if op in ("isnan", "isinf", "isfinite"):
        return op == "isfinite"
    if "float" not in dtype or any("float" not in k for k in kinds):
        if op in _INTEGER_OPS:
            if op[-3:] in ("div", "mod") and args[1] == 0:
                raise Undefined
            return compute(_INTEGER_OPS[op], args[0], args[1], ir.DataType(dtype))
        compute_call = CALLS.get(f"tir.{op}")
        if compute_call is None or "float" in dtype or any("float" in k for k in kinds):
            raise NoLaw(op)
        arrays = [np.asarray(a, numpy_dtype(ir.DataType(k))) for a, k in zip(args, kinds)]
        return int(compute_call(*arrays).astype(numpy_dtype(ir.DataType(dtype))))
    if op in ("add", "sub", "mul", "div"):
        x, y = args if all(isinstance(a, Fraction) for a in args) else map(_decimal, args)
        if op == "div":
            if y == 0 or (isinstance(y, Decimal) and abs(y) < _CLOSE):
                raise Undefined
            return x / y
        return x + y if op == "add" else x - y if op == "sub" else x * y
    if op not in FUNCTIONS:
        raise NoLaw(op)
    return FUNCTIONS[op](*args)


def _compared(op: str, x: Number, y: Number) -> bool:
    infinite = any(isinstance(v, float) for v in (x, y))
    if not infinite and (isinstance(x, Decimal) or isinstance(y, Decimal)):
        x, y = _decimal(x), _decimal(y)
        if abs(x - y) < _CLOSE * max(1, abs(x)):
            raise Undefined
    return x < y if op == "lt" else x <= y if op == "le" else x == y if op == "eq" else x != y


def _converted(value: Number, source: str, dtype: str) -> Number:
    if dtype == "bool":
        return value != 0
    if "float" not in dtype:
        if "float" in source:
            if not isinstance(value, Fraction):
                raise Undefined
            value = value.__trunc__()
            low, high = integer_limits(ir.DataType(dtype))
            if not low <= value <= high:
                raise Undefined
        return wrap_int(int(value), ir.DataType(dtype))
    number = Fraction(value) if not isinstance(value, Decimal) else value
    if isinstance(number, Decimal) or not is_exact(number, dtype):
        if "float" in source and ir.DataType(dtype).bits > ir.DataType(source).bits:
            return number
        raise Undefined
    return number


def is_exact(value: Fraction, dtype: str) -> bool:
    """Whether a float dtype has this number."""
    rounded = numpy_dtype(ir.DataType(dtype)).type(float(value))
    return bool(np.isfinite(float(rounded))) and Fraction(float(rounded)) == value


def _ordered(terms: Terms, roots: list[int]) -> list[int]:
    """The terms that `roots` are made of, operands first."""
    leaf = [terms.code(op) for op in ("input", "unwritten", "const")]
    seen, pending = set(roots), list(roots)
    while pending:
        if len(seen) > _MOST_NODES:
            raise NoLaw("terms too large")
        term = pending.pop()
        if int(terms.columns["op"][term]) in leaf:
            continue
        for column in "abc":
            child = int(terms.columns[column][term])
            if child and child not in seen:
                seen.add(child)
                pending.append(child)
    return sorted(seen)  # operands have smaller numbers


# ---------------------------------------------------------------------------- search


def find_witness(terms: Terms, got: int, wanted: int, seconds: float, seed: int = 0) -> tuple[Witness | None, str]:
    """Inputs at which two terms differ, or None and the reason."""
    try:
        evaluator = Evaluator(terms, [got, wanted])
        with localcontext(_DIGITS):
            found = _search(evaluator, got, wanted, seconds, seed)
            if found is None:
                return None, _no_law(evaluator)
            return _described(evaluator, got, wanted, found), ""
    except NoLaw as reason:
        if " " in reason.name:
            return None, reason.name
        return None, f"no law of `{reason.name}` was used"


def _no_law(evaluator: Evaluator) -> str:
    """Why terms that differ at no inputs that were tried are not proved equal."""
    terms = evaluator.terms
    ops = {terms.op_names[terms.columns["op"][t]] for t in evaluator.order}
    functions = sorted(op for op in ops & set(FUNCTIONS))
    law = f"no law of {' or '.join(f'`{f}`' for f in functions)} was used, and " if functions else ""
    return f"{law}no inputs were found for which it differs"


def _differ(evaluator: Evaluator, got: int, wanted: int, inputs: Mapping[int, Number]) -> bool:
    try:
        values = evaluator.values(inputs)
    except (Undefined, ArithmeticError):
        return False
    x, y = values[got], values[wanted]
    if isinstance(x, str) or isinstance(y, str):
        return False
    if isinstance(x, Decimal) or isinstance(y, Decimal):
        x, y = _decimal(x), _decimal(y)
        largest = max([1, *(abs(v) for v in values.values() if isinstance(v, (Decimal, Fraction)))])
        return abs(x - y) > _CLOSE * _decimal(largest)
    return x != y


def _search(evaluator: Evaluator, got: int, wanted: int, seconds: float, seed: int) -> dict[int, Number] | None:
    leaves, end = evaluator.leaves(), time.monotonic() + seconds
    for inputs in itertools.islice(_candidates(evaluator.terms, leaves, seed), 400):
        if _differ(evaluator, got, wanted, inputs):
            return _reduced(evaluator, got, wanted, inputs, end)
        if time.monotonic() > end:
            break
    return None


def _reduced(evaluator: Evaluator, got: int, wanted: int, inputs: dict[int, Number], end: float) -> dict[int, Number]:
    """The same with as many zeros and ones as are found in the time."""
    for span in (64, 8, 1):
        leaves = [t for t, v in inputs.items() if v != 0]
        for begin in range(0, len(leaves), span):
            for value in (0, 1):
                chosen = {t: type(inputs[t])(value) for t in leaves[begin : begin + span] if inputs[t] != value}
                if chosen and time.monotonic() < end and _differ(evaluator, got, wanted, inputs | chosen):
                    inputs = inputs | chosen
                    break
    return inputs


def _candidates(terms: Terms, leaves: list[int], seed: int) -> Iterator[dict[int, Number]]:
    """Inputs to try: small integers and fractions, ties, positive numbers; of integers also the largest ones."""
    random = np.random.default_rng(seed)
    kinds = [terms.dtype_names[terms.columns["dtype"][t]] for t in leaves]
    if len(leaves) == 1 and kinds[0] in ("int8", "uint8", "int16", "uint16", "bool"):
        low, high = integer_limits(ir.DataType(kinds[0]))
        yield from ({leaves[0]: n} for n in range(low, high + 1))
        return
    for turn in itertools.count():
        tie = int(random.integers(-3, 4))
        values: dict[int, Number] = {}
        for leaf, kind in zip(leaves, kinds):
            values[leaf] = _candidate(random, kind, turn % 8, tie)
        yield values


def _candidate(random: np.random.Generator, kind: str, turn: int, tie: int) -> Number:
    if kind == "bool":
        return bool(random.integers(2))
    if "float" in kind:
        if turn == 6 or (turn == 7 and random.integers(2)):
            return Fraction(tie)
        if turn in (1, 4):
            return Fraction(int(random.integers(1, 10)), int(random.choice([1, 2, 4])))
        if turn == 5:
            return Fraction(int(random.integers(-8, 9)) * 1000)
        return Fraction(int(random.integers(-8, 9)), 4 if turn == 2 else 1)
    low, high = integer_limits(ir.DataType(kind))
    if turn == 6:
        return min(max(tie, low), high)
    if turn in (1, 4):
        return int(random.choice([low, low + 1, high, high - 1, max(low, -1), 0, 1]))
    if turn in (2, 5):
        return int(random.integers(low, high, endpoint=True))
    return int(random.integers(max(low, -8), min(high, 8), endpoint=True))


def _described(evaluator: Evaluator, got: int, wanted: int, inputs: Mapping[int, Number]) -> Witness:
    terms, values = evaluator.terms, evaluator.values(inputs)
    named = {name_of(terms, t): number_text(v) for t, v in inputs.items() if v != 0}
    return Witness(named, number_text(values[got]), number_text(values[wanted]))


def name_of(terms: Terms, leaf: int) -> str:
    """The element of an input, such as `A[2, 3]`."""
    name, shape = terms.names[terms.columns["a"][leaf]]
    position = int(terms.columns["b"][leaf])
    return element_text(name, shape if shape and position < np.prod(shape) else (position + 1,), position)


def element_text(name: str, shape: tuple[int, ...], position: int) -> str:
    """The element at a flat position, such as `A[2, 3]`; of a scalar `A[()]`."""
    index = np.unravel_index(position, shape) if shape else ()
    return f"{name}[{', '.join(str(int(i)) for i in index) or '()'}]"


def number_text(value: Number) -> str:
    """A number as people read it."""
    if isinstance(value, Decimal):
        return f"{value:.17g}"
    if isinstance(value, Fraction) and value.denominator != 1:
        return (
            repr(float(value))
            if value.denominator < 1 << 12 and value.denominator & (value.denominator - 1) == 0
            else str(value)
        )
    return str(value if isinstance(value, bool) else int(value))
