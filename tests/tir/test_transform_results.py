"""What comes out of the passes computes the same: compiled results against NumPy."""

import numpy as np
import pytest
from pass_checks import parse
from refusals import refuses

import tvmagic
from tvmagic import te, tir
from tvmagic.passes import PassContext

pytest.importorskip("llvmlite")
N = 24


def stencil():
    """`C[i] = (A[i] + A[i + 1] + A[i + 2]) * 2`, with a stage between."""
    a = te.placeholder((N + 2,), name="A")
    b = te.compute((N,), lambda i: a[i] + a[i + 1] + a[i + 2], name="B")
    c = te.compute((N,), lambda i: b[i] * 2, name="C")
    return te.create_schedule(c.op), a, b, c


def run(built, *shapes_or_arrays):
    arrays = [
        np.random.default_rng(0).standard_normal(s).astype("float32") if isinstance(s, tuple) else s
        for s in shapes_or_arrays
    ]
    out = np.zeros(N, "float32")
    built(*arrays, out)
    return (*arrays, out)


def check_stencil(s, args, **config) -> None:
    with PassContext(config=config):
        built = tvmagic.build(s, args)
    x, out = run(built, (N + 2,))
    np.testing.assert_allclose(out, (x[:-2] + x[1:-1] + x[2:]) * 2, rtol=1e-5)


@pytest.mark.parametrize("factor", [4, 5, 24, 40])
@pytest.mark.parametrize("kind", ["vectorize", "unroll", "parallel", "vthread", "none"])
def test_a_stage_inside_a_split_loop(factor: int, kind: str) -> None:
    s, a, b, c = stencil()
    xo, xi = s[c].split(c.op.axis[0], factor=factor)
    s[b].compute_at(s[c], xo)
    if kind == "vthread":
        s[c].bind(xi, te.thread_axis("vthread"))
    elif kind == "parallel":
        s[c].parallel(xo)
    elif kind != "none":
        getattr(s[c], kind)(xi)
        getattr(s[b], kind)(b.op.axis[0])
    check_stencil(s, [a, c])


def test_partition_of_constant_loops() -> None:
    s, a, b, c = stencil()
    s[b].compute_inline()
    s[c].split(c.op.axis[0], factor=5)
    check_stencil(s, [a, c], **{"tir.LoopPartition": {"partition_const_loop": True}})


@pytest.mark.parametrize("split", [0, 1, 2, 4])
def test_double_buffers(split: int) -> None:
    s, a, b, c = stencil()
    xo, _ = s[c].split(c.op.axis[0], factor=4)
    s[b].compute_at(s[c], xo)
    s[b].double_buffer()
    check_stencil(s, [a, c], **{"tir.InjectDoubleBuffer": {"split_loop": split}})


def test_prefetch_changes_nothing() -> None:
    s, a, b, c = stencil()
    s[b].compute_inline()
    xo, _ = s[c].split(c.op.axis[0], factor=4)
    s[c].prefetch(a, xo, 1)
    check_stencil(s, [a, c])


@pytest.mark.parametrize(
    "flag",
    ["tir.disable_vectorize", "tir.disable_storage_rewrite", "tir.disable_cse_tir", "tir.instrument_bound_checkers"],
)
def test_options(flag: str) -> None:
    s, a, b, c = stencil()
    _, xi = s[c].split(c.op.axis[0], factor=5)
    s[c].vectorize(xi)
    check_stencil(s, [a, c], **{flag: True})


def test_storage_align() -> None:
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((8, 8), lambda i, j: b[j, i] * 2, name="C")
    s = te.create_schedule(c.op)
    s[b].storage_align(b.op.axis[0], 16, 4)
    built = tvmagic.build(s, [a, c])
    x, out = np.random.rand(8, 8).astype("float32"), np.zeros((8, 8), "float32")
    built(x, out)
    np.testing.assert_allclose(out, (x.T + 1) * 2, rtol=1e-6)


def run_text(text: str, *arrays) -> None:
    tvmagic.build(parse(text))(*arrays)


def test_masked_accesses() -> None:
    text = """
        def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), n: T.int32):
            for i in range(4):
                for j in T.vectorized(4):
                    if i * 4 + j < n:
                        B[i * 4 + j] = A[i * 4 + j] + T.float32(1)
        """
    x = np.arange(16, dtype="float32")
    for masks in (False, True):
        with PassContext(config={"tir.enable_buffer_level_predication": masks}):
            built = tvmagic.build(parse(text))
        out = np.zeros(16, "float32")
        built(x, out, 11)
        np.testing.assert_array_equal(out, np.where(np.arange(16) < 11, x + 1, 0))


