"""What was raised in Python while compiled code ran: by a registered function that it called, or by a handler of a signal."""

from __future__ import annotations

import ctypes
from typing import Any

from tvmagic.runtime.callbacks import raised
from tvmagic.runtime.jit import support


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
    addresses = [slot.value for slot in slots]
    kind, value, _ = map(_object_at, addresses)
    for slot, address in zip(slots, addresses):
        slot.value = None  # first: an interrupt must not let the object be given back twice
        if address:
            ctypes.pythonapi.Py_DecRef(ctypes.cast(address, ctypes.py_object))
    if isinstance(value, BaseException):
        return value
    return kind() if value is None else kind(value)
