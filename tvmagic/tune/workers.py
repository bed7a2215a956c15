"""Worker processes on this machine: tasks go out, results come back as they are ready, whatever happens to a process."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from tvmagic.errors import TVMagicError
from tvmagic.files import TemporaryFolder, write_file

TOO_LONG = "stopped: it took too long"  # how the error of a trial begins that was stopped for the time
_START = 60.0  # seconds that a process may take to start on a busy machine
_SLACK = 20.0  # seconds after a task's limit, with the wait for other measurements, at which it is ended from outside

Task = dict[str, Any]
Result = dict[str, Any]


class Workforce(Protocol):
    """Who works on tasks: processes of this machine, or a cluster."""

    @property
    def count(self) -> int:
        """How many tasks they do at once."""
        ...

    def open(self, contents: bytes) -> None:
        """Tell them the problem that tasks are about, as the contents of its file; once, before any task."""
        ...

    def run(self, tasks: Iterable[Task], deadline: float) -> Iterator[tuple[Task, Result]]:
        """Each task with its result, in the order in which they are ready.

        Tasks that are not done at `deadline` (of `time.monotonic`) are given up and not in the result.
        """
        ...

    def close(self) -> None:
        """End all of it."""
        ...


class _Process:
    """One worker: a process that can be started again, and the thread that reads what it says."""

    def __init__(self, path: str, said: queue.Queue[tuple[_Process, int, Any]], command: Sequence[str]) -> None:
        self.path, self.said, self.command = path, said, command
        self.generation = 0
        self.task: Task | None = None
        self.ready, self.phase, self.since = False, "", 0.0
        self.start()

    def start(self) -> None:
        """A fresh process."""
        self.generation += 1
        self.task, self.ready, self.phase = None, False, "start"
        self.since = time.monotonic()
        root = str(Path(__file__).parent.parent.parent)
        paths = [root, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p)}
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
            start_new_session=True,  # an interrupt in a terminal is for the search, which ends its workers in order
        )
        threading.Thread(target=self._listen, args=(self.process, self.generation), daemon=True).start()
        if os.path.exists(self.path):
            self.send(self.path)

    def _listen(self, process: subprocess.Popen[str], generation: int) -> None:
        assert process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            for line in process.stdout:
                self.said.put((self, generation, json.loads(line)))
        self.said.put((self, generation, None))

    def give(self, task: Task) -> None:
        """Send a task. That the process is gone shows when its output ends."""
        self.task, self.phase, self.since = task, "", time.monotonic()
        self.send(task)

    def send(self, message: Any) -> None:
        """Write a message to the process, if it is there."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()

    def limit(self) -> float:
        """The time at which it is ended from outside."""
        return self.since + (_START if not self.ready else (self.task or {}).get("limit", _START) + _SLACK)

    def give_up(self) -> None:
        """End the process with its task; what it said meanwhile is not heard."""
        self.end()
        self.task, self.ready = None, False
        self.generation += 1

    def end(self, patience: float = 0.0) -> int | None:
        """End the process, if it does not end by itself within `patience` seconds; its exit status."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        self.process.kill()
        status = self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        return status


class LocalWorkers:
    """`count` processes on this machine, of the command that starts a worker. They start at once, while their problem is
    still being made.
    """

    def __init__(self, count: int, command: Sequence[str] = (sys.executable, "-m", "tvmagic.tune.worker")) -> None:
        self.count = count
        self.folder = TemporaryFolder()
        self.path = os.path.join(self.folder.name, "problem.npz")
        self.said: queue.Queue[tuple[_Process, int, Any]] = queue.Queue()
        self.processes = [_Process(self.path, self.said, command) for _ in range(count)]
        self.failed = 0  # starts in a row that came to nothing

    def open(self, contents: bytes) -> None:
        """Tell them their problem."""
        write_file(self.path, contents)
        for process in self.processes:
            process.since = time.monotonic()
            process.send(self.path)

    def __enter__(self) -> LocalWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes and forget the problem."""
        for process in self.processes:
            process.end()
        self.folder.cleanup()

    def run(self, tasks: Iterable[Task], deadline: float) -> Iterator[tuple[Task, Result]]:
        """Each task with its result as it is ready; see `Workforce`."""
        waiting = list(reversed(list(tasks)))
        for process in self.processes:
            if process.process.returncode is not None:
                process.start()
        open_tasks = len(waiting)
        try:
            while open_tasks and time.monotonic() < deadline:
                for process in self.processes:
                    if process.ready and process.task is None and waiting:
                        process.give(waiting.pop())
                for task, result in self._next(deadline):
                    open_tasks -= 1
                    yield task, result
        except BaseException:  # an interrupt, after which nothing follows as a rule
            for process in self.processes:
                if process.task is not None:
                    process.give_up()
            raise
        for process in self.processes:
            if process.task is not None:  # nobody waits for it any more
                self._again(process)

    def _next(self, deadline: float) -> list[tuple[Task, Result]]:
        """Wait for a message, or for a limit; the results that it brings."""
        until = min([deadline, *(p.limit() for p in self.processes if p.task is not None or not p.ready)])
        try:
            process, generation, message = self.said.get(timeout=max(min(until - time.monotonic(), 1.0), 0.0))
        except queue.Empty:
            return [self._lost(p, "did not come back in time") for p in self._late() if p.task is not None]
        if generation != process.generation:
            return []
        if message is None:
            return self._ended(process)
        if "ready" in message:
            process.ready, self.failed = True, 0
        elif "phase" in message:
            process.phase = message["phase"]
        elif process.task is not None and message["id"] == process.task["id"]:
            task, process.task = process.task, None
            return [(task, message["result"])]
        return []

    def _late(self) -> list[_Process]:
        """Processes past their limits; those that did not even start are started again."""
        now = time.monotonic()
        late = [p for p in self.processes if (p.task is not None or not p.ready) and now > p.limit()]
        for process in late:
            if process.task is None:
                self._failed_start(process)
        return late

    def _ended(self, process: _Process) -> list[tuple[Task, Result]]:
        if process.task is None:
            self._failed_start(process)
            return []
        return [self._lost(process, "", patience=2.0)]

    def _failed_start(self, process: _Process) -> None:
        self.failed += 1
        if self.failed > 2 * self.count + 1:
            raise TVMagicError(
                "the worker processes of the search do not start",
                hint="`python -m tvmagic.tune.worker` says why",
                code="tune.no_workers",
            )
        self._again(process)

    def _again(self, process: _Process, patience: float = 0.0) -> int | None:
        status = process.end(patience)
        process.start()
        return status

    def _lost(self, process: _Process, why: str, patience: float = 0.0) -> tuple[Task, Result]:
        """The task of a process that is gone or has to go, with the sentence for it."""
        task, phase, seconds = process.task or {}, process.phase, time.monotonic() - process.since
        status = self._again(process, patience)
        return task, {"error": why or end_text(status, phase), "elapsed": seconds, "lost": True}


def end_text(status: int | None, phase: str) -> str:
    """Why a process ended, in a few words, from its exit status."""
    while_doing = {"build": " while it was compiled", "run": " while it ran"}.get(phase, "")
    if status is not None and status < 0:
        if hasattr(signal, "SIGALRM") and -status in (signal.SIGALRM, signal.SIGPROF):
            return f"{TOO_LONG}{while_doing}"
        try:
            return f"the process ended by {signal.Signals(-status).name}{while_doing}"
        except ValueError:
            pass
    return f"the process ended with status {status}{while_doing}"
