"""The search for what buffers hold, forward along the flow (`search.py`).

It guesses that behind a store in a loop all that the loop has stored so far is still there. When it checks, each block adds
only what it stores in this iteration, and what it is said to have stored before must arrive along the edge from the end
of the loop's body.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvmagic import ir
from tvmagic.arith.presburger import TRUE, Condition
from tvmagic.compat.contents.graph import FlowBlock, Step, Touch
from tvmagic.compat.contents.search import FORWARD, Search
from tvmagic.compat.contents.state import Contents, Fact, first_load
from tvmagic.compat.contents.touches import Region, Solution, region_of, so_far
from tvmagic.ir.effects import side_effect
from tvmagic.ir.query import is_call, variables_in

MOST_CASES = 8  # in which the loads of a value are known in different ways


class _Replaced(ir.Mutator):
    """Puts a value in the place of one load."""

    def __init__(self, load: ir.BufferLoad, value: ir.PrimExpr) -> None:
        self.load, self.value = load, value

    @ir.handles(ir.BufferLoad)
    def at_load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        return self.value if node is self.load else self.visit_children(node)


class Forward(Search[Contents]):
    """What holds at the start (`entered`) and the end (`left`) of each block."""

    direction = FORWARD

    def is_needed(self) -> bool:
        return any(t.kind != "read" for block in self.graph.blocks for t in block.touches)

    def narrowed(self, old: Contents, new: Contents) -> Contents:
        return self.knowledge.narrowed(old, new)

    def equivalent(self, a: Contents, b: Contents) -> bool:
        return self.knowledge.equivalent(a, b)

    def along(self, step: Step, known: Contents, meets: bool) -> Contents:
        contents = self.knowledge.replaced(known, step.values)
        needed = meets or not step.tells
        return self.knowledge.under(contents, self.knowledge.conditions(step)) if needed else contents

    def met(self, first: Contents, second: Contents, tells: bool) -> Contents:
        return self.knowledge.either(first, second) if tells else self.knowledge.common(first, second)

    def through(self, block: FlowBlock, known: Contents, guess: bool) -> Contents:
        contents = known
        for touch in block.touches:
            if touch.kind != "read" and touch.buffer not in self.graph.hidden:
                contents = {**contents, touch.buffer: self._changed(block, touch, contents, guess)}
        return contents

    def _changed(self, block: FlowBlock, touch: Touch, contents: Contents, guess: bool) -> tuple[Fact, ...]:
        """The facts about the buffer of a touch behind it."""
        logic, axes = self.logic, self.knowledge.axes.of(touch.buffer)
        old = contents.get(touch.buffer, ())
        only = logic.both(*[logic.condition(c) for c in touch.conditions])
        cases = [(TRUE, touch.indices)]
        if any(first_load(i) is not None for i in touch.indices):
            cases = self._known_indices(touch.indices, contents)
        kept: list[Fact] = []
        regions: list[tuple[Condition, Region]] = []
        for where, indices in cases:
            pure = all(self.graph.is_pure(i) for i in indices)
            region = region_of(logic, axes, indices, touch.value, pure)
            if region.elements is None:
                continue
            elements = logic.both(region.elements, where, only)
            regions.append((elements, region))
            if guess:
                elements = self._past(block, touch, region)
            for fact in old:
                kept.append(Fact(logic.without(logic.both(fact.condition, where), elements), fact.value))
        facts: tuple[Fact, ...] = ()
        for fact in kept:
            facts = self.knowledge.with_fact(facts, fact.condition, fact.value)
        for elements, region in regions:
            facts = self._learned(block, touch, facts, (elements, region), contents, guess)
        return facts

    def _learned(
        self,
        block: FlowBlock,
        touch: Touch,
        facts: tuple[Fact, ...],
        stored: tuple[Condition, Region],
        contents: Contents,
        guess: bool,
    ) -> tuple[Fact, ...]:
        """The facts with those that a store makes."""
        elements, region = stored
        if region.value is None or not self._is_exact(region.value):
            return facts
        solution = self._solution(block, touch, region)
        for where, value in self._cases(ir.substitute(region.value, region.lane_value), contents):
            if not self._is_value(value, touch.buffer):
                continue
            told = self.knowledge.simplified(solution.replaced(value))
            condition = self.logic.both(elements, where)
            if guess and {loop.var for loop in block.loops}.isdisjoint(variables_in(told)):
                values = solution.values
                sums = {var: self.logic.linear(v) for var, v in values.items()}
                earlier = self.logic.both(self._past(block, touch, region), self.logic.replaced(where, sums, values))
                condition = earlier
            elif guess:
                condition = self.logic.both(condition, *[self.logic.condition(c) for c in block.scope])
            facts = self.knowledge.with_fact(facts, condition, told)
        return facts

    def _is_exact(self, value: ir.PrimExpr) -> bool:
        """Whether the value of the expression is that of what was stored: not rounded, not undefined."""
        if value.dtype.is_float and value.dtype.bits < 32 and not isinstance(value, ir.ConstExpr):
            return False
        found: list[ir.Call] = []

        def look(node: ir.Node) -> bool:
            if is_call(node, "tir.undef"):
                found.append(node)
            return not found

        ir.pre_order_visit(value, look)
        return not found

    def _is_value(self, value: ir.PrimExpr, buffer: ir.Buffer) -> bool:
        pure = side_effect(value) <= ir.CallEffect.PURE and value.dtype is buffer.dtype
        return pure and self.graph.unknown.isdisjoint(variables_in(value))

    # ------------------------------------------------------------------ iterations

    def _solution(self, block: FlowBlock, touch: Touch, region: Region) -> Solution:
        axes = self.knowledge.axes.of(touch.buffer)
        return Solution(self.logic, (*block.loops, *region.lane), axes, region.indices)

    def _past(self, block: FlowBlock, touch: Touch, region: Region) -> Condition:
        """The elements that this and earlier iterations of the loops have touched."""
        solution = self._solution(block, touch, region)
        touched = solution.touched(block, region.elements or TRUE)
        extra = [self.logic.condition(solution.replaced(c)) for c in touch.conditions]
        return self.logic.reduced(self.logic.both(touched, *extra, so_far(self.logic, block.loops, solution.values)))

    # ------------------------------------------------------------------ loads in what is stored

    def _known_indices(
        self, indices: tuple[ir.PrimExpr, ...], contents: Contents
    ) -> list[tuple[Condition, tuple[ir.PrimExpr, ...]]]:
        """The indices without loads, in each case in which all of them are known."""
        cases: list[tuple[Condition, tuple[ir.PrimExpr, ...]]] = [(TRUE, ())]
        for index in indices:
            found = self._cases(index, contents) if index.dtype.is_scalar else []
            cases = [(self.logic.both(w, where), (*done, e)) for w, done in cases for where, e in found]
        return [case for case in cases[:MOST_CASES] if not case[0].is_false]

    def _cases(self, e: ir.PrimExpr, contents: Contents) -> list[tuple[Condition, ir.PrimExpr]]:
        """`e` without loads, in each case in which they are known."""
        done: list[tuple[Condition, ir.PrimExpr]] = []
        todo: list[tuple[Condition, ir.PrimExpr]] = [(TRUE, e)]
        while todo and len(done) + len(todo) <= MOST_CASES:
            where, value = todo.pop()
            load = first_load(value)
            if load is None:
                done.append((where, value))
            else:
                for fact in self.known(load, contents):
                    both = self.logic.both(where, fact.condition)
                    if not both.is_false:
                        todo.append((both, _Replaced(load, fact.value).visit(value)))
        return done

    def known(self, load: ir.BufferLoad, contents: Contents) -> Iterable[Fact]:
        """What is known of the value of a scalar load."""
        usable = load.predicate is None and load.buffer not in self.graph.hidden and load.dtype is load.buffer.dtype
        if not usable or not all(self.graph.is_pure(i) for i in load.indices):
            return []
        return [self.knowledge.at(fact, load.buffer, load.indices) for fact in contents.get(load.buffer, ())]
