"""A process that runs code for another machine: its memory, its libraries and its functions, from here."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence

from tvmagic.errors import TVMagicError
from tvmagic.runners.connection import Connection

_ALLOCATE, _RELEASE, _STORE, _LOAD, _OPEN, _SYMBOL, _CALL, _CLOSE = range(1, 9)


class Process(Connection):
    """A process that runs `ll/server.ll`."""

    def __init__(self, command: Sequence[str]) -> None:
        super().__init__(command, os.path.basename(command[0]))

    def allocate(self, size: int) -> int:
        """The address of memory for `size` bytes, at a multiple of 64."""
        size = max(64, -(-size // 64) * 64)
        address = self._ask(_ALLOCATE, size)
        if not address:
            raise TVMagicError(f"{self.name} has no memory for {size} bytes", code="runner.out_of_memory")
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
        return self.receive(size)

    def open(self, path: str) -> int:
        """Load a shared library."""
        handle = self._with_text(path, lambda at: self._ask(_OPEN, at))
        if not handle:
            raise TVMagicError(f"{self.name} cannot load the code made for it", code="runner.load_failed")
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

    def _with_text(self, text: str, request: Callable[[int], int]) -> int:
        data = text.encode() + b"\0"
        place = self.allocate(len(data))
        self.write(place, data)
        result = request(place)
        self.release(place)
        return result

    def _ask(self, wanted: int, a: int = 0, b: int = 0) -> int:
        self._send(wanted, a, b)
        return struct.unpack("<q", self.receive(8))[0]

    def _send(self, wanted: int, a: int = 0, b: int = 0, data: bytes | memoryview = b"") -> None:
        self.send(struct.pack("<qqqq", wanted, _signed(a), _signed(b), 0), data)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
