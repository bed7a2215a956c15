"""Terms: what a program computes, as nodes with residues and hashes in place of numbers.

A term is a row of a table; its number stands for it in the interpreter's arrays. A row holds the operation, its operands,
and four things by which terms are compared: residues modulo p and q at random points, a strict hash (the same operations on
the same operands) and a chain hash (sums, products, maxima and minima up to the order of their operands). docs/prove.md
says what follows from equal ones.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tvmagic.eval.algebra import Unsupported

Array = Any

Q, P = 1073741789, 2147483579  # both prime, P = 2 Q + 1
HASH = np.uint64((1 << 61) - 1)  # modulus of chain hashes
TERM = np.dtype([("term", np.int64)])
MOST_TERMS = 6_000_000  # about 90 bytes each
SUM, PRODUCT, MAX, MIN = 1, 2, 3, 4  # kinds of chains
_COLUMNS = {
    "op": np.int16, "dtype": np.int16, "a": np.int32, "b": np.int32, "c": np.int32, "strict": np.uint64,
    "chain_kind": np.uint8, "chain": np.uint64, "zero": bool, "maxima_kind": np.uint8, "maxima": np.uint64,
    "exact": bool, "unwritten": bool, "format": np.int16, "degree": np.float32, "divisor": np.float32,
}  # fmt: skip
# unwritten: depends on memory that nothing wrote, or on an infinity or NaN
# format: the smallest float dtype known to hold every value; exact: no integer wrapped around on the way


class Redraw(Exception):
    """Raised if a divisor is 0 at some of the random points, so that other points are needed."""


class TooLarge(Unsupported):
    """Raised if a program has more terms than fit into memory."""


def mixed(*values: Array) -> Array:
    """A 64-bit hash of integers, elementwise."""
    result: Array = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        for value in values:
            result = (result ^ np.asarray(value, np.uint64)) * np.uint64(0xBF58476D1CE4E5B9)
            result = (result ^ (result >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
            result = result ^ (result >> np.uint64(29))
    return result


def text_hash(text: str) -> int:
    """A hash of a text that is the same in every process."""
    value = 14695981039346656037
    for byte in text.encode():
        value = (value ^ byte) * 1099511628211 % (1 << 64)
    return value


class Terms:
    """The table. Row 0 stands for memory that nothing wrote.

    points: pairs of residues per term. law: whether `exp` turns sums into products, for which residues modulo q are kept.
    """

    def __init__(self, points: int, seed: int, law: bool) -> None:
        self.points, self.law = points, law
        self.random = np.random.default_rng([seed, points, int(law)])
        self.key = self.random.integers(0, 1 << 63, points, np.uint64)[:, None]
        self.ops: dict[str, int] = {}
        self.op_names: list[str] = []
        self.dtypes: dict[str, int] = {"": 0}
        self.dtype_names = [""]
        self.constants: dict[tuple[str, Any], int] = {}
        self.constant_values: list[Any] = []
        self.units: dict[int, list[int]] = {0: [], 1: []}  # constants 0 and 1 of all dtypes
        self.names: list[tuple[str, tuple[int, ...]]] = []  # of inputs and of memory: their names and shapes
        self.calls = 0
        self.size, self.columns = 1, {name: np.zeros(1024, kind) for name, kind in _COLUMNS.items()}
        self.p = np.zeros((points, 1024), np.uint32)
        self.q = np.zeros((points, 1024 if law else 0), np.uint32)

    # ------------------------------------------------------------------------ rows

    def code(self, op: str) -> int:
        """The number of an operation."""
        if op not in self.ops:
            self.ops[op] = len(self.op_names)
            self.op_names.append(op)
        return self.ops[op]

    def dtype_code(self, dtype: Any) -> int:
        """The number of a scalar dtype."""
        name = str(dtype)
        if name not in self.dtypes:
            self.dtypes[name] = len(self.dtype_names)
            self.dtype_names.append(name)
        return self.dtypes[name]

    def column(self, name: str, terms: Array) -> Array:
        """A column's entries for terms."""
        return self.columns[name][terms]

    def truncate(self, size: int) -> None:
        """Forget the terms from number `size` on."""
        self.size = size
        self.constants = {key: term for key, term in self.constants.items() if term < size}
        self.units = {value: [term for term in terms if term < size] for value, terms in self.units.items()}

    def append(self, count: int, p: Array, q: Array, **columns: Array) -> Array:
        """New rows; returns their numbers."""
        begin, end = self.size, self.size + count
        if end > MOST_TERMS:
            raise TooLarge(
                f"cannot keep all terms: the program has more than {MOST_TERMS}", code="prove.too_many_terms"
            )
        while end > self.columns["op"].size:
            self.columns = {name: np.concatenate([c, np.zeros_like(c)]) for name, c in self.columns.items()}
            self.p = np.concatenate([self.p, np.zeros_like(self.p)], axis=1)
            self.q = np.concatenate([self.q, np.zeros_like(self.q)], axis=1)
        for name, array in self.columns.items():
            array[begin:end] = columns.get(name, 0)
        self.p[:, begin:end] = p
        if self.law:
            self.q[:, begin:end] = q
        self.size = end
        return np.arange(begin, end)

    def residues(self, terms: Array) -> tuple[Array, Array]:
        """Residues modulo p and q, as uint64; those modulo q are empty without the law of `exp`."""
        return self.p[:, terms].astype(np.uint64), self.q[:, terms if self.law else terms[:0]].astype(np.uint64)

    def leaf_hash(self, terms: Array) -> Array:
        """The hash of terms as operands, in which the order of chains does not count."""
        kind, chain = self.column("chain_kind", terms), self.column("chain", terms)
        return np.where(kind == 0, chain, mixed(kind, chain, self.column("zero", terms))) % HASH

    def opaque(self, salt: int, *hashes: Array) -> tuple[Array, Array]:
        """Residues of a function whose arguments have these hashes."""
        base = mixed(salt, *hashes)[None]
        q = mixed(self.key, 1, base) % np.uint64(Q) if self.law else base[:, :0]
        return mixed(self.key, 0, base) % np.uint64(P), q

    def value_hash(self, terms: Array, typed: bool = True) -> Array:
        """A hash of the residues of terms; of integers that wrap around also of their dtype."""
        p = self.p[:, terms]
        wraps = np.where(self.column("exact", terms), 0, self.column("dtype", terms) if typed else 0)
        return mixed(wraps, *p)

    # ------------------------------------------------------------------------ leaves

    def inputs(self, name: str, shape: tuple[int, ...], dtype: Any, op: str = "input") -> Array:
        """Fresh terms for the elements of an input, or of memory without content."""
        count = int(np.prod(shape, dtype=np.int64))
        self.names.append((name, shape))
        return self.leaves(np.arange(count), len(self.names) - 1, dtype, op)

    def leaves(self, positions: Array, name: int, dtype: Any, op: str) -> Array:
        """Fresh terms for elements of `names[name]`."""
        count = positions.size
        random = self.random.integers(0, Q, (self.points, count), np.uint64)
        strict = mixed(text_hash(op), self.size + np.arange(count))
        code = self.dtype_code(dtype)
        return self.append(
            count, random, random, op=self.code(op), dtype=code, a=name, b=positions, strict=strict, chain=strict % HASH,
            exact=True, unwritten=op == "unwritten", format=code, degree=1,
        )  # fmt: skip

    def constant(self, value: Any, dtype: Any) -> int:
        """The term of a number: an int, a bool, or a Fraction; a text for one that is none (`nan`, `inf`, `-0.0`)."""
        key = (str(dtype), value)
        if key not in self.constants:
            strict = np.uint64(text_hash(f"{dtype} {value}"))
            if isinstance(value, str) and value != "-0.0":
                p, q = self.opaque(text_hash(value), np.zeros(1, np.uint64))
            else:
                number = Fraction(0 if isinstance(value, str) else value)
                p, q = ([[number.numerator * pow(number.denominator, -1, m) % m]] for m in (P, Q))
            code = self.dtype_code(dtype)
            row = self.append(
                1, np.asarray(p), np.asarray(q), op=self.code("const"), dtype=code, a=len(self.constant_values),
                strict=strict, chain=strict % HASH, exact=True, format=code,
                unwritten=isinstance(value, str) and value != "-0.0",
            )  # fmt: skip
            self.constant_values.append(value)
            self.constants[key] = int(row[0])
            if not isinstance(value, str) and value in (0, 1):
                self.units[int(value)].append(int(row[0]))
        return self.constants[key]

    def constant_value(self, term: int) -> Any:
        """The number of a constant."""
        return self.constant_values[self.columns["a"][term]]

    def is_constant(self, terms: Array, value: int | None = None) -> Array:
        """Which terms are constants; with `value`, 0 or 1, which are that constant in any dtype."""
        if value is None:
            return self.column("op", terms) == self.code("const")
        return np.isin(terms, self.units[value])

    # ------------------------------------------------------------------------ operations

    def new(self, op: str, dtype: Any, args: list[Array], p: Array, q: Array, **columns: Array) -> Array:
        """Terms of an operation on flat arrays of terms. `symmetric`: the order of two operands does not count."""
        salt = np.uint64(text_hash(f"{op} {dtype}"))
        hashes = {"strict": [self.column("strict", a) for a in args], "chain": [self.leaf_hash(a) for a in args]}
        if columns.pop("symmetric", False):
            hashes = {k: [np.minimum(a, b), np.maximum(a, b)] for k, (a, b) in hashes.items()}
        strict, chain = mixed(salt, *hashes["strict"]), mixed(salt, *hashes["chain"]) % HASH
        degree, divisor = columns.pop("degrees", (1.0, 0.0))
        unwritten = np.logical_or.reduce([self.column("unwritten", a) for a in args])
        fields: dict[str, Array] = {
            "op": self.code(op), "dtype": self.dtype_code(dtype), "format": self.dtype_code(dtype), "strict": strict, "chain": chain, "exact": True,
            "unwritten": unwritten, "degree": degree, "divisor": divisor,
        }  # fmt: skip
        return self.append(args[0].size, p, q, **{**fields, **dict(zip("abc", args)), **columns})

    def degrees(self, op: str, a: Array, b: Array) -> tuple[Array, Array]:
        """Bounds of the degrees of numerator and denominator."""
        (m, n), (x, y) = ((self.column("degree", t), self.column("divisor", t)) for t in (a, b))
        if op == "mul":
            return m + x, n + y
        return (m + y, n + x) if op == "div" else (np.maximum(m + y, x + n), n + y)

    def add(self, dtype: Any, a: Array, b: Array, sign: int = 1) -> Array:
        """`a + b`, or `a - b`."""
        (ap, aq), (bp, bq) = self.residues(a), self.residues(b)
        p, q = ((x + (y if sign > 0 else np.uint64(m) - y)) % np.uint64(m) for x, y, m in ((ap, bp, P), (aq, bq, Q)))
        chains, zeros = [], []
        for terms in (a, b):
            inner, zero = self.column("chain_kind", terms) == SUM, self.is_constant(terms, 0)
            chains.append(np.where(inner, self.column("chain", terms), np.where(zero, 0, self.leaf_hash(terms))))
            zeros.append(np.where(inner, self.column("zero", terms), zero))
        chain = (chains[0] + (chains[1] if sign > 0 else HASH - chains[1])) % HASH
        made = self.new(
            "add" if sign > 0 else "sub", dtype, [a, b], p, q, symmetric=sign > 0, degrees=self.degrees("add", a, b),
            exact=not _wraps(dtype),
        )  # fmt: skip
        return self._chained(made, SUM, chain, zeros[0] | zeros[1])

    def multiply(self, dtype: Any, a: Array, b: Array) -> Array:
        """`a * b`."""
        (ap, aq), (bp, bq) = self.residues(a), self.residues(b)
        p, q = ap * bp % np.uint64(P), aq * bq % np.uint64(Q)
        made = self.new(
            "mul", dtype, [a, b], p, q, symmetric=True, degrees=self.degrees("mul", a, b), exact=not _wraps(dtype)
        )
        chains = [
            np.where(self.column("chain_kind", t) == PRODUCT, self.column("chain", t), self.leaf_hash(t))
            for t in (a, b)
        ]
        self._chained(made, PRODUCT, (chains[0] + chains[1]) % HASH)
        for one, other in ((a, b), (b, a)):  # a factor 1 is none
            unit = self.is_constant(one, 1)
            self.like(made[unit], other[unit], "chain_kind", "chain", "zero")
        return made

    def divide(self, dtype: Any, a: Array, b: Array) -> Array:
        """`a / b` of floats."""
        (ap, aq), (bp, bq) = self.residues(a), self.residues(b)
        zero = bp == 0
        never = zero.all(axis=0)
        if np.any(zero.any(axis=0) & ~never) or np.any((bq == 0) & ~never if self.law else False):
            raise Redraw
        p, q = ap * _inverse(bp, P) % np.uint64(P), aq * _inverse(bq, Q) % np.uint64(Q)
        if never.any():
            other = self.opaque(text_hash("divided by zero"), self.value_hash(a), self.value_hash(b))
            p, q = np.where(never, other[0], p), np.where(never, other[1], q) if self.law else q
        return self.new("div", dtype, [a, b], p, q, degrees=self.degrees("div", a, b))

    def extremum(self, op: str, dtype: Any, a: Array, b: Array, identity: Array) -> Array:
        """`max` or `min`. `identity`: for each operand, where it is the least (greatest) number of its dtype."""
        kind = MAX if op == "max" else MIN
        leaves, chains = [], []
        for terms, neutral in zip((a, b), identity):
            inner = self.column("maxima_kind", terms) == kind
            own = self.value_hash(terms) % HASH
            leaves.append(np.where(neutral, 0, np.where(inner, self.column("maxima", terms), own)))
            inner = self.column("chain_kind", terms) == kind
            chains.append(np.where(neutral, 0, np.where(inner, self.column("chain", terms), self.leaf_hash(terms))))
        maxima = (leaves[0] + leaves[1]) % HASH
        self.calls += a.size
        formats = [self.column("format", t) for t in (a, b)]
        made = self.new(
            op, dtype, [a, b], *self.opaque(kind, maxima), symmetric=True, maxima_kind=kind, maxima=maxima,
            format=np.where(formats[0] == formats[1], formats[0], self.dtype_code(dtype)),
        )  # fmt: skip
        self._chained(made, kind, (chains[0] + chains[1]) % HASH)
        for neutral, other in ((identity[0], b), (identity[1], a)):
            names = ("chain_kind", "chain", "zero", "maxima_kind", "maxima", "exact", "unwritten", "p", "q")
            self.like(made[neutral], other[neutral], *names)
        return made

    def select(self, dtype: Any, taken: Array, a: Array, b: Array) -> Array:
        """`a` where `taken`, else `b`: b + taken (a - b)."""
        residues = zip(self.residues(taken), self.residues(a), self.residues(b), map(np.uint64, (P, Q)))
        p, q = ((y + c * ((x + m - y) % m)) % m for c, x, y, m in residues)
        exact = self.column("exact", a) & self.column("exact", b)
        formats = [self.column("format", t) for t in (a, b)]
        degrees = self.degrees("add", a, b)
        return self.new(
            "select", dtype, [taken, a, b], p, q, exact=exact, degrees=(degrees[0] + 1, degrees[1]),
            format=np.where(formats[0] == formats[1], formats[0], self.dtype_code(dtype)),
        )  # fmt: skip

    def complement(self, op: str, args: list[Array], of: Array) -> Array:
        """The condition `op` that holds where the condition `of` does not."""
        p, q = ((np.uint64(m + 1) - r) % np.uint64(m) for r, m in zip(self.residues(of), (P, Q)))
        return self.new(op, "bool", args, p, q)

    def function(
        self, op: str, dtype: Any, args: list[Array], symmetric: bool = False, salt: str | None = None
    ) -> Array:
        """A function of which nothing is known but its name (and `salt`, by default its dtype)."""
        hashes = [self.value_hash(a) for a in args]
        hashes = [np.minimum(*hashes), np.maximum(*hashes)] if symmetric else hashes
        self.calls += args[0].size
        p, q = self.opaque(text_hash(f"{op} {dtype if salt is None else salt}"), *hashes)
        return self.new(op, dtype, args, p, q, symmetric=symmetric)

    def copied(self, op: str, dtype: Any, a: Array, exact: Array, form: Array = 0) -> Array:
        """A conversion that keeps the residues of its operand."""
        degrees = self.column("degree", a), self.column("divisor", a)
        return self.new(op, dtype, [a], *self.residues(a), exact=exact, degrees=degrees, format=form)

    def exponential(self, dtype: Any, a: Array) -> Array:
        """`exp(a)`: with the law, 4 to the power of a's residues modulo q."""
        made = self.function("exp", dtype, [a])
        if self.law:
            self.p[:, made] = _power(np.full_like(self.residues(a)[1], 4), self.residues(a)[1], P)
        return made

    def _chained(self, terms: Array, kind: int, chain: Array, zero: Array = False) -> Array:
        for name, value in (("chain_kind", kind), ("chain", chain), ("zero", zero)):
            self.columns[name][terms] = value
        return terms

    def like(self, terms: Array, others: Array, *names: str) -> None:
        """Give terms the columns of others; `p` and `q` are the residues."""
        for name in names:
            if name in ("p", "q"):
                residues = self.p if name == "p" else self.q
                if residues.size:
                    residues[:, terms] = residues[:, others]
            else:
                self.columns[name][terms] = self.columns[name][others]


def _wraps(dtype: Any) -> bool:
    return str(dtype).startswith(("int", "uint"))


def _inverse(values: Array, prime: int) -> Array:
    return _power(values, np.full_like(values, prime - 2), prime)


def _power(base: Array, exponent: Array, prime: int) -> Array:
    result, modulus = np.ones_like(base), np.uint64(prime)
    for bit in range(31):
        result = np.where((exponent >> np.uint64(bit)) & np.uint64(1) == 1, result * base % modulus, result)
        base = base * base % modulus
    return result
