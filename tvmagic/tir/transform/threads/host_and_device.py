"""A function for a GPU and its host, split: what the device runs becomes functions that the host launches.

AnnotateDeviceRegions marks the regions, SplitHostDevice makes functions of them, and LowerDeviceKernelLaunch turns
calls of these into launches with the extents of their threads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    Allocate,
    AssertStmt,
    AttrStmt,
    Buffer,
    Call,
    CallingConv,
    DataType,
    DeclBuffer,
    Evaluate,
    GlobalVar,
    IntImm,
    IRModule,
    IterVar,
    LetStmt,
    Mutator,
    Op,
    PrimExpr,
    PrimFunc,
    PrimType,
    SeqStmt,
    Stmt,
    StmtMutator,
    StringImm,
    TupleType,
    Var,
    Visitor,
    handles,
    ops,
    substitute,
)
from tvmagic.passes import note
from tvmagic.tir.analysis.ssa import undefined_vars
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.expressions.convert_ssa import ConvertSSA
from tvmagic.tir.transform.uses import callees

_ON_DEVICE = ("thread_extent", "pipeline_exec_scope", "device_scope")
_CPU, _EXT_DEV, _HEXAGON = 1, 12, 16
_RETURNS_STATUS = (_CPU, _EXT_DEV, _HEXAGON)  # their code is called as a host's, and says whether it failed
_DYNAMIC = "tir.use_dyn_shared_memory"


def _target_of(func: PrimFunc, what: str) -> Any:
    target = func.attrs.get("target")
    if target is None:
        raise TVMagicError(
            f"{what} needs the attribute `target` of the function, which it does not have",
            node=func,
            hint='run BindTarget(Target("cuda", host="llvm")) first',
        )
    return target


# ---------------------------------------------------------------------------- regions


class _Annotator(StmtMutator):
    def __init__(self, device: Any) -> None:
        self.device = device

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> Stmt:
        if node.attr_key == "target":
            return node  # annotated by the user
        if node.attr_key not in _ON_DEVICE:
            return self.visit_children(node)
        note("device", f"runs on {self.device.kind}", node=node)
        return AttrStmt(self.device, "target", IntImm("int32", 0), node)


@tir_pass("tir.AnnotateDeviceRegions")
def AnnotateDeviceRegions(func: PrimFunc) -> PrimFunc:
    """Put the attribute `target` around what the device runs: each outermost launch of threads.

    Nothing is to do for a target without a host. Raises `TVMagicError` for a function without target.
    """
    target = _target_of(func, "AnnotateDeviceRegions")
    if getattr(target, "host", None) is None:
        return func
    return func.with_body(_Annotator(target.without_host()).visit(func.body))


# ---------------------------------------------------------------------------- split


class _Buffers(Visitor):
    """The buffers that a statement uses and does not define, on pointers that come from outside."""

    def __init__(self, pointers: Iterable[Var]) -> None:
        self.defined: set[Buffer] = set()
        self.used: dict[Buffer, None] = {}
        self.pointers = set(pointers)

    def visit_buffer_def(self, buffer: Buffer) -> None:
        self.defined.add(buffer)

    def visit_buffer_use(self, buffer: Buffer) -> None:
        if buffer not in self.defined and buffer.data in self.pointers:
            self.used[buffer] = None


class _Splitter(StmtMutator):
    def __init__(self, name: str, taken: set[str]) -> None:
        self.name, self.taken = name, taken
        self.kernels: dict[GlobalVar, PrimFunc] = {}

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> Stmt:
        return self.split(node) if node.attr_key == "target" else self.visit_children(node)

    def _fresh(self) -> GlobalVar:
        name, number = self.name, 0
        while name in self.taken:
            number += 1
            name = f"{self.name}_{number}"
        self.taken.add(name)
        return GlobalVar(name)

    def split(self, node: AttrStmt) -> Stmt:
        """A call of the new function with the body of `node`."""
        target, body = node.node, node.body
        undefined = list(undefined_vars(body))
        buffers = _Buffers(undefined)
        buffers.visit(body)
        params = sorted(undefined, key=lambda var: (not var.dtype.is_handle, var.name))
        status = target.get_target_device_type() in _RETURNS_STATUS
        if status:
            body = SeqStmt([body, Evaluate(ops.ret(IntImm("int32", 0)))])
        for buffer in reversed(buffers.used):
            body = DeclBuffer(buffer, body)
        kind = PrimType("int32") if status else TupleType(())
        attrs = {"target": target, "tir.noalias": True, "tir.is_global_func": True}
        callee = self._fresh()
        self.kernels[callee] = PrimFunc(params, body, kind, None, attrs)
        note("kernel", f"`{callee.name_hint}` is a function of its own: the device runs it", node=node)
        if not status:
            return Evaluate(Call(DataType("void"), callee, tuple(params)))
        code = Var("kernel_error_code", "int32")
        check = AssertStmt(code.equal(0), StringImm("Error executing compute kernel"), Evaluate(0))
        return LetStmt(code, Call(code.dtype, callee, tuple(params)), check)


@tir_pass("tir.SplitHostDevice")
def SplitHostDevice(mod: IRModule) -> IRModule:
    """Make each region with the attribute `target` a function of its own, which the host calls.

    Its parameters are what the region uses of the function around it, pointers first. AnnotateDeviceRegions puts the
    attribute.
    """
    functions: dict[GlobalVar, PrimFunc] = {}
    taken = {var.name_hint for var in mod.functions}
    for var, func in mod.functions.items():
        if func.attrs.get("target") is None:
            functions[var] = func
            continue
        splitter = _Splitter(f"{func.attrs.get('global_symbol', var.name_hint)}_kernel", taken)
        functions[var] = func.with_body(splitter.visit(func.body))
        functions.update(splitter.kernels)
    if len(functions) == len(mod.functions):
        return mod
    return ConvertSSA()(mod.replace(functions=functions))


# ---------------------------------------------------------------------------- launches


@dataclass
class _Kernel:
    """What a launch of a function needs: in which order its threads' extents are passed, and what they are."""

    target: Any
    symbol: str
    params: tuple[Var, ...]
    launch_params: list[str]
    launch_args: list[PrimExpr]


