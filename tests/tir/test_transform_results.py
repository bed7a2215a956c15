"""What comes out of the passes computes the same: compiled results against NumPy."""

import numpy as np
import pytest
from pass_checks import parse
from refusals import refuses

import tvmagic
from tvmagic import te, tir
from tvmagic.passes import PassContext

pytest.importorskip("llvmlite")


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
