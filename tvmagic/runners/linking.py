"""Object files linked into programs and shared libraries for Linux on other machines, with their own C library."""

from __future__ import annotations

import itertools
import pathlib
import re
import subprocess
import weakref
from collections.abc import Sequence
from functools import cache, lru_cache

from tvmagic.codegen.emit.abi import ABI, machine_type
from tvmagic.codegen.emit.module import quoted
from tvmagic.codegen.llvm.optimize import object_of_text
from tvmagic.errors import BuildError
from tvmagic.files import TemporaryFolder, write_file
from tvmagic.runtime.module import Module
from tvmagic.runtime.support_code import read_ll
from tvmagic.target import Target
from tvmagic.tools import LLD, cross_library

CALLER = "__tvmagic_call_"  # the beginning of the names of functions that take their arguments from memory
_LOADERS = {"aarch64": "/lib/ld-linux-aarch64.so.1", "riscv64": "/lib/ld-linux-riscv64-lp64d.so.1"}
# What was linked of each module.
_LIBRARIES: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
_numbers = itertools.count()


@cache
def _folder() -> pathlib.Path:
    """A folder for what is linked; it goes away with this process."""
    folder = TemporaryFolder()
    weakref.finalize(_folder, folder.cleanup)
    return folder.path


def server_program(arch: str) -> str:
    """The path of the program of `ll/server.ll` for an architecture."""
    libc, path = cross_library(arch).need(), _folder() / f"server-{arch}"
    if not path.exists():
        target = Target(f"llvm -mtriple={arch}-linux-gnu" + (" -mattr=+d" if arch == "riscv64" else ""))
        text = (pathlib.Path(__file__).parent / "ll" / "server.ll").read_text(encoding="utf-8")
        _link(
            arch,
            path,
            [object_of_text(text, target)],
            ["-pie", "-dynamic-linker", _LOADERS[arch], libc],
        )
    return str(path)


def linked_library(built: Module, arch: str) -> str:
    """The path of a shared library with the code of a module, and with a function for each of its functions, in their
    order, that takes their arguments from memory, 8 bytes each."""
    if built in _LIBRARIES:
        return _LIBRARIES[built]
    libc = pathlib.Path(cross_library(arch).need())
    path = _folder() / f"{next(_numbers)}.so"
    callers = "".join(_caller(n, abi) for n, abi in enumerate(built.abis))
    objects = [built.code, object_of_text(callers, built.target), _builtins(built.target)]
    _link(arch, path, objects, ["-shared", "-z", "defs", str(libc.with_name("libm.so.6")), str(libc)])
    _LIBRARIES[built] = str(path)
    weakref.finalize(built, path.unlink, missing_ok=True)
    return str(path)


def _caller(number: int, abi: ABI) -> str:
    types = [machine_type(p.dtype) for p in abi.params] + [machine_type(v.dtype) for v in abi.sizes]
    types += ["ptr"] if abi.result is not None else []
    lines = [f"define i32 @{CALLER}{number}(ptr %slots) {{"]
    for n, kind in enumerate(types):
        lines += [f"  %p{n} = getelementptr i64, ptr %slots, i64 {n}", f"  %v{n} = load {kind}, ptr %p{n}, align 8"]
    values = ", ".join(f"{kind} %v{n}" for n, kind in enumerate(types))
    lines += [f"  %r = call i32 @{quoted(abi.symbol)}({values})", "  ret i32 %r", "}"]
    return f"declare i32 @{quoted(abi.symbol)}({', '.join(types)})\n" + "\n".join(lines) + "\n"


@lru_cache(maxsize=8)
def _builtins(target: Target) -> bytes:
    """What LLVM calls if the machine has no instruction."""
    return object_of_text(read_ll("builtins"), target)


def _link(arch: str, path: pathlib.Path, objects: Sequence[bytes], options: Sequence[str]) -> None:
    linker = LLD.need(*LLD.programs, f"{arch}-linux-gnu-ld")
    with TemporaryFolder() as folder:
        names: list[str] = []
        for number, code in enumerate(objects):
            names.append(f"{folder}/{number}.o")
            write_file(names[-1], code)
        done = subprocess.run([linker, "-o", str(path), *names, *options], capture_output=True, text=True, check=False)
    if done.returncode:
        missing = sorted(set(re.findall(r"undefined symbol: (\S+)", done.stderr)))
        if missing:
            raise BuildError(
                f"the module calls {', '.join(f'`{m}`' for m in missing)}, which its machine's libraries do not have",
                hint="a RISC-V target without `+m` has no instruction for products" if arch == "riscv64" else None,
                code="runner.missing_functions",
            )
        raise BuildError(
            f"the code for `{arch}` cannot be linked: {(done.stderr.strip().splitlines() or ['?'])[0]}",
            code="runner.link_failed",
        )
