"""TVM's packed and unpacked functions, and the stacks of packed calls: their text, and what they compute."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import tvmagic as tvm
from tvmagic import tir
from tvmagic.errors import TVMagicError
from tvmagic.ir import Call, LetStmt, structural_equal
from tvmagic.runtime.callbacks import _DLTensor
from tvmagic.script import from_source
from tvmagic.tir.stmt_functor import post_order_visit
from tvmagic.tir.transform import LowerTVMBuiltin, MakePackedAPI, MakeUnpackedAPI

HOST = 'T.target("llvm", host="llvm")'
HEAD = "from tvm.script import ir as I\nfrom tvm.script import tir as T\n"


def module(text: str) -> tvm.IRModule:
    return from_source(HEAD + "@I.ir_module\nclass Module:\n" + text)


def scaled() -> tvm.IRModule:
    return module(f"""
    @T.prim_func
    def main(a: T.handle, k: T.int32, x: T.float32) -> T.int32:
        T.func_attr({{"target": {HOST}}})
        n = T.int32()
        A = T.match_buffer(a, (n, 2))
        for i, j in T.grid(n, 2):
            A[i, j] = A[i, j] * x
        if k > 3:
            return 10
        return n
    """)


class Value(ctypes.Union):
    _fields_ = (("whole", ctypes.c_int64), ("real", ctypes.c_double), ("pointer", ctypes.c_void_p))


def describe(array: np.ndarray) -> _DLTensor:
    """The DLTensor of a dense float32 array on the CPU."""
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    return _DLTensor(array.ctypes.data, (1, 0), array.ndim, 2, 32, 1, shape, None, 0)


def call(mod: tvm.IRModule, values: list[Value], codes: list[int], count: int | None = None) -> tuple[int, int]:
    """Call a packed function as TVM's runtime does: gives its result and the result's type code."""
    packed = (Value * len(values))(*values)
    kinds, result, code = np.array(codes, "int32"), np.zeros(1, "int64"), np.full(1, 99, "int32")
    f = tvm.build(mod, target="llvm")
    status = f(ctypes.addressof(packed), kinds.ctypes.data, len(values) if count is None else count, result.ctypes.data,
               code.ctypes.data, code.ctypes.data)  # fmt: skip
    assert status == 0
    return int(result[0]), int(code[0])


def arguments(array: np.ndarray, k: int, x: float) -> tuple[list[Value], _DLTensor]:
    tensor = describe(array)
    return [Value(pointer=ctypes.addressof(tensor)), Value(whole=k), Value(real=x)], tensor


def test_a_packed_function_unpacks_and_returns() -> None:
    mod = MakePackedAPI()(scaled())
    func = mod["main"]
    names = [p.name for p in func.params]
    assert names == ["args", "arg_type_ids", "num_args", "out_ret_value", "out_ret_tcode", "resource_handle"]
    assert func.attrs["calling_conv"] == 1 and func.attrs["target"].host is None and not func.buffer_map
    tir.analysis.verify_well_formed(mod)
    assert structural_equal(from_source(mod.script()), mod)
    array = np.arange(6, dtype="float32").reshape(3, 2)
    values, _kept = arguments(array, 4, 2.5)
    assert call(mod, values, [7, 0, 2]) == (10, 0)
    np.testing.assert_array_equal(array, np.arange(6).reshape(3, 2) * 2.5)
    values, _kept = arguments(array, 3, 1)
    values[2] = Value(whole=1)
    assert call(mod, values, [7, 0, 0]) == (3, 0)  # an integer for the float


@pytest.mark.parametrize(
    ("codes", "count", "message"),
    [
        ([7, 0, 2], 2, "main: num_args should be 3"),
        ([0, 0, 2], None, "main: Expect arg\\[0\\] to be pointer"),
        ([7, 2, 2], None, "main: Expect arg\\[1\\] to be int"),
        ([7, 0, 11], None, "main: Expect arg\\[2\\] to be float"),
    ],
)
def test_wrong_packed_arguments_are_refused(codes: list[int], count: int | None, message: str) -> None:
    values, _kept = arguments(np.zeros((2, 2), "float32"), 1, 1.0)
    with pytest.raises(TVMagicError, match=message):
        call(MakePackedAPI()(scaled()), values, codes, count)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ndim": 1}, "main.a.ndim is expected to equal 2"),
        ({"bits": 64}, "main.a.dtype is expected to be float32"),
        ({"shape": (ctypes.c_int64 * 2)(2, 3)}, "Argument main.a.shape\\[1\\] has an unsatisfied constraint"),
        ({"strides": (ctypes.c_int64 * 2)(1, 2)}, "main.a.strides: expected to be compact array"),
        ({"byte_offset": 4}, "Argument main.a.byte_offset has an unsatisfied constraint"),
        ({"data": None}, "main.a is expected to have non-NULL data pointer"),
    ],
)
def test_wrong_arrays_are_refused(change: dict[str, Any], message: str) -> None:
    values, tensor = arguments(np.zeros((2, 2), "float32"), 1, 1.0)
    for name, value in change.items():
        setattr(tensor, name, value)
    with pytest.raises(TVMagicError, match=message):
        call(MakePackedAPI()(scaled()), values, [7, 0, 2])


def test_a_function_without_arguments_as_tvm_prints_it() -> None:
    mod = module(f"""
    @T.prim_func
    def answer() -> T.int64:
        T.func_attr({{"target": {HOST}}})
        return T.int64(42)
    """)
    text = MakePackedAPI()(mod)["answer"].script()
    assert text.split("T.func_attr")[1].split("\n", 1)[1] == (
        """    assert num_args == 0, "answer: num_args should be 0"
    assert not T.isnullptr(args), "answer: TVMValue* arg pointer was NULL"
    assert not T.isnullptr(arg_type_ids), "answer: int* type_codes was NULL"
    arg_type_ids_1 = T.decl_buffer((0,), "int32", data=arg_type_ids)
    with T.attr(0, "compute_scope", "answer_compute_"):
        out_ret_value_1 = T.Buffer((1,), "int64", data=out_ret_value, strides=(1,))
        out_ret_value_1[0] = T.Cast("int64", T.int64(42))
        out_ret_tcode_1 = T.Buffer((1,), "int32", data=out_ret_tcode, strides=(1,))
        out_ret_tcode_1[0] = 0
        return 0
    return 0"""
    )


def test_calls_of_packed_functions_go_by_their_names() -> None:
    text = """
    @T.prim_func
    def main(A: T.Buffer((1,), "float32")):
        T.func_attr({"target": T.target("llvm", host="llvm")})
        Module.sub(A.data)

    @T.prim_func%s
    def sub(p: T.handle("float32")):
        T.func_attr({"target": T.target("llvm", host="llvm")})
        T.evaluate(p)
    """
    calls: list[Call] = []
    exposed = MakePackedAPI()(module(text % ""))
    post_order_visit(exposed["main"].body, lambda n: calls.append(n) if isinstance(n, Call) else None)
    [lowered] = [c for c in calls if getattr(c.op, "name", "") == "tir.tvm_call_cpacked"]
    assert lowered.args[0].value == "sub" and exposed["sub"].attrs["calling_conv"] == 1
    private = module(text % "(private=True)")
    lowered_too = MakePackedAPI()(private)
    assert lowered_too["sub"] is private["sub"] and "tvm_call_cpacked" not in lowered_too.script()


def test_functions_without_a_host_stay_and_those_without_target_are_refused() -> None:
    mod = module(
        '    @T.prim_func\n    def main():\n        T.func_attr({"target": T.target("llvm")})\n        T.evaluate(0)'
    )
    assert MakePackedAPI()(mod) is mod and MakeUnpackedAPI()(mod)["main"] is mod["main"]
    without = module("    @T.prim_func\n    def main():\n        T.evaluate(0)")
    for make in (MakePackedAPI, MakeUnpackedAPI):
        with pytest.raises(TVMagicError, match=f"{make.__name__} needs the attribute `target`"):
            make()(without)
    free = tir.PrimFunc([], tir.Evaluate(tir.Var("x", "int32"))).with_attr("global_symbol", "main")
    free = free.with_attr("target", tvm.target.Target("llvm", host="llvm"))
    with pytest.raises(TVMagicError, match="uses the variable `x`, which is not passed in"):
        MakePackedAPI()(tvm.IRModule.from_expr(free))
    parallel = module(f"""
    @T.prim_func
    def main() -> T.int32:
        T.func_attr({{"target": {HOST}}})
        for i in T.parallel(4):
            T.ret(i)
    """)
    with pytest.raises(TVMagicError, match="`ret` cannot be in a parallel loop"):
        MakePackedAPI()(parallel)


def test_an_unpacked_function_takes_pointers() -> None:
    func = MakeUnpackedAPI()(scaled().with_functions({}))["main"]
    assert [p.name for p in func.params] == ["A", "k", "x"] and not func.buffer_map
    assert (func.body.attr_key, func.body.body.attr_key, func.body.body.value.value) == ("device_id", "device_type", 1)
    assert func.ret_type.dtype == "int32" and func.attrs["target"].host is None


# ---------------------------------------------------------------------------- packed calls


def packed_calls() -> tvm.IRModule:
    return module("""
    @T.prim_func
    def main(A: T.Buffer((2, 3), "float32"), k: T.int32):
        T.func_attr({"target": T.target("llvm")})
        for i in range(3):
            T.evaluate(T.call_packed("test.note", T.tvm_stack_make_array(A.data, T.tvm_stack_make_shape(2, 3), 0, 2,
                T.float32(0), 0), i + k, T.float32(1.5), "text", i < 2, T.reinterpret("handle", T.uint64(0))))
            A[0, i] = T.Cast("float32", T.call_packed("test.twice", T.call_packed("test.twice", i)))
    """)


def test_lowered_packed_calls_do_the_same() -> None:
    seen: list[Any] = []

    def noted(array: Any, *others: Any) -> None:
        seen.append((array.numpy().tolist(), *others[:3], bool(others[3])))

    tvm.register_func("test.note", noted, override=True)
    tvm.register_func("test.twice", lambda n: n * 2, override=True)
    results, lowered = [], LowerTVMBuiltin()(packed_calls())
    for mod in (packed_calls(), lowered):
        a = np.zeros((2, 3), "float32")
        tvm.build(mod, target="llvm")(a, 7)
        results.append((a.tolist(), seen[:]))
        seen.clear()
    assert results[0] == results[1] and results[0][0][0] == [0, 4, 8]
    assert results[0][1][2] == ([[0, 4, 0], [0, 0, 0]], 9, 1.5, "text", False)
    tir.analysis.verify_well_formed(lowered)


def test_the_stacks_are_as_large_as_they_must_be() -> None:
    stmt, kinds = LowerTVMBuiltin()(packed_calls())["main"].body, list[Any]()
    while isinstance(stmt, LetStmt):
        value: Any = stmt.value
        kinds.append((value.args[0].value, value.args[1].value))
        stmt = stmt.body
    assert kinds == [("arg_tcode", 7), ("arg_value", 7), ("array", 1), ("shape", 2)]
    loop = module("""
    @T.prim_func
    def main(n: T.int32):
        T.evaluate(T.call_packed("f", n))
        for i in T.parallel(4):
            T.evaluate(T.call_packed("f", i, i))
    """)
    text = LowerTVMBuiltin()(loop).script()
    assert text.count("tvm_stack_alloca") == 4 and text.index("T.parallel") < text.index('"arg_value", 3')
    plain = module("    @T.prim_func\n    def main(A: T.Buffer((4,))):\n        A[0] = T.float32(1)")
    assert LowerTVMBuiltin()(plain)["main"] is plain["main"]


MEMORY = """
    @T.prim_func
    def main(A: T.Buffer((1,), "float32")):
        T.func_attr({"target": T.target("llvm")})
