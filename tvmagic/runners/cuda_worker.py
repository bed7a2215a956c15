"""A process that runs PTX on an NVIDIA GPU by CUDA's driver; `kernel_worker.py` says how it is asked."""

from __future__ import annotations

import importlib
import math
import os
from typing import Any

from kernel_worker import GUARD, content, guarded, serve

_LOG_BYTES = 8192
_MOST_SECONDS = 0.2  # that runs for their times may take


class Worker:
    """Runs requests on the first GPU there is."""

    def __init__(self) -> None:
        import numpy

        driver: Any = importlib.import_module("cuda.bindings.driver")
        self.cuda, self.numpy = driver, numpy
        self._do(driver.cuInit(0))
        self.gpu = self._do(driver.cuDeviceGet(0))
        self._do(driver.cuCtxSetCurrent(self._do(driver.cuDevicePrimaryCtxRetain(self.gpu))))
        self.most_threads = self._attribute(driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
        self.source, self.module = "", None
        self.functions: dict[str, Any] = {}  # of the module, by name

    def device(self) -> tuple[str, int]:
        """The name of the GPU, and the number of its architecture: 90 of sm_90."""
        which = self.cuda.CUdevice_attribute
        major = self._attribute(which.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        minor = self._attribute(which.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        name = self._do(self.cuda.cuDeviceGetName(256, self.gpu))
        return name.split(b"\0")[0].decode(), 10 * major + minor

    def run(self, source: str, buffers: list[Any], launches: list[Any], repeats: int) -> tuple[list[bytes], float]:
        """The content of the buffers with content after all launches, and the least of the seconds that the launches
        took on the GPU in up to `repeats` further runs, each from the same content (0 without any)."""
        if source != self.source:
            self.module, self.source = self._load(source), source
        filled = [bytes(guarded(b)) for b in buffers]
        places = [self._do(self.cuda.cuMemAlloc(len(data))) for data in filled]
        try:
            calls = [self._call(launch, places) for launch in launches]
            self._fill(places, filled)
            self._launch(calls)
            self._do(self.cuda.cuCtxSynchronize())
            found = [
                self._content(p, len(d), len(b)) for p, d, b in zip(places, filled, buffers) if isinstance(b, bytes)
            ]
            return found, self._seconds(calls, places, filled, repeats)
        finally:
            for place in places:
                self.cuda.cuMemFree(place)

    def _do(self, answer: Any) -> Any:
        """What a function of the driver gives besides its status; RuntimeError if that is not success."""
        status, *rest = answer
        if status != self.cuda.CUresult.CUDA_SUCCESS:
            raise RuntimeError(status.name)
        return rest[0] if rest else None

    def _attribute(self, which: Any) -> int:
        return self._do(self.cuda.cuDeviceGetAttribute(which, self.gpu))

    def _load(self, source: str) -> Any:
        if self.module is not None:
            self._do(self.cuda.cuModuleUnload(self.module))
            self.module, self.source, self.functions = None, "", {}
        log = bytearray(_LOG_BYTES)
        which = self.cuda.CUjit_option
        options = [which.CU_JIT_ERROR_LOG_BUFFER, which.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        status, module = self.cuda.cuModuleLoadDataEx(source.encode() + b"\0", 2, options, [log, len(log)])
        if status != self.cuda.CUresult.CUDA_SUCCESS:
            said = log.split(b"\0")[0].decode(errors="replace").strip()
            raise RuntimeError(f"{status.name}: {said}" if said else status.name)
        return module

    def _call(self, launch: Any, places: list[Any]) -> tuple[Any, ...]:
        """The function of a launch, its blocks and threads, and its arguments with what they point to."""
        name, blocks, threads, arguments = launch
        if (count := math.prod(threads)) > self.most_threads:
            raise RuntimeError(f"`{name}` has {count} threads in a block, the GPU takes {self.most_threads}")
        if name not in self.functions:
            self.functions[name] = self._do(self.cuda.cuModuleGetFunction(self.module, name.encode()))
        values = [self._argument(kind, value, places) for kind, value in arguments]
        return (
            self.functions[name],
            blocks,
            threads,
            self.numpy.array([v.ctypes.data for v in values], "uint64"),
            values,
        )

    def _argument(self, kind: str, value: Any, places: list[Any]) -> Any:
        if kind == "buffer":
            kind, value = "uint64", int(places[value]) + GUARD
        return self.numpy.array([value], kind)

    def _fill(self, places: list[Any], filled: list[bytes]) -> None:
        for place, data in zip(places, filled):
            self._do(self.cuda.cuMemcpyHtoD(place, data, len(data)))

    def _launch(self, calls: list[tuple[Any, ...]]) -> None:
        for function, blocks, threads, pointers, _ in calls:
            self._do(self.cuda.cuLaunchKernel(function, *blocks, *threads, 0, 0, pointers.ctypes.data, 0))

    def _content(self, place: Any, whole: int, size: int) -> bytes:
        found = bytearray(whole)
        self._do(self.cuda.cuMemcpyDtoH(found, place, whole))
        return content(found, size)

    def _seconds(self, calls: list[tuple[Any, ...]], places: list[Any], filled: list[bytes], repeats: int) -> float:
        times: list[float] = []
        begin, end = (self._do(self.cuda.cuEventCreate(0)) for _ in range(2))
        while len(times) < repeats and sum(times) < _MOST_SECONDS:
            self._fill(places, filled)
            self._do(self.cuda.cuEventRecord(begin, 0))
            self._launch(calls)
            self._do(self.cuda.cuEventRecord(end, 0))
            self._do(self.cuda.cuEventSynchronize(end))
            times.append(self._do(self.cuda.cuEventElapsedTime(begin, end)) / 1000)
        for event in (begin, end):
            self._do(self.cuda.cuEventDestroy(event))
        return min(times, default=0.0)


if __name__ == "__main__":
    os.environ["CUDA_CACHE_PATH"] = os.getcwd()
    serve(Worker)
