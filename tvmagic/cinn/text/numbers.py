"""Numbers as CINN prints and reads them."""

from __future__ import annotations

import math
import re
import struct

from tvmagic.errors import TVMagicError
from tvmagic.ir import DataType, FloatImm, IntImm, dtype_of
from tvmagic.ir.semantics import round_float

_RAW = {  # how CINN writes the half types' infinity and nan
    "float16": ("cinn::common::raw_uint16_to_float16", "0x7c00", "0x7e00"),
    "bfloat16": ("cinn::common::raw_uint16_to_bfloat16", "0x7F80", "0x7FC0"),
}
_SHORT = ("int8", "int16", "uint8", "uint16")


def _sharp_g(value: float, digits: int) -> str:
    """C's `%#.{digits}g`: trailing zeros and the point are kept."""
    return f"{value:#.{digits}g}"


def int_text(node: IntImm) -> str:
    """An integer or a truth value: `7`, `5ll`, `5ull`, `(int16_t)5`, `true`."""
    if node.dtype.is_bool:
        return "true" if node.value else "false"
    name = str(node.dtype)
    if name in _SHORT:
        return f"({name}_t){node.value}"
    return str(node.value) + {"int64": "ll", "uint64": "ull"}.get(name, "")


def float_text(node: FloatImm) -> str:
    """A float with as many digits as name its value: `0.500000000f`, `(float16)0.5f`, `inf`."""
    name, value = str(node.dtype), round_float(node.value, node.dtype)
    if name in _RAW:
        return _half_text(name, value)
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "-inf" if value < 0 else "inf"
    return f"{_sharp_g(value, 9)}f" if node.dtype.bits == 32 else _sharp_g(value, 17)


def _half_text(name: str, value: float) -> str:
    function, infinite, nan = _RAW[name]
    if math.isnan(value):
        return f"{function}({nan})"
    if math.isinf(value):
        text = f"{function}({infinite})"
        return f"-({text})" if value < 0 else text
    return f"({name}){value:.5g}f" if name == "float16" else f"({name}){_sharp_g(value, 9)}f"


def plain_float(value: float) -> str:
    """A float of an attribute: C's `%g`, so that 2.0 is `2`."""
    return f"{value:g}"


def number_type(text: str) -> DataType:
    """The type that a literal's text names."""
    if text.startswith("cinn::common::"):
        return dtype_of("float16" if "to_float16" in text else "bfloat16")
    if text.startswith("("):
        return dtype_of(text[1 : text.index(")")].removesuffix("_t"))
    bare = text.lstrip("-")
    if bare.endswith("ull"):
        return dtype_of("uint64")
    if bare.endswith("ll"):
        return dtype_of("int64")
    if re.fullmatch(r"\d+", bare):
        return dtype_of("int32")
    return dtype_of("float32" if bare.endswith("f") else "float64")


def _bits_value(bits: int, dtype: str) -> float:
    """The number that 16 bits are in a half type."""
    raw = struct.pack("<I", bits << 16) if dtype == "bfloat16" else struct.pack("<H", bits)
    return struct.unpack("<f" if dtype == "bfloat16" else "<e", raw)[0]


def number_value(text: str) -> int | float:
    """The value of a literal's text."""
    sign = -1 if text.startswith("-") else 1
    if "0x" in text:
        return _bits_value(
            int(text[text.index("0x") :].rstrip(")"), 16), "bfloat16" if "bfloat16" in text else "float16"
        )
    bare = text[text.index(")") + 1 :] if text.startswith("(") else text
    if bare.startswith("-"):
        sign, bare = -1, bare[1:]
    bare = bare.lower()
    if bare.removesuffix("f") in ("in", "inf", "nan"):
        return sign * (math.nan if bare.startswith("nan") else math.inf)
    whole = bare.removesuffix("ull").removesuffix("ll")
    if whole.isdigit():
        return sign * int(whole)
    try:
        return sign * float(bare.removesuffix("f"))
    except ValueError:
        raise TVMagicError(f"`{text}` is not a number", code="cinn.text.not_a_number") from None
