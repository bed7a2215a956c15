"""InjectPTXLDG32: stores of a value that is loaded under a condition, as NVIDIA's predicated loads."""

from __future__ import annotations

from tvmagic.ir import (
    Allocate,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    IntImm,
    PrimFunc,
    Ramp,
    SeqStmt,
    Stmt,
    StmtMutator,
    decl_buffer,
    handles,
)
from tvmagic.ir.query import is_call
from tvmagic.tir.transform.declaration import tir_pass


@tir_pass("tir.InjectPTXLDG32")
def InjectPTXLDG32(func: PrimFunc, enable_inject_ptx_intrin: bool = True) -> PrimFunc:
    """Write `local[i] = T.if_then_else(condition, A[j], 0)` as `T.ptx_ldg32`, which loads only if the condition holds.

    The addresses and the condition go into registers, allocated around the function's first allocation.
    """
    if not enable_inject_ptx_intrin:
        return func
    return func.with_body(_Loads().visit(func.body))


class _Loads(StmtMutator):
    def __init__(self) -> None:
        self.registers: tuple[Buffer, Buffer] | None = None

    @handles(Allocate)
    def allocate(self, node: Allocate) -> Stmt:
        if self.registers is not None:
            return self.visit_children(node)
        self.registers = (
            decl_buffer([2], "int32", "addr", scope="local"),
            decl_buffer([1], "bool", "predicate", scope="local"),
        )
        new = self.visit_children(node)
        for buffer in self.registers:
            new = Allocate(buffer.data, buffer.dtype, buffer.shape, IntImm("bool", 1), new)
        return new

    @handles(BufferStore)
    def store(self, node: BufferStore) -> Stmt:
        value = node.value
        if self.registers is None or not is_call(value, "tir.if_then_else"):
            return node
        condition, *values = value.args
        load = next((v for v in values if isinstance(v, BufferLoad)), None)
        flat = load is not None and len(load.indices) == 1 and len(node.indices) == 1
        if load is None or not flat or isinstance(load.indices[0], Ramp):
            return node
        addresses, predicate = self.registers
        zero, one = IntImm("int32", 0), IntImm("int32", 1)
        guarded = [
            node.buffer.data,
            BufferLoad(predicate, [zero]),
            BufferLoad(load.buffer, [BufferLoad(addresses, [zero])]),
            BufferLoad(addresses, [one]),
        ]
        return SeqStmt(
            [
                BufferStore(addresses, load.indices[0], [zero]),
                BufferStore(addresses, node.indices[0], [one]),
                BufferStore(predicate, condition, [zero]),
                Evaluate(Call(node.buffer.dtype, "tir.ptx_ldg32", guarded)),
            ]
        )
