"""The interpreter's values as terms: what `eval.algebra.Plain` computes on numbers, on rows of `Terms`.

Every float is a term. Integers and conditions are plain as long as they follow from loops, sizes and constants alone, so
that indices, loops and guards are those of the interpreter.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.eval.algebra import Plain, Unsupported
from tvmagic.ir.constants import max_value, min_value
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.ir.semantics import plain
from tvmagic.prove.terms import TERM, P, Q, Terms

Array = Any
_COMPARISONS = {ir.LT: ("lt", False), ir.GT: ("lt", True), ir.LE: ("le", False), ir.GE: ("le", True)}
_CONSTANT_ON_REALS = {"isnan": False, "isinf": False, "isfinite": True}
_INTEGER_FUNCTIONS = {ir.Div: "truncdiv", ir.Mod: "truncmod", ir.FloorDiv: "floordiv", ir.FloorMod: "floormod"}


class NeedsNumbers(Exception):
    """Raised if inputs decide which statements run or which elements are accessed. `names`: the numbers of the inputs."""

    def __init__(self, names: set[int]) -> None:
        super().__init__(str(names))
        self.names = names


def is_term(value: Array) -> bool:
    """Whether an array holds terms."""
    return getattr(value, "dtype", None) is not None and value.dtype == TERM


class TermAlgebra(Plain):
    """Values as terms of one table.

    roundings: constants that stand for other numbers, by dtype and value.
    """

    def __init__(self, terms: Terms, roundings: dict[tuple[str, Fraction], Fraction] | None = None) -> None:
        self.terms, self.roundings = terms, roundings or {}

    # ------------------------------------------------------------------------ between numbers and terms

    def lifted(self, value: Array, dtype: ir.DataType) -> Array:
        """A value as terms; numbers become constants."""
        value = np.asarray(value)
        if is_term(value):
            return value
        numbers, inverse = np.unique(value.reshape(-1), return_inverse=True)
        element = dtype.element_of
        rows = np.asarray([self._constant(n, element) for n in numbers], np.int64)
        return rows[inverse.reshape(value.shape)].view(TERM).reshape(value.shape)

    def _constant(self, number: Any, dtype: ir.DataType) -> int:
        if not dtype.is_float:
            return self.terms.constant(bool(number) if dtype.is_bool else int(number), dtype)
        value = float(number)
        if not np.isfinite(value) or (value == 0 and np.signbit(value)):
            return self.terms.constant(str(value), dtype)
        exact = Fraction(value)
        return self.terms.constant(self.roundings.get((str(dtype), exact), exact), dtype)

    def numbers(self, value: Array, dtype: ir.DataType) -> Array | None:
        """Integer or boolean terms that are all constants as plain numbers; else None."""
        if not is_term(value):
            return value
        rows = value["term"]
        if dtype.is_float or dtype.is_handle or not np.all(self.terms.is_constant(rows)):
            return None
        unique, inverse = np.unique(rows.reshape(-1), return_inverse=True)
        found = np.asarray([self.terms.constant_value(int(t)) for t in unique], object)
        return np.asarray(found[inverse.reshape(rows.shape)]).astype(numpy_dtype(dtype.element_of))

    def _flat(self, *values: tuple[Array, ir.DataType]) -> tuple[tuple[int, ...], list[Array]]:
        """Values as flat arrays of terms of one shape."""
        arrays = np.broadcast_arrays(*[self.lifted(v, d)["term"] for v, d in values])
        return arrays[0].shape, [a.reshape(-1) for a in arrays]

    @staticmethod
    def _shaped(rows: Array, shape: tuple[int, ...]) -> Array:
        return np.ascontiguousarray(rows, np.int64).view(TERM).reshape(shape)

    # ------------------------------------------------------------------------ values

    def constant(self, node: Any) -> Array:
        if not node.dtype.is_float:
            return super().constant(node)
        return self.lifted(np.asarray(plain(node.value), numpy_dtype(node.dtype)), node.dtype)

    def zero(self, dtype: ir.DataType) -> Array:
        value = super().zero(dtype)
        return self.lifted(value, dtype) if dtype.is_float else value

    def binary(self, node: ir.BinaryOp, a: Array, b: Array) -> Array:
        source = node.a.dtype
        if isinstance(node, ir.LogicalOp):
            return self._logical(node, a, b)
        x, y = self.numbers(a, source), self.numbers(b, source)
        if x is not None and y is not None and not source.is_float:
            return super().binary(node, x, y)
        shape, (left, right) = self._flat((a, source), (b, source))
        return self._shaped(self._binary(type(node), node.dtype.element_of, source.element_of, left, right), shape)

    def _binary(self, kind: type, dtype: ir.DataType, source: ir.DataType, a: Array, b: Array) -> Array:
        terms = self.terms
        if kind in _COMPARISONS or kind in (ir.EQ, ir.NE):
            return self._compare(kind, source, a, b)
        if source.is_bool:
            raise Unsupported(
                f"cannot prove a {kind.__name__} of conditions: its operands depend on data", code="prove.unsupported"
            )
        if kind in (ir.Add, ir.Sub):
            return terms.add(dtype, a, b, 1 if kind is ir.Add else -1)
        if kind is ir.Mul:
            return terms.multiply(dtype, a, b)
        if kind in (ir.Max, ir.Min):
            op = kind.__name__.lower()
            return terms.extremum(op, dtype, a, b, [self._is_identity(op, a, b), self._is_identity(op, b, a)])
        if kind is ir.Div and dtype.is_float:
            return terms.divide(dtype, a, b)
        return terms.function(_INTEGER_FUNCTIONS[kind], dtype, [a, b])

    def _is_identity(self, op: str, rows: Array, others: Array) -> Array:
        """Which terms are the start of a maximum (minimum): no number of the other operand's dtype is beyond them."""
        if not np.any(self.terms.is_constant(rows)):
            return np.zeros(rows.shape, bool)
        forms, found = self.terms.column("format", others), np.zeros(rows.shape, bool)
        for code in np.unique(forms):
            dtype = self.terms.dtype_names[code]
            lowest = min_value(dtype) if op == "max" else max_value(dtype)
            starts = (("-inf" if op == "max" else "inf"), plain(lowest.value))  # type: ignore[attr-defined]
            terms = [self.terms.constants.get((d, start), -1) for d in self.terms.dtypes for start in starts]
            found |= (forms == code) & np.isin(rows, terms)
        return found

    def _compare(self, kind: type, source: ir.DataType, a: Array, b: Array) -> Array:
        terms = self.terms
        if kind in (ir.EQ, ir.NE):
            made = terms.function("eq", "bool", [a, b], symmetric=True)
            made = made if kind is ir.EQ else terms.complement("ne", [a, b], made)
        else:
            op, swapped = _COMPARISONS[kind]
            a, b = (b, a) if swapped else (a, b)
            made = terms.function("lt", "bool", [a, b] if op == "lt" else [b, a])
            made = made if op == "lt" else terms.complement("le", [a, b], made)
        constant = np.nonzero(terms.is_constant(a) & terms.is_constant(b))[0]
        for place in constant:  # comparisons of numbers are decided
            x, y = (float(v) if isinstance(v := terms.constant_value(int(t)), str) else v for t in (a[place], b[place]))
            holds = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y}
            op = terms.op_names[int(terms.columns["op"][int(made[place])])]
            made[place] = terms.constant(bool(holds[op]), "bool")
        return made

    def _logical(self, node: Any, a: Array, b: Array) -> Array:
        x, y = self.numbers(a, node.dtype), self.numbers(b, node.dtype)
        if x is not None and y is not None:
            return super().binary(node, x, y)
        shape, (left, right) = self._flat((a, node.dtype), (b, node.dtype))
        terms, is_and = self.terms, isinstance(node, ir.And)
        (lp, lq), (rp, rq) = terms.residues(left), terms.residues(right)
        moduli = zip((lp, lq), (rp, rq), map(np.uint64, (P, Q)))
        p, q = (u * v % m if is_and else (u + v + (m - u) * v % m) % m for u, v, m in moduli)
        made = terms.new("and" if is_and else "or", "bool", [left, right], p, q, symmetric=True)
        for one, other in ((left, right), (right, left)):
            absorbs, neutral = (self._is_bool(one, is_and is not taken) for taken in (True, False))
            made = np.where(absorbs, one, np.where(neutral, other, made))
        return self._shaped(made, shape)

    def _is_bool(self, rows: Array, value: bool) -> Array:
        return rows == self.terms.constants.get(("bool", value), -1)

    def invert(self, value: Array) -> Array:
        if not is_term(value):
            return super().invert(value)
        rows = value["term"].reshape(-1)
        made = self.terms.complement("not", [rows], rows)
        for constant in (True, False):
            made = np.where(self._is_bool(rows, constant), self.terms.constant(not constant, "bool"), made)
        return self._shaped(made, value.shape)

    def cast(self, value: Array, source: ir.DataType, dtype: ir.DataType) -> Array:
        element, start = dtype.element_of, source.element_of
        if element == start:
            return value
        numbers = self.numbers(value, source)
        if numbers is not None and not source.is_float:
            result = super().cast(numbers, source, dtype)
            return self.lifted(result, dtype) if dtype.is_float else result
        shape, (rows,) = self._flat((value, source))
        return self._shaped(self._cast(rows, start, element), shape)

    def _cast(self, rows: Array, source: ir.DataType, dtype: ir.DataType) -> Array:
        terms, op = self.terms, f"cast {dtype}"
        if dtype.is_bool:
            zero = np.full_like(rows, self._constant(0, source))
            return self._compare(ir.NE, source, rows, zero)
        if source.is_bool:
            return terms.copied(op, dtype, rows, True, terms.dtype_code(dtype))
        if source.is_float:
            if not dtype.is_float:
                return terms.function(op, dtype, [rows])
            form = terms.column("format", rows)
            fits = np.isin(form, [terms.dtype_code(d) for d in _FORMATS[str(dtype)] if d in terms.dtypes])
            made = terms.function(op, dtype, [rows])
            kept = rows[fits]
            if kept.size:  # a widening, or a narrowing of what was widened
                made[fits] = terms.copied(op, dtype, kept, True, form[fits])
            return made
        if dtype.is_float:
            return self._as_floats(rows, source, dtype)
        exact = terms.column("exact", rows)
        widens = dtype.bits > source.bits and (source.is_uint or dtype.is_int)
        if not widens:  # modulo 2^n the same polynomial
            return terms.copied(op, dtype, rows, False)
        made = terms.copied(op, dtype, rows, True)
        if not exact.all():
            made[~exact] = terms.function(op, dtype, [rows[~exact]], salt="integer")
        return made

    def _as_floats(self, rows: Array, source: ir.DataType, dtype: ir.DataType) -> Array:
        """Integers as floats. A select of integers becomes one of floats."""
        terms = self.terms
        made, op = terms.function(f"cast {dtype}", dtype, [rows]), terms.column("op", rows)
        for place in np.nonzero(terms.is_constant(rows))[0]:
            number = np.asarray(terms.constant_value(int(rows[place])), numpy_dtype(source))
            made[place] = self.lifted(super().cast(number, source, dtype), dtype)["term"]
        selects = op == terms.code("select")
        if np.any(selects):
            c, a, b = (terms.column(operand, rows[selects]).astype(np.int64) for operand in "abc")
            yes, no = (self._as_floats(side, source, dtype) for side in (a, b))
            terms.like(made[selects], self._select(c, yes, no, dtype), "p", "q", "chain", "chain_kind", "zero")
        return made

    def call(self, name: str, node: ir.Call, args: list[Array]) -> Array:
        name, dtypes = name.removeprefix("tir."), [a.dtype for a in node.args]
        numbers = [self.numbers(a, d) for a, d in zip(args, dtypes)]
        if all(n is not None for n in numbers) and not node.dtype.is_float and not any(d.is_float for d in dtypes):
            return super().call(name, node, numbers)  # type: ignore[arg-type]
        shape, rows = self._flat(*zip(args, dtypes))
        return self._shaped(self._call(name, node, rows), shape)

    def _call(self, name: str, node: ir.Call, rows: list[Array]) -> Array:
        terms, dtype = self.terms, node.dtype.element_of
        one = np.full_like(rows[0], self._constant(1, dtype)) if dtype.is_float else rows[0]
        if name == "exp":
            return terms.exponential(dtype, rows[0])
        if name == "sigmoid":
            negative = terms.add(dtype, np.full_like(rows[0], self._constant(0, dtype)), rows[0], -1)
            return terms.divide(dtype, one, terms.add(dtype, one, terms.exponential(dtype, negative)))
        if name == "rsqrt":
            return terms.divide(dtype, one, terms.function("sqrt", dtype, rows))
        if name == "fma" and dtype.is_float:
            return terms.add(dtype, terms.multiply(dtype, rows[0], rows[1]), rows[2])
        if name == "pow":
            half = self._constant(0.5, dtype)
            if np.all(rows[1] == half):
                return terms.function("sqrt", dtype, rows[:1])
        if name in _CONSTANT_ON_REALS and node.args[0].dtype.is_float:
            value = np.uint64(_CONSTANT_ON_REALS[name])
            full = np.full((terms.points, rows[0].size), value)
            return terms.new(name, "bool", rows, full, full if terms.law else full[:, :0])
        if not 1 <= len(rows) <= 3 or not isinstance(node.op, ir.Op) or node.op.name in ("tir.call_extern",):
            raise Unsupported(
                f"cannot prove a call of `{name}`: it may do more than compute a value", code="prove.unsupported"
            )
        return terms.function(name, dtype, rows)

    # ------------------------------------------------------------------------ conditions

    def branches(self, taken: Array) -> tuple[Array, Array, bool]:
        if not is_term(taken):
            return super().branches(taken)
        may, may_not = ~self._is_bool(taken["term"], False), ~self._is_bool(taken["term"], True)
        return may, may_not, bool(np.any(may & may_not))

    def select(self, taken: Array, yes: Array, no: Array, dtype: ir.DataType) -> Array:
        if not is_term(taken):
            if is_term(yes) or is_term(no):
                yes, no = self.lifted(yes, dtype), self.lifted(no, dtype)
            return np.where(taken, yes, no)
        shape, (c, a, b) = self._flat((taken, ir.DataType("bool")), (yes, dtype), (no, dtype))
        return self._shaped(self._select(c, a, b, dtype.element_of), shape)

    def _select(self, c: Array, a: Array, b: Array, dtype: Any) -> Array:
        made = self.terms.select(dtype, c, a, b)
        self._note_extrema(made, c, a, b, dtype)
        made = np.where(self._is_bool(c, True) | (a == b), a, np.where(self._is_bool(c, False), b, made))
        return made

    def _note_extrema(self, made: Array, c: Array, a: Array, b: Array, dtype: Any) -> None:
        """Give `b < a ? a : b` the residues of a maximum, and `a < b ? a : b` those of a minimum."""
        terms = self.terms
        compares = np.isin(terms.column("op", c), [terms.code("lt"), terms.code("le")])
        if not np.any(compares):
            return
        left, right = (terms.value_hash(terms.column(operand, c)) for operand in "ab")
        yes, no = terms.value_hash(a), terms.value_hash(b)
        for op, where in (("max", (left == no) & (right == yes)), ("min", (left == yes) & (right == no))):
            where &= compares
            if np.any(where):
                x, y = a[where], b[where]
                neutral = [self._is_identity(op, x, y), self._is_identity(op, y, x)]
                extremum = terms.extremum(op, dtype, x, y, neutral)
                terms.like(made[where], extremum, "p", "q", "maxima", "maxima_kind", "exact")

    def merged(self, taken: Array, yes: np.ndarray, no: np.ndarray) -> np.ndarray:
        c, a, b = np.broadcast_arrays(*(v["term"] for v in (taken, yes, no)))
        a, b = (self._written(side) for side in (a, b))
        codes = np.unique(self.terms.column("dtype", np.concatenate([a, b])))
        if codes.size != 1:
            raise Unsupported(
                "cannot merge the branches of an `if`: they store several dtypes in the same memory",
                code="prove.unsupported",
            )
        return self._shaped(self._select(np.ascontiguousarray(c), a, b, self.terms.dtype_names[codes[0]]), a.shape)

    def _written(self, rows: Array) -> Array:
        if np.any(rows == 0):
            raise Unsupported(
                "cannot merge the branches of an `if`: only one of them stores to an element that was not written before",
                code="prove.unsupported",
            )
        return np.ascontiguousarray(rows)

    def decide(self, value: Array, node: ir.PrimExpr) -> Array:
        numbers = self.numbers(value, node.dtype)
        if numbers is not None:
            return numbers
        leaves = self.leaves_of(np.unique(value["term"]))
        names = {int(n) for n in self.terms.column("a", leaves)}
        floats = [self.terms.dtype_names[d] for d in np.unique(self.terms.column("dtype", leaves))]
        if any("float" in d for d in floats) or np.any(self.terms.column("unwritten", leaves)):
            raise Unsupported(
                f"cannot run a program for all inputs: `{node}` depends on floats and decides what runs",
                code="prove.control_depends_on_data",
            )
        raise NeedsNumbers(names)

    def leaves_of(self, rows: Array) -> Array:
        """The inputs and the unwritten elements that terms depend on."""
        seen, pending = np.zeros(self.terms.size, bool), rows
        leaf = [self.terms.code(op) for op in ("input", "unwritten")]
        while pending.size:
            seen[pending] = True
            inner = ~np.isin(self.terms.column("op", pending), [*leaf, self.terms.code("const")])
            children = np.unique(np.concatenate([self.terms.column(c, pending[inner]) for c in "abc"]))
            pending = children[(children > 0) & ~seen[children]]
        found = np.nonzero(seen)[0]
        return found[np.isin(self.terms.column("op", found), leaf)]

    # ------------------------------------------------------------------------ memory

    def fresh(self, dtype: ir.DataType, shape: tuple[int, int]) -> np.ndarray:
        return np.zeros(shape, TERM)

    def memory_of(self, data: np.ndarray, dtype: ir.DataType) -> np.ndarray:
        return self.lifted(data, dtype)

    def loaded(self, elements: np.ndarray, dtype: ir.DataType) -> Array:
        rows, element = elements["term"], dtype.element_of
        other = (self.terms.column("dtype", rows) != self.terms.dtype_code(element)).reshape(-1)
        if np.any(other):  # the bits of a value of another dtype
            rows = rows.reshape(-1).copy()
            rows[other] = self.terms.function("reinterpret", element, [rows[other]])
            return self._shaped(rows, elements.shape)
        numbers = self.numbers(elements, dtype)
        return elements if numbers is None else numbers

    def stored(self, value: Array, dtype: ir.DataType, memory: np.ndarray) -> Array:
        return self.lifted(value, dtype)

    def element_size(self, memory: np.ndarray) -> int | None:
        return None


_WIDER = {"float16": ("float32", "float64"), "bfloat16": ("float32", "float64"), "float32": ("float64",)}
# the float dtypes all of whose numbers a dtype has
_FORMATS = {
    wide: (wide, *(narrow for narrow, wider in _WIDER.items() if wide in wider))
    for wide in ("float16", "bfloat16", "float32", "float64")
}
