"""Find loops whose iterations all repeat one long dependence chain. LLVM must not vectorize them.

To decide whether a value is the same in all lanes, LLVM 22 visits all of its operands again for each use (`vputils::isSingleScalar`). If it
is, and each step uses the previous one several times, the time grows by a factor per step. Minima of floats, quotients of integers,
conversions to bfloat16 and `exp` are such steps: `S[i] = min(S[i], X[k])` for 28 values of `k`, with the loop over `k` unrolled, would take
years. Vectors of such a loop over `i` would gain nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, NamedTuple

from tvmagic import ir
from tvmagic.codegen.late.iterative_visitor import ChainVisitor
from tvmagic.ir.query import variables_behind

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


def _repeats(node: ir.BinaryOp | ir.Cast | ir.Call) -> int:
    """Return the number of times that an operation's code uses its operand severalfold."""
    dtype = node.dtype
    found = int(dtype.code == "bfloat" or dtype.is_float8)  # rounded by its bits
    if isinstance(node, (ir.Min, ir.Max)):
        return found + dtype.is_float  # a NaN is compared, too
    if isinstance(node, (ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod)):
        return found + (not (dtype.is_float and isinstance(node, ir.Div)))
    if isinstance(node, ir.Cast):
        return found + (node.value.dtype.is_float and not dtype.is_float)
    if isinstance(node, ir.Call):
        name = getattr(node.op, "name", "").removeprefix("tir.")
        return found + (0 if name in _PLAIN else 1 if name in _CHOOSING else 3)
    return found


class _Step(NamedTuple):
    """A store, its loops and its dependences.

    `beside` counts the loads of memory that the same indices access, as the two results of an argmax load each other's; `others` is the
    memory that is loaded at other indices. `repeats` counts severalfold uses in the value and in the condition of the store.
    """

    memory: ir.Var
    loops: tuple[ir.For, ...]
    place: frozenset[ir.Var]
    variables: frozenset[ir.Var]
    beside: Counter[ir.Var]
    others: frozenset[ir.Var]
    repeats: int

    def varies_in(self, loop: ir.For, stored: set[ir.Var], begun: set[ir.Var]) -> bool:
        """Return whether the stored value depends on the iteration of `loop`; the loop writes `stored`, and `begun` is initialized before it."""
        if loop.loop_var in self.variables or self.others & stored:
            return True
        return loop.loop_var in self.place and not self.beside.keys() <= begun

    def ways(self, stored: set[ir.Var]) -> float:
        """Return the logarithm of the number of ways in which the step uses results of earlier steps, or 0 if it uses none."""
        uses = sum(count for memory, count in self.beside.items() if memory in stored)
        return math.log(uses) + self.repeats * math.log(_WAYS) if uses else 0.0


class _Source(ir.Visitor):
    """Dependences of a stored value, without those on the element itself."""

    def __init__(self, store: ir.BufferStore, lets: dict[ir.Var, ir.PrimExpr]) -> None:
        self.store, self.lets = store, lets
        self.reached = 0  # loads from that place so far, and variables that may stand for such
        self.variables: set[ir.Var] = set()
        self.beside: Counter[ir.Var] = Counter()
        self.others: set[ir.Var] = set()
        self.repeats = 0
        self.visit(store.value)

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> None:
        self.variables.add(node)
        self.reached += node in self.lets

    @ir.handles(ir.BinaryOp, ir.Cast, ir.Call)
    def computed(self, node: ir.BinaryOp | ir.Cast | ir.Call) -> None:
        before = self.reached
        self.visit_children(node)
        if self.reached > before:
            self.repeats += _repeats(node)

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        if ir.structural_equal(node.indices, self.store.indices):
            self.beside[node.buffer.data] += 1
            self.reached += 1
            return
        self.others.add(node.buffer.data)
        for index in node.indices:
            self.visit(index)


