"""Fold conditionals whose condition is statically decided."""

from __future__ import annotations

from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir import Call, IfThenElse, IntImm, Mutator, PrimExpr, Select, SeqStmt, Stmt, handles
from tvmagic.ir.query import is_call


class ConditionFolder(Mutator):
    """Replace `Select`, `if_then_else` and `if` by the selected side if `analyzer` decides the condition."""

    analyzer: Analyzer

    @handles(Select)
    def select(self, node: Select) -> PrimExpr:
        condition, known = self._condition(node.condition)
        if known is not None:
            return self.visit(node.true_value if known else node.false_value)
        return node.with_(
            condition=condition, true_value=self.visit(node.true_value), false_value=self.visit(node.false_value)
        )

    @handles(Call)
    def call(self, node: Call) -> PrimExpr:
        if not is_call(node, "tir.if_then_else"):
            return self.visit_children(node)
        condition, known = self._condition(node.args[0])
        if known is not None:
            return self.visit(node.args[1] if known else node.args[2])
        return node.with_(args=(condition, self.visit(node.args[1]), self.visit(node.args[2])))

    @handles(IfThenElse)
    def branch(self, node: IfThenElse) -> Stmt:
        condition, known = self._condition(node.condition)
        if known is None:
            other = None if node.else_case is None else self.visit(node.else_case)
            return node.with_(condition=condition, then_case=self.visit(node.then_case), else_case=other)
        chosen = node.then_case if known else node.else_case
        return SeqStmt([]) if chosen is None else self.visit(chosen)

    def _condition(self, condition: PrimExpr) -> tuple[PrimExpr, bool | None]:
        """Return a condition with its conditionals folded, and its value, or None if it is not decided."""
        condition = self.visit(condition)
        known = self.analyzer.simplify(condition)
        return condition, bool(known.value) if isinstance(known, IntImm) else None
