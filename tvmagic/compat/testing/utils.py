"""Small helpers of test files."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from tvmagic.errors import WrongTypeError, WrongValueError

__all__ = [
    "check_numerical_grads",
    "echo",
    "get_dtype_range",
    "identity_after",
    "install_request_hook",
    "main",
    "nop",
    "object_use_count",
    "strtobool",
    "terminate_self",
]


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


def install_request_hook(depth: int) -> None:
    """Do nothing: in TVM it redirects downloads in its own tests, `depth` folders above the calling file."""


def strtobool(val: str) -> int:
    """1 for a text such as `yes`, `true`, `on`, and 0 for `no`, `false`, `off`."""
    found = _BOOLEANS.get(val.lower())
    if found is None:
        raise WrongValueError(
            f"`{val}` is neither yes nor no",
            hint=f"write one of {', '.join(_BOOLEANS)}",
            code="testing.not_a_truth_value",
        )
    return found


def get_dtype_range(dtype: str) -> tuple[Any, Any]:
    """The least and the greatest finite value of a type of integers or floats."""
    import numpy as np

    kind = np.dtype(dtype)
    if kind.kind == "f":
        return np.finfo(kind).min, np.finfo(kind).max
    if kind.kind in "iu":
        return np.iinfo(kind).min, np.iinfo(kind).max
    raise WrongTypeError(f"`{dtype}` is neither a type of integers nor one of floats", code="testing.unknown_dtype")


def echo(value: Any) -> Any:
    """The same value."""
    return value


def nop(*values: Any) -> None:
    """Nothing, whatever is given."""


def object_use_count(value: Any) -> int:
    """How many references there are to an object, that of the caller included."""
    return sys.getrefcount(value) - 2


def check_numerical_grads(
    function: Any,
    input_values: Any,
    grad_values: Any,
    function_value: Any = None,
    delta: float = 1e-3,
    atol: float = 1e-2,
    rtol: float = 0.1,
) -> None:
    """Check gradients against differences of the function's values.

    function: takes arrays, as keywords if `input_values` is a dict, and gives a number.
    input_values, grad_values: the arrays, and the gradients of the function there, of the same shapes.
    function_value: not needed; the sum of a result that is an array is taken.

    Each element is moved by `delta` either way. The distance of the two gradients must be at most
    `atol * sqrt(n) + rtol * |difference quotient|` with n elements, else an AssertionError names the input.
    """
    import numpy as np

    names = list(input_values) if isinstance(input_values, dict) else list(range(len(input_values)))
    inputs = {name: np.array(input_values[name], dtype="float64") for name in names}

    def value() -> float:
        given: Any = {name: inputs[name].astype(np.asarray(input_values[name]).dtype) for name in names}
        result = function(**given) if isinstance(input_values, dict) else function(*given.values())
        return float(np.sum(np.asarray(result.numpy() if hasattr(result, "numpy") else result, dtype="float64")))

    for name in names:
        wanted = np.asarray(grad_values[name], dtype="float64")
        if wanted.shape != inputs[name].shape:
            raise WrongValueError(
                f"the gradient of `{name}` has shape {wanted.shape}, its value {inputs[name].shape}",
                code="testing.gradient_shape_differs",
            )
        found = np.zeros_like(inputs[name])
        for place in np.ndindex(*found.shape):
            here = inputs[name][place]
            inputs[name][place] = here + delta
            above = value()
            inputs[name][place] = here - delta
            found[place] = (above - value()) / (2 * delta)
            inputs[name][place] = here
        distance = float(np.sqrt(np.sum((found - wanted) ** 2)))
        allowed = atol * np.sqrt(found.size) + rtol * float(np.sqrt(np.sum(found**2)))
        if not distance <= allowed:
            raise AssertionError(
                f"the gradient of `{name}` is off by {distance:.3g}, of which {allowed:.3g} is allowed:\n"
                f"numerical {found}\ngiven {wanted}"
            )
