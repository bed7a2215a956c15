"""Types and constants as LLVM writes them, what operators take, descriptors, and estimates of work: tables and laws."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import numpy as np
import pytest

from tvmagic.codegen import types
from tvmagic.codegen.abi import machine_type, symbol_of
from tvmagic.codegen.rules import large_uint
from tvmagic.codegen.signatures import check_call
from tvmagic.codegen.work_estimate import Work
from tvmagic.errors import BuildError
from tvmagic.eval.integers import evaluate
from tvmagic.ir import Call, Evaluate, For, ForKind, IntImm, Var, While, dtype_of
from tvmagic.script import from_source


@pytest.mark.parametrize(
    ("dtype", "register", "memory", "place", "suffix"),
    [
        ("float32", "float", "float", "float", "f32"),
        ("float64", "double", "double", "double", "f64"),
        ("float16", "half", "half", "half", "f16"),
        ("bfloat16", "i16", "i16", "i16", "i16"),
        ("int8", "i8", "i8", "i8", "i8"),
        ("uint64", "i64", "i64", "i64", "i64"),
        ("bool", "i1", "i8", "i8", "i1"),
        ("handle", "ptr", "ptr", "ptr", "p0"),
        ("float32x4", *["<4 x float>"] * 3, "v4f32"),
        ("boolx8", "<8 x i1>", "<8 x i8>", "<8 x i8>", "v8i1"),
        ("int8x5", "<5 x i8>", "<5 x i8>", "[5 x i8]", "v5i8"),
        ("int8x6", "<6 x i8>", "<6 x i8>", "[6 x i8]", "v6i8"),
        ("float32x3", "<3 x float>", "<3 x float>", "[12 x i8]", "v3f32"),
        ("int32x1", "i32", "i32", "i32", "i32"),
        ("float16x2", *["<2 x half>"] * 3, "v2f16"),
        ("int1", "i1", "i1", "i1", "i1"),
    ],
)
def test_types(dtype: str, register: str, memory: str, place: str, suffix: str) -> None:
    t = dtype_of(dtype)
    found = types.llvm_type(t), types.memory_type(t), types.place_type(t), types.suffix(t)
    assert found == (register, memory, place, suffix)


def test_vectors_of_any_width() -> None:
    assert [types.vector_type("i8", lanes) for lanes in (1, 2, 1 << 14, -1, -4)] == [
        "i8",
        "<2 x i8>",
        "<16384 x i8>",
        "<vscale x 1 x i8>",
        "<vscale x 4 x i8>",
    ]
    assert [types.lanes_name(code) for code in (1, 4, -1, -4)] == ["v1", "v4", "nxv1", "nxv4"]
    assert [types.flags_type(code) for code in (1, 4, -4)] == ["i1", "<4 x i1>", "<vscale x 4 x i1>"]
    with pytest.raises(BuildError, match="16385 lanes is too wide, the widest has 16384"):
        types.vector_type("i8", (1 << 14) + 1)
    for dtype in ("int4", "uint128", "int33", "float128", "e4m3_float8"):
        with pytest.raises(BuildError, match="no machine code for values of type") as raised:
            types.llvm_type(dtype_of(dtype))
        assert ("FP8" in (raised.value.hint or "")) == dtype.endswith("float8")


@pytest.mark.parametrize(
    ("dtype", "value", "text"),
    [
        ("int8", 127, "127"),
        ("int8", 128, "-128"),
        ("int8", -128, "-128"),
        ("int8", 255, "-1"),
        ("uint8", 255, "-1"),
        ("uint8", 127, "127"),
        ("int8", -129, "127"),
        ("uint64", (1 << 64) - 1, "-1"),
        ("int64", 1 << 63, str(-(1 << 63))),
        ("int32", 1 << 32, "0"),
        ("bool", 1, "true"),
        ("bool", 0, "false"),
        ("boolx4", 1, "splat (i1 true)"),
        ("int16x2", -3, "splat (i16 -3)"),
        ("float32", 1.0, "0x3FF0000000000000"),
        ("float32", 0.1, "0x3FB99999A0000000"),
        ("float64", 0.1, "0x3FB999999999999A"),
        ("float16", 1.5, "0xH3E00"),
        ("bfloat16", -1.0, "-16512"),
        ("float32", -0.0, "0x8000000000000000"),
        ("float32", 0.0, "0x0000000000000000"),
        ("float16", -0.0, "0xH8000"),
        ("float32", math.inf, "0x7FF0000000000000"),
        ("float16", 1e9, "0xH7C00"),
        ("float16", -1e9, "0xHFC00"),
        ("float32", 1e300, "0x7FF0000000000000"),
        ("float32", -1e300, "0xFFF0000000000000"),
        ("float64x2", 2.0, "splat (double 0x4000000000000000)"),
        ("bfloat16x2", 1.0, "splat (i16 16256)"),
    ],
)
def test_constants(dtype: str, value: float, text: str) -> None:
    assert types.constant(dtype_of(dtype), value) == text


def nearest_even(value: float) -> int:
    """The bits of the nearest bfloat16, in exact arithmetic: of two as near, the even one."""
    bits = struct.unpack("<I", struct.pack("<f", np.float32(value)))[0]
    sign, below = bits & 0x80000000, (bits & 0x7FFFFFFF) >> 16

    def exact(pattern: int) -> Fraction:
        return Fraction(struct.unpack("<f", struct.pack("<I", pattern << 16))[0])

    if below >= 0x7F80 - 1:
        return (sign >> 16) | below
    size = abs(Fraction(value))
    low, high = size - exact(below), exact(below + 1) - size
    return (sign >> 16) | (below + (high < low or (high == low and below % 2 == 1)))


def test_the_bits_of_floats() -> None:
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 1 << 32, 300, "uint64").astype("uint32")
    patterns[:100] = (patterns[:100] & 0xFFFF0000) | np.array([0x8000, 0x7FFF, 0x8001, 0, 0xFFFF] * 20, "uint32")
    for value in map(float, patterns.view("float32")):
        if not math.isfinite(value):
            continue
        assert types.float_bits(dtype_of("bfloat16"), value) == nearest_even(value), value
        assert types.float_bits(dtype_of("float32"), value) == struct.unpack("<I", struct.pack("<f", value))[0]
        with np.errstate(over="ignore"):
            assert types.float_bits(dtype_of("float16"), value) == int(np.float16(value).view("uint16"))
        assert types.float_bits(dtype_of("float64"), value) == struct.unpack("<Q", struct.pack("<d", value))[0]
    assert (
        types.float_bits(dtype_of("bfloat16"), math.inf) == 0x7F80
        and types.float_bits(dtype_of("bfloat16"), -math.inf) == 0xFF80
    )
    assert types.float_bits(dtype_of("bfloat16"), math.nan) == 0x7FC0


@pytest.mark.parametrize(
    ("dtype", "passed"),
    [
        ("float32", "float"),
        ("float64", "double"),
        ("float16", "i16"),
        ("bfloat16", "i16"),
        ("bool", "i8"),
        ("int16", "i16"),
        ("uint64", "i64"),
        ("handle", "ptr"),
    ],
)
def test_how_parameters_are_passed(dtype: str, passed: str) -> None:
    assert machine_type(dtype_of(dtype)) == passed
    with pytest.raises(BuildError, match="a parameter of the vector type"):
        machine_type(dtype_of("int8x2"))


@pytest.mark.parametrize(
    ("name", "symbol"),
    [
        ("main", "main_"),
        ("exp", "exp_"),
        ("expf", "expf_"),
        ("memcpy", "memcpy_"),
        ("dense", "dense"),
        ("a b", "a b"),
        ("llvm.x", "fn_llvm_2e_x"),
        ("", "fn_"),
        ("tvm.y", "fn_tvm_2e_y"),
        ("llvmx", "llvmx"),
        ('q"', "fn_q_22_"),
        ("é\n", "fn__e9__a_"),
        ("__tvmagic_z", "fn__5f__5f_tvmagic_5f_z"),
    ],
)
def test_symbols(name: str, symbol: str) -> None:
    assert symbol_of(name) == symbol


def test_a_number_in_two_halves() -> None:
    for value in (0, 1, (1 << 32) - 1, 1 << 32, (1 << 64) - 1, 0x123456789ABCDEF0):
        halves = [IntImm("int64", value & 0xFFFFFFFF), IntImm("int64", value >> 32)]
        assert large_uint(Call("uint64", "tir.large_uint_imm", halves)) == value
    assert large_uint(Call("uint64", "tir.large_uint_imm", [IntImm("int32", -1), IntImm("int32", 0)])) == (1 << 32) - 1


# ---------------------------------------------------------------------------- what operators take

TAKEN = {
    "float32 float32": "sqrt floor ceil trunc round nearbyint fabs sigmoid rsqrt tan sinh exp log1p tanh erf cos exp10 likely tvm_thread_invariant",
    "float32 float32 float32": "copysign atan2 fmod hypot nextafter pow",
    "float32 float32 int32": "ldexp",
    "float32 float32 float32 float32": "fma",
    "int32 int32": "bitwise_not popcount clz likely sqrt",
    "int32 int32 int32": "bitwise_and bitwise_or bitwise_xor shift_left shift_right copysign pow",
    "bool float32": "isnan isinf isfinite",
    "float32 bool float32 float32": "if_then_else",
    "bool handle": "isnullptr",
    "handle float32": "address_of",
    "float32x4 float32x8": "vectorlow vectorhigh",
    "float32x8 float32x4 float32x4": "vectorcombine",
    "boolx4 int32 int32": "get_active_lane_mask",
    "int32 handle int32": "atomic_add",
    "int32 int8": "popcount clz",
    "int32 bool": "popcount",
    "float64 float64 int8": "ldexp",
    "bool bool": "assume bitwise_not likely",
}
REFUSED = {
    "int32 int32": "rsqrt",
    "float32 float64": "sqrt rsqrt exp likely floor",
    "float32 float32 float64": "copysign pow atan2",
    "float32 float32": "bitwise_not popcount clz isnan assume",
    "float32 float32 float32": "bitwise_and shift_left ldexp sqrt isnan fma",
    "float32 float64 int32": "ldexp",
    "int32 int32 int64": "bitwise_or shift_right",
    "float32": "sqrt fma isnan",
    "int32 float32": "isnan isinf isfinite address_of clz popcount",
    "bool int32": "isnan isnullptr",
    "float32 bool float64 float32": "if_then_else",
    "float32 bool float32 float64": "if_then_else",
    "int32 handle": "isnullptr",
    "float32 float32x8": "",
    "int32x4 float32x8": "vectorlow",
    "float32x4 float32": "vectorhigh",
    "float32x8 float32x4 int32x4": "vectorcombine",
    "float32x8 float32 float32": "vectorcombine",
    "bool int32 int32": "get_active_lane_mask",
    "boolx4 int32 float32": "get_active_lane_mask",
    "boolx4 int32x4 int32x4": "get_active_lane_mask",
    "int32x4 int32 int32": "get_active_lane_mask",
    "int32 int32 int32": "atomic_add",
    "int32 handle int64": "atomic_add",
    "int32 bool": "clz",
    "bool bool bool": "isnullptr",
    "float32 float32 float32 float64": "fma",
    "int64 int64 int32 int64": "fma",
    "bool float64 float64": "isinf",
}


@pytest.mark.parametrize(("table", "taken"), [(TAKEN, True), (REFUSED, False)])
def test_what_operators_take(table: dict[str, str], taken: bool) -> None:
    """The type of the result, then those of the arguments."""
    for dtypes, names in table.items():
        result, *args = dtypes.split()
        for name in names.split():
            call = Call(result, f"tir.{name}", [Var(f"a{n}", dtype) for n, dtype in enumerate(args)])
            if taken:
                check_call(call)
                continue
            with pytest.raises(BuildError, match=f"`{name}` takes .*; here it makes `.*` of "):
                check_call(call)


def test_numbers_of_arguments_are_said() -> None:
    for args, said in (
        ([], "`fma` takes 3 arguments; here it makes `int32` of nothing"),
        ([IntImm("int32", 1)], "`fma` takes 3 arguments; .*of `int32`"),
    ):
        with pytest.raises(BuildError, match=said):
            check_call(Call("int32", "tir.fma", args))
    with pytest.raises(BuildError, match="`sqrt` takes 1 argument; "):
        check_call(Call("int32", "tir.sqrt", []))
    variable = Var("x", "int32")
    for args in ([variable, IntImm("int32", 1)], [IntImm("int32", 1), variable]):
        with pytest.raises(BuildError, match="takes two constants"):
            check_call(Call("uint64", "tir.large_uint_imm", args))


# ---------------------------------------------------------------------------- descriptors


# ---------------------------------------------------------------------------- work


def loop_of(extent: int, body: object = None, kind: ForKind = ForKind.SERIAL) -> For:
    return For(Var("i", "int64"), 0, extent, kind, body if body is not None else Evaluate(IntImm("int32", 0)))


def worked(loop: For, work: int, has_loop: bool = True) -> Work:
    """An estimate in which an iteration of a loop has so much work."""
    made = Work(loop)
    made.bodies[loop] = work
    made._outer = {loop} if has_loop else set()
    return made


POLL = 1 << 20


@pytest.mark.parametrize("work", [256, 257, 1000, 4095, 4096, 65537, POLL // 3, POLL // 2 - 1, POLL // 2, POLL - 1])
def test_how_often_a_loop_asks(work: int) -> None:
    """A power of two of iterations, which together are worth one question, and not twice as many as that."""
    loop = loop_of(1 << 30)
    every = worked(loop, work).poll_every(loop)
    assert every & (every - 1) == 0 and POLL // work < every <= 2 * (POLL // work)
    assert worked(loop, work, has_loop=False).poll_every(loop) == 0
    for extent, asks in ((every - 1, 0), (every, every), (every + 1, every)):
        short = loop_of(extent)
        assert worked(short, work).poll_every(short) == asks


@pytest.mark.parametrize(("work", "every"), [(0, 0), (1, 0), (255, 0), (POLL, 1), (POLL + 1, 1)])
def test_loops_that_never_ask_and_those_that_always_do(work: int, every: int) -> None:
    loop = loop_of(1 << 30)
    assert worked(loop, work).poll_every(loop) == every
    assert worked(loop, work, has_loop=False).poll_every(loop) == every  # work alone decides here


@pytest.mark.parametrize(
    ("work", "extent"),
    [
        (0, 1 << 31),
        (1, 1 << 31),
        (1, (1 << 31) - 1),
        (3, 10**9),
        (100, 1 << 25),
        (1 << 10, 1 << 21),
        (1 << 10, (1 << 21) - 1),
    ],
)
def test_a_loop_of_seconds_goes_in_stretches(work: int, extent: int) -> None:
    """They cover its iterations once, in order; each takes some tens of milliseconds, and the loop over them always asks."""
    loop = loop_of(extent)
    made = worked(loop, work, has_loop=False)
    outer = made.in_stretches(loop)
    if max(work, 1) * extent < 1 << 31:
        assert outer is None
        return
    assert (
        outer is not None
        and str(outer.min) in ("0", "T.int64(0)")
        and isinstance(outer.body, For)
        and isinstance(outer.extent, IntImm)
    )
    size = (1 << 26) // max(work, 1)
    ends = []
    for number in (0, 1, outer.extent.value - 1):
        known = {outer.loop_var: number}
        first, count = evaluate(outer.body.min, known), evaluate(outer.body.extent, known)
        assert first == number * size and 0 < count <= size
        ends.append(first + count)
    assert ends[-1] == extent and made.poll_every(outer) == 1 and made.bodies[outer.body] == max(work, 1)
    assert made.in_stretches(loop_of(extent, kind=ForKind.PARALLEL)) is None


HEAD = "from tvm.script import tir as T\n\n@T.prim_func\ndef main(A: T.Buffer((64,), 'float32'), B: T.Buffer((8, 8), 'float64'), n: T.int32):\n"


@pytest.mark.parametrize(
    ("body", "total", "written"),
    [
        ("    A[0] = T.float32(1)", 1, 1),
        ("    A[0] = A[1]", 4, 4),
        ("    A[0] = A[1] + A[2]", 9, 9),
        ("    A[0] = T.exp(A[1])", 8, 8),
        ("    for i in range(10):\n        A[i] = T.float32(1)", 20, 20),
        ("    for i in range(600):\n        A[i] = T.float32(1)", 1200, 1200),
        ("    for i in range(601):\n        A[i] = T.float32(1)", 1202, 2),
        ("    for i in range(n):\n        A[i] = T.float32(1)", 128, 2),
        ("    for i, j in T.grid(3, 4):\n        A[i] = T.float32(1)", 24, 24),
        ("    A[0:8] = A[8:16]", 6, 6),
        ("    A[0:32] = A[32:64]", 24, 24),
        ("    for i in range(0):\n        A[i] = T.float32(1)", 0, 2),
    ],
)
def test_what_is_counted(body: str, total: int, written: int) -> None:
    """One for a value or an operator, four for a load or a call, and as many for each 8 lanes; numbers are free."""
    func = from_source(HEAD + body)
    work = Work(func.body)
    assert (work.total, work.written) == (total, written)


def test_memory_loops_and_what_is_stored() -> None:
    body = "    for i in range(n):\n        for j in range(8):\n            B[i, j] = T.float64(0)\n    for k in T.unroll(4):\n        A[k] = A[k + 1]"
    func = from_source(HEAD + body)
    work = Work(func.body)
    a, b = (func.buffer_map[param] for param in func.params[:2])
    assert work.reach == {a.data: 256, b.data: 512} and work.stored == {a.data, b.data}
    assert [loop.loop_var.name for loop in work.symbolic] == ["i"] and [loop.loop_var.name for loop in work._outer] == [
        "i"
    ]
    inner = next(loop for loop in work.bodies if loop.loop_var.name == "j")
    assert work.bodies[inner] == 3 and work.bodies[work.symbolic[0]] == 24
    sized = from_source(
        HEAD.partition("def")[0] + "def main(n: T.int32, A: T.Buffer((n,), 'float32')):\n    A[0] = A[1]"
    )
    assert Work(sized.body).reach == {sized.buffer_map[sized.params[1]].data: 0}
    endless = While(Var("c", "bool"), Evaluate(IntImm("int32", 0)))
    assert Work(endless).total == POLL + 1


@pytest.mark.parametrize(
    ("kind", "extent", "asks"),
    [("serial", 8, True), ("serial", 1, False), ("serial", 2, True), ("unroll", 8, False), ("vectorized", 8, True)],
)
def test_a_loop_in_a_loop(kind: str, extent: int, asks: bool) -> None:
    """Only loops that have a loop inside ask between iterations: not one of a single iteration, nor one that is unrolled."""
    body = f"    for i in range(4):\n        for j in T.{kind}({extent}):\n            A[j] = T.float32(0)"
    work = Work(from_source(HEAD + body).body)
    assert bool(work._outer) is asks
