"""Every operator and dtype against NumPy over edge values."""

import itertools
import re
from fractions import Fraction

import numpy as np
import pytest
from handmade import module
from refusals import refuses
from sampling import every

import tvmagic
from tvmagic import codegen, ir, te, tir
from tvmagic.errors import BuildError
from tvmagic.eval.ops import CALLS
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.ir.semantics import convert_number
from tvmagic.script import from_source

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64", "bfloat16"]
LANES = 8


def edge_values(dtype):
    kind = numpy_dtype(dtype)
    if dtype == "bool":
        return np.array([False, True], kind)
    if dtype in FLOATS:
        top = 3.0e38 if dtype == "bfloat16" else float(np.finfo(kind).max)
        tiny = 1e-40 if dtype == "bfloat16" else float(np.finfo(kind).smallest_subnormal)
        values = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 7.25, -7.25, np.inf, -np.inf, np.nan, top, -top, tiny]
        return np.array(values).astype(kind)
    info = np.iinfo(kind)
    numbers = [0, 1, 2, 3, 7, 8, 13, 100, info.max, info.max - 1, info.max // 2, info.min, info.min + 1]
    numbers += [-1, -2, -3, -7, -8, -100] if info.min < 0 else []
    return np.array([n for n in numbers if info.min <= n <= info.max], kind)


def pairs(dtype):
    values = edge_values(dtype)
    a, b = np.repeat(values, len(values)), np.tile(values, len(values))
    size = (len(a) + LANES - 1) // LANES * LANES
    return np.resize(a, size), np.resize(b, size)


def run(make, dtypes, result, arrays, lanes):
    """The compiled `make(elements...)` on arrays, `lanes` at a time."""
    count = len(arrays[0])
    ins = [ir.decl_buffer((count,), d, f"X{i}") for i, d in enumerate(dtypes)]
    out = ir.decl_buffer((count,), result, "Y")
    i = tir.Var("i", "int32")
    place = [i] if lanes == 1 else [ir.Ramp(i * lanes, 1, lanes)]
    body = tir.BufferStore(out, make(*(x[place] for x in ins)), place)
    built = codegen.compile_module(module(tir.For(i, 0, count // lanes, 0, body), *ins, out))
    return built(*arrays)


def assert_same(result, expected):
    same = result == expected
    if result.dtype.kind not in "iub":
        same |= np.isnan(result.astype("float64")) & np.isnan(expected.astype("float64"))
    assert same.all(), (result[~same][:5], expected[~same][:5])


@pytest.mark.parametrize(("processor", "width", "choice"), [("haswell", 8, "vblendvp"), ("znver4", 16, "vmovap")])
def test_an_extreme_is_an_instruction_and_two_for_a_nan(processor, width, choice):
    """A constant is no NaN, so that one instruction is enough. It had been two comparisons, their `or` and a choice."""
    x, z, out = (ir.decl_buffer((width,), "float32", name) for name in "XZY")
    place = [ir.Ramp(0, 1, width)]
    for other, count in ((z[place], 1), (tir.Broadcast(tir.const(0, "float32"), width), 0)):
        body = ir.BufferStore(out, tir.Max(x[place], other), place)
        text = codegen.assembly(module(body, x, z, out), f"llvm -mtriple=x86_64-linux-gnu -mcpu={processor}")
        assert len(re.findall(r"\tvmaxps\t", text)) == 1
        assert len(re.findall(r"\tvcmp", text)) == count and (choice in text.split("vmaxps")[1]) >= (count == 1)


ARITHMETIC = {tir.Add: np.add, tir.Sub: np.subtract, tir.Mul: np.multiply, tir.Min: np.minimum, tir.Max: np.maximum}
COMPARISON = {
    tir.EQ: np.equal,
    tir.NE: np.not_equal,
    tir.LT: np.less,
    tir.LE: np.less_equal,
    tir.GT: np.greater,
    tir.GE: np.greater_equal,
}


@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED + FLOATS)
def test_arithmetic_and_comparisons(dtype, lanes):
    a, b = pairs(dtype)
    with np.errstate(all="ignore"):
        for op, reference in ARITHMETIC.items():
            assert_same(run(op, [dtype, dtype], dtype, [a, b], lanes), reference(a, b))
        for op, reference in COMPARISON.items():
            assert_same(run(op, [dtype, dtype], "bool", [a, b], lanes), reference(a, b))


@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_integer_division_and_remainder(dtype, lanes):
    a, b = pairs(dtype)
    with np.errstate(all="ignore"):
        assert_same(run(tir.FloorDiv, [dtype, dtype], dtype, [a, b], lanes), np.floor_divide(a, b))
        assert_same(run(tir.FloorMod, [dtype, dtype], dtype, [a, b], lanes), np.remainder(a, b))
        assert_same(run(tir.Mod, [dtype, dtype], dtype, [a, b], lanes), np.fmod(a, b))
    wide = [int(x) for x in a], [int(y) for y in b]
    quotients = [0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(*wide)]
    bits = numpy_dtype(dtype).itemsize * 8
    expected = np.array([q & ((1 << bits) - 1) for q in quotients], "uint64").astype(dtype)
    assert_same(run(tir.Div, [dtype, dtype], dtype, [a, b], lanes), expected)


@pytest.mark.parametrize("divisor", [1, 2, 3, 8, 10, -1, -2, -7, 127])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_division_by_constants(dtype, divisor):
    if dtype == "uint8" and divisor < 0:
        return
    a, _ = pairs(dtype)
    c = tir.IntImm(dtype, divisor)
    d = np.array(divisor, dtype)
    with np.errstate(all="ignore"):
        assert_same(run(lambda x: tir.FloorDiv(x, c), [dtype], dtype, [a], 1), np.floor_divide(a, d))
        assert_same(run(lambda x: tir.FloorMod(x, c), [dtype], dtype, [a], 1), np.remainder(a, d))


@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_division(dtype, lanes):
    a, b = pairs(dtype)
    with np.errstate(all="ignore"):
        assert_same(run(tir.Div, [dtype, dtype], dtype, [a, b], lanes), a / b)
        assert_same(run(tir.Mod, [dtype, dtype], dtype, [a, b], lanes), np.fmod(a, b))
        finite = np.isfinite(a) & np.isfinite(b) & (b != 0)
        result = run(tir.FloorMod, [dtype, dtype], dtype, [a, b], lanes)
        assert_same(result[finite], np.remainder(a, b)[finite])


@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_bits(dtype, lanes):
    a, b = pairs(dtype)

    def call(name):
        return lambda *args: ir.Call(args[0].dtype, f"tir.{name}", args)

    for name, reference in (
        ("bitwise_and", np.bitwise_and),
        ("bitwise_or", np.bitwise_or),
        ("bitwise_xor", np.bitwise_xor),
        ("shift_left", np.left_shift),
        ("shift_right", np.right_shift),
    ):
        assert_same(run(call(name), [dtype, dtype], dtype, [a, b], lanes), reference(a, b))
    assert_same(run(call("bitwise_not"), [dtype], dtype, [a], lanes), ~a)
    count = [bin(int(x) & ((1 << (a.itemsize * 8)) - 1)).count("1") for x in a]
    assert_same(run(call("popcount"), [dtype], dtype, [a], lanes), np.array(count, dtype))
    lead = [a.itemsize * 8 - (int(x) & ((1 << (a.itemsize * 8)) - 1)).bit_length() for x in a]
    assert_same(run(call("clz"), [dtype], dtype, [a], lanes), np.array(lead, dtype))
    assert_same(run(tir.abs, [dtype], dtype, [a], lanes), np.abs(a))


DTYPES = [*SIGNED, *UNSIGNED, *FLOATS, "bool"]


@pytest.mark.parametrize(("lanes", "source", "target"), every(3, itertools.product([1, LANES], DTYPES, DTYPES)))
def test_conversions(lanes, source, target):
    a, _ = pairs(source)
    if source in FLOATS and target in SIGNED + UNSIGNED:
        info = np.iinfo(target)  # outside the target's range C leaves the result open
        wide = a.astype("float64")
        limit = float(info.max) if info.bits < 64 else np.nextafter(float(info.max), 0)
        fits = np.isfinite(wide) & (wide <= limit) & (wide >= info.min)
        a = np.where(fits, a, np.array(1, a.dtype))
    with np.errstate(all="ignore"):
        expected = a.astype(numpy_dtype(target))
        if target == "bfloat16" and source == "float64" or target == "bfloat16" and source in SIGNED + UNSIGNED:
            expected = _nearest_bfloat16(a)  # ml_dtypes rounds twice
    result = run(lambda x: ir.Cast(ir.DataType(target).with_lanes(lanes), x), [source], target, [a], lanes)
    assert_same(result, expected)


@pytest.mark.parametrize("target", [*SIGNED, *UNSIGNED])
@pytest.mark.parametrize("source", FLOATS)
def test_a_float_beyond_an_integer_type_becomes_its_nearest_end(source, target):
    info, kind = np.iinfo(target), numpy_dtype(source)
    ends = np.array([float(e) for e in (info.min, info.max)])
    near = [e + d for e in ends for d in (-1.5, -1, -0.5, 0, 0.5, 1)] + [np.nextafter(e, 0) for e in ends]
    with np.errstate(all="ignore"):
        a = np.array([*near, np.nan, np.inf, -np.inf, 1e30, -1e30, 0.9, -0.9, -0.0, *[1.0] * 42]).astype(kind)
    wide = [float(x) for x in a]
    expected = [0 if x != x else info.max if x > info.max else info.min if x < info.min else int(x) for x in wide]
    expected = np.array([min(max(x, info.min), info.max) for x in expected], target)
    result = run(lambda x: ir.Cast(ir.DataType(target).with_lanes(LANES), x), [source], target, [a], LANES)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("target", ["uint8", "int16", "int32"])
def test_llvm_makes_vectors_of_a_loop_that_converts_floats_to_integers(target):
    A = te.placeholder((1024,), name="A")
    B = te.compute((1024,), lambda i: A[i].astype(target), name="B")
    text = tvmagic.build(te.create_schedule(B.op), [A, B], target="llvm -mcpu=haswell").get_source("ll")
    assert "fptosi <8 x float>" in text and "fptosi float" not in text


def _nearest_bfloat16(values):
    exact = values.astype("float64")
    kind = numpy_dtype("bfloat16")
    low = exact.astype("float32").astype(kind)
    bits = low.view(np.uint16).astype(np.int64)
    best = low.copy()
    for step in (-1, 1):
        other = np.clip(bits + step, 0, 0xFFFF).astype(np.uint16).view(kind)
        gap, own = np.abs(other.astype("float64") - exact), np.abs(best.astype("float64") - exact)
        best = np.where(
            np.isfinite(low.astype("float64")) & np.isfinite(other.astype("float64")) & (gap < own), other, best
        )
    return best


@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_rounding_and_tests_of_floats(dtype, lanes):
    a, b = pairs(dtype)

    def call(name):
        return lambda *args: ir.Call(args[0].dtype, f"tir.{name}", args)

    with np.errstate(all="ignore"):
        for name, reference in (
            ("floor", np.floor),
            ("ceil", np.ceil),
            ("trunc", np.trunc),
            ("fabs", np.abs),
            ("nearbyint", np.rint),
            ("sqrt", np.sqrt),
        ):
            assert_same(run(call(name), [dtype], dtype, [a], lanes), reference(a))
        assert_same(run(call("copysign"), [dtype, dtype], dtype, [a, b], lanes), np.copysign(a, b))
        assert_same(run(tir.isnan, [dtype], "bool", [a], lanes), np.isnan(a))
        assert_same(run(tir.isinf, [dtype], "bool", [a], lanes), np.isinf(a))
        assert_same(run(tir.isfinite, [dtype], "bool", [a], lanes), np.isfinite(a))


@pytest.mark.parametrize("lanes", [1, LANES])
def test_logic_and_selection(lanes):
    a, b = pairs("bool")
    assert_same(run(tir.And, ["bool", "bool"], "bool", [a, b], lanes), a & b)
    assert_same(run(tir.Or, ["bool", "bool"], "bool", [a, b], lanes), a | b)
    assert_same(run(tir.Not, ["bool"], "bool", [a], lanes), ~a)
    x, y = pairs("int32")
    result = run(lambda p, q: tir.Select(p < q, p, q * 2), ["int32", "int32"], "int32", [x, y], lanes)
    with np.errstate(all="ignore"):
        assert_same(result, np.where(x < y, x, y * 2))


def test_math_of_the_c_library():
    values = np.linspace(-0.9, 0.9, 64).astype("float32")
    for name in "tan sinh cosh asin acos atan asinh atanh".split():
        result = run(lambda x, name=name: ir.Call(x.dtype, f"tir.{name}", [x]), ["float32"], "float32", [values], LANES)
        numpy_name = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "atanh": "arctanh"}
        expected = getattr(np, numpy_name.get(name, name))(values.astype("float64"))
        np.testing.assert_allclose(result, expected, rtol=3e-7)
    other = values[::-1].copy()
    for name, reference in (("atan2", np.arctan2), ("hypot", np.hypot), ("nextafter", np.nextafter), ("fmod", np.fmod)):
        made = lambda x, y, name=name: ir.Call(x.dtype, f"tir.{name}", [x, y])  # noqa: E731
        result = run(made, ["float32", "float32"], "float32", [values, other], LANES)
        np.testing.assert_allclose(result, reference(values, other), rtol=3e-7)


def test_fma_rounds_once():
    a = np.full(8, 1 + 2.0**-23, "float32")
    c = np.full(8, -(1 + 2.0**-22), "float32")
    made = lambda x, y, z: ir.Call(x.dtype, "tir.fma", [x, y, z])  # noqa: E731
    assert_same(run(made, ["float32"] * 3, "float32", [a, a, c], LANES), np.full(8, 2.0**-46, "float32"))


def small_triples(dtype, count):
    """Random bits, half of them with a third number whose last places decide where the sum is rounded to."""
    kind, rng = numpy_dtype(dtype), np.random.default_rng(5)
    x, y, z = (rng.integers(0, 1 << 16, count, dtype="uint16").view(kind) for _ in range(3))
    with np.errstate(all="ignore"):
        near = x.astype("float64") * y.astype("float64") * 2.0 ** rng.integers(-26, 12, count)
        z = np.where(rng.random(count) < 0.5, near.astype(kind), z)
    return x, y, z


def exactly_fused(dtype, x, y, z):
    """x y + z in rational numbers, rounded once: the nearest of the numbers around, of two the even one."""
    kind, results = numpy_dtype(dtype), []
    for a, b, c in zip(*(v.astype("float64") for v in (x, y, z))):
        near = np.float64(a * b + c).astype(kind)
        if np.isfinite(near.astype("float64")) and (exact := Fraction(a) * Fraction(b) + Fraction(c)):
            bits = int(near.view("uint16"))
            around = [np.uint16((bits + step) % 65536).view(kind) for step in (0, 1, -1)]
            around = [v for v in around if np.isfinite(float(v)) and (float(v) < 0) == (float(near) < 0)]
            near = min(around, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view("uint16")) & 1))
        results.append(near)
    return np.array(results, kind)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_fma_of_small_floats_rounds_once(dtype):
    x, y, z = small_triples(dtype, 4096)
    with np.errstate(all="ignore"):
        expected = exactly_fused(dtype, x, y, z)
    X, Y, Z = (te.placeholder(x.shape, dtype, name=name) for name in "XYZ")
    W = te.compute(x.shape, lambda i: tir.fma(X[i], Y[i], Z[i]), name="W")
    plain, vectors = te.create_schedule(W.op), te.create_schedule(W.op)
    vectors[W].vectorize(vectors[W].split(W.op.axis[0], LANES)[1])
    for s in (plain, vectors):
        for target in ("llvm -mcpu=x86-64-v2", "llvm -mcpu=haswell"):
            result = np.zeros(x.shape, x.dtype)
            tvmagic.build(s, [X, Y, Z, W], target)(x, y, z, result)
            assert_same(result, expected)
    with np.errstate(all="ignore"):
        assert_same(CALLS["tir.fma"](x, y, z), expected)


