"""What programs written for TVM 0.19 expect of scripts: names, macros, builders, errors."""

import numpy as np
import pytest

import tvmagic as tvm
from tvmagic import ir, tir
from tvmagic.script import ir as I
from tvmagic.script import tir as T
from tvmagic.script.ir_builder import IRBuilder
from tvmagic.script.ir_builder import tir as B


def round_trip(func: object) -> str:
    text = func.script()  # type: ignore[attr-defined]
    ir.assert_structural_equal(tvm.script.from_source(text), func, map_free_vars=True)
    return text


def test_boolean_is_bool() -> None:
    @T.prim_func
    def f(a: T.boolean) -> None:
        T.evaluate(a)

    assert f.params[0].dtype == "bool" and "a: T.bool" in round_trip(f)
    assert T.boolean(True).dtype == "bool" and T.boolean().dtype == "bool"


def test_dtype_by_keyword() -> None:
    v, c = tir.Var("v", "handle"), tir.Var("c", "handle")
    for call in (T.tvm_call_packed, T.tvm_call_cpacked):
        assert call("fn", 1, dtype="int64").dtype == "int32"
    for call in (T.tvm_call_packed_lowered, T.tvm_call_cpacked_lowered):
        assert call("fn", v, c, 0, 1, dtype="int64").dtype == "int32"
    assert T.tvm_throw_last_error(dtype="int32").dtype == "handle"
    assert T.tvm_stack_alloca("shape", 2, dtype="int32").dtype == "handle"
    assert T.ret(1, dtype="int64").dtype == "int32"
    assert T.tvm_tuple(1, 2, dtype="int32").dtype == "handle"
    assert T.tvm_struct_set(v, 0, 1, 1, dtype="int64").dtype == "int32"
    assert T.call_extern("fn", 1, dtype="int64").dtype == "int64"
    assert T.call_intrin("tir.exp", 1.0, dtype="float32").dtype == "float32"
    assert T.call_pure_extern("fn", dtype="int16").dtype == "int16"
    assert T.reinterpret(T.float32(1), dtype="int32").dtype == "int32"
    assert T.vectorlow(T.Broadcast(1, 4), dtype="int32x2").dtype == "int32x2"
    assert T.call_llvm_pure_intrin("llvm.fabs", T.uint32(1), 1.0, dtype="float32").dtype == "float32"
    assert T.ptx_wait_group(1).op.name == "tir.ptx_wait_group"

    @T.prim_func
    def f() -> None:
        T.evaluate(T.tvm_throw_last_error(dtype="int32"))

    assert "T.tvm_throw_last_error()" in round_trip(f)


def test_logic_of_vectors_is_bitwise() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "bool"), C: T.Buffer((4,), "int32")) -> None:
        A[0:4] = (C[0:4] < 3) and (2 > 1)
        A[0:4] = C[0:4] < 3 or C[0:4] > 4
        A[0:4] = not (C[0:4] < 3)

    text = round_trip(f)
    assert "A[0:4] = T.bitwise_and(C[0:4] < T.Broadcast(3, 4), T.Broadcast(T.bool(True), 4))" in text
    assert "A[0:4] = T.bitwise_or(C[0:4] < T.Broadcast(3, 4), C[0:4] > T.Broadcast(4, 4))" in text
    assert "A[0:4] = T.bitwise_not(C[0:4] < T.Broadcast(3, 4))" in text


def test_macros_are_written_in_several_ways() -> None:
    outside = 1

    @T.macro
    def bare() -> None:
        T.evaluate(outside)

    @T.macro()
    def called() -> None:
        T.evaluate(outside)

    @T.macro(hygienic=True)
    def hygienic() -> None:
        T.evaluate(outside)

    @T.macro(hygienic=False)
    def open_macro() -> None:
        T.evaluate(outside)

    with pytest.raises(ValueError):

        @T.macro(False)
        def wrong() -> None:
            T.evaluate(0)

    def use() -> tir.PrimFunc:
        outside = 2  # noqa: F841

        @T.prim_func(private=True)
        def f() -> None:
            bare()
            called()
            hygienic()
            open_macro()

        return f

    assert [int(s.value) for s in use().body.seq] == [1, 1, 1, 2]


