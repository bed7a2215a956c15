"""What compiled code calls in Python: registered functions. What one raises is kept for `runtime/callback_errors.py`."""

from __future__ import annotations

import ctypes
import math
import struct
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tvmagic.errors import TVMagicError

STOPPED = -1
raised = threading.local()

_Packed = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_int32), ctypes.c_int
)


def _call_packed(name: bytes, values: Any, codes: Any, count: int) -> int:
    try:
        from tvmagic.ir.registry import get_global_func

        args = [_argument(values, codes[i], i) for i in range(abs(count))]
        function = get_global_func(name.decode())
        assert function is not None
        result = function(*args)
        if count < 0 and result is None:
            values[0] = values[-count - 1]
        elif isinstance(result, float) or count < 0 and codes[-count - 1] == FLOAT:
            values[0] = struct.unpack("<q", struct.pack("<d", float(result)))[0]
        elif result is not None:
            values[0] = int(result)
    except BaseException as error:
        raised.error = error
        return STOPPED
    return 0


def _argument(values: Any, code: int, i: int) -> Any:
    raw = values[i]
    if code not in _FROM_RAW:
        raise TVMagicError(
            f"a packed call has an argument of the unknown code {code}", code="call.unknown_packed_argument"
        )
    return _FROM_RAW[code](raw)


def _float_of(raw: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<q", raw))[0]
    return value


FLOAT = 2
# What an argument of each of TVM's type codes is in Python.
_FROM_RAW: dict[int, Callable[[int], Any]] = {
    0: int,
    FLOAT: _float_of,
    3: ctypes.c_void_p,
    4: lambda raw: None,
    7: lambda raw: _array_at(raw),
    11: lambda raw: ctypes.string_at(raw).decode(),
    15: lambda raw: bool(raw & 1),
}


class _DLTensor(ctypes.Structure):
    """DLPack's description of an array."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}


def _array_at(address: int) -> Any:
    """The NDArray on the memory of a buffer; valid while the call runs."""
    import numpy as np

    from tvmagic.ir.numpy_types import numpy_dtype
    from tvmagic.runtime.ndarray import NDArray

    found = _DLTensor.from_address(address)
    dtype = np.dtype(numpy_dtype(f"{_KINDS[found.code]}{found.bits}"))
    shape = [found.shape[i] for i in range(found.ndim)]
    lanes = [found.lanes] if found.lanes > 1 else []
    steps = [found.strides[i] for i in range(found.ndim)] if found.strides else None
    item = dtype.itemsize * found.lanes
    strides = None if steps is None else [*(s * item for s in steps), *([dtype.itemsize] if lanes else [])]
    reach = item * (1 + sum((n - 1) * s for n, s in zip(shape, steps or _dense(shape)))) if 0 not in shape else 0
    memory: Any = (ctypes.c_char * max(reach, 1)).from_address((found.data or 0) + found.byte_offset)
    return NDArray(np.ndarray([*shape, *lanes], dtype, memory, 0, strides), found.lanes)


def _dense(shape: list[int]) -> list[int]:
    """The strides, in elements, of an array without gaps."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


@lru_cache(maxsize=1)
def packed_callback() -> Any:
    """`_call_packed` as a C function."""
    return _Packed(_call_packed)
