"""Locks that a forked child can take, and a fork that waits for imports."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
from typing import Any


def renew_after_fork(namespace: dict[str, Any], name: str) -> None:
    """Give a forked child a new lock `name` in the global variables of a module.

    Another thread of the parent may have held the old one, and does not exist in the child. The lock itself must be
    one of `threading`: a class in Python could be interrupted between taking the lock and saying so.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: namespace.__setitem__(name, threading.Lock()))


# Packages that functions of tvmagic import when they are first called.
_PACKAGES = ("tvmagic", "llvmlite", "numpy")
_ROUNDS = 100  # of waiting: a thread may begin the next import meanwhile


def _finish_imports() -> None:
    """Before a fork: wait until no other thread imports a module of these packages.

    The lock of such a module stays taken in the child, which could not import it. Python gives no list of these locks
    under a public name.
    """
    locks = getattr(sys.modules.get("_frozen_importlib"), "_module_locks", {})
    for _ in range(_ROUNDS):
        names = [name for name, lock in list(locks.items()) if _is_taken_elsewhere(name, lock())]
        if not names:
            return
        for name in names:
            with contextlib.suppress(Exception):  # the thread that imports it raises it, too
                importlib.import_module(name)


def _is_taken_elsewhere(name: str, lock: Any) -> bool:
    """Return whether another thread imports the module `name`."""
    owner = getattr(lock, "owner", None)
    return name.partition(".")[0] in _PACKAGES and owner not in (None, threading.get_ident())


_held: list[Any] = []  # the lock of llvmlite, while a process forks


def _hold_llvm() -> None:
    """Before a fork: wait until no thread is inside LLVM, which the child could not use otherwise."""
    ffi = sys.modules.get("llvmlite.binding.ffi")
    if ffi is not None:
        ffi.lib._lock.__enter__()
        _held.append(ffi.lib._lock)


def _release_llvm() -> None:
    if _held:
        _held.pop().__exit__()


# These hooks are here, not where LLVM is used first: a module that is imported during a fork would release what it never held.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_llvm, after_in_parent=_release_llvm, after_in_child=_release_llvm)
    os.register_at_fork(before=_finish_imports)  # runs first: an import may call LLVM
