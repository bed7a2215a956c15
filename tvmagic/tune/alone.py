"""One measurement at a time on a machine: a lock that the workers of all processes of a user share.

Who builds holds it together with others, who measures holds it alone. Whoever comes takes a turnstile first, so that
neither kind waits forever behind the other. The system gives both back when a process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from typing import IO

__all__ = ["alone", "together"]

_LONGEST = 30.0  # seconds to wait for others; a process that was stopped must not stop all others forever
_PAUSE = 5e-4  # seconds between two tries


@contextlib.contextmanager
def together() -> Iterator[bool]:
    """`with together():` nobody measures meanwhile. Gives whether the lock was had."""
    with _held(exclusive=False) as had:
        yield had


@contextlib.contextmanager
def alone() -> Iterator[bool]:
    """`with alone():` no other worker on this machine builds or measures meanwhile. Gives whether the lock was had."""
    with _held(exclusive=True) as had:
        yield had


@contextlib.contextmanager
def _held(exclusive: bool) -> Iterator[bool]:
    try:
        import fcntl
    except ImportError:  # no such locks on this system: measurements may meet
        yield False
        return
    limit = time.monotonic() + _LONGEST

    def taken(file: IO[str], mode: int) -> bool:
        while time.monotonic() < limit:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, mode | fcntl.LOCK_NB)
                return True
            time.sleep(_PAUSE)
        return False

    with open(_path("machine"), "a") as machine:
        with open(_path("turnstile"), "a") as turnstile:
            had = taken(turnstile, fcntl.LOCK_EX) and taken(machine, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield had


def _path(name: str) -> str:
    user = os.getuid() if hasattr(os, "getuid") else 0
    return os.path.join(tempfile.gettempdir(), f"tvmagic-{user}-{name}.lock")
