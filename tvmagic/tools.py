"""Optional external tools: programs, Python packages and system libraries that tvmagic can use.

tvmagic works without any of them. A missing tool raises `MissingTool`, which names the command that installs it.
`TVMAGIC_HIDE_TOOLS=qemu,lld` hides tools by their names, `TVMAGIC_HIDE_TOOLS=all` hides every tool: tvmagic then behaves
as on a machine without them.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
from dataclasses import dataclass

from tvmagic.errors import TVMagicError

# Environment variable with the names of hidden tools, separated by commas.
HIDE = "TVMAGIC_HIDE_TOOLS"


class MissingTool(TVMagicError):
    """A tool is not installed, or this machine cannot execute the code."""


@dataclass(frozen=True)
class Tool:
    """An optional tool.

    programs: names of the executable, the preferred one first
    package: importable name of a Python package
    file: file of a system library
    debian, pypi: names of the packages that contain it in Debian and on PyPI
    """

    name: str
    programs: tuple[str, ...] = ()
    package: str = ""
    file: str = ""
    debian: str = ""
    pypi: str = ""

    @property
    def is_hidden(self) -> bool:
        """Whether `TVMAGIC_HIDE_TOOLS` names this tool."""
        hidden = os.environ.get(HIDE, "").split(",")
        return self.name in hidden or "all" in hidden

    def find(self, *programs: str) -> str | None:
        """Return the path of the tool, the name of a package, or None if the tool is not installed.

        programs: names to search instead of all the tool's programs.
        """
        if self.is_hidden:
            return None
        if self.package:
            return self.package if _is_importable(self.package) else None
        if self.file:
            return self.file if pathlib.Path(self.file).exists() else None
        return next(filter(None, map(shutil.which, programs or self.programs)), None)

    def need(self, *programs: str) -> str:
        """Return what `find` returns. Raise MissingTool if the tool is not installed."""
        found = self.find(*programs)
        if found is None:
            raise self.missing(*programs)
        return found

    def missing(self, *programs: str) -> MissingTool:
        """Return the error for a tool that is not installed."""
        if self.package:
            return MissingTool(
                f"the Python package `{self.package}` is not installed", hint=self.hint, code="tool.missing_package"
            )
        if self.file:
            return MissingTool(
                f"the library `{self.file}` is not installed", hint=self.hint, code="tool.missing_library"
            )
        name = (programs or self.programs or (self.name,))[0]
        return MissingTool(f"the program `{name}` is not installed", hint=self.hint, code="tool.missing_program")

    @property
    def hint(self) -> str:
        """The command that installs the tool."""
        return f"run `apt-get install {self.debian}`" if self.debian else f"run `pip install '{self.pypi}'`"


def _is_importable(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of a parent package
        return False


def cross_library(arch: str) -> Tool:
    """Return the C library of Linux on another architecture."""
    name = {"aarch64": "arm64"}.get(arch, arch)
    return Tool(f"libc-{arch}", file=f"/usr/{arch}-linux-gnu/lib/libc.so.6", debian=f"libc6-{name}-cross")


AR = Tool("ar", ("ar",), debian="binutils")
CC = Tool("cc", ("cc", "gcc", "clang"), debian="gcc libc6-dev")
CXX = Tool("c++", ("c++", "g++", "clang++"), debian="g++")
CLANG = Tool("clang", ("clang", *(f"clang-{n}" for n in range(30, 9, -1))), debian="clang")
QEMU = Tool("qemu", ("qemu-aarch64", "qemu-riscv64"), debian="qemu-user")
LLD = Tool("lld", ("ld.lld", *(f"ld.lld-{n}" for n in range(30, 13, -1))), debian="lld")
LLVM_MCA = Tool("llvm-mca", ("llvm-mca", *(f"llvm-mca-{n}" for n in range(30, 13, -1))), debian="llvm")
OSACA = Tool("osaca", package="osaca", pypi="tvmagic[explain]")
WASMTIME = Tool("wasmtime", package="wasmtime", pypi="wasmtime")
PYOPENCL = Tool("pyopencl", package="pyopencl", pypi="tvmagic[targets]")
POCL = Tool("pocl", debian="pocl-opencl-icd")  # or another OpenCL device: only OpenCL can list them
PTXAS = Tool("ptxas", ("ptxas",), pypi="tvmagic[targets]")  # or from a package: `runners.ptx` searches both
NVCC = Tool("nvcc", ("nvcc",), debian="nvidia-cuda-toolkit")
LIGHTGBM = Tool("lightgbm", package="lightgbm", pypi="tvmagic[tune]")
CUDA = Tool("cuda", package="cuda.bindings", pypi="tvmagic[gpu]")