# ---------------------------------------------------------------------------- constants that are equal and not the same


def _times(constant):
    return from_source(f"""
@T.prim_func
def main(X: T.Buffer((2,), "float64"), Y: T.Buffer((2,), "float64")):
    for i in range(2):
        Y[i] = X[i] * T.float64({constant})
""")


@pytest.mark.parametrize("constants", [("0.0", "-0.0"), ("-0.0", "0.0")])
def test_a_zero_has_its_sign_whatever_was_built_before(constants):
    for constant in constants:
        out = np.ones(2)
        tvmagic.build(_times(constant))(np.array([1.0, -1.0]), out)
        assert np.signbit(out).tolist() == np.signbit(np.array([1.0, -1.0]) * float(constant)).tolist()


@pytest.mark.parametrize("read_first", [False, True])
def test_a_text_that_is_read_back_begins_with_the_finite_number(read_first):
    """A maximum begins with -inf, for which its text has the least finite number; both have a kernel of their own."""
    X = te.placeholder((3, 5), name="X")
    k = te.reduce_axis((0, 5), name="k")
    made = te.create_prim_func([X, te.compute((3,), lambda i: te.max(X[i, k], axis=k), name="Y")])
    least = np.finfo("float32").min
    cases = [(made, -np.inf), (from_source(made.script()), least)]
    for func, wanted in reversed(cases) if read_first else cases:
        out = np.zeros(3, "float32")
        tvmagic.build(func)(np.full((3, 5), -np.inf, "float32"), out)
        assert (out == wanted).all()


