"""LowerDeviceStorageAccessInfo: pointers into the special memories of a device become addresses in its units."""

from __future__ import annotations

from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    Allocate,
    BufferLoad,
    Call,
    DataType,
    LetStmt,
    MemoryInfo,
    Mutator,
    PrimExpr,
    PrimFunc,
    Ramp,
    Stmt,
    Var,
    decl_buffer,
    handles,
    ops,
)
from tvmagic.ir.memory_scope import MemoryScope, memory_info
from tvmagic.ir.query import is_access_ptr
from tvmagic.ir.values import scope_of
from tvmagic.tir.transform.declaration import tir_pass


class _Lowerer(Mutator):
    def __init__(self) -> None:
        self.known: dict[Var, MemoryInfo] = {}
        self.analyzer = Analyzer()

    @handles(Allocate)
    def allocate(self, node: Allocate) -> Stmt:
        scope = scope_of(node.buffer_var)
        if not MemoryScope.of(scope).is_special:
            return self.visit_children(node)
        info = memory_info(scope)
        if info is None:
            raise TVMagicError(
                f"Cannot find memory info of {scope}", node=node, hint=f"register a function `tvm.info.mem.{scope}`"
            )
        self.known[node.buffer_var] = info
        body = self.visit(node.body)  # the device has that memory: nothing is allocated
        return body if info.head_address is None else LetStmt(node.buffer_var, info.head_address, body, node.span)

    @handles(Call)
    def call(self, node: Call) -> PrimExpr:
        new = self.visit_children(node)
        if not is_access_ptr(new):
            return new
        pointer, offset, dtype = new.args[1], new.args[2], new.args[0].dtype
        info = self.known.get(pointer)
        if not new.dtype.is_handle and info is not None:
            bits = dtype.bits * dtype.lanes
            if info.unit_bits % bits:
                raise TVMagicError(f"a unit of {info.unit_bits} bits does not hold elements of `{dtype}`", node=node)
            units = ops.div(offset, ops.const(info.unit_bits // bits, offset.dtype))
            return ops.cast(new.dtype, self.analyzer.simplify(units))
        if not new.dtype.is_handle or (info is not None and info.head_address is None):
            raise TVMagicError(f"`{pointer.name}` is in memory that has no addresses", node=node)
        return _address(pointer, dtype, offset)


def _address(pointer: Var, dtype: DataType, offset: PrimExpr) -> PrimExpr:
    """The address of element `offset`, counted in elements of `dtype`."""
    index = offset
    if dtype.lanes != 1:
        offset = offset * dtype.lanes
        index = Ramp(offset, ops.const(1, offset.dtype), dtype.lanes)
    view = decl_buffer((offset + 1,), dtype.element_of, pointer.name, pointer, elem_offset=ops.const(0, offset.dtype))
    return ops.address_of(BufferLoad(view, [index]))


@tir_pass("tir.LowerDeviceStorageAccessInfo")
def LowerDeviceStorageAccessInfo(func: PrimFunc) -> PrimFunc:
    """Turn `tvm_access_ptr` into addresses: in memories with a tag, such as `local.UB`, into numbers of their units, of
    `unit_bits` each (`tvm.info.mem.<scope>` says how many), elsewhere into the address of an element.

    Such memory is not allocated: it begins at its `head_address`.
    """
    return func.with_body(_Lowerer().visit(func.body))
