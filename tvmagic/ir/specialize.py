"""Functions with some of their parameters fixed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tvmagic.errors import WrongTypeError, WrongValueError
from tvmagic.ir import ops
from tvmagic.ir.buffer import Buffer
from tvmagic.ir.deep_equal import expr_deep_equal
from tvmagic.ir.deep_recursion import deep
from tvmagic.ir.expr import BinaryOp, BufferLoad, PrimExpr, Var, expr
from tvmagic.ir.function import PrimFunc
from tvmagic.ir.functor import BufferRemapper, Visitor, handles
from tvmagic.ir.methods import method_of
from tvmagic.ir.stmt import BufferStore, DeclBuffer, LetStmt, Stmt


class _Specializer(BufferRemapper):
    """Puts values in the place of variables and folds what becomes constant by it."""

    def __init__(self, values: Mapping[Var, PrimExpr], buffers: Mapping[Buffer, Buffer]) -> None:
        super().__init__()
        self.values = values
        self.buffers.update(buffers)
        self.bound: dict[DeclBuffer, PrimExpr] = {}  # what the pointer of a buffer is, declared with the buffer

    @handles(Var)
    def var(self, var: Var) -> PrimExpr:
        return self.values.get(var, var)

    @handles(BinaryOp)
    def binary(self, node: BinaryOp) -> PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        return node if a is node.a and b is node.b else ops.binary(type(node), a, b, node.span)

    @handles(DeclBuffer)
    def declaration(self, node: DeclBuffer) -> Stmt:
        new = self.visit_children(node)
        value = self.bound.get(node)
        return new if value is None else LetStmt(node.buffer.data, value, new, node.span)


class _PointerUses(Visitor):
    """Where pointers hold buffers: the declarations of these, and accesses of others on the same pointer."""

    def __init__(self, pointers: Collection[Var]) -> None:
        self.declared: dict[Var, list[DeclBuffer]] = {pointer: [] for pointer in pointers}
        self.others: set[Var] = set()

    @handles(DeclBuffer)
    def declaration(self, node: DeclBuffer) -> None:
        self.declared.get(node.buffer.data, []).append(node)
        self.visit_children(node)

    @handles(BufferLoad, BufferStore)
    def access(self, node: BufferLoad | BufferStore) -> None:
        if all(declared.buffer is not node.buffer for declared in self.declared.get(node.buffer.data, ())):
            self.others.add(node.buffer.data)
        self.visit_children(node)


@method_of(PrimFunc)
@deep
def specialize(function: PrimFunc, param_map: Mapping[Var, Any]) -> PrimFunc:
    """`function` with parameters fixed.

    `param_map` gives for a scalar parameter its value (the parameter goes away), and for a pointer
    parameter a buffer, whose shape, strides and offset fix the variables in those of its own.
    """
    if not param_map:
        return function
    values: dict[Var, PrimExpr] = {}
    buffers: dict[Buffer, Buffer] = {}
    for param, value in param_map.items():
        if not any(param is p for p in function.params):
            raise WrongValueError(
                f"the function has no parameter `{getattr(param, 'name', param)}`", code="specialize.unknown_parameter"
            )
        own = function.buffer_map.get(param)
        if isinstance(value, Buffer):
            if own is None:
                raise WrongValueError(
                    f"parameter `{param.name}` holds no buffer",
                    hint="give it a number",
                    code="specialize.parameter_without_buffer",
                )
            _match_buffer(own, value, values)
            buffers[own] = value
        elif own is not None:
            raise WrongValueError(
                f"parameter `{param.name}` holds a buffer",
                hint="give it a buffer",
                code="specialize.parameter_with_buffer",
            )
        else:
            _match(param, ops.cast(param.dtype, expr(value)), values, param.name)
    return _apply(function, values, buffers)


def _apply(function: PrimFunc, values: dict[Var, PrimExpr], buffers: dict[Buffer, Buffer]) -> PrimFunc:
    specializer = _Specializer(values, buffers)
    params = tuple([p for p in function.params if p not in values])
    buffer_map = {p: specializer.visit_buffer_use(b) for p, b in function.buffer_map.items()}
    pointers = {v: value for v, value in values.items() if v.dtype.is_handle and not isinstance(value, Var)}
    if not pointers:
        return function.replace(params=params, buffer_map=buffer_map, body=specializer.visit(function.body))
    # a buffer's pointer is a variable: it is bound where the buffer is declared, or in front of everything
    uses = _PointerUses(pointers)
    uses.visit(function.body)
    for pointer, value in pointers.items():
        if pointer not in uses.others and len(uses.declared[pointer]) == 1:
            specializer.bound[uses.declared[pointer][0]] = value
    body = specializer.visit(function.body)
    for pointer, value in pointers.items():
        if pointer in uses.others or len(uses.declared[pointer]) > 1:
            body = LetStmt(pointer, value, body)
    return function.replace(params=params, buffer_map=buffer_map, body=body)


def _match_buffer(own: Buffer, given: Buffer, values: dict[Var, PrimExpr]) -> None:
    """Find what the variables in the fields of `own` are in those of `given`."""
    for trait in ("dtype", "data_alignment", "offset_factor", "buffer_type"):
        if getattr(own, trait) != getattr(given, trait):
            raise WrongValueError(
                f"buffers `{own.name}` and `{given.name}` differ in their `{trait}`", code="specialize.buffers_differ"
            )
    if own.scope() != given.scope():
        raise WrongValueError(
            f"buffers `{own.name}` and `{given.name}` live in different memories", code="specialize.memories_differ"
        )
    for trait in ("shape", "strides"):
        first, second = getattr(own, trait), getattr(given, trait)
        if len(first) != len(second):
            raise WrongValueError(
                f"buffers `{own.name}` and `{given.name}` differ in the length of their `{trait}`",
                code="specialize.buffers_differ",
            )
        for a, b in zip(first, second):
            _match(a, b, values, f"{own.name}.{trait}")
    _match(own.data, given.data, values, f"{own.name}.data")
    _match(own.elem_offset, given.elem_offset, values, f"{own.name}.elem_offset")


def _match(old: PrimExpr, new: PrimExpr, values: dict[Var, PrimExpr], place: str) -> None:
    """Let `old` be `new`, which must not contradict what is known."""
    if isinstance(old, Var) and old is not new:
        known = values.setdefault(old, new)
        if known is not new and not expr_deep_equal(known, new):
            raise WrongValueError(
                f"`{old.name}` cannot be both `{known}` and `{new}`", code="specialize.contradictory_values"
            )
    elif not expr_deep_equal(old, new):
        raise WrongTypeError(f"`{place}` is `{old}` and cannot become `{new}`", code="specialize.value_is_fixed")
