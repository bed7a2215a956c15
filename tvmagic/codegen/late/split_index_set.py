"""Split a loop at the few constant iterations where a condition, a clamp or a quotient changes.

    for j in range(100):                       Y[0] = X[0] + X[1]
        Y[j] = X[max(j - 1, 0)] + X[j + 1]     for j in range(1, 100):
                                                   Y[j] = X[j - 1] + X[j + 1]

Within a segment, clamped and wrapped indices are affine and conditions on the loop are decided, so LLVM vectorizes the long segment. It does
not vectorize the loop as written, or does with gathers and masks.
"""

from __future__ import annotations

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.codegen.late.common import (
    MADE_BY,
    NotApplicable,
    StatementMutator,
    has_many_operations,
    is_kept_scalar,
    late_pass,
    unchecked_on_cpus,
)
from tvmagic.codegen.late.condition_folder import ConditionFolder
from tvmagic.ir.query import contains, linear_terms, nodes_of
from tvmagic.passes import note

_MOST_PLACES = 4
_LONG = 16  # iterations of a stretch that is worth the others
_LARGEST = 300  # operations in the body of a loop: each stretch has them again
# The differences of the operands at which the result of a comparison changes.
_ENDS: dict[type, tuple[int, ...]] = {
    ir.LT: (0,),
    ir.GE: (0,),
    ir.LE: (1,),
    ir.GT: (1,),
    ir.EQ: (0, 1),
    ir.NE: (0, 1),
    ir.Max: (0,),
    ir.Min: (0,),
}


@late_pass("SplitIndexSet", when=unchecked_on_cpus)
def split_index_set(func: ir.PrimFunc) -> ir.PrimFunc:
    """Split loops at the few constant iterations where a condition, a clamp or a quotient changes."""
    if has_many_operations(func.body):
        return func
    return func.with_body(_Splitter(func).visit(func.body))


class _Splitter(StatementMutator):
    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        found = [] if self.any_order else _changing(node)
        if not found:
            return self.visit_children(node)
        try:
            made = _split(node, found)
        except NotApplicable as reason:
            note("late", f"kept loop `{node.loop_var.name}` whole: {reason}", node)
            return self.visit_children(node)
        note(
            "late",
            f"split loop `{node.loop_var.name}` into {len(made.seq)} loops: its conditions change between them",
            node,
        )
        return self.visit(made)


def _changing(loop: ir.For) -> list[ir.BinaryOp]:
    """Return the conditions, clamps and quotients of an innermost serial loop of constant bounds that depend on its variable."""
    if (
        loop.kind is not ir.ForKind.SERIAL
        or not isinstance(loop.min, ir.IntImm)
        or not isinstance(loop.extent, ir.IntImm)
    ):
        return []
    if loop.extent.value < _LONG or contains(loop.body, ir.For, ir.While, ir.Allocate):
        return []
    found = [node for node in nodes_of(loop.body, *_ENDS, ir.FloorDiv, ir.FloorMod) if not node.a.dtype.is_float]
    return [node for node in found if uses_var(node, {loop.loop_var})]


def _split(loop: ir.For, found: list[ir.BinaryOp]) -> ir.SeqStmt:
    """Return the loops over the segments between which nodes of `found` change. Raises NotApplicable."""
    assert isinstance(loop.min, ir.IntImm) and isinstance(loop.extent, ir.IntImm)
    first, end, var = loop.min.value, loop.min.value + loop.extent.value, loop.loop_var
    if is_kept_scalar(loop):
        raise NotApplicable("it is kept scalar")
    if len(nodes_of(loop.body, ir.PrimExpr)) > _LARGEST:
        raise NotApplicable(f"its body has more than {_LARGEST} operations")
    if _follows_itself(loop.body):
        raise NotApplicable("an iteration may read what another one wrote")
    analyzer = Analyzer()
    places = sorted({place for node in found for place in _places(node, var, first, end, analyzer)})
    if not places:
        raise NotApplicable("its conditions do not change at constant iterations")
    if len(places) > _MOST_PLACES:
        raise NotApplicable(f"its conditions change at more than {_MOST_PLACES} iterations")
    segments = list(zip([first, *places], [*places, end]))
    longest = max(stop - start for start, stop in segments)
    if longest < _LONG or 2 * longest < end - first:
        raise NotApplicable("no segment between the changes is long")
    parts: list[ir.Stmt] = []
    for start, stop in segments:
        low, count = ir.IntImm(var.dtype, start), ir.IntImm(var.dtype, stop - start)
        each = ir.Var(var.name, var.dtype)
        parts.append(
            loop.with_(
                loop_var=each,
                min=low,
                extent=count,
                body=_Within(var, each, low, count).visit(loop.body),
                annotations={**loop.annotations, MADE_BY: ir.StringImm("SplitIndexSet")},
            )
        )
    return ir.SeqStmt(parts)