class _Launches(Visitor):
    def __init__(self) -> None:
        self.extents: dict[str, PrimExpr] = {}
        self.dynamic: PrimExpr | None = None

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> None:
        if node.attr_key == "thread_extent" and isinstance(node.node, IterVar):
            self.extents.setdefault(node.node.thread_tag, node.value)
        self.visit_children(node)

    @handles(Allocate)
    def allocate(self, node: Allocate) -> None:
        kind: Any = node.buffer_var.type_annotation
        if kind.storage_scope == "shared.dyn":
            if self.dynamic is not None:
                raise TVMagicError("a kernel has one allocation of dynamic shared memory", node=node)
            size: PrimExpr = IntImm("int32", node.dtype.bytes)
            for extent in node.extents:
                size = size * extent
            self.dynamic = size
        self.visit_children(node)


def _kernel_of(var: GlobalVar, func: PrimFunc) -> _Kernel:
    launches = _Launches()
    launches.visit(func.body)
    names, values = list(launches.extents), list(launches.extents.values())
    if launches.dynamic is not None:
        names.append(_DYNAMIC)
        values.append(launches.dynamic)
    symbol = func.attrs.get("global_symbol", var.name_hint)
    return _Kernel(func.attrs.get("target"), str(symbol), func.params, names, values)


class _Caller(Mutator):
    """Rewrites the calls of one function; says which functions are launched, and which called from other code."""

    def __init__(self, target: Any, kernels: dict[GlobalVar, _Kernel]) -> None:
        self.target, self.kernels = target, kernels
        self.launched: set[GlobalVar] = set()
        self.external: set[GlobalVar] = set()

    @handles(Call)
    def call(self, node: Call) -> PrimExpr:
        new = self.visit_children(node)
        callee = node.op
        kernel = self.kernels.get(callee) if isinstance(callee, GlobalVar) else None
        if kernel is None or kernel.target is None or self.target is None or str(kernel.target) == str(self.target):
            return new
        assert isinstance(callee, GlobalVar)
        if kernel.target.get_target_device_type() == self.target.get_target_device_type():
            self.external.add(callee)  # both are linked into one program
            return Call(node.dtype, Op.get("tir.call_extern"), (StringImm(kernel.symbol), *new.args), node.span)
        self.launched.add(callee)
        values = dict(zip(kernel.params, new.args))
        extents = [substitute(value, values) for value in kernel.launch_args]
        arguments = (StringImm(kernel.symbol), *new.args, *extents)
        dtype = DataType("int32") if str(node.dtype) == "void" else node.dtype  # a packed call gives a status
        return Call(dtype, Op.get("tir.tvm_call_packed"), arguments, node.span)


@tir_pass("tir.LowerDeviceKernelLaunch")
def LowerDeviceKernelLaunch(mod: IRModule) -> IRModule:
    """Turn calls from one target to another into launches: packed calls with the extents of the threads at the end.

    A call between targets of one kind of device becomes a call of an external function; one within a target stays.
    What is launched gets `tir.kernel_launch_params`, the names of the extents in order, and a name outside.
    """
    functions = dict(mod.functions)
    called = {callee for func in functions.values() for callee in callees(func)}
    kernels = {var: _kernel_of(var, func) for var, func in functions.items() if var in called}
    changed = dict(functions)
    launched, external = set[GlobalVar](), set[GlobalVar]()
    for var, func in functions.items():
        target = func.attrs.get("target")
        caller = _Caller(getattr(target, "host", None) or target, kernels)  # what is split is the host's
        changed[var] = func.with_body(caller.visit(func.body))
        launched |= caller.launched
        external |= caller.external
    for var in launched | external:
        attrs: dict[str, Any] = {"global_symbol": kernels[var].symbol}
        if var in launched:
            attrs |= {
                "calling_conv": int(CallingConv.DEVICE_KERNEL_LAUNCH),
                "tir.kernel_launch_params": tuple(kernels[var].launch_params),
            }
        changed[var] = changed[var].with_attr({**attrs, "tir.is_global_func": True})
    if all(changed[var] is func for var, func in mod.functions.items()):
        return mod
    return mod.replace(functions=changed)
