"""ReduceBranchingThroughOvercompute: one branch of an `if` in place of both, if that computes too much and harms nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir import (
    Buffer,
    BufferLoad,
    BufferStore,
    Div,
    Evaluate,
    FloorDiv,
    FloorMod,
    For,
    IfThenElse,
    Mod,
    Mutator,
    PrimFunc,
    Stmt,
    Visitor,
    While,
    handles,
    structural_equal,
)
from tvmagic.ir.ops import greater_equal, less, logical_and, not_equal
from tvmagic.ir.query import strip_likely
from tvmagic.passes import note
from tvmagic.tir.analysis.analyzer_visitor import AnalyzerVisitor
from tvmagic.tir.analysis.contents.analysis import BufferContents
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.expressions.remove_no_op import NoOpRemover, is_no_op, remove_no_op
from tvmagic.tir.transform.uses import used_vars
from tvmagic.tir.transform.with_analyzer import AnalyzerMutator

OPTIONS = {"use_dataflow_analysis": False}


class _Branches(Mutator):
    """Finds the `if`s of a statement, inner ones first."""

    def __init__(self) -> None:
        self.found: list[IfThenElse] = []

    @handles(IfThenElse)
    def branch(self, node: IfThenElse) -> Stmt:
        self.visit_children(node)
        self.found.append(node)
        return node


class _Copy(Mutator):
    """The same statements as other objects: what is known of a place is kept by the identity of its statement."""

    @handles(BufferStore, Evaluate)
    def leaf(self, node: Stmt) -> Stmt:
        return node.replace()

    @handles(For, IfThenElse)
    def inner(self, node: Stmt) -> Stmt:
        return self.visit_children(node).replace()


class _MayRunAnywhere(AnalyzerVisitor):
    """Whether a statement, run when it would not have been, stays in its buffers, divides by nothing and ends."""

    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__()
        self.analyzer = analyzer
        self.safe = True

    @handles(BufferLoad, BufferStore)
    def access(self, node: Any) -> None:
        self.visit_children(node)
        for index, size in zip(node.indices, node.buffer.shape):
            inside = index.dtype.is_scalar and self.analyzer.can_prove(
                logical_and(greater_equal(index, 0), less(index, size))
            )
            self.safe = self.safe and inside

    @handles(Div, Mod, FloorDiv, FloorMod)
    def division(self, node: Any) -> None:
        self.visit_children(node)
        if not node.dtype.is_float:
            self.safe = self.safe and self.analyzer.can_prove(not_equal(node.b, 0))

    @handles(While)
    def repeated(self, node: While) -> None:
        self.safe = False


def may_run_anywhere(stmt: Stmt, analyzer: Analyzer) -> bool:
    """Whether a statement, run when it would not have been, stays in its buffers, divides by nothing and ends."""
    check = _MayRunAnywhere(analyzer)
    check.visit(stmt)
    return check.safe


class _Replaced(Mutator):
    """`old` replaced by `new`."""

    def __init__(self, old: IfThenElse, new: Stmt) -> None:
        self.old, self.new = old, new

    @handles(IfThenElse)
    def branch(self, node: IfThenElse) -> Stmt:
        return self.new if node is self.old else self.visit_children(node)


class _Buffers(Visitor):
    """The buffers of a statement in the order of their uses."""

    def __init__(self, stmt: Stmt) -> None:
        self.found: list[Buffer] = []
        self.visit(stmt)

    def visit_buffer_use(self, buffer: Buffer) -> None:
        self.found.append(buffer)


def _same(a: Stmt, b: Stmt) -> bool:
    """Whether two statements do the same to the same buffers, which structure alone does not say."""
    return structural_equal(a, b) and all(x is y for x, y in zip(_Buffers(a).found, _Buffers(b).found, strict=True))


class _Trial(AnalyzerMutator):
    """Looks at the branch `copy` of the `if` `asked`: whether what is left of it without no-ops is `special`."""

    def __init__(
        self, asked: IfThenElse, copy: Stmt, special: Stmt, remover: Callable[[Analyzer], NoOpRemover]
    ) -> None:
        super().__init__(Analyzer())
        self.asked, self.copy, self.special, self.remover = asked, copy, special, remover
        self.agrees = False

    @handles(IfThenElse)
    def branch(self, node: IfThenElse) -> Stmt:
        if node is not self.asked:
            return super().branch(node)
        fact = strip_likely(node.condition)
        with self.holds(fact) if self.copy is node.then_case else self.fails(fact):
            if may_run_anywhere(self.copy, self.analyzer):
                left = self.remover(self.analyzer).visit(self.copy)
                self.agrees = is_no_op(left) and is_no_op(self.special) or _same(left, self.special)
        return node


def _agree(body: Stmt, target: IfThenElse, general: Stmt, dataflow: bool) -> bool:
    """Whether `general`, one of the branches of `target`, does what the other one does when that would run.

    The program in question runs it in both: what its copy leaves behind, once all that has no effect is gone, must be
    the other branch.
    """
    copy = _Copy().visit(general)
    if general is target.then_case:
        special, asked = target.else_case or Evaluate(0), target.replace(else_case=copy)
    else:
        special, asked = target.then_case, target.replace(then_case=copy)
    candidate = _Replaced(target, asked).visit(body)
    contents = BufferContents(candidate) if dataflow else None
    used = used_vars(candidate)
    plain = remove_no_op(special) if not is_no_op(special) else special
    trial = _Trial(asked, copy, plain, lambda analyzer: NoOpRemover(analyzer, used, contents))
    trial.visit(candidate)
    return trial.agrees


def _reduced(body: Stmt, dataflow: bool) -> Stmt | None:
    """`body` with one branch less; None if all that are left differ."""
    branches = _Branches()
    branches.visit(body)
    for target in branches.found:
        for general in (target.else_case, target.then_case):
            if general is not None and not is_no_op(general) and _agree(body, target, general, dataflow):
                note(
                    "branch",
                    f"`if {target.condition}` is gone: it harms nothing to compute one branch always",
                    node=target,
                )
                return _Replaced(target, general).visit(body)
    return None


@tir_pass("tir.ReduceBranchingThroughOvercompute", OPTIONS)
def ReduceBranchingThroughOvercompute(func: PrimFunc, *, options: dict[str, Any]) -> PrimFunc:
    """Run one branch of an `if` always, if it does nothing in place of the other one, or does the same.

    With the option `use_dataflow_analysis`, under `tir.ReduceBranchingThroughOvercompute`, what buffers are known to
    hold counts, and whether stored elements are overwritten before they are read. A branch stays where it is if it
    might leave a buffer or divide by zero.
    """
    body = func.body
    while (new := _reduced(body, options["use_dataflow_analysis"])) is not None:
        body = new
    return func.with_body(body)
