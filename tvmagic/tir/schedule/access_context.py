"""Mutators that know what holds at the place where they are, and simplify the indices of accesses with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.iter_map import iter_map_simplify_with_context
from tvmagic.ir.ops import logical_not
from tvmagic.ir.query import is_call
from tvmagic.tir.analysis.facts import Facts


class AccessContext(Facts, ir.Mutator):
    """A mutator that knows the variables and conditions around the place where it is."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.iterators: dict[ir.Var, ir.Range] = {}
        self.conditions: list[ir.PrimExpr] = []

    def simplified(self, indices: Sequence[ir.PrimExpr]) -> list[ir.PrimExpr]:
        """The indices under what is known here."""
        return iter_map_simplify_with_context(indices, self.iterators, self.conditions, self.analyzer, True)

    def known_domain(self, var: ir.Var, domain: ir.Range) -> None:
        super().known_domain(var, domain)
        self.iterators[var] = domain

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        self.known_loop(node)
        return self.visit_children(node)

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Block:
        self.known_block(node)
        return self.visit_children(node)

    def _under(self, condition: ir.PrimExpr, node: Any) -> Any:
        self.conditions.append(condition)
        with self.holds(condition):
            new = self.visit(node)
        self.conditions.pop()
        return new

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> ir.Stmt:
        condition = self.visit(node.condition)
        then_case = self._under(condition, node.then_case)
        else_case = None
        if node.else_case is not None:
            else_case = self._under(logical_not(condition), node.else_case)
        return node.with_(condition=condition, then_case=then_case, else_case=else_case)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> ir.PrimExpr:
        if not is_call(node, "tir.if_then_else"):
            return self.visit_children(node)
        condition = self.visit(node.args[0])
        taken = self._under(condition, node.args[1])
        other = self._under(logical_not(condition), node.args[2])
        if condition is node.args[0] and taken is node.args[1] and other is node.args[2]:
            return node
        return node.replace(args=(condition, taken, other))


class AccessSimplifier(AccessContext):
    """Simplifies the indices and regions of accesses as iterator maps over the variables around them."""

    @ir.handles(ir.BufferRegion)
    def region(self, node: ir.BufferRegion) -> ir.BufferRegion:
        lows = self.simplified([r.min for r in node.region])
        region = tuple(
            [r if low is r.min else ir.Range.from_min_extent(low, r.extent) for r, low in zip(node.region, lows)]
        )
        return node if all(a is b for a, b in zip(region, node.region)) else node.replace(region=region)

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: Any) -> Any:
        new = self.visit_children(node)
        indices = tuple(self.simplified(new.indices))
        return new if all(a is b for a, b in zip(indices, new.indices)) else new.replace(indices=indices)
