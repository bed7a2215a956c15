"""Small helpers of test files."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from tvmagic.errors import WrongTypeError, WrongValueError

__all__ = ["get_dtype_range", "identity_after", "main", "strtobool", "terminate_self"]


def main() -> None:
    """Run pytest on the calling file, with the options of the command line, and exit with its status."""
    import pytest

    file = sys._getframe(1).f_code.co_filename
    sys.exit(pytest.main([file, *sys.argv[1:]]))


def identity_after(x: Any, sleep: float) -> Any:
    """`x`, after `sleep` s."""
    if sleep:
        time.sleep(sleep)
    return x


def terminate_self() -> None:
    """End this process with status 1."""
    os._exit(1)


_BOOLEANS = {**dict.fromkeys("y yes t true on 1".split(), 1), **dict.fromkeys("n no f false off 0".split(), 0)}


def strtobool(val: str) -> int:
    """1 for a text such as `yes`, `true`, `on`, and 0 for `no`, `false`, `off`."""
    found = _BOOLEANS.get(val.lower())
    if found is None:
        raise WrongValueError(f"`{val}` is neither yes nor no", hint=f"write one of {', '.join(_BOOLEANS)}")
    return found


def get_dtype_range(dtype: str) -> tuple[Any, Any]:
    """The least and the greatest finite value of a type of integers or floats."""
    import numpy as np

    kind = np.dtype(dtype)
    if kind.kind == "f":
        return np.finfo(kind).min, np.finfo(kind).max
    if kind.kind in "iu":
        return np.iinfo(kind).min, np.iinfo(kind).max
    raise WrongTypeError(f"`{dtype}` is neither a type of integers nor one of floats")
