"""What a reduction block combines, and how: the pattern of its init and update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tvmagic.ir import (
    Add,
    BinaryOp,
    Block,
    BufferLoad,
    BufferStore,
    FloatImm,
    IntImm,
    LetStmt,
    Max,
    Min,
    Mul,
    PrimExpr,
    SeqStmt,
    Stmt,
    Var,
    expr_deep_equal,
    structural_equal,
    substitute,
)
from tvmagic.ir.ops import make_const, max_value, min_value
from tvmagic.tir.analysis.choice import choice
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.reduction import Exchange, same_places, stores_of
from tvmagic.tir.blocks.sref import StmtSRef

__all__ = ["ReductionPattern", "match_reduction"]

_IDENTITY: dict[type, Callable[[PrimExpr], PrimExpr]] = {
    Add: lambda e: make_const(e.dtype, 0),
    Mul: lambda e: make_const(e.dtype, 1),
    Min: lambda e: max_value(e.dtype),
    Max: lambda e: min_value(e.dtype),
}


@dataclass
class ReductionPattern:
    """A reduction's update: its stores, and the values that one iteration adds to the outputs."""

    updates: list[BufferStore]
    lets: list[LetStmt]
    added: list[PrimExpr]
    rebuild: Callable[[Sequence[PrimExpr], Mapping[Var, PrimExpr]], Stmt]

    def combine(self, values: Sequence[PrimExpr], renamed: Mapping[Var, PrimExpr]) -> Stmt:
        """The update with other values in the place of those that one iteration adds."""
        return self.rebuild(values, renamed)


def _same_constant(a: PrimExpr, b: PrimExpr) -> bool:
    if isinstance(a, (IntImm, FloatImm)) and isinstance(b, (IntImm, FloatImm)):
        return a.value == b.value
    return expr_deep_equal(a, b)


def _is_target(value: PrimExpr, store: BufferStore) -> bool:
    return (
        isinstance(value, BufferLoad)
        and value.buffer is store.buffer
        and all(expr_deep_equal(a, b) for a, b in zip(value.indices, store.indices))
    )


def match_reduction(block: StmtSRef) -> ReductionPattern:
    """The pattern of a reduction block, or an error if its combination is not known."""
    stmt = block.block
    assert stmt.init is not None
    init, update = stores_of(stmt.init), stores_of(stmt.body)
    if init is None or update is None or init[0] or not same_places(init[1], update[1]):
        raise ScheduleError(
            f"the init and the update of {block.label} must be stores to the same buffers, one to each, at the same indices",
            block,
        )
    found = _match_single(stmt, init[1], update[1], update[0]) or _match_tuple(init[1], update[1], update[0])
    if found is None:
        raise ScheduleError(f"how {block.label} combines its values is not known", block)
    return found


def _match_single(
    block: Block, init: list[BufferStore], update: list[BufferStore], lets: list[LetStmt]
) -> ReductionPattern | None:
    """`C[i] = C[i] op x` with the neutral element of `op` as init."""
    if len(update) != 1 or len(lets) > 1:
        return None
    store, value = update[0], update[0].value
    if lets:
        if value is not lets[0].var:
            return None
        value = lets[0].value
    op: type[BinaryOp] = type(value)  # type: ignore[assignment]
    if op not in _IDENTITY or not isinstance(value, (Add, Mul, Min, Max)):
        return None
    if not _same_constant(init[0].value, _IDENTITY[op](value)):
        return None
    if _is_target(value.a, store):
        added = value.b
    elif _is_target(value.b, store):
        added = value.a
    else:
        return None

    def rebuild(values: Sequence[PrimExpr], renamed: Mapping[Var, PrimExpr]) -> Stmt:
        indices = tuple([substitute(i, renamed) for i in store.indices])
        return store.replace(indices=indices, value=op(BufferLoad(store.buffer, indices), values[0]))

    return ReductionPattern(update, lets, [added], rebuild)


def _match_tuple(init: list[BufferStore], update: list[BufferStore], lets: list[LetStmt]) -> ReductionPattern | None:
    """Two outputs, a value and its place, each chosen by one comparison and kept in a variable: argmax and argmin."""
    if len(update) != 2 or len(lets) != 2:
        return None
    by_var = {let.var: let.value for let in lets}
    if {s.value for s in update} != set(by_var):
        return None
    if not all(structural_equal(a, b) for a, b in zip(update[0].buffer.shape, update[1].buffer.shape)):
        return None
    chosen = [by_var[s.value] for s in update if isinstance(s.value, Var)]
    parts = [choice(c) for c in chosen]
    if any(p is None for p in parts):
        return None
    added: list[PrimExpr] = []
    for store, part in zip(update, parts):
        assert part is not None
        old, new = (part[1], part[2]) if _is_target(part[1], store) else (part[2], part[1])
        if not _is_target(old, store):
            return None
        added.append(new)

    def rebuild(values: Sequence[PrimExpr], renamed: Mapping[Var, PrimExpr]) -> Stmt:
        swapped = [Exchange(list(zip(added, values))).visit(c) for c in chosen]
        fresh = [Var(f"v_{s.buffer.name}", s.buffer.dtype) for s in update]
        stores: list[Stmt] = [
            s.replace(indices=tuple([substitute(i, renamed) for i in s.indices]), value=v)
            for s, v in zip(update, fresh)
        ]
        body: Stmt = SeqStmt(stores)
        for var, value in reversed(list(zip(fresh, swapped))):
            body = LetStmt(var, substitute(value, renamed), body)
        return body

    return ReductionPattern(update, lets, added, rebuild)
