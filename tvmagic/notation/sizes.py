"""The sizes and ranges of a cell of index notation: numbers, names of the notebook, and symbolic sizes."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tvmagic import te
from tvmagic.errors import TVMagicError
from tvmagic.ir import Mul, PrimExpr, Var
from tvmagic.ir.prim_expr import number_text
from tvmagic.ir.query import linear_terms, variables_in
from tvmagic.notation.expressions import NotationError, fail_at
from tvmagic.notation.source import Source

_LARGEST = (1 << 63) - 1
_MOST_BITS = 4096  # of what is multiplied in a size
_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.Pow: operator.pow,
}


class Sizes:
    """Reads sizes and ranges.

    `numbers` are the cell's own whole numbers, `values` the names from outside; what is in neither is
    a symbolic size, kept in `symbols`. `outside` has the numbers from outside that are, or are in, a size.
    """

    def __init__(self, source: Source, numbers: Mapping[str, int], values: Mapping[str, Any]) -> None:
        self.source, self.numbers, self.values = source, numbers, values
        self.symbols: dict[str, Any] = {}
        self.outside: dict[str, int] = {}
        self._places: dict[str, ast.expr] = {}

    def size(self, node: ast.expr) -> Any:
        """A dimension: a number, or an expression of symbolic sizes."""
        size = self._value(node)
        if isinstance(size, int) and not 1 <= size <= _LARGEST:
            limit = "most 2**63 - 1" if size > 0 else "least 1"
            hint = "of a symbolic size, as in `X: float32[n]`, an array may be empty" if size == 0 else None
            fail_at(
                self.source,
                node,
                f"a size is at {limit}, not {number_text(size)}",
                hint,
                code="notation.size.too_large",
            )
        return size

    def range(self, call: ast.Call) -> tuple[Any, Any]:
        """The least value and the number of values of `range(extent)` or `range(begin, end)`."""
        if len(call.args) not in (1, 2) or call.keywords:
            hint = "for every second element, index by a multiple: `X[2 * k]`" if len(call.args) == 3 else None
            fail_at(
                self.source,
                call,
                "an index range is `range(extent)` or `range(begin, end)`",
                hint,
                code="notation.size.wrong_range",
            )
        ends = [self._value(a) for a in call.args]
        begin, end = (0, ends[0]) if len(ends) == 1 else ends
        extent = end - begin
        if isinstance(extent, int) and not 0 < extent <= _LARGEST:
            what = "empty" if extent <= 0 else "too long"
            begin, end = [number_text(x) if isinstance(x, int) else x for x in (begin, end)]
            fail_at(self.source, call, f"the range from {begin} to {end} is {what}", code="notation.size.empty_range")
        return begin, extent

    def _value(self, node: ast.expr) -> Any:
        """A whole number, or an expression of symbolic sizes."""
        match node:
            case ast.Constant(value=int(value)) if not isinstance(value, bool):
                return value
            case ast.Name(id=name):
                return self._name(name, node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._value(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return self._combined(node, op, self._value(left), self._value(right))
        raise self._no_size(node, "write a whole number or a name")

    def _no_size(self, node: ast.expr, hint: str) -> NotationError:
        return NotationError(
            f"`{ast.unparse(node)}` is not a size",
            span=self.source.span(node),
            hint=hint,
            code="notation.size.not_a_size",
        )

    def _combined(self, node: ast.expr, op: ast.operator, a: Any, b: Any) -> Any:
        numbers = isinstance(a, int) and isinstance(b, int)
        if numbers and a.bit_length() + b.bit_length() > _MOST_BITS:
            raise self._no_size(node, "it has too many digits")
        if isinstance(op, (ast.LShift, ast.Pow)) and not (numbers and 0 <= b < 64 and abs(a) <= _LARGEST):
            raise self._no_size(node, "write a whole number or a name")
        try:
            return _OPERATORS[type(op)](a, b)
        except (ZeroDivisionError, TVMagicError) as error:
            fail_at(
                self.source,
                node,
                getattr(error, "message", "a size is divided by zero"),
                code="notation.size.not_computable",
            )

    def _name(self, name: str, node: ast.expr) -> Any:
        value = self.numbers.get(name, self.values.get(name))
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            if name not in self.numbers:
                self.outside[name] = int(value)
            return int(value)
        if isinstance(value, (float, np.floating)):
            fail_at(
                self.source,
                node,
                f"`{name}` is {value}, which is not a whole number",
                code="notation.size.not_an_integer",
            )
        if name not in self.symbols:
            self.symbols[name], self._places[name] = te.size_var(name), node
        return self.symbols[name]

    def check(self, name: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Every size that the operator `name` needs follows from the dimensions of its inputs."""
        shapes = [size for tensor in inputs for size in tensor.shape if isinstance(size, PrimExpr)]
        given = _determined(shapes)
        needed = {id(var) for var in [*_variables(outputs), *(v for size in shapes for v in variables_in(size))]}
        for symbol, var in self.symbols.items():
            if id(var) in needed and id(var) not in given:
                fail_at(
                    self.source, self._places[symbol],
                    f"no input of `{name}` has a dimension from which `{symbol}` follows",
                    f"declare an input with the dimension `{symbol}`, or give `{symbol}` a number", code="notation.size.not_determined",
                )  # fmt: skip


def _determined(shapes: Sequence[PrimExpr]) -> set[int]:
    """The symbols that the dimensions of arrays determine, by identity: a symbol alone, then in a sum with no other unknown."""
    given = {id(size) for size in shapes if isinstance(size, Var)}
    while True:
        found: set[int] = set()
        for size in shapes:
            unknown = [term for term, _ in linear_terms(size)[0] if any(id(v) not in given for v in variables_in(term))]
            symbols = {id(symbol): symbol for symbol in (_factor(term, given) for term in unknown)}
            if len(symbols) == 1 and all(symbol is not None for symbol in symbols.values()):
                found |= set(symbols)
        if found <= given:
            return given
        given |= found


def _factor(term: PrimExpr, given: set[int]) -> Var | None:
    """Return the unknown symbol of a product with known factors, or None if the term is another."""
    if isinstance(term, Var):
        return term
    if not isinstance(term, Mul):
        return None
    sides = [side for side in (term.a, term.b) if any(id(v) not in given for v in variables_in(side))]
    return _factor(sides[0], given) if len(sides) == 1 else None


def _variables(outputs: Iterable[Any]) -> Iterator[Var]:
    """The variables in the shapes and the expressions of tensors and of all that they read."""
    pending, seen = list(outputs), set()
    while pending:
        tensor = pending.pop()
        if id(tensor.op) in seen:
            continue
        seen.add(id(tensor.op))
        pending += tensor.op.input_tensors
        body = tensor.op.body if isinstance(tensor.op, te.ComputeOp) else ()
        for expr in (*tensor.shape, *body):
            if isinstance(expr, PrimExpr):
                yield from variables_in(expr)
