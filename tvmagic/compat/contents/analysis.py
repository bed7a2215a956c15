"""Questions about a statement: what its loads give, and whether anybody needs what it stores."""

from __future__ import annotations

import contextlib
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.constraint import extract_constraints, normalize_boolean
from tvmagic.arith.presburger import Condition, IntegerLogic, TooMuchWork
from tvmagic.compat.contents.backward import Backward
from tvmagic.compat.contents.forward import Forward
from tvmagic.compat.contents.graph import Place, build_graph
from tvmagic.compat.contents.state import Contents, Knowledge
from tvmagic.compat.contents.touches import Axes, lane_of
from tvmagic.ir.deep_recursion import deep
from tvmagic.ir.operators import lanes_of
from tvmagic.ir.query import variables_in
from tvmagic.lazy import cached_property


class BufferContents:
    """What is known of the buffers of a statement.

    `max_steps`: how many proofs may be tried; 0 for as many as are needed. Beyond them a TVMagicError is raised.
    """

    def __init__(self, stmt: ir.Stmt, max_steps: int = 0) -> None:
        self.stmt = stmt
        self.graph = deep(build_graph)(stmt)
        self.logic = IntegerLogic(self.graph.ranges, max_steps)
        self.knowledge = Knowledge(self.logic, Axes())

    @cached_property
    def forward(self) -> Forward:
        """What buffers hold at the ends of blocks."""
        return Forward(self.graph, self.knowledge)

    @cached_property
    def backward(self) -> Backward:
        """Which elements are not needed at the ends of blocks."""
        return Backward(self.graph, self.knowledge)

    def _graph_node(self, stmt: ir.Stmt) -> Place | None:
        return self.graph.places.get(id(stmt)) if self.graph.supported else None

    # ------------------------------------------------------------------ conditions

    def facts_at(self, stmt: ir.Stmt) -> list[ir.PrimExpr]:
        """The conditions that hold where a statement is: those around it, and what the program assumes."""
        place = self._graph_node(stmt)
        if place is None:
            return []
        scope = list(self.graph.blocks[place.block].scope)
        here = self._all(scope)
        return scope + [f for around, f in self.graph.assumptions if self.logic.implies(here, self._all(around))]

    def _all(self, conditions: Any) -> Condition:
        return self.logic.both(*[self.logic.condition(c) for c in conditions])

    # ------------------------------------------------------------------ values

    def simplified(self, e: ir.PrimExpr, stmt: ir.Stmt, analyzer: Analyzer) -> ir.PrimExpr:
        """The expression `e` of a statement, simplified with what is known there."""
        place = self._graph_node(stmt)
        if place is None:
            return analyzer.simplify(e)
        try:
            return self._simplified(e, stmt, place, analyzer)
        except TooMuchWork:
            return analyzer.simplify(e)

    def _simplified(self, e: ir.PrimExpr, stmt: ir.Stmt, place: Place, analyzer: Analyzer) -> ir.PrimExpr:
        self.logic.restart()
        facts = self.facts_at(stmt)
        e = self._with_known_loads(e, place, self._all(facts))
        with contextlib.ExitStack() as stack:
            for fact in facts:
                stack.enter_context(analyzer.constraint_scope(fact))
            e = analyzer.simplify(e)
        if not e.dtype.is_bool or not e.dtype.is_scalar or isinstance(e, ir.IntImm):
            return e
        return self._decided(e, place, self._all(facts))

    def _decided(self, e: ir.PrimExpr, place: Place, facts: Condition) -> ir.PrimExpr:
        """A condition as a constant, if it follows or is excluded."""
        inlined = ir.substitute(e, place.values)
        if not self.graph.is_pure(inlined):
            return e
        condition = self.logic.condition(inlined)
        if self.logic.implies(facts, condition):
            return ir.IntImm(e.dtype, 1)
        return ir.IntImm(e.dtype, 0) if self.logic.impossible(facts, condition) else e

    def _with_known_loads(self, e: ir.PrimExpr, place: Place, facts: Condition) -> ir.PrimExpr:
        contents = self.forward.entered[place.block]
        return _KnownLoads(self, place, contents, facts).visit(e) if contents else e

    def holds_already(self, store: ir.BufferStore, analyzer: Analyzer) -> bool:
        """Whether the elements that a store writes are known to have its value."""
        place = self._graph_node(store)
        try:
            return place is not None and self._holds_already(store, place, analyzer)
        except TooMuchWork:
            return False

    def _holds_already(self, store: ir.BufferStore, place: Place, analyzer: Analyzer) -> bool:
        self.logic.restart()
        load = ir.BufferLoad(store.buffer, store.indices)
        known = self._with_known_loads(load, place, self._all(self.facts_at(store)))
        value = self._with_known_loads(store.value, place, self._all(self.facts_at(store)))
        if known is load:  # what is there is not known, but what is added to it may be: nothing
            added = value is not store.value and not value.dtype.is_float
            return added and analyzer.can_prove(ir.ops.equal(load, value))
        if known.dtype.is_index and analyzer.can_prove(ir.ops.equal(known, value)):
            return True
        facts = self._all(self.facts_at(store))
        return self.knowledge.agree(facts, self.knowledge.simplified(known), self.knowledge.simplified(value))

    # ------------------------------------------------------------------ stores that nobody needs

    def is_overwritten(self, store: ir.BufferStore) -> bool:
        """Whether all elements that a store writes are overwritten before they are read."""
        place = self._graph_node(store)
        try:
            return place is not None and self._is_overwritten(store, place)
        except TooMuchWork:
            return False

    def _is_overwritten(self, store: ir.BufferStore, place: Place) -> bool:
        self.logic.restart()
        if store.buffer in self.graph.hidden:
            return False
        block = self.graph.blocks[place.block]
        if not block.touches or block.touches[-1].kind != "write" or block.touches[-1].buffer is not store.buffer:
            return False
        unneeded = self.backward.entered[place.block].get(store.buffer)
        region = self.backward.region(block.touches[-1])
        if unneeded is None or region.elements is None:
            return False
        return self.logic.implies(self.logic.both(self._all(self.facts_at(store)), region.elements), unneeded)

    def remove_store(self, store: ir.BufferStore) -> None:
        """Take a store out of the program; what is known is found again when it is asked for."""
        place = self._graph_node(store)
        if place is not None:
            block = self.graph.blocks[place.block]
            block.touches = [t for t in block.touches if t.kind != "write"]
            for name in ("forward", "backward"):
                self.__dict__.pop(name, None)


