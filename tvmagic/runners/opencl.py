"""OpenCL C, run by an implementation of OpenCL for CPUs (`pocl`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic.codegen.opencl import DeviceModule
from tvmagic.errors import TVMagicError
from tvmagic.runners.families import runner
from tvmagic.runners.launches import KernelProcess, host_launches, keep
from tvmagic.runners.tools import MissingTool, need_package

__all__ = ["run_opencl"]

_PROCESS = KernelProcess("opencl_worker.py", "OpenCL", {"PYOPENCL_NO_CACHE": "1"})


@runner("opencl", "pocl")
def run_opencl(built: DeviceModule, arrays: Sequence[Any]) -> None:
    """Run the entry function of a module in OpenCL C on arrays.

    Raises MissingTool without pyopencl or a device; TVMagicError if a kernel ends its process or writes outside its
    buffers.
    """
    need_package("pyopencl")
    buffers, launches, memories = host_launches(built, arrays, "cl")
    answer = _PROCESS.ask(("run", built.get_source("cl"), buffers, launches))
    if isinstance(answer, str):
        if "no device" in answer or "PLATFORM_NOT_FOUND" in answer:
            raise MissingTool("there is no OpenCL device", hint="`apt-get install pocl-opencl-icd` brings one")
        raise TVMagicError(f"OpenCL refuses `{built.entry_name}`: {answer.strip()[:2000]}")
    keep(memories, answer)
