"""Passes that take hints away: assumptions, stores of undefined values, assertions, kinds of loops."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.ir.effects import side_effect
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.expressions.remove_no_op import remove_no_op


def _is_call(value: Any, name: str) -> bool:
    return isinstance(value, ir.Call) and isinstance(value.op, ir.Op) and value.op.name == name


class _Statements(ir.StmtMutator):
    """Rewrites statements; expressions stay."""


class _AssumeRemover(_Statements):
    @ir.handles(ir.Evaluate)
    def evaluate(self, node: ir.Evaluate) -> ir.Stmt:
        return ir.Evaluate(0, node.span) if _is_call(node.value, "tir.assume") else node


class _AssertRemover(_Statements):
    @ir.handles(ir.AssertStmt)
    def assertion(self, node: ir.AssertStmt) -> ir.Stmt:
        return self.visit(node.body)


class _SerialLoops(_Statements):
    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        new = self.visit_children(node)
        return new.replace(kind=ir.ForKind.SERIAL) if new.kind is ir.ForKind.PARALLEL else new


class _ThreadLoops(_Statements):
    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        new = self.visit_children(node)
        if new.kind is not ir.ForKind.THREAD_BINDING or new.thread_binding is None:
            return new
        if not new.thread_binding.thread_tag.startswith(("blockIdx", "threadIdx")):
            return new
        return new.replace(kind=ir.ForKind.SERIAL, thread_binding=None)


class _Undefined(ir.Visitor):
    """Whether an expression has an undefined value in it, or a variable that does; by default not in indices."""

    def __init__(self, undefined: set[ir.Var], in_indices: bool = False) -> None:
        self.undefined, self.in_indices, self.found = undefined, in_indices, False

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        if self.in_indices:
            self.visit_children(node)

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> None:
        self.found = self.found or var in self.undefined

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        self.found = self.found or _is_call(node, "tir.undef")
        self.visit_children(node)


class _UndefStoreRemover(_Statements):
    def __init__(self) -> None:
        self.undefined: set[ir.Var] = set()

    def _is_undefined(self, value: ir.PrimExpr) -> bool:
        if not self.uses_undefined(value, in_indices=False):
            return False
        if side_effect(value) > ir.CallEffectKind.ReadState:
            raise TVMagicError(
                "an undefined value is stored or named together with a call that has effects",
                node=value,
                code="tir.undef.kept_with_effects",
            )
        return True

    def uses_undefined(self, node: Any, in_indices: bool = True) -> bool:
        """Whether an undefined value is in a program or an expression, or a variable that has one."""
        finder = _Undefined(self.undefined, in_indices)
        finder.visit(node)
        return finder.found

    @ir.handles(ir.LetStmt)
    def let(self, node: ir.LetStmt) -> ir.Stmt:
        if not self._is_undefined(node.value):
            return self.visit_children(node)
        self.undefined.add(node.var)
        return self.visit(node.body)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        return ir.Evaluate(0, node.span) if self._is_undefined(node.value) else node


def _cleaned(func: ir.PrimFunc, rewriter: ir.Mutator) -> ir.PrimFunc:
    """The function rewritten, and what has no effect then left out."""
    body = rewriter.visit(func.body)
    return func if body is func.body else func.with_body(remove_no_op(body))


@tir_pass("tir.RemoveAssume")
def RemoveAssume(func: ir.PrimFunc) -> ir.PrimFunc:
    """Take the assumptions away, and what is empty then."""
    return _cleaned(func, _AssumeRemover())


@tir_pass("tir.RemoveStoreUndef")
def RemoveStoreUndef(func: ir.PrimFunc) -> ir.PrimFunc:
    """Leave out stores of values that were never defined.

    Raises `TVMagicError` if such a value is used for anything else, such as an index, or beside a call with effects.
    """
    remover = _UndefStoreRemover()
    new = _cleaned(func, remover)
    if remover.uses_undefined(new.body):
        raise TVMagicError(
            "an undefined value (`T.undef()`) is used as an index, a condition or an argument",
            node=new.body,
            hint="it may be stored, and what is stored is left out then",
            code="tir.undef.used_as_value",
        )
    return new


@tir_pass("tir.SkipAssert")
def SkipAssert(func: ir.PrimFunc) -> ir.PrimFunc:
    """Leave out the assertions."""
    return func.with_body(_AssertRemover().visit(func.body))


@tir_pass("tir.ConvertForLoopsToSerial")
def ConvertForLoopsToSerial(func: ir.PrimFunc) -> ir.PrimFunc:
    """Run parallel loops serially."""
    return func.with_body(_SerialLoops().visit(func.body))


@tir_pass("tir.ConvertThreadLoopsToSerial")
def ConvertThreadLoopsToSerial(func: ir.PrimFunc) -> ir.PrimFunc:
    """Run loops that are bound to the blocks and threads of a GPU serially, each at its own place.

    Not a pass of TVM's: it comes before LiftThreadBinding, which would put what several threads write and
    what others read into one loop over the threads.
    """
    return func.with_body(_ThreadLoops().visit(func.body))
