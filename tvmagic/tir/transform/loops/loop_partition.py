"""LoopPartition: loops whose conditions are rarely false are split where the conditions change.

For each loop whose body has a condition `likely(...)` on the loop variable:

1. `_Candidates` selects it;
2. `_Partitions` finds, for each condition, the values of the variable for which it holds, and those for which it does not;
3. `_middle` intersects them to the part of the loop in which the conditions are known;
4. `_begin` and `_end` are its ends, within the loop whatever the sizes are;
5. the middle becomes a loop without the conditions; the values before and after it get loops of their own;
6. these loops are partitioned in turn, as they may have other conditions, and loops inside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set import IntervalSet
from tvmagic.ir.ops import equal, greater_equal, less, less_equal, logical_and, maximum, minimum
from tvmagic.ir.query import callee, is_call, launches_thread, variables_in
from tvmagic.passes import PassContext, is_recording, note
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.expressions.convert_ssa import convert_ssa
from tvmagic.tir.transform.threads.lift_thread_binding import thread_rank
from tvmagic.tir.transform.use_def import mentions

HINT = "pragma_loop_partition_hint"
OPTIONS = {
    "partition_const_loop": False,
    "no_unroll_loop_with_extent_one": False,
    "unroll_loop_with_partition_hint_no_interval": False,
}
# Loops that need a constant extent: splitting one at a variable place would make it useless.
_CONSTANT_KINDS = (ir.ForKind.VECTORIZED, ir.ForKind.UNROLLED)
_INVERSE: dict[type, type] = {ir.LT: ir.GE, ir.GE: ir.LT, ir.GT: ir.LE, ir.LE: ir.GT, ir.EQ: ir.NE, ir.NE: ir.EQ}


def is_hint(value: Any) -> bool:
    """Whether the value of the annotation asks for a partition."""
    return bool(getattr(value, "value", value))


class _Candidates(ir.Visitor):
    """The loops to look at: not of constant range (unless asked for), with a likely condition on the variable."""

    def __init__(self, constant: bool) -> None:
        self.constant = constant
        self.found: set[ir.Stmt] = set()
        self.hinted: set[ir.Var] = set()
        self.likely_used: dict[ir.Var, bool] = {}
        self.in_likely = self.no_split = False

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        if is_hint(node.annotations.get(HINT)):
            self.hinted.add(node.loop_var)
        constant = isinstance(node.min, ir.IntImm) and isinstance(node.extent, ir.IntImm)
        if constant and not self.constant and node.loop_var not in self.hinted:
            self.visit_children(node)
        else:
            self._consider(node, node.loop_var)

    def _consider(self, node: ir.Stmt, var: ir.Var) -> None:
        if var in self.hinted:
            self.found.add(node)
            self.visit_children(node)
            return
        self.likely_used[var] = False
        self.visit_children(node)
        if self.likely_used.pop(var) and not self.no_split:
            self.found.add(node)

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        if node.attr_key == HINT:
            self.hinted.add(node.node.var if isinstance(node.node, ir.IterVar) else node.node)
        elif node.attr_key == "thread_extent" and isinstance(node.node, ir.IterVar):
            blocks = thread_rank(node.node.thread_tag)[0] == 0
            if blocks and (not isinstance(node.value, ir.IntImm) or self.constant):
                self._consider(node, node.node.var)
                return
        self.visit_children(node)

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> None:
        before = after = self.no_split
        for part in node.seq:
            self.no_split = before
            self.visit(part)
            after = after or self.no_split
        self.no_split = after

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        name = callee(node)
        if name == "tir.likely":
            self.in_likely = True
            self.visit_children(node)
            self.in_likely = False
        elif name == "tir.tvm_thread_allreduce":
            self.no_split = True
        else:
            self.visit_children(node)

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> None:
        if self.in_likely and var in self.likely_used:
            self.likely_used[var] = True


class _Partitions(ir.Visitor):
    """For each condition on one variable the values for which it surely holds, or surely does not."""

    def __init__(self, var: ir.Var, hints: dict[ir.Var, Any], relax: dict[ir.Var, Any], hinted: bool) -> None:
        self.current, self.hinted = var, hinted
        self.hints, self.relax = dict(hints), dict(relax)
        self.outer = (*hints, *relax)
        self.found: list[tuple[ir.PrimExpr, bool, Any]] = []
        self.body: ir.Stmt | None = None
        self._computed: set[ir.Var] | None = None

    def find(self, body: ir.Stmt) -> None:
        """Look for conditions in the body of the loop over the variable."""
        self.body = body
        self.visit(body)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        if mentions(node.min, self.outer) or mentions(node.extent, self.outer):
            return
        self._visit_inside(node, node.loop_var, IntervalSet(node.min, node.min + node.extent - 1))

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        if launches_thread(node):
            self._visit_inside(node, node.node.var, IntervalSet(ir.IntImm(node.value.dtype, 0), node.value - 1))
        else:
            self.visit_children(node)

    def _visit_inside(self, node: ir.Stmt, var: ir.Var, domain: Any) -> None:
        self.hints[var] = self.relax[var] = domain
        self.visit_children(node)
        del self.hints[var], self.relax[var]

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        if is_call(node, "tir.likely"):
            self._deduce(node.args[0])
        else:
            self.visit_children(node)

    @ir.handles(ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE)
    def comparison(self, node: Any) -> None:
        if self.hinted:
            self._deduce(node)
        else:
            self.visit_children(node)

    def _deduce(self, condition: ir.PrimExpr) -> None:
        from tvmagic.arith.bound import deduce_bound

        if not mentions(condition, (self.current,)) or self._changes(condition):
            return
        inverse = _INVERSE.get(type(condition))
        forms = [(True, condition)]
        if inverse is not None:
            forms.append((False, inverse(condition.a, condition.b)))  # type: ignore[attr-defined]
        for holds, form in forms:
            interval = deduce_bound(self.current, form, self.hints, self.relax)
            if not interval.is_nothing():
                self.found.append((condition, holds, interval))

    def _changes(self, condition: ir.PrimExpr) -> bool:
        """Whether a condition asks for what an iteration computes, in memory or in a variable of its own."""
        if self._computed is None:
            self._computed = computed = set[ir.Var]()

            def look(node: Any) -> None:
                if isinstance(node, (ir.Let, ir.LetStmt)):
                    computed.add(node.var)
                elif isinstance(node, ir.BufferStore):
                    computed.add(node.buffer.data)

            ir.post_order_visit(self.body, look)
        return mentions(condition, self._computed)


def constant_runs(
    var: ir.Var, found: Sequence[tuple[ir.PrimExpr, bool, Any]], low: int, high: int, analyzer: Analyzer
) -> list[tuple[int, int, dict[ir.PrimExpr, bool]]]:
    """The values from `low` to `high` as runs, each with its first and last value and the conditions known in it.

    found: conditions, each with an interval of values for which it has a known truth.
    analyzer: knows the loops around, of which those of one iteration count as their value.
    """
    known: list[tuple[ir.PrimExpr, bool, int, int]] = []
    for condition, holds, interval in found:
        ends = _constant_ends(interval, low, high, analyzer)
        if ends is None:
            continue
        known.append((condition, holds, *ends))
        if isinstance(condition, (ir.EQ, ir.NE)) and holds is isinstance(condition, ir.EQ):  # elsewhere it is otherwise
            point = ends[0] == ends[1]
            if point and not mentions_others(condition, var):
                known += [(condition, not holds, low, ends[0] - 1), (condition, not holds, ends[0] + 1, high)]
    known = [k for k in known if k[2] <= k[3]]
    starts = sorted({low, *[k[2] for k in known], *[k[3] + 1 for k in known]} - {high + 1})
    runs: list[tuple[int, int, dict[ir.PrimExpr, bool]]] = []
    for first, behind in zip(starts, [*starts[1:], high + 1]):
        truths = {c: holds for c, holds, a, b in known if a <= first and behind - 1 <= b}
        if runs and runs[-1][2] == truths:
            runs[-1] = (runs[-1][0], behind - 1, truths)
        else:
            runs.append((first, behind - 1, truths))
    return runs


def mentions_others(condition: ir.PrimExpr, var: ir.Var) -> bool:
    """Whether a condition uses variables besides `var`."""
    return any(v is not var for v in variables_in(condition))


def _constant_ends(interval: Any, low: int, high: int, analyzer: Analyzer) -> tuple[int, int] | None:
    """The ends of an interval within `low` and `high`; None if one is not a constant."""
    ends: list[int] = []
    for bounded, value, limit in (
        (interval.has_lower_bound(), interval.min_value, low),
        (interval.has_upper_bound(), interval.max_value, high),
    ):
        end = analyzer.simplify(value) if bounded else ir.IntImm("int32", limit)
        if not isinstance(end, ir.IntImm):
            return None
        ends.append(end.value)
    return max(ends[0], low), min(ends[1], high)


class _KnownConditions(ir.Mutator):
    """Puts truth values in the place of conditions."""

    def __init__(self, known: dict[ir.PrimExpr, bool]) -> None:
        self.known = known

    @ir.handles(ir.PrimExpr)
    def expression(self, node: ir.PrimExpr) -> ir.PrimExpr:
        value = self.known.get(node)
        return self.visit_children(node) if value is None else ir.IntImm("bool", value)


class _ConditionEliminator(ir.Mutator):
    def __init__(self, conditions: set[ir.PrimExpr], value: bool) -> None:
        self.conditions, self.value = conditions, ir.IntImm("bool", value)

    @ir.handles(ir.PrimExpr)
    def expression(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return self.value if node in self.conditions else self.visit_children(node)


class _ThreadBranch(ir.StmtMutator):
    """Asks `condition` once inside the innermost thread axis; if it holds, all of `conditions` have the value `known`.

    TVM takes them to be true there, even if the part is that in which they are false.
    """

    innermost: bool  # whether there was none inside the last one

    def __init__(self, conditions: set[ir.PrimExpr], known: bool, condition: ir.PrimExpr) -> None:
        self.eliminator, self.condition = _ConditionEliminator(conditions, known), condition

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        if node.attr_key != "thread_extent":
            return self.visit_children(node)
        self.innermost = True
        new = self.visit_children(node)
        if self.innermost:
            sure = self.eliminator.visit(node.body)
            new = node.replace(body=ir.IfThenElse(self.condition, sure, node.body, node.span))
        self.innermost = False
        return new


class _Partitioner(ir.StmtMutator):
    """Splits loops. `analyzer` knows what TVM's pass knows; `facts` also the sizes of the arguments."""

    def __init__(self, options: dict[str, Any], facts: Analyzer) -> None:
        self.keep_single = bool(options["no_unroll_loop_with_extent_one"])
        self.unroll_unknown = bool(options["unroll_loop_with_partition_hint_no_interval"])
        self.selector = _Candidates(bool(options["partition_const_loop"]))
        self.hints: dict[ir.Var, Any] = {}
        self.relax: dict[ir.Var, Any] = {}
        self.analyzer = Analyzer()
        self.facts = facts

    def start(self, stmt: ir.Stmt) -> ir.Stmt:
        self.selector.visit(stmt)
        return self.visit(stmt)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        for analyzer in (self.analyzer, self.facts):
            analyzer.bind(node.loop_var, ir.Range.from_min_extent(node.min, node.extent), True)
        last = node.min + node.extent - 1
        if node in self.selector.found:
            done = self.partition(node, node.loop_var, node.min, last, node.body, False)
            if done is not None:
                return done
        return self._visit_inside(self.hints, node, node.loop_var, IntervalSet(node.min, last))

    def _visit_inside(self, domains: dict[ir.Var, Any], node: ir.Stmt, var: ir.Var, domain: Any) -> ir.Stmt:
        domains[var] = domain
        new = self.visit_children(node)
        del domains[var]
        return new

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        if node.attr_key != "thread_extent" or not isinstance(node.node, ir.IterVar):
            return self.visit_children(node)
        var, zero = node.node.var, ir.IntImm(node.value.dtype, 0)
        if node in self.selector.found:
            done = self.partition(node, var, zero, node.value - 1, node.body, True)
            if done is not None:
                return done
        # the threads of a block must not part at a condition
        domains = self.relax if thread_rank(node.node.thread_tag)[0] == 1 else self.hints
        return self._visit_inside(domains, node, var, IntervalSet(zero, node.value - 1))

    # ------------------------------------------------------------------ one loop

    def partition(
        self, node: Any, var: ir.Var, low: ir.PrimExpr, high: ir.PrimExpr, body: ir.Stmt, thread: bool
    ) -> ir.Stmt | None:
        """The loop as up to three; None if nothing is known of its conditions."""
        # 2. the conditions, each with the values for which it is known
        hinted = var in self.selector.hinted
        finder = _Partitions(var, {**self.hints, var: IntervalSet(low, high)}, self.relax, hinted)
        finder.find(body)
        if not finder.found:
            return None
        if hinted and not thread and isinstance(low, ir.IntImm) and isinstance(high, ir.IntImm):
            runs = constant_runs(var, finder.found, low.value, high.value, self.analyzer)
            if len(runs) > 1:
                return self._in_runs(node, runs, body)
        # 3. the part in which they are known
        middle, conditions, holds = self._middle(finder.found, low, high)
        if middle is None:
            unrolls = hinted and self.unroll_unknown and not thread and self.analyzer.can_prove(high - low > 0)
            return self._unrolled(node, var, low, high, body) if unrolls else None
        # 4. its ends
        begin, before_sure = self._begin(middle, low, high)
        end, rest, after_sure = self._end(middle, high, begin)
        if is_recording():
            note("partition", f"loop `{var.name}` is split", node=node, loop=var.name, begin=begin, end=end)
        if thread:
            condition = self._between(var, begin, end, low, high)
            return convert_ssa(_ThreadBranch(conditions, holds, condition).visit(node))
        if node.kind in _CONSTANT_KINDS and not all(isinstance(e, ir.IntImm) for e in (begin - low, end - begin, rest)):
            return None
        # 5. three loops, of which some may be left out
        before = self._subloop(node, var, low, begin - low, body, before_sure)
        after = self._subloop(node, var, end, rest, body, after_sure)
        if self.analyzer.can_prove(greater_equal(begin, end)):
            return convert_ssa(ir.SeqStmt.flatten(before, after))
        inner = _ConditionEliminator(conditions, holds).visit(body)
        inner = self.loop_over(node, end - begin, ir.substitute(inner, {var: var + begin}))
        # 6. the loops in turn
        if before is not None or after is not None:
            inner = self.start(inner)
        before = self.start(before) if before is not None and before_sure else before
        after = self.start(after) if after is not None and after_sure else after
        return convert_ssa(ir.SeqStmt.flatten(before, inner, after))

    def _unrolled(self, node: Any, var: ir.Var, low: ir.PrimExpr, high: ir.PrimExpr, body: ir.Stmt) -> ir.Stmt:
        return ir.For(var, low, high - low + 1, ir.ForKind.UNROLLED, self.start(body), span=node.span)

    def _subloop(
        self, node: Any, var: ir.Var, first: ir.PrimExpr, extent: ir.PrimExpr, body: ir.Stmt, sure: bool | None
    ) -> Any:
        """The loop over some values from `first` on; None if there is none of them."""
        return None if sure is None else self.loop_over(node, extent, ir.substitute(body, {var: var + first}))

    def _between(
        self, var: ir.Var, begin: ir.PrimExpr, end: ir.PrimExpr, low: ir.PrimExpr, high: ir.PrimExpr
    ) -> ir.PrimExpr:
        """That `var`, which runs from `low` to `high`, is in the part from `begin` to before `end`."""
        condition: ir.PrimExpr = ir.IntImm("bool", 1)
        if not self._is_equal(begin, low):
            condition = logical_and(condition, greater_equal(var, begin))
        if not self._is_equal(end, high + 1):
            condition = logical_and(condition, less(var, end))
        return condition

    def _in_runs(
        self, node: ir.For, runs: Sequence[tuple[int, int, dict[ir.PrimExpr, bool]]], body: ir.Stmt
    ) -> ir.Stmt:
        """A loop for each run, without the conditions that are known in it."""
        parts: list[ir.Stmt] = []
        dtype = node.loop_var.dtype
        for first, last, known in runs:
            part = _KnownConditions(known).visit(body)
            part = ir.substitute(part, {node.loop_var: node.loop_var + first})
            parts.append(self.loop_over(node, ir.IntImm(dtype, last - first + 1), part))
        if is_recording():
            note(
                "partition", f"loop `{node.loop_var.name}` is split", node=node, loop=node.loop_var.name, runs=len(runs)
            )
        return convert_ssa(ir.SeqStmt.flatten(*[self.start(part) for part in parts]))  # loops in them are new nodes

    def _middle(self, found: list[tuple[ir.PrimExpr, bool, Any]], low: ir.PrimExpr, high: ir.PrimExpr) -> Any:
        """The values for which conditions are known to hold; if none, to be false."""
        from tvmagic.arith.int_set import intersect

        whole = IntervalSet(low, high)
        for holds in (True, False):
            sets: list[Any] = []
            conditions: set[ir.PrimExpr] = set()
            for condition, value, interval in reversed(found):
                if value is holds and not self._is_empty(interval, whole):
                    sets.append(interval)
                    conditions.add(condition)
            if sets:
                middle = intersect(sets)
                if not middle.is_nothing():
                    return middle, conditions, holds
        return None, None, None

    def _is_empty(self, a: Any, b: Any) -> bool:
        lows = [s.min_value for s in (a, b) if s.has_lower_bound()]
        highs = [s.max_value for s in (a, b) if s.has_upper_bound()]
        return any(self.analyzer.can_prove(less(high, low)) for low in lows for high in highs)

    def _is_equal(self, a: ir.PrimExpr, b: ir.PrimExpr) -> bool:
        return a is b or self.analyzer.can_prove(equal(a, b))

    def _begin(self, middle: Any, low: ir.PrimExpr, high: ir.PrimExpr) -> tuple[ir.PrimExpr, bool | None]:
        """Where the known part begins; and whether a part before it is sure to be no negative one (None: no part)."""
        if not middle.has_lower_bound():
            return low, None
        begin = self.analyzer.simplify(middle.min_value)
        if self._is_equal(begin, low):
            return begin, None
        inside = self.facts.can_prove(less_equal(begin, high + 1))
        known = begin if inside else minimum(begin, high + 1)
        if self.analyzer.can_prove(greater_equal(begin - low, 0)):
            return known, inside
        return maximum(known, low), False

    def _end(self, middle: Any, high: ir.PrimExpr, begin: ir.PrimExpr) -> tuple[ir.PrimExpr, ir.PrimExpr, bool | None]:
        """Where the known part ends; the extent of what is after it, and whether that is sure to be no negative one.

        TVM trusts that the known part does not end before it begins. It may: `(n - 7) // 16` is below 0 for small `n`,
        and the part after it would run iterations that the loop does not have, outside its arrays.
        """
        if not middle.has_upper_bound():
            return high + 1, ir.IntImm(high.dtype, 0), None
        end = self.analyzer.simplify(middle.max_value + 1)
        sure = self.facts.can_prove(less_equal(begin, end))
        known = end if sure else maximum(end, begin)
        rest = self.analyzer.simplify(high - known + 1)
        if self._is_equal(middle.max_value, high):
            return known, rest, None
        if self.analyzer.can_prove(greater_equal(high - end + 1, 0)):
            return known, rest, sure
        # the known part may end behind the loop: no iterations are left, the extent is negative
        return minimum(known, high + 1), rest, False

    def loop_over(self, node: ir.For, extent: ir.PrimExpr, body: ir.Stmt) -> ir.Stmt:
        """The loop from 0 on; its body alone where it runs once."""
        if not self.keep_single and self.analyzer.can_prove(equal(extent, 1)):
            return ir.substitute(body, {node.loop_var: ir.IntImm(node.loop_var.dtype, 0)})
        zero = ir.IntImm(node.min.dtype, 0)
        kept = {key: value for key, value in node.annotations.items() if key != HINT}
        return ir.For(node.loop_var, zero, extent, node.kind, body, None, kept, node.span)


