"""The search for elements that nobody needs: those that are overwritten before they are read.

It goes against the flow, first guessing and then checking, as the search forward does. At the end of the statement
every element is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvmagic.arith.integer_logic import FALSE, TRUE, Condition, TooMuchWork
from tvmagic.ir import Buffer
from tvmagic.tir.analysis.contents.graph import Edge, FlowBlock, Graph, Touch
from tvmagic.tir.analysis.contents.state import Knowledge
from tvmagic.tir.analysis.contents.touches import Region, Solution, region_of, still_to_come

__all__ = ["Backward"]

MOST_GROWING_VISITS = 3  # of one block; after that regions only shrink
MOST_VISITS = 8  # after that all elements are needed

Unneeded = Mapping[Buffer, Condition]


class Backward:
    """The elements that are not needed at the start and the end of each block."""

    def __init__(self, graph: Graph, knowledge: Knowledge) -> None:
        self.graph, self.knowledge, self.logic = graph, knowledge, knowledge.logic
        count = len(graph.blocks)
        self.start: list[Unneeded] = [{}] * count
        self.end: list[Unneeded] = [{}] * count
        self.visits = [0] * count
        try:
            self._guess()
            self._check()
        except TooMuchWork:
            self.start = self.end = [{}] * count

    def _guess(self) -> None:
        seen: set[int] = set()
        for block in reversed(self.graph.blocks):
            if block.guess_after is not None:
                self.end[block.number] = self.start[block.guess_after]
            else:
                self.end[block.number] = self._merged([e for e in block.after if e.target in seen])
            self.start[block.number] = self._through(block, self.end[block.number], True)
            seen.add(block.number)

    def _check(self) -> None:
        waiting = set(range(len(self.graph.blocks)))
        while waiting:
            number = max(waiting)
            waiting.discard(number)
            block = self.graph.blocks[number]
            self.visits[number] += 1
            new: Unneeded = {}
            if self.visits[number] > MOST_VISITS:
                self.end[number] = {}
            else:
                self.end[number] = self._merged(block.after)
                new = self._through(block, self.end[number], False)
            if self.visits[number] > MOST_GROWING_VISITS:
                old = self.start[number]
                new = {k: self.logic.reduced(self.logic.both(old[k], new[k])) for k in old.keys() & new.keys()}
            if not self._equivalent(new, self.start[number]):
                self.start[number] = new
                waiting |= {edge.source for edge in block.before}

    def _equivalent(self, a: Unneeded, b: Unneeded) -> bool:
        return all(self.logic.equivalent(a.get(key, FALSE), b.get(key, FALSE)) for key in a.keys() | b.keys())

    # ------------------------------------------------------------------ edges

    def _merged(self, edges: Sequence[Edge]) -> Unneeded:
        found = [self._along(edge, len(edges) > 1) for edge in edges]
        if not found:
            return {}
        if len(found) == 1:
            return found[0]
        first, second = found
        if all(edge.backward.tells for edge in edges):
            keys = first.keys() | second.keys()
            return {k: self._either(first.get(k, FALSE), second.get(k, FALSE)) for k in keys}
        return {k: self.logic.reduced(self.logic.both(first[k], second[k])) for k in first.keys() & second.keys()}

    def _either(self, a: Condition, b: Condition) -> Condition:
        return self.logic.reduced(self.logic.either(a, b))

    def _along(self, edge: Edge, meets: bool) -> Unneeded:
        step, logic = edge.backward, self.logic
        condition = self.knowledge.conditions(step) if meets or not step.tells else TRUE
        sums = {var: logic.linear(value) for var, value in step.values.items()}
        result: dict[Buffer, Condition] = {}
        for buffer, elements in self.start[edge.target].items():
            new = logic.replaced(elements, sums, step.values) if sums else elements
            result[buffer] = logic.reduced(logic.both(new, condition)) if sums or not condition.is_true else new
        return result

    # ------------------------------------------------------------------ blocks

    def _through(self, block: FlowBlock, unneeded: Unneeded, guess: bool) -> Unneeded:
        result = dict(unneeded)
        for touch in reversed(block.touches):
            if touch.buffer in self.graph.hidden:
                continue
            region = self.region(touch)
            old = result.get(touch.buffer, FALSE)
            if touch.kind != "write":
                result[touch.buffer] = FALSE if region.elements is None else self.logic.without(old, region.elements)
            elif region.elements is not None and not touch.masked:
                new = region.elements
                if guess:
                    new = self._future(block, touch, region)
                result[touch.buffer] = self._either(old, new)
        return result

    def region(self, touch: Touch) -> Region:
        """The elements that a touch touches at this iteration."""
        pure = all(self.graph.is_pure(i) for i in touch.indices)
        return region_of(self.logic, self.knowledge.axes.of(touch.buffer), touch.indices, None, pure)

    def _future(self, block: FlowBlock, touch: Touch, region: Region) -> Condition:
        """The elements that this and later iterations of the loops touch."""
        axes = self.knowledge.axes.of(touch.buffer)
        solution = Solution(self.logic, (*block.loops, *region.lane), axes, region.indices)
        touched = solution.touched(block, region.elements or TRUE)
        return self.logic.reduced(self.logic.both(touched, still_to_come(self.logic, block.loops, solution.values)))
