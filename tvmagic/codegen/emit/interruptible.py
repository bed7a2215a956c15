"""Long calls of LLVM that Ctrl-C ends at once.

Python runs the handler of a signal on its main thread between two instructions, so not while LLVM works. It
works on another thread for which the main thread waits; after an interrupt that thread is left to itself: it ends
when LLVM does, and nobody takes its result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from tvmagic.locks import renew_after_fork

_T = TypeVar("_T")
# LLVM recurses as deep as expressions nest; a thread other than the main one may have half a megabyte by default.
_STACK_BYTES = 64 << 20
_lock = threading.Lock()
renew_after_fork(globals(), "_lock")


def interruptible(run: Callable[[], _T]) -> _T:
    """`run()`. On the main thread an interrupt ends the wait for it; other threads get none and call it themselves."""
    if threading.current_thread() is not threading.main_thread():
        return run()
    outcome: list[Any] = []
    done = threading.Event()

    def target() -> None:
        try:
            outcome.append(run())
        except BaseException as error:
            outcome.extend((None, error))
        done.set()

    _start(target)
    while not done.wait(0.2):  # wakes for a signal; by itself where the system gave the signal to another thread
        pass
    if len(outcome) == 2:
        raise outcome[1]
    return outcome[0]


def _start(target: Callable[[], None]) -> None:
    with _lock:
        size = threading.stack_size(_STACK_BYTES)
        try:
            threading.Thread(target=target, name="tvmagic LLVM", daemon=True).start()
        finally:
            threading.stack_size(size)
