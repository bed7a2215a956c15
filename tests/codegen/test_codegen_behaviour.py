"""What programs written for TVM 0.19 expect of machine code, of its runtime, of targets and of `build`."""

import ctypes
import pathlib
import re
import subprocess
import types

import numpy as np
import pytest
from refusals import refuses
from tools import needs

import tvmagic as tvm
from tvmagic import ir, te, tir
from tvmagic.script import ir as I
from tvmagic.script import tir as T
from tvmagic.target import Target
from tvmagic.tools import CC


@T.prim_func
def inc(a: T.handle, B: T.Buffer((8,), "float32")) -> None:
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    for i in range(8):
        B[i] = A[i] + T.float32(1)


def check_inc(module: object) -> None:
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    module["inc"](a, b)  # type: ignore[index]
    assert b.tolist() == (a + 1).tolist()
    with pytest.raises(tvm.TVMError):
        module["inc"](a, np.zeros(8, "int32"))  # type: ignore[index]


# ---------------------------------------------------------------------------- libraries


@needs("cc")
def test_a_library_is_exported_and_loaded(tmp_path: pathlib.Path) -> None:
    built = tvm.build(ir.IRModule({"inc": inc}))
    path = str(tmp_path / "lib.so")
    built.export_library(path)
    assert [p.name for p in tmp_path.iterdir()] == ["lib.so"]
    loaded = tvm.runtime.load_module(path)
    check_inc(loaded)
    ctypes.CDLL(path).inc
    # another one under the same name
    twice = tvm.build(ir.IRModule({"inc": inc, "second": inc.with_attr("global_symbol", "second")}))
    twice.export_library(path)
    check_inc({"inc": tvm.runtime.load_module(path)["second"]})
    check_inc(loaded)


@needs("cc", "ar")
@pytest.mark.parametrize("name", ["lib.tar", "lib.a"])
def test_an_archive_is_exported_and_loaded(tmp_path: pathlib.Path, name: str) -> None:
    from tvmagic.runtime import cc, tar

    tvm.build(ir.IRModule({"inc": inc})).export_library(tmp_path / name)
    check_inc(tvm.runtime.load_module(tmp_path / name))
    if name.endswith(".tar"):
        folder = types.SimpleNamespace(relpath=lambda name: str(tmp_path / name))
        parts = tar.normalize_file_list_by_unpacking_tars(folder, [tmp_path / name, "other.o"])
        assert [pathlib.Path(part).name for part in parts] == ["builtins.o", "module.o", "other.o"]
        with refuses("tar.repeated_name", error=tvm.TVMError):
            tar.tar(tmp_path / "twice.tar", ["a/x.o", "b/x.o"])
        compiler = cc.cross_compiler(cc.get_cc(), options=["-O1"], add_files=parts[:1])
        assert compiler.output_format == "so" and compiler.get_target_triple()
        compiler(str(tmp_path / "made.so"), parts[1])
        check_inc(tvm.runtime.load_module(tmp_path / "made.so"))


@needs("cc", "ar")
def test_objects_and_archives_are_for_c_linkers(tmp_path: pathlib.Path) -> None:
    from tvmagic.runtime import cc

    built = tvm.build(ir.IRModule({"inc": inc}))
    built.save(str(tmp_path / "saved.o"))
    built.export_library(str(tmp_path / "exported.o"))
    built.export_library(str(tmp_path / "exported.a"))
    for name in ("saved.o", "exported.o"):
        library = str(tmp_path / f"{name}.so")
        cc.create_shared(library, [str(tmp_path / name)])
        check_inc(tvm.runtime.load_module(library))
        check_inc(tvm.runtime.load_module(str(tmp_path / name)))
    second = tvm.build(ir.IRModule({"second": inc.with_attr("global_symbol", "second")}))
    second.save(str(tmp_path / "second.o"))
    cc.create_shared(str(tmp_path / "both.so"), [str(tmp_path / "saved.o"), str(tmp_path / "second.o")])
    both = tvm.runtime.load_module(tmp_path / "both.so")
    check_inc(both)
    check_inc({"inc": both["second"]})
    main = tmp_path / "main.c"
    main.write_text(
        """#include <stdint.h>
#include <stdio.h>
int32_t inc(const float*, float*, int32_t);
int main() {
  float a[8] = {1, 2, 3}, b[8];
  inc(a, b, 8);
  printf("%g %g", b[0], b[2]);
}
"""
    )
    program = tmp_path / "main"
    subprocess.run([CC.need(), "-o", program, main, tmp_path / "exported.a", "-lm"], check=True)
    assert subprocess.run([program], capture_output=True, text=True).stdout == "2 4"


