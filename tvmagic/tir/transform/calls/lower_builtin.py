"""LowerTVMBuiltin: packed calls by stacks of values, type codes, descriptors and sizes; memory by calls of the runtime.

The stacks are made once, in front of the function's body and of that of each parallel loop, which runs by itself. A
statement that holds packed calls is preceded by the stores of their arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    Allocate,
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    DataType,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    LetStmt,
    Mutator,
    Node,
    Op,
    PointerType,
    PrimExpr,
    PrimFunc,
    PrimType,
    SeqStmt,
    Stmt,
    StringImm,
    Var,
    While,
    handles,
)
from tvmagic.ir.ops import address_of, cast, isnullptr, not_equal
from tvmagic.passes import note
from tvmagic.tir.transform.calls.bound_arguments import (
    ADDRESS,
    BYTE_OFFSET,
    CONTENT,
    DATA,
    DEVICE_ID,
    DEVICE_TYPE,
    NDIM,
    SHAPE,
    STRIDES,
    buffer_on,
    converted,
    field_of,
    type_fields,
)
from tvmagic.tir.transform.calls.nest import CPU, Nest, alloca, declared, nested, set_field, with_attribute
from tvmagic.tir.transform.calls.packed_api import ARRAY, BOOL, FLOAT, HANDLE, INT, NULL, TEXT
from tvmagic.tir.transform.declaration import tir_pass

ALIGNMENT = 64  # bytes, of memory that the runtime gives
MAX_ON_STACK = 1024  # bytes
_STACKS: tuple[str, ...] = ("shape", "array", "argument")


class _Stacks:
    """The stacks of one scope: how much is in use, how much was at most, and what names them."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.used, self.most = dict.fromkeys(_STACKS, 0), dict.fromkeys(_STACKS, 0)
        self.has_shapes = False
        self.shapes = self._buffer("stack_shape", "int64", IntImm("int64", sizes["shape"]))
        self.codes = self._buffer("stack_tcode", "int32", IntImm("uint64", sizes["argument"]))
        self.arrays, self.values = Var("stack_array", "handle"), Var("stack_value", "handle")

    @staticmethod
    def _buffer(name: str, dtype: str, size: IntImm) -> Buffer:
        return buffer_on(Var(name, PointerType(PrimType(dtype))), (size,), dtype)

    def take(self, kind: str, count: int) -> int:
        """Room for `count` more; gives where it begins."""
        begin = self.used[kind]
        self.used[kind] += count
        self.most[kind] = max(self.most[kind], self.used[kind])
        return begin

    def around(self, body: Stmt) -> Stmt:
        """`body` with the stacks that it uses."""
        if self.has_shapes:
            body = LetStmt(self.shapes.data, alloca("shape", self.most["shape"]), body)
        if self.most["array"]:
            body = LetStmt(self.arrays, alloca("array", self.most["array"]), body)
        if self.most["argument"]:
            body = LetStmt(self.values, alloca("arg_value", self.most["argument"]), body)
            body = LetStmt(self.codes.data, alloca("arg_tcode", self.most["argument"]), body)
        return body


