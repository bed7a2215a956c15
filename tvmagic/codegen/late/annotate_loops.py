"""Annotate loops with what LLVM shall do with them, and with how often they poll for interrupts.

`llvm.unroll` is "full", "disable" or a number of iterations; `llvm.interleave` is the number of vectors computed at once;
`late.poll` is the number of iterations between two polls.
"""

from __future__ import annotations

from tvmagic import ir
from tvmagic.codegen.late.common import (
    MOST_OPERATIONS,
    POLL,
    StatementMutator,
    is_kept_scalar,
    is_split,
    late_pass,
    work_of,
)
from tvmagic.codegen.late.work_estimate import LARGEST_UNROLLED_BY_LLVM
from tvmagic.ir.loop_annotations import INTERLEAVE, UNROLL
from tvmagic.ir.query import contains, nodes_of
from tvmagic.passes import note
from tvmagic.target import Target

_LARGEST_UNROLLED = 4096  # operations of an unrolled loop that LLVM agrees to
_SHORT = (8, 128)  # iterations of a loop over vectors that LLVM might unroll fully
_PARTIAL_RESULTS = (4, 8)  # vectors of partial results of a reduction in any order: minimum and maximum
_UNROLL_COUNT = 4  # iterations of a short loop over vectors that are unrolled
_LARGEST_FULL = 64  # iterations of a loop over elements that LLVM might unroll fully
_MOST_STORES = 8  # vectors that its body stores; more are the tile of a product, which is to be kept in registers


@late_pass("AnnotateLoops")
def annotate_loops(func: ir.PrimFunc, target: Target, check_bounds: bool) -> ir.PrimFunc:
    """Annotate loops with LLVM's unrolling and interleaving, and with the iterations between polls for interrupts."""
    if not contains(func.body, ir.For):
        return func
    return func.with_body(_Annotator(func, target, check_bounds).visit(func.body))


class _Annotator(StatementMutator):
    def __init__(self, func: ir.PrimFunc, target: Target, check_bounds: bool) -> None:
        super().__init__(func)
        self.target, self.check_bounds = target, check_bounds
        self.work = work_of(func.body)
        self.is_large = self.work.written > MOST_OPERATIONS
        self.is_split = is_split(func.body, len(self.work.bodies))

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        made = self.visit_children(node)
        wishes = self._wishes(node)
        if not wishes.keys() - node.annotations.keys():
            return made
        said = ", ".join(f"{name} {getattr(value, 'value', value)}" for name, value in wishes.items())
        note("late", f"annotated loop `{node.loop_var.name}`: {said}", node)
        return made.with_(annotations={**wishes, **node.annotations})

    def _wishes(self, loop: ir.For) -> dict[str, ir.PrimExpr | ir.StringImm]:
        wishes = self._unrolling(loop)
        if loop.kind is ir.ForKind.SERIAL and loop.loop_var in self.work.dividing:
            wishes[INTERLEAVE] = (
                1  # an interleaved quotient of integers gains nothing, and its code takes long to compile
            )
        if self.target.family.has_threads and (every := self.work.poll_every(loop)):
            wishes[POLL] = every
        return {k: ir.StringImm(v) if isinstance(v, str) else ir.IntImm("int32", v) for k, v in wishes.items()}

    def _unrolling(self, loop: ir.For) -> dict[str, str | int]:
        """Return the wish to unroll, if LLVM will grant it, as it warns of others; or the wish not to.

        A short loop over vectors is not unrolled fully. LLVM would keep what several such loops read in registers from one to the
        next, and more of it than there are, so that it spills.
        """
        extent = loop.extent
        if is_kept_scalar(loop) or self.check_bounds or not isinstance(extent, ir.IntImm):
            return {}
        if loop.kind is ir.ForKind.SERIAL:
            if self.any_order:  # as many partial results as keep the machine busy while each waits for its last value
                return {UNROLL: "disable", INTERLEAVE: _PARTIAL_RESULTS[self._divides_many(extent.value)]}
            if self.is_large or self._would_scatter(loop):
                return {UNROLL: "disable"}
            if self.is_split and self._unrolls_beyond_registers(loop, extent.value):
                return {UNROLL: "disable"}
            if _SHORT[0] <= extent.value <= _SHORT[1] and 0 < _vector_stores(loop.body) <= _MOST_STORES:
                return {UNROLL: _UNROLL_COUNT} if extent.value % _UNROLL_COUNT == 0 else {}
        if loop.kind is not ir.ForKind.UNROLLED:
            return {}
        whole = extent.value * self.work.bodies.get(loop, _LARGEST_UNROLLED)
        return {UNROLL: "full"} if whole <= _LARGEST_UNROLLED else {}

    def _would_scatter(self, loop: ir.For) -> bool:
        """Return whether LLVM would fully unroll an innermost loop and vectorize the loop around it, with a scatter for each
        element: on machines that have scatters, which are slow."""
        if self.target.family.launches or not isinstance(loop.extent, ir.IntImm) or loop.extent.value > _LARGEST_FULL:
            return False
        machine = self.target.machine
        long = machine.lanes("float32") <= loop.extent.value
        return long and machine.scatters and _stores_elements(loop.body)

    def _unrolls_beyond_registers(self, loop: ir.For, extent: int) -> bool:
        """Return whether LLVM would unroll a loop once it is over vectors, to more of them than there are registers.

        The time to order the instructions of a basic block grows with the square of its accesses. Unrolling gains only
        if the next loop finds the vectors in registers.
        """
        machine = self.target.machine
        lanes, whole = machine.lanes("float32"), extent * self.work.bodies.get(loop, 0)
        return extent > lanes * machine.vector_registers and whole <= LARGEST_UNROLLED_BY_LLVM * lanes

    def _divides_many(self, extent: int) -> bool:
        """Return whether the most vectors of partial results divide a loop several times, so that no scalar tail is left."""
        if self.target.family.launches:
            return False
        step = _PARTIAL_RESULTS[1] * self.target.machine.lanes("float32")
        return extent % step == 0 and extent >= 4 * step


def _stores_elements(body: ir.Stmt) -> bool:
    """Return whether a body without loops stores elements, not vectors, and does not update what it reads, as sums do."""
    stored: set[ir.Var] = set()
    loaded: set[ir.Var] = set()
    others = [0]

    def look(node: object) -> None:
        if isinstance(node, ir.BufferStore):
            stored.add(node.buffer.data)
            others[0] += node.value.dtype.lane_code != 1
        elif isinstance(node, ir.BufferLoad):
            loaded.add(node.buffer.data)
        elif isinstance(node, ir.For):
            others[0] += 1

    ir.post_order_visit(body, look)
    return not others[0] and bool(stored) and not stored & loaded


def _vector_stores(stmt: ir.Stmt) -> int:
    """Return the number of vectors that a body without loops stores, or 0."""
    if contains(stmt, ir.For):
        return 0
    return sum(store.value.dtype.lanes > 1 for store in nodes_of(stmt, ir.BufferStore))
