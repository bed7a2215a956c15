"""A visitor that tells an Analyzer what holds at each place: ranges of loops, conditions of branches."""

from __future__ import annotations

from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir import Call, For, IfThenElse, LetStmt, Node, Not, Op, PrimExpr, Range, Visitor, handles


def strip_likely(condition: PrimExpr) -> PrimExpr:
    """The condition inside `likely(...)`."""
    if isinstance(condition, Call) and isinstance(condition.op, Op) and condition.op.name == "tir.likely":
        return condition.args[0]
    return condition


class AnalyzerVisitor(Visitor):
    """Binds loop variables and lets, and visits each branch under its condition."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()

    def under(self, condition: PrimExpr, node: Node) -> None:
        """Visit what runs only if the condition holds."""
        with self.analyzer.constraint_scope(condition):
            self.visit(node)

    def choose(self, condition: PrimExpr, then: Node, other: Node | None) -> None:
        """Visit a condition and the two sides that it chooses between."""
        self.visit(condition)
        fact = strip_likely(condition)
        self.under(fact, then)
        if other is not None:
            self.under(self.analyzer.rewrite_simplify(Not(fact)), other)

    @handles(For)
    def loop(self, node: For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        self.analyzer.bind(node.loop_var, Range.from_min_extent(node.min, node.extent), True)
        self.visit(node.body)

    @handles(LetStmt)
    def let(self, node: LetStmt) -> None:
        self.visit(node.value)
        self.analyzer.wraps.define(node.var, node.value)
        if node.value.dtype.is_index:
            self.analyzer.bind(node.var, node.value, True)
        self.visit(node.body)

    @handles(IfThenElse)
    def branch(self, node: IfThenElse) -> None:
        self.choose(node.condition, node.then_case, node.else_case)

    @handles(Call)
    def call(self, node: Call) -> None:
        if isinstance(node.op, Op) and node.op.name == "tir.if_then_else":
            self.choose(*node.args)
        else:
            self.visit_children(node)
