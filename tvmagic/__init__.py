"""tvmagic: a tensor compiler that you step through in a notebook.

    import tvmagic
    from tvmagic import te

Public names stand where TVM 0.19 has them. Parts are loaded when they are first used, so that the
import itself is quick and loads neither LLVM nor widgets.
"""

from __future__ import annotations

import importlib

from tvmagic import _absent, _places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as _Any
del TYPE_CHECKING  # the name of a module is a name that users see

__version__ = "0.1.0"

_MODULES = (
    "arith", "ascend", "cinn", "codegen", "container", "contrib", "driver", "errors", "instrument", "ir", "nd", "notebook",
    "operators", "passes", "runtime", "script", "support", "target", "te", "testing", "tir", "topi", "transform", "tune",
)  # fmt: skip
_NAMES = {
    "IRModule": "tvmagic.ir",
    "DataType": "tvmagic.ir",
    "DataTypeCode": "tvmagic.ir",
    "Object": "tvmagic.runtime",
    "Operator": "tvmagic.operators",
    "TVMError": "tvmagic.errors",
    "TVMagicError": "tvmagic.errors",
    "ScheduleError": "tvmagic.errors",
    "lower": "tvmagic.driver",
    "build": "tvmagic.driver",
    "cpu": "tvmagic.runtime",
    **dict.fromkeys(
        ("cl", "cuda", "ext_dev", "gpu", "hexagon", "metal", "mtl", "opencl", "rocm", "vpi", "vulkan", "webgpu"),
        "tvmagic.runtime.device",
    ),
    "device": "tvmagic.runtime",
    "get_global_func": "tvmagic.runtime",
    "register_func": "tvmagic.runtime",
    "recording": "tvmagic.passes",
}
_ALIASES = {"error": "tvmagic.errors", "ndarray": "tvmagic.nd", "_ffi": "tvmagic._ffi"}

_places.install()
_absent.install()


def __getattr__(name: str) -> _Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES or name in _ALIASES:
        return importlib.import_module(_ALIASES.get(name, f"tvmagic.{name}"))
    if name in _absent.ABSENT:
        return importlib.import_module(f"tvmagic.{name}")
    raise AttributeError(f"module `tvmagic` has no name `{name}`{_places.instead('tvmagic', name)}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES, *_NAMES, *_ALIASES])


def load_ipython_extension(ipython: _Any) -> None:
    """`%load_ext tvmagic`"""
    from tvmagic.notebook import load_ipython_extension as load

    load(ipython)


def unload_ipython_extension(ipython: _Any) -> None:
    """`%unload_ext tvmagic`"""
    from tvmagic.notebook import unload_ipython_extension as unload

    unload(ipython)
