"""Rewrites expressions over iterators to sums of splits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tvmagic.arith.iter_map.expr import (
    IterMapExpr,
    IterMapLevel,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    Report,
    int_const,
    is_const,
    to_iter_sum,
)
from tvmagic.arith.iter_map.fuse import Fuser
from tvmagic.arith.iter_map.normalize import Prover
from tvmagic.arith.iter_map.padding import Padder
from tvmagic.ir import (
    Add,
    BinaryOp,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Mutator,
    Node,
    PrimExpr,
    Range,
    Sub,
    Var,
    handles,
    ops,
)
from tvmagic.ir.deep_equal import deep_equal
from tvmagic.ir.fold import fold

if TYPE_CHECKING:
    from tvmagic.arith.analyzer import Analyzer

_B = TypeVar("_B", bound=BinaryOp)


def _sum_or_difference(node: Add | Sub, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return _added(to_iter_sum(a), to_iter_sum(b), 1 if isinstance(node, Add) else -1)


def _added(total: IterSumExpr, part: IterSumExpr, sign: int) -> IterSumExpr:
    """`total + sign * part`, with equal splits joined."""
    args = list(total.args)
    for new in part.args:
        for i, old in enumerate(args):
            if (
                old.source is new.source
                and deep_equal(old.lower_factor, new.lower_factor)
                and deep_equal(old.extent, new.extent)
            ):
                args[i] = new.replace(scale=old.scale + new.scale if sign > 0 else old.scale - new.scale)
                break
        else:
            args.append(new if sign > 0 else new.replace(scale=int_const(new.scale.dtype, 0) - new.scale))
    return IterSumExpr(args, total.base + part.base if sign > 0 else total.base - part.base)


class IterMapRewriter(Mutator):
    """Rewrites expressions over the iterators `input_iters`.

    What cannot be written as a sum of splits is noted in `report` and stays as it was.
    """

    def __init__(
        self,
        analyzer: Analyzer,
        input_iters: Mapping[Var, Range],
        level: IterMapLevel,
        simplify_trivial_iterators: bool,
        report: Report,
    ) -> None:
        self.analyzer, self.report = analyzer, report
        self.prover = Prover(analyzer)
        self.fuser = Fuser(self.prover, level, report)
        self.padder = Padder(self.prover, report)
        self.input_marks: list[IterMark] = []
        # False if some values of an index may come from padding alone
        self.takes_all_values = True
        self._values: dict[Var, IterMapExpr] = {}
        for var, domain in input_iters.items():
            if simplify_trivial_iterators and is_const(domain.extent, 1):
                self._values[var] = IterSumExpr((), domain.min)
                continue
            at_zero = is_const(domain.min, 0)
            mark = IterMark(var if at_zero else var - domain.min, domain.extent)
            split = IterSplitExpr(mark)
            self._values[var] = split if at_zero else IterSumExpr((split,), domain.min)
            self.input_marks.append(mark)

    # ------------------------------------------------------------------ entries

    def rewrite(self, value: PrimExpr) -> IterSumExpr:
        """`value` as one iterator plus a base."""
        return self.fuser.with_offset(self.to_sum(value))

    def rewrite_all(self, values: Sequence[PrimExpr], collect_padding: bool = False) -> list[IterSumExpr] | None:
        """Each of `values` rewritten; None at the first that fails."""
        self.padder.collecting = collect_padding
        result: list[IterSumExpr] = []
        for value in values:
            result.append(self.rewrite(value))
            if self.report:
                return None
        self.padder.collecting = False
        return result

    def to_sum(self, value: PrimExpr) -> IterSumExpr:
        """`value` as a sum of splits that is not fused."""
        return to_iter_sum(self.direct(value))

    def direct(self, value: PrimExpr) -> PrimExpr:
        """`value` rewritten; the result may be a part of an iterator map."""
        return Mutator.visit(self, value)

    def visit(self, node: Any) -> Any:
        """An operand of an operation that iterator maps do not know: it must hold no iterator."""
        result = Mutator.visit(self, node)
        if isinstance(result, IterMapExpr):
            self.report.add(
                "IterMapExpr or subclasses should only result from calls in IterMapRewriter using DirectMutate.  "
                "Indirect return occurred in {}",
                node,
            )
            return node
        return result

    # ------------------------------------------------------------------ handlers

    @handles(Var)
    def var(self, node: Var) -> PrimExpr:
        return self._values.get(node, node)

    def _fold_without_iterators(self, node: BinaryOp, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
        """The result of an operation on constants or on operands without iterators."""
        folded = fold(type(node), a, b)
        if folded is not None:
            return folded
        if isinstance(a, IterMapExpr) or isinstance(b, IterMapExpr):
            return None
        return node if a is node.a and b is node.b else type(node)(a, b)

    def _combined(self, node: _B, combine: Callable[[_B, PrimExpr, PrimExpr], PrimExpr]) -> PrimExpr:
        """What `combine` makes of the operands where one of them has iterators."""
        if not node.dtype.is_index:
            return self.visit_children(node)
        a, b = self.direct(node.a), self.direct(node.b)
        plain = self._fold_without_iterators(node, a, b)
        return combine(node, a, b) if plain is None else plain

    @handles(Add, Sub)
    def add(self, node: Add | Sub) -> PrimExpr:
        return self._combined(node, _sum_or_difference)

    @handles(Mul)
    def mul(self, node: Mul) -> PrimExpr:
        return self._combined(node, self._product)

    def _product(self, node: Mul, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        if isinstance(a, IterMapExpr) and isinstance(b, IterMapExpr):
            self.report.add("Product of two iterators cannot be represented as an IterMap, occurs in {}", node)
            return node
        if not isinstance(a, IterMapExpr):
            a, b = b, a
        if isinstance(a, IterSplitExpr):
            return a.replace(scale=a.scale * b)
        total = cast(IterSumExpr, a)
        return IterSumExpr([s.replace(scale=s.scale * b) for s in total.args], total.base * b)

    @handles(FloorDiv, FloorMod)
    def divide(self, node: FloorDiv | FloorMod) -> PrimExpr:
        return self._combined(node, self._divided)

    def _divided(self, node: FloorDiv | FloorMod, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        if isinstance(b, IterMapExpr) or (isinstance(b, IntImm) and b.value < 0):
            self.report.add("Cannot represent as an IterMap: the divisor in {} may not be an iterator", node)
            return node
        dividend = self._dividend(a, node.a)
        if dividend is None:
            return node
        compute = self._floordiv if isinstance(node, FloorDiv) else self._floormod
        if not dividend.args:
            return to_iter_sum(type(node)(dividend.base, b))
        result = compute(dividend.args[0], dividend.base, b)
        return node if result is None else result

    @handles(Node)
    def other(self, node: Node) -> Any:
        return self.visit_children(node)

    # ------------------------------------------------------------------ division

    def _dividend(self, value: PrimExpr, original: PrimExpr) -> IterSumExpr | None:
        """The dividend as one split plus a base."""
        total = to_iter_sum(value)
        if not total.args:
            return None
        if len(total.args) == 1:
            return total
        fused = self.fuser.fuse(total, True)
        if fused is None:
            self.report.add("Dividend  {}, can't be written as a single fused IterSum", original)
        return fused

    def _unscaled(self, split: IterSplitExpr, base: PrimExpr, divisor: PrimExpr) -> tuple[PrimExpr, PrimExpr] | None:
        """Base and divisor with the scale of `split`, which divides both, taken out of them.

        None if it does not divide them, or would leave a negative divisor.
        """
        if not self.prover.divisible(divisor, split.scale):
            return None
        if isinstance(split.scale, IntImm) and split.scale.value < 0:
            return None
        if is_const(base, 0):
            return base, ops.floordiv(divisor, split.scale)
        if not self.prover.divisible(base, split.scale):
            return None
        return ops.floordiv(base, split.scale), ops.floordiv(divisor, split.scale)

    def _floordiv(self, split: IterSplitExpr, base: PrimExpr, divisor: PrimExpr) -> PrimExpr | None:
        """`(split + base) // divisor`"""
        if not is_const(split.scale, 1):
            if self.prover.divisible(split.scale, divisor):
                scaled = split.replace(scale=ops.floordiv(split.scale, divisor))
                if is_const(base, 0):
                    return scaled
                if self.prover.divisible(base, divisor):
                    return IterSumExpr((scaled,), ops.floordiv(base, divisor))
            reduced = self._unscaled(split, base, divisor)
            if reduced is None:
                self.report.add(
                    "Cannot represent as IterMap: the numerator's scaling factor, {} and the divisor {} "
                    "cannot be simplified to remove the scaling factor.",
                    split.scale,
                    divisor,
                )
                return None
            base, divisor = reduced
            split = split.replace(scale=int_const(divisor.dtype, 1))
        padded = self.padder.pad(split, base, divisor)
        if padded is None:
            return None
        quotient = self._quotient(padded[0], divisor)
        new_base = self.analyzer.simplify(ops.floordiv(base - padded[1], divisor), 6)
        return quotient if is_const(new_base, 0) else IterSumExpr((quotient,), new_base)

    def _quotient(self, split: IterSplitExpr, divisor: PrimExpr) -> IterSplitExpr:
        """`split // divisor` for a split of scale 1 that needs no more padding."""
        simplify, prover = self.analyzer.simplify, self.prover
        if prover.divisible(split.extent, divisor):
            extent = simplify(ops.floordiv(split.extent, divisor))
            return IterSplitExpr(split.source, split.lower_factor * divisor, extent, split.scale)
        extent = simplify(ops.ceildiv(split.extent, divisor))
        if is_const(split.lower_factor, 1) and prover.equal(split.extent, split.source.extent):
            return IterSplitExpr(split.source, divisor, extent, split.scale)
        return IterSplitExpr(IterMark(split, split.extent), divisor, extent, int_const(divisor.dtype, 1))

    def _floormod(self, split: IterSplitExpr, base: PrimExpr, divisor: PrimExpr) -> PrimExpr | None:
        """`(split + base) % divisor`"""
        if not is_const(split.scale, 1):
            if self.prover.divisible(split.scale, divisor) and self.prover.divisible(base, divisor):
                return int_const(split.dtype, 0)
            reduced = self._unscaled(split, base, divisor)
            if reduced is None:
                self.report.add(
                    "Cannot represent as IterMap: the left-hand side of FloorMod has a scaling factor, "
                    "{} and the right-hand {} cannot be used to simplify out the scaling factor.",
                    split.scale,
                    divisor,
                )
                return None
            base, divisor = reduced
        padded = self.padder.pad(split, base, divisor)
        if padded is None:
            return None
        inner = padded[0]
        if not self.padder.collecting and not self.prover.divisible(inner.extent, divisor):
            # `x % 4 % 3` is not a part of `x`; an outermost part may have a larger remainder taken
            if not self.padder.covers_top(inner):
                self.report.add("Cannot represent as IterMap: {} does not divide the extent of {}", divisor, inner)
                return None
        return IterSplitExpr(inner.source, inner.lower_factor, divisor, inner.scale)
