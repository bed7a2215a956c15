"""What was raised in Python while compiled code ran: by a registered function that it called, or by a handler of a signal."""

from __future__ import annotations

import ctypes
from typing import Any

from tvmagic.runtime.callbacks import raised
from tvmagic.runtime.jit import support

__all__ = ["take_exception"]


def take_exception() -> BaseException | None:
    """What was raised by a signal's handler or a registered function while compiled code ran on this
    thread; forgotten hereby."""
    error = getattr(raised, "error", None)
    raised.error = None
    return error if error is not None else _from_signal()


def _object_at(address: int | None) -> Any:
    return ctypes.cast(address, ctypes.py_object).value if address else None


def _from_signal() -> BaseException | None:
    slots = [ctypes.c_void_p.from_address(support().address(f"error_{part}")) for part in ("type", "value", "trace")]
    if not slots[0].value:
        return None
    kind, value, _ = (_object_at(s.value) for s in slots)
    for slot in slots:
        if slot.value:
            ctypes.pythonapi.Py_DecRef(ctypes.cast(slot.value, ctypes.py_object))
            slot.value = None
    if isinstance(value, BaseException):
        return value
    return kind() if value is None else kind(value)
