"""Math functions on vectors of any number of lanes: what each gives is what it gives for one number."""

import functools
import re

import numpy as np
import pytest
from handmade import function

import tvmagic
from tvmagic import codegen, te, tir
from tvmagic.codegen.emit.intrinsics import MATH_NAMES
from tvmagic.errors import BuildError
from tvmagic.ir import Call, ForKind, IRModule, Ramp, decl_buffer
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.script import from_source

OF_TWO = {"pow", "atan2", "hypot", "nextafter", "copysign", "ldexp", "fmod"}
COUNT = 3 * 3 * 5 * 7 * 32  # a multiple of every number of lanes below 1024
ROUNDING = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 4e-7, "float64": 1e-15}


def arity(name):
    return 3 if name == "fma" else 2 if name in OF_TWO else 1


def function_of(name, dtype, lanes):
    """`Y[i] = name(X0[i], ...)`, `lanes` elements at a time."""
    kinds = ["int32" if name == "ldexp" and n == 1 else dtype for n in range(arity(name))]
    ins = [decl_buffer((COUNT,), kind, f"X{n}") for n, kind in enumerate(kinds)]
    out = decl_buffer((COUNT,), "bool" if name.startswith("is") else dtype, "Y")
    i = tir.Var("i", "int32")
    place = [Ramp(i * lanes, 1, lanes)] if lanes > 1 else [i]
    call = Call(out.dtype.with_lanes(lanes), f"tir.{name}", [x[place] for x in ins])
    body = tir.For(i, 0, COUNT // lanes, ForKind.SERIAL, tir.BufferStore(out, call, place))
    return function(body, *ins, out, name=name)


def results(dtype, lanes, names):
    """What each function gives for the same random numbers, by name."""
    mod = IRModule({name: function_of(name, dtype, lanes) for name in names})
    built = codegen.compile_module(mod, "llvm -opt-level=1")
    rng = np.random.default_rng(0)
    numbers = [(rng.random(COUNT) * 2 - 0.5).astype(numpy_dtype(dtype)) for _ in range(3)]
    found = {}
    for name in names:
        args = numbers[: arity(name)]
        if name == "ldexp":
            args = [args[0], (np.arange(COUNT) % 7 - 3).astype("int32")]
        found[name] = built[name](*args)
    return found


@functools.cache
def scalar_results(dtype):
    return results(dtype, 1, MATH_NAMES)


@pytest.mark.parametrize(
    ("dtype", "lanes"),
    [("float32", n) for n in (3, 5, 7, 80, 96)] + [("float64", 80), ("float16", 7), ("bfloat16", 80)],
)
def test_every_function_on_vectors_of_any_width(dtype, lanes):
    for name, found in results(dtype, lanes, MATH_NAMES).items():
        wanted = scalar_results(dtype)[name]
        np.testing.assert_allclose(
            found.astype("float64"), wanted.astype("float64"), rtol=ROUNDING[dtype], atol=0, err_msg=name
        )


def test_hundreds_of_lanes():
    """Calls of the C library go through a loop: written out for a thousand lanes they took minutes."""
    names = ("exp", "acos", "ldexp")
    for name, found in results("float32", 504, names).items():
        np.testing.assert_allclose(found, scalar_results("float32")[name], rtol=4e-7, atol=0, err_msg=name)


@pytest.mark.parametrize("name", ["acos", "sin", "pow"])
def test_the_code_does_not_grow_with_the_lanes(name):
    def lines(lanes):
        target = "llvm -mtriple=aarch64-linux-gnu"
        return codegen.llvm_ir(function_of(name, "float32", lanes), target, optimize=False).count("\n")

    assert lines(1008) == lines(7)


def test_a_vector_that_llvm_would_end_the_process_for_is_refused():
    x, y = decl_buffer((COUNT,), "float32", "X"), decl_buffer((COUNT,), "float32", "Y")
    wide = [Ramp(0, 1, 1 << 20)]
    with pytest.raises(BuildError, match="1048576") as caught:
        codegen.llvm_ir(function(tir.BufferStore(y, x[wide], wide), x, y))
    assert "split the loop" in (caught.value.hint or "")


@pytest.mark.parametrize("size", ["n", "8"], ids=["on the heap", "on the stack"])
@pytest.mark.parametrize(("dtype", "lanes"), [("int8", 5), ("bool", 3), ("float32", 3), ("float64", 12), ("int16", 8)])
def test_vectors_in_memory_have_no_gaps(dtype: str, lanes: int, size: str) -> None:
    """LLVM would pad a vector of 5 bytes to 8, and the last would be stored behind the memory."""
    func = from_source(f"""
@T.prim_func
def main(n: T.int32, X: T.Buffer(({8 * lanes},), "{dtype}"), Y: T.Buffer(({8 * lanes},), "{dtype}")):
    B = T.allocate([{size}], "{dtype}x{lanes}", "global")
    vectors = T.Buffer(({size},), "{dtype}x{lanes}", data=B)
    scalars = T.Buffer(({size} * {lanes},), "{dtype}", data=B)
    for i in range({size}):
        vectors[i] = X[i * {lanes}:i * {lanes} + {lanes}]
    for i in range({size} * {lanes}):
        Y[i] = scalars[i]
""")
    x = (np.arange(8 * lanes) % 3).astype(dtype)
    y = np.zeros_like(x)
    tvmagic.build(func)(8, x, y)
    assert (x == y).all()


@pytest.mark.parametrize("lanes", [17, 48, 256])
def test_a_wide_vector_of_strided_loads_is_joined_from_short_ones(lanes):
    """LLVM takes half a minute for a chain of 512 lanes that are inserted one after the other."""
    A = te.placeholder((lanes, 200), name="A")
    B = te.compute((200, lanes), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(B.op.axis[1])
    built = tvmagic.build(s, [A, B])
    widths = [int(n) for n in re.findall(r"insertelement <(\d+) x float>", built.get_source("raw"))]
    assert max(widths) <= 16
    a = np.arange(lanes * 200, dtype="float32").reshape(lanes, 200)
    np.testing.assert_array_equal(built(a), a.T)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_lanes_of_16_bit_floats_are_loaded_and_stored_as_integers(dtype):
    """LLVM keeps each of them in a vector register, and joins them by several shuffles."""
    A = te.placeholder((24, 40), dtype, name="A")
    B = te.compute((40, 24), lambda i, j: A[j, i], name="B")
    C = te.compute((40, 24), lambda i, j: -B[i, j], name="C")
    s = te.create_schedule(C.op)
    s[B].vectorize(B.op.axis[1])  # reads far apart
    s[C].reorder(*reversed(C.op.axis))
    s[C].vectorize(C.op.axis[0])  # reads and writes far apart
    built = tvmagic.build(s, [A, C])
    assert not re.search(r"(load|store) half|insertelement <\d+ x half>", built.get_source("raw"))
    a = np.arange(24 * 40).reshape(24, 40) / 64
    c = np.zeros((40, 24), numpy_dtype(dtype))
    built(a.astype(c.dtype), c)
    np.testing.assert_array_equal(c, -a.T.astype(c.dtype))
