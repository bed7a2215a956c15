"""`check_bounds`: each index against its dimension, views and pointers against the memory behind them."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refuses

import tvmagic as tvm
from tvmagic import te, tir
from tvmagic.errors import BoundsError
from tvmagic.operators import operator
from tvmagic.script import tir as T

A3X8 = np.arange(24, dtype="float32").reshape(3, 8)
SIX = np.arange(6, dtype="float32")


def gather(lanes: int = 1, row: int = 0, dtype: str = "int32", size: int | None = 3):
    """Y[i] = X[row, I[i]] of a 3 x 8 matrix, whose first size may be symbolic."""
    rows = te.size_var("n") if size is None else size
    X, I = te.placeholder((rows, 8), name="X"), te.placeholder((8,), dtype, name="I")
    Y = te.compute((8,), lambda i: X[row, I[i]], name="Y")
    s = te.create_schedule(Y.op)
    if lanes > 1:
        s[Y].vectorize(s[Y].split(Y.op.axis[0], lanes)[1])
    return tvm.build(s, [X, I, Y], check_bounds=True)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("lanes", [1, 4, 8])
@pytest.mark.parametrize("size", [3, None])
def test_an_index_beyond_its_dimension_but_inside_the_memory(lanes, dtype, size):
    built, places = gather(lanes, 0, dtype, size), np.arange(8, dtype=dtype)
    np.testing.assert_array_equal(built(A3X8, places), A3X8[0])
    for bad in (8, 9, 23) if dtype == "uint8" else (8, 9, 23, -1):
        places[5] = bad
        with refuses("call.index_out_of_range", error=BoundsError, names=rf"`X`.*\(.*8\).*{bad}\b.*`main`"):
            built(A3X8, places)


def test_an_index_that_leaves_its_row_backwards():
    places = np.zeros(8, "int32")
    places[3] = -1
    with refuses("call.index_out_of_range", error=BoundsError):
        gather(1, 2)(A3X8, places)


def test_a_store_says_so():
    @T.prim_func
    def scatter(I: T.Buffer((4,), "int32"), B: T.Buffer((4, 5))):
        for i in range(4):
            with T.block("b"):
                v = T.axis.S(4, i)
                T.reads(I[v])
                T.writes(B[v, 0:5])
                B[v, I[v]] = T.float32(1)

    built = tvm.build(scatter, check_bounds=True)
    result = np.zeros((4, 5), "float32")
    built(np.arange(4, dtype="int32"), result)
    np.testing.assert_array_equal(result, np.eye(4, 5))
    with pytest.raises(BoundsError, match="`B`"):
        built(np.array([0, 1, 5, 2], "int32"), result)


@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_what_a_condition_keeps_out_is_no_failure(lanes):
    X, I = te.placeholder((3, 8), name="X"), te.placeholder((8,), "int32", name="I")
    inside = lambda i: tir.And(I[i] < 8, I[i] >= 0)  # noqa: E731
    Y = te.compute((8,), lambda i: tir.if_then_else(inside(i), X[1, I[i]], 0.0), name="Y")
    s = te.create_schedule(Y.op)
    if lanes > 1:
        s[Y].vectorize(s[Y].split(Y.op.axis[0], lanes)[1])
    found = tvm.build(s, [X, I, Y], check_bounds=True)(A3X8, np.array([0, 9, 2, -3, 7, 8, 1, 1], "int32"))
    np.testing.assert_array_equal(found, [8, 0, 10, 0, 15, 0, 9, 9])


def test_a_stage_computed_inside_another():
    X, I = te.placeholder((3, 8), name="X"), te.placeholder((4,), "int32", name="I")
    S = te.compute((4, 2), lambda i, j: X[j, I[i]] + 1, name="S")
    Y = te.compute((4, 2), lambda i, j: S[i, j] * 2, name="Y")
    s = te.create_schedule(Y.op)
    s[S].compute_at(s[Y], Y.op.axis[0])
    built = tvm.build(s, [X, I, Y], check_bounds=True)
    np.testing.assert_array_equal(built(A3X8, np.array([0, 1, 2, 7], "int32"))[:, 1], [18, 20, 22, 32])
    with pytest.raises(BoundsError, match="`X`"):
        built(A3X8, np.array([0, 1, 2, 8], "int32"))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_sizes_of_64_bits(dtype):
    n = te.size_var("n", "int64")
    P, J = te.placeholder((n, n), name="P"), te.placeholder((n,), dtype, name="J")
    Q = te.compute((n,), lambda i: P[i, J[i]], name="Q")
    built = tvm.build(te.create_schedule(Q.op), [P, J, Q], check_bounds=True)
    values, places = np.arange(9, dtype="float32").reshape(3, 3), np.array([2, 1, 0], dtype)
    np.testing.assert_array_equal(built(values, places), [2, 4, 6])
    places[0] = 3
    with refuses("call.index_out_of_range", error=BoundsError):
        built(values, places)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("loop", [0, 1])
def test_a_stage_of_two_regions_of_symbolic_size(dtype, loop):
    n = te.var("n", dtype)
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((n - 3, n - 3), lambda i, j: b[i] + b[j + 3], name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], s[c].split(c.op.axis[0], nparts=8)[loop])
    x, found = np.arange(20, dtype="float32"), np.zeros((17, 17), "float32")
    tvm.build(s, [a, c], check_bounds=True)(x, found)
    np.testing.assert_array_equal(found, x[:17, None] + x[None, 3:] + 2)


def program(text: str):
    return tvm.script.from_source("@T.prim_func\ndef main(" + text)


VIEW = (
    "A: T.Buffer((6,)), B: T.Buffer(({size},))):\n    V = T.decl_buffer({shape}, data=A.data{fields})\n"
    "    for i in range({size}):\n        B[i] = V[{index}]\n"
)
VIEWS = {
    "longer": (8, "(8,)", "", "i", None),
    "moved": (3, "(3,)", ", elem_offset=3", "i", [3, 4, 5]),
    "moved too far": (4, "(4,)", ", elem_offset=3", "i", None),
    "strided": (3, "(3, 2)", ", strides=[2, 1]", "i, 1", [1, 3, 5]),
    "strided too far": (4, "(4, 2)", ", strides=[2, 1]", "i, 1", None),
    "of other elements": (12, "(12,), 'float16'", "", "i", "half"),
    "of too many other elements": (13, "(13,), 'float16'", "", "i", None),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_ends_with_its_memory(name):
    size, shape, fields, index, wanted = VIEWS[name]
    text = VIEW.format(size=size, shape=shape, fields=fields, index=index)
    if "float16" in shape:
        text = text.replace(f"B: T.Buffer(({size},))", f"B: T.Buffer(({size},), 'float16')")
    built = tvm.build(program(text), check_bounds=True)
    if wanted is None:
        with pytest.raises(BoundsError, match="`V`"):
            built(SIX)
        return
    wanted = SIX.view("float16") if wanted == "half" else wanted
    np.testing.assert_array_equal(built(SIX), wanted)
    np.testing.assert_array_equal(tvm.build(program(text))(SIX), wanted)


@pytest.mark.parametrize("first", [0, 4])
def test_a_view_ends_with_the_allocation_behind_it(first):
    text = (
        f"A: T.Buffer((4,))):\n    C = T.alloc_buffer((4,))\n    V = T.Buffer((8,), data=C.data)\n"
        f"    for i in range(4):\n        V[{first} + i] = 1.0\n    for i in range(4):\n        A[i] = V[{first} + i]\n"
    )
    built = tvm.build(program(text), check_bounds=True)
    if first == 0:
        np.testing.assert_array_equal(built(), np.ones(4))
        return
    with refuses("call.index_out_of_range", error=BoundsError):
        built()


def test_a_matched_buffer_ends_with_its_region():
    text = (
        "A: T.Buffer((6, 6)), I: T.Buffer((4,), 'int32'), B: T.Buffer((4,))):\n    for i in range(4):\n"
        "        with T.block('b'):\n            v = T.axis.S(4, i)\n            T.reads(A[1:3, 1:5], I[v])\n"
        "            T.writes(B[v])\n"
        "            W = T.match_buffer(A[1:3, 1:5], (2, 4), strides=[6, 1], offset_factor=1, elem_offset=7)\n"
        "            B[v] = W[1, I[v]]\n"
    )
    built, values = tvm.build(program(text), check_bounds=True), np.arange(36, dtype="float32").reshape(6, 6)
    np.testing.assert_array_equal(built(values, np.arange(4, dtype="int32")), values[2, 1:5])
    with pytest.raises(BoundsError, match="`W`"):
        built(values, np.array([0, 1, 2, 4], "int32"))


def test_a_pointer_reaches_no_further_than_its_buffer():
    text = (
        "A: T.Buffer((6,)), B: T.Buffer((4,)), n: T.int32):\n"
        "    T.evaluate(T.call_extern('int32', 'memcpy', B.access_ptr('w'), A.access_ptr('r', offset=n, extent=4), 16))\n"
    )
    built, result = tvm.build(program(text), check_bounds=True), np.zeros(4, "float32")
    for first in (0, 2):
        built(SIX, result, first)
        np.testing.assert_array_equal(result, SIX[first : first + 4])
    for first in (3, -1, 1 << 30):
        with refuses("call.index_out_of_range", error=BoundsError):
            built(SIX, result, first)


@pytest.mark.parametrize("strides", ["[s, 1]", "[8, 1]", "[s, t]"])
def test_the_region_of_a_pointer_into_rows_with_gaps_has_a_last_gap(strides):
    """`access_ptr` tells the region of strides[0] * shape[0] elements, which ends behind the last row's gap."""
    text = (
        f"a: T.handle, B: T.Buffer((4,)), n: T.int32):\n    s, t = T.int32(), T.int32()\n"
        f"    A = T.match_buffer(a, (3, 4), strides={strides})\n"
        "    T.evaluate(T.call_extern('int32', 'memcpy', B.access_ptr('w'), A.access_ptr('r', offset=n), 16))\n"
    )
    built, result = tvm.build(program(text), check_bounds=True), np.zeros(4, "float32")
    wide = np.arange(20, dtype="float32")[:20]
    rows = np.lib.stride_tricks.as_strided(wide, (3, 4), (32, 4))  # of 20 elements, the last gap is not there
    for first in (0, 8, 16):
        built(rows, result, first)
        np.testing.assert_array_equal(result, wide[first : first + 4])
    with pytest.raises(BoundsError):
        built(rows, result, -1)
    with refuses("call.index_out_of_range", error=BoundsError):
        built(rows, result, 25)


