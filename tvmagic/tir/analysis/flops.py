"""How many arithmetic operations a program does."""

from __future__ import annotations

from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    BinaryOp,
    Block,
    BlockRealize,
    BufferLoad,
    BufferStore,
    CmpOp,
    For,
    IfThenElse,
    IntImm,
    IRModule,
    LogicalOp,
    Not,
    PrimFunc,
    Select,
    Stmt,
    Visitor,
    While,
    handles,
)

__all__ = ["estimate_tir_flops"]


class _Counter(Visitor):
    """Adds up the operations in what is stored; indices, bounds and casts cost nothing."""

    def __init__(self) -> None:
        self.total = 0.0

    def of(self, node: Any) -> float:
        outer, self.total = self.total, 0.0
        self.visit(node)
        found, self.total = self.total, outer
        return found

    @handles(BinaryOp, CmpOp, LogicalOp, Not, Select)
    def operation(self, node: Any) -> None:
        self.total += getattr(node.dtype, "lanes", 1)
        self.visit_children(node)

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> None:
        pass

    @handles(BufferStore)
    def store(self, node: BufferStore) -> None:
        self.visit(node.value)

    @handles(For)
    def loop(self, node: For) -> None:
        if not isinstance(node.extent, IntImm):
            raise TVMagicError(
                f"loop `{node.loop_var.name}` has extent `{node.extent}`, which is not a number", node=node
            )
        self.total += node.extent.value * self.of(node.body)

    @handles(While)
    def unbounded(self, node: While) -> None:
        raise TVMagicError("the number of iterations of a while loop is not known", node=node)

    @handles(IfThenElse)
    def branch(self, node: IfThenElse) -> None:
        taken = self.of(node.then_case)
        other = self.of(node.else_case) if node.else_case is not None else 0.0
        self.total += self.of(node.condition) + max(taken, other)

    @handles(BlockRealize)
    def realize(self, node: BlockRealize) -> None:
        self.visit(node.block)

    @handles(Block)
    def block(self, node: Block) -> None:
        if node.init is not None:
            self.visit(node.init)
        self.visit(node.body)


def estimate_tir_flops(stmt_or_mod: Stmt | PrimFunc | IRModule) -> float:
    """The arithmetic operations of a statement, a function or all functions of a module, loops counted.

    Of two branches the longer one counts. The extents of loops must be constant.
    """
    if isinstance(stmt_or_mod, IRModule):
        return sum([_Counter().of(f.body) for f in stmt_or_mod.functions.values()], 0.0)
    return _Counter().of(stmt_or_mod.body if isinstance(stmt_or_mod, PrimFunc) else stmt_or_mod)