class _KnownLoads(ir.Mutator):
    """Puts known values in the place of loads; conditions in the expression itself count where they hold."""

    def __init__(self, owner: BufferContents, place: Place, contents: Contents, facts: Condition) -> None:
        self.owner, self.place, self.contents, self.facts = owner, place, contents, facts

    def under(self, condition: ir.PrimExpr, e: ir.PrimExpr) -> ir.PrimExpr:
        """`e` where `condition` holds too."""
        graph, logic, outer = self.owner.graph, self.owner.logic, self.facts
        parts = [ir.substitute(c, self.place.values) for c in extract_constraints(condition, keep_composite=False)]
        self.facts = logic.both(outer, *[logic.condition(c) for c in parts if graph.is_pure(c)])
        try:
            return self.visit(e)
        finally:
            self.facts = outer

    @ir.handles(ir.And)
    def conjunction(self, node: ir.And) -> ir.PrimExpr:
        a, b = self.under(node.b, node.a), self.under(node.a, node.b)
        return node.with_(a=a, b=b)

    @ir.handles(ir.Select)
    def select(self, node: ir.Select) -> ir.PrimExpr:
        if node.condition.dtype.is_vector:
            return self.visit_children(node)
        return ir.Select(*self._sides(node.condition, node.true_value, node.false_value), node.span)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> ir.PrimExpr:
        name = node.op.name if isinstance(node.op, ir.Op) else ""
        if name == "tir.address_of":
            return node
        if name != "tir.if_then_else":
            return self.visit_children(node)
        return node.replace(args=self._sides(*node.args))

    def _sides(
        self, condition: ir.PrimExpr, then: ir.PrimExpr, other: ir.PrimExpr
    ) -> tuple[ir.PrimExpr, ir.PrimExpr, ir.PrimExpr]:
        opposite = normalize_boolean(ir.Not(condition))
        return self.visit(condition), self.under(condition, then), self.under(opposite, other)

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        node = self.visit_children(node)
        index = node.indices[-1] if node.indices else None
        if index is None or index.dtype.is_scalar:
            value = self.scalar(node)
        else:
            value = self.vector(node)
        return node if value is None else value

    def scalar(self, load: ir.BufferLoad) -> ir.PrimExpr | None:
        """The known value of a scalar load."""
        values = self.place.values
        inlined = ir.BufferLoad(load.buffer, [ir.substitute(i, values) for i in load.indices], load.predicate)
        for fact in self.owner.forward.known(inlined, self.contents):
            if self.owner.logic.implies(self.facts, fact.condition):
                return fact.value
        return None

    def vector(self, load: ir.BufferLoad) -> ir.PrimExpr | None:
        """The known value of a vector load, if all lanes have one that depends on the lane as a ramp does."""
        index, logic = load.indices[-1], self.owner.logic
        if index.dtype.is_scalable or load.predicate is not None or not load.buffer.dtype.is_scalar:
            return None
        lane = ir.Var("lane", index.dtype.element_of)
        at = lane_of(index, lane)
        if at is None:
            return None
        logic.bind(lane, ir.Range.from_min_extent(ir.IntImm(lane.dtype, 0), ir.IntImm(lane.dtype, index.dtype.lanes)))
        value = self.scalar(ir.BufferLoad(load.buffer, [*load.indices[:-1], at]))
        if value is None:
            return None
        if lane not in variables_in(value):
            return ir.Broadcast(value, lanes_of(index.dtype))
        first, second = (ir.substitute(value, {lane: ir.IntImm(lane.dtype, k)}) for k in (0, 1))
        if not value.dtype.is_index:
            return None
        stride = self.owner.knowledge.simplified(second - first)
        linear = first + stride * ir.ops.cast(value.dtype, lane)
        if not isinstance(stride, ir.IntImm) or logic.linear(value) != logic.linear(linear):
            return None
        return ir.Ramp(self.owner.knowledge.simplified(first), stride, lanes_of(index.dtype))
