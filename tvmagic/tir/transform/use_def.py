"""What a part of a program names: variables, buffers, functions; asked by many passes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tvmagic.ir import Buffer, BufferLoad, Call, GlobalVar, PrimExpr, PrimFunc, Var, Visitor, handles
from tvmagic.ir.query import contains, is_call, nodes_of


class _Found(Exception):
    pass


class _BufferFields(Visitor):
    """Visits what describes a buffer, too, once for each buffer."""

    def __init__(self) -> None:
        self.buffers: set[Buffer] = set()

    def visit_buffer_use(self, buffer: Buffer) -> None:
        if buffer in self.buffers:
            return
        self.buffers.add(buffer)
        for expr in (buffer.data, *buffer.shape, *buffer.strides, buffer.elem_offset):
            self.visit(expr)

    visit_buffer_def = visit_buffer_use


class _Finder(_BufferFields):
    def __init__(self, wanted: Collection[Var]) -> None:
        super().__init__()
        self.wanted = frozenset(map(id, wanted))

    @handles(Var)
    def var(self, var: Var) -> None:
        if id(var) in self.wanted:
            raise _Found


def mentions(node: Any, variables: Collection[Var]) -> bool:
    """Whether `node` reads one of `variables`, itself or through the buffers it accesses."""
    try:
        _Finder(variables).visit(node)
    except _Found:
        return True
    return False


def buffer_mentions(buffer: Buffer, var: Var) -> bool:
    """Whether the pointer, shape, strides or offset of `buffer` name `var`."""
    try:
        _Finder((var,)).visit_buffer_use(buffer)
    except _Found:
        return True
    return False


class _Pointers(Visitor):
    def __init__(self, pointer: Var) -> None:
        self.pointer = pointer

    @handles(Var)
    def var(self, node: Var) -> None:
        if node is self.pointer:
            raise _Found

    @handles(Call)
    def call(self, node: Call) -> None:
        if is_call(node, "tir.address_of") and getattr(node.args[0], "buffer", None) is not None:
            self.var(node.args[0].buffer.data)
        self.visit_children(node)


def used_as_pointer(node: Any, pointer: Var) -> bool:
    """Whether `node` reaches what is behind `pointer` other than by loads and stores: by itself, or by an address."""
    try:
        _Pointers(pointer).visit(node)
    except _Found:
        return True
    return False


class _Collector(_BufferFields):
    def __init__(self) -> None:
        super().__init__()
        self.used: dict[Var, None] = {}
        self.defined: set[Var] = set()

    @handles(Var)
    def var(self, var: Var) -> None:
        self.used[var] = None

    def visit_var_def(self, var: Var) -> None:
        self.defined.add(var)


def used_vars(node: Any) -> dict[Var, None]:
    """The variables that `node` reads, itself or through its buffers, in order of first use."""
    collector = _Collector()
    collector.visit(node)
    return collector.used


def free_vars(node: Any) -> list[Var]:
    """The variables that `node` reads and does not define."""
    collector = _Collector()
    collector.visit(node)
    return [v for v in collector.used if v not in collector.defined]


def loads_memory(value: PrimExpr) -> bool:
    """Whether an expression loads from a buffer."""
    return contains(value, BufferLoad)


def callees(func: PrimFunc) -> set[GlobalVar]:
    """The functions of its module that a function calls."""
    return {call.op for call in nodes_of(func.body, Call) if isinstance(call.op, GlobalVar)}
