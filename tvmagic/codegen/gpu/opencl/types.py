"""Types and constants of the IR as OpenCL C writes them."""

from __future__ import annotations

import math

from tvmagic.codegen.text.types import float_bits
from tvmagic.errors import BuildError
from tvmagic.ir import DataType
from tvmagic.ir.semantics import plain, round_float, wrap_int

Lanes = list[str]  # the text of each lane of a value
_INTEGERS = {8: "char", 16: "short", 32: "int", 64: "long"}


class Plain(str):
    """The text of a value made of loop variables, sizes and numbers alone, which never overflows."""


def register_type(dtype: DataType) -> str:
    """The type of one lane of a value: floats of 16 bits are computed in float32, and rounded after each operation."""
    if dtype.is_bool:
        return "bool"
    if dtype.is_float:
        if dtype.bits not in (16, 32, 64) or dtype.is_float8:
            raise BuildError(
                f"there is no OpenCL C for values of type `{dtype}`", code="codegen.opencl.unsupported_dtype"
            )
        return "double" if dtype.bits == 64 else "float"
    if (dtype.is_int or dtype.is_uint) and dtype.bits in _INTEGERS:
        return ("u" if dtype.is_uint else "") + _INTEGERS[dtype.bits]
    raise BuildError(f"there is no OpenCL C for values of type `{dtype}`", code="codegen.opencl.unsupported_dtype")


def memory_type(dtype: DataType) -> str:
    """The type of an element in memory: floats of 16 bits are their bits, bools are bytes."""
    if dtype.is_bool:
        return "uchar"
    return "ushort" if dtype.is_float and dtype.bits == 16 else register_type(dtype)


def unsigned(dtype: DataType) -> str:
    """The unsigned type in which integers of a type wrap around."""
    return "u" + _INTEGERS[max(dtype.bits, 32)]


def constant(dtype: DataType, value: float) -> str:
    """A number as a constant of one lane of a type."""
    value = plain(value)
    if dtype.is_bool:
        return Plain("true" if value else "false")
    if dtype.is_float:
        return _float(dtype, round_float(float(value), dtype.element_of))
    number = wrap_int(int(value), dtype)
    if dtype.bits < 32:
        return Plain(f"(({register_type(dtype)}){number})")
    suffix = ("u" if dtype.is_uint else "") + ("L" if dtype.bits == 64 else "")
    if dtype.is_int and number == -(1 << (dtype.bits - 1)):  # a minus sign and a number that is too large
        return Plain(f"({number + 1}{suffix} - 1)")
    return Plain(f"{number}{suffix}" if number >= 0 else f"({number}{suffix})")


def _float(dtype: DataType, value: float) -> str:
    if math.isnan(value):
        bits = float_bits(DataType("float64" if dtype.bits == 64 else "float32"), value)
        return f"as_double(0x{bits:x}UL)" if dtype.bits == 64 else f"as_float(0x{bits:x}u)"
    if math.isinf(value):
        sign = "-" if value == -math.inf else ""
        return f"({sign}{'(double)' if dtype.bits == 64 else ''}INFINITY)"
    text = (
        value.hex()
        if value != int(value) or abs(value) > 1e6 or (value == 0 and math.copysign(1, value) < 0)
        else f"{value:.1f}"
    )
    text += "" if dtype.bits == 64 else "f"
    return f"({text})" if text.startswith("-") else text
