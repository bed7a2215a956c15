"""MakePackedAPI and MakeUnpackedAPI: the parameters by which TVM's runtime calls a function.

A packed function gets an array of values of 8 bytes and one of type codes; it unpacks and checks them, and its own
result goes through pointers. An unpacked one gets the pointers to its buffers' elements. Both return 0 for success.
"""

from __future__ import annotations

from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    CallingConv,
    Cast,
    DataType,
    Evaluate,
    For,
    ForKind,
    GlobalVar,
    IntImm,
    IRModule,
    LetStmt,
    Mutator,
    Not,
    Op,
    PointerType,
    PrimExpr,
    PrimFunc,
    PrimType,
    SeqStmt,
    Stmt,
    StringImm,
    Var,
    decl_buffer,
    handles,
)
from tvmagic.ir.ops import equal, if_then_else, isnullptr, logical_or, ret
from tvmagic.passes import note
from tvmagic.tir.analysis.ssa import undefined_vars
from tvmagic.tir.transform.calls.bound_arguments import CONTENT, Bindings, buffer_on, converted, field_of
from tvmagic.tir.transform.calls.nest import (
    Nest,
    asserted,
    declared,
    device_chosen,
    nested,
    on_device,
    symbol_to_lower,
    target_of,
    with_attribute,
)
from tvmagic.tir.transform.declaration import tir_pass

# Codes of the types of packed values.
INT, FLOAT, HANDLE, NULL, ARRAY, TEXT, NDARRAY, BOOL = 0, 2, 3, 4, 7, 11, 13, 15

_SUCCESS = Evaluate(ret(IntImm("int32", 0)))


# ---------------------------------------------------------------------------- results


class _Returns(Mutator):
    """`ret(value)` as a store of the value and its code behind two pointers, and the return of 0."""

    def __init__(self, value: Var, code: Var) -> None:
        self.value, self.code = value, code
        self.buffers: dict[DataType, Buffer] = {}
        self.in_parallel = 0

    @handles(For)
    def loop(self, node: For) -> Stmt:
        parallel = node.kind == ForKind.PARALLEL
        self.in_parallel += parallel
        new = self.visit_children(node)
        self.in_parallel -= parallel
        return new

    @handles(Evaluate)
    def evaluate(self, node: Evaluate) -> Stmt:
        value = node.value
        if not isinstance(value, Call) or value.op is not Op.get("tir.ret"):
            return node
        if self.in_parallel:
            raise TVMagicError("`ret` cannot be in a parallel loop", node=node)
        result = value.args[0]
        if result.dtype.is_float:
            code, stored = FLOAT, Cast("float64", result)
        elif result.dtype.is_handle:
            raise TVMagicError(f"a packed function cannot return `{result}` of type {result.dtype}", node=node)
        else:
            code, stored = INT, Cast("int64", result)
        stores = [(self.value, stored), (self.code, IntImm("int32", code))]
        return SeqStmt([*(BufferStore(self._behind(p, v.dtype), v, [0]) for p, v in stores), _SUCCESS])

    def _behind(self, pointer: Var, dtype: DataType) -> Buffer:
        if dtype not in self.buffers:
            self.buffers[dtype] = decl_buffer((1,), dtype, pointer.name, data=pointer, strides=(1,))
        return self.buffers[dtype]


# ---------------------------------------------------------------------------- arguments


class _Arguments:
    """The parameters of a packed function, and what unpacks them for the function `name`."""

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self.values = Var("args", "handle")
        self.codes = buffer_on(Var("arg_type_ids", PointerType(PrimType("int32"))), (count,), "int32")
        self.count = Var("num_args", "int32")
        self.result = Var("out_ret_value", PointerType(PrimType("void")))
        self.result_code = Var("out_ret_tcode", PointerType(PrimType("int32")))
        self.resource = Var("resource_handle", "handle")
        self.nests: list[Nest] = [
            asserted(equal(self.count, count), f"{name}: num_args should be {count}"),
            asserted(Not(isnullptr(self.values)), f"{name}: TVMValue* arg pointer was NULL"),
            asserted(Not(isnullptr(self.codes.data)), f"{name}: int* type_codes was NULL"),
            declared(self.codes),
        ]

    @property
    def params(self) -> tuple[Var, ...]:
        """The parameters in TVM's order."""
        return (self.values, self.codes.data, self.count, self.result, self.result_code, self.resource)

    def unpack(self, index: int, param: Var) -> PrimExpr:
        """The value of `param`, the argument `index`, whose type is checked first."""
        code, dtype = Var(f"{param.name}.code", "int32"), param.dtype
        load = BufferLoad(self.codes, [index])
        self.nests.append(lambda body: LetStmt(code, load, body))
        if dtype.is_handle:
            known, what, value = (HANDLE, NDARRAY, ARRAY, NULL), "pointer", self._value(index, "handle")
        elif dtype.is_bool:
            known, what = (BOOL, INT), "boolean"
            value = if_then_else(
                equal(code, BOOL), self._value(index, "bool"), Cast("bool", self._value(index, "int64"))
            )
        elif dtype.is_float:
            known, what = (FLOAT, INT, BOOL), "float"
            whole = if_then_else(equal(code, INT), self._as(dtype, index, "int64"), self._as(dtype, index, "bool"))
            value = if_then_else(equal(code, FLOAT), self._as(dtype, index, "float64"), whole)
        else:
            known, what = (INT, BOOL), "int"
            value = if_then_else(equal(code, INT), self._as(dtype, index, "int64"), self._as(dtype, index, "bool"))
        fits: PrimExpr = equal(code, known[0])
        for other in known[1:]:
            fits = logical_or(fits, equal(code, other))
        self.nests.append(asserted(fits, f"{self.name}: Expect arg[{index}] to be {what}"))
        return value

    def _value(self, index: int, dtype: str) -> PrimExpr:
        return field_of(self.values, CONTENT, dtype, index)

    def _as(self, dtype: DataType, index: int, api: str) -> PrimExpr:
        return converted(dtype, self._value(index, api))