class _Lowering(Mutator):
    """`device_type` and `device_id` are those of the memory; None if they are not known."""

    def __init__(self, device_type: PrimExpr | None) -> None:
        self.device_type, self.device_id = device_type, None if device_type is None else IntImm("int32", 0)
        self.stacks = _Stacks(dict.fromkeys(_STACKS, 0))
        self.before: list[list[Stmt]] = []

    def scope(self, body: Stmt) -> Stmt:
        """`body` with stacks of its own. It is rewritten twice: their sizes are known after the first time."""
        outer = self.stacks
        self.stacks = _Stacks(dict.fromkeys(_STACKS, 0))
        new = self.visit(body)
        if any(self.stacks.most.values()):
            self.stacks = _Stacks(self.stacks.most)
            new = self.visit(body)
        new = self.stacks.around(new)
        self.stacks = outer
        return new

    # ------------------------------------------------------------------ statements

    def _prepared(self, node: Stmt, rewrite: Callable[[Any], Stmt]) -> Stmt:
        """What `rewrite` makes of `node`, behind the stores for the calls in its own expressions."""
        self.before.append([])
        new = rewrite(node)
        stores = self.before.pop()
        if not stores:
            return new
        note("packed call", f"{len(stores)} stores put its arguments on the stack", node=node)
        return SeqStmt([*stores, *(new.seq if isinstance(new, SeqStmt) else (new,))])

    @handles(Evaluate, BufferStore, LetStmt, IfThenElse)
    def statement(self, node: Stmt) -> Stmt:
        return self._prepared(node, self.visit_children)

    @handles(While)
    def repeated(self, node: While) -> Stmt:
        self.before.append([])
        new = self.visit_children(node)
        if self.before.pop():
            raise TVMagicError(
                "the condition of a `while` cannot be a packed call: its stores would run once", node=node
            )
        return new

    @handles(For)
    def loop(self, node: For) -> Stmt:
        if node.kind != ForKind.PARALLEL:
            return self._prepared(node, self.visit_children)
        body = self.scope(node.body)
        return self._prepared(node, lambda n: n.with_(min=self.visit(n.min), extent=self.visit(n.extent), body=body))

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> Stmt:
        if node.attr_key not in ("device_type", "device_id"):
            return self._prepared(node, self.visit_children)
        outer = getattr(self, node.attr_key)
        setattr(self, node.attr_key, node.value)
        body = self.visit(node.body)
        setattr(self, node.attr_key, outer)
        return body

    # ------------------------------------------------------------------ calls

    @handles(Call)
    def call(self, node: Call) -> PrimExpr:
        rule = _RULES.get(node.op.name) if isinstance(node.op, Op) else None
        return self.visit_children(node) if rule is None else rule(self, node)

    def packed(self, node: Call, lowered: str, last: bool) -> PrimExpr:
        """A call by the stacks; `last`: its last argument is handed on besides; a C function's own arguments end in front of it."""
        stacks, before = self.stacks, self.before[-1]
        in_use = dict(stacks.used)
        c_function = lowered == "tir.tvm_call_cpacked_lowered"
        count = len(node.args) - 1 - (c_function and last)
        begin = stacks.take("argument", count + 1 - (last and not c_function))  # one for the result
        args = self.visit_children(node).args
        for k, arg in enumerate(args[1 : count + 1]):
            self._put(begin + k, arg, before)
        end = begin + count
        given: list[PrimExpr] = [
            args[0],
            stacks.values,
            stacks.codes.data,
            IntImm("int32", begin),
            IntImm("int32", end),
        ]
        if last:
            given.append(StringImm(args[-1].name) if c_function and isinstance(args[-1], Var) else args[-1])
        stacks.used = in_use
        return Call(node.dtype, Op.get(lowered), given, node.span)

    def _put(self, place: int, arg: PrimExpr, before: list[Stmt]) -> None:
        """Store one argument, as 64 bits, with the code of its type."""
        dtype, codes = arg.dtype, self.stacks.codes
        if dtype.is_handle:
            code = TEXT if isinstance(arg, StringImm) else ARRAY if _is_array(arg) else HANDLE
        elif dtype.is_bool:
            code = BOOL
        else:
            code = FLOAT if dtype.is_float else INT
            arg = converted(DataType("float64" if dtype.is_float else "int64"), arg)
        before.append(set_field(self.stacks.values, place, CONTENT, arg))
        stored = BufferStore(codes, IntImm("int32", code), [place])
        if code == HANDLE:
            stored = IfThenElse(isnullptr(arg), BufferStore(codes, IntImm("int32", NULL), [place]), stored)
        before.append(stored)

    def shape(self, node: Call) -> PrimExpr:
        """The sizes of an array, one after the other on their stack; gives where they begin."""
        stacks, before = self.stacks, self.before[-1]
        stacks.has_shapes = True
        begin = stacks.take("shape", len(node.args))
        for k, size in enumerate(self.visit_children(node).args):
            before.append(BufferStore(stacks.shapes, cast("int64", size), [begin + k]))
        return address_of(BufferLoad(stacks.shapes, [begin]))

    def array(self, node: Call) -> PrimExpr:
        """A descriptor of an array on its stack; gives its address."""
        stacks, before = self.stacks, self.before[-1]
        index = stacks.take("array", 1)
        data, shape, strides, ndim, zero, offset = self.visit_children(node).args
        if self.device_type is None or self.device_id is None:
            raise TVMagicError("the device of an array that is passed on is not known", node=node, hint=_HINT)
        if isinstance(strides, IntImm):
            strides = Call("handle", "tir.reinterpret", (IntImm("uint64", 0),))
        fields = [(DATA, data), (SHAPE, shape), (STRIDES, strides), (NDIM, ndim), *type_fields(zero.dtype)]
        fields.append((BYTE_OFFSET, cast("uint64", offset * IntImm(offset.dtype, zero.dtype.bytes))))
        fields += [(DEVICE_ID, cast("int32", self.device_id)), (DEVICE_TYPE, cast("int32", self.device_type))]
        before += [set_field(stacks.arrays, index, field, value) for field, value in fields]
        return field_of(stacks.arrays, ADDRESS, "handle", index)

    # ------------------------------------------------------------------ memory

    @handles(Allocate)
    def allocate(self, node: Allocate) -> Stmt:
        new = self._prepared(node, self.visit_children)
        if not isinstance(new, Allocate):  # stores for its sizes are in front of it
            raise TVMagicError("the size of an allocation cannot be a packed call", node=node)
        kind: Any = new.buffer_var.type_annotation
        device, bytes_ = self.device_type, new.dtype.bytes
        on_cpu = isinstance(device, IntImm) and device.value == CPU and kind.storage_scope in ("", "global")
        constant = math.prod(e.value if isinstance(e, IntImm) else 0 for e in new.extents)
        if kind.storage_scope not in ("", "global") or on_cpu and 0 < constant * bytes_ < MAX_ON_STACK:
            return new
        if device is None or self.device_id is None:
            what = "device type" if device is None else "device id"
            raise TVMagicError(f"Unknown {what} in current IR: memory cannot be allocated", node=node, hint=_HINT)
        return self._from_runtime(new, (cast("int32", device), cast("int32", self.device_id)))

    def _from_runtime(self, node: Allocate, device: tuple[PrimExpr, PrimExpr]) -> Stmt:
        """Memory by two calls of the runtime, which may fail."""
        size: PrimExpr = IntImm("uint64", node.dtype.bytes)
        for extent in node.extents:
            size = size * cast("uint64", extent)
        code = IntImm("int32", type_fields(node.dtype)[0][1].value)
        args = (*device, size, code, IntImm("int32", node.dtype.bits))
        memory = Call(node.buffer_var.dtype, "tir.TVMBackendAllocWorkspace", args)
        free = Call("int32", "tir.TVMBackendFreeWorkspace", (*device, node.buffer_var))
        failed = Evaluate(Call("int32", "tir.tvm_throw_last_error", ()))
        body, declarations = node.body, list[Nest]()
        while isinstance(body, DeclBuffer):  # nothing can be used behind what frees it
            declarations.append(declared(body.buffer))
            body = body.body
        freed = IfThenElse(not_equal(free, IntImm("int32", 0)), failed)
        body = nested(declarations, SeqStmt([*_parts(body), freed]))
        body = SeqStmt([IfThenElse(isnullptr(node.buffer_var), failed), *_parts(body)])
        body = with_attribute(node.buffer_var, "storage_alignment", IntImm("int32", ALIGNMENT))(body)
        note("memory", f"`{node.buffer_var.name}` comes from the runtime", node=node)
        return LetStmt(node.buffer_var, memory, body)


