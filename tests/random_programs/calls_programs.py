"""Random calls of every scalar function on arrays of special values, in all ways that the package computes them.

A seed's program is one function, or one of the result of another, perhaps guarded by a condition; it is compiled for
every target of `TARGETS`, element by element and in vectors, and evaluated by the reference and the interpreter.
What a function means is computed in Python's own integers and fractions where NumPy has no function for it.
"""

from __future__ import annotations

import fractions
import math
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import small_language as sl
from outcomes import TARGETS, Argument, Source, Wrong, check_call, guarded_call
from small_language import FLOATS, INTS, UINTS

COUNT = 37
UNSIGNED = {8: "uint8", 16: "uint16", 32: "uint32", 64: "uint64"}


def bits_of(dtype: str) -> int:
    return sl.numpy_dtype(dtype).itemsize * 8


def each(function: Callable[..., Any], dtype: str) -> Callable[..., Any]:
    """`function` on Python's numbers, for every element; it gives a number of `dtype`."""

    def run(*arrays: Any) -> Any:
        rows = [[a.item() if a.dtype.kind in "biu" else float(a) for a in array] for array in arrays]
        values = [function(*row) for row in zip(*rows)]
        kind = sl.numpy_dtype(dtype)
        return np.array(values, kind if kind.kind in "iu" else None).astype(kind)

    return run


def rounded(value: fractions.Fraction, dtype: str) -> float:
    """The nearest number of the float type, ties to even; an infinity if it is too large."""
    if not value:
        return 0.0
    info = ml_dtypes.finfo(sl.numpy_dtype(dtype))
    digits = sl.MANTISSA[dtype]
    numerator, denominator = abs(value.numerator), value.denominator
    exponent = numerator.bit_length() - denominator.bit_length()
    if fractions.Fraction(numerator, denominator) < fractions.Fraction(2) ** exponent:
        exponent -= 1
    exponent = max(exponent, int(info.minexp))
    unit = fractions.Fraction(2) ** (exponent - digits + 1)
    whole = round(abs(value) / unit) * unit  # Python rounds to even
    if whole > fractions.Fraction(float(info.max)):
        return math.inf if value > 0 else -math.inf
    return float(whole) if value > 0 else -float(whole)


def fused(dtype: str) -> Callable[..., float]:
    """x * y + z, rounded once."""

    def fma(x: float, y: float, z: float) -> float:
        if not all(map(math.isfinite, (x, y, z))):
            with np.errstate(all="ignore"):
                return float(np.float64(x) * np.float64(y) + np.float64(z))
        exact = fractions.Fraction(x) * fractions.Fraction(y) + fractions.Fraction(z)
        if exact:
            return rounded(exact, dtype)
        return x * y + z  # the sign of a zero

    return fma


def leading_zeros(bits: int) -> Callable[[int], int]:
    return lambda x: bits - (x & (1 << bits) - 1).bit_length()


def next_after(x: Any, y: Any) -> Any:
    """The neighbour of `x` in the direction of `y`, by its bits."""
    bits = x.view(np.dtype(f"int{x.dtype.itemsize * 8}"))
    sign = np.asarray(np.iinfo(bits.dtype).min, bits.dtype)
    a, b = x.astype("float64"), y.astype("float64")
    away = (a < b) == (a > 0)
    one = np.asarray(1, bits.dtype)
    moved = np.where(away, bits + one, bits - one)
    moved = np.where(a == 0, np.where(b < 0, sign | one, one), moved)
    moved = np.where(a == b, y.view(bits.dtype), moved).astype(bits.dtype)
    return np.where(np.isnan(a) | np.isnan(b), np.asarray(np.nan, x.dtype), moved.view(x.dtype))


def scaled(dtype: str) -> Callable[[float, int], float]:
    def ldexp(x: float, n: int) -> float:
        if not math.isfinite(x) or not x:
            return x
        n = max(-5000, min(5000, n))
        return rounded(fractions.Fraction(x) * fractions.Fraction(2) ** n, dtype)

    return ldexp


