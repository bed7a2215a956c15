"""The vector math functions against NumPy in higher precision, over float32 numbers and edge values."""

import math
import platform
import re

import numpy as np
import pytest
from handmade import module

from tvmagic import codegen, tir
from tvmagic.ir import Call, ForKind, Ramp, decl_buffer

EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-45,
    -1e-45,
    1.1754944e-38,
    3.4028235e38,
    -3.4028235e38,
    88.72283,
    88.72284,
    -87.33655,
    -103.97,
    -104.5,
    0.9,
    0.625,
    4.0,
    1e5,
    -1e5,
    1e30,
]
_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


REFERENCES = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(10.0, x),
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "erf": _erf,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
}
# the largest error found, in units in the last place of the result
LARGEST_ERROR = 2.0


def compiled(name, count, dtype="float32", lanes=16, arity=1, target=None):
    ins = [decl_buffer((count,), dtype, f"X{i}") for i in range(arity)]
    out = decl_buffer((count,), dtype, "Y")
    i = tir.Var("i", "int32")
    place = [Ramp(i * lanes, 1, lanes)] if lanes > 1 else [i]
    args = [x[place] for x in ins]
    body = tir.BufferStore(out, Call(args[0].dtype, f"tir.{name}", args), place)
    return codegen.compile_module(module(tir.For(i, 0, count // lanes, ForKind.SERIAL, body), *ins, out), target)


def raw_text(name, dtype, lanes=8):
    """The LLVM text of a loop over a function, before LLVM's passes."""
    x, out, i = decl_buffer((64,), dtype, "X"), decl_buffer((64,), dtype, "Y"), tir.Var("i", "int32")
    place = [Ramp(i * lanes, 1, lanes)]
    body = tir.BufferStore(out, Call(x[place].dtype, f"tir.{name}", [x[place]]), place)
    return codegen.llvm_ir(module(tir.For(i, 0, 64 // lanes, ForKind.SERIAL, body), x, out), None, False)


def ulp_error(result, exact):
    """Errors in units in the last place of the exact result, subnormal results included."""
    with np.errstate(all="ignore"):
        rounded = exact.astype("float32")
        _, exponent = np.frexp(exact)
        unit = np.ldexp(1.0, np.maximum(exponent - 24, -149))
        error = np.abs(result.astype("float64") - exact) / unit
        same = (result == rounded) | (np.isnan(result) & np.isnan(exact))
    return np.where(same, 0.0, error)


def sweep(step):
    bits = np.arange(0, 1 << 32, step, dtype=np.uint64).astype(np.uint32)
    values = bits.view("float32")
    near_one = np.linspace(0.25, 4.0, 1 << 14, dtype="float32")
    values = np.concatenate([values, near_one, -near_one, np.array(EDGES, "float32")])
    return np.resize(values, (len(values) + 15) // 16 * 16)


def check(name, values, lanes, target=None):
    result = compiled(name, len(values), lanes=lanes, target=target)(values)
    with np.errstate(all="ignore"):
        exact = REFERENCES[name](values.astype("float64"))
    error = ulp_error(result, exact)
    worst = int(np.argmax(error))
    assert error[worst] <= LARGEST_ERROR, (name, values[worst], result[worst], exact[worst], error[worst])
    return error[worst]


@pytest.mark.parametrize("name", REFERENCES)
def test_within_two_ulp_on_a_sweep_of_float32(name):
    check(name, sweep(40009 if name == "erf" else 10007), 16)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="every processor of another kind has multiply-adds")
@pytest.mark.parametrize("name", REFERENCES)
def test_without_multiply_adds_it_is_as_accurate_and_calls_no_function_for_them(name):
    target = "llvm -mcpu=x86-64-v2"
    check(name, sweep(400_009), 16, target)
    built = compiled(name, 64, target=target)
    assert not re.search(r"\bfmaf?\b", built.get_source("asm"))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="every processor of another kind has multiply-adds")
@pytest.mark.parametrize("name", ["log2", "log10"])
def test_logarithms_without_multiply_adds_lose_little_near_1(name):
    """The product with the slope is exact in its upper part; rounded as a whole, it would cost 1.7 units."""
    assert check(name, np.linspace(0.5, 2.0, 1 << 15, dtype="float32"), 16, "llvm -mcpu=x86-64-v2") < 1.1


# The others have no branches and no scaling of their own.
@pytest.mark.parametrize("name", sorted(set(REFERENCES) - {"asin", "acos", "atan", "sinh", "cosh"}))
def test_scalar_and_odd_widths_agree(name):
    values = sweep(8_000_009)[:4096]
    first = compiled(name, 4096, lanes=16)(values)
    for lanes in (1, 8, 64):
        np.testing.assert_allclose(compiled(name, 4096, lanes=lanes)(values), first, rtol=3e-7, atol=0)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sin", "cos", "sigmoid", "log1p"])
def test_signs_of_zero_and_not_a_number(name):
    values = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, -1.0, 1.0, 0.0] * 2, "float32")
    result = compiled(name, 16)(values)
    with np.errstate(all="ignore"):
        exact = REFERENCES[name](values.astype("float64")).astype("float32")
    np.testing.assert_array_equal(np.isnan(result), np.isnan(exact))
    keep = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(result)[keep], np.signbit(exact)[keep])


def test_atan2_with_its_edges():
    rng = np.random.default_rng(0)
    y, x = (np.concatenate([rng.standard_normal(20000), 10 ** rng.uniform(-44, 38, 20000)]) for _ in "yx")
    y = np.concatenate([y, np.repeat(EDGES, len(EDGES))])
    x = np.concatenate([x * rng.choice([-1, 1], len(x)), np.tile(EDGES, len(EDGES))])
    y, x = (np.resize(v, (len(v) + 15) // 16 * 16).astype("float32") for v in (y, x))
    result = compiled("atan2", len(y), arity=2)(y, x)
    exact = np.arctan2(y.astype("float64"), x.astype("float64"))
    assert ulp_error(result, exact).max() <= LARGEST_ERROR
    known = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(result)[known], np.signbit(exact)[known])


@pytest.mark.parametrize("name", ["tanh", "sinh", "cosh"])
def test_hyperbolic_functions_of_float64(name):
    """Against ones of more digits, which long doubles of x86 have; the library's own elsewhere."""
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [rng.uniform(-s, s, 4096) for s in (1e-8, 1.0, 30.0, 710.4)] + [np.array([*EDGES[:11], 5e-324])]
    )
    values = np.resize(values, (len(values) + 7) // 8 * 8)
    result = compiled(name, len(values), "float64", 8)(values)
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(values.astype(np.longdouble))
        rounded = exact.astype("float64")
        error = np.abs((result - exact) / np.spacing(np.abs(rounded)))
    same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
    assert np.where(same, 0, error).max() <= 2.5
    np.testing.assert_array_equal(np.signbit(result[same]), np.signbit(rounded[same]))


def test_pow_with_its_edges():
    rng = np.random.default_rng(0)
    x = np.concatenate([np.exp(rng.uniform(-20, 20, 20000)), np.repeat(EDGES, len(EDGES)), -np.arange(1.0, 12.0)])
    y = np.concatenate([rng.uniform(-8, 8, 20000), np.tile(EDGES, len(EDGES)), np.arange(-5.0, 6.0)])
    x, y = (np.resize(v, (len(v) + 15) // 16 * 16).astype("float32") for v in (x, y))
    result = compiled("pow", len(x), arity=2)(x, y)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype("float64"), y.astype("float64"))
    error = ulp_error(result, exact)
    worst = int(np.argmax(error))
    assert error[worst] <= 1.0, (x[worst], y[worst], result[worst], exact[worst])


@pytest.mark.parametrize(
    ("dtype", "names"),
    [
        ("float32", "exp exp2 exp10 sigmoid tanh erf log log2 log10 log1p sin cos tan asin acos atan sinh cosh"),
        ("float64", "exp exp2 sigmoid log tanh sinh cosh"),
    ],
)
def test_these_functions_are_vector_code_of_our_own(dtype, names):
    for name in names.split():
        assert re.search(rf"call <8 x \w+> @tvm\.{name}\.", raw_text(name, dtype)), name
    if dtype == "float64":
        assert "@tvm.lanes.atan(" in raw_text("atan", dtype)


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "sigmoid", "tanh", "sin"])
def test_float64(name):
    values = np.concatenate([np.linspace(-700, 700, 20000), np.exp(np.linspace(-300, 300, 20000))])
    result = compiled(name, 40000, "float64", lanes=8)(values)
    with np.errstate(all="ignore"):
        exact = REFERENCES[name](values)
    keep = np.isfinite(exact)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(exact))
    np.testing.assert_allclose(result[keep], exact[keep], rtol=6e-16, atol=1e-323)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["exp", "tanh", "sqrt", "rsqrt"])
def test_16_bit_floats_round_once(name, dtype):
    from tvmagic.ir.numpy_types import numpy_dtype

    values = np.arange(1 << 16, dtype=np.uint16).view(numpy_dtype(dtype))
    result = compiled(name, 1 << 16, dtype)(values)
    with np.errstate(all="ignore"):
        exact = REFERENCES[name](values.astype("float64")).astype("float32").astype(numpy_dtype(dtype))
    good = (result == exact) | (np.isnan(result.astype("float32")) & np.isnan(exact.astype("float32")))
    assert (~good).sum() <= 20  # a result within float32's error of a tie
