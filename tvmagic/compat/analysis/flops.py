"""How many arithmetic operations a program does."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.eval.tally import Tally


class Flops(Tally[Counter[Any]]):
    """The operations in what is stored, by their dtypes; indices, bounds, casts and logic cost nothing."""

    def zero(self) -> Counter[Any]:
        return Counter()

    def add(self, a: Counter[Any], b: Counter[Any]) -> Counter[Any]:
        return a + b

    def times(self, count: Counter[Any], factor: int) -> Counter[Any]:
        return Counter({dtype: factor * n for dtype, n in count.items()})

    def longer(self, a: Counter[Any], b: Counter[Any]) -> Counter[Any]:
        return a | b

    def iterations(self, loop: ir.For) -> int:
        if not isinstance(loop.extent, ir.IntImm):
            raise TVMagicError(
                f"loop `{loop.loop_var.name}` has extent `{loop.extent}`, which is not a number",
                node=loop,
                code="estimate_flops.symbolic_extent",
            )
        return loop.extent.value

    @ir.handles(ir.BinaryOp, ir.CmpOp)
    def operation(self, node: Any) -> Counter[Any]:
        return self.all_of(node.a, node.b) + Counter([node.dtype])

    @ir.handles(ir.LogicalOp)
    def logic(self, node: Any) -> Counter[Any]:
        return self.all_of(node.a, node.b)

    @ir.handles(ir.Select)
    def select(self, node: ir.Select) -> Counter[Any]:
        values = self.longer(self.visit(node.true_value), self.visit(node.false_value))
        return self.visit(node.condition) + values

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> Counter[Any]:
        return Counter()

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> Counter[Any]:
        return self.visit(node.value)

    @ir.handles(ir.While)
    def endless(self, node: ir.While) -> Counter[Any]:
        raise TVMagicError(
            "the number of iterations of a while loop is not known", node=node, code="estimate_flops.unbounded_loop"
        )

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> Counter[Any]:
        return self.visit(node.block.body)


def estimate_tir_flops(stmt_or_mod: ir.Stmt | ir.PrimFunc | ir.IRModule) -> float:
    """The arithmetic operations of a statement, a function or all functions of a module, loops counted.

    Of two branches the longer one counts, a vector's operation is one, an init is not counted. The extents of loops must
    be constant. A function of a module that has the attribute `estimated_flops` counts as that.
    """
    if not isinstance(stmt_or_mod, ir.IRModule):
        body = stmt_or_mod.body if isinstance(stmt_or_mod, ir.PrimFunc) else stmt_or_mod
        return float(Flops().visit(body).total())
    total = 0.0
    for function in stmt_or_mod.functions.values():
        known = function.attrs.get("estimated_flops")
        total += float(int(known)) if known is not None else estimate_tir_flops(function)
    return total
