"""ForceNarrowIndexToInt32: every index in 32 bits, whatever its bounds."""

from __future__ import annotations

from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import Buffer, PrimFunc, Visitor
from tvmagic.ir.index_dtype import with_index_dtype
from tvmagic.tir.transform.declaration import tir_pass


class _WideElements(Visitor):
    """Refuses buffers whose elements are int64: they would be indices of other buffers as well as data."""

    def __init__(self) -> None:
        self.seen: set[Buffer] = set()

    def check(self, buffer: Buffer, place: Any = None) -> None:
        if buffer in self.seen:
            return
        self.seen.add(buffer)
        if buffer.dtype.is_int and buffer.dtype.bits > 32:
            raise TVMagicError(
                f"the indices cannot be forced to int32: the elements of buffer `{buffer.name}` are {buffer.dtype}",
                node=place,
                hint="NarrowDataType(32) narrows the indices whose bounds allow it, and leaves elements alone",
                code="tir.force_narrow_index.buffer_too_large",
            )

    def visit_buffer_use(self, buffer: Buffer) -> None:
        self.check(buffer)

    visit_buffer_def = visit_buffer_use


@tir_pass("tir.ForceNarrowIndexToInt32")
def ForceNarrowIndexToInt32(func: PrimFunc) -> PrimFunc:
    """Count in int32: loop and block variables, sizes, bounds, indices and integer parameters.

    Unlike NarrowDataType it asks for no bounds: the caller knows that every index fits. Raises `TVMagicError` for a
    constant index that does not, and for a buffer whose elements are int64.
    """
    wide = _WideElements()
    for buffer in func.buffer_map.values():
        wide.check(buffer, func)
    wide.visit(func.body)
    return with_index_dtype(func, "int32")
