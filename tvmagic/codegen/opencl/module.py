"""A lowered module in OpenCL C: its text, and what the host does."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvmagic.codegen.abi import ABI, abi_of
from tvmagic.codegen.kernels import Kernel, Step, divided
from tvmagic.codegen.opencl.statements import KernelWriter
from tvmagic.codegen.target import Target
from tvmagic.codegen.work_estimate import Work
from tvmagic.errors import BuildError
from tvmagic.ir import Allocate, Buffer, DataType, IRModule, PrimFunc, Var, post_order_visit
from tvmagic.ir.deep import deep
from tvmagic.runtime.module import Module

__all__ = ["DeviceFunction", "DeviceKernel", "DeviceModule", "opencl_text"]


@dataclass(frozen=True)
class DeviceKernel:
    """A kernel as it is launched: `params` are the variables whose values it takes, `shared` the allocations whose
    bytes it is given after them."""

    kernel: Kernel
    params: tuple[Var, ...]
    shared: tuple[Allocate, ...]


@dataclass(frozen=True)
class DeviceFunction:
    """What the host does for a function, and the kernels that it launches, by name."""

    abi: ABI
    steps: tuple[Step, ...]
    kernels: dict[str, DeviceKernel]
    reach: dict[Var, int]  # the bytes that the buffers over a pointer need


class DeviceModule(Module):
    """A module of kernels for a GPU. Its text is OpenCL C (`cl`) and, for NVIDIA's, PTX (`asm`) and LLVM IR (`ll`).

    `mod` is the lowered module with what threads need (`codegen.with_threads`).
    """

    def __init__(self, mod: IRModule, target: Target) -> None:
        from tvmagic.codegen.build import recently_optimized
        from tvmagic.codegen.module import emit_module
        from tvmagic.codegen.optimize import assembly_of

        refusal = BuildError(
            f"code for `{target}` does not run by itself on this machine",
            hint="`tvmagic.runners.run(built, arrays)` runs its kernels if OpenCL is installed; its text is `get_source()`",
        )
        written = self._written = functools.cache(lambda: deep(_written)(mod))
        made = functools.cache(lambda: emit_module(mod, target).text)
        # LLVM's modules are kept elsewhere: of an object that refers to itself they would go away in any order
        llvm = lambda: recently_optimized(made().text(), target, tuple(made().imports))  # noqa: E731
        sources: dict[str, Callable[[], str]] = {"cl": lambda: written()[0]}
        if target.is_nvptx:
            sources |= {"ll": lambda: str(llvm()), "asm": lambda: assembly_of(llvm(), target)}
        else:
            written()  # what cannot be written is refused now
        abis = [abi_of(str(f.attrs.get("global_symbol", v.name_hint)), f) for v, f in mod.functions.items()]
        super().__init__(b"", abis, [], sources, set(), refusal=refusal, target=target)

    @property
    def on_host(self) -> dict[str, DeviceFunction]:
        """What the host does, by function; `tvmagic.runners` does it."""
        return self._written()[1]

    def get_source(self, fmt: str = "") -> str:
        """The text: OpenCL C, or PTX of a module for NVIDIA's GPUs, by default."""
        return super().get_source(fmt or ("asm" if self.target.is_nvptx else "cl"))

    @property
    def type_key(self) -> str:
        """What kind of module it is."""
        return str(self.target.kind.name)


def _written(mod: IRModule) -> tuple[str, dict[str, DeviceFunction]]:
    helpers: dict[str, str] = {}
    texts: list[str] = []
    functions: dict[str, DeviceFunction] = {}
    for var, func in mod.functions.items():
        abi = abi_of(str(func.attrs.get("global_symbol", var.name_hint)), func)
        if abi.result is not None:
            raise BuildError(f"`{abi.name}` gives a number, which no kernel can")
        kernels, steps = divided(func, abi.symbol)
        made: dict[str, DeviceKernel] = {}
        arguments, types = _arguments(func)
        for kernel in kernels:
            writer = KernelWriter(kernel, helpers, arguments, types)
            texts.append(writer.text())
            made[kernel.name] = DeviceKernel(kernel, tuple(writer.params), tuple(writer.shared))
        functions[abi.name] = DeviceFunction(abi, steps, made, Work(func.body).reach)
    double = (
        "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
        if any("double" in t for t in [*texts, *helpers.values()])
        else ""
    )
    return "\n".join([double, *(f"{h}\n" for h in helpers.values()), *texts]).lstrip("\n"), functions


def _arguments(func: PrimFunc) -> tuple[dict[Var, Buffer], dict[Var, DataType]]:
    """The buffers of the function's arguments, and the types of the elements behind all pointers that are not a kernel's own."""
    buffers = {buffer.data: buffer for buffer in func.buffer_map.values()}
    types = {data: buffer.dtype for data, buffer in buffers.items()}

    def look(node: Any) -> None:
        if isinstance(node, Allocate):
            types[node.buffer_var] = node.dtype

    post_order_visit(func.body, look)
    return buffers, types


def opencl_text(mod: IRModule) -> str:
    """The OpenCL C of a lowered module that has what threads need (`codegen.with_threads`)."""
    return _written(mod)[0]
