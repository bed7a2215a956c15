"""Data types: `float32`, `int8x16`, `float32xvscalex4`, `bool`, `handle`.

A dtype is a string, as TVM's users write it, that also knows its parts. Each distinct text has
one object, so that two dtypes are compared by `is` where speed matters.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

from tvmagic.errors import TVMagicError, WrongValueError

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


class DataTypeCode:
    """TVM's numbers of kinds of numbers."""

    INT = 0
    UINT = 1
    FLOAT = 2
    HANDLE = 3
    BFLOAT = 4
    E4M3Float = 6
    E5M2Float = 7


class DataType(str):
    """The type of a scalar or of a vector of scalars.

    Attributes: `code` (`int`, `uint`, `float`, `bfloat`, `e4m3_float`, `e5m2_float`, `bool`, `handle`, `void`), `bits` of
    one lane, `lanes` (1 for a scalar), and the tests `is_int` (signed), `is_uint` (`bool` included, as
    in TVM), `is_float` (`bfloat16` and `is_float8` included), `is_float8`, `is_bool`, `is_handle`, `is_vector`,
    `is_scalable`, `is_index` (a scalar int32 or int64, the types that constants fold in). `largest` is the largest finite
    value of a float.

    A scalable vector has `vscale_factor` times as many lanes as the machine's `vscale`, which is not a number
    here: to ask for its `lanes` is an error. `lane_code` is what two types have in common whose lanes go
    together: the number of lanes, or minus the factor.
    """

    code: str
    bits: int
    lanes: int
    lane_code: int
    is_int: bool
    is_uint: bool
    is_float: bool
    is_float8: bool
    largest: float
    is_bool: bool
    is_handle: bool
    is_vector: bool
    is_index: bool
    is_scalable = False
    vscale_factor = 0  # of a scalable vector, its lanes over `vscale`

    def __new__(cls, text: str) -> DataType:
        known = _TABLE.get(text)
        return known if known is not None else _parse(text)

    def with_lanes(self, lanes: int) -> DataType:
        """The same scalar type with `lanes` lanes."""
        return _with_lanes(self, lanes)

    def with_lane_code(self, code: int) -> DataType:
        """The same scalar type with `code` lanes, or with `-code * vscale` if it is negative."""
        return _with_lanes(self, code)

    def with_lanes_of(self, other: DataType) -> DataType:
        """The same scalar type with as many lanes as `other`."""
        return _with_lanes(self, other.lane_code)

    @property
    def element_of(self) -> DataType:
        """The scalar type of one lane."""
        return _with_lanes(self, 1)

    @property
    def bytes(self) -> int:
        """Size in memory of the whole value, in bytes."""
        return (self.bits + 7) // 8 * self.lanes

    def itemsize(self) -> int:
        """Size in memory of the whole value, in bytes, under the name that TVM gives it."""
        return self.bytes

    @property
    def is_scalar(self) -> bool:
        """Whether there is one lane."""
        return self.lane_code == 1

    @property
    def type_code(self) -> int:
        """TVM's number of the kind of number: a value of `DataTypeCode`."""
        known = {"int": 0, "uint": 1, "float": 2, "handle": 3, "void": 3, "bfloat": 4, "e4m3_float": 6, "e5m2_float": 7}
        return known.get(self.code, 1)

    def __reduce__(self) -> tuple[type[DataType], tuple[str]]:
        return DataType, (str(self),)

    def __copy__(self) -> DataType:
        return self

    def __deepcopy__(self, memo: object) -> DataType:
        return self


class _Bools(DataType):
    """The type of a bool, or of several: `bool` is also spelled `uint1`, and `uint1x4` is `boolx4`."""

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, str) and _spelled(other) == _spelled(self))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class _Scalable(_Bools):
    """The type of a vector whose number of lanes only the machine knows."""

    is_scalable = True

    @property  # type: ignore[override]
    def lanes(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """An error: the number of lanes is not known."""
        raise TVMagicError(
            f"the number of lanes of `{self}` is not known: Can't fetch the lanes of a scalable vector at a compile time",
            code="dtype.scalable_lanes",
        )

    @lanes.setter
    def lanes(self, value: int) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        pass

    @property
    def vscale_factor(self) -> int:  # type: ignore[override]
        """Its lanes over `vscale`."""
        return -self.lane_code


def _spelled(text: str) -> str:
    """The text of a type, in the one spelling for bools."""
    return str.replace(text, "bool", "uint1", 1) if text[:4] == "bool" else str(text)


def _parse(text: str) -> DataType:
    match = _PATTERN.match(text)
    if not match:
        if text == "":
            return DataType("void")
        raise WrongValueError(
            f"`{text}` is not a data type",
            hint="write a name such as float32, int8x16, uint8, bool or handle",
            code="dtype.unknown",
        )
    code, bits_text, lanes_text, factor_text = match.groups()
    bits = int(bits_text) if bits_text else _DEFAULT_BITS[code]
    if code == "uint" and bits == 1:
        code = "bool"
    lanes = -int(factor_text) if factor_text else int(lanes_text) if lanes_text else 1
    canonical = _canonical_text(code, bits, lanes)
    value = _TABLE.get(canonical)
    if value is None:
        cls = _Scalable if lanes < 0 else _Bools if code == "bool" else DataType
        value = str.__new__(cls, canonical)
        value.code, value.bits, value.lane_code, value.lanes = code, bits, lanes, lanes
        value.is_bool = code == "bool"
        value.is_int = code == "int"
        value.is_uint = code == "uint" or code == "bool"
        value.is_float8 = code in ("e4m3_float", "e5m2_float") and bits == 8
        value.is_float = code == "float" or code == "bfloat" or value.is_float8
        value.largest = _LARGEST.get(f"{code}{bits}", math.inf)
        value.is_handle = code == "handle"
        value.is_vector = lanes != 1
        value.is_index = code == "int" and lanes == 1 and bits in (32, 64)
        _TABLE[canonical] = value
    _TABLE[text] = value
    return value


def _canonical_text(code: str, bits: int, lanes: int) -> str:
    if lanes == 1 or code != "bool":
        name = {"bool": "bool", "handle": "handle", "void": "void"}.get(code, f"{code}{bits}")
    else:
        name = "uint1"
    return name if lanes == 1 else f"{name}x{lanes}" if lanes >= 0 else f"{name}xvscalex{-lanes}"


@lru_cache(maxsize=4096)
def _with_lanes(dtype: DataType, lanes: int) -> DataType:
    return DataType(_canonical_text(dtype.code, dtype.bits, lanes))


@lru_cache(maxsize=256)
def integer_limits(dtype: DataType) -> tuple[int, int]:
    """The least and the largest value of an integer type, or of bool. Raises `WrongValueError` for floats."""
    if dtype.is_float:
        raise WrongValueError(
            f"`{dtype}` is not a type of integers",
            hint="a constant of it is a FloatImm",
            code="dtype.not_an_integer_type",
        )
    half = 1 << (dtype.bits - 1)
    return (-half, half - 1) if dtype.is_int else (0, 2 * half - 1)


def dtype_of(value: object) -> DataType:
    """`value` as a dtype: a text, or a NumPy dtype or scalar type by its name."""
    if isinstance(value, DataType):
        return value
    if isinstance(value, str):
        return DataType(value)
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    if isinstance(name, str):
        return DataType(name)
    raise TVMagicError(f"`{value!r}` is not a data type", code="dtype.unknown")
