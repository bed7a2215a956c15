"""What a call refuses before compiled code runs, and what it takes."""

import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import codegen, nd, te, tir
from tvmagic.errors import TVMagicError
from tvmagic.ir import ForKind, IRModule, PrimFunc, decl_buffer
from tvmagic.ir.expr import Var


def build(body, *params, noalias=True):
    attrs = {"global_symbol": "main", "tir.noalias": noalias}
    return codegen.compile_module(IRModule.from_expr(PrimFunc(list(params), body, attrs=attrs)))


def loop(extent, make):
    i = Var("i", "int32")
    return tir.For(i, 0, extent, ForKind.SERIAL, make(i))


@pytest.fixture(scope="module")
def add_one():
    x, y = decl_buffer((8, 4), "float32", "X"), decl_buffer((8, 4), "float32", "Y")
    return build(loop(8, lambda i: loop(4, lambda j: tir.BufferStore(y, x[i, j] + 1.0, [i, j]))), x, y)


@pytest.fixture(scope="module")
def scaled():
    n, k = Var("n", "int32"), Var("k", "float32")
    x, y = decl_buffer((n,), "float32", "X"), decl_buffer((n,), "float32", "Y")
    return build(loop(n, lambda i: tir.BufferStore(y, x[i] * k, [i])), x, y, k)


def ones(*shape, dtype="float32"):
    return np.ones(shape, dtype)


def test_outputs_may_be_left_out(add_one):
    result = add_one(ones(8, 4))
    assert result.shape == (8, 4) and result.dtype == np.float32 and (result == 2).all()


READ_ONLY = ones(8, 4)
READ_ONLY.flags.writeable = False
MISALIGNED = np.zeros(8 * 4 * 4 + 1, np.uint8)[1:].view("float32").reshape(8, 4)
REFUSED = [
    ((ones(8, 4, dtype="float64"), ones(8, 4)), "call.wrong_dtype"),
    ((ones(32), ones(8, 4)), "call.wrong_rank"),
    ((ones(8, 5), ones(8, 4)), "call.size_mismatch"),
    ((ones(4, 8).T, ones(8, 4)), "call.not_contiguous"),
    ((ones(8, 8)[:, ::2], ones(8, 4)), "call.not_contiguous"),
    ((ones(8, 4), READ_ONLY), "call.read_only_output"),
    ((MISALIGNED, ones(8, 4)), "call.not_aligned"),
    (([1.0], ones(8, 4)), "call.not_an_array"),
    ((None, ones(8, 4)), "call.array_is_none"),
    ((), "call.wrong_argument_count"),
    ((ones(8, 4), ones(8, 4), 3), "call.wrong_argument_count"),
    ((ones(8, 4).astype(">f4"), ones(8, 4)), "call.wrong_dtype"),
]


@pytest.mark.parametrize("args, code", REFUSED, ids=lambda v: v[:40] if isinstance(v, str) else "")
def test_refused(add_one, args, code):
    before = [a.copy() for a in args if isinstance(a, np.ndarray)]
    with refuses(code):
        add_one(*args)
    for array, copy in zip((a for a in args if isinstance(a, np.ndarray)), before):
        np.testing.assert_array_equal(array, copy)


def test_an_output_that_overlaps_is_refused(add_one):
    x = ones(16, 4)
    with pytest.raises(TVMagicError, match="`Y`.*`X`"):
        add_one(x[:8], x[4:12])
    with refuses("call.output_overlaps_input"):
        add_one(x[:8], x[:8])
    add_one(x[:8], x[8:])


def test_overlap_is_allowed_where_the_function_does_not_exclude_it():
    x, y = decl_buffer((8,), "float32", "X"), decl_buffer((8,), "float32", "Y")
    built = build(loop(8, lambda i: tir.BufferStore(y, x[i] + 1.0, [i])), x, y, noalias=False)
    a = np.zeros(9, "float32")
    built(a[:8], a[1:])
    np.testing.assert_array_equal(a, np.arange(9))


