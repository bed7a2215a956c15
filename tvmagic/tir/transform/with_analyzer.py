"""A mutator that tells an Analyzer what holds at each place: ranges of loops, conditions of branches."""

from __future__ import annotations

from typing import Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir import (
    AssertStmt,
    AttrStmt,
    Block,
    Call,
    CallEffect,
    Evaluate,
    For,
    IfThenElse,
    IntImm,
    IterVar,
    Let,
    LetStmt,
    Mutator,
    Not,
    Op,
    PrimExpr,
    PrimFunc,
    Range,
    Select,
    Stmt,
    handles,
)
from tvmagic.tir.analysis.analyzer_visitor import strip_likely
from tvmagic.tir.analysis.effects import side_effect

THREAD_KEYS = frozenset({"thread_extent", "virtual_thread"})


def is_true(node: Any) -> bool:
    """Whether `node` is a constant other than 0."""
    return isinstance(node, IntImm) and node.value != 0


def is_false(node: Any) -> bool:
    """Whether `node` is the constant 0."""
    return isinstance(node, IntImm) and node.value == 0


class AnalyzerMutator(Mutator):
    """Binds loop variables and lets, and opens a constraint scope in each branch.

    A subclass that rewrites expressions gives `expression`, which is called on every outermost
    expression of a statement.
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer

    def mark_sizes(self, func: PrimFunc) -> None:
        """Tell the analyzer that the sizes of the parameters' buffers are not negative."""
        for buffer in func.buffer_map.values():
            for size in buffer.shape:
                self.analyzer.mark_global_non_neg_value(size)

    def bind_loop(self, node: For) -> None:
        self.analyzer.bind(node.loop_var, Range.from_min_extent(node.min, node.extent), True)

    def visit_bounded_loop(self, node: For) -> Stmt:
        """The loop rewritten where its variable is known to lie between its bounds, as conditions too."""
        self.bind_loop(node)
        analyzer, var = self.analyzer, node.loop_var
        with analyzer.constraint_scope(var >= node.min), analyzer.constraint_scope(var < node.min + node.extent):
            return self.visit_children(node)

    @handles(For)
    def for_loop(self, node: For) -> Stmt:
        self.bind_loop(node)
        return self.visit_children(node)

    @handles(Block)
    def block(self, node: Block) -> Stmt:
        for iter_var in node.iter_vars:
            self.analyzer.bind(iter_var.var, iter_var.dom, True)
        return self.visit_children(node)

    @handles(LetStmt)
    def let_stmt(self, node: LetStmt) -> Stmt:
        value = self.visit(node.value)
        self.analyzer.wraps.define(node.var, value)
        if _says_something(value):
            self.analyzer.bind(node.var, value, True)
        body = self.visit(node.body)
        return node.with_(value=value, body=body)

    @handles(Let)
    def let(self, node: Let) -> PrimExpr:
        value = self.visit(node.value)
        self.analyzer.wraps.define(node.var, value)
        if _says_something(value):
            self.analyzer.bind(node.var, value, True)
        body = self.visit(node.body)
        return node.with_(value=value, body=body)

    @handles(IfThenElse)
    def branch(self, node: IfThenElse) -> Stmt:
        condition = self.visit(node.condition)
        fact = strip_likely(condition)
        with self.analyzer.constraint_scope(fact):
            then_case = self.visit(node.then_case)
        else_case = None
        if node.else_case is not None:
            with self.analyzer.constraint_scope(self.analyzer.rewrite_simplify(Not(fact))):
                else_case = self.visit(node.else_case)
        if isinstance(fact, IntImm):
            return then_case if fact.value else else_case if else_case is not None else Evaluate(0, node.span)
        return node.with_(condition=condition, then_case=then_case, else_case=else_case)

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> Stmt:
        if node.attr_key in THREAD_KEYS and isinstance(node.node, IterVar):
            self.analyzer.bind(node.node.var, Range.from_min_extent(IntImm(node.value.dtype, 0), node.value), True)
        return self.visit_children(node)

    @handles(AssertStmt)
    def assertion(self, node: AssertStmt) -> Stmt:
        condition, message = self.visit(node.condition), self.visit(node.message)
        with self.analyzer.constraint_scope(condition):
            body = self.visit(node.body)
        return node.with_(condition=condition, message=message, body=body)

    @handles(Call)
    def call(self, node: Call) -> PrimExpr:
        if not (isinstance(node.op, Op) and node.op.name == "tir.if_then_else"):
            return self.visit_children(node)
        condition = self.visit(node.args[0])
        with self.analyzer.constraint_scope(condition):
            then = self.visit(node.args[1])
        with self.analyzer.constraint_scope(self.analyzer.rewrite_simplify(Not(condition))):
            other = self.visit(node.args[2])
        return _choice(node, node.args, (condition, then, other))

    @handles(Select)
    def select(self, node: Select) -> PrimExpr:
        condition = self.visit(node.condition)
        with self.analyzer.constraint_scope(condition):
            then = self.visit(node.true_value)
        with self.analyzer.constraint_scope(self.analyzer.rewrite_simplify(Not(condition))):
            other = self.visit(node.false_value)
        old = (node.condition, node.true_value, node.false_value)
        return _choice(node, old, (condition, then, other))


def _says_something(value: PrimExpr) -> bool:
    """Whether a let of `value` can help a proof: an integer or a condition, computed from variables alone."""
    dtype = value.dtype
    return (dtype.is_int or dtype.is_uint) and side_effect(value) <= CallEffect.PURE


def _choice(node: Call | Select, old: tuple[Any, ...], new: tuple[PrimExpr, PrimExpr, PrimExpr]) -> PrimExpr:
    """`node` with new parts, or the part that a known condition picks."""
    condition, then, other = new
    if isinstance(condition, IntImm):
        return then if condition.value else other
    if all(a is b for a, b in zip(old, new)):
        return node
    return node.replace(args=new) if isinstance(node, Call) else Select(condition, then, other, node.span)
