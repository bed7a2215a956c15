"""Code of operators and statements that lowered cells seldom have, each against NumPy or as text."""

from __future__ import annotations

import os
import pathlib
import re
from typing import Any

import numpy as np
import pytest
from handmade import function, loop, module
from test_numerics import LANES, assert_same, edge_values, pairs, run

from tvmagic import codegen, tir
from tvmagic.codegen.intervals import Intervals
from tvmagic.codegen.unsafe_loads import needs_mask
from tvmagic.errors import BuildError, TVMagicError
from tvmagic.ir import (
    Broadcast,
    BufferLoad,
    BufferStore,
    Call,
    GlobalVar,
    IntImm,
    IRModule,
    Ramp,
    StringImm,
    decl_buffer,
)
from tvmagic.ir.expr import Var
from tvmagic.script import from_source
from tvmagic.target import Target, check, host, machine

WASM = "llvm -mtriple=wasm32-unknown-unknown -mattr=+simd128"
EIGHT = Ramp(0, 1, 8)
HEAD = "from tvm.script import tir as T\n\n@T.prim_func\n"


def call(name: str, *args: Any, dtype: str = "") -> Call:
    return Call(dtype or args[0].dtype, f"tir.{name}", list(args))


def kernel(body: str, memory: str = "") -> str:
    """OpenCL C of a function of two arrays of 64 and a number, on two threads."""
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    head = f"{HEAD}def main(A: T.Buffer((64,), 'float32'), B: T.Buffer((64,), 'float32'), n: T.int32):\n{memory}"
    text = f"{head}    with T.launch_thread('threadIdx.x', 2) as tx:\n{lines}"
    return codegen.assembly(from_source(text), "opencl")


# ---------------------------------------------------------------------------- operators


@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_functions_of_floats_on_integers(dtype: str, lanes: int) -> None:
    a, b = pairs(dtype)
    with np.errstate(over="ignore"):
        assert_same(run(lambda x: call("fabs", x), [dtype], dtype, [a], lanes), np.abs(a))
        assert_same(run(lambda x, y: call("fma", x, y, x), [dtype] * 2, dtype, [a, b], lanes), a * b + a)
    whole = ("floor", "ceil", "trunc", "round", "nearbyint", "likely")
    for name in whole if dtype == "int8" else whole[:1]:
        assert_same(run(lambda x, name=name: call(name, x), [dtype], dtype, [a], lanes), a)
    with pytest.raises(BuildError, match="`sqrt` takes floats, not `"):
        run(lambda x: call("sqrt", x), [dtype], dtype, [a], lanes)


@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_kinds_of_floats(dtype: str, lanes: int) -> None:
    """As operators of their own; `tir.isinf` makes an expression of others."""
    values = np.resize(edge_values(dtype), 16)
    flags = "bool" if lanes == 1 else f"boolx{lanes}"
    for name, meaning in (("isinf", np.isinf), ("isfinite", np.isfinite), ("isnan", np.isnan)):
        found = run(lambda x, name=name: call(name, x, dtype=flags), [dtype], "bool", [values], lanes)
        assert_same(found, meaning(values.astype("float64")))


@pytest.mark.parametrize("name", ["isinf", "isfinite"])
@pytest.mark.parametrize(
    ("dtype", "target", "wide"),
    [("float16", WASM, True), ("float32", WASM, False), ("float16", "llvm -mcpu=haswell", False), ("bfloat16", "llvm -mcpu=haswell", True)],
)  # fmt: skip
def test_where_halves_are_compared_as_wider_numbers(dtype: str, target: str, wide: bool, name: str) -> None:
    x, y = decl_buffer((8,), dtype, "X"), decl_buffer((8,), "bool", "Y")
    text = codegen.llvm_ir(module(BufferStore(y, call(name, x[3], dtype="bool"), [3]), x, y), target, False)
    kind = "float" if wide or dtype == "float32" else "half"
    assert re.search(rf"fcmp {'oeq' if name == 'isinf' else 'one'} {kind} ", text)


def test_what_is_assumed_is_told_to_llvm() -> None:
    """But not of lanes, nor if what the program does is checked."""
    x = decl_buffer((8,), "float32", "X")
    n = Var("n", "int32")
    flag = n < 8
    for condition, check_bounds, told in ((flag, False, True), (flag, True, False), (Broadcast(flag, 4), False, False)):
        assumed = tir.Evaluate(Call("bool", "tir.assume", [condition]))
        made = module(tir.SeqStmt([assumed, BufferStore(x, 1.0, [n])]), x, scalars=(n,))
        text = codegen.llvm_ir(made, "llvm -mcpu=haswell", False, check_bounds)
        assert ("call void @llvm.assume" in text) is told
    built = codegen.compile_module(module(tir.SeqStmt([tir.Evaluate(call("assume", flag, dtype="bool")), BufferStore(x, 1.0, [n])]), x, scalars=(n,)))  # fmt: skip
    out = np.zeros(8, "float32")
    built(out, 5)
    assert out.tolist() == [0, 0, 0, 0, 0, 1, 0, 0]


