"""The canonical form of index expressions: sums of scaled splits.

A split is `((index % upper) // lower) * scale`, by floored or truncated division; a sum is
`split + ... + base`. Neither is an expression of the program: `normalize` makes one of them.
"""

from __future__ import annotations

from typing import NamedTuple

from tvmagic.arith.rewrite.compile import BUILDERS
from tvmagic.ir import Add, DataType, Div, FloorDiv, FloorMod, IntImm, Mod, Mul, PrimExpr, Sub, Var
from tvmagic.ir.deep_equal import deep_equal
from tvmagic.ir.fold import wrap_int
from tvmagic.ir.ops import cast

TRUNC, FLOOR = 0, 1
UNBOUNDED = 1 << 64  # no upper factor; compares as the largest, and is no divisor

_QUOTIENT = (BUILDERS[Div], BUILDERS[FloorDiv])
_REMAINDER = (BUILDERS[Mod], BUILDERS[FloorMod])
_add, _sub, _mul = BUILDERS[Add], BUILDERS[Sub], BUILDERS[Mul]


def constant(dtype: DataType, value: int) -> IntImm:
    """An integer constant, as the type holds it."""
    return IntImm(dtype, wrap_int(value, dtype))


def divide(e: PrimExpr, divisor: int, mode: int) -> PrimExpr:
    """`e / divisor` in a division mode."""
    return _QUOTIENT[mode](e, constant(e.dtype, divisor))


def remainder(e: PrimExpr, divisor: int, mode: int) -> PrimExpr:
    """`e % divisor` in a division mode."""
    return _REMAINDER[mode](e, constant(e.dtype, divisor))


class Split(NamedTuple):
    """`((index % upper) // lower) * scale`; `upper` is a multiple of `lower` or `UNBOUNDED`."""

    index: PrimExpr  # pyright: ignore[reportIncompatibleMethodOverride]  # in place of the tuple's own `index`
    lower: int = 1
    upper: int = UNBOUNDED
    scale: int = 1
    mode: int = TRUNC

    @property
    def dtype(self) -> DataType:
        """The type of the value."""
        return self.index.dtype

    def scaled(self, factor: int) -> Split:
        """The split times `factor`."""
        return Split(self.index, self.lower, self.upper, self.scale * factor, self.mode)

    def with_scale(self, scale: int) -> Split:
        """The split with another scale."""
        return Split(self.index, self.lower, self.upper, scale, self.mode)

    def same_index(self, other: Split) -> bool:
        """Whether both split one index."""
        return self.index is other.index or deep_equal(self.index, other.index)

    def compatible(self, mode: int) -> bool:
        """Whether the division mode can be taken to be `mode`."""
        return self.mode == mode or (self.lower == 1 and self.upper == UNBOUNDED)

    def steps(self) -> list[PrimExpr]:
        """The expressions on the way from the index to the value."""
        found = [self.index]
        if self.upper != UNBOUNDED:
            found.append(remainder(found[-1], self.upper, self.mode))
        if self.lower != 1:
            found.append(divide(found[-1], self.lower, self.mode))
        if self.scale != 1:
            found.append(_mul(found[-1], constant(self.dtype, self.scale)))
        return found

    def normalize(self, sign: int = 1) -> PrimExpr:
        """The expression, times `sign`."""
        dtype = self.index.dtype
        if self.scale == 0:
            return IntImm(dtype, 0)
        result = self.index
        if self.upper != UNBOUNDED:
            result = remainder(result, self.upper, self.mode)
        if self.lower != 1:
            result = divide(result, self.lower, self.mode)
        scale = self.scale * sign
        return result if scale == 1 else _mul(result, constant(dtype, scale))

    def cast_to(self, dtype: DataType) -> Split:
        """The same of another type."""
        return Split(cast(dtype, self.index), self.lower, self.upper, self.scale, self.mode)