def test_what_is_proved_is_not_checked():
    A = te.placeholder((16, 16), name="A")
    B = te.compute((16, 16), lambda i, j: A[15 - i, j] + A[i, j // 2], name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(B.op.axis[1], 8)[1])
    with tvm.driver.with_checks():
        text = tvm.lower(s, [A, B]).script()
    assert "checked_index" not in text
    assert "checked_index" not in tvm.lower(s, [A, B]).script()


@pytest.mark.parametrize("size", [17, te.size_var("n")])
@pytest.mark.parametrize("threads", [False, True])
def test_the_guard_of_a_tail_proves_the_indices_behind_it(threads, size):
    """LLVM takes minutes for some hundred unrolled checks of one index, of which none can fail."""
    A = te.placeholder((size, 4), name="A")
    B = te.compute((size, 4), lambda i, j: A[i, j] + 1.0, name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], 8)
    if threads:
        s[B].bind(outer, te.thread_axis("blockIdx.x"))
        s[B].bind(inner, te.thread_axis("threadIdx.x"))
    with tvm.driver.with_checks():
        assert "checked_index" not in tvm.lower(s, [A, B]).script()


def test_one_access_that_depends_on_data_leaves_the_rest_as_fast_as_without_checks():
    """Rows of which one element is taken by an index that the data hold, and all are summed, in vectors."""
    X, T = te.placeholder((8, 64), name="X"), te.placeholder((8,), "int32", name="T")
    k = te.reduce_axis((0, 64), name="k")
    S = te.compute((8,), lambda i: te.sum(te.exp(X[i, k]), axis=k), name="S")
    Y = te.compute((8,), lambda i: S[i] - X[i, T[i]], name="Y")
    s = te.create_schedule(Y.op)
    s[S].pragma(S.op.reduce_axis[0], "any_order")
    with tvm.driver.with_checks():
        checked = tvm.build(s, [X, T, Y], "llvm -mcpu=haswell", check_bounds=True)
    plain = tvm.build(s, [X, T, Y], "llvm -mcpu=haswell")
    assert [site.kind for site in checked.sites if site.kind in ("bounds", "index", "region")] == ["index"]
    vectors = [m.get_source("asm").count("%ymm") for m in (checked, plain)]
    assert vectors[0] >= vectors[1] > 0
    x, t, y = np.random.rand(8, 64).astype("float32"), np.arange(8, dtype="int32"), np.empty(8, "float32")
    checked(x, t, y)
    np.testing.assert_allclose(y, np.exp(x).sum(1) - x[np.arange(8), t], rtol=1e-5)
    with pytest.raises(BoundsError):
        checked(x, t + 60, y)


@pytest.mark.parametrize("lanes", [1, 4])
def test_code_grows_with_the_depth_of_nested_indices_not_its_power(lanes):
    """X[X[...X[i]]]: each index is computed once, for its check and the access."""

    def built(depth):
        X = te.placeholder((8,), "int32", name="X")

        def nested(i):
            for _ in range(depth):
                i = X[i]
            return i

        Y = te.compute((8,), nested, name="Y")
        s = te.create_schedule(Y.op)
        if lanes > 1:
            s[Y].vectorize(s[Y].split(Y.op.axis[0], lanes)[1])
        return tvm.build(s, [X, Y], check_bounds=True)

    short, long = (len(built(depth).get_source("ll").splitlines()) for depth in (4, 16))
    assert long < 5 * short
    x = np.array([3, 0, 7, 5, 1, 2, 4, 6], "int32")
    expected = np.arange(8)
    for _ in range(16):
        expected = x[expected]
    np.testing.assert_array_equal(built(16)(x), expected)
    with refuses("call.index_out_of_range", error=BoundsError):
        built(3)(np.full(8, 9, "int32"))


@pytest.mark.parametrize("rows", [slice(None), slice(None, None, -1), slice(None, None, 2), slice(4, 0, -2)])
@pytest.mark.parametrize("columns", [slice(None), slice(None, None, -1), slice(None, None, 3)])
def test_arguments_with_any_strides_are_inside(rows: slice, columns: slice) -> None:
    op = operator("take", "X: float32[n, m]\nI: int32[k]\nY[i, j] = X[I[i], j] + X[I[i], 0]")
    assert op.check_bounds
    whole = np.arange(48, dtype="float32").reshape(6, 8)
    for x in (whole[rows, columns], np.broadcast_to(whole[:1], whole.shape)[rows, columns], whole[rows, columns].T):
        last = len(x) - 1
        np.testing.assert_array_equal(op(x, np.array([last, 0], "int32")), x[[last, 0]] + x[[last, 0], :1])
        with pytest.raises(BoundsError):
            op(x, np.array([0, last + 1], "int32"))


def test_what_is_outside_an_argument_with_a_stride_below_0_is_found() -> None:
    """The memory of the elements that a view leaves out is not its own."""
    n = te.var("n")
    X = te.placeholder((n,), name="X")
    shift = te.placeholder((1,), "int32", name="shift")
    Y = te.compute((n,), lambda i: X[i + shift[0]], name="Y")
    f = tvm.build(te.create_schedule(Y.op), [X, shift, Y], check_bounds=True)
    whole, out = np.arange(30, dtype="float32"), np.zeros(5, "float32")
    for x in (whole[20:10:-2], whole[10:20:2]):
        f(x, np.array([0], "int32"), out)
        np.testing.assert_array_equal(out, x)
        for distance in (1, -1):
            with pytest.raises(BoundsError):
                f(x, np.array([distance], "int32"), out)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("inner", [False, True])
def test_sizes_of_a_stage_inside_a_narrowed_loop_are_checked(dtype: str, inner: bool) -> None:
    """The loop has int64 by the sizes, and int32 after NarrowDataType; the size of the stage inside depends on it."""
    n = tir.IntImm(dtype, 13)
    A = te.placeholder((n + 3,), name="A")
    B = te.compute((n + 3,), lambda i: A[i] * 2, name="B")
    C = te.compute((n, n), lambda i, j: B[i] + B[j + 3], name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], s[C].split(C.op.axis[0], nparts=8)[inner])
    a, c = np.arange(16, dtype="float32"), np.zeros((13, 13), "float32")
    tvm.build(s, [A, C], check_bounds=True)(a, c)
    np.testing.assert_array_equal(c, 2 * a[:13, None] + 2 * a[3:])