def test_blocks_of_memory_without_a_process() -> None:
    """WebAssembly has instructions for what are functions of C elsewhere."""
    x, y = decl_buffer((8,), "int8", "X"), decl_buffer((8,), "int8", "Y")
    count = IntImm("int32", 8)
    calls = [
        Call("handle", "tir.call_extern", [StringImm("memcpy"), y.access_ptr("w"), x.access_ptr("r"), count]),
        Call("int32", "tir.call_extern", [StringImm("memmove"), y.access_ptr("w"), x.access_ptr("r"), count]),
        Call("int32", "tir.call_extern", [StringImm("memset"), y.access_ptr("w"), IntImm("int32", 7), count]),
        Call("int32", "tir.call_extern", [StringImm("memset"), y.access_ptr("w"), IntImm("int8", 7), count]),
    ]
    text = codegen.llvm_ir(module(tir.SeqStmt([tir.Evaluate(c) for c in calls]), x, y), WASM, False)
    lines = [line.strip() for line in text.splitlines() if "@llvm.mem" in line and "call" in line]
    place = r"ptr (nonnull )?%[\w.]+"
    for line, wanted in zip(
        lines,
        [rf"memcpy\.p0\.p0\.i32\({place}, {place}, i32 8, i1 false\)", rf"memmove\.p0\.p0\.i32\({place}, {place}, i32 8, i1 false\)",
         rf"memset\.p0\.i32\({place}, i8 %[\w.]+, i32 8, i1 false\)", rf"memset\.p0\.i32\({place}, i8 7, i32 8, i1 false\)"],
        strict=True,
    ):  # fmt: skip
        assert re.search(wanted, line), line
    assert text.count("trunc i32 7 to i8") == 1
    plain = codegen.llvm_ir(module(tir.Evaluate(calls[0]), x, y), "llvm -mcpu=haswell", False)
    assert "@llvm.memcpy" not in plain and "@memcpy(" in plain


def test_the_value_of_a_block_of_memory_is_its_pointer() -> None:
    x, y = decl_buffer((8,), "int8", "X"), decl_buffer((8,), "int8", "Y")
    copied = Call(
        "handle", "tir.call_extern", [StringImm("memcpy"), y.access_ptr("w"), x.access_ptr("r"), IntImm("int32", 8)]
    )
    text = codegen.llvm_ir(module(tir.Evaluate(call("isnullptr", copied, dtype="bool")), x, y), WASM, False)
    asked = re.search(r"icmp eq ptr (%[\w.]+), null", text)
    assert asked and re.search(rf"memcpy\.p0\.p0\.i32\(ptr {re.escape(asked[1])}, ", text)


@pytest.mark.parametrize("op", [tir.FloorDiv, tir.FloorMod, tir.Mod, tir.Div])
def test_quotients_of_bools(op: Any) -> None:
    """As NumPy's of bytes of 0 and 1: by nothing it is nothing."""
    a, b = np.resize([False, True, False, True], 8), np.resize([False, False, True, True], 8)
    for lanes in (1, LANES):
        found = run(lambda x, y: op(x, y), ["bool", "bool"], "bool", [a, b], lanes)
        assert_same(found, a & b if op in (tir.FloorDiv, tir.Div) else np.zeros(8, bool))


# ---------------------------------------------------------------------------- places


@pytest.mark.parametrize("check_bounds", [False, True])
@pytest.mark.parametrize("strides", [(), (16, 2), (20, -2)])
def test_lanes_of_a_buffer_of_two_dimensions(strides: tuple[int, ...], check_bounds: bool) -> None:
    """Before their indices are made one."""
    x = decl_buffer((3, 8), "float32", "X", strides=strides)
    y = decl_buffer((3, 8), "float32", "Y")
    memory = np.arange(80, dtype="float32")
    lanes = Ramp(1, 2, 3)
    body = loop(3, lambda i: BufferStore(y, x[i, lanes], [i, lanes]))
    row, step = strides or (8, 1)
    view = np.lib.stride_tricks.as_strided(memory[14 if step < 0 else 0 :], (3, 8), (row * 4, step * 4))
    out = np.zeros((3, 8), "float32")
    codegen.compile_module(module(body, x, y), check_bounds=check_bounds)(view, out)
    wanted = np.zeros((3, 8), "float32")
    wanted[:, 1:7:2] = view[:, 1:7:2]
    np.testing.assert_array_equal(out, wanted)


