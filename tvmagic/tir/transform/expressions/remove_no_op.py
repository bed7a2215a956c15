"""RemoveNoOp: statements without any effect left out."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir.effects import side_effect
from tvmagic.ir.ops import equal, less_equal
from tvmagic.ir.query import nodes_of
from tvmagic.passes import note
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.expressions.known_contents import BufferContents, buffer_contents
from tvmagic.tir.transform.use_def import mentions, used_vars
from tvmagic.tir.transform.with_analyzer import AnalyzerMutator


def is_no_op(stmt: ir.Stmt | None) -> bool:
    """Whether `stmt` does nothing: a constant evaluated, or a sequence of such."""
    if stmt is None:
        return True
    if isinstance(stmt, ir.Evaluate):
        return isinstance(stmt.value, ir.IntImm)
    return isinstance(stmt, ir.SeqStmt) and all(is_no_op(s) for s in stmt.seq)


def _has_effect(value: ir.PrimExpr) -> bool:
    return side_effect(value) > ir.CallEffect.READ_STATE


def evaluate_all(*values: ir.PrimExpr) -> ir.Stmt:
    """A statement with only the effects of `values`."""
    return ir.SeqStmt.flatten(*[ir.Evaluate(v) for v in values if _has_effect(v)])


class NoOpRemover(AnalyzerMutator):
    """Leaves out what has no effect. `used`: the variables that the whole function uses; `contents`: what its buffers
    are known to hold, if stores are to be judged by that."""

    def __init__(self, analyzer: Analyzer, used: Collection[ir.Var], contents: BufferContents | None = None) -> None:
        super().__init__(analyzer)
        self.used, self.contents = used, contents

    @ir.handles(ir.PrimExpr)
    def expression(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return node

    @ir.handles(ir.LetStmt)
    def let_stmt(self, node: ir.LetStmt) -> ir.Stmt:
        new = super().let(node)
        assert isinstance(new, ir.LetStmt)
        if is_no_op(new.body):
            return evaluate_all(new.value)
        # where nothing went, what was used is used still
        used = node.var in self.used and new.body is node.body
        if used or mentions(new.body, (new.var,)):
            return new
        return ir.SeqStmt.flatten(evaluate_all(new.value), new.body) if _has_effect(new.value) else new.body

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        if node.attr_key == "pragma_debug_skip_region":
            return ir.Evaluate(0, node.span)
        new = super().attribute(node)
        assert isinstance(new, ir.AttrStmt)
        return evaluate_all(new.value) if is_no_op(new.body) else new

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> ir.Stmt:
        new = super().branch(node)
        if not isinstance(new, ir.IfThenElse):
            return new
        if is_no_op(new.then_case) and is_no_op(new.else_case):
            return evaluate_all(new.condition)
        if new.else_case is not None and is_no_op(new.else_case):
            return new.replace(else_case=None)
        return new

    @ir.handles(ir.For)
    def for_loop(self, node: ir.For) -> ir.Stmt:
        if not isinstance(node.extent, ir.IntImm) and self.analyzer.can_prove(less_equal(node.extent, 0)):
            return ir.Evaluate(0, node.span)
        new = super().for_loop(node)
        assert isinstance(new, ir.For)
        if isinstance(new.extent, ir.IntImm) and new.extent.value <= 0:
            return ir.Evaluate(0, node.span)
        return evaluate_all(new.min, new.extent) if is_no_op(new.body) else new

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> ir.Stmt:
        new = self.visit_children(node)
        return evaluate_all(*new.extents) if is_no_op(new.body) else new

    @ir.handles(ir.BufferRealize, ir.ProducerRealize, ir.DeclBuffer)
    def realize(self, node: ir.BufferRealize) -> ir.Stmt:
        new = self.visit_children(node)
        return new.body if is_no_op(new.body) else new

    @ir.handles(ir.Evaluate)
    def evaluate(self, node: ir.Evaluate) -> ir.Stmt:
        return node if _has_effect(node.value) or isinstance(node.value, ir.IntImm) else ir.Evaluate(0, node.span)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        contents = self.contents
        if contents is not None and contents.is_overwritten(node):
            note("remove_no_op.overwritten", "what it stores is overwritten before it is read", node=node)
            contents.remove_store(node)
            return evaluate_all(node.value, *node.indices)
        if node.predicate is None and self._stores_what_is_there(node):
            return evaluate_all(node.value, *node.indices)
        if contents is not None and contents.holds_already(node, self.analyzer):
            note("remove_no_op.known", "the elements are known to hold what it stores", node=node)
            return evaluate_all(node.value, *node.indices)
        return node

    def _stores_what_is_there(self, node: ir.BufferStore) -> bool:
        # nothing but a load of the same buffer can be proved equal to what is there
        if not any(load.buffer.data is node.buffer.data for load in nodes_of(node.value, ir.BufferLoad)):
            return False
        if not self.analyzer.has_constraints and _adds_other_loads(node):
            return False
        there = ir.BufferLoad(node.buffer, node.indices)
        return there.dtype is node.value.dtype and self.analyzer.can_prove(equal(node.value, there))

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> ir.Stmt:
        new = self.visit_children(node)
        if not isinstance(new, ir.SeqStmt):  # one part alone was left
            return new
        if any(is_no_op(s) or isinstance(s, ir.SeqStmt) for s in new.seq):
            return ir.SeqStmt.flatten(*[s for s in new.seq if not is_no_op(s)])
        return new


def _adds_other_loads(store: ir.BufferStore) -> bool:
    """Whether a store adds a product of what is in other buffers, of which nothing is known: that is never proved to be 0."""

    def from_others(value: ir.PrimExpr) -> bool:
        match value:
            case ir.Mul(a=a, b=b):
                return from_others(a) and from_others(b)
            case ir.Broadcast(value=inner) | ir.Cast(value=inner):
                return from_others(inner)
            case ir.BufferLoad(buffer=buffer):
                return buffer.data is not store.buffer.data
            case _:
                return False

    return isinstance(store.value, ir.Add) and (from_others(store.value.a) or from_others(store.value.b))


def remove_no_op(stmt: ir.Stmt) -> ir.Stmt:
    """`stmt` without the parts that do nothing."""
    return NoOpRemover(Analyzer(), used_vars(stmt)).visit(stmt)


OPTIONS = {"use_dataflow_analysis": False, "max_simplification_steps": 0}


@tir_pass("tir.RemoveNoOp", OPTIONS)
def RemoveNoOp(func: ir.PrimFunc, *, options: dict[str, Any]) -> ir.PrimFunc:
    """Leave out what has no effect: empty loops and branches, unused lets, stores of what is there.

    Options under `tir.RemoveNoOp`: with `use_dataflow_analysis` stores go, too, whose elements are overwritten before
    they are read, or known to hold the value already; `max_simplification_steps` limits how much that may try (0: no
    limit), a TVMagicError says when it was too little.
    """
    contents = None
    if options["use_dataflow_analysis"]:
        steps = int(options["max_simplification_steps"])
        contents = buffer_contents(func.body, "tir.RemoveNoOp.use_dataflow_analysis", steps)
    return func.with_body(NoOpRemover(Analyzer(), used_vars(func.body), contents).visit(func.body))
