"""UseAssumeToReduceBranches: what padding holds is computed like the rest, if assumptions about the inputs give the same.

A layout with padding makes an operator write `T.if_then_else(inside, f(A[i]), 0)`. If the padding of `A` is assumed to be
0 too and `f(0)` is 0, `f(A[i])` is right everywhere, and a loop without a branch can be vectorized.
"""

from __future__ import annotations

from typing import Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir import BufferStore, Call, Evaluate, IfThenElse, Not, PrimExpr, PrimFunc, Select, Stmt, handles
from tvmagic.ir.deep_equal import expr_deep_equal
from tvmagic.ir.query import has_node, is_call, strip_likely
from tvmagic.passes import note
from tvmagic.tir.analysis.contents.analysis import BufferContents
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.expressions.reduce_branching import may_run_anywhere
from tvmagic.tir.transform.expressions.simplify import same_place
from tvmagic.tir.transform.with_analyzer import AnalyzerMutator

__all__ = ["UseAssumeToReduceBranches"]

# The patterns of operators (the attribute `op_pattern`) that compute each element from one of each input.
_ELEMENTWISE = (0, 1)


class _Chooser(AnalyzerMutator):
    """Takes one of two values, or statements, that assumptions make equal when the other one is wanted."""

    def __init__(self, contents: BufferContents) -> None:
        super().__init__(Analyzer())
        self.contents = contents
        self.place: Stmt | None = None  # the statement whose expressions are visited

    def visit(self, node: Any) -> Any:
        if not isinstance(node, Stmt):
            return super().visit(node)
        outer, self.place = self.place, node
        try:
            return super().visit(node)
        finally:
            self.place = outer

    @handles(Call, Select)
    def choice(self, node: Any) -> PrimExpr:
        if isinstance(node, Select):
            condition, *sides = node.condition, node.true_value, node.false_value
        elif is_call(node, "tir.if_then_else"):
            condition, *sides = node.args
        else:
            return self.visit_children(node)
        chosen = self._chosen(strip_likely(condition), sides[0], sides[1])
        return self.visit_children(node) if chosen is None else self.visit(chosen)

    def _chosen(self, condition: PrimExpr, then: PrimExpr, other: PrimExpr) -> PrimExpr | None:
        """The one of two values that is right whether the condition holds or not; None if neither is known to be."""
        for general, wanted, case in ((other, then, condition), (then, other, Not(condition))):
            asked = Select(case, general, wanted)
            with self.holds(case):
                safe = may_run_anywhere(Evaluate(general), self.analyzer)
            if safe and expr_deep_equal(self._known(asked), self._known(wanted)):
                note("branch", f"`{general}` is right whether `{condition}` holds or not", node=general)
                return general
        return None

    def _known(self, e: PrimExpr) -> PrimExpr:
        """An expression simplified with what buffers hold here."""
        assert self.place is not None
        return self.contents.simplified(e, self.place, self.analyzer)

    @handles(IfThenElse)
    def branch(self, node: IfThenElse) -> Stmt:
        then, other = node.then_case, node.else_case
        if not isinstance(then, BufferStore) or not isinstance(other, BufferStore) or not same_place(then, other):
            return super().branch(node)
        chosen = self._chosen(strip_likely(node.condition), then.value, other.value)
        return super().branch(node) if chosen is None else self.visit(then.with_(value=chosen))


def _assumes(func: PrimFunc) -> bool:
    return has_node(func.body, lambda node: is_call(node, "tir.assume"))


@tir_pass("tir.UseAssumeToReduceBranches")
def UseAssumeToReduceBranches(func: PrimFunc) -> PrimFunc:
    """Compute one value always if assumptions about buffers make it the value of the other branch too.

    As in TVM, only functions whose attribute `op_pattern` is 0 (elementwise) or 1 (broadcast), and that hold a
    `T.assume`, are changed. A value stays guarded if it may read outside a buffer or divide by zero.
    """
    pattern = func.attrs.get("op_pattern")
    if pattern is None or int(getattr(pattern, "value", pattern)) not in _ELEMENTWISE or not _assumes(func):
        return func
    return func.with_body(_Chooser(BufferContents(func.body)).visit(func.body))