def shifted(dtype: str, left: bool) -> Callable[[int, int], int]:
    """NumPy's shifts: by too many places gives 0, or -1 for a negative number to the right."""
    bits = bits_of(dtype)
    low, high = sl.limits(dtype)

    def shift(x: int, n: int) -> int:
        if not 0 <= n < bits:
            return -1 if x < 0 and not left else 0
        value = x << n if left else x >> n
        return value if low <= value <= high else (value - low) % (1 << bits) + low

    return shift


def through_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        if args[0].dtype != sl.numpy_dtype("bfloat16"):
            return function(*args)
        return function(*[a.astype("float32") for a in args])

    return run


class Function(NamedTuple):
    """A function: its text with {} for arguments, what it means, the dtypes of arguments and result; in float64 and
    within a tolerance if `inexact`."""

    text: str
    meaning: Callable[..., Any]
    arguments: tuple[str, ...]
    result: str
    inexact: bool = False


def of_integers(rng: random.Random, dtype: str) -> list[Function]:
    bits, one, two = bits_of(dtype), (dtype,), (dtype, dtype)
    low, high = sl.limits(dtype)
    other = rng.choice((f"int{bits}", f"uint{bits}", *(["float16"] if bits == 16 else [])))
    if bits >= 32:
        other = rng.choice((other, f"float{bits}"))
    wrap = lambda v: (v - low) % (high - low + 1) + low  # noqa: E731
    return [
        Function("tir.clz({})", each(leading_zeros(bits), "int32"), one, "int32"),
        Function("te.popcount({})", each(lambda x: (x & (1 << bits) - 1).bit_count(), dtype), one, dtype),
        Function("({} << {})", each(shifted(dtype, True), dtype), two, dtype),
        Function("({} >> {})", each(shifted(dtype, False), dtype), two, dtype),
        Function("te.floordiv({}, {})", each(lambda x, y: wrap(x // y) if y else 0, dtype), two, dtype),
        Function("te.floormod({}, {})", each(lambda x, y: x % y if y else 0, dtype), two, dtype),
        Function("te.truncdiv({}, {})", each(lambda x, y: wrap(quotient(x, y)) if y else 0, dtype), two, dtype),
        Function("te.truncmod({}, {})", each(lambda x, y: x - y * quotient(x, y) if y else 0, dtype), two, dtype),
        Function("tir.abs({})", each(lambda x: wrap(abs(x)), dtype), one, dtype),
        *([Function("(-{})", each(lambda x: wrap(-x), dtype), one, dtype)] if low < 0 else []),
        Function("(~{})", each(lambda x: wrap(~x), dtype), one, dtype),
        Function("te.isnan({})", each(lambda x: False, "bool"), one, "bool"),
        Function("te.isinf({})", each(lambda x: False, "bool"), one, "bool"),
        Function("te.isfinite({})", each(lambda x: True, "bool"), one, "bool"),
        Function("te.round({})", lambda x: x, one, dtype),
        Function("({} * {} + {})", each(lambda x, y, z: wrap(x * y + z), dtype), (dtype,) * 3, dtype),
        Function(f'tir.reinterpret("{other}", {{}})', lambda x: x.view(other), one, other),
    ]


def quotient(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def of_floats(rng: random.Random, dtype: str) -> list[Function]:
    bits, one, two = bits_of(dtype), (dtype,), (dtype, dtype)
    other = rng.choice((f"int{bits}", f"uint{bits}"))
    back = sl.numpy_dtype(dtype)
    narrow = lambda f: lambda *a: through_float32(f)(*a).astype(back)  # noqa: E731
    return [
        Function("tir.fma({}, {}, {})", each(fused(dtype), dtype), (dtype,) * 3, dtype),
        Function("te.nextafter({}, {})", next_after, two, dtype),
        Function("te.copysign({}, {})", narrow(np.copysign), two, dtype),
        Function("te.ldexp({}, {})", each(scaled(dtype), dtype), (dtype, "int32"), dtype),
        Function("te.hypot({}, {})", lambda x, y: np.hypot(x.astype(float), y.astype(float)), two, dtype, True),
        Function("te.isnan({})", np.isnan, one, "bool"),
        Function("te.isinf({})", np.isinf, one, "bool"),
        Function("te.isfinite({})", np.isfinite, one, "bool"),
        Function("te.round({})", narrow(np.rint), one, dtype),
        Function("te.nearbyint({})", narrow(np.rint), one, dtype),
        Function("te.trunc({})", narrow(np.trunc), one, dtype),
        Function("te.floor({})", narrow(np.floor), one, dtype),
        Function("te.ceil({})", narrow(np.ceil), one, dtype),
        Function("tir.abs({})", narrow(np.abs), one, dtype),
        Function("te.sqrt({})", narrow(np.sqrt), one, dtype, dtype == "bfloat16"),
        Function("tir.max({}, {})", narrow(np.maximum), two, dtype),
        Function("tir.min({}, {})", narrow(np.minimum), two, dtype),
        Function("te.power({}, {})", lambda x, y: np.power(x.astype(float), y.astype(float)), two, dtype, True),
        Function(f'tir.reinterpret("{other}", {{}})', lambda x: x.view(other), one, other),
    ]  # fmt: skip


SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, -7.0, 100.0, 1 / 3, 1e-3, -1e-7, np.nan, np.inf, -np.inf)


def special_values(numbers: np.random.Generator, dtype: str) -> Any:
    """Numbers of the dtype, most of them special."""
    kind = sl.numpy_dtype(dtype)
    if dtype == "bool":
        return numbers.integers(0, 2, COUNT).astype(bool)
    if dtype in FLOATS:
        info = ml_dtypes.finfo(kind)
        ends = (float(info.max), -float(info.max), float(info.smallest_normal), float(info.smallest_subnormal))
        values = numbers.choice(np.array([*SPECIAL, *ends]), COUNT)
        some = numbers.random(COUNT) < 0.3
        values[some] = numbers.standard_normal(int(some.sum())) * 10.0 ** numbers.integers(-6, 6, int(some.sum()))
        with np.errstate(all="ignore"):
            return values.astype(kind)
    low, high = sl.limits(dtype)
    bits = bits_of(dtype)
    pool = [low, low + 1, high, high - 1, 0, 1, 2, 3, 7, bits - 1, bits, bits + 1, 2 * bits - 1, high // 3]
    pool += [-1, -2, -3, -7, -bits] if low < 0 else [high // 2, high // 2 + 1]
    values = [pool[k] for k in numbers.integers(0, len(pool), COUNT)]
    return np.array([v if low <= v <= high else high for v in values], kind)


class Case:
    """The function of a seed; `without` may name vectors, interpreter, guard, second."""

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        self.rng, self.seed, self.without = random.Random(seed), seed, without
        rng = self.rng
        self.dtype = rng.choice((*INTS, *UINTS, *FLOATS))
        self.function = self.choose(self.dtype)
        self.second: Function | None = None
        if rng.random() < 0.3 and "second" not in without and not self.function.inexact:
            if self.function.result != "bool":
                following = [f for f in self.table(self.function.result) if len(f.arguments) == 1]
                self.second = rng.choice(following)
        self.guarded = rng.random() < 0.25 and "guard" not in without
        self.calls: list[str] = []
        self.replay: list[str] | None = None
        self.target = TARGETS[0]

    def table(self, dtype: str) -> list[Function]:
        return of_floats(self.rng, dtype) if dtype in FLOATS else of_integers(self.rng, dtype)

    def choose(self, dtype: str) -> Function:
        return self.rng.choice(self.table(dtype))

    @property
    def last(self) -> Function:
        return self.second or self.function

    # ------------------------------------------------------------------ the program

    def make(self) -> None:
        """Write the computation."""
        self.source = source = Source(
            "from tvmagic.te.reference import evaluate", "from tvmagic.eval.machine import run_function"
        )
        names = []
        for n, dtype in enumerate(self.function.arguments):
            source.run(f'X{n} = te.placeholder(({COUNT},), "{dtype}", name="X{n}")')
            names.append(f"X{n}")
        shift = " - 5" if self.guarded else ""
        text = self.function.text.format(*[f"{name}[i{shift}]" for name in names])
        if self.second is not None:
            text = self.second.text.format(text)
        if self.guarded:
            text = f'te.if_then_else(i >= 5, {text}, tir.const({self.otherwise()!r}, "{self.last.result}"))'
        guarded_call("program", lambda: source.run(f'R = te.compute(({COUNT},), lambda i: {text}, name="R")'))

    def otherwise(self) -> Any:
        return 1.0 if self.last.result in FLOATS else self.last.result == "bool" or 1

    def value(self, arrays: list[Any]) -> Any:
        """What the computation means."""
        with np.errstate(all="ignore"):
            value = self.function.meaning(*arrays)
            if not self.function.inexact:
                value = np.asarray(value).astype(sl.numpy_dtype(self.function.result))
            if self.second is not None:
                value = self.second.meaning(value)
            value = np.asarray(value).astype(sl.numpy_dtype(self.last.result))
        if self.guarded:
            start = np.full(5, self.otherwise()).astype(value.dtype)
            value = np.concatenate([start, value[:-5]])
        return value

    # ------------------------------------------------------------------ the check

    def check(self) -> None:
        """Raise `Wrong` unless all ways give what the function means."""
        self.make()
        numbers = np.random.default_rng(self.seed)
        arrays = [special_values(numbers, dtype) for dtype in self.function.arguments]
        inexact = self.function.inexact or (self.second is not None and self.second.inexact)
        wanted = Argument(self.value(arrays), True, inexact)
        arguments = [*[Argument(a, False) for a in arrays], wanted]
        names = ", ".join([*[f"X{n}" for n in range(len(arrays))], "R"])
        source, rng = self.source, random.Random(self.seed)

        def reference(*given: Any) -> None:
            values = source.names["evaluate"](
                source.names["R"], dict(zip(map(source.get, names.split(", ")), given[:-1]))
            )
            given[-1][...] = values

        self.step("the reference", lambda: check_call(reference, arguments, rng))
        for split in (False, True):
            guarded_call("schedule", lambda: source.run("s = te.create_schedule(R.op)"))
            if split:
                source.run("outer, inner = s[R].split(R.op.axis[0], 8)\ns[R].vectorize(inner)")
            elif "interpreter" not in self.without:
                source.run(f"mod = tvmagic.lower(s, [{names}])")
                run = lambda *a: source.names["run_function"](source.names["mod"]["main"], a)  # noqa: E731
                self.step("the interpreter", lambda r=run: check_call(r, arguments, rng))
            for target in TARGETS:
                call = lambda t=target: source.run(f"f = tvmagic.build(s, [{names}], {t!r})")  # noqa: E731
                guarded_call("build", call)
                what = f"{target}{', vectors' * split}"
                self.step(what, lambda: check_call(source.names["f"], arguments, rng))

    def step(self, what: str, run: Callable[[], None]) -> None:
        try:
            run()
        except Wrong as error:
            second = f" of {self.second.text}" if self.second else ""
            raise Wrong(error.kind, f"{self.function.text} ({self.dtype}){second}, {what}: {error}") from error

    def text(self) -> str:
        """The program as a file that makes it."""
        return self.source.text()

    def holders(self) -> list[Any]:
        """Expressions for a shrinker: there are none that would matter."""
        return []
