"""Decide the conditions that the pipeline decides before it vectorizes loops.

A vectorized loop runs a statement lane by lane if a condition in it depends on the lane. Simplification removes a
condition that always holds, and the lanes then run the statement together.
"""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir.query import has_node, is_call, strip_likely
from tvmagic.tir.analysis.facts import Facts


class KnownConditions(Facts, ir.Mutator):
    """Vectorized loops of a function with simplified conditions.

    loops: the simplified loop by its variable. origin: the function's statement by the simplified statement.
    """

    def __init__(self, func: ir.PrimFunc) -> None:
        self.analyzer = Analyzer()
        self.loops: dict[ir.Var, ir.For] = {}
        self.origin: dict[ir.Stmt, ir.Stmt] = {}
        if has_node(func.body, lambda n: isinstance(n, ir.For) and n.kind == ir.ForKind.VECTORIZED):
            self.visit(func.body)

    def visit(self, node: Any) -> Any:
        new = super().visit(node)
        if isinstance(node, ir.Stmt) and new is not node:
            self.origin.setdefault(new, node)
        return new

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> ir.PrimExpr:
        if not is_call(node, "tir.if_then_else"):
            return self.visit_children(node)
        condition = self.analyzer.simplify(strip_likely(node.args[0]))
        with self.holds(condition):
            first = self.visit(node.args[1])
        with self.fails(condition):
            second = self.visit(node.args[2])
        if isinstance(condition, ir.IntImm):
            return first if condition.value else second
        return node.with_(args=(node.args[0], first, second))

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        self.known_loop(node)
        new: Any = self.visit_children(node)
        if node.kind == ir.ForKind.VECTORIZED:
            self.loops[node.loop_var] = new
        return new

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        self.known_thread(node)
        return self.visit_children(node)

    @ir.handles(ir.LetStmt)
    def let(self, node: ir.LetStmt) -> ir.Stmt:
        self.known_value(node.var, node.value)
        return self.visit_children(node)

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> ir.Stmt:
        condition = self.analyzer.simplify(strip_likely(node.condition))
        with self.holds(condition):
            then_case = self.visit(node.then_case)
        else_case = None
        if node.else_case is not None:
            with self.fails(condition):
                else_case = self.visit(node.else_case)
        if isinstance(condition, ir.IntImm):
            return then_case if condition.value else else_case or ir.Evaluate(0, node.span)
        return node.with_(then_case=then_case, else_case=else_case)
