"""A lowered module in OpenCL C: its text, and what the host does."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvmagic import ir
from tvmagic.codegen.emit.abi import ABI, abi_of
from tvmagic.codegen.emit.debug import Lines
from tvmagic.codegen.gpu.opencl.statements import MARK, KernelWriter
from tvmagic.codegen.late.kernels import Kernel, Step, divided, is_one_kernel
from tvmagic.codegen.late.work_estimate import Work
from tvmagic.errors import BuildError
from tvmagic.ir.deep_recursion import deep
from tvmagic.runtime.module import Module
from tvmagic.target import Target


@dataclass(frozen=True)
class DeviceKernel:
    """A kernel as it is launched: its name in the text, the variables whose values it takes, and the allocations whose
    bytes it is given after them."""

    entry: str
    params: tuple[ir.Var, ...]
    shared: tuple[ir.Allocate, ...] = ()


@dataclass(frozen=True)
class DeviceFunction:
    """What the host does for a function, and the kernels that it launches."""

    func: ir.PrimFunc
    abi: ABI
    kernels: tuple[Kernel, ...]
    steps: tuple[Step, ...]
    reach: dict[ir.Var, int]  # the bytes that the buffers over a pointer need


class DeviceModule(Module):
    """A module of kernels for a GPU. Its text is OpenCL C (`cl`) and, for NVIDIA's, PTX (`asm`) and LLVM IR (`ll`).

    `mod` is the lowered module with what threads need (`codegen.with_threads`). `on_host` is what the host does, by
    function; `launched(fmt)` are the kernels of a text by name. `tvmagic.runners` does the one with the other.
    """

    def __init__(self, mod: ir.IRModule, target: Target, last: ir.IRModule | None = None) -> None:
        """`mod` has the functions that the host runs, `last` their kernels after the late passes; by default the same."""
        from tvmagic.codegen.emit.module import emit_module
        from tvmagic.codegen.llvm.build import recently_optimized
        from tvmagic.codegen.llvm.optimize import assembly_of

        tool = " on an NVIDIA GPU, or if OpenCL is installed" if target.is_nvptx else " if OpenCL is installed"
        refusal = BuildError(
            f"code for `{target}` does not run by itself on this machine",
            hint=f"`tvmagic.runners.run(built, arrays)` runs its kernels{tool}; its text is `get_source()`",
            code="codegen.opencl.other_machine",
        )
        self.on_host = _functions(mod)
        written = functools.cache(lambda: deep(_written)(self.on_host))
        made = functools.cache(lambda: emit_module(mod if last is None else last, target))
        # LLVM's modules are kept elsewhere: of an object that refers to itself they would go away in any order
        llvm = lambda: recently_optimized(made().text.text(), target, tuple(made().text.imports))  # noqa: E731
        sources: dict[str, Callable[[], str]] = {"cl": lambda: written()[0]}
        self._launched: dict[str, Callable[[], dict[str, DeviceKernel]]] = {"cl": lambda: written()[1]}
        if target.is_nvptx:
            sources |= {"ll": lambda: str(llvm()), "asm": lambda: assembly_of(llvm(), target)}
            self._launched["asm"] = lambda: _entries(self.on_host, {abi.name: abi for abi in made().abis.values()})
        else:
            written()  # what cannot be written is refused now
        super().__init__(
            b"", [f.abi for f in self.on_host.values()], [], sources, set(), refusal=refusal, target=target
        )

    def launched(self, fmt: str) -> dict[str, DeviceKernel]:
        """How the kernels of the text `fmt` (`cl` or `asm`) are launched, by their names in `on_host`."""
        return self._launched[fmt]()

    def get_source(self, fmt: str = "") -> str:
        """The text: OpenCL C, or PTX of a module for NVIDIA's GPUs, by default."""
        return super().get_source(fmt or ("asm" if self.target.is_nvptx else "cl"))

    @property
    def type_key(self) -> str:
        """What kind of module it is."""
        return str(self.target.kind.name)

    @property
    def imported_modules(self) -> list[Any]:
        """The code of its kernels, as one module: programs written for TVM print `imported_modules[0].get_source()`."""
        return [KernelCode(self)]


