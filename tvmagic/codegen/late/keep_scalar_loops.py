"""Annotate loops that LLVM must not vectorize.

Two kinds: loops whose iterations all repeat one long chain of steps (`repeated_chains`), and loops of which LLVM would make
scatters (`scattered_stores`).
"""

from __future__ import annotations

from tvmagic.codegen.late.common import StatementMutator, keep_scalar, late_pass, work_of
from tvmagic.codegen.late.repeated_chains import loops_of_repeated_chains
from tvmagic.codegen.late.scattered_stores import loops_that_scatter
from tvmagic.ir import For, PrimFunc, Stmt, handles
from tvmagic.passes import note
from tvmagic.target import Target


@late_pass("KeepScalarLoops")
def keep_scalar_loops(func: PrimFunc, target: Target) -> PrimFunc:
    """Annotate loops that LLVM must not vectorize with `llvm.vectorize`."""
    reasons = dict.fromkeys(loops_of_repeated_chains(func.body), "its iterations repeat a long chain of steps")
    if not target.family.launches:
        lets = work_of(func.body).lets
        for loop in loops_that_scatter(func.body, lets, target.machine):
            reasons.setdefault(loop, "its vectors would be scatters")
    return func.with_body(_Annotator(func, reasons).visit(func.body)) if reasons else func


class _Annotator(StatementMutator):
    def __init__(self, func: PrimFunc, reasons: dict[For, str]) -> None:
        super().__init__(func)
        self.reasons = reasons

    @handles(For)
    def loop(self, node: For) -> Stmt:
        made = self.visit_children(node)
        if node not in self.reasons:
            return made
        note("late", f"kept loop `{node.loop_var.name}` scalar: {self.reasons[node]}", node)
        return keep_scalar(made)
