"""Statements that wait for their body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    AssertStmt,
    AttrStmt,
    Call,
    CallingConv,
    DeclBuffer,
    Evaluate,
    IntImm,
    PrimExpr,
    PrimFunc,
    SeqStmt,
    Stmt,
    StringImm,
    Var,
)

Nest = Callable[[Stmt], Stmt]

NOTHING = Evaluate(0)
CPU = 1


def alloca(kind: str, count: int) -> Call:
    """Room on the stack for `count` values of a kind: `array`, `shape`, `arg_value` or `arg_tcode`."""
    return Call("handle", "tir.tvm_stack_alloca", (StringImm(kind), IntImm("int32", count)))


def set_field(array: Var, index: int, field: int, value: PrimExpr, dtype: str = "int32") -> Stmt:
    """The statement that sets a field of the array descriptor (or value) number `index` behind `array`."""
    place = (array, IntImm("int32", index), IntImm("int32", field))
    return Evaluate(Call(dtype, "tir.tvm_struct_set", (*place, value)))


def nested(nests: Sequence[Nest], body: Stmt) -> Stmt:
    """`body` inside all of `nests`, the first one outermost."""
    for nest in reversed(nests):
        body = nest(body)
    return body


def before(stmt: Stmt) -> Nest:
    """`stmt`, and then the body."""
    return lambda body: SeqStmt([stmt, *body.seq]) if isinstance(body, SeqStmt) else SeqStmt([stmt, body])


def asserted(condition: PrimExpr, message: str) -> Nest:
    """The body if `condition` holds."""
    return lambda body: AssertStmt(condition, StringImm(message), body)


def with_attribute(node: Any, key: str, value: PrimExpr) -> Nest:
    """The body below an attribute."""
    return lambda body: AttrStmt(node, key, value, body)


def declared(buffer: Any) -> Nest:
    """The body below the declaration of `buffer`."""
    return lambda body: DeclBuffer(buffer, body)


def on_device(device_type: int, device_id: PrimExpr) -> list[Nest]:
    """The body below the attributes that say on which device it runs."""
    kind = IntImm("int32", device_type)
    return [with_attribute("default", "device_id", device_id), with_attribute("default", "device_type", kind)]


def device_chosen(device_type: int, device_id: PrimExpr) -> list[Nest]:
    """The call in front of the body by which the runtime gets to know its device; a CPU needs none."""
    if device_type == CPU:
        return []
    arguments = (StringImm("__tvm_set_device"), IntImm("int32", device_type), device_id)
    return [before(Evaluate(Call("int32", "tir.tvm_call_packed", arguments)))]


def symbol_to_lower(func: PrimFunc) -> str | None:
    """The name under which `func` is called from outside; None if it has none, or a calling convention already."""
    if int(func.attrs.get("calling_conv", 0)) != CallingConv.DEFAULT or "global_symbol" not in func.attrs:
        return None
    return str(func.attrs["global_symbol"])


def target_of(func: PrimFunc, what: str) -> Any:
    """The target of `func`. Raises `TVMagicError` if it has none."""
    target = func.attrs.get("target")
    if target is None:
        raise TVMagicError(
            f"{what} needs the attribute `target` of the function, which it does not have",
            node=func,
            hint='run BindTarget(Target("llvm", host="llvm")) first',
        )
    return target
