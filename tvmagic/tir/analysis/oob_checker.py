"""OOBChecker: accesses that are outside of their buffer for some values of the loops around them."""

from __future__ import annotations

from typing import Any

from tvmagic.arith import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    Block,
    BufferLoad,
    BufferStore,
    Call,
    For,
    IfThenElse,
    IRModule,
    LetStmt,
    Not,
    Op,
    PrimExpr,
    PrimFunc,
    Range,
    Visitor,
    handles,
)
from tvmagic.passes import Pass, PassContext


class _Checker(Visitor):
    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.analyzer = Analyzer()

    @handles(For)
    def loop(self, node: For) -> None:
        self.analyzer.bind(node.loop_var, Range.from_min_extent(node.min, node.extent), True)
        self.visit_children(node)

    @handles(Block)
    def block(self, node: Block) -> None:
        for iter_var in node.iter_vars:
            if iter_var.dom is not None:
                self.analyzer.bind(iter_var.var, iter_var.dom, True)
        if node.init is not None:
            self.visit(node.init)
        self.visit(node.body)

    @handles(LetStmt)
    def let(self, node: LetStmt) -> None:
        self.visit(node.value)
        if node.value.dtype.is_index:
            self.analyzer.bind(node.var, node.value, True)
        self.visit(node.body)

    def _under(self, condition: PrimExpr, node: Any) -> None:
        with self.analyzer.constraint_scope(condition):
            self.visit(node)

    @handles(IfThenElse)
    def branch(self, node: IfThenElse) -> None:
        self.visit(node.condition)
        self._under(node.condition, node.then_case)
        if node.else_case is not None:
            self._under(self.analyzer.rewrite_simplify(Not(node.condition)), node.else_case)

    @handles(Call)
    def call(self, node: Call) -> None:
        if not (isinstance(node.op, Op) and node.op.name == "tir.if_then_else"):
            self.visit_children(node)
            return
        self.visit(node.args[0])
        self._under(node.args[0], node.args[1])
        self._under(self.analyzer.rewrite_simplify(Not(node.args[0])), node.args[2])

    @handles(BufferLoad, BufferStore)
    def access(self, node: Any) -> None:
        self.visit_children(node)
        for axis, (index, size) in enumerate(zip(node.indices, node.buffer.shape)):
            if index.dtype.lanes != 1:
                continue
            low = int(self.analyzer.const_int_bound(index).min_value)
            high = int(self.analyzer.const_int_bound(index).max_value)
            limit = int(self.analyzer.const_int_bound(size).max_value)
            known = high - low < 1 << (index.dtype.bits - 1)  # else nothing is known but the type
            if known and (low < 0 or high >= limit):
                raise TVMagicError(
                    f"an index of buffer `{node.buffer.name}` is outside of it: dimension {axis} of size `{size}` "
                    f"is accessed at `{index}`, which goes from {low} to {high}",
                    node=node,
                    root=self.func,
                )


def OOBChecker() -> Pass:
    """Refuse accesses that leave their buffer for some values of the loops, where the bounds are known."""

    def run(mod: IRModule, context: PassContext) -> IRModule:
        for func in mod.functions.values():
            _Checker(func).visit(func.body)
        return mod

    return Pass("tir.OOBChecker", run)
