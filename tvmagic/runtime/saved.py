"""Saved modules: an object file, how its functions are called, and a C header for them."""

from __future__ import annotations

import ctypes
import hashlib
import json
import pathlib
import re
import shutil
import tempfile
from dataclasses import dataclass
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import Evaluate, IRModule, PrimFunc, PrimType, load_json, save_json
from tvmagic.runtime.abi import ABI, Param, Site
from tvmagic.runtime.module import Module

__all__ = ["c_header", "export_library", "load_module", "read_saved", "save_module", "write_saved"]

_FORMAT = 2
_C_TYPES = {
    "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t", "uint8": "uint8_t",
    "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t", "bool": "uint8_t", "float16": "uint16_t",
    "bfloat16": "uint16_t", "float32": "float", "float64": "double", "handle": "void*",
}  # fmt: skip


@dataclass(frozen=True)
class _Named:
    name: str


def _signature(abi: Any) -> PrimFunc:
    """A function without a body that has the parameters of `abi`."""
    params = [p.var for p in abi.params] + list(abi.sizes)
    buffers = {p.var: p.buffer for p in abi.params if p.buffer is not None}
    result = PrimType(abi.result) if abi.result is not None else None
    return PrimFunc(params, Evaluate(0), result, buffers, {"global_symbol": abi.name, "tir.noalias": abi.noalias})


def describe(module: Module) -> str:
    """What is to be known of a module besides its object file, as JSON."""
    functions = []
    for abi in module.abis:
        written = [i for i, p in enumerate(abi.params) if p.buffer is not None and p.buffer.data in abi.written]
        functions.append({"name": abi.name, "symbol": abi.symbol, "sizes": len(abi.sizes), "written": written})
    sites = [
        {
            "kind": s.kind, "message": s.message, "function": s.function, "line": s.line, "values": list(s.values),
            "buffer": getattr(s.buffer, "name", ""), "store": s.is_store,
        }
        for s in module.sites
    ]  # fmt: skip
    signatures = save_json(IRModule({a.name: _signature(a) for a in module.abis}))
    content = {"format": _FORMAT, "functions": functions, "sites": sites, "symbols": sorted(module.symbols)}
    return json.dumps({**content, "signatures": signatures})


def _read(text: str) -> tuple[list[ABI], list[Site], set[str]]:
    content = json.loads(text)
    if content.get("format") != _FORMAT:
        raise TVMagicError("the saved module is of another version of its format", hint="save it again")
    signatures = load_json(content["signatures"])
    abis = []
    for entry in content["functions"]:
        func = signatures[entry["name"]]
        count = len(func.params) - entry["sizes"]
        params = tuple([Param(v, v.dtype, func.buffer_map.get(v)) for v in func.params[:count]])
        written = frozenset([params[i].buffer.data for i in entry["written"] if params[i].buffer is not None])  # type: ignore[union-attr]
        result = func.ret_type.dtype if isinstance(func.ret_type, PrimType) else None
        noalias = bool(func.attrs.get("tir.noalias", False))
        abis.append(ABI(entry["name"], entry["symbol"], params, tuple(func.params[count:]), written, result, noalias))
    sites = [
        Site(
            s["kind"], None, s["message"], _Named(s["buffer"]), s["function"], tuple(s["values"]), s["line"], s["store"]
        )
        for s in content["sites"]
    ]  # fmt: skip
    return abis, sites, set(content["symbols"])