@dataclass(frozen=True)
class KernelCode:
    """The code of a device module's kernels."""

    module: DeviceModule

    @property
    def type_key(self) -> str:
        """What kind of module it is."""
        return self.module.type_key

    def get_source(self, fmt: str = "") -> str:
        """The text of the kernels: PTX for NVIDIA's GPUs, OpenCL C for others. Raises BuildError for `cu`, CUDA C."""
        if fmt in ("cu", "cuda"):
            raise BuildError(
                "cannot write CUDA C: tvmagic has no CUDA printer",
                hint="`get_source('ptx')` is PTX, `get_source('cl')` OpenCL C",
                code="codegen.no_cuda_printer",
            )
        if self.module.target.is_nvptx and fmt in ("", "ptx"):
            return "// PTX by LLVM, not CUDA C: tvmagic has no CUDA printer\n" + self.module.get_source("asm")
        return self.module.get_source(fmt)

    inspect_source = get_source


@deep
def _functions(mod: ir.IRModule) -> dict[str, DeviceFunction]:
    made: dict[str, DeviceFunction] = {}
    for var, func in mod.functions.items():
        abi = abi_of(str(func.attrs.get("global_symbol", var.name_hint)), func)
        if abi.result is not None:
            raise BuildError(
                f"`{abi.name}` gives a number, which no kernel can", code="codegen.opencl.function_returns_number"
            )
        kernels, steps = divided(func, abi.symbol)
        made[abi.name] = DeviceFunction(func, abi, tuple(kernels), steps, Work(func.body).reach)
    return made


def _written(
    functions: dict[str, DeviceFunction], line_of: Callable[[Any], int] = lambda stmt: 0
) -> tuple[str, dict[str, DeviceKernel]]:
    """Return the OpenCL C of functions, its lines marked with lines of the program by `line_of`, and its kernels."""
    helpers: dict[str, str] = {}
    texts: list[str] = []
    made: dict[str, DeviceKernel] = {}
    for function in functions.values():
        arguments, types = _arguments(function.func)
        for kernel in function.kernels:
            writer = KernelWriter(kernel, helpers, arguments, types, line_of)
            texts.append(writer.text())
            made[kernel.name] = DeviceKernel(kernel.name, tuple(writer.params), tuple(writer.shared))
    double = (
        "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
        if any("double" in t for t in [*texts, *helpers.values()])
        else ""
    )
    return "\n".join([double, *(f"{h}\n" for h in helpers.values()), *texts]).lstrip("\n"), made


def _entries(functions: dict[str, DeviceFunction], abis: dict[str, ABI]) -> dict[str, DeviceKernel]:
    """The kernels of functions as entries of PTX, which LLVM makes of functions with `abis`."""
    made: dict[str, DeviceKernel] = {}
    for function in functions.values():
        for kernel in function.kernels:
            abi = abis[function.abi.name if is_one_kernel(function.steps) else kernel.name]
            made[kernel.name] = DeviceKernel(abi.symbol, (*(p.var for p in abi.params), *abi.sizes))
    return made


def _arguments(func: ir.PrimFunc) -> tuple[dict[ir.Var, ir.Buffer], dict[ir.Var, ir.DataType]]:
    """The buffers of the function's arguments, and the types of the elements behind all pointers that are not a kernel's own."""
    buffers = {buffer.data: buffer for buffer in func.buffer_map.values()}
    types = {data: buffer.dtype for data, buffer in buffers.items()}

    def look(node: Any) -> None:
        if isinstance(node, ir.Allocate):
            types[node.buffer_var] = node.dtype

    ir.post_order_visit(func.body, look)
    return buffers, types


class OpenCLText(str):
    """OpenCL C that knows the program it was made of.

    `line_of[i]` is the line of `source` (from 1) that line i comes from, or 0.
    """

    language = "opencl"
    source: str
    line_of: tuple[int, ...]


def opencl_text(mod: ir.IRModule) -> OpenCLText:
    """Return the OpenCL C of a module that comes from `codegen.last_program`."""
    lines = Lines(mod)
    rows = [row.partition(MARK) for row in _written(_functions(mod), lines.line_of)[0].split("\n")]
    text = OpenCLText("\n".join([row for row, _, _ in rows]))
    text.source, text.line_of = lines.text, tuple([int(number or 0) for _, _, number in rows])
    return text
