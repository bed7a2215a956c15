"""Passes that take hints away: assumptions, stores of undefined values, assertions, kinds of loops."""

from __future__ import annotations

from typing import Any

from tvmagic.ir import (
    AssertStmt,
    BufferStore,
    Call,
    Evaluate,
    For,
    ForKind,
    LetStmt,
    Mutator,
    Op,
    PrimExpr,
    PrimFunc,
    Stmt,
    StmtMutator,
    Var,
    Visitor,
    handles,
)
from tvmagic.passes import IRModule, Pass, PassContext, prim_func_pass
from tvmagic.tir.transform.expressions.remove_no_op import remove_no_op


def _is_call(value: Any, name: str) -> bool:
    return isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == name


class _Statements(StmtMutator):
    """Rewrites statements; expressions stay."""


class _AssumeRemover(_Statements):
    @handles(Evaluate)
    def evaluate(self, node: Evaluate) -> Stmt:
        return Evaluate(0, node.span) if _is_call(node.value, "tir.assume") else node


class _AssertRemover(_Statements):
    @handles(AssertStmt)
    def assertion(self, node: AssertStmt) -> Stmt:
        return self.visit(node.body)


class _SerialLoops(_Statements):
    @handles(For)
    def loop(self, node: For) -> Stmt:
        new = self.visit_children(node)
        return new.replace(kind=ForKind.SERIAL) if new.kind is ForKind.PARALLEL else new


class _ThreadLoops(_Statements):
    @handles(For)
    def loop(self, node: For) -> Stmt:
        new = self.visit_children(node)
        if new.kind is not ForKind.THREAD_BINDING or new.thread_binding is None:
            return new
        if not new.thread_binding.thread_tag.startswith(("blockIdx", "threadIdx")):
            return new
        return new.replace(kind=ForKind.SERIAL, thread_binding=None)


class _Undefined(Visitor):
    """Whether an expression has an undefined value in it, or a variable that does."""

    def __init__(self, undefined: set[Var]) -> None:
        self.undefined, self.found = undefined, False

    @handles(Var)
    def var(self, var: Var) -> None:
        self.found = self.found or var in self.undefined

    @handles(Call)
    def call(self, node: Call) -> None:
        self.found = self.found or _is_call(node, "tir.undef")
        self.visit_children(node)


class _UndefStoreRemover(_Statements):
    def __init__(self) -> None:
        self.undefined: set[Var] = set()

    def _is_undefined(self, value: PrimExpr) -> bool:
        finder = _Undefined(self.undefined)
        finder.visit(value)
        return finder.found

    @handles(LetStmt)
    def let(self, node: LetStmt) -> Stmt:
        if not self._is_undefined(node.value):
            return self.visit_children(node)
        self.undefined.add(node.var)
        return self.visit(node.body)

    @handles(BufferStore)
    def store(self, node: BufferStore) -> Stmt:
        return Evaluate(0, node.span) if self._is_undefined(node.value) else node


def _cleaning(name: str, make: type[Mutator], clean: bool = True) -> Pass:
    def run(func: PrimFunc, mod: IRModule, context: PassContext) -> PrimFunc:
        body = make().visit(func.body)
        if body is func.body:
            return func
        return func.with_body(remove_no_op(body) if clean else body)

    return prim_func_pass(run, 0, name)


def RemoveAssume() -> Pass:
    """Take the assumptions away, and what is empty then."""
    return _cleaning("tir.RemoveAssume", _AssumeRemover)


def RemoveStoreUndef() -> Pass:
    """Leave out stores of values that were never defined."""
    return _cleaning("tir.RemoveStoreUndef", _UndefStoreRemover)


def SkipAssert() -> Pass:
    """Leave out the assertions."""
    return _cleaning("tir.SkipAssert", _AssertRemover, clean=False)


def ConvertForLoopsToSerial() -> Pass:
    """Run parallel loops serially."""
    return _cleaning("tir.ConvertForLoopsToSerial", _SerialLoops, clean=False)


def ConvertThreadLoopsToSerial() -> Pass:
    """Run loops that are bound to the blocks and threads of a GPU serially, each where it stands.

    Not a pass of TVM's: it comes before LiftThreadBinding, which would put what several threads write and
    what others read into one loop over the threads.
    """
    return _cleaning("tir.ConvertThreadLoopsToSerial", _ThreadLoops, clean=False)
