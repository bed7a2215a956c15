"""PTX on an NVIDIA GPU of this machine, by CUDA's driver (`cuda-bindings`)."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

from tvmagic.codegen.gpu.opencl import DeviceModule
from tvmagic.errors import TVMagicError
from tvmagic.runners.families import runner
from tvmagic.runners.launches import KernelProcess, host_launches, keep
from tvmagic.target import Target, cpu_and_features
from tvmagic.tools import CUDA, MissingTool

_REPEATS = 10  # runs for the time of the kernels
_PROCESS = KernelProcess("cuda_worker.py", "CUDA")


@functools.cache
def gpu() -> tuple[str, int] | None:
    """The name of this machine's first NVIDIA GPU and the number of its architecture (90 of sm_90); None if there is
    none, or nothing that calls its driver."""
    if CUDA.find() is None:
        return None
    answer = _PROCESS.ask(("device",))
    if isinstance(answer, str):
        _PROCESS.stop()
        return None
    return answer


def _has_gpu(target: Target) -> bool:
    return gpu() is not None


@runner("nvptx64", "this machine's NVIDIA GPU", _has_gpu)
def run_on_gpu(built: DeviceModule, arrays: Sequence[Any]) -> str:
    """Run the entry function of a module in PTX on arrays. The remark says which GPU it is, and how long the kernels took
    there: the least of a few further runs from the same contents, without the copies of arrays.

    Raises MissingTool if the GPU is older than the code is for; TVMagicError if the driver refuses the code, or a
    kernel fails or writes outside its buffers.
    """
    name, number = gpu() or ("", 0)
    arch = cpu_and_features(built.target)[1]
    if int(re.sub(r"\D", "", arch)) > number:
        raise MissingTool(
            f"code for `{arch}` does not run on this machine's GPU, {name}, which is `sm_{number}`",
            code="runner.other_gpu",
        )
    buffers, launches, memories = host_launches(built, arrays, "asm")
    answer = _PROCESS.ask(("run", built.get_source("asm"), buffers, launches, _REPEATS))
    if isinstance(answer, str):
        _PROCESS.stop()  # after an error in a kernel the driver refuses all else
        said = answer.strip()[:2000].removeprefix("RuntimeError: ")
        outside = "_ADDRESS" in said
        raise TVMagicError(
            f"`{built.entry}` does not run on {name}: {said}",
            hint="a kernel may access what is not its own" if outside else None,
            code="runner.gpu_call_failed",
        )
    contents, seconds = answer
    keep(memories, contents)
    time = f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"
    return f"{name}, {time} for its kernels"
