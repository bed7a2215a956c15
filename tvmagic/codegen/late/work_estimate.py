"""Estimate the work of statements and the memory that buffers span."""

from __future__ import annotations

import math
from typing import Any

from tvmagic import ir
from tvmagic.arith.intervals import Intervals
from tvmagic.codegen.late.iterative_visitor import ChainVisitor
from tvmagic.ir.query import variables_behind
from tvmagic.lazy import cached_property

# A question costs some 50 cycles, and more where many registers are in use around it; this many
# operations take ten thousands of cycles.
_WORTH_A_POLL = 1 << 20
_LEAST_TO_COUNT = 256
_SECONDS = 1 << 31  # operations that may take a second
_STRIP = 1 << 26  # and some tens of milliseconds
_UNKNOWN_EXTENT = 64
# LLVM writes a loop out as a whole up to some 300 operations, and four times as many if that makes them simpler.
LARGEST_UNROLLED_BY_LLVM = 1200


class Work(ChainVisitor):
    """Number of scalar or short vector operations per iteration of each loop. It decides where a loop polls for interrupts.

    Extents that are not constant count as 64. `reach` is the maximum constant size in bytes of the buffers of each pointer. `written` is the
    number of operations after LLVM has fully unrolled every short loop. `stored` are the pointers that are stored to. `symbolic` are the loops
    whose extents are not constant.
    """

    def __init__(self, body: Any) -> None:
        self.body = body
        self.total = 0
        self.written = 0
        self.bodies: dict[ir.For, int] = {}
        self.symbolic: list[ir.For] = []
        self.reach: dict[ir.Var, int] = {}
        self.stored: set[ir.Var] = set()
        self._divisions: list[ir.BinaryOp] = []  # of integers by what is not a constant
        self._seen: set[ir.Buffer] = set()
        self._outer: set[ir.For] = set()
        self._loops = False
        self.visit(body)

    @cached_property
    def lets(self) -> dict[ir.Var, ir.PrimExpr]:
        """Values of the variables that statements bind."""
        found: dict[ir.Var, ir.PrimExpr] = {}

        def look(node: object) -> None:
            if isinstance(node, ir.LetStmt):
                found[node.var] = node.value

        ir.post_order_visit(self.body, look)
        return found

    @cached_property
    def dividing(self) -> set[ir.Var]:
        """Variables, including those of loops, on which an integer quotient with a divisor that is not constant depends."""
        return variables_behind(self._divisions, self.lets) if self._divisions else set()

    def poll_every(self, loop: ir.For) -> int:
        """Return the number of iterations of `loop` between two polls for interrupts, a power of two; 0 for no polls.

        An innermost loop with short iterations never polls: the poll would keep LLVM from vectorizing it.
        """
        work = self.bodies.get(loop) or 1
        if work >= _WORTH_A_POLL:
            return 1
        if work < _LEAST_TO_COUNT or loop not in self._outer:
            return 0
        every = 1 << (_WORTH_A_POLL // work).bit_length()
        short = isinstance(loop.extent, ir.IntImm) and loop.extent.value < every
        return 0 if short else every  # the loop around a short one asks

    def strip_size(self, loop: ir.For) -> int:
        """Return the iterations after which to poll in a loop that runs for seconds and never polls; 0 for other loops."""
        work, extent = self.bodies.get(loop) or 1, loop.extent
        if loop.kind is not ir.ForKind.SERIAL or not isinstance(extent, ir.IntImm) or work * extent.value < _SECONDS:
            return 0
        return 0 if self.poll_every(loop) else _STRIP // work

    def visit_buffer_use(self, buffer: ir.Buffer) -> None:
        """Record the number of bytes that a buffer spans if it is constant."""
        if buffer in self._seen:
            return
        self._seen.add(buffer)
        size = buffer.dtype.bytes
        for extent in buffer.shape:
            size = size * extent.value if isinstance(extent, ir.IntImm) else 0
        if not buffer.strides:
            self.reach[buffer.data] = max(self.reach.get(buffer.data, 0), size)

    def elements(self, stmt: ir.Allocate) -> int | None:
        """Return the number of elements of an allocation, or None unless it is constant.

        A buffer may be declared larger than its allocation, for instance with strides that leave gaps.
        """
        count = constant_elements(stmt)
        if count is None or stmt.buffer_var not in self.reach:
            return count
        return max(count, -(-self.reach[stmt.buffer_var] // stmt.dtype.bytes))

    def add(self, operations: int) -> None:
        """Count operations."""
        self.total += operations
        self.written += operations

    @ir.handles(ir.PrimExpr)
    def expression(self, node: ir.PrimExpr) -> None:
        self.add(max(1, abs(node.dtype.lane_code) // 8))
        self.visit_children(node)

    @ir.handles(ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod)
    def division(self, node: ir.BinaryOp) -> None:
        divisor = node.b.value if isinstance(node.b, ir.Broadcast) else node.b
        if not node.dtype.is_float and not isinstance(divisor, ir.IntImm):
            self._divisions.append(node)
        self.expression(node)

    @ir.handles(ir.IntImm)
    def number(self, node: ir.IntImm) -> None:
        pass

    @ir.handles(ir.Call, ir.BufferLoad)
    def costly(self, node: ir.PrimExpr) -> None:
        self.add(4 * max(1, abs(node.dtype.lane_code) // 8))
        self.visit_children(node)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        self.stored.add(node.buffer.data)
        self.visit_children(node)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        outer, self.total = self.total, 0
        before, self.written = self.written, 0
        outer_loops, self._loops = self._loops, False
        self.visit(node.body)
        inside = self.bodies[node] = self.total
        extent = node.extent.value if isinstance(node.extent, ir.IntImm) else self._estimated(node.extent)
        self.total = outer + inside * max(extent, 0)
        whole = self.written * max(extent, 1)
        constant = isinstance(node.extent, ir.IntImm)
        if not constant:
            self.symbolic.append(node)
        self.written = before + (whole if constant and whole <= LARGEST_UNROLLED_BY_LLVM else self.written)
        if self._loops:
            self._outer.add(node)
        self._loops |= outer_loops or (node.kind is not ir.ForKind.UNROLLED and extent > 1)

    def _estimated(self, extent: ir.PrimExpr) -> int:
        """Return the iterations assumed of a loop whose extent is not constant; the tail of a tile has an upper bound."""
        return max(min(_UNKNOWN_EXTENT, Intervals().of(extent)[1]), 0)

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> None:
        """Count the longer branch: versions of a loop run one or the other."""
        self.visit(node.condition)
        before, totals = self.total, list[int]()
        for case in (node.then_case, node.else_case):
            if case is not None:
                self.total = 0
                self.visit(case)
                totals.append(self.total)
        self.total = before + max(totals)

    @ir.handles(ir.While)
    def endless(self, node: ir.While) -> None:
        self.visit_children(node)
        self.total += _WORTH_A_POLL


def constant_elements(stmt: ir.Allocate) -> int | None:
    """Return the product of an allocation's extents, or None unless they are constant."""
    sizes = [extent.value for extent in stmt.extents if isinstance(extent, ir.IntImm)]
    return math.prod(sizes) if len(sizes) == len(stmt.extents) else None
