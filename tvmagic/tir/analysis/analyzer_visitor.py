"""A visitor that tells an Analyzer what holds at each place: ranges of loops, conditions of branches."""

from __future__ import annotations

from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir import AttrStmt, Block, Call, For, IfThenElse, LetStmt, Node, PrimExpr, Visitor, handles
from tvmagic.ir.query import is_call, strip_likely
from tvmagic.tir.analysis.facts import Facts


class AnalyzerVisitor(Facts, Visitor):
    """Binds loop variables and lets, and visits each branch under its condition."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()

    def choose(self, condition: PrimExpr, then: Node, other: Node | None) -> None:
        """Visit a condition and the two sides that it chooses between."""
        self.visit(condition)
        fact = strip_likely(condition)
        with self.holds(fact):
            self.visit(then)
        if other is not None:
            with self.fails(fact):
                self.visit(other)

    @handles(For)
    def loop(self, node: For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        self.known_loop(node)
        self.visit(node.body)

    @handles(LetStmt)
    def let(self, node: LetStmt) -> None:
        self.visit(node.value)
        self.known_value(node.var, node.value)
        self.visit(node.body)

    @handles(IfThenElse)
    def branch(self, node: IfThenElse) -> None:
        self.choose(node.condition, node.then_case, node.else_case)

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> None:
        self.known_thread(node)
        self.visit_children(node)

    @handles(Block)
    def block(self, node: Block) -> None:
        self.known_block(node)
        self.visit_children(node)

    @handles(Call)
    def call(self, node: Call) -> None:
        if is_call(node, "tir.if_then_else"):
            self.choose(*node.args)
        else:
            self.visit_children(node)
