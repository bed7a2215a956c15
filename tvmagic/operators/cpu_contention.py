"""What is measured shall not share processors: with the threads of this process, for which `rest` waits, or with other programs,
which `Sharing` notices.

The threads of NumPy's BLAS wait for more work in a loop after a call, and so do those of OpenMP: for 3 ms in one build and
100 ms in another. Meanwhile they take a processor each, and a loop on two threads runs on one.
"""

from __future__ import annotations

import contextlib
import pathlib
import time
from collections import Counter
from collections.abc import Mapping

_LOOK = 0.02  # seconds of which the processor time is taken; a tick of the clock of Windows is 0.016
_BUSY = 0.25  # of a processor, above which some thread computes
_MANY = 0.1  # of the time without a processor, above which times say less about the program than about the machine


def rest(most: float = 0.4) -> bool:
    """Sleep for 20 ms, and until no thread of this process computes, but no longer than about `most` seconds.

    True if they rest; False if something of this process still computes.
    """
    until = time.perf_counter() + most
    while True:
        begun, used = time.perf_counter(), time.process_time()
        time.sleep(min(_LOOK, most))
        now = time.perf_counter()
        if time.process_time() - used <= _BUSY * (now - begun):
            return True
        if now >= until:
            return False


class Sharing:
    """How much of the time spent under `with` a thread of this process was ready to run and had no processor.

    Linux counts it for each thread (`schedstat` in proc); elsewhere nothing is known, and the share is 0.
    """

    def __init__(self) -> None:
        self._elapsed = 0.0
        self._waited: Counter[str] = Counter()

    def __enter__(self) -> Sharing:
        self._before, self._begun = _waits(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self._elapsed += time.perf_counter() - self._begun
        for thread, waited in _waits().items():
            self._waited[thread] += waited - self._before.get(thread, waited)

    @property
    def share(self) -> float:
        """Of the time, that of the thread which waited longest: from 0 to 1."""
        longest = max(self._waited.values(), default=0) * 1e-9
        return min(1.0, longest / self._elapsed) if self._elapsed else 0.0


def _waits() -> dict[str, int]:
    """Nanoseconds that each thread has waited for a processor since it began."""
    found: dict[str, int] = {}
    for counts in pathlib.Path("/proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, IndexError):  # a thread that has just ended, or a kernel that does not count
            found[counts.parent.name] = int(counts.read_text().split()[1])
    return found


def shared(shares: Mapping[str, float]) -> list[str]:
    """A sentence if processors were shared while something was measured: the shares of its time, by what was measured."""
    name = max(shares, key=lambda n: shares[n], default="")
    if not name or shares[name] < _MANY:
        return []
    most = f", most for {name}" if len(shares) > 1 else ""
    return [
        f"the processors were shared: a thread waited for one during {shares[name]:.0%} of the time{most}; measure again when nothing else runs"
    ]