def test_lanes_that_differ() -> None:
    x, out = np.arange(8, dtype="int32"), np.zeros(8, "int32")
    run_text(
        """
        def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
            for j in T.vectorized(8):
                s = T.allocate([1], "int32", "global")
                t = T.Buffer((1,), "int32", data=s)
                v: T.int32 = A[j] * 2
                t[0] = 0
                for k in range((v + 2) // 3):
                    t[0] = t[0] + 3
                if v > 4:
                    B[j] = t[0]
                else:
                    B[j] = 0 - v
        """,
        x,
        out,
    )
    np.testing.assert_array_equal(out, [-(2 * i) if 2 * i <= 4 else -(-2 * i // 3) * 3 for i in range(8)])


def test_narrowed_indices() -> None:
    out = np.zeros((4, 8), "int64")
    run_text(
        """
        def main(A: T.Buffer((T.int64(4), T.int64(8)), "int64")):
            for i in range(T.int64(4)):
                for j in range(T.int64(8)):
                    A[i, j] = i * T.int64(1000000000000) + j
        """,
        out,
    )
    np.testing.assert_array_equal(out, np.arange(4)[:, None] * 10**12 + np.arange(8))


def test_small_buffers_inside_loops() -> None:
    x, out = np.random.rand(16, 16).astype("float32"), np.zeros((16, 16), "float32")
    run_text(
        """
        def main(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
            B = T.alloc_buffer((16, 16))
            for i in range(16):
                for j in range(16):
                    with T.block("B"):
                        T.block_attr({"buffer_dim_align": [[0, 0, 8, 1]]})
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] * T.float32(2)
                for j in range(16):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = B[vi, 15 - vj] + T.float32(1)
        """,
        x,
        out,
    )
    np.testing.assert_allclose(out, x[:, ::-1] * 2 + 1, rtol=1e-6)


def test_matched_views() -> None:
    x = np.zeros((8, 8), "float32")
    run_text(
        """
        def main(A: T.Buffer((8, 8), "float32")):
            for i, j in T.grid(2, 2):
                with T.block("tile"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    s = T.int32()
                    V = T.match_buffer(A[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4], (4, 4), strides=(s, 1), offset_factor=1)
                    for a, b in T.grid(4, 4):
                        V[a, b] = T.Cast("float32", vi * 100 + vj * 10 + s + a - b)
        """,
        x,
    )
    i, j = np.indices((8, 8))
    np.testing.assert_array_equal(x, i // 4 * 100 + j // 4 * 10 + 8 + i % 4 - j % 4)


def test_a_layout_of_a_te_stage() -> None:
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((8, 8), lambda i, j: b[j, i] * 2, name="C")
    s = te.create_schedule(c.op)
    s[b].transform_layout(lambda i, j: [j // 4, i, j % 4])
    built = tvmagic.build(s, [a, c])
    x, out = np.random.rand(8, 8).astype("float32"), np.zeros((8, 8), "float32")
    built(x, out)
    np.testing.assert_allclose(out, (x.T + 1) * 2, rtol=1e-6)


def test_tensorized_rows() -> None:
    m, n = 4, 16
    a, b = te.placeholder((m, n), name="A"), te.placeholder((m, n), name="B")
    c = te.compute((m, n), lambda i, j: a[i, j] + b[i, j], name="C")
    s = te.create_schedule(c.op)
    _, inner = s[c].split(c.op.axis[1], factor=8)

    x, y = te.placeholder((8,), name="x"), te.placeholder((8,), name="y")
    z = te.compute((8,), lambda i: x[i] + y[i], name="z")

    def emit(ins, outs):
        xs, ys, zs = ins[0], ins[1], outs[0]
        return zs.vstore([0], xs.vload([0], "float32x8") + ys.vload([0], "float32x8"))

    buffers = {
        t: tir.decl_buffer(t.shape, t.dtype, t.op.name, offset_factor=1, elem_offset=te.var(t.op.name + "o"))
        for t in (x, y, z)
    }
    s[c].tensorize(inner, te.decl_tensor_intrin(z.op, emit, binds=buffers))
    built = tvmagic.build(s, [a, b, c])
    p, q, out = (
        np.random.rand(m, n).astype("float32"),
        np.random.rand(m, n).astype("float32"),
        np.zeros((m, n), "float32"),
    )
    built(p, q, out)
    np.testing.assert_allclose(out, p + q, rtol=1e-6)


def test_assertions_are_left_out_where_asked_for() -> None:
    func = parse(
        """
        def main(A: T.Buffer((4,), "int32"), n: T.int32):
            assert n < 3, "n is small"
            A[0] = n
        """
    )
    out = np.zeros(4, "int32")
    with refuses("call.assertion_failed"):
        tvmagic.build(func)(out, 5)
    with PassContext(config={"tir.disable_assert": True}):
        built = tvmagic.build(func)
    built(out, 5)
    assert out[0] == 5


COMPUTED_BOUNDS = """
@T.prim_func
def main(A: T.Buffer((20,), "int32"), B: T.Buffer((20,), "int32")):
    for i in T.serial(20, annotations={"pragma_loop_partition_hint": 1}):
        x: T.int32 = A[i]
        B[i] = T.if_then_else(i < x, T.int32(1), T.int32(2))
    for j in range(3):
        for i in T.serial(20, annotations={"pragma_loop_partition_hint": 1}):
            if T.likely(i < B[j] + B[19]):
                B[i] = B[i] + 1
    for i in T.serial(20, annotations={"pragma_loop_partition_hint": 1}):
        if i < A[0]:
            B[i] = B[i] - 1
"""


def test_a_loop_is_not_split_where_it_computes_the_place_itself() -> None:
    mod = parse(COMPUTED_BOUNDS)
    a, b = np.arange(20, dtype="int32")[::-1].copy() - 7, np.zeros(20, "int32")
    tvmagic.build(mod)(a, b)
    expected = np.where(np.arange(20) < a, 1, 2)
    for j in range(3):
        for i in range(20):
            expected[i] += i < expected[j] + expected[19]
    expected[: a[0]] -= 1
    np.testing.assert_array_equal(b, expected)
    text = str(tvmagic.lower(mod)["main"])
    assert text.count("in range(20)") + text.count("T.grid(3, 20)") == 2  # and the last one is split


SEPARATED = """
@T.prim_func
def main(n: T.int32, X: T.Buffer((6, 4), "int32"), Y: T.Buffer((20,), "int32")):
    A = T.alloc_buffer((6, 4), "int32", axis_separators=[1])
    B = T.alloc_buffer((20,), "int32")
    C = T.alloc_buffer((8,), "int32")
    D = T.alloc_buffer((6, n), "int32", axis_separators=[1])
    E = T.alloc_buffer((n,), "int32")
    F = T.alloc_buffer((n,), "int32")
    for i, j in T.grid(6, 4):
        with T.block("A"):
            u, v = T.axis.remap("SS", [i, j])
            A[u, v] = X[u, v]
    for i in range(20):
        with T.block("B"):
            u = T.axis.spatial(20, i)
            B[u] = A[u % 6, u % 4]
    for i in range(8):
        with T.block("C"):
            u = T.axis.spatial(8, i)
            C[u] = B[u * 2]
    for i, j in T.grid(6, n):
        with T.block("D"):
            u, v = T.axis.remap("SS", [i, j])
            D[u, v] = C[(u + v) % 8]
    for i in range(n):
        with T.block("E"):
            u = T.axis.spatial(n, i)
            E[u] = D[5, n - 1 - u]
    for i in range(n):
        with T.block("F"):
            u = T.axis.spatial(n, i)
            F[u] = E[n - 1 - u]
    for i in range(20):
        with T.block("Y"):
            u = T.axis.spatial(20, i)
            Y[u] = F[u % n]
"""


@pytest.mark.parametrize("check_bounds", [True, False])
def test_memory_of_several_dimensions_is_not_shared(check_bounds: bool) -> None:
    x, y, n = np.arange(24, dtype="int32").reshape(6, 4), np.zeros(20, "int32"), 5
    tvmagic.build(parse(SEPARATED), check_bounds=check_bounds)(n, x, y)
    b = x[np.arange(20) % 6, np.arange(20) % 4]
    np.testing.assert_array_equal(y, b[::2][:8][(5 + np.arange(20) % n) % 8])