def test_macros_as_methods() -> None:
    class Holder:
        def __init__(self, A: tir.Buffer) -> None:
            self.A = A
            self.local = T.alloc_buffer((4,), "int32")

        @T.macro(hygienic=False)
        def load(self, i) -> None:  # type: ignore[no-untyped-def]
            self.local[i] = self.A[i]

    @T.prim_func
    def f(a: T.handle) -> None:
        A = T.match_buffer(a, (4,), "int32")
        o = T.meta_var(Holder(A))
        for i in range(4):
            with T.block("b"):
                vi = T.axis.spatial(4, i)
                o.load(vi)

    @T.prim_func
    def expected(a: T.handle) -> None:
        A = T.match_buffer(a, (4,), "int32")
        local = T.alloc_buffer((4,), "int32")
        for i in range(4):
            with T.block("b"):
                vi = T.axis.spatial(4, i)
                local[vi] = A[vi]

    tir.schedule.testing.assert_structural_equal_ignore_global_symbol(f, expected)


def test_a_handle_outside_of_a_function_is_a_variable() -> None:
    v = T.handle("int32", "shared")
    assert isinstance(v, tir.Var) and v.type_annotation == ir.PointerType(ir.PrimType("int32"), "shared")
    assert v.type_annotation != ir.PointerType(ir.PrimType("int32"), "global")
    assert ir.PrimType("int32") == ir.PrimType("int32") != ir.PrimType("int64")
    assert ir.TupleType([ir.PrimType("int32")]) == ir.TupleType([ir.PrimType("int32")]) != ir.TupleType([])
    assert len({ir.PrimType("int32"), ir.PrimType("int32")}) == 1
    assert isinstance(T.handle(), tir.Var) and T.handle().dtype == "handle"


def test_calls_of_functions_of_the_module() -> None:
    @I.ir_module
    class mod:
        @T.prim_func
        def main() -> None:
            mod.sub()
            T.evaluate(mod.number(T.int32(3)))

        @T.prim_func(private=True)
        def sub() -> None:
            T.evaluate(0)

        @T.prim_func(private=True)
        def number(x: T.int32) -> T.int32:
            return x

    first, second = mod["main"].body.seq
    assert first.value.op.same_as(mod.get_global_var("sub")) and first.value.dtype == "void"
    assert second.value.dtype == "int32"
    for name, call in (("sub", first.value), ("number", second.value)):
        made = tir.call_tir(mod.get_global_var(name), *call.args)
        ir.assert_structural_equal(made, call, map_free_vars=True)
    round_trip(mod)


def test_a_builders_block_says_what_it_does_not_know() -> None:
    with IRBuilder() as ib, T.block("b"):
        T.evaluate(0)
    key = "tir.script_parsing_detect_access"
    assert dict(ib.get().block.annotations) == {key: T.int64(3)} and ib.get().block.annotations[key].dtype == "int64"
    with IRBuilder() as ib, T.block("b"):
        T.reads([])
        T.evaluate(0)
    assert dict(ib.get().block.annotations) == {key: T.int64(2)}
    with IRBuilder() as ib, T.block("b"):
        T.writes([])
        T.evaluate(0)
    assert dict(ib.get().block.annotations) == {key: T.int64(1)}
    with IRBuilder() as ib, T.block("b"):
        T.reads([])
        T.writes([])
        T.evaluate(0)
    assert not ib.get().block.annotations
    with IRBuilder() as ib, B.prim_func():
        B.func_name("f")
        A = B.arg("A", B.Buffer((4,), "int32"))
        with B.serial(0, 4) as i, B.block("b"):
            vi = B.axis.spatial(4, i)
            B.buffer_store(A, 1, [vi])
    block = ib.get().body.block.body.body.block
    assert not block.annotations and [str(w) for w in block.writes] != []


def test_constants_of_a_function_are_arrays() -> None:
    with IRBuilder() as ib, T.allocate_const([1, 1, 1], "int32", [3]):
        T.evaluate(0)
    data = ib.get().data
    assert isinstance(data, tvm.nd.NDArray) and data.dtype == "int32" and data.shape == (3,)
    assert list(data.numpy()) == [1, 1, 1]
    node = tir.AllocateConst(
        tir.Var("p", "handle"), "float32", [2], tvm.nd.array(np.zeros(2, "float32")), tir.Evaluate(0)
    )
    assert isinstance(node.data, tvm.nd.NDArray)

    @T.prim_func
    def f(A: T.Buffer((2, 2), "float32")) -> None:
        with T.allocate_const([1.0, 2.0, 3.0, 4.0], "float32", [2, 2]) as p:
            C = T.Buffer((2, 2), "float32", data=p)
            for i, j in T.grid(2, 2):
                A[i, j] = C[i, j]

    round_trip(f)
    ir.assert_structural_equal(ir.load_json(ir.save_json(f)), f)
    out = np.zeros((2, 2), "float32")
    tvm.build(f)(out)
    assert out.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    "line",
    ["T.reads(A[0])", "T.writes(A[0])", "T.where(i < 3)", "T.block_attr({'a': 1})", "vi = T.axis.spatial(4, i)"],
)
def test_a_signature_given_twice_is_an_error_at_the_second(line: str) -> None:
    text = f"""@T.prim_func
def f(A: T.Buffer((4,), "int32")) -> None:
    for i in range(4):
        with T.block("b"):
            {line}
            vk = T.axis.spatial(4, i)
            {line}
            A[0] = 1
"""
    with pytest.raises(tvm.error.DiagnosticError) as error:
        tvm.script.from_source(text)
    assert error.value.line == 7


