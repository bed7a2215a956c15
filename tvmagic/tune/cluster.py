"""The workers of a Dask cluster as those of a search.

Each worker of the cluster keeps one process of ours, which builds and measures as on a single machine; one task at a time
runs there. Dask gives the tasks of a worker that is gone to another; each task has one future, so that no result is lost
and none comes twice.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.locks import renew_after_fork
from tvmagic.tune.problem import digest
from tvmagic.tune.workers import LocalWorkers, Result, Task

_CONNECT = 15.0  # seconds to wait for the scheduler and for a first worker
_TRIES = 3  # to send tasks whose problem was lost with all workers that had it


class Cluster:
    """The workers of the Dask cluster whose scheduler has an address, such as `tcp://host:8786`.

    Raises `TVMagicError` if `distributed` is not installed, nobody answers, or the workers cannot import this version.
    """

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise TVMagicError(
                "a search on a cluster needs the package `distributed`",
                hint="pip install 'tvmagic[cluster]'",
                code="tune.missing_package",
            ) from error
        try:
            self.client = Client(address, timeout=_CONNECT, set_as_default=False)
        except (OSError, ValueError) as error:  # a TimeoutError is an OSError
            raise TVMagicError(
                f"no scheduler of a Dask cluster answers at `{address}`",
                hint="start one: dask scheduler",
                code="tune.no_scheduler",
            ) from error
        try:
            self._check_workers(address)
        except BaseException:
            self.client.close()
            raise
        self.name, self.contents, self.data = "", b"", None

    def _check_workers(self, address: str) -> None:
        try:
            self.client.wait_for_workers(1, timeout=_CONNECT)
        except TimeoutError as error:
            raise TVMagicError(
                f"the cluster at `{address}` has no workers",
                hint=f"start one: dask worker {address}",
                code="tune.no_workers",
            ) from error
        try:
            found: Any = self.client.run(_version)
            versions = set(found.values())
        except Exception as error:  # whatever the worker raised when it read the function
            raise TVMagicError(
                f"a worker of the cluster cannot import tvmagic: {error}",
                hint="install it on every machine",
                code="tune.worker_without_tvmagic",
            ) from error
        if versions != {_version()}:
            others = ", ".join(sorted(versions - {_version()}))
            raise TVMagicError(
                f"workers of the cluster have tvmagic {others}, this process has {_version()}",
                code="tune.worker_version",
            )

    @property
    def count(self) -> int:
        """How many workers there are now."""
        threads: Any = self.client.nthreads()
        return max(len(threads), 1)

    def open(self, contents: bytes) -> None:
        """Send the problem to all workers."""
        self.name, self.contents = digest(contents), contents
        self.data = self.client.scatter(contents, broadcast=True, hash=False)

    def run(self, tasks: Iterable[Task], deadline: float) -> Iterator[tuple[Task, Result]]:
        """Each task with its result as it is ready; see `Workforce`."""
        waiting = list(tasks)
        for _ in range(_TRIES):
            if time.monotonic() >= deadline:
                return
            lost: list[Task] = []
            for task, result in self._round(waiting, deadline):
                if result is None:
                    lost.append(task)
                else:
                    yield task, result
            if not lost:
                return
            waiting = lost
            self.open(self.contents)
        for task in waiting:
            yield task, {"error": "the cluster lost it several times", "lost": True}

    def _round(self, tasks: list[Task], deadline: float) -> Iterator[tuple[Task, Result | None]]:
        """Results, None for tasks whose problem is not in the cluster any more."""
        from distributed import as_completed

        submit = self.client.submit
        futures = {submit(_work, self.name, self.data, task, pure=False): task for task in tasks}
        timeout = max(deadline - time.monotonic(), 0.01)
        try:
            for future in as_completed(list(futures), loop=self.client.loop, timeout=timeout):
                yield futures[future], result_of(future)
        except TimeoutError:
            pass
        finally:
            with contextlib.suppress(Exception):  # those that nobody waits for; the cluster may be gone
                self.client.cancel(list(futures))

    def close(self) -> None:
        """Let the workers end their processes, and leave the cluster."""
        with contextlib.suppress(Exception):  # a worker that is gone has ended its process
            self.client.run(_forget, self.name)
        self.data = None
        self.client.close()


def result_of(future: Any) -> Result | None:
    """The result; None if it is not in the cluster any more, also if it went with its worker before it could be fetched."""
    from distributed import CancelledError, KilledWorker

    try:
        if future.status == "finished":
            return future.result()
        error = None if future.status in ("cancelled", "lost") else future.exception()
    except CancelledError:
        return None
    if error is None or isinstance(error, CancelledError):
        return None
    if isinstance(error, KilledWorker):
        return {"error": "several workers of the cluster ended while they had it", "lost": True}
    return {"error": f"{type(error).__name__}: {error}"}


# ---------------------------------------------------------------------------- on a worker of the cluster

_one_at_a_time = threading.Lock()
renew_after_fork(globals(), "_one_at_a_time")
_process: tuple[str, LocalWorkers] | None = None  # of the problem that was worked on last, with its name


def _version() -> str:
    import tvmagic

    return tvmagic.__version__


def _work(name: str, contents: bytes, task: Task) -> Result:
    """Do a task in this worker's process, which is started for the first one of a problem."""
    global _process
    with _one_at_a_time:
        if _process is None or _process[0] != name:
            _end()
            workers = LocalWorkers(1)
            workers.open(contents)
            _process = (name, workers)
        until = time.monotonic() + 2 * task["limit"] + 60.0
        for _, result in _process[1].run([task], until):
            return result
        return {"error": "the worker did not come back in time", "lost": True}


def _forget(name: str) -> None:
    """End the process of a problem, unless it is at work for another search."""
    if _process is not None and _process[0] == name and _one_at_a_time.acquire(blocking=False):
        try:
            _end()
        finally:
            _one_at_a_time.release()


def _end() -> None:
    global _process
    if _process is not None:
        _process[1].close()
        _process = None
