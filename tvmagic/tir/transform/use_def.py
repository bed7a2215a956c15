"""What a part of a program names: variables, buffers, functions; asked by many passes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tvmagic import ir
from tvmagic.ir.query import contains, is_call, nodes_of


class _Found(Exception):
    pass


class _BufferFields(ir.Visitor):
    """Visits what describes a buffer, too, once for each buffer."""

    def __init__(self) -> None:
        self.buffers: set[ir.Buffer] = set()

    def visit_buffer_use(self, buffer: ir.Buffer) -> None:
        if buffer in self.buffers:
            return
        self.buffers.add(buffer)
        for expr in (buffer.data, *buffer.shape, *buffer.strides, buffer.elem_offset):
            self.visit(expr)

    visit_buffer_def = visit_buffer_use


class _VarFinder(_BufferFields):
    def __init__(self, wanted: Collection[ir.Var]) -> None:
        super().__init__()
        self.wanted = frozenset(map(id, wanted))

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> None:
        if id(var) in self.wanted:
            raise _Found


def mentions(node: Any, variables: Collection[ir.Var]) -> bool:
    """Whether `node` reads one of `variables`, itself or through the buffers it accesses."""
    try:
        _VarFinder(variables).visit(node)
    except _Found:
        return True
    return False


def buffer_mentions(buffer: ir.Buffer, var: ir.Var) -> bool:
    """Whether the pointer, shape, strides or offset of `buffer` name `var`."""
    try:
        _VarFinder((var,)).visit_buffer_use(buffer)
    except _Found:
        return True
    return False


class _Pointers(ir.Visitor):
    def __init__(self, pointer: ir.Var) -> None:
        self.pointer = pointer

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> None:
        if node is self.pointer:
            raise _Found

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        if is_call(node, "tir.address_of") and getattr(node.args[0], "buffer", None) is not None:
            self.var(node.args[0].buffer.data)
        self.visit_children(node)


def used_as_pointer(node: Any, pointer: ir.Var) -> bool:
    """Whether `node` reaches what is behind `pointer` other than by loads and stores: by itself, or by an address."""
    try:
        _Pointers(pointer).visit(node)
    except _Found:
        return True
    return False


class _Collector(_BufferFields):
    def __init__(self) -> None:
        super().__init__()
        self.used: dict[ir.Var, None] = {}
        self.defined: set[ir.Var] = set()

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> None:
        self.used[var] = None

    def visit_var_def(self, var: ir.Var) -> None:
        self.defined.add(var)


def used_vars(node: Any) -> dict[ir.Var, None]:
    """The variables that `node` reads, itself or through its buffers, in order of first use."""
    collector = _Collector()
    collector.visit(node)
    return collector.used


def free_vars(node: Any) -> list[ir.Var]:
    """The variables that `node` reads and does not define."""
    collector = _Collector()
    collector.visit(node)
    return [v for v in collector.used if v not in collector.defined]


def loads_memory(value: ir.PrimExpr) -> bool:
    """Whether an expression loads from a buffer."""
    return contains(value, ir.BufferLoad)


def callees(func: ir.PrimFunc) -> set[ir.GlobalVar]:
    """The functions of its module that a function calls."""
    return {call.op for call in nodes_of(func.body, ir.Call) if isinstance(call.op, ir.GlobalVar)}
