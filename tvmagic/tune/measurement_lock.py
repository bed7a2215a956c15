"""One measurement at a time on a machine: a lock that the workers of all processes of a user share.

Who builds holds it together with others, who measures holds it alone. Whoever comes takes a turnstile first, so that
neither kind waits forever behind the other. The system gives both back when a process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import IO

from tvmagic.files import private_folder

_LONGEST = 30.0  # seconds to wait for others; a process that was stopped must not stop all others forever
_PAUSE = 5e-4  # seconds between two tries


@contextlib.contextmanager
def together() -> Iterator[bool]:
    """`with together():` nobody measures meanwhile. Gives whether the lock was had."""
    with _locked(exclusive=False) as had:
        yield had


@contextlib.contextmanager
def alone() -> Iterator[bool]:
    """`with alone():` no other worker on this machine builds or measures meanwhile. Gives whether the lock was had."""
    with _locked(exclusive=True) as had:
        yield had


@contextlib.contextmanager
def _locked(exclusive: bool) -> Iterator[bool]:
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

    with contextlib.ExitStack() as files:
        try:
            machine, turnstile = (files.enter_context(_open_lock(name)) for name in ("machine", "turnstile"))
            had = taken(turnstile, fcntl.LOCK_EX) and taken(machine, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        except OSError:  # no folder that is the user's alone, or no room in it
            had = False
        else:
            turnstile.close()
        yield had


def _open_lock(name: str) -> IO[str]:
    """Open a lock file, in a folder where nobody else can put a file or a link of its name."""
    folder = private_folder()
    if folder is None:
        raise PermissionError
    return open(os.open(folder / f"{name}.lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "w")