_HINT = "the attributes `device_type` and `device_id` around it, or the function's target, say which it is"


def _parts(stmt: Stmt) -> Sequence[Stmt]:
    return stmt.seq if isinstance(stmt, SeqStmt) else (stmt,)


def _is_array(arg: Node) -> bool:
    """Whether `arg` is the address of a descriptor."""
    return (
        isinstance(arg, Call)
        and arg.op is Op.get("tir.tvm_struct_get")
        and isinstance(arg.args[2], IntImm)
        and arg.args[2].value == ADDRESS
    )


_RULES: dict[str, Callable[[_Lowering, Call], PrimExpr]] = {
    "tir.tvm_call_packed": lambda self, node: self.packed(node, "tir.tvm_call_packed_lowered", last=False),
    "tir.tvm_call_cpacked": lambda self, node: self.packed(node, "tir.tvm_call_cpacked_lowered", last=True),
    "tir.tvm_call_trace_packed": lambda self, node: self.packed(node, "tir.tvm_call_trace_packed_lowered", last=True),
    "tir.tvm_stack_make_shape": _Lowering.shape,
    "tir.tvm_stack_make_array": _Lowering.array,
}


@tir_pass("tir.LowerTVMBuiltin")
def LowerTVMBuiltin(func: PrimFunc) -> PrimFunc:
    """Put the arguments of packed calls on stacks, and let the runtime give memory that is large or on a device.

    A packed call becomes a lowered one, which names the stacks and the part of them that holds its arguments; the
    result of the function goes behind these. Code generation needs no such pass: it takes packed calls and memory as
    they are. Raises `TVMagicError` if memory is needed of a device that nothing names, and for packed calls in the
    condition of a `while` or the size of an allocation.
    """
    target = func.attrs.get("target")
    device = None if target is None else IntImm("int32", target.get_target_device_type())
    return func.with_body(_Lowering(device).scope(func.body))
