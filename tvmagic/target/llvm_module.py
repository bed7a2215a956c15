"""Parse LLVM text into a module with a separate context, and dispose of both in the order that LLVM requires.

LLVM disposes of a module by means of its context. llvmlite gives each of the two a finalizer. Python calls the
finalizers of a garbage cycle in any order, for example of what the traceback of a KeyboardInterrupt keeps. If the
context's finalizer comes first, the module's ends the process. So only the module disposes here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.interrupts import deferred_interrupts


def parse_module(text: str) -> Any:
    """Return the llvmlite module of LLVM text; it alone owns its context.

    Another module parsed into `module._context` must be closed or linked into this one before this one is closed.
    An interrupt of this function leaks or ends the process: call it on another thread or with deferred interrupts.
    """
    import llvmlite.binding as llvm

    context = llvm.create_context()
    module: Any = llvm.parse_assembly(text, context)
    context._owned = True
    module._dispose = _disposal(module._ptr, context._ptr)
    return module


def _disposal(module: Any, context: Any) -> Callable[[], None]:
    """Return the function that disposes of both. It holds pointers, as their objects may be finalized before it runs."""
    from llvmlite.binding import ffi

    def dispose() -> None:
        with deferred_interrupts(later=True):
            ffi.lib.LLVMPY_DisposeModule(module)
            ffi.lib.LLVMPY_ContextDispose(context)

    return dispose
