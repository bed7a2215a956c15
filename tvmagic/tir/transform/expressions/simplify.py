"""Simplify: each expression simplified with what is known at its place, dead code left out."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.extension import Extension
from tvmagic.arith.rewrite import observe_rules
from tvmagic.ir.effects import side_effect
from tvmagic.ir.query import is_call
from tvmagic.passes import is_recording, note
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.expressions.known_contents import BufferContents, buffer_contents
from tvmagic.tir.transform.with_analyzer import AnalyzerMutator

OPTIONS = {
    "transitively_prove_inequalities": False,
    "convert_boolean_to_and_of_ors": False,
    "apply_constraints_to_boolean_branches": False,
    "propagate_knowns_to_prove_conditional": False,
    "propagate_knowns_to_simplify_expressions": False,
    "fast_math": False,
}

_EXTENSIONS = {
    "transitively_prove_inequalities": Extension.TransitivelyProveInequalities,
    "convert_boolean_to_and_of_ors": Extension.ConvertBooleanToAndOfOrs,
    "apply_constraints_to_boolean_branches": Extension.ApplyConstraintsToBooleanBranches,
}


# Bodies that the pass left as they were: it runs several times in a pipeline, often with nothing in between.
_simplified: WeakSet[ir.Stmt] = WeakSet()


class _BufferVars(ir.Visitor):
    """The variables that buffers in a function are described by."""

    def __init__(self) -> None:
        self.vars: set[ir.Var] = set()
        self.seen: set[Any] = set()

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> None:
        pass

    def visit_buffer_use(self, buffer: Any) -> None:
        if buffer in self.seen:
            return
        self.seen.add(buffer)
        collector = _VarCollector(self.vars)
        for expr in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            collector.visit(expr)

    visit_buffer_def = visit_buffer_use


class _VarCollector(ir.Visitor):
    def __init__(self, found: set[ir.Var]) -> None:
        self.found = found

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> None:
        self.found.add(var)


def buffer_description_vars(func: ir.PrimFunc) -> set[ir.Var]:
    """The variables in shapes, strides and offsets of the buffers of `func`."""
    visitor = _BufferVars()
    for buffer in func.buffer_map.values():
        visitor.visit_buffer_use(buffer)
    visitor.visit(func.body)
    return visitor.vars


class StmtSimplifier(AnalyzerMutator):
    """Simplifies a statement.

    `buffer_vars` are variables that describe buffers: a let of one of them stays. `contents` says what buffers hold;
    it serves conditions alone, or all expressions if `everywhere`.
    """

    def __init__(
        self, analyzer: Analyzer, buffer_vars: set[ir.Var], contents: BufferContents | None, everywhere: bool
    ) -> None:
        super().__init__(analyzer)
        self.buffer_vars = buffer_vars
        self.contents = contents
        self.place: ir.Stmt | None = None  # the statement whose expressions are visited
        self.pure_lets: dict[ir.Var, ir.PrimExpr] = {}
        self._plain = self._in_context if everywhere else analyzer.simplify
        self.simplified = self._simplify_with_note if is_recording() else self._plain

    def visit(self, node: Any) -> Any:
        if self.contents is None or not isinstance(node, ir.Stmt):
            return super().visit(node)
        outer, self.place = self.place, node
        try:
            return super().visit(node)
        finally:
            self.place = outer

    def _in_context(self, node: ir.PrimExpr) -> ir.PrimExpr:
        """`node` simplified with what buffers are known to hold at its statement."""
        if self.contents is None or self.place is None:
            return self.analyzer.simplify(node)
        return self.contents.simplified(node, self.place, self.analyzer)

    def _proved(self, condition: ir.PrimExpr) -> bool | None:
        """Whether a condition always holds, or never; None if neither is proved."""
        condition = ir.substitute(condition, self.pure_lets)
        simplified = self.simplified(condition) if self.contents is None else self._in_context(condition)
        return bool(simplified.value) if isinstance(simplified, ir.IntImm) else None

    def _simplify_with_note(self, node: ir.PrimExpr) -> ir.PrimExpr:
        """`node` simplified, with a note that names the rules that fired."""
        fired: dict[str, None] = {}
        with observe_rules(lambda rule, before, after: fired.setdefault(rule.name)):
            result = self._plain(node)
        if result is not node and not ir.expr_deep_equal(result, node):
            note(
                "simplify.rules",
                f"`{node}` became `{result}`",
                node=node,
                rules=tuple(fired) or ("the canonical form",),
            )
        return result

    @ir.handles(ir.PrimExpr)
    def expression(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return self.simplified(node)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> ir.PrimExpr:
        if self.contents is not None and is_call(node, "tir.if_then_else"):
            known = self._proved(node.args[0])
            if known is not None:
                return self.visit(node.args[1 if known else 2])
        return self.simplified(node)

    @ir.handles(ir.ConstExpr)
    def constant(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return node

    @ir.handles(ir.For)
    def for_loop(self, node: ir.For) -> ir.Stmt:
        return self.visit_bounded_loop(node)

    @ir.handles(ir.LetStmt)
    def let_stmt(self, node: ir.LetStmt) -> ir.Stmt:
        value = self.visit(node.value)
        self.analyzer.wraps.define(node.var, value)
        inline = _can_inline(node.value)
        if inline:
            self.analyzer.bind(node.var, value, True)
        elif side_effect(node.value) <= ir.CallEffect.PURE:
            self.pure_lets[node.var] = value
        body = self.visit(node.body)
        if inline and node.var not in self.buffer_vars:
            return body
        return node.with_(value=value, body=body)

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> ir.Stmt:
        known = self._proved(node.condition)
        if known is not None:
            if is_recording():
                note("simplify.branch", f"the condition is always {known}", node=node.condition)
            if known:
                return self.visit(node.then_case)
            return self.visit(node.else_case) if node.else_case is not None else ir.Evaluate(0, node.span)
        return super().branch(node)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        new = self.visit_children(node)
        value = new.value
        if isinstance(value, ir.BufferLoad) and new.predicate is value.predicate and same_place(value, new):
            return ir.Evaluate(0, node.span)
        return new


def _can_inline(value: ir.PrimExpr) -> bool:
    if isinstance(value, (ir.ConstExpr, ir.Var)) and not isinstance(value, ir.StringImm):
        return True
    return value.dtype.is_int and side_effect(value) <= ir.CallEffect.PURE


def same_place(load: ir.BufferLoad | ir.BufferStore, store: ir.BufferStore) -> bool:
    """Whether both access the same element of the same memory."""
    a, b = load.buffer, store.buffer
    if a.data is not b.data or len(load.indices) != len(store.indices):
        return False
    pairs = list(zip(load.indices, store.indices))
    if a is not b:
        if len(a.shape) != len(b.shape) or len(a.strides) != len(b.strides):
            return False
        pairs += [*zip(a.shape, b.shape), *zip(a.strides, b.strides), (a.elem_offset, b.elem_offset)]
    return all(x is y or ir.expr_deep_equal(x, y) for x, y in pairs)


@tir_pass("tir.Simplify", OPTIONS)
def Simplify(func: ir.PrimFunc, *, options: dict[str, Any]) -> ir.PrimFunc:
    """Simplify every expression, inline integer lets, and leave out branches that are never taken.

    Options under `tir.Simplify`: `transitively_prove_inequalities`, `convert_boolean_to_and_of_ors`,
    `apply_constraints_to_boolean_branches` extend what the simplifier tries; `fast_math` takes floats for
    real numbers (`x - x` is 0), which otherwise follow IEEE 754. `propagate_knowns_to_prove_conditional`
    decides conditions by what buffers are known to hold, from stores and from `T.assume`;
    `propagate_knowns_to_simplify_expressions` does so for all expressions, so that known loads become their values.
    """
    plain = not any(options.values())
    if plain and func.body in _simplified:
        return func
    analyzer = Analyzer(fast_math=options["fast_math"])
    enable_extensions(analyzer, options)
    everywhere = options["propagate_knowns_to_simplify_expressions"]
    contents = None
    for option in ("propagate_knowns_to_prove_conditional", "propagate_knowns_to_simplify_expressions"):
        if options[option]:
            contents = buffer_contents(func.body, f"tir.Simplify.{option}")
    simplifier = StmtSimplifier(analyzer, buffer_description_vars(func), contents, everywhere)
    simplifier.mark_sizes(func)
    body = simplifier.visit(func.body)
    if plain and body is func.body:
        _simplified.add(body)
    return func.with_body(body)


def enable_extensions(analyzer: Analyzer, options: dict[str, Any]) -> None:
    """Switch on the extensions of the simplifier that the options ask for."""
    flags = Extension.NoExtensions
    for name, flag in _EXTENSIONS.items():
        if options.get(name):
            flags |= flag
    if flags:
        analyzer.set_enabled_extensions(flags)
