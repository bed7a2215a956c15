"""What a level needs of a level above it, or beside it, by name.

A package imports only from the levels above it in the house. Where one must call what stands
elsewhere (printing a node, simplifying an extent), it asks here; the provider is loaded when it
is first asked for, and can be replaced.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

__all__ = ["provide", "provided"]

# each service: the module that has it and its name there
_PROVIDERS: dict[str, tuple[str, str]] = {
    "print": ("tvmagic.script.printer", "print_node"),
    "show": ("tvmagic.script", "show"),
    "analyzer": ("tvmagic.arith.analyzer", "Analyzer"),
    "array": ("tvmagic.runtime.ndarray", "of_numpy"),
    "flat index": ("tvmagic.tir.transform.memory.flat_index", "FlatIndex"),
    "llvm intrinsics": ("tvmagic.codegen.llvm_names", "names"),
    "te records": ("tvmagic.te.saved", "register_records"),
    "tensor intrinsics": ("tvmagic.tir.tensor_intrin", "register_others"),
    "contrib functions": ("tvmagic.contrib.functions", "register"),
    "target": ("tvmagic.target", "Target"),
    "pass options": ("tvmagic.tir.transform", "all_passes"),
}
_found: dict[str, Callable[..., Any]] = {}


def provided(service: str) -> Callable[..., Any]:
    """The function or class that provides a service."""
    found = _found.get(service)
    if found is None:
        module, name = _PROVIDERS[service]
        found = _found[service] = getattr(importlib.import_module(module), name)
    return found


def provide(service: str, function: Callable[..., Any]) -> None:
    """Let `function` provide a service from now on."""
    _found[service] = function
