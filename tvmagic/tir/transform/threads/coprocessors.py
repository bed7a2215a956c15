"""LiftAttrScope and CombineContextCall: scopes of a coprocessor joined, and its context asked for once."""

from __future__ import annotations

from typing import Any

from tvmagic.ir import (
    Allocate,
    AttrStmt,
    Call,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    IterVar,
    Let,
    LetStmt,
    Mutator,
    Op,
    PrimExpr,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtMutator,
    Var,
    handles,
    structural_equal,
    structural_hash,
)
from tvmagic.ir.query import is_call, variables_in
from tvmagic.tir.transform.declaration import tir_pass


@tir_pass("tir.LiftAttrScope")
def LiftAttrScope(func: PrimFunc, attr_key: str) -> PrimFunc:
    """Join neighbours that have the same attribute `attr_key` into one scope, and move it outwards from loops.

    It does not go beyond an allocation, whose memory stays around it.
    """
    lifter = _Lifter(attr_key)
    return func.with_body(_in_scope(lifter.visit(func.body), attr_key, lifter.scope))


_Scope = tuple[Any, PrimExpr]  # the node and the value of an attribute


def _in_scope(stmt: Stmt, key: str, scope: _Scope | None) -> Stmt:
    return stmt if scope is None else AttrStmt(scope[0], key, scope[1], stmt)


def _same(a: _Scope | None, b: _Scope | None) -> bool:
    if a is None or b is None:
        return a is b
    values = isinstance(a[1], IntImm) and isinstance(b[1], IntImm) and structural_equal(a[1], b[1])
    return a[0] is b[0] and (a[1] is b[1] or values)


class _Lifter(StmtMutator):
    """Takes the attribute away from statements; what is to be put around the statement at hand is in `scope`."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.scope: _Scope | None = None

    def _taken(self, stmt: Stmt) -> tuple[Stmt, _Scope | None]:
        """The statement without the attribute, and the attribute that it had."""
        self.scope = None
        new = self.visit(stmt)
        scope, self.scope = self.scope, None
        return new, scope

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> Stmt:
        if node.attr_key != self.key:
            return self.visit_children(node)
        self.scope = (node.node, node.value)
        return node.body

    @handles(Allocate)
    def allocate(self, node: Allocate) -> Stmt:
        body, scope = self._taken(node.body)
        body = _in_scope(body, self.key, scope)
        return node if body is node.body else node.replace(body=body)

    @handles(SeqStmt)
    def sequence(self, node: SeqStmt) -> Stmt:
        runs: list[tuple[list[Stmt], _Scope | None]] = []
        for part in node.seq:
            new, scope = self._taken(part)
            if runs and _same(runs[-1][1], scope):
                runs[-1][0].append(new)
            else:
                runs.append(([new], scope))
        if len(runs) == 1:  # the whole sequence has it
            self.scope = runs[0][1]
            return SeqStmt.flatten(*runs[0][0])
        return SeqStmt.flatten(*[_in_scope(SeqStmt.flatten(*parts), self.key, scope) for parts, scope in runs])

    @handles(IfThenElse)
    def branch(self, node: IfThenElse) -> Stmt:
        if node.else_case is None:
            return self.visit_children(node)
        then_case, of_then = self._taken(node.then_case)
        else_case, of_else = self._taken(node.else_case)
        if of_then is not None and _same(of_then, of_else):
            self.scope = of_then
        else:
            then_case, else_case = _in_scope(then_case, self.key, of_then), _in_scope(else_case, self.key, of_else)
        return node.replace(then_case=then_case, else_case=else_case)


@tir_pass("tir.CombineContextCall")
def CombineContextCall(func: PrimFunc) -> PrimFunc:
    """Compute the context of each `tvm_thread_context(context)` once, in front of what a thread runs."""
    combiner = _Combiner()
    return func.with_body(combiner.outside(func.body))


class _Key:
    """A context, compared by what it is."""

    def __init__(self, context: PrimExpr) -> None:
        self.context, self.hash = context, structural_hash(context)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and structural_equal(self.context, other.context)


class _Combiner(Mutator):
    def __init__(self) -> None:
        self.contexts: dict[_Key, Var] = {}
        self.inside: set[Var] = set()  # variables that have no value in front of the thread's part

    def outside(self, stmt: Stmt) -> Stmt:
        """The statement with the contexts that it uses in front of it."""
        kept, self.contexts = (self.contexts, self.inside), {}
        self.inside = _bound_by(stmt)
        new = self.visit(stmt) if not self._begins_thread(stmt) else self.visit_children(stmt)
        for key, var in self.contexts.items():
            new = LetStmt(var, key.context, new)
        self.contexts, self.inside = kept
        return new

    @staticmethod
    def _begins_thread(stmt: Stmt) -> bool:
        if isinstance(stmt, AttrStmt):
            return stmt.attr_key in ("thread_extent", "coproc_uop_scope")
        return isinstance(stmt, For) and stmt.kind is ForKind.PARALLEL

    @handles(AttrStmt, For)
    def scope(self, node: AttrStmt | For) -> Stmt:
        self.inside |= _bound_by(node)
        return self.outside(node) if self._begins_thread(node) else self.visit_children(node)

    @handles(LetStmt, Let)
    def let(self, node: LetStmt | Let) -> Any:
        self.inside.add(node.var)
        return self.visit_children(node)

    @handles(Call)
    def call(self, node: Call) -> PrimExpr:
        if not is_call(node, "tir.tvm_thread_context"):
            return self.visit_children(node)
        context = node.args[0]
        if any(var in self.inside for var in variables_in(context)):
            return self.visit_children(node)
        return self.contexts.setdefault(_Key(context), Var(_name(context), context.dtype))


def _bound_by(stmt: Stmt) -> set[Var]:
    if isinstance(stmt, For):
        return {stmt.loop_var}
    return {stmt.node.var} if isinstance(stmt, AttrStmt) and isinstance(stmt.node, IterVar) else set()


def _name(context: PrimExpr) -> str:
    if not isinstance(context, Call):
        return "ctx_cache_"
    return (context.op.name if isinstance(context.op, Op) else context.op.name_hint) + "_cache"
