"""Data types: `float32`, `int8x16`, `bool`, `handle`.

A dtype is a string, as TVM's users write it, that also knows its parts. Each distinct text has
one object, so that two dtypes are compared by `is` where speed matters.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

from tvmagic.errors import TVMagicError

__all__ = ["DataType", "dtype_of"]

_PATTERN = re.compile(
    r"(int|uint|float|bfloat|handle|bool|void|e4m3_float(?=8)|e5m2_float(?=8))(\d*)(?:x(\d+)|xvscalex(\d+))?$"
)
_DEFAULT_BITS = {"int": 32, "uint": 32, "float": 32, "handle": 64, "bool": 1, "bfloat": 16, "void": 0}
_TABLE: dict[str, DataType] = {}
# the largest finite value of each type of floats
_LARGEST = {
    "float16": 65504.0,
    "float32": float.fromhex("0x1.fffffep127"),
    "float64": float.fromhex("0x1.fffffffffffffp1023"),
    "bfloat16": float.fromhex("0x1.fep127"),
    "e4m3_float8": 448.0,
    "e5m2_float8": 57344.0,
}


class DataType(str):
    """The type of a scalar or of a vector of scalars.

    Attributes: `code` (`int`, `uint`, `float`, `bfloat`, `e4m3_float`, `e5m2_float`, `bool`, `handle`, `void`), `bits` of
    one lane, `lanes` (1 for a scalar), and the tests `is_int` (signed), `is_uint` (`bool` included, as
    in TVM), `is_float` (`bfloat16` and `is_float8` included), `is_float8`, `is_bool`, `is_handle`, `is_vector`,
    `is_index` (a scalar int32 or int64, the types that constants fold in). `largest` is the largest finite value of a
    float.
    """

    code: str
    bits: int
    lanes: int
    is_int: bool
    is_uint: bool
    is_float: bool
    is_float8: bool
    largest: float
    is_bool: bool
    is_handle: bool
    is_vector: bool
    is_index: bool

    def __new__(cls, text: str) -> DataType:
        known = _TABLE.get(text)
        return known if known is not None else _parse(text)

    def with_lanes(self, lanes: int) -> DataType:
        """The same scalar type with `lanes` lanes."""
        return _with_lanes(self, lanes)

    @property
    def element_of(self) -> DataType:
        """The scalar type of one lane."""
        return _with_lanes(self, 1)

    @property
    def bytes(self) -> int:
        """Size in memory of the whole value, in bytes."""
        return (self.bits + 7) // 8 * self.lanes

    @property
    def is_scalar(self) -> bool:
        """Whether there is one lane."""
        return self.lanes == 1

    @property
    def type_code(self) -> str:
        """The kind of number without its width: `int`, `uint`, `float`, `bfloat`, ..."""
        return self.code

    def __reduce__(self) -> tuple[type[DataType], tuple[str]]:
        return DataType, (str(self),)

    def __copy__(self) -> DataType:
        return self

    def __deepcopy__(self, memo: object) -> DataType:
        return self


class _BoolType(DataType):
    """A type of bools, which TVM also writes `uint1`, `uint1x4`."""

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) and other.startswith("uint1"):
            other = "bool" + other[5:]
        return str.__eq__(self, other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def _parse(text: str) -> DataType:
    match = _PATTERN.match(text)
    if not match:
        if text == "":
            return DataType("void")
        raise TVMagicError(
            f"`{text}` is not a data type",
            hint="write a name such as float32, int8x16, uint8, bool or handle",
        )
    code, bits_text, lanes_text, _ = match.groups()
    bits = int(bits_text) if bits_text else _DEFAULT_BITS[code]
    if code == "uint" and bits == 1:
        code = "bool"
    lanes = int(lanes_text) if lanes_text else 1
    name = {"bool": "bool", "handle": "handle", "void": "void"}.get(code, f"{code}{bits}")
    canonical = name if lanes == 1 else f"{name}x{lanes}"
    value = _TABLE.get(canonical)
    if value is None:
        value = str.__new__(_BoolType if code == "bool" else DataType, canonical)
        value.code, value.bits, value.lanes = code, bits, lanes
        value.is_bool = code == "bool"
        value.is_int = code == "int"
        value.is_uint = code == "uint" or code == "bool"
        value.is_float8 = code in ("e4m3_float", "e5m2_float") and bits == 8
        value.is_float = code == "float" or code == "bfloat" or value.is_float8
        value.largest = _LARGEST.get(name, math.inf)
        value.is_handle = code == "handle"
        value.is_vector = lanes > 1
        value.is_index = code == "int" and lanes == 1 and bits in (32, 64)
        _TABLE[canonical] = value
    _TABLE[text] = value
    return value


@lru_cache(maxsize=4096)
def _with_lanes(dtype: DataType, lanes: int) -> DataType:
    base = dtype.split("x", 1)[0]
    return DataType(base if lanes == 1 else f"{base}x{lanes}")


def dtype_of(value: object) -> DataType:
    """`value` as a dtype: a text, or a NumPy dtype or scalar type by its name."""
    if isinstance(value, DataType):
        return value
    if isinstance(value, str):
        return DataType(value)
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    if isinstance(name, str):
        return DataType(name)
    raise TVMagicError(f"`{value!r}` is not a data type")
