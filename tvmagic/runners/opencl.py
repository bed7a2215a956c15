"""OpenCL C, run by an implementation of OpenCL for CPUs (`pocl`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic.codegen.gpu.opencl import DeviceModule
from tvmagic.errors import TVMagicError
from tvmagic.runners.families import runner
from tvmagic.runners.launches import KernelProcess, host_launches, keep
from tvmagic.tools import POCL, PYOPENCL

_PROCESS = KernelProcess("opencl_worker.py", "OpenCL", {"PYOPENCL_NO_CACHE": "1"})


def has_device() -> bool:
    """Return whether OpenCL finds a device. Requires the package `pyopencl`."""
    return not POCL.is_hidden and not _has_no_device(_PROCESS.ask(("device",)))


def _has_no_device(answer: Any) -> bool:
    return isinstance(answer, str) and ("no device" in answer or "PLATFORM_NOT_FOUND" in answer)


@runner("opencl", "pocl")
def run_opencl(built: DeviceModule, arrays: Sequence[Any]) -> None:
    """Run the entry function of a module in OpenCL C on arrays.

    Raises MissingTool without pyopencl or a device; TVMagicError if a kernel ends its process or writes outside its
    buffers.
    """
    PYOPENCL.need()
    if POCL.is_hidden:
        raise POCL.missing()
    buffers, launches, memories = host_launches(built, arrays, "cl")
    answer = _PROCESS.ask(("run", built.get_source("cl"), buffers, launches))
    if _has_no_device(answer):
        raise POCL.missing()
    if isinstance(answer, str):
        raise TVMagicError(f"OpenCL refuses `{built.entry}`: {answer.strip()[:2000]}", code="runner.opencl_refused")
    keep(memories, answer)