def _follows_itself(body: ir.Stmt) -> bool:
    """Return whether an iteration may read what another one wrote, which prevents vectors."""
    stores = nodes_of(body, ir.BufferStore)
    written = {store.buffer.data for store in stores}
    own = [(store.buffer.data, store.indices) for store in stores]
    return any(
        load.buffer.data in written
        and not any(data is load.buffer.data and all(map(ir.expr_deep_equal, at, load.indices)) for data, at in own)
        for load in nodes_of(body, ir.BufferLoad)
    )


def _places(node: ir.BinaryOp, var: ir.Var, first: int, end: int, analyzer: Analyzer) -> list[int]:
    """Return the iterations from which on a node selects or divides differently; more than `_MOST_PLACES` if there are too many."""
    if isinstance(node, (ir.FloorDiv, ir.FloorMod)):
        if not isinstance(node.b, ir.IntImm) or node.b.value <= 0:
            return []
        line = _line(node.a, var, analyzer)
        if line is None or line[0] != 1:
            return []
        by, offset = node.b.value, line[1]
        start = -(-(first + offset + 1) // by) * by - offset
        return list(range(start, end, by))[: _MOST_PLACES + 1]
    line = _line(node.a - node.b, var, analyzer)
    if line is None:
        return []
    factor, offset = line
    places = [least - offset if factor == 1 else offset - least + 1 for least in _ENDS[type(node)]]
    return [place for place in places if first < place < end]


def _line(expr: ir.PrimExpr, var: ir.Var, analyzer: Analyzer) -> tuple[int, int] | None:
    """Return factor (1 or -1) and offset of an expression that is affine in a variable, or None."""
    if not expr.dtype.is_int:
        return None
    terms, offset = linear_terms(analyzer.canonical_simplify(expr))
    if len(terms) != 1 or terms[0][0] is not var or abs(terms[0][1]) != 1:
        return None
    return terms[0][1], offset


class _Within(ConditionFolder):
    """Rewrites a loop's body for one segment, in which conditions are decided."""

    def __init__(self, old: ir.Var, var: ir.Var, first: ir.IntImm, count: ir.IntImm) -> None:
        self.old, self.var, self.analyzer = old, var, Analyzer()
        self.analyzer.bind(var, ir.Range.from_min_extent(first, count))

    @ir.handles(ir.Var)
    def use(self, node: ir.Var) -> ir.PrimExpr:
        return self.var if node is self.old else node

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: ir.BufferLoad | ir.BufferStore) -> ir.BufferLoad | ir.BufferStore:
        made = self.visit_children(node)
        pairs = zip(node.indices, made.indices)
        indices = [index if index is old else self.analyzer.simplify(index) for old, index in pairs]
        return made.with_(indices=tuple(indices)) if made.indices else made

    @ir.handles(ir.Max, ir.Min, ir.FloorDiv, ir.FloorMod, ir.CmpOp)
    def changing(self, node: ir.BinaryOp) -> ir.PrimExpr:
        node = self.visit_children(node)
        return self.analyzer.simplify(node) if uses_var(node, {self.var}) else node
