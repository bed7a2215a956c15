"""Random expressions of the testers' language: sizes, indices inside their tensors, values of every dtype."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import small_language as sl
from small_language import FLOATS, INTS, UINTS, Expr

SMALL = {"bfloat16": 8, "float16": 16, "int8": 16, "uint8": 16}  # what values are clamped to; 64 for the others


class Size(NamedTuple):
    """The size `factor * variable + offset`; a number without a variable."""

    offset: int
    variable: str = ""
    factor: int = 0

    def value(self, sizes: dict[str, int]) -> int:
        return self.factor * sizes[self.variable] + self.offset if self.variable else self.offset

    @property
    def least(self) -> int:
        """The smallest value that it has, unless a variable is 0: then an index may be outside, in a loop that does not run."""
        return self.offset + self.factor

    def at_most(self, other: Size) -> bool:
        """Whether it is never greater than `other`."""
        if not self.variable:
            return self.offset <= other.least
        return self.variable == other.variable and self.factor <= other.factor and self.least <= other.least

    def __str__(self) -> str:
        if not self.variable:
            return str(self.offset)
        text = self.variable if self.factor == 1 else f"{self.variable} * {self.factor}"
        return (
            text if self.offset == 0 else f"{text} + {self.offset}" if self.offset > 0 else f"{text} - {-self.offset}"
        )

    def expr(self, sizes: dict[str, int]) -> Expr:
        """The size in an index."""
        if not self.variable:
            return sl.constant(self.offset, sl.INDEX)
        result = sl.variable(self.variable, 1, sizes[self.variable])
        if self.factor != 1:
            result = sl.apply("mul", result, sl.constant(self.factor, sl.INDEX))
        if self.offset:
            result = sl.apply("add", result, sl.constant(self.offset, sl.INDEX))
        return result


class TensorInfo(NamedTuple):
    """What an expression has to know of a tensor that it reads."""

    name: str
    dtype: str
    shape: tuple[Size, ...]
    low: float
    high: float
    fraction: int = 0
    special: bool = False

    @property
    def is_index(self) -> bool:
        """Whether all its values are indices as well."""
        low, high = sl.limits(sl.INDEX)
        return low <= self.low and self.high <= high


class Axis(NamedTuple):
    """A loop variable that runs from `low` for `extent` iterations."""

    name: str
    extent: Size
    low: int = 0

    def var(self, sizes: dict[str, int]) -> Expr:
        return sl.variable(self.name, max(self.extent.value(sizes), 1), self.low)


class Values:
    """Makes expressions. `wrap`: integers may leave their dtype."""

    def __init__(self, rng: random.Random, sizes: dict[str, int], wrap: bool, without: frozenset[str]) -> None:
        self.rng, self.sizes, self.wrap, self.without = rng, sizes, wrap, without

    # ------------------------------------------------------------------ indices

    def index(self, size: Size, axes: list[Axis], guards: list[Expr], tensors: list[TensorInfo]) -> Expr:
        """An index into a dimension of `size` elements; what it needs to be inside is added to `guards`."""
        rng = self.rng
        const = lambda n: sl.constant(n, sl.INDEX)  # noqa: E731
        bound = size.expr(self.sizes)
        if not axes or rng.random() < 0.06:
            return const(rng.randrange(max(size.least, 1)))
        axis = rng.choice(axes)
        var = axis.var(self.sizes)
        chance = rng.random()
        if chance < 0.15:
            moved = rng.choice(
                [
                    sl.apply("sub", var, const(rng.randint(0, 3))),
                    sl.apply("add", var, const(rng.randint(0, 3))),
                    sl.apply("sub", sl.apply("mul", var, const(2)), const(1)),
                ]
            )
            guards += [sl.apply("ge", moved, const(0)), sl.apply("lt", moved, bound)]
            return moved
        if chance < 0.2:
            gathers = [t for t in tensors if t.dtype in ("int32", "int64", "uint8") and t.is_index and not self.wrap]
            if gathers and "gather" not in self.without:
                place = self.load(rng.choice(gathers), axes, guards, [])
                return sl.apply("floormod", sl.cast(place, sl.INDEX), bound)
        if chance < 0.26:
            return sl.apply("max", sl.apply("min", var, sl.apply("sub", bound, const(1))), const(0))
        last = axis.extent._replace(offset=axis.extent.offset + axis.low)  # one more than the greatest value
        choices = [lambda: sl.apply("floormod", var, bound)]
        if last.at_most(size):
            spare = size.offset - last.offset if size.factor == last.factor else 0
            choices += [lambda: sl.apply("add", var, const(rng.randint(0, spare))) if spare > 0 else var] * 5
            choices += [lambda: sl.apply("sub", sl.apply("sub", bound, const(1)), var)]
        if not axis.extent.variable and not size.variable:
            if 2 * last.offset - 1 <= size.offset:
                choices += [lambda: sl.apply("mul", var, const(2))] * 2
            if (last.offset + 1) // 2 <= size.offset:
                choices += [lambda: sl.apply("floordiv", var, const(2))]
            for other in axes:
                if other is not axis and not other.extent.variable:
                    end = other.extent.offset + other.low
                    if end + last.offset - 1 <= size.offset:
                        choices += [lambda o=other: sl.apply("add", var, o.var(self.sizes))] * 2
                    if end * last.offset <= size.offset:
                        scaled = sl.apply("mul", var, const(end))
                        choices += [lambda o=other, v=scaled: sl.apply("add", v, o.var(self.sizes))]
        return rng.choice(choices)()

    def load(self, tensor: TensorInfo, axes: list[Axis], guards: list[Expr], tensors: list[TensorInfo]) -> Expr | None:
        """An element of the tensor; None if an index needs a guard and `guards` is no place for it."""
        indices = [self.index(size, axes, guards, tensors) for size in tensor.shape]
        return sl.load(tensor, indices)

    def condition(self, axes: list[Axis], tensors: list[TensorInfo] = []) -> Expr:
        """A condition on the axes, or sometimes on an element."""
        rng = self.rng
        if tensors and rng.random() < 0.3:
            element = self.leaf(rng.choice(tensors).dtype, axes, tensors)
            if element.dtype == "bool":
                return element
            other = self.number(element.dtype)
            return sl.apply(rng.choice(sl.COMPARISONS), element, other)
        axis = rng.choice(axes) if axes else None
        if axis is None:
            return sl.apply("lt", sl.constant(rng.randint(0, 1), sl.INDEX), sl.constant(1, sl.INDEX))
        var, extent = axis.var(self.sizes), axis.extent
        const = lambda n: sl.constant(n, sl.INDEX)  # noqa: E731
        kind = rng.randrange(5)
        if kind == 0:
            return sl.apply("eq", sl.apply("floormod", var, const(2)), const(0))
        if kind == 1:
            other = rng.choice(axes).var(self.sizes)
            return sl.apply(rng.choice(("lt", "le", "ne")), var, other)
        if kind == 2:
            first, second = self.condition(axes), self.condition(axes)
            return sl.apply(rng.choice(("and", "or")), first, second)
        if kind == 3 and rng.random() < 0.5:
            return sl.apply("not", self.condition(axes))
        bound = const(rng.randint(0, extent.least)) if rng.random() < 0.7 else extent.expr(self.sizes)
        return sl.apply(rng.choice(("lt", "ge", "gt")), var, bound)

    # ------------------------------------------------------------------ values

    def number(self, dtype: str) -> Expr:
        rng = self.rng
        if dtype == "bool":
            return sl.constant(rng.random() < 0.5, dtype)
        if dtype in UINTS:
            return sl.constant(rng.choice((0, 1, 2, 3, 5)), dtype)
        if dtype in INTS and self.wrap and rng.random() < 0.15:
            return sl.constant(rng.choice(sl.limits(dtype)), dtype)
        value = rng.choice((-3, -2, -1, 0, 1, 2, 3))
        return sl.constant(float(value) if dtype in FLOATS else value, dtype)

    def clamp(self, e: Expr, size: int | None = None) -> Expr:
        """`e` between -size and size (0 and size, if it has no sign), and whole if it is a float."""
        size = size or SMALL.get(e.dtype, 64)
        if e.fraction > 2:
            e = sl.apply("floor", e)
        if e.magnitude <= size:
            return e
        high = sl.constant(float(size) if e.is_float else size, e.dtype)
        low = sl.constant(-high.value if e.dtype not in UINTS else 0, e.dtype)
        return sl.apply("max", sl.apply("min", e, high), low)

    def tame(self, op: str, *args: Expr) -> Expr:
        """`op` of `args`, those clamped before if the result would not be exact."""
        integer = args[-1].dtype in INTS + UINTS
        if not integer or not self.wrap:
            result = sl.apply(op, *args)
            if (not result.is_exact) or sl.overflows(op, *args):
                size = 1 if op == "mul" and args[-1].dtype in ("int8", "bfloat16") else 4
                fixed = [a if a.dtype == "bool" or a.op == "const" else self.clamp(a, size) for a in args]
                result = sl.apply(op, *fixed)
                if args[-1].dtype in UINTS and sl.overflows(op, *fixed):  # a difference below zero
                    return fixed[0] if fixed[0].dtype != "bool" else fixed[1]
                if result.is_float and not result.is_exact:
                    return fixed[-1]
            return result
        return sl.apply(op, *args)

    def cast(self, e: Expr, dtype: str) -> Expr:
        """`e` as `dtype`, clamped before if the value would not fit."""
        if e.dtype == dtype:
            return e
        if dtype == "bool":
            zero = sl.constant(0.0 if e.is_float else 0, e.dtype)
            return sl.apply("ne", e, zero)
        if e.special and dtype not in FLOATS:
            return self.number(dtype)
        if dtype in FLOATS:
            trial = sl.cast(e, dtype)
            return trial if trial.is_exact else sl.cast(self.clamp(e, SMALL.get(dtype, 64)), dtype)
        least, greatest = sl.limits(dtype)
        if e.is_float or not self.wrap:
            if not least <= e.low <= e.high <= greatest:
                e = self.clamp(e, 8)
            if dtype in UINTS and e.low < 0:
                e = sl.apply("abs", e)
        return sl.cast(e, dtype)

    def leaf(self, dtype: str, axes: list[Axis], tensors: list[TensorInfo]) -> Expr:
        rng = self.rng
        chance = rng.random()
        if chance < 0.1 or not tensors:
            return self.number(dtype)
        if chance < 0.2 and axes:
            var = rng.choice(axes).var(self.sizes)
            return self.cast(var, dtype)
        tensor = rng.choice(tensors[-3:])
        guards: list[Expr] = []
        element = self.load(tensor, axes, guards, tensors)
        if guards:
            condition = guards[0]
            for guard in guards[1:]:
                condition = sl.apply("and", condition, guard)
            element = sl.apply("if", condition, element, self.number(element.dtype))
        return self.cast(element, dtype)

    def value(self, dtype: str, axes: list[Axis], tensors: list[TensorInfo], depth: int = 2) -> Expr:
        """An expression of `dtype` on elements of `tensors` at indices of `axes`."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.2:
            return self.leaf(dtype, axes, tensors)
        again = lambda t=dtype: self.value(t, axes, tensors, depth - 1)  # noqa: E731
        chance = rng.random()
        if chance < 0.12:
            return sl.apply(rng.choice(("select", "if")), self.condition(axes, tensors), again(), again())
        if chance < 0.2:
            return self.cast(again(rng.choice(sl.DTYPES)), dtype)
        if dtype == "bool":
            return self.truth(again, axes, tensors)
        return self.float(dtype, again) if dtype in FLOATS else self.integer(dtype, again)

    def truth(self, again: Any, axes: list[Axis], tensors: list[TensorInfo]) -> Expr:
        rng = self.rng
        kind = rng.random()
        if kind < 0.4:
            dtype = rng.choice([t.dtype for t in tensors] or ["int32"])
            return sl.apply(rng.choice(sl.COMPARISONS), again(dtype), again(dtype))
        if kind < 0.6:
            return self.condition(axes, tensors)
        if kind < 0.7:
            return sl.apply("not", again())
        return sl.apply(rng.choice(("and", "or")), again(), again())

    def float(self, dtype: str, again: Any) -> Expr:
        rng = self.rng
        op = rng.choice(("add", "add", "sub", "mul", "mul", "max", "min", "neg", "abs", "div", "whole", "self"))
        if op == "div":
            e = again()
            e = self.clamp(e) if e.fraction > 1 else e
            return self.tame("div", e, sl.constant(rng.choice((2.0, 4.0)), dtype))
        if op == "whole":
            ops = ("floor", "ceil", "trunc") if "round" in self.without else ("floor", "ceil", "trunc", "round")
            return sl.apply(rng.choice(ops), again())
        if op in ("neg", "abs"):
            return sl.apply(op, again())
        if op == "self":  # what algebra of real numbers would fold
            if "algebra" in self.without:
                return again()
            e, f = again(), again()
            return rng.choice(
                (
                    lambda: self.tame("sub", self.tame("add", e, f), f),
                    lambda: self.tame("sub", e, e),
                    lambda: self.tame("mul", e, sl.constant(0.0, dtype)),
                )
            )()
        return self.tame(op, again(), again())

    def integer(self, dtype: str, again: Any) -> Expr:
        rng = self.rng
        bits = np.dtype(dtype).itemsize * 8
        group = rng.random()
        if group < 0.5:
            ops = ("add", "sub", "mul", "max", "min")
            return self.tame(rng.choice(ops), again(), again())
        if group < 0.65:
            op = rng.choice(("floordiv", "floormod", "truncdiv", "truncmod"))
            divisor = sl.constant(rng.choice((1, 2, 3, 4, 7)), dtype)
            if rng.random() < 0.3 and dtype in INTS:
                divisor = sl.constant(rng.choice((-1, -2, -3)), dtype)
            if rng.random() < 0.25:
                divisor = again()
                if "zero" in self.without or not sl.loads(divisor):  # an index divides only by what is not 0
                    divisor = self.tame("max", divisor, sl.constant(1, dtype))
            return self.tame(op, again(), divisor)
        if group < 0.8:
            return sl.apply(rng.choice(("bitand", "bitor", "bitxor")), again(), again())
        if group < 0.9:
            e = again()
            if rng.random() < 0.5:
                return sl.apply("shr", e, sl.constant(rng.randrange(bits), dtype))
            if self.wrap:
                return sl.apply("shl", e, sl.constant(rng.randrange(bits), dtype))
            small = sl.apply("shl", self.clamp(e, 4), sl.constant(rng.randrange(4), dtype))
            return small._replace(low=-32 if dtype in INTS else 0, high=32)
        e = again()
        if dtype in UINTS:
            return sl.apply("invert", e) if self.wrap else e
        if rng.random() < 0.3:
            return sl.apply("invert", e)
        return self.tame(rng.choice(("neg", "abs")), e)
