"""What stores do: several as one, and those that update the element that they load."""

from __future__ import annotations

from collections.abc import Sequence

from tvmagic.ir.buffer import Buffer
from tvmagic.ir.deep_equal import expr_deep_equal
from tvmagic.ir.expr import PrimExpr, Var
from tvmagic.ir.operators import BinaryOp, BufferLoad
from tvmagic.ir.query import nodes_of
from tvmagic.ir.stmt import BufferStore, LetStmt, SeqStmt, Stmt


def stored_together(stores: Sequence[BufferStore]) -> Stmt:
    """The stores one after another, as if they happened at one time: values that read what an earlier one changes are
    computed before."""
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


def update_term(store: BufferStore, *operators: type[BinaryOp]) -> PrimExpr | None:
    """What a store combines with the element that it replaces, by one of some commutative operators: `x` of
    `A[i] = A[i] + x` and of `A[i] = x + A[i]`; None if it is not such an update."""
    value = store.value
    if not isinstance(value, operators):
        return None
    for own, other in ((value.a, value.b), (value.b, value.a)):
        if isinstance(own, BufferLoad) and own.buffer is store.buffer:
            if all(map(expr_deep_equal, own.indices, store.indices)):
                return other
    return None
