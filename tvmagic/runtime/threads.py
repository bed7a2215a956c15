"""The thread pool: how many threads run parallel loops."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.locks import renew_after_fork
from tvmagic.runtime.jit import support

_lock = threading.Lock()
renew_after_fork(globals(), "_lock")


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """New threads inherit the mask: signals are to wake Python's main thread, not a worker."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Pool:
    def __init__(self) -> None:
        self.threads: list[ctypes.c_uint64] = []
        self.wanted = _default_threads()
        self.ready = False

    def function(self, name: str, result: Any, *types: Any) -> Any:
        return ctypes.CFUNCTYPE(result, *types)(support().address(name))

    def prepare(self) -> None:
        """Start the workers that are wanted and not yet there. The caller is a thread of the pool too."""
        if not self.ready:
            if self.function("pool_init", ctypes.c_int)() != 0:
                raise TVMagicError("the system gave no lock for the thread pool", code="threads.no_lock")
            self.ready = True
        start = self.function("pool_start", ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)
        with _signals_blocked():
            while len(self.threads) < self.wanted - 1:
                thread = ctypes.c_uint64()
                if start(ctypes.addressof(thread), len(self.threads) + 1) != 0:
                    break  # fewer threads than wanted do the work as well
                self.threads.append(thread)
        self.function("pool_limit", None, ctypes.c_int)(min(self.wanted - 1, len(self.threads)))

    def stop(self) -> None:
        """End the workers before the interpreter goes away."""
        if not self.threads:
            return
        self.function("pool_limit", None, ctypes.c_int)(0)
        self.function("pool_stop", None)()
        join = self.function("pool_join", ctypes.c_int, ctypes.c_uint64)
        for thread in self.threads:
            join(thread)
        self.threads.clear()
        self.ready = False

    def forget(self) -> None:
        """In a forked child: the workers stayed with the parent."""
        self.threads.clear()
        was_ready, self.ready = self.ready, False
        if was_ready:
            self.prepare()


def _default_threads() -> int:
    for name in ("TVMAGIC_NUM_THREADS", "TVM_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "")
        if text.isdigit() and int(text) > 0:
            return int(text)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_pool = _Pool()
atexit.register(_pool.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)


def ensure_pool() -> None:
    """Start the pool's threads if they do not run yet."""
    if not _pool.ready:
        with _lock:
            _pool.prepare()


def num_threads() -> int:
    """The number of threads that run a parallel loop, the caller's included."""
    return _pool.wanted


def set_num_threads(count: int) -> None:
    """Run parallel loops on `count` threads, the caller's included. Do not call it while one runs."""
    if not isinstance(count, int) or count < 1:
        raise TVMagicError(f"a thread pool has 1 thread or more, not {count!r}", code="threads.wrong_count")
    with _lock:
        _pool.wanted = count
        if _pool.ready:
            _pool.prepare()
