"""Calls in processes of their own: what crashes or hangs there does no harm here."""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import queue
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from tvmagic.errors import TVMagicError

__all__ = ["MapResult", "PopenPoolExecutor", "PopenWorker", "StatusKind"]


class StatusKind(IntEnum):
    """How a call of `map_with_error_catching` ended."""

    RUNNING = 0
    COMPLETE = 1
    EXCEPTION = 2
    TIMEOUT = 3


class MapResult(NamedTuple):
    """What became of one call: its value, or the exception."""

    status: StatusKind
    value: Any


def _serve(pipe: Any, initializer: Callable[..., Any] | None, initargs: Sequence[Any]) -> None:
    """What a process does: call what comes, and send the result or the exception."""
    if initializer is not None:
        initializer(*initargs)
    pipe.send(None)  # what calls may take is counted from here
    while True:
        try:
            function, args, keywords = pipe.recv()
        except EOFError:
            return
        try:
            reply = (True, function(*args, **keywords))
        except Exception as error:
            reply = (False, error)
        try:
            pipe.send(reply)
        except Exception as error:
            pipe.send((False, TVMagicError(f"the result cannot be sent: {error}", hint="return what can be pickled")))


class PopenWorker:
    """One process for calls, started at the first one, and again after it died or was killed.

    Parameters
    ----------
    initializer, initargs
        What is called first in each new process.
    maximum_uses
        After how many calls a new process is started; None for never.
    """

    def __init__(
        self,
        initializer: Callable[..., Any] | None = None,
        initargs: Sequence[Any] = (),
        maximum_uses: int | None = None,
        stdout: Any = None,
        stderr: Any = None,
    ) -> None:
        if initializer is not None and not callable(initializer):
            raise TVMagicError("initializer must be callable for PopenWorker")
        self._start = (initializer, tuple(initargs))
        self._maximum_uses = maximum_uses
        self._uses = 0
        self._process: Any = None
        self._pipe: Any = None
        self._timeout: float | None = None

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.kill()

    def send(
        self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None,
        timeout: float | None = None,
    ) -> None:  # fmt: skip
        """Start the call `fn(*args, **kwargs)`, which `recv` waits for at most `timeout` s."""
        if self._maximum_uses is not None and self._uses >= self._maximum_uses:
            self.kill()
        if not self.is_alive():
            self._begin()
        self._uses += 1
        self._timeout = timeout
        self._pipe.send((fn, tuple(args), dict(kwargs or {})))

    def recv(self) -> Any:
        """The result of the call. Raises its exception, `TimeoutError`, or `ChildProcessError` if the process died."""
        if not multiprocessing.connection.wait([self._pipe, self._process.sentinel], self._timeout):
            self.kill()
            raise TimeoutError(f"the call took longer than {self._timeout} s")
        try:
            good, value = self._pipe.recv()
        except (EOFError, OSError) as error:
            self.kill()
            raise ChildProcessError("Subprocess terminated") from error
        if not good:
            raise value
        return value

    def is_alive(self) -> bool:
        """Whether there is a process."""
        return self._process is not None and self._process.is_alive()

    def join(self, timeout: float | None = None) -> None:
        """Wait at most `timeout` s until the process ends, which it does once it has nothing to wait for."""
        if self._process is not None:
            self._pipe.close()
            self._process.join(timeout)

    def kill(self) -> None:
        """End the process now; the next `send` starts another."""
        process, self._process, self._uses = self._process, None, 0
        if process is not None:
            self._pipe.close()
            process.kill()
            process.join()

    def _begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there, *self._start), daemon=True)
        self._process.start()
        there.close()
        try:
            self._pipe.recv()
        except EOFError as error:
            self.kill()
            raise ChildProcessError("Subprocess terminated before its first call") from error


class PopenPoolExecutor:
    """Several processes for calls.

    Parameters
    ----------
    max_workers
        How many processes, by default as many as there are cores.
    timeout
        How long each call may take, in s; None for any time.
    initializer, initargs, maximum_process_uses
        As for `PopenWorker`.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        timeout: float | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Sequence[Any] = (),
        maximum_process_uses: int | None = None,
        stdout: Any = None,
        stderr: Any = None,
    ) -> None:
        count = max_workers or os.cpu_count() or 1
        self._timeout = timeout
        self._threads = concurrent.futures.ThreadPoolExecutor(count)
        self._free: queue.SimpleQueue[PopenWorker] = queue.SimpleQueue()
        for _ in range(count):
            self._free.put(PopenWorker(initializer, initargs, maximum_process_uses))

    def __enter__(self) -> PopenPoolExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def shutdown(self, wait: bool = True) -> None:
        """End all processes, after what they still have to do if `wait`."""
        self._threads.shutdown(wait=wait, cancel_futures=not wait)
        while not self._free.empty():
            self._free.get().kill()

    def submit(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        """The result to come of `fn(*args, **kwargs)`."""
        return self._threads.submit(self._call, fn, args, kwargs)

    def map_with_error_catching(self, fn: Callable[..., Any], iterator: Iterable[Any]) -> Iterator[MapResult]:
        """What became of the calls of `fn` with each item, in their order."""
        for future in [self.submit(fn, item) for item in iterator]:
            try:
                yield MapResult(StatusKind.COMPLETE, future.result())
            except TimeoutError as error:
                yield MapResult(StatusKind.TIMEOUT, error)
            except Exception as error:
                yield MapResult(StatusKind.EXCEPTION, error)

    def _call(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        worker = self._free.get()
        try:
            worker.send(fn, args, kwargs, self._timeout)
            return worker.recv()
        finally:
            self._free.put(worker)
