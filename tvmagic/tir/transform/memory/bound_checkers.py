"""InstrumentBoundCheckers: each store happens only if it and its loads lie inside their buffers."""

from __future__ import annotations

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir.ops import cast, greater_equal, less, logical_and
from tvmagic.ir.query import is_call
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.with_analyzer import is_true

MESSAGE = "OUT OF THE BOUNDS"


class _AccessCollector(ir.Visitor):
    """The accesses of a statement that happen whenever it runs."""

    def __init__(self) -> None:
        self.found: list[ir.BufferLoad | ir.BufferStore] = []

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: ir.BufferLoad | ir.BufferStore) -> None:
        self.found.append(node)
        self.visit_children(node)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        if is_call(node, "tir.if_then_else"):
            self.visit(node.args[0])  # which value is evaluated, the condition decides
        else:
            self.visit_children(node)


class _Checker(ir.StmtMutator):
    def __init__(self) -> None:
        self.analyzer = Analyzer()

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        return self.visit(node.body) if node.attr_key == "buffer_bound" else self.visit_children(node)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        accesses = _AccessCollector()
        accesses.visit(node)
        condition: ir.PrimExpr = ir.IntImm("bool", 1)
        for access in accesses.found:
            for index, size in zip(access.indices, access.buffer.shape):
                if index.dtype.is_scalar:
                    condition = logical_and(condition, self._inside_condition(index, size))
        if is_true(condition):
            return node
        failure = ir.AssertStmt(condition, MESSAGE, ir.Evaluate(1), node.span)
        return ir.IfThenElse(condition, node, failure, node.span)

    def _inside_condition(self, index: ir.PrimExpr, size: ir.PrimExpr) -> ir.PrimExpr:
        index = cast("int64", self.analyzer.simplify(index))
        size = cast("int64", self.analyzer.simplify(size))
        return logical_and(greater_equal(index, ir.IntImm("int64", 0)), less(index, size))


@tir_pass("tir.InstrumentBoundCheckers")
def InstrumentBoundCheckers(func: ir.PrimFunc) -> ir.PrimFunc:
    """Guard every store by a check of its indices; a failed check is an assertion."""
    return func.with_body(_Checker().visit(func.body))