def test_one_element_for_all_lanes() -> None:
    x, y = decl_buffer((8,), "float32", "X"), decl_buffer((8,), "float32", "Y")
    body = BufferStore(y, x[Broadcast(IntImm("int32", 5), 8)], [EIGHT])
    values = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(codegen.compile_module(module(body, x, y))(values), np.full(8, 5, "float32"))
    assert "llvm.masked.gather" not in codegen.llvm_ir(module(body, x, y), "llvm -mcpu=haswell", False)
    mask = EIGHT < Broadcast(IntImm("int32", 3), 8)
    some = BufferStore(y, BufferLoad(x, [Broadcast(IntImm("int32", 5), 8)], mask), [EIGHT])
    np.testing.assert_array_equal(codegen.compile_module(module(some, x, y))(values), [5, 5, 5, 0, 0, 0, 0, 0])


def test_lanes_at_a_distance_that_a_variable_says() -> None:
    n, y = Var("n", "int32"), decl_buffer((8,), "int32", "Y")
    body = BufferStore(y, Ramp(IntImm("int32", 3), n, 8), [EIGHT])
    out = np.zeros(8, "int32")
    codegen.compile_module(module(body, y, scalars=(n,)))(out, -2)
    np.testing.assert_array_equal(out, 3 - 2 * np.arange(8))


def test_vectors_at_scattered_places_have_no_mask() -> None:
    x, places = decl_buffer((64,), "float32x4", "X"), decl_buffer((8,), "int32", "P")
    mask = EIGHT < Broadcast(IntImm("int32", 3), 8)
    body = BufferStore(x, Broadcast(tir.FloatImm("float32", 1.0), 32), [places[EIGHT]], mask)
    with pytest.raises(BuildError, match="buffer `X` of vectors cannot be accessed with a mask at scattered places"):
        codegen.compile_module(module(body, x, places))


# ---------------------------------------------------------------------------- functions


def test_a_function_is_called_by_its_name() -> None:
    """Whatever variable names it: a module that was read has others than the one that was printed."""
    y = decl_buffer((1,), "int32", "Y")
    v = Var("v", "int32")
    helper = tir.PrimFunc([v], tir.Evaluate(tir.ret(v + 1)), attrs={"global_symbol": "helper"})
    for named, works in (("helper", True), ("other", False)):
        main = function(BufferStore(y, Call("int32", GlobalVar(named), [IntImm("int32", 4)]), [0]), y)
        mod = IRModule({GlobalVar("main"): main, GlobalVar("helper"): helper})
        if works:
            out = np.zeros(1, "int32")
            codegen.compile_module(mod)["main"](out)
            assert out[0] == 5
        else:
            with pytest.raises(BuildError, match="the module has no function `other`"):
                codegen.compile_module(mod)


def test_a_call_of_the_module_is_only_made_if_its_side_is_taken() -> None:
    y = decl_buffer((1,), "int32", "Y")
    v, n = Var("v", "int32"), Var("n", "int32")
    stops = tir.AssertStmt(v > 0, StringImm("too small"), tir.Evaluate(tir.ret(v + 1)))
    helper = tir.PrimFunc([v], stops, attrs={"global_symbol": "helper"})
    value = tir.if_then_else(n > 0, Call("int32", GlobalVar("helper"), [n]), IntImm("int32", -7))
    mod = IRModule(
        {GlobalVar("main"): function(BufferStore(y, value, [0]), y, scalars=(n,)), GlobalVar("helper"): helper}
    )
    built, out = codegen.compile_module(mod), np.zeros(1, "int32")
    found = []
    for number in (0, 3):
        built["main"](out, number)
        found.append(int(out[0]))
    assert found == [-7, 4]


@pytest.mark.parametrize(("width", "least"), [(128, 0), (256, 2), (512, 4), (2048, 16)])
def test_a_processor_is_asked_whether_its_vectors_are_long_enough(width: int, least: int) -> None:
    x = decl_buffer((8,), "float32", "X")
    target = f"llvm -mtriple=aarch64-linux-gnu -mattr=+sve -vector-width={width}"
    text = codegen.llvm_ir(module(BufferStore(x, 1.0, [0]), x), target, False)
    assert re.findall(r"icmp uge i64 %\w+, (\d+)", text) == ([str(least)] if least else [])


# ---------------------------------------------------------------------------- loads and masks


