"""Loops, vectors and memory against NumPy."""

import re

import numpy as np
import pytest
from handmade import allocate, flat, function, local, loop, matmul, module

import tvmagic
from tvmagic import codegen, ir, te, tir
from tvmagic.errors import BuildError, TVMagicError
from tvmagic.script import from_source


def test_matmul_with_packed_panels_and_a_local_tile():
    built = codegen.compile_module(matmul(128))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((128, 128), dtype="float32") for _ in "ab")
    c = np.zeros((128, 128), "float32")
    built(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_the_tile_stays_in_vector_registers():
    target = codegen.Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")
    text = codegen.assembly(matmul(128), target)
    body = max(text.split(".LBB"), key=lambda part: part.count("vfmadd231ps"))
    assert body.count("vfmadd231ps") >= 16
    assert body.count("%rsp") == 0


@pytest.mark.parametrize("kind", [ir.ForKind.SERIAL, ir.ForKind.PARALLEL, ir.ForKind.UNROLLED])
def test_loops_of_every_kind(kind):
    x, y = ir.decl_buffer((100,), "float32", "X"), ir.decl_buffer((100,), "float32", "Y")
    body = loop(100, lambda i: tir.BufferStore(y, x[i] * 2.0 + 1.0, [i]), kind)
    built = codegen.compile_module(module(body, x, y))
    values = np.arange(100, dtype="float32")
    np.testing.assert_array_equal(built(values), values * 2 + 1)


@pytest.mark.parametrize("stride", [1, 2, 3, -1, -2, 5, 0])
def test_strided_vectors(stride):
    lanes = 8
    x, y = ir.decl_buffer((64,), "float32", "X"), ir.decl_buffer((64,), "float32", "Y")
    first = 0 if stride >= 0 else 40
    load = x[ir.Ramp(first, stride, lanes)]
    body = tir.SeqStmt([tir.BufferStore(y, load, [ir.Ramp(first, stride or 1, lanes)])])
    built = codegen.compile_module(module(body, x, y))
    values = np.random.default_rng(1).standard_normal(64).astype("float32")
    result = np.zeros(64, "float32")
    built(values, result)
    expected = np.zeros(64, "float32")
    for lane in range(lanes):
        expected[first + lane * (stride or 1)] = values[first + lane * stride]
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("stride", [2, 3, 4, -2, -3])
def test_elements_a_few_places_apart_are_loaded_by_whole_vectors_that_end_with_the_last(stride):
    """LLVM takes a load of 15 or 29 lanes apart into vectors of 8, 4, 2 and 1."""
    lanes = 8
    count = (lanes - 1) * abs(stride) + 1
    x, y = ir.decl_buffer((count,), "int16", "X"), ir.decl_buffer((lanes,), "int16", "Y")
    body = tir.BufferStore(y, x[ir.Ramp(0 if stride > 0 else count - 1, stride, lanes)], [ir.Ramp(0, 1, lanes)])
    built = codegen.compile_module(module(body, x, y))
    assert re.findall(r"load <(\d+) x i16>", built.get_source("raw")) == ["8"] * abs(stride)
    values, result = np.arange(count, dtype="int16"), np.zeros(lanes, "int16")
    built(values, result)
    np.testing.assert_array_equal(result, values[::stride])


@pytest.mark.parametrize("dtype", ["float32", "bool", "int8", "float64"])
def test_gather_and_masked_access(dtype):
    x, y = ir.decl_buffer((32,), dtype, "X"), ir.decl_buffer((16,), dtype, "Y")
    index = ir.decl_buffer((16,), "int32", "I")
    lanes = index[ir.Ramp(0, 1, 16)]
    mask = lanes < ir.Broadcast(tir.IntImm("int32", 16), 16)
    gathered = tir.BufferLoad(x, [lanes], mask)
    keep = ir.Ramp(0, 1, 16) < ir.Broadcast(tir.IntImm("int32", 11), 16)
    built = codegen.compile_module(module(tir.BufferStore(y, gathered, [ir.Ramp(0, 1, 16)], keep), x, index, y))
    rng = np.random.default_rng(2)
    values = rng.integers(0, 2, 32).astype(dtype)
    places = rng.integers(0, 32, 16).astype("int32")
    result = np.ones(16, dtype)
    built(values, places, result)
    expected = np.where(places < 16, values[places], np.zeros(16, dtype))
    np.testing.assert_array_equal(result[:11], expected[:11])
    assert (result[11:] == 1).all()


def test_symbolic_sizes_are_read_from_the_shapes():
    n = ir.Var("n", "int32")
    x, y = ir.decl_buffer((n, 4), "float32", "X"), ir.decl_buffer((n * 4,), "float32", "Y")
    body = loop(n * 4, lambda i: tir.BufferStore(y, flat(x)[i] + 1.0, [i]), ir.ForKind.PARALLEL)
    built = codegen.compile_module(module(body, x, y))
    values = np.ones((5, 4), "float32")
    np.testing.assert_array_equal(built(values), np.full(20, 2.0, "float32"))
    with pytest.raises(TVMagicError, match="`Y`"):
        built(values, np.zeros(7, "float32"))


def test_one_function_calls_another():
    x = ir.decl_buffer((8,), "float32", "X")
    inner = function(loop(8, lambda i: tir.BufferStore(x, x[i] * 2.0, [i])), x, name="inner")
    mod = ir.IRModule({"inner": inner})
    y = ir.decl_buffer((8,), "float32", "Y")
    callee = mod.get_global_var("inner")
    twice = tir.SeqStmt([tir.Evaluate(callee(y.data)), tir.Evaluate(callee(y.data))])
    mod = mod.with_functions({ir.GlobalVar("main"): function(twice, y)})
    built = codegen.compile_module(mod)
    values = np.arange(8, dtype="float32")
    built["main"](values)
    np.testing.assert_array_equal(values, np.arange(8) * 4)


def test_a_large_allocation_comes_from_the_heap():
    count = 100_000
    x, y = ir.decl_buffer((count,), "float32", "X"), ir.decl_buffer((count,), "float32", "Y")
    pointer, scratch = local("scratch", count, scope="global")
    copy = loop(count, lambda i: tir.BufferStore(scratch, x[i] + 1.0, [i]))
    back = loop(count, lambda i: tir.BufferStore(y, scratch[count - 1 - i], [i]))
    built = codegen.compile_module(module(allocate(pointer, count, tir.SeqStmt([copy, back])), x, y))
    values = np.arange(count, dtype="float32")
    for _ in range(3):
        np.testing.assert_array_equal(built(values), values[::-1] + 1)
    assert "tvm.alloc" in built.get_source("raw")


def test_while_let_and_branches():
    y = ir.decl_buffer((10,), "int32", "Y")
    pointer, cell = local("cell", 1, "int32")
    start = tir.BufferStore(cell, tir.IntImm("int32", 0), [0])
    value = ir.Var("v", "int32")
    odd = tir.EQ(tir.FloorMod(value, tir.IntImm("int32", 2)), tir.IntImm("int32", 1))
    step = tir.LetStmt(
        value,
        cell[0],
        tir.SeqStmt(
            [
                tir.IfThenElse(odd, tir.BufferStore(y, value * 10, [value]), tir.BufferStore(y, value, [value])),
                tir.BufferStore(cell, value + 1, [0]),
            ]
        ),
    )
    body = allocate(pointer, 1, tir.SeqStmt([start, tir.While(cell[0] < 10, step)]), "int32")
    built = codegen.compile_module(module(body, y))
    np.testing.assert_array_equal(built(), [0, 10, 2, 30, 4, 50, 6, 70, 8, 90])


def test_an_assertion_that_fails_is_an_error():
    n = ir.Var("n", "int32")
    x = ir.decl_buffer((n,), "float32", "X")
    message = tir.StringImm("n is small")
    body = tir.AssertStmt(n < 4, message, loop(n, lambda i: tir.BufferStore(x, x[i] + 1.0, [i])))
    built = codegen.compile_module(module(body, x))
    built(np.zeros(3, "float32"))
    with pytest.raises(TVMagicError, match="`main`"):
        built(np.zeros(4, "float32"))


def test_a_function_that_is_not_lowered_is_refused():
    x = ir.decl_buffer((4,), "float32", "X")
    block = tir.Block([], [], [], "root", tir.BufferStore(x, x[0] + 1.0, [0]))
    with pytest.raises(BuildError, match="`BlockRealize`"):
        codegen.compile_module(module(tir.BlockRealize([], True, block), x))


@pytest.mark.parametrize(
    "triple", ["aarch64-linux-gnu", "riscv64-linux-gnu", "wasm32-unknown-unknown", "x86_64-pc-windows-msvc"]
)
def test_assembly_of_other_machines(triple):
    text = codegen.assembly(matmul(64), f"llvm -mtriple={triple}")
    assert "main" in text and len(text.splitlines()) > 100


def test_threads_of_a_gpu_are_special_registers():
    x, y = ir.decl_buffer((256,), "float32", "X"), ir.decl_buffer((256,), "float32", "Y")
    block, thread = (
        tir.IterVar((0, 16), name, tir.IterVar.ThreadIndex, tag)
        for name, tag in (("bx", "blockIdx.x"), ("tx", "threadIdx.x"))
    )
    index = block.var * 16 + thread.var
    body = tir.BufferStore(y, x[index] + 1.0, [index])
    body = tir.AttrStmt(block, "thread_extent", 16, tir.AttrStmt(thread, "thread_extent", 16, body))
    text = codegen.assembly(module(body, x, y), "nvptx")
    assert ".entry main" in text and "%ctaid.x" in text and "%tid.x" in text
    values = np.arange(256, dtype="float32")
    np.testing.assert_array_equal(codegen.compile_module(module(body, x, y))(values), values + 1)


def test_code_for_another_machine_does_not_run_here():
    built = codegen.compile_module(matmul(64), "llvm -mtriple=riscv64-linux-gnu")
    assert "riscv64" in built.get_source("ll") and "main" in built
    with pytest.raises(BuildError):
        built["main"]


def test_deep_expressions_and_long_bodies():
    x, y = ir.decl_buffer((8,), "float32", "X"), ir.decl_buffer((8,), "float32", "Y")
    deep = x[0]
    for i in range(1000):
        deep = deep + x[i % 8]
    built = codegen.compile_module(module(tir.BufferStore(y, deep, [0]), x, y))
    values = np.ones(8, "float32")
    assert built(values)[0] == 1001
    long = tir.SeqStmt([tir.BufferStore(y, y[i % 8] + 1.0, [i % 8]) for i in range(5000)])
    built = codegen.compile_module(module(long, y), "llvm -opt-level=1")
    result = np.zeros(8, "float32")
    built(result)
    assert (result == 625).all()


def test_chains_of_lets_do_not_exhaust_the_stack():
    y = ir.decl_buffer((1,), "int32", "Y")
    names = [ir.Var(f"v{i}", "int32") for i in range(5000)]
    body = tir.BufferStore(y, names[-1], [0])
    for previous, var in reversed(list(zip([None, *names], names))):
        body = tir.LetStmt(var, tir.IntImm("int32", 1) if previous is None else previous + 1, body)
    assert codegen.compile_module(module(body, y), "llvm -opt-level=1")()[0] == 5000


WRAPPED = """
@T.prim_func
def wrapped(x: T.Buffer((3584,), "float32"), y: T.Buffer((512,), "float32"), z: T.Buffer((112,), "float32"), o: T.Buffer((3584,), "float32")):
    T.func_attr({"tir.noalias": T.bool(True)})
    for b in T.parallel(14):
        u = T.allocate([4], "float32", "local")
        v = T.allocate([4], "float32", "local")
        w = T.allocate([4], "float32", "local")
        for i in range(64):
            p = T.Buffer((4,), data=u, scope="local")
            q = T.Buffer((4,), data=v, scope="local")
            s = T.Buffer((4,), data=w, scope="local")
            for r in range(4):
                p[r] = x[b * 256 + i * 4 + r]
            for r in range(4):
                q[r] = y[b % 2 * 256 + i * 4 + r]
            for r in range(4):
                s[r] = z[b // 2 * 16 + i % 4 * 4 + r]
            for r in range(4):
                q[r] = q[r] + s[r]
            for r in range(4):
                o[b * 256 + i * 4 + r] = p[r] - q[r]
"""


def test_indices_that_wrap_around_are_vectorized_rightly():
    """LLVM's groups of strided accesses took the second four of eight `i` from behind the sixteen elements, as long as it saw the mask."""
    rng = np.random.default_rng(0)
    x, y, z = (rng.standard_normal(n).astype("float32") for n in (3584, 512, 112))
    b, i, r = np.unravel_index(np.arange(3584), (14, 64, 4))
    out = np.zeros_like(x)
    tvmagic.build(from_source(WRAPPED))(x, y, z, out)
    np.testing.assert_allclose(out, x - (y[b % 2 * 256 + i * 4 + r] + z[b // 2 * 16 + i % 4 * 4 + r]), atol=1e-5)


def test_sums_below_the_pragma_may_be_taken_in_any_order():
    """LLVM makes vectors of them; without the pragma the order is the program's."""

    a = te.placeholder((37, 101), name="A")
    k = te.reduce_axis((0, 101), name="k")
    func = te.create_prim_func([a, te.compute((37,), lambda i: te.sum(a[i, k], axis=k), name="S")])
    sch = tir.Schedule(func)
    block = sch.get_block("S")
    plain = codegen.llvm_ir(tvmagic.lower(sch.mod), optimize=True)
    loop = sch.get_loops(block)[1]
    sch.decompose_reduction(block, loop)
    sch.annotate(loop, "pragma_any_order", 1)
    free = codegen.llvm_ir(tvmagic.lower(sch.mod), optimize=True)
    assert "reassoc" not in str(plain) and "reassoc" in str(free)
    data = np.random.default_rng(0).standard_normal((37, 101), dtype="float32")
    result = np.zeros(37, "float32")
    tvmagic.build(sch.mod)(data, result)
    np.testing.assert_allclose(result, data.sum(axis=1), rtol=1e-4, atol=1e-5)


def test_the_largest_value_in_any_order_lets_nan_through():

    a = te.placeholder((5, 101), name="A")
    k = te.reduce_axis((0, 101), name="k")
    func = te.create_prim_func([a, te.compute((5,), lambda i: te.max(a[i, k], axis=k), name="M")])
    sch = tir.Schedule(func)
    block = sch.get_block("M")
    loop = sch.get_loops(block)[1]
    sch.decompose_reduction(block, loop)
    sch.annotate(loop, "pragma_any_order", 1)
    data = np.random.default_rng(0).standard_normal((5, 101), dtype="float32")
    data[2, 40] = np.nan
    result = np.zeros(5, "float32")
    tvmagic.build(sch.mod)(data, result)
    np.testing.assert_array_equal(result, data.max(axis=1))


@pytest.mark.parametrize("name", ["max", "min"])
def test_any_and_all_of_bools_take_whole_vectors(name):
    """Bools are bytes in memory: LLVM makes vectors of `or` and `and` of bytes. A byte that is no 0 counts as 1."""

    a = te.placeholder((8, 999), "bool", name="A")
    k = te.reduce_axis((0, 999), name="k")
    func = te.create_prim_func([a, te.compute((8,), lambda i: getattr(te, name)(a[i, k], axis=k), name="M")])
    sch = tir.Schedule(func)
    loop = sch.get_loops(sch.get_block("M"))[1]
    sch.decompose_reduction(sch.get_block("M"), loop)
    sch.annotate(loop, "pragma_any_order", 1)
    text = tvmagic.build(sch.mod, target="llvm -mcpu=haswell").get_source("ll")
    assert text.count("load <") >= 2 and "x i8>" in text
    data = np.full((8, 999), name == "min")
    data[[1, 3, 5], [0, 500, 998]] = name == "max"
    data.view("uint8")[7, 37] = 2
    result = np.full(8, True)
    tvmagic.build(sch.mod)(data, result)
    np.testing.assert_array_equal(result.view("uint8"), getattr(data.view("uint8") != 0, name)(axis=1))


@pytest.mark.parametrize(("extent", "vectors"), [(1000, 4), (1024, 8), (128, 4)])
def test_a_reduction_in_any_order_keeps_several_vectors_of_partial_results(extent, vectors):
    """Each waits for its last value, some four cycles; what is the larger of two zeros does not matter."""

    a = te.placeholder((5, extent), name="A")
    k = te.reduce_axis((0, extent), name="k")
    func = te.create_prim_func([a, te.compute((5,), lambda i: te.max(a[i, k], axis=k), name="M")])
    sch = tir.Schedule(func)
    loop = sch.get_loops(sch.get_block("M"))[1]
    sch.decompose_reduction(sch.get_block("M"), loop)
    sch.annotate(loop, "pragma_any_order", 1)
    text = tvmagic.build(sch.mod, target="llvm -mcpu=haswell").get_source("ll")
    loop_text = text[text.index("vector.body:") :]
    loop_text = loop_text[: loop_text.index("br i1")]
    counts = [loop_text.count(text) for text in ("phi <8 x float>", "call nsz <8 x float> @llvm.maximum")]
    assert counts == [vectors, vectors]


@pytest.mark.parametrize("extent", [16, 33])
def test_a_short_row_is_not_scattered(extent):
    """Where it is written out as a whole, LLVM makes vectors of the loop around it, with a scatter for each element."""

    rows, row = te.placeholder((100,), name="rows"), te.placeholder((extent,), name="row")
    c = te.compute((100, 100, extent), lambda i, j, k: rows[i] * rows[j] * row[k], name="C")
    for processor in ("znver4", "skylake-avx512"):
        built = tvmagic.build(te.create_schedule(c.op), [rows, row, c], target=f"llvm -mcpu={processor}")
        assert "scatter" not in built.get_source("asm")


def test_a_short_sum_is_written_out():

    a, k = te.placeholder((100, 32), name="A"), te.reduce_axis((0, 32), name="k")
    s = te.compute((100,), lambda i: te.sum(a[i, k], axis=k), name="S")
    text = codegen.llvm_ir(tvmagic.lower(te.create_schedule(s.op), [a, s]), optimize=False)
    assert "unroll.disable" not in str(text)


@pytest.mark.parametrize(("count", "written"), [(4, False), (8, True), (128, True), (132, False), (126, False)])
def test_loops_over_8_to_128_vectors_are_written_out_in_part(count, written):

    a = te.placeholder((4, count * 16), name="A")
    b = te.compute((4, count * 16), lambda i, j: a[i, j] + 1, name="B")
    s = te.create_schedule(b.op)
    s[b].vectorize(s[b].split(b.op.axis[1], 16)[1])
    assert ("llvm.loop.unroll.count" in str(codegen.llvm_ir(tvmagic.lower(s, [a, b]), optimize=False))) is written


def test_many_short_loops_are_not_written_out():
    """A schedule may make hundreds of them; the time to emit a function grows faster than the function."""

    def text(copies: int) -> str:
        a = te.placeholder((copies, 8, 8), name="A")
        b = te.compute((copies, 8, 8), lambda c, i, j: a[c, i, j] + 1, name="B")
        s = te.create_schedule(b.op)
        s[b].unroll(b.op.axis[0])
        return str(codegen.llvm_ir(tvmagic.lower(s, [a, b]), optimize=False))

    assert "unroll.disable" not in text(2) and "unroll.disable" in text(60)


SHORT_ROWS = {
    "a split": "jo, ji = s[Y].split(Y.op.axis[1], 5)",
    "with a rest": "jo, ji = s[Y].split(Y.op.axis[1], 7)",
    "unrolled": "jo, ji = s[Y].split(Y.op.axis[1], 5)\ns[Y].unroll(ji)",
    "tiles": "io, jo, ii, ji = s[Y].tile(*Y.op.axis, 4, 4)",
    "threads": "jo, ji = s[Y].split(Y.op.axis[1], 5)\ns[Y].reorder(jo, Y.op.axis[0], ji)\ns[Y].parallel(jo)",
}


@pytest.mark.parametrize("calls", SHORT_ROWS)
def test_rows_shorter_than_a_vector_are_not_scattered(calls):
    from tvmagic.operators import operator
    from tvmagic.operators.scheduling import schedule

    op = operator("rows", "X: float32[60, 200]\nY[i, j] = X[i, j] * 2 + 1")
    made = schedule(op, SHORT_ROWS[calls])
    text = codegen.assembly(made.lower(), "llvm -mcpu=skylake-avx512")
    assert "scatter" not in text and "%xmm" in text


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("float32", "T.max(X[i * 2], X[i * 2 + 1])"),
        ("uint8", "X[i * 3] + X[i * 3 + 1] + X[i * 3 + 2]"),
        ("int16", "X[i * 2] * T.int16(3)"),
    ],
)
def test_what_an_iteration_reads_from_neighbours_is_one_wide_load(dtype: str, value: str):
    """And lanes are picked from it; not one after the other."""
    func = from_source(
        f"@T.prim_func\ndef f(X: T.Buffer((3072,), '{dtype}'), Y: T.Buffer((1024,), '{dtype}')):\n"
        f"    T.func_attr({{'tir.noalias': True}})\n    for i in range(1024):\n        Y[i] = {value}"
    )
    text = codegen.llvm_ir(func, "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell")
    assert "shufflevector" in text and "insertelement" not in text
