"""Times of calls on a machine that does other things, too: the least of many short runs.

A run of a millisecond is seldom interrupted, one of ten often is. Of many short ones the least is what a call takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

_RUN_SECONDS = 0.001  # of a run at least, of as many calls as that takes
_CLOSE = 1.1  # times the best, within which calls are measured to the end
_FAR = 3.0  # times the best, within which they are measured more than once
_HOPELESS = ((3, 1.4), (10, 1.15))  # runs after which a call is given up that takes so many times the best so far
_ROUNDS = 3  # at least
_TURN = 4  # runs of a call in a round


def interleaved(calls: Sequence[Callable[[], object] | None], seconds: float) -> list[float | None]:
    """The least seconds of each call, in rounds of short runs for `seconds` in all, so that all meet the same machine.

    Those that fall behind the best are measured less. None for None.
    """
    least: list[float | None] = [None if call is None else _run_once(call) for call in calls]
    until, rounds = time.perf_counter() + seconds, 0
    while time.perf_counter() < until or rounds < _ROUNDS:
        rounds += 1
        best = min((t for t in least if t is not None), default=0.0)
        factor = _CLOSE if rounds > 1 else _FAR
        for n, call in enumerate(calls):
            before = least[n]
            if call is not None and before is not None and before < factor * best:
                least[n] = min([before, *(_run(call, _calls_per_run(before)) for _ in range(_TURN))])
    return least


def runs(call: Callable[[], object], seconds: float, once: float, best: float | None = None) -> list[float]:
    """Seconds a call in each of the short runs that fit into `seconds`, the least first.

    `once`: about how long a call takes; of a slow one there is a single run. It is given up early if it cannot be as fast
    as `best`.
    """
    number = _calls_per_run(min(once, _run_once(call)) if once < seconds else once)
    times: list[float] = []
    until = time.perf_counter() + seconds
    while not times or time.perf_counter() < until:
        times.append(_run(call, number))
        if best is not None and any(len(times) == n and min(times) > f * best for n, f in _HOPELESS):
            break
    return sorted(times)


def _run_once(call: Callable[[], object]) -> float:
    call()  # others had the caches meanwhile
    start = time.perf_counter()
    call()
    return max(time.perf_counter() - start, 1e-7)


def _calls_per_run(once: float) -> int:
    """How many calls a run takes."""
    return max(1, min(int(_RUN_SECONDS / once), 10_000))


def _run(call: Callable[[], object], number: int) -> float:
    """Seconds a call of a run."""
    start = time.perf_counter()
    for _ in range(number):
        call()
    return (time.perf_counter() - start) / number
