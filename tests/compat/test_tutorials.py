"""The calls of TVM 0.13's tutorials on tensor expressions and TensorIR, with the import lines changed, on a CPU."""

import ctypes
import pathlib
import subprocess

import numpy as np
import tvmagic.testing
from tools import is_installed, needs, uses

import tvmagic as tvm
from tvmagic import te, tir
from tvmagic.ir import register_intrin_lowering, register_op_attr
from tvmagic.ir.module import IRModule
from tvmagic.script import ir as I
from tvmagic.script import tir as T
from tvmagic.tools import CC

DEV = tvm.device("llvm", 0)


def arrays(*values: np.ndarray) -> list[tvm.nd.NDArray]:
    return [tvm.nd.array(value, DEV) for value in values]


@uses("cc")
def test_get_started_with_tensor_expressions(tmp_path: pathlib.Path) -> None:
    tgt = tvm.target.Target(target="llvm", host="llvm")
    n = te.var("n")
    A, B = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")

    def fadd(s: te.Schedule) -> tvm.runtime.Module:
        built = tvm.build(s, [A, B, C], tgt, name="myadd")
        a, b, c = arrays(*(np.random.uniform(size=1000).astype("float32") for _ in range(2)), np.zeros(1000, "float32"))
        built(a, b, c)
        tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
        evaluator = built.time_evaluator(built.entry_name, DEV, number=2)
        assert evaluator(a, b, c).mean > 0
        return built

    s = te.create_schedule(C.op)
    fadd(s)
    s[C].parallel(C.op.axis[0])
    assert "T.parallel" in str(tvm.lower(s, [A, B, C], simple_mode=True))
    fadd(s)
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=16)
    s[C].parallel(outer)
    s[C].vectorize(inner)
    built = fadd(s)
    if is_installed("cc"):
        from tvmagic.contrib import cc, utils

        temp = utils.tempdir(str(tmp_path / "saved"))
        built.save(temp.relpath("myadd.o"))
        cc.create_shared(temp.relpath("myadd.so"), [temp.relpath("myadd.o")])
        assert {"myadd.o", "myadd.so"} <= set(temp.listdir())
        loaded = tvm.runtime.load_module(temp.relpath("myadd.so"))
        a, b, c = arrays(*(np.random.uniform(size=64).astype("float32") for _ in range(2)), np.zeros(64, "float32"))
        loaded["myadd"](a, b, c)
        tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())

    # the second half: a matrix product, blocked, vectorized, permuted, packed, cached, parallel
    M = K = N = 128
    k = te.reduce_axis((0, K), "k")
    A, B = te.placeholder((M, K), name="A"), te.placeholder((K, N), name="B")
    C = te.compute((M, N), lambda x, y: te.sum(A[x, k] * B[k, y], axis=k), name="C")
    a, b = np.random.rand(M, K).astype("float32"), np.random.rand(K, N).astype("float32")

    def evaluate_operation(s: te.Schedule, variables: list[te.Tensor]) -> None:
        func = tvm.build(s, variables, target="llvm", name="mmult")
        c = tvm.nd.array(np.zeros((M, N), dtype="float32"), DEV)
        func(*arrays(a, b), c)
        tvm.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-5)

    s = te.create_schedule(C.op)
    evaluate_operation(s, [A, B, C])
    xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], 32, 32)
    (k,) = s[C].op.reduce_axis
    ko, ki = s[C].split(k, factor=4)
    s[C].reorder(xo, yo, ko, xi, ki, yi)
    s[C].vectorize(yi)
    evaluate_operation(s, [A, B, C])