# ---------------------------------------------------------------------------- calls without a meaning

MEANINGLESS = [
    ("clz", ["float16"], "float16"),
    ("clz", ["bool"], "int32"),
    ("popcount", ["float32"], "float32"),
    ("isinf", ["int8"], "bool"),
    ("fma", ["bool", "bool", "bool"], "int32"),
    ("exp", ["int8"], "float32"),
    ("pow", ["float32", "int32"], "float32"),
    ("bitwise_and", ["float32", "float32"], "float32"),
    ("shift_left", ["int32", "int8"], "int32"),
    ("address_of", ["bool"], "int32"),
    ("if_then_else", ["bool", "int8", "int32"], "int32"),
    ("get_active_lane_mask", ["int32", "int32"], "int32"),
    ("rsqrt", ["int8"], "int8"),
    ("isnullptr", ["int32"], "bool"),
    ("vectorlow", ["int32"], "int32"),
    ("vectorcombine", ["int8", "int8"], "int8"),
    ("ldexp", ["int8", "int8"], "float32"),
    ("atomic_add", ["int32", "int32"], "int32"),
    ("assume", ["float32"], "int32"),
    ("large_uint_imm", ["int32", "int32"], "uint64"),
    ("exp", [], "float32"),
]


@pytest.mark.parametrize(("name", "given", "result"), MEANINGLESS)
def test_a_call_of_types_that_an_operator_does_not_have_is_refused(name, given, result):
    """LLVM would end the process for some of them."""
    buffers = [ir.decl_buffer((4,), dtype, name=f"A{n}") for n, dtype in enumerate(given)]
    out = ir.decl_buffer((4,), result, name="B")
    body = ir.BufferStore(out, ir.Call(result, f"tir.{name}", [ir.BufferLoad(b, [0]) for b in buffers]), [0])
    handles = [ir.Var(f"p{n}", "handle") for n in range(len(buffers) + 1)]
    with refuses("codegen.call_differs", error=BuildError) as caught:
        tvmagic.build(ir.PrimFunc(handles, body, buffer_map=dict(zip(handles, [*buffers, out]))))
    assert caught.value.hint


