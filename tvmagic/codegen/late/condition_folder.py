"""Fold conditionals whose condition is statically decided."""

from __future__ import annotations

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir.query import is_call


class ConditionFolder(ir.Mutator):
    """Replace `Select`, `if_then_else` and `if` by the selected side if `analyzer` decides the condition."""

    analyzer: Analyzer

    @ir.handles(ir.Select)
    def select(self, node: ir.Select) -> ir.PrimExpr:
        condition, known = self._condition(node.condition)
        if known is not None:
            return self.visit(node.true_value if known else node.false_value)
        return node.with_(
            condition=condition, true_value=self.visit(node.true_value), false_value=self.visit(node.false_value)
        )

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> ir.PrimExpr:
        if not is_call(node, "tir.if_then_else"):
            return self.visit_children(node)
        condition, known = self._condition(node.args[0])
        if known is not None:
            return self.visit(node.args[1] if known else node.args[2])
        return node.with_(args=(condition, self.visit(node.args[1]), self.visit(node.args[2])))

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> ir.Stmt:
        condition, known = self._condition(node.condition)
        if known is None:
            other = None if node.else_case is None else self.visit(node.else_case)
            return node.with_(condition=condition, then_case=self.visit(node.then_case), else_case=other)
        chosen = node.then_case if known else node.else_case
        return ir.SeqStmt([]) if chosen is None else self.visit(chosen)

    def _condition(self, condition: ir.PrimExpr) -> tuple[ir.PrimExpr, bool | None]:
        """Return a condition with its conditionals folded, and its value, or None if it is not decided."""
        condition = self.visit(condition)
        known = self.analyzer.simplify(condition)
        return condition, bool(known.value) if isinstance(known, ir.IntImm) else None
