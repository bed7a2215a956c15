"""Strip-mine serial loops that run for seconds, so that they can be interrupted between two strips.

    for i in range(2 ** 40):               for i_strip in range(2 ** 14):      # polls after each strip
        S[0] = S[0] + X[i % 8]                 for i in range(i_strip * 2 ** 26, ...):
                                                   S[0] = S[0] + X[i % 8]

A poll in the loop itself would keep LLVM from vectorizing it.
"""

from __future__ import annotations

from tvmagic import ir
from tvmagic.codegen.late.common import POLL, StatementMutator, late_pass, on_threaded_targets, work_of
from tvmagic.codegen.late.work_estimate import Work
from tvmagic.ir.ops import minimum
from tvmagic.passes import note


@late_pass("StripMineForInterrupt", when=on_threaded_targets)
def strip_mine_for_interrupt(func: ir.PrimFunc) -> ir.PrimFunc:
    """Strip-mine serial loops that run for seconds without a poll for interrupts."""
    work = work_of(func.body)
    if not any(work.strip_size(loop) for loop in work.bodies):
        return func
    return func.with_body(_StripMiner(func, work).visit(func.body))


class _StripMiner(StatementMutator):
    def __init__(self, func: ir.PrimFunc, work: Work) -> None:
        super().__init__(func)
        self.work = work

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        made = self.visit_children(node)
        size, extent = self.work.strip_size(node), node.extent
        if not size or POLL in node.annotations or not isinstance(extent, ir.IntImm):
            return made
        note("late", f"strip-mined loop `{node.loop_var.name}`: it polls for interrupts every {size} iterations", node)
        strip = ir.Var(f"{node.loop_var.name}_strip", node.loop_var.dtype)
        begin = strip * size
        inner = made.with_(min=node.min + begin, extent=minimum(ir.IntImm(extent.dtype, size), extent - begin))
        return ir.For(
            strip,
            0,
            -(-extent.value // size),
            ir.ForKind.SERIAL,
            inner,
            annotations={POLL: ir.IntImm("int32", 1)},
            span=node.span,
        )
