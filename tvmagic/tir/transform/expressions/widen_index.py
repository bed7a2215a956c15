"""WidenIndexDataType: index arithmetic in int64 where int32 may not hold it.

The text of a program keeps TVM's int32 loops. Constant sizes decide here whether they hold. If sizes are symbolic, the
function begins with the condition under which they do, as `T.attr("indices", "fit_int32", condition)`. A call for which
it fails runs a second version, which `widened` makes then.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.ir.ops import cast
from tvmagic.ir.query import callee, has_node, launches_thread, variables_in
from tvmagic.passes import is_recording, note
from tvmagic.tir.analysis.index_overflow import INDEX_ARGUMENTS, LIMIT, Suspect, find_index_overflow
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.expressions.retyper import Retyper

FIT_INT32 = "fit_int32"
_INT64 = ir.DataType("int64")
_SAME_IN_INT64 = {"tir.likely", "tir.bitwise_and", "tir.bitwise_or", "tir.bitwise_xor"}


@tir_pass("tir.WidenIndexDataType")
def WidenIndexDataType(mod: ir.IRModule) -> ir.IRModule:
    """Compute indices, loop variables and guards in int64 where constant sizes exceed int32.

    For symbolic sizes, add the condition under which int32 holds them to the function. A module whose functions call each
    other is widened at once, since a call cannot be repeated once it has begun.
    """
    calls = any(has_node(func.body, _calls_function) for func in mod.functions.values())
    return mod.map_functions(lambda func: _checked(func, calls))


def _calls_function(node: Any) -> bool:
    return isinstance(node, ir.Call) and isinstance(node.op, ir.GlobalVar)


def _checked(func: ir.PrimFunc, at_once: bool) -> ir.PrimFunc:
    if _condition(func) is not None:
        return func
    found = find_index_overflow(func)
    if found.always or (at_once and found.sizes):
        _note("widened loops, indices and guards to int64", (*found.always, *found.sizes))
        return _widened(func)
    if found.fits is None:
        return func
    _note("kept int32 for calls with sizes that it holds, and int64 for others", found.sizes)
    return func.with_body(ir.AttrStmt("indices", FIT_INT32, found.fits, func.body))


def _note(outcome: str, suspects: Iterable[Suspect]) -> None:
    if is_recording():
        for text, suspect in {_text(suspect): suspect for suspect in suspects}.items():
            note("widen", f"{outcome}: {text}", node=suspect.node if isinstance(suspect.node, ir.PrimExpr) else None)


def _text(suspect: Suspect) -> str:
    bound = re.sub(r'T\.Cast\("int64", (\w+)\)|T\.int64\((-?\d+)\)', r"\1\2", str(suspect.bound))
    if isinstance(suspect.node, ir.Buffer):
        return f"`{suspect.node.name}` may have `{bound}` elements"
    return f"`{suspect.node}` may reach `{bound}`"


def depends_on_sizes(mod: ir.IRModule) -> bool:
    """Return whether a call's sizes decide if int32 holds the indices of some function."""
    return any(_condition(func) is not None for func in mod.functions.values())


def _condition(func: ir.PrimFunc) -> ir.AttrStmt | None:
    body = func.body
    return body if isinstance(body, ir.AttrStmt) and body.attr_key == FIT_INT32 else None


def without_index_condition(mod: ir.IRModule) -> ir.IRModule:
    """Return the module without the conditions of `WidenIndexDataType`, which are then computed again: a user may have edited it."""

    def change(func: ir.PrimFunc) -> ir.PrimFunc:
        condition = _condition(func)
        return func if condition is None else func.with_body(condition.body)

    return mod.map_functions(change)


def widened(mod: ir.IRModule) -> ir.IRModule:
    """Return the module with the functions widened that `WidenIndexDataType` gave a condition."""

    def change(func: ir.PrimFunc) -> ir.PrimFunc:
        condition = _condition(func)
        return func if condition is None else _widened(func.with_body(condition.body))

    return mod.map_functions(change)