@pytest.mark.parametrize("name", ["clz", "popcount"])
def test_bits_of_a_float_are_not_counted(name):
    with refuses("expression.not_an_integer"):
        getattr(tir, name)(tir.const(1.0, "float32"))


@pytest.mark.parametrize(("first", "signed"), [(0, False), (3, False), (-1, True)])
def test_what_is_never_negative_is_divided_without_a_sign(first, signed):
    """Such a division is cheaper, and there is nothing to round down."""
    out, var = ir.decl_buffer((16,), "int32", "X"), tir.Var("i", "int32")
    value = tir.floordiv(var, 3) * 100 + tir.floormod(var, 3)
    mod = module(tir.For(var, first, 16, 0, tir.BufferStore(out, value, [var - first])), out)
    words = re.findall(r" ([su](?:div|rem)) ", codegen.llvm_ir(mod, None, False))
    assert sorted(words) == (["sdiv", "srem"] if signed else ["udiv", "urem"])
    i = np.arange(first, first + 16)
    np.testing.assert_array_equal(codegen.compile_module(mod)(), i // 3 * 100 + i % 3)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint16"])
def test_an_index_without_a_sign_is_no_negative_one(dtype: str) -> None:
    """Its highest bit is not a sign: `true` is the index 1, and the byte 200 is 200."""
    places = edge_values(dtype)
    count, size = len(places), int(places.max()) + 1
    func = from_source(f"""
@T.prim_func
def main(X: T.Buffer(({count},), "{dtype}"), A: T.Buffer(({size},), "float32"), Y: T.Buffer(({count},), "float32"), Z: T.Buffer(({size},), "float32")):
    for i in range({count}):
        Y[i] = A[X[i]]
    for i in range({count}):
        Z[X[i]] = A[i]
""")
    built = tvmagic.build(func)
    a = np.arange(size, dtype="float32") + 5
    y, z, expected = np.zeros(count, "float32"), np.zeros(size, "float32"), np.zeros(size, "float32")
    built(places, a[: max(size, count)], y, z)
    for place, value in zip(places.astype(int), a):
        expected[place] = value
    assert (y == a[places.astype(int)]).all() and (z == expected).all()
    assert not re.search(r"zext nneg i(1|8|16)\b", str(built.get_source("raw")))


@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_floats_become_integers_at_the_ends_of_types_as_in_numbers(source: str) -> None:
    """The numbers at, beside and beyond both ends of every type of integers, one at a time and in vectors."""
    kind = np.dtype(source)
    for target in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        info = np.iinfo(target)
        with np.errstate(over="ignore"):
            ends = np.array([float(n) for n in (info.min - 1, info.min, info.max, info.max + 1)]).astype(kind)
        beside = [np.nextafter(ends, kind.type(to)) for to in (-np.inf, np.inf)]
        values = np.unique(np.concatenate([ends, *beside, ends + kind.type(0.5), ends - kind.type(0.5)]))
        values = np.resize(np.concatenate([values, [np.nan, np.inf, -np.inf, -0.0]]).astype(kind), 32)
        x = te.placeholder((32,), source, name="X")
        y = te.compute((32,), lambda i: x[i].astype(target), name="Y")
        for lanes in (1, 8):
            s = te.create_schedule(y.op)
            if lanes > 1:
                s[y].vectorize(s[y].split(y.op.axis[0], lanes)[1])
            got = np.zeros(32, target)
            tvmagic.build(s, [x, y])(values, got)
            wanted = [convert_number(v, ir.DataType(target)) for v in values.tolist()]
            assert got.tolist() == wanted, (target, lanes, values[got != np.array(wanted, target)])


HEAD = "from tvm.script import tir as T\n\n@T.prim_func\n"


@pytest.mark.parametrize(
    ("dtype", "least", "largest"),
    [
        ("int32", -(1 << 31), (1 << 31) - 1),
        ("uint32", 0, (1 << 32) - 1),
        ("int64", -(1 << 63), (1 << 63) - 1),
        ("uint64", 0, (1 << 64) - 1),
    ],
)
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_float_to_integer_cast_saturates(source: str, dtype: str, least: int, largest: int) -> None:
    """At both ends of the type, one place inside, and one outside."""
    ends = np.array([least, largest + 1], source)
    points = np.concatenate(
        [ends, np.nextafter(ends, np.array(0, source)), np.nextafter(ends, np.array([-np.inf, np.inf], source))]
    )
    given = np.concatenate([points, np.array([np.inf, -np.inf, 0.9, -0.9], source)])
    text = f"""def main(A: T.Buffer(({len(given)},), "{source}"), B: T.Buffer(({len(given)},), "{dtype}")):
    for i in range({len(given)}):
        B[i] = T.Cast("{dtype}", A[i])"""
    out = np.zeros(len(given), dtype)
    tvmagic.build(from_source(HEAD + text))(given, out)
    exact = [
        largest if x == np.inf else least if x == -np.inf else min(max(int(x), least), largest) for x in given.tolist()
    ]
    assert out.tolist() == exact
