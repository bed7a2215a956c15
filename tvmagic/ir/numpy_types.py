"""NumPy's types for ours."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tvmagic.errors import TVMagicError

__all__ = ["numpy_dtype"]


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
