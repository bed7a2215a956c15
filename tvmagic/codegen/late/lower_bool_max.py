"""Compute `max` reductions of bools as `or` of bytes.

    F[i] = uint8(max(bool(F[i]), bool(X[k])))        F[i] = F[i] | uint8(bool(X[k]))

Bools are bytes in memory. LLVM would test whether the `or` of both is zero, and would then not recognize the reduction.
"""

from __future__ import annotations

from tvmagic.codegen.late.common import StatementMutator, census, late_pass
from tvmagic.ir import BufferLoad, BufferStore, Call, Cast, Max, PrimExpr, PrimFunc, handles, structural_equal
from tvmagic.passes import note


@late_pass("LowerBoolMax")
def lower_bool_max(func: PrimFunc) -> PrimFunc:
    """Compute max reductions of bools whose order is free as `or` of bytes."""
    return func.with_body(_Lowerer(func).visit(func.body)) if census(func.body).bool_max else func


class _Lowerer(StatementMutator):
    @handles(BufferStore)
    def store(self, node: BufferStore) -> BufferStore:
        made = node.with_(value=_on_bytes(node)) if self.any_order else node
        if made is not node:
            note("late", f"computed the max of bools in `{node.buffer.name}` as `or` of bytes", node)
        return made


def _on_bytes(stmt: BufferStore) -> PrimExpr:
    """Return the stored value, as the `or` of two bytes if it is a step of a `max` of bools."""
    value = stmt.value
    if not isinstance(value, Cast) or not value.dtype.is_int or not isinstance(value.value, Max):
        return value
    mine, other = (_byte_of(side) for side in (value.value.a, value.value.b))
    if mine is None or other is None:
        return value
    if mine.buffer is not stmt.buffer:
        mine, other = other, mine
    if mine.buffer is not stmt.buffer or not all(map(structural_equal, mine.indices, stmt.indices)):
        return value
    return Call(value.dtype, "tir.bitwise_or", [mine, Cast(value.dtype, Cast(value.value.dtype, other))])


def _byte_of(value: PrimExpr) -> BufferLoad | None:
    """Return the load of the byte that a bool is made of, or None."""
    load = value.value if isinstance(value, Cast) and value.dtype.is_bool else None
    return load if isinstance(load, BufferLoad) and load.dtype.bits == 8 else None
