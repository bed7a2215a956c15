"""How a compiled function is called: its parameters in machine order."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.codegen.late.iterative_visitor import ChainVisitor
from tvmagic.codegen.text.symbols import symbol_of
from tvmagic.errors import BuildError
from tvmagic.ir.query import callee, variables_in
from tvmagic.runtime.abi import ABI, Param


def abi_of(name: str, func: ir.PrimFunc) -> ABI:
    """The machine parameters of `func`."""
    params: list[Param] = []
    known: set[ir.Var] = set()
    for var in func.params:
        buffer = func.buffer_map.get(var)
        params.append(Param(var, var.dtype, buffer))
        known.add(var)
        if buffer is not None:
            known.add(buffer.data)
    sizes: list[ir.Var] = []
    for param in params:
        for part in _fields(param.buffer):
            for var in variables_in(part):
                if var not in known:
                    known.add(var)
                    sizes.append(var)
    body = _Written(func.body)
    ret = func.ret_type
    # a function without a type of its own gives what it returns, if that has one type
    given = {ret.dtype} if isinstance(ret, ir.PrimType) else body.returned
    result = next(iter(given)) if len(given) == 1 else None
    if result is not None and (result.code in ("void", "handle") or not result.is_scalar):
        result = None
    noalias = bool(func.attrs.get("tir.noalias", False))
    return ABI(name, symbol_of(name), tuple(params), tuple(sizes), frozenset(body.found), result, noalias)


def _fields(buffer: ir.Buffer | None) -> list[Any]:
    return [] if buffer is None else [*buffer.shape, *buffer.strides, buffer.elem_offset]


class _Written(ChainVisitor):
    """The pointers that are stored to, or handed to calls that may store; and the types of what is returned."""

    def __init__(self, body: Any) -> None:
        self.found: set[ir.Var] = set()
        self.returned: set[ir.DataType] = set()
        self.visit(body)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        self.found.add(node.buffer.data)
        self.visit_children(node)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        self.visit_children(node)
        name = callee(node)
        if name == "tir.ret":
            self.returned.add(node.args[0].dtype)
        if name in _READ_ONLY:
            return
        for arg in node.args:
            if isinstance(arg, ir.Var) and arg.dtype.is_handle:
                self.found.add(arg)
            elif isinstance(arg, ir.Call):
                self._pointer(arg)

    def _pointer(self, arg: ir.Call) -> None:
        name = callee(arg)
        if name == "tir.tvm_access_ptr" and int(arg.args[4]) & ir.Buffer.WRITE:
            self.found.add(arg.args[1])
        elif name == "tir.address_of":
            self.found.add(arg.args[0].buffer.data)


_READ_ONLY = frozenset({"tir.tvm_access_ptr", "tir.address_of", "tir.isnullptr", "tir.prefetch"})


def machine_type(dtype: ir.DataType) -> str:
    """The LLVM type by which a scalar parameter is passed: small floats and bools as integers."""
    if dtype.is_handle:
        return "ptr"
    if dtype.lanes != 1:
        raise BuildError(f"a parameter of the vector type `{dtype}` cannot be passed", code="codegen.vector_parameter")
    if dtype.is_bool:
        return "i8"
    if dtype.is_float and dtype.bits == 16:
        return "i16"
    if dtype.is_float:
        return "float" if dtype.bits == 32 else "double"
    return f"i{dtype.bits}"
