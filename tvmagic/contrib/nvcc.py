"""CUDA's compiler, at the place where TVM has it. Code for NVIDIA's GPUs is made by LLVM here, so none is called."""

from __future__ import annotations

import os
import re
from typing import Any, NoReturn

from tvmagic.errors import BuildError, WrongValueError
from tvmagic.tools import NVCC

__all__ = ["compile_cuda", "find_cuda_path", "get_target_compute_version", "have_fp16", "parse_compute_version"]


def compile_cuda(code: Any, target_format: str = "ptx", arch: Any = None, **options: Any) -> NoReturn:
    """Refused: LLVM makes the code of kernels."""
    raise BuildError("there is no compiler of CUDA text here", hint='build for "nvptx": LLVM makes PTX of a kernel')


def find_cuda_path() -> str:
    """The folder of CUDA: what `CUDA_PATH` says, or where `nvcc` is."""
    compiler = NVCC.find()
    found = os.environ.get("CUDA_PATH") or (compiler and os.path.dirname(os.path.dirname(compiler)))
    if not found:
        raise BuildError("Cannot find cuda path", hint="install CUDA, or set CUDA_PATH")
    return found


def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """The two numbers of a compute capability: `(8, 6)` of `"8.6"` and of `"86"`."""
    found = re.fullmatch(r"(\d+)\.(\d+)|(\d+)(\d)", compute_version.removeprefix("sm_"))
    if found is None:
        raise WrongValueError(f"Compute version parsing error: `{compute_version}`", hint='write it as "8.6"')
    major, minor = (group for group in found.groups() if group is not None)
    return int(major), int(minor)


def get_target_compute_version(target: Any = None) -> str:
    """The compute capability that a target names by `-arch=sm_86`: `"8.6"`."""
    from tvmagic.codegen.target import Target

    chosen = Target(target) if target is not None else Target.current()
    if chosen is None or not chosen.arch.startswith("sm_"):
        raise WrongValueError("no compute capability is known", hint="name one: cuda -arch=sm_86")
    return "{}.{}".format(*parse_compute_version(chosen.arch.rstrip("a")))


def have_fp16(compute_version: str) -> bool:
    """Whether a GPU of that compute capability computes in float16."""
    return parse_compute_version(compute_version) >= (5, 3)