def write_saved(module: Module, path: pathlib.Path) -> None:
    """Write `path` (the object file) and, beside it, `.json`, what is to be known to call it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for target, content in ((path.with_suffix(".json"), describe(module).encode()), (path, module.code)):
        part = target.with_name(target.name + ".part")  # never half a file under the final name
        part.write_bytes(content)
        part.replace(target)


def read_saved(path: pathlib.Path) -> Module:
    """The module whose object file is `path`; how it is called is told beside it, or inside."""
    beside, code = path.with_suffix(".json"), path.read_bytes()
    texts = [beside.read_text(encoding="utf-8")] if beside.exists() else _descriptions_in(code)
    if not texts:
        raise TVMagicError(f"`{path}` is no object file of tvmagic", hint="save a module with `module.save`")
    abis, sites, symbols = _read(texts[0])
    return Module(code, abis, sites, {}, symbols)


# ---------------------------------------------------------------------------- libraries

_DESCRIPTION = "__tvmagic_module"
_BEGIN, _END = "<tvmagic module>", "</tvmagic module>"


def _self_contained(module: Module) -> bytes:
    """The object file of a module with its description, and with what LLVM may call, inside."""
    if module.recompiled is None:
        raise TVMagicError(
            "a module that was loaded has no code for linkers", hint="build it again, or copy the file that it is from"
        )
    text = f"{_BEGIN}{describe(module)}{_END}".encode() + b"\0"
    body = "".join(f"\\{byte:02X}" for byte in text)
    symbol = f"{_DESCRIPTION}_{hashlib.sha256(text).hexdigest()[:16]}"  # several modules may be linked to one library
    return module.recompiled(f'@{symbol} = constant [{len(text)} x i8] c"{body}"\n')


def _descriptions_in(data: bytes) -> list[str]:
    """The descriptions of the modules in an object file or a library."""
    pattern = re.escape(_BEGIN).encode() + b"([^\0]*?)" + re.escape(_END).encode()
    return [found.decode() for found in re.findall(pattern, data)]


def export_library(module: Module, file_name: Any, fcompile: Any = None, **options: Any) -> None:
    """Write a module for linkers of C and for `load_module`: a shared library, or by its ending an object file (`.o`) or an
    archive of object files (`.a`, `.tar`).

    fcompile: what makes a library of object files, as `contrib.cc.create_shared` does (the default); options: its own,
    such as `cc`, the C compiler.
    """
    from tvmagic.contrib import cc
    from tvmagic.contrib.tar import tar
    from tvmagic.runtime.jit import builtins_code

    path, code = pathlib.Path(file_name), _self_contained(module)
    if path.suffix == ".o":
        path.write_bytes(code)
        return
    with tempfile.TemporaryDirectory() as folder:
        parts = [pathlib.Path(folder) / name for name in ("module.o", "builtins.o")]
        for part, content in zip(parts, (code, builtins_code())):
            part.write_bytes(content)
        makers = {".a": cc.create_staticlib, ".tar": tar}
        make = fcompile or makers.get(path.suffix, cc.create_shared)
        make(str(path), [str(part) for part in parts], **options)


class _Library:
    """A shared library in this process: a copy of the file, which may be written again meanwhile."""

    def __init__(self, path: pathlib.Path) -> None:
        # Windows does not delete a library that is loaded
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            copy = pathlib.Path(folder) / path.name
            shutil.copyfile(path, copy)
            try:
                self._library = ctypes.CDLL(str(copy))
            except OSError as error:
                raise TVMagicError(f"`{path}` cannot be loaded: {error}") from error

    def address(self, name: str) -> int:
        """The address of a symbol."""
        try:
            symbol = getattr(self._library, name)
        except AttributeError:
            raise TVMagicError(f"the library has no function `{name}`") from None
        return ctypes.cast(symbol, ctypes.c_void_p).value or 0


def _load_library(path: pathlib.Path) -> Module:
    texts = _descriptions_in(path.read_bytes())
    if not texts:
        raise TVMagicError(
            f"`{path}` is no library of tvmagic",
            hint="export it with `module.export_library`, or link what `save` wrote",
        )
    library = _Library(path)
    parts = [Module(b"", *_read(text)[:2], {}, _read(text)[2], loaded=library) for text in texts]
    if len(parts) == 1:
        return parts[0]
    whole = Module(b"", [a for p in parts for a in p.abis], [], {}, set(), loaded=library)
    whole.functions = {name: kernel for p in parts for name, kernel in p.functions.items()}
    return whole


def this_cpu() -> str:
    """The CPU that code of this process is made for."""
    from llvmlite import binding

    return f"{binding.get_process_triple()} {binding.get_host_cpu_name()}"


def unpickled(code: bytes, description: str, cpu: str) -> Module:
    """The module that a pickle holds. Raises TVMagicError if it was made for another CPU."""
    if cpu != this_cpu():
        raise TVMagicError(
            f"the pickled module was compiled for `{cpu}`, this machine is `{this_cpu()}`",
            hint="pickle the operator or the lowered IRModule, and build it here",
        )
    abis, sites, symbols = _read(description)
    return Module(code, abis, sites, {}, symbols)


def save_module(module: Module, file_name: Any, fmt: str = "") -> None:
    """Save a module as an object file `x.o`, with `x.h` for C and `x.json` for `load_module`.

    With the ending `.ll` or `.s` (or that `fmt`) only the text is written; with `.wasm` a module for WebAssembly that a
    host can run, with the imports of `wasm.WasmModule`.
    """
    path = pathlib.Path(file_name)
    kind = fmt or path.suffix.lstrip(".")
    if kind in ("ll", "s", "asm"):
        path.write_text(module.get_source("ll" if kind == "ll" else "asm"), encoding="utf-8")
    elif kind in ("o", "obj"):
        write_saved(module, path)
        if module.recompiled is not None:
            path.write_bytes(_self_contained(module))
        path.with_suffix(".h").write_text(c_header(module, path.stem), encoding="utf-8")
    elif kind == "wasm":
        from tvmagic.runtime.wasm_host import linked

        path.write_bytes(linked(module).code)
    else:
        raise TVMagicError(f"a module cannot be saved as `{kind}`", hint="use the endings .o, .ll, .s or .wasm")


def load_module(path: Any, fmt: str = "") -> Module:
    """The module saved as an object file, or exported or linked as a shared library, at `path`.

    An archive (`.tar`, `.a`) is linked by the C compiler first.
    """
    path = pathlib.Path(path)
    if not path.exists():
        raise TVMagicError(f"there is no file `{path}`", hint="save a module with `module.save` or `export_library`")
    if path.suffix in (".tar", ".a"):
        return _load_archive(path)
    return read_saved(path) if path.suffix in (".o", ".obj") else _load_library(path)


def _load_archive(path: pathlib.Path) -> Module:
    """The module of an archive of object files."""
    from tvmagic.contrib import cc
    from tvmagic.contrib.tar import untar

    with tempfile.TemporaryDirectory() as folder:
        library = pathlib.Path(folder) / f"{path.stem}.so"
        if path.suffix == ".a":
            cc.create_shared(str(library), ["-Wl,--whole-archive", str(path), "-Wl,--no-whole-archive"])
        else:
            untar(path, pathlib.Path(folder) / "parts")
            cc.create_shared(str(library), [str(part) for part in sorted((pathlib.Path(folder) / "parts").iterdir())])
        return _load_library(library)


def c_header(module: Module, name: str) -> str:
    """The declarations of a module's functions for C."""
    guard = "".join(c if c.isalnum() else "_" for c in name).upper() + "_H"
    lines = [
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stdint.h>",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
    ]
    for abi in module.abis:
        lines += ["", *_declaration(abi)]
    lines += ["", "#ifdef __cplusplus", "}", "#endif", "", "#endif"]
    return "\n".join(lines) + "\n"


