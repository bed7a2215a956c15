"""TVM's behaviour of tensor expressions, rule by rule."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import te, tir
from tvmagic.errors import TVMagicError
from tvmagic.ir import IntImm, Var, post_order_visit
from tvmagic.passes import PassContext


def run(sch: te.Schedule, args: list[te.Tensor], *arrays: np.ndarray) -> None:
    tvmagic.build(sch, args)(*arrays)


def scaled() -> list[te.Tensor]:
    A = te.placeholder((9,), name="A")
    return [A, te.compute((9,), lambda i: A[i] * 2.0, name="B")]


@pytest.mark.parametrize("dtype", ["int64", np.dtype("int64"), tvmagic.DataType("int64")], ids=["str", "numpy", "type"])
def test_98_indices_in_another_type(dtype: object) -> None:
    text = te.create_prim_func(scaled(), dtype).script()
    for part in (
        'A: T.Buffer((T.int64(9),), "float32")',
        "for i in range(T.int64(9))",
        "v_i = T.axis.spatial(T.int64(9), i)",
    ):
        assert part in text
    assert te.create_prim_func(scaled(), index_dtype_override="int64").script() == text
    assert "T.int64" not in te.create_prim_func(scaled()).script()


def test_98_symbolic_sizes_parameters_and_casts() -> None:
    n, k = te.var("n"), te.var("k")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[te.if_then_else(i + k < n, i + k, i).astype("int64")], name="B")
    func = te.create_prim_func([A, k, B], "int64")
    assert str(func.params[1].dtype) == "int64"
    assert "Cast" not in func.script() and "int32" not in func.script()
    C = te.compute((8,), lambda i: A[i] + i.astype("float32"), name="C")
    assert 'T.Cast("float32", v_i)' in te.create_prim_func([A, C], "int64").script()


def test_98_data_keeps_its_type() -> None:
    A = te.placeholder((9,), "int32", name="A")
    B = te.compute((9,), lambda i: te.if_then_else(A[i] < 3, A[i] + 1, tir.const(7, "int32")), name="B")
    C = te.compute((9,), lambda i: B[A[i]] + i, name="C")
    func = te.create_prim_func([A, C], "int64")
    text = func.script()
    assert 'T.Buffer((T.int64(9),), "int32")' in text and "A[v_i] < 3" in text
    assert "B[A[v_i]]" in text or "B[T.Cast" in text
    given, got = (
        np.arange(9, dtype="int32")[::-1].copy(),
        np.zeros(9, "int32" if 'C: T.Buffer((T.int64(9),), "int32")' in text else "int64"),
    )
    tvmagic.build(func)(given, got)
    b = np.where(given < 3, given + 1, 7)
    np.testing.assert_array_equal(got, b[given] + np.arange(9))


def test_98_reductions_and_results() -> None:
    A = te.placeholder((6, 5), name="A")
    k = te.reduce_axis((0, 5), "k")
    B = te.compute((6,), lambda i: te.sum(A[i, k], axis=k), name="B")
    func = te.create_prim_func([A, B], "int64")
    assert 'v_k = T.axis.remap("SR", [i, k])' in func.script()
    a, b = np.arange(30, dtype="float32").reshape(6, 5), np.zeros(6, "float32")
    tvmagic.build(func)(a, b)
    np.testing.assert_allclose(b, a.sum(1))


def test_98_a_constant_that_does_not_fit_is_refused() -> None:
    A = te.placeholder((tir.const(1 << 40, "int64"),), name="A")
    B = te.compute(A.shape, lambda i: A[i] * 2.0, name="B")
    with refuses("index_dtype.value_does_not_fit"):
        te.create_prim_func([A, B], "int32")


def test_99_layout_free_placeholders() -> None:
    A, B = te.placeholder((8, 8), name="A"), te.placeholder((8, 8), name="B")
    D = te.compute((8, 8), lambda i, j: B[i, j] + 1.0, name="D")
    k = te.reduce_axis((0, 8), "k")
    C = te.compute(
        (8, 8),
        lambda i, j: te.sum(A[i, k] * D[k, j] * B[i, j], k),
        name="C",
        attrs={"layout_free_placeholders": [D, B]},
    )
    for override in (None, "int64"):
        func = te.create_prim_func([A, B, C], override)
        assert [int(i) for i in func.attrs["layout_free_buffers"]] == [1]


P, Q = te.placeholder((3, 1), name="P"), te.placeholder((4,), name="Q")


@pytest.mark.parametrize(
    ("result", "name", "of"),
    [
        (P + Q, "T_add", lambda p, q: p + q),
        (P - Q, "T_subtract", lambda p, q: p - q),
        (P * Q, "T_multiply", lambda p, q: p * q),
        (P / Q, "T_divide", lambda p, q: p / q),
        (P - 1.0, "T_subtract", lambda p, q: p - 1),
        (2 * P, "T_multiply", lambda p, q: 2 * p),
        (1.0 - P, "T_subtract", lambda p, q: 1 - p),
    ],
)
def test_100_operators_on_tensors(result: te.Tensor, name: str, of: object) -> None:
    assert isinstance(result, te.Tensor)
    assert result.op.name == name and result.op.tag == "broadcast"
    p, q = np.array([[1.5], [2], [4]], "float32"), np.array([1, 2, 4, 8], "float32")
    expected = of(p, q)  # type: ignore[operator]
    assert [int(str(n)) for n in result.shape] == list(expected.shape)
    out = np.zeros(expected.shape, "float32")
    run(te.create_schedule(result.op), [P, Q, result], p, q, out)
    np.testing.assert_allclose(out, expected)


def test_100_other_operators_and_shapes_that_do_not_fit() -> None:
    A, B = te.placeholder((3,), "int32", name="A"), te.placeholder((3,), "int32", name="B")
    assert [r.op.name for r in (A % B, -A, A // B)] == ["T_mod", "T_negative", "T_floor_divide"]
    less = A < B
    assert isinstance(less, te.Tensor) and str(less.dtype) == "bool"
    with refuses("te.tensor.shapes_do_not_broadcast"):
        _ = A + te.placeholder((4,), "int32")
    assert (A == A) is True and (A == B) is False  # identity, as before


@pytest.mark.parametrize("shape", [(2,), (2, 3), ()])
def test_101_packed_functions_get_views(shape: tuple[int, ...]) -> None:
    @tvmagic.register_func("test.negate", override=True)
    def negate(a: tvmagic.nd.NDArray, out: tvmagic.nd.NDArray, factor: int) -> None:
        assert a.shape == shape and a.dtype == "float32" and factor == 3
        out.copyfrom(-a.numpy() * factor)

    A = te.placeholder(shape, name="A")
    B = te.extern(shape, [A], lambda i, o: tir.call_packed("test.negate", i[0], o[0], 3), name="B")
    a, b = np.arange(1, np.prod(shape, dtype=int) + 1, dtype="float32").reshape(shape), np.zeros(shape, "float32")
    run(te.create_schedule(B.op), [A, B], a, b)
    np.testing.assert_allclose(b, -3 * a)


def test_101_an_exception_reaches_the_caller() -> None:
    @tvmagic.register_func("test.fail", override=True)
    def fail(a: object, out: object) -> None:
        raise ZeroDivisionError("on purpose")

    A = te.placeholder((2,), name="A")
    B = te.extern((2,), [A], lambda i, o: tir.call_packed("test.fail", i[0], o[0]), name="B")
    with pytest.raises(Exception, match="on purpose"):
        run(te.create_schedule(B.op), [A, B], np.zeros(2, "float32"), np.zeros(2, "float32"))


@pytest.mark.parametrize(("scope", "tag"), [("local", "threadIdx.x"), ("shared", "blockIdx.y")])
def test_102_no_condition_from_a_thread_above_the_memory(scope: str, tag: str) -> None:
    A = te.placeholder((2, 6, 4), name="A")
    B = te.compute(A.shape, lambda i, j, k: A[i, j, k] + 1.0, name="B")
    C = te.compute(A.shape, lambda i, j, k: B[i, j, k] * 2.0, name="C")
    s = te.create_schedule(C.op)
    thread = te.thread_axis(tag)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].set_scope(scope)
    _, inner = s[B].split(B.op.axis[1], 6)
    s[C].bind(C.op.axis[0], te.thread_axis("blockIdx.x"))
    s[C].bind(C.op.axis[1], thread)
    s[B].bind(inner, thread)
    text = str(tvmagic.lower(s, [A, C])["main"])
    assert "if " not in text


def test_103_cache_write_of_a_triangular_reduction() -> None:
    A = te.placeholder((8,), name="A")

    def row(i: Var) -> object:
        k = te.reduce_axis((0, i + 1), "k")
        return te.sum(A[k], axis=k)

    Y = te.compute((8,), row, name="Y")
    a = np.arange(8, dtype="float32")
    for schedule in ("cache", "split and cache"):
        s = te.create_schedule(Y.op)
        if "split" in schedule:
            s[Y].split(Y.op.axis[0], 4)
        s.cache_write(Y, "local")
        y = np.zeros(8, "float32")
        run(s, [A, Y], a, y)
        np.testing.assert_allclose(y, np.cumsum(a))


def test_104_a_record_for_each_relation() -> None:
    A = te.placeholder((16, 16), name="A")
    B = te.compute((16, 16), lambda i, j: A[i, j] + 1.0, name="B")
    with PassContext(config={"te.keep_schedule_record": True}):
        s = te.create_schedule(B.op)
        s[B].tile(B.op.axis[0], B.op.axis[1], 8, 8)
    assert list(s.primitive_record) == ["vanilla", "split", "split", "reorder"]
    assert len(s.schedule_record) == 4


def test_105_a_float_index_is_refused_in_machine_code_only() -> None:
    A = te.placeholder((4,), name="A")
    data = te.placeholder((4, 8), name="data")
    B = te.compute((4,), lambda i: data[i, A[i]], name="B")
    func = te.create_prim_func([A, data, B])
    assert "data[v_i, A[v_i]]" in func.script()
    with pytest.raises(TVMagicError):
        tvmagic.build(func)


def test_106_fix_points_are_integers() -> None:
    m, n = te.var("m"), te.var("n")
    X = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="state")
    init = te.compute((1, n), lambda _, i: X[0, i])
    same = te.compute((m, n), lambda t, i: state[t - 1, i] + X[t, i])
    scan = te.scan(init, same, state)
    found = te.schedule.ScanFixPointAnalysis(scan.op)
    assert [(type(v), int(v)) for v in found.values()] == [(IntImm, 1)]
    shifted = te.compute((m, n), lambda t, i: state[t - 1, 0] + X[t, i])
    found = te.schedule.ScanFixPointAnalysis(te.scan(init, shifted, state).op)
    assert [(type(v), int(v)) for v in found.values()] == [(IntImm, 0)]


def test_107_padding_layouts_are_refused_at_the_call() -> None:
    A = te.placeholder((2, 5, 4, 6), name="A")
    B = te.compute(A.shape, lambda *i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    with refuses("te.transform_layout.wrong_index_map"):
        s[B].transform_layout(lambda n, c, h, w: [n, c // 3, h, w, c % 3])
    s[B].transform_layout(lambda n, c, h, w: [n, h // 2, c, w, h % 2])


def test_108_errors_of_stages_are_runtime_errors() -> None:
    A = te.placeholder((4, 4, 4), name="A")
    k = te.reduce_axis((0, 4), "k")
    B = te.compute((4, 4), lambda i, j: te.sum(A[i, j, k], k), name="B")
    s = te.create_schedule(B.op)
    for wrong in (lambda: s[B].fuse(B.op.axis[0], k), lambda: s[B].vectorize(k)):
        with pytest.raises(RuntimeError) as caught:
            wrong()
        assert isinstance(caught.value, tvmagic.TVMError)


def test_no_int32_is_left_by_the_override() -> None:
    """Every variable and index of a function that mixes what may be in it is int64 afterwards."""
    n = te.var("n")
    A = te.placeholder((n, 16), name="A")
    k = te.reduce_axis((0, 16), "k")
    B = te.compute((n, 4), lambda i, j: te.max(A[te.max(i - 1, 0) if False else i, (k + j) % 16], k), name="B")
    C = te.compute((n * 4,), lambda q: te.if_then_else(q % 4 == 0, 0.0, B[q // 4, q % 4]), name="C")
    func = te.create_prim_func([A, C], "int64")
    found: list[str] = []
    post_order_visit(func.body, lambda x: found.append(str(x.dtype)) if isinstance(x, Var) else None)
    assert "int32" not in found


def test_reduced_axes_that_depend_on_others_are_nested_blocks() -> None:
    x = te.placeholder((6, 7, 6, 7), "int32", name="x")

    def element(i: tir.Var, j: tir.Var) -> tir.PrimExpr:
        ri = te.reduce_axis((0, i + 1), "ri")
        rj = te.reduce_axis((ri, j + 1), "rj")
        return te.sum(x[i, j, ri, rj], axis=[ri, rj])

    y = te.compute((6, 7), element, name="y")
    func = te.create_prim_func([x, y])
    assert tir.analysis.verify_well_formed(func)
    sch = tir.Schedule(func)
    assert [len(sch.get(sch.get_block(name)).iter_vars) for name in ("y_2", "y_1", "y")] == [2, 3, 4]
    inits = [sch.get(sch.get_block(name)).init is not None for name in ("y_2", "y_1", "y")]
    assert inits == [False, True, False]
    values = np.random.default_rng(3).integers(0, 9, (6, 7, 6, 7)).astype("int32")
    result = np.zeros((6, 7), "int32")
    tvmagic.build(func)(values, result)
    expected = [[sum(values[i, j, r, r : j + 1].sum() for r in range(i + 1)) for j in range(7)] for i in range(6)]
    assert result.tolist() == np.array(expected).tolist()


def test_axes_and_sizes_are_joined_with_lists() -> None:
    x = te.placeholder((3, 4, 5), name="x")
    assert x.shape[:-1] + [7] == (3, 4, 7) and [2] + x.shape[1:] == (2, 4, 5) and x.shape + (1,) == (3, 4, 5, 1)
    y = te.compute(x.shape[:-1] + [te.reduce_axis((0, 5)).dom.extent], lambda *i: x(*i) * 2, name="y")
    s = te.create_schedule(y.op)
    outer, inner = s[y].split(y.op.axis[-1], factor=2)
    s[y].reorder(*(y.op.axis[1:2] + [outer] + y.op.axis[:1] + [inner]))
    values = np.arange(60, dtype="float32").reshape(3, 4, 5)
    result = np.zeros((3, 4, 5), "float32")
    tvmagic.build(s, [x, y])(values, result)
    assert np.array_equal(result, values * 2)
    assert tvmagic.ir.load_json(tvmagic.ir.save_json(y)).shape[1].value == 4
    with pytest.raises(TypeError):
        x.shape + 1  # pyright: ignore[reportUnusedExpression]


def test_sizes_that_are_numpy_integers() -> None:
    """A placeholder keeps their type, as in TVM; axes over them are those of Python's integers."""
    assert te.placeholder((np.int64(4),)).shape[0].dtype == "int64"
    k = te.reduce_axis((0, np.prod([2, 3])), "k")
    x = te.compute((np.int64(4), np.prod([2, 3])), lambda i, j: i + j, name="x")
    assert {str(e.dtype) for e in (*x.shape, k.dom.extent, x.op.axis[0].var)} == {"int32"}


def test_the_size_of_a_type_in_bytes() -> None:
    assert [tvmagic.DataType(t).itemsize() for t in ("float16", "int8x4", "bool", "float64")] == [2, 4, 1, 8]