def test_a_blitz_course_in_tensor_ir() -> None:
    @I.ir_module
    class MyModule:
        @T.prim_func
        def main(a: T.handle, b: T.handle):
            T.func_attr({"global_symbol": "main", "tir.noalias": True})
            A = T.match_buffer(a, (8,), dtype="float32")
            B = T.match_buffer(b, (8,), dtype="float32")
            for i in range(8):
                with T.block("B"):
                    vi = T.axis.spatial(8, i)
                    B[vi] = A[vi] + 1.0

    assert isinstance(MyModule, IRModule) and "T.block" in MyModule.script()
    a, b = arrays(np.arange(8).astype("float32"), np.zeros((8,)).astype("float32"))
    tvm.build(MyModule, target="llvm")(a, b)
    assert b.numpy().tolist() == (np.arange(8) + 1).tolist()

    A = te.placeholder((8,), dtype="float32", name="A")
    B = te.compute((8,), lambda *i: A(*i) + 1.0, name="B")
    func = te.create_prim_func([A, B])
    ir_module_from_te = IRModule({"main": func})
    tvm.ir.assert_structural_equal(ir_module_from_te["main"].body, MyModule["main"].body, map_free_vars=True)

    sch = tvm.tir.Schedule(ir_module_from_te)
    block_b = sch.get_block("B")
    (i,) = sch.get_loops(block_b)
    i_0, i_1, i_2 = sch.split(i, factors=[2, 2, 2])
    assert sch.mod.script().count("T.grid(2, 2, 2)") == 1
    sch.reorder(i_0, i_2, i_1)
    sch.vectorize(i_1)
    a, b = arrays(np.arange(8).astype("float32"), np.zeros((8,)).astype("float32"))
    tvm.build(sch.mod, target="llvm")(a, b)
    assert b.numpy().tolist() == (np.arange(8) + 1).tolist()


