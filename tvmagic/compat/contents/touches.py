"""Which elements of a buffer an access touches, told in the variables of the buffer's axes.

At one iteration that is an equation for each axis, `axis == index`. What a loop has touched so far, or will touch from
here on, is found by solving these equations for the loops' variables; it is only a guess, since another access may
come in between, and is checked by those who use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvmagic import ir
from tvmagic.arith.presburger import TRUE, Condition, IntegerLogic, Linear, Opaque, Quotient
from tvmagic.compat.contents.graph import FlowBlock, Loop
from tvmagic.ir.prim_expr import class_of
from tvmagic.ir.query import variables_in


class Axes:
    """One variable for each axis of each buffer, which all facts about the buffer share."""

    def __init__(self) -> None:
        self.known: dict[ir.Buffer, tuple[ir.Var, ...]] = {}

    def of(self, buffer: ir.Buffer) -> tuple[ir.Var, ...]:
        """The variables of a buffer."""
        found = self.known.get(buffer)
        if found is None:
            found = tuple([ir.Var(f"{buffer.name}_axis{i}", size.dtype) for i, size in enumerate(buffer.shape)])
            self.known[buffer] = found
        return found


class _NoLane(Exception):
    """A vector of which one lane cannot be told."""


class _Lane(ir.Mutator):
    """One lane of a vector expression."""

    def __init__(self, lane: ir.PrimExpr) -> None:
        self.lane = lane

    def visit(self, node: Any) -> Any:
        return node if isinstance(node, ir.PrimExpr) and node.dtype.is_scalar else super().visit(node)

    @ir.handles(ir.PrimExpr)
    def other(self, node: ir.PrimExpr) -> ir.PrimExpr:
        raise _NoLane

    @ir.handles(ir.Ramp)
    def ramp(self, node: ir.Ramp) -> ir.PrimExpr:
        return node.base + node.stride * ir.ops.cast(node.stride.dtype, self.lane)

    @ir.handles(ir.Broadcast)
    def broadcast(self, node: ir.Broadcast) -> ir.PrimExpr:
        return node.value

    @ir.handles(ir.BinaryOp, ir.Not, ir.Select)
    def operator(self, node: Any) -> ir.PrimExpr:
        names = [f.name for f in class_of(node).FIELDS]
        return class_of(node)(*[self.visit(getattr(node, name)) for name in names])

    @ir.handles(ir.Cast)
    def cast(self, node: ir.Cast) -> ir.PrimExpr:
        return ir.Cast(node.dtype.element_of, self.visit(node.value))

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        if node.predicate is not None or not node.buffer.dtype.is_scalar:
            raise _NoLane
        return ir.BufferLoad(node.buffer, [*node.indices[:-1], self.visit(node.indices[-1])])

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> ir.PrimExpr:
        if not isinstance(node.op, ir.Op) or not node.op.vectorizable:
            raise _NoLane
        return ir.Call(node.dtype.element_of, node.op, [self.visit(a) for a in node.args])


def lane_of(e: ir.PrimExpr, lane: ir.PrimExpr) -> ir.PrimExpr | None:
    """Lane number `lane` of a vector; a scalar is the same in each lane. None if it cannot be told."""
    try:
        return _Lane(lane).visit(e)
    except _NoLane:
        return None


@dataclass(eq=False)
class Region:
    """The elements that an access touches at this iteration, and the value stored there, if it is known.

    `elements` is a condition on the axes and the variables of the loops; None stands for any element.
    """

    elements: Condition | None
    value: ir.PrimExpr | None
    indices: tuple[ir.PrimExpr, ...] = ()
    # of a vector access: `value` and `indices` are those of the lane whose number is a variable, as if it were a loop's;
    # `lane_value` tells that number by the axes and the loops
    lane: tuple[Loop, ...] = ()
    lane_value: Mapping[ir.Var, ir.PrimExpr] = field(default_factory=dict[ir.Var, ir.PrimExpr])


def region_of(
    logic: IntegerLogic, axes: Sequence[ir.Var], indices: Sequence[ir.PrimExpr], value: ir.PrimExpr | None, known: bool
) -> Region:
    """The region of an access; `known`: whether the indices are computed from variables alone."""
    vector = indices[-1].dtype if indices else None
    if not known or (vector is not None and vector.is_scalable):
        return Region(None, None)
    if vector is None or vector.is_scalar:
        return Region(_equations(logic, axes, indices), value, tuple(indices))
    return _vector_region(logic, axes, indices, value)


def _equations(logic: IntegerLogic, axes: Sequence[ir.Var], indices: Sequence[ir.PrimExpr]) -> Condition:
    return logic.both(*[logic.equal(logic.linear(a), logic.linear(i)) for a, i in zip(axes, indices)])


def _vector_region(
    logic: IntegerLogic, axes: Sequence[ir.Var], indices: Sequence[ir.PrimExpr], value: ir.PrimExpr | None
) -> Region:
    """The region of a vector access; the last axis tells the lane."""
    last = indices[-1]
    if isinstance(last, ir.Broadcast):
        last, value = last.value, None  # which lane stores last is left open
        return Region(_equations(logic, axes, [*indices[:-1], last]), value, (*indices[:-1], last))
    if not isinstance(last, ir.Ramp) or not isinstance(last.stride, ir.IntImm) or last.stride.value == 0:
        return Region(None, None)
    axis, stride, lanes = axes[-1], last.stride.value, last.dtype.lanes
    distance, size = (axis - last.base, stride) if stride > 0 else (last.base - axis, -stride)
    lane = distance if size == 1 else ir.ops.floordiv(distance, size)
    elements = logic.both(
        _equations(logic, axes[:-1], indices[:-1]),
        logic.equal(logic.linear(distance), logic.linear(lane * size)),
        logic.condition(lane >= 0),
        logic.condition(lane < lanes),
    )
    number = ir.Var("lane", axis.dtype)
    one = None if value is None else lane_of(value, number)
    steps = Loop(number, ir.IntImm(axis.dtype, 0), ir.IntImm(axis.dtype, lanes - 1))
    return Region(elements, one, (*indices[:-1], last.base + last.stride * number), (steps,), {number: lane})


# ---------------------------------------------------------------------------- solving for the loops


class Solution:
    """The variables of loops in terms of a buffer's axes, as far as the indices of an access tell them."""

    def __init__(
        self, logic: IntegerLogic, loops: Sequence[Loop], axes: Sequence[ir.Var], indices: Sequence[ir.PrimExpr]
    ) -> None:
        self.logic = logic
        self.loops = {loop.var: loop for loop in loops}
        self.sums: dict[Any, Linear] = {}  # terms that are known
        self.values: dict[ir.Var, ir.PrimExpr] = {}
        left = [(axis, logic.linear(index)) for axis, index in zip(axes, indices)]
        changed = True
        while changed and left:
            changed = False
            for equation in list(left):
                if self._solve(*equation):
                    left.remove(equation)
                    changed = True

    def _solve(self, axis: ir.Var, index: Linear) -> bool:
        """Learn the terms of `axis == index`; whether all of them are known now."""
        right = Linear({axis: 1}, -index.constant)
        unknown: list[tuple[Any, int]] = []
        for term, factor in index.terms.items():
            known = self.sums.get(term)
            if known is not None:
                right = right.plus(known, -factor)
            elif self._depends(term):
                unknown.append((term, factor))
            else:
                right = right.plus(Linear({term: 1}, 0), -factor)
        unknown.sort(key=lambda t: -abs(t[1]))
        while unknown:
            (term, factor), rest = unknown[0], unknown[1:]
            reach = self._sum_bounds(rest)
            if reach is None or reach[1] - reach[0] >= abs(factor):
                return False
            if factor > 0:
                found = self.logic.quotient(right.shifted(-reach[0]), factor)
            else:
                found = self.logic.quotient(right.times(-1).shifted(reach[1]), -factor)
            self._learn(term, found)
            right = right.plus(found, -factor)
            unknown = rest
        return True

    def _learn(self, term: Any, value: Linear) -> None:
        self.sums[term] = value
        if isinstance(term, ir.Var):
            self.values[term] = self.logic.expression(value, term.dtype)

    def _depends(self, term: Any) -> bool:
        if isinstance(term, ir.Var):
            return term in self.loops
        if isinstance(term, Quotient):
            return any(self._depends(t) for t in term.dividend.terms)
        return not self.loops.keys().isdisjoint(variables_in(self._opaque(term)))

    def _opaque(self, term: Opaque) -> ir.PrimExpr:
        return self.logic.opaque[term.number]

    def _sum_bounds(self, terms: Iterable[tuple[Any, int]]) -> tuple[int, int] | None:
        """The least and the largest value of a sum of terms."""
        low = high = 0
        for term, factor in terms:
            ends = self._term_bounds(term)
            if ends is None:
                return None
            low, high = low + min(e * factor for e in ends), high + max(e * factor for e in ends)
        return low, high

    def _term_bounds(self, term: Any) -> tuple[int, int] | None:
        loop = self.loops.get(term) if isinstance(term, ir.Var) else None
        if loop is not None and isinstance(loop.first, ir.IntImm) and isinstance(loop.last, ir.IntImm):
            return loop.first.value, loop.last.value
        if isinstance(term, Quotient):
            reach = self._sum_bounds(term.dividend.terms.items())
            if reach is not None:
                return tuple((e + term.dividend.constant) // term.divisor for e in reach)  # type: ignore[return-value]
        return None

    def replaced(self, value: ir.PrimExpr) -> ir.PrimExpr:
        """`value` with the axes in the place of the loops' variables."""
        return ir.substitute(value, self.values)

    def touched(self, block: FlowBlock, elements: Condition) -> Condition:
        """The elements that an iteration, which the axes tell, touches; `elements` says it by the loops' variables."""
        logic = self.logic
        sums = {var: self.sums[var] for var in self.values}
        parts = [logic.replaced(elements, sums, self.values)]
        for condition in block.scope:
            parts.append(logic.condition(self.replaced(condition)))
        for loop in block.loops:
            value = self.values.get(loop.var)
            if value is not None:
                parts.append(logic.condition(value >= self.replaced(loop.first)))
                parts.append(logic.condition(value <= self.replaced(loop.last)))
        return logic.both(*parts)


def so_far(logic: IntegerLogic, loops: Sequence[Loop], values: Mapping[ir.Var, ir.PrimExpr]) -> Condition:
    """The iterations `values` that come before this one, or are this one."""
    return _in_order(logic, loops, values, _is_later, _is_not_first)


def still_to_come(logic: IntegerLogic, loops: Sequence[Loop], values: Mapping[ir.Var, ir.PrimExpr]) -> Condition:
    """The iterations `values` that are this one, or come behind it."""
    return _in_order(logic, loops, values, _is_earlier, _is_not_last)


def _is_later(var: ir.Var, value: ir.PrimExpr) -> ir.PrimExpr:
    return var > value


def _is_earlier(var: ir.Var, value: ir.PrimExpr) -> ir.PrimExpr:
    return var < value


def _is_not_first(loop: Loop) -> ir.PrimExpr:
    return loop.var > loop.first


def _is_not_last(loop: Loop) -> ir.PrimExpr:
    return loop.var < loop.last


def _in_order(
    logic: IntegerLogic, loops: Sequence[Loop], values: Mapping[ir.Var, ir.PrimExpr], beyond: Any, any_beyond: Any
) -> Condition:
    """The order of iterations, from the innermost loop out; a loop that the axes do not tell may be at any iteration."""
    result = TRUE
    for loop in reversed(loops):
        value = values.get(loop.var)
        if value is None:
            result = logic.either(logic.condition(any_beyond(loop)), result)
        else:
            here = logic.both(logic.condition(loop.var.equal(value)), result)
            result = logic.either(logic.condition(beyond(loop.var, value)), here)
    return result