def test_loads_that_need_a_mask() -> None:
    """Unless the condition does them in any case, of which up to seven are looked for."""
    i, k = Var("i", "int32"), Var("k", "int32")
    intervals = Intervals()
    intervals.known[i] = (0, 7)
    x, flags = decl_buffer((8,), "float32", "X"), decl_buffer((8,), "bool", "F")
    inside, outside = x[i], x[k]
    zero = tir.FloatImm("float32", 0.0)
    chosen = tir.if_then_else(flags[k], outside, zero)

    def needs(side: Any, condition: Any) -> bool:
        return needs_mask(side, condition, intervals, {})

    assert not needs(inside, k < 8) and needs(outside, k < 8)
    assert not needs(outside, x[k] > zero) and needs(outside, tir.And(k < 8, x[k] > zero))
    assert not needs(outside, tir.And(x[k] > zero, k < 8)) and needs(outside, tir.Or(k < 8, x[k] > zero))
    assert needs(outside, chosen > zero) and not needs(flags[k], chosen > zero)
    assert needs(outside, tir.Select(k < 8, outside, zero) > zero) and not needs(
        outside, tir.Select(outside > zero, zero, zero) > zero
    )
    assert not needs(outside, call("fabs", outside) > zero)
    assert needs(outside, BufferLoad(x, [k], IntImm("bool", 1)) > zero)

    def several(count: int) -> Any:
        total: Any = x[k]
        for n in range(1, count):
            total = total + x[k + n]
        return total

    assert not needs(several(7), several(7) > zero) and needs(several(8), several(8) > zero)


# ---------------------------------------------------------------------------- OpenCL C


def test_branches_and_loops_of_a_kernel() -> None:
    text = kernel(
        "if tx < n:\n    B[tx] = A[tx]\nelse:\n    B[tx] = T.float32(2)\nwhile B[tx] < A[0]:\n    B[tx] = B[tx] + T.float32(1)"
    )
    lines = [line.strip() for line in text.splitlines()]
    taken = next(n for n, line in enumerate(lines) if line.startswith("if (") and "break" not in line)
    assert (
        "A[" in lines[taken + 1] and lines[taken + 2 : taken + 4] in (["}", "else {"], ["} else {"]) or "else {" in text
    )
    assert re.search(r"else \{\s*B\[\w+\] = 2\.0f;", text)
    assert re.search(r"while \(true\) \{\s*if \(!\(.*\)\) break;\s*B\[", text)


@pytest.mark.parametrize(("most", "fits"), [(64, True), (1 << 12, True), (1 << 24, False)])
def test_shared_memory_whose_size_a_kernel_computes(most: int, fits: bool) -> None:
    """It has the largest size, if that is known and small."""
    body = (
        f"for i in range(3):\n    S = T.allocate([T.min(i * n * n, {most})], 'float32', 'shared')\n"
        "    S_1 = T.Buffer((1,), data=S, scope='shared')\n    S_1[0] = A[tx]\n    B[tx] = S_1[0]"
    )
    if fits:
        found = re.search(r"__local float \w+\[(\d+)\]", kernel(body))
        assert found and int(found[1]) == most
    else:
        with pytest.raises(BuildError, match="the size of `S_1` in shared memory depends on what the kernel computes"):
            kernel(body)


def test_lanes_of_a_kernel_that_are_off_read_zero() -> None:
    x, y = decl_buffer((8,), "float32", "X"), decl_buffer((8,), "float32", "Y")
    tx = tir.IterVar(None, Var("tx", "int32"), tir.IterVar.ThreadIndex, "threadIdx.x")
    mask = Ramp(tx.var, 1, 2) < Broadcast(IntImm("int32", 3), 2)
    load = BufferLoad(x, [Ramp(tx.var * 2, 1, 2)], mask)
    body = tir.AttrStmt(tx, "thread_extent", IntImm("int32", 4), BufferStore(y, load, [Ramp(tx.var * 2, 1, 2)]))
    text = codegen.assembly(module(body, x, y), "opencl")
    assert len(re.findall(r"\? X\[[^\]]*\] : 0\.0f\)", text)) == 2


def test_kernels_of_several_steps_get_what_they_use() -> None:
    """Variables that the host binds, and the other side of its branches."""
    text = f"""{HEAD}def main(A: T.Buffer((64,), 'float32'), B: T.Buffer((64,), 'float32'), n: T.int32):
    with T.LetStmt(n * 3) as m:
        if n < 5:
            with T.launch_thread('threadIdx.x', 2) as tx:
                B[tx] = A[tx] * T.Cast("float32", m)
        else:
            with T.launch_thread('threadIdx.x', 4) as tx:
                B[tx] = A[tx] + T.float32(1)"""
    made = codegen.assembly(from_source(text), "opencl")
    heads = re.findall(r"__kernel[^(]*\(([^)]*)\)", made)
    assert sorted("int m" in head for head in heads) == [False, True]


# ---------------------------------------------------------------------------- machines


def test_processors_are_counted_where_none_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    for counted, cores in ((6, 6), (1, 1), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda counted=counted: counted)
        assert machine._count.__wrapped__() == cores


def test_a_python_without_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    assert host.has_llvm.__wrapped__() is False


def test_a_target_or_the_one_that_is_entered() -> None:
    with pytest.raises(TVMagicError, match="Target is not set in env or passed as argument"):
        Target.target_or_current(None)
    with pytest.raises(TVMagicError, match="no target is entered"):
        Target.current(allow_none=False)
    with Target("cuda") as entered:
        assert Target.target_or_current(None) is entered and Target.target_or_current("opencl") == Target("opencl")


