"""A process that runs OpenCL C; `kernel_worker.py` says how it is asked."""

from __future__ import annotations

import importlib
import os
from typing import Any

from kernel_worker import GUARD, content, guarded, serve


class Worker:
    """Runs requests on the first CPU device there is."""

    def __init__(self) -> None:
        import numpy

        pyopencl: Any = importlib.import_module("pyopencl")
        self.cl, self.numpy = pyopencl, numpy
        devices = [d for p in pyopencl.get_platforms() for d in p.get_devices()]
        devices.sort(key=lambda d: not d.type & pyopencl.device_type.CPU)
        if not devices:
            raise RuntimeError("no device")
        self.context = pyopencl.Context([devices[0]])
        self.queue = pyopencl.CommandQueue(self.context)
        self.source, self.program = "", None

    def device(self) -> bytes:
        """The name of the device."""
        return self.context.devices[0].name.encode()

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

    def _buffer(self, given: Any) -> Any:
        flags = self.cl.mem_flags.READ_WRITE | self.cl.mem_flags.COPY_HOST_PTR
        size = len(given) if isinstance(given, bytes) else given
        return self.cl.Buffer(self.context, flags, hostbuf=guarded(given)), size

    def _argument(self, kind: str, value: Any, whole: list[Any]) -> Any:
        if kind == "buffer":
            buffer, size = whole[value]
            return buffer.get_sub_region(GUARD, max(size, 64) if size % 64 == 0 else size + -size % 64)
        if kind == "local":
            return self.cl.LocalMemory(max(value, 1))
        return self.numpy.dtype(kind).type(value)

    def _content(self, whole: Any, size: int) -> bytes:
        found = bytearray(whole[0].size)
        self.cl.enqueue_copy(self.queue, found, whole[0])
        return content(found, size)


if __name__ == "__main__":
    os.environ["POCL_CACHE_DIR"] = os.getcwd()
    serve(Worker)