def test_sizes_agree_and_numbers_are_checked(scaled):
    result = np.zeros(5, "float32")
    scaled(ones(5), result, 3)
    assert (result == 3).all()
    with pytest.raises(TVMagicError, match="`Y`.*`n`"):
        scaled(ones(5), ones(6), 1.0)
    with pytest.raises(TVMagicError, match="`k`.*`float32`.*`'a'`"):
        scaled(ones(5), result, "a")
    scaled(np.zeros(0, "float32"), np.zeros(0, "float32"), 1.0)


@pytest.mark.parametrize("dtype, good, bad", [("int8", -128, 128), ("uint8", 255, -1), ("int32", 5, 1.5)])
def test_integer_parameters_hold_their_range(dtype, good, bad):
    k = Var("k", dtype)
    y = decl_buffer((1,), dtype, "Y")
    built = build(tir.BufferStore(y, k, [0]), k, y)
    assert built(good)[0] == good
    with pytest.raises(TVMagicError, match="`k`"):
        built(bad)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int64", "uint64"])
def test_scalar_parameters_of_every_width(dtype):
    k = Var("k", dtype)
    y = decl_buffer((1,), dtype, "Y")
    assert float(build(tir.BufferStore(y, k, [0]), k, y)(3)[0]) == 3.0


def test_strides_that_the_function_names():
    n, s, t = (Var(v, "int32") for v in ("n", "s", "t"))
    x = decl_buffer((n, n), "float32", "X", strides=[s, t])
    y = decl_buffer((n, n), "float32", "Y")
    built = build(loop(n, lambda i: loop(n, lambda j: tir.BufferStore(y, x[i, j], [i, j]))), x, y)
    a = np.arange(9, dtype="float32").reshape(3, 3)
    np.testing.assert_array_equal(built(a.T), a.T)
    np.testing.assert_array_equal(built(a[::-1]), a[::-1])


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (lambda n: {"strides": [n * 2 + 1]}, "call.wrong_stride"),
        (lambda n: {"strides": [3]}, "call.size_mismatch"),
        (lambda n: {"elem_offset": 4}, "call.wrong_element_offset"),
        (lambda n: {"elem_offset": n * 2}, "call.wrong_element_offset"),
    ],
)
def test_arrays_that_are_elsewhere_than_the_function_takes_them_for(more, says):
    n = Var("n", "int32")
    x, y = decl_buffer((n,), "float32", "X"), decl_buffer((n,), "float32", "Y", **more(n))
    built = build(loop(n, lambda i: tir.BufferStore(y, x[i], [i])), x, y)
    with refuses(says):
        built(np.ones(4, "float32"), np.ones(4, "float32"))


def test_an_output_with_strides_is_made_as_it_is_wanted():
    n = Var("n", "int32")
    x, y = decl_buffer((n,), "float32", "X"), decl_buffer((n,), "float32", "Y", strides=[n * 2 + 1])
    made = build(loop(n, lambda i: tir.BufferStore(y, x[i] + 1.0, [i])), x, y)(np.ones(4, "float32"))
    assert made.strides == (36,) and (made == 2).all()


class ByDLPack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_other_arrays_share_their_memory(add_one):
    x, y = ByDLPack(ones(8, 4)), ones(8, 4)
    add_one(x, y)
    assert (y == 2).all()
    z = nd.array(ones(8, 4))
    add_one(nd.array(ones(8, 4)), z)
    assert (z.numpy() == 2).all() and z.shape == (8, 4) and z.dtype == "float32"


def test_an_ndarray_copies_like_tvms():
    a = nd.array(np.arange(6, dtype="float32").reshape(2, 3))
    b = nd.empty((2, 3)).copyfrom(a.asnumpy() * 2)
    np.testing.assert_array_equal(np.asarray(b), np.arange(6).reshape(2, 3) * 2)
    with refuses("ndarray.shape_mismatch"):
        b.copyfrom(np.zeros(3))


