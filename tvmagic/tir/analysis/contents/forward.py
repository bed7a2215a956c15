"""The search for what buffers hold: forward along the flow, until nothing changes.

The first sweep guesses: behind a store in a loop, all that the loop has stored so far is taken to be there still. The
second part checks it: each block adds only what it stores in this iteration, and what it is said to have stored
before must arrive along the edge from the end of the loop's body. What does not is dropped, and the search goes on
until every block agrees with those before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvmagic.arith.integer_logic import TRUE, Condition, TooMuchWork
from tvmagic.ir import (
    Buffer,
    BufferLoad,
    Call,
    CallEffect,
    ConstExpr,
    Node,
    PrimExpr,
    pre_order_visit,
    substitute,
)
from tvmagic.ir.functor import Mutator, handles
from tvmagic.ir.query import is_call, variables_in
from tvmagic.tir.analysis.contents.graph import Edge, FlowBlock, Graph, Touch
from tvmagic.tir.analysis.contents.state import Contents, Fact, Knowledge, first_load
from tvmagic.tir.analysis.contents.touches import Region, Solution, region_of, so_far
from tvmagic.tir.analysis.effects import side_effect

__all__ = ["Forward"]

MOST_GROWING_VISITS = 3  # of one block; after that facts only shrink
MOST_VISITS = 8  # after that nothing is known at its ends
MOST_CASES = 8  # in which the loads of a value are known in different ways


class _Replaced(Mutator):
    """Puts a value in the place of one load."""

    def __init__(self, load: BufferLoad, value: PrimExpr) -> None:
        self.load, self.value = load, value

    @handles(BufferLoad)
    def at_load(self, node: BufferLoad) -> PrimExpr:
        return self.value if node is self.load else self.visit_children(node)


class Forward:
    """What holds at the start and the end of each block."""

    def __init__(self, graph: Graph, knowledge: Knowledge) -> None:
        self.graph, self.knowledge, self.logic = graph, knowledge, knowledge.logic
        count = len(graph.blocks)
        self.start: list[Contents] = [{}] * count
        self.end: list[Contents] = [{}] * count
        self.visits = [0] * count
        if any(t.kind != "read" for block in graph.blocks for t in block.touches):
            try:
                self._guess()
                self._check()
            except TooMuchWork:
                self.start = self.end = [{}] * count

    def _guess(self) -> None:
        seen: set[int] = set()
        for block in self.graph.blocks:
            if block.guess_before is not None:
                self.start[block.number] = self.end[block.guess_before]
            else:
                self.start[block.number] = self._merged([e for e in block.before if e.source in seen])
            self.end[block.number] = self._through(block, self.start[block.number], True)
            seen.add(block.number)

    def _check(self) -> None:
        waiting = set(range(len(self.graph.blocks)))
        while waiting:
            number = min(waiting)
            waiting.discard(number)
            block = self.graph.blocks[number]
            self.visits[number] += 1
            new: Contents = {}
            if self.visits[number] > MOST_VISITS:
                self.start[number] = {}
            else:
                self.start[number] = self._merged(block.before)
                new = self._through(block, self.start[number], False)
            if self.visits[number] > MOST_GROWING_VISITS:
                new = self.knowledge.narrowed(self.end[number], new)
            if not self.knowledge.equivalent(new, self.end[number]):
                self.end[number] = new
                waiting |= {edge.target for edge in block.after}

    # ------------------------------------------------------------------ edges

    def _merged(self, edges: Sequence[Edge]) -> Contents:
        """What holds where the edges meet."""
        found = [self._along(edge, len(edges) > 1) for edge in edges]
        if not found:
            return {}
        if len(found) == 1:
            return found[0]
        first, second = found
        tells = all(edge.forward.tells for edge in edges)
        return self.knowledge.either(first, second) if tells else self.knowledge.common(first, second)

    def _along(self, edge: Edge, meets: bool) -> Contents:
        step = edge.forward
        contents = self.knowledge.replaced(self.end[edge.source], step.values)
        needed = meets or not step.tells
        return self.knowledge.under(contents, self.knowledge.conditions(step)) if needed else contents

    # ------------------------------------------------------------------ blocks

    def _through(self, block: FlowBlock, contents: Contents, guess: bool) -> Contents:
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
        for where, value in self._cases(substitute(region.value, region.lane_value), contents):
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

    def _is_exact(self, value: PrimExpr) -> bool:
        """Whether the value of the expression is that of what was stored: not rounded, not undefined."""
        if value.dtype.is_float and value.dtype.bits < 32 and not isinstance(value, ConstExpr):
            return False
        found: list[Call] = []

        def look(node: Node) -> bool:
            if is_call(node, "tir.undef"):
                found.append(node)
            return not found

        pre_order_visit(value, look)
        return not found

    def _is_value(self, value: PrimExpr, buffer: Buffer) -> bool:
        pure = side_effect(value) <= CallEffect.PURE and value.dtype is buffer.dtype
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
        self, indices: tuple[PrimExpr, ...], contents: Contents
    ) -> list[tuple[Condition, tuple[PrimExpr, ...]]]:
        """The indices without loads, in each case in which all of them are known."""
        cases: list[tuple[Condition, tuple[PrimExpr, ...]]] = [(TRUE, ())]
        for index in indices:
            found = self._cases(index, contents) if index.dtype.is_scalar else []
            cases = [(self.logic.both(w, where), (*done, e)) for w, done in cases for where, e in found]
        return [case for case in cases[:MOST_CASES] if not case[0].is_false]

    def _cases(self, e: PrimExpr, contents: Contents) -> list[tuple[Condition, PrimExpr]]:
        """`e` without loads, in each case in which they are known."""
        done: list[tuple[Condition, PrimExpr]] = []
        todo: list[tuple[Condition, PrimExpr]] = [(TRUE, e)]
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

    def known(self, load: BufferLoad, contents: Contents) -> Iterable[Fact]:
        """What is known of the value of a scalar load."""
        usable = load.predicate is None and load.buffer not in self.graph.hidden and load.dtype is load.buffer.dtype
        if not usable or not all(self.graph.is_pure(i) for i in load.indices):
            return []
        return [self.knowledge.at(fact, load.buffer, load.indices) for fact in contents.get(load.buffer, ())]
