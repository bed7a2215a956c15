"""The search along the flow, or against it, for what holds at the two ends of each block, until nothing changes.

The first sweep guesses: what a loop does in all its iterations is taken to be so at once. The second part checks it, each
block against those that the search comes from. What is not so is dropped, and the search goes on until every block agrees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tvmagic.arith.presburger import TooMuchWork
from tvmagic.compat.contents.graph import Edge, FlowBlock, Graph, Step
from tvmagic.compat.contents.state import Knowledge

MOST_GROWING_VISITS = 3  # of one block; after that what is known only shrinks
MOST_VISITS = 8  # after that nothing is known at its ends

K = TypeVar("K")  # what is known, by buffer


@dataclass(frozen=True)
class Direction:
    """A direction of the search: which blocks come first, the edges by which it comes and goes, and the ends of an edge."""

    first: Callable[[set[int]], int]
    edges: Callable[[FlowBlock], list[Edge]]
    onward: Callable[[FlowBlock], list[Edge]]
    origin: Callable[[Edge], int]
    target: Callable[[Edge], int]
    step: Callable[[Edge], Step]
    guess: Callable[[FlowBlock], int | None]


FORWARD = Direction(
    min, lambda b: b.before, lambda b: b.after, lambda e: e.source, lambda e: e.target, lambda e: e.forward,
    lambda b: b.guess_before,
)  # fmt: skip
BACKWARD = Direction(
    max, lambda b: b.after, lambda b: b.before, lambda e: e.target, lambda e: e.source, lambda e: e.backward,
    lambda b: b.guess_after,
)  # fmt: skip


class Search(Generic[K]):
    """What is known where the search enters each block (`entered`) and where it leaves it (`left`).

    A subclass says what an edge and a block do to what is known, and what is known where two edges meet.
    """

    direction: Direction

    def __init__(self, graph: Graph, knowledge: Knowledge) -> None:
        self.graph, self.knowledge, self.logic = graph, knowledge, knowledge.logic
        count = len(graph.blocks)
        self.entered: list[K] = [self.nothing()] * count
        self.left: list[K] = [self.nothing()] * count
        self.visits = [0] * count
        if not self.is_needed():
            return
        try:
            self._guess()
            self._check()
        except TooMuchWork:
            self.entered = self.left = [self.nothing()] * count

    def _guess(self) -> None:
        direction, seen = self.direction, set[int]()
        blocks = self.graph.blocks
        for block in blocks if direction is FORWARD else reversed(blocks):
            guess = direction.guess(block)
            if guess is not None:
                self.entered[block.number] = self.left[guess]
            else:
                edges = [e for e in direction.edges(block) if direction.origin(e) in seen]
                self.entered[block.number] = self._merged(edges)
            self.left[block.number] = self.through(block, self.entered[block.number], True)
            seen.add(block.number)

    def _check(self) -> None:
        direction, waiting = self.direction, set(range(len(self.graph.blocks)))
        while waiting:
            number = direction.first(waiting)
            waiting.discard(number)
            block = self.graph.blocks[number]
            self.visits[number] += 1
            new = self.nothing()
            if self.visits[number] > MOST_VISITS:
                self.entered[number] = self.nothing()
            else:
                self.entered[number] = self._merged(direction.edges(block))
                new = self.through(block, self.entered[number], False)
            if self.visits[number] > MOST_GROWING_VISITS:
                new = self.narrowed(self.left[number], new)
            if not self.equivalent(new, self.left[number]):
                self.left[number] = new
                waiting |= {direction.target(edge) for edge in direction.onward(block)}

    def _merged(self, edges: Sequence[Edge]) -> K:
        """What is known where the edges meet."""
        steps = [self.direction.step(edge) for edge in edges]
        found = [
            self.along(step, self.left[self.direction.origin(edge)], len(edges) > 1) for edge, step in zip(edges, steps)
        ]
        if not found:
            return self.nothing()
        if len(found) == 1:
            return found[0]
        first, second = found
        return self.met(first, second, all(step.tells for step in steps))

    # ------------------------------------------------------------------ what a subclass says

    def is_needed(self) -> bool:
        """Whether there is anything to find."""
        return True

    def nothing(self) -> K:
        """Nothing is known."""
        nothing: Any = {}
        return nothing

    def along(self, step: Step, known: K, meets: bool) -> K:
        """What is known behind an edge; `meets`: another edge arrives at the same block."""
        raise NotImplementedError

    def met(self, first: K, second: K, tells: bool) -> K:
        """What is known where two edges meet; `tells`: the conditions of the edges say which of them was taken."""
        raise NotImplementedError

    def through(self, block: FlowBlock, known: K, guess: bool) -> K:
        """What is known behind a block."""
        raise NotImplementedError

    def narrowed(self, old: K, new: K) -> K:
        """What both say."""
        raise NotImplementedError

    def equivalent(self, a: K, b: K) -> bool:
        """Whether both say the same."""
        raise NotImplementedError
