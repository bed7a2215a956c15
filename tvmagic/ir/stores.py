"""Several stores that happen as one: no value is computed from what another of them stored."""

from __future__ import annotations

from collections.abc import Sequence

from tvmagic.ir.buffer import Buffer
from tvmagic.ir.expr import PrimExpr, Var
from tvmagic.ir.operators import BufferLoad
from tvmagic.ir.query import nodes_of
from tvmagic.ir.stmt import BufferStore, LetStmt, SeqStmt, Stmt

__all__ = ["stored_together"]


def stored_together(stores: Sequence[BufferStore]) -> Stmt:
    """The stores one after another; values that read what an earlier one changes are computed before."""
    stored: set[Buffer] = set()
    kept: list[tuple[Var, PrimExpr]] = []
    result: list[Stmt] = []
    for store in stores:
        if _reads(store.value, stored):
            var = Var(f"v_{store.buffer.name}", store.value.dtype)
            kept.append((var, store.value))
            store = store.replace(value=var)
        stored.add(store.buffer)
        result.append(store)
    body = SeqStmt.flatten(*result)
    for var, value in reversed(kept):
        body = LetStmt(var, value, body)
    return body


def _reads(value: PrimExpr, buffers: set[Buffer]) -> bool:
    return any(load.buffer in buffers for load in nodes_of(value, BufferLoad))