class _Chains(ChainVisitor):
    def __init__(self, body: Any) -> None:
        self.loops: tuple[ir.For, ...] = ()
        self.branches = 0
        self.lets: dict[ir.Var, ir.PrimExpr] = {}
        self.stored: dict[ir.For, set[ir.Var]] = {}
        self.steps: dict[ir.For, list[_Step]] = {}
        self.visit(body)

    @ir.handles(ir.LetStmt, ir.AttrStmt, ir.AssertStmt, ir.Allocate, ir.AllocateConst, ir.DeclBuffer)
    def chain(self, node: Any) -> None:
        inner = node
        while isinstance(inner, (ir.LetStmt, ir.AttrStmt, ir.AssertStmt, ir.Allocate, ir.AllocateConst, ir.DeclBuffer)):
            if isinstance(inner, ir.LetStmt):
                self.lets[inner.var] = inner.value
            inner = inner.body
        self.visit(inner)

    @ir.handles(ir.PrimExpr)
    def leaf(self, node: ir.PrimExpr) -> None:
        pass

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        outer, self.loops = self.loops, (*self.loops, node)
        self.stored[node] = set()
        self.visit(node.body)
        self.loops = outer
        if outer:
            self.stored[outer[-1]] |= self.stored[node]

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> None:
        self.branches += 1
        self.visit_children(node)
        self.branches -= 1

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        if not self.loops:
            return
        self.stored[self.loops[-1]].add(node.buffer.data)
        step = self._step(node)
        for loop in self.loops:
            self.steps.setdefault(loop, []).append(step)

    def _step(self, store: ir.BufferStore) -> _Step:
        """Return the dependences of a stored value, including those through lets."""
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


def _varying(loop: ir.For, steps: list[_Step], stored: set[ir.Var]) -> tuple[set[ir.Var], set[ir.Var]]:
    """Return the memory whose content differs between iterations of `loop`, and the memory for which it does from its initial value on."""
    varying: set[ir.Var] = set()
    at_first: set[ir.Var] = set()
    begun: set[ir.Var] = set()
    readers: dict[ir.Var, set[ir.Var]] = {}
    for step in steps:
        if step.varies_in(loop, stored, begun):
            varying.add(step.memory)
            if step.memory not in begun:
                at_first.add(step.memory)
        begun.add(step.memory)
        for memory in step.beside:
            readers.setdefault(memory, set()).add(step.memory)
    return _spread(varying, readers), _spread(at_first, readers)


def _spread(varying: set[ir.Var], readers: dict[ir.Var, set[ir.Var]]) -> set[ir.Var]:
    """Return `varying` and all memory computed from it, as `readers` says."""
    found, pending = set(varying), list(varying)
    while pending:
        more = readers.get(pending.pop(), set()) - found
        found |= more
        pending += more
    return found


def _runs_inside(step: _Step, loop: ir.For) -> int:
    """Return the number of times that a step executes per iteration of `loop`, or 0 if it is not constant."""
    count = 1
    for inner in step.loops[step.loops.index(loop) + 1 :]:
        if not isinstance(inner.extent, ir.IntImm):
            return 0
        count *= inner.extent.value
    return count


def loops_of_repeated_chains(body: Any) -> set[ir.For]:
    """Return the loops in `body` whose iterations all repeat one long dependence chain.

    The results of one reduction, such as those of an argmax, form a chain if they start with the same value.
    """
    chains, found = _Chains(body), set()
    for loop, steps in chains.steps.items():
        stored = chains.stored[loop]
        ways: dict[ir.Var, float] = {}
        varying, at_first = _varying(loop, steps, stored)
        for step in steps:
            if step.memory not in (at_first if len(step.beside) > 1 else varying):
                before = ways.get(step.memory, 0.0)
                ways[step.memory] = before + step.ways(stored) * _runs_inside(step, loop)
        if any(logarithm > _MOST + 1e-6 for logarithm in ways.values()):
            found.add(loop)
    return found
