"""The place of an element in flat memory, with quotients and remainders of one value put together."""

from __future__ import annotations

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir.ops import add, floormod, multiply, subtract
from tvmagic.ir.query import operands


def _product(a: ir.PrimExpr | None, b: ir.PrimExpr) -> ir.PrimExpr:
    return b if a is None else multiply(b, a)


class FlatIndex:
    """Computes flat indices, simplified with nothing known of the variables."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()

    def __call__(self, buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...]) -> tuple[ir.PrimExpr, ...]:
        """The index of an element for each group of axes, simplified."""
        simplify = self.analyzer.simplify
        if not any(_has_remainder(i) for i in indices):
            return tuple([simplify(offset) for offset in buffer.unsimplified_offset_of(indices)])
        groups: list[ir.PrimExpr] = []
        start = 0
        for end in (*[int(s) for s in buffer.axis_separators], len(buffer.shape)):
            groups.append(self._group(buffer, indices, start, end))
            start = end
        if len(groups) == 1 and not (isinstance(buffer.elem_offset, ir.IntImm) and buffer.elem_offset.value == 0):
            groups[0] = add(groups[0], buffer.elem_offset)
        return tuple([simplify(group) for group in groups])

    def _group(self, buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...], start: int, end: int) -> ir.PrimExpr:
        offset: ir.PrimExpr = ir.IntImm(indices[0].dtype.element_of if indices else "int32", 0)
        strided = len(buffer.strides) == len(buffer.shape)  # cache_index gives buffers one stride, whatever their rank
        for axis in range(start, end):
            if strided:
                offset = add(offset, multiply(indices[axis], buffer.strides[axis]))
            else:
                offset = add(multiply(offset, buffer.shape[axis]), indices[axis])
            if axis > 0:
                offset = self.merge(offset)
        return offset

    def merge(self, value: ir.PrimExpr) -> ir.PrimExpr:
        """`value` with `x // c * c + x % c` written as `x`."""
        base = self.analyzer.simplify(value)
        products: list[ir.PrimExpr] = []
        remainders: list[ir.FloorMod] = []
        rest: list[ir.PrimExpr] = []
        pending, found = operands(base, ir.Add), False
        while pending:
            for term in pending:
                kind = remainders if isinstance(term, ir.FloorMod) else products if isinstance(term, ir.Mul) else rest
                kind.append(term)  # type: ignore[arg-type]
            pending = self._merge_one(products, remainders)
            found = found or bool(pending)
        if not found:
            return base
        terms = [*rest, *products, *remainders]
        total = terms[0]
        for term in terms[1:]:
            total = add(total, term)
        return total

    def _merge_one(self, products: list[ir.PrimExpr], remainders: list[ir.FloorMod]) -> list[ir.PrimExpr]:
        """Take a product and a remainder that belong together out; the terms of what they are."""
        for i, remainder in enumerate(remainders):
            for j, product in enumerate(products):
                merged = self._together(product, remainder)
                if merged is not None:
                    del remainders[i], products[j]
                    return operands(merged, ir.Add)
        return []

    def _together(self, product: ir.PrimExpr, remainder: ir.FloorMod) -> ir.PrimExpr | None:
        """`(rest + x // c) * c + y % c` as `rest * c + x`, if x and y differ by a multiple of c."""
        outer: ir.PrimExpr | None = None
        node = product
        while isinstance(node, ir.Mul):
            outer, node = _product(outer, node.b), node.a
        inner: ir.PrimExpr | None = None
        rest: ir.PrimExpr | None = None
        while True:
            if isinstance(node, ir.FloorDiv):
                assert outer is not None
                scale = outer if inner is None else multiply(inner, outer)
                if not (ir.expr_deep_equal(scale, node.b) and ir.expr_deep_equal(scale, remainder.b)):
                    return None
                difference = floormod(subtract(node.a, remainder.a), remainder.b)
                if not self.analyzer.can_prove_equal(difference, 0):
                    return None
                return node.a if rest is None else add(multiply(rest, outer), node.a)
            if isinstance(node, ir.Mul):
                inner, node = _product(inner, node.b), node.a
            elif isinstance(node, ir.Add) and inner is None:
                rest, node = node.a if rest is None else add(rest, node.a), node.b
            else:
                return None


def _has_remainder(value: ir.PrimExpr) -> bool:
    """Whether a remainder is in a sum or product at the top of `value`."""
    todo = [value]
    while todo:
        node = todo.pop()
        if isinstance(node, ir.FloorMod):
            return True
        if isinstance(node, (ir.Add, ir.Mul)):
            todo += [node.a, node.b]
    return False
