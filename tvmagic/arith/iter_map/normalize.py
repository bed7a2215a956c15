"""Iterator maps written with plain operators again, and what is proved with that form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvmagic.arith.int_set import new_analyzer
from tvmagic.arith.iter_map.expr import IterSplitExpr, IterSumExpr, int_const, is_const, structure_key
from tvmagic.ir import IntImm, Mul, Mutator, PrimExpr, expr, handles, ops
from tvmagic.ir.query import operands

if TYPE_CHECKING:
    from tvmagic.arith.analyzer import Analyzer


def mul_and_normalize(lhs: PrimExpr, rhs: PrimExpr) -> PrimExpr:
    """`lhs * rhs` as a product of symbols with one constant behind them."""
    constant = 1
    result: PrimExpr = int_const(lhs.dtype, 1)
    for factor in (*operands(lhs, Mul), *operands(rhs, Mul)):
        if isinstance(factor, IntImm):
            constant *= factor.value
        else:
            result = result * factor
    return result if constant == 1 else result * int_const(result.dtype, constant)


class ToExpr(Mutator):
    """Writes the sums and splits in an expression with plain operators."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer

    def same(self, a: PrimExpr, b: PrimExpr) -> bool:
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return a.value == b.value
        return a is b or self.analyzer.can_prove(ops.equal(a, b))

    @handles(IterSumExpr)
    def sum(self, node: IterSumExpr) -> PrimExpr:
        result: PrimExpr = int_const(node.dtype, 0)
        for arg in node.args:
            result = result + self.split(arg)
        return result + self.visit(node.base)

    @handles(IterSplitExpr)
    def split(self, node: IterSplitExpr) -> PrimExpr:
        source, mark = self.visit(node.source.source), node.source
        if is_const(node.lower_factor, 1) and self.same(node.extent, mark.extent):
            return source * node.scale
        full_extent = node.lower_factor * node.extent
        if self.same(mark.extent, full_extent):
            # always 0; a trivial iterator itself stays, since later steps look for it
            if is_const(node.extent, 1) and not is_const(mark.extent, 1):
                return int_const(node.extent.dtype, 0)
            return ops.floordiv(source, node.lower_factor) * node.scale
        full_extent = self.analyzer.canonical_simplify(node.extent * node.lower_factor)
        if is_const(full_extent, 0):  # of an iterator that never runs
            return int_const(node.extent.dtype, 0)
        return ops.floordiv(ops.floormod(source, full_extent), node.lower_factor) * node.scale


def normalize_iter_map_to_expr(value: Any) -> PrimExpr:
    """`value`, which may hold sums and splits of iterators, with plain operators alone."""
    return ToExpr(new_analyzer()).visit(expr(value))


class Prover:
    """What the detection of iterator maps asks of an analyzer, whose knowledge must not change.

    Constants take the short way, and no question is asked twice.
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self._equal: dict[object, bool] = {}
        self._divisible: dict[object, bool] = {}
        # keys hold identities of variables
        self._alive: list[PrimExpr] = []

    def equal(self, a: PrimExpr, b: PrimExpr) -> bool:
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return a.value == b.value
        if a is b:
            return True
        key = structure_key(a), structure_key(b)
        known = self._equal.get(key)
        if known is None:
            known = self._equal[key] = key[0] == key[1] or self.analyzer.can_prove_equal(a, b)
            self._alive += (a, b)
        return known

    def divisible(self, dividend: PrimExpr, divisor: PrimExpr) -> bool:
        """Whether `divisor` is proved to divide `dividend`."""
        if isinstance(divisor, IntImm):
            if divisor.value == 0:
                return False
            if isinstance(dividend, IntImm):
                return dividend.value % divisor.value == 0
            if divisor.value == 1:
                return True
        key = structure_key(dividend), structure_key(divisor)
        known = self._divisible.get(key)
        if known is None:
            known = self._divisible[key] = key[0] == key[1] or self._prove_divisible(dividend, divisor)
            self._alive += (dividend, divisor)
        return known

    def _prove_divisible(self, dividend: PrimExpr, divisor: PrimExpr) -> bool:
        to_expr = ToExpr(self.analyzer)
        dividend, divisor = to_expr.visit(dividend), to_expr.visit(divisor)
        if self.analyzer.can_prove_equal(dividend, divisor):
            return True
        return self.analyzer.can_prove(ops.equal(ops.floormod(dividend, divisor), 0))

    def simplify(self, value: PrimExpr) -> PrimExpr:
        return value if isinstance(value, IntImm) else self.analyzer.simplify(value)
