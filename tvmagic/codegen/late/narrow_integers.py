"""Narrow integer arithmetic to 16 bits if all intermediate values fit.

A vector holds twice as many int16 as int32 lanes: `uint8(max(min(int32(X[i]) * 3 - int32(Y[i]), 255), 0))`. LLVM narrows sums and
products on its own, as their low bits depend on low bits alone, but not clamps, comparisons and quotients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvmagic import ir
from tvmagic.arith.interval_arithmetic import ENDS_OF
from tvmagic.arith.interval_arithmetic import Ends as Interval
from tvmagic.codegen.late.common import ExpressionMutator, census, late_pass, on_cpus
from tvmagic.ir.conditional import choice
from tvmagic.ir.dtype import integer_limits
from tvmagic.ir.ops import cast
from tvmagic.ir.query import callee, nodes_of
from tvmagic.passes import note

_SHORT = ir.DataType("int16"), ir.DataType("uint16")
_OPERATORS = (ir.Add, ir.Sub, ir.Mul, ir.Min, ir.Max, ir.FloorDiv, ir.FloorMod)


@late_pass("NarrowIntegers", when=on_cpus)
def narrow_integers(func: ir.PrimFunc) -> ir.PrimFunc:
    """Compute conversions of wider integers to 8 or 16 bits in 16 bits, if all intermediate values fit."""
    if not census(func.body).narrowing_casts:
        return func
    return func.with_body(_Narrower(func).visit(func.body))


class _Narrower(ExpressionMutator):
    @ir.handles(ir.Cast)
    def cast(self, node: ir.Cast) -> ir.PrimExpr:
        made = _in_short_integers(node, self.intervals.of)
        if made is not node:
            note("late", f"computed a conversion to {node.dtype} in 16 bits: all its values fit", node)
        return self.visit_children(made)


def _in_short_integers(node: ir.Cast, ends_of: Callable[[ir.PrimExpr], Interval]) -> ir.PrimExpr:
    """Return a narrowing conversion whose operand is computed in 16 bits, or the conversion itself if a value may not fit.

    `ends_of` returns the bounds of a variable.
    """
    source, target = node.value.dtype, node.dtype
    if target.is_float or source.is_float or not 8 <= target.bits <= 16 < source.bits:
        return node
    if not any(
        isinstance(part, (ir.Min, ir.Max)) or choice(part)
        for part in nodes_of(node.value, ir.Min, ir.Max, ir.Select, ir.Call)
    ):
        return node
    for short in _SHORT:
        found = _Short(short, ends_of).of(node.value)
        if found is not None:
            return cast(target, found[0])
    return node


class _Short:
    """Rewrites expressions to a 16-bit type and bounds each of them."""

    def __init__(self, dtype: ir.DataType, ends_of: Callable[[ir.PrimExpr], Interval]) -> None:
        self.dtype, self.limits, self.ends_of = dtype, integer_limits(dtype), ends_of
        self.known: dict[ir.PrimExpr, tuple[ir.PrimExpr, Interval] | None] = {}

    def of(self, node: ir.PrimExpr) -> tuple[ir.PrimExpr, Interval] | None:
        """Return the narrowed expression and its bounds, or None unless it and all intermediate values fit."""
        if node not in self.known:
            found = self._of(node)
            fits = found is not None and self.limits[0] <= found[1][0] and found[1][1] <= self.limits[1]
            self.known[node] = found if fits else None
        return self.known[node]

    def _of(self, node: ir.PrimExpr) -> tuple[ir.PrimExpr, Interval] | None:
        dtype = self.dtype.with_lanes_of(node.dtype)
        if isinstance(node, ir.IntImm):
            return ir.IntImm(dtype, node.value) if self._holds(node.value) else node, (node.value, node.value)
        if isinstance(node, ir.Cast) and not node.value.dtype.is_float and node.value.dtype.bits <= 16:
            source = node.value.dtype
            return cast(dtype, node.value), (0, 1) if source.is_bool else integer_limits(source)
        if isinstance(node, _OPERATORS):
            parts = self._all(node.a, node.b)
            if parts is None or (isinstance(node, (ir.FloorDiv, ir.FloorMod)) and parts[1][1][0] <= 0):
                return None
            (a, low), (b, high) = parts
            return type(node)(a, b), ENDS_OF[type(node)](low, high)
        if isinstance(node, ir.Broadcast):
            part = self.of(node.value)
            return part and (ir.Broadcast(part[0], node.lanes), part[1])
        if (chosen := choice(node)) is not None:
            condition, *values = chosen
            parts = self._all(*values)
            if parts is None:
                return None
            (a, low), (b, high) = parts
            condition, ends = self._condition(condition), (min(low[0], high[0]), max(low[1], high[1]))
            if isinstance(node, ir.Select):
                return ir.Select(condition, a, b), ends
            return node.replace(args=(condition, a, b), dtype=dtype), ends
        if isinstance(node, ir.Call) and callee(node) == "tir.shift_right":
            parts = self._all(*node.args)
            if parts is None or not 0 <= parts[1][1][0] <= parts[1][1][1] < self.dtype.bits:
                return None
            (a, ends), (b, count) = parts
            return node.replace(args=(a, b), dtype=dtype), _shifted(ends, count)
        return cast(dtype, node), self.ends_of(node)

    def _holds(self, value: int) -> bool:
        return self.limits[0] <= value <= self.limits[1]

    def _all(self, *nodes: ir.PrimExpr) -> Sequence[tuple[ir.PrimExpr, Interval]] | None:
        found = [self.of(node) for node in nodes]
        return None if None in found else found  # type: ignore[return-value]

    def _condition(self, node: ir.PrimExpr) -> ir.PrimExpr:
        """Return a condition whose comparisons are narrowed if both sides fit."""
        if isinstance(node, (ir.And, ir.Or)):
            return type(node)(self._condition(node.a), self._condition(node.b))
        if isinstance(node, ir.Not):
            return ir.Not(self._condition(node.a))
        parts = self._all(node.a, node.b) if isinstance(node, ir.CmpOp) else None
        return node if parts is None else type(node)(parts[0][0], parts[1][0])  # type: ignore[call-arg]


def _shifted(ends: Interval, count: Interval) -> Interval:
    found = [end >> n for end in ends for n in count]
    return min(found), max(found)