@pytest.mark.parametrize(("target", "stack"), [("llvm -mcpu=haswell", False), ("nvptx -arch=sm_70", True)])
def test_memory_of_a_thread_is_on_its_stack(target: str, stack: bool) -> None:
    """Whatever its size, where threads are launched; a processor's stack is for 32 KiB."""
    for count, small in ((8192, True), (8193, False)):
        text = f"""{HEAD}def main(A: T.Buffer((64,), 'float32')):
    with T.launch_thread('threadIdx.x', 2) as tx:
        S = T.allocate([{count}], 'float32', 'local')
        S_1 = T.Buffer(({count},), data=S, scope='local')
        S_1[{count - 1}] = A[tx]
        A[tx] = S_1[{count - 1}] + T.float32(1)"""
        made = codegen.llvm_ir(from_source(text), target, False)
        assert (f"alloca [{count} x float]" in made) is (stack or small)


@pytest.mark.parametrize(("args", "hints"), [([], "0, i32 3, i32 1"), ([1], "1, i32 3, i32 1"), ([0, 2], "0, i32 2, i32 1"), ([1, 0, 0], "1, i32 0, i32 0")])  # fmt: skip
def test_hints_of_a_prefetch(args: list[int], hints: str) -> None:
    """By default it is for a load, of data that stay in all caches."""
    x = decl_buffer((8,), "float32", "X")
    fetch = Call("void", "tir.prefetch", [tir.address_of(x[3]), *args])
    text = codegen.llvm_ir(module(tir.Evaluate(fetch), x), "llvm -mcpu=haswell", False)
    assert re.search(rf"call void @llvm\.prefetch\.p0\(ptr %\w+, i32 {hints}\)", text)


@pytest.mark.parametrize("dtype", ["bool", "bfloat16", "float32x4", "handle"])
def test_what_cannot_be_added_at_once(dtype: str) -> None:
    x = decl_buffer((8,), "float32", "X")
    others = [] if dtype == "handle" else [decl_buffer((8,), dtype, "V")]
    added = Call(dtype, "tir.atomic_add", [x.access_ptr("rw"), others[0][0] if others else x.data])
    with pytest.raises(BuildError, match=f"there is no atomic addition of values of type `{dtype}`"):
        codegen.llvm_ir(module(tir.Evaluate(added), x, *others), "llvm -mcpu=haswell", False)


