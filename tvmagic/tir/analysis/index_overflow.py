"""Index arithmetic that may leave int32.

Passes take index arithmetic as that of the integers, as TVM does: a split of `n` iterations by 12 counts up to
`n + 11`, before its guard compares with `n`. Where `n` is near 2^31 the sum wraps, and a negative index passes the guard.
This analysis bounds every int32 loop, index and guard of a function, by constants or by terms over its sizes.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tvmagic import ir
from tvmagic.arith.scalable import most_lanes
from tvmagic.arith.symbolic_bounds import Bound, Interval, Term, Terms, non_negative
from tvmagic.ir.query import callee, launches_thread, variables_in

# Code generation pads extents to whole vectors and chunks, so indices keep away from the end of int32.
LIMIT = (1 << 31) - 1 - (1 << 16)
# Indices of fewer iterations and elements leave int32 only if the program means to wrap around.
_FEW = 1 << 20
# The arguments of calls that are indices or numbers of elements.
INDEX_ARGUMENTS = {
    "tir.checked_index": (0, 1),
    "tir.tvm_access_ptr": (2, 3),
    "tir.get_active_lane_mask": (0, 1),
}
_CHAINED = (ir.LetStmt, ir.AttrStmt, ir.AssertStmt, ir.Allocate, ir.AllocateConst, ir.DeclBuffer)


class Suspect(NamedTuple):
    """An expression that may leave int32, and the bound of its absolute value."""

    node: ir.PrimExpr | ir.Buffer
    bound: ir.PrimExpr


class IndexOverflow(NamedTuple):
    """The index arithmetic of a function that may leave int32.

    `always`: the expressions that do so whatever the sizes are. `sizes`: those that do so for large sizes.
    `fits`: the condition under which none does, or None if `sizes` is empty. It is a comparison that holds for small
    sizes, or comparisons of bounds with constants.
    """

    always: tuple[Suspect, ...]
    sizes: tuple[Suspect, ...]
    fits: ir.PrimExpr | None


def find_index_overflow(func: ir.PrimFunc) -> IndexOverflow:
    """Bound the index arithmetic of a lowered function. Loaded values are taken to be inside the buffers they index."""
    finder = _Finder(func)
    finder.visit(func.body)
    terms = finder.terms
    always: list[Suspect] = []
    sizes: list[Suspect] = []
    fits: ir.PrimExpr | None = None
    needed = {terms.add(base, offset): node for base, (offset, node) in finder.needed.items()}
    largest = [bound for bound in terms.largest(needed) if isinstance(bound, Term)]
    for bound, node in needed.items():
        if isinstance(bound, int) and (finder.sizes or finder.most >= _FEW):
            always.append(Suspect(node, terms.expression(bound)))
    for bound in largest:
        sizes.append(Suspect(needed[bound], terms.expression(bound)))
        base, offset = _without_constant(bound)
        condition = ir.LE(terms.expression(base), ir.IntImm("int64", LIMIT - offset))
        fits = condition if fits is None else ir.And(fits, condition)
    if fits is not None:
        fits = ir.Or(_are_small(finder, largest), fits)
    return IndexOverflow(tuple(always), tuple(sizes), fits)


def _without_constant(bound: Term) -> tuple[Bound, int]:
    """Return a sum as its terms and its constant."""
    return (bound.a, bound.b) if bound.kind is ir.Add and isinstance(bound.b, int) else (bound, 0)


def _are_small(finder: _Finder, bounds: Iterable[Bound]) -> ir.PrimExpr:
    """The cheap condition: every size is below a power of two, for which no bound leaves int32."""
    fits = functools.partial(finder.terms.fits_below, bounds, limit=LIMIT)
    exponent = bisect.bisect(range(31), False, key=lambda exponent: not fits(1 << exponent)) - 1
    power = 1 << exponent if exponent >= 0 else 0
    largest: ir.PrimExpr | None = None
    for size in finder.sizes:
        value = finder.terms.expression(size)
        values = [value] if size.non_negative else [value, ir.Sub(ir.IntImm("int64", 0), value)]
        for part in values:
            largest = part if largest is None else ir.Max(largest, part)
    assert largest is not None
    return ir.LT(largest, ir.IntImm("int64", power))


def offset_in_memory(buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...]) -> ir.PrimExpr | None:
    """Return the flat offset of a scalar access, or None if the only index is that offset."""
    if not indices or (len(indices) == 1 and not buffer.strides):
        return None
    groups = buffer.unsimplified_offset_of(indices)
    offset = groups[0]
    for group, size in zip(groups[1:], buffer.get_flattened_buffer().shape[1:]):
        offset = offset * size + group
    return offset


class _Finder(ir.Visitor):
    """`needed` has each bound that must not exceed the limit: a term without its constant, the largest constant and where.
    A constant bound is in it only if it exceeds the limit."""

    def __init__(self, func: ir.PrimFunc) -> None:
        self.terms = Terms()
        self.sizes: list[Term] = []
        self.known: dict[ir.Var, Interval | None] = {}
        self.needed: dict[Bound, tuple[int, Any]] = {}
        self.most = 0  # of the iterations of a nest, and of the elements of a buffer
        self.iterations = 1
        for param in func.params:
            if param not in func.buffer_map and param.dtype.is_int:
                self._size(param, False)
        for buffer in func.buffer_map.values():
            for part in (*buffer.shape, *buffer.strides, buffer.elem_offset):
                for var in variables_in(part):
                    self._size(var, True)
            sizes = [size.value for size in buffer.shape if isinstance(size, ir.IntImm)]
            self.most = max(self.most, math.prod(sizes))

    def _size(self, var: ir.Var, is_non_negative: bool) -> None:
        if var not in self.known:
            size = self.terms.size(var, is_non_negative)
            self.sizes.append(size)
            self.known[var] = Interval(size, size)

    # ------------------------------------------------------------------ requirements

    def require(self, node: Any, found: Interval) -> None:
        """Note that both bounds must be representable."""
        self.need(node, found.high)
        if not non_negative(found.low):
            self.need(node, self.terms.subtract(0, found.low))

    def need(self, node: Any, bound: Bound) -> None:
        if isinstance(bound, int):
            if bound > LIMIT:
                self.needed.setdefault(bound, (0, node))
            return
        base, offset = _without_constant(bound)
        if base not in self.needed or self.needed[base][0] < offset:
            self.needed[base] = (offset, node)

    def root(self, expr: ir.PrimExpr) -> Interval | None:
        """The bounds of a loop bound, an index or a side of a guard; those of its operands are required, too."""
        rule = _RULES.get(type(expr))
        if rule is None:
            self.visit(expr)
            return None
        found = rule(self, expr)
        if found is not None and expr.dtype.bits == 32 and expr.dtype.is_int and not isinstance(expr, ir.IntImm):
            self.require(expr, found)
        return found

    def count(self, node: Any, sizes: Iterable[ir.PrimExpr]) -> None:
        """Note that a number of elements must be representable."""
        total = Interval(1, 1)
        for size in sizes:
            found = self.root(size)
            if found is None:
                return
            total = self.terms.product(
                total, Interval(self.terms.maximum(found.low, 0), self.terms.maximum(found.high, 0))
            )
        self.need(node, total.high)
        if isinstance(total.high, int):
            self.most = max(self.most, total.high)

    def iterate(self, var: ir.Var, first: ir.PrimExpr | None, extent: ir.PrimExpr) -> None:
        """Let a variable go through the values of a loop. What it is compared with at the end must be representable, too."""
        begin = Interval(0, 0) if first is None else self.root(first)
        size = self.root(extent)
        if begin is None or size is None:
            self.known[var] = None
            return
        end = self.terms.add(begin.high, size.high)
        if var.dtype.bits == 32:
            self.need(var, end)
        self.known[var] = Interval(begin.low, self.terms.add(end, -1))

    # ------------------------------------------------------------------ statements

    @ir.handles(*_CHAINED)
    def chain(self, node: Any) -> None:
        while isinstance(node, _CHAINED):
            if isinstance(node, ir.LetStmt):
                self._bind(node.var, node.value)
            elif isinstance(node, ir.Allocate):
                if any(extent.dtype.bits == 32 for extent in node.extents):
                    self.count(node.buffer_var, node.extents)
                self.visit(node.condition)
            elif launches_thread(node):
                self.iterate(node.node.var, None, node.value)
            elif isinstance(node, ir.AssertStmt):
                self.visit(node.condition)
            node = node.body
        self.visit(node)

    def _bind(self, var: ir.Var, value: ir.PrimExpr) -> None:
        if value.dtype.is_int:
            self.known[var] = self.root(value)
        else:
            self.visit(value)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        outer = self.iterations
        self.iterate(node.loop_var, node.min, node.extent)
        self.iterations *= max(node.extent.value, 1) if isinstance(node.extent, ir.IntImm) else 1
        self.most = max(self.most, self.iterations)
        self.visit(node.body)
        self.iterations = outer

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        self._access(node)
        self.visit(node.value)

    # ------------------------------------------------------------------ expressions

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        self._access(node)

    def _access(self, node: ir.BufferLoad | ir.BufferStore) -> None:
        if node.predicate is not None:
            self.visit(node.predicate)
        found = [self.root(index) for index in node.indices]
        if None in found:  # a loaded index is one of the buffer
            if node.indices[-1].dtype.bits == 32:
                self.count(node.buffer, node.buffer.shape)
            return
        last = node.indices[-1] if node.indices else None
        if last is None or (len(found) == 1 and not node.buffer.strides):
            return
        if isinstance(last, ir.Ramp):
            end = last.base + last.stride * ir.IntImm(last.stride.dtype, most_lanes(last.dtype) - 1)
        else:
            end = last.value if isinstance(last, ir.Broadcast) else last
        if end.dtype.lane_code == 1:
            offset = offset_in_memory(node.buffer, (*node.indices[:-1], end))
            if offset is not None:
                self.root(offset)

    @ir.handles(ir.Let)
    def let(self, node: ir.Let) -> None:
        self._bind(node.var, node.value)
        self.visit(node.body)

    @ir.handles(ir.CmpOp)
    def comparison(self, node: ir.CmpOp) -> None:
        self.root(node.a)
        self.root(node.b)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        indices = INDEX_ARGUMENTS.get(callee(node), ())
        for number, arg in enumerate(node.args):
            if number in indices:
                self.root(arg)
            elif isinstance(arg, ir.PrimExpr):
                self.visit(arg)


_Rule = Callable[[_Finder, Any], "Interval | None"]


def _both(finder: _Finder, node: ir.BinaryOp) -> tuple[Interval, Interval] | None:
    a, b = finder.root(node.a), finder.root(node.b)
    return None if a is None or b is None else (a, b)


def _sum(finder: _Finder, node: ir.BinaryOp) -> Interval | None:
    found = _both(finder, node)
    if found is None:
        return None
    (a, b), terms = found, finder.terms
    return Interval(terms.add(a.low, b.low), terms.add(a.high, b.high))


def _difference(finder: _Finder, node: ir.BinaryOp) -> Interval | None:
    found = _both(finder, node)
    if found is None:
        return None
    (a, b), terms = found, finder.terms
    return Interval(terms.subtract(a.low, b.high), terms.subtract(a.high, b.low))


def _of_two(name: str) -> _Rule:
    def rule(finder: _Finder, node: ir.BinaryOp) -> Interval | None:
        found = _both(finder, node)
        return None if found is None else getattr(finder.terms, name)(*found)

    return rule


def _truncated(finder: _Finder, node: ir.BinaryOp) -> Interval | None:
    found = _both(finder, node)
    if found is None:
        return None
    a, b = found
    terms = finder.terms
    if non_negative(a.low) and non_negative(b.low):
        return terms.quotient(a, b) if isinstance(node, ir.Div) else terms.remainder(a, b)
    if isinstance(node, ir.Mod):
        return terms.truncated(a)
    size = terms.maximum(a.high, terms.subtract(0, a.low))
    return Interval(terms.subtract(0, size), size)


def _extreme(finder: _Finder, node: ir.BinaryOp) -> Interval | None:
    found = _both(finder, node)
    if found is None:
        return None
    choose = finder.terms.minimum if isinstance(node, ir.Min) else finder.terms.maximum
    return Interval(choose(found[0].low, found[1].low), choose(found[0].high, found[1].high))


def _union(finder: _Finder, condition: ir.PrimExpr, then: ir.PrimExpr, other: ir.PrimExpr) -> Interval | None:
    finder.visit(condition)
    a, b = finder.root(then), finder.root(other)
    if a is None or b is None:
        return None
    return Interval(finder.terms.minimum(a.low, b.low), finder.terms.maximum(a.high, b.high))


def _ramp(finder: _Finder, node: ir.Ramp) -> Interval | None:
    base, stride = finder.root(node.base), finder.root(node.stride)
    if base is None or stride is None:
        return None
    terms, last = finder.terms, most_lanes(node.dtype) - 1
    reach = terms.product(stride, Interval(last, last))
    low = base.low if non_negative(reach.low) else terms.minimum(base.low, terms.add(base.low, reach.low))
    high = terms.add(base.high, reach.high)
    if not non_negative(reach.low):
        high = terms.maximum(base.high, high)
    return Interval(low, high)


def _cast(finder: _Finder, node: ir.Cast) -> Interval | None:
    if node.dtype.is_int and node.value.dtype.is_int and node.dtype.bits >= 32:
        return finder.root(node.value)
    finder.visit(node.value)
    return None


def _is_small(found: Interval) -> bool:
    return isinstance(found.low, int) and isinstance(found.high, int) and -LIMIT <= found.low and found.high <= LIMIT


def _call(finder: _Finder, node: ir.Call) -> Interval | None:
    name, args = callee(node), node.args
    if name == "tir.if_then_else":
        return _union(finder, *args)
    if name in ("tir.likely", "tir.checked_index"):
        found = finder.root(args[0])
        if name == "tir.checked_index":
            finder.root(args[1])
        return found
    if name in ("tir.shift_left", "tir.shift_right") and isinstance(args[1], ir.IntImm) and 0 <= args[1].value < 63:
        found, power = finder.root(args[0]), 1 << args[1].value
        if found is None:
            return None
        if name == "tir.shift_left":
            shifted = finder.terms.product(found, Interval(power, power))
            return shifted if _is_small(shifted) else None  # a shift may mean to lose bits
        return Interval(*[finder.terms.divide(end, power) for end in found])
    if name == "tir.bitwise_and" and isinstance(args[1], ir.IntImm) and args[1].value >= 0:
        finder.root(args[0])
        return Interval(0, args[1].value)
    finder.visit(node)
    return None


def _variable(finder: _Finder, node: ir.Var) -> Interval | None:
    return finder.known.get(node)


_RULES: dict[type, _Rule] = {
    ir.IntImm: lambda finder, node: Interval(node.value, node.value),
    ir.Var: _variable,
    ir.SizeVar: _variable,
    ir.Add: _sum,
    ir.Sub: _difference,
    ir.Mul: _of_two("product"),
    ir.FloorDiv: _of_two("quotient"),
    ir.FloorMod: _of_two("remainder"),
    ir.Div: _truncated,
    ir.Mod: _truncated,
    ir.Min: _extreme,
    ir.Max: _extreme,
    ir.Ramp: _ramp,
    ir.Broadcast: lambda finder, node: finder.root(node.value),
    ir.Cast: _cast,
    ir.Select: lambda finder, node: _union(finder, node.condition, node.true_value, node.false_value),
    ir.Call: _call,
}
