"""Calls of other code, pointers, masked sides, shuffles, constants and the other operators."""

import numpy as np
import pytest
from handmade import allocate, local, loop, module
from refusals import refuses

import tvmagic
from tvmagic import codegen, ir, tir
from tvmagic.errors import BuildError

LANES = ir.Ramp(0, 1, 8)


def buffers(*names, dtype="float32", size=8):
    return [ir.decl_buffer((size,), dtype, name) for name in names]


def test_sides_that_differ_from_lane_to_lane_read_only_where_they_are_taken():
    x, y = buffers("X", "Y")
    (short,) = buffers("S", size=4)
    inside = LANES < ir.Broadcast(tir.IntImm("int32", 4), 8)
    value = tir.if_then_else(inside, short[LANES], x[LANES] * ir.Broadcast(tir.FloatImm("float32", 2.0), 8))
    body = tir.BufferStore(y, value, [LANES])
    a, s = np.arange(8, dtype="float32"), np.full(4, 9, "float32")
    for check_bounds in (False, True):
        built = codegen.compile_module(module(body, x, short, y), check_bounds=check_bounds)
        np.testing.assert_array_equal(built(a, s), np.concatenate([s, a[4:] * 2]))


def test_conditions_guard_what_stands_behind_them():
    x, y = buffers("X", "Y")
    i = ir.Var("i", "int32")
    guarded = tir.And(i < 7, tir.GT(x[i + 1], tir.FloatImm("float32", 0.0)))
    value = tir.if_then_else(guarded, x[i + 1], tir.FloatImm("float32", -1.0))
    built = codegen.compile_module(module(tir.For(i, 0, 8, 0, tir.BufferStore(y, value, [i])), x, y), check_bounds=True)
    a = np.array([1, 2, -3, 4, 5, -6, 7, 8], "float32")
    np.testing.assert_array_equal(built(a), [2, -1, 4, 5, -1, 7, 8, -1])


def test_c_functions_and_llvm_intrinsics():
    x, y = buffers("X", "Y")
    i = ir.Var("i", "int32")
    value = tir.call_pure_extern("float32", "fabsf", x[i])
    built = codegen.compile_module(module(tir.For(i, 0, 8, 0, tir.BufferStore(y, value, [i])), x, y))
    a = np.linspace(-3, 3, 8, dtype="float32")
    np.testing.assert_array_equal(built(a), np.abs(a))
    vector = tir.call_llvm_pure_intrin("float32x8", "llvm.fabs.v8f32", x[LANES])
    built = codegen.compile_module(module(tir.BufferStore(y, vector, [LANES]), x, y))
    np.testing.assert_array_equal(built(a), np.abs(a))


def test_pointers_handed_to_c():
    x, y = buffers("X", "Y")
    source, target = x.access_ptr("r"), y.access_ptr("w", offset=2)
    copy = tir.call_extern("handle", "memcpy", target, source, tir.IntImm("int64", 24))
    fetch = ir.Call("void", "tir.prefetch", [tir.address_of(x[0]), 0, 3, 1])
    built = codegen.compile_module(module(tir.SeqStmt([tir.Evaluate(fetch), tir.Evaluate(copy)]), x, y))
    a, out = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    built(a, out)
    np.testing.assert_array_equal(out, [0, 0, 0, 1, 2, 3, 4, 5])


def test_vectors_taken_apart_and_joined():
    x, y = buffers("X", "Y")
    a = np.arange(8, dtype="float32")
    picked = tir.Shuffle([x[LANES]], [7, 0, 6, 1, 5, 2, 4, 3])
    np.testing.assert_array_equal(
        codegen.compile_module(module(tir.BufferStore(y, picked, [LANES]), x, y))(a), a[[7, 0, 6, 1, 5, 2, 4, 3]]
    )
    low, high = (ir.Call("float32x4", f"tir.vector{part}", [x[LANES]]) for part in ("low", "high"))
    swapped = ir.Call("float32x8", "tir.vectorcombine", [high, low])
    built = codegen.compile_module(module(tir.BufferStore(y, swapped, [LANES]), x, y))
    np.testing.assert_array_equal(built(a), np.concatenate([a[4:], a[:4]]))


