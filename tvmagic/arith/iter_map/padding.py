"""Padding of iterators, so that a divisor divides their extents.

With `i` from 0 to 18, `i // 4` and `i % 4` count through a padded iterator of extent 20. A first
pass over all indices collects the divisors of each iterator, a second one puts the padded iterator
in its place; the predicate says where the padding lies.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tvmagic.arith.int_set import negate
from tvmagic.arith.iter_map.expr import (
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    Report,
    int_const,
    is_const,
    structure_key,
)
from tvmagic.arith.iter_map.normalize import Prover
from tvmagic.ir import IntImm, Mul, PrimExpr, ops

if TYPE_CHECKING:
    from tvmagic.arith.analyzer import Analyzer


class _Padding:
    """What is known of the padding of one iterator."""

    def __init__(self) -> None:
        self.factor: PrimExpr = int_const("int32", 1)
        self.left: PrimExpr = int_const("int32", 0)
        self.below: dict[object, PrimExpr] = {}  # by a divisor, how much of the left padding its remainder takes
        self.padded: IterMark | None = None


class Padder:
    """The padding of the iterators of one map.

    `collecting` says whether this is the first pass; `required` whether anything needs padding.
    """

    def __init__(self, prover: Prover, report: Report) -> None:
        self.prover, self.report = prover, report
        self.analyzer = prover.analyzer
        self.collecting = False
        self.required = False
        self.predicate: PrimExpr = IntImm("bool", 0)
        self._paddings: dict[object, _Padding] = {}
        # padded mark -> (the mark it comes from, its padding on the left)
        self._origins: dict[object, tuple[IterMark, PrimExpr]] = {}

    def origin(self, mark: IterMark) -> tuple[IterMark, PrimExpr] | None:
        """The iterator that `mark` is the padded form of, and its padding on the left."""
        return self._origins.get(structure_key(mark)) if self._origins else None

    def pad(self, split: IterSplitExpr, base: PrimExpr, divisor: PrimExpr) -> tuple[IterSplitExpr, PrimExpr] | None:
        """`split` padded for `(split + base) // divisor`, and the padding on its left side.

        None if the padding that the iterator got would change the result.
        """
        simplify = self.analyzer.simplify
        left = simplify(ops.floormod(base, divisor))
        right_edge = left + split.extent
        if self.prover.divisible(right_edge, divisor):
            right: PrimExpr = int_const("int32", 0)
        else:
            right = simplify(ops.floormod(negate(right_edge), divisor))
        if self.collecting:
            return self._collect(split, divisor, left, right)
        padded = self._apply(split, divisor, left)
        # what is left of the base without its own remainder is a multiple, whatever variables are in it
        if padded is None or self.prover.equal(padded[1], left) or self.prover.divisible(base - padded[1], divisor):
            return padded
        return self._incompatible(split, padded[1])

    def _collect(
        self, split: IterSplitExpr, divisor: PrimExpr, left: PrimExpr, right: PrimExpr
    ) -> tuple[IterSplitExpr, PrimExpr] | None:
        info = self._paddings.setdefault(structure_key(split.source), _Padding())
        factor = _common_multiple(info.factor, divisor * split.lower_factor, self.analyzer)
        if factor is None:
            self.report.add("The divisors of {} have no common multiple of its type", split.source)
            return None
        info.factor = factor
        # a quotient is shifted by what is left of the shift below it, in units of the divisor
        below = info.below.get(structure_key(split.lower_factor), int_const("int32", 0))
        whole = self.analyzer.simplify(below + left * split.lower_factor)
        quotient = structure_key(self.analyzer.simplify(divisor * split.lower_factor))
        info.below[quotient] = self.analyzer.simplify(ops.maximum(info.below.get(quotient, whole), whole))
        if is_const(left, 0) and is_const(right, 0):
            return split, int_const("int32", 0)
        self.required = True
        info.left = self.analyzer.simplify(ops.maximum(info.left, whole))
        return split.replace(extent=self.analyzer.simplify(left + split.extent + right)), left

    def _apply(self, split: IterSplitExpr, divisor: PrimExpr, left: PrimExpr) -> tuple[IterSplitExpr, PrimExpr] | None:
        mark = split.source
        info = self._paddings.get(structure_key(mark))
        if info is None or (is_const(info.left, 0) and self.prover.divisible(mark.extent, info.factor)):
            return (split, left) if is_const(left, 0) else self._incompatible(split, left)
        for factor in (split.lower_factor, divisor):
            if not self.prover.divisible(info.factor, factor):  # it is a multiple, but symbolic sizes hide this
                self.report.add("It is not known that the padding factor {} is a multiple of {}", info.factor, factor)
                return None
        # only the outermost part of an iterator grows with it
        if not self.covers_top(split) or not self.prover.divisible(info.left, split.lower_factor):
            return self._incompatible(split, info.left)
        if info.padded is None:
            info.padded = self._padded_mark(mark, info)
        extent = ops.floordiv(info.padded.extent, split.lower_factor)
        return split.replace(source=info.padded, extent=extent), ops.floordiv(info.left, split.lower_factor)

    def covers_top(self, split: IterSplitExpr) -> bool:
        """Whether `split` is the outermost part of its iterator, so that its remainder changes nothing."""
        reach, extent = split.lower_factor * split.extent, split.source.extent
        if self.prover.equal(reach, extent):
            return True
        padded = self.origin(split.source)
        if padded is not None:
            extent = padded[0].extent + padded[1]
        return self.analyzer.can_prove(ops.greater_equal(reach, extent))

    def _incompatible(self, split: IterSplitExpr, left: PrimExpr) -> None:
        self.report.add(
            "Detect incompatible left padding on {}, the iter mark is left padded with {}",
            split,
            left,
        )

    def _padded_mark(self, mark: IterMark, info: _Padding) -> IterMark:
        """The padded form of `mark`; the predicate grows by the places of its padding."""
        right_edge = mark.extent + info.left
        if self.prover.divisible(right_edge, info.factor):
            right: PrimExpr = int_const("int32", 0)
        else:
            right = ops.floormod(negate(right_edge), info.factor)
        total = IterSumExpr((IterSplitExpr(mark),), info.left)
        padded = IterMark(total, self.analyzer.simplify(right_edge + right))
        self._origins[structure_key(padded)] = (mark, info.left)
        block, place = ops.floordiv(total, info.factor), ops.floormod(total, info.factor)
        in_left = ops.logical_and(
            ops.not_equal(info.left, 0), ops.logical_and(ops.equal(block, 0), ops.less(place, info.left))
        )
        last_block = ops.equal(block, ops.floordiv(right_edge, info.factor))
        behind = ops.greater_equal(place, ops.floormod(right_edge, info.factor))
        in_right = ops.logical_and(ops.not_equal(right, 0), ops.logical_and(last_block, behind))
        self.predicate = ops.logical_or(self.predicate, ops.logical_or(in_left, in_right))
        return padded


def _split_constant(value: PrimExpr) -> tuple[PrimExpr, int]:
    if isinstance(value, IntImm):
        return int_const("int32", 1), value.value
    if isinstance(value, Mul):
        if isinstance(value.b, IntImm):
            return value.a, value.b.value
        if isinstance(value.a, IntImm):
            return value.b, value.a.value
    return value, 1


def _common_multiple(a: PrimExpr, b: PrimExpr, analyzer: Analyzer) -> PrimExpr | None:
    """A common multiple, the least one if that can be told; None if it is too large."""
    (symbol_a, constant_a), (symbol_b, constant_b) = _split_constant(a), _split_constant(b)
    multiple = math.lcm(constant_a, constant_b)
    if multiple >= 1 << 31:
        return None
    constant = int_const("int32", multiple)
    if analyzer.can_prove_equal(symbol_a, symbol_b):
        return symbol_a * constant
    if analyzer.can_prove_equal(ops.floormod(symbol_a, symbol_b), 0):
        return symbol_a * constant
    if analyzer.can_prove_equal(ops.floormod(symbol_b, symbol_a), 0):
        return symbol_b * constant
    return symbol_a * symbol_b * constant
