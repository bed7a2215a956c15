"""The machine that this process runs on: its triple, processor and features.

LLVM is asked. If there is none, as in Pyodide, schedules are made for what Python says of the machine.
"""

from __future__ import annotations

import functools
import importlib
import platform
import sys

from tvmagic.errors import BuildError
from tvmagic.interrupts import deferring_interrupts
from tvmagic.target.families import family_naming

_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}  # Python's names on Windows and macOS
_SYSTEMS = {"darwin": "apple-darwin", "win32": "pc-windows-msvc", "emscripten": "unknown-emscripten"}


@functools.cache
def has_llvm() -> bool:
    """Whether there is LLVM, without which programs can be scheduled and lowered, and no code can be made."""
    try:
        importlib.import_module("llvmlite.binding")
    except ImportError:
        return False
    return True


def require_llvm() -> None:
    """Raises BuildError if there is no LLVM."""
    if not has_llvm():
        raise BuildError(
            "this Python has no LLVM (the package `llvmlite`), so no machine code can be made",
            hint="programs are scheduled and lowered without it; code for a browser is made beforehand: notebook.page(op, file)",
            code="target.no_llvm",
        )


def llvm_version() -> tuple[int, ...]:
    """The version of LLVM."""
    import llvmlite.binding as llvm

    return tuple(llvm.llvm_version_info)


@functools.cache
def host_triple(processor: str = "") -> str:
    """The triple of this process, such as `x86_64-unknown-linux-gnu`.

    Without LLVM, which runs nothing, it is that of the architecture that has the processor, if one is named.
    """
    if not has_llvm():
        named = family_naming(processor)
        if named is not None:
            return f"{named.triples.split('|')[0]}-unknown-linux-gnu"
        machine = platform.machine().lower()
        return f"{_ARCHITECTURES.get(machine, machine)}-{_SYSTEMS.get(sys.platform, 'unknown-linux-gnu')}"
    import llvmlite.binding as llvm

    return llvm.get_process_triple()


@functools.cache
@deferring_interrupts
def host_cpu() -> tuple[str, str]:
    """The name and the features of this machine's processor, which LLVM takes a millisecond to find.

    Without LLVM neither is known, but that every browser has WebAssembly's vectors.
    """
    if not has_llvm():
        return "", "+simd128" if host_triple().startswith("wasm") else ""
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@functools.cache
@deferring_interrupts
def host_features() -> dict[str, bool]:
    """For each feature that LLVM knows of this machine's architecture whether its processor has it."""
    import llvmlite.binding as llvm

    return dict(llvm.get_host_cpu_features())