@pytest.mark.parametrize("place", [-1, 7, 8, 15, 16])
@pytest.mark.parametrize("both", [False, True])
def test_a_shuffle_picks_lanes_that_its_vectors_have(place, both):
    x, y = buffers("X", "Y")
    doubled = x[LANES] + x[LANES]
    picked = tir.Shuffle([x[LANES], doubled] if both else [x[LANES]], [place, 0, 1, 2, 3, 4, 5, 6])
    body = module(tir.BufferStore(y, picked, [LANES]), x, y)
    a = np.arange(1, 9, dtype="float32")
    lanes = np.concatenate([a, 2 * a]) if both else a
    if not 0 <= place < len(lanes):
        with refuses("codegen.shuffle_not_constant", error=BuildError):
            codegen.compile_module(body)
        return
    np.testing.assert_array_equal(codegen.compile_module(body)(a), lanes[[place, 0, 1, 2, 3, 4, 5, 6]])


def test_buffers_of_vectors():
    x = ir.decl_buffer((4,), "float32x4", "X")
    y = ir.decl_buffer((4,), "float32x4", "Y")
    body = loop(4, lambda i: tir.BufferStore(y, x[3 - i] + x[i], [i]))
    a = np.arange(16, dtype="float32").reshape(4, 4)
    np.testing.assert_array_equal(codegen.compile_module(module(body, x, y))(a), a + a[::-1])


def test_constant_arrays():
    (y,) = buffers("Y")
    values = np.linspace(0, 1, 8, dtype="float32")
    pointer = ir.Var("table", ir.PointerType(ir.PrimType("float32")))
    table = ir.decl_buffer((8,), "float32", "table", data=pointer)
    body = loop(8, lambda i: tir.BufferStore(y, table[7 - i], [i]))
    built = codegen.compile_module(module(ir.AllocateConst(pointer, "float32", [8], values, body), y))
    np.testing.assert_array_equal(built(), values[::-1])


def test_bits_read_as_another_type_and_large_constants():
    x, y = buffers("X")[0], ir.decl_buffer((8,), "uint32", "Y")
    bits = tir.reinterpret("uint32x8", x[LANES])
    a = np.linspace(-2, 2, 8, dtype="float32")
    built = codegen.compile_module(module(tir.BufferStore(y, bits, [LANES]), x, y))
    np.testing.assert_array_equal(built(a), a.view("uint32"))
    z = ir.decl_buffer((1,), "uint64", "Z")
    large = ir.Call("uint64", "tir.large_uint_imm", [tir.IntImm("int64", 0xFFFFFFFF), tir.IntImm("int64", 0x80000000)])
    assert codegen.compile_module(module(tir.BufferStore(z, large, [0]), z))()[0] == 0x80000000FFFFFFFF


def test_fixed_point_products():
    x, y = (ir.decl_buffer((8,), "int32", n) for n in "XY")
    factor = tir.IntImm("int32", 1 << 30)  # one half with 31 fractional bits
    value = ir.Call("int32x8", "tir.q_multiply_shift", [x[LANES], ir.Broadcast(factor, 8), 31, 1])
    a = np.array([0, 1, -1, 5, 100, -100, 1 << 20, -(1 << 20)], "int32")
    np.testing.assert_array_equal(codegen.compile_module(module(tir.BufferStore(y, value, [LANES]), x, y))(a), a)


def test_the_mask_of_active_lanes():
    n = ir.Var("n", "int32")
    x, y = ir.decl_buffer((n,), "float32", "X"), ir.decl_buffer((n,), "float32", "Y")
    mask = ir.Call("boolx8", "tir.get_active_lane_mask", [tir.IntImm("int32", 0), n])
    body = tir.BufferStore(y, tir.BufferLoad(x, [LANES], mask), [LANES], mask)
    a = np.arange(5, dtype="float32")
    np.testing.assert_array_equal(codegen.compile_module(module(body, x, y), check_bounds=True)(a), a)


def test_a_function_gives_a_number():
    x = buffers("X")[0]
    func = tir.PrimFunc(
        [x], tir.Evaluate(tir.ret(x[3])), ret_type=ir.PrimType("float32"), attrs={"global_symbol": "main"}
    )
    assert codegen.compile_module(func)(np.arange(8, dtype="float32")) == 3.0


