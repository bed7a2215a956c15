"""What reductions mean: the last dimension of an array, reduced in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import small_language as sl

REDUCERS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def reduce_last(reducer: str, values: Any, mask: Any = None) -> Any:
    """Reduce the last dimension; elements with a false mask take no part."""
    dtype = values.dtype
    if mask is not None:
        values = np.where(mask, values, identity(reducer, dtype))
    if values.dtype == sl.numpy_dtype("bfloat16"):
        return reduce_last(reducer, values.astype("float32")).astype(dtype)
    if reducer in ("max", "min"):
        return REDUCERS[reducer].reduce(values, -1)
    return REDUCERS[reducer].reduce(values, -1, dtype=values.dtype)


def identity(reducer: str, dtype: Any) -> Any:
    if reducer in ("sum", "prod"):
        return np.asarray(reducer == "prod").astype(dtype)
    if dtype.kind == "b":
        return np.asarray(reducer == "min")
    if dtype.kind in "iu":
        low, high = sl.limits(str(dtype))
        return np.asarray(low if reducer == "max" else high, dtype)
    return np.asarray(-np.inf if reducer == "max" else np.inf).astype(dtype)
