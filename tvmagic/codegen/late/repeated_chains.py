"""Loops that LLVM must not vectorize: every iteration repeats the same long chain of steps.

To find out whether a value is the same in all lanes, LLVM 22 visits all that it is computed from, again for each use
(`vputils::isSingleScalar`). Where the answer is yes and each step uses the one before several times, as the minimum of
floats, quotients of integers, roundings to bfloat16 and `exp` do, that grows severalfold with each step: `S[i] = min(S[i],
X[k])` for 28 values of `k`, once the loop over `k` is unrolled, would take years. Each iteration of such a loop over `i`
does the same, so that vectors would gain nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, NamedTuple

from tvmagic.codegen.late.iterative_visitor import ChainVisitor
from tvmagic.ir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BinaryOp,
    BufferLoad,
    BufferStore,
    Call,
    Cast,
    DeclBuffer,
    Div,
    FloorDiv,
    FloorMod,
    For,
    IfThenElse,
    IntImm,
    LetStmt,
    Max,
    Min,
    Mod,
    PrimExpr,
    Var,
    structural_equal,
)
from tvmagic.ir.functor import Visitor, handles
from tvmagic.ir.query import variables_behind

__all__ = ["loops_of_repeated_chains"]

# By about so many ways the code of an operation leads from its result to a value, in powers of this base.
_WAYS = 5
# So many ways through a chain take LLVM a part of a second.
_MOST = math.log(_WAYS**8)
# Functions whose code leads to their arguments by one way, and those that choose or round; all others compute a series.
_PLAIN = frozenset(
    {"if_then_else", "likely", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "reinterpret", "fabs", "sqrt"}
)
_CHOOSING = frozenset(
    {"abs", "shift_left", "shift_right", "floor", "ceil", "trunc", "round", "nearbyint", "isnan", "isinf"}
)


def _repeats(node: BinaryOp | Cast | Call) -> int:
    """How often the code of an operation branches out severalfold on its way to what it computes from."""
    dtype = node.dtype
    found = int(dtype.code == "bfloat" or dtype.is_float8)  # rounded by its bits
    if isinstance(node, (Min, Max)):
        return found + dtype.is_float  # a NaN is compared, too
    if isinstance(node, (FloorDiv, FloorMod, Div, Mod)):
        return found + (not (dtype.is_float and isinstance(node, Div)))
    if isinstance(node, Cast):
        return found + (node.value.dtype.is_float and not dtype.is_float)
    if isinstance(node, Call):
        name = getattr(node.op, "name", "").removeprefix("tir.")
        return found + (0 if name in _PLAIN else 1 if name in _CHOOSING else 3)
    return found


class _Step(NamedTuple):
    """A store, the loops around it and what it depends on.

    `beside` is the memory that it reads where it writes, as the two parts of an argmax do of each other, and how often;
    `others` the memory that it reads elsewhere. `repeats`: how often the code branches out severalfold, for its operations
    and for the condition that the store is under.
    """

    memory: Var
    loops: tuple[For, ...]
    place: frozenset[Var]
    variables: frozenset[Var]
    beside: Counter[Var]
    others: frozenset[Var]
    repeats: int

    def varies_in(self, loop: For, stored: set[Var], begun: set[Var]) -> bool:
        """Whether what is stored depends on the iteration of `loop`, in which `stored` is written, and `begun` before it."""
        if loop.loop_var in self.variables or self.others & stored:
            return True
        return loop.loop_var in self.place and not self.beside.keys() <= begun

    def ways(self, stored: set[Var]) -> float:
        """The logarithm of the number of ways by which it uses what the steps before it have stored; 0 if it does not."""
        uses = sum(count for memory, count in self.beside.items() if memory in stored)
        return math.log(uses) + self.repeats * math.log(_WAYS) if uses else 0.0


class _Source(Visitor):
    """What a stored value depends on besides the place that it is stored to."""

    def __init__(self, store: BufferStore, lets: dict[Var, PrimExpr]) -> None:
        self.store, self.lets = store, lets
        self.reached = 0  # loads from that place so far, and variables that may stand for such
        self.variables: set[Var] = set()
        self.beside: Counter[Var] = Counter()
        self.others: set[Var] = set()
        self.repeats = 0
        self.visit(store.value)

    @handles(Var)
    def var(self, node: Var) -> None:
        self.variables.add(node)
        self.reached += node in self.lets

    @handles(BinaryOp, Cast, Call)
    def computed(self, node: BinaryOp | Cast | Call) -> None:
        before = self.reached
        self.visit_children(node)
        if self.reached > before:
            self.repeats += _repeats(node)

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> None:
        if structural_equal(node.indices, self.store.indices):
            self.beside[node.buffer.data] += 1
            self.reached += 1
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
        self.steps: dict[For, list[_Step]] = {}
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
        step = self._step(node)
        for loop in self.loops:
            self.steps.setdefault(loop, []).append(step)

    def _step(self, store: BufferStore) -> _Step:
        """What a stored value depends on, also by way of lets."""
        source = _Source(store, self.lets)
        pending = list(source.variables)
        while pending:
            value = self.lets.get(pending.pop())
            if value is not None:
                inside = _Source(store.replace(value=value), self.lets)
                source.others |= inside.others
                source.beside += inside.beside
                source.repeats += inside.repeats
                pending += inside.variables - source.variables
                source.variables |= inside.variables
        place = frozenset(variables_behind(store.indices, self.lets))
        repeats = source.repeats + (self.branches > 0)
        return _Step(
            store.buffer.data, self.loops, place, frozenset(source.variables), source.beside, frozenset(source.others), repeats
        )  # fmt: skip


def _varying(loop: For, steps: list[_Step], stored: set[Var]) -> tuple[set[Var], set[Var]]:
    """The memory that holds something else in each iteration of `loop`, at some time and from its first value on."""
    varying: set[Var] = set()
    at_first: set[Var] = set()
    begun: set[Var] = set()
    readers: dict[Var, set[Var]] = {}
    for step in steps:
        if step.varies_in(loop, stored, begun):
            varying.add(step.memory)
            if step.memory not in begun:
                at_first.add(step.memory)
        begun.add(step.memory)
        for memory in step.beside:
            readers.setdefault(memory, set()).add(step.memory)
    return _spread(varying, readers), _spread(at_first, readers)


def _spread(varying: set[Var], readers: dict[Var, set[Var]]) -> set[Var]:
    """`varying` and all memory that is computed from it, by way of `readers`."""
    found, pending = set(varying), list(varying)
    while pending:
        more = readers.get(pending.pop(), set()) - found
        found |= more
        pending += more
    return found


def _runs_inside(step: _Step, loop: For) -> int:
    """How often a step runs in one iteration of `loop`; 0 if that is not constant."""
    count = 1
    for inner in step.loops[step.loops.index(loop) + 1 :]:
        if not isinstance(inner.extent, IntImm):
            return 0
        count *= inner.extent.value
    return count


def loops_of_repeated_chains(body: Any) -> set[For]:
    """The loops in `body` of which each iteration does the same long chain of steps.

    The parts of one result, as those of an argmax, are such a chain if they begin with the same, whatever they compare.
    """
    chains, found = _Chains(body), set()
    for loop, steps in chains.steps.items():
        stored = chains.stored[loop]
        ways: dict[Var, float] = {}
        varying, at_first = _varying(loop, steps, stored)
        for step in steps:
            if step.memory not in (at_first if len(step.beside) > 1 else varying):
                before = ways.get(step.memory, 0.0)
                ways[step.memory] = before + step.ways(stored) * _runs_inside(step, loop)
        if any(logarithm > _MOST + 1e-6 for logarithm in ways.values()):
            found.add(loop)
    return found
