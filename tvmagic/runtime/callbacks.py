"""What compiled code calls in Python: the question whether to stop, and registered functions."""

from __future__ import annotations

import ctypes
import struct
import threading
from functools import lru_cache
from typing import Any

from tvmagic.errors import TVMagicError

__all__ = ["callbacks", "take_exception"]

STOPPED = -1
_raised = threading.local()

_Ask = ctypes.CFUNCTYPE(ctypes.c_int)
_Packed = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_int32), ctypes.c_int
)


def take_exception() -> BaseException | None:
    """What was raised while compiled code asked Python on this thread; forgotten hereby."""
    error = getattr(_raised, "error", None)
    _raised.error = None
    return error


def _ask() -> int:
    # Python runs the handlers of signals that came when it next runs Python code: here.
    try:
        for _ in range(2):
            pass
    except BaseException as error:
        _raised.error = error
        return STOPPED
    return 0


def _call_packed(name: bytes, values: Any, codes: Any, count: int) -> int:
    try:
        from tvmagic.runtime.registry import get_global_func

        args = [_argument(values, codes[i], i) for i in range(count)]
        function = get_global_func(name.decode())
        result = function(*args)
        if isinstance(result, float):
            values[0] = struct.unpack("<q", struct.pack("<d", result))[0]
        elif result is not None:
            values[0] = int(result)
    except BaseException as error:
        _raised.error = error
        return STOPPED
    return 0


def _argument(values: Any, code: int, i: int) -> Any:
    raw = values[i]
    if code == 1:
        return struct.unpack("<d", struct.pack("<q", raw))[0]
    if code == 3:
        return ctypes.string_at(raw).decode()
    if code == 2:
        return ctypes.c_void_p(raw)
    if code != 0:
        raise TVMagicError(f"a packed call has an argument of the unknown code {code}")
    return raw


@lru_cache(maxsize=1)
def callbacks() -> tuple[Any, Any]:
    """The functions as C pointers, in the order in which `init_table` takes them."""
    return _Ask(_ask), _Packed(_call_packed)