def _packed(func: PrimFunc, name: str, target: Any) -> PrimFunc:
    arguments, bindings = _Arguments(name, len(func.params)), Bindings()
    for index, param in enumerate(func.params):
        bindings.bind(param, arguments.unpack(index, param), f"{name}.{param.name}")
    kind, device = IntImm("int32", target.get_target_device_type()), Var("dev_id", "int32")
    declarations: list[Nest] = []
    for param in func.params:  # behind all values, which shapes may use
        if param in func.buffer_map:
            buffer = func.buffer_map[param]
            bindings.bind_array(buffer, kind, device, param, f"{name}.{param.name}")
            declarations.append(declared(buffer))
    body = _Returns(arguments.result, arguments.result_code).visit(func.body)
    body = with_attribute(IntImm("int32", 0), "compute_scope", StringImm(f"{name}_compute_"))(body)
    bound = device in bindings.values
    if bound:
        body = nested(device_chosen(kind.value, device), body)
    around = on_device(kind.value, device) if bound else []
    body = SeqStmt([*(body.seq if isinstance(body, SeqStmt) else (body,)), _SUCCESS])
    body = nested([*arguments.nests, *bindings.bound, *around, *bindings.checks, *declarations], body)
    missing = undefined_vars(body, arguments.params)
    if missing:
        raise TVMagicError(
            f"function `{name}` uses the variable `{missing[0].name}`, which is not passed in as an argument", node=func
        )
    note("arguments", f"`{name}` unpacks and checks {len(func.params)} arguments", node=func)
    attrs = {**func.attrs, "calling_conv": int(CallingConv.C_PACKED_FUNC), "target": target.host}
    return PrimFunc(arguments.params, body, PrimType("int32"), None, attrs, func.span)


class _Calls(Mutator):
    """Calls of functions that become packed ones, by their names."""

    def __init__(self, symbols: dict[GlobalVar, str]) -> None:
        self.symbols = symbols

    @handles(Call)
    def call(self, node: Call) -> PrimExpr:
        new = self.visit_children(node)
        if not isinstance(node.op, GlobalVar) or node.op not in self.symbols:
            return new
        null = Call("handle", "tir.reinterpret", (IntImm("uint64", 0),))
        arguments = (StringImm(self.symbols[node.op]), *new.args, null)
        return Call(node.dtype, Op.get("tir.tvm_call_cpacked"), arguments, node.span)


@tir_pass("tir.MakePackedAPI")
def MakePackedAPI(mod: IRModule) -> IRModule:
    """Give each function with a name outside the parameters of TVM's packed calls, and unpack and check them.

    The parameters are `args`, `arg_type_ids`, `num_args`, `out_ret_value`, `out_ret_tcode` and `resource_handle`; the
    result is a status. A function needs a target with a host, whose target it gets; without host it stays, as does one
    with a calling convention. Calls of such functions become `tvm_call_cpacked`. Code generation needs no such pass:
    it takes functions as they are. Raises `TVMagicError` for a function without target, one that uses variables which
    it does not get, and a return in a parallel loop.
    """
    symbols = {var: name for var, func in mod.functions.items() if (name := symbol_to_lower(func)) is not None}
    calls = _Calls(symbols)
    functions: dict[GlobalVar, PrimFunc] = {}
    for var, func in mod.functions.items():
        called = func.with_body(calls.visit(func.body))
        if var in symbols:
            target = target_of(func, "MakePackedAPI")
            if target.host is not None:
                called = _packed(called, symbols[var], target)
        functions[var] = called
    if all(functions[var] is func for var, func in mod.functions.items()):
        return mod
    return mod.replace(functions=functions)


@tir_pass("tir.MakeUnpackedAPI")
def MakeUnpackedAPI(func: PrimFunc) -> PrimFunc:
    """Let a function with a name outside take the pointers to its buffers' elements, and return 0.

    Nothing is checked. It needs a target with a host, whose target it gets; without host it stays. Raises
    `TVMagicError` for a function without target.
    """
    if symbol_to_lower(func) is None:
        return func
    target = target_of(func, "MakeUnpackedAPI")
    if target.host is None:
        return func
    body: Stmt = SeqStmt([*(func.body.seq if isinstance(func.body, SeqStmt) else (func.body,)), _SUCCESS])
    kind, device = target.get_target_device_type(), IntImm("int32", 0)
    body = nested([*on_device(kind, device), *device_chosen(kind, device)], body)
    params = [func.buffer_map[p].data if p in func.buffer_map else p for p in func.params]
    attrs = {**func.attrs, "target": target.host}
    return PrimFunc(params, body, PrimType("int32"), None, attrs, func.span)
