"""Speculate loads that provably stay inside their buffers, instead of branching around them or masking them.

    T.if_then_else(i < n, X[i], 0)  ->  T.Select(i < n, X[i], 0)      # X has at least as many elements as i has values
    i < n and X[i] > 0              ->  T.bitwise_and(i < n, X[i] > 0)

That costs less than a branch or a mask, and LLVM vectorizes loops without branches. Conversely, a vector `Select` with a load
that may leave its buffer in lanes that are not selected becomes an `if_then_else`, which masks it.
"""

from __future__ import annotations

import math

from tvmagic import ir
from tvmagic.arith.intervals import Intervals
from tvmagic.codegen.late.common import ExpressionMutator, census, late_pass, work_of
from tvmagic.ir import BufferLoad
from tvmagic.ir.ops import make_const
from tvmagic.ir.query import callee, is_call, nodes_of
from tvmagic.passes import note

# Operations from which a branch around them pays, as it mostly is foreseen.
_FEW = 6
# Unsafe loads of a side that are looked for in the condition, which may do them in any case.
_NAMED = 8
_SMALL = {"tir.if_then_else", "tir.likely", "tir.fabs", "tir.isnan"}


Known = dict[
    int, tuple[ir.PrimExpr, "list[BufferLoad]"]
]  # by identity, the unsafe loads in an expression, `_NAMED` at most


@late_pass("SpeculateLoads")
def speculate_loads(func: ir.PrimFunc, check_bounds: bool) -> ir.PrimFunc:
    """Speculate loads that provably stay inside their buffers; mask those of vectors that may not."""
    return func.with_body(_Speculator(func, check_bounds).visit(func.body)) if census(func.body).choices else func


class _Speculator(ExpressionMutator):
    def __init__(self, func: ir.PrimFunc, check_bounds: bool) -> None:
        super().__init__(func)
        self.check_bounds, self.stored = check_bounds, work_of(func.body).stored
        self.guarded = ReadsOrCalls()
        self.known: Known | None = None

    @ir.handles(ir.And, ir.Or)
    def logical(self, node: ir.And | ir.Or) -> ir.PrimExpr:
        made, is_and = self.visit_children(node), isinstance(node, ir.And)
        if not self.guarded.test(node.b):
            return made
        if self._is_harmless(node.b):
            note("late", "speculated the loads of a condition: they stay inside their buffers", node)
            return ir.Call(
                node.dtype, "tir.bitwise_and" if is_and else "tir.bitwise_or", [made.a, made.b], span=node.span
            )
        if node.dtype.lane_code == 1:
            return made  # which evaluates its right operand only if the left one does not decide
        note("late", "masked the loads of a vector condition: they may leave their buffers", node)
        sides = [made.b, make_const(node.dtype, False)] if is_and else [make_const(node.dtype, True), made.b]
        return ir.Call(node.dtype, "tir.if_then_else", [made.a, *sides], span=node.span)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> ir.PrimExpr:
        made = self.visit_children(node)
        if not is_call(node, "tir.if_then_else") or node.args[0].dtype.lane_code != 1:
            return made
        if node.args[1].dtype != node.args[2].dtype:
            return made  # which code generation refuses
        guarded = [side for side in node.args[1:] if self.guarded.test(side)]
        if not guarded or not all(map(self._is_harmless, guarded)):
            return made
        note("late", "speculated the loads of a conditional: they stay inside their buffers", node)
        return ir.Select(*made.args, span=node.span)

    def _is_harmless(self, expr: ir.PrimExpr) -> bool:
        return not self.check_bounds and _is_harmless(expr, self.intervals, self.stored)

    @ir.handles(ir.Select)
    def select(self, node: ir.Select) -> ir.PrimExpr:
        outer = self.known
        self.known = {} if outer is None else outer  # for one expression: facts about loop variables differ elsewhere
        try:
            return self._select(node, self.known)
        finally:
            self.known = outer

    def _select(self, node: ir.Select, known: Known) -> ir.PrimExpr:
        sides = node.true_value, node.false_value
        lanes = node.condition.dtype.lane_code
        masked = lanes != 1 and any(_needs_mask(v, node.condition, self.intervals, known) for v in sides)
        made = self.visit_children(node)
        if not masked:
            return made
        note("late", "masked the loads of a vector Select: they may leave their buffers", node)
        args = [made.condition, made.true_value, made.false_value]
        return ir.Call(node.dtype, "tir.if_then_else", args, span=node.span)


