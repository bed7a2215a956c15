"""RenormalizeSplitPattern: quotients of sums in the form in which splits of loops write them."""

from __future__ import annotations

import math

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir.ops import add, floordiv, floormod, less, make_const, multiply
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.with_analyzer import AnalyzerMutator

MAX_DEPTH = 5
# what the negation of a comparison is, and whether with the operands exchanged
_NEGATED: dict[type, tuple[type[ir.LT] | type[ir.LE], bool]] = {
    ir.LE: (ir.LT, True),
    ir.GE: (ir.LT, False),
    ir.LT: (ir.LE, True),
    ir.GT: (ir.LE, False),
}


def _constant(value: ir.PrimExpr) -> tuple[int, int] | None:
    """The integer that `value` holds in every lane, and the code of its lanes."""
    if isinstance(value, ir.IntImm):
        return value.value, 1
    if isinstance(value, ir.Broadcast) and isinstance(value.value, ir.IntImm):
        return value.value.value, value.dtype.lane_code
    return None


def _like(value: ir.PrimExpr, number: int) -> ir.PrimExpr:
    return make_const(value.dtype, number)


class _Renormalizer(AnalyzerMutator):
    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__(analyzer)
        self.depth = 0

    def again(self, value: ir.PrimExpr) -> ir.PrimExpr:
        """`value` rewritten once more, some levels deep at most."""
        if self.depth >= MAX_DEPTH:
            return value
        self.depth += 1
        value = self.visit(value)
        self.depth -= 1
        return value

    @ir.handles(ir.For)
    def for_loop(self, node: ir.For) -> ir.Stmt:
        return self.visit_bounded_loop(node)

    def is_index(self, node: ir.PrimExpr) -> bool:
        """Whether `node` is an integer that does not wrap around."""
        return node.dtype.is_int and not self.analyzer.wraps(node)

    @ir.handles(ir.FloorDiv)
    def quotient(self, node: ir.FloorDiv) -> ir.PrimExpr:
        if not self.is_index(node):
            return self.visit_children(node)
        a, b = self.visit(node.a), self.visit(node.b)
        result = floordiv(a, b, node.span)
        if isinstance(result, ir.FloorDiv) and a is node.a and b is node.b:
            result = node
        if not isinstance(result, ir.FloorDiv):
            return result
        a, b = result.a, result.b
        divisor = _constant(b)
        if divisor is None:
            return result
        # (x % c3) // c2 = (x // c2) % (c3 / c2)
        if isinstance(a, ir.FloorMod):
            modulus = _constant(a.b)
            if modulus is not None and modulus[1] == divisor[1] and modulus[0] % divisor[0] == 0:
                return self.again(floormod(floordiv(a.a, b), _like(b, modulus[0] // divisor[0])))
        taken = _take_common_factor(a, b, divisor[0])
        return result if taken is None else self.again(taken)

    @ir.handles(ir.LE)
    def at_most(self, node: ir.LE) -> ir.PrimExpr:
        if node.a.dtype.is_float:
            return self.visit_children(node)
        return self.visit(ir.Not(less(node.b, node.a), node.span))

    @ir.handles(ir.GT)
    def greater(self, node: ir.GT) -> ir.PrimExpr:
        return self.visit(less(node.b, node.a, node.span))

    @ir.handles(ir.GE)
    def at_least(self, node: ir.GE) -> ir.PrimExpr:
        if node.a.dtype.is_float:
            return self.visit_children(node)
        return self.visit(ir.Not(less(node.a, node.b), node.span))

    @ir.handles(ir.LT)
    def less_than(self, node: ir.LT) -> ir.PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        # x < c = x // c < 1
        if isinstance(b, ir.IntImm) and b.value > 0 and self.is_index(a):
            return self.again(less(floordiv(a, b), ir.IntImm(b.dtype, 1), node.span))
        return node.with_(a=a, b=b)

    @ir.handles(ir.Not)
    def negation(self, node: ir.Not) -> ir.PrimExpr:
        new = self.visit_children(node)
        inner = new.a
        if isinstance(inner, ir.Not):
            return inner.a
        if not isinstance(inner, (ir.LE, ir.GE, ir.LT, ir.GT)) or inner.a.dtype.is_float:
            return new
        turned, exchanged = _NEGATED[type(inner)]
        return turned(inner.b, inner.a) if exchanged else turned(inner.a, inner.b)


def _take_common_factor(a: ir.PrimExpr, b: ir.PrimExpr, c2: int) -> ir.PrimExpr | None:
    """`(x * c1 + rest) // c2` with the common factor g of c1 and c2 taken out of both.

    It is `(x * (c1 / g) + rest // g) // (c2 / g)`; `rest` is one term, or two. None if the
    expression is not of that form.
    """
    if not isinstance(a, ir.Add):
        return None
    first, rest = a.a, a.b
    if isinstance(first, ir.Add):
        first, rest = first.a, add(first.b, rest)
    if not isinstance(first, ir.Mul):
        return None
    scale = _constant(first.b)
    if scale is None or scale[0] <= 0 or c2 <= 0:
        return None
    common = math.gcd(scale[0], c2)
    if common <= 1:
        return None
    outer = add(multiply(first.a, _like(b, scale[0] // common)), floordiv(rest, _like(b, common)))
    return floordiv(outer, _like(b, c2 // common))


@tir_pass("tir.RenormalizeSplitPattern")
def RenormalizeSplitPattern(func: ir.PrimFunc) -> ir.PrimFunc:
    """Write `(x * c1 + y) // c2` and `x < c` in the form that splits have, for later simplification."""
    return func.with_body(_Renormalizer(Analyzer()).visit(func.body))
