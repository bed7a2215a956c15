"""What a module for WebAssembly needs of its host: its layout in memory, and the functions of C that it calls.

`notebook/static/kernel.js` is the same host in a page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmagic.errors import BuildError

if TYPE_CHECKING:
    from tvmagic.runtime.module import Module


def _erf(x: Any) -> Any:
    import math

    return math.erf(x)


# C's math functions by name. Their forms for float32, with an `f` behind the name, are these rounded.
# (`np.power` takes the square root for an exponent of 0.5: NaN of -inf, -0 of -0.)
C_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atan2": np.arctan2, "atanh": np.arctanh, "cos": np.cos, "cosh": np.cosh, "erf": _erf, "exp": np.exp,
    "exp10": lambda x: np.float_power(10.0, x), "exp2": np.exp2, "fmod": np.fmod, "hypot": np.hypot, "ldexp": np.ldexp,
    "log": np.log, "log10": np.log10, "log1p": np.log1p, "log2": np.log2, "nextafter": np.nextafter, "pow": np.float_power,
    "sin": np.sin, "sinh": np.sinh, "tan": np.tan, "tanh": np.tanh,
}  # fmt: skip


def c_function(name: str) -> Callable[..., float]:
    """The function that C calls `name`, on numbers."""
    single = name not in C_FUNCTIONS
    function = C_FUNCTIONS[name.removesuffix("f") if single else name]
    if name == "nextafterf":  # the next number of its own type
        return lambda x, y: float(np.nextafter(np.float32(x), np.float32(y)))

    def call(*args: Any) -> float:
        with np.errstate(all="ignore"):
            value = float(function(*args))
            return float(np.float32(value)) if single else value

    return call


def linked(built: Module) -> Any:
    """The module that runs (`runtime.wasm.WasmModule`) of one that was built for `wasm32`.

    Raises BuildError if it was built for something else, or calls functions that a host does not have.
    """
    from tvmagic.runtime.wasm import link

    if built.code[:4] != b"\0asm":
        raise BuildError(
            "the module is not one for WebAssembly", hint="build it with target `wasm32`", code="wasm.not_for_wasm"
        )
    made = link(built.code, [abi.symbol for abi in built.abis])
    for name in made.imports:
        if name not in C_FUNCTIONS and name.removesuffix("f") not in C_FUNCTIONS:
            raise BuildError(
                f"the module calls `{name}`, which WebAssembly's host does not have", code="wasm.missing_functions"
            )
    return made