def test_how_to_optimize_a_matrix_product() -> None:
    M = K = N = 128
    a, b = np.random.rand(M, K).astype("float32"), np.random.rand(K, N).astype("float32")
    A, B = te.placeholder((M, K), name="A"), te.placeholder((K, N), name="B")
    bn, kfactor = 32, 4

    def check(s: te.Schedule, C: te.Tensor) -> None:
        func = tvm.build(s, [A, B, C], target="llvm", name="mmult")
        assert func
        c = tvm.nd.array(np.zeros((M, N), dtype="float32"), DEV)
        func(*arrays(a, b), c)
        tvm.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-5)
        assert func.time_evaluator(func.entry_name, DEV, number=1)(*arrays(a, b), c).mean > 0

    k = te.reduce_axis((0, K), "k")
    C = te.compute((M, N), lambda m, n: te.sum(A[m, k] * B[k, n], axis=k), name="C")
    check(te.create_schedule(C.op), C)
    for order in ("blocked", "vectorized", "permuted"):
        s = te.create_schedule(C.op)
        mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
        ko, ki = s[C].split(s[C].op.reduce_axis[0], factor=kfactor)
        s[C].reorder(mo, no, ko, *((mi, ki, ni) if order == "permuted" else (ki, mi, ni)))
        if order != "blocked":
            s[C].vectorize(ni)
        check(s, C)

    packedB = te.compute((N // bn, K, bn), lambda bigN, k, littleN: B[k, bigN * bn + littleN], name="packedB")
    C = te.compute((M, N), lambda m, n: te.sum(A[m, k] * packedB[n // bn, k, tir.indexmod(n, bn)], axis=k), name="C")
    for last in ("packed", "cached", "parallel"):
        s = te.create_schedule(C.op)
        target = s.cache_write(C, "global") if last != "packed" else C
        mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
        if last == "packed":
            ko, ki = s[C].split(s[C].op.reduce_axis[0], factor=kfactor)
            s[C].reorder(mo, no, ko, mi, ki, ni)
            s[C].vectorize(ni)
        else:
            s[target].compute_at(s[C], no)
            mc, nc = s[target].op.axis
            ko, ki = s[target].split(s[target].op.reduce_axis[0], factor=kfactor)
            s[target].reorder(ko, mc, ki, nc)
            s[target].vectorize(nc)
            s[target].unroll(ki)
        if last == "parallel":
            s[C].parallel(mo)
        bigN, _, littleN = s[packedB].op.axis
        s[packedB].vectorize(littleN)
        s[packedB].parallel(bigN)
        check(s, C)


def test_schedule_primitives() -> None:
    n, m = te.var("n"), te.var("m")
    A, B = te.placeholder((m, n), name="A"), te.placeholder((m, n), name="B")
    C = te.compute((m, n), lambda i, j: A[i, j] * B[i, j], name="C")
    assert "T.prim_func" in tvm.lower(te.create_schedule([C.op]), [A, B, C], simple_mode=True).script()

    A1 = te.placeholder((m,), name="A")
    B1 = te.compute((m,), lambda i: A1[i] * 2, name="B")
    for options in ({"factor": 32}, {"nparts": 32}):
        s = te.create_schedule(B1.op)
        xo, xi = s[B1].split(B1.op.axis[0], **options)
        a, b = arrays(np.random.rand(70).astype("float32"), np.zeros(70, "float32"))
        tvm.build(s, [A1, B1])(a, b)
        tvm.testing.assert_allclose(b.numpy(), 2 * a.numpy())

    B2 = te.compute((m, n), lambda i, j: A[i, j], name="B")
    s = te.create_schedule(B2.op)
    xo, yo, xi, yi = s[B2].tile(B2.op.axis[0], B2.op.axis[1], x_factor=10, y_factor=5)
    assert [iv.var.name for iv in s[B2].leaf_iter_vars] == ["i.outer", "j.outer", "i.inner", "j.inner"]
    fused = s[B2].fuse(xi, yi)
    s[B2].reorder(yo, xo, fused)
    x, y = arrays(np.random.rand(23, 17).astype("float32"), np.zeros((23, 17), "float32"))
    tvm.build(s, [A, B2])(x, y)
    tvm.testing.assert_allclose(y.numpy(), x.numpy())

    s = te.create_schedule(B1.op)
    bx, tx = s[B1].split(B1.op.axis[0], factor=64)
    s[B1].bind(bx, te.thread_axis("blockIdx.x"))
    s[B1].bind(tx, te.thread_axis("threadIdx.x"))
    assert 'T.launch_thread("threadIdx.x", 64)' in str(tvm.lower(s, [A1, B1], simple_mode=True))

    B3 = te.compute((m,), lambda i: A1[i] + 1, name="B")
    C3 = te.compute((m,), lambda i: B3[i] * 2, name="C")
    for place in ("root", "at", "inline", "back"):
        s = te.create_schedule(C3.op)
        if place in ("at", "back"):
            s[B3].compute_at(s[C3], C3.op.axis[0])
        if place == "inline":
            s[B3].compute_inline()
        if place == "back":
            s[B3].compute_root()
        text = str(tvm.lower(s, [A1, B3, C3] if place != "inline" else [A1, C3], simple_mode=True))
        assert text.count("for ") == (1 if place in ("at", "inline") else 2)


def test_reductions() -> None:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")

    def check(s: te.Schedule, *outputs: te.Tensor) -> None:
        a, b = arrays(np.random.rand(40, 70).astype("float32"), np.zeros(40, "float32"))
        tvm.build(s, [A, B])(a, b)
        tvm.testing.assert_allclose(b.numpy(), np.sum(a.numpy(), axis=1), rtol=1e-4)

    s = te.create_schedule(B.op)
    check(s)
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    xo, xi = s[B].split(B.op.axis[0], factor=32)
    check(s)
    s[B].bind(xo, te.thread_axis("blockIdx.x"))
    s[B].bind(xi, te.thread_axis("threadIdx.x"))
    assert "blockIdx.x" in str(tvm.lower(s, [A, B], simple_mode=True))

    s = te.create_schedule(B.op)
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    BF = s.rfactor(B, ki)
    assert isinstance(s[B].op.body[0], tir.Reduce)
    check(s)
    xo, xi = s[s[B].op].split(s[B].op.axis[0], factor=32)
    s[B].bind(xo, te.thread_axis("blockIdx.x"))
    s[B].bind(xi, te.thread_axis("threadIdx.y"))
    tx = te.thread_axis("threadIdx.x")
    s[B].bind(s[B].op.reduce_axis[0], tx)
    s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
    s[B].set_store_predicate(tx.var.equal(0))
    assert "tvm_thread_allreduce" in str(tvm.lower(s, [A, B], simple_mode=True))
    check(s)

    n = te.var("n")
    Input, Filter = te.placeholder((n, n), name="Input"), te.placeholder((3, 3), name="Filter")
    di, dj = te.reduce_axis((0, 3), name="di"), te.reduce_axis((0, 3), name="dj")
    Output = te.compute(
        (n - 2, n - 2),
        lambda i, j: te.sum(Input[i + di, j + dj] * Filter[di, dj], axis=[di, dj]),
        name="Output",
    )
    x, f, out = arrays(*(np.random.rand(*s).astype("float32") for s in ((10, 10), (3, 3))), np.zeros((8, 8), "float32"))
    tvm.build(te.create_schedule(Output.op), [Input, Filter, Output])(x, f, out)
    expected = sum(x.numpy()[p : p + 8, q : q + 8] * f.numpy()[p, q] for p in range(3) for q in range(3))
    tvm.testing.assert_allclose(out.numpy(), expected, rtol=1e-5)

    product = te.comm_reducer(lambda x, y: x * y, lambda t: tvm.tir.const(1, dtype=t), name="product")
    k = te.reduce_axis((0, m), name="k")
    P = te.compute((n,), lambda i: product(te.placeholder((n, m), name="A")[i, k], axis=k), name="B")
    assert P.op.reduce_axis[0].same_as(k)


def test_scans() -> None:
    m, n = te.var("m"), te.var("n")
    X = te.placeholder((m, n), name="X")
    s_state = te.placeholder((m, n))
    s_init = te.compute((1, n), lambda _, i: X[0, i])
    s_update = te.compute((m, n), lambda t, i: s_state[t - 1, i] + X[t, i])
    s_scan = tvm.te.scan(s_init, s_update, s_state, inputs=[X])
    x, out = arrays(np.random.rand(10, 64).astype("float32"), np.zeros((10, 64), "float32"))
    for split in (False, True):
        s = te.create_schedule(s_scan.op)
        if split:
            s[s_init].split(s_init.op.axis[1], factor=16)
            s[s_update].split(s_update.op.axis[1], factor=16)
        tvm.build(s, [X, s_scan], name="myscan")(x, out)
        tvm.testing.assert_allclose(out.numpy(), np.cumsum(x.numpy(), axis=0), rtol=1e-5)

    s_update_s1 = te.compute((m, n), lambda t, i: s_state[t - 1, i] * 2, name="s1")
    s_update_s2 = te.compute((m, n), lambda t, i: s_update_s1[t, i] + X[t, i], name="s2")
    s_scan = tvm.te.scan(s_init, s_update_s2, s_state, inputs=[X])
    s = te.create_schedule(s_scan.op)
    xo, xi = s[s_update_s2].split(s_update_s2.op.axis[1], factor=32)
    s[s_update_s1].compute_at(s[s_update_s2], xo)
    tvm.build(s, [X, s_scan])(x, out)
    expected = x.numpy().copy()
    for t in range(1, 10):
        expected[t] += 2 * expected[t - 1]
    tvm.testing.assert_allclose(out.numpy(), expected, rtol=1e-5)

    l = te.var("l")
    s_state1, s_state2 = te.placeholder((m, n)), te.placeholder((m, l))
    s_init1 = te.compute((1, n), lambda _, i: X[0, i])
    s_init2 = te.compute((1, l), lambda _, i: 0.0)
    s_update1 = te.compute((m, n), lambda t, i: s_state1[t - 1, i] + X[t, i])
    s_update2 = te.compute((m, l), lambda t, i: s_state2[t - 1, i] + s_state1[t - 1, 0])
    s_scan1, s_scan2 = tvm.te.scan([s_init1, s_init2], [s_update1, s_update2], [s_state1, s_state2], inputs=[X])
    s = te.create_schedule(s_scan1.op)
    second = tvm.nd.array(np.zeros((10, 5), "float32"))
    tvm.build(s, [X, s_scan1, s_scan2])(x, out, second)
    sums = np.cumsum(x.numpy(), axis=0)
    tvm.testing.assert_allclose(out.numpy(), sums, rtol=1e-5)
    tvm.testing.assert_allclose(second.numpy()[1:, 2], np.cumsum(sums[:-1, 0]), rtol=1e-5)


def test_tuple_inputs() -> None:
    n, m = te.var("n"), te.var("m")
    A0, A1 = te.placeholder((m, n), name="A0"), te.placeholder((m, n), name="A1")
    B0, B1 = te.compute((m, n), lambda i, j: (A0[i, j] + 2, A1[i, j] * 3), name="B")
    s = te.create_schedule(B0.op)
    values = arrays(
        *(np.random.rand(5, 6).astype("float32") for _ in range(2)), *(np.zeros((5, 6), "float32") for _ in "ab")
    )
    tvm.build(s, [A0, A1, B0, B1])(*values)
    tvm.testing.assert_allclose(values[2].numpy(), values[0].numpy() + 2)
    tvm.testing.assert_allclose(values[3].numpy(), values[1].numpy() * 3)

    def fcombine(x, y):
        lhs = tir.Select((x[1] >= y[1]), x[0], y[0])
        rhs = tir.Select((x[1] >= y[1]), x[1], y[1])
        return lhs, rhs

    def fidentity(t0, t1):
        return tvm.tir.const(-1, t0), tvm.te.min_value(t1)

    argmax = te.comm_reducer(fcombine, fidentity, name="argmax")
    idx = te.placeholder((m, n), name="idx", dtype="int32")
    val = te.placeholder((m, n), name="val", dtype="int32")
    k = te.reduce_axis((0, n), "k")
    T0, T1 = te.compute((m,), lambda i: argmax((idx[i, k], val[i, k]), axis=k), name="T")
    s = te.create_schedule(T0.op)
    places = np.tile(np.arange(6, dtype="int32"), (5, 1))
    numbers = np.stack([np.random.permutation(6) for _ in range(5)]).astype("int32")
    out = arrays(np.zeros(5, "int32"), np.zeros(5, "int32"))
    tvm.build(s, [idx, val, T0, T1])(*arrays(places, numbers), *out)
    assert out[0].numpy().tolist() == numbers.argmax(axis=1).tolist() and out[1].numpy().tolist() == [5] * 5

    A0 = te.placeholder((m, n), name="A0")
    B0, B1 = te.compute((m, n), lambda i, j: (A0[i, j] + 2, A0[i, j] * 3), name="B")
    A1 = te.placeholder((m, n), name="A1")
    C = te.compute((m, n), lambda i, j: A1[i, j] + B0[i, j], name="C")
    s = te.create_schedule(C.op)
    s[B0].compute_at(s[C], C.op.axis[0])
    assert "for " in str(tvm.lower(s, [A0, A1, C], simple_mode=True))


def test_extern_operations() -> None:
    assert tvm.get_global_func("tvm.contrib.cblas.matmul", allow_missing=True)
    n, l, m = 64, 32, 48
    A, B = te.placeholder((n, l), name="A"), te.placeholder((l, m), name="B")
    C = te.extern(
        (n, m),
        [A, B],
        lambda ins, outs: tvm.tir.call_packed("tvm.contrib.cblas.matmul", ins[0], ins[1], outs[0], False, False),
        name="C",
    )
    bias = te.var("bias", dtype="float32")
    D = te.compute(C.shape, lambda i, j: C[i, j] + bias, name="D")
    s = te.create_schedule(D.op)
    f = tvm.build(s, [A, B, D, bias], "llvm")
    values = (np.random.uniform(size=size).astype("float32") for size in ((n, l), (l, m)))
    a, b, d = arrays(*values, np.zeros((n, m), "float32"))
    f(a, b, d, 10.0)
    tvm.testing.assert_allclose(d.numpy(), np.dot(a.numpy(), b.numpy()) + 10, rtol=1e-5)

    from tvmagic.contrib import cblas

    C = cblas.matmul(A, B)
    D = te.compute(C.shape, lambda i, j: C[i, j] + bias, name="D")
    d.copyfrom(np.zeros((n, m), "float32"))
    tvm.build(te.create_schedule(D.op), [A, B, D, bias], "llvm")(a, b, d, 1.0)
    tvm.testing.assert_allclose(d.numpy(), np.dot(a.numpy(), b.numpy()) + 1, rtol=1e-5)

    @tvm.register_func("tvm.contrib.my_tvm_addone", override=True)
    def my_tvm_addone(x, y):
        tvm.nd.array(x.numpy() + 1).copyto(y)

    A = te.placeholder((n,), name="A")
    B = te.extern(
        A.shape,
        [A],
        lambda ins, outs: tvm.tir.call_packed("tvm.contrib.my_tvm_addone", ins[0], outs[0]),
        name="C",
    )
    a, b = arrays(np.random.uniform(size=(n,)).astype("float32"), np.zeros(n, "float32"))
    tvm.build(te.create_schedule(B.op), [A, B], "llvm")(a, b)
    tvm.testing.assert_allclose(b.numpy(), a.numpy() + 1, rtol=1e-5)


GEMV = """
int gemv_update(float *cc, float *aa, float *bb, int m, int l, int stride) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < l; ++j) cc[i] += aa[j] * bb[i * stride + j];
  return 0;
}
int gemv_reset(float *cc, int m) {
  for (int i = 0; i < m; ++i) cc[i] = 0.0;
  return 0;
}
"""


@needs("cc")
def test_tensorize(tmp_path: pathlib.Path) -> None:
    N, M, L = 64, 32, 16
    A, B = te.placeholder((N, L), name="A"), te.placeholder((M, L), name="B")
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")

    def intrin_gemv(m, l):
        a, b = te.placeholder((l,), name="a"), te.placeholder((m, l), name="b")
        k = te.reduce_axis((0, l), name="k")
        c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
        Ab = tvm.tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[1])
        Bb = tvm.tir.decl_buffer(b.shape, b.dtype, name="B", offset_factor=1, strides=[te.var("s1"), 1])
        Cb = tvm.tir.decl_buffer(c.shape, c.dtype, name="C", offset_factor=1, strides=[1])

        def intrin_func(ins, outs):
            aa, bb = ins
            cc = outs[0]

            def _update():
                ib = tvm.tir.ir_builder.create()
                ib.emit(
                    tvm.tir.call_extern(
                        "int32",
                        "gemv_update",
                        cc.access_ptr("w"),
                        aa.access_ptr("r"),
                        bb.access_ptr("r"),
                        m,
                        l,
                        bb.strides[0],
                    )
                )
                return ib.get()

            def _body():
                ib = tvm.tir.ir_builder.create()
                ib.emit(_reset())
                ib.emit(_update())
                return ib.get()

            def _reset():
                ib = tvm.tir.ir_builder.create()
                ib.emit(tvm.tir.call_extern("int32", "gemv_reset", cc.access_ptr("w"), m))
                return ib.get()

            return _body(), _reset(), _update()

        return te.decl_tensor_intrin(c.op, intrin_func, binds={a: Ab, b: Bb, c: Cb})

    source = tmp_path / "gemv.c"
    source.write_text(GEMV)
    subprocess.run([CC.need(), "-O1", "-shared", "-fPIC", "-o", tmp_path / "gemv.so", source], check=True)
    ctypes.CDLL(str(tmp_path / "gemv.so"), mode=ctypes.RTLD_GLOBAL)
    factor = 16
    for reduce_split in (False, True):
        s = te.create_schedule(C.op)
        x, y = C.op.axis
        (z,) = C.op.reduce_axis
        yo, yi = s[C].split(y, factor=factor)
        if reduce_split:
            zo, zi = s[C].split(z, factor=8)
            s[C].reorder(x, yo, zo, yi, zi)
            s[C].tensorize(yi, intrin_gemv(factor, 8))
        else:
            s[C].reorder(x, yo, yi, z)
            s[C].tensorize(yi, intrin_gemv(factor, L))
        assert "gemv_update" in str(tvm.lower(s, [A, B, C], simple_mode=True))
        func = tvm.build(s, [A, B, C], target="llvm", name="gemv")
        a, b, c = arrays(
            *(np.random.uniform(size=p).astype("float32") for p in ((N, L), (M, L))), np.zeros((N, M), "float32")
        )
        func(a, b, c)
        tvm.testing.assert_allclose(c.numpy(), np.dot(a.numpy(), b.numpy().T), rtol=1e-3)


def test_intrinsics_and_math_functions() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    x = np.random.rand(40).astype("float32")

    def run(B: te.Tensor) -> np.ndarray:
        a, b = arrays(x, np.zeros(40, "float32"))
        tvm.build(te.create_schedule(B.op), [A, B], "llvm")(a, b)
        return b.numpy()

    B = te.compute(A.shape, lambda i: tvm.tir.call_pure_extern("float32", "expf", A[i]), name="B")
    tvm.testing.assert_allclose(run(B), np.exp(x), rtol=1e-5)
    assert 'T.call_pure_extern("float32", "expf"' in str(tvm.lower(te.create_schedule(B.op), [A, B]))
    B = te.compute(A.shape, lambda i: te.exp(A[i]), name="B")
    tvm.testing.assert_allclose(run(B), np.exp(x), rtol=1e-5)

    def my_math_rule(op):
        """A rule for the operator that the program calls."""
        assert isinstance(op, tvm.tir.Call)
        name = op.op.name
        dispatch_name = name[4:]
        return tvm.tir.call_pure_extern("float32", f"{dispatch_name[2:]}f", op.args[0])

    def mylog(x):
        """Another logarithm."""
        return tvm.tir.call_intrin(x.dtype, "tir.mylog", x)

    register_op_attr("tir.mylog", "TCallEffectKind", tvm.tir.CallEffectKind.Pure)
    register_intrin_lowering("tir.mylog", target="llvm", f=my_math_rule, level=99)
    B = te.compute(A.shape, lambda i: mylog(A[i]), name="B")
    tvm.testing.assert_allclose(run(B), np.log(x), rtol=1e-4, atol=1e-5)
