"""A visitor that tells an Analyzer what holds at each place: ranges of loops, conditions of branches."""

from __future__ import annotations

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir.query import is_call, strip_likely
from tvmagic.tir.analysis.facts import Facts


class AnalyzerVisitor(Facts, ir.Visitor):
    """Binds loop variables and lets, and visits each branch under its condition."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()

    def choose(self, condition: ir.PrimExpr, then: ir.Node, other: ir.Node | None) -> None:
        """Visit a condition and the two sides that it chooses between."""
        self.visit(condition)
        fact = strip_likely(condition)
        with self.holds(fact):
            self.visit(then)
        if other is not None:
            with self.fails(fact):
                self.visit(other)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        self.known_loop(node)
        self.visit(node.body)

    @ir.handles(ir.LetStmt)
    def let(self, node: ir.LetStmt) -> None:
        self.visit(node.value)
        self.known_value(node.var, node.value)
        self.visit(node.body)

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> None:
        self.choose(node.condition, node.then_case, node.else_case)

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        self.known_thread(node)
        self.visit_children(node)

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> None:
        self.known_block(node)
        self.visit_children(node)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        if is_call(node, "tir.if_then_else"):
            self.choose(*node.args)
        else:
            self.visit_children(node)
