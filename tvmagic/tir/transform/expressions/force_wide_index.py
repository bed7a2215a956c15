"""ForceWideIndexToInt64: every index in 64 bits, whatever its bounds."""

from __future__ import annotations

import math

from tvmagic.ir import Buffer, IntImm, IRModule, PrimFunc, StmtVisitor
from tvmagic.ir.buffer import is_reached
from tvmagic.ir.deep_recursion import deep
from tvmagic.ir.index_dtype import with_index_dtype
from tvmagic.passes import note
from tvmagic.tir.transform.declaration import tir_pass


class _LargeBuffers(StmtVisitor):
    """Buffers whose constant dimensions have a product that the type of their indices does not hold."""

    def __init__(self, func: PrimFunc) -> None:
        self.found: dict[Buffer, int] = {}
        for buffer in func.buffer_map.values():
            self.visit_buffer_use(buffer)
        self.visit(func.body)

    def visit_buffer_use(self, buffer: Buffer) -> Buffer:
        sizes = [size for size in buffer.shape if isinstance(size, IntImm)]
        if len(sizes) > 1:
            count = math.prod([max(size.value, 0) for size in sizes])
            if not is_reached(count, max([size.dtype for size in sizes], key=lambda dtype: dtype.bits)):
                self.found[buffer] = count
        return buffer

    visit_buffer_def = visit_buffer_use


@deep
def has_large_buffers(mod: IRModule) -> bool:
    """Return whether int32 does not hold the flat index of some buffer of constant dimensions."""
    return any(_LargeBuffers(func).found for func in mod.functions.values())


@tir_pass("tir.ForceWideIndexToInt64")
def ForceWideIndexToInt64(func: PrimFunc) -> PrimFunc:
    """Count in int64: loop and block variables, sizes, bounds, indices and integer parameters."""
    for buffer, count in _LargeBuffers(func).found.items():
        note("widen", f"widened the loops and indices to int64: `{buffer.name}` has {count} elements")
    return with_index_dtype(func, "int64")