def test_two_inits_are_an_error_at_the_second() -> None:
    text = """@T.prim_func
def f(A: T.Buffer((4,), "int32")) -> None:
    with T.block("b"):
        with T.init():
            A[0] = 1
        with T.init():
            A[0] = 2
        A[0] = 1
"""
    with pytest.raises(tvm.error.DiagnosticError) as error:
        tvm.script.from_source(text)
    assert error.value.line == 6


def test_a_frame_without_a_body_is_an_error_at_its_line() -> None:
    for last in ('T.realize(A[0:4], "")', 'T.attr("x", "y", 1)', "T.launch_thread('threadIdx.x', 4)"):
        text = f"""@T.prim_func
def f(A: T.Buffer((4,), "int32")) -> None:
    A[0] = 1
    {last}
"""
        with pytest.raises(tvm.error.DiagnosticError) as error:
            tvm.script.from_source(text)
        assert error.value.line == 4, last


def test_a_wrong_match_is_an_error_at_its_line() -> None:
    text = """@T.prim_func
def f(A: T.Buffer((8, 8), "int32")) -> None:
    for i in range(8):
        with T.block("b"):
            vi = T.axis.spatial(8, i)
            M = T.match_buffer(
                A[vi, 0:8],
                (8, 8),
            )
            M[0, 0] = 1
"""
    with pytest.raises(tvm.error.DiagnosticError) as error:
        tvm.script.from_source(text)
    assert error.value.line == 6


def test_targets_of_functions() -> None:
    @T.prim_func
    def f() -> None:
        T.func_attr({"target": T.target("nvidia/nvidia-a100", host="llvm")})
        T.evaluate(0)

    text = round_trip(f)
    assert '"arch": "sm_80"' in text and '"host": {' in text and '"kind": "cuda"' in text
    assert (
        'T.target({"arch": "sm_80", "host": {"keys": ["cpu"], "kind": "llvm", "tag": ""}, "keys": ["cuda", "gpu"], '
        '"kind": "cuda", "l2_cache_size_bytes": 41943040, "max_num_threads": 1024, '
        '"max_shared_memory_per_block": 49152, "max_threads_per_block": 1024, "registers_per_block": 65536, '
        '"tag": "nvidia/nvidia-a100", "thread_warp_size": 32})'
    ) in text


def test_numbers_of_llvms_intrinsics() -> None:
    for lookup in (T.llvm_lookup_intrinsic_id, tir.llvm_lookup_intrinsic_id):
        number = lookup("llvm.ctpop.i8")
        assert int(number) > 0 and number.dtype == "uint32"
        assert int(number) != int(lookup("llvm.sqrt.f32"))
        with pytest.raises(tvm.TVMError, match="llvm.nothing_like_it"):
            lookup("llvm.nothing_like_it")

    @T.prim_func
    def f(v: T.int8) -> None:
        T.evaluate(T.call_llvm_pure_intrin("int8", T.llvm_lookup_intrinsic_id("llvm.ctpop.i8"), T.uint32(1), v))

    round_trip(f)


def test_floats_outside_of_float32() -> None:
    @T.prim_func
    def f(A: T.Buffer((2,), "float64")):
        A[0] = T.float64(1e300)
        A[1] = T.float64(-1e-300)

    assert "T.float64(-1e-300)" in round_trip(f) and f.body.seq[0].value.value == 1e300
    with pytest.raises(tvm.TVMError, match="`float32`"):
        T.float32(1e300)


def test_minimum_and_maximum_of_several_values() -> None:
    @T.prim_func
    def f(A: T.Buffer((3,), "int32")):
        A[0] = T.max(A[0], A[1], A[2])
        A[1] = T.min(A[0], 5, A[2])

    text = round_trip(f)
    assert "T.max(T.max(A[0], A[1]), A[2])" in text and "T.min(T.min(A[0], 5), A[2])" in text
