"""A process that runs code for another machine: its memory, its libraries and its functions, from here."""

from __future__ import annotations

import os
import select
import signal
import struct
import subprocess
import time
import weakref
from collections.abc import Sequence

from tvmagic.errors import TVMagicError

__all__ = ["Process"]

_SECONDS = 300.0  # that an answer may take: emulated code is some 20 times slower
_ALLOCATE, _RELEASE, _STORE, _LOAD, _OPEN, _SYMBOL, _CALL, _CLOSE = range(1, 9)


class Process:
    """A process that runs `ll/server.ll`. It ends with the last reference to it, and with whatever goes wrong in it."""

    def __init__(self, command: Sequence[str]) -> None:
        self.name = os.path.basename(command[0])
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        self._end = weakref.finalize(self, _finish, self._process)

    @property
    def alive(self) -> bool:
        """Whether it runs still."""
        return self._process.poll() is None

    # ------------------------------------------------------------------ requests

    def allocate(self, size: int) -> int:
        """The address of memory for `size` bytes, at a multiple of 64."""
        size = max(64, -(-size // 64) * 64)
        address = self._ask(_ALLOCATE, size)
        if not address:
            raise TVMagicError(f"{self.name} has no memory for {size} bytes")
        return address

    def release(self, address: int) -> None:
        """Give memory back."""
        self._send(_RELEASE, address)

    def write(self, address: int, data: bytes | memoryview) -> None:
        """Write bytes at an address."""
        self._send(_STORE, address, len(data), data=data)

    def read(self, address: int, size: int) -> bytearray:
        """The `size` bytes at an address."""
        self._send(_LOAD, address, size)
        return self._receive(size)

    def open(self, path: str) -> int:
        """Load a shared library."""
        handle = self._with_text(path, lambda at: self._ask(_OPEN, at))
        if not handle:
            raise TVMagicError(f"{self.name} cannot load the code made for it")
        return handle

    def close(self, library: int) -> None:
        """Unload a shared library."""
        self._send(_CLOSE, library)

    def symbol(self, library: int, name: str) -> int:
        """The address of a symbol of a library; 0 if there is none."""
        return self._with_text(name, lambda at: self._ask(_SYMBOL, library, at))

    def call(self, function: int, argument: int) -> int:
        """The status that a function gives when it is called with an address."""
        return self._ask(_CALL, function, argument)

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._end()

    # ------------------------------------------------------------------ the connection

    def _with_text(self, text: str, request) -> int:
        data = text.encode() + b"\0"
        place = self.allocate(len(data))
        self.write(place, data)
        result = request(place)
        self.release(place)
        return result

    def _ask(self, wanted: int, a: int = 0, b: int = 0) -> int:
        self._send(wanted, a, b)
        return struct.unpack("<q", self._receive(8))[0]

    def _send(self, wanted: int, a: int = 0, b: int = 0, data: bytes | memoryview = b"") -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(struct.pack("<qqqq", wanted, _signed(a), _signed(b), 0))
            view = memoryview(data)
            while len(view):
                view = view[self._process.stdin.write(view) :]
        except (BrokenPipeError, ValueError):
            self._ended()
        except KeyboardInterrupt:
            self.kill()
            raise

    def _receive(self, size: int) -> bytearray:
        assert self._process.stdout is not None
        result, place, limit = bytearray(size), 0, time.monotonic() + _SECONDS
        view, source = memoryview(result), self._process.stdout
        try:
            while place < size:
                ready, _, _ = select.select([source], [], [], max(0.0, limit - time.monotonic()))
                if not ready:
                    self.kill()
                    raise TVMagicError(f"{self.name} did not answer within {_SECONDS:.0f} s", hint="take smaller sizes")
                count = source.readinto(view[place:])  # type: ignore[attr-defined]
                if not count:
                    self._ended()
                place += count
        except KeyboardInterrupt:
            self.kill()
            raise
        return result

    def _ended(self) -> None:
        """Raise the error of a process that ended by itself."""
        try:
            status = self._process.wait(5)
        except subprocess.TimeoutExpired:
            status = 0
        said = self._process.stderr.read().decode(errors="replace").strip() if self._process.stderr else ""
        self.kill()
        number = -status if status < 0 else status - 128
        names = {s.value: s.name for s in signal.Signals}
        what = f"with {names[number]}" if number in names else f"with status {status}"
        raise TVMagicError(
            f"the code ended {self.name} {what}",
            hint=said.splitlines()[-1] if said else "it may access what is not its own",
        )


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _finish(process: subprocess.Popen[bytes]) -> None:
    """End a process and close what connects it."""
    if process.poll() is None:
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