_C_WORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while".split()
)


def _c_names(names: list[str]) -> list[str]:
    """Names that C takes, each another one."""
    result: list[str] = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
        if not plain or plain[0].isdigit() or plain in _C_WORDS:
            plain = f"{plain}_" if plain in _C_WORDS else f"_{plain}"
        while plain in result:
            plain += "_"
        result.append(plain)
    return result


def _declaration(abi: Any) -> list[str]:
    about, params = [], []
    given = [p.var.name if p.buffer is None else p.buffer.name for p in abi.params]
    names = _c_names([*given, *[v.name for v in abi.sizes], "result"])
    for name, param in zip(names, abi.params):
        if param.buffer is None:
            params.append(f"{_C_TYPES[param.dtype]} {name}")
            continue
        buffer, written = param.buffer, param.buffer.data in abi.written
        shape = " x ".join(str(s) for s in buffer.shape) or "one"
        about.append(f" * {name}: {'written' if written else 'read'}, {shape} elements, dense and row-major,"
                     if not buffer.strides else f" * {name}: {shape} elements with strides,")  # fmt: skip
        about.append(
            f" *   aligned to {buffer.dtype.element_of.bytes} bytes"
            + (", apart from all others" if abi.noalias and written else "")
        )
        params.append(f"{'' if written else 'const '}{_C_TYPES[buffer.dtype.element_of]}* {name}")
    params += [f"{_C_TYPES[v.dtype]} {n}" for n, v in zip(names[len(abi.params) :], abi.sizes)]
    if abi.result is not None:
        params.append(f"{_C_TYPES[abi.result]}* {names[-1]}")
    return [f"/* {abi.name}: 0 where it ran to its end.", *about, " */", f"int32_t {abi.symbol}({', '.join(params)});"]
