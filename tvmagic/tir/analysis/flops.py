"""How many arithmetic operations a program does."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BinaryOp,
    Block,
    BlockRealize,
    Broadcast,
    BufferLoad,
    BufferRealize,
    BufferStore,
    Call,
    Cast,
    CmpOp,
    ConstExpr,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    IntImm,
    IRModule,
    Let,
    LetStmt,
    LogicalOp,
    Node,
    Not,
    Prefetch,
    PrimExpr,
    PrimFunc,
    ProducerLoad,
    ProducerRealize,
    ProducerStore,
    Ramp,
    Reduce,
    Select,
    SeqStmt,
    Shuffle,
    Stmt,
    Var,
    Visitor,
    While,
    handles,
)

__all__ = ["estimate_tir_flops"]


class _Counter(Visitor):
    """Adds up the operations in what is stored, by their dtypes; indices, bounds, casts and logic cost nothing."""

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()

    def of(self, *nodes: Any) -> Counter[Any]:
        """The operations of some nodes alone."""
        outer, self.counts = self.counts, Counter()
        for node in nodes:
            self.visit(node)
        found, self.counts = self.counts, outer
        return found

    @handles(Node)
    def unknown(self, node: Node) -> None:
        raise TVMagicError(f"the operations of a node `{type(node).__name__}` are not known", node=node)

    @handles(ConstExpr, Var)
    def leaf(self, node: PrimExpr) -> None:
        pass

    @handles(Not, Cast, Let, Call, Ramp, Broadcast, Shuffle, ProducerLoad, Reduce)
    def expression(self, node: PrimExpr) -> None:
        self.visit_children(node)

    @handles(SeqStmt, LetStmt, AttrStmt, AssertStmt, Evaluate, Allocate, AllocateConst, DeclBuffer, BufferRealize)
    def statement(self, node: Stmt) -> None:
        self.visit_children(node)

    @handles(ProducerStore, ProducerRealize, Prefetch)
    def of_producers(self, node: Stmt) -> None:
        self.visit_children(node)

    @handles(BinaryOp, CmpOp)
    def operation(self, node: Any) -> None:
        self.counts[node.dtype] += 1
        self.visit_children(node)

    @handles(LogicalOp)
    def logic(self, node: Any) -> None:
        self.visit_children(node)

    @handles(Select)
    def choice(self, node: Select) -> None:
        self.visit(node.condition)
        self.counts += self.of(node.true_value) | self.of(node.false_value)

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
        for dtype, count in self.of(node.body).items():
            self.counts[dtype] += node.extent.value * count

    @handles(While)
    def unbounded(self, node: While) -> None:
        raise TVMagicError("the number of iterations of a while loop is not known", node=node)

    @handles(IfThenElse)
    def branch(self, node: IfThenElse) -> None:
        self.visit(node.condition)
        other = self.of(node.else_case) if node.else_case is not None else Counter[Any]()
        self.counts += self.of(node.then_case) | other

    @handles(BlockRealize)
    def realize(self, node: BlockRealize) -> None:
        self.visit(node.block.body)

    @handles(Block)
    def block(self, node: Block) -> None:
        self.counts += self.of(*([] if node.init is None else [node.init]), node.body)


def estimate_tir_flops(stmt_or_mod: Stmt | PrimFunc | IRModule) -> float:
    """The arithmetic operations of a statement, a function or all functions of a module, loops counted.

    Of two branches the longer one counts, a vector's operation is one, an init is none. The extents of loops must
    be constant. A function of a module that has the attribute `estimated_flops` counts as that.
    """
    if not isinstance(stmt_or_mod, IRModule):
        body = stmt_or_mod.body if isinstance(stmt_or_mod, PrimFunc) else stmt_or_mod
        return float(_Counter().of(body).total())
    total = 0.0
    for function in stmt_or_mod.functions.values():
        known = function.attrs.get("estimated_flops")
        total += float(int(known)) if known is not None else estimate_tir_flops(function)
    return total
