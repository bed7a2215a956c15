"""A mutator that tells an Analyzer what holds at each place: ranges of loops, conditions of branches."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir.query import is_call, strip_likely
from tvmagic.tir.analysis.facts import Facts


def is_true(node: Any) -> bool:
    """Whether `node` is a constant other than 0."""
    return isinstance(node, ir.IntImm) and node.value != 0


class AnalyzerMutator(Facts, ir.Mutator):
    """Binds loop variables and lets, and opens a constraint scope in each branch.

    A subclass that rewrites expressions gives `expression`, which is called on every outermost
    expression of a statement.
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer

    def mark_sizes(self, func: ir.PrimFunc) -> None:
        """Tell the analyzer that the sizes of the parameters' buffers are not negative."""
        for buffer in func.buffer_map.values():
            for size in buffer.shape:
                self.analyzer.mark_global_non_neg_value(size)

    def visit_bounded_loop(self, node: ir.For) -> ir.Stmt:
        """The loop rewritten where its variable is known to lie between its bounds, as conditions too."""
        self.known_loop(node)
        if isinstance(node.min, ir.IntImm) and isinstance(node.extent, ir.IntImm):
            return self.visit_children(node)  # the bounds are numbers, which tell all that the conditions would
        var = node.loop_var
        with self.holds(var >= node.min), self.holds(var < node.min + node.extent):
            return self.visit_children(node)

    @ir.handles(ir.For)
    def for_loop(self, node: ir.For) -> ir.Stmt:
        self.known_loop(node)
        return self.visit_children(node)

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Stmt:
        self.known_block(node)
        return self.visit_children(node)

    @ir.handles(ir.Let, ir.LetStmt)
    def let(self, node: Any) -> Any:
        value = self.visit(node.value)
        self.known_value(node.var, value)
        body = self.visit(node.body)
        return node.with_(value=value, body=body)

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> ir.Stmt:
        condition = self.visit(node.condition)
        fact = strip_likely(condition)
        with self.holds(fact):
            then_case = self.visit(node.then_case)
        else_case = None
        if node.else_case is not None:
            with self.fails(fact):
                else_case = self.visit(node.else_case)
        if isinstance(fact, ir.IntImm):
            return then_case if fact.value else else_case if else_case is not None else ir.Evaluate(0, node.span)
        return node.with_(condition=condition, then_case=then_case, else_case=else_case)

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        self.known_thread(node)
        return self.visit_children(node)

    @ir.handles(ir.AssertStmt)
    def assertion(self, node: ir.AssertStmt) -> ir.Stmt:
        condition, message = self.visit(node.condition), self.visit(node.message)
        with self.holds(condition):
            body = self.visit(node.body)
        return node.with_(condition=condition, message=message, body=body)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> ir.PrimExpr:
        if not is_call(node, "tir.if_then_else"):
            return self.visit_children(node)
        condition = self.visit(node.args[0])
        with self.holds(condition):
            then = self.visit(node.args[1])
        with self.fails(condition):
            other = self.visit(node.args[2])
        return _choice(node, node.args, (condition, then, other))

    @ir.handles(ir.Select)
    def select(self, node: ir.Select) -> ir.PrimExpr:
        condition = self.visit(node.condition)
        with self.holds(condition):
            then = self.visit(node.true_value)
        with self.fails(condition):
            other = self.visit(node.false_value)
        old = (node.condition, node.true_value, node.false_value)
        return _choice(node, old, (condition, then, other))


def _choice(
    node: ir.Call | ir.Select, old: tuple[Any, ...], new: tuple[ir.PrimExpr, ir.PrimExpr, ir.PrimExpr]
) -> ir.PrimExpr:
    """`node` with new parts, or the part that a known condition picks."""
    condition, then, other = new
    if isinstance(condition, ir.IntImm):
        return then if condition.value else other
    if all(a is b for a, b in zip(old, new)):
        return node
    return node.replace(args=new) if isinstance(node, ir.Call) else ir.Select(condition, then, other, node.span)
