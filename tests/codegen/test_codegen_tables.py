"""Widths of vectors, bits of floats, and what operators take: tables and laws."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from refusals import refuses

from tvmagic.codegen.emit.signatures import check_call
from tvmagic.codegen.text import types
from tvmagic.codegen.text.rules import large_uint
from tvmagic.errors import BuildError
from tvmagic.ir import Call, IntImm, Var, dtype_of


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
    with pytest.raises(BuildError, match="16385.*16384"):
        types.vector_type("i8", (1 << 14) + 1)
    for dtype in ("int4", "uint128", "int33", "float128", "e4m3_float8"):
        with pytest.raises(BuildError) as raised:
            types.llvm_type(dtype_of(dtype))
        assert ("FP8" in (raised.value.hint or "")) == dtype.endswith("float8")


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
            with refuses("codegen.call_differs", error=BuildError):
                check_call(call)


def test_numbers_of_arguments_are_said() -> None:
    for args, said in (
        ([], "codegen.call_differs"),
        ([IntImm("int32", 1)], "codegen.call_differs"),
    ):
        with refuses(said, error=BuildError):
            check_call(Call("int32", "tir.fma", args))
    with refuses("codegen.call_differs", error=BuildError, names="`sqrt`"):
        check_call(Call("int32", "tir.sqrt", []))
    variable = Var("x", "int32")
    for args in ([variable, IntImm("int32", 1)], [IntImm("int32", 1), variable]):
        with refuses("codegen.call_differs", error=BuildError):
            check_call(Call("uint64", "tir.large_uint_imm", args))
