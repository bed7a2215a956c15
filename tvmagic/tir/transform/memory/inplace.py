"""Whether a statement can write its result over the buffer that it reads."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.ir import Stmt


class NotApplicable(Exception):
    pass


class _InPlace(ir.Visitor):
    """Raises `NotApplicable` unless every access is `target[i] = f(source[i])`.

    Each place of the target is taken to be written once, as in programs made from schedules.
    """

    def __init__(self, target: ir.Var, source: ir.Var) -> None:
        self.target, self.source = target, source
        self.nesting = 0
        self.store: ir.BufferStore | None = None

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> None:
        if var is self.target or var is self.source:
            raise NotApplicable  # used in a way that cannot be followed

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        if node.attr_key in ("extern_scope", "volatile_scope"):
            raise NotApplicable
        self.visit_children(node)

    @ir.handles(ir.BufferStore)
    def write(self, node: ir.BufferStore) -> None:
        self.nesting += 1
        for index in node.indices:
            self.visit(index)
        self.nesting -= 1
        if node.buffer.data is self.target:
            self.store = node
            self.visit(node.value)
            self.store = None
        else:
            self.visit(node.value)

    @ir.handles(ir.BufferLoad)
    def read(self, node: ir.BufferLoad) -> None:
        if node.buffer.data is self.target or self.nesting:
            raise NotApplicable
        if node.buffer.data is self.source and not _same_place(self.store, node):
            raise NotApplicable
        self.nesting += 1
        self.visit_children(node)
        self.nesting -= 1


def _same_place(store: ir.BufferStore | None, load: ir.BufferLoad) -> bool:
    if store is None or store.value.dtype is not load.dtype or len(store.indices) != len(load.indices):
        return False
    return all(ir.expr_deep_equal(a, b) for a, b in zip(store.indices, load.indices))


def works_in_place(stmt: Any, target: ir.Var, source: ir.Var) -> bool:
    """Whether `target` may take the memory of `source` in `stmt`, which ends `source`."""
    if not isinstance(stmt, (ir.AttrStmt, ir.For, ir.IfThenElse, ir.While, ir.BufferStore)):
        return False
    checker = _InPlace(target, source)
    try:
        checker.visit(stmt)
    except NotApplicable:
        return False
    return True


__all__ = ["Stmt", "works_in_place"]