def _needs_mask(side: ir.PrimExpr, condition: ir.PrimExpr, intervals: Intervals, known: Known) -> bool:
    """Return whether `side`, selected in the lanes of `condition`, has a load that may leave its buffer in other lanes.

    `known` caches results for operands of one expression: chains of conditionals ask about each of them.
    """
    finder = _FaultingLoads(intervals, known=known)
    finder.visit(side)
    if not finder.unsafe:
        return False
    if len(finder.unsafe) >= _NAMED:
        return True
    done = _Done()
    done.visit(condition)
    return not all(any(ir.structural_equal(load, other) for other in done.loads) for load in finder.unsafe)


def _is_harmless(expr: ir.PrimExpr, intervals: Intervals, stored: set[ir.Var]) -> bool:
    """Return whether an expression that reads memory can be computed whatever the condition is.

    All of its loads stay inside their buffers, it calls nothing, and it is short or a vector, which cannot branch. A scalar must not load from
    `stored`, the pointers that the function stores to: the next value would wait for it, while a branch is predicted, as in a search for the
    maximum.
    """
    scalar = expr.dtype.lane_code == 1
    found = _FaultingLoads(intervals, _FEW if scalar else math.inf)
    found.visit(expr)
    if found.unsafe or found.calls:
        return False
    return not scalar or found.count <= _FEW and not found.pointers & stored


class _FaultingLoads(ir.Visitor):
    """Collects the loads that may leave their buffers, or that stop the program if they do.

    It visits at most `most` expressions: each condition of a chain is asked about, and need not visit the rest.
    """

    def __init__(self, intervals: Intervals, most: float = math.inf, known: Known | None = None) -> None:
        self.intervals, self.most, self.known = intervals, most, known
        self.unsafe: list[BufferLoad] = []
        self.pointers: set[ir.Var] = set()  # to what is read
        self.calls = False  # of anything that is not short
        self.count = 0  # of expressions, those of indices not counted
        self.in_index = False

    @ir.handles(ir.PrimExpr)
    def other(self, node: ir.PrimExpr) -> None:
        self.count += not self.in_index
        if self.known is not None:
            self._remembered(node, self.known)
        elif self.count <= self.most:
            self.visit_children(node)

    def _remembered(self, node: ir.PrimExpr, known: Known) -> None:
        found = known.get(id(node))
        if found is None:
            outer, self.unsafe = self.unsafe, []
            self.visit_children(node)
            found = known[id(node)] = node, self.unsafe[:_NAMED]
            self.unsafe = outer
        self.unsafe += found[1]

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        self.calls |= callee(node) not in _SMALL
        self.other(node)

    @ir.handles(BufferLoad)
    def load(self, node: BufferLoad) -> None:
        self.count += not self.in_index
        outer, self.in_index = self.in_index, True
        self.visit_children(node)
        self.in_index = outer
        self.pointers.add(node.buffer.data)
        if not all(map(self._is_inside, node.indices, node.buffer.shape)):
            self.unsafe.append(node)

    def _is_inside(self, index: ir.PrimExpr, size: ir.PrimExpr) -> bool:
        if not isinstance(size, ir.IntImm) or not self.intervals.inside(index, size.value):
            return False
        return not any(is_call(part, "tir.checked_index") for part in nodes_of(index, ir.Call))  # it stops


class _Done(ir.Visitor):
    """Collects the loads that a condition performs in every lane, without those that another operand guards."""

    def __init__(self) -> None:
        self.loads: list[BufferLoad] = []

    @ir.handles(BufferLoad)
    def load(self, node: BufferLoad) -> None:
        if node.predicate is None:
            self.loads.append(node)
        self.visit_children(node)

    @ir.handles(ir.And, ir.Or)
    def logical(self, node: ir.BinaryOp) -> None:
        self.visit(node.a)

    @ir.handles(ir.Select)
    def select(self, node: ir.Select) -> None:
        self.visit(node.condition)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        if callee(node) == "tir.if_then_else":
            self.visit(node.args[0])
        else:
            self.visit_children(node)


class ReadsOrCalls(ir.Visitor):
    """Tells whether expressions read memory or call functions. Results are cached for all operands, so a chain is visited once."""

    def __init__(self) -> None:
        self.known: dict[ir.PrimExpr, bool] = {}
        self.found = False  # in the parts visited so far of the expression around

    def test(self, expr: ir.PrimExpr) -> bool:
        if expr not in self.known:
            self.found = False
            self.visit(expr)
        return self.known[expr]

    @ir.handles(ir.PrimExpr)
    def other(self, node: ir.PrimExpr) -> None:
        if node not in self.known:
            before, self.found = self.found, False
            self.visit_children(node)
            self.known[node], self.found = self.found, before
        self.found |= self.known[node]

    @ir.handles(BufferLoad)
    def load(self, node: BufferLoad) -> None:
        self.known[node] = self.found = True

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        if isinstance(node.op, ir.GlobalVar) or node.op.effect > 2:
            self.known[node] = self.found = True
        else:
            self.other(node)