@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize(("q", "s"), [(31, 0), (31, 1), (15, -3), (7, 2), (31, -1), (1, 0)])
def test_products_of_fixed_point_numbers(q: int, s: int, lanes: int) -> None:
    """round(x y 2^(s - q)), of numbers of which none is too large."""
    a = np.array([0, 1, -1, 5, 100, -100, 4000, -3999], "int32")
    b = np.array([1 << (q - 1), 1, 1 << (q - 1), 3, 1 << (q // 2), 77, 1 << (q - 1), 1], "int32")
    bits = [IntImm("int32", q), IntImm("int32", s)]
    found = run(lambda x, y: call("q_multiply_shift", x, y, *bits), ["int32", "int32"], "int32", [a, b], lanes)
    exact = [(int(x) * int(y) * 2 ** max(s, 0) + (1 << (q + max(-s, 0) - 1))) >> (q + max(-s, 0)) for x, y in zip(a, b)]
    np.testing.assert_array_equal(found, exact)
    for known in (bits[:1] + [Var("v", "int32")], [Var("v", "int32"), bits[1]]):
        x = decl_buffer((1,), "int32", "X")
        asked = call("q_multiply_shift", x[0], x[0], *known)
        for target in ("llvm -mcpu=haswell", "opencl"):
            with pytest.raises(BuildError, match="needs constant numbers of bits"):
                codegen.assembly(_launched(BufferStore(x, asked, [0]), x), target)


@pytest.mark.parametrize("target", ["llvm -mcpu=haswell", "opencl"])
@pytest.mark.parametrize(
    ("q", "s", "works"),
    [(1, 0, True), (63, 0, True), (31, 63, True), (0, -1, True), (62, -1, True), (0, 0, False), (0, 3, False), (-1, 0, False), (64, 0, False), (63, -1, False), (31, 64, False), (1 << 20, 2, False)],
)  # fmt: skip
def test_shifts_of_fixed_point_numbers_are_within_64_bits(q: int, s: int, works: bool, target: str) -> None:
    x = decl_buffer((1,), "int32", "X")
    asked = call("q_multiply_shift", x[0], x[0], IntImm("int32", q), IntImm("int32", s))
    made = _launched(BufferStore(x, asked, [0]), x)
    if works:
        assert codegen.assembly(made, target)
    else:
        with pytest.raises(BuildError, match="`q_multiply_shift` cannot move 64 bits by "):
            codegen.assembly(made, target)


def _launched(body: Any, *buffers: Any) -> Any:
    tx = tir.IterVar(None, Var("tx", "int32"), tir.IterVar.ThreadIndex, "threadIdx.x")
    return module(tir.AttrStmt(tx, "thread_extent", IntImm("int32", 4), body), *buffers)


@pytest.mark.parametrize(("q", "s", "left", "half", "right"), [(31, 1, " << 1", 1 << 30, 31), (31, 2, " << 2", 1 << 30, 31), (31, 0, "", 1 << 30, 31), (15, -3, "", 1 << 17, 18)])  # fmt: skip
def test_products_of_fixed_point_numbers_in_opencl(q: int, s: int, left: str, half: int, right: int) -> None:
    x, y = decl_buffer((1,), "int32", "X"), decl_buffer((1,), "int32", "Y")
    value = call("q_multiply_shift", x[0], y[0], IntImm("int32", q), IntImm("int32", s))
    text = codegen.assembly(_launched(BufferStore(y, value, [0]), x, y), "opencl")
    assert f"((int)((long)(((ulong)(long)X[0]{left}) * (ulong)(long)Y[0] + {half}UL) >> {right}));" in text


def test_hints_to_passes_are_no_code() -> None:
    """On a GPU a barrier is an instruction, on a CPU, on which threads have become loops, there is none."""
    x = decl_buffer((8,), "float32", "X")
    names = ("ignore_loop_partition", "end_of_function", "start_profile_intrinsic", "end_profile_intrinsic")
    hints = [tir.Evaluate(Call("void", f"tir.{name}", [])) for name in names]
    wait = tir.Evaluate(Call("void", "tir.tvm_storage_sync", [StringImm("shared")]))
    for target, barriers in (("nvptx -arch=sm_70", 1), ("llvm -mcpu=haswell", 0)):
        text = codegen.llvm_ir(_launched(tir.SeqStmt([*hints, wait, BufferStore(x, 1.0, [0])]), x), target, False)
        assert text.count("call void @llvm.nvvm.barrier0()") == barriers


def test_shared_memory_of_a_gpu_has_a_constant_size() -> None:
    body = "    S = T.allocate([{}], 'float32', 'shared')\n        S_1 = T.Buffer((1,), data=S, scope='shared')\n        S_1[0] = A[tx]\n        A[tx] = S_1[0]"
    head = f"{HEAD}def main(A: T.Buffer((64,), 'float32'), n: T.int32):\n    with T.launch_thread('threadIdx.x', 2) as tx:\n    "
    assert "addrspace(3) global [12 x float]" in codegen.llvm_ir(from_source(head + body.format(12)), "nvptx", False)
    with pytest.raises(BuildError, match="shared memory has constant sizes in PTX, that of `S"):
        codegen.llvm_ir(from_source(head + body.format("n")), "nvptx", False)
    with pytest.raises(BuildError, match="memory of a thread has a constant size, that of `S"):
        codegen.llvm_ir(from_source(head + body.format("n").replace("shared", "local")), "nvptx", False)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "bool", "float32", "float64", "int8"])
def test_arguments_between_functions(dtype: str) -> None:
    y, v = decl_buffer((1,), dtype, "Y"), Var("v", dtype)
    x = decl_buffer((1,), dtype, "X")
    helper = function(BufferStore(y, v, [0]), y, scalars=(v,), name="helper")
    passed = tir.Evaluate(Call("int32", GlobalVar("helper"), [y.data, x[0]]))
    mod = IRModule({GlobalVar("main"): function(passed, x, y), GlobalVar("helper"): helper})
    with pytest.raises(BuildError, match="`helper` takes 2 arguments, not 1"):
        bad = function(tir.Evaluate(Call("int32", GlobalVar("helper"), [y.data])), x, y)
        codegen.compile_module(IRModule({GlobalVar("main"): bad, GlobalVar("helper"): helper}))
    built = codegen.compile_module(mod)
    for value in edge_values(dtype):
        given, out = np.array([value]), np.zeros(1, edge_values(dtype).dtype)
        built["main"](given, out)
        assert given.tobytes() == out.tobytes()


def test_llvm_text_of_the_user_may_be_in_a_file(tmp_path: pathlib.Path) -> None:
    import llvmlite.binding as llvm

    lines = "define float @twice(float %x) {\n  %y = fadd float %x, %x\n  ret float %y\n}\n"
    (tmp_path / "twice.ll").write_text(lines)
    (tmp_path / "twice.bc").write_bytes(llvm.parse_assembly(lines).as_bitcode())
    x = decl_buffer((1,), "float32", "X")
    value = tir.call_pure_extern("float32", "twice", x[0])
    for source in (
        lines,
        f"{lines}; of twice.ll",
        f"{lines}; of twice.bc",
        str(tmp_path / "twice.ll"),
        f" {tmp_path}/twice.bc\n",
    ):
        body = tir.AttrStmt(IntImm("int32", 0), "pragma_import_llvm", StringImm(source), BufferStore(x, value, [0]))
        out = np.array([3], "float32")
        codegen.compile_module(module(body, x))(out)
        assert out[0] == 6, source


@pytest.mark.parametrize(
    ("value", "as_bytes"),
    [
        ("T.max(T.Cast('bool', {b}), T.Cast('bool', {a}))", True), ("T.max(T.Cast('bool', {a}), T.Cast('bool', {b}))", True),
        ("T.max(T.Cast('bool', {a}), T.Cast('bool', {a}))", False), ("T.max(T.Cast('bool', {other}), T.Cast('bool', {a}))", False),
        ("T.max(T.Cast('bool', {b}), {a} > T.int8(3))", False), ("T.max({a} > T.int8(3), T.Cast('bool', {b}))", False),
        ("T.min(T.Cast('bool', {b}), T.Cast('bool', {a}))", False), ("T.max(T.Cast('bool', {b}), T.Cast('bool', {w}))", False),
    ],
)  # fmt: skip
def test_any_of_bools_in_any_order_is_an_or_of_bytes(value: str, as_bytes: bool) -> None:
    """Of the byte that is stored and another one."""
    made = value.format(b="B[0]", a="A[i]", other="B[1]", w="W[i]")
    head = f"{HEAD}def main(A: T.Buffer((64,), 'int8'), B: T.Buffer((64,), 'int8'), W: T.Buffer((64,), 'int16')):\n"
    text = f"{head}    with T.attr(0, 'pragma_any_order', 1):\n        for i in range(64):\n            B[0] = T.Cast('int8', {made})"
    lines = codegen.llvm_ir(from_source(text), "llvm -mcpu=haswell", False)
    assert bool(re.search(r"= or i8 ", lines)) is as_bytes
    plain = codegen.llvm_ir(from_source(text.replace("pragma_any_order", "pragma_other")), "llvm -mcpu=haswell", False)
    assert not re.search(r"= or i8 ", plain)


def test_features_that_this_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "host_features", lambda: {"a": True, "b": False, "d": False})
    assert check.check_features_of_host(["+a", "-b", "-a", "+c"]) == ["-b", "-d"]
    with pytest.raises(BuildError, match="this machine has no `b`"):
        check.check_features_of_host(["+a", "+b"])