class _LikelyRemover(ir.Mutator):
    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        new = self.visit_children(node)
        if HINT not in new.annotations:
            return new
        return new.replace(annotations={key: value for key, value in new.annotations.items() if key != HINT})

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> ir.PrimExpr:
        return self.visit(node.args[0]) if is_call(node, "tir.likely") else self.visit_children(node)

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        return self.visit(node.body) if node.attr_key == HINT else self.visit_children(node)


@tir_pass("tir.LoopPartition", OPTIONS)
def LoopPartition(func: ir.PrimFunc, *, options: dict[str, Any], context: PassContext) -> ir.PrimFunc:
    """Split loops at where their `likely` conditions change, and take the marks away.

    Options under `tir.LoopPartition`: `partition_const_loop` (loops of constant range, too),
    `no_unroll_loop_with_extent_one`, `unroll_loop_with_partition_hint_no_interval`.
    """
    if context.option("te.tight_split", False):
        # loops that end where their parent ends may run no iteration, and the parts of one could begin before it
        note("partition", "loops of tight splits are left whole")
        return func
    facts = Analyzer()
    for buffer in func.buffer_map.values():
        for size in buffer.shape:
            facts.mark_global_non_neg_value(size)
    partitioner = _Partitioner(options, facts)
    return func.with_body(_LikelyRemover().visit(partitioner.start(func.body)))
