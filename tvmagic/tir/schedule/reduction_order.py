"""The order in which a reduction visits its terms: from the least one, at which it starts from its init, each once."""

from __future__ import annotations

from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.arith.iter_map import detect_iter_map
from tvmagic.ir import BlockRealize, IterVar, PrimExpr
from tvmagic.ir.query import is_one
from tvmagic.tir.blocks.domains import loop_domains
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.state import ScheduleState


def check_reduces_in_order(state: ScheduleState, block: StmtSRef) -> None:
    """The loops must bring each element of a reduction to all of its terms once, the first one first.

    A block starts from its init when the reduced variables have their least values. A loop that brings these late
    throws away what was summed before, and one that runs a term again adds it twice. From the outermost loop that the
    reduced variables use inwards, the bindings must therefore be independent and rise with the loops; a loop further
    out may run the whole reduction again.
    """
    realize = state.realize_of(block)
    reduced = [v for v, var in zip(realize.iter_values, realize.block.iter_vars) if var.iter_type == IterVar.CommReduce]
    loops = [sref for sref in state.loops_of(block) if not is_one(sref.loop.extent)]
    first = next((n for n, s in enumerate(loops) if any(uses_var(v, {s.loop.loop_var}) for v in reduced)), None)
    if realize.block.init is None or first is None:
        return
    inner = loops[first:]
    for sref in inner:
        if not any(uses_var(v, {sref.loop.loop_var}) for v in realize.iter_values):
            raise ScheduleError(
                f"{block.label} would run again in each iteration of {sref.label}, inside {inner[0].label}, over which it "
                "reduces, and count terms more than once",
                block,
                hint="take a loop further out",
                code="schedule.terms_reduced_again",
            )
    if not _rises(realize, reduced, inner):
        raise ScheduleError(
            f"it is not known that {block.label} would reduce each term once, beginning with the first one, at which it "
            "starts from its init",
            block,
            hint="take a loop further out, or one that runs forwards",
            code="schedule.reduction_order_not_proved",
        )


def _rises(realize: BlockRealize, reduced: list[PrimExpr], loops: list[StmtSRef]) -> bool:
    """Whether the bindings are independent in the loops, and those of reduced variables rise with them."""
    found = detect_iter_map(realize.iter_values, loop_domains(loops), check_level="bijective").indices
    analyzer = Analyzer()
    return bool(found) and all(
        analyzer.can_prove(part.scale > 0)
        for value, total in zip(realize.iter_values, found)
        if any(value is r for r in reduced)
        for part in total.args
    )