def test_stretches_of_a_loop_that_takes_seconds_make_no_vectors_either() -> None:
    """Of its short rows LLVM is to make vectors, not of the loop around them, whether or not it is in stretches."""
    for extent, parts in ((1 << 10, 1), (1 << 30, 2)):
        text = f"""{HEAD}def main(A: T.Buffer((T.int64({4 * extent}),), 'float32'), B: T.Buffer((T.int64({4 * extent}),), 'float32')):
    for i in range(T.int64({extent})):
        for j in range(T.int64(4)):
            B[i * T.int64(4) + j] = A[j * T.int64({extent}) + i]"""
        lines = codegen.llvm_ir(from_source(text), "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512", False)
        nodes = re.findall(r"(!\d+) = !\{!\"llvm.loop.vectorize.enable\", i1 false\}", lines)
        loops = [
            line
            for line in lines.splitlines()
            if "distinct !{" in line and any(node in re.findall(r"!\d+", line) for node in nodes)
        ]
        assert len(loops) == 1 and lines.count("phi i64") == 1 + parts


@pytest.mark.parametrize(("size", "guarded"), [(31, True), (32, False), (33, False)])
@pytest.mark.parametrize(
    "head", ["for tx in T.thread_binding(32, thread='threadIdx.x'):", "with T.launch_thread('threadIdx.x', 32) as tx:"]
)
def test_threads_read_what_is_there_for_each_of_them(head: str, size: int, guarded: bool) -> None:
    """Without a branch, if the array has an element for the last one."""
    text = f"""{HEAD}def main(A: T.Buffer(({size},), 'float32'), B: T.Buffer((64,), 'float32'), n: T.int32):
    {head}
        B[tx] = T.if_then_else(n < 3, A[tx], T.float32(0))"""
    made = codegen.llvm_ir(from_source(text), "nvptx", False)
    assert ("phi float" in made, "select i1" in made) == (guarded, not guarded)


@pytest.mark.parametrize(("axis", "number"), [("x", 0), ("y", 1), ("z", 2)])
def test_numbers_of_axes_in_opencl(axis: str, number: int) -> None:
    text = f"""{HEAD}def main(A: T.Buffer((64,), 'float32')):
    with T.launch_thread('blockIdx.{axis}', 4) as b:
        with T.launch_thread('threadIdx.{axis}', 8) as t:
            A[b * 8 + t] = T.float32(1)"""
    made = codegen.assembly(from_source(text), "opencl")
    assert f"get_group_id({number})" in made and f"get_local_id({number})" in made


