"""Types and constants of the IR as LLVM's text writes them."""

from __future__ import annotations

import math
import struct
from functools import lru_cache

from tvmagic.errors import BuildError
from tvmagic.ir import DataType

# Lanes of the widest vector that is compiled: LLVM's time grows with their square, 8 s for these, and it ends
# the process where the bits of a vector are not an integer type any more.
_MOST_LANES = 1 << 14
# bfloat16 is its bits: on LLVM's own type its passes would round a value twice, call a function for each lane, or use
# instructions that make subnormal numbers zero, depending on the machine.
_FLOATS = {("float", 16): "half", ("bfloat", 16): "i16", ("float", 32): "float", ("float", 64): "double"}


@lru_cache(maxsize=4096)
def llvm_type(dtype: DataType) -> str:
    """The type of a value in a register: bools are `i1`, bfloat16 is `i16`."""
    return vector_type(_scalar(dtype), dtype.lane_code)


@lru_cache(maxsize=4096)
def memory_type(dtype: DataType) -> str:
    """The type of a value in memory: bools take a byte."""
    return vector_type("i8", dtype.lane_code) if dtype.is_bool else llvm_type(dtype)


def place_type(dtype: DataType) -> str:
    """The type of an element's place in an array, as long as the element: LLVM pads a vector of 5 bytes to 8."""
    size = dtype.bytes
    return memory_type(dtype) if dtype.is_scalar or size & (size - 1) == 0 else f"[{size} x i8]"


def flags_type(code: int) -> str:
    """The type of a bool for each lane; `code` is the lane code of the vectors, or 1."""
    return vector_type("i1", code)


def lanes_name(code: int) -> str:
    """How the names of LLVM's intrinsics write the lanes of a lane code: `v4`, `nxv4`."""
    return f"v{code}" if code > 0 else f"nxv{-code}"


def vector_type(scalar: str, lanes: int) -> str:
    """The type of as many lanes of `scalar` as the lane code `lanes` says."""
    if lanes < 0:
        return f"<vscale x {-lanes} x {scalar}>"
    if lanes > _MOST_LANES:
        raise BuildError(
            f"a vector of {lanes} lanes is too wide, the widest has {_MOST_LANES}",
            hint="split the loop, and vectorize the inner one of 4 to 64 iterations",
            code="codegen.vector_too_wide",
        )
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def _scalar(dtype: DataType) -> str:
    if dtype.is_bool:
        return "i1"
    if dtype.is_float:
        name = _FLOATS.get((dtype.code, dtype.bits))
        if name is None:
            hint = "run FP8ComputeLegalize and FP8StorageLegalize" if dtype.is_float8 else None
            raise BuildError(
                f"there is no machine code for values of type `{dtype}`", hint=hint, code="codegen.unsupported_dtype"
            )
        return name
    if dtype.is_handle:
        return "ptr"
    if dtype.is_int or dtype.is_uint:
        if dtype.bits not in (1, 8, 16, 32, 64):  # `int1` is for the flags of LLVM's intrinsics
            raise BuildError(
                f"there is no machine code for values of type `{dtype}`",
                hint="use 8, 16, 32 or 64 bits",
                code="codegen.unsupported_dtype",
            )
        return f"i{dtype.bits}"
    return "void"


def splat(text: str, dtype: DataType) -> str:
    """The scalar constant `text` as a constant of `dtype`, which may be a vector type."""
    return text if dtype.is_scalar else f"splat ({_scalar(dtype)} {text})"


def constant(dtype: DataType, value: float) -> str:
    """`value` as a constant of type `dtype`; in every lane of a vector type."""
    return _constant(dtype, value, math.copysign(1, value))


@lru_cache(maxsize=4096)
def _constant(dtype: DataType, value: float, _sign: float) -> str:
    """The same; to Python both zeros are one key."""
    if dtype.is_float:
        return splat(_float_text(dtype, float(value)), dtype)
    if dtype.is_bool:
        return splat("true" if value else "false", dtype)
    return splat(str(_wrap(int(value), dtype.bits)), dtype)


def _wrap(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def float_bits(dtype: DataType, value: float) -> int:
    """The bits of `value` rounded to the float type `dtype` (to even on a tie)."""
    if dtype.bits == 64:
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    if dtype.bits == 16 and dtype.code == "float":
        return struct.unpack("<H", _pack("<e", value))[0]
    bits = struct.unpack("<I", _pack("<f", value))[0]
    if dtype.code != "bfloat":
        return bits
    if math.isnan(value):
        return (bits >> 16) | 0x40
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


def _pack(form: str, value: float) -> bytes:
    try:
        return struct.pack(form, value)
    except OverflowError:
        return struct.pack(form, math.copysign(math.inf, value))


def _float_text(dtype: DataType, value: float) -> str:
    bits = float_bits(dtype, value)
    if dtype.code == "bfloat":
        return str(_wrap(bits, 16))
    if dtype.bits == 16:
        return f"0xH{bits:04X}"
    if dtype.bits == 32:
        value = struct.unpack("<f", struct.pack("<I", bits))[0]
        bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    return f"0x{bits:016X}"


def suffix(dtype: DataType) -> str:
    """`dtype` as the names of LLVM's intrinsics spell it: `v16f32`."""
    scalar = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}
    base = llvm_type(dtype.element_of)
    base = scalar.get(base, base)
    return base if dtype.is_scalar else f"{lanes_name(dtype.lane_code)}{base}"
