"""Locks that a forked child can take."""

from __future__ import annotations

import os
import threading
from typing import Any

__all__ = ["renew_after_fork"]


def renew_after_fork(namespace: dict[str, Any], name: str) -> None:
    """Give a forked child a new lock `name` in the global variables of a module.

    Another thread of the parent may have held the old one, and does not exist in the child. The lock itself must be
    one of `threading`: a class in Python could be interrupted between taking the lock and saying so.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: namespace.__setitem__(name, threading.Lock()))