def test_arrays_of_tvm_and_outputs_left_out_are_taken_quickly(calls):
    """A call checked in Python makes more than a hundred calls."""
    a, b = (te.placeholder((16,), name=n) for n in "AB")
    func = te.create_prim_func([a, b, te.compute((16,), lambda i: a[i] - b[i], name="C")])
    built = tvmagic.build(func)
    values = [np.arange(16, dtype="float32"), np.ones(16, "float32")]
    wrapped = [nd.array(v) for v in values] + [nd.empty((16,))]
    built(*wrapped)
    assert calls(lambda: built(*wrapped)) < 30 and calls(lambda: built(*values)) < 40
    np.testing.assert_array_equal(wrapped[2].numpy(), values[0] - 1)
    result = built(*wrapped[:2])
    np.testing.assert_array_equal(result, values[0] - 1)
    assert result.ctypes.data % 64 == 0
    for wrong in ([*wrapped, wrapped[0]], wrapped[:1], [wrapped[0], np.ones(15, "float32")]):
        with pytest.raises(TVMagicError):
            built(*wrong)


def test_a_dimension_of_size_one_is_broadcast_where_the_buffer_says_so():
    from tvmagic import te

    m, n, p = te.var("m"), te.var("n"), te.size_var("p")
    A, B = te.placeholder((m, n), name="A"), te.placeholder((p, n), name="B")
    C = te.compute((m, n), lambda i, j: A[i, j] + B[i, j], name="C")
    Bb = tir.decl_buffer(B.shape, B.dtype, name="Bb", buffer_type="auto_broadcast")
    for check_bounds in (False, True):
        s = te.create_schedule(C.op)
        built = tvmagic.build(s, [A, B, C], "llvm", binds={B: Bb}, check_bounds=check_bounds)
        rng = np.random.default_rng(0)
        a, wide = rng.random((3, 5), "float32"), rng.random((3, 10), "float32")
        for b in (wide[:1, :5].copy(), wide[:, :5], wide[:1, ::2], wide[:1, 5:], wide[:, :5].copy()):
            for _ in range(2):  # the second call may be checked by machine code
                result = np.zeros((3, 5), "float32")
                built(a, b, result)
                np.testing.assert_array_equal(result, a + b)
        one = rng.random((1, 1), "float32")
        result = np.zeros((1, 1), "float32")
        built(one, one.copy(), result)
        assert result == one + one


def test_bits_of_bfloat16():
    bits = np.array([0x3F80, 0x4000, 0x7FC0, 0x0001], "uint16")
    array = tvmagic.nd.empty((4,), "bfloat16").copyfrom(bits)
    assert array.numpy().dtype == "uint16"
    np.testing.assert_array_equal(array.numpy(), bits)
    np.testing.assert_array_equal(np.asarray(array)[:2].astype("float32"), [1.0, 2.0])
    other = tvmagic.nd.empty((4,), "bfloat16")
    array.copyto(other)
    np.testing.assert_array_equal(other.numpy(), bits)
    values = tvmagic.nd.empty((2,), "bfloat16").copyfrom(np.array([1.0, 2.0], "float32"))
    np.testing.assert_array_equal(values.numpy(), bits[:2])
    np.testing.assert_array_equal(tvmagic.nd.empty((4,), "uint16").copyfrom(bits).numpy(), bits)


def test_an_output_of_a_size_below_zero_is_refused() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n - 5,), lambda i: A[i + 5], name="B")
    built = tvmagic.build(te.create_schedule(B.op), [A, B])
    np.testing.assert_array_equal(built(np.ones(7, "float32")), [1, 1])
    for size in (4, 0):
        with refuses("call.negative_output_size"):
            built(np.ones(size, "float32"))
