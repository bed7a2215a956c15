"""Code for NVIDIA's GPUs: `ptxas` takes it and says what each kernel needs. Without a GPU, the same kernels run as OpenCL C."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tvmagic.codegen.gpu.opencl import DeviceModule
from tvmagic.errors import BuildError
from tvmagic.files import TemporaryFolder, write_file
from tvmagic.runners.cuda import gpu
from tvmagic.runners.families import runner
from tvmagic.runners.opencl import run_opencl
from tvmagic.target import Target, cpu_and_features
from tvmagic.tools import PTXAS, MissingTool


@dataclass(frozen=True)
class KernelNeeds:
    """What a kernel needs on a GPU: registers of a thread, bytes that it spills (stored and loaded again), bytes of
    shared memory of a block, bytes of the stack of a thread."""

    name: str
    registers: int
    spilled: int
    shared: int
    stack: int

    def __str__(self) -> str:
        spills = f"{self.spilled} bytes spilled" if self.spilled else "no spills"
        return (
            f"{self.name}: {self.registers} registers a thread, {spills}, {self.shared} bytes of shared memory, "
            f"{self.stack} bytes of stack"
        )


def assemblers() -> Iterator[str]:
    """Yield the paths of installed assemblers: those of Python packages, then the program."""
    if PTXAS.is_hidden:
        return
    packages = pathlib.Path(sysconfig.get_path("purelib")) / "nvidia"
    yield from (str(p) for p in sorted(packages.glob("*/bin/ptxas")))
    found = PTXAS.find()
    if found is not None:
        yield found


def needs_of(text: str, target: Target) -> list[KernelNeeds]:
    """What the kernels of a text in PTX need, by `ptxas`.

    Raises MissingTool if there is none that knows the architecture; BuildError if it refuses the text.
    """
    arch, said = cpu_and_features(target)[1], ""
    for assembler in assemblers():
        done = _assembled(assembler, arch, text)
        said = done.stdout + done.stderr
        if f"Value '{arch}' is not defined" in said:
            continue
        if done.returncode:
            raise BuildError(
                f"ptxas refuses the code for `{arch}`: {said.strip().splitlines()[0]}", code="runner.ptxas_refused"
            )
        return list(_read(said))
    if not said:
        raise PTXAS.missing()
    raise MissingTool(f"no installed `ptxas` knows `{arch}`", hint=PTXAS.hint, code="runner.ptxas_too_old")


def _assembled(assembler: str, arch: str, text: str) -> subprocess.CompletedProcess[str]:
    with TemporaryFolder() as folder:
        source = write_file(folder / "module.ptx", text)
        command = [assembler, "-v", f"-arch={arch}", "-o", f"{folder}/module.cubin", str(source)]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def _read(said: str) -> Iterator[KernelNeeds]:
    for name, part in re.findall(r"Compiling entry function '(\S+)'(.*?)(?=Compiling entry|\Z)", said, re.DOTALL):

        def number(pattern: str, part: str = part) -> int:
            found = re.search(pattern, part)
            return int(found[1]) if found else 0

        spilled = number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads")
        shared = number(r"(\d+) bytes smem")
        yield KernelNeeds(name, number(r"Used (\d+) registers"), spilled, shared, number(r"(\d+) bytes stack frame"))


@runner("nvptx64", "pocl, as OpenCL C of the same kernels, whose PTX ptxas accepts", lambda target: gpu() is None)
def run(built: DeviceModule, arrays: Sequence[Any]) -> None:
    """Have the PTX assembled, and run its kernels as OpenCL C."""
    needs_of(built.get_source("asm"), built.target)
    run_opencl(built, arrays)
