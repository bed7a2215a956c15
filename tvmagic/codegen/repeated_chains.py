"""Loops that LLVM must not vectorize: every iteration repeats the same long chain of steps.

To find out whether a value is the same in all lanes, LLVM 22 visits all that it is computed from, again for each use
(`vputils::isSingleScalar`). Where the answer is yes and each step uses the one before several times, as the minimum of
floats and steps under a condition do, that doubles with each step: `S[i] = min(S[i], X[k])` for 28 values of `k`, once
the loop over `k` is unrolled, would take years. Each iteration of such a loop over `i` does the same, so that vectors
would gain nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from tvmagic.codegen.statement_chains import ChainVisitor
from tvmagic.ir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    IntImm,
    LetStmt,
    Max,
    Min,
    PrimExpr,
    Var,
    structural_equal,
)
from tvmagic.ir.functor import Visitor, handles

__all__ = ["loops_of_repeated_chains"]

# So many steps take LLVM some milliseconds.
_SHORT = 8


class _Step(NamedTuple):
    """A store that goes on from what it overwrites: the loops around it, what else it reads, whether it reads it twice."""

    memory: Var
    loops: tuple[For, ...]
    variables: frozenset[Var]
    others: frozenset[Var]
    repeats: bool


class _Source(Visitor):
    """What a stored value depends on besides the place that it is stored to."""

    def __init__(self, store: BufferStore) -> None:
        self.store = store
        self.variables: set[Var] = set()
        self.others: set[Var] = set()
        self.uses = 0
        self.visit(store.value)

    @handles(Var)
    def var(self, node: Var) -> None:
        self.variables.add(node)

    @handles(Min, Max)
    def extreme(self, node: Min | Max) -> None:
        self.uses += node.dtype.is_float  # a NaN is compared, too
        self.visit_children(node)

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> None:
        if node.buffer.data is self.store.buffer.data and structural_equal(node.indices, self.store.indices):
            self.uses += 1
            return
        self.others.add(node.buffer.data)
        for index in node.indices:
            self.visit(index)


class _Chains(ChainVisitor):
    def __init__(self, body: Any) -> None:
        self.loops: tuple[For, ...] = ()
        self.branches = 0
        self.lets: dict[Var, PrimExpr] = {}
        self.stored: dict[For, set[Var]] = {}
        self.steps: list[_Step] = []
        self.visit(body)

    @handles(LetStmt, AttrStmt, AssertStmt, Allocate, AllocateConst, DeclBuffer)
    def chain(self, node: Any) -> None:
        inner = node
        while isinstance(inner, (LetStmt, AttrStmt, AssertStmt, Allocate, AllocateConst, DeclBuffer)):
            if isinstance(inner, LetStmt):
                self.lets[inner.var] = inner.value
            inner = inner.body
        self.visit(inner)

    @handles(PrimExpr)
    def leaf(self, node: PrimExpr) -> None:
        pass

    @handles(For)
    def loop(self, node: For) -> None:
        outer, self.loops = self.loops, (*self.loops, node)
        self.stored[node] = set()
        self.visit(node.body)
        self.loops = outer
        if outer:
            self.stored[outer[-1]] |= self.stored[node]

    @handles(IfThenElse)
    def branch(self, node: IfThenElse) -> None:
        self.branches += 1
        self.visit_children(node)
        self.branches -= 1

    @handles(BufferStore)
    def store(self, node: BufferStore) -> None:
        if not self.loops:
            return
        self.stored[self.loops[-1]].add(node.buffer.data)
        source = _Source(node)
        if source.uses:
            variables, others = self._resolved(source)
            repeats = source.uses > 1 or self.branches > 0
            self.steps.append(_Step(node.buffer.data, self.loops, variables, others, repeats))

    def _resolved(self, source: _Source) -> tuple[frozenset[Var], frozenset[Var]]:
        """The variables and the memory that a value depends on, also by way of lets."""
        variables, others, pending = set(source.variables), set(source.others), list(source.variables)
        while pending:
            value = self.lets.get(pending.pop())
            if value is not None:
                inside = _Source(source.store.replace(value=value))
                others |= inside.others
                pending += inside.variables - variables
                variables |= inside.variables
        return frozenset(variables), frozenset(others)


def _inner_iterations(step: _Step) -> Iterable[tuple[For, int]]:
    """The loops around a step, from the inside, with how often it runs in one iteration; while that is constant."""
    count = 1
    for loop in reversed(step.loops):
        yield loop, count
        if not isinstance(loop.extent, IntImm):
            return
        count *= loop.extent.value


def loops_of_repeated_chains(body: Any) -> set[For]:
    """The loops in `body` of which each iteration does the same long chain of steps."""
    chains = _Chains(body)
    lengths: Counter[tuple[For, Var]] = Counter()
    for step in chains.steps:
        for loop, count in _inner_iterations(step) if step.repeats else ():
            if loop.loop_var not in step.variables and not step.others & chains.stored[loop]:
                lengths[loop, step.memory] += count
    return {loop for (loop, _), length in lengths.items() if length > _SHORT}
