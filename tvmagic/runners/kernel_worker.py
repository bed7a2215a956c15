"""What the processes that run kernels have in common: a kernel that goes wrong ends such a process, and not its parent.

They import nothing of the package. A request is a pickle, with its length in 8 bytes before it, of the name of a method of
the worker and its arguments. Those of `run` are the program's text, its buffers (bytes, or a size for memory without
content) and its launches: the kernel, the numbers of blocks and of threads in a block, and the arguments, which are
`("buffer", number)`, `("local", bytes)` or the name of a NumPy type with a value. The answer is what the method gives,
as the content of the buffers that came with content, or the text of an error.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

sys.path.remove(os.path.dirname(os.path.abspath(__file__)))  # files there have names of packages, as `cuda`

GUARD = 4096  # bytes on both sides of a buffer, a multiple of every alignment
PATTERN = b"\xa5"


def guarded(given: bytes | int) -> bytearray:
    """The memory of a buffer between guards: its content, or how many bytes it has."""
    inner = PATTERN * given if isinstance(given, int) else given
    size = len(inner)
    return bytearray(PATTERN * GUARD + inner + PATTERN * (GUARD + -size % 64))


def content(found: bytearray, size: int) -> bytes:
    """The `size` bytes between guards.

    Raises RuntimeError if these have been written to.
    """
    edges = found[:GUARD] + found[GUARD + size :]
    if edges.count(PATTERN) != len(edges):
        raise RuntimeError("a kernel writes outside its buffers")
    return bytes(found[GUARD : GUARD + size])


def _read(stream: BinaryIO, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = stream.read(size - len(data))
        if not part:
            sys.exit(0)
        data += part
    return data


def serve(make_worker: Callable[[], Any]) -> None:
    """Answer requests by the methods of a worker, which the first one makes, until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what compilers print is not an answer
    worker = None
    while True:
        (size,) = struct.unpack("<q", _read(sys.stdin.buffer, 8))
        method, *arguments = pickle.loads(_read(sys.stdin.buffer, size))
        try:
            worker = worker or make_worker()
            answer: Any = getattr(worker, method)(*arguments)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        data = pickle.dumps(answer)
        answers.write(struct.pack("<q", len(data)) + data)
        answers.flush()
