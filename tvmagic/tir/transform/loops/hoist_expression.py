"""HoistExpression and HoistIfThenElse: conditions and lets moved out of loops that they do not depend on."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from tvmagic import ir
from tvmagic.ir.effects import side_effect
from tvmagic.ir.query import is_call
from tvmagic.passes import Pass, Sequential, is_recording, note
from tvmagic.tir.transform.declaration import declared, tir_pass
from tvmagic.tir.transform.expressions.convert_ssa import convert_ssa
from tvmagic.tir.transform.expressions.remove_no_op import RemoveNoOp
from tvmagic.tir.transform.expressions.simplify import Simplify
from tvmagic.tir.transform.use_def import free_vars


class HoistedConditionals(enum.IntFlag):
    """Which conditions are hoisted."""

    Never = 0
    IfElseStmt = 1
    IfElseExpr = 2
    BooleanExpression = 4
    UsingBlockVar = 8
    All = 15


class HoistedLetBindings(enum.IntFlag):
    """Which lets are hoisted."""

    Never = 0
    RequiredByConditional = 1
    LetStmt = 2
    LetExpr = 4
    All = 7


@dataclass
class _Condition:
    value: ir.PrimExpr
    kind: HoistedConditionals
    uses_block_var: bool
    lets: set[ir.Var]
    has_else: bool


@dataclass
class _Loop:
    """A loop, or a thread axis, and what can be hoisted to just outside it."""

    var: ir.Var
    node: ir.Stmt
    lets: list[tuple[ir.Var, ir.PrimExpr, HoistedLetBindings, Any]] = field(
        default_factory=list[tuple[ir.Var, ir.PrimExpr, HoistedLetBindings, Any]]
    )
    conditions: list[_Condition] = field(default_factory=list[_Condition])
    in_sequence: bool = False


class _Collector(ir.Visitor):
    def __init__(self, conditionals: HoistedConditionals) -> None:
        self.conditionals = conditionals
        self.active: list[_Loop] = []
        self.done: list[_Loop] = []
        self.beside = 0  # how many of the active loops are around an `if` with an else, one of whose sides is visited
        self.block_vars: set[ir.Var] = set()
        self.loops_of_let: dict[ir.Var, set[ir.Var]] = {}
        self.lets_of_let: dict[ir.Var, set[ir.Var]] = {}  # those that its value names itself

    def _destination(self, expr: ir.PrimExpr, first: int = 0) -> _Loop | None:
        """The outermost of the active loops from `first` on around which `expr` can stand."""
        used: set[ir.Var] = set()
        for var in free_vars(expr):
            used.add(var)
            used |= self.loops_of_let.get(var, set())
        found: _Loop | None = None
        across = HoistedConditionals.UsingBlockVar in self.conditionals
        for loop in reversed(self.active[first:]):
            if loop.in_sequence or loop.var in used or not (across or isinstance(loop.node, ir.For)):
                return found
            found = loop
        return found

    def _condition(self, value: ir.PrimExpr, kind: HoistedConditionals, has_else: bool = True) -> None:
        if side_effect(value) > ir.CallEffect.PURE:
            return
        # Around a loop in which another side of an `if` runs, a condition without an else would leave that side out.
        loop = self._destination(value, 0 if has_else else self.beside)
        if loop is None or loop.in_sequence:
            return
        variables = free_vars(value)
        lets: set[ir.Var] = set()
        pending = [v for v in variables if v in self.lets_of_let]
        while pending:
            var = pending.pop()
            if var not in lets:
                lets.add(var)
                pending += self.lets_of_let[var]
        uses_block = any(v in self.block_vars for v in variables)
        loop.conditions.append(_Condition(value, kind, uses_block, lets, has_else))

    @ir.handles(ir.And, ir.Or)
    def junction(self, node: Any) -> None:
        self._condition(node.a, HoistedConditionals.BooleanExpression)
        self._condition(node.b, HoistedConditionals.BooleanExpression)
        self.visit_children(node)

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> None:
        self._condition(node.condition, HoistedConditionals.IfElseStmt, node.else_case is not None)
        beside = self.beside
        if node.else_case is not None:
            self.beside = len(self.active)
        self.visit_children(node)
        self.beside = beside

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        if is_call(node, "tir.if_then_else"):
            self._condition(node.args[0], HoistedConditionals.IfElseExpr)
        self.visit_children(node)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        self._visit_inside(node, node.loop_var)

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        var = node.node.var if isinstance(node.node, ir.IterVar) else node.node
        if not isinstance(var, ir.Var):
            self.visit_children(node)
            return
        self.block_vars.add(var)
        self._visit_inside(node, var)
        self.block_vars.discard(var)

    def _visit_inside(self, node: ir.Stmt, var: ir.Var) -> None:
        self.active.append(_Loop(var, node))
        self.visit_children(node)
        self.done.append(self.active.pop())

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> None:
        if self.active:
            self.active[-1].in_sequence = True
        self.visit_children(node)

    @ir.handles(ir.Let, ir.LetStmt)
    def let(self, node: Any) -> None:
        kind = HoistedLetBindings.LetStmt if isinstance(node, ir.LetStmt) else HoistedLetBindings.LetExpr
        loop = self._destination(node.value)
        if loop is not None and not loop.in_sequence and side_effect(node.value) <= ir.CallEffect.PURE:
            loop.lets.append((node.var, node.value, kind, node.span))
        loops = {a.var for a in self.active}
        used_loops: set[ir.Var] = set()
        used_lets: set[ir.Var] = set()
        for var in free_vars(node.value):
            if var in loops:
                used_loops.add(var)
            else:
                used_loops |= self.loops_of_let.get(var, set())
            if var in self.lets_of_let:
                used_lets.add(var)
        self.loops_of_let[node.var], self.lets_of_let[node.var] = used_loops, used_lets
        self.visit_children(node)
        del self.loops_of_let[node.var], self.lets_of_let[node.var]


class _Hoister(ir.Mutator):
    def __init__(self, loops: list[_Loop], conditionals: HoistedConditionals, lets: HoistedLetBindings) -> None:
        self.conditionals = conditionals
        self.at = {loop.node: loop for loop in loops}
        available = {let[0] for loop in loops for let in loop.lets}
        self.hoisted = {let[0] for loop in loops for let in loop.lets if let[2] in lets}
        if HoistedLetBindings.RequiredByConditional in lets:
            for loop in loops:
                for condition in loop.conditions:
                    if self._asked_for(condition):
                        self.hoisted |= condition.lets & available

    def _asked_for(self, condition: _Condition) -> bool:
        blocks = HoistedConditionals.UsingBlockVar in self.conditionals or not condition.uses_block_var
        return blocks and condition.kind in self.conditionals

    def _wrapped(self, stmt: ir.Stmt, loop: _Loop) -> ir.Stmt:
        for condition in reversed(loop.conditions):
            # a let that stays inside cannot be named outside
            if not self._asked_for(condition) or not condition.lets <= self.hoisted:
                continue
            if is_recording():
                note("hoist", f"a condition moves out of loop `{loop.var.name}`", node=condition.value)
            stmt = ir.IfThenElse(condition.value, stmt, stmt if condition.has_else else None, condition.value.span)
        for var, value, _, span in reversed(loop.lets):
            if var in self.hoisted:
                stmt = ir.LetStmt(var, value, stmt, span)
        return stmt

    @ir.handles(ir.For, ir.AttrStmt)
    def loop(self, node: Any) -> ir.Stmt:
        new = self.visit_children(node)
        loop = self.at.get(node)
        return new if loop is None else self._wrapped(new, loop)

    @ir.handles(ir.Let, ir.LetStmt)
    def let(self, node: Any) -> Any:
        return self.visit(node.body) if node.var in self.hoisted else self.visit_children(node)


def hoist(stmt: ir.Stmt, conditionals: HoistedConditionals, lets: HoistedLetBindings) -> ir.Stmt:
    """`stmt` with conditions and lets of the kinds asked for moved outwards."""
    collector = _Collector(conditionals)
    collector.visit(stmt)
    if not any(loop.conditions or loop.lets for loop in collector.done):
        return stmt
    hoisted = _Hoister(collector.done, conditionals, lets).visit(stmt)
    return stmt if hoisted is stmt else convert_ssa(hoisted)


_EXPRESSION_OPTIONS = {
    "hoisted_conditionals": int(HoistedConditionals.All & ~HoistedConditionals.UsingBlockVar),
    "hoisted_let_bindings": int(HoistedLetBindings.All),
}
_BRANCH_OPTIONS = {"support_block_scope_hoisting": False, "support_block_scope_hosting": False}


@tir_pass("tir.InsertHoistedExpression", _EXPRESSION_OPTIONS, key="tir.HoistExpression")
def InsertHoistedExpression(func: ir.PrimFunc, *, options: dict[str, Any]) -> ir.PrimFunc:
    """The first step of HoistExpression: conditions and lets moved, nothing simplified."""
    conditionals = HoistedConditionals(int(options["hoisted_conditionals"]))
    return func.with_body(hoist(func.body, conditionals, HoistedLetBindings(int(options["hoisted_let_bindings"]))))


@tir_pass("tir.InsertHoistIfThenElse", _BRANCH_OPTIONS, key="tir.HoistIfThenElse")
def InsertHoistIfThenElse(func: ir.PrimFunc, *, options: dict[str, Any]) -> ir.PrimFunc:
    """The first step of HoistIfThenElse: branches moved, nothing simplified."""
    across_blocks = HoistedConditionals.UsingBlockVar if any(options.values()) else HoistedConditionals.Never
    return _with_branches_hoisted(func, HoistedConditionals.IfElseStmt | across_blocks)


@tir_pass("tir.InsertHoistIfThenElseBasic")
def InsertHoistIfThenElseBasic(func: ir.PrimFunc) -> ir.PrimFunc:
    """The first step of `HoistIfThenElse("basic")`: branches moved that no thread axis bounds."""
    return _with_branches_hoisted(func, HoistedConditionals.IfElseStmt)


def _with_branches_hoisted(func: ir.PrimFunc, kinds: HoistedConditionals) -> ir.PrimFunc:
    return func.with_body(hoist(func.body, kinds, HoistedLetBindings.Never))


@declared
def HoistExpression() -> Pass:
    """Move conditions and lets out of loops that they do not depend on.

    Options under `tir.HoistExpression`: `hoisted_conditionals`, `hoisted_let_bindings` (sums of
    `HoistedConditionals` and of `HoistedLetBindings`).
    """
    return Sequential([InsertHoistedExpression(), Simplify(), RemoveNoOp()], name="tir.HoistExpression")


@declared
def HoistIfThenElse(variant: str | None = None) -> Pass:
    """Move branches out of loops that their conditions do not depend on.

    The option `support_block_scope_hoisting` under `tir.HoistIfThenElse` lets them cross thread
    axes; `variant="basic"` never does.
    """
    first = InsertHoistIfThenElseBasic() if variant == "basic" else InsertHoistIfThenElse()
    return Sequential([first, Simplify(), RemoveNoOp()], name="tir.HoistIfThenElse")
