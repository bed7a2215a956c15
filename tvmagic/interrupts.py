"""Defer Ctrl-C while a section runs that must not stop halfway.

Python raises KeyboardInterrupt between any two instructions of the main thread. If that happens while llvmlite gives
an object of LLVM back, or holds its lock, the object is given back again later, or the lock stays taken: the process
dies, or hangs.
"""

from __future__ import annotations

import _thread
import functools
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


class deferred_interrupts:
    """Context manager: a SIGINT that comes meanwhile is delivered at the end. It does nothing on other threads.

    `later`: deliver it a little after the end. Python ignores what is raised in `__del__`.
    """

    def __init__(self, later: bool = False) -> None:
        self.later = later
        self.handler: Any = None
        self.frame: FrameType | None = None
        self.pending = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.pending, self.frame = True, frame

    def __enter__(self) -> None:
        if threading.get_ident() == threading.main_thread().ident:
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                self.handler = handler  # before it is replaced: what comes in between is raised here
                signal.signal(signal.SIGINT, self._note)

    def __exit__(self, *_: object) -> None:
        if self.handler is None:
            return
        handler, self.handler = self.handler, None
        signal.signal(signal.SIGINT, handler)
        frame, self.frame = self.frame, None
        if self.pending and self.later:
            threading.Thread(target=_interrupt_soon, daemon=True).start()
        elif self.pending:
            handler(signal.SIGINT, frame)


def _interrupt_soon() -> None:
    time.sleep(0.01)
    _thread.interrupt_main()


def deferring_interrupts(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function that must not be interrupted."""

    @functools.wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with deferred_interrupts():
            return function(*args, **kwargs)

    return run
