"""Place small allocations on the stack, where LLVM can turn them into registers.

`late.stack` is the number of elements on the stack; memory of an allocation without it comes from the heap.
"""

from __future__ import annotations

from tvmagic.arith.analyzer import Analyzer
from tvmagic.codegen.late.common import STACK, StatementMutator, late_pass, on_cpus, work_of
from tvmagic.codegen.late.work_estimate import Work, constant_elements
from tvmagic.ir import Allocate, IntImm, PrimFunc, Stmt, handles
from tvmagic.ir.query import contains
from tvmagic.passes import note

_STACK_BYTES = 32 * 1024  # of one allocation


@late_pass("PlaceAllocations", when=on_cpus)
def place_allocations(func: PrimFunc, check_bounds: bool) -> PrimFunc:
    """Place allocations of at most 32 KiB on the stack."""
    if not contains(func.body, Allocate):
        return func
    return func.with_body(_Placer(func, check_bounds).visit(func.body))


class _Placer(StatementMutator):
    def __init__(self, func: PrimFunc, check_bounds: bool) -> None:
        super().__init__(func)
        self.work, self.check_bounds = work_of(func.body), check_bounds

    @handles(Allocate)
    def allocate(self, node: Allocate) -> Stmt:
        made = self.visit_children(node)
        count = self._elements(node)
        if STACK in node.annotations or count is None or count * node.dtype.bytes > _STACK_BYTES:
            return made
        note("late", f"placed `{node.buffer_var.name}` on the stack: {count * node.dtype.bytes} bytes", node)
        return made.with_(annotations={**node.annotations, STACK: IntImm("int32", count)})

    def _elements(self, node: Allocate) -> int | None:
        return stack_elements(node, self.work, self.check_bounds)


def stack_elements(node: Allocate, work: Work, check_bounds: bool) -> int | None:
    """Return the elements of an allocation, an upper bound if its size is symbolic, or None if it is unbounded."""
    if check_bounds:  # which compares accesses with the size as it is written
        return constant_elements(node)
    count = work.elements(node)
    return _upper_bound(node) if count is None else count


def _upper_bound(node: Allocate) -> int | None:
    """Return the most elements of symbolic extents: the part of a symbolic size that a tile takes is often bounded."""
    analyzer, most = Analyzer(), 1
    for extent in node.extents:
        most *= max(analyzer.const_int_bound(extent).max_value, 0)
    return most if most * node.dtype.bytes <= _STACK_BYTES else None
