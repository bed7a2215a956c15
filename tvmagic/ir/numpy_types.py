"""NumPy's types for ours."""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import Any, cast

import numpy as np

from tvmagic.errors import TVMagicError
from tvmagic.ir.prim_expr import IntImm


def as_flag(value: Any) -> bool | None:
    """Return a bool of Python, NumPy or the IR, or the 0 or 1 of a JSON trace, as a bool, or None for other values."""
    if isinstance(value, np.bool_):
        return bool(cast(Any, value))
    number = value.value if isinstance(value, IntImm) else value
    return bool(number) if isinstance(number, int) and number in (0, 1) else None


def as_integer(value: Any) -> int | None:
    """Return an integer of Python, NumPy or the IR as an int, or None for other values."""
    try:
        return operator.index(value)
    except TypeError:  # arrays and classes also have `__index__`
        return None


def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """NumPy's dtype of a scalar dtype; bfloat16 comes from the package `ml_dtypes`.

    Raises TVMagicError where NumPy has none of its own, whatever other packages have added to it.
    """
    return _named(str(dtype))


@lru_cache(maxsize=64)
def _named(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        try:
            import ml_dtypes  # type: ignore[import-not-found]
        except ImportError:
            raise TVMagicError(
                "NumPy has no bfloat16 by itself",
                hint="install the package `ml_dtypes`",
                code="dtype.no_numpy_bfloat16",
            ) from None
        return np.dtype(ml_dtypes.bfloat16)
    try:
        found = np.dtype(name)
    except TypeError:
        found = None
    if found is None or found.isbuiltin != 1:
        raise TVMagicError(f"NumPy has no arrays of `{name}`", code="dtype.no_numpy_type")
    return found
