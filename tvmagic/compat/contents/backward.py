"""The search for elements that nobody needs: those that are overwritten before they are read.

It goes against the flow (`search.py`). At the end of the statement every element is needed.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvmagic.arith.presburger import FALSE, TRUE, Condition
from tvmagic.compat.contents.graph import FlowBlock, Step, Touch
from tvmagic.compat.contents.search import BACKWARD, Search
from tvmagic.compat.contents.touches import Region, Solution, region_of, still_to_come
from tvmagic.ir import Buffer

Unneeded = Mapping[Buffer, Condition]


class Backward(Search[Unneeded]):
    """The elements that are not needed at the end (`entered`) and the start (`left`) of each block."""

    direction = BACKWARD

    def narrowed(self, old: Unneeded, new: Unneeded) -> Unneeded:
        return {k: self.logic.reduced(self.logic.both(old[k], new[k])) for k in old.keys() & new.keys()}

    def equivalent(self, a: Unneeded, b: Unneeded) -> bool:
        return all(self.logic.equivalent(a.get(key, FALSE), b.get(key, FALSE)) for key in a.keys() | b.keys())

    def met(self, first: Unneeded, second: Unneeded, tells: bool) -> Unneeded:
        if not tells:
            return self.narrowed(first, second)
        keys = first.keys() | second.keys()
        return {k: self._either(first.get(k, FALSE), second.get(k, FALSE)) for k in keys}

    def _either(self, a: Condition, b: Condition) -> Condition:
        return self.logic.reduced(self.logic.either(a, b))

    def along(self, step: Step, known: Unneeded, meets: bool) -> Unneeded:
        logic = self.logic
        condition = self.knowledge.conditions(step) if meets or not step.tells else TRUE
        sums = {var: logic.linear(value) for var, value in step.values.items()}
        result: dict[Buffer, Condition] = {}
        for buffer, elements in known.items():
            new = logic.replaced(elements, sums, step.values) if sums else elements
            result[buffer] = logic.reduced(logic.both(new, condition)) if sums or not condition.is_true else new
        return result

    def through(self, block: FlowBlock, known: Unneeded, guess: bool) -> Unneeded:
        result = dict(known)
        for touch in reversed(block.touches):
            if touch.buffer in self.graph.hidden:
                continue
            region = self.region(touch)
            old = result.get(touch.buffer, FALSE)
            if touch.kind != "write":
                result[touch.buffer] = FALSE if region.elements is None else self.logic.without(old, region.elements)
            elif region.elements is not None and not touch.masked:
                new = self._future(block, touch, region) if guess else region.elements
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
