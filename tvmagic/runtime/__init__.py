"""Running compiled code: modules and their functions, arrays, devices, threads, timing."""

from __future__ import annotations

import typing as _typing

from tvmagic.ir import Identified as Object
from tvmagic.ir import ObjectPath, ObjectPathPair, convert
from tvmagic.ir.registry import get_global_func, register_func
from tvmagic.runtime.device import Device, cpu, device, enabled

if _typing.TYPE_CHECKING:
    from tvmagic.runtime.kernel import Kernel
    from tvmagic.runtime.module import Module
    from tvmagic.runtime.ndarray import NDArray
    from tvmagic.runtime.saved import load_module
    from tvmagic.runtime.threads import num_threads, set_num_threads

__all__ = [
    "Device",
    "Kernel",
    "Module",
    "NDArray",
    "Object",
    "ObjectPath",
    "ObjectPathPair",
    "convert",
    "cpu",
    "device",
    "enabled",
    "get_global_func",
    "load_module",
    "num_threads",
    "register_func",
    "set_num_threads",
]

_LATER = {
    "Kernel": "kernel",
    "Module": "module",
    "NDArray": "ndarray",
    "load_module": "saved",
    "num_threads": "threads",
    "set_num_threads": "threads",
}


def __getattr__(name: str) -> _typing.Any:
    # NumPy and LLVM are loaded with what needs them
    import importlib

    if name == "ndarray":
        return importlib.import_module("tvmagic.runtime.ndarray")
    if name not in _LATER:
        raise AttributeError(f"module `tvmagic.runtime` has no name `{name}`")
    return getattr(importlib.import_module(f"tvmagic.runtime.{_LATER[name]}"), name)