@needs("cc")
def test_a_library_of_someone_else_is_refused(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "other.c"
    source.write_text("int other(void) { return 1; }\n")
    subprocess.run([CC.need(), "-shared", "-o", tmp_path / "other.so", source], check=True)
    with pytest.raises(tvm.TVMError, match="tvmagic"):
        tvm.runtime.load_module(tmp_path / "other.so")
    with pytest.raises(tvm.TVMError):
        tvm.runtime.load_module(tmp_path / "none.so")


# ---------------------------------------------------------------------------- code from elsewhere


def test_llvm_text_is_linked_in() -> None:
    text = """
    define float @times_three(float %x) {
      %y = fmul float %x, 3.0
      ret float %y
    }
    """
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: tir.call_pure_extern("float32", "times_three", A[i]), name="B")
    s = te.create_schedule(B.op)
    s[B].pragma(s[B].op.axis[0], "import_llvm", text)
    run = tvm.build(s, [A, B])
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    run(a, b)
    assert b.tolist() == (3 * a).tolist()
    with pytest.raises(tvm.TVMError, match="LLVM"):
        s = te.create_schedule(B.op)
        s[B].pragma(s[B].op.axis[0], "import_llvm", "this is no LLVM")
        tvm.build(s, [A, B])


def test_nothing_is_linked_until_it_is_called() -> None:
    @I.ir_module
    class mod:
        @T.prim_func
        def zebra(A: T.Buffer((1,), "float32")) -> None:
            T.func_attr({"global_symbol": "zebra"})
            T.evaluate(T.Call("void", "tir.call_extern", ["a_function_that_is_nowhere"]))
            A[0] = T.float32(1)

        @T.prim_func
        def ant(A: T.Buffer((1,), "float32")) -> None:
            T.func_attr({"global_symbol": "ant"})
            A[0] = T.call_extern("float32", "another_that_is_nowhere", A[0])

    built = tvm.build(mod, "llvm")
    text = built.get_source("ll")
    assert re.findall(r"^define .*@(\w+)\(", text, re.M)[:2] == ["ant", "zebra"]
    assert "call void @a_function_that_is_nowhere" in text
    with pytest.raises(tvm.TVMError, match="nowhere"):
        built["ant"](np.zeros(1, "float32"))


