"""Which loads may be done only if a condition holds, or only in the lanes in which it does.

A load that stays inside its buffer whatever the condition is, is done always: that costs less than a branch or a mask, and
LLVM makes vectors of loops without branches.
"""

from __future__ import annotations

import math

from tvmagic.arith.intervals import Intervals
from tvmagic.ir import (
    And,
    BinaryOp,
    BufferLoad,
    Call,
    IntImm,
    Or,
    PrimExpr,
    Select,
    Var,
    Visitor,
    handles,
    structural_equal,
)
from tvmagic.ir.query import callee, is_call, nodes_of

__all__ = ["is_harmless", "needs_mask"]

# Operations from which a branch around them pays, as it mostly is foreseen.
_FEW = 6
# Unsafe loads of a side that are looked for in the condition, which may do them in any case.
_NAMED = 8
_SMALL = {"tir.if_then_else", "tir.likely", "tir.fabs", "tir.isnan"}


Known = dict[
    int, tuple[PrimExpr, "list[BufferLoad]"]
]  # by identity, the unsafe loads in an expression, `_NAMED` at most


def needs_mask(side: PrimExpr, condition: PrimExpr, intervals: Intervals, known: Known) -> bool:
    """Whether `side`, taken in the lanes of `condition`, has a load that may be outside its buffer in other lanes.

    `known`: what was found in parts of the same expression; of a chain of choices each one is asked about.
    """
    finder = _Unsafe(intervals, known=known)
    finder.visit(side)
    if not finder.unsafe:
        return False
    if len(finder.unsafe) >= _NAMED:
        return True
    done = _Done()
    done.visit(condition)
    return not all(any(structural_equal(load, other) for other in done.loads) for load in finder.unsafe)


def is_harmless(expr: PrimExpr, intervals: Intervals, stored: set[Var]) -> bool:
    """Whether an expression that reads memory is computed whatever the condition is: all that it reads is inside its
    buffer, it calls nothing, and it is short or of lanes, which cannot branch.

    A scalar is not read so from what the function stores to, the pointers `stored`: the next value would wait for it,
    while a branch is foreseen, as in a search for the largest.
    """
    scalar = expr.dtype.lane_code == 1
    found = _Unsafe(intervals, _FEW if scalar else math.inf)
    found.visit(expr)
    if found.unsafe or found.calls:
        return False
    return not scalar or found.count <= _FEW and not found.pointers & stored


class _Unsafe(Visitor):
    """Collects the loads that are not provably inside their buffers, or that stop the program if they are not.

    It looks at `most` expressions and no further: of a chain of conditions, each of which is asked about, not at all the rest.
    """

    def __init__(self, intervals: Intervals, most: float = math.inf, known: Known | None = None) -> None:
        self.intervals, self.most, self.known = intervals, most, known
        self.unsafe: list[BufferLoad] = []
        self.pointers: set[Var] = set()  # to what is read
        self.calls = False  # of anything that is not short
        self.count = 0  # of expressions, those of indices not counted
        self.in_index = False

    @handles(PrimExpr)
    def other(self, node: PrimExpr) -> None:
        self.count += not self.in_index
        if self.known is not None:
            self._remembered(node, self.known)
        elif self.count <= self.most:
            self.visit_children(node)

    def _remembered(self, node: PrimExpr, known: Known) -> None:
        found = known.get(id(node))
        if found is None:
            outer, self.unsafe = self.unsafe, []
            self.visit_children(node)
            found = known[id(node)] = node, self.unsafe[:_NAMED]
            self.unsafe = outer
        self.unsafe += found[1]

    @handles(Call)
    def call(self, node: Call) -> None:
        self.calls |= callee(node) not in _SMALL
        self.other(node)

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> None:
        self.count += not self.in_index
        outer, self.in_index = self.in_index, True
        self.visit_children(node)
        self.in_index = outer
        self.pointers.add(node.buffer.data)
        if not all(map(self._inside, node.indices, node.buffer.shape)):
            self.unsafe.append(node)

    def _inside(self, index: PrimExpr, size: PrimExpr) -> bool:
        if not isinstance(size, IntImm) or not self.intervals.inside(index, size.value):
            return False
        return not any(is_call(part, "tir.checked_index") for part in nodes_of(index, Call))  # it stops


class _Done(Visitor):
    """Collects the loads that a condition does in every lane: not those that another part of it guards."""

    def __init__(self) -> None:
        self.loads: list[BufferLoad] = []

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> None:
        if node.predicate is None:
            self.loads.append(node)
        self.visit_children(node)

    @handles(And, Or)
    def logical(self, node: BinaryOp) -> None:
        self.visit(node.a)

    @handles(Select)
    def select(self, node: Select) -> None:
        self.visit(node.condition)

    @handles(Call)
    def call(self, node: Call) -> None:
        if callee(node) == "tir.if_then_else":
            self.visit(node.args[0])
        else:
            self.visit_children(node)