def test_checks_are_in_the_text_where_they_are_asked_for() -> None:
    """In LLVM's and in assembly; a kernel has none."""
    x = decl_buffer((8,), "float32", "X")
    n = Var("n", "int32")
    made, target = module(BufferStore(x, 1.0, [n]), x, scalars=(n,)), "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"
    for optimize in (True, False):
        assert "icmp ult " in codegen.llvm_ir(made, target, optimize, True)
        plain = codegen.llvm_ir(made, target, optimize)
        assert "icmp" not in plain and plain == codegen.llvm_ir(made, target, optimize, False)
    assert codegen.llvm_ir(made, target) == codegen.llvm_ir(made, target, True)
    assert re.search(r"\bcmp\w*\b", codegen.assembly(made, target, True))
    plain = codegen.assembly(made, target)
    assert not re.search(r"\bcmp\w*\b", plain) and plain == codegen.assembly(made, target, False)
    assert codegen.assembly(made, "opencl", True) == codegen.assembly(made, "opencl")


def stack(kind: Any, count: Any) -> Call:
    return Call("handle", "tir.tvm_stack_alloca", [kind, count])


@pytest.mark.parametrize(("kind", "each"), [("shape", 8), ("array", 48), ("arg_value", 8), ("arg_tcode", 4)])
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_memory_on_the_stack_for_a_call(kind: str, each: int, count: int) -> None:
    x = decl_buffer((8,), "float32", "X")
    text = codegen.llvm_ir(
        module(tir.Evaluate(stack(StringImm(kind), IntImm("int32", count))), x), "llvm -mcpu=haswell", False
    )
    assert re.findall(r"alloca \[(\d+) x i8\], align 8", text) == [str(max(count, 1) * each)]


@pytest.mark.parametrize(
    ("kind", "count"),
    [(StringImm("bytes"), IntImm("int32", 1)), (IntImm("int32", 1), IntImm("int32", 1)), (StringImm("shape"), Var("n", "int32")), (StringImm("bytes"), Var("n", "int32"))],
)  # fmt: skip
def test_memory_on_the_stack_is_of_a_known_kind_and_number(kind: Any, count: Any) -> None:
    made = module(tir.Evaluate(stack(kind, count)), scalars=() if isinstance(count, IntImm) else (count,))
    with pytest.raises(
        BuildError, match="takes one of `shape`, `array`, `arg_value`, `arg_tcode` and a constant number"
    ):
        codegen.llvm_ir(made, "llvm -mcpu=haswell", False)


@pytest.mark.parametrize("field", [-1, 11, 13, "n"])
def test_fields_that_a_descriptor_has_not(field: int | str) -> None:
    place = Var("p", "handle")
    number = Var(field, "int32") if isinstance(field, str) else IntImm("int32", field)
    at = [place, IntImm("int32", 0), number]
    read, written = Call("int32", "tir.tvm_struct_get", at), Call("int32", "tir.tvm_struct_set", [*at, 1])
    for call in (read, written):
        with pytest.raises(BuildError, match=f"there is no field `{field}` of a descriptor"):
            codegen.llvm_ir(module(tir.Evaluate(call), scalars=(place,)), "llvm -mcpu=haswell", False)


def test_elements_of_descriptors_and_of_arguments() -> None:
    """A descriptor takes 48 bytes, an argument 8: an integer of 64 bits, a double or a pointer."""
    place, i = Var("p", "handle"), Var("i", "int64")

    def text(call: Call) -> str:
        return codegen.llvm_ir(module(tir.Evaluate(call), scalars=(place, i)), "llvm -mcpu=haswell", False)

    for field, size, kind in ((0, 48, None), (1, 48, "ptr"), (4, 48, "i32"), (12, 8, "i64")):
        dtype = "handle" if field < 2 else "int64" if field == 12 else "int32"
        made = text(Call(dtype, "tir.tvm_struct_get", [place, i, IntImm("int32", field)]))
        assert re.findall(r"mul i64 %\w+, (\d+)", made) == [str(size)]
        assert re.findall(r"= load (\w+), ptr", made) == ([kind] if kind else [])
    for value, kind in ((1, "i64"), (tir.const(1.0, "float32"), "double"), (place, "ptr")):
        made = text(Call("int32", "tir.tvm_struct_set", [place, i, IntImm("int32", 12), value]))
        assert re.findall(r"store (\w+) ", made) == [kind] and "mul i64 %p1, 8" in made
    with pytest.raises(BuildError, match="the address of a descriptor cannot be set"):
        text(Call("int32", "tir.tvm_struct_set", [place, i, IntImm("int32", 0), 1]))
