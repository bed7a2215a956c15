"""A process that runs OpenCL C: a kernel that goes wrong ends this process, and not its parent.

It imports nothing of the package. A request is a pickle, with its length in 8 bytes before it, of the program's text, its
buffers (bytes, or a size for memory without content) and its launches: the kernel, the numbers of blocks and of threads in
a block, and the arguments, which are `("buffer", number)`, `("local", bytes)` or the name of a NumPy type with a value.
The answer is the content of the buffers that came with content, or the text of an error.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
from typing import Any, BinaryIO

GUARD = 4096  # bytes on both sides of a buffer, a multiple of every alignment
PATTERN = b"\xa5"


class Worker:
    """Runs requests on the first CPU device there is."""

    def __init__(self) -> None:
        import numpy
        import pyopencl

        self.cl, self.numpy = pyopencl, numpy
        devices = [d for p in pyopencl.get_platforms() for d in p.get_devices()]
        devices.sort(key=lambda d: not d.type & pyopencl.device_type.CPU)
        if not devices:
            raise RuntimeError("no device")
        self.context = pyopencl.Context([devices[0]])
        self.queue = pyopencl.CommandQueue(self.context)
        self.source, self.program = "", None

    def run(self, source: str, buffers: list[Any], launches: list[Any]) -> list[bytes]:
        """The content of the buffers with content after all launches."""
        if source != self.source:
            # without optimization: pocl 3.1 ends the process on some loops around barriers that LLVM has changed
            self.program = self.cl.Program(self.context, source).build(["-cl-std=CL1.2", "-cl-opt-disable"])
            self.source = source
        program = self.program
        whole = [self._buffer(b) for b in buffers]
        kernels: dict[str, Any] = {}
        for name, blocks, threads, arguments in launches:
            if name not in kernels:
                kernels[name] = self.cl.Kernel(program, name)
            values = [self._argument(kind, value, whole) for kind, value in arguments]
            size = tuple(b * t for b, t in zip(blocks, threads))
            kernels[name](self.queue, size, tuple(threads), *values)
        self.queue.finish()
        return [self._content(w, len(b)) for w, b in zip(whole, buffers) if isinstance(b, bytes)]

    def _buffer(self, content: Any) -> Any:
        size = len(content) if isinstance(content, bytes) else content
        inner = content if isinstance(content, bytes) else PATTERN * size
        data = bytearray(PATTERN * GUARD + inner + PATTERN * (GUARD + -size % 64))
        flags = self.cl.mem_flags.READ_WRITE | self.cl.mem_flags.COPY_HOST_PTR
        return self.cl.Buffer(self.context, flags, hostbuf=data), size

    def _argument(self, kind: str, value: Any, whole: list[Any]) -> Any:
        if kind == "buffer":
            buffer, size = whole[value]
            return buffer.get_sub_region(GUARD, max(size, 64) if size % 64 == 0 else size + -size % 64)
        if kind == "local":
            return self.cl.LocalMemory(max(value, 1))
        return self.numpy.dtype(kind).type(value)

    def _content(self, whole: Any, size: int) -> bytes:
        buffer, _ = whole
        found = bytearray(buffer.size)
        self.cl.enqueue_copy(self.queue, found, buffer)
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


def main() -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what compilers print is not an answer
    worker = None
    while True:
        (size,) = struct.unpack("<q", _read(sys.stdin.buffer, 8))
        request = pickle.loads(_read(sys.stdin.buffer, size))
        try:
            worker = worker or Worker()
            answer: Any = worker.run(*request)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        data = pickle.dumps(answer)
        answers.write(struct.pack("<q", len(data)) + data)
        answers.flush()


if __name__ == "__main__":
    main()
