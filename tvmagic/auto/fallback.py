"""Schedule blocks that match no rule: parallel and vectorized loops, as the primitives allow."""

from __future__ import annotations

import math
from typing import Any

from tvmagic.auto.loops import any_order, extent_of, own_loops
from tvmagic.auto.program import Decisions, combined, loads_in
from tvmagic.errors import TVMagicError
from tvmagic.ir import Block, BufferStore, IterVar, SeqStmt, While
from tvmagic.ir.query import contains
from tvmagic.target.machine import Machine
from tvmagic.tir.schedule import Schedule

ENOUGH = 8192  # iterations from which threads pay


def plain_loops(sch: Schedule, block: Any, machine: Machine, notes: Decisions) -> None:
    """Run the outermost loop of a block in parallel and the innermost one in vectors, if that is legal."""
    name, loops = sch.get(block).name_hint, list(sch.get_loops(block))
    done: list[str] = []
    at = len(sch.trace.insts)
    if math.prod(extent_of(sch, loop) or 256 for loop in loops) >= ENOUGH and _tried(sch.parallel, loops[0]):
        done.append(f"{sch.get(loops[0]).loop_var.name} in parallel")
    inner = _innermost(sch, block)
    if inner is not None and (len(loops) > 1 or not done):
        lanes = machine.lanes(sch.get(block).writes[0].buffer.dtype)
        extent = extent_of(sch, inner)
        if extent is not None and extent % lanes == 0 and lanes > 1:
            vector = sch.split(inner, [None, lanes])[1] if extent > lanes else inner
            if _tried(sch.vectorize, vector):
                done.append(f"{sch.get(vector).loop_var.name} in vectors of {lanes}")
    elif _sums(sch.get(block)):
        any_order(sch, block, 0)
        done.append("its sums in any order, so that LLVM makes vectors of them")
    if done:
        notes.items.append((at, f"no rule fits {name}: its plain loops, {' and '.join(done)}"))
    else:
        notes.say(f"no rule fits {name}: its plain loops, as nothing of them may run in parallel or in vectors")


def _sums(block: Block) -> bool:
    """Whether a block is several reductions side by side: each adds to an element of its own, or takes what is larger."""
    stores = list(block.body.seq) if isinstance(block.body, SeqStmt) else []
    written = {s.buffer for s in stores if isinstance(s, BufferStore)}
    for store in stores:
        parts = combined(store) if isinstance(store, BufferStore) else None
        if parts is None or any(a.buffer in written for a in loads_in(parts[1])):
            return False
    return block.init is not None and len(written) == len(stores) > 0


def _innermost(sch: Schedule, block: Any) -> Any:
    """The innermost loop, if one variable of the block follows it, and that is not reduced over; lanes of a `while` would
    leave it at different times."""
    loops = sch.get_loops(block)
    if not loops or not sch.get(block).writes or contains(sch.get(block).body, While):
        return None
    followers = [var for var, loop in own_loops(sch, block).items() if sch.get_sref(loop) is sch.get_sref(loops[-1])]
    kinds = {iv.var: iv.iter_type for iv in sch.get(block).iter_vars}
    return loops[-1] if followers and all(kinds[v] == IterVar.DataPar for v in followers) else None


def _tried(call: Any, loop: Any) -> bool:
    """Whether a call was accepted; one that is refused leaves the schedule as it was."""
    try:
        call(loop)
    except TVMagicError:
        return False
    return True
