"""A process at the other end of two pipes: what is sent and what comes back, in time, or why not."""

from __future__ import annotations

import pickle
import signal
import struct
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import IO, Any

from tvmagic.errors import TVMagicError

_SECONDS = 300.0  # that an answer may take: emulated code is some 20 times slower


class Connection:
    """A process that answers on its standard output. It ends with the last reference to it, and with whatever goes wrong."""

    def __init__(
        self, command: Sequence[str], name: str, environment: Mapping[str, str] | None = None, folder: str | None = None
    ) -> None:
        self.name = name
        self._said = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            bufsize=0,
            env=environment,
            cwd=folder,
        )
        self._end = weakref.finalize(self, _finish, self._process, self._said)

    @property
    def alive(self) -> bool:
        """Whether it runs still."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._end()

    def ask(self, request: Any) -> Any:
        """The answer to a request, both as pickles with their lengths before them."""
        data = pickle.dumps(request)
        self.send(struct.pack("<q", len(data)), data)
        (size,) = struct.unpack("<q", self.receive(8))
        return pickle.loads(self.receive(size))

    def send(self, *parts: bytes | memoryview) -> None:
        """Send bytes."""
        assert self._process.stdin is not None
        try:
            for part in parts:
                view = memoryview(part)
                while len(view):
                    view = view[self._process.stdin.write(view) :]
        except (BrokenPipeError, ValueError):
            self._ended()
        except KeyboardInterrupt:
            self.kill()
            raise

    def receive(self, size: int) -> bytearray:
        """The next bytes that come."""
        assert self._process.stdout is not None
        result, place, late = bytearray(size), 0, threading.Event()
        view, source = memoryview(result), self._process.stdout

        def give_up() -> None:  # a pipe cannot be waited for with a limit on every system
            late.set()
            self._process.kill()

        timer = threading.Timer(_SECONDS, give_up)
        timer.daemon = True
        timer.start()
        try:
            while place < size:
                count = source.readinto(view[place:])  # type: ignore[attr-defined]
                if not count and late.is_set():
                    self.kill()
                    raise TVMagicError(
                        f"{self.name} did not answer within {_SECONDS:g} s",
                        hint="take smaller sizes",
                        code="runner.no_answer",
                    )
                if not count:
                    self._ended()
                place += count
        except KeyboardInterrupt:
            self.kill()
            raise
        finally:
            timer.cancel()
        return result

    def _ended(self) -> None:
        """Raise the error of a process that ended by itself."""
        try:
            status = self._process.wait(5)
        except subprocess.TimeoutExpired:
            status = 0
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip()
        self.kill()
        number = -status if status < 0 else status - 128
        names = {s.value: s.name for s in signal.Signals}
        what = f"with {names[number]}" if number in names else f"with status {status}"
        raise TVMagicError(
            f"the code ended {self.name} {what}",
            hint=said.splitlines()[-1] if said else "it may access what is not its own",
            code="runner.code_ended",
        )


def _finish(process: subprocess.Popen[bytes], said: IO[bytes]) -> None:
    """End a process and close what connects it."""
    if process.poll() is None:
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, said):
        if pipe is not None:
            pipe.close()
