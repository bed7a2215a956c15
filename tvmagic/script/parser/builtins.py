"""The names of Python that a script may use: functions without effects on plain values."""

from __future__ import annotations

from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.script.ir_builder.tir.loops import serial

_LONGEST = 100_000


def _bounded(function: Any) -> Any:
    """`function` on sequences that are not too long to be gone through."""

    def call(*args: Any, **kwargs: Any) -> Any:
        for value in args:
            if hasattr(value, "__len__") and len(value) > _LONGEST:
                raise TVMagicError(
                    f"a sequence of {len(value)} elements is too long here", code="script.sequence_too_long"
                )
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = function.__name__
    return call


_PLAIN = (abs, bool, float, int, isinstance, len, max, min, round, str)
_SEQUENCES = (all, any, dict, enumerate, list, reversed, sorted, sum, tuple, zip)

BUILTINS: dict[str, Any] = {"range": serial}
BUILTINS.update({f.__name__: f for f in _PLAIN if f is not isinstance})
BUILTINS.update({f.__name__: _bounded(f) for f in _SEQUENCES})