class Sum(NamedTuple):
    """The sum of splits and `base`.

    Splits of one index stand together, those of a larger lower factor first.
    """

    dtype: DataType
    args: tuple[Split, ...] = ()
    base: int = 0

    @property
    def is_zero(self) -> bool:
        """Whether the sum is the constant 0."""
        return self.base == 0 and not self.args

    def plus(self, value: int) -> Sum:
        """The sum plus a constant."""
        return Sum(self.dtype, self.args, self.base + value)

    def times(self, factor: int) -> Sum:
        """The sum times a constant."""
        return Sum(self.dtype, tuple([a.scaled(factor) for a in self.args]), self.base * factor)

    def over(self, divisor: int) -> Sum:
        """The sum divided by what divides all of it."""
        return Sum(self.dtype, tuple([a.with_scale(a.scale // divisor) for a in self.args]), self.base // divisor)

    def plus_split(self, other: Split, factor: int) -> Sum:
        """The sum plus `other * factor`."""
        args = list(self.args)
        _insert(args, other, factor)
        return Sum(self.dtype, tuple(args), self.base)

    def plus_sum(self, other: Sum, factor: int) -> Sum:
        """The sum plus `other * factor`."""
        args = list(self.args)
        if len(other.args) > 4:
            args = _join_long(args, other.args, factor)
        else:
            for split in other.args:
                _insert(args, split, factor)
        return Sum(self.dtype, tuple(args), self.base + other.base * factor)

    def separate(self, divisor: int) -> tuple[Sum, Sum]:
        """The part that `divisor` divides, and the rest."""
        whole = tuple([a for a in self.args if a.scale % divisor == 0])
        rest = tuple([a for a in self.args if a.scale % divisor])
        divisible = self.base % divisor == 0
        return Sum(self.dtype, whole, self.base if divisible else 0), Sum(
            self.dtype, rest, 0 if divisible else self.base
        )

    def normalize(self) -> PrimExpr:
        """The expression: terms with positive scale by descending scale, then what is subtracted."""
        dtype = self.dtype
        result: PrimExpr = IntImm(dtype, 0)
        if not self.args:
            return constant(dtype, self.base)
        args = _merge(list(self.args))
        lowest = self.base == -(1 << (dtype.bits - 1))
        for split in args:
            if split.scale > 0:
                result = _add(result, split.normalize())
        if self.base > 0 or lowest:
            result = _add(result, constant(dtype, self.base))
        for split in args:
            if split.scale < 0:
                result = _sub(result, split.normalize(-1))
        if self.base < 0 and not lowest:
            result = _sub(result, constant(dtype, -self.base))
        return result

    def cast_to(self, dtype: DataType) -> Sum:
        """The same of another type."""
        return Sum(dtype, tuple([a.cast_to(dtype) for a in self.args]), self.base)


def _insert(args: list[Split], other: Split, factor: int) -> None:
    """Add `other * factor` where it belongs."""
    if other.scale == 0:
        return
    start = _first_of(args, other.index)
    for j in range(start, len(args)):
        known = args[j]
        if other.lower > known.lower or (j > start and not known.same_index(other)):
            args.insert(j, other.scaled(factor))
            return
        if other.lower == known.lower and other.upper == known.upper and other.compatible(known.mode):
            args[j] = known.with_scale(known.scale + other.scale * factor)
            return
    args.append(other.scaled(factor))


def _first_of(args: list[Split], index: PrimExpr) -> int:
    """The place of the first split of `index`; the end if there is none."""
    kind = None if isinstance(index, Var) else type(index)  # a variable is equal to itself alone
    for place, split in enumerate(args):
        known = split.index
        if known is index or (type(known) is kind and deep_equal(known, index)):
            return place
    return len(args)


def _join_long(args: list[Split], others: tuple[Split, ...], factor: int) -> list[Split]:
    """`_insert` of many splits at once: one list for each index, those of variables found by a table."""
    segments: list[list[Split]] = []
    for split in args:  # those of one index stand together
        if segments and segments[-1][0].same_index(split):
            segments[-1].append(split)
        else:
            segments.append([split])
    known = {id(segment[0].index): segment for segment in segments}
    for split in others:
        if split.scale == 0:
            continue
        found = known.get(id(split.index))
        if found is None and not isinstance(split.index, Var):
            place = _first_of([segment[0] for segment in segments], split.index)
            found = segments[place] if place < len(segments) else None
        if found is None:
            found = known[id(split.index)] = [split.scaled(factor)]
            segments.append(found)
        else:
            _insert(found, split, factor)
    return [split for found in segments for split in found]


def _merge(args: list[Split]) -> list[Split]:
    """Join splits of one index: (x // 6) * 6 + (x % 6 // 3) * 3 is (x // 3) * 3; then sort."""
    for i in range(len(args)):
        if args[i].scale == 0:
            continue
        for j in range(i + 1, len(args)):
            lhs, rhs = args[i], args[j]
            if not lhs.same_index(rhs) or lhs.upper < rhs.lower:
                break
            if lhs.upper == rhs.upper and lhs.lower == rhs.lower and lhs.compatible(rhs.mode):
                args[j] = rhs.with_scale(rhs.scale + lhs.scale)
                args[i] = lhs.with_scale(0)
            elif (
                lhs.lower == rhs.upper
                and rhs.scale != 0
                and lhs.scale % rhs.scale == 0
                and lhs.lower == lhs.scale // rhs.scale * rhs.lower
                and lhs.compatible(rhs.mode)
            ):
                args[j] = Split(rhs.index, rhs.lower, lhs.upper, rhs.scale, rhs.mode)
                args[i] = lhs.with_scale(0)
                break
    args.sort(key=lambda s: (-s.scale, -s.lower, -s.upper, -s.mode))
    return args
