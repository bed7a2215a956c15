"""A header that declares the functions of a module for C."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvmagic.runtime.module import Module

_C_TYPES = {
    "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t", "uint8": "uint8_t",
    "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t", "bool": "uint8_t", "float16": "uint16_t",
    "bfloat16": "uint16_t", "float32": "float", "float64": "double", "handle": "void*",
}  # fmt: skip


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
