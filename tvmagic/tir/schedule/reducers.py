"""What a reduction block combines, as `rfactor` needs it: the update with other values in the place of those it takes in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvmagic import ir
from tvmagic.ir.ops import max_value, min_value
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.reduction import BlockReduction, find_reduction, stores_of_reduction
from tvmagic.tir.blocks.sref import StmtSRef


def match_reduction(block: StmtSRef) -> BlockReduction:
    """What a reduction block combines, and how; an error if that is not known."""
    stores = stores_of_reduction(block.block)
    if stores is None:
        raise ScheduleError(
            f"the init and the update of {block.label} must be stores to the same buffers, one to each, at the same indices",
            block,
            code="schedule.init_and_update_differ",
        )
    found = find_reduction(*stores) if _is_written_plainly(*stores[1:]) else None
    if found is None or not _starts_neutral(found.reducer):
        raise ScheduleError(
            f"how {block.label} combines its values is not known", block, code="schedule.unknown_reducer"
        )
    return found


def _is_written_plainly(lets: list[ir.LetStmt], update: list[ir.BufferStore]) -> bool:
    """Whether an update is in one of TVM's forms: one store, or two of one shape, with each value in a variable before."""
    if len(update) == 1:
        return len(lets) <= 1
    if len(update) != 2 or len(lets) != 2 or {s.value for s in update} != {let.var for let in lets}:
        return False
    return all(map(ir.structural_equal, update[0].buffer.shape, update[1].buffer.shape))


def _starts_neutral(reducer: ir.CommReducer) -> bool:
    """Whether one result is a sum, product, minimum or maximum that starts with its neutral element; several may start with any."""
    if len(reducer.result) != 1:
        return True
    (result,), (first,) = reducer.result, reducer.identity_element
    if isinstance(result, (ir.Min, ir.Max)):
        neutral = (max_value if isinstance(result, ir.Min) else min_value)(result.dtype)
        return ir.expr_deep_equal(first, neutral)
    return isinstance(result, (ir.Add, ir.Mul))


def combine(reduction: BlockReduction, values: Sequence[ir.PrimExpr], renamed: Mapping[ir.Var, ir.PrimExpr]) -> ir.Stmt:
    """The update with `values` in the place of those that one iteration takes in, and its variables renamed."""
    stores = [s.replace(indices=tuple([ir.substitute(i, renamed) for i in s.indices])) for s in reduction.updates]
    reducer = reduction.reducer
    old = {x: ir.BufferLoad(s.buffer, s.indices) for x, s in zip(reducer.lhs, stores)}
    results = [ir.substitute(r, {**old, **dict(zip(reducer.rhs, values))}) for r in reducer.result]
    if len(stores) == 1:
        return stores[0].replace(value=results[0])
    fresh = [ir.Var(f"v_{s.buffer.name}", s.buffer.dtype) for s in stores]
    body: ir.Stmt = ir.SeqStmt([s.replace(value=v) for s, v in zip(stores, fresh)])
    for var, result in reversed(list(zip(fresh, results))):
        body = ir.LetStmt(var, result, body)
    return body