def test_memory_that_is_not_there():
    n = ir.Var("n", "int64")
    y = ir.decl_buffer((1,), "float32", "Y")
    pointer = ir.Var("big", ir.PointerType(ir.PrimType("float32")))
    big = ir.decl_buffer((n,), "float32", "big", data=pointer)
    write = tir.SeqStmt([tir.BufferStore(big, 1.0, [n - 1]), tir.BufferStore(y, big[n - 1], [0])])
    built = codegen.compile_module(module(tir.Allocate(pointer, "float32", [n], True, write), y, scalars=(n,)))
    out = np.zeros(1, "float32")
    built(out, 1000)
    assert out[0] == 1
    with refuses("call.out_of_memory"):
        built(out, 1 << 58)


@pytest.mark.parametrize(
    "value, message",
    [
        (lambda x: ir.Call("float32", "tir.vscale", []), "codegen.no_scalable_vectors"),
        (lambda x: ir.Call("int32", "tir.exp", [tir.IntImm("int32", 1)]), "codegen.not_a_float"),
        (lambda x: tir.Cast("float32", ir.Var("stray", "int32")), "codegen.undefined_variable"),
    ],
)
def test_what_has_no_code_is_named(value, message):
    x = buffers("X")[0]
    made = value(x)
    made = made if made.dtype == "float32" else ir.Cast(ir.DataType("float32"), made)
    with refuses(message, error=BuildError):
        codegen.compile_module(module(tir.BufferStore(x, made, [0]), x))


@pytest.mark.parametrize("name", ["tanh", "acosf", "memset", "free", "aligned_alloc"])
def test_functions_may_have_the_names_of_c_functions_that_they_call(name):
    """The heap, `memset` and the math library are still C's."""
    x, y = (ir.decl_buffer((20000,), "float64", n) for n in "XY")
    pointer, scratch = local("scratch", 20000, "float64", "global")

    def result(i):
        value = ir.Call("float64", "tir.acos", [ir.Call("float64", "tir.tanh", [x[i]])])
        return tir.BufferStore(y, value + scratch[i], [i])

    clear = loop(20000, lambda i: tir.BufferStore(scratch, tir.FloatImm("float64", 0.0), [i]))
    body = allocate(pointer, 20000, tir.SeqStmt([clear, loop(20000, result)]), "float64")
    built = codegen.compile_module(module(body, x, y, name=name))
    values = np.linspace(-3, 3, 20000)
    np.testing.assert_allclose(built[name](values), np.arccos(np.tanh(values)), rtol=1e-12)
    assert f"{name}_" in built.get_source("ll")


def test_an_extern_call_of_the_modules_own_function_is_refused():
    y = ir.decl_buffer((1,), "int32", "Y")
    call = ir.Call("int32", "tir.call_extern", [ir.StringImm("helper"), 1])
    mod = module(tir.BufferStore(y, call, [0]), y, name="helper")
    with pytest.raises(BuildError, match="`helper`"):
        codegen.compile_module(mod)


@pytest.mark.parametrize("name", ["llvm.nvvm.read.ptx.sreg.tid.x", "llvm.amdgcn.workitem.id.x", "llvm.x86.rdtsc"])
def test_an_intrinsic_of_another_machine_is_refused(name):
    y = ir.decl_buffer((1,), "int32", "Y")
    call = ir.Call("int32", "tir.call_llvm_intrin", [ir.StringImm(name)])
    mod = module(tir.BufferStore(y, call, [0]), y)
    with pytest.raises(BuildError, match="`aarch64-linux-gnu`"):
        codegen.assembly(mod, "llvm -mtriple=aarch64-linux-gnu")


def test_functions_without_a_type_give_what_they_return() -> None:
    v = tir.Var("v", "int32")
    function = ir.PrimFunc([v], tir.Evaluate(tir.ret(v + 1)), attrs={"global_symbol": "g"})
    assert tvmagic.build(function)(4) == 5
    either = tir.IfThenElse(v > 0, tir.Evaluate(tir.ret(v)), tir.Evaluate(tir.ret(tir.const(0))))
    assert tvmagic.build(ir.PrimFunc([v], either, attrs={"global_symbol": "g"}))(-3) == 0
    # of several types none is that of the function
    mixed = tir.IfThenElse(v > 0, tir.Evaluate(tir.ret(v)), tir.Evaluate(tir.ret(tir.const(0.5))))
    assert tvmagic.build(ir.PrimFunc([v], mixed, attrs={"global_symbol": "g"}))(3) is None