def refuse_wide_indices(mod: ir.IRModule, target: Any) -> None:
    """Raise TVMagicError if constant sizes make an index exceed int32, for a target whose indices have 32 bits."""
    for func in mod.functions.values():
        for buffer in func.buffer_map.values():
            sizes = [size.value for size in buffer.shape if isinstance(size, ir.IntImm)]
            if math.prod(sizes) > LIMIT:
                raise TVMagicError(
                    f"cannot compile for `{target}`: `{buffer.name}` has {math.prod(sizes)} elements, more than int32 holds",
                    hint="make the sizes smaller",
                    code="tir.widen_index.array_too_large",
                )
        for suspect in find_index_overflow(func).always:
            raise TVMagicError(
                f"cannot compile for `{target}`: {_text(suspect)}, more than int32 holds",
                node=suspect.node if isinstance(suspect.node, ir.PrimExpr) else None,
                hint="make the sizes smaller, or give them the type `int64`",
                code="tir.widen_index.indices_too_wide",
            )


def _widened(func: ir.PrimFunc) -> ir.PrimFunc:
    widen = _Widener()
    body = widen.visit(func.body)
    for var in reversed(_sizes(func)):
        if var in widen.sizes:
            body = ir.LetStmt(widen.sizes[var], ir.Cast(_INT64, var), body)
    return func.with_body(body)


def _sizes(func: ir.PrimFunc) -> list[ir.Var]:
    """The integer parameters of a function, and the variables in the shapes of its buffers."""
    found = [param for param in func.params if param not in func.buffer_map]
    for buffer in func.buffer_map.values():
        for part in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            found += variables_in(part)
    return list(dict.fromkeys(found))


def _is_narrow(expr: ir.PrimExpr) -> bool:
    return expr.dtype.is_int and expr.dtype.bits == 32


