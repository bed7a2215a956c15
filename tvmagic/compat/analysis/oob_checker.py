"""OOBChecker: accesses that are outside their buffer for some values of the loops around them."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.errors import ScheduleError
from tvmagic.passes import Pass, PassContext
from tvmagic.tir.analysis.analyzer_visitor import AnalyzerVisitor


class _Checker(AnalyzerVisitor):
    def __init__(self, func: ir.PrimFunc) -> None:
        super().__init__()
        self.func = func

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> None:
        self.known_block(node)
        if node.init is not None:
            self.visit(node.init)
        self.visit(node.body)

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: Any) -> None:
        self.visit_children(node)
        for axis, (index, size) in enumerate(zip(node.indices, node.buffer.shape)):
            if index.dtype.is_vector:
                continue
            low = int(self.analyzer.const_int_bound(index).min_value)
            high = int(self.analyzer.const_int_bound(index).max_value)
            limit = int(self.analyzer.const_int_bound(size).max_value)
            known = high - low < 1 << (index.dtype.bits - 1)  # else nothing is known but the type
            if known and (low < 0 or high >= limit):
                raise ScheduleError(
                    f"an index of buffer {node.buffer.name} is outside it: dimension {axis} of size `{size}` "
                    f"is accessed at `{index}`, which goes from {low} to {high}",
                    node=node,
                    root=self.func,
                    code="oob_checker.index_out_of_range",
                )


def OOBChecker() -> Pass:
    """Refuse accesses that leave their buffer for some values of the loops, if the bounds are known."""

    def run(mod: ir.IRModule, context: PassContext) -> ir.IRModule:
        for func in mod.functions.values():
            _Checker(func).visit(func.body)
        return mod

    return Pass("tir.OOBChecker", run)