%s
        p = T.allocate([%d], "float32")
        P = T.decl_buffer((%d,), data=p)
        P[0] = A[0]
"""
ON_DEVICE = '        T.attr("dummy", "device_type", 2)\n        T.attr("dummy", "device_id", 0)'


def test_memory_of_a_device_comes_from_the_runtime() -> None:
    text = LowerTVMBuiltin()(module(MEMORY % (ON_DEVICE, 16, 16)))["main"].script()
    assert text.split('"tag": ""})})\n')[1] == (
        """    P: T.handle("float32", "global") = T.TVMBackendAllocWorkspace(2, 0, T.uint64(64), 2, 32)
    T.attr(P, "storage_alignment", 64)
    if T.isnullptr(P):
        T.tvm_throw_last_error()
    P_1 = T.decl_buffer((16,), data=P)
    P_1[0] = A[0]
    if T.TVMBackendFreeWorkspace(2, 0, P) != 0:
        T.tvm_throw_last_error()"""
    )
    small, large = module(MEMORY % ("", 16, 16)), module(MEMORY % ("", 400, 400))
    assert LowerTVMBuiltin()(small)["main"] is small["main"]
    assert "TVMBackendAllocWorkspace(1, 0, T.uint64(1600), 2, 32)" in LowerTVMBuiltin()(large).script()


@pytest.mark.parametrize("known", ["device_type", "device_id", None])
def test_the_device_of_an_array_that_is_passed_on_has_a_type_and_a_number(known: str | None) -> None:
    attribute = "" if known is None else f'T.attr("dummy", "{known}", 1)'
    passed = module(f"""
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        {attribute}
        T.evaluate(T.call_packed("f", T.tvm_stack_make_array(A.data, T.tvm_stack_make_shape(4), 0, 1, T.float32(0), 0)))
    """)
    with pytest.raises(TVMagicError, match="the device of an array that is passed on is not known"):
        LowerTVMBuiltin()(passed)


def test_what_cannot_be_lowered_is_refused() -> None:
    without = module(MEMORY % ("", 400, 400))["main"].without_attr("target")
    with pytest.raises(TVMagicError, match="Unknown device type in current IR"):
        LowerTVMBuiltin()(tvm.IRModule.from_expr(without))
    waiting = module("""
    @T.prim_func
    def main(n: T.int32):
        while T.call_packed("f", n) < 3:
            T.evaluate(0)
    """)
    with pytest.raises(TVMagicError, match="the condition of a `while` cannot be a packed call"):
        LowerTVMBuiltin()(waiting)