def test_code_for_other_processors_can_be_read() -> None:
    A = te.placeholder((1024,), name="A")
    B = te.compute((1024,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].parallel(s[B].split(B.op.axis[0], 128)[0])
    for target in ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -mattr=+neon", "llvm -mcpu=sapphirerapids"):
        built = tvm.build(s, [A, B], target)
        text = built.get_source("ll")
        cpu = target.split("-mcpu=")[1].split()[0]
        defined = re.findall(r"^define .*#(\d+)", text, re.M)
        assert len(defined) >= 2 and f'"target-cpu"="{cpu}"' in text
        attributes = dict(re.findall(r"^attributes #(\d+) = \{(.*)\}", text, re.M))
        for number in defined:
            assert f'"target-cpu"="{cpu}"' in attributes[number]
            if "neon" in target:
                assert '"target-features"="' in attributes[number]
        assert built.get_source("asm")
    with pytest.raises(tvm.TVMError):
        tvm.build(s, [A, B], "llvm -mtriple=aarch64-linux-gnu")(np.zeros(1024, "float32"), np.zeros(1024, "float32"))


def test_nested_parallel_loops_are_refused() -> None:
    @T.prim_func
    def f(A: T.Buffer((4, 4), "float32")) -> None:
        for i in T.parallel(4):
            for j in T.parallel(4):
                A[i, j] = T.float32(1)

    for build in (lambda: tvm.build(f), lambda: tvm.build({"llvm": ir.IRModule({"f": f})})):
        with pytest.raises(tvm.TVMError):
            build()


def test_volatile_accesses_have_no_predicate() -> None:
    def program(store: bool) -> tir.PrimFunc:
        A = tir.decl_buffer((16,), "float32", "A")
        local = tir.decl_buffer((16,), "float32", "local")
        mask = tir.Broadcast(tir.const(True), 4)
        index = tir.Ramp(0, 1, 4)
        if store:
            body = tir.BufferStore(local, tir.Broadcast(tir.const(1.0), 4), [index], mask)
        else:
            body = tir.BufferStore(A, tir.BufferLoad(local, [index], mask), [index])
        attr = tir.AttrStmt(local.data, "volatile_scope", 1, body)
        stmt = tir.Allocate(local.data, "float32", [16], tir.const(True), tir.DeclBuffer(local, attr))
        a = tir.Var("a", "handle")
        return tir.PrimFunc([a], stmt, buffer_map={a: A}).with_attr("global_symbol", "f")

    for store, word in ((False, "load"), (True, "store")):
        with refuses("codegen.masked_volatile", error=tvm.TVMError):
            tvm.codegen.compile_module(program(store))


def test_atomic_add() -> None:
    @T.prim_func
    def f(A: T.Buffer((2,), "int32"), B: T.Buffer((1,), "float32"), Old: T.Buffer((1,), "int32")) -> None:
        for i in T.parallel(1000):
            T.evaluate(T.atomic_add(T.address_of(A[0]), i))
            T.evaluate(T.atomic_add(T.address_of(B[0]), T.float32(1)))
        Old[0] = T.atomic_add(T.address_of(A[1]), 5)

    ir.assert_structural_equal(tvm.script.from_source(f.script()), f)
    assert tir.atomic_add(tir.Var("p", "handle"), tir.const(1)).dtype == "int32"
    built = tvm.build(f)
    a, b, old = np.array([0, 7], "int32"), np.zeros(1, "float32"), np.zeros(1, "int32")
    built(a, b, old)
    assert a.tolist() == [499500, 12] and b[0] == 1000 and old[0] == 7
    assert re.search("atomicrmw add .* seq_cst", built.get_source("ll"))
    assert re.search("atomicrmw fadd .* seq_cst", built.get_source("raw"))


def test_intrinsics_of_llvm_by_name_or_number() -> None:
    def run(dtype: str, call: object, value: int) -> int:
        v = tir.Var("v", dtype)
        A = tir.decl_buffer((1,), call(v).dtype, "A")  # type: ignore[operator]
        a = tir.Var("a", "handle")
        func = tir.PrimFunc([a, v], tir.BufferStore(A, call(v), [0]), buffer_map={a: A})  # type: ignore[operator]
        out = np.zeros(1, str(A.dtype))
        tvm.build(func)(out, value)
        return int(out[0])

    def cttz(v: tir.Var) -> tir.PrimExpr:
        return tir.call_llvm_pure_intrin("int32", "llvm.cttz", tir.const(2, "uint32"), v, tir.const(0, "int1"))

    def ctpop(v: tir.Var) -> tir.PrimExpr:
        number = tir.llvm_lookup_intrinsic_id("llvm.ctpop.i8")
        return tir.call_llvm_pure_intrin("int8", number, tir.const(1, "uint32"), v)

    assert run("int32", cttz, 40) == 3 and run("int8", ctpop, 7) == 3

    @T.prim_func
    def prefetch(A: T.Buffer((4,), "float32")) -> None:
        T.func_attr({"global_symbol": "prefetch_it"})
        T.evaluate(T.call_llvm_intrin("void", "llvm.prefetch", T.uint32(4), T.address_of(A[0]), 0, 3, 1))
        A[0] = T.float32(2)

    a = np.zeros(4, "float32")
    tvm.build(prefetch)(a)
    assert a[0] == 2
    assert tir.call_llvm_intrin("", "llvm.donothing", tir.const(0, "uint32")).dtype == "void"
    for name in ("llvm.there_is_no_such", "ctpop", "llvm"):
        with pytest.raises(ValueError):
            tir.call_llvm_pure_intrin("int8", name, tir.const(1, "uint32"), tir.Var("v", "int8"))


@pytest.mark.parametrize(
    "name, count",
    [("llvm.cttz.i32", 3), ("llvm.ctpop", 2), ("llvm.abs", 1), ("llvm.memcpy", 1), ("llvm.masked.load", 1)],
)
def test_a_call_that_llvm_would_not_take_is_refused_before_it_ends_the_process(name: str, count: int) -> None:
    v, A, a = tir.Var("v", "int32"), tir.decl_buffer((1,), "int32", "A"), tir.Var("a", "handle")
    call = tir.call_llvm_pure_intrin("int32", name, tir.const(count, "uint32"), *[v] * count)
    func = tir.PrimFunc([a, v], tir.BufferStore(A, call, [0]), buffer_map={a: A})
    with refuses("codegen.intrinsic_refused"):
        tvm.build(func)


def test_registered_functions_take_buffers() -> None:
    @tvm.register_func("test.behaviour.double", override=True)
    def double(source: tvm.nd.NDArray, target: tvm.nd.NDArray, factor: int) -> None:
        assert isinstance(source, tvm.nd.NDArray) and source.shape == (4, 3) and source.dtype == "float32"
        target.copyfrom(source.numpy() * factor)

    A = te.placeholder((4, 3), name="A")
    B = te.extern(A.shape, [A], lambda i, o: tir.call_packed("test.behaviour.double", i[0], o[0], 2), name="B")
    C = te.compute(B.shape, lambda i, j: B[i, j] + 1.0, name="C")
    a, c = np.random.rand(4, 3).astype("float32"), np.zeros((4, 3), "float32")
    tvm.build(te.create_schedule(C.op), [A, C])(a, c)
    np.testing.assert_array_equal(c, 2 * a + 1)

    @T.prim_func
    def f(A: T.Buffer((4, 3), "float32"), Out: T.Buffer((4,), "int64")) -> None:
        d: T.handle = T.tvm_stack_make_array(A.data, T.tvm_stack_make_shape(4, 3), 0, 2, T.float32(0), 3)
        Out[0] = T.Cast("int64", T.tvm_struct_get(d, 0, 4, dtype="int32"))
        T.evaluate(T.tvm_struct_set(d, 0, 4, 7))
        Out[1] = T.Cast("int64", T.tvm_struct_get(d, 0, 4, dtype="int32"))
        Out[2] = T.Cast("int64", T.tvm_struct_get(d, 0, 6, dtype="uint8"))
        Out[3] = T.Cast("int64", T.tvm_struct_get(d, 0, 8, dtype="uint64"))

    out = np.zeros(4, "int64")
    tvm.build(f)(a, out)
    assert out.tolist() == [2, 7, 32, 12]


# ---------------------------------------------------------------------------- arrays and scalars


def test_arrays_of_vectors() -> None:
    array = tvm.nd.empty((3,), "float32x2")
    assert array.shape == (3,) and array.dtype == "float32x2"
    data = np.arange(6, dtype="float32").reshape(3, 2)
    array.copyfrom(data)
    assert array.numpy().tolist() == data.tolist()
    A = te.placeholder((3,), "float32x2", name="A")
    B = te.compute((3,), lambda i: A[i] + tir.const(1.0, "float32x2"), name="B")
    out = tvm.nd.empty((3,), "float32x2")
    tvm.build(te.create_schedule(B.op), [A, B])(array, out)
    assert out.numpy().tolist() == (data + 1).tolist()


def test_bools_are_bools() -> None:
    @T.prim_func
    def small(v: T.int32) -> T.bool:
        T.ret(v < 3)

    run = tvm.build(small)
    assert run(1) is True and run(5) is False

    @T.prim_func
    def given(b: T.bool, A: T.Buffer((1,), "int32")) -> None:
        A[0] = T.if_then_else(b, 1, 0)

    run, out = tvm.build(given), np.zeros(1, "int32")
    for value, result in ((0, 0), (1, 1), (2, 1), (-5, 1), (True, 1), (False, 0), (256, 1)):
        run(value, out)
        assert out[0] == result, value


# ---------------------------------------------------------------------------- driver and targets


def test_build_merges_modules() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    parts = [tvm.lower(s, [A, B], name="p1"), tvm.lower(s, [A, B], name="p2")]
    a = np.arange(8, dtype="float32")
    for inputs in (
        parts,
        {"llvm": parts[0]},
        {Target("llvm"): ir.IRModule({**parts[0].functions, **parts[1].functions})},
    ):
        m = tvm.build(inputs, "llvm") if isinstance(inputs, list) else tvm.build(inputs)
        b = np.zeros(8, "float32")
        m["p1"](a, b)
        assert b.tolist() == (2 * a).tolist()
    b = np.zeros(8, "float32")
    tvm.build(parts, "llvm")["p2"](a, b)
    assert b.tolist() == (2 * a).tolist()
    functions = [p.with_attr("global_symbol", f"q{i}") for i, p in enumerate([inc, inc])]
    check_inc({"inc": tvm.build(functions, "llvm")["q1"]})
    with pytest.raises(tvm.TVMError, match="p1"):
        tvm.build([parts[0], parts[0]], "llvm")


def test_targets_have_tags() -> None:
    a100 = Target("nvidia/nvidia-a100")
    assert a100.kind.name == "cuda" and a100.arch == "sm_80" and a100.attrs["max_threads_per_block"] == 1024
    assert a100.tag == "nvidia/nvidia-a100" and Target("nvidia/geforce-rtx-3090").attrs["arch"] == "sm_86"
    pi = Target("raspberry-pi/4b-aarch64")
    assert pi.mcpu == "cortex-a72" and pi.attrs["num-cores"] == 4 and pi.host is not None
    assert str(Target("cuda -supports_float16=1")).endswith("-supports_float16=1 -thread_warp_size=32")
    with pytest.raises(tvm.TVMError):
        Target("llvm -supports_float16=1")
    with pytest.raises(tvm.TVMError):
        Target("nvidia/nvidia-a1000000")


def test_targets_behave_as_those_of_tvm() -> None:
    assert {"llvm", "cuda", "c"} <= set(Target.list_kinds())
    assert Target.current() is None
    with Target("llvm -mcpu=haswell -mattr=+avx2 -num-cores=4") as target:
        assert Target.current() is target
        with Target("cuda"):
            assert Target.current().kind.name == "cuda"
        assert Target.current().same_as(target)
    assert Target.current() is None
    assert str(target) == "llvm -keys=cpu -mattr=+avx2 -mcpu=haswell -num-cores=4"
    assert Target({"kind": "llvm", "mcpu": "haswell"}).mcpu == "haswell"
    assert Target("cuda", host="llvm").host.kind.name == "llvm"


def test_a_program_of_many_arrays_does_not_list_all_of_them_for_each() -> None:
    """The lists of what memory is apart from which end at 64 arrays: here they would have 40,000 entries."""
    X = te.placeholder((4,), name="X")
    outputs = [te.compute((4,), lambda i: X[i] + 1.0, name=f"Y{n}") for n in range(200)]
    text = tvm.build(te.create_schedule([Y.op for Y in outputs]), [X, *outputs], "llvm -opt-level=0").get_source("ll")
    scopes = [line for line in text.splitlines() if line.startswith("!")]
    assert sum(line.count("!") for line in scopes) < 20_000