class _Widener(Retyper):
    """Rewrites statements; `index` rewrites an index, whose parts all become int64. Data keeps its types, and reads a widened
    variable as the int32 that it was."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[ir.Var, ir.Var] = {}
        self.buffers: dict[ir.Buffer, ir.Buffer] = {}

    # ------------------------------------------------------------------ indices

    def index(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        """Return an index, loop bound or side of a guard in int64. Other types are unchanged."""
        if not _is_narrow(expr):
            return self.visit(expr)
        wide = _INT64.with_lanes_of(expr.dtype)
        if isinstance(expr, ir.IntImm):
            return ir.IntImm(_INT64, expr.value, expr.span)
        if isinstance(expr, ir.Var):
            return self._variable(expr)
        if isinstance(expr, ir.BinaryOp):
            return type(expr)(self.index(expr.a), self.index(expr.b), expr.span)
        if isinstance(expr, ir.Ramp):
            return ir.Ramp(self.index(expr.base), self.index(expr.stride), expr.lanes, expr.span)
        if isinstance(expr, ir.Broadcast):
            return ir.Broadcast(self.index(expr.value), expr.lanes, expr.span)
        if isinstance(expr, ir.Select):
            sides = self.index(expr.true_value), self.index(expr.false_value)
            return ir.Select(self.visit(expr.condition), *sides, expr.span)
        if isinstance(expr, ir.Let):
            value = self.bound_value(expr.value)
            var = self._define(expr.var, value)
            return ir.Let(var, value, self.index(expr.body), expr.span)
        if isinstance(expr, ir.Call):
            return self._call(expr, wide)
        if isinstance(expr, ir.Cast) and expr.value.dtype.is_int and expr.value.dtype.bits == 64:
            return self.visit(expr.value)
        return cast(wide, self.visit(expr))

    def _call(self, expr: ir.Call, wide: ir.DataType) -> ir.PrimExpr:
        name = callee(expr)
        if name == "tir.if_then_else":
            args = (self.visit(expr.args[0]), *[self.index(arg) for arg in expr.args[1:]])
            return ir.Call(wide, expr.op, args, expr.span)
        if name in _SAME_IN_INT64:
            return ir.Call(wide, expr.op, [self.index(arg) for arg in expr.args], expr.span)
        if name == "tir.checked_index":
            return ir.Call(wide, expr.op, (*[self.index(arg) for arg in expr.args[:2]], *expr.args[2:]), expr.span)
        return cast(wide, self.visit(expr))

    def _variable(self, var: ir.Var) -> ir.PrimExpr:
        """A variable of int32 in int64: one that the program defines, or a parameter."""
        if var in self.vars:
            return cast(_INT64, self.vars[var])
        if var not in self.sizes:
            self.sizes[var] = var.copy_with_dtype(_INT64)
        return self.sizes[var]

    def _define(self, var: ir.Var, value: ir.PrimExpr | None = None) -> ir.Var:
        """The variable for one that the program defines, of the type of its value, or of int64."""
        dtype = _INT64 if value is None else value.dtype
        self.vars[var] = var if var.dtype is dtype else var.copy_with_dtype(dtype)
        return self.vars[var]

    def bound_value(self, value: ir.PrimExpr) -> ir.PrimExpr:
        return self.index(value)

    # ------------------------------------------------------------------ data

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> ir.PrimExpr:
        return cast(node.dtype, self.vars[node]) if node in self.vars else node

    @ir.handles(ir.CmpOp)
    def comparison(self, node: ir.CmpOp) -> ir.PrimExpr:
        return type(node)(self.index(node.a), self.index(node.b), node.span)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> ir.PrimExpr:
        indices = INDEX_ARGUMENTS.get(callee(node), ())
        args = [
            (self.index(arg) if number in indices else self.visit(arg)) if isinstance(arg, ir.PrimExpr) else arg
            for number, arg in enumerate(node.args)
        ]
        return ir.Call(node.dtype, node.op, args, node.span)

    @ir.handles(ir.Let, ir.LetStmt)
    def let(self, node: Any) -> Any:
        value = self.bound_value(node.value)
        var = self._define(node.var, value)
        return node.with_(var=var, value=value, body=self.visit(node.body))

    # ------------------------------------------------------------------ accesses

    def _buffer(self, buffer: ir.Buffer) -> ir.Buffer:
        """The buffer with its sizes in int64, of which offsets are computed."""
        if all(isinstance(size, ir.IntImm) for size in buffer.shape) and len(buffer.shape) == 1 and not buffer.strides:
            return buffer
        if buffer not in self.buffers:
            shape, strides = ir.mutate_all(self.index, buffer.shape), ir.mutate_all(self.index, buffer.strides)
            self.buffers[buffer] = buffer.replace(
                shape=shape, strides=strides, elem_offset=self.index(buffer.elem_offset)
            )
        return self.buffers[buffer]

    visit_buffer_use = _buffer
    visit_buffer_def = _buffer

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        predicate = None if node.predicate is None else self.visit(node.predicate)
        return ir.BufferLoad(self._buffer(node.buffer), ir.mutate_all(self.index, node.indices), predicate, node.span)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        predicate = None if node.predicate is None else self.visit(node.predicate)
        indices = ir.mutate_all(self.index, node.indices)
        buffer = self._buffer(node.buffer)
        return node.replace(buffer=buffer, value=self.visit(node.value), indices=indices, predicate=predicate)

    # ------------------------------------------------------------------ statements

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        low, extent = self.index(node.min), self.index(node.extent)
        var = self._define(node.loop_var) if _is_narrow(node.loop_var) else node.loop_var
        return node.replace(loop_var=var, min=low, extent=extent, body=self.visit(node.body))

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        if not launches_thread(node):
            return self.visit_children(node)
        axis, value = node.node, self.index(node.value)
        var = self._define(axis.var) if _is_narrow(axis.var) else axis.var
        dom = axis.dom and ir.Range.from_min_extent(self.index(axis.dom.min), self.index(axis.dom.extent))
        return node.replace(node=axis.replace(var=var, dom=dom), value=value, body=self.visit(node.body))

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> ir.Stmt:
        extents = ir.mutate_all(self.index, node.extents)
        return node.replace(extents=extents, condition=self.visit(node.condition), body=self.visit(node.body))
