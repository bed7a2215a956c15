"""Programs that code generation refuses."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from handmade import function, module
from test_numerics import edge_values

from tvmagic import codegen, ir, tir
from tvmagic.errors import BuildError
from tvmagic.script import from_source

EIGHT = ir.Ramp(0, 1, 8)


HEAD = "from tvm.script import tir as T\n\n@T.prim_func\n"


def call(name: str, *args: Any, dtype: str = "") -> ir.Call:
    return ir.Call(dtype or args[0].dtype, f"tir.{name}", list(args))


def kernel(body: str, memory: str = "") -> str:
    """OpenCL C of a function of two arrays of 64 and a number, on two threads."""
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    head = f"{HEAD}def main(A: T.Buffer((64,), 'float32'), B: T.Buffer((64,), 'float32'), n: T.int32):\n{memory}"
    text = f"{head}    with T.launch_thread('threadIdx.x', 2) as tx:\n{lines}"
    return codegen.assembly(from_source(text), "opencl")


def test_predicated_gather_is_refused() -> None:
    x, places = ir.decl_buffer((64,), "float32x4", "X"), ir.decl_buffer((8,), "int32", "P")
    mask = EIGHT < ir.Broadcast(ir.IntImm("int32", 3), 8)
    body = ir.BufferStore(x, ir.Broadcast(tir.FloatImm("float32", 1.0), 32), [places[EIGHT]], mask)
    with pytest.raises(BuildError):
        codegen.compile_module(module(body, x, places))


def test_call_of_unknown_function_is_refused() -> None:
    """Whatever variable names it: a module that was read has others than the one that was printed."""
    y = ir.decl_buffer((1,), "int32", "Y")
    v = ir.Var("v", "int32")
    helper = tir.PrimFunc([v], tir.Evaluate(tir.ret(v + 1)), attrs={"global_symbol": "helper"})
    for named, works in (("helper", True), ("other", False)):
        main = function(ir.BufferStore(y, ir.Call("int32", ir.GlobalVar(named), [ir.IntImm("int32", 4)]), [0]), y)
        mod = ir.IRModule({ir.GlobalVar("main"): main, ir.GlobalVar("helper"): helper})
        if works:
            out = np.zeros(1, "int32")
            codegen.compile_module(mod)["main"](out)
            assert out[0] == 5
        else:
            with pytest.raises(BuildError):
                codegen.compile_module(mod)


@pytest.mark.parametrize(("most", "fits"), [(64, True), (1 << 12, True), (1 << 24, False)])
def test_shared_memory_of_unknown_size_is_refused(most: int, fits: bool) -> None:
    """It has the largest size, if that is known and small."""
    body = (
        f"for i in range(3):\n    S = T.allocate([T.min(i * n * n, {most})], 'float32', 'shared')\n"
        "    S_1 = T.Buffer((1,), data=S, scope='shared')\n    S_1[0] = A[tx]\n    B[tx] = S_1[0]"
    )
    if fits:
        found = re.search(r"__local float \w+\[(\d+)\]", kernel(body))
        assert found and int(found[1]) == most
    else:
        with pytest.raises(BuildError):
            kernel(body)


@pytest.mark.parametrize("dtype", ["bool", "bfloat16", "float32x4", "handle"])
def test_atomic_add_refuses_type(dtype: str) -> None:
    x = ir.decl_buffer((8,), "float32", "X")
    others = [] if dtype == "handle" else [ir.decl_buffer((8,), dtype, "V")]
    added = ir.Call(dtype, "tir.atomic_add", [x.access_ptr("rw"), others[0][0] if others else x.data])
    with pytest.raises(BuildError):
        codegen.llvm_ir(module(tir.Evaluate(added), x, *others), "llvm -mcpu=haswell", False)


@pytest.mark.parametrize("target", ["llvm -mcpu=haswell", "opencl"])
@pytest.mark.parametrize(
    ("q", "s", "works"),
    [
        (1, 0, True),
        (63, 0, True),
        (31, 63, True),
        (0, -1, True),
        (62, -1, True),
        (0, 0, False),
        (0, 3, False),
        (-1, 0, False),
        (64, 0, False),
        (63, -1, False),
        (31, 64, False),
        (1 << 20, 2, False),
    ],
)
def test_fixed_point_shift_refuses_more_than_64_bits(q: int, s: int, works: bool, target: str) -> None:
    x = ir.decl_buffer((1,), "int32", "X")
    asked = call("q_multiply_shift", x[0], x[0], ir.IntImm("int32", q), ir.IntImm("int32", s))
    made = _launched(ir.BufferStore(x, asked, [0]), x)
    if works:
        assert codegen.assembly(made, target)
    else:
        with pytest.raises(BuildError):
            codegen.assembly(made, target)


def _launched(body: Any, *buffers: Any) -> Any:
    tx = tir.IterVar(None, ir.Var("tx", "int32"), tir.IterVar.ThreadIndex, "threadIdx.x")
    return module(tir.AttrStmt(tx, "thread_extent", ir.IntImm("int32", 4), body), *buffers)


def test_shared_memory_needs_constant_size() -> None:
    body = "    S = T.allocate([{}], 'float32', 'shared')\n        S_1 = T.Buffer((1,), data=S, scope='shared')\n        S_1[0] = A[tx]\n        A[tx] = S_1[0]"
    head = f"{HEAD}def main(A: T.Buffer((64,), 'float32'), n: T.int32):\n    with T.launch_thread('threadIdx.x', 2) as tx:\n    "
    assert "addrspace(3) global [12 x float]" in codegen.llvm_ir(from_source(head + body.format(12)), "nvptx", False)
    with pytest.raises(BuildError):
        codegen.llvm_ir(from_source(head + body.format("n")), "nvptx", False)
    with pytest.raises(BuildError):
        codegen.llvm_ir(from_source(head + body.format("n").replace("shared", "local")), "nvptx", False)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "bool", "float32", "float64", "int8"])
def test_call_with_wrong_arguments_is_refused(dtype: str) -> None:
    y, v = ir.decl_buffer((1,), dtype, "Y"), ir.Var("v", dtype)
    x = ir.decl_buffer((1,), dtype, "X")
    helper = function(ir.BufferStore(y, v, [0]), y, scalars=(v,), name="helper")
    passed = tir.Evaluate(ir.Call("int32", ir.GlobalVar("helper"), [y.data, x[0]]))
    mod = ir.IRModule({ir.GlobalVar("main"): function(passed, x, y), ir.GlobalVar("helper"): helper})
    with pytest.raises(BuildError):
        bad = function(tir.Evaluate(ir.Call("int32", ir.GlobalVar("helper"), [y.data])), x, y)
        codegen.compile_module(ir.IRModule({ir.GlobalVar("main"): bad, ir.GlobalVar("helper"): helper}))
    built = codegen.compile_module(mod)
    for value in edge_values(dtype):
        given, out = np.array([value]), np.zeros(1, edge_values(dtype).dtype)
        built["main"](given, out)
        assert given.tobytes() == out.tobytes()


def stack(kind: Any, count: Any) -> ir.Call:
    return ir.Call("handle", "tir.tvm_stack_alloca", [kind, count])


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        (ir.StringImm("bytes"), ir.IntImm("int32", 1)),
        (ir.IntImm("int32", 1), ir.IntImm("int32", 1)),
        (ir.StringImm("shape"), ir.Var("n", "int32")),
        (ir.StringImm("bytes"), ir.Var("n", "int32")),
    ],
)
def test_stack_allocation_refuses_unknown_kind(kind: Any, count: Any) -> None:
    made = module(tir.Evaluate(stack(kind, count)), scalars=() if isinstance(count, ir.IntImm) else (count,))
    with pytest.raises(BuildError):
        codegen.llvm_ir(made, "llvm -mcpu=haswell", False)


@pytest.mark.parametrize("field", [-1, 11, 13, "n"])
def test_unknown_descriptor_field_is_refused(field: int | str) -> None:
    place = ir.Var("p", "handle")
    number = ir.Var(field, "int32") if isinstance(field, str) else ir.IntImm("int32", field)
    at = [place, ir.IntImm("int32", 0), number]
    read, written = ir.Call("int32", "tir.tvm_struct_get", at), ir.Call("int32", "tir.tvm_struct_set", [*at, 1])
    for call in (read, written):
        with pytest.raises(BuildError):
            codegen.llvm_ir(module(tir.Evaluate(call), scalars=(place,)), "llvm -mcpu=haswell", False)


HEAD_2 = (
    "from tvm.script import tir as T\n\n@T.prim_func\ndef main(A: T.Buffer((64,), '{}'), B: T.Buffer((64,), '{}')):\n"
)


def text(body: str, target: str = "opencl", dtype: str = "float32") -> str:
    return codegen.assembly(from_source(HEAD_2.format(dtype, dtype) + body), target)


@pytest.mark.parametrize(
    "body",
    [
        "    B[0:2] = T.Shuffle([A[0:2]], [0, 2])",
        "    B[0:2] = T.Shuffle([A[0:2]], [-1, 1])",
        "    S = T.allocate([4], 'float32x2', 'local')\n    T.evaluate(0)",
        "    S = T.allocate([4], 'float32', 'warp')\n    T.evaluate(0)",
        "    T.evaluate(T.ret(1))",
    ],
)
def test_opencl_refuses_unsupported_operators(body: str) -> None:
    launched = "    with T.launch_thread('threadIdx.x', 2) as tx:\n" + "".join(
        f"    {line}\n" for line in body.splitlines()
    )
    with pytest.raises(BuildError):
        text(launched)
