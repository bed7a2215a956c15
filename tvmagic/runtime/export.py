"""Modules as files: object files with a C header, texts, WebAssembly, and libraries for linkers of C."""

from __future__ import annotations

import hashlib
import pathlib
from typing import TYPE_CHECKING, Any

from tvmagic.errors import TVMagicError
from tvmagic.files import TemporaryFolder, write_file, write_files
from tvmagic.runtime.c_header import c_header
from tvmagic.runtime.description import describe, embedded
from tvmagic.runtime.seal import seal_of

if TYPE_CHECKING:
    from tvmagic.runtime.module import Module

_DESCRIPTION = "__tvmagic_module"


def _self_contained(module: Module) -> bytes:
    """The object file of a module with its description, and with what LLVM may call, inside."""
    if module.recompiled is None:
        raise TVMagicError(
            "a module that was loaded has no code for linkers",
            hint="build it again, or copy the file that it is from",
            code="export.loaded_module",
        )
    text = embedded(module)
    body = "".join(f"\\{byte:02X}" for byte in text)
    symbol = f"{_DESCRIPTION}_{hashlib.sha256(text).hexdigest()[:16]}"  # several modules may be linked to one library
    return module.recompiled(f'@{symbol} = constant [{len(text)} x i8] c"{body}"\n')


def export_library(module: Module, file_name: Any, fcompile: Any = None, **options: Any) -> None:
    """Write a module for linkers of C and for `load_module`: a shared library, or by its ending an object file (`.o`) or an
    archive of object files (`.a`, `.tar`).

    fcompile: what makes a library of object files, as `contrib.cc.create_shared` does (the default); options: its own,
    such as `cc`, the C compiler.
    """
    from tvmagic.runtime import cc
    from tvmagic.runtime.jit import builtins_code
    from tvmagic.runtime.tar import tar

    path, code = pathlib.Path(file_name), _self_contained(module)
    if path.suffix == ".o":
        write_file(path, code + seal_of(code))
        return
    with TemporaryFolder() as folder:
        parts = [folder / name for name in ("module.o", "builtins.o")]
        for part, content in zip(parts, (code, builtins_code())):
            write_file(part, content + seal_of(content))
        makers = {".a": cc.create_staticlib, ".tar": tar}
        make = fcompile or makers.get(path.suffix, cc.create_shared)
        make(str(path), [str(part) for part in parts], **options)


def save_module(module: Module, file_name: Any, fmt: str = "") -> None:
    """Save a module as an object file `x.o`, with `x.h` for C and `x.json` for `load_module`.

    With the ending `.ll` or `.s` (or that `fmt`) only the text is written; with `.wasm` a module for WebAssembly that a
    host can run, with the imports of `wasm.WasmModule`.
    """
    path = pathlib.Path(file_name)
    kind = fmt or path.suffix.lstrip(".")
    if kind in ("ll", "s", "asm"):
        write_file(path, module.get_source("ll" if kind == "ll" else "asm"))
    elif kind in ("o", "obj"):
        code = module.code if module.recompiled is None else _self_contained(module)
        description, header = path.with_suffix(".json"), path.with_suffix(".h")
        contents = {description: describe(module), header: c_header(module, path.stem), path: code + seal_of(code)}
        write_files(contents, make_folder=True)
    elif kind == "wasm":
        from tvmagic.runtime.wasm_host import linked

        write_file(path, linked(module).code)
    else:
        raise TVMagicError(
            f"a module cannot be saved as `{kind}`",
            hint="use the endings .o, .ll, .s or .wasm",
            code="export.unknown_format",
        )
