"""A wait until the threads of this process rest: what is measured next shall not share processors with them.

The threads of NumPy's BLAS wait for more work in a loop after a call, and so do those of OpenMP: for 3 ms in one build and
100 ms in another. Meanwhile they take a processor each, and a loop on two threads runs on one.
"""

from __future__ import annotations

import time

__all__ = ["rest"]

_LOOK = 0.02  # seconds of which the processor time is taken; a tick of the clock of Windows is 0.016
_BUSY = 0.25  # of a processor, above which some thread computes


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
