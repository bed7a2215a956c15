"""Mutators that know what holds at the place where they are, and simplify the indices of accesses with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.iter_map import iter_map_simplify_with_context
from tvmagic.ir import (
    Block,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    For,
    IfThenElse,
    Mutator,
    PrimExpr,
    Range,
    Stmt,
    Var,
    handles,
)
from tvmagic.ir.ops import logical_not
from tvmagic.ir.query import is_call
from tvmagic.tir.analysis.facts import Facts


class AccessContext(Facts, Mutator):
    """A mutator that knows the variables and conditions around the place where it is."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.iterators: dict[Var, Range] = {}
        self.conditions: list[PrimExpr] = []

    def simplified(self, indices: Sequence[PrimExpr]) -> list[PrimExpr]:
        """The indices under what is known here."""
        return iter_map_simplify_with_context(indices, self.iterators, self.conditions, self.analyzer, True)

    def known_domain(self, var: Var, domain: Range) -> None:
        super().known_domain(var, domain)
        self.iterators[var] = domain

    @handles(For)
    def loop(self, node: For) -> Stmt:
        self.known_loop(node)
        return self.visit_children(node)

    @handles(Block)
    def block(self, node: Block) -> Block:
        self.known_block(node)
        return self.visit_children(node)

    def _under(self, condition: PrimExpr, node: Any) -> Any:
        self.conditions.append(condition)
        with self.holds(condition):
            new = self.visit(node)
        self.conditions.pop()
        return new

    @handles(IfThenElse)
    def branch(self, node: IfThenElse) -> Stmt:
        condition = self.visit(node.condition)
        then_case = self._under(condition, node.then_case)
        else_case = None
        if node.else_case is not None:
            else_case = self._under(logical_not(condition), node.else_case)
        return node.with_(condition=condition, then_case=then_case, else_case=else_case)

    @handles(Call)
    def call(self, node: Call) -> PrimExpr:
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

    @handles(BufferRegion)
    def region(self, node: BufferRegion) -> BufferRegion:
        lows = self.simplified([r.min for r in node.region])
        region = tuple(
            [r if low is r.min else Range.from_min_extent(low, r.extent) for r, low in zip(node.region, lows)]
        )
        return node if all(a is b for a, b in zip(region, node.region)) else node.replace(region=region)

    @handles(BufferLoad, BufferStore)
    def access(self, node: Any) -> Any:
        new = self.visit_children(node)
        indices = tuple(self.simplified(new.indices))
        return new if all(a is b for a, b in zip(indices, new.indices)) else new.replace(indices=indices)
