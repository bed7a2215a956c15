"""Compute `max` reductions of bools as `or` of bytes.

    F[i] = uint8(max(bool(F[i]), bool(X[k])))        F[i] = F[i] | uint8(bool(X[k]))

Bools are bytes in memory. LLVM would test whether the `or` of both is zero, and would then not recognize the reduction.
"""

from __future__ import annotations

from tvmagic import ir
from tvmagic.codegen.late.common import StatementMutator, census, late_pass
from tvmagic.passes import note


@late_pass("LowerBoolMax")
def lower_bool_max(func: ir.PrimFunc) -> ir.PrimFunc:
    """Compute max reductions of bools whose order is free as `or` of bytes."""
    return func.with_body(_Lowerer(func).visit(func.body)) if census(func.body).bool_max else func


class _Lowerer(StatementMutator):
    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.BufferStore:
        made = node.with_(value=_on_bytes(node)) if self.any_order else node
        if made is not node:
            note("late", f"computed the max of bools in `{node.buffer.name}` as `or` of bytes", node)
        return made


def _on_bytes(stmt: ir.BufferStore) -> ir.PrimExpr:
    """Return the stored value, as the `or` of two bytes if it is a step of a `max` of bools."""
    value = stmt.value
    if not isinstance(value, ir.Cast) or not value.dtype.is_int or not isinstance(value.value, ir.Max):
        return value
    mine, other = (_byte_of(side) for side in (value.value.a, value.value.b))
    if mine is None or other is None:
        return value
    if mine.buffer is not stmt.buffer:
        mine, other = other, mine
    if mine.buffer is not stmt.buffer or not all(map(ir.structural_equal, mine.indices, stmt.indices)):
        return value
    return ir.Call(value.dtype, "tir.bitwise_or", [mine, ir.Cast(value.dtype, ir.Cast(value.value.dtype, other))])


def _byte_of(value: ir.PrimExpr) -> ir.BufferLoad | None:
    """Return the load of the byte that a bool is made of, or None."""
    load = value.value if isinstance(value, ir.Cast) and value.dtype.is_bool else None
    return load if isinstance(load, ir.BufferLoad) and load.dtype.bits == 8 else None
